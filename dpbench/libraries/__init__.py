"""Other libraries' private means, each in its own environment and process.

- `worker.py` runs inside a library's environment and needs nothing of dpbench; `process.py` talks
  to it. ``python -m dpbench libraries [NAME ...]`` makes the environments.
- `mean.py` is the estimator ``library_mean``, for any sweep; `expected.py` what is known of its
  error, and what no private mean can beat.
- `run.py` is ``sweep=libraries``; `hostile.py` the columns that nobody expects; `report.py` its
  tables and its figure.
"""
