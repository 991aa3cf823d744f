"""A study's job: bounds, many dimensions, sample complexities, gates and failures."""

from __future__ import annotations

import itertools
import math
import shlex
import sys
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.jobs.composition import compose
from dpbench.jobs.prepare import make_job
from dpbench.jobs.study import StudyJob
from dpbench.privacy import GDP, ZCDP, ApproxDP, PureDP
from dpbench.registry import MAX_TRIALS
from tests.bench import MINE, REQUEST, Bench, shipped

NS = [10, 100, 1000, 10000]


@pytest.mark.parametrize("name", ["field", "near_optimal", "person_level", "pure_vs_approx"])
def test_whether_a_bound_is_known_does_not_depend_on_n(name: str) -> None:
    """Of every class that has bounds: so a claim that needs one asks at a single n."""
    prepared = make_job(shipped(name), None)
    assert isinstance(prepared, StudyJob)
    families = [one.value for one in prepared.plan.study.families.values()]
    for budget in (PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6)):
        for family, local in itertools.product(families, (False, True)):
            about = {
                math.isnan(family.lower_bound(n, budget, local=local).value)
                for n in (10, 1000, 10**9)
            }
            assert len(about) == 1, (family, budget, local)


@pytest.mark.parametrize(
    ("needed", "said"), [(0, False), (MAX_TRIALS, True), (MAX_TRIALS + 1, False)]
)
def test_the_next_command_is_one_that_can_be_run(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, needed: int, said: bool
) -> None:
    """More trials than are allowed decide nothing."""
    monkeypatch.setattr("dpbench.jobs.study.trials_to_decide", lambda *_: float(needed))
    assert (f"trials={needed}" in bench.done("trials=4").out) is said


@pytest.mark.parametrize(
    ("word", "hint"),
    [
        ("inconclusive", "more trials"),
        ("inconsistent", "an independent replication"),
        ("consistent", "an independent replication"),
    ],
)
def test_only_an_undecided_answer_is_followed_by_more_trials(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, word: str, hint: str
) -> None:
    monkeypatch.setattr("dpbench.jobs.study.trials_to_decide", lambda *_: math.nan)
    monkeypatch.setattr("dpbench.jobs.study.shown_verdicts", lambda _: (word, ""))
    assert bench.done("trials=4").out.splitlines()[-1].startswith(hint)


def test_a_sweep_in_many_dimensions_runs(bench: Bench) -> None:
    """With few trials: every claim has a row, and quantiles say nothing."""
    words = ["sweep=pure_vs_approx", "trials=8", "out=out", "n_jobs=1"]
    words += [f"~sweep.parts.{part}.figures" for part in ("dimension", "n", "delta", "radius")]
    prepared = make_job(compose(words), None)
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
    request = {**REQUEST, "estimators": "odd", "low": 50, "high": 500, "search": 100, "trials": 450}
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
    failures = bench.manifest()["failures"]
    last = next(one for one in failures if "block 2:" in one["failure"])  # parts have one block
    repeated = bench.raw(*shlex.split(last["rerun"])[3:])
    assert repeated.code == 1
    assert "ArithmeticError: odd n" in repeated.err


def test_an_estimator_that_raises(bench: Bench) -> None:
    """Is rows and a line; the others do not notice; its claim says nothing; it can be repeated."""
    bench.done("out=without")

    def change(spec: dict[str, Any]) -> None:
        spec["claims"]["alpha"]["estimators"] = ["minimax", "odd"]

    bench.odd("raise ArithmeticError('no luck [today]')", change)
    result = bench.run(MINE)
    assert (result.code, result.err) == (1, "")
    lines = [line for line in result.out.splitlines() if line.startswith("failed: ")]
    told = "ArithmeticError: no luck [today]"
    assert any("odd on tails at n = 1000" in line and told in line for line in lines)
    summary = bench.table()
    odd = summary["estimator"] == "odd"
    assert (summary.loc[odd, "failure_rate"] == 1).all()
    assert summary.loc[odd, "mean_error"].isna().all()
    kept = [row for row in bench.read("summary.csv").splitlines() if ",odd," not in row]
    assert kept == bench.read("summary.csv", "without").splitlines()
    rows = bench.rows()
    odd = rows["estimator"] == "odd"
    assert set(rows.loc[odd, "status"]) == {"failed"}
    assert set(rows.loc[odd, "message"]) == {told}
    assert set(rows.loc[~odd, "status"]) == {"released"}
    verdicts = bench.table("claims.csv").set_index("estimator")["verdict"]
    assert set(verdicts["odd"]) == {"inconclusive"}
    again = bench.run(MINE)  # a failed run stays failed
    assert (again.code, "no luck" in again.out) == (1, True)
    assert bench.counts() == (0, 5)

    failures = bench.manifest()["failures"]
    assert (len(failures), len(lines)) == (25, 12)
    assert "and 13 more: see manifest.json" in result.out
    (printed,) = [one for one in result.out.splitlines() if "first failure's traceback: " in one]
    assert printed.endswith(failures[0]["rerun"])
    assert f"(rerun={failures[0]['name']})" in lines[0]
    words = next(f["rerun"] for f in failures if f["failure"].startswith("odd on tails"))
    command, before = shlex.split(words)[3:], bench.files()
    repeated = bench.raw(*command)
    assert repeated.code == 1
    assert repeated.err.endswith(f"{told}\n")
    assert 'mine.py", line' in repeated.err
    assert bench.files() == before
    bench.odd()
    assert bench.raw(*command)[:2] == (0, "released 100% of 200 trials\n")


