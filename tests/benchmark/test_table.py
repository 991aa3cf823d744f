"""Files of scores."""

from __future__ import annotations

import math
from dataclasses import replace
from pathlib import Path
from typing import Literal

import pandas as pd
import pytest

from dpbench.benchmark.entries import catalogue_entries
from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.table import COLUMNS, Scores


def test_scores_of_another_problem_are_refused(entry_folder: Path) -> None:
    benchmark = read_benchmark()
    entry = next(catalogue_entries())
    row: dict[str, object] = dict.fromkeys(COLUMNS, 0.0)
    row |= {"entry": "wide_clip", "problem": benchmark.problems[0].id, "digest": "0" * 12}
    scores = Scores(pd.DataFrame([row]), {"wide_clip": entry.card}, {"benchmark": benchmark.name})
    scores.write(entry_folder / "mine.parquet")
    with pytest.raises(ValueError, match="another problem than that of dpbench-mean-v2"):
        Scores.read(entry_folder / "mine.parquet", benchmark)


def scores(chances: list[float], division: Literal["declared", "open"] = "declared") -> Scores:
    """Scores of one entry with these chances."""
    rows = pd.DataFrame({"entry": "one", "problem": [str(i) for i in range(len(chances))]})
    card = replace(next(catalogue_entries()).card, name="one", division=division)
    return Scores(rows.assign(chance=chances), {"one": card}, {})


def test_scores_that_are_added_replace_those_of_their_entries() -> None:
    both = scores([0.1, 0.2])
    other = replace(both, rows=both.rows.assign(entry="two"), cards={"two": both.cards["one"]})
    merged = both.add(other).add(scores([0.9]))
    assert merged.rows["entry"].tolist() == ["two", "two", "one"]
    assert merged.rows["chance"].tolist() == [0.1, 0.2, 0.9]
    assert set(merged.cards) == {"one", "two"}


def test_a_row_below_the_bound_is_left_out() -> None:
    found = scores([0.9e-4, 1.1e-4, 0.5])
    assert found.is_below.tolist() == [True, False, False]
    assert found.ranked["problem"].tolist() == ["1", "2"]
    assert not scores([1e-9], "open").is_below.any()


@pytest.mark.parametrize(("low", "others"), [(3, 0), (4, 3), (5, 0), (9, 11), (19, 45)])
def test_many_rows_that_are_hardly_below_are_so_together(low: int, others: int) -> None:
    """The probability of so many, added up by hand."""
    found = scores([0.04] * low + [0.6] * others)
    total = low + others
    chance = sum(math.comb(total, c) * 0.05**c * 0.95 ** (total - c) for c in range(low, total + 1))
    assert found.joint_chance["one"] == pytest.approx(chance)
    assert found.is_below.all() == found.is_below.any() == (chance < 1e-6)
