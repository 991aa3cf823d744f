from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.summary import (
    CELL,
    ByCell,
    order_statistic,
    quantile_replicates,
    summarise,
)


def _rows(errors: np.ndarray, **labels: object) -> pd.DataFrame:
    """Rows of one cell whose parts are all the error."""
    cell = {
        "distribution": "d",
        "family": "f",
        "k": 2.0,
        "estimator": "e",
        "privacy": "pure",
        "epsilon": 1.0,
        "delta": np.nan,
        "rho": np.nan,
        "n": 10,
        "d": 1,
        "lower_bound": np.nan,
    }
    metrics = dict.fromkeys(("error", "sampling", "bias", "noise", "private"), errors)
    return pd.DataFrame({**cell, **labels, **metrics})


def test_statistics_are_those_of_a_naive_computation() -> None:
    errors = np.abs(np.random.default_rng(0).standard_t(2, 357))
    row = summarise(_rows(errors)).iloc[0]
    ordered = np.sort(errors)
    assert row["trials"] == 357
    assert row["failures"] == 0
    assert row["mean_error"] == pytest.approx(errors.mean())
    assert row["mean_error_se"] == pytest.approx(stats.sem(errors))
    assert row["rmse"] == pytest.approx(np.sqrt(np.mean(errors**2)))
    for name, q in (("q50", 0.5), ("q90", 0.9)):
        assert row[name] == np.quantile(errors, q, method="inverted_cdf")
    assert row["trimmed_mean"] == pytest.approx(stats.trim_mean(errors, 0.1))
    winsorised = np.clip(errors, ordered[35], ordered[-36])
    expected = np.std(winsorised, ddof=1) / (0.8 * np.sqrt(357))
    assert row["trimmed_mean_se"] == pytest.approx(expected)
    assert row["q90_low"] in ordered
    assert row["q90_low"] < row["q90"] < row["q90_high"]


@pytest.mark.parametrize("trials", [1, 5, 50, 200, 1400])
def test_q90_interval_covers(trials: int) -> None:
    # Exact: the ranks of the ends have binomial probabilities. Uniform errors in order.
    row = summarise(_rows(np.arange(1.0, trials + 1))).iloc[0]
    low = 0 if row["q90_low"] == 0 else int(row["q90_low"])
    high = trials + 1 if np.isinf(row["q90_high"]) else int(row["q90_high"])
    assert stats.binom.cdf(low - 1, trials, 0.9) <= 0.025
    assert stats.binom.cdf(high - 1, trials, 0.9) >= 0.975
    if low:  # no narrower interval of order statistics has this coverage at each end
        assert stats.binom.cdf(low, trials, 0.9) > 0.025
    assert high == 1 or stats.binom.cdf(high - 2, trials, 0.9) < 0.975


def test_failures_are_counted_and_never_improve_a_quantile() -> None:
    errors = np.linspace(1, 2, 100)
    broken = errors.copy()
    broken[:15] = np.nan
    row, whole = summarise(_rows(broken)).iloc[0], summarise(_rows(errors)).iloc[0]
    assert row["failures"] == 15
    assert row["failure_rate"] == pytest.approx(0.15)
    assert np.isinf(row["q90"])
    assert np.isinf(row["trimmed_mean"])
    assert row["q50"] > whole["q50"]
    assert row["mean_error"] == pytest.approx(errors[15:].mean())


def test_cells_of_different_size_and_mixed_order() -> None:
    a, b = np.arange(1.0, 31), np.arange(101.0, 111)
    rows = pd.concat([_rows(a, estimator="x"), _rows(b, estimator="y")]).sample(
        frac=1, random_state=0
    )
    table = summarise(rows).set_index("estimator")
    assert table.loc["x", "trials"] == 30
    assert table.loc["y", "trials"] == 10
    assert table.loc["x", "q90"] == 27
    assert table.loc["y", "q90"] == 109


def test_columns_keep_the_contract() -> None:
    columns = list(summarise(_rows(np.ones(5))).columns)
    assert columns[:10] == list(CELL)[:10]
    assert columns.index("lower_bound") == columns.index("private_q90") + 1


@pytest.mark.parametrize(("trials", "rank"), [(10, 9), (200, 180), (1, 1), (201, 181)])
def test_rank_of_the_quantile(trials: int, rank: int) -> None:
    assert order_statistic(0.9, trials) == rank


def test_replicates_have_the_law_of_the_bootstrap() -> None:
    # Resampling indices and sorting gives rank r with probability P(Bin(N, r/N) >= j) -
    # P(Bin(N, (r-1)/N) >= j). Chi-square over ranks; false alarm 1e-6.
    trials, draws = 20, 20_000
    rows = _rows(np.arange(1.0, trials + 1))
    grouped = ByCell(rows)
    found = quantile_replicates(grouped.cells, grouped.errors("error"), draws=draws)[0]
    share = np.arange(trials + 1) / trials
    at_most = stats.binom.sf(order_statistic(0.9, trials) - 1, trials, share)
    expected = draws * np.diff(at_most)
    counts = np.bincount(found.astype(int), minlength=trials + 1)[1:]
    large = expected >= 5
    statistic = np.sum((counts[large] - expected[large]) ** 2 / expected[large])
    assert statistic < stats.chi2.isf(1e-6, large.sum())


def test_replicates_of_a_cell_do_not_depend_on_others() -> None:
    errors = np.random.default_rng(1).random(50)
    one = ByCell(_rows(errors, estimator="x"))
    two = ByCell(pd.concat([_rows(errors + 1, estimator="a"), _rows(errors, estimator="x")]))
    alone = quantile_replicates(one.cells, one.errors("error"), draws=100)
    beside = quantile_replicates(two.cells, two.errors("error"), draws=100)
    np.testing.assert_array_equal(alone[0], beside[1])
