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
    I             int (A - B)^2/C, at most `local_information_bound`
    F             affinity int sqrt(A B); F^2 is `affinity_squared`
    beta          probability of a wrong answer of the test

Statements. Every test of P and Q is wrong, under P or under Q, with a probability of at least

    (epsilon, delta)-DP  (1 - t delta)^n e_a at a = (1 + n q (1+G)/(1 - t delta))/2. For other
                         than whole a, e_a is interpolated linearly. In `_least_error`, `mean` is a.
    zCDP, GDP            beta, if (1 - t^2 I/(8 (1-t)))^n >= 2 sqrt(beta (1 - beta)), where
                         I <= 2 (e^(2 rho) - F^2). Under mu-GDP rho = mu^2/2 and
                         F >= e^(-mu^2/8). Under rho-zCDP F >= 1/cosh(l/2), where l is the root
                         of l tanh(l/2) = rho.

As epsilon and t fall, randomised response on the sign of the record attains the first bound.

Proof: docs/theory/local_model.md. At t = 1 the best (epsilon, delta)-DP view is randomised response
(Kairouz, Oh and Viswanath 2015; theorem number not checked).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import betainc, expit, ndtr

from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, NORMAL_FROM, LowerBound, entropy_logit

__all__ = ["local_distance", "local_information_bound", "local_lower_bound"]


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
        low, high = np.log(lowest), 0.0
        if _least_error(1.0, n, budget.epsilon, delta) >= beta:
            return 1.0
        for _ in range(100):
            middle = (low + high) / 2
            inseparable = _least_error(np.exp(middle), n, budget.epsilon, delta) >= beta
            low, high = (middle, high) if inseparable else (low, middle)
        return float(np.exp(low))
    hellinger = float(-np.expm1(np.log(2 * np.sqrt(beta * (1 - beta))) / n))
    # Solve t^2 I/(8 (1 - t)) = hellinger for t.
    distance = 2 / (1 + np.sqrt(1 + 4 * (local_information_bound(budget) / (8 * hellinger))))
    return float(np.maximum(distance, lowest))


def local_information_bound(budget: Budget) -> float:
    """Return an upper bound on the chi-square information about a record in one local view.

    A view is a private message about one record. The record may come from any of three
    distributions, and A, B and C are the densities of the view under each. The information is I =
    int (A - B)^2/C. The bound is 2 (e^(2 rho) - F^2), where rho is the zCDP parameter of a view,
    mu^2/2 under mu-GDP. F is a lower bound on the affinity int sqrt(A B), which `budget` implies.

    Parameters
    ----------
    budget : Budget
        Privacy guarantee of a view, the message about one record.

    Returns
    -------
    float
        The bound on I; NaN for notions other than GDP and zCDP.
    """
    if isinstance(budget, GDP):
        rho, affinity_squared = budget.mu**2 / 2, np.exp(-(budget.mu**2) / 4)
    elif isinstance(budget, ZCDP):
        x = expit(-entropy_logit(budget.rho))
        rho, affinity_squared = budget.rho, 4 * x * (1 - x)
    else:
        return float("nan")
    with np.errstate(over="ignore"):
        return float(2 * (np.exp(2 * rho) - affinity_squared))


def _least_error(t: float, n: int, epsilon: float, delta: float) -> float:
    """Return a lower bound on the error of every test of two distributions from n local views.

    A view is an (epsilon, delta)-DP message about one record, and t is the total-variation distance
    of the two distributions. The result is accurate within 1e-8.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        q = (1 - delta) / (1 + np.exp(epsilon))
        wrong = 1 / (2 + t * np.expm1(epsilon))
        log_undisclosed = n * np.log1p(-t * delta)
        mean = (1 + n * (q / wrong) / (1 - t * delta)) / 2
    if mean >= NORMAL_FROM:
        return float(np.exp(log_undisclosed) * ndtr((wrong - 0.5) * np.sqrt(8 * np.ceil(mean) + 4)))
    ends = np.floor(mean) + np.arange(2)
    errors = np.where(ends > 0, betainc(np.maximum(ends, 1), np.maximum(ends, 1), wrong), 0.5)
    return float(np.exp(log_undisclosed) * np.interp(mean, ends, errors))
