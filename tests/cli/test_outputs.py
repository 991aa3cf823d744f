"""What a run leaves behind: columns, keys, failures and exit codes."""

from __future__ import annotations

import math
import shlex
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from .conftest import MINE, Bench, unusable

SUMMARY = (
    "distribution family k estimator privacy epsilon delta rho n d trials failures failure_rate "
    "mean_error mean_error_se rmse q50 q90 q90_low q90_high trimmed_mean trimmed_mean_se "
    "sampling_q90 bias_q90 noise_q90 private_q90 lower_bound"
)
# of estimators that release an interval, a scale or a promised accuracy
EXTRAS = (
    "width_q50 miss_rate width_ratio_q50 outside_q90 tv_q50 tv_q90 promise_q90 core_q50 spent "
    "signed_mean signed_mean_se signed_sd mu bound_by"
)
CLAIMS = (
    "claim source estimator distribution variable metric predicted measured low high tolerance "
    "verdict privacy epsilon delta rho mu n_low n_high visible"
)
MANIFEST = (
    "blocks_corrupt blocks_done blocks_reused cells_done cells_reused command commit computed "
    "computer configuration dirty estimator_seconds exit_code failures fingerprint machine "
    "most_trials next outputs parent_cpu_seconds parent_peak_bytes platform reads records_drawn "
    "results sections seed source sweep tracked trials unit untracked_exit_code versions "
    "wall_seconds worker_cpu_seconds worker_peak_bytes"
)
BY = ["distribution", "estimator", "privacy", "epsilon", "n"]


@pytest.fixture(scope="module")
def done(finished: Path) -> Bench:
    """A finished run of the tiny sweep with a figure, to be read only."""
    return Bench(finished)


def test_the_files_of_a_run_and_its_closed_figures(done: Bench) -> None:
    """Twenty open figures make matplotlib warn, and each keeps its memory."""
    names = {p.name for p in (done.folder / "out").rglob("*") if p.suffix != ".parquet"}
    assert names == {
        "blocks", "figures", "errors.svg", "report.html",
        "summary.csv", "claims.csv", "factors.csv", "scoreboard.txt", "manifest.json",
    }  # fmt: skip
    assert {p.name for p in done.folder.iterdir()} == {"conf", "out"}
    from matplotlib import pyplot as plt

    assert plt.get_fignums() == []


def test_summary_and_claims(done: Bench) -> None:
    """A row per distribution, estimator, budget and n, which says what the blocks say."""
    summary = done.table()
    # k is a column of its own: no parameter is swept beside the key
    assert " ".join(summary.columns) == f"{SUMMARY} {EXTRAS}"
    assert " ".join(done.table("claims.csv").columns) == CLAIMS
    assert not summary.duplicated(BY).any()
    assert (summary["trials"] == 40).all()
    assert set(summary["family"]) == {"tails", "two_point_k2", "two_point_k3"}
    private = summary["privacy"] == "pure"
    assert (summary.loc[private, "epsilon"] == 0.1).all()
    assert summary.loc[~private, "epsilon"].isna().all()
    assert summary[["delta", "rho", "mu"]].isna().all(axis=None)
    assert set(summary.loc[~private, "estimator"]) == {"mean"}
    assert (summary["lower_bound"] > 0).all()
    assert set(summary.loc[~private, "bound_by"]) == {"sampling"}  # which binds the mean, too
    assert set(summary.loc[private, "bound_by"]) == {"two laws"}

    rows = done.rows()
    assert len(rows) == 200 * len(summary)
    assert not rows.duplicated([*BY, "trial"]).any()
    assert set(rows["status"]) == {"released"}
    assert set(rows["trial"]) == set(range(200))
    assert (rows["error"] <= rows["sampling"] + rows["private"] + 1e-12).all()

    grouped = rows[rows["trial"] < 40].groupby(["distribution", "estimator", "n"])["error"]
    found = summary.set_index(["distribution", "estimator", "n"]).sort_index()
    pd.testing.assert_series_equal(found["mean_error"], grouped.mean(), check_names=False)
    ranked = grouped.apply(lambda errors: errors.sort_values().iloc[35])  # rank 0.9 * 40
    pd.testing.assert_series_equal(found["q90"], ranked, check_names=False)


