"""Standings within classes of problems, by hand."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from dpbench.benchmark.compare import PANELS, tabulate_classes
from dpbench.benchmark.leaderboard import Standing, group_by_class, standings
from dpbench.benchmark.problems import read_benchmark

MEAN_BENCHMARK = read_benchmark()
# Two problems of one class, three of another.
FEW = MEAN_BENCHMARK.select("local-moments2-*,local-moments4-*,local-binary-*")
MOMENTS = ["local-moments2-n30000-pure1", "local-moments4-n30000-pure1"]
COIN = "local-binary-n3000-pure1"


def scored(entry: str, **scores: float) -> pd.DataFrame:
    """Rows of an entry; every replicate of a score is the score."""
    ids = {"a": MOMENTS[0], "b": MOMENTS[1], "coin": COIN}
    rows = [
        {"entry": entry, "problem": ids[name], "score": score, "draws": np.full(3, score),
         "failure_rate": 0.0, "seconds": 1.0}
        for name, score in scores.items()
    ]  # fmt: skip
    return pd.DataFrame(rows)


@pytest.fixture
def found() -> dict[str, list[Standing]]:
    """Two complete entries, one better by far on half, one of the open division, one that fails."""
    rows = pd.concat([
        scored("whole", a=2, b=8, coin=3),
        scored("second", a=3, b=6.75),
        scored("half", b=1.5),
        scored("seer", a=2, b=2),
        scored("failing", a=1, b=math.inf),
    ])  # fmt: skip
    divisions = dict.fromkeys(("whole", "second", "half", "failing"), "declared")
    return standings(rows, FEW.problems, {**divisions, "seer": "open"})


def test_only_equal_sets_of_problems_are_ranked(found: dict[str, list[Standing]]) -> None:
    moments = {one.entry: one for one in found["local, bounded moments"]}
    assert list(moments) == ["whole", "second", "failing", "seer", "half"]
    assert [one.rank for one in moments.values()] == [1, 2, 3, None, None]
    assert moments["whole"].mean == pytest.approx(4)
    assert moments["second"].mean == pytest.approx(4.5)
    assert math.isinf(moments["failing"].mean)
    half = moments["half"]
    assert (half.answers, half.problems) == (1, 2)
    assert half.mean == pytest.approx(1.5)
    assert half.rival == pytest.approx(6.75)  # of the ranked entries, on this problem alone
    assert moments["seer"].rival == pytest.approx(4)
    (coin,) = found["local, binary"]
    assert (coin.answers, coin.problems, coin.rank) == (1, 3, None)
    assert math.isnan(coin.rival)


def test_an_interval_has_the_spread_of_its_replicates_and_the_mean() -> None:
    rows = scored("one", a=2, b=8)
    draws = [np.full(41, 3.0), np.linspace(8, 9, 41)]  # a bootstrap that tends upwards
    rows["draws"] = pd.Series(draws, dtype=object)
    one = standings(rows, FEW.problems, {"one": "declared"})["local, bounded moments"][0]
    assert one.low == pytest.approx(4)
    assert one.high == pytest.approx((3 * 8.975) ** 0.5)


def test_classes_divide_the_problems_and_the_panels() -> None:
    """Every class lies in one panel of the profiles, and has the problems of one knowledge."""
    groups = group_by_class(MEAN_BENCHMARK.problems)
    assert sum(map(len, groups.values())) == len(MEAN_BENCHMARK.problems) == 65
    sizes = {name: len(problems) for name, problems in groups.items()}
    assert sizes["Gaussian"] == 16
    assert sizes["binary, n private"] == 5
    assert sizes["vectors, bounded moments"] == 4
    for problems in groups.values():
        panels = {
            tuple(name for name, belongs in PANELS.items() if belongs(one)) for one in problems
        }
        assert len(panels) == 1
        assert len({(one.d, one.local, one.known.records) for one in problems}) == 1
        assert len({one.budget.neighbours for one in problems}) == 1


def test_the_printed_table(found: dict[str, list[Standing]]) -> None:
    leaders = tabulate_classes(found)
    assert [row["estimator"] for row in leaders if isinstance(row, dict)] == ["whole", "whole"]
    head, row, *rest = tabulate_classes(found, ["half"])
    assert head == "local, bounded moments; leader: whole, 4"
    assert row == {
        "estimator": "half", "answers": "1 of 2", "mean": "1.5", "best": "6.75", "rank": "-",
    }  # fmt: skip
    assert not rest
    assert tabulate_classes(found, ["whole"])[0] == "local, binary; leader: none"


def test_a_standing_by_hand() -> None:
    rows = scored("one", a=2, b=8).assign(failure_rate=[0.1, 0.3], seconds=[1.0, 4.0])
    one = standings(rows, FEW.problems, {"one": "declared"})["local, bounded moments"][0]
    assert (one.answers, one.largest, one.seconds) == (2, 8, 2.5)
    assert one.failure_rate == pytest.approx(0.2)
