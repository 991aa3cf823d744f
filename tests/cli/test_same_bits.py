"""Neither processes, nor order, nor company changes a bit of a result."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from .conftest import FIGURE, Bench, finish, unusable

SCHEDULER = """
from distributed import LocalCluster

if __name__ == "__main__":
    with LocalCluster(n_workers=1, threads_per_worker=1, dashboard_address=None) as cluster:
        print(cluster.scheduler_address, flush=True)
        input()
"""


def blocks_and_figure(spec: dict[str, Any]) -> None:
    """Several blocks per cell, and a figure."""
    spec["parts"]["tails"]["trials"] = 500
    spec["figures"] = {"errors": FIGURE}


def drawn(spec: dict[str, Any]) -> None:
    """Every kind of figure."""
    blocks_and_figure(spec)
    spec["estimators"]["clip"] = {"kind": "heavy_tailed_mean", "clip_at": [3, 10, 30]}
    spec["figures"] = {
        "errors": FIGURE,
        "exponents": {"kind": "exponents", "claims": ["alpha"]},
        "thresholds": {
            "kind": "decomposition",
            "families": ["tails"],
            "estimators": ["clip_*"],
            "chosen": ["minimax"],
            "budget": "pure",
            "n": 1000,
        },
    }


def rows(bench: Bench, out: str = "out", without: str = "?") -> list[str]:
    """The lines of a summary but those of one estimator."""
    return [r for r in bench.read("summary.csv", out).splitlines() if f",{without}," not in r]


def test_the_number_of_processes(bench: Bench) -> None:
    bench.write(drawn)
    assert bench.run("out=one").code == 0
    expected = bench.results("one")
    assert len(expected) == 2 + 3 * 3
    blocks = {p.name: p.read_bytes() for p in bench.blocks("one")}
    result = bench.command(*bench.argv("n_jobs=3"))
    assert result.code == 0, result.err
    assert bench.results() == expected
    assert {p.name: p.read_bytes() for p in bench.blocks()} == blocks


def test_a_local_dask_cluster(bench: Bench) -> None:
    pytest.importorskip("distributed")
    bench.write(lambda spec: spec["parts"]["tails"].update(trials=500))
    assert bench.run("out=one").code == 0
    result = bench.command(*bench.argv("runner=dask", "n_jobs=2"))
    assert result.code == 0, result.err
    assert bench.results() == bench.results("one")


@pytest.fixture
def scheduler(bench: Bench) -> Iterator[str]:
    """The address of a running dask scheduler with one worker."""
    pytest.importorskip("distributed")
    script = bench.folder / "scheduler.py"
    script.write_text(SCHEDULER)
    process = subprocess.Popen(
        [sys.executable, str(script)],
        cwd=bench.folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    yield process.stdout.readline().strip()
    process.stdin.write("\n")  # type: ignore[union-attr]
    finish(process)


def test_a_running_dask_cluster(bench: Bench, scheduler: str) -> None:
    """Its workers get the plug-in too."""
    bench.plugin("WideMean")
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    assert bench.run("plugins=[mine]", "out=one").code == 0
    more = ["plugins=[mine]", "runner=dask", f"runner.address={scheduler}"]
    result = bench.command(*bench.argv(*more))
    assert result.code == 0, result.err
    assert bench.results() == bench.results("one")


def test_an_address_where_nothing_answers(bench: Bench) -> None:
    pytest.importorskip("distributed")
    result = bench.command(*bench.argv("runner=dask", "runner.address=tcp://127.0.0.1:1"))
    unusable(result, "runner.address", "tcp://127.0.0.1:1")
    assert not [p for p in (bench.folder / "out").rglob("*") if p.is_file()]


def test_the_order_of_estimators(bench: Bench) -> None:
    bench.write(blocks_and_figure)
    bench.run("out=one")

    def reordered(spec: dict[str, Any]) -> None:
        blocks_and_figure(spec)
        for section in ("families", "estimators", "parts", "figures"):
            spec[section] = dict(reversed(spec[section].items()))

    bench.write(reordered)
    assert bench.run().code == 0
    assert bench.results() == bench.results("one")
    assert bench.run("out=one").code == 0
    assert bench.manifest("one")["blocks_done"] == 0


def test_more_estimators(bench: Bench) -> None:
    bench.run("out=one")
    more = {
        "a_first": {"kind": "local_mean"},
        "b": {"kind": "trimmed_mean"},
        "nearly": {"kind": "median_of_means"},
        "zz": {"kind": "heavy_tailed_mean", "policy": "all"},
    }
    bench.write(lambda spec: spec["estimators"].update(more))
    assert bench.run().code == 0
    header, *found = [row.split(",") for row in rows(bench)]
    estimator = header.index("estimator")
    assert {row[estimator] for row in found} == {"minimax", "rate", "mean", *more}
    kept = [",".join(row) for row in (header, *found) if row[estimator] not in more]
    assert kept == rows(bench, "one")
    assert bench.read("claims.csv") == bench.read("claims.csv", "one")


def test_one_budget_more(bench: Bench) -> None:
    bench.run("out=one")
    bench.write(lambda spec: spec["budgets"].update(z={"kind": "zcdp", "rho": 0.01}))
    assert bench.run().code == 0
    assert rows(bench, without="zcdp") == rows(bench, "one")


def test_one_budget_under_two_labels(bench: Bench) -> None:
    """The same numbers twice are not twice the trials."""
    bench.run("out=one")
    bench.write(lambda spec: spec["budgets"].update(twin=spec["budgets"]["pure"]))
    result = bench.run()
    if result.code == 2:
        unusable(result, "sweep.budgets", "twin")
    else:
        assert rows(bench) == rows(bench, "one")


def test_another_label(bench: Bench) -> None:
    """Parameters name the streams, labels do not."""
    bench.run("out=one")

    def renamed(spec: dict[str, Any]) -> None:
        spec["estimators"] = {
            {"rate": "rated"}.get(label, label): one for label, one in spec["estimators"].items()
        }

    bench.write(renamed)
    assert bench.run().code == 0
    assert bench.read("summary.csv").replace(",rated,", ",rate,") == bench.read(
        "summary.csv", "one"
    )


def test_seeds_differ_and_repeat(bench: Bench) -> None:
    assert bench.run("--multirun", "seed=1,2", "out='seed${seed}'").code == 0
    for seed in (1, 2):
        assert bench.run(f"seed={seed}").code == 0
        assert bench.results() == bench.results(f"seed{seed}")
        assert bench.manifest(f"seed{seed}")["seed"] == seed
    assert rows(bench, "seed1") != rows(bench, "seed2")
    assert {p.name for p in bench.folder.iterdir()} == {"conf", "out", "seed1", "seed2"}
