"""Libraries in processes of their own, by a fake one: the protocol, and the sweep."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import linprog
from scipy.sparse import coo_array

from dpbench import release
from dpbench.audit import audit_pair
from dpbench.commands.libraries import main
from dpbench.estimators.libraries import process
from dpbench.estimators.libraries.expected import expected, lower_bound
from dpbench.estimators.libraries.mean import KNOWN, LibraryMean
from dpbench.estimators.libraries.process import (
    LibraryError,
    Releases,
    close_libraries,
    folder,
    library,
    python,
)
from dpbench.estimators.libraries.worker import LIBRARIES
from dpbench.jobs.libraries import LibrariesJob
from dpbench.libraries.hostile import CASES, hostile, outcome
from dpbench.libraries.report import figure, render
from dpbench.output.files import Stamps, atomic
from dpbench.output.terminal import WIDTH
from dpbench.privacy import PureDP
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.page import read_run
from tests.bench import Bench, unusable
from tests.fake_library import CRASH, HANG, REFUSE, WARN

FAKE = Path(__file__).parents[1] / "fake_library.py"
ADD_REMOVE = PureDP(1.0, neighbours="add_remove")
ASK = {"epsilon": 1.0, "lower": 0.0, "upper": 1.0, "size": 4, "contributions": 2}
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
def fakes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder of libraries with a fake OpenDP and nothing else."""
    monkeypatch.setenv("DPBENCH_LIBRARIES", str(tmp_path))
    close_libraries()
    root = FAKE.parents[1]
    python("opendp").parent.mkdir(parents=True)
    python("opendp").write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} {FAKE} "$@"\n')
    python("opendp").chmod(0o755)
    yield tmp_path
    close_libraries()


def _release(first: float, **how: Any) -> Releases:
    return library("opendp").release(np.array([first, 1.0, 0.0, 1.0]), ASK, 3, **how)


def test_replies_are_read_whatever_is_printed(fakes: Path) -> None:
    found = _release(0.0)
    assert np.isfinite(found.values).all()
    assert len(set(found.values)) == len(found.seconds) == 3
    assert not found.raised.any()
    assert not found.told
    assert _release(WARN).told == "UserWarning: beware"
    refused = _release(REFUSE)
    assert np.isnan(refused.values).all()
    assert refused.raised.all()
    assert refused.told == "ValueError: not this one really"


def test_a_process_that_ends_or_hangs_is_named_and_started_anew(fakes: Path) -> None:
    first = library("opendp").version
    with pytest.raises(LibraryError, match="opendp: its process ended: out of ideas"):
        _release(CRASH)
    assert np.isfinite(_release(0.0).values).all()
    with pytest.raises(LibraryError, match=r"no answer in 0\.3 s"):
        _release(HANG, limit=0.3)
    assert np.isfinite(_release(0.0).values).all()
    assert library("opendp").version == first
    # a request that is larger than a pipe holds, to a process that reads none of it
    library("opendp")._process.kill()  # type: ignore[union-attr]
    with pytest.raises(LibraryError, match="process ended"):
        library("opendp").release(np.zeros(100_000), ASK, 1)


def test_what_is_missing_says_how_to_install_it(fakes: Path) -> None:
    mean = LibraryMean(library="python-dp")
    with pytest.raises(LibraryError, match=r"not installed: bash dev\.sh libraries python-dp"):
        release(mean, np.zeros(10), ADD_REMOVE, rng=np.random.default_rng(0))
    assert folder("tumult") == fakes / "tumult"
    with pytest.raises(
        ConfigError, match=r"'nope': no such library; did you mean 'opendp'\? choose"
    ):
        main(["python-dp", "nope"])
    with pytest.raises(ConfigError, match="did you mean 'python-dp'"):
        main(["python_dp"])
    assert set(process.REQUIREMENTS) | {"numpy"} == set(LIBRARIES) == set(KNOWN)


def test_the_mean_by_hand_needs_no_environment(fakes: Path) -> None:
    """Of 4000 releases; the mean absolute error is off by 6 sd with probability 2e-9."""
    mean, x = LibraryMean(library="numpy", lower=0, upper=2), np.repeat([0, 1], 50)
    found = mean.releases(x, PureDP(0.5), 4000)
    error = np.abs(found.values - 0.5) * len(x) * 0.5 / 2
    assert abs(error.mean() - 1) < 6 / np.sqrt(4000)
    assert mean.releases(np.append(x[1:], 10.0), PureDP(1e6), 1).values[0] == pytest.approx(0.52)
    values = release(mean, x, PureDP(0.5), rng=np.random.default_rng(0), repeats=3)
    assert len(set(np.asarray(values))) == 3  # what is asked again is released again
    assert outcome(mean.releases(np.empty(0), PureDP(1.0), 2), np.nan, 1.0) == "refused"


