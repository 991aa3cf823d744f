"""Lower bounds in many dimensions: laws around the points of a spherical code.

Laws P_u, one for each of M unit vectors u at distances of at least s from each other, have the
means R u, and total-variation distances of at most t. An estimator that errs by less than R s/2
names u; so with R(t) the largest such R, an error of R(t) s/2 has probability at least beta under
one of them, for the largest t at which no private procedure names u with probability 1 - beta.
R <= 1: a bound holds for all classes that contain these laws, of whatever means. (Without any
bound on R no epsilon-DP procedure errs by less than infinity.)

R(t) in the classes (a unit vector v, a budget and n are arbitrary):
    moments  E|<v, X - mean>|^k <= 1. P_u = R u/t with probability t, else 0: <v, X - mean> is
             <v, u> times that of a `TwoPoint` law, and R = t tau with its tau; R = 1 at t = 1/2.
    ball     |X| <= 1. The same with |X| = 1: R = t.
    gaussian N(mean, I). Means are at most 2R apart, so t = 2 Phi(R) - 1.

Codes: R u and -R u (M = 2, s = 2; where `two_point_lower_bound` says which t), +-e_i (M = 2d,
s = sqrt 2), and greedy ones: caps of angle a around the points of a largest code with angles of at
least a cover the sphere, so M >= 1/c with c a cap's share, and s = 2 sin(a/2). With h = (d-1)/2,

    c = I_x(h, 1/2)/2 <= x^h/(2 h B(h, 1/2) sqrt(1 - x)),  x = sin(a)^2, a < pi/2,

as (1-z)^(-1/2) in the incomplete beta integral is largest at its end z = x.

Which t. P and Q share a part of mass 1 - t, so n records of each can be coupled to differ in
S ~ Bin(n, t) of them.
    (epsilon, delta)  With D = delta/(e^epsilon - 1), the probability f of an answer on datasets
        that differ in at most s records: f(y) >= e^(-epsilon s) f(x) - D. Each of the M - 1 wrong
        answers under Q is right elsewhere, with probability 1 - beta, and with S <= s in all but
        beta of P(S <= s). So they have at least (M-1) (e^(-epsilon s) (P(S <= s) - beta) - D),
        which must be at most beta: for any s, P(S <= s) <= beta + e^(epsilon s) (beta/(M-1) + D).
    zCDP, GDP  s replaced records cost s^2 rho (Bun, Steinke 2016, Prop. 1.9), a bound on the
        Kullback-Leibler divergence, too; mu-GDP is as rho = mu^2/2. So by joint
        convexity the releases under P and Q have a divergence of at most rho E S^2 =
        rho (n t (1-t) + n^2 t^2), and this bounds the information on a uniform u. Naming it
        needs ln M - H(beta) - beta ln(M-1), where M >= 2 and beta <= 1/2 (Fano).

That `two_point_lower_bound` holds for any pair P, Q at distance t: given that S records are from
the parts that are not shared, datasets differ in S records, and g^S is concave (Jensen).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import betaincinv, betaln, erfinv

from dpbench.arrays import Floats
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.theory.lower_bounds import BETA, two_point_lower_bound

__all__ = ["VectorBound", "ball_lower_bound", "gaussian_lower_bound", "moments_lower_bound"]

ANGLES = np.linspace(0.01, 0.99, 99) * np.pi / 2


class VectorBound(NamedTuple):
    """An error in l2, with probability beta, and the code that shows it; NaN if not known."""

    alpha: float
    code: str


def moments_lower_bound(
    n: int, d: int, k: float, budget: Budget, *, beta: float = BETA
) -> VectorBound:
    """Of laws on R^d with centred k-th moments of at most 1 in all directions."""

    def reach(t: Floats) -> Floats:
        t = np.clip(t, 1e-300, 0.5)
        return np.asarray(t * (t * (1 - t) * ((1 - t) ** (k - 1) + t ** (k - 1))) ** (-1 / k))

    return _largest(n, d, budget, beta, reach)


def ball_lower_bound(n: int, d: int, budget: Budget, *, beta: float = BETA) -> VectorBound:
    """Of all laws on the unit ball."""
    return _largest(n, d, budget, beta, lambda t: t)


def gaussian_lower_bound(n: int, d: int, budget: Budget, *, beta: float = BETA) -> VectorBound:
    """Of N(mean, I)."""
    return _largest(n, d, budget, beta, lambda t: np.asarray(np.minimum(np.sqrt(2) * erfinv(t), 1)))


def _largest(
    n: int, d: int, budget: Budget, beta: float, reach: Callable[[Floats], Floats]
) -> VectorBound:
    """The best code; `reach` is R(t) for 0 <= t <= 1."""
    pair = two_point_lower_bound(n, 2, budget, beta=beta).p_star
    found = {"pair": float(reach(np.asarray(pair)))}
    axes = np.log([2 * d - 1]), np.array([np.sqrt(2)])
    for name, (log_others, s) in {"axes": axes, "greedy": _greedy(d)}.items() if d > 1 else ():
        t = _hidden(n, budget, log_others, beta)
        found[name] = float(np.max(reach(t) * s / 2))
    known = {name: alpha for name, alpha in found.items() if not np.isnan(alpha)}
    code = max(known, key=known.__getitem__, default="")
    return VectorBound(known.get(code, float("nan")), code)


def _greedy(d: int) -> tuple[Floats, Floats]:
    """ln(M - 1) and s of the greedy codes of M >= 2 points in d > 1 dimensions."""
    h = (d - 1) / 2
    log_size = np.log(2 * h * np.cos(ANGLES)) + betaln(h, 0.5) - 2 * h * np.log(np.sin(ANGLES))
    large = log_size >= np.log(2)
    log_others = log_size[large] + np.log(-np.expm1(-log_size[large]))
    return log_others, 2 * np.sin(ANGLES[large] / 2)


def _hidden(n: int, budget: Budget, log_others: Floats, beta: float) -> Floats:
    """The largest t <= 1 at which M laws cannot be named, of ln(M - 1); NaN if not known."""
    amounts = budget.named_amounts
    if isinstance(budget, PureDP | ApproxDP):
        with np.errstate(over="ignore", divide="ignore"):
            log_spare = np.log(amounts.get("delta", 0.0)) - np.log(np.expm1(budget.epsilon))
        log_wrong = np.logaddexp(np.log(beta) - log_others, log_spare)
        most = (np.log1p(-beta) - log_wrong) / budget.epsilon
        s = np.floor(np.maximum(most, 0) * np.linspace(0, 1, 65)[:, None])
        within = np.minimum(beta + np.exp(np.minimum(budget.epsilon * s + log_wrong, 0)), 1.0)
        t = betaincinv(np.minimum(s + 1, n), np.maximum(n - s, 1), 1 - within)
        return np.asarray(np.where(s < n, t, 1.0 * (within < 1)).max(axis=0))
    rho = amounts.get("rho", amounts.get("mu", np.nan) ** 2 / 2)
    entropy = -beta * np.log(beta) - (1 - beta) * np.log1p(-beta)
    needed = np.maximum(np.logaddexp(0, log_others) - entropy - beta * log_others, 0) / (rho * n)
    # n (n-1) t^2 + n t = needed n
    return np.asarray(np.minimum(2 * needed / (1 + np.sqrt(1 + 4 * (n - 1) * needed)), 1.0))
