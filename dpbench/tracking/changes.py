"""Change points in the errors of a row over a series of commits.

A row is an estimator on a distribution, at one budget and n. Every commit's trials are cut into
`BATCHES` batches, in order. The means of the batches are nearly normal and independent. Commits may
share random streams: data and noise, the data alone, or nothing. Shared draws are in the same batch
of each commit. Hence the spread of a difference over batches gives its standard error in all three
cases [1]_, [2]_. If numbers of trials differ, batches share less than the trials do, and the
standard error is too large, never too small.

References
----------
.. [1] B. Schmeiser, "Batch size effects in the analysis of simulation output", Operations Research
   1982: some 30 batches lose little.
.. [2] E. B. Wilson, M. M. Hilferty, "The distribution of chi-square", PNAS 1931: the cube root of a
   mean of positive numbers is more nearly normal than the mean.
.. [3] R. Baranowski, Y. Chen, P. Fryzlewicz, "Narrowest-over-threshold detection of multiple change
   points and change-point-like features", JRSS B 2019.
.. [4] S. Kovacs, P. Buhlmann, H. Li, A. Munk, "Seeded binary segmentation", Biometrika 2023.
"""

from __future__ import annotations

import numpy as np
from scipy.special import stdtr

from dpbench.arrays import Floats
from dpbench.tracking.comparison import SMALLEST_CHANGE, trimmed_mean

__all__ = ["BATCHES", "batch_means", "change_points", "count_gaps"]

BATCHES = 32


def batch_means(errors: Floats) -> Floats:
    """Return the trimmed mean error of each batch of trials, an array of shape (`BATCHES`,).

    The trials are cut into batches in their order. A batch without a release has the mean NaN.
    """
    parts = [part[np.isfinite(part)] for part in np.array_split(errors, BATCHES)]
    return np.array([trimmed_mean(part) if part.size else np.nan for part in parts])


def change_points(means: Floats, alpha: float, smallest: float = SMALLEST_CHANGE) -> list[int]:
    """Find the commits at which a series of errors changes by more than `smallest`.

    A gap is the place between two successive commits. In each interval of commits, one gap is
    tested: the gap at which two constant means, before and after it, fit best by least squares
    (narrowest-over-threshold [3]_). Let before_b and after_b be the cube root of the mean error in
    batch b, averaged over the commits before and after the gap. Let

        e_b = after_b - (1 + smallest)^(1/3) before_b.

    A t-test over the batches has the null hypothesis that the mean of e_b is 0 or less. A second
    test exchanges before and after, to find smaller errors. The gap is a change if either test
    rejects at level alpha/2. Intervals are tested from narrow to wide, because a wide interval may
    hold a change and its reversal. An interval that holds an earlier found change is not tested.

    Call an interval quiet if no error in it changes by more than `smallest`. In a quiet interval of
    m commits, a false change is found with probability at most (m - 1) alpha. This holds for any
    choice of the tested gap, because there are m - 1 gaps. Hence a false change is found in some
    quiet interval with probability at most alpha times `count_gaps`. The location of a found change
    may be about one commit off.

    The mean errors of batches of trials (`batch_means`) have the shape (commits, batches), with
    commits in order of time. An interval of commits with NaN shows no change. The result lists the
    index of the first commit after every change, in order.
    """
    roots, cuts = np.cbrt(means), list[int]()
    for first, last in _intervals(len(means)):
        if not any(first < cut < last for cut in cuts):
            gap = _find_gap(roots[first:last], alpha, float(np.cbrt(1 + smallest)))
            cuts += [] if gap is None else [first + gap]
    return sorted(cuts)


def count_gaps(commits: int) -> int:
    """Return the number of gaps between commits at which `change_points` may find a change.

    A gap counts once for each tested interval of commits that holds it. For m commits the number is
    below 4 m log2(m).
    """
    return sum(last - first - 1 for first, last in _intervals(commits))


def _intervals(commits: int) -> list[tuple[int, int]]:
    """Return the intervals of commits in which a change is searched, from narrow to wide.

    Each interval is a pair (first commit, one after the last commit). Neighbouring intervals of one
    length overlap by half [4]_.
    """
    intervals, length = list[tuple[int, int]](), 2
    while length <= commits:
        starts = {*range(0, commits - length, max(1, length // 2)), commits - length}
        intervals += [(start, start + length) for start in sorted(starts)]
        next_length = max(length + 1, round(length * np.sqrt(2)))
        length = min(next_length, commits) if length < commits else next_length
    return intervals


def _find_gap(roots: Floats, alpha: float, factor: float) -> int | None:
    """Test for a change of the errors within an interval of commits, and return its place.

    The place is the number of commits of the interval that precede the change; None if no change is
    significant at level `alpha`. `roots` holds the cube roots of mean errors, of shape (commits,
    batches). `factor` is (1 + s)^(1/3), where s is the largest relative change of the mean error
    that does not matter; see `change_points`.
    """
    size = len(roots)
    before, count = np.cumsum(roots, axis=0), np.arange(1, size)[:, None]
    after = (before[-1] - before[:-1]) / (size - count)
    before = before[:-1] / count
    gains = (count[:, 0] * (size - count[:, 0])) * (after - before).mean(axis=1) ** 2
    best = int(np.argmax(gains))
    low, high = sorted((before[best], after[best]), key=np.mean)
    changed = _p_value(high - factor * low) <= alpha  # False for NaN
    return best + 1 if changed else None


def _p_value(excess: Floats) -> float:
    """Return twice the one-sided p-value of a t-test for a positive mean of `excess`.

    The null hypothesis is a mean of 0 or less. `excess` has one value for each batch of trials. The
    p-value is doubled because each gap has two tests: for larger and for smaller errors after it.
    """
    batches = len(excess)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = excess.mean() / (excess.std(ddof=1) / np.sqrt(batches))
    return min(1.0, 2 * float(stdtr(batches - 1, -t)))
