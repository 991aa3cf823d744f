"""Lower bound on the root mean square error of zCDP mean estimators in d dimensions.

The proof is by fingerprinting: an accurate release is correlated with every record, and privacy
limits this correlation.

Notation (name in code).

    x_1, ..., x_n       records in {-1, 1}^d; coordinates are independent and have the means p_j
    s (`s`)             the p_j are drawn independently with density proportional to (1 - p_j^2)^s,
                        s > -1
    v = E|p|^2          d/(2s + 3); sqrt(v) is `sqrt_v`
    M, a                the release, and its error a = sqrt(E|M - p|^2)
    A_i                 <M - p, x_i - p>

1. The records are correlated with M. Let g_j(p) = E[M_j | p]. Because each sign has a known
probability, the derivative of g_j in p_j satisfies sum_i E[M_j (x_ij - p_j) | p] = (1 - p_j^2)
dg_j/dp_j. Integration by parts over p_j gives E[(1 - p_j^2) dg_j/dp_j] = 2 (s+1) E[p_j g_j].
Because E[x_i | p] = p, the sum over j is

    sum_i E A_i = 2 (s+1) E<p, M> >= 2 (s+1) (v - a sqrt(v)).

2. Privacy bounds each correlation. Let M' be the release with record i replaced by a fresh draw. M'
has the error a, too, and is independent of x_i given p. So A'_i = <M' - p, x_i - p> has mean 0 and
the variance E sum_j (M'_j - p_j)^2 (1 - p_j^2) <= a^2. Fix p and the records other than i. Under
rho-zCDP, (M, x_i) then has a Renyi divergence of order 2 from (M', x_i) of at most 2 rho. So the
chi-square divergence is at most e^(2 rho) - 1. By the Cauchy-Schwarz inequality
E A_i <= a sqrt(e^(2 rho) - 1).

3. Together, for every s > -1,

    a >= 2 (s+1) v/(n sqrt(e^(2 rho) - 1) + 2 (s+1) sqrt(v)).

So the root mean square error under some p is at least the right-hand side. For n^2 rho far above
d the largest right-hand side is nearly d/(n sqrt(e^(2 rho) - 1)).

The method is due to Bun, Ullman and Vadhan (2014), and the prior to Steinke and Ullman (2015;
theorem numbers not checked). The constants are proved here.
"""

from __future__ import annotations

import numpy as np

__all__ = ["fingerprinting_lower_bound"]


def fingerprinting_lower_bound(n: int, d: int, rho: float) -> float:
    """Return a lower bound on the root mean square l2 error of every rho-zCDP mean estimator.

    The proof is by fingerprinting: an accurate release is correlated with every record, and privacy
    limits this correlation.

    Parameters
    ----------
    n : int
        Number of records, each in {-1, 1}^d.
    d : int
        Number of coordinates of a record.
    rho : float
        Privacy parameter of zCDP. mu-GDP is (mu^2/2)-zCDP, and epsilon-DP is (epsilon
        tanh(epsilon/2))-zCDP (`dpbench.privacy.conversions`).

    Returns
    -------
    float
        Lower bound on the root mean square l2 error under the worst product distribution on {-1,
        1}^d. For records scaled to the unit ball, divide the bound by sqrt(d).
    """
    s = np.geomspace(1e-3, 1e12, 1000) - 1
    sqrt_v = np.sqrt(d / (2 * s + 3))
    with np.errstate(over="ignore"):
        correlation = n * np.sqrt(
            np.expm1(2 * rho)
        )  # step 2: the sum of E A_i is at most a times this
    return float(np.max(2 * (s + 1) * sqrt_v**2 / (correlation + 2 * (s + 1) * sqrt_v)))
