"""A dask cluster: what computes there is this source, and what becomes of it is said in a line."""

from __future__ import annotations

import dataclasses
import importlib
import math
import operator
import os
import pickle
import queue
import shutil
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import dpbench
from dpbench.distributions import TwoPoint
from dpbench.estimators import EmpiricalMean
from dpbench.privacy import NonPrivate
from dpbench.runner import imports
from dpbench.runner.execute import Runner, compute
from dpbench.runner.origin import Origin
from dpbench.sweep.block import BlockTask, Setting, run_block
from tests.bench import MINE, Bench, unusable, wait_for

pytestmark = pytest.mark.skipif(not find_spec("distributed"), reason="dask is not installed")
ROOT = Path(dpbench.__file__).parents[1]
TIMEOUTS = "DASK_DISTRIBUTED__COMM__TIMEOUTS__"


class Dask:
    """A scheduler on loopback, and workers of any source, as processes of their own."""

    def __init__(self, folder: Path) -> None:
        self._folder, self.running = folder, list[subprocess.Popen[str]]()
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.port = free.getsockname()[1]
        self.address = f"tcp://127.0.0.1:{self.port}"
        dashboard = ["--no-dashboard", "--dashboard-address", "127.0.0.1:0"]
        words = ["--host", "127.0.0.1", "--port", str(self.port), *dashboard]
        self.scheduler = self._start("scheduler", *words)
        wait_for(self._answers, self.scheduler)

    def worker(self, root: Path = ROOT) -> subprocess.Popen[str]:
        alone = ["--no-nanny", "--nthreads", "1", "--no-dashboard", "--host", "127.0.0.1"]
        words = [*alone, "--local-directory", str(self._folder)]
        return self._start("worker", self.address, *words, root=root)

    def _start(self, what: str, *words: str, root: Path = ROOT) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", f"distributed.cli.dask_{what}", *words]
        with (self._folder / f"{what}.log").open("a") as log:
            found = subprocess.Popen(
                command,
                cwd=self._folder,
                # a dead worker, which may hold results, is asked for them for so long
                env={**os.environ, "PYTHONPATH": str(root), f"{TIMEOUTS}CONNECT": "1s"},
                stdout=log,
                stderr=log,
                text=True,
            )
        self.running.append(found)
        return found

    def scheduler_says(self, what: str) -> int:
        """How often."""
        return (self._folder / "scheduler.log").read_text().count(what)

    def _answers(self) -> bool:
        with socket.socket() as tried:
            return tried.connect_ex(("127.0.0.1", self.port)) == 0


def cluster() -> Any:
    """Load the module in the one worker that tests it, because dask takes a second."""
    return importlib.import_module("dpbench.runner.cluster")


def cluster_model() -> Any:
    return importlib.import_module("experiments.cluster_model")


@pytest.fixture
def dask(bench: Bench) -> Iterator[Dask]:
    found = Dask(bench.folder)
    yield found
    for process in found.running:
        process.kill()
        process.wait()


def words(dask: Dask) -> list[str]:
    return ["runner=dask", f"runner.address={dask.address}"]


