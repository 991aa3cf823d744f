"""Estimate the largest of several noisy numbers, with an interval that allows for its choice.

Let theta_1, ..., theta_M >= 0 be unknown numbers and theta = max_i theta_i the estimand. Each has
an independent measurement q_i: approximately N(theta_i, s_i^2) with known s_i > 0, or exact,
q_i = theta_i. The plain maximum max_i q_i is too high if several numbers nearly tie. Let
a = 0.025, and let Phi be the standard normal distribution function.

1. Upper end: h = max_i (q_i + z s_i) with z = Phi^-1(1 - a). Let j be an index with
   theta = theta_j. If h < theta, then q_j + z s_j < theta_j, which has probability a. No allowance
   is needed, whatever M is. This is the intersection-union test of Berger (1982, "Multiparameter
   hypothesis testing and acceptance sampling", Technometrics 24(4)).
2. Lower end: l = max_i (q_i - c s_i) with c = Phi^-1((1 - a)^(1/M)). If l > theta, then
   q_i - c s_i > theta_i for some i, which has probability at most 1 - Phi(c)^M = a.
3. Number: q = max_i (q_i - m s_i) with m = Phi^-1(2^(-1/V)). Here V is the number of indices i
   that may be the largest: q_i >= l - 2 c s_i. Then q exceeds theta with probability at most
   1/2 + 2a. If all M numbers tie, it does so with probability 1/2, up to 2a.

   Proof. Let J be the set of i with theta_i >= theta - c s_i. Outside an event of probability 2a,
   |q_i - theta_i| <= c s_i for all i. Then l <= theta, and every i in J has
   q_i >= theta - 2 c s_i >= l - 2 c s_i. So V >= |J|, and m is at least Phi^-1(2^(-1/|J|)). No i
   outside J has q_i > theta. Some i in J has q_i - m s_i > theta >= theta_i with probability at
   most 1 - (2^(-1/|J|))^|J| = 1/2.

   Chernozhukov, Lee and Rosen (2013, "Intersection bounds: estimation and inference",
   Econometrica 81(2)) select inequalities in this way. They call an estimate half-median-unbiased
   if it errs to one side at most half of the time.
4. Chosen maxima: if one of E maxima is chosen after seeing all, both ends use a/E instead of a.
   By the union bound all E intervals cover simultaneously.

So l <= theta <= h with probability at least 95 per cent. Each measurement comes with its own 95%
interval, from whose two ends s_i below and above q_i are taken. So normality matters only for the
ratio between quantiles at two levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpbench.analysis.resample import LEVEL, Measurement

__all__ = ["largest"]

TAIL = (1 - LEVEL) / 2
UNIT = float(ndtri(1 - TAIL))  # standard errors between a number and an end of its interval


def largest(numbers: ArrayLike, low: ArrayLike, high: ArrayLike, *, among: int = 1) -> Measurement:
    """Estimate the largest of the true values behind independent measurements.

    Parameters
    ----------
    numbers, low, high : array_like of shape (M,)
        Measurements q_i of numbers >= 0 and the ends of their 95% intervals. Both ends of an exact
        number equal it. An infinite number is taken as exact.
    among : int, default 1
        Number E of maxima from which this one is chosen after seeing all. All E intervals then
        cover simultaneously.

    Returns
    -------
    Measured
        The number q, which is too high at most about half of the time, with its ends l and h.
    """
    q, below, above = (np.asarray(one, dtype=float) for one in (numbers, low, high))
    finite = np.isfinite(q)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is not used
        down = np.where(finite, q - below, 0.0) / UNIT
        up = np.where(finite, above - q, 0.0) / UNIT
    noisy = max(1, int(np.count_nonzero(down)))
    tail = TAIL / among
    c = float(ndtri((1 - tail) ** (1 / noisy)))
    bottom = np.where(finite, q - c * down, below).max()
    nearest = max(1, int(np.count_nonzero((down > 0) & (q >= bottom - 2 * c * down))))
    middle = (q - ndtri(2 ** (-1 / nearest)) * down).max()
    top = (q + float(ndtri(1 - tail)) * up).max()
    return Measurement(*(float(max(one, 0.0)) for one in (middle, bottom, top)))
