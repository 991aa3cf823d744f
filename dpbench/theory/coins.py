"""A lower bound for coins: what sampling and privacy cost together.

n flips of a coin with P(heads) = 1/2 + h, or 1/2 - h. Let K be the number of heads and
D = |2K - n|. D has the same law for both coins, and given D the sign of 2K - n is that of the
coin's lean with probability 1 - w, w = 1/(1 + r^D), r = (1/2 + h)/(1/2 - h). So the two datasets
can be coupled: D is shared; with probability 2w the sign is shared, too, by a fair flip; else each
has the sign of its own coin, and they differ in D records. In `dpbench.theory.lower_bounds` the sum
of the errors of a private test of datasets that differ in s records is at least 2 x_s, x_0 = 1/2.
So every test of the two coins has an error of at least

    E (w_D + (1 - 2 w_D) x_D),

and where that is beta every estimator of P(heads) errs by h with probability at least beta. Without
privacy, x_s = 0, that is the majority's error, which is exact; for small epsilon n it is nearly x_s
at s = 2hn. Under (epsilon, delta) linear programs find tests that reach it.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.samples.hypergeometric import log_binomial_pmf
from dpbench.theory.lower_bounds import BETA, _miss, bernoulli_lower_bound, fair_lower_bound

__all__ = ["coins_lower_bound", "error_of_coins"]

MOST = 10**6  # records
LARGEST = 0.5 - 1e-12  # h


def error_of_coins(h: float, n: int, budget: Budget) -> float:
    """What the larger error of every private test of 1/2 + h and 1/2 - h is at least."""
    reach = 9 * np.sqrt(n * (0.25 - h * h)) + 40
    heads = np.arange(
        max(0, np.floor(n * (0.5 + h) - reach)), min(n, np.ceil(n * (0.5 + h) + reach)) + 1
    )
    weights, apart = np.exp(log_binomial_pmf(heads, n, 0.5 + h)), np.abs(2 * heads - n)
    wrong = expit(-apart * np.log((0.5 + h) / (0.5 - h)))
    missed = np.where(apart == 0, 0.5, _miss(apart, budget))
    return float(weights @ (wrong + (1 - 2 * wrong) * missed) / weights.sum())


@cache
def coins_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """An error that every private estimator of a coin exceeds, with probability beta, on some coin.

    NaN for more than a million records, where one of the two costs nothing, and where nothing is
    known of the notion.
    """
    from scipy.optimize import brentq  # a slow import

    if n > MOST or not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return float("nan")

    def excess(h: float) -> float:
        return error_of_coins(h, n, budget) - beta

    low = high = max(bernoulli_lower_bound(n, budget, beta=beta), fair_lower_bound(n, beta=beta))
    while high < LARGEST and excess(high) > 0:
        low, high = high, min(1.2 * high, LARGEST)
    return low if low == high or excess(high) > 0 else float(brentq(excess, low, high, xtol=1e-14))
