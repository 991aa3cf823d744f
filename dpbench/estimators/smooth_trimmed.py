r"""A trimmed mean with noise for its smooth sensitivity: Bun and Steinke (BS19).

Records are clipped to public [a, b]; of n in order the m smallest and m largest are left out. Write
x_(i) = a for i < 1 and b for i > n. One replaced record moves the mean of the others by at most
x_(n-m+1) - x_(m+1), upwards, or x_(n-m) - x_(m), over n - 2m. A replaced record moves every order
statistic by at most one rank, all of them to the same side, so that

    A_k(x) = max_{l = 0..k+1} x_(n-m+1+k-l) - x_(m+1-l)

bounds that k records away, and A_k(x) <= A_(k+1)(x') for neighbours: with the same l if the record
moves down, with l + 1 if up. Hence S(x) = max_k e^(-kt) A_k(x)/(n - 2m) is t-smooth
(`dpbench.privacy.smooth`), and S(x) is at least what a record moves.

What it costs. With u = k - l, S is the largest e^(-t(l+u)) (x_(n-m+1+u) - x_(m+1-l)), l >= 0,
u >= -1, l + u >= 0. As l grows, the best u does not: by e^(-tu) (p - q) of a smaller q, the smaller
u gain more. So the best u of half of the l divide those of the others: n log n in all. Those with
e^(-tu) (b - a) below A_0 do not matter, nor any beyond l = m + 1 and u = m, which bridge [a, b].

Which t and m. With t = c epsilon and e^(-tm) (b - a) small beside the spread of the records, which
takes m = ln(n)/t, bounds that are far off cost nothing; they would cost a clipped mean (b - a)/
(n epsilon). A rare point at tau that m records or fewer have is left out: on p = c/(epsilon n),
tau = p^(-1/k), the error is at most near (m/n)^(1-1/k), n ~ ln(n)/(epsilon alpha^(k/(k-1))) and no
worse: the (1/(alpha epsilon))^2 of KSU20, section 1.2, is what is known for all laws at once.
"""

from __future__ import annotations

from typing import Annotated

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats, Ints
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _Between
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.smooth import largest_rate
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["SmoothTrimmedMean", "largest_gap"]


@validated
class SmoothTrimmedMean(_Between):
    """A trimmed mean, with noise in proportion to its smooth sensitivity; the module derives it.

    Student's t under pure DP, and at the epsilon that GDP and (epsilon, delta) pay for; Laplace
    log-normal noise under zCDP.

    Parameters
    ----------
    lower, upper : float
        The public a < b. They may be far off: noise is all but free of them.
    trim : int, optional
        m; by default the least of ln(n)/t, rounded up, and (n - 1)/2.
    dilation : float
        t as a share of its largest value, epsilon/3 or sqrt(2 rho).
    """

    trim: Annotated[int, Field(ge=0)] | None = None
    dilation: Annotated[float, Field(ge=0.01, le=0.9)] = 0.3

    def trimmed(self, n: int, t: float) -> int:
        """The m of n records; a ValueError where nothing is left."""
        m = min(int(np.ceil(np.log(n) / t)), (n - 1) // 2) if self.trim is None else self.trim
        if 2 * m >= n:
            raise ValueError(f"trim = {m} leaves nothing of {n} records")
        return m

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, t = sample.n, self.dilation * largest_rate(ledger.budget)
        m = self.trimmed(n, t)
        # Every value, and by how many ranks the nearest record that has it is away.
        q, counts = sample.ranked(0, m)
        low = m + 1 - np.cumsum(counts, axis=1)
        p, counts = sample.ranked(n - m - 1, n - 1)
        up = np.cumsum(counts, axis=1) - counts - 1
        q, p = np.clip(q, self.lower, self.upper), np.clip(p, self.lower, self.upper)
        least = np.min(np.where(low <= 0, q, np.inf), axis=1)  # of those that stay
        most = np.max(np.where(up < 0, p, -np.inf), axis=1)
        one = np.ones((sample.trials, 1))  # for a and b
        q = np.concatenate([self.lower * one, q], axis=1)[:, ::-1]
        low = np.concatenate([(m + 1) * one, low], axis=1)[:, ::-1]
        p, up = np.concatenate([p, self.upper * one], 1), np.concatenate([up, m * one], 1)
        kept = n - 2 * m
        mean = (n * sample.clipped_mean(least, most) - m * least - m * most) / kept
        mean = np.clip(mean, least, most)  # sums are rounded
        gap = largest_gap(p, up, q, low, t)
        return Estimate(ledger.add_smooth_noise(mean, gap / kept, t), mean)

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # A record moves the mean by all of S, and S by all of e^t, from the middle to the top.
        t = self.dilation * largest_rate(budget)
        if self.trim is not None and 2 * self.trim >= n:
            return []
        m, middle = self.trimmed(n, t), self.lower / 2 + self.upper / 2
        if m < 1:
            return []
        top = np.repeat([middle, middle + (self.upper - middle) * np.exp(-t)], [n - m, 1])
        records = np.concatenate([top, np.full(m - 1, self.upper)])
        return [Pair.replacing("moves_and_grows", records, 0, self.upper)]


def largest_gap(p: Floats, up: Floats, q: Floats, low: Floats, t: float) -> Floats:
    """The largest e^(-t max(0, up + low)) (p - q) of each trial, or 0; see the module.

    Parameters
    ----------
    p, up : (trials, columns) array
        Increasing values, and by how many ranks each is away, which grows along with them.
    q, low : (trials, rows) array
        Decreasing values, and the same of them.
    t : float > 0
    """
    near = np.max(np.where(up <= 0, p, -np.inf), 1) - np.min(np.where(low <= 0, q, np.inf), 1)
    width = p[:, -1:] - q[:, -1:]
    few, some = (  # the other of the two is 0, or -1
        (np.exp(-t * np.maximum(away, 0)) * width >= near[:, None]).any(axis=0)
        for away in (up, low - 1)
    )
    p, up, q, low = p[:, few], up[:, few], q[:, some], low[:, some]
    (trials, rows), columns = q.shape, p.shape[1]
    # The best column of every row, between sentinels; those of later rows are no greater.
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
    """Try columns `first` to `last` of the rows `at`, from 1, of every trial; note the best."""
    tried = (last - first + 1).ravel()
    begin = np.cumsum(tried) - tried
    place = np.repeat(np.arange(tried.size), tried)
    trial, row = np.divmod(place, at.size)
    row = at[row] - 1
    column = np.arange(place.size) - begin[place] + first.ravel()[place]
    ranks = np.maximum(up[trial, column] + low[trial, row], 0)
    gap = np.exp(-t * ranks) * (p[trial, column] - q[trial, row])
    largest = np.maximum.reduceat(gap, begin)
    ties = np.flatnonzero(gap == largest[place])[::-1]  # the first of equals is written last
    best[trial[ties], row[ties] + 1] = column[ties]
    return np.asarray(largest.reshape(-1, at.size).max(axis=1, initial=0.0))
