"""Lower bounds in many dimensions: laws whose means lie in an unknown direction.

Laws P_u, one for each unit vector u, have the means R u, and a total-variation distance of at
most t from one law Q. Let u be uniform, of all unit vectors or of the 2d that are +-e_i. Whatever
an estimator returns, it errs by less than r for a share of at most c of all u. For +-e_i and
r = R/sqrt 2 that is c = 1/(2d), as balls around the means are disjoint. For all u and r = R sin(a)
these u are in a cap of angle a < pi/2, the largest that a ball cuts from the sphere, so that

    c = I_x(h, 1/2)/2 <= x^h/(2 h B(h, 1/2) sqrt(1 - x)),  x = sin(a)^2, h = (d-1)/2,

as (1-z)^(-1/2) in the incomplete beta integral is largest at its end z = x.

Let f_u(x) be the probability that the release errs by less than r from R u on a dataset x. On any
dataset its mean over u is at most c. If it is at least 1 - beta under every P_u, then t is large:

    (epsilon, delta), GDP  n records of P_u and of Q can be coupled to differ in S ~ Bin(n, t) of
        them, and f_u(x) <= g^S(f_u(y)) with the concave g of `dpbench.theory.bounds.numbers` (for
        GDP g^s(a) = Phi(Phi^-1(a) + s mu)). If Q is one dataset y, then by Jensen's inequality over
        u 1 - beta <= E g^S(c). For any Q, for any s, 1 - beta <= P(S > s) + g^s(c).
        Of g, with D = delta/(e^epsilon - 1) and m = (1 - delta)/(1 + e^epsilon): a + D grows by
        e^epsilon until a >= m, and from there 1 - a + D falls by it.
    zCDP  s replaced records cost s^2 rho (Bun, Steinke 2016, Prop. 1.9), a bound on the
        Kullback-Leibler divergence, too. By joint convexity the releases under P_u and Q have one
        of at most rho E S^2 = rho (n t (1-t) + n^2 t^2). Of the events above, with u drawn along,
        it is at least kl(1 - beta || c) (data processing; for codes this is Fano's inequality).

So every estimator errs by r with probability at least beta under some P_u, r taken at the largest t
at which these cannot hold. R <= 1: a bound holds for all classes that contain these laws, of
whatever means. (Without any bound on R no epsilon-DP procedure errs by less than infinity.)

R(t) in the classes (a unit vector v, a budget and n are arbitrary):
    moments  E|<v, X - mean>|^k <= 1. P_u = R u/t with probability t, else 0: <v, X - mean> is
             <v, u> times that of a `TwoPoint` law, and R = t tau with its tau; R = 1 at t = 1/2.
             Q: all records are 0.
    gaussian N(mean, I). Q = N(0, I), so t = 2 Phi(R/2) - 1.

Beside them stands the pair R u and -R u, with the t of `two_point_lower_bound`. That holds for any
laws P, Q at distance t (of Gaussians R = Phi^-1((1+t)/2)): given that S records are from the parts
that are not shared, datasets differ in S records, and g^S is concave (Jensen).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import betainc, betaln, erfinv, ndtr, ndtri, ndtri_exp

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, differing, indistinguishable, largest_distance

__all__ = ["VectorBound", "gaussian_lower_bound", "moments_lower_bound"]

ANGLES = np.linspace(0.01, 0.99, 99) * np.pi / 2


class VectorBound(NamedTuple):
    """An error in l2, with probability beta, and the laws that show it; NaN if not known."""

    alpha: float
    laws: str


def moments_lower_bound(
    n: int, d: int, k: float, budget: Budget, *, beta: float = BETA
) -> VectorBound:
    """Of laws on R^d with centred k-th moments of at most 1 in all directions."""

    def reach(t: Floats) -> Floats:
        t = np.clip(t, 1e-300, 0.5)
        return np.asarray(t * (t * (1 - t) * ((1 - t) ** (k - 1) + t ** (k - 1))) ** (-1 / k))

    return _largest(n, d, budget, beta, reach, reach, one_dataset=True)


def gaussian_lower_bound(n: int, d: int, budget: Budget, *, beta: float = BETA) -> VectorBound:
    """Of N(mean, I)."""

    def apart(t: Floats) -> Floats:
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
    """The better of a pair and of directions, by R(t) of both."""
    pair = indistinguishable(n, budget, beta)
    if np.isnan(pair):
        return VectorBound(np.nan, "")
    found = VectorBound(float(of_a_pair(np.asarray(pair))), "pair")
    if d == 1:
        return found
    log_share, radius = _shares(d)
    # Any r will do; that of the largest bound were t records in n to differ, and not S.
    near = np.minimum(_needed(budget, log_share, beta) / n, 1.0)
    best = int(np.argmax(reach(near) * radius))
    t = _hidden(n, budget, float(log_share[best]), beta, one_dataset)
    return max(found, VectorBound(float(reach(np.asarray(t)) * radius[best]), "directions"))


def _shares(d: int) -> tuple[Floats, Floats]:
    """The module's ln c and r/R in d > 1 dimensions: of caps, and of +-e_i at the end."""
    h, x = (d - 1) / 2, np.sin(ANGLES) ** 2
    with np.errstate(divide="ignore"):
        exact = np.log(betainc(h, 0.5, x) / 2)
    limit = h * np.log(x) - np.log(2 * h * np.cos(ANGLES)) - betaln(h, 0.5)
    log_share = np.where(exact > -600, exact, limit)  # where the exact one may have lost digits
    return np.append(log_share, -np.log(2 * d)), np.append(np.sin(ANGLES), np.sqrt(0.5))


def _spare(budget: PureDP | ApproxDP) -> tuple[float, float]:
    """The module's ln D and m; ln 0 is minus infinity."""
    delta = getattr(budget, "delta", 0.0)
    with np.errstate(over="ignore", divide="ignore"):
        log_spare = np.log(delta) - np.log(np.expm1(budget.epsilon))
        return float(log_spare), float((1 - delta) / (1 + np.exp(budget.epsilon)))


def _needed(budget: Budget, log_share: Floats, beta: float) -> Floats:
    """The s, not rounded, of 1 - beta = g^s(c), or under zCDP of kl(1 - beta || c) = s^2 rho."""
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
    """g^s(c) of whole numbers s."""
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
    """The largest t <= 1 at which no estimator errs by less than r with probability 1 - beta."""
    if isinstance(budget, ZCDP):
        needed = float(_needed(budget, np.asarray(log_share), beta)) ** 2 / n
        # n (n-1) t^2 + n t = needed n
        return float(min(2 * needed / (1 + np.sqrt(1 + 4 * (n - 1) * needed)), 1.0))

    def short(t: float) -> float:
        s, weights = differing(t, n)
        power = _power(s, log_share, budget)
        told = weights @ power if one_dataset else np.min(1 - np.cumsum(weights) + power)
        return float(1 - beta - told)

    if _power(np.array(float(n)), log_share, budget) <= 1 - beta:
        return 1.0
    return largest_distance(short, n)
