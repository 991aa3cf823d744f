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
from dpbench.study import Study

from .conftest import Bench, unusable

SWEEPS = sorted(path.stem for path in (conf_folder() / "sweep").glob("*.yaml"))
REQUEST: dict[str, Any] = {
    "families": ["tails"],
    "estimators": ["minimax"],
    "budgets": ["pure"],
    "low": 0.3,
    "high": 0.6,
    "points": 3,
    "search": 0.4,
    "trials": 50,
}


AGAINST: dict[str, Any] = {
    "kind": "against_parameter",
    "families": ["tails"],
    "estimators": ["minimax"],
    "parameter": "epsilon",
    "budget": "pure",
    "n": 1000,
}


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_is_usable(name: str) -> None:
    study = _prepare([f"sweep={name}"], None)
    if name == "audit":
        assert isinstance(study, Audit)
        return
    assert isinstance(study, Study)
    assert study.name == name
    assert name == "ci" or (study.claims and study.figures)


def test_a_sweep_in_many_dimensions_runs(bench: Bench) -> None:
    """With few trials: every claim has a row, every figure is drawn, and quantiles say nothing."""
    result = bench.raw("sweep=pure_vs_approx", "trials=8", "out=out", "n_jobs=1")
    assert result.code == 0, result
    assert bench.manifest()["failures"] == []
    study = _prepare(["sweep=pure_vs_approx", "trials=8"], None)
    assert isinstance(study, Study)
    claims = pd.read_csv(bench.folder / "out" / "claims.csv")
    for label, claim in study.claims.items():
        about = claims[[name.split(" ")[0] == label for name in claims["claim"]]]
        assert len(about) >= len(claim.budgets or [])
        assert (about["metric"] == claim.statement.metric).all()
    assert set(claims.loc[claims["metric"] == "q90", "verdict"]) == {"inconclusive"}
    drawn = {path.stem for path in (bench.folder / "out" / "figures").glob("*.png")}
    assert drawn == set(study.figures)
    summary = pd.read_csv(bench.folder / "out" / "summary.csv")
    assert sorted(summary["d"].unique()) == [4, 16, 64, 256, 1024]
    assert (summary["sampling_q90"] == 0).all()  # fixed data
    assert (summary.loc[summary["estimator"] == "mean", "q90"] == 0).all()


@pytest.mark.parametrize("group", ["estimator", "distribution"])
def test_every_kind_has_a_configuration(group: str) -> None:
    texts = [path.read_text() for path in (conf_folder() / group).glob("*.yaml")]
    kinds = Estimator._kinds() if group == "estimator" else Distribution._kinds()
    own = {name for name, kind in kinds.items() if kind.__module__.startswith("dpbench.")}
    assert {name for name in own if not any(f"kind: {name}\n" in text for text in texts)} == set()


def with_request(bench: Bench, **changes: Any) -> None:
    def write(spec: dict[str, Any]) -> None:
        spec["parts"]["tails"].update(n=[10, 100, 1000, 10000])
        spec["sample_complexity"] = {"accuracy": {**REQUEST, **changes}}
        spec["figures"] = {"curves": {"kind": "sample_complexity_curves", "request": "accuracy"}}

    bench.write(write)