def test_an_estimator_that_sometimes_releases_nothing(bench: Bench) -> None:
    bench.odd("value = np.where(np.arange(len(value)) % 3 == 0, np.nan, value)")
    bench.done(MINE)
    summary = bench.table().set_index("estimator")
    odd = summary.loc["odd"]
    assert (odd["failures"] == 14).all()
    assert set(odd["failure_rate"].round(12)) == {14 / 40}
    assert (odd["q90"] == math.inf).all()  # more than a tenth is missing
    assert odd["q50"].between(0, sys.float_info.max).all()
    assert odd["mean_error"].notna().all()
    assert (summary.drop("odd")["failures"] == 0).all()
    statuses = bench.rows().set_index("estimator")["status"]
    assert set(statuses["odd"]) == {"released", "nothing released"}


@pytest.mark.parametrize(
    ("here", "of_theorem", "code"),
    [
        ("consistent", "pre-asymptotic", 0),
        ("consistent", math.nan, 0),
        ("inconsistent", math.nan, 1),
        ("inconsistent", "consistent", 1),
        ("consistent", "inconsistent", 1),
    ],
)
def test_a_theorem_that_is_early_fails_no_gate_and_a_refuted_one_does(
    here: str, of_theorem: Any, code: int
) -> None:
    verdicts = {"verdict": [here] * 2, "theorem_verdict": [math.nan, of_theorem]}
    claims = pd.DataFrame({**verdicts, "checks": "theorem"})
    tables = dict.fromkeys(("summary", "factors", "samples"), pd.DataFrame())
    result: Any = SimpleNamespace(claims=claims, failures=[], scoreboard="", **tables)
    for gate in (True, False):
        plan = SimpleNamespace(study=SimpleNamespace(fail_on_inconsistent=gate))
        job: Any = SimpleNamespace(plan=plan, _draw=print, _next=lambda _: None)
        assert StudyJob._outcome(job, result, None).exit_code == code * gate


def test_a_gate(bench: Bench) -> None:
    """Clipping at sqrt(10 n) costs n ~ (1/epsilon)^2, where the theorem promises 1/epsilon."""
    claim = {"theorem": "heavy_tail_epsilon", "tolerance": 0.1, "reason": "far off"}
    part = {"n": [1e6, 1e8, 1e10], "trials": 200, "claims": {"epsilon": claim}}
    for gate in (False, True):
        bench.odd(
            change=lambda spec, gate=gate: spec.update(  # type: ignore[misc]
                **({} if gate else {"fail_on_inconsistent": False}),  # which is not the default
                families={"two_point": {"kind": "two_point_family", "k": 2, "c": [1, 3]}},
                estimators={"odd": {"kind": "odd"}},
                budgets={"pure": {"kind": "pure_dp", "epsilon": [0.001, 0.01, 0.1]}},
                parts={"all": part},
                claims={},
            )
        )
        result = bench.run(MINE)
        assert result.code == gate, result
        found = bench.table("claims.csv").iloc[0]
        assert (found["verdict"], found["predicted"]) == ("inconsistent", 1)
        assert found["measured"] == pytest.approx(2, abs=0.1)
        assert "inconsistent" in result.out
        assert bench.run(MINE).code == gate


def test_what_runs_nothing(bench: Bench) -> None:
    """Help lists the choices, which has the user's own; --cfg job shows the configuration."""
    helped, shown = bench.raw("-h", "--config-dir", "conf"), bench.run("--cfg", "job", "trials=7")
    assert (helped.code, shown.code) == (0, 0)
    for word in ("\n  heavy_tail_large  ", "\n  tiny", "dask, local",
                 "clipped_mean", "student_t", "--help TOPIC [NAME]"):  # fmt: skip
        assert word in helped.out
    assert "trials: 7" in shown.out
    assert "kind: two_point_family" in shown.out
    assert "name: quick" in bench.raw("--cfg", "job").out  # by default
    assert {p.name for p in bench.folder.iterdir()} == {"conf"}


def test_a_row_of_few_trials_is_not_tracked(bench: Bench) -> None:
    """However many others have."""
    bench.write(lambda spec: spec["parts"]["worst"].update(trials=400))
    bench.refuses("track=update", "baseline=base.parquet", named=["track: 40 trials: 100 or more"])
