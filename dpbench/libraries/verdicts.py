"""Verdicts on libraries, and on their answers to hostile columns."""

from __future__ import annotations

from dpbench.output.verdicts import BAD, CALM, PASSED, UNSURE, Verdict, verdicts_by_word

__all__ = ["HONEST", "HOSTILE", "INCONCLUSIVE", "LESS_ACCURATE", "LIBRARIES", "REFUTED"]

# Answers of libraries on hostile columns (empty, NaN, infinite, constant and others).
HOSTILE = verdicts_by_word(
    Verdict("answered", CALM, 5, printed="+"),
    Verdict("refused", CALM, 4),
    Verdict("at times refused", UNSURE, 3, printed="at times"),
    Verdict("NaN", BAD, 2),
    Verdict("wrong", BAD, 1),
    Verdict("process ended", BAD, 0, printed="ended"),
)
# Libraries; `dpbench.libraries.library_verdict` has the rules.
HONEST, LESS_ACCURATE = "honest as tested", "less accurate than its formula"
REFUTED, INCONCLUSIVE = "refuted", "inconclusive"
LIBRARIES = verdicts_by_word(
    Verdict(REFUTED, BAD, 0),
    Verdict(LESS_ACCURATE, BAD, 1),
    Verdict(INCONCLUSIVE, UNSURE, 2),
    Verdict(HONEST, PASSED, 3),
)
