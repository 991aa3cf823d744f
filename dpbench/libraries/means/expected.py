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
have the same sign, so the mean absolute error is the absolute bias.

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
.. [GRS09] A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy
   mechanisms", STOC 2009.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from dpbench.privacy.budgets import Relation

__all__ = ["ErrorAndBias", "Noise", "lower_bound", "predict_error"]

Noise = Literal["laplace", "sum_and_count"]
# At c = 1 the formulas have a removable singularity; MAX_C instead of 1 errs by about 1e-7.
MAX_C = 1 - 1e-6


class ErrorAndBias(NamedTuple):
    """Mean absolute error and bias of a private mean, in units of width/(n epsilon).

    The n records are in an interval of length width.
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
    c = min(2 * abs(m - 0.5), MAX_C) if noise == "sum_and_count" else 0.0

    def integral(room: float) -> float:
        """Return the part of the mean absolute error that comes from errors in one direction.

        This part is the integral of P(x) from 0 to `room`, where P(x) is the probability that the
        error in this direction exceeds x. `room` is the distance from the column's mean at
        which releases are truncated. Lengths are in units of width/(n epsilon).
        """
        inner = -math.expm1(-room / c) if c else 1.0
        return (-math.expm1(-room) - c**3 * inner) / (2 * (1 - c**2))

    below, above = (
        integral(share * n_epsilon if truncated else math.inf) for share in (max(m, 0.0), 1 - m)
    )
    return ErrorAndBias(above + below, above - below)


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
