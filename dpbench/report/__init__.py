"""What a reader sees of a run: figures, the scoreboard, the page."""

# the figures enter the registry
from dpbench.report import error_figures, parameter_figures, sample_figures  # noqa: F401
