"""Change points in the errors of a row over a series of commits.

Every commit's trials are cut into `BATCHES` batches, in order. The means of the batches are nearly
normal and independent. Commits may share random streams: data and noise, the data alone, or
nothing. Shared draws are in the same batch of each commit. So the spread of a difference over
batches gives its standard error in all three cases [1]_, [2]_. If numbers of trials differ,
batches share less than the trials do, and the standard error is too large, never too small.

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
from dpbench.tracking.comparison import SMALLEST, trimmed_mean

__all__ = ["BATCHES", "batch_means", "change_points", "gaps"]

BATCHES = 32


def batch_means(errors: Floats) -> Floats:
    """Return trimmed means of batches of trials, (`BATCHES`,); NaN for one without a release."""
    parts = [part[np.isfinite(part)] for part in np.array_split(errors, BATCHES)]
    return np.array([trimmed_mean(part) if part.size else np.nan for part in parts])


def change_points(means: Floats, alpha: float, smallest: float = SMALLEST) -> list[int]:
    """Find the commits at which a series changes by more than `smallest`.

    Method: narrowest-over-threshold [3]_. In an interval of commits the gap is placed where two
    constant means fit best by least squares. The interval shows a change if the mean after the gap
    is above 1 + `smallest` times the mean before it, or below the inverse: at level alpha/2, a
    t-test over batches of

        e_b = after_b - (1 + smallest)^(1/3) before_b,

    in cube roots, rejects that the mean is 0 or less; or the test with the two exchanged does.
    Intervals are tested from narrow to wide, because a wide interval may hold a change and its
    reversal, and only if they hold no change found so far.

    False changes: if nothing changes by more than `smallest` in an interval of m commits, it is cut
    with probability at most (m - 1) alpha, whichever gap is tested. So alpha times `gaps` bounds
    the probability that any interval of this kind is cut. Next to a true change a cut may be a
    commit or so off.

    Parameters
    ----------
    means : (commits, batches) array
        Batch means of `batch_means`, in order of time. Gaps next to NaN show no change.
    alpha : float
        Probability of a false change at one gap of one interval.
    smallest : float
        Largest relative change that does not matter.

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
    """Return the number of gaps that `change_points` tests: below 4 m log2(m) for m commits."""
    return sum(last - first - 1 for first, last in _intervals(commits))


def _intervals(commits: int) -> list[tuple[int, int]]:
    """Return intervals of commits from narrow to wide; neighbours overlap by half [4]_."""
    found, length = list[tuple[int, int]](), 2
    while length <= commits:
        starts = {*range(0, commits - length, max(1, length // 2)), commits - length}
        found += [(start, start + length) for start in sorted(starts)]
        wider = max(length + 1, round(length * np.sqrt(2)))
        length = min(wider, commits) if length < commits else wider
    return found


def _gap(roots: Floats, alpha: float, factor: float) -> int | None:
    """Return the gap of an interval at which the mean changes, from 1; None if it does not."""
    size = len(roots)
    before, count = np.cumsum(roots, axis=0), np.arange(1, size)[:, None]
    after = (before[-1] - before[:-1]) / (size - count)
    before = before[:-1] / count
    gains = (count[:, 0] * (size - count[:, 0])) * (after - before).mean(axis=1) ** 2
    at = int(np.argmax(gains))
    low, high = sorted((before[at], after[at]), key=np.mean)
    shown = _p_value(high - factor * low) <= alpha  # False for NaN
    return at + 1 if shown else None


def _p_value(excess: Floats) -> float:
    """Return the p-value of a t-test that the mean is 0 or less, doubled for the two directions."""
    batches = len(excess)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = excess.mean() / (excess.std(ddof=1) / np.sqrt(batches))
    return min(1.0, 2 * float(stdtr(batches - 1, -t)))
