"""Replay of queries of other libraries on neighbouring datasets, with frozen releases.

A query is a use of a library, such as its variance; a mechanism adds noise to a value. A library's
process runs a query on a dataset. It then runs the query on a neighbouring dataset, where every
mechanism reuses its first release (`dpbench.libraries.means.recorder`).
`dpbench.privacy.replay` compares the recorded calls of mechanisms. The inputs of a mechanism must
not differ by more than its stated sensitivity, and the sequence of mechanisms must be equal. The
comparison is deterministic. It concerns each mechanism alone and does not add up the costs of
mechanisms. The result of the query must be equal in every bit, because it is computed from the
releases.

The datasets of a family differ in one record. Under replacement every two datasets are neighbours.
Under add/remove the first dataset lacks the record, and only the first is a neighbour of the
others.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpbench.arrays import Floats
from dpbench.libraries.means.process import LibraryError, library
from dpbench.libraries.means.recorder import QUERIES
from dpbench.libraries.sweep import ReplaySettings
from dpbench.privacy.budgets import Relation
from dpbench.privacy.replay import Comparison, compare_steps
from dpbench.privacy.tape import RESULT, Step

__all__ = [
    "COLUMNS",
    "CONTROL",
    "NeighbourFamily",
    "families",
    "replay_table",
    "unexpected_verdicts",
]

NUMBERS = (
    "stated_sensitivity", "largest_move", "move_over_sensitivity", "move_over_sensitivity_within",
)  # fmt: skip
COLUMNS = (
    "library", "query", "neighbours", "mechanism", *NUMBERS, "pair", "control_flow", "verdict",
    "expected", "message",
)  # fmt: skip
# Control: a query that states half of its sensitivity, so that a replay must refute it.
CONTROL = ("numpy", "halved_mean")
# Queries with two columns, a feature and a target.
REGRESSIONS = ("linear_regression", "linear_regression_no_intercept", "gaussian_nb")
# Neighbouring relations by library and query; replacement if a query is missing. OpenDP's guarantee
# is for replacement if the size is declared, else for add/remove. Its mean and its variance need
# the size. PipelineDP adds or removes a person. The other libraries treat n as public.
BOTH_RELATIONS: tuple[Relation, ...] = ("replace", "add_remove")
RELATIONS: dict[str, dict[str, tuple[Relation, ...]]] = {
    "opendp": dict.fromkeys(("sum", "count", "histogram", "quantile"), BOTH_RELATIONS),
    "pipeline-dp": dict.fromkeys(QUERIES["pipeline-dp"], ("add_remove",)),
}
# Values of a record beyond the bounds. Squares of FAR_VALUE are finite; in sums with HUGE_VALUE the
# other records lose all digits.
FAR_VALUE, HUGE_VALUE = 1e6, 1e150

Row = dict[str, Any]


@dataclass(frozen=True)
class NeighbourFamily:
    """Family of datasets that differ in one record."""

    name: str  # values of the other records, and index of the record that differs
    datasets: list[Floats]  # each of shape (n, d)
    # For each dataset: value of the record that differs, of shape (d,), empty if it is missing; and
    # whether this record is within the bounds, or missing.
    places: list[Floats]
    within: list[bool]
    relation: Relation

    def pairs(self) -> Iterator[tuple[int, int]]:
        """Yield the indices of each pair of neighbouring datasets."""
        for first, second in itertools.combinations(range(len(self.datasets)), 2):
            if self.relation == "replace" or first == 0:
                yield first, second

    def text(self, one: int, other: int) -> str:
        """Return the description of the pair of neighbouring datasets with two indices.

        The text has the name of the family, and the two values of the record that differs.
        """
        values = (
            ",".join(f"{x:g}" for x in self.places[index]) or "none" for index in (one, other)
        )
        return f"{self.name}: {' to '.join(values)}"


def families(
    query: str, n: int, low: float, high: float, relation: Relation = "replace"
) -> Iterator[NeighbourFamily]:
    """Yield families of datasets that expose mistakes of a query; a family differs in one record.

    The first or the last of n records differs. Under add/remove the first dataset lacks it. The
    values of the record are both bounds, the middle, a value just beyond the bounds, and values far
    beyond. If records have two coordinates, a feature and a target, each coordinate takes both
    bounds and one value far beyond. The other records are at the lower bound, at the upper bound,
    or alternate. For a query that skips NaN, the record that differs may be NaN. Further families
    of such a query have NaN in all other records, or in two of every three.
    """
    width, skips_nan = 2 if query in REGRESSIONS else 1, query.startswith("nan")
    beyond = (
        [(low + high) / 2, high + 0.01 * (high - low), -FAR_VALUE, -HUGE_VALUE, HUGE_VALUE]
        if width == 1
        else []
    )
    values_of_record = itertools.product([low, high, FAR_VALUE, *beyond], repeat=width)
    places = [np.array(coordinates) for coordinates in [*values_of_record, *[[np.nan]] * skips_nan]]
    others = {"low": [low], "high": [high], "mixed": [low, high]}
    others |= {"nan": [np.nan], "few": [low, np.nan, np.nan]} if skips_nan else {}
    for (name, values), record in itertools.product(others.items(), (0, n - 1)):
        base = np.repeat(np.resize(np.array(values, float), n)[:, None], width, axis=1)
        members = [(base[record], base)] if relation == "replace" else [
            (np.empty(0), np.delete(base, record, axis=0))
        ]  # fmt: skip
        for place in places:
            moved = base.copy()
            moved[record] = place
            members.append((place, moved))
        within = [bool(((low <= place) & (place <= high)).all()) for place, _ in members]
        datasets, values_in_datasets = [x for _, x in members], [place for place, _ in members]
        yield NeighbourFamily(f"{name}[{record}]", datasets, values_in_datasets, within, relation)


def replay_table(settings: ReplaySettings) -> pd.DataFrame:
    """Replay libraries' queries on neighbouring datasets; tabulate changes of mechanisms' inputs.

    In a replay each mechanism reuses its release on the first dataset. The table has one row for
    each mechanism of each query. A row has the largest change of the mechanism's inputs between
    neighbours, divided by the stated sensitivity. A query with two neighbouring relations has rows
    for each relation. A library that is not installed has one row without a query, which gives the
    reason.
    """
    rows: list[Row] = []
    for name in settings.libraries:
        try:
            _ = library(name).version
        except LibraryError as error:
            rows.append({"library": name, "query": "", "message": str(error)})
            continue
        for query in QUERIES[name]:
            for relation in RELATIONS.get(name, {}).get(query, ("replace",)):
                rows += _query_rows(name, query, relation, settings)
    table = pd.DataFrame(rows, columns=list(COLUMNS))
    words = [name for name in COLUMNS if name not in NUMBERS]
    return table.fillna(dict.fromkeys(words, ""))


def _query_rows(
    name: str, query: str, relation: Relation, settings: ReplaySettings
) -> Iterator[Row]:
    """Replay one query of the library `name`, and yield a table row for each of its mechanisms.

    A mechanism is refuted if its inputs on neighbours differ by more than its stated sensitivity.
    If a mechanism is expected to be refuted but did not run, its row has the verdict ``failed``.
    """
    moves, error_text = _LargestMoves(), ""
    try:
        for low, high in settings.intervals:
            ask = {
                "epsilon": settings.epsilon, "lower": low, "upper": high, "size": settings.n,
                "contributions": 2 if relation == "replace" else 1,
            }  # fmt: skip
            for family in families(query, settings.n, low, high, relation):
                runs = library(name).replay(query, family.datasets, ask)
                moves.add(family, runs, f"[{low:g}, {high:g}] ")
    except LibraryError as error:
        moves, error_text = _LargestMoves(), str(error)
    refuted = settings.refuted.get(name, {}).get(query, ())
    expected = [*refuted] if (name, query) != CONTROL else ["laplace"]
    columns = {"library": name, "query": query, "neighbours": relation}
    rows = [*moves.rows()]
    # the refutation of an expected mechanism fails if the mechanism did not run
    missing = {*expected} - {row["mechanism"] for row in rows}
    rows += [
        {"mechanism": mechanism, "verdict": "failed", "message": "no such mechanism"}
        for mechanism in missing
    ]
    for row in rows:
        verdict = "refuted" if row["mechanism"] in expected else "not refuted"
        yield {**columns, **row, "expected": verdict, "message": error_text or row["message"]}


class _LargestMoves:
    """Collection of the largest input change between neighbours, for each mechanism of a query."""

    def __init__(self) -> None:
        self._largest: dict[str, Row] = {}
        self._flow = self._message = ""

    def add(
        self, family: NeighbourFamily, runs: Sequence[tuple[list[dict[str, Any]], str]], where: str
    ) -> None:
        """Compare the mechanisms' inputs on all neighbouring datasets of a family.

        A run has the recorded calls of mechanisms on one dataset, and the error message, "" without
        error. `where` is the prefix for the description of a pair of neighbours.
        """
        tapes = [[_make_step(step) for step in steps] for steps, _ in runs]
        messages = [message for _, message in runs]
        self._message = self._message or next(filter(None, messages), "")
        # compare equal runs once, because clipping often moves several records to one value
        first_equal = {repr(run): index for index, run in reversed([*enumerate(runs)])}
        compared = {*first_equal.values(), len(runs) - 1}
        for first, second in family.pairs():
            if not {first, second} <= compared:
                continue
            if messages[first] or messages[second]:
                if not (messages[first] and messages[second]):
                    self._note_difference("whether it raises", where + family.text(first, second))
                continue
            self._compare(tapes[first], tapes[second], family, (first, second), where)

    def _compare(
        self,
        first: Sequence[Step],
        second: Sequence[Step],
        family: NeighbourFamily,
        pair: tuple[int, int],
        where: str,
    ) -> None:
        """Compare the recorded calls of mechanisms on one pair of neighbouring datasets."""
        text = where + family.text(*pair)
        if difference := compare_steps(first, second).difference:
            self._note_difference(difference, text)
            if len(first) != len(second):
                return  # the steps of the two runs cannot be matched
        for a, b in zip(first, second, strict=False):
            if RESULT in (a.mechanism, b.mechanism):
                return
            alone = compare_steps([a], [b])  # all earlier steps have equal releases
            self._keep_largest(
                alone, text, within=family.within[pair[0]] and family.within[pair[1]]
            )
            if not alone.complete:
                return

    def _keep_largest(self, comparison: Comparison, text: str, *, within: bool) -> None:
        """Record the change of a mechanism's inputs on a pair of datasets, if it is the largest.

        Changes are ordered by their ratio to the stated sensitivity, then by size. The largest
        ratio of neighbours within the bounds is recorded separately.
        """
        move = comparison.largest
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
        # between equal ratios, which are mostly infinite, the larger change counts
        size = move.ratio, move.distance
        if size > (row["move_over_sensitivity"], row.get("largest_move", -1.0)):
            sizes = {
                "stated_sensitivity": move.stated,
                "largest_move": move.distance,
                "move_over_sensitivity": move.ratio,
            }
            row |= {**sizes, "pair": text, "refuted": move.too_far}

    def _note_difference(self, difference: str, text: str) -> None:
        """Record a difference between the sequences of mechanisms on two neighbouring datasets.

        Only the first difference is kept. `text` describes the two datasets.
        """
        self._flow = self._flow or f"{difference} ({text})"

    def rows(self) -> Iterator[Row]:
        """Yield one table row for each mechanism of the query, with its largest input change.

        A row also has the verdict ``refuted`` or ``not refuted``. If no mechanism ran on both
        datasets of a pair, yield one row without a mechanism. The verdict of this row is
        ``refuted`` if the sequences of mechanisms differ between neighbours, else ``failed``.
        """
        if not self._largest:
            verdict = "refuted" if self._flow else "failed"
            yield {
                "mechanism": "",
                "control_flow": self._flow,
                "verdict": verdict,
                "message": self._message,
            }
        for row in self._largest.values():
            refuted = row.pop("refuted") or bool(self._flow)
            verdict = "refuted" if refuted else "not refuted"
            yield row | {
                "control_flow": self._flow or "same",
                "verdict": verdict,
                "message": self._message,
            }


def _make_step(step: dict[str, Any]) -> Step:
    """Convert a library's recorded call of a mechanism to a `Step`, so that calls can be compared.

    The step has one trial. Its coordinates are the values of the call before noise. A step
    ``result`` holds the result of the query.
    """
    released = np.array([step["released"]], dtype=float)
    if step["mechanism"] == RESULT:
        return Step(RESULT, released=(released,))
    values = np.array([step["values"]], dtype=float)
    return Step(step["mechanism"], values, {step["norm"]: step["stated"]}, released)


def unexpected_verdicts(table: pd.DataFrame) -> list[str]:
    """Return one line of text for each mechanism with a verdict that was not expected.

    `table` is a result of `replay_table`, whose column ``expected`` has the expected verdicts.
    """
    return [
        f"replay: {row['library']} {row['query']} {row['mechanism']}".rstrip()
        + f": {row['verdict']}, {row['expected']} was expected"
        for row in table.to_dict("records")
        if row["verdict"] != row["expected"]
    ]
