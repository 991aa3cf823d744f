"""The shipped sweeps can be run, and sample complexities are measured, written and resumed."""

from __future__ import annotations

import itertools
import math
import shlex
from typing import Any

import numpy as np
import pytest

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.jobs.audit import AuditJob
from dpbench.jobs.composition import composed
from dpbench.jobs.libraries import LibrariesJob
from dpbench.jobs.prepare import job_of
from dpbench.jobs.study import StudyJob
from dpbench.package import conf_folder
from dpbench.privacy import GDP, ZCDP, ApproxDP, PureDP
from dpbench.sweep import plan
from dpbench.theory.bounds import numbers as lower_bounds
from dpbench.theory.bounds.of_class import Bound
from tests.bench import MINE, REQUEST, Bench

SWEEPS = sorted(path.stem for path in (conf_folder() / "sweep").glob("*.yaml"))
NS = [10, 100, 1000, 10000]


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_is_usable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # lower bounds, and where they put laws, are most of the time, and have tests of their own
    monkeypatch.setattr(plan, "_bound", lambda *_: Bound(1.0, "anything"))
    monkeypatch.setattr(lower_bounds, "indistinguishable", lambda n, *_: 0.7 / n)
    prepared = job_of(composed([f"sweep={name}"]), None)
    kinds = {"audit": AuditJob, "libraries": LibrariesJob}
    assert isinstance(prepared, kinds.get(name, StudyJob))
    if isinstance(prepared, StudyJob):
        study = prepared.plan.study
        assert study.name == name
        assert name == "ci" or (study.all_claims and study.all_figures)
        assert all(figure.caption for figure in study.all_figures.values())
        if name == "near_optimal":  # numbers of more than three n, for each of two amounts, overlap
            assert len({cell.n for cell in prepared.plan.cells}) <= 3  # in the column of a paper


@pytest.mark.parametrize("name", ["field", "near_optimal", "person_level", "pure_vs_approx"])
def test_whether_a_bound_is_known_does_not_depend_on_n(name: str) -> None:
    """Of every class that has bounds: so a claim that needs one asks at a single n."""
    prepared = job_of(composed([f"sweep={name}"]), None)
    assert isinstance(prepared, StudyJob)
    families = [one.value for one in prepared.plan.study.families.values()]
    for budget in (PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6)):
        for family, local in itertools.product(families, (False, True)):
            about = {
                math.isnan(family.lower_bound(n, budget, local=local).value)
                for n in (10, 1000, 10**9)
            }
            assert len(about) == 1, (family, budget, local)


def test_a_sweep_in_many_dimensions_runs(bench: Bench) -> None:
    """With few trials: every claim has a row, and quantiles say nothing."""
    words = ["sweep=pure_vs_approx", "trials=8", "out=out", "n_jobs=1"]
    words += [f"~sweep.parts.{part}.figures" for part in ("dimension", "n", "delta", "radius")]
    prepared = job_of(composed(words), None)
    assert isinstance(prepared, StudyJob)
    result = bench.raw(*words)
    assert result.code == 0, result
    assert bench.manifest()["failures"] == []
    claims = bench.table("claims.csv")
    for label, claim in prepared.plan.study.all_claims.items():
        assert set(claims.loc[claims["claim"] == label, "metric"]) == {claim.statement.metric}
    assert set(claims.loc[claims["metric"] == "q90", "verdict"]) == {"inconclusive"}
    summary = bench.table()
    assert sorted(summary["d"].unique()) == [4, 16, 64, 256, 1024]
    assert (summary["sampling_q90"] == 0).all()  # fixed data
    assert (summary.loc[summary["estimator"] == "mean", "q90"] == 0).all()


@pytest.mark.parametrize("kind", [Estimator, Distribution])
def test_every_kind_has_a_configuration(kind: type[Any]) -> None:
    folder = conf_folder() / kind.__name__.lower()
    texts = "".join(path.read_text() for path in folder.glob("*.yaml"))
    own = [name for name, one in kind.kinds().items() if one.__module__.startswith("dpbench.")]
    assert [name for name in own if f"kind: {name}\n" not in texts] == []


def test_sample_complexities_are_written_and_found_again(bench: Bench) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["parts"] = {"all": {"n": NS, "trials": 40}}
        for section, kept in (("families", "tails"), ("estimators", "minimax")):
            spec[section] = {kept: spec[section][kept]}
        spec["claims"] = {}
        spec["sample_complexity"] = {"accuracy": REQUEST}

    bench.write(change)
    assert "Smallest n" in bench.done().out
    table = bench.table("sample_complexity.csv")
    curve, search = (table[table["method"] == m] for m in ("curve", "search"))
    assert np.allclose(curve["alpha"], sorted({*np.geomspace(0.3, 0.6, 3), 0.4}))
    assert (curve["samples"].diff().dropna() < 0).all()  # a smaller alpha needs more
    # 40 trials: the two agree within a factor; the exact laws are tested elsewhere.
    (found,) = search["samples"]
    assert 0.3 < found / curve.loc[curve["alpha"] == 0.4, "samples"].item() < 3
    before, blocks = bench.read("sample_complexity.csv"), bench.stored()
    (bench.folder / "out" / "manifest.json").unlink()
    bench.done()
    assert bench.read("sample_complexity.csv") == before
    assert bench.stored() == blocks


def test_a_failure_of_a_direct_search_can_be_replayed(bench: Bench) -> None:
    """It fails at sample sizes that no part of the sweep has."""
    request = {**REQUEST, "estimators": "odd", "low": 50, "high": 500, "search": 100}
    bench.odd(
        f"if sample.n not in {NS}: raise ArithmeticError('odd n')",
        lambda spec: spec.update(
            families={"tails": spec["families"]["tails"]},
            estimators={"odd": {"kind": "odd"}},
            parts={"tails": {"n": NS, "trials": 40}},
            claims={},
            sample_complexity={"accuracy": request},
        ),
    )
    assert bench.run(MINE).code == 1
    replayed = bench.raw(*shlex.split(bench.manifest()["failures"][0]["replay"])[3:])
    assert replayed.code == 1
    assert "ArithmeticError: odd n" in replayed.err
