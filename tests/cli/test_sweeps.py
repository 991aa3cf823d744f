"""The shipped sweeps can be run, and sample complexities are measured, written and resumed."""

from __future__ import annotations

import shlex
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.audit.run import Audit
from dpbench.cli import _prepare
from dpbench.config import conf_folder
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.job import Job

from .conftest import Bench

SWEEPS = sorted(path.stem for path in (conf_folder() / "sweep").glob("*.yaml"))
NS = [10, 100, 1000, 10000]
REQUEST: dict[str, Any] = {
    "families": "tails", "estimators": "minimax", "budgets": "pure", "low": 0.3, "high": 0.6,
    "points": 3, "search": 0.4, "trials": 40,
}  # fmt: skip


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_is_usable(name: str) -> None:
    prepared = _prepare([f"sweep={name}"], None)
    if name == "audit":
        assert isinstance(prepared, Audit)
        return
    assert isinstance(prepared, Job)
    study = prepared.plan.study
    assert study.name == name
    assert name == "ci" or (study.all_claims and study.all_figures)
    assert all(figure.caption for figure in study.all_figures.values())


def test_a_sweep_in_many_dimensions_runs(bench: Bench) -> None:
    """With few trials: every claim has a row, every figure is drawn, and quantiles say nothing."""
    words = ["sweep=pure_vs_approx", "trials=8", "out=out", "n_jobs=1"]
    result = bench.raw(*words)
    assert result.code == 0, result
    assert bench.manifest()["failures"] == []
    prepared = _prepare(words, None)
    assert isinstance(prepared, Job)
    study = prepared.plan.study
    claims = pd.read_csv(bench.folder / "out" / "claims.csv")
    for label, claim in study.all_claims.items():
        about = claims[claims["claim"] == label]
        assert not about.empty
        assert (about["metric"] == claim.statement.metric).all()
    assert set(claims.loc[claims["metric"] == "q90", "verdict"]) == {"inconclusive"}
    drawn = {path.stem for path in (bench.folder / "out" / "figures").glob("*.png")}
    assert drawn == set(study.all_figures)
    summary = pd.read_csv(bench.folder / "out" / "summary.csv")
    assert sorted(summary["d"].unique()) == [4, 16, 64, 256, 1024]
    assert (summary["sampling_q90"] == 0).all()  # fixed data
    assert (summary.loc[summary["estimator"] == "mean", "q90"] == 0).all()


@pytest.mark.parametrize("group", ["estimator", "distribution"])
def test_every_kind_has_a_configuration(group: str) -> None:
    texts = [path.read_text() for path in (conf_folder() / group).glob("*.yaml")]
    kinds = Estimator.kinds() if group == "estimator" else Distribution.kinds()
    own = {name for name, kind in kinds.items() if kind.__module__.startswith("dpbench.")}
    assert {name for name in own if not any(f"kind: {name}\n" in text for text in texts)} == set()


def test_sample_complexities_are_written_and_found_again(bench: Bench) -> None:
    def write(spec: dict[str, Any]) -> None:
        spec["parts"]["tails"]["n"] = NS
        spec["sample_complexity"] = {"accuracy": REQUEST}
        spec["figures"] = {"curves": {"kind": "sample_complexity_curves", "request": "accuracy"}}

    bench.write(write)
    result = bench.run()
    assert result.code == 0, result
    assert "Smallest n" in result.out
    table = pd.read_csv(bench.folder / "out" / "sample_complexity.csv")
    assert table["method"].tolist().count("search") == 1
    curve, search = (table[table["method"] == m] for m in ("curve", "search"))
    assert np.allclose(curve["alpha"], sorted({*np.geomspace(0.3, 0.6, 3), 0.4}))
    assert (curve["samples"].diff().dropna() < 0).all()  # a smaller alpha needs more
    at = curve[curve["alpha"] == 0.4].iloc[0]
    # 40 trials: the two agree within a factor; the exact laws are tested elsewhere.
    assert 0.3 < search["samples"].iloc[0] / at["samples"] < 3
    before, blocks = bench.read("sample_complexity.csv"), len(bench.blocks())
    (bench.folder / "out" / "manifest.json").unlink()
    assert bench.run().code == 0
    assert bench.read("sample_complexity.csv") == before
    assert len(bench.blocks()) == blocks


def test_a_failure_of_a_direct_search_can_be_replayed(bench: Bench) -> None:
    """It fails at sample sizes that no part of the sweep has."""
    bench.plugin("Odd", f"if sample.n not in {NS}: raise ArithmeticError('odd n')")
    request = {**REQUEST, "estimators": "odd", "low": 50, "high": 500, "search": 100}
    bench.write(
        lambda spec: spec.update(
            families={"tails": spec["families"]["tails"]},
            estimators={"odd": {"_target_": "mine.Odd"}},
            parts={"tails": {"n": NS, "trials": 40}},
            claims={},
            sample_complexity={"accuracy": request},
        )
    )
    assert bench.run("plugins=[mine]").code == 1
    failures = bench.manifest()["failures"]
    assert failures
    replayed = bench.raw(*shlex.split(failures[0]["replay"])[3:])
    assert replayed.code == 1
    assert "ArithmeticError: odd n" in replayed.err
