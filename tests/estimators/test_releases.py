"""What `release` returns: floats, arrays and intervals, and the data that it refuses."""

from __future__ import annotations

import copy
import doctest
import math
import pickle
import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

import dpbench.estimators as est
from dpbench import Estimator, PureDP, release
from dpbench.estimators import ClippedMean, EmpiricalMean, TrimmedMean, external, releases
from dpbench.estimators.releases import Interval, Intervals
from dpbench.privacy import ApproxDP, Ledger, NonPrivate
from dpbench.samples import DenseSample
from dpbench.testing import check_estimator
from tests.estimators.outsiders import _Scalars, once
from tests.support import rng

CLIP = ClippedMean(lower=0.0, upper=10.0)
DATA = np.random.default_rng(0).gamma(2.0, 2.0, 100)


def test_scalars_give_a_float_and_repeats_come_first() -> None:
    assert type(once(CLIP, DATA, PureDP(1.0))) is float
    assert type(once(CLIP, [5], PureDP(1.0))) is float
    small = np.array([1, 2, 3], dtype=np.uint8)
    assert once(CLIP, small, PureDP(1e6)) == pytest.approx(2.0, abs=1e-3)
    assert np.shape(once(_Scalars(), DATA, PureDP(1.0), repeats=5)) == (5,)
    for shape in ((20,), (20, 1), (20, 3)):
        for repeats in (1, 7):
            value = once(CLIP, np.ones(shape), PureDP(1.0), repeats)
            assert np.shape(value) == (repeats, *shape[1:])
            assert np.unique(value).size == np.size(value)
    with pytest.raises(ValueError, match=r"repeats|negative"):
        once(CLIP, DATA, PureDP(1.0), 0)


def test_released_arrays_are_no_views_of_values_before_noise() -> None:
    """An array's `base` may hold what was not released, such as the values before noise."""
    heavy = est.KSU20Mean(k=2, scale=3.0, radius=10.0)
    parts = est.SubsampleInterval(parts=5, base=CLIP)
    value, intervals = (
        release(kind, DATA, PureDP(1.0), rng=rng(), repeats=3) for kind in (heavy, parts)
    )
    assert isinstance(intervals, Intervals)
    for array in (value, intervals.low, intervals.high, intervals.estimate):
        assert np.asarray(array).base is None
    vector = release(CLIP, DATA.reshape(50, 2), PureDP(1.0), rng=rng())
    base = np.asarray(vector).base
    assert base is None or base.size == 2


def test_no_budget_for_an_estimator_without_privacy() -> None:
    for budget in (None, NonPrivate()):
        assert once(EmpiricalMean(), [1, 2, 3, 1, 8], budget) == pytest.approx(3.0)
        assert once(TrimmedMean(fraction=0.2), [1, 2, 3, 1, 8], budget) == pytest.approx(2.0)
    with pytest.raises(ValueError, match="ClippedMean cannot honour a budget of notion 'none'"):
        once(CLIP, DATA, None)
    with pytest.raises(ValueError, match="EmpiricalMean cannot honour a budget of notion 'pure'"):
        once(EmpiricalMean(), DATA, PureDP(1.0))


def test_the_stream_moves_on() -> None:
    first, repeated, other = (once(CLIP, DATA, PureDP(1.0), seed=s) for s in (1, 1, 2))
    assert first == repeated != other
    stream = rng(1)
    value, next_value = (release(CLIP, DATA, PureDP(1.0), rng=stream) for _ in range(2))
    assert value == first != next_value


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ([1.0, np.nan, 2.0], "1 of 3"),
        ([np.inf, -np.inf, 2.0], "2 of 3"),
        ([[1.0, np.nan], [np.nan, 2.0]], "2 of 4"),
        ([], "non-empty"),
        (np.zeros((3, 0)), "non-empty"),
        (3.0, r"shape \(n,\) or \(n, d\)"),
        (np.zeros((2, 2, 2)), r"shape \(n,\) or \(n, d\)"),
    ],
)
@pytest.mark.parametrize("repeats", [None, 5])
def test_other_data_are_refused(data: ArrayLike, text: str, repeats: int | None) -> None:
    with pytest.raises(ValueError, match=text):
        once(CLIP, data, PureDP(1.0), repeats)


def test_a_number_is_no_budget() -> None:
    with pytest.raises(TypeError, match=r"budget: 1\.0: not a budget; write PureDP"):
        once(CLIP, DATA, 1.0)  # type: ignore[arg-type]


