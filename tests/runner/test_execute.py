"""How blocks are handed out."""

from __future__ import annotations

from typing import Any

import joblib
import pytest

from dpbench.runner.execute import Runner, compute


def double(task: int) -> int:
    return 2 * task


@pytest.mark.parametrize(("n_jobs", "tasks", "most"), [(8, 3, 3), (-1, 1, 1), (1, 5, 1)])
def test_there_are_no_more_processes_than_tasks(
    monkeypatch: pytest.MonkeyPatch, n_jobs: int, tasks: int, most: int
) -> None:
    asked: list[int] = []

    def parallel(n_jobs: int, **_: Any) -> Any:
        asked.append(n_jobs)
        return lambda calls: (call(*args, **kwargs) for call, args, kwargs in calls)

    monkeypatch.setattr(joblib, "Parallel", parallel)
    found = dict(compute(double, range(tasks), Runner(), n_jobs))
    assert found == {task: 2 * task for task in range(tasks)}
    assert asked == [most]
