"""Estimate the largest of several noisy numbers, with an interval that allows for its choice.

Let theta_1, ..., theta_M >= 0 be numbers with independent measurements q_i ~ N(theta_i, s_i^2),
nearly, with known s_i > 0, or q_i = theta_i, exact. The estimand is theta = max_i theta_i. The
plain max_i q_i is too high where several numbers nearly tie. Let a = 0.025.

1. Upper end: h = max_i (q_i + z s_i), z = Phi^-1(1 - a). Let theta = theta_j. If h < theta, then
   q_j + z s_j < theta_j, which has probability a: no allowance is needed, whatever M is. It is the
   intersection-union test of Berger (1982, "Multiparameter hypothesis testing and acceptance
   sampling", Technometrics 24(4)).
2. Lower end: l = max_i (q_i - c s_i), c = Phi^-1((1 - a)^(1/M)). If l > theta, then
   q_i - c s_i > theta_i for some i, which has probability 1 - Phi(c)^M = a.
3. Number: q = max_i (q_i - m s_i), m = Phi^-1(2^(-1/V)), where V counts the i that may be the
   largest, q_i >= l - 2 c s_i. It exceeds theta with probability at most 1/2 + 2a. Proof: let J be
   the i with theta_i >= theta - c s_i. Outside an event of probability 2a all |q_i - theta_i| are
   at most c s_i. Then l <= theta, and for i in J q_i >= theta - 2 c s_i >= l - 2 c s_i: so
   V >= |J|, and m is at least the m of |J|. No i outside J has q_i > theta. Some i in J has
   q_i - m s_i > theta >= theta_i with probability at most 1 - (2^(-1/|J|))^|J| = 1/2. Where all M
   numbers tie it exceeds theta with probability 1/2, up to 2a. Chernozhukov, Lee and Rosen
   (2013, "Intersection bounds: estimation and inference", Econometrica 81(2)) choose among
   inequalities in this way, and call an estimate half-median-unbiased if it errs to one side at
   most half of the time.
4. Chosen maxima: if one of E such maxima is chosen after seeing all, a/E stands for a in both ends.
   By the union bound all E intervals cover at once.

So l <= theta <= h with probability at least 95 per cent. The normal distribution gives the ratio of
two levels alone: s_i below q_i and s_i above it come from the two ends of its own 95% interval.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpbench.analysis.resample import LEVEL, Measured

__all__ = ["largest"]

TAIL = (1 - LEVEL) / 2
UNIT = float(ndtri(1 - TAIL))  # standard errors between a number and an end of its interval


def largest(numbers: ArrayLike, low: ArrayLike, high: ArrayLike, *, among: int = 1) -> Measured:
    """Return the largest of the true values behind independent measurements, with its interval.

    Parameters
    ----------
    numbers, low, high : (M,) array_like
        Measurements of numbers >= 0, each with its own 95% interval; an exact number is both ends.
        An infinite number counts as it stands.
    among : int, default 1
        The number E of such maxima if one of them is chosen after seeing all. The ends of all E
        then cover at once.

    Returns
    -------
    Measured
        The number, which is too high about half of the time at most, and the ends.
    """
    q, below, above = (np.asarray(one, dtype=float) for one in (numbers, low, high))
    finite = np.isfinite(q)
    with np.errstate(invalid="ignore"):  # infinity less infinity is not used
        down = np.where(finite, q - below, 0.0) / UNIT
        up = np.where(finite, above - q, 0.0) / UNIT
    noisy = max(1, int(np.count_nonzero(down)))
    tail = TAIL / among
    c = float(ndtri((1 - tail) ** (1 / noisy)))
    bottom = np.where(finite, q - c * down, below).max()
    nearest = max(1, int(np.count_nonzero((down > 0) & (q >= bottom - 2 * c * down))))
    middle = (q - ndtri(2 ** (-1 / nearest)) * down).max()
    top = (q + float(ndtri(1 - tail)) * up).max()
    return Measured(*(float(max(one, 0.0)) for one in (middle, bottom, top)))
