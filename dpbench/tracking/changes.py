"""Where the errors of a row change, in a series of commits.

Every commit's trials are cut into `BATCHES` batches, in order: the means of these are nearly normal
and independent, and what commits have in common (the same data and noise, if their streams are the
same; the data alone; nothing) is in the same batch of each. So a difference of commits has a
standard error from its own spread over batches, whatever they share [1]_, [2]_. Where numbers of
trials differ, so do the batches of what is shared, and the spread is too large, not too small.

References
----------
.. [1] B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research
   1982: some 30 batches lose little.
.. [2] E. B. Wilson, M. M. Hilferty, "The distribution of chi-square", PNAS 1931: the cube root of a
   mean of positive numbers is more nearly normal than it.
.. [3] R. Baranowski, Y. Chen, P. Fryzlewicz, "Narrowest-over-threshold detection of multiple change
   points and change-point-like features", JRSS B 2019.
.. [4] S. Kovacs, P. Buhlmann, H. Li, A. Munk, "Seeded binary segmentation", Biometrika 2023.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from dpbench.arrays import Floats
from dpbench.tracking.comparison import SMALLEST, trimmed_mean

__all__ = ["BATCHES", "batch_means", "change_points", "gaps"]

BATCHES = 32


def batch_means(errors: Floats) -> Floats:
    """The trimmed means of batches of trials, (`BATCHES`,); NaN of one without a release."""
    parts = [part[np.isfinite(part)] for part in np.array_split(errors, BATCHES)]
    return np.array([trimmed_mean(part) if part.size else np.nan for part in parts])


def change_points(means: Floats, alpha: float, smallest: float = SMALLEST) -> list[int]:
    """Where a series changes by more than `smallest`: the narrowest intervals that show it [3]_.

    In an interval of commits the gap is taken where two means fit best by least squares. It shows a
    change if the mean after it is above 1 + `smallest` times the mean before it, or below the
    inverse: a t-test over batches of

        e_b = after_b - (1 + smallest)^(1/3) before_b,

    in cube roots, rejects mean 0 or less at level alpha/2, or so does that with the two exchanged.
    Intervals are asked from narrow to wide, which are not misled by a change back, and only those
    without a change so far. An interval of m commits in which nothing changes by more is cut with
    probability at most (m - 1) alpha, whichever gap is taken: alpha times `gaps` bounds the
    probability that any such interval is cut. Beside a change a cut may be a commit or so off.

    Parameters
    ----------
    means : (commits, batches) array
        In order of time; see `batch_means`. Nothing is found beside NaN.
    alpha : float
        The probability of a false change at one gap of one interval.
    smallest : float
        Of relative changes, which do not matter up to there.

    Returns
    -------
    list of int
        The first commit after every change, in order.
    """
    roots, found = np.cbrt(means), list[int]()
    for first, last in _intervals(len(means)):
        if not any(first < cut < last for cut in found):
            gap = _gap(roots[first:last], alpha, float(np.cbrt(1 + smallest)))
            found += [] if gap is None else [first + gap]
    return sorted(found)


def gaps(commits: int) -> int:
    """How many gaps are looked at in a series: below 4 m log2(m) of m commits."""
    return sum(last - first - 1 for first, last in _intervals(commits))


def _intervals(commits: int) -> list[tuple[int, int]]:
    """From narrow to wide, half of each in the next of its length [4]_."""
    found, length = list[tuple[int, int]](), 2
    while length <= commits:
        starts = {*range(0, commits - length, max(1, length // 2)), commits - length}
        found += [(start, start + length) for start in sorted(starts)]
        wider = max(length + 1, round(length * np.sqrt(2)))
        length = min(wider, commits) if length < commits else wider
    return found


def _gap(roots: Floats, alpha: float, factor: float) -> int | None:
    """The gap of an interval where a mean changes, from 1; None if it does not."""
    size = len(roots)
    before, count = np.cumsum(roots, axis=0), np.arange(1, size)[:, None]
    after = (before[-1] - before[:-1]) / (size - count)
    before = before[:-1] / count
    gains = (count[:, 0] * (size - count[:, 0])) * (after - before).mean(axis=1) ** 2
    at = int(np.argmax(gains))
    low, high = sorted((before[at], after[at]), key=np.mean)
    shown = _p_value(high - factor * low) <= alpha  # NaN shows nothing
    return at + 1 if shown else None


def _p_value(excess: Floats) -> float:
    """Of a t-test that the mean is 0 or less, in either of two directions."""
    batches = len(excess)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = excess.mean() / (excess.std(ddof=1) / np.sqrt(batches))
    return min(1.0, 2 * float(stdtr(batches - 1, -t)))
