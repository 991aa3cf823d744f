"""Private means of other libraries, each in its own environment and process.

- worker.py runs inside a library's environment and imports nothing of dpbench; process.py starts
  the worker and sends requests. ``python -m dpbench libraries [NAME ...]`` creates the
  environments.
- recorder.py also runs inside the environment: it records the inputs of all mechanisms that a query
  of the library calls.
- mean.py is the estimator ``library_mean``, for any sweep.
- expected.py computes the expected error of a library's mean, and a lower bound for every private
  mean.
"""
