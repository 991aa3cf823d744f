from __future__ import annotations

import dataclasses
import math
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray

from dpbench.analysis.summary import EXTRA_COLUMNS
from dpbench.distributions import (
    ContaminatedGaussian,
    Distribution,
    Gaussian,
    StudentT,
    TwoPoint,
)
from dpbench.estimators import (
    ClippedMean,
    EmpiricalMean,
    Estimate,
    Estimator,
    KSU20Mean,
    KSU20Range,
    LearnedGaussian,
    ShrinkingIntervals,
)
from dpbench.registry import validated
from dpbench.privacy import ApproxDP, Ledger, NonPrivate, PureDP
from dpbench.runner.block import (
    EXTRAS,
    METRICS,
    BlockResult,
    BlockTask,
    Setting,
    block_trials,
    run_block,
)
from dpbench.runner.collect import collect
from dpbench.runner.plan import Cell
from dpbench.runner.store import Store
from dpbench.samples import DenseSample, Sample
from dpbench.seeds import stream

T = StudentT(tail_index=2.5, unit_moment=2)
CLIP = Setting("clip", ClippedMean(lower=-1, upper=1), PureDP(1.0))
MEAN = Setting("mean", EmpiricalMean(), NonPrivate())


def _task(*settings: Setting, law: Distribution = T, n: int = 1000, index: int = 0) -> BlockTask:
    return BlockTask((("law", law),), n, settings, 0, index, "cell")


def test_errors_come_apart() -> None:
    # The clean mean is the target, not the mixture's: its distance is part of `sampling`.
    law = ContaminatedGaussian(eta=0.1, gap=100, location=3)
    task = _task(CLIP, law=law)
    values = run_block(task).values
    name = (0, repr_of(law), "", 1000, 0)
    sample = law.sample(stream("data", *name), task.trials, 1000)
    np.testing.assert_array_equal(values["sampling"][0, 0], np.abs(sample.mean() - 3))
    clipped = sample.clipped_mean(-1, 1)
    np.testing.assert_array_equal(values["bias"][0, 0], np.abs(clipped - sample.mean()))
    signed = np.array(list(np.ndindex(2, 2, 2))) * 2 - 1
    parts = np.stack([values[m][0, 0] for m in ("sampling", "bias", "noise")])
    gap = np.abs(np.abs(signed @ parts) - values["error"][0, 0]).min(axis=0)
    np.testing.assert_allclose(gap, 0, atol=1e-9)


def repr_of(law: Distribution) -> str:
    """The name that seeds the law's data."""
    from dpbench.registry import canonical

    return canonical(law)


def test_bits_do_not_depend_on_the_other_settings() -> None:
    alone = run_block(_task(CLIP)).values
    beside = run_block(_task(MEAN, CLIP)).values
    for metric in METRICS:
        np.testing.assert_array_equal(alone[metric][0, 0], beside[metric][0, 1])


def test_noise_and_data_differ_between_blocks_and_seeds() -> None:
    base = run_block(_task(CLIP)).values
    for other in (_task(CLIP, index=1), dataclasses.replace(_task(CLIP), seed=1)):
        values = run_block(other).values
        assert not np.any(values["sampling"] == base["sampling"])
        assert not np.any(values["noise"] == base["noise"])


def test_renaming_a_label_changes_no_bit() -> None:
    renamed = dataclasses.replace(CLIP, label="other")
    one, two = run_block(_task(CLIP)).values, run_block(_task(renamed)).values
    np.testing.assert_array_equal(one["error"], two["error"])


@validated
class Breaks(Estimator):
    """Raises."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        raise RuntimeError("on purpose")


@validated
class WrongShape(Estimator):
    """Returns one number for all trials."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        return Estimate(np.zeros(1), np.zeros(1))


@pytest.mark.parametrize(
    ("estimator", "message"),
    [(Breaks(), "RuntimeError: on purpose"), (WrongShape(), "returned shapes")],
)
def test_a_failure_is_recorded_and_the_others_go_on(estimator: Estimator, message: str) -> None:
    result = run_block(_task(Setting("broken", estimator, PureDP(1.0)), CLIP))
    assert message in result.failures[0, 0]
    assert np.all(np.isnan(result.values["error"][0, 0]))
    assert np.all(np.isfinite(result.values["error"][0, 1]))


