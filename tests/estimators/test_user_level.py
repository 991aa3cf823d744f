"""Tests of the mean of people with several records each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench import ZCDP, PureDP
from dpbench.distributions import BoundedZipf, Gaussian, UserLevelData
from dpbench.estimators import UserLevelMean
from dpbench.privacy import Budget, Ledger
from dpbench.registry import ConfigError
from dpbench.testing import check_estimator
from dpbench.theory.exact.value import exact
from dpbench.theory.families import TwoPointFamily

CASES = [(2, 16, 10**6, 0.001), (6, 256, 10**6, 0.001), (4, 3, 10**8, 0.1), (3, 1, 10**5, 0.1)]


@pytest.mark.parametrize(("k", "m", "n", "epsilon"), CASES)
@pytest.mark.parametrize("notion", [PureDP, ZCDP])
def test_people_err_as_computed(
    k: float, m: int, n: int, epsilon: float, notion: type[Budget]
) -> None:
    """The share of errors below the exact 0.9 quantile is 0.9; false alarms 1e-6 over the cases.

    Noise or a clip of half the size would give another share.
    """
    budget = PureDP(epsilon) if notion is PureDP else ZCDP(epsilon**2 / 2)
    estimator = UserLevelMean(k=k, scale=1, m=m, radius=5)
    family = TwoPointFamily(k=k, c=[1], m=m, with_fair_coin=True)
    for name, law in family.members("f", n, budget).items():
        if name not in ("f/c=1", "f/coin"):
            continue
        rng = np.random.default_rng(0)
        values = estimator.run(law.sample(rng, 2000, n), Ledger(budget, rng)).value
        quantile = exact("q90", estimator, law, n, budget)
        within = int(np.count_nonzero(np.abs(values - float(law.mean)) <= quantile))
        assert stats.binomtest(within, 2000, 0.9).pvalue > 1e-6 / 16, name


def test_the_exponents_in_m() -> None:
    """The noise falls as m^(-1/2) for a light tail, and as m^-((k-1)/k) for a heavy tail."""
    budget = PureDP(1.0)

    def noise(n: int, m: int, k: float) -> float:
        return UserLevelMean(k=k, scale=1, m=m, radius=0).half_width(n, budget) / n

    light = noise(10**5, 10**6, 6) / noise(10**5, 250_000, 6)
    assert light == pytest.approx(1 / 2)
    for k in (2, 3):
        heavy = noise(10**12, 4, k) / noise(10**12, 1, k)
        assert heavy == pytest.approx(4 ** (-(k - 1) / k), rel=2e-3)
        assert noise(10**14, 1, k) / noise(10**12, 1, k) == pytest.approx(
            100 ** (-(k - 1) / k), rel=2e-3
        )


ZIPF = BoundedZipf(exponent=1.0, largest=200)


def test_a_cap_above_the_smallest_number_helps_and_a_large_one_costs_noise() -> None:
    law, rng = UserLevelData(of=Gaussian(location=3.0), m=ZIPF), np.random.default_rng(0)

    def rmse(cap: int | None) -> float:
        estimator = UserLevelMean(k=4, scale=1.4, m=1, radius=100, cap=cap)
        ledger = Ledger(PureDP(10.0), np.random.default_rng(1))
        values = estimator.run(law.sample(rng, 100, 2000), ledger).value
        return float(np.sqrt(np.mean((values - 3.0) ** 2)))

    none, some, largest = rmse(None), rmse(32), rmse(200)
    assert 1.5 * some < none < 0.03
    assert largest > 1.15 * some


def test_the_bound_of_a_contribution_continues_the_clip_of_a_mean() -> None:
    for m, k in ((1, 2), (7, 4), (400, 6)):
        estimator, budget = UserLevelMean(k=k, scale=3, m=m, radius=5), PureDP(0.1)
        mean_clip = estimator.half_width(10**5, budget)
        bound = estimator.contribution_bound(m, 10**5, budget)
        assert bound == pytest.approx(m * mean_clip)
        assert estimator.contribution_bound(2 * m, 10**5, budget) < 2 * bound


def test_most_people_are_averaged() -> None:
    """A tenth finds the range if that suffices, and half of few people."""
    estimator = UserLevelMean(k=2, scale=1, m=1, radius=5)
    assert estimator.count_averaged(10**6, PureDP(1.0)) == 900_000
    assert estimator.count_averaged(20, PureDP(0.01)) == 10
    needed = (estimator.working_records(1, PureDP(1.0)) + 1) // 2
    assert estimator.count_averaged(3 * needed, PureDP(1.0)) == 2 * needed


def test_a_cap_keeps_the_promises_on_rows_of_people() -> None:
    for cap in (2, 8):
        check_estimator(UserLevelMean(k=2, scale=1, m=1, radius=5, cap=cap), d=9)
    with pytest.raises(ConfigError, match="cap: 3: below the smallest number m = 4"):
        UserLevelMean(k=2, scale=1, m=4, radius=5, cap=3)


def test_no_exact_noise_is_stated_with_a_cap() -> None:
    law = UserLevelData(of=Gaussian(), m=ZIPF)
    estimator = UserLevelMean(k=2, scale=1, m=1, radius=5, cap=3)
    assert np.isnan(exact("noise_q90", estimator, law, 1000, PureDP(1.0)))
