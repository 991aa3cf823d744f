"""Lower bounds in many dimensions, by distributions whose means lie in an unknown direction.

Notation (name in code). Each unit vector u has a distribution P_u of mean R u, at total-variation
distance at most t from a distribution Q. u is uniform on the sphere, or on the 2d vectors +-e_i.

    r (`radius` = r/R)    error of the estimator
    c (`log_share` = ln c)  largest share of the u whose means are within r of any one answer
    g^s                   largest power of a private test of size c, of datasets s records apart
    D (`log_spare` = ln D)  delta/(e^epsilon - 1);  m = (1 - delta)/(1 + e^epsilon)

Shares. For +-e_i and r = R/sqrt 2: c = 1/(2d), because the balls around the means are disjoint. For
the sphere and r = R sin(a), a < pi/2: c is the share of a cap of angle a,

    c = I_x(h, 1/2)/2 <= x^h/(2 h B(h, 1/2) sqrt(1 - x)),  x = sin(a)^2,  h = (d-1)/2.

Statement. Suppose that an estimator errs by less than r with probability at least 1 - beta under
every P_u. Then with S ~ Binomial(n, t)

    (epsilon, delta)-DP, GDP  1 - beta <= E g^S(c)           if Q is a point mass (`one_dataset`),
                              1 - beta <= P(S > s) + g^s(c)  for every s and any Q,
    zCDP                      kl(1 - beta || c) <= rho E S^2 = rho (n t (1-t) + n^2 t^2).

So at the largest t that violates this (`_hidden`) every estimator errs by r with probability at
least beta under some P_u. In the classes, with R <= 1,

    moments   E|<v, X - mean>|^k <= 1 for all unit vectors v: P_u is R u/t with probability t, else
              0. R = t tau with the tau of `TwoPoint`; R = 1 at t = 1/2; Q is the point mass at 0.
    gaussian  N(mean, I): Q = N(0, I), t = 2 Phi(R/2) - 1.

The bound by the pair R u and -R u (`dpbench.theory.bounds.numbers`, 3) is reported where larger.

Proof: docs/theory/unknown_direction.md. Group privacy under zCDP is BS16, Proposition 1.9 (number
not checked).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaln, erfinv, ndtr, ndtri, ndtri_exp

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import (
    BETA,
    binomial_weights,
    largest_distance,
    largest_untestable_tv,
)

__all__ = ["VectorBound", "gaussian_lower_bound", "moments_lower_bound"]

ANGLES = np.linspace(0.01, 0.99, 99) * np.pi / 2


class VectorBound(NamedTuple):
    """Lower bound on the l2 error, and the distributions that prove it.

    Parameters
    ----------
    alpha : float
        Error that is exceeded with probability at least beta; NaN if no bound is known.
    laws : str
        ``pair`` or ``directions``; empty if no bound is known.
    """

    alpha: float
    laws: str


def moments_lower_bound(
    n: int, d: int, k: float, budget: Budget, *, beta: float = BETA
) -> VectorBound:
    """Return the lower bound under k-th central moments of at most 1 in all directions.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Dimension.
    k : float
        Order of the moment.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability of the error.

    Returns
    -------
    VectorBound
        The larger of the bounds by a pair and by directions.
    """

    def reach(t: Floats) -> Floats:
        """Return R(t) = t tau."""
        t = np.clip(t, 1e-300, 0.5)
        return np.asarray(t * (t * (1 - t) * ((1 - t) ** (k - 1) + t ** (k - 1))) ** (-1 / k))

    return _largest(n, d, budget, beta, reach, reach, one_dataset=True)


def gaussian_lower_bound(n: int, d: int, budget: Budget, *, beta: float = BETA) -> VectorBound:
    """Return the lower bound for the class of N(mean, I).

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Dimension.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability of the error.

    Returns
    -------
    VectorBound
        The larger of the bounds by a pair and by directions, in standard deviations.
    """

    def apart(t: Floats) -> Floats:
        """Return Phi^-1((1 + t)/2), half the distance of the means of a pair, and at most 1."""
        return np.asarray(np.minimum(np.sqrt(2) * erfinv(t), 1))

    return _largest(
        n, d, budget, beta, apart, lambda t: np.minimum(2 * apart(t), 1), one_dataset=False
    )


def _largest(
    n: int,
    d: int,
    budget: Budget,
    beta: float,
    of_a_pair: Callable[[Floats], Floats],
    reach: Callable[[Floats], Floats],
    *,
    one_dataset: bool,
) -> VectorBound:
    """Return the larger of the bounds by a pair, `of_a_pair`(t), and by directions, `reach`(t)."""
    pair = largest_untestable_tv(n, budget, beta)
    if np.isnan(pair):
        return VectorBound(np.nan, "")
    found = VectorBound(float(of_a_pair(np.asarray(pair))), "pair")
    if d == 1:
        return found
    log_share, radius = _shares(d)
    # Every r gives a valid bound. Choose the best if exactly n t records differed, instead of S.
    near = np.minimum(_needed(budget, log_share, beta) / n, 1.0)
    best = int(np.argmax(reach(near) * radius))
    t = _hidden(n, budget, float(log_share[best]), beta, one_dataset)
    return max(found, VectorBound(float(reach(np.asarray(t)) * radius[best]), "directions"))


def _shares(d: int) -> tuple[Floats, Floats]:
    """Return ln c and r/R in d > 1 dimensions: for caps of the angles `ANGLES`, then for +-e_i."""
    h, x = (d - 1) / 2, np.sin(ANGLES) ** 2
    with np.errstate(divide="ignore"):
        exact = np.log(betainc(h, 0.5, x) / 2)
    limit = h * np.log(x) - np.log(2 * h * np.cos(ANGLES)) - betaln(h, 0.5)
    log_share = np.where(exact > -600, exact, limit)  # below e^-600 betainc underflows
    return np.append(log_share, -np.log(2 * d)), np.append(np.sin(ANGLES), np.sqrt(0.5))


def _spare(budget: PureDP | ApproxDP) -> tuple[float, float]:
    """Return ln D, which is minus infinity at delta = 0, and m."""
    delta = getattr(budget, "delta", 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        log_spare = np.log(delta) - np.log(np.expm1(budget.epsilon))
        return float(log_spare), float((1 - delta) / (1 + np.exp(budget.epsilon)))


def _needed(budget: Budget, log_share: Floats, beta: float) -> Floats:
    """Return the real s with g^s(c) = 1 - beta, or under zCDP with kl(1 - beta || c) = s^2 rho."""
    if isinstance(budget, GDP):
        return np.asarray((ndtri(1 - beta) - ndtri_exp(log_share)) / budget.mu)
    if isinstance(budget, ZCDP):
        wrong = beta * (np.log(beta) - np.log1p(-np.exp(log_share)))
        divergence = (1 - beta) * (np.log1p(-beta) - log_share) + wrong
        return np.asarray(np.sqrt(divergence / budget.rho))
    assert isinstance(budget, PureDP | ApproxDP)
    log_spare, m = _spare(budget)
    up = np.logaddexp(np.log(m), log_spare) - np.logaddexp(log_share, log_spare)
    down = np.logaddexp(np.log1p(-m), log_spare) - np.logaddexp(np.log(beta), log_spare)
    return np.asarray(np.maximum(up, 0) + down) / budget.epsilon


def _power(s: Floats, log_share: float, budget: Budget) -> Floats:
    """Return g^s(c) for whole numbers s."""
    if isinstance(budget, GDP):
        return np.asarray(ndtr(ndtri_exp(log_share) + s * budget.mu))
    assert isinstance(budget, PureDP | ApproxDP)
    log_spare, m = _spare(budget)
    start, spare = np.logaddexp(log_share, log_spare), np.exp(log_spare)
    turn = max(np.ceil((np.logaddexp(np.log(m), log_spare) - start) / budget.epsilon), 0.0)
    up = np.exp(start + budget.epsilon * np.minimum(s, turn)) - spare
    down = (1 - up + spare) * np.exp(-budget.epsilon * np.maximum(s - turn, 0)) - spare
    return np.asarray(np.where(s <= turn, up, 1 - np.maximum(down, 0)))


@cache
def _hidden(n: int, budget: Budget, log_share: float, beta: float, one_dataset: bool) -> float:
    """Return the largest t <= 1 at which no estimator keeps within r with probability 1 - beta."""
    if isinstance(budget, ZCDP):
        needed = float(_needed(budget, np.asarray(log_share), beta)) ** 2 / n
        # Solve n (n-1) t^2 + n t = needed n for t.
        return float(min(2 * needed / (1 + np.sqrt(1 + 4 * (n - 1) * needed)), 1.0))

    def short(t: float) -> float:
        s, weights = binomial_weights(t, n)
        power = _power(s, log_share, budget)
        told = weights @ power if one_dataset else np.min(1 - np.cumsum(weights) + power)
        return float(1 - beta - told)

    if _power(np.array(float(n)), log_share, budget) <= 1 - beta:
        return 1.0
    return largest_distance(short, n)
