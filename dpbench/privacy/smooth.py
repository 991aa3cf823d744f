r"""Noise proportional to a smooth sensitivity, which may depend on the records.

Let f map datasets to numbers, and let x and x' be neighbouring datasets. S is a t-smooth
sensitivity of f if |f(x) - f(x')| <= min(S(x), S(x')) and S(x) <= e^t S(x') for all neighbours
(NRS07). The release is f(x) + S(x) Z/s (BS19), for noise Z and a number s (the shift). Subtract
f(x) from the releases on x and x', and divide by S(x)/s. The results are distributed as Z on x, and
as e^u Z + v on x', with e^u = S(x')/S(x). So |u| <= t, and |v| <= s min(1, e^u), because both S(x)
and S(x') bound |f(x) - f(x')|.

**Pure DP: Student's t with d = 3 degrees of freedom** (`STUDENT_DEGREES`). The density is
proportional to (1 + z^2/d)^(-(d+1)/2).

1. The derivative of the log-density is at most (d+1)/(2 sqrt(d)) in absolute value, at
   |z| = sqrt(d). So the shift by |v| <= s min(1, e^u), before or after the scaling, costs at most
   s (d+1)/(2 sqrt(d)).
2. The log-density of e^u Z at y has the derivative -1 + (d+1) y^2/(d + y^2) in u (y in units of
   e^u), which is in [-1, d]. So the scaling costs at most d t.
3. The total cost is epsilon = d t + s (d+1)/(2 sqrt(d)). BS19 has (d+1) t as the first term.

For small t, the 0.9 quantile of |Z|/s is 2.72/epsilon at d = 3. The smallest is 2.66/epsilon, at
d = 4, and Laplace noise has 2.30/epsilon. A larger d pays more for t.

**PolyPlace noise** (`dpbench.privacy.polyplace`) is epsilon-DP, too, for every t < epsilon, and has
smaller 0.9 quantiles than Student's t: 0.85 times at t = 0 and 0.44 times at t = epsilon/5. Its
proof is ours.

**zCDP: Laplace log-normal noise**, Z = X e^(sigma Y), for a Laplace variable X of scale 1 and a
standard normal variable Y. BS19 proves the cost rho = (t/sigma + e^(3 sigma^2/2) s)^2/2. The bound
below is ours and gives less noise: at rho = 1/2 the standard deviation of Z/s is 1.42 in place of
2.06 at t = 0.05, and 1.54 in place of 4.2 at t = 0.2. It is nearly tight for small rho: at
t = 0.3 sqrt(2 rho) the Renyi divergences of order a reach 0.94 rho a at rho = 0.005, and 0.65 rho a
at rho = 1/2.

*Lemma.* For 0 <= r <= 1 let P_r, with density p_r, be the distribution of Z after time r of the
flow of a vector field that does not depend on r. Let psi be the derivative of ln p_r in r at r = 0.
Assume ln E exp(c psi(Z)) <= c^2 rho for all c > 0, and D_a(P_r||P_0) <= C a r^2 for some C and all
orders a > 1, where D_a is the Renyi divergence. Then D_a(P_1||P_0) <= a rho for all a > 1.

*Proof.*

1. Let U(r, a) = ln E_0 (p_r/p_0)^a = (a-1) D_a(P_r||P_0), and let Q have a density proportional to
   p_r^a p_0^(1-a). Then dU/dr = a E_Q psi_r, where psi_r is the derivative of ln p_r at r. Its
   distribution under P_r is the distribution of psi under P_0.
2. By Donsker and Varadhan dU/dr <= (a/c)(KL(Q||P_r) + c^2 rho) for every c > 0, and
   KL(Q||P_r) = (a-1) dU/da - U. Choose c = r (a-1).
3. Follow the curve a = K/r for a constant K. There V = U - rho r^2 a (a-1) satisfies
   dV/dr <= -V a/(r (a-1)) = -V (1/r + 1/(K-r)).
4. So V(r) <= V(r0) (r0/r) (K-r)/(K-r0) for r0 < r. This tends to 0 as r0 does, because
   U(r0, K/r0) <= C K^2. Hence V <= 0 up to r = 1, where the order is K, an arbitrary number.

*Use of the lemma.* Z and e^u Z + v are the ends of the flow of the vector field u z + w with
w = v u/(e^u - 1), and |w| <= s because |v| <= s min(1, e^u). The bound of BS19 gives C. For this
flow psi = u A + w B with |u| <= t and |w| <= s, where

    B(z) = -(ln p_0)'(z) = sign(z) E[e^(-sigma Y) | |z|],  A(z) = z B(z) - 1 = E[Y/sigma | |z|].

A is even and B is odd, so E exp(c psi) = E exp(c u A) cosh(c w B). This grows with |w| and is
convex in u, so it is largest at |w| = s and u = t or u = -t. In units of sqrt(2 rho) let
tau = t/sqrt(2 rho) and g = s/sqrt(2 rho) (`x` and `g` in the code). It remains to show

    k(c) = ln E exp(c tau A) cosh(c g B) <= c^2/2 for all real c.

`_shift` finds the largest such g for sigma = 1.05 tau (`SIGMA_OVER_TAU`). It evaluates k by
quadrature at |c| = h, q h, q^2 h, ..., with h = `MIN_GRID_C` and q = `GRID_RATIO`. Other c are
covered as follows:

- |c| <= h. Because e^y <= 1 + y + y^2 e^|y|/2 and E psi = 0, k(c) <= c^2/2 E psi^2 e^(h |psi|),
  which is at most c^2/2 E (tau^2 A^2 + g^2 B^2) e^(h (tau |A| + g |B|)), because A B is odd.
- Between neighbours c and q c of the grid. k is convex, so it lies below its chord. The chord is
  at most (1+q)^2/(4q) times a parabola that lies above k at both ends.
- Beyond the grid. A >= -1, |B| <= M = e^(3 sigma^2/2), and E e^(c tau A) <= e^((c tau/sigma)^2/2)
  by Jensen. So k(c) <= c g M + (c tau/sigma)^2/2 for c > 0, and k(c) <= |c| (tau + g M) for c < 0.
"""

