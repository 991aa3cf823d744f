"""Tests of the warnings about data that contradict an estimator's assumptions."""

import warnings
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpbench
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.errors import AssumptionWarning
from dpbench.estimators import Estimator, assumptions, release
from dpbench.estimators.assumptions import (
    Assumption,
    GaussianShape,
    GaussianSpread,
    ManyDifferences,
    MeanWithin,
    MomentSpread,
)  # fmt: skip
from dpbench.estimators.catalogue import catalogue
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.testing import check_estimator

PURE, RHO, APPROX = PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)
ADDED = PureDP(1.0, neighbours="add_remove")
INCOMES = np.random.default_rng(0).lognormal(10.5, 0.6, 5000)  # their mean is 43,285
RARE = np.repeat([0.0, 1.0], [490, 10])[np.random.default_rng(0).permutation(500)]
VECTORS = np.random.default_rng(0).normal(5.0, 3.0, (2000, 3))


def texts(estimator: Estimator, data: Floats, budget: Budget, **options: Any) -> list[str]:
    """Return the texts of all warnings of a release."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        release(estimator, data, budget, rng=np.random.default_rng(1), **options)
    assert all(one.category is AssumptionWarning and one.filename == __file__ for one in caught)
    return [str(one.message) for one in caught]


CONTRADICTED: list[tuple[Estimator, Floats, Budget, list[str]]] = [
    (est.KSU20Mean(k=2, scale=1, radius=1e6), INCOMES, PURE, ["scale = 1 assumes E|X - mean|^2"]),
    (est.KarwaVadhanMean(radius=1e6, sigma=1), INCOMES, PURE, ["sigma = 1 assumes Gaussian"]),
    (est.TunedClippedMean(k=2, scale=4e4), 20 * INCOMES, PURE, ["scale = 40000", "radius = 0"]),
    (est.NaiveGaussianMean(radius=100, sigma=4e4), INCOMES + 4e5, PURE, ["radius = 100 assumes"]),
    (est.LocalMean(k=3, scale=1, radius=1e6), INCOMES, PURE, ["2,500 pairs"]),
    (est.UserLevelMean(k=2, scale=3e4, m=1000, radius=1e6), INCOMES, PURE, ["scale/sqrt(m)"]),
    (est.KarwaVadhanGaussian(radius=1e6, sigma_high=9), INCOMES, PURE, ["sigma_high = 9"]),
    (est.UnbiasedMean(sigma=1), INCOMES, APPROX, ["sigma = 1"]),
    (est.ClippedMean(lower=0, upper=1000), INCOMES, PURE, ["100 per cent of the records"]),
    (est.TransformedNoiseMean(lower=0, upper=1), INCOMES, ADDED, ["[0, 1]"]),
    (est.InverseSensitivity(lower=0, upper=10, statistic="median", resolution=1), INCOMES, PURE,
     ["the median is assumed in [0, 10]"]),
    (est.SubsampleAggregate(buckets=50, lower=0, upper=9), INCOMES, PURE, ["all records"]),
    (est.NoisyvarInterval(lower=0, upper=1e6, sigma=1), INCOMES, PURE, ["sigma = 1"]),
    (est.NoisyvarInterval(lower=0, upper=1e12), INCOMES**2, PURE, ["beta assumes Gaussian"]),
    (est.ParametricBootstrapInterval(lower=0, upper=1), RARE, PURE, ["beta assumes Gaussian"]),
    (est.BergerBoosInterval(lower=0, upper=1), RARE, PURE, ["beta assumes Gaussian records"]),
    (est.PrivateBootstrapInterval(lower=0, upper=1, weights="halves"), RARE[:100], PURE,
     ["only 1 of 50 pairs of records differ"]),
    (est.BinaryMean(), INCOMES, PURE, ["[0, 1]"]),
    (est.CoordinateWise(base=est.ClippedMean(lower=0, upper=1)), VECTORS, PURE, ["[0, 1]"]),
    (est.CoinPressMean(radius=1, sigma=1), VECTORS, RHO, ["sigma = 1", "radius = 1"]),
    (est.WhitenedCoinPressMean(radius=99, bound=1), VECTORS, RHO, ["the root of bound = 1"]),
    (est.CoinPressCovariance(bound=1), VECTORS, RHO, ["the root of bound = 1", "[-0, 0]"]),
    (est.KSU20BallMean(k=2, scale=1, radius=99), VECTORS, RHO, ["scale = 1"]),
    (est.KSU20TournamentMean(k=2, scale=0.5, radius=9, alpha=0.9), VECTORS, PURE, ["scale = 0.5"]),
    (est.PlanMean(radius=99, sigma_low=0.1, sigma_high=1), VECTORS, RHO, ["sigma_high = 1"]),
    (est.InstanceOptimalMean(radius=2), VECTORS, RHO, ["norms up to radius = 2"]),
    (est.L2ClippedMean(radius=2), VECTORS, PURE, ["norms up to radius = 2"]),
    (est.PrivUnitMean(radius=2), VECTORS, PURE, ["norms up to radius = 2"]),
    (est.AdaSSP(feature_bound=1, response_bound=1), VECTORS, RHO,
     ["feature_bound = 1", "response_bound = 1"]),
    (est.GradientDescentMean(clip=0.5), VECTORS, RHO, ["clip assumes that most records"]),
    (est.FriendlyCoreMean(sigma=0.1), VECTORS, APPROX, ["sigma assumes that most records"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("estimator", "data", "budget", "parts"), CONTRADICTED, ids=lambda v: type(v).__name__
)
def test_contradictions_are_told(
    estimator: Estimator, data: Floats, budget: Budget, parts: list[str]
) -> None:
    told = texts(estimator, data, budget, repeats=3)
    assert len(told) == len(parts)
    for text, part in zip(told, parts, strict=True):
        assert part in text
        assert text.startswith(f"{type(estimator).__name__}: ")
        assert "not private" in text
        assert "dpbench.AssumptionWarning" in text


def test_a_scale_that_holds_is_silent() -> None:
    for estimator in (
        est.KSU20Mean(k=2, scale=4e4, radius=1e6), est.KarwaVadhanMean(radius=1e6, sigma=4e4),
        est.ClippedMean(lower=0, upper=2e5), est.TunedClippedMean(k=2, scale=4e4, radius=1e5),
    ):  # fmt: skip
        assert texts(estimator, INCOMES, PURE) == []


def test_an_estimator_without_bounds_assumes_nothing() -> None:
    assert est.EmpiricalMean().assumptions(10, 1) == ()


def draw(tail: Assumption, shape: tuple[int, ...], rng: np.random.Generator) -> Floats:
    """Draw records at the edge of an assumption: heavy tails for a moment, twice a sigma."""
    if isinstance(tail, GaussianShape):
        return np.asarray(1e-3 * rng.standard_normal(shape))
    if isinstance(tail, ManyDifferences):  # two records differ with probability MIN_DIFFERENCES/n
        rate = min(1.0, assumptions.MIN_DIFFERENCES / tail.n)
        return np.where(rng.random((shape[0], 1)) < np.sqrt(1 - rate), 0.0, rng.random(shape))
    if isinstance(tail, GaussianSpread):
        return 2 * tail.sigma * rng.standard_normal(shape)
    assert isinstance(tail, MomentSpread)
    # A record is +-1/p^(1/k) with probability p: its moment is 1, and Markov's inequality is sharp.
    p = rng.choice([1.0, 0.3, 0.01, 3 / shape[0]])
    return np.asarray(
        tail.scale * p ** (-1 / tail.k) * rng.choice([-1, 1], shape) * (rng.random(shape) < p)
    )


@pytest.mark.parametrize(
    "tail",
    [
        MomentSpread(2, 3),
        MomentSpread(4, 3),
        GaussianSpread(3),
        GaussianShape(),
        ManyDifferences(1000),
    ],
)
@pytest.mark.parametrize("n", [1, 2, 3, 40, 1000])
def test_false_alarms_are_as_rare_as_stated(
    monkeypatch: pytest.MonkeyPatch, tail: Any, n: int
) -> None:
    """Of 400 datasets at the edge, at most a share of 0.1 raises an alarm at a limit of 0.05."""
    monkeypatch.setattr(assumptions, "FALSE_ALARM", 0.05)
    rng, found = np.random.default_rng(n), np.zeros(2)
    for _ in range(400):
        records = draw(tail, (n, 2), rng) + 7.0
        # The mean is at the end of its range.
        located = not isinstance(tail, GaussianShape | ManyDifferences)
        both = (tail, MeanWithin(7.0, tail)) if located else (tail, tail)
        found += [one.contradiction(records) is not None for one in both]
    assert (found <= stats.binom.isf(1e-6, 400, 0.05)).all()


def test_sorted_records_are_no_alarm() -> None:
    records = np.sort(np.random.default_rng(2).normal(0, 1, 5000))
    assert texts(est.KarwaVadhanMean(radius=5, sigma=1), records, PURE) == []
    assert texts(est.KarwaVadhanMean(radius=5, sigma=0.2), records, PURE) != []


def test_large_data_are_tested_on_a_part_and_no_stream_moves() -> None:
    estimator, data = est.KarwaVadhanMean(radius=5, sigma=0.2), np.tile(INCOMES, 5)
    values = []
    for filters in ("ignore", "always"):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter(filters)
            values.append(release(estimator, data, PURE, rng=np.random.default_rng(5)))
        assert all("of 5,000 pairs" in str(one.message) or "of 10,000" in str(one.message)
                   for one in caught)  # fmt: skip
    assert values[0] == values[1]


def test_the_check_of_an_estimator_warns_once_about_given_records() -> None:
    wrong = est.ClippedMean(lower=0, upper=300)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_estimator(wrong, budgets=[PURE])  # its own records are no data of the user
        check_estimator(wrong, records=np.linspace(1, 300, 60), budgets=[PURE])
    with pytest.warns(AssumptionWarning, match="per cent of the records are outside") as caught:
        check_estimator(wrong, records=np.linspace(-300, -1, 60), budgets=[PURE])
    assert len(caught) == 1
    assert caught[0].filename == __file__


def test_the_warning_is_public_and_can_be_silenced() -> None:
    assert dpbench.AssumptionWarning is AssumptionWarning
    assert issubclass(AssumptionWarning, UserWarning)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", category=dpbench.AssumptionWarning)
        release(est.BinaryMean(), INCOMES, PURE, rng=np.random.default_rng(0))


def test_every_kind_states_what_it_assumes() -> None:
    parameters = ("scale", "sigma", "radius", "lower", "clip", "bound", "sigma_high")
    for kind, listing in catalogue().items():
        assert listing.lines()[0] == f"assumes: {listing.assumes}"
        required = {
            name
            for name, field in Estimator.kinds()[kind].__pydantic_fields__.items()  # type: ignore[attr-defined]
            if field.is_required()
        }
        for name in required & set(parameters):
            assert name in listing.assumes, f"{kind} does not say what {name} assumes"


def test_rounded_gaussians_give_no_alarm() -> None:
    """Where the smaller of two differences is 0 by rounding, it is no bound on sigma."""
    shape = GaussianShape()
    assert shape.contradiction(np.array([[0.3], [0.3], [1.0], [2.5], [0.1]])) is None
    rng = np.random.default_rng(2)
    for n in (4, 5, 6, 9):
        rows = rng.standard_normal((500, n, 1)).round(1)
        assert all(shape.contradiction(row) is None for row in rows)
