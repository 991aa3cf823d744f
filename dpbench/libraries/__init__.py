"""Comparison of private means of other libraries: errors, times, hostile columns, audit, replays.

- sweep.py: configuration of ``sweep=libraries``; the job is `dpbench.jobs.libraries`.
- measure.py: releases of fixed columns; hostile.py: adversarial columns (NaN, inf, empty, ...).
- replay.py: comparison of the inputs of mechanisms on neighbouring datasets, given equal releases.
- report.py: tables and figures.

The estimator ``library_mean`` and the processes of the libraries are in
`dpbench.estimators.libraries`.
"""
