"""Columns under one budget: sensitivities by enumeration, the best shares, and exact noise."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize

from dpbench.distributions import Hypercube, MultivariateGaussian
from dpbench.estimators import ClippedMean, ColumnsClippedMean, CoordinateWise
from dpbench.estimators.columns import best_shares
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Tape
from dpbench.registry import ConfigError
from dpbench.samples import DenseSample
from dpbench.testing import check_estimator
from dpbench.theory.exact.columns import column_variances
from dpbench.theory.exact.value import exact
from tests.support import Floats, name, rng, run

BUDGETS = [PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6), ApproxDP(1.0, 0.2)]
SPLITS = ["equal", "sensitivity", "norm"]
LOWER, UPPER = [-1.0, 0.0, 5.0], [1.0, 10.0, 5.5]


def columns(split: Any, **more: Any) -> ColumnsClippedMean:
    return ColumnsClippedMean(lower=LOWER, upper=UPPER, split=split, **more)


@pytest.mark.parametrize("split", SPLITS)
def test_the_check_of_estimators(split: Any) -> None:
    check_estimator(columns(split), d=3)
    check_estimator(ColumnsClippedMean(lower=-1, upper=2, split=split), budgets=BUDGETS[:1])


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 0.2)], ids=name)
def test_sensitivities_by_enumeration(split: Any, budget: Budget) -> None:
    """Over all datasets of two records, the inputs of each mechanism move by what is stated."""
    ends = [(low - 1, high + 1) for low, high in zip(LOWER, UPPER, strict=True)]
    points = np.array(list(itertools.product(*ends)))
    pairs = np.array(list(itertools.product(range(len(points)), repeat=2)))
    tape = Tape()
    sample = DenseSample(points[pairs])
    columns(split).run(sample, Ledger(budget, rng(), tape=tape))
    left, right = np.nonzero((pairs[:, None] != pairs[None]).sum(axis=2) == 1)
    steps = [step for step in tape.steps if step.mechanism != "pay"]
    assert len(steps) == (1 if split == "norm" else 3)
    for step in steps:
        moves = (step.values[left] - step.values[right]).reshape(len(left), -1)
        for norm, stated in step.sensitivity.items():
            order = {"l1": 1, "l2": 2, "box": np.inf}[norm]
            largest = np.linalg.norm(moves, ord=order, axis=1).max()
            assert largest == pytest.approx(float(np.max(stated)), rel=1e-12)


@pytest.mark.parametrize("budget", BUDGETS[:4], ids=name)
def test_no_search_finds_better_shares(budget: Budget) -> None:
    """Minimise the sum of the noise variances over the shares, by the noise of the budget."""
    moves = np.array([0.2, 1.0, 7.0])

    def total(logits: Floats) -> float:
        shares = np.exp(logits) / np.exp(logits).sum()
        parts = [budget.fraction(float(share)) for share in shares]
        quantiles = np.array([part.noise_quantile(0.1) for part in parts])
        return float(((moves * quantiles) ** 2).sum())

    found = minimize(total, np.zeros(3), method="Nelder-Mead", options={"xatol": 1e-7, "fatol": 0})
    shares = np.exp(found.x) / np.exp(found.x).sum()
    assert shares == pytest.approx(best_shares(budget, moves), rel=1e-4)
    assert best_shares(budget, 1e300 * moves / 7) == pytest.approx(best_shares(budget, moves))


def test_units_decide_what_is_large() -> None:
    for budget in BUDGETS:
        in_widths = columns("sensitivity", units=[2.0, 10.0, 0.5]).shares(3, budget)
        assert in_widths == pytest.approx(columns("equal").shares(3, budget)) == [1 / 3] * 3
    assert columns("sensitivity").shares(3, ZCDP(1.0)) == pytest.approx(
        np.array([2, 10, 0.5]) / 12.5
    )
    # an error of 4 in the first column counts as an error of 1 in the others
    weighted = columns("sensitivity", units=[4.0, 1.0, 1.0]).shares(3, GDP(1.0))
    assert weighted == pytest.approx(np.array([0.5, 10, 0.5]) / 11)


@pytest.mark.parametrize("split", SPLITS)
@pytest.mark.parametrize("budget", BUDGETS, ids=name)
def test_the_noise_has_its_exact_variance(split: Any, budget: Budget) -> None:
    trials, n, law = 40_000, 5, Hypercube(d=3, length=0.1)
    lower, upper = [-1.0, -10.0, -0.25], [1.0, 10.0, 0.25]
    estimator = ColumnsClippedMean(lower=lower, upper=upper, split=split)
    ran = estimator.run(law.sample(rng(), trials, n), Ledger(budget, rng(1)))
    noise = ran.value - ran.before_noise
    moves = (np.array(upper) - lower) / n
    variances = column_variances(split, moves, np.ones(3), budget)
    assert (noise**2).mean(axis=0) == pytest.approx(variances, rel=6 * np.sqrt(5 / trials))
    assert exact("rmse", estimator, law, n, budget) == pytest.approx(np.sqrt(variances.sum()))


def test_the_closed_forms_of_the_docstring() -> None:
    d, moves, rho, epsilon = 3, np.array([0.2, 1.0, 7.0]), 0.3, 2.0
    square, ones = float(moves @ moves), np.ones(3)

    def total(split: str, budget: Budget) -> float:
        return float(column_variances(split, moves, ones, budget).sum())

    pure, gauss = PureDP(epsilon), ZCDP(rho)
    assert total("equal", pure) == pytest.approx(2 * d**2 * square / epsilon**2)
    by_thirds = 2 * (moves ** (2 / 3)).sum() ** 3 / epsilon**2
    assert total("sensitivity", pure) == pytest.approx(by_thirds)
    assert total("norm", pure) == pytest.approx((d + 1) * (d + 2) / 3 * square / epsilon**2)
    assert total("equal", gauss) == pytest.approx(d * square / (2 * rho))
    assert total("sensitivity", gauss) == pytest.approx(moves.sum() ** 2 / (2 * rho))
    for split in SPLITS:
        assert total(split, gauss) == pytest.approx(total(split, GDP(np.sqrt(2 * rho))))
    assert total("norm", gauss) == pytest.approx(total("equal", gauss))


def test_one_noise_for_the_row_is_private_on_the_worst_pair() -> None:
    """The log-density of the noise of a cube changes by n epsilon times the move in max norm."""
    trials, n, epsilon = 200_000, 2, 1.0
    estimator = ColumnsClippedMean(lower=[0, 0], upper=[1, 100], split="norm")
    left = np.zeros((trials, n, 2))
    right = left.copy()
    right[:, 0] = [1.0, 100.0]
    ran = [
        run(estimator, data, PureDP(epsilon), seed).value for seed, data in enumerate((left, right))
    ]
    # The events with the largest ratio of probabilities: all coordinates are far below or above.
    for events in ([x < [0, 0] for x in ran], [x > [0.5, 50] for x in ran]):
        low, high = sorted(event.all(axis=1).mean() for event in events)
        assert np.log(high / low) == pytest.approx(epsilon, abs=0.05)


def test_equal_shares_of_equal_columns_are_coordinate_wise() -> None:
    data = rng(3).normal(size=(2, 30, 3))
    budget = ZCDP(0.5)
    ours = run(ColumnsClippedMean(lower=-1, upper=1), data, budget)
    other = run(CoordinateWise(base=ClippedMean(lower=-1, upper=1)), data, budget)
    np.testing.assert_allclose(ours.before_noise, other.before_noise)


def test_what_has_no_exact_error() -> None:
    wide = ColumnsClippedMean(lower=-9, upper=9)
    law = MultivariateGaussian(d=3, norm=1.0)
    sampling = exact("rmse", wide, law, 100, PureDP(1e6))
    assert sampling == pytest.approx(np.sqrt(3 / 100), rel=1e-3)
    assert np.isnan(exact("q90", wide, law, 100, PureDP(1.0)))
    for lower, upper in ((-1, 9), (-9, 1)):
        narrow = ColumnsClippedMean(lower=lower, upper=upper)
        assert np.isnan(exact("rmse", narrow, law, 100, PureDP(1.0)))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"lower": [0.0, 0.0]}, r"lower, upper and units list \[2, 3\] columns"),
        ({"units": []}, r"list \[0, 3\] columns"),
        ({"upper": [1.0, 0.0, 6.0]}, "upper must exceed lower"),
        ({"split": "even"}, "split: 'even'"),
        ({"units": 0.0}, "units"),
    ],
)
def test_parameters_that_do_not_fit(changed: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        ColumnsClippedMean(**{"lower": LOWER, "upper": UPPER, **changed})


def test_records_of_other_columns_are_refused() -> None:
    for data in (np.zeros((1, 4, 2)), np.zeros((1, 4))):
        ledger = Ledger(PureDP(1.0), rng())
        with pytest.raises(ValueError, match=r"lower: bounds of 3 columns, but records have [12]"):
            columns("equal").run(DenseSample(data), ledger)
        assert not any(ledger.spent)
