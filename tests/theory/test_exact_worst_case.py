"""The worst-case error of the clipped mean, computed without drawing anything."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import optimize, stats

from dpbench.distributions import TwoPoint
from dpbench.estimators import HeavyTailedMean
from dpbench.privacy import PureDP
from dpbench.theory.families import TwoPointFamily

BUDGET = PureDP(0.01)
C = [0.0, 0.1, 0.3, 1.0, 2.0, 3.0, 10.0, 30.0, 100.0]


def exact_q90(estimator: HeavyTailedMean, law: TwoPoint, n: int) -> float:
    """The 0.9 quantile of |min(tau, T) S/n + Laplace - p tau|, S ~ Binomial(n, p)."""
    threshold = estimator.clipping_threshold(n, BUDGET)
    scale, mean = 2 * threshold / n / BUDGET.epsilon, law.p * law.tau
    reach = 10 * np.sqrt(n * law.p) + 30
    s = np.arange(max(0, np.floor(n * law.p - reach)), np.ceil(n * law.p + reach) + 1)
    weights = stats.binom.pmf(s, n, law.p)
    centre = min(law.tau, threshold) * s / n - mean

    def missing(x: float) -> float:
        inside = stats.laplace.cdf(x - centre, scale=scale)
        return float(weights @ (inside - stats.laplace.cdf(-x - centre, scale=scale)) - 0.9)

    return float(optimize.brentq(missing, 0.0, mean + 30 * scale))


def exact_worst(estimator: HeavyTailedMean, k: float, n: int, c: list[float]) -> float:
    laws = TwoPointFamily(k=k, c=c).members("f", n, BUDGET).values()
    positive = [law for law in laws if isinstance(law, TwoPoint) and law.p and law.sign > 0]
    return max(exact_q90(estimator, law, n) for law in positive)


@pytest.mark.parametrize(("k", "factor"), [(2, 1.019), (3, 1.050), (4, 1.096), (6, 1.174)])
def test_minimax_is_near_the_lower_bound(k: float, factor: float) -> None:
    # The README quotes these; no private estimator can be below 1.
    n, estimator = 10**8, HeavyTailedMean(k=k)
    bound = TwoPointFamily(k=k, c=C).lower_bound(n, BUDGET)
    worst = exact_worst(estimator, k, n, C)
    assert worst / bound == pytest.approx(factor, abs=6e-4)
    # The family's members hold the worst of the continuum between them.
    between = list(np.geomspace(0.5, 30, 20))
    assert exact_worst(estimator, k, n, between) <= worst * 1.0005
