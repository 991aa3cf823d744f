"""Lower bound on the mean square error in d dimensions under zCDP, by fingerprinting.

Notation (name in code). Records x_1, ..., x_n are in {-1, 1}^d with independent coordinates of
means p_j. The p_j are drawn independently with density proportional to (1 - p^2)^s, s > -1 (`s`),
so that v = E|p|^2 = d/(2s + 3) (sqrt(v) is `size`). M is the release, and a = sqrt(E|M - p|^2) its
error.

1. Each record is correlated with M. Let g_j(p) = E[M_j | p]. Differentiating the probabilities of
the signs, sum_i E[M_j (x_ij - p_j) | p] = (1 - p_j^2) dg_j/dp_j. Integrating by parts over p_j,
E[(1 - p_j^2) dg_j/dp_j] = 2 (s+1) E[p_j g_j]. So with A_i = <M - p, x_i - p>,

    sum_i E A_i = 2 (s+1) E<p, M> >= 2 (s+1) (v - a sqrt(v)).

2. Privacy bounds each correlation. Let M' be the release with record i replaced by a fresh draw.
M' has the error a, too, and is independent of x_i given p. So A'_i = <M' - p, x_i - p> has mean 0
and the variance E sum_j (M'_j - p_j)^2 (1 - p_j^2) <= a^2. Under rho-zCDP the Renyi divergence of
order 2 of (M, x_i) from (M', x_i), given the rest, is at most 2 rho, hence the chi-square
divergence at most e^(2 rho) - 1. By the Cauchy-Schwarz inequality E A_i <= a sqrt(e^(2 rho) - 1).

3. Together, for every s > -1,

    a >= 2 (s+1) v/(n sqrt(e^(2 rho) - 1) + 2 (s+1) sqrt(v)).

Some p has at least this root mean square error. For n^2 rho far above d it is nearly
d/(n sqrt(e^(2 rho) - 1)).

The idea is that of Bun, Ullman and Vadhan (2014), the prior that of Steinke and Ullman (2015;
theorem numbers not checked). The constants are proved here.
"""

from __future__ import annotations

import numpy as np

__all__ = ["fingerprinting_lower_bound"]


def fingerprinting_lower_bound(n: int, d: int, rho: float) -> float:
    """Return the fingerprinting bound on the root mean square l2 error of rho-zCDP means.

    Parameters
    ----------
    n : int
        Number of records, each in {-1, 1}^d.
    d : int
        Dimension.
    rho : float
        zCDP parameter. mu-GDP is (mu^2/2)-zCDP, and epsilon-DP is (epsilon tanh(epsilon/2))-zCDP
        (`dpbench.privacy.conversions`).

    Returns
    -------
    float
        Error on the worst product distribution. For records in the unit ball divide by sqrt(d).
    """
    s = np.geomspace(1e-3, 1e12, 1000) - 1
    size = np.sqrt(d / (2 * s + 3))
    with np.errstate(over="ignore"):
        hidden = n * np.sqrt(np.expm1(2 * rho))  # the bound of step 2, over a
    return float(np.max(2 * (s + 1) * size**2 / (hidden + 2 * (s + 1) * size)))
