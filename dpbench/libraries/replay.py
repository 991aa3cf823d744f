"""Replay of queries of other libraries on neighbouring datasets, with frozen releases.

A library's process runs a query on a dataset, and again on its neighbours with equal releases
(`dpbench.estimators.libraries.recorder`). `dpbench.privacy.replay` compares the steps: the inputs
of a mechanism must not differ by more than its stated sensitivity, and the sequence of mechanisms
must be equal. The comparison is deterministic. It concerns single mechanisms and does not add up
the cost of several.

The datasets of a family differ in one record. Under replacement every two of them are neighbours.
Under add/remove the first dataset lacks the record, and only pairs with it are neighbours.
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
    "expected", "message",
)  # fmt: skip
# Control: a query that states half of its sensitivity. A replay must refute it.
CONTROL = ("numpy", "halved_mean")
# Queries with two columns, a feature and a target.
REGRESSIONS = ("linear_regression", "linear_regression_no_intercept", "gaussian_nb")
# Neighbouring relations by library and query; replacement if a query is missing. OpenDP's guarantee
# is for replacement if the size is declared, else for add/remove; its mean and its variance need
# the size. For the other libraries n is public.
BOTH: tuple[Relation, ...] = ("replace", "add_remove")
RELATIONS: dict[str, dict[str, tuple[Relation, ...]]] = {
    "opendp": dict.fromkeys(("sum", "count", "histogram", "quantile"), BOTH)
}
# Values of a record beyond the bounds: squares of FAR are finite, sums with WILD lose digits.
FAR, WILD = 1e6, 1e150

Row = dict[str, Any]


@dataclass(frozen=True)
class Family:
    """Datasets that differ in one record.

    Attributes
    ----------
    name : str
        Values of the other records, and index of the record.
    datasets : list of ndarray of shape (n, d)
        Datasets.
    places : list of ndarray of shape (d,)
        Value of the record in each dataset; empty if the dataset lacks it.
    within : list of bool
        Whether the record is within the bounds.
    relation : {'replace', 'add_remove'}
        Neighbouring relation.
    """

    name: str
    datasets: list[Floats]
    places: list[Floats]
    within: list[bool]
    relation: Relation

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the indices of each pair of neighbouring datasets."""
        for one, other in itertools.combinations(range(len(self.datasets)), 2):
            if self.relation == "replace" or one == 0:
                yield one, other

    def text(self, one: int, other: int) -> str:
        """Return the description of a pair.

        Parameters
        ----------
        one, other : int
            Indices of the datasets.

        Returns
        -------
        str
            Name of the family, and the values of the record in both datasets.
        """
        ends = (",".join(f"{x:g}" for x in self.places[at]) or "none" for at in (one, other))
        return f"{self.name}: {' to '.join(ends)}"


def families(
    query: str, n: int, low: float, high: float, relation: Relation = "replace"
) -> Iterator[Family]:
    """Yield families of datasets that expose mistakes of a query.

    The other records are at the lower bound, at the upper bound, or alternate; for a query that
    skips NaN, families with all or two in three of them NaN are added. The first or the last record
    takes both bounds, their middle, a value just beyond, and values far beyond; fewer values for
    records of a feature and a target.

    Parameters
    ----------
    query : str
        Name of the query.
    n : int
        Number of records; under add/remove the first dataset has n - 1.
    low, high : float
        Bounds on the records.
    relation : {'replace', 'add_remove'}
        Neighbouring relation; replacement by default.

    Yields
    ------
    Family
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
    """Return one row for each mechanism of each query, with its largest change over sensitivity.

    A library that is not installed has one row without a query, which gives the reason.
    """
    rows: list[Row] = []
    for name in how.libraries:
        try:
            _ = library(name).version
        except LibraryError as error:
            rows.append({"library": name, "query": "", "message": str(error)})
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
    # a known refutation of a mechanism that did not run has failed
    gone = {*expected} - {row["mechanism"] for row in rows}
    rows += [
        {"mechanism": one, "verdict": "failed", "message": "no such mechanism"} for one in gone
    ]
    for row in rows:
        word = "refuted" if row["mechanism"] in expected else "not refuted"
        yield {**about, **row, "expected": word, "message": ended or row["message"]}


class _Found:
    """Largest changes of a query's mechanisms so far."""

    def __init__(self) -> None:
        self._largest: dict[str, Row] = {}
        self._flow = self._told = ""

    def add(
        self, family: Family, runs: Sequence[tuple[list[dict[str, Any]], str]], where: str
    ) -> None:
        """Compare all neighbours of a family.

        Parameters
        ----------
        family : Family
            Datasets.
        runs : sequence of (steps, error)
            Recorded steps of each dataset, and the error message of the run, empty if none.
        where : str
            Prefix of the description of a pair.
        """
        tapes = [[_step(one) for one in steps] for steps, _ in runs]
        said = [told for _, told in runs]
        self._told = self._told or next(filter(None, said), "")
        # compare equal runs once, because records beyond the bounds are often clipped to one value
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
                return  # the steps of the two runs cannot be matched
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
        # ties of infinite ratios are broken by the size of the change
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
        """Yield one row for each mechanism; a single row ``failed`` or ``refuted`` if none ran."""
        if not self._largest:
            verdict = "refuted" if self._flow else "failed"
            yield {
                "mechanism": "",
                "control_flow": self._flow,
                "verdict": verdict,
                "message": self._told,
            }
        for row in self._largest.values():
            refuted = row.pop("refuted") or bool(self._flow)
            verdict = "refuted" if refuted else "not refuted"
            yield row | {
                "control_flow": self._flow or "same",
                "verdict": verdict,
                "message": self._told,
            }


def _step(one: dict[str, Any]) -> Step:
    """Return a recorded step as a `Step` of one trial, whose values are coordinates."""
    values, released = (np.array([one[name]], dtype=float) for name in ("values", "released"))
    return Step(one["mechanism"], values, {one["norm"]: one["stated"]}, released)


def surprises(table: pd.DataFrame) -> list[str]:
    """Return one line for each unexpected verdict; the control must be refuted."""
    return [
        f"replay: {row['library']} {row['query']} {row['mechanism']}".rstrip()
        + f": {row['verdict']}, {row['expected']} was expected"
        for row in table.to_dict("records")
        if row["verdict"] != row["expected"]
    ]
