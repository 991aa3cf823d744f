"""The debiased score: mean and shift by quadrature, bias, and distance from the lower bound."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy import integrate, special, stats

from dpbench.distributions import Gaussian
from dpbench.estimators import GaussianScoreMean, gaussian_score
from dpbench.estimators.gaussian_score import mean_score, shift_of
from dpbench.privacy import GDP, ZCDP, Budget, Ledger, PureDP
from dpbench.theory.bounds.class_bound import class_bound
from dpbench.theory.exact.score import _score_moments
from dpbench.theory.exact.value import exact
from tests.support import FALSE_ALARM, Floats, run


@pytest.mark.parametrize("t", [0.1, 1.0, 7.0])
def test_the_mean_score_and_its_inverse(t: float) -> None:
    y = np.array([-9.0, -1.3, -0.02, 0.0, 0.4, 3.0])
    for centre, score in zip(y, mean_score(y, t), strict=True):
        ends = sorted({-40.0, 40.0, -t, t, centre})
        pieces = [
            integrate.quad(lambda x: np.clip(x, -t, t) * stats.norm.pdf(x - centre), *interval)[0]  # noqa: B023
            for interval in itertools.pairwise(ends)
        ]
        assert score == pytest.approx(sum(pieces), abs=1e-10)
    near = y[np.abs(y) < t + 3]
    assert shift_of(mean_score(near, t), t, 10.0) == pytest.approx(near, abs=1e-9)
    beyond = np.array([-2 * t, 2 * t, np.nan])
    assert shift_of(beyond, t, 4.0) == pytest.approx([-4.0, 4.0, np.nan], nan_ok=True)


@pytest.mark.parametrize("t", [0.3, 2.0])
def test_moments_of_a_clipped_record(t: float) -> None:
    """Compare with sums over the three pieces of the clipped law, with a truncated normal one."""
    y = np.array([-1.7, 0.0, 0.4, 3.0])
    inside = stats.truncnorm(-t - y, t - y, loc=y)
    below, above = stats.norm.cdf(-t - y), stats.norm.sf(t - y)
    mean, square = (
        (-t) ** k * below + t**k * above + (1 - below - above) * inside.moment(k) for k in (1, 2)
    )
    found = _score_moments(y, t)
    assert found[0] == pytest.approx(mean, abs=1e-3)
    assert found[1] == pytest.approx(square - mean**2, abs=1e-3)


def test_a_centre_that_is_off_leaves_no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mean error is 0 by a z-test with false-alarm probability 1e-6.

    A correction by the slope in place of h^-1 would be 20 standard deviations off.
    """

    def given(sample: Any, *args: Any) -> Floats:
        args[-1].pay()
        return np.full(sample.trials, 7.0)

    monkeypatch.setattr(gaussian_score, "private_quantile", given)
    sigma, mean, n = 3.0, 10.0, 2000
    records = np.random.default_rng(0).normal(mean, sigma, (500, n))
    values = run(GaussianScoreMean(radius=20.0, sigma=sigma), records, GDP(0.3)).value
    z = (values.mean() - mean) / (values.std() / np.sqrt(values.size))
    assert abs(z) < stats.norm.isf(FALSE_ALARM / 2)
    assert values.std() < 0.3


def test_what_cannot_be_inverted_stays_near_the_centre(monkeypatch: pytest.MonkeyPatch) -> None:
    def far(self: Ledger, values: Floats, sensitivity: Any) -> Floats:
        self.pay()
        return np.asarray(values + np.array([-50.0, 50.0]))

    monkeypatch.setattr(Ledger, "add_noise", far)
    e, n, budget = GaussianScoreMean(radius=5.0, sigma=1, share=0.25), 2000, PureDP(2.0)
    found = run(e, np.zeros((2, n)), budget).value
    reach = e.half_width(n, budget.fraction(0.75)) + np.sqrt(2 * np.log(20 * n))
    assert found == pytest.approx([-reach, reach], abs=0.2)


def test_the_centre_has_what_it_needs() -> None:
    """The default share makes f at most beta/10, or is a half.

    f = 2 (R + t) e^(-n epsilon/4)/(0.2 sigma) with beta/10 = 0.01.
    """
    e, n = GaussianScoreMean(radius=1e6, sigma=2.0), 2000
    reach = 1e6 + 2 * np.sqrt(2 * np.log(20 * n))
    pure, zcdp = (e.centre_share(n, budget) for budget in (PureDP(0.1), ZCDP(0.01)))
    for epsilon in (0.1 * pure, np.sqrt(8 * 0.01 * zcdp)):
        missed = 2 * reach * np.exp(-n * epsilon / 4) / 0.4
        assert 0.005 < missed <= 0.01
    assert e.centre_share(20, PureDP(1.0)) == 0.5


def factor(n: int, budget: Budget, radius: float) -> float:
    """Return the exact 0.9 quantile of the error over the lower bound."""
    law = Gaussian()
    error = exact("q90", GaussianScoreMean(radius=radius, sigma=1), law, n, budget)
    return error / class_bound(law, n, budget).value


@pytest.mark.parametrize(("epsilon", "radius"), [(0.01, 1e6), (0.1, 10.0), (1.0, 1e6)])
def test_the_error_is_within_a_factor_of_the_bound(epsilon: float, radius: float) -> None:
    """Use exact errors, which `tests/theory/exact/test_value.py` compares with trials."""
    least = {10.0: 300, 1e6: 700}[radius] / epsilon
    sizes = [int(n) for n in (least, 10 * least, 1e6) if n <= 1e6]
    for budget in (PureDP(epsilon), GDP(epsilon)):
        assert max(factor(n, budget, radius) for n in sizes) < 2
    assert factor(10**6, PureDP(epsilon), radius) < 1.15


@pytest.mark.parametrize("budget", [PureDP(0.3), GDP(2.0)], ids=["pure", "gdp"])
def test_the_clip_minimises_the_error_by_quadrature(budget: Budget) -> None:
    """Compute the variance of a clipped normal by an integral; the grid of T has steps of 0.5%.

    The error is flat at its minimum, so the chosen T is compared by its error, with every T of a
    finer grid. Without the tail term of the variance, T is a third too small under GDP, and the
    error 2% above the minimum.
    """
    n, e = 400, GaussianScoreMean(radius=5.0, sigma=1)
    z, q = stats.norm.isf(e.beta / 2), budget.noise_quantile(e.beta)

    def error(t: float) -> float:
        inside = integrate.quad(lambda x: x**2 * math.exp(-(x**2) / 2), 0, t)[0]
        tail = special.ndtr(-t)
        variance = 2 * (inside / math.sqrt(2 * math.pi) + t**2 * tail)
        slope = 1 - 2 * tail
        return float(np.hypot(z * np.sqrt(variance / n), 2 * t * q / n) / slope)

    least = min(error(t) for t in np.geomspace(0.1, 6.0, 2000))
    assert error(e.half_width(n, budget)) == pytest.approx(least, rel=1e-5)
