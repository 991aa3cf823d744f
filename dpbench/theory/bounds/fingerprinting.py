"""A lower bound on the mean square error in many dimensions under zCDP, by fingerprinting.

Records are in {-1, 1}^d with independent coordinates of means p_j, and p is drawn: its coordinates
are independent with densities proportional to (1 - p^2)^s, so that E|p|^2 = v = d/(2s+3). Let M be
what is released from records x_1, ..., x_n, and a^2 = E|M - p|^2.

Each record shows in M. With g_j(p) = E[M_j | p], d/dp of the law of a sign gives
sum_i E[M_j (x_ij - p_j) | p] = (1 - p_j^2) dg_j/dp_j. Integrating by parts over p_j,
E[(1 - p_j^2) dg_j/dp_j] = 2 (s+1) E[p_j g_j]. With A_i = <M - p, x_i - p>,

    sum_i E A_i = 2 (s+1) E<p, M> >= 2 (s+1) (v - a sqrt(v)).

Privacy hides each. Let M' be released with record i replaced by a new one of the same law: M' is
as far from p as M and independent of x_i given p, so A'_i = <M' - p, x_i - p> has mean 0 and the
variance E sum_j (M'_j - p_j)^2 (1 - p_j^2) <= a^2. Under rho-zCDP the law of (M, x_i), given
the rest, has a Renyi divergence of order 2 of at most 2 rho from that of (M', x_i), a chi^2
divergence of at most e^(2 rho) - 1. By Cauchy and Schwarz E A_i <= a sqrt(e^(2 rho) - 1). Together

    a >= 2 (s+1) v/(n sqrt(e^(2 rho) - 1) + 2 (s+1) sqrt(v))   for every s > -1.

So some p has at least this root mean square error; where n^2 rho is far above d, nearly
d/(n sqrt(e^(2 rho) - 1)). (The idea is that of Bun, Ullman, Vadhan 2014, the prior that of Steinke,
Ullman 2015; the constants are proved here.)
"""

from __future__ import annotations

import numpy as np

__all__ = ["fingerprinting_lower_bound"]


def fingerprinting_lower_bound(n: int, d: int, rho: float) -> float:
    """A root mean square error in l2 that every rho-zCDP mean of n records in {-1, 1}^d has.

    On one of the product laws. Records in the unit ball have this over sqrt(d); mu-GDP is
    (mu^2/2)-zCDP, and epsilon-DP (epsilon^2/2)-zCDP.
    """
    s = np.geomspace(1e-3, 1e12, 1000) - 1
    size = np.sqrt(d / (2 * s + 3))
    with np.errstate(over="ignore"):
        told = n * np.sqrt(np.expm1(2 * rho))
    return float(np.max(2 * (s + 1) * size**2 / (told + 2 * (s + 1) * size)))
