"""``track=check`` and ``track=update``, from the command line."""

from __future__ import annotations

import dataclasses
import re
import shlex
import subprocess
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd
import pytest

from dpbench.tracking.baseline import Baseline
from dpbench.tracking.check import find_suspects
from tests.bench import MINE, Bench, Result, unusable

BY = ["estimator", "distribution", "n"]
FILE = "base.parquet"
FILES = ("tracking.csv", "tracking.md", "junit.xml", "report.html")


def track(bench: Bench, how: str, *more: str) -> Result:
    return bench.run(f"track={how}", f"baseline={FILE}", "trials=100", *more)


def table(bench: Bench, out: str = "out") -> pd.DataFrame:
    return bench.table("tracking.csv", out).set_index("estimator")


def test_nothing_has_changed(bench: Bench) -> None:
    """Then bits change without a reason, and with one; then there is another baseline."""
    updated = track(bench, "update")
    assert updated.code == 0
    summary = bench.table().set_index(BY)
    assert f"baseline of {len(summary)} rows: {FILE}" in updated.out
    # It holds the error of every trial.
    stored = Baseline.read(bench.folder / FILE, "tiny")
    assert {len(errors) for errors in stored.rows["errors"]} == {100}
    means = stored.rows.assign(mean_error=stored.rows["errors"].map(np.mean)).set_index(BY)
    assert means["mean_error"].to_dict() == pytest.approx(summary["mean_error"].to_dict())
    checked = track(bench, "check")
    assert checked.code == 0
    none = "0 worse, 0 gone, 0 better, 0 new, 0 changed-within-noise"
    assert f"{len(summary)} rows: {none}, {len(summary)} same" in checked.out
    assert "bits must be equal" in checked.out
    assert set(table(bench)["verdict"]) == {"same"}
    written = [bench.read(name) for name in FILES]
    assert "<summary>Equal bits</summary>" in written[1]
    suite = ET.fromstring(written[2])
    assert (suite.get("tests"), suite.get("failures")) == (str(len(summary)), "0")
    assert "against the baseline" in written[3]
    assert track(bench, "check").code == 0
    assert [bench.read(name) for name in FILES] == written

    rows = stored.rows.assign(errors=stored.rows["errors"].map(np.copy))
    rows["errors"].iloc[0][3] *= 1 + 2**-52
    for changes, code, words in (
        (dict[str, Any](), 1, "1 rows have other bits all the same"),
        ({"machine": "another"}, 0, "but not the processor, so bits may differ"),
        ({"source": "another"}, 0, "source, numpy or scipy has changed"),
    ):
        origin = dataclasses.replace(stored.origin, **changes)
        dataclasses.replace(stored, rows=rows, origin=origin).write(bench.folder / FILE)
        checked = track(bench, "check")
        assert checked.code == code
        assert words in checked.out
        other = "machine" in changes
        said = f"Another processor: 1 of {len(summary)} rows have other bits and are compared"
        assert (said in " ".join(checked.out.split())) == other
        assert (said in bench.read("tracking.md")) == (said in bench.read("report.html")) == other
        assert (bench.folder / "out" / "tracking_power.csv").exists() == other
    # A new baseline takes the comparison with the old one away.
    track(bench, "update")
    assert not any((bench.folder / "out" / name).exists() for name in FILES[:3])
    assert "against the baseline" not in bench.read("report.html")


