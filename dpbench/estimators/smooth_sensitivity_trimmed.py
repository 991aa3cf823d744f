"""Trimmed mean with noise for its smooth sensitivity (BS19).

**Definitions.** The n records are clipped to public [a, b] and sorted, x_(1) <= ... <= x_(n); write
x_(i) = a for i < 1 and x_(i) = b for i > n. The m smallest and m largest are left out, and the mean
of the other n - 2m is released. t > 0 is the rate of smoothing.

**Local sensitivity.** One replaced record raises the trimmed mean by at most
(x_(n-m+1) - x_(m+1))/(n - 2m), or lowers it by at most (x_(n-m) - x_(m))/(n - 2m).

**Smooth bound.** Replacing a record moves every order statistic by at most one rank, and all of
them to the same side. Hence, with x' a neighbour of x,

    A_k(x) = max_{l = 0..k+1} x_(n-m+1+k-l) - x_(m+1-l)

bounds n - 2m times the local sensitivity of all data that differ from x in k records, and
A_k(x) <= A_(k+1)(x'): take the same l if the record moves down, and l + 1 if it moves up. So

    S(x) = max_k e^(-kt) A_k(x)/(n - 2m)

is a t-smooth upper bound on the local sensitivity (`dpbench.privacy.smooth`).

**Computation.** With u = k - l, (n - 2m) S is the largest e^(-t(l+u)) (x_(n-m+1+u) - x_(m+1-l))
over l >= 0, u >= -1, l + u >= 0.

1. l = m + 1 reaches a and u = m reaches b, so larger l or u need not be tried.
2. The best u does not increase with l: as x_(m+1-l) falls, e^(-tu) times the gap grows by e^(-tu)
   times the fall, which favours small u. Hence divide and conquer over l takes n log n steps.
3. Values of u with e^(-tu) (b - a) < A_0, and of l with e^(-tl) (b - a) < A_0, cannot win.
4. `largest_gap` replaces l + u by max(0, l + u) instead of requiring l + u >= 0. This only admits
   (l, u) = (0, -1), whose gap x_(n-m) - x_(m+1) is at most A_0.

**Choice of t and m.** Let t = c epsilon with a constant c. Loose bounds cost nothing once
e^(-tm) (b - a) is small against the spread of the records, which takes m of the order of ln(n)/t;
they would cost a clipped mean (b - a)/(n epsilon). On the other hand a rare value tau that at most
m records have is trimmed. For records that are tau = p^(-1/k) with probability p = c/(epsilon n)
and 0 otherwise, the error is at most about (m/n)^(1-1/k), so n of the order of
ln(n)/(epsilon alpha^(k/(k-1))) suffices for an error alpha, as for clipping up to the logarithm.
For all distributions with a bounded second moment at once, the best known rate of this estimator
is (1/(alpha epsilon))^2 (KSU20, section 1.2).
"""

from __future__ import annotations

from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats, Ints
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.smooth import largest_rate
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["SmoothSensitivityTrimmedMean", "largest_gap"]


