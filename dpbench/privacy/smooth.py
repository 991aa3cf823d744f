r"""Noise in proportion to a smooth sensitivity: what varies with the records may scale it.

S is a t-smooth sensitivity of f if for all neighbours |f(x) - f(x')| <= min(S(x), S(x')) and
S(x) <= e^t S(x') (NRS07). f(x) + S(x) Z/s is released (BS19). In units of S(x)/s neighbours differ
as Z and e^u Z + v with |u| <= t, and |v| <= s min(1, e^u): S bounds the step on both sides.

**Pure DP: Student's t with d = 3 degrees**, of density prop. to (1 + z^2/d)^(-(d+1)/2). The slope
of its logarithm is at most (d+1)/(2 sqrt(d)), at z = sqrt(d). As e^u Z its logarithm changes, in u,
at the rate -1 + (d+1) y^2/(d + y^2), which is in [-1, d]. One after the other they cost

    epsilon = d t + s (d+1)/(2 sqrt(d)),

where BS19 has (d+1) t. Of the 0.9 quantiles of |Z|/s for small t those of d = 3 and 4 are least,
2.72/epsilon and 2.67/epsilon, beside 2.30/epsilon of Laplace noise; a larger d pays more for t.

**zCDP: Laplace log-normal**, Z = X e^(sigma Y), X Laplace of scale 1 and Y normal. BS19 has
rho = (t/sigma + e^(3 sigma^2/2) s)^2/2. What follows is ours, and gives less noise: at rho = 1/2
sd(Z)/s is 1.42 for 2.07 at t = 0.05, and 1.54 for 4.2 at t = 0.2. It is near the least for small
rho: at x = 0.3 below Renyi divergences reach 0.94 rho at rho = 0.005, and 0.65 rho at 1/2.

*Lemma.* Let P_r, 0 <= r <= 1, be the laws of Z after the flow of one vector field, psi the
derivative of ln p_r at r = 0, and ln E exp(c psi(Z)) <= c^2 rho for c > 0. If D_a(P_r||P_0) is at
most C a r^2 for some C, then D_a(P_1||P_0) <= a rho, for all orders a > 1.
*Proof.* Let U(r, a) = ln E_0 (p_r/p_0)^a = (a-1) D_a. Under Q prop. to p_r^a p_0^(1-a) its
derivative in r is a E_Q psi_r, and psi_r is under P_r what psi is under P_0. By Donsker and
Varadhan it is at most (a/c)(KL(Q||P_r) + c^2 rho) for every c > 0; KL(Q||P_r) = (a-1) dU/da - U.
With c = r (a-1), and along the curve a r = K, w = U - rho r^2 a (a-1) has dw/dr <= -w a/(r (a-1)) =
-w (1/r + 1/(K-r)). So w(r) <= w(q) (q/r) (K-r)/(K-q) for q < r, which tends to 0 as q does, for
U(q, K/q) <= C K^2. Hence w <= 0 up to r = 1, where K is any order.

Z and e^u Z + v are ends of such a flow, of z -> u z + v u/(e^u - 1), whose second number is at most
s where |v| <= s min(1, e^u). BS19's bound gives C. So psi = u A + w B, |u| <= t, |w| <= s, with

    B(z) = -(ln p)'(z) = sign(z) E[e^(-sigma Y) | |z|],   A(z) = z B(z) - 1 = E[Y/sigma | |z|].

A is even and B odd: E exp(c psi) = E exp(c u A) cosh(c w B), which grows with |w| and is convex in
u: it is largest at |w| = s and u = t or -t. In units of sqrt(2 rho), x = t/sqrt(2 rho) and
g = s/sqrt(2 rho), it remains that k(c) = ln E exp(c x A) cosh(c g B) <= c^2/2 for all real c.
`_shift` finds the largest g for sigma = 1.05 x. It rests on quadrature, and on proofs for the c
that it does not look at:

- |c| <= h: as e^y <= 1 + y + y^2 e^|y|/2 and E psi = 0, k(c) <= c^2/2 E psi^2 e^(h |psi|), which
  is at most c^2/2 E (x^2 A^2 + g^2 B^2) e^(h (x |A| + g |B|)), as A B is odd.
- between neighbours c, qc of a grid k is convex, so below its chord, which is at most
  (1+q)^2/(4q) times a parabola that is above k at both.
- beyond: A >= -1, |B| <= M = e^(3 sigma^2/2) and E e^(cxA) <= e^((cx/sigma)^2/2), by Jensen. So
  k(c) <= c g M + (cx/sigma)^2/2 for c > 0, and k(c) <= |c| (x + g M) for c < 0.

.. [BS19] M. Bun, T. Steinke, "Average-case averages: private algorithms for smooth sensitivity and
   mean estimation", NeurIPS 2019.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import logsumexp

from dpbench.arrays import Floats
from dpbench.privacy.budgets import ZCDP, Budget

__all__ = ["draw", "largest_rate", "student_shift"]

DEGREES = 3
WIDER = 1.05  # sigma/x
FEWEST, RATIO = 1e-3, 1.05  # the h and the q of the module


def largest_rate(budget: Budget) -> float:
    """The t at which nothing, or under zCDP next to nothing, is left for a step of f."""
    if isinstance(budget, ZCDP):
        return float(np.sqrt(2 * budget.rho))
    return budget.pure_epsilon / DEGREES


def student_shift(epsilon: float, t: float) -> float:
    """The s at which Student noise costs epsilon."""
    return float((epsilon - DEGREES * t) * 2 * np.sqrt(DEGREES) / (DEGREES + 1))


def draw(rng: np.random.Generator, shape: tuple[int, ...], budget: Budget, t: float) -> Floats:
    """Independent Z/s: noise for a t-smooth sensitivity of 1."""
    share = t / largest_rate(budget)
    if not 0 < share < 1:
        raise ValueError(f"t is {t:g}; {budget} asks for 0 < t < {largest_rate(budget):g}")
    if not isinstance(budget, ZCDP):
        noise = rng.standard_t(DEGREES, shape) / student_shift(budget.pure_epsilon, t)
        return np.asarray(noise)
    x = float(np.ceil(share * 1e6) / 1e6)  # rounded up, as a key
    wide = np.exp(WIDER * x * rng.standard_normal(shape))
    return np.asarray(rng.laplace(size=shape) * wide / (_shift(x) * np.sqrt(2 * budget.rho)))


@cache
def _shift(x: float) -> float:
    """The largest g at this x, 0 < x < 1; see the module."""
    from scipy.optimize import brentq  # a slow import

    a, b, log_p = _scores(x * WIDER)
    bound, slack = np.exp(1.5 * (x * WIDER) ** 2), (1 - WIDER**-2) / 2

    def excess(g: float) -> float:
        most = RATIO * max(g * bound / slack, 2 * (x + g * bound), 1.0)
        c = np.exp(np.arange(np.log(FEWEST), np.log(most) + np.log(RATIO), np.log(RATIO)))[:, None]
        even = np.logaddexp(c * g * b, -c * g * b) - np.log(2) + log_p
        k = np.maximum(*(logsumexp(even + sign * c * x * a, axis=1) for sign in (1, -1)))
        chords = (1 + RATIO) ** 2 / (4 * RATIO)
        size = x * np.abs(a) + g * b
        near = np.exp(log_p) @ (((x * a) ** 2 + (g * b) ** 2) * np.exp(FEWEST * size))
        return float(max(np.max(k / c[:, 0] ** 2) * 2 * chords, near) - 1)

    return float(brentq(excess, 0.0, 1.0, xtol=1e-9)) * (1 - 1e-6)


def _scores(sigma: float) -> tuple[Floats, Floats, Floats]:
    """A and B at points |z| that are even in ln|z|, and the logarithms of their probabilities."""
    log_z = np.arange(-40, 60 * sigma + np.log1p(60 / sigma), 0.1)[:, None]
    y = sigma * np.arange(-20, 80, 0.1)
    log_joint = log_z - y - np.exp(log_z - y) - (y / sigma) ** 2 / 2
    log_p = logsumexp(log_joint, axis=1)
    b = np.exp(logsumexp(log_joint - y, axis=1) - log_p)
    a = np.exp(log_z[:, 0]) * b - 1
    return a, b, log_p - logsumexp(log_p)
