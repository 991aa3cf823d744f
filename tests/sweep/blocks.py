"""Blocks of a few settings."""

from __future__ import annotations

from typing import Any

from dpbench.arrays import Floats
from dpbench.distributions import Distribution, StudentT
from dpbench.samples import Sample
from dpbench.seeds import canonical, stream
from dpbench.sweep.block import BlockTask, Setting

T = StudentT(tail_index=2.5, standardised_moment=2)


def task_of(*settings: Setting, law: Distribution = T, n: int = 1000) -> BlockTask:
    return BlockTask((("law", law),), n, settings, 0, 0, "cell")


def data_of(task: BlockTask, law: Distribution) -> Sample:
    """The data of a block, drawn again: from the stream of the law's name, and of no label's."""
    rng = stream("data", task.seed, canonical(law), task.followed, task.n, task.trials, task.index)
    return law.sample(rng, task.trials, task.n)


def parts_of(value: Floats, before: Floats, empirical: Floats, target: Any) -> dict[str, Floats]:
    return {
        "error": value - target,
        "sampling": empirical - target,
        "bias": before - empirical,
        "noise": value - before,
        "private": value - empirical,
    }
