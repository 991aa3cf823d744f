"""Verdicts of all tables of results: their words, whether they fail a run, and their colours.

Each mapping holds the verdicts of one subject by word, in the order in which they are counted. It
alone defines which verdicts are good or bad and which fail a run; `Tone` alone defines the colours.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

__all__ = [
    "AHEAD", "AUDIT", "BAD", "CALM", "CLAIMS", "CONTROLS", "EARLY", "FACTORS", "GOOD",
    "HOSTILE", "PRINTED", "SEVERITY", "TRACKING", "Tone", "Verdict", "any_fails", "failing",
    "page_tones",
]  # fmt: skip


@dataclass(frozen=True)
class Tone:
    """Appearance of a verdict on the page, on a terminal and in figures.

    Parameters
    ----------
    page : str
        CSS class on the report page.
    terminal : str
        Colour name of rich; empty for none.
    figure : str
        Colour name of matplotlib. A grey by default.
    """

    page: str
    terminal: str = ""
    figure: str = "0.4"


GOOD = Tone("good", "green", "C2")
# Nothing bad was found, which proves nothing; therefore the page does not mark it as good.
PASSED = Tone("calm", "green")
CALM = Tone("calm")
UNSURE = Tone("unsure", "yellow")
# The theorem applies to larger n than were run.
AHEAD = Tone("ahead", "cyan", "C0")
# Neither good nor bad: marked on the page, without colour on a terminal.
OPEN = Tone("unsure")
BAD = Tone("bad", "red", "C3")

# CSS classes of the page, the worst first; a run or a group of claims has its worst one.
SEVERITY = ("bad", "unsure", "ahead", "good", "calm")


@dataclass(frozen=True)
class Verdict:
    """A verdict of a table of results.

    Parameters
    ----------
    word : str
        Value in the table.
    tone : Tone
        Appearance.
    rank : int
        Position in the order of severity among the verdicts of its subject; 0 is the worst.
    fails : bool
        Whether a run with this verdict fails. False by default.
    printed : str
        Text that is printed instead of `word`. By default `word`.
    """

    word: str
    tone: Tone
    rank: int
    fails: bool = False
    printed: str = ""

    @property
    def text(self) -> str:
        """Printed text."""
        return self.printed or self.word


Verdicts = Mapping[str, Verdict]


def _table(*verdicts: Verdict) -> Verdicts:
    """Return the verdicts by word."""
    return {one.word: one for one in verdicts}


# The measurement agrees with the exact value at these n, which differs from the asymptotic value of
# the theorem. This verdict fails no run.
EARLY = "not yet asymptotic"
# Claims. Only a sweep with `gate` fails on them.
CLAIMS = _table(
    Verdict("consistent", GOOD, 3),
    Verdict(EARLY, AHEAD, 2, printed="not yet"),
    Verdict("inconsistent", BAD, 0, fails=True),
    Verdict("inconclusive", UNSURE, 1),
)
AUDIT = _table(
    Verdict("refuted", BAD, 0, fails=True),
    Verdict("failed", BAD, 1, fails=True),
    Verdict("not refuted", PASSED, 2),
)
# Controls, which are broken on purpose: not to refute one is bad.
CONTROLS = _table(
    Verdict("refuted", GOOD, 2, printed="caught"),
    Verdict("not refuted", BAD, 0, fails=True, printed="missed"),
    Verdict("failed", BAD, 1, fails=True, printed="missed"),
)
# Rows compared with their baseline.
TRACKING = _table(
    Verdict("worse", BAD, 0, fails=True),
    Verdict("gone", BAD, 1, fails=True),
    Verdict("better", GOOD, 2),
    Verdict("new", OPEN, 3),
    Verdict("changed-within-noise", CALM, 4),
    Verdict("same", CALM, 5),
)
# Ratios of the best estimator's error to the lower bound.
FACTORS = _table(
    Verdict("open", OPEN, 0),
    Verdict("below", CALM, 1),
    Verdict("one law", CALM, 2),
    Verdict("optimal", GOOD, 3),
)
# Answers of libraries on hostile columns (empty, NaN, infinite, constant and others).
HOSTILE = _table(
    Verdict("answered", CALM, 5, printed="+"),
    Verdict("refused", CALM, 4),
    Verdict("at times refused", UNSURE, 3, printed="at times"),
    Verdict("NaN", BAD, 2),
    Verdict("wrong", BAD, 1),
    Verdict("process ended", BAD, 0, printed="ended"),
)
# Tables whose verdicts are coloured on a terminal.
PRINTED = (CLAIMS, AUDIT, CONTROLS, TRACKING, FACTORS)


def failing(verdicts: Verdicts) -> list[str]:
    """Return the words of the verdicts that fail a run."""
    return [word for word, one in verdicts.items() if one.fails]


def any_fails(verdicts: Verdicts, words: Iterable[str]) -> bool:
    """Return whether a verdict fails a run.

    Parameters
    ----------
    verdicts : mapping of str to Verdict
        Verdicts of one subject.
    words : iterable of str
        Words that occur in the results. An unknown word fails the run.

    Returns
    -------
    bool
    """
    return not {*words} <= {*verdicts} - {*failing(verdicts)}


def page_tones(verdicts: Verdicts) -> dict[str, str]:
    """Return the CSS class of each word on the report page."""
    return {word: one.tone.page for word, one in verdicts.items()}