def test_a_seed_is_no_generator() -> None:
    with pytest.raises(
        TypeError, match=r"^rng: 0: not a generator; write np\.random\.default_rng\(0\)$"
    ):
        release(CLIP, DATA, PureDP(1.0), rng=0)  # type: ignore[call-overload]


def test_the_examples_run(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        Estimator, "_registry", dict(Estimator._registry)
    )  # an example registers a kind
    for module, least in ((releases, 8), (external, 5)):
        result = doctest.testmod(module)
        assert result.attempted >= least
        assert result.failed == 0
    assert "one_dataset" not in Estimator.kinds()


INTERVALS = [
    est.KarwaVadhanInterval(radius=50.0, sigma=2.0),
    est.NoisyvarInterval(lower=0.0, upper=10.0, draws=19),
    est.ParametricBootstrapInterval(lower=0.0, upper=10.0, draws=19),
    est.ShrinkingIntervals(radius=50.0, sigma=2.0, rounds=2),
    est.KSU20RangeEstimate(k=2, scale=2.0, alpha=0.5, radius=50.0, constants="practical"),
]


@pytest.mark.parametrize("estimator", INTERVALS, ids=lambda e: type(e).__name__)
def test_an_interval_returns_both_of_its_ends(estimator: Estimator) -> None:
    values = np.broadcast_to(DATA, (4, len(DATA)))
    ran = estimator.run(DenseSample(values), Ledger(PureDP(1.0), rng(1)))
    many: Any = once(estimator, DATA, PureDP(1.0), repeats=4)
    assert ran.interval is not None
    assert isinstance(many, Intervals)
    assert many.miss == ran.miss
    low, high = many
    for ours, kernels in ((low, ran.interval[0]), (high, ran.interval[1]), (many, ran.value)):
        np.testing.assert_array_equal(ours, kernels)

    single = estimator.run(DenseSample(values[:1]), Ledger(PureDP(1.0), rng(1)))
    assert single.interval is not None
    one: Any = once(estimator, DATA, PureDP(1.0))
    assert isinstance(one, Interval)
    assert (*one, one.estimate, one.miss) == (
        *(float(end[0]) for end in single.interval), float(single.value[0]), ran.miss,
    )  # fmt: skip
    assert type(one.estimate) is type(one.low) is float
    assert one == one.estimate == float(one)
    assert one.estimate in one
    assert one.high + 1 not in one


def test_an_interval_is_a_frozen_float_with_a_short_text() -> None:
    interval = Interval(1.0, 4.0, 2.0, 0.1)
    assert repr(interval) == str(interval) == "Interval(1, 4, estimate=2, miss=0.1)"
    assert repr(Interval(1.0, 4.0, 2.0)) == "Interval(1, 4, estimate=2)"
    assert (interval + 1, f"{interval:.2f}", np.shape(interval)) == (3.0, "2.00", ())
    for changed in ("low", "estimate", "_ends", "other"):
        with pytest.raises(AttributeError):
            setattr(interval, changed, 0.0)
    for twin in (copy.deepcopy(interval), pickle.loads(pickle.dumps(interval))):
        assert (*twin, twin, twin.miss) == (1.0, 4.0, 2.0, 0.1)
    many = Intervals(np.zeros(3), np.array([1.0, 2.0, 9.0]), np.ones(3), 0.1)
    assert repr(many) == "Intervals(3 intervals, median width 2, miss=0.1)"
    assert np.asarray(many).tolist() == [1.0, 1.0, 1.0]


@pytest.mark.filterwarnings("ignore::dpbench.errors.AssumptionWarning")
def test_a_failure_is_an_interval_of_nan() -> None:
    spread = np.arange(100.0) * 1e6  # no bin of the histogram is full enough to be released
    estimator = est.KarwaVadhanInterval(radius=None, sigma=1.0)
    value: Any = once(estimator, spread, ApproxDP(1.0, 1e-6))
    assert [math.isnan(number) for number in (*value, value.estimate)] == [True] * 3
    assert 0.0 not in value


def test_the_check_of_estimators_takes_intervals() -> None:
    check_estimator(INTERVALS[2], budgets=[PureDP(1.0)])


@pytest.mark.parametrize(
    ("data", "told"),
    [
        (["1.5", "east"], "data: 2 of 2 values are of type str; give numbers such as 1.5"),
        ([1.0, np.nan, np.inf], "data: 1 of 3 values are missing; fill them with"),
    ],
)
def test_data_that_are_no_numbers_are_told(data: Any, told: str) -> None:
    with pytest.raises(ValueError, match=re.escape(told)):
        release(est.ClippedMean(lower=0, upper=1), data, PureDP(1.0), rng=rng(0))
