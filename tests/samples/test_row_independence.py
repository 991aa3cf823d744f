"""Answers about one dataset of a batch do not depend on the records of another, in any bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import dpbench.estimators as est
from dpbench import PureDP
from dpbench.estimators.base import Estimator
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.privacy.replay import _ratios
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import CountedSample, DenseSample, Sample
from tests.support import Floats, name, rng


def answers(values: Floats, offset: float, width: float) -> list[Floats]:
    """Statistics of every dataset, for clips outside, inside and at the edge of the core."""
    sample = DenseSample(values)
    ends = np.linspace(1, 3, sample.trials) * width
    found = [sample.mean(), sample.count(offset, np.inf), sample.trimmed_mean(0.1)]
    for half in (0.3 * width, 1.5 * width, 4 * width, 40 * width, ends):
        found.append(sample.clipped_mean(offset - half, offset + half))
        found.append(sample.centred_mean(offset, half))
    return found


@pytest.mark.parametrize("n", [3, 60, 700])
@pytest.mark.parametrize(("offset", "width"), [(0.0, 1.0), (1e12, 1.0), (1e150, 1e138)])
def test_a_record_moves_no_bit_of_another_dataset(n: int, offset: float, width: float) -> None:
    values = offset + width * rng(n).standard_t(3, size=(5, n))
    wanted = answers(values, offset, width)
    for record in (offset, offset + 2 * width, -1e150, 1e308):
        for place in (0, n // 2, n - 1):
            changed = values.copy()
            changed[2, place] = record
            for before, after in zip(wanted, answers(changed, offset, width), strict=True):
                others = [0, 1, 3, 4]
                np.testing.assert_array_equal(before[others], after[others])


@pytest.mark.parametrize("kind", ["dense", "counted"])
@pytest.mark.parametrize(("centre", "half"), [(1e12 + 1, 1.0), (1e150, 1e135), (0.0, 1.0)])
def test_a_centred_mean_moves_by_its_sensitivity(kind: str, centre: float, half: float) -> None:
    """All records but one are random; the last is at one end or at the other."""
    n = 2000
    rest = np.sort(rng(7).uniform(centre - half, centre + half, n - 1))
    both = [np.append(rest, centre + side * half) for side in (-1, 1)]

    def sample(x: Floats) -> Sample:
        atoms, counts = np.unique(x, return_counts=True)
        return CountedSample(atoms, counts[None]) if kind == "counted" else DenseSample(x[None])

    low, high = (float(sample(x).centred_mean(centre, half)[0]) for x in both)
    assert high - low == pytest.approx(2 * half / n, rel=1e-9)
    offsets = (Fraction(x) - Fraction(centre) for x in both[0].tolist())
    end = Fraction(half)  # centre +- half may round away from centre
    exact = sum((min(max(offset, -end), end) for offset in offsets), Fraction(0)) / n
    assert low == pytest.approx(float(exact), rel=1e-12, abs=1e-15 * half)


FAR: dict[str, Any] = {"lower": 1e12, "upper": 1e12 + 2}
PRIVATE_SIZE, GAUSSIAN = PureDP(1.0, neighbours="add_remove"), ZCDP(50.0)
ESTIMATORS: list[tuple[Estimator, Budget]] = [
    (est.ClippedMean(**FAR), PureDP(1.0)),
    (est.UnbiasedMean(sigma=1.0, random_bins=False), ApproxDP(1.0, 1e-3)),
    (est.TransformedNoiseMean(**FAR), PRIVATE_SIZE),
    (est.HourglassMean(**FAR), PRIVATE_SIZE),
    (est.NormalizedSumMean(**FAR), PRIVATE_SIZE),
    (est.ThreeSumsVariance(**FAR), PRIVATE_SIZE),
    (est.BezierVariance(**FAR), PRIVATE_SIZE),
    (est.BezierVariance(**FAR), GAUSSIAN),
    (est.ClippedVariance(**FAR), GAUSSIAN),
    (est.PrivateBootstrapInterval(**FAR, resamples=2, weights="halves"), GAUSSIAN),
    (est.CoinPressMean(radius=2e12, sigma=0.01, rounds=6), GAUSSIAN),
]


def _steps(
    estimator: Estimator, budget: Budget, x: Floats, earlier: list[Step] | None = None
) -> list[Step]:
    """Return the calls of mechanisms on one dataset; they repeat the releases of an earlier run."""
    tape = Tape(earlier or [])
    estimator.run(DenseSample(x[None]), Ledger(budget, rng(0), tape=tape))
    return tape.steps


def _largest_move(first: list[Step], second: list[Step]) -> float:
    """Return the largest distance of two inputs over its sensitivity, rounding included."""
    assert [step.mechanism for step in first] == [step.mechanism for step in second]
    moves = [
        _ratios(np.abs(a.values - b.values).reshape(1, -1), np.reshape(limit, (1, -1)), norm)
        for a, b in zip(first, second, strict=True)
        for norm, limit in a.sensitivity.items()
    ]
    return float(np.max(moves))


@pytest.mark.parametrize(("estimator", "budget"), ESTIMATORS, ids=name)
def test_far_from_zero_a_mean_moves_by_its_stated_sensitivity(
    estimator: Estimator, budget: Budget
) -> None:
    """At 1e12 a rounded sum of 20,000 records would move by far more than its sensitivity."""
    x = 1e12 + rng(4).uniform(0, 2, 20_000)
    low, high = np.append(x, 1e12 - 50), np.append(x, 1e12 + 1.0)
    first = _steps(estimator, budget, low)
    private_size = budget.neighbours == "add_remove"
    second = _steps(estimator, budget, x if private_size else high, first)
    assert 0.2 < _largest_move(first, second) <= 1 + 1e-9


VECTORS: list[tuple[Estimator, Budget]] = [
    (est.CoinPressMean(radius=4e12, sigma=0.01, rounds=6), GAUSSIAN),
    (est.KSU20BallMean(k=2, scale=1, radius=2e12), GAUSSIAN),
    (est.TransformedNoiseMean(**FAR, region="ball"), PRIVATE_SIZE),
    (est.TransformedNoiseMean(**FAR), PRIVATE_SIZE),
]


@pytest.mark.parametrize(("estimator", "budget"), VECTORS, ids=name)
def test_far_from_zero_a_mean_of_vectors_moves_by_its_stated_sensitivity(
    estimator: Estimator, budget: Budget
) -> None:
    """A projected record rounds at 1e12, to some 1e-4, so the tolerance is not that of sums."""
    x = 1e12 + rng(3).uniform(0, 2, (20_000, 3))
    low, high = (np.vstack([x, np.full(3, 1e12 + side * 20)]) for side in (-1, 1))
    first = _steps(estimator, budget, low)
    private_size = budget.neighbours == "add_remove"
    second = _steps(estimator, budget, x if private_size else high, first)
    assert 0.1 < _largest_move(first, second) <= 1 + 1e-4


@pytest.mark.parametrize("n", [10**4, 10**6])
def test_rounding_of_a_sum_moves_a_mean_by_little_more_than_its_sensitivity(n: int) -> None:
    """The page on limits states a relative 1e-10 for n up to 1e6; about 3e-12 was found there."""
    x = np.random.default_rng(0).standard_t(2.5, n)
    for half in (0.3, 3.0):
        x[0] = -9.0
        low = DenseSample(x[None]).centred_mean(0.1, half)[0]
        x[0] = 9.0
        high = DenseSample(x[None]).centred_mean(0.1, half)[0]
        assert high - low == pytest.approx(2 * half / n, rel=1e-10)
