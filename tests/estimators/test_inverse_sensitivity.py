"""The inverse sensitivity mechanism against its definition."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from dpbench.estimators import InverseSensitivity
from dpbench.privacy import GDP, ZCDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.instance_noise import _inverse_sensitivity_noise
from tests.estimators.few_records import Floats, samples

LOWER, UPPER = -3.0, 4.0


def changes_for_a_mean(records: Floats, t: Floats) -> Floats:
    """Return len(t) of the mean, by a search over all sets of records to replace."""
    n, changes = len(records), np.full(t.shape, np.inf)
    for k in range(n + 1):
        for replaced in itertools.combinations(range(n), k):
            rest = np.delete(records, replaced).sum()
            inside = (rest + k * LOWER <= n * t) & (n * t <= rest + k * UPPER)
            changes = np.where(inside, np.minimum(changes, k), changes)
    return changes


def changes_for_a_median(records: Floats, t: Floats) -> Floats:
    """Return len(t) of the median of an odd number of records: the excess on one side of t."""
    above, below = ((records * side > t[:, None] * side).sum(axis=1) for side in (1, -1))
    return np.asarray(np.maximum(above, below) - len(records) // 2)


RECORDS = np.array([-2.0, -2.0, -1.0, 0.5, 3.0])


@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("counted", [False, True])
def test_the_release_has_the_density_of_its_definition(statistic: Any, counted: bool) -> None:
    """Compare by the DKW inequality, with false-alarm probability 1e-6."""
    n, epsilon = 40_000, 1.5
    h = 1e-6 if statistic == "median" else 0.1
    estimator = InverseSensitivity(lower=LOWER, upper=UPPER, statistic=statistic, resolution=h)
    sample = samples(np.broadcast_to(RECORDS, (n, 5)))[counted]
    ledger = Ledger(PureDP(epsilon), np.random.default_rng(0))
    values = np.sort(estimator.run(sample, ledger).value)
    grid = np.linspace(LOWER, UPPER, 70_001)
    if statistic == "mean":
        mean, step = RECORDS.mean(), grid[1] - grid[0]
        grid = np.arange(LOWER - h, UPPER + h + step / 2, step)
        nearest = np.clip(
            mean, grid - h, grid + h
        )  # the point within h that is nearest to the mean
        changes = changes_for_a_mean(RECORDS, np.clip(nearest, LOWER, UPPER))
        changes = np.where(np.abs(grid - mean) <= h, 0, changes)
    else:
        changes = changes_for_a_median(RECORDS, grid)
    weights = np.exp(-epsilon * changes / 2)
    below = np.interp(values, grid, np.cumsum(weights) / weights.sum())
    free = (values > LOWER) & (values < UPPER)  # releases at the ends are clipped
    gap = np.abs(below - np.arange(n) / n)[free].max()
    assert gap < np.sqrt(np.log(2 / 1e-6) / (2 * n)) + 1e-3


@pytest.mark.parametrize(("budget", "factor"), [(ZCDP(0.005), np.sqrt(8)), (GDP(0.1), None)])
def test_other_notions_pay_what_the_exponential_mechanism_does(
    budget: Budget, factor: float | None
) -> None:
    """All records at the middle: |error| is exponential, of mean (b - a)/(n epsilon)."""
    epsilon = factor * np.sqrt(0.005) if factor else budget.exponential_epsilon
    trials = 20_000
    sample = CountedSample([0.5], np.full((trials, 1), 1000))
    ledger = Ledger(budget, np.random.default_rng(2))
    estimate = InverseSensitivity(lower=LOWER, upper=UPPER).run(sample, ledger)
    mean = np.abs(estimate.value - 0.5).mean() * 1000 * epsilon / (UPPER - LOWER)
    assert mean == pytest.approx(1, abs=4.9 / np.sqrt(trials) + 0.002)


class _Largest(np.random.Generator):
    """Draw the largest double below 1 where a step of a group is chosen, and 1/2 within it."""

    def random(self, size: Any = None, *_: Any, **__: Any) -> Any:
        return np.stack([np.full(size[1:], np.nextafter(1, 0)), np.full(size[1:], 0.5)])


def test_the_last_of_equal_steps_is_the_furthest() -> None:
    """Three records are at 0 and three at 1/2: steps of the mean that are alike come in threes.

    The largest double below 1 chooses the last step of a group, and 1/2 its middle. The rounded
    ln(1 - u (1 - e^(-3 epsilon/2)))/(-epsilon/2) is 3 at some epsilon, one step too many.
    """
    rounded, distances = 0, set[float]()
    for seed, epsilon in enumerate(np.linspace(0.01, 0.4, 200)):
        half, top = epsilon / 2, np.nextafter(1, 0)
        rounded += np.floor(np.log1p(top * np.expm1(-half * 3)) / -half) == 3
        sample = CountedSample([0.0, 0.5], np.full((1, 2), 3))
        ledger = Ledger(PureDP(epsilon), _Largest(np.random.PCG64(seed)))
        away = InverseSensitivity(lower=-0.5, upper=0.5).run(sample, ledger).value[0] - 0.25
        distances.add(round(float(away) * 12, 6))
    assert rounded > 10
    # Up: three steps of 1/12. Down: three of 2/12, then three of 1/12.
    assert distances == {2.5, -5.0, -8.5}


@pytest.mark.parametrize("epsilon", [0.5, 4.0])
def test_the_exact_noise_has_the_density_of_the_definition(epsilon: float) -> None:
    """On records that are as often as expected, by a search over all sets to replace."""
    h, grid = 0.1, np.linspace(LOWER - 0.1, UPPER + 0.1, 36_001)
    nearest = np.clip(RECORDS.mean(), grid - h, grid + h)
    weights = np.exp(-epsilon / 2 * changes_for_a_mean(RECORDS, np.clip(nearest, LOWER, UPPER)))
    below = np.cumsum(weights) / weights.sum()
    values, counts = np.unique(RECORDS, return_counts=True)
    estimator = InverseSensitivity(lower=LOWER, upper=UPPER, resolution=h)
    setting = ReleaseSetting(len(RECORDS), 1, PureDP(epsilon))
    noise = _inverse_sensitivity_noise(estimator, (values, counts / len(RECORDS)), setting)
    np.testing.assert_allclose(noise.cdf(grid - RECORDS.mean()), below, atol=1e-3)
