"""Comparison of private means of other libraries: errors, times, hostile columns, audit, replays.

- sweep.py: configuration of the sweep kind ``libraries``, which `dpbench.libraries.job` runs.
- measure.py: errors and times of releases of fixed columns of records.
- hostile_columns.py: adversarial columns (NaN, inf, empty, ...).
- replay.py: compares the inputs of a library's mechanisms on neighbouring datasets. Each mechanism
  reuses its release on the first dataset.
- report.py: tables and figures.

The estimator ``library_mean`` and the processes of the libraries are in
`dpbench.libraries.means`.
"""

from typing import TYPE_CHECKING

from dpbench.package import lazy_names

if TYPE_CHECKING:
    from dpbench.libraries.means.mean import LibraryMean, LibraryVariance

__all__ = ["LibraryMean", "LibraryVariance"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
__getattr__ = lazy_names(
    __name__, {"dpbench.libraries.means.mean": ["LibraryMean", "LibraryVariance"]}
)
