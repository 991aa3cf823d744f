from __future__ import annotations

import dataclasses

import numpy as np
import pytest

from dpbench.distributions import ContaminatedGaussian, Distribution, StudentT, TwoPoint
from dpbench.estimators import ClippedMean, EmpiricalMean, Estimate, Estimator
from dpbench.parameters import validated
from dpbench.privacy import Ledger, NonPrivate, PureDP
from dpbench.runner.block import METRICS, BlockTask, Setting, block_trials, run_block
from dpbench.samples import Sample
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
    from dpbench.parameters import canonical

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
