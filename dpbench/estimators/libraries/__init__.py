"""Private means of other libraries, each in its own environment and process.

- worker.py runs inside a library's environment and imports nothing of dpbench; process.py talks to
  the worker. ``python -m dpbench libraries [NAME ...]`` creates the environments.
- recorder.py runs there, too: it records the inputs of the mechanisms of a query.
- mean.py is the estimator ``library_mean``, for any sweep.
- expected.py computes its expected error, and a lower bound for every private mean.
"""
