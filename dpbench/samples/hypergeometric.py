"""Binomial and hypergeometric laws at counts up to 1e12.

The library routines lose digits there (differences of log-gammas of size 1e13) or
refuse (numpy's hypergeometric stops at 1e9).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import gammaln, xlog1py

from dpbench.arrays import Floats, Ints

__all__ = ["hypergeometric", "log_binomial_pmf"]

NUMPY_LIMIT = 10**9
# Counts whose factorials are in a table.
FEW = 1000
LOG_FACTORIAL = gammaln(np.arange(FEW + 1) + 1.0)


def _stirling_error(n: Floats) -> Floats:
    """ln(n!) minus Stirling's formula; its series is good to 1.2e-14 from n = 16."""
    big = np.maximum(n, 16.0)
    square = big * big
    series = (1 / 12 - (1 / 360 - (1 / 1260 - 1 / 1680 / square) / square) / square) / big
    small = np.clip(n, 1.0, 16.0)
    exact = gammaln(small + 1) - (small + 0.5) * np.log(small) + small - 0.5 * np.log(2 * np.pi)
    return np.asarray(np.where(n >= 16, series, exact))


def _deviance(x: Floats, mean: Floats) -> Floats:
    """The deviance x ln(x/mean) + mean - x, without cancellation near x = mean."""
    t = (x - mean) / mean
    return np.asarray(mean * (xlog1py(1 + t, t) - t))


def log_binomial_pmf(s: ArrayLike, n: ArrayLike, p: ArrayLike) -> Floats:
    """Log-probability that a Binomial(n, p) equals s, for n up to 1e12.

    By Loader's saddle-point form ("Fast and accurate computation of binomial probabilities",
    2000); absolute error below 1e-9 within 10 standard deviations of the mean. The arguments
    broadcast; ``0 <= s <= n`` and ``0 < p < 1``.
    """
    s, n, p = np.broadcast_arrays(*(np.asarray(a, dtype=float) for a in (s, n, p)))
    inside = (s > 0) & (s < n)
    x = np.where(inside, s, 1.0)
    m = np.where(inside, n, 2.0)
    # In this order: terms up to 1e13 cancel.
    middle = _stirling_error(m) - _stirling_error(x) - _stirling_error(m - x)
    middle = middle - _deviance(x, m * p) - _deviance(m - x, m * (1 - p))
    middle += 0.5 * (np.log(m) - np.log(x) - np.log(m - x) - np.log(2 * np.pi))
    ends = np.where(s == 0, n * np.log1p(-p), n * np.log(p))
    return np.asarray(np.where(inside, middle, ends))


def _log_over_mode(x: Ints, mode: Ints, n: Ints, p: Floats) -> Floats:
    """Log of a Binomial(n, p)'s probability of x over that of its mode, for n from 5e8 on.

    Of the rarer side, ln C(n, a) is a ln n - ln a! - a(a - 1)/(2n) up to a^3/(6 n^2), which is
    below 1e-9 for few.
    """
    a, b, chance = np.where(p <= 0.5, (x, mode, p), (n - x, n - mode, 1 - p))
    found, few = np.empty(x.size), np.maximum(a, b) <= FEW
    rest = [one[~few] for one in (n, chance)]
    found[~few] = log_binomial_pmf(a[~few], *rest) - log_binomial_pmf(b[~few], *rest)
    a, b, n, chance = (one[few] for one in (a, b, n, chance))
    slope = np.log(n * chance / (1 - chance)) - (a + b - 1) / (2 * n)
    found[few] = (a - b) * slope - LOG_FACTORIAL[a.astype(int)] + LOG_FACTORIAL[b.astype(int)]
    return found


def hypergeometric(rng: np.random.Generator, marked: Ints, total: Ints, drawn: Ints) -> Ints:
    """How many of `marked` records fall among `drawn` ones of `total`, without replacement.

    Rejection from Binomial(drawn, p), p = marked/total: the law is that binomial conditioned on
    an independent Binomial(total - drawn, p) making up the rest, so a proposal x is kept with the
    probability of `marked - x` under the latter over its largest one. With ``drawn <= total/2`` at
    least 70% are kept; otherwise the records left behind are drawn. Below 1e9 records numpy's own
    sampler is used. All arrays are (m,), of independent populations of up to 1e12.
    """
    behind = 2 * drawn > total
    size = np.where(behind, total - drawn, drawn)
    found = np.where(marked == total, size, 0)
    open_ = (marked > 0) & (marked < total) & (size > 0)
    small = np.flatnonzero(open_ & (total < NUMPY_LIMIT))
    found[small] = rng.hypergeometric(marked[small], (total - marked)[small], size[small])
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
        found[pending[keep]] = proposal[keep]
        pending = pending[~keep]
    return np.where(behind, marked - found, found)
