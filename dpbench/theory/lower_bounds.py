"""Lower bounds for one dimension: what no private estimator, and what none at all, can beat.

Each tests a pair of two-point laws against each other, and is exact for that: no test does
better. Whether an estimator reaches it over a class of laws is another question.

Private tests of a pair with a rare point (KSU20, Claim 3.9). A test phi of datasets is
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

x_s falls as s grows, and so does E x_S as p does, to x_n at p = 1, while the error p tau grows
without limit: (p tau)^-k = (1-p) (1 + ((1-p)/p)^(k-1)). So where x_n >= beta (under pure DP with
even n: n epsilon <= 2 ln(1/(2 beta))) no test tells n records at -M from n records at M, whatever
M is, and no error is impossible: the bound is infinite.

All tests of a pair with a common point. Without privacy the best test of p = 1/2 + h against
1/2 - h on the same two points, tau apart, takes the majority of n records, and a coin where there
is none, which is the majority of n - 1. With an odd m = 2a - 1 records it errs with probability
P(Binomial(m, 1/2 + h) < a) = I_(1/2-h)(a, a), which is half of 1 minus the total variation. Where
that is beta, every estimator errs by half the distance of the means, h tau, with probability at
least beta. (h tau)^-k = (p/h)^k (1-p) + ((1-p)/h)^k p at p = 1/2 + h falls as h grows: no other
h below it does more. With z the 1 - beta quantile of a normal law it is near z/sqrt(n).
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, ndtri

from dpbench.arrays import Floats
from dpbench.distributions import TwoPoint
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = ["BETA", "LowerBound", "sampling_lower_bound", "two_point_lower_bound"]

# Errors are compared with bounds at their 1 - BETA quantile: the q90 of a summary.
BETA = 0.1
# How far from 1 a p is kept.
LEAST = 1e-12
# Records from which on sampling is normal.
NORMAL_FROM = 10**8


class LowerBound(NamedTuple):
    """An error with probability beta, and the largest p whose two laws no private test tells."""

    alpha: float
    p_star: float


def _miss(s: ArrayLike, epsilon: float, delta: float) -> Floats:
    """The x_s of the module."""
    s = np.asarray(s, dtype=float)
    odd = s % 2 == 1
    with np.errstate(over="ignore"):  # an infinite e^epsilon is as good as a large one
        offset = delta / np.expm1(epsilon)
        start = np.where(odd, (1 - delta) / (1 + np.exp(epsilon)), 0.5)
    miss = (start + offset) * np.exp(-epsilon * (s - odd) / 2) - offset
    return np.asarray(np.maximum(miss, 0.0))


def _expected_miss(p: float, n: int, epsilon: float, delta: float) -> float:
    """The mean of x_S over S ~ Binomial(n, p), but for counts of probability 1e-15."""
    reach = 9 * np.sqrt(n * p * (1 - p)) + 40
    s = np.arange(max(0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach)) + 1)
    weights = np.exp(log_binomial_pmf(s, n, p))
    return float(weights @ _miss(s, epsilon, delta) / weights.sum())


@cache
def _p_star(n: int, epsilon: float, delta: float, beta: float) -> float:
    """Solve E miss(S) = beta for p; 1 where there is no solution."""
    from scipy.optimize import brentq  # a slow import

    def excess(log_p: float) -> float:
        return _expected_miss(np.exp(log_p), n, epsilon, delta) - beta

    if _miss(n, epsilon, delta) >= beta:
        return 1.0
    # The miss falls as p grows. Double p from where S is nearly always 0, and sums are short.
    low, highest = np.log(1e-3 / n), -LEAST
    while excess(high := min(low + np.log(2), highest)) > 0:
        if high == highest:
            return float(np.exp(highest))
        low = high
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


def two_point_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """The largest error that testing a pair with a rare point forces on private estimators.

    Every one errs by ``alpha`` on some two-point law with E|X - mean|^k = 1, with probability at
    least beta < 1/2, on up to 1e15 records. Under ZCDP the best of the bounds for the (epsilon,
    delta) that it implies; NaN where no bound is known; infinite, with p* = 1, where no private
    test tells apart n equal records from n others.
    """
    if isinstance(budget, ZCDP):
        implied = (budget.to_approx(delta) for delta in 10.0 ** -np.arange(1, 8))
        return max(two_point_lower_bound(n, k, one, beta=beta) for one in implied)
    if not isinstance(budget, PureDP | ApproxDP):
        return LowerBound(np.nan, np.nan)
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    p = _p_star(n, budget.epsilon, delta, beta)
    return LowerBound(p * TwoPoint(p=p, k=k).tau, p) if p < 1 else LowerBound(np.inf, 1.0)


def sampling_lower_bound(n: int, k: float, *, beta: float = BETA) -> float:
    """The error that testing a pair with a common point forces on every estimator, private or not.

    As in `two_point_lower_bound`; of any number of records, up to a relative error of 1e-8.
    """
    a = (n + 1) // 2
    # The beta law's normal limit has a relative error of 0.3/n, where the library loses digits.
    h = 0.5 - betaincinv(a, a, beta) if n < NORMAL_FROM else ndtri(1 - beta) / np.sqrt(8 * a + 4)
    return float(h * TwoPoint(p=float(0.5 + h), k=k).tau)
