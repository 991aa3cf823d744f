"""Streamed datasets, against the records in memory."""

from __future__ import annotations

import contextlib
import dataclasses
import tracemalloc
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench import estimators as est
from dpbench.distributions import ContaminatedGaussian, Gaussian, Pareto, StudentT, base
from dpbench.estimators.karwa_vadhan import PowersOfTwo
from dpbench.privacy import ApproxDP, Budget, NonPrivate, PureDP
from dpbench.samples import Bins, DenseSample, Sample, Stream, StreamedSample, streamed
from dpbench.sweep.block import BlockTask, Setting, run_block
from tests.samples.test_dense import naive
from tests.support import FALSE_ALARM, Floats, assert_follows, rng, run

T = StudentT(tail_index=2.5, location=1)
LEAF = 64
Draw = Callable[[np.random.Generator, int], Floats]


@pytest.fixture
def tiny(monkeypatch: pytest.MonkeyPatch) -> None:
    """Set small limits: 1000 records are many leaves, and too many to hold."""
    for name, size in {"LEAF": LEAF, "HELD_RECORDS": 400, "PROBE": 4, "CELLS": 64}.items():
        monkeypatch.setattr(streamed, name, size)


def t(stream: np.random.Generator, m: int) -> Floats:
    return T.draw_records(stream, (1, m)).ravel()


def sample_of(draw: Draw = t, n: int = 1000, trials: int = 1, chunk: int = LEAF) -> StreamedSample:
    return StreamedSample(Stream(draw, rng(), chunk), n * np.arange(trials), n)


def held(sample: Sample) -> DenseSample:
    return DenseSample(np.stack([sample.records(i, rng()) for i in range(sample.trials)]))


