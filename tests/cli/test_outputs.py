"""What a run leaves behind: columns, keys, failures and exit codes."""

from __future__ import annotations

import math
import shlex
import sys
from typing import Any

import pandas as pd
import pytest

from .conftest import FIGURE, Bench, unusable

SUMMARY = (
    "distribution family k estimator privacy epsilon delta rho n d trials failures failure_rate "
    "mean_error mean_error_se rmse q50 q90 q90_low q90_high trimmed_mean trimmed_mean_se "
    "sampling_q90 bias_q90 noise_q90 private_q90 lower_bound"
)
# of estimators that release an interval, a scale or a promised accuracy
EXTRAS = "width_q50 miss_rate outside_q90 tv_q50 tv_q90 promise_q90 core_q50"
CLAIMS = (
    "claim source estimator distribution variable metric predicted measured low high tolerance "
    "verdict"
)
MANIFEST = {
    "sweep",
    "configuration",
    "seed",
    "versions",
    "commit",
    "dirty",
    "trials",
    "cells_done",
    "cells_reused",
    "blocks_done",
    "blocks_reused",
    "records_drawn",
    "wall_seconds",
    "worker_cpu_seconds",
    "parent_cpu_seconds",
    "worker_peak_bytes",
    "parent_peak_bytes",
    "failures",
}


def table(bench: Bench, name: str = "summary.csv", out: str = "out") -> pd.DataFrame:
    return pd.read_csv(bench.folder / out / name)


def with_plugin(bench: Bench, body: str, **changes: Any) -> None:
    """Add a plug-in estimator of label `odd` to the sweep."""
    bench.plugin("OddMean", body)
    spec = {"kind": "odd_mean"}
    bench.write(lambda sweep: (sweep["estimators"].update(odd=spec), sweep.update(changes)))


def test_the_files_of_a_run_and_its_closed_figures(bench: Bench) -> None:
    """Twenty open figures make matplotlib warn, and each keeps its memory."""
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE))
    assert bench.run().code == 0
    names = {p.name for p in (bench.folder / "out").rglob("*") if p.suffix != ".parquet"}
    assert names == {
        "blocks", "figures", "errors.pdf", "errors.svg", "errors.png", "report.html",
        "summary.csv", "claims.csv", "scoreboard.txt", "manifest.json",
    }  # fmt: skip
    assert {p.name for p in bench.folder.iterdir()} == {"conf", "out"}
    from matplotlib import pyplot as plt

    assert plt.get_fignums() == []


def test_columns(bench: Bench) -> None:
    bench.run()
    assert " ".join(table(bench).columns) == f"{SUMMARY} {EXTRAS}"
    assert " ".join(table(bench, "claims.csv").columns) == CLAIMS


def test_columns_without_claims(bench: Bench) -> None:
    bench.write(lambda spec: spec.update(claims={}))
    assert bench.run().code == 0
    assert " ".join(table(bench, "claims.csv").columns) == CLAIMS


def test_a_row_per_distribution_estimator_budget_and_n(bench: Bench) -> None:
    bench.run()
    summary = table(bench)
    by = ["distribution", "estimator", "privacy", "epsilon", "n"]
    assert not summary.duplicated(by).any()
    assert (summary["trials"] == 50).all()
    assert set(summary["family"]) == {"tails", "two_point_k2", "two_point_k3"}
    private = summary["privacy"] == "pure"
    assert (summary.loc[private, "epsilon"] == 0.1).all()
    assert summary.loc[~private, "epsilon"].isna().all()
    assert summary[["delta", "rho"]].isna().all(axis=None)
    assert set(summary.loc[~private, "estimator"]) == {"mean"}
    known = summary["family"] != "tails"
    assert (summary.loc[known, "lower_bound"] > 0).all()
    assert summary.loc[~known, "lower_bound"].isna().all()


def test_the_manifest(bench: Bench) -> None:
    bench.run("seed=3")
    manifest = bench.manifest()
    assert set(manifest) >= MANIFEST
    assert manifest["seed"] == manifest["configuration"]["seed"] == 3
    assert manifest["configuration"]["sweep"]["budgets"] == {
        "pure": {"kind": "pure_dp", "epsilon": 0.1}
    }
    assert {"python", "numpy", "scipy", "pandas", "dpbench"} <= set(manifest["versions"])
    assert manifest["cells_done"] == manifest["blocks_done"] == 5
    assert manifest["records_drawn"] >= 200 * (1000 + 4 * (10**5 + 10**8))
    assert manifest["failures"] == []


def test_a_row_per_trial_estimator_and_budget(bench: Bench) -> None:
    bench.run()
    summary = table(bench)
    settings = summary.groupby(["family", "n"]).size()
    rows = pd.concat([pd.read_parquet(path) for path in bench.blocks()])
    assert len(rows) == 200 * settings.sum()
    by = ["distribution", "estimator", "privacy", "epsilon", "n", "trial"]
    assert not rows.duplicated(by).any()
    assert set(rows["status"]) == {"released"}
    assert set(rows["trial"]) == set(range(200))
    assert (rows["error"] <= rows["sampling"] + rows["private"] + 1e-12).all()