def test_a_worker_of_another_source_is_refused(
    bench: Bench, dask: Dask, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before anything runs; and one that comes later, by what it computes."""
    other = bench.folder / "other"
    for name in ("dpbench", "conf"):
        shutil.copytree(ROOT / name, other / name, ignore=shutil.ignore_patterns("__pycache__"))
    noise = other / "dpbench" / "privacy" / "budgets.py"
    text = noise.read_text().replace("rng.laplace(", "10 * rng.laplace(")
    assert text != noise.read_text()
    noise.write_text(text)
    dask.worker(other)
    for late in (True, False):
        with monkeypatch.context() as patched:
            if late:
                patched.setattr(cluster(), "_refuse_others", lambda *_: None)
            result = bench.run(*words(dask))
        unusable(result, "runner: worker tcp://127.0.0.1:", "computes by other source")
        assert not bench.blocks()


@pytest.mark.slow
def test_a_plug_in_that_is_a_package_and_is_edited(bench: Bench, dask: Dask) -> None:
    """Then the scheduler dies."""
    bench.odd("import time; time.sleep(0.05)")
    package = bench.conf / "mine"
    package.mkdir()
    (bench.conf / "mine.py").rename(package / "core.py")
    (package / "__init__.py").write_text("from mine.core import Odd\n")
    dask.worker()
    bench.done(MINE, *words(dask))
    first = bench.read("summary.csv")
    text = (package / "core.py").read_text()
    (package / "core.py").write_text(text.replace("10 *", "20 *"))
    bench.forget()
    bench.done(MINE, *words(dask))
    assert bench.read("summary.csv") != first
    bench.done(MINE, "out=local")
    assert bench.results() == bench.results("local")
    bench.forget()

    def kill() -> None:
        wait_for(lambda: bool(bench.blocks("gone")), dask.scheduler)
        dask.scheduler.kill()

    threading.Thread(target=kill).start()
    gone = bench.run(MINE, "out=gone", "trials=40000", *words(dask))
    told = gone.err.splitlines()
    assert gone.code == 1
    assert [line for line in told if not line.startswith("blocks: ")] == told[-1:]
    assert told[-1].startswith(
        f"dpbench: ConnectionError: the dask scheduler {dask.address} is gone"
    )


@pytest.mark.slow
def test_a_worker_is_killed(bench: Bench, dask: Dask) -> None:
    """One of two, in the middle; the results are those without a cluster."""
    bench.odd("import time; time.sleep(0.02)")
    killed, _ = dask.worker(), dask.worker()
    wait_for(lambda: dask.scheduler_says("Register worker") == 2, killed)

    def kill() -> None:
        wait_for(lambda: bool(bench.blocks()), killed)
        killed.kill()

    threading.Thread(target=kill).start()
    bench.done(MINE, "trials=1000", *words(dask))
    assert killed.poll() == -signal.SIGKILL
    bench.done(MINE, "trials=1000", "out=local")
    assert bench.results() == bench.results("local")


@pytest.mark.parametrize(("seconds", "least", "most"), [(0.0, 60, 60), (60.0, 1, 30)])
def test_small_blocks_are_handed_over_many_at_once(
    monkeypatch: pytest.MonkeyPatch, seconds: float, least: int, most: int
) -> None:
    """And those of a share that there was no time for are handed over again."""
    handed, pickled = list[object](), cluster().pickle.dumps

    def dumps(call: object) -> Any:
        handed.append(call)
        return pickled(call)

    monkeypatch.setattr(cluster(), "pickle", SimpleNamespace(dumps=dumps, loads=pickle.loads))
    monkeypatch.setattr(cluster(), "SHARE_SECONDS", seconds)
    monkeypatch.setattr(cluster(), "SHARES_PER_SECOND", math.inf)
    tasks = list(range(60))
    found = list(compute(operator.neg, tasks, Runner(backend="dask"), 1))
    assert sorted(found) == [(task, -task) for task in tasks]
    assert least <= len(handed) <= most


@pytest.mark.parametrize("workers", [2, 100, 1000])
@pytest.mark.parametrize("block", [0.01, 1.0, 3.0])
def test_the_model_of_a_cluster(workers: int, block: float) -> None:
    """It keeps to the bounds of its queue, and comes near them where only one of them counts."""
    costs = cluster_model().Costs()
    share = costs.share / cluster_model().share_size(workers, block)
    bounds = sorted([1 / (share + costs.block), workers / (block + costs.worker)])
    rate = cluster_model().simulate_throughput(workers, block, costs)
    assert rate <= bounds[0] * (1 + 1e-9)
    assert bounds[1] < 2 * bounds[0] or rate >= 0.97 * bounds[0]


def test_the_page_has_the_throughput_of_the_model() -> None:
    page = (Path(__file__).parents[2] / "docs/howto/reproducibility.md").read_text("utf-8")
    _, *lines = page.partition("\n| workers |")[2].partition("\n\n")[0].splitlines()[1:]
    for line in lines:
        workers, *cells = (cell.strip() for cell in line.strip("|").split("|"))
        number = int(workers.replace(",", ""))
        for block, cell in zip((0.1, 1.0, 10.0), cells, strict=True):
            rate = cluster_model().simulate_throughput(number, block, cluster_model().Costs())
            assert cell == f"{round(rate, rate < 1):g}, {rate * block / number:.0%}"


@pytest.mark.parametrize(
    ("scheme", "settings", "told"),
    [
        ("tls", {}, "have no TLS credentials"),
        (
            "tls",
            {"tls.ca-file": "/nowhere", "tls.client.cert": "/nowhere"},
            "TLS settings: .*No such",
        ),
        ("tcp", {"require-encryption": True}, "require tls"),
    ],
)
def test_tls_without_credentials(scheme: str, settings: dict[str, Any], told: str) -> None:
    given = {f"distributed.comm.{key}": value for key, value in settings.items()}
    runner = Runner(backend="dask", address=f"{scheme}://127.0.0.1:1")
    cluster()  # before, because a library that is first imported inside loses its settings
    with (
        importlib.import_module("dask.config").set(given),
        pytest.raises(dpbench.ConfigError, match=f"'{scheme}://.*{told}"),
    ):
        list(compute(operator.neg, [1], runner, 1))


def test_a_wait_for_workers_is_told_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cluster(), "PATIENCE_SECONDS", 0.01)
    done: queue.SimpleQueue[str] = queue.SimpleQueue()
    threading.Timer(0.2, done.put, ["a future"]).start()
    client = SimpleNamespace(nthreads=dict, scheduler=SimpleNamespace(address="tcp://there"))
    assert cluster()._wait_for_next(done, client) == "a future"
    told = "dpbench: waiting for workers of the dask scheduler tcp://there\n"
    assert capsys.readouterr().err == told


def test_results_that_go_with_the_last_worker(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The wait for another, which computes them again, is told."""
    how = dict.fromkeys(("dashboard_address", "worker_dashboard_address"), cluster().LOOPBACK)
    how["host"] = "127.0.0.1"
    fetch, lost = cluster()._fetch_result, threading.Event()

    def lose(*arguments: Any) -> Any:
        if not lost.is_set():
            lost.set()
            there.sync(there.workers[0].close)
            there.scale(0)
            threading.Timer(0.5, there.scale, [1]).start()
        return fetch(*arguments)

    monkeypatch.setattr(cluster(), "PATIENCE_SECONDS", 0.05)
    monkeypatch.setattr(cluster(), "_fetch_result", lose)
    with cluster().distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", **how
    ) as there:
        runner = Runner(backend="dask", address=there.scheduler_address)
        assert sorted(compute(operator.neg, [1, 2], runner, 1)) == [(1, -1), (2, -2)]
    told = f"dpbench: waiting for workers of the dask scheduler {runner.address}\n"
    assert capsys.readouterr().err == told