@pytest.mark.parametrize(("n", "trials"), [(10, 200), (10**5, 31), (10**6, 3), (10**8, 1)])
def test_block_size(n: int, trials: int) -> None:
    assert block_trials(n, T) == trials
    assert block_trials(n, TwoPoint(p=0.1, k=2)) == 200


# Intervals, learned Gaussians and promises.

Floats = NDArray[np.float64]
LAW = Gaussian(location=0.5, scale=2.0)


@validated
class Preset(Estimator):
    """Releases numbers that cycle through the trials, and nothing where one is NaN."""

    interval: bool = True
    scale: bool = True
    accuracy: float | None = 0.25

    LOW = np.array([-1.0, 0.5, 0.6, -np.inf, np.nan])
    HIGH = np.array([0.5, 3.0, 3.0, np.inf, np.nan])
    VALUE = np.array([0.0, 0.5, 1.5, -2.5, np.nan])
    SCALE = np.array([2.0, 1.0, 3.0, 2.0, np.nan])

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        def cycle(numbers: Floats) -> Floats:
            return np.resize(numbers, sample.trials)

        value = cycle(self.VALUE)
        return Estimate(
            value,
            value,
            interval=(cycle(self.LOW), cycle(self.HIGH)) if self.interval else None,
            scale=cycle(self.SCALE) if self.scale else None,
            accuracy=self.accuracy,
        )


# The core is for the books only; see test_vectors.
RELEASED = tuple(metric for metric in EXTRAS if metric != "core")


def _preset(**options: bool | float | None) -> Setting:
    return Setting("preset", Preset(**options), PureDP(1.0))  # type: ignore[arg-type]


def test_the_extra_metrics_of_known_releases() -> None:
    task = _task(_preset(), CLIP, law=LAW, n=40)
    values = {metric: table[0, 0] for metric, table in run_block(task).values.items()}
    width = np.resize([1.5, 2.5, 2.4, np.inf, np.inf], 200)
    np.testing.assert_array_equal(values["width"], width)
    # The target, 0.5, is at an end of the first two: it is in them.
    np.testing.assert_array_equal(values["missed"], np.resize([0.0, 0, 1, 0, 1], 200))
    np.testing.assert_array_equal(values["promise"], np.resize([2.0, 0.0, 4.0, 12.0, np.inf], 200))
    # N(0, 2) and N(-2.5, 2) beside N(0.5, 2): the densities cross half-way between the means.
    one, three = math.erf(0.125 / math.sqrt(2)), math.erf(0.75 / math.sqrt(2))
    tv = values["tv"].reshape(-1, 5)
    np.testing.assert_allclose(tv[:, 0], one, rtol=1e-9)
    np.testing.assert_allclose(tv[:, 3], three, rtol=1e-9)
    np.testing.assert_array_equal(tv[:, 4], np.inf)
    # Against N(0.5, 1), crossing at +-c: 2 Phi(c) - 2 Phi(c/2) with c = sqrt(8/3 ln 2).
    c = math.sqrt(8 / 3 * math.log(2))
    wanted = math.erf(c / math.sqrt(2)) - math.erf(c / 2 / math.sqrt(2))
    np.testing.assert_allclose(tv[:, 1], wanted, rtol=1e-9)

    name = (0, repr_of(LAW), "", 40, 0)
    sample = LAW.sample(stream("data", *name), 200, 40)
    assert isinstance(sample, DenseSample)
    low, high = np.resize(Preset.LOW, 200)[:, None], np.resize(Preset.HIGH, 200)[:, None]
    outside = ((sample.values < low) | (sample.values > high)).mean(axis=1)
    there = np.arange(200) % 5 != 4
    np.testing.assert_allclose(values["outside"][there], outside[there], atol=1e-12)


