"""An exact lower bound for one dimension: what no private estimator can beat.

It tests two-point laws (KSU20, Claim 3.9) against each other. A test phi of datasets is
(epsilon, delta)-DP if, for all neighbours D and D',

    phi(D) <= g(phi(D')),  g(x) = min(e^epsilon x + delta, 1 - e^-epsilon (1 - delta - x), 1).

An estimator whose error stays below half the distance of the two means, with
probability above 1 - beta under both laws, would be a test of size below beta and
power above 1 - beta. Where no private test has those, every estimator errs by half
that distance with probability at least beta under one of the two laws.

The laws are {0 w.p. 1-p, tau w.p. p} and its mirror image, whose means are 2 p tau apart.
S of the n records are not 0. Given S = s, datasets with s pluses and with s minuses are
joined by a path of s replacements, so phi(s pluses) <= g^s(phi(s minuses)) with g^s the
s-fold composition. S has the same law under both. Maximise E g^s(x_S) - E x_S over x: g^s
is concave, and its graph is symmetric under (x, y) -> (1-y, 1-x), so the maximum at each s
is at the point x_s = 1 - g^s(x_s), and no test has size beta and power 1 - beta while
E x_S > beta. Solving the recursion backwards from the middle, with
D = delta/(e^epsilon - 1):

    s even: x_s = ((1/2 + D) e^(-epsilon s/2) - D)_+
    s odd:  x_s = (((1 - delta)/(1 + e^epsilon) + D) e^(-epsilon (s-1)/2) - D)_+
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np

from dpbench.distributions import TwoPoint
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = ["BETA", "LowerBound", "two_point_lower_bound"]

# Errors are compared with bounds at their 1 - BETA quantile: the q90 of a summary.
BETA = 0.1


class LowerBound(NamedTuple):
    """An error with probability beta, and the largest p whose two laws no private test tells."""

    alpha: float
    p_star: float


def _expected_miss(p: float, n: int, epsilon: float, delta: float) -> float:
    """The mean of x_S over S ~ Binomial(n, p), but for counts of probability 1e-15."""
    reach = 9 * np.sqrt(n * p * (1 - p)) + 40
    s = np.arange(max(0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach)) + 1)
    weights = np.exp(log_binomial_pmf(s, n, p))
    odd = s % 2 == 1
    with np.errstate(over="ignore"):  # an infinite e^epsilon is as good as a large one
        offset = delta / np.expm1(epsilon)
        start = np.where(odd, (1 - delta) / (1 + np.exp(epsilon)), 0.5)
    miss = np.maximum((start + offset) * np.exp(-epsilon * (s - odd) / 2) - offset, 0.0)
    return float(weights @ miss / weights.sum())


@cache
def _p_star(n: int, epsilon: float, delta: float, beta: float) -> float:
    """Solve E miss(S) = beta for p; at most 1/2."""
    from scipy.optimize import brentq  # a slow import

    def excess(log_p: float) -> float:
        return _expected_miss(np.exp(log_p), n, epsilon, delta) - beta

    # The miss falls as p grows. Double p from where S is nearly always 0, and sums are short.
    low, highest = np.log(1e-3 / n), np.log(0.5)
    while excess(high := min(low + np.log(2), highest)) > 0:
        if high == highest:
            return 0.5
        low = high
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


def two_point_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """The largest error that every private estimator makes on some two-point law.

    Of up to 1e12 records, with E|X - mean|^k = 1 and with probability beta < 1/2. Under ZCDP the
    best of the bounds for the (epsilon, delta) that it implies; NaN where no bound is known.
    """
    if isinstance(budget, ZCDP):
        implied = (budget.to_approx(delta) for delta in 10.0 ** -np.arange(1, 8))
        return max(two_point_lower_bound(n, k, one, beta=beta) for one in implied)
    if not isinstance(budget, PureDP | ApproxDP):
        return LowerBound(np.nan, np.nan)
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    p = _p_star(n, budget.epsilon, delta, beta)
    return LowerBound(p * TwoPoint(p=p, k=k).tau, p)
