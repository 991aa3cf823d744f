"""Lower bound on the error from more than two distributions, for pure DP and zCDP.

The bound is for distributions with E|X - mean|^k <= 1, and useful for k > 4.

Notation (name in code).

    k, n, epsilon, rho  moment order, records, privacy parameters
    beta                probability with which the error is at least the bound, 0.1
    P (`p`)             probability that a record is not 0; P <= 1/k
    tau = P^(-1/k)      absolute value of a record that is not 0
    J (`STEPS` under pure DP, `ARC_STEPS` under zCDP)
                        the distributions are numbered j = 0, ..., J
    u_j = -1 + 2j/J     distribution j is on -tau, 0, tau with the probabilities
                        P (1 - u_j)/2, 1 - P, P (1 + u_j)/2, and has the mean u_j P tau
    W (keys of `LARGEST_L` and `LARGEST_ARC`)
                        largest number of means that one answer may be near to
    w = W/J (`half_width`)
                        unit of the error: an open interval of half-width w P tau contains at
                        most W of the means, because they are 2 P tau/J apart
    L = n P (e^epsilon - 1) (values of `LARGEST_L`)
    a = sqrt(I) (values of `LARGEST_ARC`), where
                        I = (e^(2 rho) - 1) E M^2/4 bounds a Fisher information,
                        E M^2 = nP (nP + 1 - P) (`square`), M ~ Binomial(n, P)

Statement. For k >= 3 all J + 1 distributions have E|X - mean|^k <= 1. Say that a release fails if
its error is w P tau = w P^(1 - 1/k) or more. For every private release, the largest probability of
failure over the distributions is at least the value of

    pure DP   a linear program in L, J and W,
    zCDP      a convex program in a, J and W.

If this value is at least beta, each release fails with probability at least beta under one of the
distributions. For each W, `LARGEST_L` contains the largest L at which the value is at least 0.1,
and `LARGEST_ARC` the largest a. Both tables are certified by dual solutions
(tests/theory/bounds/test_multi_hypothesis.py solves both programs again).

Comparison with the bound of two distributions (`two_point_lower_bound`). For k <= 4 the bound of
several distributions is not larger. For small epsilon under pure DP, and at rho = 5e-5 under zCDP,
the bound of several distributions is larger by

    k         5     6     8     12
    pure DP   1.7   4.8   9.6   16    per cent
    zCDP      0.7   5.0   12    19    per cent

Unless epsilon is small, the bound of two distributions is larger. The reason is that the proof for
several distributions bounds the effect of a record by e^epsilon - 1, which is loose for larger
epsilon.

Proof: docs/theory/several_distributions.md.
"""

from __future__ import annotations

import numpy as np

from dpbench.privacy import ZCDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA

__all__ = ["ARC_STEPS", "LARGEST_ARC", "LARGEST_L", "STEPS", "multi_hypothesis_lower_bound"]

STEPS = 24  # J under pure DP
LARGEST_L = {12: 7.8231, 8: 12.541, 6: 17.178}  # the largest L for beta = 0.1, by W
ARC_STEPS = 16  # J under zCDP
LARGEST_ARC = {6: 3.585, 5: 4.468}  # the largest a for beta = 0.1, by W


def multi_hypothesis_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators from more than two distributions.

    Under each distribution a record is not 0 with probability P, which n and the budget determine.
    A non-zero record is tau = P^(-1/k) or -tau. The distributions differ in the probability of tau.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment; every distribution has E|X - mean|^k <= 1.
    budget : Budget
        Privacy guarantee of the estimator, `PureDP` or `ZCDP`.
    beta : float, default 0.1
        Probability with which the error is at least the bound; only 0.1 is tabulated.

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
            candidates = [(width / STEPS, level / l_over_p) for width, level in LARGEST_L.items()]
        else:
            squares = {
                w: 4 * arc**2 / np.expm1(2 * budget.rho) for w, arc in LARGEST_ARC.items()
            }  # E M^2
            candidates = [
                (width / ARC_STEPS, 2 * square / (n * (1 + np.sqrt(1 + 4 * (1 - 1 / n) * square))))
                for width, square in squares.items()
            ]
    return float(
        max(
            (half_width * p ** (1 - 1 / k) for half_width, p in candidates if p <= 1 / k),
            default=np.nan,
        )
    )
