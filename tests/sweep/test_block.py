"""One block: errors and their parts, streams, failures, sizes."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from threadpoolctl import ThreadpoolController

from dpbench import distributions as laws
from dpbench.distributions import Distribution, Gaussian, TwoPoint
from dpbench.estimators import ClippedMean, EmpiricalMean, Estimate, Estimator
from dpbench.privacy import Ledger, NonPrivate, PureDP
from dpbench.registry import validated
from dpbench.samples import DenseSample, Sample
from dpbench.seeds import canonical, stream
from dpbench.sweep import block
from dpbench.sweep.block import (
    BlockTask,
    Setting,
    failure_name,
    rerun,
    run_block,
    single_threaded_blas,
)
from dpbench.sweep.metrics import ERRORS
from tests.sweep.blocks import T, data_of, parts_of, task_of

RARE = TwoPoint(p=0.1, k=2)
LAW = Gaussian(location=0.5, scale=2.0)
CLIP = Setting("clip", ClippedMean(lower=-1, upper=1), PureDP(1.0))
MEAN = Setting("mean", EmpiricalMean(), NonPrivate())


def test_errors_come_apart() -> None:
    # The clean mean is the target, not the mixture's: its distance is part of `sampling`.
    law = laws.ContaminatedGaussian(eta=0.1, gap=100, location=3)
    task = task_of(CLIP, law=law)
    values, sample = run_block(task).values, data_of(task, law)
    empirical, clipped = sample.mean(), sample.clipped_mean(-1, 1)
    # The noise has a stream of its own, named by the parameters of estimator and budget.
    name = (0, canonical(law), "", 1000, 200, 0, canonical(CLIP.estimator), canonical(CLIP.budget))
    noise = stream("noise", *name).laplace(0.0, 2 / 1000, task.trials)
    wanted = parts_of(clipped + noise, clipped, empirical, 3)
    assert set(values) - {"sign"} == set(wanted) == set(ERRORS)
    assert np.array_equal(values["sign"][0], np.sign(wanted["error"]))
    for part, signed in wanted.items():
        np.testing.assert_allclose(values[part][0], np.abs(signed), rtol=1e-12, atol=1e-15)


def test_bits_depend_on_parameters_alone() -> None:
    """Not on labels, on the order of settings and members, or on what else runs."""
    other = dataclasses.replace(CLIP, label="other")
    weak = Setting("clip", CLIP.estimator, PureDP(0.5))
    alone = run_block(task_of(CLIP)).values
    members = (("a", LAW), ("b", T))
    beside = run_block(BlockTask(members, 1000, (MEAN, weak, other), 0, 0, "another")).values
    for part in ERRORS:  # by member, then by setting
        np.testing.assert_array_equal(alone[part][0], beside[part][5])
    assert not np.any(beside["noise"][4] == beside["noise"][5])
    np.testing.assert_array_equal(beside["sampling"][3], beside["sampling"][5])
    changes: list[dict[str, Any]] = [{"index": 1}, {"seed": 1}, {"followed": "budget"}]
    for change in changes:
        values = run_block(dataclasses.replace(task_of(CLIP), **change)).values
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
        rerun(task, failure_name("far", 1000, breaks, 0))
    found = rerun(task, failure_name("far", 1000, CLIP, 0))
    assert found is not None
    np.testing.assert_array_equal(np.abs(found.value - 50), result.values["error"][5])
    assert rerun(task, failure_name("far", 1000, CLIP, 1)) is None


@validated
class Hungry(EmpiricalMean):
    """Asks for more memory than there is, as numpy (with a text) or as Python (without)."""

    text: str = ""

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        raise MemoryError(*filter(None, [self.text]))


@pytest.mark.parametrize("text", ["", "Unable to allocate 9 TiB"])
def test_too_little_memory_names_the_block(text: str) -> None:
    """Three numbers of 8 bytes a record, 200 trials of 5,000 records: 24 MB."""
    hungry = Setting("hungry", Hungry(text=text), NonPrivate())
    task = BlockTask((("law", laws.MultivariateGaussian(d=3)),), 5000, (hungry,), 0, 0, "cell")
    with pytest.raises(MemoryError) as error:
        run_block(task)
    assert str(error.value) == (
        "hungry on law, n = 5,000, d = 3: not enough memory for a block of 200 trials, whose "
        "records take about 24 MB; lower n or d, use fewer processes (n_jobs=1), or raise the "
        "memory limit (ulimit -v)"
    )


@pytest.mark.parametrize(
    ("law", "n", "trials"),
    [
        (T, 10**5, 31),
        (T, 10**9, 200),
        (RARE, 10**12, 200),
        (laws.MultivariateGaussian(d=50), 10**7, 1),
        (laws.SignedTwoPoint(d=64, p=1e-6, k=2), 10**9, 49),  # 1001 records of 64 numbers
        # One of 8 ones is there with probability 1 - 0.9^8 = 0.57: 57.95 records of 16.
        (laws.ProductTwoPoint(d=16, p=0.1), 10_000, 34),
    ],
)
def test_block_sizes(law: Distribution, n: int, trials: int) -> None:
    assert block.block_trials(n, law, 200) == trials
    # All members of a cell have as many trials.
    both = BlockTask((("a", LAW), ("b", law)), n, (MEAN,), 0, 0, "")
    assert both.trials == min(trials, block.block_trials(n, LAW, 200))
    # With many trials a block holds more, as far as memory allows.
    many = block.block_trials(n, law, block.most_trials(2000))
    assert many == {(T, 10**9): 629, (RARE, 10**12): 2000}.get((law, n), trials)


def test_linear_algebra_has_one_thread_until_the_last_block_is_done() -> None:
    """A dask worker may run several: the end of one must not give threads to the others."""
    pools = ThreadpoolController()
    with pools.limit(limits=2):
        one, other = single_threaded_blas(), single_threaded_blas()
        one.__enter__()
        other.__enter__()
        one.__exit__(None, None, None)
        assert {pool["num_threads"] for pool in pools.info()} == {1}
        other.__exit__(None, None, None)
        assert {pool["num_threads"] for pool in pools.info()} == {2}


def test_estimators_of_a_block_run_on_one_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    pools, seen = ThreadpoolController(), set[int]()
    estimate = ClippedMean.estimate

    def spy(self: ClippedMean, sample: Sample, ledger: Ledger) -> Estimate:
        seen.update(pool["num_threads"] for pool in pools.info())
        return estimate(self, sample, ledger)

    monkeypatch.setattr(ClippedMean, "estimate", spy)
    with pools.limit(limits=2):
        run_block(task_of(CLIP))
    assert seen == {1}
