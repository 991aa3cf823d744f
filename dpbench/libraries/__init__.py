"""Compare other libraries' private means: errors, times, hostile columns, an audit, replays.

- sweep.py is the configuration of ``sweep=libraries``; the job is `dpbench.jobs.libraries`.
- measure.py releases fixed columns, and hostile.py has the columns that nobody expects.
- replay.py compares the inputs of mechanisms on neighbouring datasets, given equal releases.
- report.py has the tables and the figure.

The estimator ``library_mean`` and the processes that it asks are `dpbench.estimators.libraries`.
"""
