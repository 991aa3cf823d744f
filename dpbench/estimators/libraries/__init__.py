"""Other libraries' private means, each in an environment and a process of its own.

- worker.py runs inside a library's environment and needs nothing of dpbench; process.py talks to
  the worker. ``python -m dpbench libraries [NAME ...]`` makes the environments.
- recorder.py runs there, too: it records what the mechanisms of a query are given.
- mean.py is the estimator ``library_mean``, for any sweep.
- expected.py has its expected error, and the error that no private mean can beat.
"""
