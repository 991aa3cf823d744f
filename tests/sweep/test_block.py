"""One block: errors and their parts, streams, failures, and what else is released."""

from __future__ import annotations

import dataclasses
import math
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import linalg
from threadpoolctl import ThreadpoolController

from dpbench import distributions as laws
from dpbench.arrays import Floats
from dpbench.distributions import Distribution, Gaussian, StudentT, TwoPoint
from dpbench.estimators import ClippedMean, EmpiricalMean, Estimate, Estimator, FriendlyCoreMean
from dpbench.privacy import ApproxDP, Ledger, NonPrivate, PureDP
from dpbench.registry import canonical, validated
from dpbench.samples import DenseSample, Sample
from dpbench.seeds import stream
from dpbench.sweep import block
from dpbench.sweep.block import BlockTask, Setting, replay, replay_name, run_block, steady
from dpbench.sweep.metrics import ERRORS, EXTRAS

T = StudentT(tail_index=2.5, unit_moment=2)
LAW = Gaussian(location=0.5, scale=2.0)
CLIP = Setting("clip", ClippedMean(lower=-1, upper=1), PureDP(1.0))
MEAN = Setting("mean", EmpiricalMean(), NonPrivate())


def _task(*settings: Setting, law: Distribution = T, n: int = 1000) -> BlockTask:
    return BlockTask((("law", law),), n, settings, 0, 0, "cell")


def _data(task: BlockTask, law: Distribution) -> Sample:
    """The data of a block, drawn again: from the stream of the law's name, and of no label's."""
    rng = stream("data", task.seed, canonical(law), task.followed, task.n, task.index)
    return law.sample(rng, task.trials, task.n)


def _parts(value: Floats, before: Floats, empirical: Floats, target: Any) -> dict[str, Floats]:
    return {
        "error": value - target,
        "sampling": empirical - target,
        "bias": before - empirical,
        "noise": value - before,
        "private": value - empirical,
    }


def test_errors_come_apart() -> None:
    # The clean mean is the target, not the mixture's: its distance is part of `sampling`.
    law = laws.ContaminatedGaussian(eta=0.1, gap=100, location=3)
    task = _task(CLIP, law=law)
    values, sample = run_block(task).values, _data(task, law)
    empirical, clipped = sample.mean(), sample.clipped_mean(-1, 1)
    # The noise has a stream of its own, named by the parameters of estimator and budget.
    name = (0, canonical(law), "", 1000, 0, canonical(CLIP.estimator), canonical(CLIP.budget))
    noise = stream("noise", *name).laplace(0.0, 2 / 1000, task.trials)
    wanted = _parts(clipped + noise, clipped, empirical, 3)
    assert set(values) - {"sign"} == set(wanted) == set(ERRORS)
    assert np.array_equal(values["sign"][0], np.sign(wanted["error"]))
    for part, signed in wanted.items():
        np.testing.assert_allclose(values[part][0], np.abs(signed), rtol=1e-12, atol=1e-15)


def test_bits_depend_on_parameters_alone() -> None:
    """Not on labels, on the order of settings and members, or on what else runs."""
    other = dataclasses.replace(CLIP, label="other")
    weak = Setting("clip", CLIP.estimator, PureDP(0.5))
    alone = run_block(_task(CLIP)).values
    members = (("a", LAW), ("b", T))
    beside = run_block(BlockTask(members, 1000, (MEAN, weak, other), 0, 0, "another")).values
    for part in ERRORS:  # by member, then by setting
        np.testing.assert_array_equal(alone[part][0], beside[part][5])
    assert not np.any(beside["noise"][4] == beside["noise"][5])
    np.testing.assert_array_equal(beside["sampling"][3], beside["sampling"][5])
    changes: list[dict[str, Any]] = [{"index": 1}, {"seed": 1}, {"followed": "budget"}]
    for change in changes:
        values = run_block(dataclasses.replace(_task(CLIP), **change)).values
        assert not np.any(values["sampling"] == alone["sampling"])
        assert not np.any(values["noise"] == alone["noise"])


@validated
class Breaks(Estimator):
    """Raises on the second law."""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        if isinstance(sample, DenseSample) and np.any(np.abs(sample.mean() - 0.5) > 1):
            raise RuntimeError("on purpose")
        ledger.pay("nothing")
        return Estimate(sample.mean(), sample.mean())


@validated
class Undrawn(Gaussian):
    """Cannot be drawn."""

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> DenseSample:
        raise OSError("no such data")


