"""What a reader sees of a run: figures, LaTeX, and the page with its sections."""

# They enter the registry.
from dpbench.report import (  # noqa: F401
    decomposition,
    error_figures,
    fitted_figures,
    heat_map,
    profiles,
)
