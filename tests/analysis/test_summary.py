"""Statistics over trials, and bootstrap replicates of them."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.analysis.resample import DRAWS, JOINT_DRAWS, replicates, resampled
from dpbench.analysis.results import Results
from dpbench.analysis.summary import order_statistic, quantile, statistics
from dpbench.arrays import Floats
from dpbench.sweep.metrics import ERRORS, EXTRAS, METRICS
from tests.support import assert_frequencies
from tests.sweeps import CLIP, Made


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
        "trimmed_mean": stats.trim_mean(errors, 0.1),
        "trimmed_mean_se": np.std(winsorised, ddof=1) / (0.8 * np.sqrt(357)),
        "signed_mean": signed.mean(), "signed_mean_se": stats.sem(signed),
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
    assert np.isinf([row["q90"], row["trimmed_mean"], row["bias_q90"]]).all()
    assert row["q50"] == errors[64]
    assert row["mean_error"] == pytest.approx(errors[15:].mean())
    nothing = _row(np.full(100, mark))
    assert np.isnan(nothing["mean_error"])
    assert np.isinf(nothing["noise_q90"])
    # Of code that draws its own noise the error is known, bias and noise are not.
    row = _row(errors, bias=np.full(100, np.nan), noise=np.full(100, np.nan))
    assert np.isnan([row["bias_q90"], row["noise_q90"]]).all()
    assert row["private_q90"] == row["q90"] == errors[89]


@pytest.mark.parametrize(
    ("q", "trials", "rank"),
    [(0.9, 10, 9), (0.9, 1, 1), (0.9, 201, 181), (0.5, 9, 5), (0.98, 50, 49)],
)
def test_rank_of_the_quantile(q: float, trials: int, rank: int) -> None:
    assert order_statistic(q, trials) == rank
    values = np.random.default_rng(rank).permutation(trials).astype(float)
    assert quantile(np.stack([values, values]), q).tolist() == [rank - 1] * 2


def test_statistics_of_what_only_some_release() -> None:
    values = np.random.default_rng(1).random((3, 50))
    values[1, :10] = np.inf  # nothing released
    values[2] = np.nan  # a setting without intervals
    values[0, :2] = np.nan  # a block that raised
    missed = np.where(np.isfinite(values), values < 0.3, values)
    known = {**dict.fromkeys((*ERRORS, "width", "tv", "core"), values), "missed": missed}
    found = statistics(known)
    ordered = np.sort(np.where(np.isfinite(values), values, np.inf))
    for column, rank in (("width_q50", 25), ("tv_q50", 25), ("tv_q90", 45), ("core_q50", 25)):
        np.testing.assert_array_equal(found[column], [*ordered[:2, rank - 1], np.nan])
    rates = [((values[0] < 0.3).sum() + 2) / 50, ((values[1] < 0.3).sum() + 10) / 50]
    np.testing.assert_allclose(found["miss_rate"], [*rates, np.nan])
    assert np.isnan([found["promise_q90"], found["outside_q90"]]).all()
    assert {name for name, one in METRICS.items() if one.of in EXTRAS} <= set(found)


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
    noise = np.random.default_rng(1).permutation(200).astype(float)
    noise[0] = np.nan  # a failure stays one
    drawn = np.stack(list(resampled(FOUR.keys, [noise] * 8, shared=shared)))
    assert drawn.shape == (8, JOINT_DRAWS + 1, 200)
    about = FOUR.keys[["n"] if shared else ["n", "epsilon"]]
    names = list(about.itertuples(index=False, name=None))
    for i, j in np.ndindex(8, 8):
        assert np.array_equal(drawn[i, 1:], drawn[j, 1:]) == (names[i] == names[j])
    assert np.all(drawn[:, 0] == np.where(np.isnan(noise), np.inf, noise))
    # Every trial is drawn as often as any other; rows that share their draws count once.
    once = drawn[[names.index(name) for name in sorted(set(names))], 1:]
    _, counts = np.unique(once, return_counts=True)
    assert_frequencies(counts, np.full(200, 1 / 200))
    results = Results(FOUR.keys.assign(q50=0.0), {"error": [noise] * 8}, [])
    joint = replicates(results, "q50", joint=True, shared=shared)
    wanted = np.quantile(drawn[:, 1:], 0.5, axis=2, method="inverted_cdf")
    np.testing.assert_array_equal(joint[:, 1:], wanted)
