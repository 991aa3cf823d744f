"""Verdicts on rows that are compared with a baseline."""

from __future__ import annotations

from dpbench.output.verdicts import BAD, CALM, GOOD, OPEN, UNSURE, Verdict, verdicts_by_word

__all__ = ["COMPARED", "TRACKING"]

# Rows compared with their baseline.
TRACKING = verdicts_by_word(
    Verdict("worse", BAD, 0, fails=True),
    Verdict("gone", BAD, 1, fails=True),
    Verdict("better", GOOD, 2),
    Verdict("new", OPEN, 3),
    Verdict("changed-within-noise", CALM, 4),
    Verdict("same", CALM, 5),
)
# Rows of two runs beside each other.
COMPARED = verdicts_by_word(
    Verdict("better", GOOD, 0),
    Verdict("worse", BAD, 0),
    Verdict("gone", OPEN, 1),
    Verdict("new", OPEN, 2),
    Verdict("not decided", UNSURE, 3),
    Verdict("unchanged", CALM, 4),
    Verdict("same", CALM, 5),
)
