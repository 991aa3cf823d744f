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


def drawn(spec: dict[str, Any]) -> None:
    """Several blocks of a cell, and every kind of figure."""
    spec["parts"]["tails"]["trials"] = 220
    spec["estimators"]["clip"] = {"kind": "heavy_tailed_mean", "clip_at": [3, 10, 30]}
    spec["parts"]["tails"]["figures"] = {
        "thresholds": {
            "kind": "decomposition", "estimators": "clip", "chosen": "minimax", "budgets": "pure",
            "n": 1000,
        },
    }  # fmt: skip
    spec["figures"] = {"errors": FIGURE, "exponents": {"kind": "exponents", "claims": ["alpha"]}}


def reordered(spec: dict[str, Any]) -> None:
    """The same, in another order, and a budget under a second label."""
    drawn(spec)
    spec["budgets"]["twin"] = spec["budgets"]["pure"]
    for section in ("families", "estimators", "parts", "figures"):
        spec[section] = dict(reversed(spec[section].items()))


def rows(bench: Bench, out: str = "out", without: str = "?") -> list[str]:
    """The lines of a summary but those of one estimator."""
    return [r for r in bench.read("summary.csv", out).splitlines() if f",{without}," not in r]


def test_processes_backends_and_order(bench: Bench) -> None:
    """Serial, three processes, a dask cluster, another order: equal bytes of all files."""
    bench.write(drawn)
    assert bench.run("out=one").code == 0
    expected = bench.results("one")
    assert len(expected) == 2 + 3 * 3
    blocks = {p.name: p.read_bytes() for p in bench.blocks("one")}
    for out, words in {"three": ["n_jobs=3"], "dask": ["runner=dask", "n_jobs=2"]}.items():
        if out == "dask":
            pytest.importorskip("distributed")
        result = bench.command(*bench.argv(*words, f"out={out}"))
        assert result.code == 0, result.err
        assert bench.results(out) == expected
        assert {p.name: p.read_bytes() for p in bench.blocks(out)} == blocks
    bench.write(reordered)
    assert bench.run("out=three").code == 0
    assert bench.manifest("three")["blocks_done"] == 0
    assert bench.results("three") == expected
    assert bench.run("resume=false").code == 0
    assert bench.results() == expected


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


def test_company_changes_no_row(bench: Bench) -> None:
    """More estimators, one budget more, another label: parameters name the streams."""
    assert bench.run("out=one").code == 0
    more = {
        "a_first": {"kind": "local_mean"},
        "nearly": {"kind": "median_of_means"},
        "zz": {"kind": "heavy_tailed_mean", "policy": "all"},
    }

    def change(spec: dict[str, Any]) -> None:
        spec["budgets"]["z"] = {"kind": "zcdp", "rho": 0.01}
        renamed = {{"rate": "rated"}.get(k, k): one for k, one in spec["estimators"].items()}
        spec["estimators"] = {**more, **renamed}

    bench.write(change)
    assert bench.run().code == 0
    header, *found = (row.replace(",rated,", ",rate,").split(",") for row in rows(bench))
    estimator, privacy = header.index("estimator"), header.index("privacy")
    assert {row[estimator] for row in found} == {"minimax", "rate", "mean", *more}
    assert {row[privacy] for row in found} == {"none", "pure", "zcdp"}
    kept = [row for row in found if row[estimator] not in more and row[privacy] != "zcdp"]
    assert sorted(map(",".join, kept)) == sorted(rows(bench, "one")[1:])
    assert bench.read("claims.csv") == bench.read("claims.csv", "one")


def test_seeds_differ_and_repeat(bench: Bench) -> None:
    assert bench.run("--multirun", "trials=4", "seed=1,2", "out='seed${seed}'").code == 0
    for seed in (1, 2):
        assert bench.run(f"seed={seed}", "trials=4").code == 0
        assert bench.results() == bench.results(f"seed{seed}")
        assert bench.manifest(f"seed{seed}")["seed"] == seed
    assert rows(bench, "seed1") != rows(bench, "seed2")
    assert {p.name for p in bench.folder.iterdir()} == {"conf", "out", "seed1", "seed2"}
