"""What a reader sees of a run: figures, the scoreboard, the page."""

from dpbench.report import error_figures, fitted_figures  # noqa: F401 (they enter the registry)
