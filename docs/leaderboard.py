"""Generate the leaderboard of the benchmark: a table of standings for each class of problems."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from docs.docstring_to_rst import escape, table
from docs.generate import link_sources, page, section
from dpbench.benchmark.entries import Card
from dpbench.benchmark.leaderboard import Standing
from dpbench.benchmark.problems import Problem

__all__ = [
    "OWN_ROLE", "entry_table", "format_score", "front_table", "leaderboard", "link_entry",
    "link_page", "milliseconds",
]  # fmt: skip

# The role ``own`` marks entries that the archive of the checkout does not have; every page that
# uses it begins with this line.
OWN_ROLE = ".. role:: own"
HEADS = [
    "rank", "entry", "geometric mean", "95% interval", "largest score", "failures",
    "CPU of a release, ms", "source",
]  # fmt: skip
UNRANKED_HEADS = [
    "entry", "answers", "geometric mean of these", "best ranked, same problems", "division",
    "source",
]  # fmt: skip
RECORDS = {
    "binary": "The records are 0 or 1.",
    "gaussian": "The records are Gaussian; the standard deviation of a coordinate is public.",
    "moments": "The records may have heavy tails: in each direction the centred moment of order k "
    "is at most 1, and k is public.",
    "variance": "The records are tilted real columns (benchmark ``dpbench-real-v2``). A bound on "
    "the standard deviation is public. A score is the error over the smallest error of the "
    "archive's entries, because no lower bound fits a single distribution.",
}


def leaderboard(
    classes: Mapping[str, Sequence[Standing]],
    problems: Mapping[str, Sequence[Problem]],
    cards: Mapping[str, Card],
    own: Sequence[str],
) -> str:
    """Return the page of the leaderboard, in reST.

    Parameters
    ----------
    classes : mapping of str to sequence of Standing
        Standings in each class, from `dpbench.benchmark.leaderboard.standings`.
    problems : mapping of str to sequence of Problem
        Problems of each class.
    cards : mapping of str to Card
        Card of each entry.
    own : sequence of str
        Entries to mark as the reader's own.
    """
    sections = (
        section(
            _title(name),
            _describe(problems[name]),
            *_tables(classes[name], cards, own),
            label=f"class-{_slug(name)}",
        )
        for name in classes
    )
    return ":hide-toc:\n\n" + page(
        "Leaderboard",
        OWN_ROLE,
        "A class holds the problems with the same kind of public knowledge. Entries answer "
        "different problems, so no number covers more than one class. An entry is ranked in a "
        "class if it answered every problem of the class and is of the division ``declared``. "
        "Entries are ranked by the geometric mean of their scores; a score is the error over a "
        "proven lower bound, except in the class of ``dpbench-real-v2``. The mean is ∞ if on a "
        "problem more than a tenth of the releases fail. Intervals are bootstrapped over trials. A "
        "click on a heading sorts a table. :doc:`How to enter </howto/benchmark>`.",
        *sections,
    )


def front_table(classes: Mapping[str, Sequence[Standing]], own: Sequence[str]) -> str:
    """Return a table in reST with the leader of each class, and the reader's own entries."""
    rows = []
    for name, found in classes.items():
        ranked = [standing for standing in found if standing.rank is not None]
        leader = ranked[0] if ranked else None
        places = {
            one.entry: f"rank {one.rank}, {format_score(one.mean)}" if one.rank else _answers(one)
            for one in found
            if one.entry in own
        }
        mine = [f"{link_entry(name, own)} {place}" for name, place in places.items()]
        rows.append([
            f":ref:`{_title(name)} <class-{_slug(name)}>`",
            str(found[0].problems) if found else "",
            f"{len(ranked)}",
            link_entry(leader.entry, own) if leader else "—",
            format_score(leader.mean) if leader else "—",
            *([", ".join(mine) or "—"] if own else []),
        ])  # fmt: skip
    heads = ["class", "problems", "ranked entries", "first", "its geometric mean"]
    return table([*heads, *(["your entries"] if own else [])], rows, sortable=True)