def test_an_estimator_made_five_per_cent_worse_is_flagged_alone(bench: Bench) -> None:
    """Its noise is multiplied by 1.05 in the source: 100 pairs show it."""
    bench.odd()
    assert track(bench, "update", MINE).code == 0
    bench.odd("value = clipped + 1.05 * (value - clipped)")
    checked = track(bench, "check", MINE)
    assert checked.code == bench.manifest()["exit_code"] == 1
    page = bench.read("report.html")
    found = table(bench)["verdict"]
    assert "worse" in set(found["odd"])
    assert set(found.drop("odd")) == {"same"}
    name = "odd on tails, pure eps=0.1 n=1000"
    assert f"| **worse** | {name} |" in bench.read("tracking.md")
    (line,) = [one for one in checked.out.splitlines() if one.startswith(name)]
    assert line.endswith("  worse")
    printed, _, after = checked.out.partition("if these changes are meant, run:\n")
    assert max(map(len, printed.splitlines())) <= 80
    told = " ".join(printed.split())
    assert re.search(r"Worst change: odd on .*: error 5\.\d% .* above the baseline", told)
    assert "source, numpy or scipy has changed" in checked.out
    failed = ET.fromstring(bench.read("junit.xml")).findall("testcase/failure")
    assert len(failed) == (found == "worse").sum()
    update = after.splitlines()[0]
    told = str(failed[0].get("message"))
    assert re.fullmatch(r"error \d.* above the baseline; if that is meant, run (.*)", told)
    assert told.endswith(f"run {update}")
    # The run itself is as finished as before: untracked it passes, and its page says so.
    before = bench.manifest()["outputs"]
    assert bench.run("trials=100", MINE).code == bench.manifest()["exit_code"] == 0
    now = bench.manifest()["outputs"]
    assert now.pop("report.html") != before.pop("report.html")
    assert (bench.manifest()["blocks_done"], now) == (0, before)
    assert bench.read("report.html") != page
    assert track(bench, "check", MINE).code == bench.manifest()["exit_code"] == 1
    assert bench.read("report.html") == page
    # What it says to type makes these errors the baseline.
    assert bench.raw(*shlex.split(update)[3:]).code == 0
    assert track(bench, "check", MINE).code == 0


def test_a_private_estimator_that_becomes_better_is_a_question(bench: Bench) -> None:
    """Half of its noise is gone: who updates sees what is replaced, and the drift since."""
    bench.odd()
    track(bench, "update", MINE)
    bench.odd("value = clipped + 0.5 * (value - clipped)")
    checked = track(bench, "check", MINE, "+sweep.fail_on_inconsistent=false")
    rows = (table(bench)["verdict"].loc[["odd"]] == "better").sum()
    assert f"{rows} private rows are better by more than 5%: are they" in checked.out
    assert (checked.code, ET.fromstring(bench.read("junit.xml")).get("failures")) == (0, "0")
    gated = track(bench, "check", MINE)
    assert gated.code == bench.manifest()["exit_code"] == 1
    failed = ET.fromstring(bench.read("junit.xml")).findall("testcase/failure")
    assert [one.get("type") for one in failed] == ["suspiciously better"] * rows
    updated = track(bench, "update", MINE)
    assert updated.code == 0
    assert "private rows are better" in updated.out
    assert f"{rows} rows have drifted since their first baseline:" in updated.out
    drift = updated.out.partition("first baseline:")[2].split()[0]
    assert float(drift) == pytest.approx(0.5, abs=0.05)
    again = track(bench, "update", MINE, "resume=false")
    assert f"{rows} rows have drifted" in again.out  # from the first, not the last
    assert "private rows are better" not in again.out


@pytest.mark.parametrize(
    ("seeded", "kinds", "codes"),
    [(True, ["bits", "paired"], [0, 1]), (False, ["unpaired", "unpaired"], [0, 0])],
)
def test_an_estimator_that_draws_by_its_own_entropy(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, *, seeded: bool, kinds: list[str],
    codes: list[int],
) -> None:  # fmt: skip
    """One that does not say so differs from itself; one that does is never paired.

    True entropy would fail one such test in a hundred (`LEVEL`): here it is of the environment.
    """
    monkeypatch.setenv("ENTROPY", "0")
    entropy = "np.random.default_rng(int(__import__('os').environ['ENTROPY']))"
    bench.odd(f"value = clipped + {entropy}.laplace(size=value.shape)")
    with (bench.conf / "mine.py").open("a") as file:
        file.write(f"\n\nOdd.seeded = {seeded}\n")
    assert track(bench, "update", MINE).code == 0
    monkeypatch.setenv("ENTROPY", "1")
    for word, kind, code in zip(("resume=true", "resume=false"), kinds, codes, strict=True):
        assert track(bench, "check", MINE, word).code == code
        assert set(table(bench)["comparison"].loc["odd"]) == {kind}
        assert set(table(bench).drop("odd")["verdict"]) == {"same"}
    assert seeded or set(table(bench)["verdict"].loc["odd"]) == {"changed-within-noise"}