def test_the_manifest(done: Bench) -> None:
    manifest = done.manifest()
    assert " ".join(sorted(manifest)) == " ".join(sorted(MANIFEST.split()))
    assert manifest["seed"] == manifest["configuration"]["seed"] == 3
    assert manifest["configuration"]["sweep"]["budgets"] == {
        "pure": {"kind": "pure_dp", "epsilon": 0.1}
    }
    assert {"python", "numpy", "scipy", "pandas", "dpbench"} <= set(manifest["versions"])
    assert manifest["versions"]["pandas"] == pd.__version__
    assert manifest["cells_done"] == manifest["blocks_done"] == 5
    assert manifest["records_drawn"] >= 200 * (1000 + 4 * (10**5 + 10**8))
    assert manifest["failures"] == []
    assert manifest["exit_code"] == 0
    seconds = manifest["estimator_seconds"]
    assert set(seconds) == {"minimax", "rate", "mean"}
    assert all(one > 0 for one in seconds.values())
    assert sum(seconds.values()) <= manifest["worker_cpu_seconds"]


def test_an_estimator_that_raises(bench: Bench) -> None:
    """Is rows and a line; the others do not notice; its claim says nothing; it can be replayed."""
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
    assert printed.endswith(failures[0]["replay"])
    assert f"(replay={failures[0]['name']})" in lines[0]
    words = next(f["replay"] for f in failures if f["failure"].startswith("odd on tails"))
    command, before = shlex.split(words)[3:], bench.files()
    replayed = bench.raw(*command)
    assert replayed.code == 1
    assert replayed.err.endswith(f"{told}\n")
    assert 'mine.py", line' in replayed.err
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


def test_a_gate(bench: Bench) -> None:
    """Clipping at sqrt(10 n) costs n ~ (1/epsilon)^2, where the theorem promises 1/epsilon."""
    claim = {"theorem": "heavy_tail_epsilon", "tolerance": 0.1, "reason": "far off"}
    part = {"n": [1e6, 1e8, 1e10], "trials": 200, "claims": {"epsilon": claim}}
    for gate in (False, True):
        bench.odd(
            change=lambda spec, gate=gate: spec.update(  # type: ignore[misc]
                **({} if gate else {"gate": False}),  # which is not the default
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
                 "clipped_mean", "student_t", "--help sweep|kind|figure"):  # fmt: skip
        assert word in helped.out
    assert "trials: 7" in shown.out
    assert "kind: two_point_family" in shown.out
    assert "name: quick" in bench.raw("--cfg", "job").out  # by default
    assert {p.name for p in bench.folder.iterdir()} == {"conf"}


def test_all_runs_on_one_page(bench: Bench) -> None:
    unusable(bench.raw("report=all"), "report: 'all'", "'results'")
    # By default a run's folder is named by the sweep.
    assert bench.raw("--config-dir", "conf", "sweep=tiny", "n_jobs=1", "trials=4").code == 0
    bench.done("seed=1", "out=results/seed1", "trials=4")
    (bench.folder / "results" / "notes").mkdir()  # is no run
    found = bench.raw("report=all")
    assert found == (0, "2 runs on one page: results/report.html\n", "")
    page = bench.read("report.html", "results")
    assert bench.raw("report=all").code == 0
    assert bench.raw("report=all", "plugins=[nope]").code == 0  # nothing is loaded
    assert bench.read("report.html", "results") == page
    for word in ("track=check", "trials=5", "replay=f0123456789n10"):
        unusable(bench.raw("report=all", word), word.partition("=")[0], "runs nothing")
    for content in (b"a,b\n1,2\n", b"claim\n\xff\n"):
        (bench.folder / "results" / "seed1" / "claims.csv").write_bytes(content)
        files = bench.files()
        unusable(bench.raw("report=all"), "report: 'results/seed1'", "cannot be read")
        assert bench.files() == files