def test_all_records_are_infinitely_outside_of_no_interval() -> None:
    values = run_block(_task(_preset(), law=LAW, n=40)).values
    assert np.all(np.isinf(values["outside"][0, 0, 4::5]))


def test_ends_of_an_interval_are_inside_of_it() -> None:
    """Records that are exactly at the ends, of counted data."""

    @validated
    class Ends(Estimator):
        """Releases [0, tau]."""

        tau: float

        def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
            zero = np.zeros(sample.trials)
            return Estimate(zero, zero, interval=(zero, zero + self.tau))

    law = TwoPoint(p=0.25, k=2)
    for tau, share in ((law.tau, 0.0), (np.nextafter(law.tau, 0), 0.25)):
        task = _task(Setting("ends", Ends(tau=float(tau)), PureDP(1.0)), law=law, n=10**6)
        outside = run_block(task).values["outside"][0, 0]
        assert np.all(np.abs(outside - share) < 0.01)
        assert share > 0 or np.all(outside == 0)


@pytest.mark.parametrize(
    ("options", "metrics"),
    [
        ({}, RELEASED),
        ({"interval": False}, ("tv", "promise")),
        ({"scale": False}, ("width", "missed", "outside", "promise")),
        ({"accuracy": None}, ("width", "missed", "outside", "tv")),
        ({"interval": False, "scale": False, "accuracy": None}, ()),
    ],
)
def test_extra_metrics_are_there_if_any_setting_has_them(
    options: dict[str, bool | None], metrics: tuple[str, ...]
) -> None:
    alone = run_block(_task(_preset(**options), law=LAW, n=40)).values
    assert set(alone) == {*METRICS, *metrics}
    beside = run_block(_task(CLIP, _preset(**options), MEAN, law=LAW, n=40)).values
    assert set(beside) == {*METRICS, *metrics}
    for metric in metrics:
        np.testing.assert_array_equal(beside[metric][0, 1], alone[metric][0, 0])
        assert np.all(np.isnan(beside[metric][0, [0, 2]]))


def test_settings_without_extras_have_none() -> None:
    assert set(run_block(_task(CLIP, MEAN)).values) == set(METRICS)
    # No distance to a Gaussian is known for another law.
    assert "tv" not in run_block(_task(_preset())).values


REAL = [
    (ShrinkingIntervals(radius=10.0), PureDP(1.0), ("width", "missed", "outside")),
    (KSU20Range(k=2, alpha=0.05, radius=10.0), PureDP(1.0), (*EXTRAS[:3], "promise")),
    (LearnedGaussian(radius=100.0), PureDP(1.0), ("tv",)),
    # Aims at an error that so few records do not promise.
    (KSU20Mean(k=2, radius=10.0), PureDP(1.0), ()),
    (KSU20Mean(k=2, radius=10.0, constants="paper"), PureDP(1.0), ()),
]


@pytest.mark.parametrize(("estimator", "budget", "metrics"), REAL)
def test_which_estimators_have_which(
    estimator: Estimator, budget: PureDP, metrics: tuple[str, ...]
) -> None:
    found = run_block(_task(Setting("e", estimator, budget), law=LAW, n=2000))
    assert not found.failures
    assert set(found.values) == {*METRICS, *metrics}
    for metric in metrics:
        assert np.all(found.values[metric] >= 0)


def test_a_range_that_is_not_found_is_a_miss_and_a_broken_promise() -> None:
    """Too few records for the stability-based histogram to release anything."""
    estimator = KSU20Range(k=2, alpha=0.05, radius=None)
    values = run_block(_task(Setting("range", estimator, ApproxDP(1.0, 1e-9)), law=LAW, n=5)).values
    assert np.all(np.isnan(values["error"]))
    assert np.all(values["missed"] == 1)
    for metric in ("width", "promise"):
        assert np.all(values[metric] == np.inf)


