"""The exact minimax risk of a binary mean under epsilon-DP, and the rule that attains it.

Let S ~ Binomial(n, p) be the number of ones among n records. The estimand is p, with squared error.
Let Z be two-sided geometric noise, P(Z = z) = (1-a)/(1+a) a^|z| with a = e^-epsilon, and T = S + Z.
GRS09 and GS10 prove for losses of S that no epsilon-DP release beats a function of T. For the
squared error of p:

Theorem. For every prior on p, the epsilon-DP release of the smallest Bayes risk is r(T) = E[p | T].

Any prior gives a lower bound on the minimax risk, its Bayes risk. Its posterior mean r, used as a
rule, gives an upper bound: the maximum over p of its risk

    R(p) = E[h2(S)] - 2 p E[h1(S)] + p^2,   h1(s) = E r(s + Z),  h2(s) = E r(s + Z)^2.

The prior is found by multiplying its weights by R(p) over their average. The maximum of R between
grid points is bounded by its second derivative in t, where p = sin^2 t: with differences
D h(s) = h(s+1) - h(s) and D2 = D D, over n - 1 and n - 2 records,

    R' = E[u - p v],   u = n D h2 - 2 h1,   v = 2 (n+1) D h1 - 2,
    R'' = E[A - p B],  A = n (n-1) D2 h2 - 4 n D h1 + 2,   B = 2 n (n+1) D2 h1.

Proofs: docs/theory/binary_minimax.md.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = ["LARGEST_N", "MinimaxRule", "binary_minimax"]

LARGEST_N = 1000
GAP = 1e-3  # relative gap of the two bounds; between grid points a tenth of it is added
STEPS = 20_000  # at most, of the multiplicative updates of the prior


class MinimaxRule(NamedTuple):
    """A minimax rule, bounds on its risk, and the least favourable prior.

    A T below 0 or above n is moved to that end. Nothing is lost: beyond the ends the distribution
    of T is a^|T - S| times a factor that does not depend on S.

    Attributes
    ----------
    lower, upper : float
        Bounds on the minimax squared risk.
    rule : (n + 1,) array
        r(T) for T = 0, ..., n.
    points, weights : array
        Support and probabilities of the prior on p.
    """

    lower: float
    upper: float
    rule: Floats
    points: Floats
    weights: Floats


@cache
def binary_minimax(n: int, epsilon: float) -> MinimaxRule:
    """Return the minimax rule for n binary records, with bounds on its risk within 0.3 per cent.

    The bounds are valid up to rounding for any epsilon > 0.

    Parameters
    ----------
    n : int
        Number of records, 1 to 1000.
    epsilon : float > 0
        Budget, pure DP.

    Returns
    -------
    MinimaxRule

    Raises
    ------
    ValueError
        If n is not in 1 to 1000.
    """
    if not 1 <= n <= LARGEST_N:
        raise ValueError(f"binary_minimax is computed for up to {LARGEST_N} records, got {n}")
    channel = _channel(n, epsilon)
    points = np.sin(np.linspace(0, np.pi / 2, int(2 * np.sqrt(n)) + 20)) ** 2
    likelihood = _binomial(n, points) @ channel
    weights = np.full(len(points), 1 / len(points))
    for _ in range(STEPS):
        marginal = weights @ likelihood
        rule = (weights * points) @ likelihood / marginal
        risk = likelihood @ rule**2 - 2 * points * (likelihood @ rule) + points**2
        lower = float(weights @ risk)
        if risk.max() <= (1 + GAP) * lower:
            break
        weights = weights * risk / lower
        weights = np.maximum(weights + weights[::-1], 1e-300)
        weights /= weights.sum()
    return MinimaxRule(lower, _largest_risk(n, channel, rule, lower), rule, points, weights)


def _channel(n: int, epsilon: float) -> Floats:
    """Return the distribution of T, moved into 0 to n, given S: (n + 1, n + 1)."""
    s = np.arange(n + 1)
    channel = np.exp(-epsilon * abs(s[:, None] - s)) / (1 + np.exp(-epsilon))
    channel[:, 1:-1] *= -np.expm1(-epsilon)
    return np.asarray(channel)


def _binomial(n: int, p: Floats) -> Floats:
    """Return the distribution of S for each p, (len(p), n + 1)."""
    inside = np.clip(p, 1e-300, 1 - 1e-16)[:, None]
    law = np.exp(log_binomial_pmf(np.arange(n + 1), n, inside))
    law[p == 0], law[p == 1] = np.eye(n + 1)[[0, n]]
    return law


def _largest_risk(n: int, channel: Floats, rule: Floats, scale: float) -> float:
    """Return an upper bound on R over p in [0, 1/2], and so, by symmetry, over [0, 1].

    `first`, `first_p`, `second` and `second_p` are u, v, A and B above.
    """
    h1, h2 = channel @ rule, channel @ rule**2
    s, d1, d2 = np.arange(1, n), np.diff(h1), np.diff(h2)
    first, first_p = n * d2 - 2 * h1[:-1], 2 * (n + 1) * d1 - 2
    second = n * (n - 1) * np.diff(d2) - 4 * n * d1[:-1] + 2
    second_p = 2 * n * (n + 1) * np.diff(d1)
    slope = max(abs(first - p * first_p).max() for p in (0, 0.5))
    bends = [s * (n - s) * abs(second - p * second_p) for p in (0, 0.5)]
    curvature = 2 * slope + 4 * np.max(bends, initial=0) / max(n * (n - 1), 1)
    t = np.linspace(0, np.pi / 4, 2 + int(np.sqrt(curvature / (8 * GAP / 10 * scale))))
    largest = 0.0
    for piece in np.array_split(t, -(-len(t) // 500)):  # 500 x 1001 numbers at a time
        p = np.sin(piece) ** 2
        law = _binomial(n, p)
        largest = max(largest, float((law @ h2 - 2 * p * (law @ h1) + p**2).max()))
    return float(largest + curvature * t[1] ** 2 / 8)
