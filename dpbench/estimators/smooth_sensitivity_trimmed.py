"""Trimmed mean with noise scaled to its smooth sensitivity (BS19, HT25).

**Definitions.** The n records are clipped to public [a, b] and sorted, x_(1) <= ... <= x_(n); write
x_(i) = a for i < 1 and x_(i) = b for i > n. The m smallest and m largest records are left out, and
the mean of the other n - 2m is released with noise. t > 0 is the rate of smoothing.

**Local sensitivity.** One replaced record raises the trimmed mean by at most
(x_(n-m+1) - x_(m+1))/(n - 2m), or lowers it by at most (x_(n-m) - x_(m))/(n - 2m).

**Smooth bound.** Replacing a record moves every order statistic by at most one rank, and all of
them in the same direction. Let x' be a neighbour of x, and

    A_k(x) = max_{l = 0..k+1} x_(n-m+1+k-l) - x_(m+1-l).

A_k bounds n - 2m times the local sensitivity of every dataset that differs from x in k records.
Moreover A_k(x) <= A_(k+1)(x'). To see this, take a term of A_k(x) with index l. If the record moves
down, the term of A_(k+1)(x') with index l is at least as large. If the record moves up, the term
with index l + 1 is at least as large. So

    S(x) = max_k e^(-kt) A_k(x)/(n - 2m)

is a t-smooth upper bound on the local sensitivity (`dpbench.privacy.smooth`).

**Computation.** With u = k - l, (n - 2m) S is the largest e^(-t(l+u)) (x_(n-m+1+u) - x_(m+1-l))
over l >= 0, u >= -1, l + u >= 0. In code l is `low`, u is `up`, and the two order statistics are q
and p.

1. l = m + 1 reaches a and u = m reaches b, so larger l or u need not be tried.
2. The best u does not increase with l: as x_(m+1-l) falls, e^(-tu) times the gap grows by e^(-tu)
   times the fall, which favours small u. Hence divide and conquer over l takes n log n steps.
3. Let A be x_(n-m+1) - x_(m+1), the gap at l = u = 0. Values of u with e^(-tu) (b - a) < A cannot
   win, nor values of l with e^(-t(l-1)) (b - a) < A, because u >= -1.
4. `largest_gap` replaces l + u by max(0, l + u) instead of requiring l + u >= 0. This only admits
   (l, u) = (0, -1), whose gap x_(n-m) - x_(m+1) is at most A.

**Choice of t and m.** Let t be a constant fraction of epsilon. Loose bounds cost nothing once
e^(-tm) (b - a) is small against the spread of the records. This takes m of the order of ln(n)/t. (A
clipped mean would pay (b - a)/(n epsilon) for loose bounds.) On the other hand a rare value tau is
trimmed if at most m records have it. Suppose that a record is tau = p^(-1/k) with a probability p
of the order of 1/(epsilon n), and 0 otherwise. The error is at most about (m/n)^(1-1/k). So n of
the order of ln(n)/(epsilon alpha^(k/(k-1))) suffices for an error alpha. Up to the logarithm, a
clipped mean needs as many records. For all distributions with a bounded second moment at once, the
best known bound for this estimator needs n of the order of (1/(alpha epsilon))^2 (KSU20, section
1.2).
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats, Ints
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.smooth import SmoothNoise, largest_rate
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["SmoothSensitivityTrimmedMean", "largest_gap"]


@validated
class SmoothSensitivityTrimmedMean(_ClippingEstimator):
    """Trimmed mean with noise scaled to its smooth sensitivity (BS19, HT25).

    Records are clipped to public bounds and sorted, and the m smallest and m largest are dropped.
    The noise is in proportion to a smooth bound on the local sensitivity of the mean of the rest.
    For each dataset that differs in k records, multiply the local sensitivity by e^(-kt), where t
    is the rate of smoothing. The bound is the largest product. See `dpbench.privacy.smooth` and
    `dpbench.privacy.polyplace` for the noise; theorem numbers of BS19 and HT25 were not checked.
    `dpbench.estimators.smooth_sensitivity_trimmed` derives the sensitivity.

    Parameters
    ----------
    lower, upper : float
        Public bounds a < b to which records are clipped, in the unit of the data. Loose bounds are
        harmless, because the noise hardly depends on b - a.
    trimmed_records : int >= 0, optional
        Number m of records trimmed from each end, below n/2. By default ln(n)/t rounded up, but at
        most (n - 1)/2. With a smaller m the noise grows with b - a. A larger m trims more rare
        values, which biases the mean.
    smoothness_share : float in [0.01, 0.9]
        Rate t of smoothing, as a fraction of the largest possible rate. This rate is epsilon/3 for
        Student's t noise, epsilon for PolyPlace noise, and sqrt(2 rho) under zCDP. With a larger
        fraction, datasets that differ in many records count less, and less budget is left for the
        noise. PolyPlace noise has a finite variance for fractions below 1/2.
    noise : {'by_budget', 'polyplace'}
        ``by_budget``: Laplace log-normal noise under zCDP, and Student's t noise under other
        notions, for the largest epsilon of pure DP that the budget allows. ``polyplace``: PolyPlace
        noise for this epsilon, which has a smaller 0.9 quantile than Student's t at every t.
    """

    trimmed_records: Annotated[int, Field(ge=0)] | None = None
    smoothness_share: Annotated[float, Field(ge=0.01, le=0.9)] = 0.3
    noise: SmoothNoise = "by_budget"

    def least_records(self, d: int, budget: Budget) -> int:
        return 2 * (self.trimmed_records or 0) + 1

    def count_trimmed(self, n: int, t: float) -> int:
        """Return the number m of records trimmed from each end.

        The rate of smoothing is t > 0: the local sensitivity of a dataset that differs in k records
        is multiplied by e^(-kt). A ValueError is raised if 2m >= n, because then no record is left.
        """
        m = (
            min(int(np.ceil(np.log(n) / t)), (n - 1) // 2)
            if self.trimmed_records is None
            else self.trimmed_records
        )
        if 2 * m >= n:
            raise ValueError(f"trimmed_records = {m} leaves nothing of {n} records")
        return m

    def _rate(self, budget: Budget) -> float:
        """Return the rate t of smoothing under a budget."""
        return self.smoothness_share * largest_rate(budget, self.noise)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, t = sample.n, self._rate(ledger.budget)
        m = self.count_trimmed(n, t)
        # q: distinct values among x_(1..m+1); low: the least l with q = x_(m+1-l).
        # p: distinct values among x_(n-m..n); up: the least u with p = x_(n-m+1+u).
        q, counts = sample.ranked(0, m)
        low = m + 1 - np.cumsum(counts, axis=1)
        p, counts = sample.ranked(n - m - 1, n - 1)
        up = np.cumsum(counts, axis=1) - counts - 1
        q, p = np.clip(q, self.lower, self.upper), np.clip(p, self.lower, self.upper)
        smallest = np.min(np.where(low <= 0, q, np.inf), axis=1)  # x_(m+1), the smallest kept
        largest = np.max(np.where(up < 0, p, -np.inf), axis=1)  # x_(n-m), the largest kept
        column = np.ones((sample.trials, 1))  # appends a at l = m + 1, and b at u = m
        q = np.concatenate([self.lower * column, q], axis=1)[:, ::-1]
        low = np.concatenate([(m + 1) * column, low], axis=1)[:, ::-1]
        p, up = np.concatenate([p, self.upper * column], 1), np.concatenate([up, m * column], 1)
        averaged = n - 2 * m
        # Among records clipped to [x_(m+1), x_(n-m)] there are m trimmed records at each end. Their
        # distances from the middle add up to 0.
        middle, half = smallest / 2 + largest / 2, largest / 2 - smallest / 2
        offset = np.clip(sample.centred_mean(middle, half) * (n / averaged), -half, half)
        centre = self.lower / 2 + self.upper / 2
        mean = middle - centre + offset
        gap = largest_gap(p, up, q, low, t)
        noisy = ledger.add_smooth_noise(mean, gap / averaged, t, noise=self.noise)
        return Estimate(centre + noisy, centre + mean)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # Moving a record from the middle to the top moves the mean by S and multiplies S by e^t.
        t = self._rate(budget)
        if self.trimmed_records is not None and 2 * self.trimmed_records >= n:
            return []
        m, middle = self.count_trimmed(n, t), self.lower / 2 + self.upper / 2
        if m < 1:
            return []
        top = np.repeat([middle, middle + (self.upper - middle) * np.exp(-t)], [n - m, 1])
        records = np.concatenate([top, np.full(m - 1, self.upper)])
        return [Pair.replacing("moves_and_grows", records, 0, self.upper)]


def largest_gap(p: Floats, up: Floats, q: Floats, low: Floats, t: float) -> Floats:
    """Return the largest discounted gap between high and low order statistics, for each trial.

    The gap of a high value p and a low value q is e^(-t max(0, up + low)) (p - q), where `up` and
    `low` are ranks. The largest gap, divided by the n - 2m records that a trimmed mean keeps, is
    the smooth sensitivity of the mean. Let x_(1) <= ... <= x_(n) be the sorted records, and m the
    number trimmed from each end.

    The high values are p = x_(n-m+1+u) for u >= -1, and `up` is the smallest u with this value.
    Both have the shape (trials, columns) and increase along axis 1. The low values are
    q = x_(m+1-l) for l >= 0, and `low` is the smallest l with this value. Their shape is
    (trials, rows); along axis 1 q decreases and `low` increases. The discount rate t > 0 is for
    each rank. The result is 0 where all gaps are negative.
    """
    near = np.max(np.where(up <= 0, p, -np.inf), 1) - np.min(np.where(low <= 0, q, np.inf), 1)
    width = p[:, -1:] - q[:, -1:]
    # Keep a column (row) if its gap can exceed `near` at the smallest l (u), which is 0 (-1).
    keep_p, keep_q = (
        (np.exp(-t * np.maximum(distance, 0)) * width >= near[:, None]).any(axis=0)
        for distance in (up, low - 1)
    )
    p, up, q, low = p[:, keep_p], up[:, keep_p], q[:, keep_q], low[:, keep_q]
    (trials, rows), columns = q.shape, p.shape[1]
    # best[:, i], the best column of row i - 1, does not increase with i. Entries 0 and rows + 1 are
    # sentinels.
    best = np.zeros((trials, rows + 2), dtype=np.intp)
    best[:, 0] = columns - 1
    largest = np.zeros(trials)
    step = 1 << rows.bit_length()
    while step > 1:
        rows_tried, step = np.arange(step // 2, rows + 1, step), step // 2
        first, last = best[:, np.minimum(rows_tried + step, rows + 1)], best[:, rows_tried - step]
        largest = np.maximum(largest, _search(p, up, q, low, t, rows_tried, first, last, best))
    return largest


def _search(
    p: Floats, up: Floats, q: Floats, low: Floats, t: float,
    rows_tried: Ints, first: Ints, last: Ints, best: Ints,
) -> Floats:  # fmt: skip
    """Return the largest discounted gap over selected pairs of order statistics, (trials,).

    A row is a low order statistic q with the rank `low`. A column is a high order statistic p with
    the rank `up`. The discounted gap of a pair is e^(-t max(0, up + low)) (p - q). `rows_tried`
    holds the selected rows, counted from 1. A selected row is paired with the columns from `first`
    to `last`, which have the shape (trials, rows_tried.size). The number of columns varies, so one
    flat array holds all pairs. The best column of each row is written to `best[:, rows_tried]`.
    """
    lengths = (last - first + 1).ravel()
    starts = np.cumsum(lengths) - lengths
    place = np.repeat(np.arange(lengths.size), lengths)
    trial, row = np.divmod(place, rows_tried.size)
    row = rows_tried[row] - 1
    column = np.arange(place.size) - starts[place] + first.ravel()[place]
    ranks = np.maximum(up[trial, column] + low[trial, row], 0)
    gap = np.exp(-t * ranks) * (p[trial, column] - q[trial, row])
    largest = np.maximum.reduceat(gap, starts)
    # Reverse the ties, so that the first of equal columns is written last and stays.
    ties = np.flatnonzero(gap == largest[place])[::-1]
    best[trial[ties], row[ties] + 1] = column[ties]
    return np.asarray(largest.reshape(-1, rows_tried.size).max(axis=1, initial=0.0))
