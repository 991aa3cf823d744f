"""Expected errors of libraries' means, and lower bounds for every private mean.

Errors are in units of b = width/(n epsilon), to first order in 1/(n epsilon). L and L' are
independent Laplace noises of scale 1; m is the column's mean as a share of the interval.

**Laplace**, n public: the error is L, of mean absolute value 1.

**A sum over a count**, n private, half of epsilon each (Google's library, PipelineDP). The sum of
x - middle moves by at most width/2, so its noise has scale (width/2)/(epsilon/2) = n b; that of the
count has scale 2/epsilon. The ratio errs by
(noise of the sum - (mean - middle) noise of the count)/n = L - c L', c = 2 |m - 1/2|. L - c L'
exceeds x > 0 with probability

    P(x) = (e^(-x) - c^2 e^(-x/c)) / (2 (1 - c^2)),

so its mean absolute value is 2 (1 - c^3)/(2 (1 - c^2)) = (1 + c + c^2)/(1 + c): 1 at the centre,
1.36 at m = 0.1, 3/2 at a bound.

**Truncation** to the interval replaces an error beyond a bound at distance A by A. The half of the
error on that side is the integral of P from 0 to A. For a mean at the bound this half is 0, and the
error is all bias.

**Lower bounds** on the worst error over columns near the given column, for large n epsilon. Let
M_0, M_1, ... be the releases on a chain of K columns whose means are s apart. For every y let f_k
be the density of M_k at y. Then the average of E|M_k - k s| over the chain is at least the least
value of sum_k f_k |y - k s| / sum_k f_k over all f that epsilon-DP allows, up to ends, O(1/(K
epsilon)).

- Replace: n is public. The means may be arbitrarily close, because columns whose means differ by up
  to s = width/n are neighbours. The least value is that of the best noise for one number, the
  staircase [GV14]_: epsilon e^(epsilon/2)/(e^epsilon - 1).
- Add/remove: adding a record at a bound moves the mean by s = (1 - m) width/n or m width/n; take
  the larger. Only consecutive columns are neighbours. With f_k = a^|k|, a = e^-epsilon, y = 0 is
  least: 2 a/(1 - a^2) s = s/sinh(epsilon) [GRS09]_.

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
# At c = 1 the formulas have a removable singularity; MOST_C instead of 1 errs by some 1e-7.
MOST_C = 1 - 1e-6


class Expected(NamedTuple):
    """Mean absolute error and bias in units of width/(n epsilon)."""

    error: float
    bias: float


def expected(noise: Noise, m: float, n_epsilon: float, *, truncated: bool) -> Expected:
    """Return the expected error and bias of a mean with this noise, to first order.

    Parameters
    ----------
    noise : {'laplace', 'sum_and_count'}
        Noise of the library's mean.
    m : float in [0, 1]
        The column's mean as a share of the interval.
    n_epsilon : float
        Number of records times epsilon: the interval's width over b.
    truncated : bool
        True if releases are truncated to the interval.

    Returns
    -------
    Expected
        In units of width/(n epsilon).
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
    """Return a lower bound on the mean absolute error of every private mean.

    Parameters
    ----------
    relation : {'replace', 'add_remove'}
        Neighbouring relation.
    m : float in [0, 1]
        The column's mean as a share of the interval.
    epsilon : float > 0
        Pure-DP budget.

    Returns
    -------
    float
        In units of width/(n epsilon).
    """
    if relation == "replace":
        return epsilon / (2 * math.sinh(epsilon / 2))
    return max(m, 1 - m) * epsilon / math.sinh(epsilon)
