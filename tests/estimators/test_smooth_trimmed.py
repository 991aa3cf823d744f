"""Smooth and inverse sensitivity against their definitions."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from dpbench import release
from dpbench.estimators import InverseSensitivity, SmoothTrimmedMean, smooth_trimmed
from dpbench.privacy import GDP, ZCDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample, DenseSample, Sample

Floats = NDArray[np.float64]
LOWER, UPPER = -3.0, 4.0


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What a step of smooth noise is given last."""
    last: dict[str, Any] = {}

    def kept(ledger: Ledger, values: Floats, sensitivity: Floats, t: float) -> Floats:
        last.update(mean=values, smooth=sensitivity, t=t)
        ledger.pay()
        return values

    monkeypatch.setattr(Ledger, "add_smooth_noise", kept)
    return last


def smooth(records: Floats, m: int, t: float) -> tuple[float, float]:
    """The trimmed mean and BS19's formula, all k and l of it."""
    n, x = len(records), np.sort(np.clip(records, LOWER, UPPER))
    at = np.concatenate([x, np.full(n + 2, UPPER), np.full(n + 2, LOWER)])  # x_(i) at i - 1
    gaps = [
        np.exp(-k * t) * (at[n - m + k - j] - at[m - j]) for k in range(n + 1) for j in range(k + 2)
    ]
    return float(x[m : n - m].mean()), float(max(gaps) / (n - 2 * m))


def samples(x: Floats) -> list[Sample]:
    """The same records one by one and counted."""
    atoms = np.unique(x)
    return [DenseSample(x), CountedSample(atoms, (x[:, :, None] == atoms).sum(axis=1))]


def test_the_smooth_sensitivity_is_that_of_its_definition(given: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(3, 16))
        m, share = int(rng.integers(0, (n - 1) // 2 + 1)), float(rng.uniform(0.01, 0.9))
        x = rng.standard_t(2, (3, n)) if trial % 2 else rng.integers(-4, 6, (3, n)).astype(float)
        estimator = SmoothTrimmedMean(lower=LOWER, upper=UPPER, trim=m, dilation=share)
        for sample in samples(x):
            estimator.run(sample, Ledger(PureDP(float(np.exp(rng.uniform(-3, 2)))), rng))
            wanted = np.array([smooth(row, m, given["t"]) for row in x]).T
            np.testing.assert_allclose(given["mean"], wanted[0], rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(given["smooth"], wanted[1], rtol=1e-12)


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)])
def test_neighbours_are_within_it(given: dict[str, Any], budget: Budget) -> None:
    rng = np.random.default_rng(1)
    estimator = SmoothTrimmedMean(lower=LOWER, upper=UPPER, trim=4)
    x = np.round(rng.standard_normal((4000, 12)) * rng.choice([0.1, 3], (4000, 1)), 1)
    found = []
    for records in (x, np.concatenate([rng.uniform(-5, 5, (4000, 1)), x[:, 1:]], axis=1)):
        estimator.run(DenseSample(records), Ledger(budget, rng))
        found.append((given["mean"], given["smooth"]))
    (mean, one), (other_mean, other) = found
    assert np.abs(np.log(one / other)).max() == pytest.approx(given["t"], rel=1e-9)
    reached = np.abs(mean - other_mean) / np.minimum(one, other)
    assert 0.99 < reached.max() <= 1 + 1e-9


def test_the_search_is_near_linear(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """n^2/9 pairs by the formula; at such a small t none can be left out beforehand."""
    tried, search = [], smooth_trimmed._search

    def counted(*about: Any) -> Floats:
        tried.append((about[7] - about[6] + 1).sum())
        return search(*about)

    monkeypatch.setattr(smooth_trimmed, "_search", counted)
    n = 3000
    x = np.random.default_rng(0).standard_cauchy((1, n))
    SmoothTrimmedMean(lower=LOWER, upper=UPPER, trim=n // 3).run(
        DenseSample(x), Ledger(PureDP(1e-4), np.random.default_rng(0))
    )
    assert 0 < sum(tried) < 2 * n * np.log2(n)


def changes_for_a_mean(records: Floats, t: Floats) -> Floats:
    """The least number of records to replace, over all sets of them."""
    n, found = len(records), np.full(t.shape, np.inf)
    for k in range(n + 1):
        for chosen in itertools.combinations(range(n), k):
            rest = np.delete(records, chosen).sum()
            inside = (rest + k * LOWER <= n * t) & (n * t <= rest + k * UPPER)
            found = np.where(inside, np.minimum(found, k), found)
    return found


def changes_for_a_median(records: Floats, t: Floats) -> Floats:
    """Of an odd number: those that are too many on one side of t."""
    above, below = ((records * side > t[:, None] * side).sum(axis=1) for side in (1, -1))
    return np.asarray(np.maximum(above, below) - len(records) // 2)


RECORDS = np.array([-2.0, -2.0, -1.0, 0.5, 3.0])


@pytest.mark.parametrize("statistic", ["mean", "median"])
@pytest.mark.parametrize("counted", [False, True])
def test_the_release_has_the_density_of_its_definition(statistic: Any, counted: bool) -> None:
    """By DKW a false alarm has probability 1e-6. A resolution h adds e^0 over 2h."""
    n, epsilon = 40_000, 1.5
    h = 1e-6 if statistic == "median" else 0.1
    estimator = InverseSensitivity(lower=LOWER, upper=UPPER, statistic=statistic, resolution=h)
    sample = samples(np.broadcast_to(RECORDS, (n, 5)))[counted]
    ledger = Ledger(PureDP(epsilon), np.random.default_rng(0))
    found = np.sort(estimator.run(sample, ledger).value)
    grid = np.linspace(LOWER, UPPER, 70_001)
    if statistic == "mean":
        mean, step = RECORDS.mean(), grid[1] - grid[0]
        grid = np.arange(LOWER - h, UPPER + h + step / 2, step)
        nearest = np.clip(mean, grid - h, grid + h)  # to the mean, within h
        changes = changes_for_a_mean(RECORDS, np.clip(nearest, LOWER, UPPER))
        changes = np.where(np.abs(grid - mean) <= h, 0, changes)
    else:
        changes = changes_for_a_median(RECORDS, grid)
    weights = np.exp(-epsilon * changes / 2)
    below = np.interp(found, grid, np.cumsum(weights) / weights.sum())
    free = (found > LOWER) & (found < UPPER)  # what is moved to the ends is there at once
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
    found = InverseSensitivity(lower=LOWER, upper=UPPER).run(sample, ledger)
    mean = np.abs(found.value - 0.5).mean() * 1000 * epsilon / (UPPER - LOWER)
    assert mean == pytest.approx(1, abs=4.9 / np.sqrt(trials) + 0.002)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="upper must exceed lower"):
        SmoothTrimmedMean(lower=1, upper=1)
    with pytest.raises(ValueError, match="upper must exceed lower"):
        InverseSensitivity(lower=1, upper=0)
    with pytest.raises(ValueError, match="needs a resolution above 0"):
        InverseSensitivity(lower=0, upper=1, statistic="median")
    with pytest.raises(ValueError, match="trim = 5 leaves nothing of 10 records"):
        release(SmoothTrimmedMean(lower=0, upper=1, trim=5), np.zeros(10), PureDP(1.0),
                rng=np.random.default_rng(0))  # fmt: skip
