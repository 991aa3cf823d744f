"""Tests of sweeps of libraries with a fake library that is missing, wrong, or ends."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.libraries.hostile_columns import CASES
from dpbench.libraries.job import LibrariesJob
from dpbench.libraries.means.process import close_libraries
from dpbench.libraries.replay import replay_table
from dpbench.libraries.report import benchmarks, figure, render
from dpbench.libraries.sweep import ReplaySettings
from dpbench.output.files import Checksums, atomic
from dpbench.output.terminal import WIDTH
from dpbench.report.page import read_run
from tests.bench import PLUGIN, Bench, unusable
from tests.fake_library import CRASH
from tests.support import page_columns

SWEEP: dict[str, Any] = {
    "name": "tiny",
    "families": {"centre": {"kind": "bernoulli", "p": 0.5}, "edge": {"kind": "bernoulli", "p": 0}},
    "estimators": {
        "opendp": {"kind": "library_mean", "library": "opendp"},
        "python_dp": {"kind": "library_mean", "library": "python-dp"},
        "own": {"kind": "clipped_mean", "lower": 0, "upper": 1},
    },
    "budgets": {
        "replace": {"kind": "pure_dp", "epsilon": 1},
        "add_remove": {"kind": "pure_dp", "epsilon": 1, "neighbours": "add_remove"},
    },
    "parts": {"all": {"n": [100], "trials": 3000}},
    "libraries": {"seconds": 20, "hostile": {"n": 1000, "trials": 5}},
    "claims": {"error": {"tolerance": 0.2, "reason": "few releases"}},
}


@pytest.fixture
def sweep(fakes: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    def draw(job: LibrariesJob, _tables: object, checksums: Checksums) -> None:  # drawing is slow
        with atomic(job.folder / "figures" / "libraries.svg", checksums) as path:
            path.write_text("<svg/>")

    monkeypatch.setattr(LibrariesJob, "_draw", draw)
    bench.text(json.dumps(SWEEP))
    return bench


def test_a_sweep_with_a_plug_in_that_reads_a_file_is_measured_again(sweep: Bench) -> None:
    (sweep.conf / "mine.py").write_text(
        PLUGIN.format(body="value = value + np.loadtxt('data.txt')")
    )
    words = ["plugins=[mine]", "+sweep.estimators.odd={kind: odd}", "trials=20"]
    data, found = sweep.folder / "data.txt", list[float]()
    for shift in ("0", "1000"):
        data.write_text(shift)
        sweep.forget()
        result = sweep.run(*words)
        assert f"measures the libraries again, because a plug-in has read '{data}'" in result.out
        assert sweep.manifest()["files_opened"] == [str(data)]
        rows = sweep.table("libraries.csv")
        found.append(rows[rows["estimator"] == "odd"]["bias"].abs().max())
    assert found[1] > found[0] + 100


def test_a_sweep_names_what_is_missing_and_runs_the_others(sweep: Bench) -> None:
    """The fake library has noise of a fixed seed; `own` has noise of the seed of the sweep."""
    result = sweep.done()
    assert "python_dp: not installed: python -m dpbench libraries python-dp" in result.out
    rows = sweep.table("libraries.csv")
    assert set(rows["estimator"]) == {"opendp", "own"}
    assert (rows["trials"] == 3000).all()
    assert (abs(rows["error"] - [1, 1, 1, 1]) < 0.15).all()
    assert (abs(rows["bias"]) < 0.15).all()
    for file in ("libraries.csv", "hostile.csv"):
        assert list(sweep.table(file)) == page_columns(file)
    assert set(sweep.table("claims.csv")["verdict"]) == {"consistent"}
    hostile = sweep.table("hostile.csv").query("estimator == 'opendp'")
    assert hostile["outcome"].tolist() == [
        "NaN", "answered", "answered", "answered", "answered", "answered", "refused", "wrong",
    ]  # fmt: skip
    assert hostile.set_index("outcome")["message"].fillna("").astype(bool)["refused"]
    page, text = sweep.read("report.html"), sweep.read("scoreboard.txt")
    assert "not installed" in page
    assert "2 estimators on columns of 2 distributions with n = 100 and ε = 1" in page
    assert "NaN or a wrong mean in 2 of 15 answers about odd columns; python_dp did not run" in page
    assert max(map(len, text.splitlines())) <= WIDTH
    table = pd.read_csv(sweep.folder / "out/overview.csv", keep_default_na=False)
    names = [re.sub("^(error|bias) .*", r"\1 LAW", one) for one in map(str, table)]
    names = list(dict.fromkeys("CASE" if one in CASES else one for one in names))
    audited = [one for one in page_columns("overview.csv") if one not in ("shown", "verdict")]
    assert names == audited
    drawn = figure(table, rows).axes[0].get_yticklabels()
    assert [label.get_text() for label in drawn] == ["OpenDP", "own"]
    captions = read_run(sweep.folder / "out", "r0", 9)["captions"]
    assert captions["libraries"].endswith("; python_dp did not run")
    verdicts = sweep.table("verdicts.csv")
    assert verdicts["library"].tolist() == ["opendp"]  # `own` is no other library
    sentence = f"opendp {verdicts['version'][0]} is inconclusive: no audit of opendp."
    assert verdicts["sentence"].tolist() == [sentence]
    assert text.startswith(f"Which library can be trusted, as far as this run tells:\n{sentence}\n")
    assert page.index(sentence) < page.index("Errors, biases, milliseconds")
    assert "wrong on purpose" not in text
    claims = sweep.table("claims.csv").assign(verdict="inconclusive")
    unsure = render(table, claims, verdicts)
    assert "inconclusive: error of opendp on edge:\n  predicted" in unsure


def test_where_nothing_is_installed(sweep: Bench) -> None:
    alone = {name: one for name, one in SWEEP["estimators"].items() if name == "python_dp"}
    sweep.text(json.dumps({**SWEEP, "estimators": alone}))
    unusable(
        sweep.run(), "none of these can run; python_dp: not installed: python -m dpbench libraries"
    )


def test_a_wrong_library_and_one_that_ends_make_the_exit_code_1(
    sweep: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Noise that is off by half of its scale moves the mean absolute error by e^(-1/2) - 1/2."""
    monkeypatch.setenv("FAKE_WRONG", "1.0")
    result = sweep.run()
    assert result.code == 1
    assert "inconsistent: error of opendp" in result.out
    crash = {"edge": {"kind": "gaussian", "location": CRASH, "scale": 1e-300}}
    sweep.text(json.dumps(SWEEP | {"families": SWEEP["families"] | crash}))
    result = sweep.run("trials=100")
    assert result.code == 1
    rows = sweep.table("libraries.csv").set_index(["estimator", "distribution"])
    assert rows["message"]["opendp", "edge"] == "opendp: its process ended: out of ideas"
    assert rows["failure_rate"].to_dict() == dict.fromkeys(rows.index, 0) | {("opendp", "edge"): 1}
    monkeypatch.setenv("FAKE_WRONG", "at the start")
    close_libraries()
    result = sweep.run("trials=100", "resume=false")
    assert result.code == 1
    assert "opendp: its process ended: ValueError" in result.out.replace(
        "opendp: opendp:", "opendp:"
    )


