"""How blocks are handed out."""

from __future__ import annotations

from concurrent.futures import Executor, ThreadPoolExecutor

import numpy as np
import pytest

from dpbench.audit import noise_times
from dpbench.distributions import TwoPoint
from dpbench.estimators import ClippedMean
from dpbench.privacy import PureDP
from dpbench.runner import local
from dpbench.runner.execute import Runner, compute
from dpbench.sweep.block import BlockTask, Setting, run_block


def double(task: int) -> int:
    return 2 * task


@pytest.mark.parametrize(("n_jobs", "tasks", "most"), [(8, 3, [3]), (-1, 1, []), (1, 5, [])])
def test_there_are_no_more_processes_than_tasks(
    monkeypatch: pytest.MonkeyPatch, n_jobs: int, tasks: int, most: list[int]
) -> None:
    """No worker is started for one process, or for one task."""
    asked: list[int] = []

    def start(count: int) -> Executor:
        asked.append(count)
        return ThreadPoolExecutor(count)

    monkeypatch.setattr(local, "start_workers", start)
    found = dict(compute(double, range(tasks), Runner(), n_jobs))
    assert found == {task: 2 * task for task in range(tasks)}
    assert sorted(set(asked)) == most


def test_all_processes_have_the_noise_factor_of_the_one_that_asks() -> None:
    setting = Setting("clip", ClippedMean(lower=-1, upper=1), PureDP(1.0))
    members = (("law", TwoPoint(p=0.1, k=2)),)
    tasks = [BlockTask(members, 10, (setting,), 0, index, "cell") for index in range(3)]

    def noise(n_jobs: int) -> list[float]:
        found = compute(run_block, tasks, Runner(), n_jobs)
        return sorted(float(block.values["noise"].sum()) for _, block in found)

    usual = noise(1)
    with noise_times(0.5):
        np.testing.assert_allclose(noise(2), np.array(usual) / 2, rtol=1e-12)
    assert noise(1) == usual
