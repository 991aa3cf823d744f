"""Regression tests of accuracy: errors of a sweep against a stored baseline.

- `compare` (comparison.py) compares two tables of errors and needs no sweep.
- baseline.py stores a table of errors with its origin, and reads errors of a finished run.
- check.py is ``track=check`` and ``track=update``; report.py writes their output.
- changes.py finds where the errors of a row change over commits; history_figure.py draws them.
- power.py computes how large a loss a comparison would detect.
"""

from dpbench.tracking.comparison import compare

__all__ = ["compare"]
