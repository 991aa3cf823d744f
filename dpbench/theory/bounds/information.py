"""Lower bounds on the error from the Fisher information of a release, for zCDP and Gaussian DP.

Notation (name in code).

    beta                probability with which the error is at least the bound, 0.1
    chi                 e^(2 rho) - 1 under rho-zCDP, e^(mu^2) - 1 under mu-GDP: the largest
                        chi-square divergence of a release on two neighbouring datasets
    t                   parameter of the distribution of a record
    I(t)                Fisher information of the release about t

1. From information to error. Let t have the density cos^2(pi (t - m)/(2A))/A on [m - A, m + A],
   whose Fisher information is (pi/A)^2. The density of the error e of an estimate of t then has a
   Fisher information of at most F = E I(t) + (pi/A)^2. Every density of Fisher information F has,
   for every a in (0, pi/2),

       F x^2 >= 4 a^2 (1 - b - b tan(a)^2),   b = P(|e| >= x).

   Let c^2 be the right-hand side at b = beta. So P(|e| >= c/sqrt(F)) >= beta, and the same holds
   under some t. `best_quantile` returns the largest c over all a. It is 1.626 for beta = 0.1, where
   Gaussian errors have 1.645.

2. Bernoulli means p, from n records: 1/I(p) >= p (1-p)/n + 1/(n^2 chi). The first term is the
   variance of the average, and the second is near the variance of Gaussian noise for small rho.

3. Means of N(t, 1), from n records: 1/I(t) >= 1/n + 1/(n^2 C chi). Here C = E min(|Z|, z)^2 for a
   standard normal Z, and z is such that E min(|Z|, z) is phi(0), the density of Z at 0. C is 0.182.
   If the bound on the effect of a record were sharp, C would be phi(0)^2 = 0.159. All t are
   possible, so A is arbitrarily large.

Proof: docs/theory/information.md.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import ndtr

from dpbench.privacy import GDP, ZCDP, Budget
from dpbench.theory.bounds.numbers import BETA

__all__ = [
    "bernoulli_information_bound",
    "best_quantile",
    "gaussian_information_bound",
]

GRID = (np.arange(1000) + 0.5) / 1000  # values of |p - 1/2|/A
PRIOR = 2 * np.cos(np.pi / 2 * GRID) ** 2 / len(GRID)  # their probabilities
HALF_WIDTHS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5)  # values of A that are tried


@cache
def best_quantile(beta: float = BETA) -> float:
    """Return the size c that errors of Fisher information 1 reach with probability beta.

    Parameters
    ----------
    beta : float, default 0.1
        Probability in (0, 1/2).

    Returns
    -------
    float
        The largest c over all a in step 1 of `dpbench.theory.bounds.information`.
    """
    a = np.linspace(0, np.arctan(np.sqrt((1 - beta) / beta)), 10_001)
    return float(np.sqrt(np.max(4 * a**2 * (1 - beta - beta * np.tan(a) ** 2))))


def _privacy_variance(n: int, budget: Budget, factor: float = 1.0) -> float:
    """Return 1/(n^2 `factor` chi); NaN for notions other than zCDP and Gaussian DP."""
    if not isinstance(budget, ZCDP | GDP):
        return float("nan")
    order_two = 2 * budget.rho if isinstance(budget, ZCDP) else budget.mu**2
    with np.errstate(over="ignore"):  # the limit is 0
        return float(1 / (np.float64(n) ** 2 * factor * np.expm1(order_two)))


@cache
def bernoulli_information_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators of a Bernoulli mean.

    Parameters
    ----------
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the estimator, `ZCDP` or `GDP`.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta for some mean; NaN for other notions.
    """
    privacy = _privacy_variance(n, budget)

    def total(half_width: float) -> float:
        """Return F of step 1. Integrals are sums over a grid, with a relative error below 1e-6."""
        sampling = (0.25 - (half_width * GRID) ** 2) / n
        return float(PRIOR @ (1 / (sampling + privacy)) + (np.pi / half_width) ** 2)

    return best_quantile(beta) / float(np.sqrt(min(total(width) for width in HALF_WIDTHS)))


@cache
def _normal_factor() -> float:
    """Return C of step 3."""
    from scipy.optimize import brentq

    top = 1 / np.sqrt(2 * np.pi)

    def density(z: float) -> float:
        return float(top * np.exp(-(z**2) / 2))

    def excess(z: float) -> float:
        return float(2 * (top - density(z)) + 2 * z * ndtr(-z) - top)

    z = float(brentq(excess, 0, 1, xtol=1e-15))
    inner = 2 * ndtr(z) - 1 - 2 * z * density(z)  # E Z^2 for |Z| < z
    return float(inner + 2 * z**2 * ndtr(-z))


def gaussian_information_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators of the mean of N(mean, 1).

    Parameters
    ----------
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the estimator, `ZCDP` or `GDP`.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    float
        Error, in standard deviations, that is exceeded with probability arbitrarily near to beta;
        NaN for other notions.
    """
    privacy = _privacy_variance(n, budget, _normal_factor())
    return float(best_quantile(beta) * np.sqrt(1 / n + privacy))
