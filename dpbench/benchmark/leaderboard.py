"""Standings of entries within classes of problems, so that only equal sets are compared.

A class holds the problems with the same kind of public knowledge. An entry is ranked in a class if
it answered every problem of the class. No number covers the problems of several classes, because
entries answer different ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.benchmark.problems import Problem

__all__ = ["Standing", "group_by_class", "name_class", "standings"]

RECORDS = {
    "binary": "binary",
    "gaussian": "Gaussian",
    "moments": "bounded moments",
    "variance": "bounded variance",
}


@dataclass(frozen=True)
class Standing:
    """Result of one entry in one class of problems."""

    entry: str
    division: str  # declared or open
    problem_class: str
    answers: int  # number of the class's problems that have a valid score
    problems: int  # number of all problems of the class
    # Geometric mean of the scores on the answered problems, with a 95% bootstrap interval. The
    # interval always contains the mean, although a bootstrap of a worst case tends upwards. The
    # mean is infinite if on a problem more than a tenth of the releases fail.
    mean: float
    low: float
    high: float
    largest: float  # largest score on an answered problem
    failure_rate: float  # share of releases that fail, averaged over the answered problems
    seconds: float  # processor time of a release, averaged in the same way; NaN if not measured
    # Smallest geometric mean of a ranked entry over the problems that this entry answered; NaN if
    # no entry is ranked. Unlike the means of two tables, `mean` and `rival` can be compared.
    rival: float = np.nan
    # Place by the geometric mean among the entries of the declared division that answered every
    # problem of the class; None for other entries.
    rank: int | None = None

    @property
    def is_complete(self) -> bool:
        """True if the entry answered every problem of the class."""
        return self.answers == self.problems


def name_class(problem: Problem) -> str:
    """Return the name of the class of a problem.

    Problems of a class agree in the kind of records, numbers or vectors, the central or local
    model, and in what is public about n and about the place of the mean.
    """
    known = problem.known
    parts = {
        "local": problem.local,
        "vectors": problem.d > 1,
        RECORDS[known.records]: True,
        "n private": problem.budget.neighbours == "add_remove",
        "mean anywhere": known.records != "binary" and known.radius is None,
    }
    return ", ".join(part for part, applies in parts.items() if applies)


def group_by_class(problems: Iterable[Problem]) -> dict[str, list[Problem]]:
    """Return the problems of each class, keyed by the name of the class."""
    groups: dict[str, list[Problem]] = {}
    for problem in problems:
        groups.setdefault(name_class(problem), []).append(problem)
    return groups


def standings(
    rows: pd.DataFrame, problems: Sequence[Problem], divisions: Mapping[str, str]
) -> dict[str, list[Standing]]:
    """Return the standings of entries in each class of problems, keyed by the name of the class.

    `rows` are valid scores, see `dpbench.benchmark.table.Scores.ranked`; scores on other problems
    than those given are left out. `divisions` gives the division of each entry. Ranked entries come
    first, from the smallest geometric mean. The other entries follow, from the largest number of
    answers.
    """
    found = {}
    for title, members in group_by_class(problems).items():
        in_class = rows[rows["problem"].isin([problem.id for problem in members])]
        own_rows = {str(name): own for name, own in in_class.groupby("entry")}
        unranked = [
            _summarise(own, title, len(members), name, divisions[name])
            for name, own in own_rows.items()
        ]
        unranked.sort(key=lambda standing: (-standing.answers, standing.mean))
        competing = [one for one in unranked if one.is_complete and one.division == "declared"]
        ranked = [replace(one, rank=place) for place, one in enumerate(competing, 1)]
        rivals = [own_rows[one.entry].set_index("problem")["score"] for one in ranked]
        found[title] = [
            replace(one, rival=_smallest_mean(rivals, own_rows[one.entry]["problem"]))
            for one in [*ranked, *(one for one in unranked if one not in competing)]
        ]
    return found


def _smallest_mean(rivals: Sequence[pd.Series[float]], problems: pd.Series[str]) -> float:
    """Return the smallest geometric mean of scores over some problems; NaN without rivals."""
    return min((_geometric_mean(scores[problems]) for scores in rivals), default=np.nan)


def _geometric_mean(scores: ArrayLike, axis: int | None = None) -> Any:
    with np.errstate(divide="ignore"):  # an error of 0 has the logarithm -infinity
        return np.exp(np.log(np.asarray(scores)).mean(axis=axis))


def _summarise(rows: pd.DataFrame, title: str, problems: int, name: str, division: str) -> Standing:
    mean = float(_geometric_mean(rows["score"]))
    replicates = _geometric_mean(np.stack(rows["draws"].to_list()), axis=0)
    low, high = map(float, np.quantile(replicates, [0.025, 0.975], method="nearest"))
    return Standing(
        name, division, title, len(rows), problems, mean, min(low, mean), max(high, mean),
        float(rows["score"].max()), float(rows["failure_rate"].mean()),
        float(rows["seconds"].mean()),
    )  # fmt: skip
