"""The files of a job's folder: tables, manifest, figures."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pandas as pd
import pytest

from dpbench.jobs.base import FolderJob
from dpbench.output.files import checksum
from dpbench.output.run_folder import write_manifest
from tests.bench import Bench

SUMMARY = (
    "distribution family k estimator privacy epsilon delta rho n d trials failures failure_rate "
    "mean_error mean_error_se rmse q50 q90 q90_low q90_high "
    "trimmed_mean_error trimmed_mean_error_se "
    "sampling_q90 clipping_q90 noise_q90 privacy_cost_q90 lower_bound"
)
# of estimators that release an interval, a scale or a promised accuracy
EXTRAS = (
    "width_q50 miss_rate width_ratio_q50 outside_q90 tv_q50 tv_q90 "
    ""
    "error_over_guarantee_q90 core_fraction_q50 budget_fraction_spent "
    "bias bias_se signed_sd mu bound_name"
)
CLAIMS = (
    "claim source estimator distribution variable metric predicted measured low high tolerance "
    "verdict privacy epsilon delta rho mu n_low n_high detectable_deviation checks theorem "
    "exact_at_run_n theorem_verdict asymptotic_from"
)
MANIFEST = (
    "blocks_corrupt blocks_done blocks_reused cells_done cells_reused command commit computed "
    "computer configuration dirty estimator_seconds exit_code failures files_opened fingerprint "
    "machine most_trials next outputs parent_cpu_seconds parent_peak_bytes platform reads "
    "records_drawn results sections seed source sweep tracked trials unit untracked_exit_code "
    "versions wall_seconds wide_text worker_cpu_seconds worker_peak_bytes"
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
    assert set(summary.loc[~private, "bound_name"]) == {"sampling"}  # which binds the mean, too
    assert set(summary.loc[private, "bound_name"]) == {"two-point"}

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


def test_a_run_removes_no_file_of_others(tmp_path: Path) -> None:
    """Whatever a manifest says that somebody has edited: what is beside the folder stays."""
    folder = tmp_path / "out"
    (folder / "figures").mkdir(parents=True)
    own = [folder / "summary.csv", folder / "figures" / "a.png"]
    others = [tmp_path / "precious.csv", folder / "blocks" / "kept.parquet"]
    changed = folder / "claims.csv"
    others[1].parent.mkdir()
    for path in (*own, *others, changed):
        path.write_text("text")
    names = ["../precious.csv", "blocks/kept.parquet"]
    names += [path.relative_to(folder).as_posix() for path in (*own, changed)]
    checksums = dict.fromkeys(names, checksum(b"text"))
    changed.write_text("of somebody else")
    keys = dict.fromkeys(["sweep", "configuration", "computer", "seed", "failures"])
    write_manifest(folder, {**keys, "outputs": checksums, "tracked": []})
    FolderJob._delete_previous_files(cast("FolderJob", SimpleNamespace(folder=folder)))
    assert [path.exists() for path in own] == [False, False]
    assert [path.exists() for path in (*others, changed)] == [True, True, True]
    assert not (folder / "manifest.json").exists()