def stream_in_order(values: Floats) -> Draw:
    """Return a source of given values, leaf by leaf, for leaves that are read in order."""
    leaves = np.resize(values, (-(-values.size // LEAF), LEAF))
    places: dict[int, int] = {}

    def draw(stream: np.random.Generator, m: int) -> Floats:
        at = places.setdefault(int(stream.integers(2**62)), len(places))
        return np.asarray(leaves[at], dtype=float)

    return draw


def same_sums(one: Sample, other: Sample) -> None:
    def close(found: Floats, wanted: Floats) -> None:
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)

    close(one.mean(), other.mean())
    each = np.linspace(-0.5, 0.5, one.trials)
    for low, high in ((-0.5, 1.5), (-50.0, 50.0), (-1e9, 1e9), (each - 0.5, each + 0.5)):
        close(one.clipped_mean(low, high), other.clipped_mean(low, high))
        np.testing.assert_array_equal(one.count(low, high), other.count(low, high))
    for fraction in (0.0, 0.01, 0.499):
        close(one.trimmed_mean(fraction), other.trimmed_mean(fraction))


def same_ranks(one: Sample, other: Sample) -> None:
    n = one.n
    for q in (1e-9, 0.77, 1.0):
        np.testing.assert_array_equal(one.quantile(q), other.quantile(q))
    for first, last in ((n // 2 - 1, n // 2), (n // 2, n // 2 + 2)):
        for found, wanted in zip(one.ranked(first, last), other.ranked(first, last), strict=True):
            np.testing.assert_array_equal(found, wanted)


def same_bins(one: Sample, other: Sample) -> None:
    each = np.linspace(0.7, 1.5, one.trials)
    for bins in (Bins(2.0, aligned=0.0), Bins(each, -3, 3), PowersOfTwo(1.0)):
        found, wanted = one.occupied(bins), other.occupied(bins)
        for field in ("trial", "index", "count"):
            np.testing.assert_array_equal(getattr(found, field), getattr(wanted, field))


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("trials", [1, 3])
def test_every_question_is_answered_as_by_records_that_are_held(trials: int) -> None:
    one = sample_of(trials=trials)
    other = held(one)
    assert (one.trials, one.n, one.d, one.mean().shape) == (trials, 1000, 1, (trials,))
    pairs: list[tuple[Sample, Sample]] = [(one, other)]
    pairs += zip(one.split([301, 699], rng()), other.split([301, 699], rng()), strict=True)
    for parts in (2, 40, 1000):  # longer than what is held, than a leaf, and shorter
        pairs += zip(one.groups(parts, rng()), other.groups(parts, rng()), strict=True)
    squares = one.half_squared_differences(rng()), other.half_squared_differences(rng())
    again = [a.half_squared_differences(rng()) for a in squares]
    pairs += [squares, (again[0], again[1])]
    pairs += zip(squares[0].groups(7, rng()), squares[1].groups(7, rng()), strict=True)
    large = one.groups(7, rng())[0], other.groups(7, rng())[0]  # groups of groups
    pairs += zip(large[0].groups(5, rng()), large[1].groups(5, rng()), strict=True)
    for found, wanted in pairs:
        np.testing.assert_array_equal(held(found).values, held(wanted).values)
        same_sums(found, wanted)
        if found.trials < 50:  # few enough numbers to hold
            same_ranks(found, wanted)
            same_bins(found, wanted)


def questions(sample: StreamedSample) -> list[Callable[[], Floats]]:
    groups = sample.groups(7, rng())[0]
    return [
        sample.mean,
        lambda: sample.clipped_mean(-1e3, 1e3),
        lambda: sample.clipped_mean(0.0, 2.0),
        lambda: sample.trimmed_mean(0.1),
        lambda: sample.quantile(0.3),
        lambda: sample.occupied(Bins(1.0, -5, 5)).count,
        groups.mean,
        lambda: groups.clipped_mean(0.0, 2.0),
        sample.groups(100, rng())[0].mean,
        lambda: sample.half_squared_differences(rng()).mean(),
    ]


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("law", [T, ContaminatedGaussian(eta=0.1, gap=5)])
def test_no_bit_depends_on_the_chunk_or_the_order_of_questions(law: base.LocationScale) -> None:
    def answers(chunk: int, order: int) -> list[Floats]:
        asked = questions(sample_of(lambda r, m: law.draw_records(r, (1, m))[0], chunk=chunk))
        return [ask() for ask in asked[::order]][::order]

    wanted = answers(LEAF, 1)
    for chunk in (1, 3 * LEAF, 5 * LEAF + 7, 10**6):
        for order in (1, -1):
            for one, other in zip(answers(chunk, order), wanted, strict=True):
                np.testing.assert_array_equal(one, other)


@pytest.mark.usefixtures("tiny")
@pytest.mark.parametrize("kind", ["rising", "falling", "later", "far", "ties"])
def test_records_that_come_in_any_order_are_ranked_and_added_up(kind: str) -> None:
    """Check data whose first records do not show the range, and sums that lose digits."""
    values = rng(3).normal(0.3, 1.0, 2000)
    if kind == "rising":
        values.sort()
    elif kind == "falling":
        values = np.exp(-np.sort(30 * values))
    elif kind == "later":
        values[1000:] = 1e6 + values[1000:]
    elif kind == "far":
        values[[700, 1900]] = [1e150, 1e300]
    else:
        values = np.repeat([0.0, 3.5, -0.0, 5e-324, -1.5], 500)
    n = values.size
    sample = sample_of(stream_in_order(values), n=n)
    dense = held(sample)
    np.testing.assert_array_equal(dense.values[0], values)
    for q in (0.001, 0.1, 0.5, 0.500001, 0.9, 1.0):
        assert sample.quantile(q) == dense.quantile(q)
    for low, high in ((-0.1, 0.1), (-5.0, 5.0), (-1e9, 1e9), (-1e300, 1e300), (5.0, 6.0)):
        wanted = naive(dense.values, low, high)
        np.testing.assert_allclose(sample.clipped_mean(low, high), wanted, rtol=4e-15, atol=1e-16)
    assert sample._parts[3].size <= streamed.HELD_RECORDS
    for cut in (0.01, 0.3):
        wanted = naive([np.sort(values)[int(n * cut) : n - int(n * cut)]], -9e307, 9e307)
        np.testing.assert_allclose(sample.trimmed_mean(cut), wanted, rtol=1e-14, atol=1e-16)


@pytest.mark.usefixtures("tiny")
def test_sums_of_many_leaves_do_not_drift() -> None:
    sample = sample_of(lambda stream, m: np.full(m, 0.1), n=4000 * LEAF)
    assert sample.mean()[0] == pytest.approx(0.1, rel=5e-16, abs=0)


@pytest.mark.usefixtures("tiny")
def test_what_cannot_be_held_is_refused_in_a_line() -> None:
    sample = sample_of()
    with pytest.raises(ValueError, match=r"^901 of 1000 records at once are too many; at most 400"):
        sample.ranked(0, 900)
    with pytest.raises(ValueError, match=r"^\d+ bins for 1000 records are too many"):
        sample.occupied(Bins(1e-3, -5, 5))
    ties = sample_of(lambda stream, m: np.resize([0.0, 1.0], m))
    assert ties.quantile(0.5).tolist() == [0.0]
    with pytest.raises(ValueError, match=r"^too many of 1000 records are equal"):
        ties.ranked(499, 500)
    with pytest.raises(ValueError, match="1000 records cannot be cut into 1001"):
        sample.groups(1001, rng())
    with pytest.raises(ValueError, match="got scalar records"):
        sample.columns()
    with pytest.raises(ValueError, match="1 of 64 values are NaN"):
        sample_of(lambda stream, m: np.where(np.arange(m) == 5, np.inf, 0.0)).mean()
    assert np.isnan(sample.clipped_mean(np.nan, np.nan)).all()  # the interval of a failed centre


@pytest.mark.usefixtures("tiny")
def test_an_answer_that_is_changed_changes_no_other() -> None:
    for sample in (sample_of(), sample_of(n=50)):  # within a leaf
        asked: list[Callable[[], Floats]] = [sample.mean, partial(sample.records, 0, rng())]
        asked += [partial(sample.count, 0, 1), partial(sample.clipped_mean, 0, 1)]
        for ask in asked:
            before, answer = ask().copy(), ask()
            with contextlib.suppress(ValueError):  # cached answers are read-only
                answer += 1
            np.testing.assert_array_equal(ask(), before)
        assert sample.records(0, rng()).flags.writeable


# Laws that stream beyond what is held whole.


@pytest.fixture
def streaming(tiny: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "MAX_WHOLE_RECORDS", 500)


@pytest.mark.usefixtures("streaming")
def test_laws_stream_beyond_a_size_and_draw_the_same_law() -> None:
    """Compare the records of 400 leaves by Kolmogorov-Smirnov (false alarms 1e-6 each)."""
    for law, cdf in (
        (T, stats.t(2.5, loc=1)),
        (Gaussian(location=-1, scale=2), stats.norm(-1, 2)),
        (Pareto(tail_index=3, location=1.5), stats.pareto(3)),
    ):
        assert isinstance(law.sample(rng(), 1, 500), DenseSample)
        sample = law.sample(rng(7), 2, 12_800)
        assert isinstance(sample, StreamedSample)
        records = held(sample).values
        assert np.unique(records).size == records.size  # no leaf occurs twice
        assert_follows(records, cdf)
        # Nor do leaves follow each other: of products of normal scores, 1e-6 two-sided.
        scores = stats.norm.ppf(cdf.cdf(records)).reshape(-1, LEAF)
        z = (scores[1:] * scores[:-1]).sum() / np.sqrt(scores[1:].size)
        assert abs(z) < -stats.norm.ppf(FALSE_ALARM / 2)
    stream = rng(7)
    first, second = (T.sample(stream, 1, 1000).mean() for _ in range(2))
    assert first == T.sample(rng(7), 1, 1000).mean() != second


PURE, APPROX = PureDP(1.0), ApproxDP(1.0, 1e-6)
SHIPPED: list[tuple[est.Estimator, Budget, int]] = [  # how many times all records are drawn
    (est.EmpiricalMean(), NonPrivate(), 1),
    (est.Median(), NonPrivate(), 2),
    (est.MedianOfMeans(groups=9), NonPrivate(), 1),
    (est.TrimmedMean(fraction=0.1), NonPrivate(), 5),
    (est.ClippedMean(lower=-9, upper=9), PURE, 1),
    (est.BinaryMean(), PURE, 2),
    (est.TunedClippedMean(k=2, scale=1, radius=1), PURE, 1),
    (est.LocalMean(k=2, scale=1, radius=9), PURE, 1),
    (est.LocalMean(k=2, scale=1, radius=9, mechanism="randomised_response"), PURE, 2),
    (est.LocalMean(k=2, scale=1, radius=9, mechanism="three_values"), PURE, 2),
    (est.NaiveGaussianMean(radius=10, sigma=1), PURE, 1),
    (est.MedianThenClippedMean(radius=10, sigma=1), PureDP(10.0), 3),
    (est.GaussianScoreMean(radius=10, sigma=1, share=0.5), PureDP(10.0), 3),
    (est.ShrinkingIntervals(radius=10, sigma=1), PURE, 1),
    (est.KarwaVadhanMean(radius=10, sigma=1), PURE, 2),
    (est.KarwaVadhanGaussian(radius=10), PURE, 4),
    (est.KSU20RangeEstimate(k=2, scale=1, radius=10, alpha=0.5), PURE, 1),
    (est.KSU20Mean(k=2, scale=1, radius=10), PURE, 1),
    (est.KSU20Mean(k=2, scale=1, radius=10, constants="paper"), PURE, 1),
    (est.SubsampleAggregate(buckets=20, lower=-5, upper=5), PURE, 1),
    (est.SubsampleAggregate(buckets=2, lower=-5, upper=5, base="median"), PURE, 1),
    (est.SubsampleTest(buckets=21), PURE, 1),
    (est.CoordinateWise(base=est.BinaryMean()), APPROX, 2),
]
N = 2600


@pytest.fixture
def leaves(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Record the leaves that are drawn, one by one."""
    found: list[int] = []
    drawn = Stream._draw_leaf

    def noted(stream: Stream, i: int) -> Floats:
        found.extend([i] if i != stream._last else [])
        return drawn(stream, i)

    monkeypatch.setattr(Stream, "_draw_leaf", noted)
    return found


@pytest.mark.usefixtures("streaming")
@pytest.mark.parametrize(("estimator", "budget", "passes"), SHIPPED)
def test_an_estimator_runs_as_on_records_that_are_held(
    estimator: est.Estimator, budget: Budget, passes: int, leaves: list[int],
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    monkeypatch.setattr(streamed, "HELD_RECORDS", 700)
    law = Gaussian(location=1.0)
    found = run(estimator, law.sample(rng(4), 1, N), budget)
    assert round(len(leaves) * LEAF / N) == passes
    other = held(law.sample(rng(4), 1, N))
    wanted = run(estimator, other, budget)
    for field in dataclasses.fields(found):
        one, two = (np.asarray(getattr(e, field.name), dtype=float) for e in (found, wanted))
        np.testing.assert_allclose(one, two, rtol=1e-11, atol=1e-13)


@pytest.mark.usefixtures("streaming")
def test_data_are_drawn_once_for_all_that_clip_at_a_distance(leaves: list[int]) -> None:
    law = Pareto(tail_index=2.5, unit_moment=2, location=1)
    clip = est.TunedClippedMean(k=2, scale=1, radius=1)
    settings = [Setting("mean", est.EmpiricalMean(), NonPrivate())]
    settings += [Setting("clip", clip, PureDP(epsilon)) for epsilon in (0.3, 1.0, 3.0)]
    block = run_block(BlockTask((("law", law),), 10**5, tuple(settings), 0, 0, "cell"))
    assert not block.failures
    assert block.values["error"].shape == (4, 1)  # one trial
    assert np.all(block.values["sampling"] == block.values["sampling"][0])
    assert len(leaves) == streamed.PROBE + -(-(10**5) // LEAF)


def test_little_is_held_of_many_records() -> None:
    """Check the memory of data that take 134 MB as an array, and more in dense queries."""
    n, law = 1 << 24, Gaussian()
    assert law.streams(n + 1)
    sample: Any = StreamedSample(Stream(lambda r, m: r.random(m), rng()), np.zeros(1, int), n)
    tracemalloc.start()
    try:
        assert abs(sample.mean()[0] - 0.5) < 6 * (12 * n) ** -0.5
        assert abs(sample.quantile(0.5)[0] - 0.5) < 6 * (4 * n) ** -0.5
        assert sample.groups(1000, rng())[0].mean().shape == (216,)
        held, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 50e6
    assert peak < 100e6
