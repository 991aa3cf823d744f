"""Lower bounds in the local model: n people each release a private view of their own record.

A view may depend on the views before it (sequentially interactive). A test decides from the n views
between two distributions P and Q. Notation (name in code):

    P, Q          distributions of a record, at total-variation distance t
    q (`q`)       (1 - delta)/(1 + e^epsilon)
    G             1 + t (e^epsilon - 1)
    y (`wrong`)   1/(1 + G)
    e_a           betainc(a, a, y), e_0 = 1/2: error of the majority of 2a - 1 or 2a signs, each
                  wrong with probability y
    A, B, C       distributions of one view. The record of the view has the density (P - Q)_+/t
                  for A, (Q - P)_+/t for B and min(P, Q)/(1 - t) for C
    I             int (A - B)^2/C, at most `record_information`
    beta          probability of a wrong answer of the test

Statements. Every test of P and Q is wrong, under P or under Q, with a probability of at least

    (epsilon, delta)-DP  (1 - t delta)^n e_a at a = (1 + n q (1+G)/(1 - t delta))/2. For other
                         than whole a, e_a is interpolated linearly. In `_least_error`, `mean` is a.
    zCDP, GDP            beta, if (1 - t^2 I/(8 (1-t)))^n >= 2 sqrt(beta (1 - beta))
    GDP                  the error of the best test from n graded votes, less the Berry-Esseen
                         bound on its distance from a normal probability (`_gaussian_error`)

As epsilon and t fall, randomised response on the sign of the record attains the first bound.

Proof: docs/theory/local_model.md. At t = 1 the best (epsilon, delta)-DP view is randomised response
(Kairouz, Oh and Viswanath 2015; theorem number not checked).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import numpy as np
from scipy.special import betainc, ndtr

from dpbench.arrays import Floats
from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, NORMAL_FROM, LowerBound, legendre_rule
from dpbench.theory.bounds.record_information import record_information

__all__ = ["local_distance", "local_lower_bound"]

BERRY_ESSEEN = 0.4748  # Shevtsova 2011
MAX_EXPONENT = 700.0  # larger exponents overflow
PEAKS = np.linspace(0, np.sqrt(2), 10_001)  # values of u in `_gaussian_error`
ROOT_TWO_PI = np.sqrt(2 * np.pi)


def local_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """Return the lower bound on the error of local estimators for k-th moments of 1.

    The bound is from two distributions with a rare point: a record is 0, or with probability p it
    is tau under one distribution and -tau under the other. tau makes E|X - mean|^k equal to 1.

    Parameters
    ----------
    n : int
        Number of views, the private messages about one record each.
    k : float
        Order of the moment: E|X - mean|^k = 1.
    budget : Budget
        Privacy guarantee of each view.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    LowerBound
        ``alpha``, the error that is exceeded with probability at least beta, and ``p_star``, the p
        at which this is proved. ``alpha`` is infinite and ``p_star`` is 1 if no test can tell n
        records of tau from n records of -tau by their views. Both are NaN if no bound is known for
        the privacy notion.
    """
    p = local_distance(n, budget, beta=beta)
    return LowerBound(p * TwoPoint(p=p, k=k).tau if p < 1 else p * np.inf, p)


@cache
def local_distance(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the largest distance of two distributions at which no local test is reliable.

    The distance is total variation. A local test decides between the distributions from n views,
    each a private message about one record. Up to the returned distance every local test errs with
    probability beta or more under one of the two distributions.

    Parameters
    ----------
    n : int
        Number of views.
    budget : Budget
        Privacy guarantee of each view.
    beta : float, default 0.1
        Probability of a wrong answer, below 1/2.

    Returns
    -------
    float
        Total-variation distance t, at most 1; NaN if no bound is known for the privacy notion. For
        two Bernoulli distributions t is the difference of the means. For N(m, 1) and N(-m, 1), it
        is 2 Phi(m) - 1. The result is at least 1 - (2 beta)^(1/n), a limit that needs no privacy.
        Two distributions at this distance can be coupled so that all n records agree with
        probability 2 beta. No test separates records that agree.
    """
    lowest = float(-np.expm1(np.log(2 * beta) / n))
    if isinstance(budget, PureDP | ApproxDP):
        delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
        if _least_error(1.0, n, budget.epsilon, delta) >= beta:
            return 1.0
        return _largest(lambda t: _least_error(t, n, budget.epsilon, delta) >= beta, lowest)
    hellinger = float(-np.expm1(np.log(2 * np.sqrt(beta * (1 - beta))) / n))
    # Solve t^2 I/(8 (1 - t)) = hellinger for t.
    distance = 2 / (1 + np.sqrt(1 + 4 * (record_information(budget) / (8 * hellinger))))
    distance = float(np.maximum(distance, lowest))  # NaN stays NaN
    if isinstance(budget, GDP):
        return _largest(lambda t: _gaussian_error(t, n, budget.mu) >= beta, distance)
    return distance


