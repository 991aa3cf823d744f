"""Worker processes that are copies of a server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from dpbench.runner.execute import Runner, compute
from tests.bench import group_runs, wait_for
from tests.conftest import ROOT

# Without ``if __name__ == "__main__":``, and with a class and a function of its own.
SCRIPT = """
import json, os, sys, time
from pathlib import Path
from dpbench.runner.execute import Runner, compute
from dpbench.runner.workers import start_server
class Found:
    def __init__(self, task):
        self.task, self.early = task, "matplotlib" in sys.modules
        self.server = os.getppid()
        if len(sys.argv) > 1:
            Path(str(task)).touch()
            time.sleep(600 * task)
start_server(["dpbench.jobs.preload"])
found = [one for _, one in compute(Found, range(5), Runner(), 2)]
server = {one.server for one in found if one.task}
threads = [len(os.listdir(f"/proc/{process}/task")) for process in server]
early = {one.early for one in found if one.task}
print(json.dumps([len(found), os.getpid() in server, threads, *early]))
"""


@pytest.fixture
def script(tmp_path: Path) -> list[str]:
    (tmp_path / "script.py").write_text(SCRIPT)
    return [sys.executable, "script.py"]


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_script_runs_once_and_its_workers_are_copies(script: list[str], tmp_path: Path) -> None:
    """Where the path of the temporary folder is too long for a socket, too."""
    folder = tmp_path / ("long" * 20)
    folder.mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    done = subprocess.run(
        script, capture_output=True, text=True, check=False, cwd=tmp_path, env=environment
    )
    assert (done.returncode, done.stderr) == (0, "")
    # five tasks on copies of one process of one thread, which had imported the modules
    assert json.loads(done.stdout) == [5, False, [1], True]


def test_workers_and_server_end_with_a_killed_parent(script: list[str], tmp_path: Path) -> None:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    parent = subprocess.Popen(
        [*script, "slow"], cwd=tmp_path, env=environment, start_new_session=True
    )
    wait_for(lambda: all((tmp_path / name).exists() for name in "12"))
    parent.kill()
    parent.wait()
    wait_for(lambda: not group_runs(parent.pid))


def variable(name: str) -> str | None:
    return os.environ.get(name)


def test_workers_have_the_environment_of_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    for value in ("first", "second", None):
        if value is None:
            monkeypatch.delenv("DPBENCH_TEST")
        else:
            monkeypatch.setenv("DPBENCH_TEST", value)
        found = [one for _, one in compute(variable, ["DPBENCH_TEST"] * 4, Runner(), 2)]
        assert found == [value] * 4


@pytest.mark.filterwarnings("error::pytest.PytestUnhandledThreadExceptionWarning")
def test_tasks_that_wait_are_dropped_and_later_ones_have_new_workers() -> None:
    for _ in range(3):
        results = compute(abs, range(20_000), Runner(), 2)
        next(results)
        del results  # which closes it
    assert len(list(compute(abs, range(9), Runner(), 2))) == 9


def numpys_own(_: int) -> float:
    time.sleep(0.02)  # so that no worker runs all tasks
    return float(np.random.random())  # noqa: NPY002, what a plug-in may use


def test_no_two_workers_draw_the_same_numbers() -> None:
    assert len({one for _, one in compute(numpys_own, range(20), Runner(), 2)}) == 20


def test_the_users_own_server_is_another(tmp_path: Path) -> None:
    """Its processes are not ours: signals end them, and they may use all threads."""
    (tmp_path / "own.py").write_text(
        "import multiprocessing as m, time\n"
        "from dpbench.runner.execute import Runner, compute\n"
        "if __name__ == '__main__':\n"
        "    assert len(list(compute(abs, range(4), Runner(), 2))) == 4\n"
        "    process = m.get_context('forkserver').Process(target=time.sleep, args=(600,))\n"
        "    process.start()\n"
        "    process.terminate()\n"
        "    process.join()\n"
        "    print(process.exitcode)\n"
    )
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "own.py"], capture_output=True, text=True, check=True, cwd=tmp_path,
        env=environment, timeout=120,
    )  # fmt: skip
    assert done.stdout == "-15\n"
