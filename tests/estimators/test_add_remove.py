"""Means with n private: their constants, and that Gaussian noise makes them the same."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from support import Floats

from dpbench import release
from dpbench.distributions import Bernoulli, Distribution, Pareto
from dpbench.estimators import Estimator, SumAndCountMean, TransformedNoiseMean
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.theory.exact import exact
from dpbench.theory.exact_ratio import laplaces_above

AR: dict[str, Any] = {"neighbours": "add_remove"}
BOTH: list[Estimator] = [TransformedNoiseMean(), SumAndCountMean()]


def rng() -> np.random.Generator:
    return np.random.default_rng(0)


@pytest.mark.parametrize("estimator", BOTH, ids=lambda one: type(one).__name__)
@pytest.mark.parametrize("lower", [0.0, -3.0, 1e6])
def test_without_noise_it_is_the_clipped_mean(estimator: Estimator, lower: float) -> None:
    data = lower + np.array([-5.0, 0.5, 1.0, 1.5, 9.0])  # to [0, 2]
    wide = type(estimator)(lower=lower, upper=lower + 2)  # type: ignore[call-arg]
    value = release(wide, data, PureDP(1e6, **AR), rng=rng())
    assert value == pytest.approx(lower + 1.0, abs=1e-4)


@pytest.mark.parametrize("estimator", BOTH, ids=lambda one: type(one).__name__)
def test_a_release_is_between_the_bounds(estimator: Estimator) -> None:
    few = np.asarray(release(estimator, np.ones(2), PureDP(0.1, **AR), rng=rng(), repeats=1000))
    assert few.min() == 0
    assert few.max() == 1
    # Both sums are below 0 with probability 1/4 e^(-0.2): the middle.
    middle = np.mean(few == 0.5)
    if isinstance(estimator, TransformedNoiseMean):
        assert middle == pytest.approx(np.exp(-0.2) / 4, abs=0.07)  # 5 standard deviations


def test_no_bounds_the_wrong_way_round() -> None:
    with pytest.raises(ValueError, match="upper must exceed lower"):
        TransformedNoiseMean(lower=1.0, upper=1.0)


@pytest.mark.parametrize("m", [0.1, 0.3, 0.5])
def test_the_exact_error_tends_to_the_published_constants(m: float) -> None:
    n, epsilon = 10**10, 1e-7
    law, budget = Bernoulli(p=m), PureDP(epsilon, **AR)
    first, second = ((n * epsilon * exact("rmse", e, law, n, budget)) ** 2 for e in BOTH)
    assert first == pytest.approx(2 * (m**2 + (1 - m) ** 2), rel=2e-4)
    assert second == pytest.approx(2 + 8 * (m - 0.5) ** 2, rel=2e-4)
    assert second == pytest.approx(2 * first, rel=2e-4)
    one, other = (exact("rmse", e, law, 10**8, ZCDP(2e-10, **AR)) for e in BOTH)
    assert one == pytest.approx(other, rel=1e-6)  # S and T, turned
    first_order = np.sqrt(((m**2 + (1 - m) ** 2) / 4e-10 / 1e8 + m * (1 - m)) / 1e8)
    assert one == pytest.approx(first_order, rel=1e-3)


@pytest.mark.parametrize(("a", "c"), [(1.0, 0.3), (1.0, 1.0), (0.2, 5.0), (1.0, 1 + 1e-9), (2, 0)])
def test_the_tail_of_a_sum_of_two_laplaces(a: float, c: float) -> None:
    """By integrating P(X > t - y) over the density of Y."""
    for t in (-3.0, 0.0, 0.4, 6.0):

        def above(y: float, t: float = t) -> float:
            z = t - y * c
            tail = np.exp(-abs(z) / a) / 2
            return float((tail if z > 0 else 1 - tail) * np.exp(-abs(y)) / 2)

        breaks = sorted({0.0, t / c if c else 0.0})
        ends = [-60.0, *breaks, 60.0]
        by_parts = sum(quad(above, *end)[0] for end in itertools.pairwise(ends))
        found = laplaces_above(np.array(t), np.array(a), np.array(c))
        assert found == pytest.approx(by_parts, abs=1e-8)


CASES: list[tuple[Distribution, Budget]] = [
    (Bernoulli(p=0.1), PureDP(1.0, **AR)), (Bernoulli(p=1.0), PureDP(1.0, **AR)),
    (Bernoulli(p=0.3), ZCDP(0.1, **AR)), (Bernoulli(p=0.3), GDP(0.5, **AR)),
    (Bernoulli(p=0.5), ApproxDP(1.0, 1e-4, **AR)),
]  # fmt: skip


@pytest.mark.parametrize(("law", "budget"), CASES)
@pytest.mark.parametrize("estimator", BOTH, ids=lambda one: type(one).__name__)
def test_the_exact_error_is_measured(
    estimator: Estimator, law: Distribution, budget: Budget
) -> None:
    """Few records, where the first order is not enough; false alarms below 1e-6 (5.5 se)."""
    n, trials = 80, 40_000
    sample = law.sample(np.random.default_rng(1), trials, n)
    error: Floats = np.abs(estimator.run(sample, Ledger(budget, rng())).value - law.target)
    for metric, power in (("mean_error", 1), ("rmse", 2)):
        powers = error**power
        se = powers.std() / np.sqrt(trials)
        found = exact(metric, estimator, law, n, budget) ** power
        assert abs(powers.mean() - found) < 5.5 * se, metric
    above = np.mean(error > exact("q90", estimator, law, n, budget))
    assert above == pytest.approx(0.1, abs=5.5 * np.sqrt(0.09 / trials))


def test_what_has_no_exact_error() -> None:
    law, budget = Bernoulli(p=0.5), PureDP(1.0, **AR)
    for metric in ("noise_q90", "private_q90", "q50"):
        assert np.isnan(exact(metric, BOTH[0], law, 100, budget))
    assert np.isnan(exact("rmse", BOTH[1], law, 20, budget))  # the count may be below 1
    assert np.isnan(exact("rmse", BOTH[1], law, 100, PureDP(1.0, "staircase", **AR)))
    assert np.isnan(exact("rmse", BOTH[0], Pareto(tail_index=1.5), 100, budget))
    assert np.isnan(exact("rmse", BOTH[0], law, 100, PureDP(1.0)))