def test_summary_says_what_the_blocks_say(bench: Bench) -> None:
    """Recomputed with pandas from the rows of the trials asked for."""
    bench.run()
    rows = pd.concat([pd.read_parquet(path) for path in bench.blocks()])
    grouped = rows[rows["trial"] < 50].groupby(["distribution", "estimator", "n"])["error"]
    summary = table(bench).set_index(["distribution", "estimator", "n"]).sort_index()
    pd.testing.assert_series_equal(summary["mean_error"], grouped.mean(), check_names=False)
    ranked = grouped.apply(lambda errors: errors.sort_values().iloc[44])  # rank 0.9 * 50
    pd.testing.assert_series_equal(summary["q90"], ranked, check_names=False)


@pytest.mark.parametrize("jobs", [1, 2])
def test_an_estimator_that_raises(bench: Bench, jobs: int) -> None:
    bench.run("out=without")
    with_plugin(bench, "raise ArithmeticError('no luck [today]')")
    argv = bench.argv("plugins=[mine]", f"n_jobs={jobs}")
    result = bench.raw(*argv) if jobs == 1 else bench.command(*argv)
    assert result.code == 1
    assert result.err == ""
    lines = [line for line in result.out.splitlines() if line.startswith("failed: ")]
    assert any(
        "odd on tails at n = 1000" in line and "ArithmeticError: no luck [today]" in line
        for line in lines
    )
    summary = table(bench)
    odd = summary["estimator"] == "odd"
    assert odd.any()
    assert (summary.loc[odd, "failure_rate"] == 1).all()
    assert summary.loc[odd, "mean_error"].isna().all()
    text = bench.read("summary.csv").splitlines()
    assert [row for row in text if ",odd," not in row] == bench.read(
        "summary.csv", "without"
    ).splitlines()
    rows = pd.concat([pd.read_parquet(path) for path in bench.blocks()])
    failed = rows[rows["estimator"] == "odd"]
    assert set(failed["status"]) == {"failed"}
    assert set(failed["message"]) == {"ArithmeticError: no luck [today]"}
    assert set(rows.loc[rows["estimator"] != "odd", "status"]) == {"released"}
    assert len(bench.manifest()["failures"]) == len(lines)


def test_a_failure_is_replayed_by_the_command_that_the_manifest_has(bench: Bench) -> None:
    with_plugin(bench, "raise ArithmeticError('no luck')")
    assert bench.run("plugins=[mine]").code == 1
    failures = bench.manifest()["failures"]
    command = next(f["replay"] for f in failures if f["failure"].startswith("odd on tails"))
    before = bench.files()
    replayed = bench.raw(*shlex.split(command)[3:])
    assert replayed.code == 1
    assert replayed.err.endswith("ArithmeticError: no luck\n")
    assert 'mine.py", line' in replayed.err
    assert bench.files() == before
    with_plugin(bench, "pass")
    bench.forget()
    mended = bench.raw(*shlex.split(command)[3:])
    assert mended.code == 0
    assert mended.out == "released 100% of 200 trials\n"


def test_a_failure_of_another_name_cannot_be_replayed(bench: Bench) -> None:
    unusable(bench.run("replay=f0123456789n1000"), "replay: 'f0123456789n1000'", "no block")
    unusable(bench.run("replay=odd"), "replay", "'odd'")


def test_a_failed_run_stays_failed(bench: Bench) -> None:
    with_plugin(bench, "raise ArithmeticError('no luck')")
    assert bench.run("plugins=[mine]").code == 1
    again = bench.run("plugins=[mine]")
    assert again.code == 1
    assert "no luck" in again.out
    assert bench.manifest()["blocks_done"] == 0


def test_figures_and_claims_of_a_failed_estimator(bench: Bench) -> None:
    def change(spec: dict[str, Any]) -> None:
        spec["estimators"]["odd"] = {"kind": "odd_mean"}
        spec["figures"]["errors"] = FIGURE
        spec["claims"]["alpha"]["estimators"] = ["odd", "minimax"]

    bench.plugin("OddMean", "raise ArithmeticError('no luck')")
    bench.write(change)
    result = bench.run("plugins=[mine]")
    assert result.code == 1, result
    claims = table(bench, "claims.csv").set_index("estimator")["verdict"]
    assert set(claims["odd"]) == {"inconclusive"}


def test_an_estimator_that_sometimes_releases_nothing(bench: Bench) -> None:
    with_plugin(bench, "value = np.where(np.arange(len(value)) % 3 == 0, np.nan, value)")
    assert bench.run("plugins=[mine]").code == 0
    summary = table(bench)
    odd = summary[summary["estimator"] == "odd"]
    assert (odd["failures"] == math.ceil(50 / 3)).all()
    assert set(odd["failure_rate"].round(12)) == {17 / 50}
    assert (odd["q90"] == math.inf).all()  # more than a tenth is missing
    assert odd["q50"].between(0, sys.float_info.max).all()
    assert odd["mean_error"].notna().all()
    assert (summary.loc[summary["estimator"] != "odd", "failures"] == 0).all()
    rows = pd.concat([pd.read_parquet(path) for path in bench.blocks()])
    assert set(rows.loc[rows["estimator"] == "odd", "status"]) == {"released", "nothing released"}


