r"""What is known of the error of a library's mean, and what no private mean can beat.

In units of b = width/(n epsilon), to first order in 1/(n epsilon). L and L' are independent Laplace
noises of scale 1, m is the column's mean as a share of the interval.

**Laplace**, n public: the release is off by L, of mean absolute value 1.

**A sum over a count**, n private, half of epsilon each (Google's library, PipelineDP): the sum of
x - middle moves by at most width/2, so that it has noise of scale (width/2)/(epsilon/2) = n b, and
the count of scale 2/epsilon. The ratio is off by (noise of the sum - (mean - middle) noise of the
count)/n = L - c L', c = 2 |m - 1/2|. L - c L' exceeds x > 0 with probability

    T(x) = (e^(-x) - c^2 e^(-x/c)) / (2 (1 - c^2)),

so that the mean absolute value is 2 (1 - c^3)/(2 (1 - c^2)) = (1 + c + c^2)/(1 + c): 1 at the
centre, 1.36 at m = 0.1, 3/2 on a bound.

**Truncated** to the interval, an error that goes below a bound at distance A counts for A: that
side's half is the integral of T from 0 to A. On the bound it is 0 and the error is all bias.

**Lower bounds** on the worst of columns near the given one, for n epsilon large. Let M_0, M_1, ...
be what is released on a chain of K columns whose means are s apart. For every y the densities f_k
of M_k there give sum_k f_k |y - k s| / sum_k f_k, whose least value over all f that epsilon-DP
allows bounds the average over the chain of E|M_k - k s|, but for its ends, O(1/(K epsilon)).

- Where a record is replaced, n is public, and the means may be as near as one likes: columns whose
  means differ by up to s = width/n are neighbours. The least is that of the best noise for one
  number, the staircase [GV14]_: epsilon e^(epsilon/2)/(e^epsilon - 1).
- Where one is added, adding a record on a bound moves the mean by s = (1 - m) width/n or
  m width/n, the larger of them is taken, and only next ones are neighbours. With f_k = a^|k|,
  a = e^-epsilon, y = 0 is least: 2 a/(1 - a^2) s = s/sinh(epsilon) [GRS09]_.

.. [GV14] Q. Geng, P. Viswanath, "The optimal mechanism in differential privacy", ISIT 2014.
.. [GRS09] A. Ghosh, T. Roughgarden, M. Sundararajan, "Universally utility-maximizing privacy
   mechanisms", STOC 2009.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

from dpbench.privacy.budgets import Relation

__all__ = ["Expected", "Noise", "expected", "lower_bound"]

Noise = Literal["laplace", "sum_and_count"]
# c = 1 is a removable singularity; so near to it the error is of order 1e-7.
MOST_C = 1 - 1e-6


class Expected(NamedTuple):
    """Mean absolute error and bias in units of width/(n epsilon)."""

    error: float
    bias: float


def expected(noise: Noise, m: float, n_epsilon: float, *, truncated: bool) -> Expected:
    """What the error of a mean with that noise tends to, see the module.

    Parameters
    ----------
    noise : {'laplace', 'sum_and_count'}
    m : float in [0, 1]
        The column's mean as a share of the interval.
    n_epsilon : float
        The interval's width over b.
    truncated : bool
        Whether releases are moved into the interval.
    """
    c = min(2 * abs(m - 0.5), MOST_C) if noise == "sum_and_count" else 0.0

    def side(room: float) -> float:
        inner = -math.expm1(-room / c) if c else 1.0
        return (-math.expm1(-room) - c**3 * inner) / (2 * (1 - c**2))

    below, above = (
        side(share * n_epsilon if truncated else math.inf) for share in (max(m, 0.0), 1 - m)
    )
    return Expected(above + below, above - below)


def lower_bound(relation: Relation, m: float, epsilon: float) -> float:
    """On the mean absolute error in units of width/(n epsilon), see the module."""
    if relation == "replace":
        return epsilon / (2 * math.sinh(epsilon / 2))
    return max(m, 1 - m) * epsilon / math.sinh(epsilon)
