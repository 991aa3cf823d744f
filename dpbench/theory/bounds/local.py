"""Lower bounds in the local model, where each of n people releases a view of their own record.

A view may depend on the views before it (sequentially interactive); it is private for its record.
P and Q are laws of a record at total-variation distance t: they share a part of mass 1 - t.

One view under (epsilon, delta). Let x and y be the probabilities that Q and P give a set of views,
a and b those given the parts that only P and only Q have, c given what they share:
y - x = t (a - b).

    y <= G x + t delta,  G = 1 + t (e^epsilon - 1),  as a <= e^epsilon min(b, c) + delta:
         with b <= c, G x + t delta - y >= t (1-t) (e^epsilon - 1) (c - b); else t G (b - c);
    y <= x + t (delta + (1-delta) w),  w = tanh(epsilon/2): a - b is largest at
         b = (1-delta)/(1 + e^epsilon), where e^epsilon b + delta = 1 - e^-epsilon (1-delta-b);
    and the first for the other views, P and Q exchanged.

Just so much is told by a view with five values, of which Q has them mirrored:

    value   "P"        "+"     "-"    "Q"   ""
    P       t delta    q G     q      0     (1-t) (delta + (1-delta) w),

q = (1-delta)/(1 + e^epsilon).

By Blackwell's theorem every view can be made from this one without knowing P from Q, and so can n
views, one after another. (With t = 1 it is randomised response: Kairouz, Oh, Viswanath 2015.) No
test errs less than the best one of n such values: where there is no "P" or "Q" it takes the
majority of "+" and "-", of which there are N. Of m of these it errs with e(a) = I_y(a, a),
y = 1/(1+G), where a is m/2 rounded up (see `sampling_lower_bound`) and e(0) = 1/2. e falls, and
is convex: e(a) - e(a+1) = C(2a-1, a) (y (1-y))^a (1 - 2y) falls by factors of
y (1-y) (4a+2)/(a+1) < 1, and is 1/2 - y at a = 0. As a <= (N+1)/2, with straight lines between
whole a, by Jensen every test errs with probability at least

    (1 - t delta)^n e(A),  A = (1 + n q (1+G)/(1 - t delta))/2.

As epsilon and t fall this is what randomised response on the record's sign reaches; at larger
epsilon the five values hold up to (1 + e^epsilon)/2 times its information.

One view under rho-zCDP and mu-GDP. Its laws are P = (1-t) C + t A and Q = (1-t) C + t B, with A, B
and C those given the parts that only P, only Q, and both have. Hellinger's distance of P and Q is
small, as (sqrt P + sqrt Q)^2 >= 4 (1-t) C:

    1 - int sqrt(P Q) = 1/2 int (P-Q)^2/(sqrt P + sqrt Q)^2 <= t^2 I/(8 (1-t)),  I = int (A-B)^2/C.

By convexity A, B and C are as near to each other as views of two records may be: int A^2/C and
int B^2/C are at most e^(2 rho), rho = mu^2/2, by the divergence of order 2. And int AB/C is at
least F^2, F = int sqrt(AB), by Cauchy and Schwarz, so that

    I <= 2 (e^(2 rho) - F^2).

Under GDP F is at least that of N(0, 1) and N(mu, 1), e^(-mu^2/8). Under zCDP, with a fair bit that
says whether A and B were exchanged, the pair is a mixture of coins (x, 1-x) and (1-x, x),
x = 1/(1+e^l), of relative entropy l tanh(l/2), at most rho in the mean, and F = 1/cosh(l/2). In
terms of that entropy F has the slope -1/(2 cosh s + 2s/sinh s), s = l/2, which grows with s: F is
convex, and by Jensen least for one coin of relative entropy rho.

Affinities of n views, whatever is asked of whom, multiply at least as those of one. Where a test
has errors of at most beta, 1 - 2 beta <= sqrt(1 - (int sqrt(PQ))^2): it needs
int sqrt(PQ) <= 2 sqrt(beta (1-beta)), while n views have (1 - t^2 I/(8 (1-t)))^n or more.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import betainc, expit, ndtr

from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, NORMAL_FROM, LowerBound, coin_logit

__all__ = ["contrast", "local_distance", "local_lower_bound"]


def local_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """The largest error that testing a pair with a rare point forces on local estimators.

    As `two_point_lower_bound`, of n views that each have the whole budget; infinite, with p* = 1,
    where not even n equal records are told from n others.
    """
    p = local_distance(n, budget, beta=beta)
    return LowerBound(p * TwoPoint(p=p, k=k).tau if p < 1 else p * np.inf, p)


@cache
def local_distance(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """The largest total-variation distance of two laws that n local views do not tell, at most 1.

    Every test errs with a probability of at least beta under one of them. NaN if not known. For
    Bernoulli laws it is the distance of their means, for N(m, 1) and N(-m, 1) 2 Phi(m) - 1. At
    least 1 - (2 beta)^(1/n): all records are from what the laws share with probability 2 beta.
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
    # t^2 I/(1-t) = 8 unlike
    found = 2 / (1 + np.sqrt(1 + 4 * (contrast(budget) / (8 * unlike))))
    return float(np.maximum(found, unseen))


def contrast(budget: Budget) -> float:
    """What I of the module is at most; NaN where nothing is known of the notion."""
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
    """The bound of the module on the error of a test, up to a relative error of 1e-8."""
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
