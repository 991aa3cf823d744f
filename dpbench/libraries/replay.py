"""Replay queries of other libraries on neighbouring datasets, with their releases frozen.

A library's process runs a query on a dataset, and again on neighbours of the dataset with the same
releases (`dpbench.estimators.libraries.recorder`). `dpbench.privacy.replay` compares the steps: no
mechanism may be given values farther apart than the sensitivity that it states, and the same
mechanisms must run. The comparison needs no statistics, and it is about one mechanism at a time:
it does not add up what several mechanisms cost together.

In each family of datasets all records are public but one. Two of its datasets are neighbours where
a record is replaced. Where one is added or removed, the first dataset lacks it, and only the first
is a neighbour of the others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpbench.arrays import Floats
from dpbench.estimators.libraries.process import LibraryError, library
from dpbench.estimators.libraries.recorder import QUERIES
from dpbench.libraries.sweep import ReplaySettings
from dpbench.privacy.budgets import Relation
from dpbench.privacy.replay import Comparison, compare_steps
from dpbench.privacy.tape import Step

__all__ = ["COLUMNS", "CONTROL", "Family", "families", "replay_table", "surprises"]

NUMBERS = (
    "stated_sensitivity", "largest_move", "move_over_sensitivity", "move_over_sensitivity_within",
)  # fmt: skip
COLUMNS = (
    "library", "query", "neighbours", "mechanism", *NUMBERS, "pair", "control_flow", "verdict",
    "expected", "told",
)  # fmt: skip
# The query by hand that states half of its sensitivity: a replay that does not refute it is blind.
CONTROL = ("numpy", "halved_mean")
# Queries of a feature and a target, and queries that leave out records that are NaN.
REGRESSIONS = ("linear_regression", "linear_regression_no_intercept", "gaussian_nb")
# OpenDP's guarantee is about a replaced record where the size is declared, else about one that is
# added or removed; its mean and its variance need the size. The others' n is public.
BOTH: tuple[Relation, ...] = ("replace", "add_remove")
RELATIONS: dict[str, dict[str, tuple[Relation, ...]]] = {
    "opendp": dict.fromkeys(("sum", "count", "histogram", "quantile"), BOTH)
}
# Places of a record beyond the bounds: at FAR squares are finite, at WILD sums lose digits.
FAR, WILD = 1e6, 1e150

Row = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """Hold datasets that differ in one record.

    Attributes
    ----------
    name : str
        The place of the other records, and the index of the record.
    datasets : list of (n, d) array
    places : list of (d,) array
        Where the record is in each; empty where it is missing.
    within : list of bool
        Whether the record is within the bounds.
    relation : {'replace', 'add_remove'}
    """

    name: str
    datasets: list[Floats]
    places: list[Floats]
    within: list[bool]
    relation: Relation

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the indices of datasets that are neighbours."""
        for one, other in itertools.combinations(range(len(self.datasets)), 2):
            if self.relation == "replace" or one == 0:
                yield one, other

    def text(self, one: int, other: int) -> str:
        """Return a pair in words: the place of the others, and of the record in both."""
        ends = (",".join(f"{x:g}" for x in self.places[at]) or "none" for at in (one, other))
        return f"{self.name}: {' to '.join(ends)}"


def families(
    query: str, n: int, low: float, high: float, relation: Relation = "replace"
) -> Iterator[Family]:
    """Yield families of n records, or of n - 1 and n, for bounds [low, high].

    The others are at the lower bound, at the upper bound, or alternate; for a query that leaves out
    NaN all of them or two in three are NaN, too. The first or the last record goes to both bounds
    and their middle, just beyond, and far beyond; a feature and a target to fewer places.
    """
    wide, skips = 2 if query in REGRESSIONS else 1, query.startswith("nan")
    more = [(low + high) / 2, high + 0.01 * (high - low), -FAR, -WILD, WILD] if wide == 1 else []
    ends = itertools.product([low, high, FAR, *more], repeat=wide)
    places = [np.array(one) for one in [*ends, *[[np.nan]] * skips]]
    others = {"low": [low], "high": [high], "mixed": [low, high]}
    others |= {"nan": [np.nan], "few": [low, np.nan, np.nan]} if skips else {}
    for (name, values), record in itertools.product(others.items(), (0, n - 1)):
        base = np.repeat(np.resize(np.array(values, float), n)[:, None], wide, axis=1)
        made = [(base[record], base)] if relation == "replace" else [
            (np.empty(0), np.delete(base, record, axis=0))
        ]  # fmt: skip
        for place in places:
            moved = base.copy()
            moved[record] = place
            made.append((place, moved))
        within = [bool(((low <= place) & (place <= high)).all()) for place, _ in made]
        datasets, where = [x for _, x in made], [place for place, _ in made]
        yield Family(f"{name}[{record}]", datasets, where, within, relation)


def replay_table(how: ReplaySettings) -> pd.DataFrame:
    """Return a row for each mechanism of each query, with its largest move over what it states.

    A library that is not installed has one row that says so, without a query.
    """
    rows: list[Row] = []
    for name in how.libraries:
        try:
            _ = library(name).version
        except LibraryError as error:
            rows.append({"library": name, "query": "", "told": str(error)})
            continue
        for query in QUERIES[name]:
            for relation in RELATIONS.get(name, {}).get(query, ("replace",)):
                rows += _query_rows(name, query, relation, how)
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    words = [name for name in COLUMNS if name not in NUMBERS]
    return table.fillna(dict.fromkeys(words, ""))


