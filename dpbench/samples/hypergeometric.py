"""Binomial and hypergeometric distributions for counts up to 1e12.

At such counts scipy loses digits, because it subtracts log-gammas of size 1e13, and numpy's
hypergeometric sampler raises an error from 1e9 on.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlog1py

from dpbench.arrays import Floats, Ints

__all__ = [
    "cut_counts",
    "cut_groups",
    "draw_without_replacement",
    "hypergeometric",
    "log_binomial_pmf",
]

NUMPY_LIMIT = 10**9  # population size from which numpy's hypergeometric sampler raises an error
MAX_SINGLE_PLACES = 1000  # most places from which records are drawn one place after the other
MAX_TABULATED_COUNT = 1000  # largest count with an entry in LOG_FACTORIAL
LOG_FACTORIAL = gammaln(np.arange(MAX_TABULATED_COUNT + 1) + 1.0)


def _stirling_error(n: Floats) -> Floats:
    """Return ln(n!) minus Stirling's formula ln(sqrt(2 pi n) (n/e)^n).

    From n = 16 on the result is a series with an error of at most 1.2e-14.
    """
    big = np.maximum(n, 16.0)
    square = big * big
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / big
    small = np.clip(n, 1.0, 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(n >= 16, series, exact))


def _deviance(x: Floats, mean: Floats) -> Floats:
    """Return the deviance x ln(x/mean) + mean - x, without a loss of digits near x = mean."""
    t = (x - mean) / mean
    return np.asarray(mean * (xlog1py(1 + t, t) - t))


def log_binomial_pmf(s: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Return the log-probability that a Binomial(n, p) variable equals s, for n up to 1e12.

    The formula is Loader's saddle-point form ("Fast and accurate computation of binomial
    probabilities", 2000). Its absolute error is below 1e-9 within 10 standard deviations of the
    mean. p is in (0, 1), and the arguments broadcast.
    """
    s, n, p = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (s, n, p)))
    inside = (s > 0) & (s < n)
    x = np.where(inside, s, 1.0)
    m = np.where(inside, n, 2.0)
    # Keep this order of the operations, because terms up to 1e13 cancel.
    middle = _stirling_error(m) - _stirling_error(x) - _stirling_error(m - x)
    middle = middle - _deviance(x, m * p) - _deviance(m - x, m * (1 - p))
    middle += 0.5 * (np.log(m) - np.log(x) - np.log(m - x) - np.log(2 * np.pi))
    ends = np.where(s == 0, n * np.log1p(-p), n * np.log(p))
    return np.asarray(np.where(inside, middle, ends))


def _log_over_mode(x: Ints, mode: Ints, n: Ints, p: Floats) -> Floats:
    """Return ln(P(X = x)/P(X = mode)) for X ~ Binomial(n, p), for n from 5e8 on.

    X is the number of successes in n trials with probability p, x is a value of X, and `mode` is
    the most probable value. Let a be the number of successes if p <= 1/2, else the number of
    failures. For a up to `MAX_TABULATED_COUNT` (1000), the logarithm of the binomial coefficient
    C(n, a) is replaced by a ln n - ln a! - a(a - 1)/(2n). The error is at most a^3/(6 n^2), below
    1e-9.
    """
    a, b, chance = np.where(p <= 0.5, (x, mode, p), (n - x, n - mode, 1 - p))
    log_ratios, tabulated = np.empty(x.size), np.maximum(a, b) <= MAX_TABULATED_COUNT
    rest = [values[~tabulated] for values in (n, chance)]
    log_ratios[~tabulated] = log_binomial_pmf(a[~tabulated], *rest) - log_binomial_pmf(
        b[~tabulated], *rest
    )
    a, b, n, chance = (values[tabulated] for values in (a, b, n, chance))
    slope = np.log(n * chance / (1 - chance)) - (a + b - 1) / (2 * n)
    log_ratios[tabulated] = (
        (a - b) * slope - LOG_FACTORIAL[a.astype(int)] + LOG_FACTORIAL[b.astype(int)]
    )
    return log_ratios


