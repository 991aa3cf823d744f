"""Lower bound for heavy tails by more than two distributions, for k above 4, pure DP and zCDP.

Notation (name in code).

    k, n, epsilon, rho  moment order, records, privacy parameters
    beta                probability of the error, 0.1
    P (`p`)             probability that a record is not 0; P <= 1/k
    tau = P^(-1/k)      absolute value of the other records
    J (`STEPS`, `ARC_STEPS`), u_j = -1 + 2j/J, j = 0, ..., J
                        distribution j is on -tau, 0, tau with the probabilities
                        P (1 - u_j)/2, 1 - P, P (1 + u_j)/2, and has the mean u_j P tau
    W (keys of `LAWS` and `ARCS`), w = W/J (`near`)
                        error in steps: each interval of half-width w P tau contains at most W
                        means in its interior
    L (values of `LAWS`)  n P (e^epsilon - 1)
    a (values of `ARCS`)  sqrt(I), for the bound I on a Fisher information below

Statement. For k >= 3 all J + 1 distributions have E|X - mean|^k <= 1. Let a release "fail" if its
error is w P tau or more.

Pure DP: let LP(L, J, W) be the value of a linear program, the smallest possible largest probability
of failure. Where it is at least beta, each release errs by w P tau = w P^(1 - 1/k) with probability
at least beta under one of the distributions. `LAWS` has the largest L for beta = 0.1 by W.

zCDP: the same holds with a convex program in a, where

    a^2 = I = (e^(2 rho) - 1) E M^2/4,   E M^2 = nP (nP + 1 - P) (`square`),   M ~ Binomial(n, P).

`ARCS` has the largest a for beta = 0.1 by W.

Both tables are certified by dual solutions (tests/theory/bounds/test_multi_hypothesis.py solves
both programs again). The bound is larger than that of two distributions in the limit of small
epsilon by
1.7, 4.8, 9.6 and 16 per cent at k = 5, 6, 8 and 12 under pure DP, and by 0.7, 5.0, 12 and 19 per
cent under zCDP with rho = 5e-5; it is not larger for k <= 4. The bound of two distributions is
exact in epsilon, and larger where epsilon is not small.

Proof: docs/theory/several_distributions.md.
"""

from __future__ import annotations

import numpy as np

from dpbench.privacy import ZCDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA

__all__ = ["ARCS", "ARC_STEPS", "LAWS", "STEPS", "multi_hypothesis_lower_bound"]

STEPS = 24  # J under pure DP
LAWS = {12: 7.8231, 8: 12.541, 6: 17.178}  # the largest L for beta = 0.1, by W
ARC_STEPS = 16  # J under zCDP
ARCS = {6: 3.585, 5: 4.468}  # the largest a for beta = 0.1, by W


def multi_hypothesis_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on private estimators by a chain of distributions on -tau, 0 and tau.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment: E|X - mean|^k <= 1.
    budget : Budget
        Privacy guarantee of the estimator, `PureDP` or `ZCDP`.
    beta : float, default 0.1
        Probability of the error; no other value is tabulated.

    Returns
    -------
    float
        Error that every private estimator exceeds with probability 0.1 under one of the
        distributions. NaN for other notions, other beta, k < 3, or so few records that P > 1/k.
    """
    if not isinstance(budget, PureDP | ZCDP) or beta != BETA or k < 3:
        return float("nan")
    with np.errstate(over="ignore"):
        if isinstance(budget, PureDP):
            l_over_p = n * np.expm1(budget.epsilon)  # L/P
            rare = [(width / STEPS, level / l_over_p) for width, level in LAWS.items()]
        else:
            squares = {w: 4 * arc**2 / np.expm1(2 * budget.rho) for w, arc in ARCS.items()}  # E M^2
            rare = [
                (width / ARC_STEPS, 2 * square / (n * (1 + np.sqrt(1 + 4 * (1 - 1 / n) * square))))
                for width, square in squares.items()
            ]
    return float(max((near * p ** (1 - 1 / k) for near, p in rare if p <= 1 / k), default=np.nan))