@pytest.mark.parametrize("value", ["value[:-1]", "value[:, None]", "value.sum()", "None"])
def test_an_estimator_that_returns_another_shape(bench: Bench, value: str) -> None:
    with_plugin(bench, f"value = {value}")
    result = bench.run("plugins=[mine]")
    assert result.code == 1, result
    assert "failed: odd on tails" in result.out
    assert bench.read("summary.csv").count(",odd,") > 0


@pytest.mark.parametrize("gate", [True, False])
def test_a_gate(bench: Bench, *, gate: bool) -> None:
    """Clipping at sqrt(10 n) costs n ~ (1/epsilon)^2, where the theorem promises 1/epsilon."""
    bench.plugin("OddMean")
    bench.write(
        lambda spec: spec.update(
            gate=gate,
            families={"two_point": {"kind": "two_point_family", "k": 2, "c": [1, 3]}},
            estimators={"odd": {"kind": "odd_mean"}},
            budgets={"pure": {"kind": "pure_dp", "epsilon": [0.001, 0.01, 0.1]}},
            parts={"all": {"n": [1e6, 1e8, 1e10], "trials": 200}},
            claims={
                "epsilon": {
                    "theorem": "heavy_tail_epsilon",
                    "families": ["two_point"],
                    "estimators": ["odd"],
                    "budgets": ["pure_*"],
                    "tolerance": 0.1,
                    "reason": "a wrong estimator is far off",
                }
            },
        )
    )
    result = bench.run("plugins=[mine]")
    assert result.code == (1 if gate else 0), result
    claim = table(bench, "claims.csv").iloc[0]
    assert claim["verdict"] == "inconsistent"
    assert claim["predicted"] == 1
    assert claim["measured"] == pytest.approx(2, abs=0.1)
    assert "inconsistent" in result.out
    assert bench.run("plugins=[mine]").code == (1 if gate else 0)


def test_help_lists_the_choices(bench: Bench) -> None:
    for flag in ("--help", "-h"):
        result = bench.raw(flag, "--config-dir", "conf")
        assert result.code == 0
        for word in (
            "heavy_tail, heavy_tail_cover, heavy_tail_location,",
            "dask, local",
            "clipped_mean",
            "student_t",
        ):
            assert word in result.out
    assert not (bench.folder / "results").exists()


def test_showing_the_configuration_runs_nothing(bench: Bench) -> None:
    result = bench.run("--cfg", "job", "trials=7")
    assert result.code == 0
    assert "trials: 7" in result.out
    assert "kind: two_point_family" in result.out
    assert not (bench.folder / "out").exists()


def test_the_default_sweep_is_quick(bench: Bench) -> None:
    result = bench.raw("--cfg", "job")
    assert result.code == 0
    assert "name: quick" in result.out


def test_the_default_folder_is_named_by_the_sweep(bench: Bench) -> None:
    assert bench.raw("--config-dir", "conf", "sweep=tiny", "n_jobs=1").code == 0
    assert table(bench, out="results/tiny").shape[0] > 0


def test_all_runs_on_one_page(bench: Bench) -> None:
    unusable(bench.raw("report=all", "out=runs"), "report: 'all'", "'runs'")
    for seed in (1, 2):
        bench.run(f"seed={seed}", f"out=runs/seed{seed}")
    found = bench.raw("report=all", "out=runs")
    assert found.code == 0
    assert found.out == "2 runs on one page: runs/report.html\n"
    page = (bench.folder / "runs" / "report.html").read_bytes()
    (bench.folder / "runs" / "notes").mkdir()  # is no run
    assert bench.raw("report=all", "out=runs").code == 0
    assert (bench.folder / "runs" / "report.html").read_bytes() == page


@pytest.mark.parametrize(
    ("name", "content"),
    [("claims.csv", b"a,b\n1,2\n"), ("claims.csv", b"claim\n\xff\n"), ("audit.csv", b"a\n1\n")],
)
def test_a_folder_that_no_run_of_ours_left(bench: Bench, name: str, content: bytes) -> None:
    bench.run("out=runs/good")
    bench.run("out=runs/odd")
    (bench.folder / "runs" / "odd" / name).write_bytes(content)
    before = bench.files()
    unusable(bench.raw("report=all", "out=runs"), "report: 'runs/odd'", "cannot be read")
    assert bench.files() == before


@pytest.mark.parametrize("word", ["track=check", "trials=5", "replay=f0123456789n10"])
def test_a_page_of_all_runs_runs_nothing(bench: Bench, word: str) -> None:
    unusable(bench.raw("report=all", word), word.partition("=")[0], "runs nothing")
