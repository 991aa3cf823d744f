"""Neither processes, nor order, nor company changes a bit of a result."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from tests.bench import FIGURE, MINE, Bench, unusable

FAILS = "if sample.n == 1000: raise ArithmeticError('no luck')"


def test_order(bench: Bench) -> None:
    """Of the sweep's entries; and a budget under a second label."""
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE))
    bench.done("out=one")
    assert set(bench.results("one")) == {"summary.csv", "claims.csv", "figures/errors.svg"}

    def change(spec: dict[str, Any]) -> None:
        spec["figures"]["errors"] = FIGURE
        spec["budgets"]["twin"] = spec["budgets"]["pure"]
        for section in ("families", "estimators", "parts"):
            spec[section] = dict(reversed(spec[section].items()))

    bench.write(change)
    bench.done()
    assert bench.results() == bench.results("one")
    assert bench.stored() == bench.stored("one")


def test_processes_and_dask(bench: Bench, own_workers: None) -> None:
    """With a plug-in that fails on two blocks, and datasets of records and of counts on cells."""
    bench.odd(FAILS, lambda spec: spec["parts"]["tails"].update(n=[1e3, 1e9], trials=220))
    assert bench.run(MINE, "out=one").code == 1
    failures = [one["name"] for one in bench.manifest("one")["failures"]]
    assert len(bench.stored("one")) == 8
    for out, words in {"two": ["n_jobs=2"], "dask": ["n_jobs=2", "runner=dask"]}.items():
        if out == "dask":
            pytest.importorskip("distributed")
        result = bench.run(MINE, f"out={out}", *words)
        assert result.code == 1, result
        # a slow machine hears how far it is
        assert not [
            line for line in result.err.splitlines() if not line.startswith(("blocks: ", "cells: "))
        ]
        assert "ArithmeticError: no luck" in result.out
        assert bench.results(out) == bench.results("one")
        assert bench.stored(out) == bench.stored("one")
        assert [one["name"] for one in bench.manifest(out)["failures"]] == failures


def test_a_running_dask_cluster(bench: Bench) -> None:
    distributed = pytest.importorskip("distributed")
    bench.done("out=one")
    with distributed.LocalCluster(
        n_workers=1, threads_per_worker=1, processes=False, protocol="tcp", dashboard_address=None
    ) as cluster:
        bench.done("runner=dask", f"runner.address={cluster.scheduler_address}")
    assert bench.results() == bench.results("one")
    assert bench.stored() == bench.stored("one")


def test_an_address_where_nothing_answers(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    distributed = pytest.importorskip("distributed")
    real = distributed.Client
    monkeypatch.setattr(distributed, "Client", lambda at, **more: real(at, timeout="0.1s"))
    address = "tcp://127.0.0.1:1"
    unusable(bench.run("runner=dask", f"runner.address={address}"), "runner.address", address)
    assert not [p for p in (bench.folder / "out").rglob("*") if p.is_file()]


def test_company_changes_no_row(bench: Bench) -> None:
    """More estimators, one budget more, another label: parameters name the streams."""
    bench.done("out=one")
    more = {
        "a_first": {"kind": "local_mean", "scale": 1},
        "nearly": {"kind": "median_of_means"},
        "zz": {"kind": "tuned_clipped_mean", "scale": 1, "policy": "keep_all"},
    }

    def change(spec: dict[str, Any]) -> None:
        spec["budgets"]["z"] = {"kind": "zcdp", "rho": 0.01}
        renamed = {{"rate": "rated"}.get(k, k): one for k, one in spec["estimators"].items()}
        spec["estimators"] = {**more, **renamed}

    bench.write(change)
    bench.done()
    found = bench.table().replace({"estimator": {"rated": "rate"}})
    assert set(found["estimator"]) == {"minimax", "rate", "mean", *more}
    kept = found[~found["estimator"].isin(more) & (found["privacy"] != "zcdp")]
    one, order = bench.table(out="one"), ["distribution", "estimator", "n"]
    pd.testing.assert_frame_equal(
        kept.sort_values(order, ignore_index=True),
        one.sort_values(order, ignore_index=True),
        check_exact=True,
    )
    assert bench.read("claims.csv") == bench.read("claims.csv", "one")


def test_seeds_differ_and_repeat(bench: Bench) -> None:
    bench.done("--multirun", "trials=4", "seed=1,2", "out='seed${seed}'")
    bench.done("seed=2", "trials=4")
    assert bench.results() == bench.results("seed2") != bench.results("seed1")
    assert [bench.manifest(f"seed{seed}")["seed"] for seed in (1, 2)] == [1, 2]
    assert {p.name for p in bench.folder.iterdir()} == {"conf", "out", "seed1", "seed2"}