def test_a_removed_estimator_is_gone_and_an_added_one_is_new(bench: Bench) -> None:
    """And with another seed all is compared unpaired."""
    track(bench, "update")

    def change(spec: dict[str, Any]) -> None:
        spec["estimators"]["all"] = {"kind": "tuned_clipped_mean", "scale": 1, "policy": "keep_all"}
        del spec["estimators"]["rate"]

    bench.write(change)
    assert track(bench, "check").code == 1
    found = {name: set(rows) for name, rows in table(bench)["verdict"].groupby("estimator")}
    assert found == {"all": {"new"}, "mean": {"same"}, "minimax": {"same"}, "rate": {"gone"}}
    bench.write(lambda spec: spec["estimators"].update(all=spec["estimators"]["rate"]))
    checked = track(bench, "check", "seed=7", "out=other")
    assert checked.code == 0  # what is new is no failure
    assert "This run has seed 7" in checked.out
    others = table(bench, "other").drop("all")
    assert set(others["comparison"]) == {"unpaired"}
    assert others["smallest_detectable"].notna().any()


def test_what_cannot_be_tracked(bench: Bench) -> None:
    for how in ("check", "update"):
        bench.refuses(f"track={how}", "trials=99", named=["track", "99 trials", "100"])
    argv = bench.argv("-m", "seed=1,2", "track=update", f"baseline={FILE}", "trials=100")
    argv[argv.index("out=out")] = "out=run-${seed}"
    unusable(bench.raw(*argv), "baseline", FILE, "two of the runs")
    assert {path.name for path in bench.folder.iterdir()} == {"conf"}


def test_a_page_is_never_of_another_run(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Interrupted between the tables and the page, the next run makes the page."""
    track(bench, "update")
    track(bench, "check")
    assert "against the baseline" in bench.read("report.html")
    bench.done("trials=100", "resume=false")  # which is not tracked
    assert not (bench.folder / "out" / "tracking.csv").exists()
    assert "against the baseline" not in bench.read("report.html")

    def interrupted(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr("dpbench.report.page.write_page", interrupted)
        assert bench.run("trials=150").code == 130
    bench.done("trials=150")
    page = bench.read("report.html").splitlines()
    bench.done("trials=150", "resume=false")
    lines = zip(page, bench.read("report.html").splitlines(), strict=True)
    changed = [other for one, other in lines if one != other]
    assert all("resume=false" in line or "<dt>computed" in line for line in changed)


def test_failed_runs_are_not_stored(bench: Bench) -> None:
    track(bench, "update")
    before = (bench.folder / FILE).read_bytes()
    bench.odd("raise ArithmeticError('no luck')")
    result = track(bench, "update", MINE)
    assert result.code == 1
    assert "not stored" in result.out
    assert (bench.folder / FILE).read_bytes() == before


def test_the_commit_of_a_plug_in_is_kept(bench: Bench) -> None:
    """In the manifest and in the baseline; changes count of source, not of what imports leave."""
    bench.odd()

    def git(*words: str) -> str:
        who = ["-c", "user.name=me", "-c", "user.email=me@example.org"]
        command = ["git", "-C", str(bench.conf), *who, *words]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()

    git("init")
    git("add", "mine.py")
    git("commit", "-m", "mine")
    mine = git("rev-parse", "HEAD")
    wanted = {"conf": {"commit": mine, "dirty": False}}
    assert track(bench, "update", MINE).code == 0
    assert bench.manifest()["plugin_commits"] == wanted
    assert Baseline.read(bench.folder / FILE, "tiny").origin.about["plugin_commits"] == wanted
    bench.odd("pass  # changed")
    bench.done(MINE)
    assert bench.manifest()["plugin_commits"]["conf"] == {"commit": mine, "dirty": True}
    told = track(bench, "check", MINE).out.partition("Baseline of commit ")[2]
    assert told.startswith(f"{mine[:12]} of conf: dpbench ")


def test_what_is_surely_better_by_much_is_suspect() -> None:
    """By the upper end of its interval; what has no privacy to lose is not."""
    rows = [
        ("better", 0.94, "pure"), ("better", 0.96, "pure"), ("better", 0.94, "none"),
        ("worse", 0.94, "pure"), ("changed-within-noise", 0.94, "pure"), ("better", 0.5, "zcdp"),
    ]  # fmt: skip
    names = ["verdict", "trimmed_mean_error_high", "privacy"]
    found = pd.DataFrame(rows, columns=names).assign(
        trimmed_mean_error=0.9, trimmed_mean_error_low=0.4
    )
    assert find_suspects(found) == [0, 5]