def test_a_budget_of_other_neighbours_is_refused(fakes: Path) -> None:
    for name, relation, budget in (
        ("opendp", "replace", ADD_REMOVE),
        ("python-dp", "add_remove", PureDP(1.0)),
    ):
        mean = LibraryMean(library=name)  # type: ignore[arg-type]
        with pytest.raises(ValueError, match=f"neighbours: {relation}"):
            release(mean, np.zeros(10), budget, rng=np.random.default_rng(0))
    for wrong in (
        {"library": "opendp", "lower": None, "upper": None},
        {"library": "diffprivlib", "lower": None},
        {"library": "numpy", "lower": 1, "upper": 1},
        {"library": "numpy", "contributions": 1},
        {"library": "nope"},
    ):
        with pytest.raises(ConfigError):
            from_mapping(LibraryMean, wrong, "")


@pytest.mark.parametrize("m", [0.0, 0.1, 0.4, 1.0])
@pytest.mark.parametrize("noise", ["laplace", "sum_and_count"])
@pytest.mark.parametrize("truncated", [False, True])
def test_expected_errors_by_quadrature(noise: Any, m: float, truncated: bool) -> None:
    """On a grid of the quantiles of both noises, at a width of 3 b."""
    u = (np.arange(3000) + 0.5) / 3000
    one = -np.sign(u - 0.5) * np.log(1 - 2 * np.abs(u - 0.5))
    c = 2 * (m - 0.5) if noise == "sum_and_count" else 0.0
    error = one[:, None] - c * (one if c else np.zeros(1))
    if truncated:
        error = np.clip(error, -3 * m, 3 * (1 - m))
    found = expected(noise, m, 3.0, truncated=truncated)
    assert found == pytest.approx((np.abs(error).mean(), error.mean()), abs=2e-3)


@pytest.mark.parametrize("epsilon", [0.5, 1.0])
def test_lower_bounds_by_linear_programs(epsilon: float) -> None:
    """The least sum f |x - y| / sum f over the densities that neighbours allow, for three y."""

    def least(grid: int) -> float:
        """Of columns 1/grid apart, which are neighbours at distances up to 1."""
        x = np.arange(-24 * grid, 24 * grid + 1) / grid
        i, j = np.nonzero((np.abs(x[:, None] - x) <= 1) & (x[:, None] != x))
        row, ratio = np.arange(len(i)), np.full(len(i), -np.exp(epsilon))
        values = np.concatenate([np.ones(len(i)), ratio])
        unlike = coo_array((values, (np.tile(row, 2), np.concatenate([i, j])))).tocsr()
        about: dict[str, Any] = {
            "A_ub": unlike,
            "b_ub": np.zeros(len(i)),
            "A_eq": np.ones((1, len(x))),
        }
        found = [linprog(np.abs(x - y), **about, b_eq=[1]).fun for y in (0, 0.3 / grid, 0.5 / grid)]
        return float(epsilon * min(found))

    assert lower_bound("add_remove", 1.0, epsilon) == pytest.approx(least(1), rel=1e-3)
    assert lower_bound("add_remove", 0.4, epsilon) == pytest.approx(0.6 * least(1), rel=1e-3)
    assert lower_bound("replace", 0.4, epsilon) == pytest.approx(least(4), rel=0.01)


def test_the_outcomes_of_hostile_columns() -> None:
    for case in CASES:
        made = hostile(case, 100, -1.0, 3.0)
        assert len(made.column) == {"empty": 0, "one_record": 1}.get(case, 100)
        assert (made.size is None) == (case != "wrong_size")
        assert np.isnan(made.mean) == (case == "empty")
        assert (made.column.dtype.kind == "i") == (case == "integers")
    fine, nan, none = np.array([1.0, 1.1]), np.array([1.0, np.nan]), np.zeros(2)

    def said(values: Any, raised: Any = (False, False)) -> str:
        return outcome(Releases(values, np.array(raised), none), 1.0, 0.01)

    assert said(fine) == "answered"
    assert said(nan) == "NaN"
    assert said(nan, (True, True)) == "refused"
    assert said(nan, (False, True)) == "at times refused"
    assert said(np.array([1.0, 1.5])) == "wrong"