def entry_table(name: str, classes: Mapping[str, Sequence[Standing]]) -> str:
    """Return a table in reST with the standing of an entry in each class in which it answered."""
    rows = []
    for title, found in classes.items():
        ranked = sum(standing.rank is not None for standing in found)
        rows += [
            [f":ref:`{_title(title)} <class-{_slug(title)}>`", _answers(one),
             f"{one.rank} of {ranked}" if one.rank else "not ranked", format_score(one.mean),
             format_score(one.rival)]
            for one in found if one.entry == name
        ]  # fmt: skip
    heads = ["class", "answers", "rank", "geometric mean", "best ranked, same problems"]
    return table(heads, rows)


def link_page(folder: str, name: str) -> str:
    """Return a link in reST to the page of an entry or a problem."""
    return f":doc:`{name} </benchmark/{folder}/{name}>`"


def link_entry(name: str, own: Sequence[str]) -> str:
    """Return a link in reST to the page of an entry, with a mark if it is the reader's own."""
    return link_page("entries", name) + (" :own:`yours`" if name in own else "")


def milliseconds(seconds: float) -> str:
    """Return a time in milliseconds with three digits, or a dash if it was not measured."""
    return f"{float(f'{1e3 * seconds:.3g}'):,g}" if math.isfinite(seconds) else "—"


def _tables(found: Sequence[Standing], cards: Mapping[str, Card], own: Sequence[str]) -> list[str]:
    """Return the table of ranked entries of a class, and below it the table of other entries."""
    ranked = [
        [str(one.rank), link_entry(one.entry, own), format_score(one.mean),
         _interval(one),
         format_score(one.largest), f"{one.failure_rate:.1%}", milliseconds(one.seconds),
         link_sources(cards[one.entry].paper)]
        for one in found if one.rank is not None
    ]  # fmt: skip
    others = [
        [link_entry(one.entry, own), _answers(one), format_score(one.mean), format_score(one.rival),
         one.division, link_sources(cards[one.entry].paper)]
        for one in found if one.rank is None
    ]  # fmt: skip
    parts = [table(HEADS, ranked, sortable=True) if ranked else "No entry is ranked."]
    if others:
        parts += [
            "*Not ranked: these entries did not answer all problems of the class, or use the shape "
            "of the distribution (division open). Compare each only with the best ranked entry on "
            "the same problems.*",
            table(UNRANKED_HEADS, others),
        ]
    return parts


def _describe(problems: Sequence[Problem]) -> str:
    """Return sentences on the problems of a class, with links to them."""
    problem = problems[0]
    known = problem.known
    place = "No bound on the mean is public." if known.radius is None else (
        "A bound on the norm of the mean is public."
    )  # fmt: skip
    sentences = [
        RECORDS[known.records],
        f"Each is a vector of {problem.d} coordinates." if problem.d > 1 else "",
        "" if known.records == "binary" else place,
        "n is private." if problem.budget.neighbours == "add_remove" else "",
        "Each record is released privately by its owner (local model)." if problem.local else "",
    ]
    links = ", ".join(link_page("problems", problem.id) for problem in problems)
    count = f"{len(problems)} problem{'s' if len(problems) > 1 else ''}"
    return " ".join([*filter(None, sentences), f"{count}: {links}."])


def _title(name: str) -> str:
    return escape(name[0].upper() + name[1:])


def _slug(name: str) -> str:
    return name.lower().replace(", ", "-").replace(" ", "-")


def _answers(standing: Standing) -> str:
    return f"{standing.answers} of {standing.problems}"


def _interval(standing: Standing) -> str:
    ends = (format_score(end) for end in (standing.low, standing.high))
    return "\N{NO-BREAK SPACE}..\N{NO-BREAK SPACE}".join(ends) if standing.mean < math.inf else "—"


def format_score(value: float) -> str:
    """Return a score with three digits; ∞ if it is infinite, a dash if it is NaN."""
    if math.isnan(value):
        return "—"
    return "∞" if math.isinf(value) else f"{float(f'{value:.3g}'):,g}"
