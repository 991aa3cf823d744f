"""Regression tests of accuracy: errors of a sweep against a stored baseline.

- `compare` (comparison.py) compares two tables of errors and needs no sweep.
- baseline.py stores a table of errors with its origin (source, versions and machine), and reads
  errors of a finished run.
- check.py is ``track=check`` and ``track=update``; report.py writes their output.
- changes.py finds commits at which the errors of a row change; history_figure.py draws them.
- power.py computes the share of rows in which a comparison would detect a loss of accuracy.
"""

from typing import TYPE_CHECKING

from dpbench.package import lazy_names

if TYPE_CHECKING:
    from dpbench.tracking.comparison import compare

__all__ = ["compare"]
__dir__ = __all__.copy  # what completion shows; helpers and submodules are no API
__getattr__ = lazy_names(__name__, {"dpbench.tracking.comparison": ["compare"]})
