"""``track=check`` and ``track=update``, from the command line."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest

import dpbench.estimators  # noqa: F401 (fills the registry)
from dpbench.config import composed
from dpbench.estimators import Estimator
from dpbench.runner.plan import Sweep, make_cells
from dpbench.tracking.baseline import Baseline

from .conftest import Bench, Result, unusable

FILE = "base.parquet"


def track(bench: Bench, how: str, *more: str) -> Result:
    return bench.run(f"track={how}", f"baseline={FILE}", "trials=100", *more)


def verdicts(bench: Bench) -> pd.Series[str]:
    found = pd.read_csv(bench.folder / "out" / "tracking.csv")
    return found.set_index(["estimator", "distribution", "n"])["verdict"]


def rewrite(bench: Bench, **origin: Any) -> Baseline:
    """Store the baseline again, with another origin."""
    path = bench.folder / FILE
    old = Baseline.read(path, "tiny")
    new = Baseline(old.rows, dataclasses.replace(old.origin, **origin))
    new.write(path)
    return new


def test_nothing_has_changed(bench: Bench) -> None:
    updated = track(bench, "update")
    assert updated.code == 0
    rows = len(pd.read_csv(bench.folder / "out" / "summary.csv"))
    assert f"baseline of {rows} rows: {FILE}" in updated.out
    checked = track(bench, "check")
    assert checked.code == 0
    assert (
        f"{rows} rows: 0 worse, 0 gone, 0 better, 0 new, 0 changed-within-noise, {rows} same"
        in checked.out
    )
    assert "bits must be equal" in checked.out
    assert set(verdicts(bench)) == {"same"}
    assert "<summary>Equal bits</summary>" in bench.read("tracking.md")
    suite = ET.fromstring(bench.read("junit.xml"))
    assert (suite.get("tests"), suite.get("failures")) == (str(rows), "0")


def test_a_baseline_holds_the_error_of_every_trial(bench: Bench) -> None:
    track(bench, "update")
    rows = Baseline.read(bench.folder / FILE, "tiny").rows
    summary = pd.read_csv(bench.folder / "out" / "summary.csv")
    for row in rows.to_dict("records"):
        about = (summary["distribution"] == row["distribution"]) & (summary["n"] == row["n"])
        one = summary[about & (summary["estimator"] == row["estimator"])].iloc[0]
        assert len(row["errors"]) == 100
        assert np.mean(row["errors"]) == pytest.approx(one["mean_error"])


def test_an_estimator_made_five_per_cent_worse_is_flagged_alone(bench: Bench) -> None:
    """Its noise is multiplied by 1.05 in the source: 100 pairs show it."""
    argv = [*bench.argv("plugins=[mine]", f"baseline={FILE}", "trials=100")]
    bench.write(lambda spec: spec["estimators"].update(odd={"_target_": "mine.Odd"}))
    bench.plugin("Odd")
    assert bench.command(*argv, "track=update").code == 0
    bench.plugin("Odd", "value = clipped + 1.05 * (value - clipped)")
    checked = bench.command(*argv, "track=check")
    assert checked.code == 1
    found = verdicts(bench)
    assert set(found[found == "worse"].index.get_level_values("estimator")) == {"odd"}
    assert "tails" in found[found == "worse"].index.get_level_values("distribution")
    assert set(found[found.index.get_level_values("estimator") != "odd"]) == {"same"}
    assert "| **worse** | odd on tails, pure eps=0.1 n=1000 |" in checked.out
    assert "source, numpy or scipy has changed" in checked.out
    failed = ET.fromstring(bench.read("junit.xml")).findall("testcase/failure")
    assert len(failed) == (found == "worse").sum()
    assert "trimmed mean 1.0" in str(failed[0].get("message"))


def test_a_removed_estimator_is_gone_and_an_added_one_is_new(bench: Bench) -> None:
    track(bench, "update")

    def change(spec: dict[str, Any]) -> None:
        spec["estimators"]["all"] = {"kind": "heavy_tailed_mean", "policy": "all"}
        del spec["estimators"]["rate"]

    bench.write(change)
    checked = track(bench, "check")
    assert checked.code == 1
    found = verdicts(bench).groupby("estimator").unique().map(list)
    assert found.to_dict() == {
        "all": ["new"],
        "mean": ["same"],
        "minimax": ["same"],
        "rate": ["gone"],
    }
    bench.write(lambda spec: spec["estimators"].update(all=spec["estimators"]["rate"]))
    assert track(bench, "check").code == 0


def test_another_seed_is_named_and_compared_unpaired(bench: Bench) -> None:
    track(bench, "update")
    checked = track(bench, "check", "seed=7", "out=other")
    assert checked.code == 0
    assert "This run has seed 7" in checked.out
    found = pd.read_csv(bench.folder / "other" / "tracking.csv")
    assert set(found["comparison"]) == {"unpaired"}
    assert found["smallest_visible"].notna().any()


def test_bits_that_differ_without_a_reason_fail(bench: Bench) -> None:
    track(bench, "update")
    path = bench.folder / FILE
    old = Baseline.read(path, "tiny")
    errors = [np.array(row) for row in old.rows["errors"]]
    errors[0][3] = np.nextafter(errors[0][3], np.inf)
    Baseline(old.rows.assign(errors=pd.Series(errors)), old.origin).write(path)
    checked = track(bench, "check")
    assert checked.code == 1
    assert "1 rows have other bits all the same" in checked.out
    rewrite(bench, machine="another")
    checked = track(bench, "check")
    assert checked.code == 0
    assert "the processor is another" in checked.out


def test_a_check_that_is_repeated_says_the_same(bench: Bench) -> None:
    track(bench, "update")
    names = ("tracking.csv", "tracking.md", "junit.xml", "report.html")
    assert track(bench, "check").code == 0
    first = [bench.read(name) for name in names]
    assert track(bench, "check").code == 0
    assert [bench.read(name) for name in names] == first


def test_a_run_that_is_not_tracked_leaves_no_old_comparison(bench: Bench) -> None:
    track(bench, "update")
    track(bench, "check")
    bench.run("seed=3")
    assert not (bench.folder / "out" / "tracking.csv").exists()


def refuse(bench: Bench, *words: str) -> None:
    before = bench.files()
    unusable(track(bench, "check", "out=fresh"), "baseline: ", *words)
    assert bench.files() == before


def test_a_missing_baseline(bench: Bench) -> None:
    refuse(bench, FILE, "no such file", "track=update")


def test_a_file_that_is_no_baseline(bench: Bench) -> None:
    (bench.folder / FILE).write_text("PAR1 nonsense")
    refuse(bench, FILE, "not a baseline")
    pd.DataFrame({"a": [1]}).to_parquet(bench.folder / FILE)
    refuse(bench, FILE, "not a baseline")


def test_a_truncated_baseline(bench: Bench) -> None:
    track(bench, "update")
    path = bench.folder / FILE
    path.write_bytes(path.read_bytes()[:-100])
    refuse(bench, FILE, "not a baseline")


def test_the_baseline_of_another_sweep(bench: Bench) -> None:
    track(bench, "update")
    rewrite(bench, sweep="heavy_tail")
    refuse(bench, "'heavy_tail'", "'tiny'")


def test_a_baseline_of_another_format(bench: Bench) -> None:
    track(bench, "update")
    path = bench.folder / FILE
    table = pq.read_table(path)
    about = json.loads(table.schema.metadata[b"dpbench"]) | {"format": 0}
    pq.write_table(table.replace_schema_metadata({"dpbench": json.dumps(about)}), path)
    refuse(bench, "another version", "track=update")


def test_a_folder_is_no_baseline(bench: Bench) -> None:
    (bench.folder / FILE).mkdir()
    refuse(bench, FILE, "is a folder")
    unusable(track(bench, "update", "out=fresh"), "baseline", FILE, "is a folder")
    assert not (bench.folder / "fresh").exists()


@pytest.mark.parametrize("how", ["check", "update"])
def test_few_trials_are_not_tracked(bench: Bench, how: str) -> None:
    track(bench, "update")
    before = bench.files()
    unusable(track(bench, how, "trials=99", "out=fresh"), "track", "99 trials", "100")
    assert bench.files() == before


def test_two_runs_do_not_share_a_new_baseline(bench: Bench) -> None:
    argv = bench.argv("-m", "seed=1,2", "track=update", f"baseline={FILE}", "trials=100")
    argv[argv.index("out=out")] = "out=run-${seed}"
    unusable(bench.raw(*argv), "baseline", FILE, "two of the runs")
    assert not (bench.folder / FILE).exists()


def test_an_update_takes_old_comparisons_away(bench: Bench) -> None:
    track(bench, "update")
    track(bench, "check")
    assert "Tracking" in bench.read("report.html")
    track(bench, "update")
    assert not (bench.folder / "out" / "tracking.csv").exists()
    assert "Tracking" not in bench.read("report.html")


def test_a_page_is_never_of_another_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted between the tables and the page, the next run makes the page."""
    track(bench, "update")
    track(bench, "check")
    bench.run("trials=100", "resume=false")
    assert "Tracking" not in bench.read("report.html")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("dpbench.study.write_page", interrupted)
        assert bench.run("trials=150").code == 130
    assert bench.run("trials=150").code == 0
    page = bench.read("report.html")
    bench.run("trials=150", "resume=false")
    assert bench.read("report.html") == page


