"""Estimate the largest of several unknown numbers from noisy measurements, with an interval.

The interval allows for the choice of the largest measurement.

Let theta_1, ..., theta_M >= 0 be unknown numbers and theta = max_i theta_i the estimand. Each
theta_i has an independent measurement q_i, approximately N(theta_i, s_i^2) with known s_i > 0. The
plain maximum max_i q_i is too high if several numbers nearly tie. Let a = 0.025 (`TAIL`), and let
Phi be the standard normal distribution function. An exact measurement q_i = theta_i has s_i = 0. It
takes part in every maximum below, but the counts M and V leave it out.

1. Upper end: h = max_i (q_i + z s_i) with z = Phi^-1(1 - a). Let j be an index with
   theta = theta_j. If h < theta, then q_j + z s_j < theta_j, which has probability a. So the upper
   end needs no correction for M. This is the intersection-union test of Berger (1982,
   "Multiparameter hypothesis testing and acceptance sampling", Technometrics 24(4)).
2. Lower end: l = max_i (q_i - c s_i) with c = Phi^-1((1 - a)^(1/M)). If l > theta, then
   q_i - c s_i > theta_i for some i, which has probability at most 1 - Phi(c)^M = a.
3. Estimate: q = max_i (q_i - m s_i) with m = Phi^-1(2^(-1/V)). Here V counts the indices i whose
   theta_i may be the largest, those with q_i >= l - 2 c s_i. Then q exceeds theta with probability
   at most 1/2 + 2a. If all M numbers tie, the probability is 1/2, up to 2a.

   Proof. Let J be the set of i with theta_i >= theta - c s_i. Outside an event of probability 2a,
   |q_i - theta_i| <= c s_i for all i. Then l <= theta, and every i in J has
   q_i >= theta - 2 c s_i >= l - 2 c s_i. So V >= |J|, and m is at least Phi^-1(2^(-1/|J|)). No i
   outside J has q_i > theta. Some i in J has q_i - m s_i > theta >= theta_i with probability at
   most 1 - (2^(-1/|J|))^|J| = 1/2.

   Chernozhukov, Lee and Rosen (2013, "Intersection bounds: estimation and inference",
   Econometrica 81(2)) select inequalities in this way. They call an estimate half-median-unbiased
   if it errs to one side at most half of the time.
4. Several maxima: a caller may compute E maxima (`candidates`) and choose one of them after seeing
   all. Then both ends use a/E instead of a. By the union bound all E intervals cover
   simultaneously.

So l <= theta <= h with probability at least 95 per cent. Each measurement q_i comes with its own
95% interval. In steps 2 and 3, s_i is the distance from q_i to the lower end, divided by z
(`down`). In step 1, s_i is the distance to the upper end, divided by z (`up`). So normality is
used only to convert a 95% interval to other levels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpbench.analysis.resample import LEVEL, Measurement

__all__ = ["largest"]

TAIL = (1 - LEVEL) / 2
NORMAL_QUANTILE = float(ndtri(1 - TAIL))  # half-width of a 95% interval, in standard errors


def largest(
    numbers: ArrayLike, low: ArrayLike, high: ArrayLike, *, candidates: int = 1
) -> Measurement:
    """Estimate the largest of M true values from independent measurements, with a 95% interval.

    `numbers`, `low` and `high` have shape (M,): measurements of numbers >= 0 and the ends of their
    95% intervals. Both ends of an exact measurement equal the measurement. An infinite measurement
    counts as exact. If the caller chooses one of several maxima after seeing all, `candidates` is
    their number, and the intervals cover all of them simultaneously. The estimate is too high with
    probability at most about one half.
    """
    q, below, above = (np.asarray(value, dtype=float) for value in (numbers, low, high))
    finite = np.isfinite(q)
    with np.errstate(invalid="ignore"):  # infinity minus infinity is not used
        down = np.where(finite, q - below, 0.0) / NORMAL_QUANTILE
        up = np.where(finite, above - q, 0.0) / NORMAL_QUANTILE
    noisy = max(1, int(np.count_nonzero(down)))
    tail = TAIL / candidates
    c = float(ndtri((1 - tail) ** (1 / noisy)))
    bottom = np.where(finite, q - c * down, below).max()
    nearest = max(1, int(np.count_nonzero((down > 0) & (q >= bottom - 2 * c * down))))
    middle = (q - ndtri(2 ** (-1 / nearest)) * down).max()
    top = (q + float(ndtri(1 - tail)) * up).max()
    return Measurement(*(float(max(value, 0.0)) for value in (middle, bottom, top)))
