"""What is printed: it fits, and is coloured for terminals alone."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dpbench.analysis.smallest_n import TERMS
from dpbench.output.terminal import WIDTH, format_count, rerun_line, say, table
from dpbench.report.scoreboard import _format_samples
from tests.bench import Bench

LONG = "an_estimator_with_a_name_that_is_longer_than_others.really"


def test_a_table_cuts_no_text() -> None:
    row = {"estimator": LONG, "pair": "", "n": "5,398", "verdict": "inconclusive"}
    lines = table("T", [row, "heading " + "x" * 100, {**row, "estimator": "a"}]).splitlines()
    assert lines[1].split() == ["estimator", "n", "verdict"]  # none that are empty
    assert max(map(len, lines)) <= WIDTH
    assert "heading" in lines[2:][0] or lines[3].startswith("heading")
    # Words that do not fit stand whole above their numbers.
    wide = table("T", [{**row, "pair": LONG, "n": "9" * 46}]).splitlines()
    assert wide[2:4] == [LONG, f"  {LONG}"]
    assert wide[4].split() == ["9" * 46, "inconclusive"]
    assert "…" not in "".join(lines + wide)
    assert [format_count(n) for n in (30, 53980.4, 1e10)] == ["30", "53,980", "1e+10"]


def test_everything_printed_fits(bench: Bench) -> None:
    def change(spec: Any) -> None:
        spec["estimators"][LONG] = {"kind": "tuned_clipped_mean", "scale": 1, "policy": "keep_all"}
        spec["estimators"]["a_second_" + LONG] = spec["estimators"]["minimax"]
        spec["claims"]["alpha"]["estimators"] = ["minimax", f"a_second_{LONG}"]
        spec["claims"][f"alpha_{LONG}"] = spec["claims"]["alpha"]

    bench.write(change)
    bench.done()
    lines = bench.read("scoreboard.txt").splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert f"alpha_{LONG}" in lines
    assert "theorems: 8 consistent" in lines
    terms = {f"{name}_term": 1e3 for name in TERMS}
    found: dict[str, Any] = {
        "request": "a",
        "method": "search",
        "estimator": LONG,
        "distribution": LONG,
    }
    found |= {"privacy": "pure", "epsilon": 1.0, "alpha": 0.1, "samples": 53980.0, **terms}
    (shown,) = _format_samples(pd.DataFrame([found | {"low": 5e4, "high": 6e10}]))
    assert LONG in shown
    assert shown.splitlines()[-1].split() == [
        "0.1", "53,980", "50,000", "..", "6e+10", format_count(1e3 * len(TERMS)),
    ]  # fmt: skip
    assert max(map(len, shown.splitlines())) <= WIDTH


def test_colours_are_for_terminals(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    text = "a  inconsistent\nb  consistent\n1 consistent, 0 inconsistent, 2 inconclusive\n[red]"
    for name in ("NO_COLOR", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TERM", "xterm")
    say(text)
    monkeypatch.setenv("FORCE_COLOR", "1")
    say(text)
    monkeypatch.setenv("NO_COLOR", "1")
    say(text)
    plain, coloured = f"{text}\n", capsys.readouterr().out
    red, green = "\x1b[31minconsistent\x1b[0m", "\x1b[32mconsistent\x1b[0m"
    shown = plain.replace("  inconsistent", f"  {red}").replace("  consistent", f"  {green}")
    assert coloured == plain + shown + plain


def test_a_command_that_reruns_compares_nothing_and_reruns_once() -> None:
    words = ["sweep=a", "track=check", "rerun=old", "n_jobs=2"]
    assert rerun_line(words, "f0n7").endswith(" sweep=a n_jobs=2 rerun=f0n7")
