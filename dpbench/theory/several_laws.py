"""A lower bound for heavy tails by more than two laws, for k above 4.

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
"""

from __future__ import annotations

import numpy as np

from dpbench.privacy import Budget, PureDP
from dpbench.theory.lower_bounds import BETA

__all__ = ["LAWS", "least_failure", "several_laws_lower_bound"]

STEPS = 24  # J
LAWS = {12: 7.8231, 8: 12.541, 6: 17.178}  # L by W


def several_laws_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> float:
    """An error that every epsilon-DP estimator exceeds, with probability 0.1, on one of the laws.

    NaN where this is not known: other notions and beta, k < 3, or so few records that P > 1/k.
    """
    if not isinstance(budget, PureDP) or beta != BETA or k < 3:
        return float("nan")
    with np.errstate(over="ignore"):
        rare = {width: told / (n * np.expm1(budget.epsilon)) for width, told in LAWS.items()}
    found = [width / STEPS * p ** (1 - 1 / k) for width, p in rare.items() if p <= 1 / k]
    return float(max(found, default=np.nan))


def least_failure(steps: int, width: int, told: float) -> float:
    """A certified lower bound on the largest probability of failure, with J, W and L."""
    from scipy.optimize import linprog  # a slow import

    laws, cells = steps + 1, steps + 2 - width
    up, down = np.eye(laws)[:-1], np.eye(laws)[1:]
    ratios = np.vstack([up - np.exp(told / steps) * down, down - np.exp(told / steps) * up])
    first = np.arange(laws)[:, None] - np.arange(cells)
    fails = 1.0 * ((first < 0) | (first >= width))
    failure = (np.eye(laws)[:, :, None] * fails).reshape(laws, -1)
    limits = np.vstack([
        np.pad(np.kron(ratios, np.eye(cells)), [(0, 0), (0, 1)]),
        np.hstack([failure, -np.ones((laws, 1))]),
    ])  # fmt: skip
    found = linprog(
        np.append(np.zeros(fails.size), 1), A_ub=limits, b_ub=np.zeros(len(limits)), method="highs",
        A_eq=np.pad(np.kron(np.eye(laws), np.ones(cells)), [(0, 0), (0, 1)]), b_eq=np.ones(laws),
    )  # fmt: skip
    multipliers = np.maximum(-found.ineqlin.marginals, 0)
    weights, y = multipliers[-laws:], multipliers[:-laws].reshape(2 * steps, cells)
    return float((weights[:, None] / weights.sum() * fails + ratios.T @ y).min(axis=1).sum())
