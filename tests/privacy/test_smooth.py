"""Cost of noise for a smooth sensitivity, by Renyi divergences and ratios of densities."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import logsumexp

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.smooth import SmoothNoise, _shift, draw, largest_rate, student_shift
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.instance_noise import _unit_noise

Floats = NDArray[np.float64]


def log_density(z: Floats, sigma: float) -> Floats:
    """Return the log-density of Laplace noise times e^(sigma Y), as a sum over normal Y."""
    y = sigma * np.linspace(-14, 24, 191)
    log_joint = -y - np.abs(z)[:, None] * np.exp(-y) - (y / sigma) ** 2 / 2
    return np.asarray(logsumexp(log_joint, axis=1) - logsumexp(-((y / sigma) ** 2) / 2) - np.log(2))


@pytest.mark.parametrize(("x", "rho"), [(0.3, 0.5), (0.6, 0.5), (0.3, 0.005), (0.6, 0.005)])
def test_the_renyi_divergence_is_what_zcdp_allows(x: float, rho: float) -> None:
    """Check divergences at the ends and within.

    For small rho the bound is nearly attained, so a shift larger by a tenth exceeds it.
    """
    root, sigma = np.sqrt(2 * rho), 1.05 * x
    orders = 1 + np.array([0.01, 0.3, 1, 2, 4, 7])[:, None] / root
    far = np.exp(np.linspace(-12, 18 * sigma + 6, 70))
    nodes, weights = np.polynomial.legendre.leggauss(3)

    def divergence(u: float, v: float) -> float:
        """Return the largest divergence of Z and e^u Z + v over a rho; kinks are at 0 and v."""
        edges = np.unique(np.concatenate([-far, [0.0], far, v - far, [v], v + far]))
        middle, half = (edges[1:] + edges[:-1])[:, None] / 2, np.diff(edges)[:, None] / 2
        z, log_width = (middle + half * nodes).ravel(), np.log(half * weights).ravel()
        p, q = log_density(z, sigma), log_density((z - v) * np.exp(-u), sigma) - u
        return float(max(
            np.max(logsumexp(orders * one + (1 - orders) * other + log_width, axis=1)
                   / (orders[:, 0] - 1) / (orders[:, 0] * rho))
            for one, other in ((p, q), (q, p))
        ))  # fmt: skip

    def most(s: float, t: float) -> float:
        ends = itertools.product((-t, 0.0, t), (0.5, 1.0))
        return max(divergence(u, share * s * min(1.0, np.exp(u))) for u, share in ends)

    s = root * _shift(x)
    assert 0.6 < most(s, x * root) <= 1
    assert rho > 0.1 or most(1.1 * s, x * root) > 1


@pytest.mark.parametrize(("epsilon", "share"), [(0.1, 0.3), (1.0, 0.1), (1.0, 0.6), (4.0, 0.5)])
def test_students_noise_is_epsilon_dp(epsilon: float, share: float) -> None:
    t = share * epsilon / 3
    s = student_shift(epsilon, t)
    far = np.exp(np.linspace(-8, 12, 20_001))
    z = np.concatenate([-far[::-1], far])
    losses = []
    for u, v in itertools.product((-t, 0.0, t), (0.0, 0.5, 1.0)):
        y = (z - v * s * min(1.0, np.exp(u))) * np.exp(-u)
        losses.append(np.abs(2 * np.log((1 + y**2 / 3) / (1 + z**2 / 3)) + u).max())
    assert 0.6 * epsilon < max(losses) <= epsilon


@pytest.mark.parametrize("noise", ["by_budget", "polyplace"])
@pytest.mark.parametrize("budget", [PureDP(0.3), GDP(0.5), ApproxDP(1.0, 1e-6), ZCDP(0.02)])
def test_noise_has_its_law(budget: Budget, noise: SmoothNoise) -> None:
    """Compare with the derivation in `dpbench.theory`, by DKW (false alarm 1e-6)."""
    n, share = 40_000, 0.4
    t, law = _unit_noise(share, ReleaseSetting(1, 1, budget), noise)
    assert t == pytest.approx(share * largest_rate(budget, noise), rel=1e-12)
    z = np.sort(draw(np.random.default_rng(0), (n,), budget, t, noise))
    gap = np.abs(law.cdf(z) - np.arange(n) / n).max()
    assert gap < np.sqrt(np.log(2 / 1e-6) / (2 * n)) + 1 / n


def test_a_budget_says_what_t_it_pays_for() -> None:
    ledger = Ledger(PureDP(0.3), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"t is 0\.1; .* asks for 0 < t < 0\.1"):
        ledger.add_smooth_noise(np.zeros(1), np.ones(1), 0.1)
    assert ledger.spent == (0.0,)
    ledger.add_smooth_noise(np.zeros(1), np.ones(1), 0.05)
    assert ledger.spent == (0.3,)
    assert "noise for a 0.05-smooth sensitivity" in ledger.receipt()
    ledger = Ledger(PureDP(0.3), np.random.default_rng(0))
    with pytest.raises(ValueError, match=r"t is 0\.3; .* asks for 0 < t < 0\.3"):
        ledger.add_smooth_noise(np.zeros(1), np.ones(1), 0.3, noise="polyplace")
    ledger.add_smooth_noise(np.zeros(1), np.ones(1), 0.2, noise="polyplace")
    assert ledger.spent == (0.3,)