@pytest.fixture
def sweep(fakes: Path, bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    def draw(made: LibrariesJob, _tables: object, stamps: Stamps) -> None:  # nothing, slow as it is
        with atomic(made.folder / "figures" / "libraries.svg", stamps) as path:
            path.write_text("<svg/>")

    monkeypatch.setattr(LibrariesJob, "_draw", draw)
    bench.text(json.dumps(SWEEP))
    return bench


def test_a_sweep_names_what_is_missing_and_runs_the_others(sweep: Bench) -> None:
    """The fake's noise has a fixed seed; `own` has the sweep's."""
    result = sweep.done()
    assert "python_dp: not installed: bash dev.sh libraries python-dp" in result.out
    rows = sweep.table("libraries.csv")
    assert set(rows["estimator"]) == {"opendp", "own"}
    assert (rows["trials"] == 3000).all()
    assert (abs(rows["error"] - [1, 1, 1, 1]) < 0.15).all()
    assert (abs(rows["bias"]) < 0.15).all()
    assert set(sweep.table("claims.csv")["verdict"]) == {"consistent"}
    met = sweep.table("hostile.csv").query("estimator == 'opendp'")
    assert met["outcome"].tolist() == [
        "NaN", "answered", "answered", "answered", "answered", "answered", "refused", "wrong",
    ]  # fmt: skip
    page, text = sweep.read("report.html"), sweep.read("scoreboard.txt")
    assert "not installed" in page
    about = "2 estimators from those of columns of 2 distributions with n = 100 and ε = 1"
    assert f"How far are private means of {about}; is it what their noise explains?" in page
    assert "NaN or a wrong mean in 2 of 15 answers about odd columns; python_dp did not run" in page
    assert max(map(len, text.splitlines())) <= WIDTH
    table = pd.read_csv(sweep.folder / "out/overview.csv", keep_default_na=False)
    drawn = figure(table, rows).axes[0].get_yticklabels()
    assert [label.get_text() for label in drawn] == ["OpenDP", "own"]
    captions = read_run(sweep.folder / "out", "r0", 9)["captions"]
    assert captions["libraries"].endswith("; python_dp did not run")
    unsure = render(table, sweep.table("claims.csv").assign(verdict="inconclusive"))
    assert "inconclusive: error of opendp on edge:\n  predicted" in unsure


def test_where_nothing_is_installed(sweep: Bench) -> None:
    alone = {name: one for name, one in SWEEP["estimators"].items() if name == "python_dp"}
    sweep.text(json.dumps({**SWEEP, "estimators": alone}))
    unusable(sweep.run(), "none of these can run; python_dp: not installed: bash dev.sh libraries")


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
    assert rows["told"]["opendp", "edge"] == "opendp: its process ended: out of ideas"
    assert rows["failure_rate"].to_dict() == dict.fromkeys(rows.index, 0) | {("opendp", "edge"): 1}
    monkeypatch.setenv("FAKE_WRONG", "at the start")
    close_libraries()
    result = sweep.run("trials=100", "resume=false")
    assert result.code == 1
    assert "opendp: its process ended: ValueError" in result.out.replace(
        "opendp: opendp:", "opendp:"
    )


def test_an_audit_that_is_otherwise_than_known_makes_the_exit_code_1(sweep: Bench) -> None:
    cases = {"all": {"estimators": "own", "budgets": "replace", "n": 12}}
    spec = SWEEP["libraries"] | {"audit": {"runs": 100, "cases": cases}, "refuted": ["own"]}
    sweep.text(json.dumps(SWEEP | {"libraries": spec}))
    result = sweep.run("trials=3")
    assert result.code == 1
    assert "audit: own: not refuted, refuted was expected" in result.out
    assert 'class="answer bad"' in sweep.read("report.html")
    assert set(sweep.table("audit.csv")["estimator"]) == {"own"}


def test_what_a_sweep_of_libraries_cannot_use(sweep: Bench) -> None:
    for words, said in (
        (["track=check"], "track: 'check': not for libraries"),
        (["+sweep.libraries.lower=2"], "upper must exceed lower"),
        (["+sweep.libraries.refuted=[nope]"], "sweep.libraries.refuted: 'nope'"),
        (
            ["+sweep.libraries.audit={cases: {a: {n: 12, budgets: nope}}}"],
            "sweep.libraries.audit.cases.a.budgets: 'nope'",
        ),
        (["paper=true"], "paper: True: not for libraries"),
        (["+sweep.claims.width={tolerance: 1, reason: x}"], "width"),
        (["+sweep.budgets.zcdp={kind: zcdp, rho: 1}"], "pure_dp alone"),
    ):
        result = sweep.run(*words)
        assert result.code == 2
        assert said in result.err
        assert result.err.count("\n") == 1


INSTALLED = [name for name in KNOWN if name != "tumult" and python(name).exists()]


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_the_true_libraries(name: Any) -> None:
    """Its error is as expected: 6 sd of 4000 releases are passed with probability 2e-9."""
    trials = 30 if name == "pipeline-dp" else 4000
    mean, relation = LibraryMean(library=name), KNOWN[name].relation
    x = np.full(1000, 0.1)
    found = mean.releases(x, PureDP(1.0, neighbours=relation), trials).values
    wanted = mean.expected(0.1, 1000.0)
    assert wanted is not None
    # the absolute value of a sum of two Laplace noises has a smaller deviation than twice its mean
    assert abs(np.abs(found - 0.1).mean() * 1000 - wanted.error) < 6 * 2 / np.sqrt(trials)


@pytest.mark.slow
@pytest.mark.skipif("opendp" not in INSTALLED, reason="bash dev.sh libraries opendp")
def test_one_contribution_is_no_privacy() -> None:
    """OpenDP 0.16: no neighbours of one size differ by one addition, and there is no noise."""
    pair = np.zeros(20), np.append(np.zeros(19), 1.0)
    rng = np.random.default_rng(0)
    for contributions, verdict in ((1, "refuted"), (2, "not refuted")):
        mean = LibraryMean(library="opendp", contributions=contributions)  # type: ignore[arg-type]
        assert audit_pair(mean, PureDP(1.0), pair, runs=400, rng=rng).verdict == verdict
