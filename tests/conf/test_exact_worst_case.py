"""The worst-case error of the clipped mean, computed without drawing anything."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import optimize, stats
from scipy.special import log_ndtr, ndtr

from dpbench.distributions import TwoPoint
from dpbench.estimators import TunedClippedMean
from dpbench.jobs.composition import compose
from dpbench.privacy import PureDP
from dpbench.report.study import gather_entries
from dpbench.theory.families import TwoPointFamily

BUDGET = PureDP(0.01)
C = [0.0, 0.1, 0.3, 1.0, 2.0, 3.6, 6.0, 7.4, 30.0, 100.0]
FEW = [0.0, 1.0, 2.0, 3.0, 6.0]  # of the families with a coin


@cache
def shipped() -> Any:
    """The sweep heavy_tail, to be read only."""
    return compose(["sweep=heavy_tail"])["sweep"]


def exact_q90(estimator: TunedClippedMean, law: TwoPoint, n: int) -> float:
    """The 0.9 quantile of |clipped mean + Laplace - mean|, over S ~ Binomial(n, p) rare points."""
    threshold = estimator.clipping_threshold(n, BUDGET)
    scale, spread = 2 * threshold / n / BUDGET.epsilon, np.sqrt(n * law.p * (1 - law.p))
    s = np.arange(
        max(0, np.floor(n * law.p - 10 * spread - 30)), np.ceil(n * law.p + 10 * spread) + 31
    )
    weights = stats.binom.pmf(s, n, law.p)
    common, rare = np.clip([law.location, law.location + law.tau], -threshold, threshold)
    centre = common + (rare - common) * s / n - law.mean

    def missing(x: float) -> float:
        inside = stats.laplace.cdf(x - centre, scale=scale)
        return float(weights @ (inside - stats.laplace.cdf(-x - centre, scale=scale)) - 0.9)

    return float(optimize.brentq(missing, 0.0, law.tau + 30 * scale, xtol=1e-18))


def normal_q90(estimator: TunedClippedMean, n: int) -> float:
    """The same of the coin, +-1, whose empirical mean is normal, with r = s/b of sd s and scale b:

    P(N + L > x) = Phi(-x/s) + e^(r^2/2) (e^(-x/b) Phi(x/s - r) - e^(x/b) Phi(-x/s - r))/2.
    """
    sd, b = 1 / np.sqrt(n), 2 * estimator.clipping_threshold(n, BUDGET) / n / BUDGET.epsilon
    r = sd / b

    def above(x: float) -> float:
        sides = [np.exp(r**2 / 2 - y / b + log_ndtr(y / sd - r)) for y in (x, -x)]
        return float(ndtr(-x / sd) + (sides[0] - sides[1]) / 2 - 0.05)

    return float(optimize.brentq(above, 0.0, 10 * sd + 30 * b, xtol=1e-18))


def exact_worst(estimator: TunedClippedMean, k: float, n: int, c: list[float]) -> float:
    laws = TwoPointFamily(k=k, c=c).members("f", n, BUDGET).values()
    positive = [law for law in laws if isinstance(law, TwoPoint) and law.p and law.sign > 0]
    return max(exact_q90(estimator, law, n) for law in positive)


@pytest.mark.parametrize(("k", "factor"), [(2, 1.0095), (3, 1.050), (4, 1.090), (6, 1.1065)])
def test_minimax_is_near_the_lower_bound(k: float, factor: float) -> None:
    # The README quotes these; no private estimator can be below 1.
    n, estimator = 10**8, TunedClippedMean(k=k, scale=1)
    bound = TwoPointFamily(k=k, c=C).lower_bound(n, BUDGET).value
    worst = exact_worst(estimator, k, n, C)
    assert worst / bound == pytest.approx(factor, abs=6e-4)
    # The family's members hold the worst of the continuum between them.
    between = list(np.geomspace(0.5, 30, 20))
    assert exact_worst(estimator, k, n, between) <= worst * 1.0005


@cache
def both(k: float, n: int) -> tuple[float, float]:
    """The worst error over a family with a coin, and over the lower bound."""
    family, estimator = (
        TwoPointFamily(k=k, c=FEW, with_fair_coin=True),
        TunedClippedMean(k=k, scale=1),
    )
    worst = max(exact_worst(estimator, k, n, FEW), normal_q90(estimator, n))
    return worst, worst / family.lower_bound(n, BUDGET).value


def exponent(k: float, sizes: Sequence[float]) -> float:
    errors = [both(k, int(n))[0] for n in sizes]
    return float(-1 / np.polyfit(np.log(sizes), np.log(errors), 1)[0])


@pytest.mark.parametrize("n", [10**4, 10**6])
def test_the_coin_is_normal(n: int) -> None:
    coin = TwoPointFamily(k=4, c=FEW, with_fair_coin=True).members("f", n, BUDGET)["f/coin"]
    assert isinstance(coin, TwoPoint)
    estimator = TunedClippedMean(k=4, scale=1)
    assert normal_q90(estimator, n) == pytest.approx(exact_q90(estimator, coin, n), rel=3e-5)


@pytest.mark.parametrize("k", [3, 4, 6])
def test_the_factor_is_largest_where_sampling_overtakes_privacy(k: int) -> None:
    """Noise and sampling add up most there; the sweep and docs/results.md quote this n."""
    crossing = int(TwoPointFamily(k=k, c=FEW, with_fair_coin=True).crossing(BUDGET))
    _, most = both(k, crossing)
    assert max(both(k, 10**i)[1] for i in range(4, 16, 2)) < most
    config = shipped()
    claim = gather_entries(config, "claims")[f"crossing_k{k}"]
    assert claim["predicted"] == pytest.approx(most, abs=6e-4)
    assert claim["n_min"] == claim["n_max"] == pytest.approx(crossing, rel=5e-3)
    assert config["families"]["two_regimes"]["c"] == FEW


def test_what_finite_n_leaves_of_the_two_regimes() -> None:
    """The reasons of the sweep's tolerances, at its sample sizes."""
    sizes = shipped()["parts"]["two_regimes"]["n"]
    reasons = (
        (2, 1e5, 1e15, 2.00), (3, 1e5, 4.7e6, 1.50), (4, 1e4, 5e5, 1.30), (6, 1e4, 1e5, 1.19),
        (3, 1e13, 1e15, 1.99),
    )  # fmt: skip
    for k, low, high, wanted in reasons:
        inside = [n for n in sizes if low <= n <= high]
        assert exponent(k, inside) == pytest.approx(wanted, abs=0.006)
    late = [both(3, int(n))[1] for n in sizes if n >= 1e13]
    assert np.exp(np.mean(np.log(late))) == pytest.approx(1.008, abs=1e-3)
    assert both(6, 10**15)[1] == pytest.approx(1, abs=4e-4)