from __future__ import annotations

from functools import cache
from typing import Literal

import numpy as np
from scipy.special import logsumexp

from dpbench.arrays import Floats
from dpbench.privacy import polyplace
from dpbench.privacy.budgets import ZCDP, Budget

__all__ = ["SmoothNoise", "draw", "largest_rate", "student_shift"]

# Noise for a smooth sensitivity. ``by_budget``: Laplace log-normal under zCDP, else Student's t.
SmoothNoise = Literal["by_budget", "polyplace"]

STUDENT_DEGREES = 3  # d, degrees of freedom of Student's t
SIGMA_OVER_TAU = 1.05  # sigma/tau
MIN_GRID_C, GRID_RATIO = 1e-3, 1.05  # h and q: smallest |c| of the grid, and ratio of neighbours


def largest_rate(budget: Budget, noise: SmoothNoise = "by_budget") -> float:
    """Return the limit below which the smoothness t must lie, for noise under a given budget.

    The noise is proportional to a t-smooth sensitivity S, so S(x) <= e^t S(x') for neighbouring
    datasets x and x'. Hence the scales of the noise on x and x' differ by a factor of up to e^t.
    The values before noise differ, too. The budget must pay for both differences. At the limit, the
    difference of scales costs the whole budget (under zCDP nearly the whole budget).

    Parameters
    ----------
    budget : Budget
        Budget of the release.
    noise : {'by_budget', 'polyplace'}
        Noise, see `draw`.

    Returns
    -------
    float
        For an epsilon of pure DP, epsilon/3 for Student's t noise and epsilon for PolyPlace noise;
        sqrt(2 rho) for Laplace log-normal noise under zCDP.
    """
    if noise == "polyplace":
        return budget.pure_epsilon
    if isinstance(budget, ZCDP):
        return float(np.sqrt(2 * budget.rho))
    return budget.pure_epsilon / STUDENT_DEGREES


def student_shift(epsilon: float, t: float) -> float:
    """Return the number s for which noise S Z/s is epsilon-DP.

    S is a t-smooth sensitivity of the released number, and Z has Student's t distribution with 3
    degrees of freedom.

    Parameters
    ----------
    epsilon : float
        Privacy parameter, above 0.
    t : float
        Smoothness, above 0.

    Returns
    -------
    float
        Number s, positive if t < epsilon/3.
    """
    return float(
        (epsilon - STUDENT_DEGREES * t) * 2 * np.sqrt(STUDENT_DEGREES) / (STUDENT_DEGREES + 1)
    )


