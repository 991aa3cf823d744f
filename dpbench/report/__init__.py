"""Present a run to readers: figures, LaTeX, and an HTML page with its sections."""

# Imported because they register their kinds of figures and tables.
from dpbench.report import (  # noqa: F401
    decomposition,
    error_figures,
    error_table,
    fitted_figures,
    heat_map,
    parameter_figures,
    profiles,
    rank_map,
)
