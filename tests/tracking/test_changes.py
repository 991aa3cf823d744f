"""Change points: none where nothing changes, a step of 5% where it is."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom, ttest_1samp

from dpbench.tracking import changes
from dpbench.tracking.changes import BATCHES, batch_means, change_points, count_gaps

Floats = NDArray[np.float64]
ALPHA = 1e-5


def means(seed: int, commits: int, per_batch: int) -> Floats:
    """Of batches of exponential errors, independent ones for every commit."""
    rng = np.random.default_rng(seed)
    return rng.gamma(per_batch, 1 / per_batch, (commits, BATCHES))


@pytest.mark.parametrize("shared", ["nothing", "data", "streams"])
def test_false_alarms(shared: str) -> None:
    """Of 150 series of 10 commits that do not change, 5% are cut at most; false alarm 10^-6.

    With nothing that is too small to matter, and the fewest trials. Also where commits have half of
    their errors in common, as of the same data, or all of them, but for another seed in the middle.
    It is some 3% (of 600): gaps share trials.
    """
    sims, level, cut = 150, 0.05, 0
    for seed in range(sims):
        found = means(seed, 10, 3)
        if shared == "data":
            found += means(sims + seed, 1, 3)
        if shared == "streams":
            found = found[[0] * 5 + [1] * 5]
        cut += bool(change_points(found, level / count_gaps(10), smallest=0.0))
    assert cut <= binom.isf(1e-6, sims, level)


def test_a_step_of_five_per_cent_is_found_where_it_is() -> None:
    """Of independent trials, 70000 for each of 20 commits: twelve deviations."""
    found = means(0, 20, 70_000 // BATCHES)
    assert change_points(found, ALPHA) == []
    found[12:] *= 1.05
    assert change_points(found, ALPHA) == [12]
    assert change_points(1 / found, ALPHA) == [12]
    found[15:] /= 1.05  # and back
    assert change_points(found, ALPHA) == [12, 15]
    found[18:] = np.nan
    assert change_points(found, ALPHA) == [12, 15]


@pytest.mark.parametrize(("factor", "cuts"), [(1.0, []), (1.019, []), (1.021, [7]), (1.05, [7])])
def test_of_the_same_streams_a_few_trials_do(factor: float, cuts: list[int]) -> None:
    """All commits have the same errors, 100 each, but for a factor from one on."""
    errors = np.random.default_rng(1).exponential(size=100)
    series = np.tile(batch_means(errors), (10, 1))
    series[7:] *= factor
    assert change_points(series, ALPHA) == cuts
    assert change_points(series[::-1], ALPHA) == [10 - cut for cut in cuts]


def test_gaps_are_those_of_every_interval() -> None:
    """Of length 2, 3 and 4 among 4 commits: 3 of one gap, 2 of two, 1 of three."""
    assert [count_gaps(commits) for commits in range(5)] == [0, 0, 1, 4, 10]
    assert count_gaps(100) < 4 * 100 * np.log2(100)


def test_batches_are_trimmed_means_of_what_was_released() -> None:
    errors = np.repeat(np.arange(BATCHES, dtype=float), 10)
    assert batch_means(errors) == pytest.approx(np.arange(BATCHES))
    errors[::10] = np.inf
    assert batch_means(errors) == pytest.approx(np.arange(BATCHES))
    errors[:10] = np.nan
    assert np.isnan(batch_means(errors)).tolist() == [True] + [False] * (BATCHES - 1)
    errors[10] = 1e9  # one of ten is trimmed
    assert batch_means(errors)[1] == 1


def test_the_level_of_a_change_is_that_of_a_naive_t_test() -> None:
    """At the gap of the best fit, for growth and for fall, a one-sided test at half the level."""
    for seed in range(20):
        roots = np.random.default_rng(seed).normal(2, 0.2, (5, BATCHES))
        roots[2:] += 0.12
        halves = [(roots[:i].mean(axis=0), roots[i:].mean(axis=0)) for i in range(1, 5)]
        fit = [i * (5 - i) * (b - a).mean() ** 2 for i, (a, b) in enumerate(halves, 1)]
        best = int(np.argmax(fit))
        before, after = halves[best]
        p = 2 * min(
            float(ttest_1samp(one - 1.01 * two, 0, alternative="greater").pvalue)
            for one, two in ((after, before), (before, after))
        )
        assert changes._find_gap(roots, p * 1.001, 1.01) == best + 1
        assert changes._find_gap(roots, p * 0.999, 1.01) is None


def test_gaps_count_once_for_each_interval() -> None:
    """Of five commits: four intervals of two, two or three of three, and so on."""
    for commits in (2, 5, 40):
        intervals = changes._intervals(commits)
        assert len(set(intervals)) == len(intervals)
        assert (0, commits) in intervals
        assert all(0 <= first < last <= commits for first, last in intervals)
        assert count_gaps(commits) == sum(len(range(first + 1, last)) for first, last in intervals)
        for at in range(1, commits):  # a gap in the middle of a narrow interval
            assert any(first < at < last and last - first == 2 for first, last in intervals)
