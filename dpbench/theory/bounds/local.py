"""Lower bounds in the local model: n people each release a private view of their own record.

A view may depend on the views before it (sequentially interactive). Notation (name in code):

    P, Q          distributions of a record, at total-variation distance t
    q (`q`)       (1 - delta)/(1 + e^epsilon)
    G             1 + t (e^epsilon - 1)
    y (`wrong`)   1/(1 + G)
    e_a           betainc(a, a, y), e_0 = 1/2: error of the majority of 2a - 1 or 2a signs, each
                  wrong with probability y
    I             contrast of a view: int (A - B)^2/C, for the distributions A, B, C of the view
                  given the parts of a record that only P, only Q and both have; bounded by
                  `local_information_bound`

Statements. Every test of P and Q has, under one of them, an error of at least

    (epsilon, delta)-DP  (1 - t delta)^n e_A,  A = (1 + n q (1+G)/(1 - t delta))/2 (`mean`), with
                         e_a interpolated linearly between whole a (`_least_error`).
    zCDP, GDP            beta, if (1 - t^2 I/(8 (1-t)))^n >= 2 sqrt(beta (1 - beta)), where
                         I <= 2 (e^(2 rho) - F^2): rho = mu^2/2 and F = e^(-mu^2/8) under mu-GDP;
                         F = 1/cosh(l/2), l tanh(l/2) = rho, under rho-zCDP.

As epsilon and t fall, the first is attained by randomised response on the sign of the record.

Proof: docs/theory/local_model.md. At t = 1 the best view under (epsilon, delta) is randomised
response (Kairouz, Oh and Viswanath 2015; theorem number not checked).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import betainc, expit, ndtr

from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, NORMAL_FROM, LowerBound, coin_logit

__all__ = ["local_distance", "local_information_bound", "local_lower_bound"]


def local_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """Return the lower bound on local estimators by a pair with a rare point and unit k-th moment.

    Parameters
    ----------
    n : int
        Number of views.
    k : float
        Order of the moment: E|X - mean|^k = 1.
    budget : Budget
        Privacy guarantee of each view.
    beta : float, default 0.1
        Probability of the error, below 1/2.

    Returns
    -------
    LowerBound
        Error that is exceeded with probability at least beta, and the probability p* of the rare
        point. Infinite, with p* = 1, if not even n equal records are separated from n others.
    """
    p = local_distance(n, budget, beta=beta)
    return LowerBound(p * TwoPoint(p=p, k=k).tau if p < 1 else p * np.inf, p)


@cache
def local_distance(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the largest total-variation distance at which n local views do not separate a pair.

    Parameters
    ----------
    n : int
        Number of views.
    budget : Budget
        Privacy guarantee of each view.
    beta : float, default 0.1
        Probability of an error of every test under one of the two, below 1/2.

    Returns
    -------
    float
        Distance, at most 1: the difference of means for Bernoulli distributions, 2 Phi(m) - 1 for
        N(m, 1) and N(-m, 1). At least 1 - (2 beta)^(1/n), because all records are from the shared
        part with probability 2 beta. NaN for a notion without a bound.
    """
    unseen = float(-np.expm1(np.log(2 * beta) / n))
    if isinstance(budget, PureDP | ApproxDP):
        delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
        low, high = np.log(unseen), 0.0
        if _least_error(1.0, n, budget.epsilon, delta) >= beta:
            return 1.0
        for _ in range(100):
            middle = (low + high) / 2
            enough = _least_error(np.exp(middle), n, budget.epsilon, delta) >= beta
            low, high = (middle, high) if enough else (low, middle)
        return float(np.exp(low))
    unlike = float(-np.expm1(np.log(2 * np.sqrt(beta * (1 - beta))) / n))
    # Solve t^2 I/(1 - t) = 8 unlike for t.
    found = 2 / (1 + np.sqrt(1 + 4 * (local_information_bound(budget) / (8 * unlike))))
    return float(np.maximum(found, unseen))


def local_information_bound(budget: Budget) -> float:
    """Return the upper bound 2 (e^(2 rho) - F^2) on I; NaN for a notion without a bound."""
    if isinstance(budget, GDP):
        rho, square = budget.mu**2 / 2, np.exp(-(budget.mu**2) / 4)
    elif isinstance(budget, ZCDP):
        x = expit(-coin_logit(budget.rho))
        rho, square = budget.rho, 4 * x * (1 - x)
    else:
        return float("nan")
    with np.errstate(over="ignore"):
        return float(2 * (np.exp(2 * rho) - square))


def _least_error(t: float, n: int, epsilon: float, delta: float) -> float:
    """Return the lower bound on a test's error under (epsilon, delta), within 1e-8 of its value."""
    with np.errstate(over="ignore", invalid="ignore"):
        q = (1 - delta) / (1 + np.exp(epsilon))
        wrong = 1 / (2 + t * np.expm1(epsilon))
        silent = n * np.log1p(-t * delta)
        mean = (1 + n * (q / wrong) / (1 - t * delta)) / 2
    if mean >= NORMAL_FROM:
        return float(np.exp(silent) * ndtr((wrong - 0.5) * np.sqrt(8 * np.ceil(mean) + 4)))
    ends = np.floor(mean) + np.arange(2)
    errors = np.where(ends > 0, betainc(np.maximum(ends, 1), np.maximum(ends, 1), wrong), 0.5)
    return float(np.exp(silent) * np.interp(mean, ends, errors))