def test_the_store_keeps_extra_metrics(tmp_path: Path) -> None:
    store = Store(tmp_path)
    tasks = [
        _task(_preset(), CLIP, law=LAW, n=40),
        _task(CLIP, _preset(scale=False), law=LAW, n=40, index=1),
        _task(CLIP, MEAN, law=LAW, n=40, index=2),
        _task(Setting("broken", Breaks(), PureDP(1.0)), _preset(), law=LAW, n=40, index=3),
    ]
    for task in tasks:
        result = run_block(task)
        store.write(task, result)
        found = store.read(task)
        assert set(found.values) == set(result.values)
        for metric, table in result.values.items():
            np.testing.assert_array_equal(found.values[metric], table)
        assert found.failures == result.failures


def _cell(*settings: Setting, n: int = 40, trials: int = 300) -> Cell:
    class One:
        moment_order = None
        follows_budget = False

    return Cell("f", One(), n, (("law", LAW),), settings, trials)  # type: ignore[arg-type]


def test_the_summary_of_extra_metrics() -> None:
    cell = _cell(_preset(), CLIP)
    blocks = [run_block(task) for task in cell.tasks(0)]
    metrics = {"miss_rate": {"f"}, "promise_q90": {"f"}, "outside_q90": {"f"}, "q90": {"other"}}
    collected = collect(cell, blocks, metrics)
    table = collected.summary.set_index("estimator")
    columns = [column for names in EXTRA_COLUMNS.values() for column in names]
    assert table.loc["clip", columns].isna().all()
    values = {m: np.concatenate([b.values[m][0, 0] for b in blocks])[:300] for m in RELEASED}
    assert table.loc["preset", "width_q50"] == np.quantile(
        values["width"], 0.5, method="inverted_cdf"
    )
    assert table.loc["preset", "miss_rate"] == pytest.approx(values["missed"].mean()) == 0.4
    for metric, q, column in (
        ("outside", 0.9, "outside_q90"), ("tv", 0.5, "tv_q50"), ("tv", 0.9, "tv_q90"),
        ("promise", 0.9, "promise_q90"),
    ):  # fmt: skip
        wanted = np.quantile(values[metric], q, method="inverted_cdf")
        assert table.loc["preset", column] == wanted
    # A fifth of the trials releases nothing.
    assert np.isinf(table.loc["preset", ["tv_q90", "promise_q90"]].to_numpy(float)).all()

    # What claims get: the values of every trial, in the order of the rows.
    row = collected.summary["estimator"].tolist().index("preset")
    np.testing.assert_array_equal(collected.errors["miss_rate"][row], values["missed"])
    np.testing.assert_array_equal(collected.errors["promise_q90"][row], values["promise"])
    np.testing.assert_array_equal(collected.errors["outside_q90"][row], values["outside"])
    assert np.all(np.isnan(collected.errors["promise_q90"][1 - row]))
    assert all(errors.size == 0 for errors in collected.errors["q90"])


def test_a_summary_without_extras_has_their_columns_all_the_same() -> None:
    cell = _cell(CLIP, MEAN)
    table = collect(cell, [run_block(task) for task in cell.tasks(0)], {}).summary
    for names in EXTRA_COLUMNS.values():
        assert table[list(names)].isna().all(axis=None)
    with_extras = _cell(CLIP, MEAN, _preset())
    other = collect(with_extras, [run_block(task) for task in with_extras.tasks(0)], {}).summary
    pd.testing.assert_index_equal(other.columns, table.columns)


@pytest.mark.parametrize("broken", [0, 1])
def test_blocks_that_raised_count_against_an_estimator(broken: int) -> None:
    """Of two blocks one has no extras; its trials are misses and infinitely wide."""
    cell = _cell(_preset(), trials=400)
    blocks = [run_block(task) for task in cell.tasks(0)]
    nan = {metric: np.full((1, 1, 200), np.nan) for metric in METRICS}
    blocks[broken] = BlockResult(nan, {(0, 0): "RuntimeError: on purpose"})
    row = collect(cell, blocks, {}).summary.iloc[0]
    assert row["miss_rate"] == pytest.approx((0.4 * 200 + 200) / 400)
    assert row["width_q50"] == np.inf
    assert row["failures"] == 200 + 40
