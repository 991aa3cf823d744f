"""Tests of smooth sensitivity against its definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from dpbench import release
from dpbench.estimators import (
    InverseSensitivity,
    SmoothSensitivityTrimmedMean,
    smooth_sensitivity_trimmed,
)
from dpbench.privacy import ZCDP, Budget, Ledger, PureDP
from dpbench.samples import DenseSample
from tests.estimators.few_records import Floats, samples

LOWER, UPPER = -3.0, 4.0


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return a dict with the arguments of the last call of `Ledger.add_smooth_noise`."""
    last: dict[str, Any] = {}

    def kept(
        ledger: Ledger, values: Floats, sensitivity: Floats, t: float, *, noise: str
    ) -> Floats:
        last.update(mean=values, smooth=sensitivity, t=t, noise=noise)
        ledger.pay()
        return values

    monkeypatch.setattr(Ledger, "add_smooth_noise", kept)
    return last


def smooth(records: Floats, m: int, t: float) -> tuple[float, float]:
    """Return the trimmed mean, and its smooth sensitivity by the formula over all k and l."""
    n, x = len(records), np.sort(np.clip(records, LOWER, UPPER))
    at = np.concatenate([x, np.full(n + 2, UPPER), np.full(n + 2, LOWER)])  # x_(i) at i - 1
    gaps = [
        np.exp(-k * t) * (at[n - m + k - j] - at[m - j]) for k in range(n + 1) for j in range(k + 2)
    ]
    return float(x[m : n - m].mean()), float(max(gaps) / (n - 2 * m))


def test_the_smooth_sensitivity_is_that_of_its_definition(given: dict[str, Any]) -> None:
    rng = np.random.default_rng(0)
    for trial in range(60):
        n = int(rng.integers(3, 16))
        m, share = int(rng.integers(0, (n - 1) // 2 + 1)), float(rng.uniform(0.01, 0.9))
        x = rng.standard_t(2, (3, n)) if trial % 2 else rng.integers(-4, 6, (3, n)).astype(float)
        estimator = SmoothSensitivityTrimmedMean(
            lower=LOWER, upper=UPPER, trimmed_records=m, smoothness_share=share
        )
        for sample in samples(x):
            estimator.run(sample, Ledger(PureDP(float(np.exp(rng.uniform(-3, 2)))), rng))
            expected = np.array([smooth(row, m, given["t"]) for row in x]).T
            mean = given["mean"] + (LOWER + UPPER) / 2
            np.testing.assert_allclose(mean, expected[0], rtol=1e-12, atol=1e-13)
            np.testing.assert_allclose(given["smooth"], expected[1], rtol=1e-12)


@pytest.mark.parametrize(("n", "t"), [(12, 0.7), (1000, 0.02), (1000, 0.3), (10**9, 0.01), (2, 1)])
def test_by_default_the_range_of_records_has_a_weight_of_one_in_n(n: int, t: float) -> None:
    """The range b - a is m + 1 changes away, and m is the smallest number with n e^(-tm) <= 1."""
    m = SmoothSensitivityTrimmedMean(lower=LOWER, upper=UPPER).count_trimmed(n, t)
    assert 2 * m < n
    assert n * np.exp(-t * m) <= 1 or n - 2 * m <= 2
    assert m == 0 or n * np.exp(-t * (m - 1)) > 1


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)])
def test_neighbours_are_within_it(given: dict[str, Any], budget: Budget) -> None:
    rng = np.random.default_rng(1)
    estimator = SmoothSensitivityTrimmedMean(lower=LOWER, upper=UPPER, trimmed_records=4)
    x = np.round(rng.standard_normal((4000, 12)) * rng.choice([0.1, 3], (4000, 1)), 1)
    results = []
    for records in (x, np.concatenate([rng.uniform(-5, 5, (4000, 1)), x[:, 1:]], axis=1)):
        estimator.run(DenseSample(records), Ledger(budget, rng))
        results.append((given["mean"], given["smooth"]))
    (mean, one), (other_mean, other) = results
    assert np.abs(np.log(one / other)).max() == pytest.approx(given["t"], rel=1e-9)
    reached = np.abs(mean - other_mean) / np.minimum(one, other)
    assert 0.99 < reached.max() <= 1 + 1e-9


def test_the_search_is_near_linear(given: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """The search tries about n log n of n^2/9 pairs; at this t none can be left out before."""
    tried, search = [], smooth_sensitivity_trimmed._search

    def counted(*arguments: Any) -> Floats:
        tried.append((arguments[7] - arguments[6] + 1).sum())
        return search(*arguments)

    monkeypatch.setattr(smooth_sensitivity_trimmed, "_search", counted)
    n = 3000
    x = np.random.default_rng(0).standard_cauchy((1, n))
    SmoothSensitivityTrimmedMean(lower=LOWER, upper=UPPER, trimmed_records=n // 3).run(
        DenseSample(x), Ledger(PureDP(1e-4), np.random.default_rng(0))
    )
    assert 0 < sum(tried) < 2 * n * np.log2(n)


def test_bad_parameters_are_refused() -> None:
    with pytest.raises(ValueError, match="upper must exceed lower"):
        SmoothSensitivityTrimmedMean(lower=1, upper=1)
    with pytest.raises(ValueError, match="upper must exceed lower"):
        InverseSensitivity(lower=1, upper=0)
    with pytest.raises(ValueError, match="needs a resolution above 0"):
        InverseSensitivity(lower=0, upper=1, statistic="median")
    with pytest.raises(ValueError, match="trimmed_records = 5 leaves nothing of 10 records"):
        release(SmoothSensitivityTrimmedMean(lower=0, upper=1, trimmed_records=5), np.zeros(10),
            PureDP(1.0),
                rng=np.random.default_rng(0))  # fmt: skip