def _query_rows(name: str, query: str, relation: Relation, how: ReplaySettings) -> Iterator[Row]:
    found, ended = _Found(), ""
    try:
        for low, high in how.intervals:
            ask = {
                "epsilon": how.epsilon, "lower": low, "upper": high, "size": how.n,
                "contributions": 2 if relation == "replace" else 1,
            }  # fmt: skip
            for family in families(query, how.n, low, high, relation):
                runs = library(name).replay(query, family.datasets, ask)
                found.add(family, runs, f"[{low:g}, {high:g}] ")
    except LibraryError as error:
        found, ended = _Found(), str(error)
    known = how.refuted.get(name, {}).get(query, ())
    expected = [*known] if (name, query) != CONTROL else ["laplace"]
    about = {"library": name, "query": query, "neighbours": relation}
    rows = [*found.rows()]
    # a refutation that is known, of a mechanism that no run has, is not found
    gone = {*expected} - {row["mechanism"] for row in rows}
    rows += [{"mechanism": one, "verdict": "failed", "told": "no such mechanism"} for one in gone]
    for row in rows:
        word = "refuted" if row["mechanism"] in expected else "not refuted"
        yield {**about, **row, "expected": word, "told": ended or row["told"]}


class _Found:
    """Keep the largest moves of a query's mechanisms so far."""

    def __init__(self) -> None:
        self._largest: dict[str, Row] = {}
        self._flow = self._told = ""

    def add(
        self, family: Family, runs: Sequence[tuple[list[dict[str, Any]], str]], where: str
    ) -> None:
        """Compare all neighbours of a family."""
        tapes = [[_step(one) for one in steps] for steps, _ in runs]
        said = [told for _, told in runs]
        self._told = self._told or next(filter(None, said), "")
        # compare equal runs once, because records beyond the bounds are often clipped alike
        alike = {repr(run): at for at, run in reversed([*enumerate(runs)])}
        kept = {*alike.values(), len(runs) - 1}
        for one, other in family.pairs():
            if not {one, other} <= kept:
                continue
            if said[one] or said[other]:
                if not (said[one] and said[other]):
                    self._differs("whether it raises", where + family.text(one, other))
                continue
            self._compare(tapes[one], tapes[other], family, (one, other), where)

    def _compare(
        self,
        one: Sequence[Step],
        other: Sequence[Step],
        family: Family,
        at: tuple[int, int],
        where: str,
    ) -> None:
        text = where + family.text(*at)
        if difference := compare_steps(one, other).difference:
            self._differs(difference, text)
            if len(one) != len(other):
                return  # no step of the one is known to match a step of the other
        for a, b in zip(one, other, strict=False):
            alone = compare_steps([a], [b])  # given equal releases of all steps before
            self._keep(alone, text, within=family.within[at[0]] and family.within[at[1]])
            if not alone.complete:
                return

    def _keep(self, found: Comparison, text: str, *, within: bool) -> None:
        move = found.largest
        if move is None:
            return
        row = self._largest.setdefault(
            move.mechanism,
            {
                "mechanism": move.mechanism,
                "move_over_sensitivity": -1.0,
                "move_over_sensitivity_within": np.nan,
            },
        )
        if within:
            row["move_over_sensitivity_within"] = np.fmax(
                row["move_over_sensitivity_within"], move.ratio
            )
        # keep the farthest move among those of an infinite ratio
        size = move.ratio, move.distance
        if size > (row["move_over_sensitivity"], row.get("largest_move", -1.0)):
            sizes = {
                "stated_sensitivity": move.stated,
                "largest_move": move.distance,
                "move_over_sensitivity": move.ratio,
            }
            row |= {**sizes, "pair": text, "refuted": move.too_far}

    def _differs(self, what: str, text: str) -> None:
        self._flow = self._flow or f"{what} ({text})"

    def rows(self) -> Iterator[Row]:
        """Yield a row for each mechanism; one that has failed if there is none."""
        if not self._largest:
            verdict = "refuted" if self._flow else "failed"
            yield {
                "mechanism": "",
                "control_flow": self._flow,
                "verdict": verdict,
                "told": self._told,
            }
        for row in self._largest.values():
            refuted = row.pop("refuted") or bool(self._flow)
            verdict = "refuted" if refuted else "not refuted"
            yield row | {
                "control_flow": self._flow or "same",
                "verdict": verdict,
                "told": self._told,
            }


def _step(one: dict[str, Any]) -> Step:
    """Make a step of a tape: one trial, whose values are coordinates."""
    values, released = (np.array([one[name]], dtype=float) for name in ("values", "released"))
    return Step(one["mechanism"], values, {one["norm"]: one["stated"]}, released)


def surprises(table: pd.DataFrame) -> list[str]:
    """Return a line for each verdict that was not expected; the control must be refuted."""
    return [
        f"replay: {row['library']} {row['query']} {row['mechanism']}".rstrip()
        + f": {row['verdict']}, {row['expected']} was expected"
        for row in table.to_dict("records")
        if row["verdict"] != row["expected"]
    ]
