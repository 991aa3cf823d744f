"""Conversions between notions of privacy, by independent methods."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad
from scipy.special import log_ndtr, ndtri_exp

from dpbench.privacy import GDP, ZCDP, ApproxDP
from dpbench.privacy.conversions import (
    analytic_sd,
    gaussian_delta,
    mu_of_pure,
    pure_of_mu,
    pure_of_rho,
    rho_of_pure,
)  # fmt: skip
from tests.support import Floats


def phi(x: Decimal) -> Decimal:
    """Return Phi to 60 digits, by its series."""
    z = x / Decimal(2).sqrt()
    term, total, k = z, z, 0
    while abs(term) > Decimal(10) ** -60:
        k += 1
        term = -term * z * z / k
        total += term / (2 * k + 1)
    pi = Decimal("3.14159265358979323846264338327950288419716939937510582097494")
    return Decimal("0.5") + total / pi.sqrt()


@pytest.mark.parametrize("sd", [0.3, 1.0, 10.5, 50.0, 1e3, 1e5])
@pytest.mark.parametrize("deviations", [0.01, 1.0, 8.0, 30.0])
def test_delta_is_an_integral_over_epsilon(sd: float, deviations: float) -> None:
    """d delta/d epsilon = -e^epsilon Phi(-epsilon sd - 1/(2 sd)), so that no terms cancel."""
    epsilon = deviations / sd

    def density(x: float) -> float:  # in units of 1/sd
        t = epsilon + x / sd
        return math.exp(t + log_ndtr(-t * sd - 1 / (2 * sd))) / sd

    ends = [0.0, *np.geomspace(1e-3, 60, 12)]
    delta = sum(quad(density, *piece, epsabs=0)[0] for piece in itertools.pairwise(ends))
    assert gaussian_delta(sd, epsilon) == pytest.approx(delta, rel=1e-7, abs=1e-300)


@pytest.mark.parametrize(
    ("epsilon", "delta"), [(1e-12, 1e-12), (1e-12, 1e-6), (1e-9, 1e-9), (1e-8, 1e-14)]
)
def test_a_tiny_budget_needs_just_so_much_noise(epsilon: float, delta: float) -> None:
    with localcontext(prec=70):
        sd, e = Decimal(analytic_sd(epsilon, delta)), Decimal(epsilon)
        found = phi(1 / (2 * sd) - e * sd) - e.exp() * phi(-1 / (2 * sd) - e * sd)
    assert float(found) == pytest.approx(delta, rel=1e-10)


@pytest.mark.parametrize("epsilon", [1e-12, 1e-10, 1e-8])
@pytest.mark.parametrize("delta", [1e-300, 1e-250, 1e-200])
def test_a_tiny_budget_of_a_delta_next_to_none(epsilon: float, delta: float) -> None:
    """Compare with the asymptotic series of 1 - z (1 - Phi(z))/phi(z), at z = epsilon sd.

    Because e^epsilon phi(b) = phi(a), delta is phi(a) times the integral of this function from -a
    to -b, of length 1/sd.
    """
    sd = analytic_sd(epsilon, delta)
    z = epsilon * sd
    series = sum((-1) ** k * math.prod(range(1, 2 * k + 2, 2)) / z ** (2 * k + 2) for k in range(8))
    log_phi = -(z**2) / 2 - math.log(2 * math.pi) / 2
    found = math.exp(log_phi - math.log(delta)) * series / sd
    assert found == pytest.approx(1, rel=1e-7)


def smallest_epsilon(rho: float, delta: float) -> float:
    """Return the epsilon that rho-zCDP implies, minimised over a grid of orders a to 1e-5."""
    a = 1 + np.exp(np.linspace(-15, 35, 50_001))
    return float((rho * a - (np.log(a) + math.log(delta)) / (a - 1) + np.log1p(-1 / a)).min())


@pytest.mark.parametrize("rho", [1e-8, 0.01, 1.0, 1e4])
@pytest.mark.parametrize("delta", [1e-12, 0.5])
def test_zcdp_to_approx_is_the_minimum_over_orders(rho: float, delta: float) -> None:
    found = ZCDP(rho).to_approx(delta).epsilon
    assert found == pytest.approx(max(smallest_epsilon(rho, delta), 1e-9), rel=1e-5, abs=0)
    assert found <= rho + 2 * math.sqrt(rho * math.log(1 / delta))
    # No conversion can promise less than the Gaussian mechanism of that rho needs.
    assert gaussian_delta(1 / math.sqrt(2 * rho), found) <= delta * (1 + 1e-9)


@pytest.mark.parametrize("epsilon", [1e-12, 3e-6, 3e-5, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.1, 0.5])
def test_the_largest_rho_within_a_budget(epsilon: float, delta: float) -> None:
    """Check that a budget is refused if and only if rho = 1e-12 already exceeds it."""
    budget = ApproxDP(epsilon, delta)
    if smallest_epsilon(1e-12, delta) <= epsilon and epsilon >= 1e-9:
        rho = ZCDP.within(budget).rho
        assert ZCDP(rho).to_approx(delta).epsilon <= epsilon * (1 + 1e-6)
        assert ZCDP(rho * 1.001).to_approx(delta).epsilon > epsilon
        return
    with pytest.raises(ValueError, match=r"^no rho >= 1e-12 is within ApproxDP\(epsilon=.*, .*$"):
        ZCDP.within(budget)


LEVELS = np.concatenate([np.geomspace(1e-12, 0.5, 400), 1 - np.geomspace(1e-12, 0.5, 400)])


@pytest.mark.parametrize("epsilon", [1e-12, 1e-6, 0.01, 0.5, 0.999, 1.001, 3.0, 30.0, 700.0])
def test_a_pure_step_under_gaussian_privacy(epsilon: float) -> None:
    """Compare with the smallest mu whose trade-off is below pure DP at all type I errors."""
    mu = mu_of_pure(epsilon)
    assert pure_of_mu(mu) == pytest.approx(epsilon, rel=1e-10, abs=0)
    meet = 1 / (1 + np.exp(epsilon))
    # Points of the two segments, beside where they meet too.
    a = np.concatenate([LEVELS, meet * np.geomspace(0.5, 1, 99), meet * np.geomspace(1, 1.9, 99)])
    a = a[a < 1]
    pure = np.maximum(1 - np.exp(epsilon) * a, np.exp(-epsilon) * (1 - a))

    def gaussian(mu: float) -> Floats:
        return np.asarray(stats.norm.cdf(stats.norm.isf(a) - mu))

    assert np.all(gaussian(mu) <= pure * (1 + 1e-9) + 1e-15)
    if epsilon >= 1e-6:
        assert np.any(gaussian(mu * (1 - 1e-6)) > pure)
    if epsilon < 1e-5:  # Phi(mu/2) - 1/2 is mu phi(0)/2, and epsilon/4
        assert mu == pytest.approx(epsilon * math.sqrt(math.pi / 2), rel=1e-8)


@pytest.mark.parametrize("epsilon", [1e-6, 0.01, 1.0, 3.0, 30.0, 1e4])
def test_a_pure_step_under_zcdp(epsilon: float) -> None:
    """Compare with the largest D_a/a of a bit that is kept with odds e^epsilon."""
    a = 1 + np.geomspace(1e-3, 1e5, 3000)
    kept, flipped = -np.logaddexp(0, -epsilon), -np.logaddexp(0, epsilon)
    one, other = a * kept + (1 - a) * flipped, a * flipped + (1 - a) * kept
    renyi = np.logaddexp(one, other) / (a - 1) / a
    rho = rho_of_pure(epsilon)
    if epsilon >= 0.01:  # rounding hides nothing
        assert renyi.max() <= rho * (1 + 1e-9)
        assert renyi.max() == pytest.approx(rho, rel=2e-3)
    assert rho <= epsilon**2 / 2
    assert pure_of_rho(rho) == pytest.approx(epsilon, rel=1e-12)
    assert pure_of_rho(0.5) == pytest.approx(1.0437, abs=1e-4)


@pytest.mark.parametrize("mu", [1e-6, 0.1, 1.0, 3.0, 20.0])
def test_the_exponential_mechanism_under_gaussian_privacy(mu: float) -> None:
    """Check that mu is the largest Phi^-1(p) - Phi^-1(q), for ratios in [e^(t - epsilon), e^t]."""
    epsilon = GDP(mu).exponential_epsilon
    assert epsilon == 2 * GDP(mu).pure_epsilon
    t = np.linspace(0, epsilon, 2001)[1:-1]
    log_q = np.log(-np.expm1(t - epsilon)) - t - np.log(-np.expm1(-epsilon))
    log_p = log_q + t
    small = log_p < math.log(0.5)
    p = np.where(small, ndtri_exp(np.where(small, log_p, -1.0)), 0.0)
    rest = np.log(-np.expm1(-t)) + t - epsilon - np.log(-np.expm1(-epsilon))  # ln(1 - p)
    p = np.where(small, p, -ndtri_exp(np.where(small, -1.0, rest)))
    needed = p - ndtri_exp(log_q)
    assert needed.max() == pytest.approx(mu, rel=1e-9 if mu > 0.01 else 1e-6)


@pytest.mark.parametrize("mu", [1e-3, 0.6, 5.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-6, 0.1])
def test_gaussian_privacy_to_approx(mu: float, delta: float) -> None:
    epsilon = GDP(mu).to_approx(delta).epsilon
    if epsilon > 1e-9:
        assert analytic_sd(epsilon, delta) == pytest.approx(1 / mu, rel=1e-9)
        # It costs less than what it implies of zCDP.
        assert epsilon < ZCDP(mu**2 / 2).to_approx(delta).epsilon
    else:
        assert 2 * stats.norm.cdf(mu / 2) - 1 <= delta


@pytest.mark.parametrize("epsilon", [1e-12, 1e-8, 3e-6, 1.0, 50.0])
@pytest.mark.parametrize("delta", [1e-300, 1e-12, 0.1, 0.5])
def test_the_largest_mu_within_a_budget(epsilon: float, delta: float) -> None:
    budget = ApproxDP(epsilon, delta)
    if epsilon < 1e-9 or 1 / analytic_sd(epsilon, delta) < 1e-12:
        with pytest.raises(
            ValueError, match=r"^no mu >= 1e-12 is within ApproxDP\(epsilon=.*, .*$"
        ):
            GDP.within(budget)
        return
    mu = GDP.within(budget).mu
    assert GDP(mu).to_approx(delta).epsilon <= epsilon * (1 + 1e-9)
    assert GDP(mu * 1.001).to_approx(delta).epsilon > epsilon


def composed_delta(ratios: list[float], epsilon: float) -> float:
    """Return delta of successive Gaussian steps, whose sensitivity is `ratios` times the noise.

    The privacy losses ln p/q of all steps are convolved on a grid. Each loss is computed from the
    densities of the noise on 200,000 equally likely outputs.
    """
    width, half = 1e-3, 2**15
    outputs = stats.norm.isf((np.arange(200_000) + 0.5) / 200_000)
    total = np.zeros(2 * half)
    total[half] = 1.0
    for ratio in ratios:
        loss = stats.norm.logpdf(outputs) - stats.norm.logpdf(outputs, ratio)
        place = loss / width + half
        low = np.floor(place).astype(int)  # split the mass, which keeps the mean loss
        masses = np.bincount(low, low + 1 - place, 2 * half)
        masses += np.bincount(low + 1, place - low, 2 * half)
        spectrum = np.fft.rfft(np.fft.ifftshift(total)) * np.fft.rfft(np.fft.ifftshift(masses))
        total = np.fft.fftshift(np.fft.irfft(spectrum, 2 * half)) / 200_000
    losses = (np.arange(2 * half) - half) * width
    return float(total @ np.maximum(-np.expm1(epsilon - losses), 0))


@pytest.mark.parametrize(
    ("epsilon", "delta", "shares"),
    [(1.0, 1e-3, (1.0,)), (1.0, 1e-3, (1 / 12,) * 3 + (3 / 4,)), (3.0, 0.01, (0.5, 0.25, 0.25))],
)
def test_gaussian_steps_spend_the_whole_budget(
    epsilon: float, delta: float, shares: tuple[float, ...]
) -> None:
    """Compare with a numerical composition. The largest rho would leave a third of delta unused."""
    budget = ApproxDP(epsilon, delta)
    whole, concentrated = GDP.within(budget), ZCDP.within(budget)
    mu = [whole.fraction(share).mu for share in shares]
    rho = [math.sqrt(2 * concentrated.fraction(share).rho) for share in shares]
    assert composed_delta(mu, epsilon) == pytest.approx(delta, rel=5e-3)
    assert composed_delta(rho, epsilon) < 2 / 3 * delta