def test_controls_stand_apart_and_below(sweep: Bench) -> None:
    """A mean that is wrong on purpose, with the smallest error of all, is the first estimator."""
    estimators = {"wrong": {"kind": "clipped_mean", "lower": 0.5, "upper": 0.51}}
    cases = {"all": {"estimators": "wrong", "budgets": "replace", "n": 12}}
    spec = SWEEP["libraries"] | {"audit": {"runs": 100, "cases": cases}, "refuted": ["wrong"]}
    changed = {"estimators": estimators | SWEEP["estimators"], "libraries": spec}
    changed["families"] = {"centre": SWEEP["families"]["centre"]}
    sweep.text(json.dumps(SWEEP | changed))
    sweep.run("trials=30")
    text, page = sweep.read("scoreboard.txt"), sweep.read("report.html")
    judged, heading, controls = text.partition("Controls, wrong on purpose: an audit must refute")
    assert heading
    assert "\nwrong " not in judged
    assert controls.count("\nwrong ") == 4  # in each table
    assert "\nopendp " not in controls
    assert max(map(len, text.splitlines())) <= WIDTH
    errors, _, apart = page.partition("Controls, wrong on purpose: errors, biases")
    assert '<td class="w">wrong</td>' not in errors.partition("Errors, biases, milli")[2]
    assert '<td class="w">wrong</td>' in apart
    table = pd.read_csv(sweep.folder / "out/overview.csv", keep_default_na=False)
    assert table["estimator"].tolist() == ["opendp", "python_dp", "own", "wrong"]
    assert table["control"].tolist() == ["", "", "", "wrong on purpose"]
    axes = figure(table, sweep.table("libraries.csv")).axes[0]
    assert axes.get_yticklabels()[-1].get_text() == "wrong (control)"


def test_an_audit_that_is_otherwise_than_known_makes_the_exit_code_1(sweep: Bench) -> None:
    cases = {"all": {"estimators": "own", "budgets": "replace", "n": 12}}
    spec = SWEEP["libraries"] | {"audit": {"runs": 100, "cases": cases}, "refuted": ["own"]}
    sweep.text(json.dumps(SWEEP | {"libraries": spec}))
    result = sweep.run("trials=3")
    assert result.code == 1
    assert "audit: own: not refuted, refuted was expected" in result.out
    assert 'class="answer bad"' in sweep.read("report.html")
    assert set(sweep.table("audit.csv")["estimator"]) == {"own"}


