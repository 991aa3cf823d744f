"""What `release` promises its caller."""

from __future__ import annotations

import doctest
import importlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

from dpbench import PureDP, release
from dpbench.estimators import (
    ClippedMean,
    EmpiricalMean,
    Estimator,
    MedianOfMeans,
    TrimmedMean,
)
from dpbench.privacy import Budget, NonPrivate

CLIPPED = ClippedMean(lower=0.0, upper=10.0)
DATA = np.random.default_rng(0).gamma(2.0, 2.0, 100)


def once(
    estimator: Estimator,
    data: ArrayLike,
    budget: Budget | None,
    repeats: int | None = None,
    seed: int = 1,
) -> float | NDArray[np.float64]:
    return release(estimator, data, budget, rng=np.random.default_rng(seed), repeats=repeats)


def test_scalars_give_a_float_and_vectors_a_vector() -> None:
    assert type(once(CLIPPED, DATA, PureDP(1.0))) is float
    assert type(once(CLIPPED, [5], PureDP(1.0))) is float
    for d in (1, 3):
        value = once(CLIPPED, np.ones((20, d)), PureDP(1.0))
        assert isinstance(value, np.ndarray)
        assert value.shape == (d,)
        assert value.dtype == np.float64


@pytest.mark.parametrize("repeats", [1, 2, 7])
def test_repeats_come_first(repeats: int) -> None:
    scalars = once(CLIPPED, DATA, PureDP(1.0), repeats)
    vectors = once(CLIPPED, np.ones((20, 3)), PureDP(1.0), repeats)
    assert np.shape(scalars) == (repeats,)
    assert np.shape(vectors) == (repeats, 3)
    assert len(np.unique(np.asarray(scalars))) == repeats


@pytest.mark.parametrize("repeats", [0, -1])
def test_no_repeats_are_refused(repeats: int) -> None:
    with pytest.raises(ValueError, match=r"repeats|negative"):
        once(CLIPPED, DATA, PureDP(1.0), repeats)


@pytest.mark.parametrize("budget", [None, NonPrivate()])
@pytest.mark.parametrize(
    ("estimator", "wanted"),
    [
        (EmpiricalMean(), 3.0),
        (TrimmedMean(fraction=0.2), 2.0),
        (MedianOfMeans(groups=5), 2.0),
    ],
)
def test_no_budget_for_an_estimator_without_privacy(
    estimator: Estimator, wanted: float, budget: Budget | None
) -> None:
    assert once(estimator, [1, 2, 3, 1, 8], budget) == pytest.approx(wanted)


def test_a_private_estimator_needs_a_budget() -> None:
    with pytest.raises(ValueError, match="ClippedMean cannot honour a budget of notion 'none'"):
        once(CLIPPED, DATA, None)


def test_a_budget_for_an_estimator_without_privacy_is_refused() -> None:
    with pytest.raises(ValueError, match="EmpiricalMean cannot honour a budget of notion 'pure'"):
        once(EmpiricalMean(), DATA, PureDP(1.0))


def test_the_same_stream_gives_the_same_release() -> None:
    first, again, other = (once(CLIPPED, DATA, PureDP(1.0), seed=s) for s in (1, 1, 2))
    assert first == again
    assert first != other
    rng = np.random.default_rng(1)
    one, two = (release(CLIPPED, DATA, PureDP(1.0), rng=rng) for _ in range(2))
    assert one == first
    assert two != first  # the stream moves on


@pytest.mark.parametrize("data", [[1, 2, 3], (1.0, 2.0, 3.0), np.array([1, 2, 3], dtype=np.uint8)])
def test_any_sequence_of_numbers_does(data: Any) -> None:
    assert once(CLIPPED, data, PureDP(1e6)) == pytest.approx(2.0, abs=1e-3)


def test_the_data_are_not_written_to() -> None:
    data = DATA.copy()
    data.flags.writeable = False
    once(CLIPPED, data, PureDP(1.0), 3)
    np.testing.assert_array_equal(data, DATA)
    writeable = DATA.copy()
    once(CLIPPED, writeable, PureDP(1.0))
    assert writeable.flags.writeable


@pytest.mark.parametrize(
    ("data", "count"),
    [
        ([1.0, np.nan, 2.0], "1 of 3"),
        ([np.inf, np.inf, 2.0], "2 of 3"),
        ([np.inf, -np.inf, 2.0], "2 of 3"),
        ([[1.0, np.nan], [np.nan, 2.0]], "2 of 4"),
    ],
)
@pytest.mark.parametrize("repeats", [None, 5])
def test_infinite_and_missing_values_are_refused(
    data: ArrayLike, count: str, repeats: int | None
) -> None:
    with pytest.raises(ValueError, match=count):
        once(CLIPPED, data, PureDP(1.0), repeats)


@pytest.mark.parametrize("data", [[], np.zeros((0, 3)), np.zeros((3, 0))])
def test_no_data_are_refused(data: ArrayLike) -> None:
    with pytest.raises(ValueError, match="non-empty"):
        once(CLIPPED, data, PureDP(1.0))


@pytest.mark.parametrize("data", [3.0, np.zeros((2, 2, 2))])
def test_other_shapes_are_refused(data: ArrayLike) -> None:
    with pytest.raises(ValueError, match=r"shape \(n,\) or \(n, d\)"):
        once(CLIPPED, data, PureDP(1.0))


def test_the_example_of_release_runs() -> None:
    module = importlib.import_module("dpbench.estimators.base")
    result = doctest.testmod(module)
    assert result.attempted >= 4
    assert result.failed == 0
