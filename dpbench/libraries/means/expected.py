"""Expected errors of libraries' means, and lower bounds for every private mean.

A column is a dataset of n numbers in a public interval of length width. Errors are in units of
b = width/(n epsilon), to first order in 1/(n epsilon). L and L' are independent Laplace noises of
scale 1. m is the position of the column's mean in the interval, from 0 to 1.

**Laplace**, with n public: the error is L, and its mean absolute value is 1.

**A sum over a count**, with n private (Google's library, PipelineDP). The sum and the count get
half of epsilon each. Let middle be the middle of the interval. One record moves the sum of
x - middle by at most width/2, so this sum has noise of scale (width/2)/(epsilon/2) = n b. The noise
of the count has scale 2/epsilon. The error of the ratio is (noise of the sum - (mean - middle)
noise of the count)/n = L - c L', c = 2 |m - 1/2|. L - c L' exceeds x > 0 with probability

    P(x) = (e^(-x) - c^2 e^(-x/c)) / (2 (1 - c^2)),

so its mean absolute value is 2 (1 - c^3)/(2 (1 - c^2)) = (1 + c + c^2)/(1 + c): 1 at the centre,
1.36 at m = 0.1, 3/2 at a bound.

**Truncation** to the interval. Let A be the distance of the column's mean from one bound. A larger
error towards this bound becomes A. Errors towards the bound then contribute the integral of P from
0 to A to the mean absolute error. If the mean is at the bound, they contribute 0. All errors then
have the same sign, so the mean absolute error is the absolute bias. For a symmetric noise E the
integral of P(E > x) from 0 to A is (E|E| - E|E - A| + A)/2.

**Variances**, in units of b = width^2/(n epsilon). Let u be a record on the scale where the
interval is [0, 1], m its mean and s its mean square.

- Laplace noise on the variance, with n public: L, as for the mean.
- Laplace noise on the variance, conditioned on a release in [0, 1/4] (diffprivlib, HABM20). The
  normalising constant of the density is 1/2 at an end, and almost 1 elsewhere. A neighbour moves
  the variance from an end by r scales, and the constant by a factor 2 - e^-r. So the scale is
  epsilon/r, where r + ln(2 - e^-r) = epsilon. It is between 1 and 2, and near 2 for small epsilon.
- Three sums with a third of epsilon each, with n private: of 1, of u - 1/2, and of squares. The
  first two move by at most 1 and 1/2. Let x = u + lower/width be the records in units of the width,
  c the middle of their interval, and q and h the middle and half the length of the interval of x^2.
  Google's C++ library sums x^2 - q, which a record moves by at most h. With the mean m and the mean
  square s of x its noises have the scales 3 |2 m (m - c) - (s - q)|, 3 |m| and 3 h, which are large
  if the interval is far from 0. PipelineDP sums (x - c)^2, but adds noise for h. With m' = m - c
  and s' the mean of (x - c)^2 its scales are 3 |2 m'^2 - s'|, 3 |m'| and 3 h.

**Lower bounds** on the worst error over columns near the given column, for large n epsilon. Take a
sequence of K columns, each with a mean larger by s than the mean of the column before. Let M_0,
M_1, ... be the releases on these columns. For every number y let f_k be the density of M_k at y.
Consider sum_k f_k |y - k s| / sum_k f_k, and minimise it over all f that epsilon-DP allows. The
average of E|M_k - k s| over the columns is at least this minimum. An error of O(1/(K epsilon))
comes from the ends of the sequence.

- Replace: n is public. The step s may be arbitrarily small, because columns whose means differ by
  up to width/n can be neighbours. The minimum is the error of the best noise for one number, the
  staircase [GV14]_. In units of b it is epsilon e^(epsilon/2)/(e^epsilon - 1).
- Add/remove: adding a record at a bound moves the mean by s = (1 - m) width/n or m width/n; take
  the larger. Only consecutive columns are neighbours. The minimum is reached at y = 0 and
  f_k = a^|k|, a = e^-epsilon. Its value is 2 a/(1 - a^2) s = s/sinh(epsilon) [GRS09]_.

.. [GV14] Q. Geng, P. Viswanath, "The optimal mechanism in differential privacy", ISIT 2014.
.. [HABM20] N. Holohan, S. Antonatos, S. Braghin, P. Mac Aonghusa, "The bounded Laplace mechanism in
   differential privacy", Journal of Privacy and Confidentiality 10(1), 2020, arXiv:1808.10410.
.. [GRS09] A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy
   mechanisms", STOC 2009.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.budgets import Relation

__all__ = [
    "ErrorAndBias", "Noise", "VarianceNoise", "lower_bound", "predict_error",
    "predict_variance_error",
]  # fmt: skip

Noise = Literal["laplace", "sum_and_count"]
VarianceNoise = Literal["laplace", "bounded_laplace", "google_sums", "pipeline_sums"]


class ErrorAndBias(NamedTuple):
    """Mean absolute error and bias of a private mean or variance.

    The unit is width/(n epsilon) for a mean, and width^2/(n epsilon) for a variance. The n records
    are in an interval of length width.
    """

    error: float
    bias: float


def predict_error(noise: Noise, m: float, n_epsilon: float, *, truncated: bool) -> ErrorAndBias:
    """Return the expected error and bias of a library's private mean.

    The mean is released for a column of n records in a public interval. The noise is Laplace noise,
    or that of a noisy sum over a noisy count. `m` is the position of the column's mean in the
    interval, 0 at the lower end and 1 at the upper end. `truncated` is True if releases are
    truncated to the interval. `n_epsilon` is n times epsilon. The unit of the result is the length
    of the interval over n epsilon. The formulas are of first order in 1/(n epsilon).
    """
    c = 2 * abs(m - 0.5) if noise == "sum_and_count" else 0.0
    below, above = (n_epsilon * share if truncated else math.inf for share in (m, 1 - m))
    return _truncate((1.0, c), below, above)


def predict_variance_error(
    noise: VarianceNoise, u: Floats, lower: float, upper: float, epsilon: float
) -> ErrorAndBias:
    """Return the expected error and bias of a library's private variance of one column.

    `u` has the n records, scaled from the public interval [lower, upper] to [0, 1]. The unit of the
    result is the squared length of the interval over n epsilon. The formulas are of first order in
    1/(n epsilon).
    """
    m, s = float(u.mean()), float((u**2).mean())
    below, above = (len(u) * epsilon * room for room in (s - m**2, 0.25 - s + m**2))
    if noise == "laplace":
        return _truncate((1.0,), math.inf, math.inf)
    if noise == "bounded_laplace":
        from scipy.optimize import brentq

        r = brentq(lambda r: r + math.log(2 - math.exp(-r)) - epsilon, 0.0, epsilon)
        scale = epsilon / r
        ends = [(1 + room / scale, math.exp(-room / scale)) for room in (below, above)]
        low, high = (factor * tail for factor, tail in ends)
        mass = 2 - sum(tail for _, tail in ends)
        return ErrorAndBias(scale * (2 - low - high) / mass, scale * (low - high) / mass)
    x, c = u + lower / (upper - lower), lower / (upper - lower) + 0.5
    squares = (c - 0.5) ** 2, (c + 0.5) ** 2
    least = 0.0 if abs(c) < 0.5 else min(squares)
    q, h = (max(squares) + least) / 2, (max(squares) - least) / 2
    distance = float((x - c).mean())
    if noise == "google_sums":
        mean, square = float(x.mean()), float((x**2).mean())
        scales = abs(2 * mean * distance - (square - q)), abs(mean), h
        return _truncate(tuple(3 * scale for scale in scales), below, above)
    scales = abs(2 * distance**2 - float(((x - c) ** 2).mean())), abs(distance), h
    return _truncate(tuple(3 * scale for scale in scales), math.inf, math.inf)


def _truncate(scales: tuple[float, ...], below: float, above: float) -> ErrorAndBias:
    """Return error and bias of a sum of Laplace noises, truncated to [-below, above].

    `scales` are the scales of the noises, of which some may be 0.
    """
    from dpbench.theory.exact.noise import Laplace, LaplaceSum

    positive = tuple(scale for scale in scales if scale > 0)
    noise = LaplaceSum(positive) if len(positive) > 1 else Laplace(*positive)
    whole = float(noise.distance(np.zeros(())))

    def integral(room: float) -> float:
        """Return the integral of the probability that the noise exceeds x, from 0 to `room`."""
        room = min(max(room, 0.0), 1e3 * whole)  # the noise hardly ever exceeds 1000 times its size
        return (whole - float(noise.distance(np.array(room))) + room) / 2

    low, high = integral(below), integral(above)
    return ErrorAndBias(high + low, high - low)


def lower_bound(relation: Relation, m: float, epsilon: float) -> float:
    """Return a lower bound on the mean absolute error of private estimators of a column's mean.

    A column is a dataset of n records in a public interval. `m` is the position of its mean in the
    interval, 0 at the lower end and 1 at the upper end. `epsilon` is a pure-DP budget. The bound is
    in units of width/(n epsilon), where width is the length of the interval. The bound is for large
    n epsilon, and for the largest error over all columns that differ from a given column in few
    records. On the given column alone, an estimator may have an error below the bound.
    """
    if relation == "replace":
        return epsilon / (2 * math.sinh(epsilon / 2))
    return max(m, 1 - m) * epsilon / math.sinh(epsilon)
