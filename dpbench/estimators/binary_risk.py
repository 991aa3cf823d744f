"""The exact minimax risk of a binary mean under epsilon-DP, and the rule that attains it.

Let S ~ Binomial(n, p) be the number of ones among n records. The estimand is p, and the loss is the
squared error. Let Z be two-sided geometric noise: P(Z = z) = (1-a)/(1+a) a^|z| with a = e^-epsilon.
Let T = S + Z be the noisy count. GRS09 and GS10 treat losses that depend on S, not on p. They prove
that no epsilon-DP release has a smaller loss than the best function of T. The following theorem
treats the squared error of p.

Theorem. For every prior on p, no epsilon-DP release has a smaller Bayes risk than r(T) = E[p | T].

The Bayes risk of any prior is a lower bound on the minimax risk. The posterior mean r of a prior,
used as a rule, gives an upper bound: the maximum over p of its risk R(p) = E (r(T) - p)^2, which is

    R(p) = E[h2(S)] - 2 p E[h1(S)] + p^2,   h1(s) = E r(s + Z),  h2(s) = E r(s + Z)^2.

The least favourable prior is computed by updates on a grid of values of p. Each update multiplies
the weight of p by R(p) over the average of R, and makes the prior symmetric. Between grid points a
bound on R follows from its second derivative in t, where p = sin^2 t. Let D h(s) = h(s+1) - h(s) be
differences, and D2 = D D. The derivatives R' and R'' in p are expectations over the number of ones
among n - 1 and n - 2 records:

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
GAP = 1e-3  # relative gap at which updates stop; the bound between grid points adds a tenth of it
MAX_UPDATES = 20_000  # of the prior


class MinimaxRule(NamedTuple):
    """A minimax rule for a binary mean, bounds on its risk, and the least favourable prior.

    The rule estimates the probability p of a one from a noisy count T. Before use T is moved into
    [0, n]. This loses no information, because for T > n or T < 0 the likelihoods of all true counts
    keep their ratios.

    Attributes
    ----------
    lower, upper : float
        Bounds on the minimax squared risk.
    rule : (n + 1,) array
        Estimates of p for T = 0, ..., n.
    points, weights : (m,) array
        Support and probabilities of the least favourable prior on p.
    """

    lower: float
    upper: float
    rule: Floats
    points: Floats
    weights: Floats


@cache
def binary_minimax(n: int, epsilon: float) -> MinimaxRule:
    """Return the minimax rule for n binary records, with bounds on the minimax risk.

    The rule estimates the mean from a count with two-sided geometric noise, which is epsilon-DP.
    The bounds are within 0.3 per cent of each other, and valid up to rounding for any epsilon > 0.

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
        If n is below 1 or above 1000.
    """
    if not 1 <= n <= LARGEST_N:
        raise ValueError(f"binary_minimax is computed for up to {LARGEST_N} records, got {n}")
    channel = _channel(n, epsilon)
    points = np.sin(np.linspace(0, np.pi / 2, int(2 * np.sqrt(n)) + 20)) ** 2
    likelihood = _binomial(n, points) @ channel
    weights = np.full(len(points), 1 / len(points))
    for _ in range(MAX_UPDATES):
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
    """Return the distribution of the noisy count for each true count, shape (n + 1, n + 1).

    Rows are true counts 0, ..., n, and columns are noisy counts. A noisy count outside of 0, ..., n
    is moved to the nearer end.
    """
    s = np.arange(n + 1)
    channel = np.exp(-epsilon * abs(s[:, None] - s)) / (1 + np.exp(-epsilon))
    channel[:, 1:-1] *= -np.expm1(-epsilon)
    return np.asarray(channel)


def _binomial(n: int, p: Floats) -> Floats:
    """Return the probabilities of 0, ..., n ones among n records, shape (len(p), n + 1).

    The array `p` holds probabilities of a one; each gives a row.
    """
    inside = np.clip(p, 1e-300, 1 - 1e-16)[:, None]
    law = np.exp(log_binomial_pmf(np.arange(n + 1), n, inside))
    law[p == 0], law[p == 1] = np.eye(n + 1)[[0, n]]
    return law


def _largest_risk(n: int, channel: Floats, rule: Floats, scale: float) -> float:
    """Return an upper bound on the squared risk of a rule, over all probabilities p of a one.

    The risk is evaluated on a grid of p in [0, 1/2]; by symmetry this covers [0, 1]. A bound on the
    second derivative covers the points between. The docstring of `dpbench.estimators.binary_risk`
    has the derivatives; its u, v, A and B are `first`, `first_p`, `second` and `second_p` in the
    code.

    Parameters
    ----------
    n : int
        Number of records.
    channel : (n + 1, n + 1) array
        Probabilities of noisy counts (columns) for true counts (rows), see `_channel`.
    rule : (n + 1,) array
        Estimate for each noisy count.
    scale : float > 0
        Lower bound on the minimax risk, which sets the spacing of the grid.
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
