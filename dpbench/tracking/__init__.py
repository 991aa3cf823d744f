"""Errors against a stored baseline of them, which show an estimator that has become worse.

- `compare` (comparison.py) judges two tables of errors, and needs no sweep.
- baseline.py stores a table with where it comes from, and reads one off a finished run.
- check.py is ``track=check`` and ``track=update``; report.py is what they print.
- changes.py finds where the errors of a row change over commits; history_figure.py draws them.
"""

from dpbench.tracking.comparison import compare

__all__ = ["compare"]
