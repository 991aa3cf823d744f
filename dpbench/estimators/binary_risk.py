"""The exact minimax risk of a binary mean under epsilon-DP, and the rule that attains it.

S of n records are ones, S ~ Binomial(n, p), and the squared error of a release is to be small
whatever p is. No epsilon-DP release does better than a rule r(S + Z), where Z is two-sided
geometric, P(Z = z) = (1-a)/(1+a) a^|z| with a = e^-epsilon. (Ghosh, Roughgarden, Sundararajan 2009
and Gupte, Sundararajan 2010 prove it of losses of S. For a squared error:)

Theorem. For every prior on p the best epsilon-DP release has the Bayes risk of
r(T) = E[p | T], T = S + Z.

Proof. A release may depend on S alone: average it over all orders of the records. Given S = s let
m_s = E[p | s], which grows with s. The risk of a release R is E Var(p | S) + E (m_S - R)^2, and
(m - R)^2 = 2 int |t - m| 1{t lies between m and R} dt: a sum over thresholds t, at each of which
the decision "R > t" costs 2 |t - m_s| where it is wrong. Its probability phi(s) satisfies
phi(s+1) <= g(phi(s)), g(y) = min(e^epsilon y, 1 - e^-epsilon (1 - y)), and the same downwards. To
decide t is to maximise sum_s c_s phi(s) whose weights c_s = P(s) (m_s - t) are negative, then
positive. Given its value at the last negative weight, phi is best where it rises as fast as it may
to the right and falls as fast to the left: an orbit y, g(y), g(g(y)), ... of the concave g. So the
sum is concave in y, and linear between the y whose orbit meets the kink of g, a/(1+a); at one of
these it is largest (or for phi = 0 or 1). But g(a/(1+a)) = 1/(1+a): the orbit through the kink is
phi(s) = P(s + Z >= j) for a whole number j. Hence for every t the best decision is a threshold of
T, which is that of the posterior mean: E[m_S | T] grows with T, since a^|i-j| is log-concave. QED.

The least favourable prior has the largest Bayes risk. Any prior gives a lower bound on the minimax
risk; its posterior mean r, used as a rule, gives an upper one, the maximum of its risk

    R(p) = E[h2(S)] - 2 p E[h1(S)] + p^2,   h1(s) = E r(s + Z),  h2(s) = E r(s + Z)^2,

over p. It is found by multiplying prior weights with R(p) over their average.

Between points of a grid. For differences D h(s) = h(s+1) - h(s) and D2 = D D, (E h(S))' is n times
the mean of D h over n - 1 records, and a mean over n records is one over fewer, of which another
is 1 with probability p. So, over n - 1 and n - 2 records,

    R' = E[u - p v],   u = n D h2 - 2 h1,   v = 2 (n+1) D h1 - 2,
    R'' = E[A - p B],  A = n (n-1) D2 h2 - 4 n D h1 + 2,   B = 2 n (n+1) D2 h1.

With p = sin^2 t, R_tt = 4 p (1-p) R'' + 2 (1 - 2p) R', and p (1-p) E[f(S)] over n - 2 records is
E[S (n-S) f(S-1)]/(n (n-1)) over n. Hence abs(R_tt) <= C, four times the largest
s (n-s) abs(A - p B)(s-1)/(n (n-1)) and twice the largest abs(u - p v), at p = 0 or p = 1/2, which
is enough by symmetry. Between grid points at distance w in t, R is at most C w^2/8 above the
larger of the two.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = ["LARGEST_N", "MinimaxRule", "binary_minimax"]

LARGEST_N = 1000
GAP = 1e-3  # relative, of the two bounds, and a tenth of it for what lies between grid points
STEPS = 20_000


class MinimaxRule(NamedTuple):
    """The rule r(T), (n + 1,), T moved into 0 to n; bounds on the squared risk; the prior.

    A T beyond the ends says no more than the end: there the law of T is a^|T - S| times what does
    not depend on S. `points` and `weights` are those of the prior.
    """

    lower: float
    upper: float
    rule: Floats
    points: Floats
    weights: Floats


@cache
def binary_minimax(n: int, epsilon: float) -> MinimaxRule:
    """Bounds on the minimax risk, within 0.3 per cent, of n <= 1000 records in {0, 1}.

    Valid up to rounding for any epsilon > 0, as proved above.
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
    """The law of T, moved into 0 to n, given S: (n + 1, n + 1)."""
    s = np.arange(n + 1)
    channel = np.exp(-epsilon * abs(s[:, None] - s)) / (1 + np.exp(-epsilon))
    channel[:, 1:-1] *= -np.expm1(-epsilon)
    return np.asarray(channel)


def _binomial(n: int, p: Floats) -> Floats:
    """The law of S for each p, (len(p), n + 1)."""
    inside = np.clip(p, 1e-300, 1 - 1e-16)[:, None]
    law = np.exp(log_binomial_pmf(np.arange(n + 1), n, inside))
    law[p == 0], law[p == 1] = np.eye(n + 1)[[0, n]]
    return law


def _largest_risk(n: int, channel: Floats, rule: Floats, scale: float) -> float:
    """An upper bound on R over p in [0, 1/2], and so, by symmetry, on all of [0, 1]."""
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
