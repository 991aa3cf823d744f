"""A lower bound for heavy tails by more than two laws, for k above 4, under pure DP and zCDP.

Laws on -tau, 0 and tau of probabilities (P-th)/2, 1-P and (P+th)/2, of means th tau, abs(th) <= P.
With tau = P^(-1/k) and P <= 1/k, k >= 3, they have E|X - mean|^k <= 1: less P, that is tau^k times

    P (A - 1) + (1-P) abs(th)^k - th B,  A, B = ((1+th)^k +- (1-th)^k)/2,

with A <= cosh(k th), B >= k th and k abs(th) <= 1: at most th^2 (0.544 k + 1/k - k) < 0.

A release errs by less than rho P tau. J + 1 of the laws, th = P u, are at equal steps of 2/J in u.
Let x_jc be the probability, under law j, of cell c: c is an interval that is near enough to the
means of the laws c, ..., c + W - 1, rho = W/J; a release near to fewer of them may be moved to a
cell. Two neighbours have total-variation distance t = P/J. Change one record's law, the others
staying as they are: given that record, the probability of an answer is some phi with
phi(x) <= e^epsilon phi(y), and a part 1 - t of the record is shared, so that phi's mean m grows
to at most (1-t) m + t e^epsilon m. After n records

    x_jc <= (1 + (e^epsilon - 1) P/J)^n x_j'c <= e^(L/J) x_j'c,   L = n P (e^epsilon - 1).

The least of the largest probabilities of failure is that of a linear program which depends on L, J
and W alone. Where it is beta, every release errs by rho P tau = rho P^(1 - 1/k) with probability
at least beta under one of the laws. `LAWS` has the largest L for beta = 0.1; W = J, rho = 1, is
the two-point bound in the limit of small epsilon, L = 2 ln(1/(2 beta)). Against that this one is
larger by 1.7, 4.8, 9.6 and 16 per cent at k = 5, 6, 8 and 12, and not at k <= 4; but the two-point
bound is exact in epsilon, and overtakes it where that is not small.

The dual certifies: with weights w_j >= 0 of sum 1 on failures, multipliers y >= 0 of the
inequalities r_i.x_c <= 0 between neighbours, and v_j = min over c of w_j F_jc + sum_i y_ic r_ij,
where F is 1 for failures, every x has sum_jc w_j F_jc x_jc >= sum_j v_j. So whatever a solver says
of w and y, the sum of v is a bound.

zCDP. How fast can the probabilities f_c(u) of cells move as the law does? Let M records not be 0:
M ~ Binomial(n, P) whatever u is, and each is tau with probability a = (1+u)/2. Given M and all but
one of their signs, f is a A + (1-a) B, where neighbours release by A and by B; so f is a mean of
these, and its slope M/2 times the mean of A - B. As (x, y) -> x^2/y is jointly convex, and convex
in y, its Fisher information sum_c f_c'^2/f_c is at most (M/2)^2 times a mean of
sum_c (A_c - B_c)^2/(a A_c + (1-a) B_c), which is convex in a: at most its value at an end, a
chi-square divergence, e^D - 1 <= e^(2 rho) - 1 with D of order 2. By joint convexity once more it
is, over M, too, at most

    I = (e^(2 rho) - 1) E M^2/4,  E M^2 = nP (nP + 1 - P).

So the unit vector of the sqrt f_c turns at a speed of at most sqrt(I)/2: by an arc of at most
A = sqrt(I) from u = -1 to 1, and from a law to the next one sum_c sqrt(x_jc x_j+1,c) >= cos(A/J).
Again the least failure depends on A, J and W alone. For W = J it is (1 - sin A)/2, less than with
two laws, where all orders count. For beta = 0.1 A W/J stays below 1.626 however long the chain:
noise of density cos^2, with exponential tails of the same slopes, has a share 0.9 within +-1.626
at a Fisher information of 1 (Gaussian noise within +-1.645). `ARCS` has the largest A for
beta = 0.1; the bound is larger than that by two laws by 0.7, 5.0, 12 and 19 per cent at k = 5, 6, 8
and 12 for rho = 5e-5, and not at k <= 4.

The dual certifies: let v_j >= 0 and m_j be such that for every cell c the symmetric matrix of
w_j F_jc + m_j, and of -v_j/2 beside the diagonal, has no negative eigenvalue. With the vectors of
sqrt x_jc, summed over c, the failure is at least cos(A/J) sum_j v_j - sum_j m_j.
"""

from __future__ import annotations

import numpy as np

from dpbench.privacy import ZCDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA

__all__ = ["ARCS", "ARC_STEPS", "LAWS", "STEPS", "several_laws_lower_bound"]

STEPS = 24  # J
LAWS = {12: 7.8231, 8: 12.541, 6: 17.178}  # L by W
ARC_STEPS = 16
ARCS = {6: 3.585, 5: 4.468}  # A by W


def several_laws_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> float:
    """An error that every private estimator exceeds, with probability 0.1, on one of the laws.

    Under epsilon-DP and rho-zCDP; NaN where this is not known: other notions and beta, k < 3, or so
    few records that P > 1/k.
    """
    if not isinstance(budget, PureDP | ZCDP) or beta != BETA or k < 3:
        return float("nan")
    with np.errstate(over="ignore"):
        if isinstance(budget, PureDP):
            told = n * np.expm1(budget.epsilon)
            rare = [(width / STEPS, least / told) for width, least in LAWS.items()]
        else:
            squares = {w: 4 * arc**2 / np.expm1(2 * budget.rho) for w, arc in ARCS.items()}  # E M^2
            rare = [
                (width / ARC_STEPS, 2 * square / (n * (1 + np.sqrt(1 + 4 * (1 - 1 / n) * square))))
                for width, square in squares.items()
            ]
    return float(max((near * p ** (1 - 1 / k) for near, p in rare if p <= 1 / k), default=np.nan))