def _largest(inseparable: Callable[[float], bool], lowest: float) -> float:
    """Return the largest t in [lowest, 1] at which two distributions are inseparable, by bisection.

    `inseparable` is False from some t on. If it is False everywhere, the result is `lowest`.
    """
    low, high = np.log(lowest), 0.0
    for _ in range(100):
        middle = (low + high) / 2
        low, high = (middle, high) if inseparable(np.exp(middle)) else (low, middle)
    return float(np.exp(low))


@cache
def _strengths(mu: float) -> tuple[Floats, Floats]:
    """Return nodes x of a quadrature over the strength of a vote, and ln(phi(x + mu/2) dx)."""
    nodes, weights = legendre_rule(200)
    half = mu + 4.5
    x = half * (1 + nodes)
    return x, np.log(half * weights) - (x + mu / 2) ** 2 / 2 - np.log(ROOT_TWO_PI)


def _gaussian_error(t: float, n: int, mu: float) -> float:
    """Return a lower bound on the error of every test of two distributions from n mu-GDP views.

    The best view has the log-likelihood ratio ln(1 - t + t e^(mu x)) for a vote up of strength
    x > 0, and its negative for a vote down. The Berry-Esseen inequality bounds the distance of the
    sum of n ratios from a normal variable, so the error is at least
    g(n) = Phi(-c sqrt(n)) - b/sqrt(n). A test may ignore views, so the error is at least g(m) for
    every m >= n, too. g grows up to m = (u/c)^2, where u^2 phi(u) = b c and u < sqrt(2).
    """
    x, log_common = _strengths(mu)
    small = mu * x < MAX_EXPONENT
    exact = np.log1p(t * np.expm1(np.where(small, mu * x, 0.0)))
    ratio = np.where(small, exact, np.log(t) + mu * x)  # beyond, t e^(mu x) is far above 1
    up, down = np.exp(log_common + ratio), np.exp(log_common)  # probabilities under P
    silent = 1 - up.sum() - down.sum()
    mean = float(up @ (-np.expm1(-ratio) * ratio))  # (up - down) @ ratio without cancellation
    variance = float((up + down) @ ratio**2) - mean**2
    third = float(up @ np.abs(ratio - mean) ** 3 + down @ (ratio + mean) ** 3 + silent * mean**3)
    b, c = BERRY_ESSEEN * third / variance**1.5, mean / np.sqrt(variance)
    best = float(np.interp(b * c, PEAKS**2 * np.exp(-(PEAKS**2) / 2) / ROOT_TWO_PI, PEAKS) / c) ** 2
    root = np.sqrt(np.maximum([np.floor(best), np.ceil(best)], n))
    return float(np.max(ndtr(-c * root) - b / root))


def _least_error(t: float, n: int, epsilon: float, delta: float) -> float:
    """Return a lower bound on the error of every test of two distributions from n local views.

    A view is an (epsilon, delta)-DP message about one record, and t is the total-variation distance
    of the two distributions. The result is accurate within 1e-8.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        q = (1 - delta) / (1 + np.exp(epsilon))
        growth = t * np.expm1(epsilon)
        wrong, lean = 1 / (2 + growth), 1 / (1 + 2 / growth)  # lean is 1 - 2 wrong
        log_undisclosed = n * np.log1p(-t * delta)
        mean = (1 + n * (q / wrong) / (1 - t * delta)) / 2
    if mean >= NORMAL_FROM:
        return float(np.exp(log_undisclosed) * ndtr(-lean * np.sqrt(2 * np.ceil(mean) + 1)))
    ends = np.floor(mean) + np.arange(2)
    errors = np.where(ends > 0, betainc(np.maximum(ends, 1), np.maximum(ends, 1), wrong), 0.5)
    return float(np.exp(log_undisclosed) * np.interp(mean, ends, errors))