def test_hostile_labels_are_text_in_every_file(bench: Bench) -> None:
    label = "b\x08\x1b[31m\n\n<img src=x onerror=alert(1)>\n# H | `x`"
    bench.write(lambda spec: spec["estimators"].update({label: {"kind": "empirical_mean"}}))
    assert track(bench, "update").code == 0
    assert track(bench, "check").code == 0
    text = bench.read("tracking.md")
    assert "\n# H" not in text
    assert "<img" not in text.replace("\\<img", "")
    assert "\x1b" not in text
    names = [case.get("name", "") for case in ET.fromstring(bench.read("junit.xml"))]
    assert any("<img src=x" in name for name in names)


def test_unknown_ways_to_track(bench: Bench) -> None:
    unusable(track(bench, "chekc"), "track", "'chekc'", "check", "update")


def test_failed_runs_are_not_stored(bench: Bench) -> None:
    bench.write(lambda spec: spec["estimators"].update(odd={"_target_": "mine.Odd"}))
    bench.plugin("Odd", "raise ArithmeticError('no luck')")
    (bench.folder / FILE).write_text("what was there")
    result = bench.run("plugins=[mine]", "track=update", f"baseline={FILE}", "trials=100")
    assert result.code == 1
    assert "not stored" in result.out
    assert (bench.folder / FILE).read_text() == "what was there"


def test_ci_covers_every_estimator_and_notion() -> None:
    config = composed(["sweep=ci"])
    cells = make_cells(Sweep.build(config["sweep"]))
    run = {(type(s.estimator), s.budget.notion) for cell in cells for s in cell.settings}
    shipped = [k for k in Estimator._kinds().values() if k.__module__.startswith("dpbench.")]
    wanted = {(kind, notion.notion) for kind in shipped for notion in kind.notions}
    assert wanted <= run


def test_the_stored_baseline_is_of_this_sweep() -> None:
    path = Path(__file__).parents[2] / "results" / "baselines" / "ci.parquet"
    rows = Baseline.read(path, "ci").rows
    assert path.stat().st_size < 2_000_000
    cells = make_cells(Sweep.build(composed(["sweep=ci"])["sweep"]))
    expected = {
        (s.label, label, s.budget.label, cell.n)
        for cell in cells
        for label, _ in cell.members
        for s in cell.settings
    }
    found = set(
        rows[["estimator", "distribution", "privacy", "n"]].itertuples(index=False, name=None)
    )
    assert found == expected