def test_failures_are_recorded_by_key_and_the_others_go_on() -> None:
    breaks = Setting("breaks", Breaks(), PureDP(1.0))
    members = (("near", LAW), ("none", Undrawn()), ("far", Gaussian(location=50)))
    task = BlockTask(members, 1000, (breaks, CLIP), 0, 0, "cell")
    result = run_block(task)
    undrawn = dict.fromkeys((2, 3), "OSError: no such data")
    assert result.failures == {**undrawn, 4: "RuntimeError: on purpose"}
    failed = np.isnan(result.values["error"]).all(axis=1)
    assert set(np.flatnonzero(failed)) == {2, 3, 4}
    assert np.isfinite(result.values["error"][~failed]).all()
    # The failure alone, by its name, with its traceback; and what does not fail.
    with pytest.raises(RuntimeError, match="on purpose"):
        replay(task, replay_name("far", 1000, breaks, 0))
    found = replay(task, replay_name("far", 1000, CLIP, 0))
    assert found is not None
    np.testing.assert_array_equal(np.abs(found.value - 50), result.values["error"][5])
    assert replay(task, replay_name("far", 1000, CLIP, 1)) is None


@pytest.mark.parametrize(
    ("law", "n", "trials"),
    [
        (T, 10**5, 31),
        (T, 10**9, 1),
        (TwoPoint(p=0.1, k=2), 10**12, 200),
        (laws.MultivariateGaussian(d=50), 10**7, 1),
        (laws.SignedTwoPoint(d=64, p=1e-6, k=2), 10**9, 49),  # 1001 records of 64 numbers
        # One of 8 ones is there with probability 1 - 0.9^8 = 0.57: 57.95 records of 16.
        (laws.ProductTwoPoint(d=16, p=0.1), 10_000, 34),
    ],
)
def test_block_sizes(law: Distribution, n: int, trials: int) -> None:
    assert block.block_trials(n, law) == trials
    # All members of a cell have as many trials.
    both = BlockTask((("a", LAW), ("b", law)), n, (MEAN,), 0, 0, "")
    assert both.trials == min(trials, block.block_trials(n, LAW))


# Intervals, learned Gaussians, promises and cores.


@validated
class Preset(Estimator):
    """Releases numbers that cycle through the trials, and nothing where one is NaN."""

    LOW: ClassVar[Floats] = np.array([-1.0, 0.5, 0.6, -np.inf, np.nan])
    HIGH: ClassVar[Floats] = np.array([0.5, 3.0, 3.0, np.inf, np.nan])
    VALUE: ClassVar[Floats] = np.array([0.0, 0.5, 1.5, -2.5, np.nan])
    SCALE: ClassVar[Floats] = np.array([2.0, 1.0, 3.0, 2.0, np.nan])

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay()
        known = (self.LOW, self.HIGH, self.VALUE, self.SCALE)
        low, high, value, scale = (np.resize(one, sample.trials) for one in known)
        return Estimate(value, value, interval=(low, high), miss=0.1, scale=scale, accuracy=0.25)


def test_the_extra_values_of_known_releases() -> None:
    task = _task(Setting("preset", Preset(), PureDP(1.0)), CLIP, law=LAW, n=40)
    result = run_block(task)
    assert set(result.values) == {*ERRORS, *EXTRAS} - {"core", "spent", "signed"}
    values = {name: table[0] for name, table in result.values.items()}
    np.testing.assert_array_equal(values["width"], np.resize([1.5, 2.5, 2.4, np.inf, np.inf], 200))
    usual = 2 * 1.6448536269514722 * math.sqrt(LAW.variance / 40)
    np.testing.assert_allclose(values["width_ratio"], values["width"] / usual, rtol=1e-12)
    # The target, 0.5, is at an end of the first two: it is in them.
    np.testing.assert_array_equal(values["missed"], np.resize([0.0, 0, 1, 0, 1], 200))
    np.testing.assert_array_equal(values["promise"], np.resize([2.0, 0.0, 4.0, 12.0, np.inf], 200))
    # N(0, 2) and N(-2.5, 2) beside N(0.5, 2): the densities cross half-way between the means.
    # Against N(0.5, 1), crossing at +-c: 2 Phi(c) - 2 Phi(c/2) with c = sqrt(8/3 ln 2).
    c = math.sqrt(8 / 3 * math.log(2))
    crossing = math.erf(c / math.sqrt(2)) - math.erf(c / 2 / math.sqrt(2))
    wanted = [math.erf(0.125 / math.sqrt(2)), crossing, np.nan, math.erf(0.75 / math.sqrt(2))]
    tv = values["tv"].reshape(-1, 5)
    np.testing.assert_allclose(tv[:, [0, 1, 3]], [np.take(wanted, [0, 1, 3])] * 40, rtol=1e-9)
    assert np.isinf(tv[:, 4]).all()
    sample = _data(task, LAW)
    assert isinstance(sample, DenseSample)
    low, high = np.resize(Preset.LOW, 200)[:, None], np.resize(Preset.HIGH, 200)[:, None]
    outside = ((sample.values < low) | (sample.values > high)).mean(axis=1)
    outside[4::5] = np.inf  # of no interval
    np.testing.assert_allclose(values["outside"], outside, atol=1e-12)
    # The other setting has none of these, and no distance is known of a law that is not Gaussian.
    assert all(
        np.isnan(result.values[name][1]).all()
        for name in {*EXTRAS} - {"core", "spent", "sign", "signed"}
    )
    assert "tv" not in run_block(_task(Setting("p", Preset(), PureDP(1.0)))).values


