"""What `release` promises its caller."""

from __future__ import annotations

import dataclasses
import doctest
import functools
import importlib
from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray

import dpbench
from dpbench import ZCDP, ApproxDP, PureDP, release
from dpbench.estimators import (
    BoundedMean,
    ClippedMean,
    CoinPressCovariance,
    CoinPressMean,
    CoordinateWise,
    EmpiricalMean,
    Estimator,
    FriendlyCoreMean,
    HeavyTailedMean,
    KSU20BallMean,
    LocalMean,
    MedianOfMeans,
    SubsampleAggregate,
    TrimmedMean,
    WhitenedCoinPressMean,
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


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.1), ApproxDP(1.0, 1e-6)])
@pytest.mark.parametrize("estimator", [CLIPPED, HeavyTailedMean(k=2), LocalMean(k=2)])
def test_scalars_give_a_float(estimator: Estimator, budget: Budget) -> None:
    assert type(once(estimator, DATA, budget)) is float
    assert type(once(estimator, [5], budget)) is float


@pytest.mark.parametrize("d", [1, 3])
def test_vectors_give_a_vector(d: int) -> None:
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


def test_other_bit_generators_do() -> None:
    rng = np.random.Generator(np.random.SFC64(3))
    assert np.isfinite(release(CLIPPED, DATA, PureDP(1.0), rng=rng))


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


def test_vectors_for_a_scalar_estimator_are_refused() -> None:
    with pytest.raises(ValueError, match="takes scalar records, got vectors of 2"):
        once(HeavyTailedMean(k=2), np.zeros((5, 2)), PureDP(1.0))


def test_a_wild_record_moves_the_release_by_no_more_than_the_sensitivity() -> None:
    wild = DATA.copy()
    wild[3] = 1e300
    gap = np.subtract(once(CLIPPED, wild, PureDP(1.0)), once(CLIPPED, DATA, PureDP(1.0)))
    assert abs(gap) <= 10 / 100


def test_release_is_what_the_package_exports() -> None:
    assert dpbench.release is release


def test_the_example_of_release_runs() -> None:
    module = importlib.import_module("dpbench.estimators.base")
    result = doctest.testmod(module)
    assert result.attempted >= 4
    assert result.failed == 0


BASE_OF: dict[str, Any] = {
    "coordinate_wise": ClippedMean(lower=-1.0, upper=1.0),
    "subsample_aggregate": EmpiricalMean(),
}


@pytest.mark.parametrize("repeats", [None, 3])
@pytest.mark.parametrize("kind", sorted(Estimator._kinds()))
def test_vectors_of_one_coordinate_are_no_scalars(kind: str, repeats: int | None) -> None:
    # A released centre per trial would broadcast against such records and release them all.
    known: dict[str, Any] = {
        "k": 2, "radius": 10.0, "lower": -1.0, "upper": 1.0, "buckets": 2, "alpha": 0.05,
        "bound": 4.0, "base": BASE_OF.get(kind),
    }  # fmt: skip
    cls = Estimator._kinds()[kind]
    if not cls.__module__.startswith("dpbench."):
        return
    fields = {f.name for f in dataclasses.fields(cls)}  # type: ignore[arg-type]
    given_fields = {name: known[name] for name in fields & known.keys() if known[name] is not None}
    estimator = cls(**given_fields)
    data = np.random.default_rng(0).normal(size=(1000, 1))
    budgets = (NonPrivate(), PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6))
    budget = next(b for b in budgets if estimator.supports(b))
    given = None if isinstance(budget, NonPrivate) else budget
    ask = functools.partial(
        release, estimator, data, given, rng=np.random.default_rng(1), repeats=repeats
    )
    if estimator.multivariate:
        shape = (1, 1) if estimator.estimand == "covariance" else (1,)
        assert np.shape(ask()) == (shape if repeats is None else (3, *shape))
    else:
        with pytest.raises(ValueError, match="takes scalar records"):
            ask()


VECTOR_RELEASES: list[tuple[Estimator, Budget, tuple[int, ...]]] = [
    (BoundedMean(radius=1.0), PureDP(1.0), (3,)),
    (BoundedMean(radius=1.0, mechanism="l2"), PureDP(1.0), (3,)),
    (CoordinateWise(base=CLIPPED), ApproxDP(1.0, 1e-6), (3,)),
    (CoinPressMean(radius=5.0), ZCDP(0.5), (3,)),
    (CoinPressCovariance(bound=4.0), ZCDP(0.5), (3, 3)),
    (WhitenedCoinPressMean(radius=5.0, bound=4.0), ApproxDP(1.0, 1e-6), (3,)),
    (KSU20BallMean(k=2, radius=5.0), ZCDP(0.5), (3,)),
    (FriendlyCoreMean(radius=9.0), ApproxDP(9.0, 1e-3), (3,)),
    (SubsampleAggregate(buckets=5, lower=-1.0, upper=1.0), PureDP(1.0), (3,)),
]


@pytest.mark.parametrize(
    ("estimator", "budget", "shape"), VECTOR_RELEASES, ids=lambda v: type(v).__name__
)
def test_releases_of_vectors(estimator: Estimator, budget: Budget, shape: tuple[int, ...]) -> None:
    data = np.random.default_rng(2).normal(0.5, 1, (200, 3))
    data.flags.writeable = False
    before = data.copy()
    one = once(estimator, data, budget)
    many = once(estimator, data, budget, 5)
    assert isinstance(one, np.ndarray)
    assert one.shape == shape
    assert isinstance(many, np.ndarray)
    assert many.shape == (5, *shape)
    assert np.isfinite(one).all()
    assert len(np.unique(many.reshape(5, -1)[:, 0])) == 5
    np.testing.assert_allclose(once(estimator, data.tolist(), budget), one, rtol=1e-9)
    # With one repeat the stream of the noise is that of a single release.
    np.testing.assert_allclose(np.asarray(once(estimator, data, budget, 1))[0], one, rtol=1e-9)
    np.testing.assert_array_equal(data, before)


@pytest.mark.parametrize("kind", [CoinPressCovariance, WhitenedCoinPressMean, KSU20BallMean])
def test_numbers_for_an_estimator_of_vectors_are_refused(kind: type[Estimator]) -> None:
    estimator = next(e for e, _, _ in VECTOR_RELEASES if type(e) is kind)
    with pytest.raises(ValueError, match="vectors"):
        once(estimator, DATA, ZCDP(0.5))