@validated
class SmoothSensitivityTrimmedMean(_ClippingEstimator):
    """Trimmed mean with noise scaled to its smooth sensitivity (BS19).

    The noise is Student's t under pure DP, under GDP and under (epsilon, delta), each at the
    epsilon that the budget pays for, and Laplace log-normal under zCDP (`dpbench.privacy.smooth`;
    theorem numbers of BS19 not checked). The module docstring of
    `dpbench.estimators.smooth_sensitivity_trimmed` derives the sensitivity.

    Parameters
    ----------
    lower, upper : float
        Public bounds a < b to which records are clipped, in the unit of the data. They may be very
        loose: the noise hardly depends on b - a.
    trimmed_records : int >= 0, optional
        Number m of records trimmed from each end, below n/2. By default ln(n)/t rounded up, but at
        most (n - 1)/2. A smaller m lets the bounds enter the noise; a larger m trims more rare
        values.
    smoothness_share : float in [0.01, 0.9]
        Rate t of smoothing as a share of its supremum, which is epsilon/3 under pure DP and sqrt(2
        rho) under zCDP. A larger share lets distant data count less, and leaves less budget for the
        noise.
    """

    first_names: ClassVar[dict[str, str]] = {
        "trimmed_records": "trim",
        "smoothness_share": "dilation",
    }

    stream_name: ClassVar[str] = "SmoothTrimmedMean"

    trimmed_records: Annotated[int, Field(ge=0)] | None = None
    smoothness_share: Annotated[float, Field(ge=0.01, le=0.9)] = 0.3

    def trimmed(self, n: int, t: float) -> int:
        """Return the number m of records trimmed from each end.

        Parameters
        ----------
        n : int
            Number of records.
        t : float > 0
            Rate of smoothing.

        Returns
        -------
        int

        Raises
        ------
        ValueError
            If 2m >= n, so that no record is left.
        """
        m = (
            min(int(np.ceil(np.log(n) / t)), (n - 1) // 2)
            if self.trimmed_records is None
            else self.trimmed_records
        )
        if 2 * m >= n:
            raise ValueError(f"trimmed_records = {m} leaves nothing of {n} records")
        return m

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, t = sample.n, self.smoothness_share * largest_rate(ledger.budget)
        m = self.trimmed(n, t)
        # q: distinct values among x_(1..m+1); low: the least l with q = x_(m+1-l).
        # p: distinct values among x_(n-m..n); up: the least u with p = x_(n-m+1+u).
        q, counts = sample.ranked(0, m)
        low = m + 1 - np.cumsum(counts, axis=1)
        p, counts = sample.ranked(n - m - 1, n - 1)
        up = np.cumsum(counts, axis=1) - counts - 1
        q, p = np.clip(q, self.lower, self.upper), np.clip(p, self.lower, self.upper)
        least = np.min(np.where(low <= 0, q, np.inf), axis=1)  # x_(m+1), the smallest kept
        most = np.max(np.where(up < 0, p, -np.inf), axis=1)  # x_(n-m), the largest kept
        one = np.ones((sample.trials, 1))  # appends a at l = m + 1, and b at u = m
        q = np.concatenate([self.lower * one, q], axis=1)[:, ::-1]
        low = np.concatenate([(m + 1) * one, low], axis=1)[:, ::-1]
        p, up = np.concatenate([p, self.upper * one], 1), np.concatenate([up, m * one], 1)
        kept = n - 2 * m
        # Clipping to [least, most] moves the 2m trimmed records to its ends: subtract these.
        mean = (n * sample.clipped_mean(least, most) - m * least - m * most) / kept
        mean = np.clip(mean, least, most)  # the difference of sums is rounded
        gap = largest_gap(p, up, q, low, t)
        return Estimate(ledger.add_smooth_noise(mean, gap / kept, t), mean)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # Moving a record from the middle to the top moves the mean by S and multiplies S by e^t.
        t = self.smoothness_share * largest_rate(budget)
        if self.trimmed_records is not None and 2 * self.trimmed_records >= n:
            return []
        m, middle = self.trimmed(n, t), self.lower / 2 + self.upper / 2
        if m < 1:
            return []
        top = np.repeat([middle, middle + (self.upper - middle) * np.exp(-t)], [n - m, 1])
        records = np.concatenate([top, np.full(m - 1, self.upper)])
        return [Pair.replacing("moves_and_grows", records, 0, self.upper)]


def largest_gap(p: Floats, up: Floats, q: Floats, low: Floats, t: float) -> Floats:
    """Return the largest e^(-t max(0, up + low)) (p - q) of each trial, or 0 if all are negative.

    It is n - 2m times the smooth sensitivity S, with x_(i) as defined at the top of this file.

    Parameters
    ----------
    p, up : ndarray of shape (trials, columns)
        Values p = x_(n-m+1+u) and the ranks u, `up`, at which they stand; both increase along axis
        1.
    q, low : ndarray of shape (trials, rows)
        Values q = x_(m+1-l), which decrease along axis 1, and the ranks l, `low`, which increase.
    t : float > 0
        Rate of smoothing.

    Returns
    -------
    ndarray of shape (trials,)
    """
    near = np.max(np.where(up <= 0, p, -np.inf), 1) - np.min(np.where(low <= 0, q, np.inf), 1)
    width = p[:, -1:] - q[:, -1:]
    # Keep a column or row if its gap can exceed `near` when the other rank distance is least:
    # 0 for l, and -1 for u.
    few, some = (
        (np.exp(-t * np.maximum(away, 0)) * width >= near[:, None]).any(axis=0)
        for away in (up, low - 1)
    )
    p, up, q, low = p[:, few], up[:, few], q[:, some], low[:, some]
    (trials, rows), columns = q.shape, p.shape[1]
    # best[:, i] is the best column of row i - 1; it does not increase with i. Entries 0 and
    # rows + 1 are sentinels.
    best = np.zeros((trials, rows + 2), dtype=np.intp)
    best[:, 0] = columns - 1
    found = np.zeros(trials)
    step = 1 << rows.bit_length()
    while step > 1:
        at, step = np.arange(step // 2, rows + 1, step), step // 2
        first, last = best[:, np.minimum(at + step, rows + 1)], best[:, at - step]
        found = np.maximum(found, _search(p, up, q, low, t, at, first, last, best))
    return found


def _search(
    p: Floats, up: Floats, q: Floats, low: Floats, t: float,
    at: Ints, first: Ints, last: Ints, best: Ints,
) -> Floats:  # fmt: skip
    """Return the largest gap over some rows and columns, (trials,); record the best columns.

    `at` holds row numbers, counted from 1. For every trial and row, the columns `first` to `last`,
    (trials, at.size), are tried: these ranges have different lengths, so all candidates of all
    trials and rows are laid out one after another in one flat array. `best[:, at]` is overwritten.
    """
    tried = (last - first + 1).ravel()
    begin = np.cumsum(tried) - tried
    place = np.repeat(np.arange(tried.size), tried)
    trial, row = np.divmod(place, at.size)
    row = at[row] - 1
    column = np.arange(place.size) - begin[place] + first.ravel()[place]
    ranks = np.maximum(up[trial, column] + low[trial, row], 0)
    gap = np.exp(-t * ranks) * (p[trial, column] - q[trial, row])
    largest = np.maximum.reduceat(gap, begin)
    # In reverse, so that the first of equal columns is written last and stays.
    ties = np.flatnonzero(gap == largest[place])[::-1]
    best[trial[ties], row[ties] + 1] = column[ties]
    return np.asarray(largest.reshape(-1, at.size).max(axis=1, initial=0.0))
