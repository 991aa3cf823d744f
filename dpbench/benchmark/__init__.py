"""Benchmark open to external entries: frozen problems, scores relative to lower bounds.

The score of an entry on a problem is the 0.9 quantile of its error, divided by a proven lower
bound.

- problems.py: the problems; random_locations.py: random locations of their distributions.
- entries.py: entries of the catalogue; remote.py: entries of external files, whose code runs in
  worker.py and is called through process.py.
- checks.py: checks of an entry's promises, and an audit, before it is scored.
- measure.py: scores; scoring.py: scores of an external file, with audits among the scored calls;
  neighbours.py: pairs of datasets for these audits.
- table.py: stored scores; leaderboard.py: ranks within classes of problems; compare.py: tables and
  performance profiles.
- template.py: the file of a new entry.

The command is `dpbench.benchmark.command`.
"""
