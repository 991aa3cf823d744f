"""Verdicts: what each word of a verdict means, and how it looks.

Each table holds the verdicts of one subject by word, in the order in which they are counted. It is
the only place that says which verdicts are good news, bad news, or fail a run; `Tone` is the only
place that says how these look.
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
    """How good a piece of news is: a CSS class of the page, and colours elsewhere.

    `terminal` is a colour of rich, blank for none; `figure` is one of matplotlib.
    """

    page: str
    terminal: str = ""
    figure: str = "0.4"


GOOD = Tone("good", "green", "C2")
# The absence of bad news, which proves nothing: the page does not call it good.
PASSED = Tone("calm", "green")
CALM = Tone("calm")
UNSURE = Tone("unsure", "yellow")
# A theorem that speaks of larger n than were run.
AHEAD = Tone("ahead", "cyan", "C0")
# Neither good nor bad: the page marks it, a terminal does not.
OPEN = Tone("unsure")
BAD = Tone("bad", "red", "C3")

# The tones of the page, the worst first: how a whole run or a group of claims looks.
SEVERITY = ("bad", "unsure", "ahead", "good", "calm")


@dataclass(frozen=True)
class Verdict:
    """A verdict of a table of results.

    Attributes
    ----------
    word : str
        What the table says.
    tone : Tone
    rank : int
        Its place among the verdicts of its subject, from 0 for the worst.
    fails : bool
        Whether a run with such a verdict fails.
    printed : str
        What is printed in place of the word, by default the word.
    """

    word: str
    tone: Tone
    rank: int
    fails: bool = False
    printed: str = ""

    @property
    def text(self) -> str:
        """What is printed."""
        return self.printed or self.word


Verdicts = Mapping[str, Verdict]


def _table(*verdicts: Verdict) -> Verdicts:
    return {one.word: one for one in verdicts}


# The verdict on a theorem where the measurement agrees with the exact number at these n, and that
# number is not the theorem's. It fails nothing.
EARLY = "not yet asymptotic"
# Of claims; a run that is gated on them fails.
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
# Of estimators that are broken on purpose: here it is bad news that no pair shows it.
CONTROLS = _table(
    Verdict("refuted", GOOD, 2, printed="caught"),
    Verdict("not refuted", BAD, 0, fails=True, printed="missed"),
    Verdict("failed", BAD, 1, fails=True, printed="missed"),
)
# Of rows against their baseline.
TRACKING = _table(
    Verdict("worse", BAD, 0, fails=True),
    Verdict("gone", BAD, 1, fails=True),
    Verdict("better", GOOD, 2),
    Verdict("new", OPEN, 3),
    Verdict("changed-within-noise", CALM, 4),
    Verdict("same", CALM, 5),
)
# Of the best estimators over lower bounds.
FACTORS = _table(
    Verdict("open", OPEN, 0),
    Verdict("below", CALM, 1),
    Verdict("one law", CALM, 2),
    Verdict("optimal", GOOD, 3),
)
# Of what libraries answer about columns that nobody expects.
HOSTILE = _table(
    Verdict("answered", CALM, 5, printed="+"),
    Verdict("refused", CALM, 4),
    Verdict("at times refused", UNSURE, 3, printed="at times"),
    Verdict("NaN", BAD, 2),
    Verdict("wrong", BAD, 1),
    Verdict("process ended", BAD, 0, printed="ended"),
)
# The tables whose words have colours on a terminal.
PRINTED = (CLAIMS, AUDIT, CONTROLS, TRACKING, FACTORS)


def failing(verdicts: Verdicts) -> list[str]:
    """Return the words of the verdicts that fail a run."""
    return [word for word, one in verdicts.items() if one.fails]


def any_fails(verdicts: Verdicts, words: Iterable[str]) -> bool:
    """Whether one of these words fails a run; a word that the table lacks does."""
    return not {*words} <= {*verdicts} - {*failing(verdicts)}


def page_tones(verdicts: Verdicts) -> dict[str, str]:
    """Return the page's tone of each word."""
    return {word: one.tone.page for word, one in verdicts.items()}