def test_sample_complexities_are_written_and_found_again(bench: Bench) -> None:
    with_request(bench)
    result = bench.run()
    assert result.code == 0, result
    assert "Smallest n" in result.out
    table = pd.read_csv(bench.folder / "out" / "sample_complexity.csv")
    assert table["method"].tolist().count("search") == 1
    curve, search = (table[table["method"] == m] for m in ("curve", "search"))
    assert np.allclose(curve["alpha"], sorted({*np.geomspace(0.3, 0.6, 3), 0.4}))
    assert (curve["samples"].diff().dropna() < 0).all()  # a smaller alpha needs more
    at = curve[curve["alpha"] == 0.4].iloc[0]
    # 50 trials: the two agree within a factor; the exact laws are tested elsewhere.
    assert 0.3 < search["samples"].iloc[0] / at["samples"] < 3
    before = bench.read("sample_complexity.csv")
    blocks = len(bench.blocks())
    (bench.folder / "out" / "manifest.json").unlink()
    assert bench.run().code == 0
    assert bench.read("sample_complexity.csv") == before
    assert len(bench.blocks()) == blocks


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"families": ["nope"]}, ["sample_complexity.accuracy.families", "'nope'", "tails"]),
        ({"estimators": ["nope"]}, ["sample_complexity.accuracy.estimators", "'nope'"]),
        ({"low": 0}, ["sample_complexity.accuracy.low: 0"]),
        ({"low": 1}, ["sample_complexity.accuracy", "above high"]),
        ({"beta": 1}, ["sample_complexity.accuracy.beta: 1"]),
        ({"points": 0}, ["sample_complexity.accuracy.points: 0"]),
        ({"search": -1}, ["sample_complexity.accuracy.search", "-1"]),
        ({"nope": 1}, ["sample_complexity.accuracy.nope", "no such key", "beta"]),
        ({"budgets": None}, ["sample_complexity.accuracy", "no budget"]),
    ],
)
def test_an_unusable_request(bench: Bench, change: dict[str, Any], words: list[str]) -> None:
    with_request(bench, **change)
    before = bench.files()
    unusable(bench.run(), *words)
    assert bench.files() == before


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"theorem": "naive_radius"}, ["claims.alpha", "alpha belongs"]),
        ({"alpha": 1.0}, ["claims.alpha", "alpha belongs"]),
        ({"theorem": "naive_radius", "alpha": 1.0}, ["claims.alpha", "fewer than two", "radius"]),
        ({"theorem": "naive_radius", "alpha": [1.0, 2.0]}, ["claims.alpha", "several alpha"]),
        ({"theorem": "naive_radius", "alpha": 0}, ["claims.alpha.alpha"]),
        ({"theorem": "pure_dimension"}, ["claims.alpha", "fewer than two", "of d on two_point"]),
        ({"theorem": "core_norm"}, ["claims.alpha", "fewer than two", "of norm on two_point"]),
        ({"over": "mean"}, ["claims.alpha", "over belongs to claims about ratios"]),
        ({"theorem": "noise_ratio", "limit": 1.0}, ["claims.alpha", "over belongs"]),
        ({"theorem": "noise_ratio", "over": "minimax"}, ["claims.alpha", "limit belongs"]),
        (
            {"theorem": "noise_ratio", "limit": 1.0, "over": "rate"},
            ["claims.alpha.over", "'rate'", "not among"],
        ),
    ],
)
def test_an_unusable_claim(bench: Bench, change: dict[str, Any], words: list[str]) -> None:
    bench.write(lambda spec: spec["claims"]["alpha"].update(change))
    before = bench.files()
    unusable(bench.run(), *words)
    assert bench.files() == before


@pytest.mark.parametrize(
    ("figure", "words"),
    [
        ({"kind": "sample_complexity_curves", "request": "nope"}, ["request", "'nope'"]),
        ({"kind": "thresholds", "request": "nope"}, ["request", "'nope'"]),
        (
            {
                "kind": "against_parameter",
                "families": ["tails"],
                "estimators": ["mean"],
                "parameter": "groups",
                "budget": "pure",
                "n": 1000,
            },
            ["estimators", "'mean'", "groups"],
        ),
        ({**AGAINST, "guides": ["nope"]}, ["guides", "'nope'", "pure, approx, core"]),
        ({**AGAINST, "budget": ["pure", "nope"]}, ["budget", "'nope'"]),
    ],
)
def test_an_unusable_figure(bench: Bench, figure: dict[str, Any], words: list[str]) -> None:
    bench.write(lambda spec: spec["figures"].update(odd=figure))
    before = bench.files()
    unusable(bench.run(), "sweep.figures.odd", *words)
    assert bench.files() == before


FAILS_OFF_THE_GRID = "if sample.n not in (10, 100, 1000, 10000): raise ArithmeticError('odd n')"


def test_a_failure_of_a_direct_search_can_be_replayed(bench: Bench) -> None:
    """It fails at sample sizes that no part of the sweep has."""
    bench.plugin("Odd", FAILS_OFF_THE_GRID)

    def write(spec: dict[str, Any]) -> None:
        spec["estimators"] = {"odd": {"_target_": "mine.Odd"}}
        spec["parts"] = {
            "tails": {"families": ["tails"], "n": [10, 100, 1000, 10000], "trials": 50}
        }
        spec["claims"] = {}
        del spec["families"]["two_point"]
        request = {**REQUEST, "estimators": ["odd"], "low": 50, "high": 500, "search": 100}
        spec["sample_complexity"] = {"accuracy": request}

    bench.write(write)
    assert bench.run("plugins=[mine]").code == 1
    failures = bench.manifest()["failures"]
    assert failures
    replayed = bench.raw(*shlex.split(failures[0]["replay"])[3:])
    assert replayed.code == 1
    assert "ArithmeticError: odd n" in replayed.err
