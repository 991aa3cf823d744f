"""Tests of the mean of people with several records each."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench import ZCDP, PureDP
from dpbench.estimators import UserLevelMean
from dpbench.privacy import Budget, Ledger
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
    family = TwoPointFamily(k=k, c=[1], m=m, sampling=True)
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
