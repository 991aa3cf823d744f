"""Verdicts in tables of results, with their words, their colours and whether they fail a run.

A mapping such as `CLAIMS` holds the verdicts on one subject, keyed by their words. Its order is the
order in which counts of verdicts are printed. Only these mappings define which verdicts are good or
bad, and which fail a run. Only the objects of class `Tone` define the colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = [
    "AHEAD", "BAD", "CALM", "CLAIMS", "EARLY", "FACTORS", "GOOD", "OPEN", "PASSED", "PRINTED",
    "SEVERITY", "UNSURE", "Tone", "Verdict", "any_fails", "failing_words", "page_tones",
    "verdicts_by_word",
]  # fmt: skip


@dataclass(frozen=True)
class Tone:
    """Appearance of a verdict: CSS class on the page, colour of rich, and colour of matplotlib.

    An empty `terminal` is no colour.
    """

    page: str
    terminal: str = ""
    figure: str = "0.4"


GOOD = Tone("good", "green", "C2")
# No evidence against a claim, which is no proof; therefore the page does not mark it as good.
PASSED = Tone("calm", "green")
CALM = Tone("calm")
UNSURE = Tone("unsure", "yellow")
# The theorem applies to larger n than were run.
AHEAD = Tone("ahead", "cyan", "C0")
# Neither good nor bad: marked on the page, without colour on a terminal.
OPEN = Tone("unsure")
BAD = Tone("bad", "red", "C3")

# CSS classes of the page, the worst first; a run or a group of claims has the worst of its classes.
SEVERITY = ("bad", "unsure", "ahead", "good", "calm")


@dataclass(frozen=True)
class Verdict:
    """Verdict on a row in a table of results: the word that stands there, and its appearance.

    The rank sorts the verdicts on one subject by severity, and 0 is the worst. A run fails if any
    of its verdicts `fails`. Output has `printed`, if it is not empty, in place of `word`.
    """

    word: str
    tone: Tone
    rank: int
    fails: bool = False
    printed: str = ""

    @property
    def text(self) -> str:
        """Text that is printed for this verdict."""
        return self.printed or self.word


Verdicts = Mapping[str, Verdict]


def verdicts_by_word(*verdicts: Verdict) -> Verdicts:
    """Return a mapping of the verdicts, keyed by their word."""
    return {verdict.word: verdict for verdict in verdicts}


# The measurement agrees with the exact value at these n, and this value differs from the asymptotic
# value of the theorem. This verdict fails no run.
EARLY = "pre-asymptotic"
# Claims; a sweep with `fail_on_inconsistent: false` does not fail on them.
CLAIMS = verdicts_by_word(
    Verdict("consistent", GOOD, 3),
    Verdict(EARLY, AHEAD, 2, printed="pre-asympt."),
    Verdict("inconsistent", BAD, 0, fails=True),
    Verdict("inconclusive", UNSURE, 1),
)
# Ratios of the best estimator's error to the lower bound.
FACTORS = verdicts_by_word(
    Verdict("open", OPEN, 0),
    Verdict("below", CALM, 1),
    Verdict("one distribution", CALM, 2),
    Verdict("optimal", GOOD, 3),
)
# Verdicts of every run that are coloured on a terminal; applications add theirs.
PRINTED = (CLAIMS, FACTORS)


def failing_words(verdicts: Verdicts) -> list[str]:
    """Return the words of those verdicts that make a run fail."""
    return [word for word, verdict in verdicts.items() if verdict.fails]


def any_fails(verdicts: Verdicts, words: Iterable[str]) -> bool:
    """Return whether any of the words in the results is a verdict that makes a run fail.

    `verdicts` has the verdicts on one subject by word. An unknown word also makes the run fail.
    """
    return not {*words} <= {*verdicts} - {*failing_words(verdicts)}


def page_tones(verdicts: Verdicts) -> dict[str, str]:
    """Return the CSS class of each verdict on the report page, keyed by the verdict's word."""
    return {word: verdict.tone.page for word, verdict in verdicts.items()}