def draw(
    rng: np.random.Generator,
    shape: tuple[int, ...],
    budget: Budget,
    t: float,
    noise: SmoothNoise = "by_budget",
) -> Floats:
    """Draw independent noises for numbers with a t-smooth sensitivity of 1.

    Parameters
    ----------
    rng : Generator
        Source of the noise.
    shape : tuple of int
        Shape of the result.
    budget : Budget
        Budget of the release.
    t : float
        Smoothness, between 0 and the result of `largest_rate`.
    noise : {'by_budget', 'polyplace'}
        ``by_budget``: Laplace log-normal noise under zCDP, else Student's t. ``polyplace``:
        PolyPlace noise for the largest epsilon of pure DP that the budget allows.

    Returns
    -------
    ndarray
        Noises, of shape `shape`.

    Raises
    ------
    ValueError
        If t is out of range.
    """
    limit = largest_rate(budget, noise)
    share = t / limit
    if not 0 < share < 1:
        raise ValueError(f"t is {t:g}; {budget} asks for 0 < t < {limit:g}")
    if noise == "polyplace":
        return polyplace.draw(rng, shape, budget.pure_epsilon, t)
    if not isinstance(budget, ZCDP):
        student = rng.standard_t(STUDENT_DEGREES, shape)
        return np.asarray(student / student_shift(budget.pure_epsilon, t))
    x = float(np.ceil(share * 1e6) / 1e6)  # tau, rounded up so that few values are cached
    wide = np.exp(SIGMA_OVER_TAU * x * rng.standard_normal(shape))
    return np.asarray(rng.laplace(size=shape) * wide / (_shift(x) * np.sqrt(2 * budget.rho)))


@cache
def _shift(x: float) -> float:
    """Return the largest s/sqrt(2 rho) for which Laplace log-normal noise S Z/s is rho-zCDP.

    S is a t-smooth sensitivity of the released number. Z = X e^(sigma Y), where X is a Laplace
    variable of scale 1, Y is a standard normal variable and sigma = x `SIGMA_OVER_TAU`. The
    argument x = t/sqrt(2 rho) is in (0, 1).
    """
    from scipy.optimize import brentq

    a, b, log_p = _scores(x * SIGMA_OVER_TAU)
    bound, slack = np.exp(1.5 * (x * SIGMA_OVER_TAU) ** 2), (1 - SIGMA_OVER_TAU**-2) / 2

    def excess(g: float) -> float:
        largest_c = GRID_RATIO * max(g * bound / slack, 2 * (x + g * bound), 1.0)
        c = np.exp(
            np.arange(
                np.log(MIN_GRID_C), np.log(largest_c) + np.log(GRID_RATIO), np.log(GRID_RATIO)
            )
        )[:, None]
        even = np.logaddexp(c * g * b, -c * g * b) - np.log(2) + log_p
        k = np.maximum(*(logsumexp(even + sign * c * x * a, axis=1) for sign in (1, -1)))
        chords = (1 + GRID_RATIO) ** 2 / (4 * GRID_RATIO)
        size = x * np.abs(a) + g * b
        near = np.exp(log_p) @ (((x * a) ** 2 + (g * b) ** 2) * np.exp(MIN_GRID_C * size))
        return float(max(np.max(k / c[:, 0] ** 2) * 2 * chords, near) - 1)

    return float(brentq(excess, 0.0, 1.0, xtol=1e-9)) * (1 - 1e-6)


def _scores(sigma: float) -> tuple[Floats, Floats, Floats]:
    """Return two derivatives of a log-density at grid points, and the points' log-probabilities.

    Let p be the density of Laplace log-normal noise with parameter `sigma`. For z > 0 the two
    functions are A(z) = z B(z) - 1 and B(z) = -(ln p)'(z), in this order. The grid points z have
    equally spaced logarithms.
    """
    log_z = np.arange(-40, 60 * sigma + np.log1p(60 / sigma), 0.1)[:, None]
    y = sigma * np.arange(-20, 80, 0.1)
    log_joint = log_z - y - np.exp(log_z - y) - (y / sigma) ** 2 / 2
    log_p = logsumexp(log_joint, axis=1)
    b = np.exp(logsumexp(log_joint - y, axis=1) - log_p)
    a = np.exp(log_z[:, 0]) * b - 1
    return a, b, log_p - logsumexp(log_p)
