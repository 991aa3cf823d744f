"""Rank correlations and losses of a choice, by scipy, by hand, and with their intervals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.transfer import Transfer, choice_loss, rank_correlation
from dpbench.registry import ConfigError
from tests.support import rng
from tests.sweeps import Made

FAMILIES = {name: {"kind": "gaussian", "location": i} for i, name in enumerate(("sim", "a", "b"))}
ESTIMATORS = {f"e{i}": {"kind": "clipped_mean", "lower": 0, "upper": i} for i in range(1, 6)}
BUDGETS = {"pure": {"kind": "pure_dp", "epsilon": [0.5, 1]}}
TARGETS = {"targets": ["a", "b"]}
# Errors of e1 to e5 on each family; a trial's error is this number times a factor near 1.
ERRORS = {"sim": [1, 2, 3, 4, 5], "a": [1, 2, 3, 4, 5], "b": [2, 1, 6, 3, 9]}


def made(**sections: Any) -> Made:
    return Made(families=FAMILIES, estimators=ESTIMATORS, budgets=BUDGETS, trials=200, **sections)


def errors(spread: float) -> Any:
    draws = rng(3)
    return lambda row: (
        ERRORS[row.family][int(row.estimator[1]) - 1] * np.exp(spread * draws.standard_normal(200))
    )


def test_rank_correlations_are_those_of_scipy() -> None:
    one, two = (rng(seed).integers(0, 6, (8, 30)).astype(np.float64) for seed in (1, 2))
    one[0] = np.inf
    wanted = [stats.spearmanr(a, b).statistic for a, b in zip(one.T, two.T, strict=True)]
    np.testing.assert_allclose(rank_correlation(one, two), wanted, atol=1e-12)
    assert np.isnan(rank_correlation(np.ones((3, 1)), np.arange(3.0)[:, None])).all()


def test_a_loss_is_over_the_best() -> None:
    one = np.array([[1.0, 3.0], [2.0, 2.0], [3.0, 1.0]])
    two = np.array([[4.0, 4.0], [2.0, 2.0], [1.0, 1.0]])
    assert choice_loss(one, two).tolist() == [4.0, 1.0]


@pytest.mark.parametrize("metric", ["", "_rmse"])
def test_measured_numbers_without_noise(metric: str) -> None:
    order = made().judge(f"same_order{metric}", errors(1e-6), **TARGETS)
    loss = made().judge(f"no_choice_loss{metric}", errors(1e-6), **TARGETS)
    correlation = stats.spearmanr(ERRORS["sim"], ERRORS["b"]).statistic
    assert order["measured"].tolist() == pytest.approx([(1 + correlation) / 2])
    assert loss["measured"].tolist() == pytest.approx([np.sqrt(1 * 2)], rel=1e-5)
    for rows in (order, loss):
        assert rows["distribution"].tolist() == ["sim"]
        assert rows["estimator"].tolist() == ["5 estimators"]
        assert rows["low"].tolist() == pytest.approx(rows["measured"].tolist(), rel=1e-5)
    assert order["verdict"].tolist() == loss["verdict"].tolist() == ["inconsistent"]


def test_equal_orders_are_consistent() -> None:
    for theorem in ("same_order", "no_choice_loss"):
        rows = made().judge(theorem, errors(0.1), targets="a", families=["sim", "a"])
        assert rows["verdict"].tolist() == ["consistent"]
        assert rows["measured"].tolist() == pytest.approx([1.0])


def test_intervals_contain_the_measured_number() -> None:
    for theorem in ("same_order", "no_choice_loss"):
        (row,) = made().judge(theorem, errors(1.0), **TARGETS).to_dict("records")
        assert row["low"] < row["measured"] < row["high"]


def test_an_estimator_that_fails_is_the_worst_by_rmse() -> None:
    def failing(row: Any) -> Any:
        values = errors(1e-6)(row)
        if (row.family, row.estimator) == ("b", "e2"):  # else the best there
            values[0] = np.nan
        return values

    loss = made().judge("no_choice_loss_rmse", failing, **TARGETS)
    assert loss["measured"].tolist() == pytest.approx([1.0], rel=1e-5)


PARTS = {
    "most": {"n": [100], "trials": 50},
    "rest": {"n": [200], "trials": 50, "families": ["sim", "a"]},
}
UNEVEN = {
    "most": {"n": [100], "trials": 50, "estimators": ["e1", "e2", "e4", "e5"]},
    "rest": {"n": [100], "trials": 50, "families": ["a"], "estimators": ["e3"]},
}


@pytest.mark.parametrize(
    ("sections", "options", "line"),
    [
        ({}, {"targets": "*"}, "claims.c.targets: ['*']: the claim needs sources and targets"),
        ({}, {"targets": "c"}, "claims.c.targets: 'c'"),
        ({}, {"estimators": "e1"}, "claims.c.estimators: an order needs the same two or more"),
        ({"parts": UNEVEN}, {}, "claims.c.estimators: an order needs the same two or more"),
        ({"parts": PARTS}, {}, "claims.c.families: they do not run at the same n and budgets"),
    ],
)
def test_claims_that_cannot_be_tested(
    sections: dict[str, Any], options: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigError) as caught:
        made(**sections).judge("same_order", errors(0.1), **{**TARGETS, **options})
    assert str(caught.value).startswith(line)


@pytest.mark.parametrize("theorem", ["same_order", "no_choice_loss"])
def test_replicates_are_centred_at_the_measured_number(theorem: str) -> None:
    """Noise biases the replicates; their arithmetic or geometric mean is moved back."""
    claim = Transfer(theorem=theorem, targets=["a"], tolerance=0.1, reason="Made up.")
    draws = np.exp(rng(5).normal(size=(3, 400)) / 10 - np.r_[0.0, np.full(399, 0.3)])
    found = claim._number(pd.DataFrame(), draws)
    mean: Any = stats.gmean if theorem == "no_choice_loss" else np.mean
    assert found[0] == pytest.approx(mean(draws[:, 0]))
    assert mean(found[1:]) == pytest.approx(found[0])