def test_a_worker_that_ends_while_it_is_asked_is_no_other() -> None:
    gone = {"tcp://there": cluster().distributed.comm.CommClosedError("Stream is closed")}
    cluster()._refuse_others(SimpleNamespace(run=lambda *_, **__: gone), Origin.of())


def listening() -> set[str]:
    """The sockets of this process that anybody can connect to."""
    links = (path.readlink() for path in Path("/proc/self/fd").iterdir() if path.is_symlink())
    own = {str(link)[8:-1] for link in links if str(link).startswith("socket:")}
    tables = [Path(f"/proc/self/net/{name}") for name in ("tcp", "tcp6")]
    rows = [line.split() for path in tables for line in path.read_text().splitlines()[1:]]
    return {row[1] for row in rows if row[3] == "0A" and row[9] in own}


def test_a_local_cluster_listens_nowhere() -> None:
    before = listening()
    with cluster()._client(None, 1, Origin.of()) as client:
        assert client.submit(sum, [1, 2]).result() == 3
        assert listening() <= before


def test_a_local_process_of_another_source_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """What it is started from was edited after this process was."""
    setting = Setting("mean", EmpiricalMean(), NonPrivate())
    members = (("law", TwoPoint(p=0.1, k=2)),)
    tasks = [BlockTask(members, 10, (setting,), 0, index, "cell") for index in range(2)]
    assert len(list(compute(run_block, tasks, Runner(), 2))) == 2
    before = dataclasses.replace(Origin.of(), modules=("dpbench.seeds before",))
    monkeypatch.setattr(imports, "_own_digest", lambda _: "before")  # in this process
    found = compute(run_block, tasks, Runner(), 2, before)
    with pytest.raises(dpbench.ConfigError, match=r"runner: process \d+ computes by other source"):
        next(found)


def test_what_was_loaded_of_a_plug_in_is_forgotten_with_its_parts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A worker that had an earlier text of a package would compute by its modules."""
    package = tmp_path / "there" / "my_mean"
    package.mkdir(parents=True)
    for name in ("__init__", "inner"):
        (package / f"{name}.py").write_text("")
    for name in ("my_mean", "my_mean.inner", "my_meaning"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    monkeypatch.setattr(sys, "path", [*sys.path])
    sources = cluster()._Sources(sorted(package.glob("*.py")))
    sources.setup(SimpleNamespace(local_directory=tmp_path))
    assert [name for name in sys.modules if name.startswith("my_mean")] == ["my_meaning"]
    assert (Path(sys.path[0]) / "my_mean" / "inner.py").exists()
    before = len(sys.path)
    sources.teardown(None)
    assert len(sys.path) == before - 1