def test_ends_of_an_interval_are_inside_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Records that are exactly at the ends, of counted data."""
    law = TwoPoint(p=0.25, k=2)
    task = _task(Setting("ends", Preset(), PureDP(1.0)), law=law, n=10**6)
    monkeypatch.setattr(Preset, "LOW", np.zeros(1))
    for tau, share, near in ((law.tau, 0.0, 1e-9), (float(np.nextafter(law.tau, 0)), 0.25, 0.01)):
        monkeypatch.setattr(Preset, "HIGH", np.array([tau]))
        np.testing.assert_allclose(run_block(task).values["outside"], share, atol=near)


def _weights(rows: Floats, radius: float) -> float:
    """W/n of one dataset, record by record: (2c - n - 1)/(n - 1) between 0 and 1."""
    n = len(rows)
    friends = (np.linalg.norm(rows[:, None] - rows, axis=2) <= radius).sum(axis=1)
    return float(np.clip((2 * friends - n - 1) / (n - 1), 0, 1).mean())


@pytest.mark.parametrize("threshold", [0.25, 0.99])
def test_the_core_is_its_share_of_the_records(threshold: float) -> None:
    """Also where nothing is released, which is in some or in all trials."""
    law = laws.MultivariateContaminatedGaussian(d=3, eta=0.3, gap=1e3)
    core = FriendlyCoreMean(radius=4.0, threshold=threshold)
    task = _task(MEAN, Setting("core", core, ApproxDP(4.0, 1e-3)), law=law, n=30)
    values, sample = run_block(task).values, _data(task, law)
    assert isinstance(sample, DenseSample)
    wanted = [_weights(rows, 4.0) for rows in sample.values]
    np.testing.assert_allclose(values["core"][1], wanted, rtol=1e-12, atol=1e-12)
    assert np.ptp(wanted) > 0.1  # they differ
    failed = np.isnan(values["error"][1])
    assert failed.any()
    assert failed.all() == (threshold > 0.5)


# Vectors and covariances.


@validated
class KnownCovariance(Estimator):
    """A covariance that is known beforehand, and nothing in every fifth trial."""

    multivariate = True
    estimand = "covariance"

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        shape = (2, sample.trials, sample.d, sample.d)
        value, before = np.random.default_rng(5).standard_normal(shape)
        value[::5] = np.nan
        ledger.pay()
        return Estimate(value, before)


def test_the_errors_of_a_covariance() -> None:
    """|S^(-1/2) (A - B) S^(-1/2)|_F with the symmetric root."""
    law = laws.MultivariateGaussian(d=4, scale=3.0, condition=50.0)
    task = _task(Setting("known", KnownCovariance(), PureDP(1.0)), law=law, n=20)
    values, sample = run_block(task).values, _data(task, law)
    assert isinstance(sample, DenseSample)
    value, before = np.random.default_rng(5).standard_normal((2, task.trials, 4, 4))
    value[::5] = np.nan
    root = np.linalg.inv(np.real(linalg.sqrtm(law.covariance)))
    second = np.array([rows.T @ rows / 20 for rows in sample.values])
    wanted = _parts(value, before, second, law.covariance)
    assert set(values) == set(wanted)
    for name, part in wanted.items():
        size = np.sqrt(((root @ part @ root) ** 2).sum(axis=(1, 2)))
        np.testing.assert_allclose(values[name][0], size, rtol=1e-9)


def test_linear_algebra_has_one_thread_until_the_last_block_is_done() -> None:
    """A dask worker may run several: the end of one must not give threads to the others."""
    pools = ThreadpoolController()
    with pools.limit(limits=2):
        one, other = steady(), steady()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert {pool["num_threads"] for pool in pools.info()} == {1}
        other.__exit__(None, None, None)
        assert {pool["num_threads"] for pool in pools.info()} == {2}
