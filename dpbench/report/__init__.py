"""Present a run to readers: figures, LaTeX, and an HTML page with its sections."""

# Imported because they register their kinds of figures.
from dpbench.report import (  # noqa: F401
    decomposition,
    error_figures,
    fitted_figures,
    heat_map,
    parameter_figures,
    profiles,
)
