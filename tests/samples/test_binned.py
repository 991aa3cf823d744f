"""Counts on cells, against their own records and against records that are drawn one by one."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench import estimators as est
from dpbench.distributions import ContaminatedGaussian, Gaussian, LogNormal, Pareto, StudentT
from dpbench.estimators.karwa_vadhan import PowersOfTwo
from dpbench.privacy import ApproxDP, PureDP
from dpbench.privacy.local import count_heads, sum_votes
from dpbench.samples import BinnedSample, Bins, DenseSample, Sample, cell_records
from dpbench.samples.quantile_grid import quantile_grid
from tests.support import FALSE_ALARM, Floats, assert_follows, rng, run, same_law

T = StudentT(tail_index=2.5, location=1)
LAWS = [
    T,
    Gaussian(scale=2),
    Pareto(tail_index=3),
    LogNormal(),
    ContaminatedGaussian(eta=0.1, gap=9),
]


def draw(law: Any = T, n: int = 1000, trials: int = 3, seed: int = 0) -> BinnedSample:
    return BinnedSample.draw(quantile_grid(law, n), rng(seed), trials, n)


def held(sample: Sample) -> DenseSample:
    return DenseSample(np.stack([sample.records(i, rng()) for i in range(sample.trials)]))


# Parts of few records are resolved, so that cells of a thousand records are halved often.
@pytest.mark.parametrize(("law", "leaf"), [(T, 1), (T, 512), *((law, 3) for law in LAWS)])
def test_counts_ranks_and_bins_are_those_of_the_sample_s_own_records(
    monkeypatch: pytest.MonkeyPatch, law: Any, leaf: int
) -> None:
    monkeypatch.setattr(cell_records, "LEAF", leaf)
    sample = draw(law)
    other, each = held(sample), np.linspace(-0.7, 1.5, 3)
    for low, high in (
        (0.1, 0.7),
        (-1e9, 1e9),
        (-np.inf, 0.9),
        (each - 0.5, each + 0.2),
        (2.0, 1.0),
    ):
        np.testing.assert_array_equal(
            sample.count(low, high), np.maximum(other.count(low, high), 0)
        )
    for q in (1e-9, 0.03, 0.5, 0.77, 1.0):
        np.testing.assert_array_equal(sample.quantile(q), other.quantile(q))
    for first, last in ((0, 0), (0, 30), (499, 500), (250, 700), (980, 999)):
        np.testing.assert_array_equal(sample.ranked(first, last)[0], other.ranked(first, last)[0])
    for bins in (
        Bins(2.0, aligned=0.0),
        Bins(0.01, -1, 3),
        Bins(each + 1, -3, 3),
        PowersOfTwo(1.0),
    ):
        found, wanted = sample.occupied(bins), other.occupied(bins)
        for field in ("trial", "index", "count"):
            np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))


@pytest.mark.parametrize(
    ("n", "first", "last", "at_most", "share"),
    [
        (5000, 0, 4999, 100, 0.2),
        (10**9, 10**8, 9 * 10**8, 100, 1e-3),
        (10**6, 0, 10**6 - 1, 5000, 0.05),
    ],
)
def test_a_record_stands_for_a_group_of_consecutive_ones(
    n: int, first: int, last: int, at_most: int, share: float
) -> None:
    """Its rank differs from the middle of the group by at most a share of the group's size."""
    sample, group = draw(n=n), -(-(last + 1 - first) // at_most)
    values, counts = sample.ranked(first, last, at_most=at_most)
    assert values.shape[1] < 10_000
    assert counts.max() <= group
    assert counts.sum(axis=1).tolist() == [last + 1 - first] * 3
    assert np.all(np.diff(values, axis=1) >= 0)
    middle = first + np.cumsum(counts, axis=1) - (counts + 1) / 2
    for at in np.linspace(0, counts.shape[1] - 1, 20).astype(int):
        away = np.abs(sample.count(-np.inf, values[:, at]) - middle[:, at])
        assert np.all(away[counts[:, at] > 0] <= share * group)


@pytest.mark.parametrize("law", LAWS)
def test_centred_means_are_clipped_means_less_the_centre(law: Any) -> None:
    sample, each = draw(law), np.linspace(-0.7, 1.5, 3)
    for middle, half in ((0.3, 1.0), (-2.0, 5.0), (each, 0.7), (1.5, 1 + each)):
        expected = sample.clipped_mean(middle - half, middle + half) - middle
        np.testing.assert_allclose(sample.centred_mean(middle, half), expected, atol=1e-12)


def test_a_trimmed_mean_keeps_some_record() -> None:
    sample = draw(n=1000)
    assert np.isfinite(sample.trimmed_mean(0.499)).all()
    with pytest.raises(ValueError, match=r"cutting 0\.5 from each end leaves nothing"):
        sample.trimmed_mean(0.5)


def test_the_order_of_questions_changes_no_answer() -> None:
    questions: list[Callable[[BinnedSample], Any]] = [
        lambda x: x.count(0.2, 0.9),
        lambda x: x.quantile(0.4),
        lambda x: x.ranked(10, 700)[0],
        lambda x: x.occupied(Bins(0.3)).count,
        lambda x: x.trimmed_mean(0.2),
    ]
    one, two = draw(n=10**6), draw(n=10**6)
    forward = [question(one) for question in questions]
    backward = [question(two) for question in reversed(questions)][::-1]
    for found, wanted in zip(forward, backward, strict=True):
        np.testing.assert_array_equal(found, wanted)


@pytest.mark.parametrize("law", LAWS)
def test_sums_differ_from_those_of_the_records_by_the_variance_within_cells(law: Any) -> None:
    n, trials = 1000, 100
    sample = draw(law, n, trials)
    other = held(sample)
    each = np.linspace(0.0, 0.5, trials)
    cases: list[tuple[Any, Any, float]] = [
        (-np.inf, np.inf, 3e-3),
        (-0.5, 0.7, 3e-3),
        (0.31, 0.33, 0.5),
        (each, each + 1, 3e-3),
    ]
    for low, high, allowed in cases:  # few cells lie in [0.31, 0.33]
        gap = sample.clipped_mean(low, high) - other.clipped_mean(low, high)
        spread = np.std(other.clipped_mean(low, high) - np.mean(other.clipped_mean(low, high)))
        share = np.mean(gap**2) / spread**2
        assert share < allowed, (low, high)
        assert abs(gap.mean()) < stats.norm.isf(FALSE_ALARM / 2) * gap.std() / np.sqrt(trials)
    np.testing.assert_array_equal(sample.mean(), sample.clipped_mean(-np.inf, np.inf))


def agree(question: Callable[[Sample], Floats], n: int, law: Any = T, trials: int = 500) -> bool:
    dense = DenseSample(law.draw_records(rng(1), (trials, n)))
    return same_law(question(draw(law, n, trials, seed=2)), question(dense))


VOTE = rng(3)
QUESTIONS: dict[str, Callable[[Sample], Floats]] = {
    "mean": lambda x: x.mean(),
    "clipped": lambda x: x.clipped_mean(-1.0, 3.0),
    "count": lambda x: x.count(0.9, 1.1),
    "median": lambda x: x.quantile(0.5),
    "smallest": lambda x: x.quantile(1e-9),
    "trimmed": lambda x: x.trimmed_mean(0.1),
    "second_largest": lambda x: x.ranked(x.n - 2, x.n - 2)[0][:, 0],
    "bins": lambda x: x.occupied(Bins(2.0)).count[:500],
    "coins": lambda x: count_heads(x, 2.0, 0.8, VOTE),
    "votes": lambda x: sum_votes(x, 2.0, np.array([0.1]), np.array([0.7]), np.ones(1), VOTE),
    "means_of_groups": lambda x: np.median(x.by_group(7, VOTE, lambda rows: rows.mean()), axis=1),
    "part": lambda x: x.split([300, x.n - 300], VOTE)[0].quantile(0.3),
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_questions_agree_in_distribution_with_drawn_records(name: str) -> None:
    """Each test alarms falsely with probability 1e-6 (two-sample Kolmogorov-Smirnov)."""
    assert agree(QUESTIONS[name], 1000)


@pytest.mark.parametrize("law", LAWS[1:])
def test_laws_agree_in_distribution_with_their_drawn_records(law: Any) -> None:
    for name in ("clipped", "median", "smallest"):
        assert agree(QUESTIONS[name], 1000, law, trials=200), name


def test_the_comparison_sees_a_wrong_probability(monkeypatch: pytest.MonkeyPatch) -> None:
    grid = quantile_grid(T, 1000)
    wrong = grid.probabilities.copy()
    wrong[1, 0] *= np.linspace(0.5, 1.5, wrong.shape[2])
    wrong[1, 0] /= wrong[1, 0].sum()
    monkeypatch.setitem(grid.__dict__, "probabilities", wrong)
    assert not agree(QUESTIONS["clipped"], 1000, trials=2000)


def test_clipped_means_of_1e12_records_have_their_exact_mean_and_variance() -> None:
    """The test alarms falsely with probability 1e-6."""
    n, low, high = 10**12, -1.0, 2.5
    sample, law = draw(Gaussian(), n, 400), stats.norm()
    mean = law.expect(lambda x: np.clip(x, low, high))
    square = law.expect(lambda x: np.clip(x, low, high) ** 2)
    z = (sample.clipped_mean(low, high) - mean) / np.sqrt((square - mean**2) / n)
    assert_follows(z, law)
    p = law.cdf(0.3) - law.cdf(0.1)
    assert_follows((sample.count(0.1, 0.3) - n * p) / np.sqrt(n * p * (1 - p)), law)
    median = sample.quantile(0.5) * np.sqrt(n) * 2 * law.pdf(0)
    assert_follows(median, law)


def test_the_trimmed_mean_is_that_of_the_records() -> None:
    sample = draw(n=5000, trials=60)
    other = held(sample)
    for fraction in (0.0, 0.01, 0.3, 0.499):
        found, wanted = sample.trimmed_mean(fraction), other.trimmed_mean(fraction)
        assert np.std(found - wanted) < 0.02 * np.std(wanted)


@pytest.mark.filterwarnings("error")
def test_votes_at_a_large_epsilon_are_signs() -> None:
    sample = draw(Gaussian(), trials=2)
    signs = 2 * sample.count(0.0, np.inf) - sample.n
    for low in (0.0, 1e-17):  # 1 - low is 1.0 in both cases
        found = sum_votes(sample, 1e-300, np.array([low]), np.ones(1), np.ones(1), rng())
        np.testing.assert_array_equal(found, signs)


def test_parts_add_up_to_the_whole() -> None:
    sample = draw(n=10**10)
    parts = sample.split([10**9, 9 * 10**9], rng())
    np.testing.assert_array_equal(parts[0].counts + parts[1].counts, sample.counts)
    groups = sample.groups(4, rng())
    assert [group.counts.shape[0] for group in groups] == [12]
    assert len({part._inside.key for part in (*parts, *groups, sample)}) == 4


def test_large_lists_are_refused() -> None:
    sample = draw(n=10**9)
    with pytest.raises(ValueError, match="400001 of 1000000000 records are too many to list"):
        sample.ranked(0, 400_000)
    with pytest.raises(ValueError, match="too large to hold"):
        sample.records(0, rng())


ESTIMATORS = [
    (est.ClippedMean(lower=-5, upper=5), PureDP(0.01), 150),
    (est.KarwaVadhanMean(radius=100.0, sigma=1.0), PureDP(0.01), 150),
    (est.KSU20Mean(radius=10.0, k=2, scale=2.0), PureDP(0.05), 150),
    (est.SmoothSensitivityTrimmedMean(lower=-20, upper=20), PureDP(0.05), 60),
    (est.UniversalMean(), ApproxDP(0.1, 1e-6), 60),
]


@pytest.mark.parametrize(("estimator", "budget", "trials"), ESTIMATORS)
def test_estimators_err_as_on_drawn_records(estimator: Any, budget: Any, trials: int) -> None:
    """Each test alarms falsely with probability 1e-6."""
    n = 5000
    dense = run(estimator, DenseSample(T.draw_records(rng(1), (trials, n))), budget, 2).value
    assert same_law(dense, run(estimator, draw(T, n, trials), budget, 3).value)