def hypergeometric(rng: np.random.Generator, marked: Ints, total: Ints, drawn: Ints) -> Ints:
    """Draw hypergeometric counts: numbers of marked records in draws without replacement.

    From a population of `total` records, `marked` of them marked, `drawn` records are drawn.
    For populations below 1e9 records the code calls numpy's sampler. For larger populations it uses
    rejection sampling, as follows. Let p = marked/total, and let X ~ Binomial(drawn, p) and
    Y ~ Binomial(total - drawn, p) be independent. The hypergeometric distribution is the
    conditional distribution of X given X + Y = marked. So the code draws a value x of X, and
    accepts x with probability P(Y = marked - x)/max_y P(Y = y). If drawn <= total/2, about 60%
    of the values or more are accepted. If `drawn` is larger, the code instead draws the number of
    marked records among the total - drawn records that remain.

    Each of the m entries of the arrays is an independent population of at most 1e12 records.
    """
    draw_rest = 2 * drawn > total
    size = np.where(draw_rest, total - drawn, drawn)
    hits = np.where(marked == total, size, 0)
    open_ = (marked > 0) & (marked < total) & (size > 0)
    small = np.flatnonzero(open_ & (total < NUMPY_LIMIT))
    hits[small] = rng.hypergeometric(marked[small], (total - marked)[small], size[small])
    pending = np.flatnonzero(open_ & (total >= NUMPY_LIMIT))
    while pending.size:
        p = marked[pending] / total[pending]
        proposal = rng.binomial(size[pending], p)
        rest = total[pending] - size[pending]
        left = marked[pending] - proposal
        possible = (left >= 0) & (left <= rest)
        mode = ((rest + 1) * p).astype(np.int64)
        log_keep = _log_over_mode(np.clip(left, 0, rest), mode, rest, p)
        keep = possible & (np.log(rng.random(pending.size)) < log_keep)
        hits[pending[keep]] = proposal[keep]
        pending = pending[~keep]
    return np.where(draw_rest, marked - hits, hits)


def cut_counts(counts: Ints, sizes: Sequence[int], rng: np.random.Generator) -> Ints:
    """Cut datasets, stored as counts, at random into disjoint parts of the given sizes.

    The code halves the list of parts, then each half, and so on, until each half is one part. In
    each round one vectorised draw divides the records between the halves. `counts` holds the number
    of records at each of m places, of shape (trials, m), and the result has the shape
    (trials, parts, m). The sizes add up to the number of records.
    """
    trials, places = counts.shape
    upto = np.concatenate([[0], np.cumsum(sizes)])
    ends = np.array([0, len(sizes)])  # node i has the parts ends[i] to ends[i + 1]
    counts = counts[:, None]
    while counts.shape[1] < len(sizes):
        starts, stops = ends[:-1], ends[1:]
        middle = (starts + stops + 1) // 2  # a single part goes to the left
        left_sizes = np.tile(upto[middle] - upto[starts], trials)
        left = draw_without_replacement(counts.reshape(-1, places), left_sizes, rng)
        left = left.reshape(counts.shape)
        halves = np.stack([left, counts - left], axis=2).reshape(trials, -1, places)
        nonempty = np.stack([np.ones_like(starts), middle < stops], axis=1).ravel().astype(bool)
        counts = halves[:, nonempty]
        ends = np.union1d(ends, middle)
    return counts


def cut_groups(counts: Ints, sizes: Sequence[int], rng: np.random.Generator) -> list[Ints]:
    """Cut datasets, stored as counts, into groups, and stack the groups of equal size.

    `counts` holds the number of records at each of m places, of shape (trials, m). There are at
    most two different sizes, the larger ones first. The result has the counts of the larger groups,
    and those of the smaller groups if there are any. Their shape is (trials groups, m), and the
    groups of the first dataset come first.
    """
    parts, large = cut_counts(counts, sizes, rng), sizes.count(sizes[0])
    stacks = parts[:, :large], parts[:, large:]
    return [stack.reshape(-1, counts.shape[1]) for stack in stacks if stack.size]


def draw_without_replacement(counts: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw records without replacement from each of several datasets stored as counts.

    Up to `MAX_SINGLE_PLACES` (1000) places are drawn one after the other. More places are halved
    again and again, and all parts of equal size are drawn at once. `counts` holds the number of
    records of each dataset at each of m places, of shape (rows, m). `sizes` holds the number of
    records to draw from each dataset.
    """
    if counts.shape[1] > MAX_SINGLE_PLACES:
        return _draw_by_halves(counts, sizes, rng)
    part = np.zeros_like(counts)
    to_draw = sizes.copy()
    remaining = counts.sum(axis=1)
    for place in np.flatnonzero(counts.any(axis=0)).tolist():
        part[:, place] = hypergeometric(rng, counts[:, place], remaining, to_draw)
        to_draw -= part[:, place]
        remaining -= counts[:, place]
    return part


def _draw_by_halves(counts: Ints, sizes: Ints, rng: np.random.Generator) -> Ints:
    """Draw without replacement: first how many records of each half of the places, and so on."""
    rows, places = counts.shape
    padding = (1 << (places - 1).bit_length()) - places
    levels = [np.pad(counts, ((0, 0), (0, padding)))]
    while levels[-1].shape[1] > 1:
        levels.append(levels[-1][:, ::2] + levels[-1][:, 1::2])
    drawn = sizes[:, None]
    for level in reversed(levels[:-1]):
        left, right = level[:, ::2].ravel(), level[:, 1::2].ravel()
        from_left = hypergeometric(rng, left, left + right, drawn.ravel()).reshape(drawn.shape)
        drawn = np.stack([from_left, drawn - from_left], axis=2).reshape(rows, -1)
    return drawn[:, :places]
