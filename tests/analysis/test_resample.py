"""Bootstrap replicates of statistics, by independent routes."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.stats import binom

from dpbench.analysis.resample import (
    DRAWS,
    JOINT_DRAWS,
    interval,
    joint_replicates,
    quantile_replicates,
    replicates,
    resample_counts,
)
from dpbench.analysis.summary_table import Results
from dpbench.analysis.trial_statistics import order_statistic
from dpbench.arrays import Floats
from dpbench.sweep.metrics import METRICS
from tests.support import assert_frequencies
from tests.sweeps import CLIP, Made

FALSE_ALARM = 1e-6
ROWS = 20_000


def test_replicates_of_a_quantile_have_their_law() -> None:
    """Enumerated: at most rank r iff at least 36 of 40 resampled trials are, Bin(40, r/40).

    By the inequality of Dvoretzky, Kiefer and Wolfowitz a false alarm has probability 1e-6.
    """
    trials, rng = 40, np.random.default_rng(0)
    ranks = np.arange(1.0, trials + 1)
    draws = quantile_replicates(np.stack([ranks, ranks]), 0.9, rng, ROWS)
    wanted = binom.sf(35, trials, ranks / trials)
    found = (draws[:, :, None] <= ranks).mean(axis=1)
    assert np.abs(found - wanted).max() < np.sqrt(np.log(4 / FALSE_ALARM) / (2 * ROWS))
    assert (draws[0] != draws[1]).any()


def test_one_row_and_several_draw_alike() -> None:
    values = np.sort(np.random.default_rng(1).normal(size=(3, 50)))
    together = quantile_replicates(values, 0.5, np.random.default_rng(2), 100)
    rng = np.random.default_rng(2)
    assert [quantile_replicates(one, 0.5, rng, 100).tolist() for one in values] == together.tolist()


# Replicates.

FOUR = Made(
    estimators={"a": CLIP, "b": {**CLIP, "upper": 2}},
    budgets={"pure": {"kind": "pure_dp", "epsilon": [0.1, 1]}},
)


def _replicates(column: str, values: list[Floats], **options: Any) -> Floats:
    """Without the first, which is the column itself."""
    table = Made(n=range(100, 100 + len(values))).keys.assign(**{column: 7.0})
    found = replicates(Results(table, {METRICS[column].of: values}, []), column, **options)
    assert np.all(found[:, 0] == 7)
    return found[:, 1:]


@pytest.mark.parametrize("joint", [False, True])
def test_replicates_of_a_quantile_have_the_law_of_the_bootstrap(joint: bool) -> None:
    # Resampling indices and sorting gives a rank of at most r with probability P(Bin(N, r/N) >= j).
    trials, rows = 20, 30
    shuffled = np.random.default_rng(2).permutation(np.arange(1.0, trials + 1))
    found = _replicates("q90", [shuffled] * rows, joint=joint)
    assert found.shape == (rows, JOINT_DRAWS if joint else DRAWS)
    at_most = stats.binom.sf(order_statistic(0.9, trials) - 1, trials, np.arange(21) / trials)
    counts = np.bincount(found.astype(int).ravel(), minlength=trials + 1)[1:]
    assert_frequencies(counts, np.diff(at_most))


def test_replicates_of_a_rate_have_the_law_of_jeffreys() -> None:
    misses = [np.arange(400) % 10 == 0, np.zeros(400), np.ones(400)]
    found = _replicates("miss_rate", [m.astype(float) for m in misses])
    for one, hits in zip(found, (40, 0, 400), strict=True):
        assert stats.kstest(one, stats.beta(hits + 0.5, 400.5 - hits).cdf).pvalue > 1e-7
    assert np.isnan(_replicates("miss_rate", [np.where(misses[0], np.nan, 0.0)])).all()


def test_replicates_of_means_have_the_summarys_error() -> None:
    columns = {"mean_error": [1.0, 2.0, 5.0, 3.0], "mean_error_se": [0.1, 0.01, 2.0, 1e-3],
               "lower_bound": [1.0, 2.0, 3.0, 4.0]}  # fmt: skip
    results = Results(Made(n=[10, 20, 30, 40]).keys.assign(**columns), {}, [])
    found = replicates(results, "mean_error")
    assert found[:, 0].tolist() == columns["mean_error"]
    z = (found[:, 1:] - found[:, :1]) / np.array(columns["mean_error_se"])[:, None]
    assert all(stats.kstest(row, "norm").pvalue > 1e-7 for row in z)
    # Independent: six correlations, each beyond this with probability 1e-7.
    correlation = np.corrcoef(z)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlation) < stats.norm.isf(5e-8) / math.sqrt(DRAWS))


def test_replicates_of_a_root_mean_square() -> None:
    """Squares of a normal law have variance 2: the root of their mean one of 1/(2 N), times 9."""
    values = 3 * np.random.default_rng(4).standard_normal(20_000)
    for joint in (False, True):
        (found,) = _replicates(
            "rmse", [np.append(values, np.nan) if not joint else values], joint=joint
        )
        assert found.mean() == pytest.approx(math.sqrt(np.mean(values**2)), rel=2e-3)
        # Six standard deviations of the estimate from 400 draws: false alarm below 1e-8.
        assert found.std() == pytest.approx(3 * math.sqrt(1 / 40_000), rel=6 / math.sqrt(800))


@pytest.mark.parametrize("column", ["q90", "miss_rate", "mean_error", "joint"])
def test_replicates_of_a_row_do_not_depend_on_others(column: str) -> None:
    rng = np.random.default_rng(3)
    values = [(rng.random(50) < 0.3) + rng.random(50) * (column != "miss_rate") for _ in range(8)]
    options = {"joint": column == "joint", "shared": True}
    column = "q90" if column == "joint" else column
    table = FOUR.keys.assign(mean_error_se=1.0, **{column: rng.random(8)})
    results = Results(table, {METRICS[column].of: values}, [])
    whole = replicates(results, column, **options)
    for rows in ([7, 2, 0], [3]):
        of = {name: [vectors[i] for i in rows] for name, vectors in results.values.items()}
        found = replicates(Results(table.iloc[rows], of, []), column, **options)
        np.testing.assert_array_equal(found, whole[rows])
    if not options["joint"]:
        assert len(np.unique(whole[:, 1])) == 8  # and none is another's


@pytest.mark.parametrize("shared", [True, False])
def test_rows_on_the_same_data_resample_the_same_trials(shared: bool) -> None:
    ranks = np.random.default_rng(1).permutation(200).astype(float)
    ranks[0] = np.nan  # a failure stays one
    drawn = joint_replicates(FOUR.keys, [ranks] * 8, "quantile", 0.5, shared=shared)
    names = list(
        FOUR.keys[["n"] if shared else ["n", "epsilon"]].itertuples(index=False, name=None)
    )
    for i, j in np.ndindex(8, 8):
        assert np.array_equal(drawn[i], drawn[j]) == (names[i] == names[j])
    results = Results(FOUR.keys.assign(q50=0.0), {"error": [ranks] * 8}, [])
    joint = replicates(results, "q50", joint=True, shared=shared)
    np.testing.assert_array_equal(joint[:, 1:], drawn)


def test_every_trial_is_drawn_as_often_as_any_other() -> None:
    counts = resample_counts("data", 200)
    assert np.all(counts.sum(axis=0) == 200)
    assert_frequencies(counts.sum(axis=1).astype(int), np.full(200, 1 / 200))
    # A count has variance 1 - 1/200, which 80,000 counts give within 0.6 per cent (one sigma).
    assert counts.var() == pytest.approx(1 - 1 / 200, rel=0.04)
    assert not np.array_equal(counts, resample_counts("other data", 200))


@pytest.mark.parametrize("q", [0.0, 0.005, 0.5, 0.9, 0.999, 1.0])
@pytest.mark.parametrize("kind", ["normal", "ties", "failures"])
def test_joint_replicates_are_those_of_sorted_resamples(q: float, kind: str) -> None:
    """Each resample is written out, and NumPy computes its statistic."""
    values = np.random.default_rng(5).standard_normal(1500)
    if kind == "ties":
        values = np.round(values)
    if kind == "failures":
        values[:300] = np.nan
    table = FOUR.keys.iloc[:1]
    (data,) = table[["distribution", "n"]].itertuples(index=False)
    counts = resample_counts("|".join(map(str, data)), 1500).T.astype(int)
    resamples = np.stack([np.repeat(np.nan_to_num(values, nan=np.inf), row) for row in counts])
    found = joint_replicates(table, [values], "quantile", q, shared=True)
    wanted = np.quantile(resamples, q, axis=1, method="inverted_cdf")
    np.testing.assert_array_equal(found, wanted[None])
    means = joint_replicates(table, [values], "mean", shared=True)
    np.testing.assert_allclose(means[0], resamples.mean(axis=1), rtol=1e-9, atol=1e-12)
    roots = joint_replicates(table, [values], "rms", shared=True)
    np.testing.assert_allclose(roots[0], np.sqrt((resamples**2).mean(axis=1)), rtol=1e-12)


def test_a_resample_may_hold_one_trial_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then its quantile is that trial's value, far from the quantile of all trials."""
    counts = np.zeros((1000, JOINT_DRAWS), np.float32)
    counts[np.arange(JOINT_DRAWS), np.arange(JOINT_DRAWS)] = 1000
    monkeypatch.setattr("dpbench.analysis.resample.resample_counts", lambda *_: counts)
    found = joint_replicates(FOUR.keys.iloc[:1], [np.arange(1000.0)], "quantile", 0.9, shared=True)
    np.testing.assert_array_equal(found[0], np.arange(JOINT_DRAWS))


def test_the_interval_is_of_percentiles() -> None:
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert interval(np.array([3.0, *draws])) == pytest.approx((3.0, 25.0, 975.0))
