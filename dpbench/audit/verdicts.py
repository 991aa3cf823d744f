"""Verdicts of audits, on estimators and on controls."""

from __future__ import annotations

from dpbench.output.verdicts import BAD, GOOD, PASSED, Verdict, verdicts_by_word

__all__ = ["AUDIT", "CONTROLS"]

AUDIT = verdicts_by_word(
    Verdict("refuted", BAD, 0, fails=True),
    Verdict("failed", BAD, 1, fails=True),
    Verdict("not refuted", PASSED, 2),
)
# Controls are broken on purpose, so it is bad if a control is not refuted.
CONTROLS = verdicts_by_word(
    Verdict("refuted", GOOD, 2, printed="caught"),
    Verdict("not refuted", BAD, 0, fails=True, printed="missed"),
    Verdict("failed", BAD, 1, fails=True, printed="missed"),
)
