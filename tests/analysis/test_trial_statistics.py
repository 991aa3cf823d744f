"""Statistics over trials."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.trial_statistics import metric_interval, order_statistic, quantile, statistics
from dpbench.arrays import Floats
from dpbench.sweep.metrics import ERRORS, EXTRAS, METRICS


def _row(errors: Floats, **parts: Floats) -> dict[str, float]:
    values = {**dict.fromkeys(ERRORS, errors), **parts}
    found = statistics({name: one[None] for name, one in values.items()})
    return {name: float(column[0]) for name, column in found.items()}


def test_statistics_are_those_of_a_naive_computation() -> None:
    rng = np.random.default_rng(0)
    errors, sampling = np.abs(rng.standard_t(2, (2, 357)))
    signed = errors * rng.choice([-1.0, 1.0], 357, p=[0.2, 0.8])
    row, ordered = _row(errors, sampling=sampling, signed=signed), np.sort(errors)
    winsorised = np.clip(errors, ordered[35], ordered[-36])
    wanted = {
        "trials": 357, "failures": 0, "failure_rate": 0, "mean_error": errors.mean(),
        "mean_error_se": stats.sem(errors), "rmse": np.sqrt(np.mean(errors**2)),
        "q50": np.quantile(errors, 0.5, method="inverted_cdf"),
        "q90": np.quantile(errors, 0.9, method="inverted_cdf"),
        "sampling_q90": np.quantile(sampling, 0.9, method="inverted_cdf"),
        "trimmed_mean_error": stats.trim_mean(errors, 0.1),
        "trimmed_mean_error_se": np.std(winsorised, ddof=1) / (0.8 * np.sqrt(357)),
        "bias": signed.mean(), "bias_se": stats.sem(signed),
        "signed_sd": np.std(signed, ddof=1),
    }  # fmt: skip
    assert {name: row[name] for name in wanted} == pytest.approx(wanted)


@pytest.mark.parametrize("trials", [1, 5, 200, 1400])
def test_q90_interval_covers(trials: int) -> None:
    # Exact: the ranks of the ends have binomial probabilities. Uniform errors in order.
    row = _row(np.arange(1.0, trials + 1))
    low = int(row["q90_low"])
    high = trials + 1 if np.isinf(row["q90_high"]) else int(row["q90_high"])
    assert stats.binom.cdf(low - 1, trials, 0.9) <= 0.025
    assert stats.binom.cdf(high - 1, trials, 0.9) >= 0.975
    if low:  # no narrower interval of order statistics has this coverage at each end
        assert stats.binom.cdf(low, trials, 0.9) > 0.025
    assert high == 1 or stats.binom.cdf(high - 2, trials, 0.9) < 0.975


@pytest.mark.parametrize("mark", [np.nan, np.inf])
def test_failures_are_counted_and_never_improve_a_quantile(mark: float) -> None:
    errors = np.linspace(1, 2, 100)
    row = _row(np.where(np.arange(100) < 15, mark, errors))
    assert [row["failures"], row["failure_rate"]] == pytest.approx([15, 0.15])
    assert np.isinf([row["q90"], row["trimmed_mean_error"], row["clipping_q90"]]).all()
    assert row["q50"] == errors[64]
    assert row["mean_error"] == pytest.approx(errors[15:].mean())
    nothing = _row(np.full(100, mark))
    assert np.isnan(nothing["mean_error"])
    assert np.isinf(nothing["noise_q90"])
    # Of code that draws its own noise the error is known, bias and noise are not.
    row = _row(errors, bias=np.full(100, np.nan), noise=np.full(100, np.nan))
    assert np.isnan([row["clipping_q90"], row["noise_q90"]]).all()
    assert row["privacy_cost_q90"] == row["q90"] == errors[89]


@pytest.mark.parametrize(
    ("q", "trials", "rank"),
    [(0.9, 10, 9), (0.9, 1, 1), (0.9, 201, 181), (0.5, 9, 5), (0.98, 50, 49)],
)
def test_rank_of_the_quantile(q: float, trials: int, rank: int) -> None:
    assert order_statistic(q, trials) == rank
    values = np.random.default_rng(rank).permutation(trials).astype(float)
    assert quantile(np.stack([values, values]), q).tolist() == [rank - 1] * 2


def test_a_quantile_does_not_keep_the_trials_in_memory() -> None:
    for found in (quantile(np.arange(100.0), 0.9), quantile(np.ones((3, 100)), 0.9)):
        assert found.base is None


def test_statistics_of_what_only_some_release() -> None:
    values = np.random.default_rng(1).random((3, 50))
    values[1, :10] = np.inf  # nothing released
    values[2] = np.nan  # a setting without intervals
    values[0, :2] = np.nan  # a block that raised
    missed = np.where(np.isfinite(values), values < 0.3, values)
    known = {**dict.fromkeys((*ERRORS, "width", "tv", "core"), values), "missed": missed}
    found = statistics(known)
    ordered = np.sort(np.where(np.isfinite(values), values, np.inf))
    for column, rank in (
        ("width_q50", 25),
        ("tv_q50", 25),
        ("tv_q90", 45),
        ("core_fraction_q50", 25),
    ):
        np.testing.assert_array_equal(found[column], [*ordered[:2, rank - 1], np.nan])
    rates = [((values[0] < 0.3).sum() + 2) / 50, ((values[1] < 0.3).sum() + 10) / 50]
    np.testing.assert_allclose(found["miss_rate"], [*rates, np.nan])
    assert np.isnan([found["error_over_guarantee_q90"], found["outside_q90"]]).all()
    assert {name for name, one in METRICS.items() if one.of in EXTRAS} <= set(found)


def test_squares_are_averaged_over_releases() -> None:
    """A root mean square of 1, 7 and two failures is sqrt((1 + 49)/2) = 5."""
    row = _row(np.array([1.0, np.nan, 7.0, np.inf]))
    assert row["rmse"] == pytest.approx(5, rel=1e-15)
    assert (row["mean_error"], row["failures"]) == (4, 2)


def test_intervals_of_metrics_by_hand() -> None:
    """Jeffreys' for a rate, 1.96 standard errors for a mean, the stored ends for a quantile."""
    rows = pd.DataFrame(
        {"miss_rate": [0.0, 0.25], "trials": [40, 400], "mean_error": [2.0, 3.0],
         "mean_error_se": [0.5, 0.1], "q90": [1.0, 2.0], "q90_low": [0.5, 1.5],
         "q90_high": [3.0, np.inf], "rmse": [1.0, 1.0]}
    )  # fmt: skip
    low, high = metric_interval(rows, "miss_rate")
    for i, (hits, trials) in enumerate(((0, 40), (100, 400))):
        ends = stats.beta(hits + 0.5, trials - hits + 0.5).ppf([0.025, 0.975])
        assert (low[i], high[i]) == pytest.approx(tuple(ends))
    low, high = metric_interval(rows, "mean_error")
    assert low.tolist() == pytest.approx([2 - 0.98, 3 - 0.196])
    assert high.tolist() == pytest.approx([2 + 0.98, 3 + 0.196])
    assert [x.tolist() for x in metric_interval(rows, "q90")] == [[0.5, 1.5], [3.0, np.inf]]
    assert all(x.isna().all() for x in metric_interval(rows, "rmse"))
