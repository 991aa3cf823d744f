"""Answers about one dataset of a batch do not depend on the records of another, in any bit."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbench import PureDP
from dpbench.estimators import ClippedMean, UnbiasedMean
from dpbench.estimators.base import Estimator
from dpbench.privacy import ApproxDP, Budget, Ledger
from dpbench.samples import CountedSample, DenseSample, Sample
from tests.support import Floats, rng


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


ESTIMATORS = [
    (ClippedMean(lower=1e12, upper=1e12 + 2), PureDP(1.0)),
    (UnbiasedMean(sigma=1.0, random_bins=False), ApproxDP(1.0, 1e-3)),
]


@pytest.mark.parametrize(("estimator", "budget"), ESTIMATORS)
def test_far_from_zero_a_mean_moves_by_its_stated_sensitivity(
    estimator: Estimator, budget: Budget, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 1e12 a rounded mean of 20,000 records would move by up to 1.22 of the sensitivity."""
    x = 1e12 + rng(3).uniform(0, 2, 20_000)
    inputs: list[tuple[Floats, Any]] = []
    add_noise = Ledger.add_noise

    def keep(self: Ledger, values: Floats, l2: Any, **options: Any) -> Floats:
        inputs.append((values, l2))
        return add_noise(self, values, l2, **options)

    monkeypatch.setattr(Ledger, "add_noise", keep)
    for record in (1e12 - 50, 1e12 + 50):
        estimator.run(DenseSample(np.append(x, record)[None]), Ledger(budget, rng(0)))
    (first, sensitivity), (second, _) = inputs
    assert 0.5 < float(np.abs(first - second)[0]) / np.max(sensitivity) <= 1 + 1e-10


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
