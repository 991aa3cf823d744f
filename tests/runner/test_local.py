"""A process of this machine that dies."""

from __future__ import annotations

from dpbench.runner.local import run_locally
from dpbench.runner.origin import Origin
from tests.bench import MINE, Bench


def test_a_worker_that_dies_is_one_line(bench: Bench, own_workers: None) -> None:
    bench.odd("import multiprocessing as m, os; m.parent_process() is None or os._exit(9)")
    result = bench.run(MINE, "n_jobs=2")
    assert result.code == 1, result
    assert "Traceback" not in result.err
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("dpbench: TerminatedWorkerError: ")
    assert "finished blocks are kept, to go on: " in last


def test_every_task_is_done_once() -> None:
    """Whether there was time for it in its share, or it was handed over again."""
    tasks = list(range(6))
    found = list(run_locally(str, tasks, 2, Origin.of()))
    assert sorted(found) == [(task, str(task)) for task in tasks]
