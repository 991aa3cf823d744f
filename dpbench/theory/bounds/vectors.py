"""Packing bounds in many dimensions: distributions whose means lie in an unknown direction.

Notation (name in code). There are n records of d coordinates. Each unit vector u has a distribution
P_u of mean R u, at total-variation distance at most t from a distribution Q that does not depend on
u. u is uniform on the sphere, or on the 2d vectors +-e_i.

    r (`radius` = r/R)    error of the estimator
    c (`log_share` = ln c)  largest share of directions u with |z - R u| < r, over all answers z
    g^s(c) (`_power`)     largest power of a private test with false-alarm probability c, where the
                          two datasets differ in s records
    D (`log_spare` = ln D)  delta/(e^epsilon - 1);  m = (1 - delta)/(1 + e^epsilon)
    kl(a || b)            relative entropy of Bernoulli(a) with respect to Bernoulli(b)
    I_x(h, 1/2), B(h, 1/2)  regularised incomplete beta function, beta function

Shares. For +-e_i and r = R/sqrt 2, c = 1/(2d), because the balls around the means are disjoint. For
the sphere and r = R sin(a), a < pi/2, c is the share of a cap of angle a,

    c = I_x(h, 1/2)/2 <= x^h/(2 h B(h, 1/2) sqrt(1 - x)),  x = sin(a)^2,  h = (d-1)/2.

Statement. Suppose that an estimator errs by less than r with probability at least 1 - beta under
every P_u. Let S ~ Binomial(n, t). Then

    (epsilon, delta)-DP, GDP  1 - beta <= E g^S(c)           if Q is a point mass (`one_dataset`),
                              1 - beta <= P(S > s) + g^s(c)  for every s and any Q,
    zCDP                      kl(1 - beta || c) <= rho E S^2 = rho (n t (1-t) + n^2 t^2).

So at the largest t that violates these conditions (`_largest_hidden_distance`) every estimator
errs by r with probability at least beta under some P_u. In the two classes, with R <= 1,

    moments   E|<v, X - mean>|^k <= 1 for all unit vectors v: P_u is R u/t with probability t, else
              0. R = t tau, where tau makes the k-th moment in direction u equal to 1; R = 1 at
              t = 1/2; Q is the point mass at 0.
    gaussian  N(mean, I): Q = N(0, I), t = 2 Phi(R/2) - 1.

The bound from the pair P_u, P_(-u) (`dpbench.theory.bounds.numbers`, 3) is returned if it is
larger.

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
from dpbench.distributions.discrete import inverse_norm
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
    """Lower bound on the l2 error of vector means, and the distributions that prove it.

    Parameters
    ----------
    alpha : float
        Error that is exceeded with probability at least beta (0.1 by default); NaN if no bound is
        known.
    by : str
        ``two-point``: two distributions with opposite means. ``packing``: a distribution for every
        direction of the mean. Empty if no bound is known.
    """

    alpha: float
    by: str


def moments_lower_bound(
    n: int, d: int, k: float, budget: Budget, *, beta: float = BETA
) -> VectorBound:
    """Return the lower bound on the l2 error for central k-th moments of at most 1.

    The moments are at most 1 in every direction.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of coordinates of a record.
    k : float
        Order of the moment: E|<v, X - mean>|^k <= 1 for every unit vector v.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    VectorBound
        The larger of two bounds: from a pair of distributions with opposite means, and from
        distributions with means in an unknown direction.
    """

    def mean_norm(t: Floats) -> Floats:
        """Return t tau, the norm of the mean of a random vector with the values 0 and tau u.

        u is a unit vector, and the vector is tau u with probability t; t above 1/2 counts as 1/2.
        tau makes the central k-th moment in the direction of u equal to 1.
        """
        t = np.clip(t, 1e-300, 0.5)
        return np.asarray(t * inverse_norm(t, k))

    return _larger_bound(n, d, budget, beta, mean_norm, mean_norm, one_dataset=True)


def gaussian_lower_bound(n: int, d: int, budget: Budget, *, beta: float = BETA) -> VectorBound:
    """Return the lower bound on the l2 error for the class of N(mean, I) with an unknown mean.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of coordinates of a record.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    VectorBound
        The larger of two bounds, in standard deviations: from a pair of distributions with opposite
        means, and from distributions with means in an unknown direction.
    """

    def half_distance(t: Floats) -> Floats:
        """Return half the distance of the means of two normal distributions, but at most 1.

        The distributions are N(m, 1) and N(-m, 1) at total-variation distance t, and half the
        distance of their means is m = Phi^-1((1 + t)/2).
        """
        return np.asarray(np.minimum(np.sqrt(2) * erfinv(t), 1))

    return _larger_bound(
        n,
        d,
        budget,
        beta,
        half_distance,
        lambda t: np.minimum(2 * half_distance(t), 1),
        one_dataset=False,
    )


def _larger_bound(
    n: int,
    d: int,
    budget: Budget,
    beta: float,
    pair_bound: Callable[[Floats], Floats],
    mean_norm: Callable[[Floats], Floats],
    *,
    one_dataset: bool,
) -> VectorBound:
    """Return the larger of two lower bounds on the l2 error of private estimators.

    The first bound is from a pair of distributions with opposite means, at total-variation distance
    t. `pair_bound` maps t to half the distance of the two means. The second bound is from one
    distribution for each unit vector u. This distribution has the mean R u, and total-variation
    distance t from a common distribution Q. `mean_norm` maps t to R. `one_dataset` is true if Q is
    a point mass.
    """
    pair_distance = largest_untestable_tv(n, budget, beta)
    if np.isnan(pair_distance):
        return VectorBound(np.nan, "")
    by_pair = VectorBound(float(pair_bound(np.asarray(pair_distance))), "two-point")
    if d == 1:
        return by_pair
    log_share, radius = _answer_shares(d)
    # Every r gives a valid bound. Choose the r that would be best if S were n t.
    approximate_t = np.minimum(_needed_records(budget, log_share, beta) / n, 1.0)
    best = int(np.argmax(mean_norm(approximate_t) * radius))
    t = _largest_hidden_distance(n, budget, float(log_share[best]), beta, one_dataset)
    return max(by_pair, VectorBound(float(mean_norm(np.asarray(t)) * radius[best]), "packing"))


def _answer_shares(d: int) -> tuple[Floats, Floats]:
    """Return log shares of directions that one answer fits, and the corresponding errors r/R.

    The mean is R u, where the unit vector u is random and unknown. An answer z of an estimator fits
    u if |z - R u| < r. The share is the probability that the best single answer fits u. The second
    array contains values of r/R: the sines of `ANGLES`, angles in (0, pi/2), and last sqrt(1/2).
    The first array contains the natural logarithm of the share for each r/R. For the sines, u is
    uniform on the sphere in d > 1 dimensions. For the last entry, u is one of the 2d unit vectors
    +-e_i.
    """
    h, x = (d - 1) / 2, np.sin(ANGLES) ** 2
    with np.errstate(divide="ignore"):
        exact = np.log(betainc(h, 0.5, x) / 2)
    limit = h * np.log(x) - np.log(2 * h * np.cos(ANGLES)) - betaln(h, 0.5)
    log_share = np.where(exact > -600, exact, limit)  # below e^-600 betainc underflows
    return np.append(log_share, -np.log(2 * d)), np.append(np.sin(ANGLES), np.sqrt(0.5))


def _composition_constants(budget: PureDP | ApproxDP) -> tuple[float, float]:
    """Return ln D and m, the two constants of group privacy under (epsilon, delta)-DP.

    D = delta/(e^epsilon - 1), and ln D is minus infinity at delta = 0.
    m = (1 - delta)/(1 + e^epsilon) is the smallest x at which a private test of two neighbours has
    both errors x.
    """
    delta = getattr(budget, "delta", 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        log_spare = np.log(delta) - np.log(np.expm1(budget.epsilon))
        return float(log_spare), float((1 - delta) / (1 + np.exp(budget.epsilon)))


def _needed_records(budget: Budget, log_share: Floats, beta: float) -> Floats:
    """Return the number of differing records at which a private test can have the power 1 - beta.

    The test compares two datasets, and its false alarms have the probability e^`log_share`. The
    result is a real number s. Under zCDP, s is only a lower limit of the needed number: s^2 rho is
    the relative entropy of Bernoulli(1 - beta) with respect to Bernoulli(e^`log_share`).
    """
    if isinstance(budget, GDP):
        return np.asarray((ndtri(1 - beta) - ndtri_exp(log_share)) / budget.mu)
    if isinstance(budget, ZCDP):
        wrong = beta * (np.log(beta) - np.log1p(-np.exp(log_share)))
        divergence = (1 - beta) * (np.log1p(-beta) - log_share) + wrong
        return np.asarray(np.sqrt(divergence / budget.rho))
    assert isinstance(budget, PureDP | ApproxDP)
    log_spare, m = _composition_constants(budget)
    up = np.logaddexp(np.log(m), log_spare) - np.logaddexp(log_share, log_spare)
    down = np.logaddexp(np.log1p(-m), log_spare) - np.logaddexp(np.log(beta), log_spare)
    return np.asarray(np.maximum(up, 0) + down) / budget.epsilon


def _power(s: Floats, log_share: float, budget: Budget) -> Floats:
    """Return the largest power of a private test of two datasets that differ in `s` records.

    The false alarms of the test have the probability e^`log_share`. `s` holds whole numbers.
    """
    if isinstance(budget, GDP):
        return np.asarray(ndtr(ndtri_exp(log_share) + s * budget.mu))
    assert isinstance(budget, PureDP | ApproxDP)
    log_spare, m = _composition_constants(budget)
    start, spare = np.logaddexp(log_share, log_spare), np.exp(log_spare)
    steps_up = max(np.ceil((np.logaddexp(np.log(m), log_spare) - start) / budget.epsilon), 0.0)
    up = np.exp(start + budget.epsilon * np.minimum(s, steps_up)) - spare
    down = (1 - up + spare) * np.exp(-budget.epsilon * np.maximum(s - steps_up, 0)) - spare
    return np.asarray(np.where(s <= steps_up, up, 1 - np.maximum(down, 0)))


@cache
def _largest_hidden_distance(
    n: int, budget: Budget, log_share: float, beta: float, one_dataset: bool
) -> float:
    """Return the largest t <= 1 at which private estimators cannot find a mean's direction.

    For each direction of the mean, a record has a distribution at total-variation distance t from a
    common distribution Q. `one_dataset` is true if Q is a point mass. A fixed answer is near enough
    to the mean for at most a share e^`log_share` of all directions. At the returned t every private
    estimator misses the mean with probability beta or more, for at least one direction.
    """
    if isinstance(budget, ZCDP):
        needed = float(_needed_records(budget, np.asarray(log_share), beta)) ** 2 / n
        # Solve n (n-1) t^2 + n t = needed n for t.
        return float(min(2 * needed / (1 + np.sqrt(1 + 4 * (n - 1) * needed)), 1.0))

    def margin(t: float) -> float:
        s, weights = binomial_weights(t, n)
        powers = _power(s, log_share, budget)
        power = weights @ powers if one_dataset else np.min(1 - np.cumsum(weights) + powers)
        return float(1 - beta - power)

    if _power(np.array(float(n)), log_share, budget) <= 1 - beta:
        return 1.0
    return largest_distance(margin, n)