def test_a_replay_that_is_otherwise_than_known_makes_the_exit_code_1(
    sweep: Bench,
) -> None:
    """The sum, the variance, the count and the histogram of the fake library are wrong."""
    known = {name: ["laplace"] for name in ("sum", "variance", "count", "histogram")}
    replay = {"n": 4, "intervals": [[0, 1]], "refuted": {"opendp": known}}
    sweep.text(json.dumps(SWEEP | {"libraries": SWEEP["libraries"] | {"replay": replay}}))
    result = sweep.done("trials=3")
    assert "control, a mean that states half of its sensitivity: caught" in result.out
    assert "diffprivlib: replay: not installed" in result.out
    assert sweep.table("replay.csv")["verdict"].value_counts().to_dict() == {
        "refuted": 8, "not refuted": 4,
    }  # fmt: skip
    page = sweep.read("report.html")
    summary = "7 of 11 replayed mechanisms refuted: opendp sum, opendp variance, opendp count"
    assert summary in page
    assert "largest move of each mechanism" in page
    assert "replay.csv" in sweep.read("manifest.json")
    del known["sum"]
    sweep.text(json.dumps(SWEEP | {"libraries": SWEEP["libraries"] | {"replay": replay}}))
    result = sweep.run("trials=3")
    assert result.code == 1
    assert "replay: opendp sum laplace: refuted, not refuted was expected" in result.out


def test_a_replay_that_misses_its_control_makes_the_exit_code_1(
    sweep: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    replay = {"n": 4, "libraries": ["numpy"]}
    sweep.text(json.dumps(SWEEP | {"libraries": SWEEP["libraries"] | {"replay": replay}}))
    right = replay_table(ReplaySettings(n=4, libraries=("numpy",)))
    blind = right.assign(verdict="not refuted")
    monkeypatch.setattr("dpbench.libraries.job.replay_table", lambda _: blind)
    result = sweep.run("trials=3")
    assert result.code == 1
    assert "half of its sensitivity: missed" in result.out
    assert "replay: numpy halved_mean laplace: not refuted, refuted was expected" in result.out
    assert 'class="answer bad"' in sweep.read("report.html")


def test_what_a_sweep_of_libraries_cannot_use(sweep: Bench) -> None:
    for words, said in (
        (["track=check"], "track: 'check': not for libraries"),
        (["+sweep.libraries.lower=2"], "upper must exceed lower"),
        (["+sweep.libraries.refuted=[nope]"], "sweep.libraries.refuted: 'nope'"),
        (
            ["+sweep.libraries.audit={cases: {a: {n: 12, budgets: nope}}}"],
            "sweep.libraries.audit.cases.a.budgets: 'nope'",
        ),
        (["+sweep.libraries.replay={refuted: {numpy: {meen: []}}}"], "did you mean 'mean'"),
        (["paper=true"], "paper: True: not for libraries"),
        (["+sweep.claims.width={tolerance: 1, reason: x}"], "width"),
        (["+sweep.budgets.zcdp={kind: zcdp, rho: 1}"], "need the kind pure_dp"),
    ):
        result = sweep.run(*words)
        assert result.code == 2
        assert said in result.err
        assert result.err.count("\n") == 1


def test_an_error_near_the_largest_double_leaves_the_frame_without_a_warning() -> None:
    """The universal mean errs by 1e299 where the budget is too small for its search."""
    rows = pd.DataFrame(
        {
            "distribution": "centre",
            "estimator": ["far", "far", "near", "near"],
            "n": [100, 1000, 100, 1000],
            "epsilon": 1.0,
            "error": [1.7e299, 1.0, 1.0, 1.0],
        }
    )
    canvas = benchmarks(rows, 1.0)
    canvas.draw_without_rendering()
    low, high = canvas.axes[0].get_ylim()
    assert 1e-6 < low < high < 10


def test_errors_are_drawn_in_the_unit_of_the_records() -> None:
    """Width 4 over n epsilon; the law with most n and epsilon, and the others held fixed."""
    about = {"distribution": "centre", "estimator": "one"}
    rows = pd.DataFrame(
        [{**about, "n": n, "epsilon": epsilon, "error": error} for n, epsilon, error in (
            (100, 1.0, 2.0), (1000, 1.0, 3.0), (1000, 0.5, 5.0), (1000, 0.1, 6.0),
        )] + [{**about, "distribution": "edge", "n": 100, "epsilon": 1.0, "error": 9.0}]
    )  # fmt: skip
    by_n, by_epsilon = (
        [np.array(line.get_data(), dtype=float).T for line in ax.get_lines() if
         len(np.asarray(line.get_xdata())) > 1]
        for ax in benchmarks(rows, 4.0).axes
    )  # fmt: skip
    np.testing.assert_allclose(by_n[0], [(100, 2 * 4 / 100), (1000, 3 * 4 / 1000)])
    np.testing.assert_allclose(
        by_epsilon[0], [(0.1, 6 * 4 / 100), (0.5, 5 * 4 / 500), (1.0, 3 * 4 / 1000)]
    )
