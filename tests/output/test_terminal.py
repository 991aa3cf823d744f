"""What is printed: it fits, and is coloured for terminals alone."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

import dpbench
from dpbench.analysis.smallest_n import TERMS
from dpbench.output.names import as_text
from dpbench.output.terminal import (
    WIDE,
    WIDTH,
    fill,
    format_count,
    line_width,
    rerun_line,
    say,
    screen_width,
    spread,
    table,
)
from dpbench.report.scoreboard import _format_samples
from tests.bench import Bench

LONG = "an_estimator_with_a_name_that_is_longer_than_others.really"


def test_a_table_cuts_no_text() -> None:
    row = {"estimator": LONG, "pair": "", "n": "5,398", "verdict": "inconclusive"}
    lines = table("T", [row, "heading " + "word " * 20, {**row, "estimator": "a"}]).splitlines()
    assert lines[1].split() == ["estimator", "n", "verdict"]  # none that are empty
    assert max(map(len, lines)) <= WIDTH
    assert "heading" in lines[2:][0] or lines[3].startswith("heading")
    # Words that do not fit stand whole above their numbers.
    wide = table("T", [{**row, "pair": LONG, "n": "9" * 46}]).splitlines()
    assert wide[2:4] == [LONG, f"pair: {LONG}"]
    assert wide[4].split() == ["9" * 46, "inconclusive"]
    assert "…" not in "".join(lines + wide)
    assert "x" * 100 in fill(f"a path stays whole, to be copied: {'x' * 100}").splitlines()[1]
    assert [format_count(n) for n in (30, 53980.4, 1e10)] == ["30", "53,980", "1e+10"]


def test_wider_lines_show_more_columns_and_whole_names() -> None:
    numbers = [10, 20, 30, 40, 50, 60, 70]
    assert spread(numbers, 3, 30) == [10, 30, 40, 50, 70]  # five columns of 8 and 2 in 50
    assert spread(numbers, 18, 60) == [10, 70]
    assert spread(numbers[:1], 18, 90) == [10]
    rows = [{"estimator": LONG, "pair": "x" * 30, "verdict": "agree"}]
    with line_width(WIDE):
        assert spread(numbers, 3, 30) == numbers
        assert len(table("T", rows).splitlines()) == 3
        assert fill("word " * 24).count("\n") == 0
    # The name that does not fit stands in a line of its own, and the other in its column.
    assert [line.split() for line in table("T", rows).splitlines()[2:]] == [
        [LONG], ["x" * 30, "agree"],
    ]  # fmt: skip
    assert fill("word " * 24).count("\n") == 1


@pytest.mark.parametrize(
    ("is_terminal", "columns", "width"), [(True, 200, 120), (True, 119, 80), (False, 200, 80)]
)
def test_only_a_terminal_has_wide_lines(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, is_terminal: bool, columns: int, width: int
) -> None:
    """A finished run shows the same lines again; its file has 80 characters."""
    name = "exponents_of_moments_2_and_3"
    bench.write(lambda spec: spec["claims"].update({name: {**spec["claims"]["alpha"]}}))
    with monkeypatch.context() as patch:
        patch.setattr(sys.stdout, "isatty", lambda: is_terminal, raising=False)
        patch.setattr("shutil.get_terminal_size", lambda: os.terminal_size((columns, 24)))
        assert screen_width() == width
    for room in ("jobs.finished_run", "cli.main"):
        monkeypatch.setattr(f"dpbench.{room}.screen_width", lambda: width)
    for _ in range(2):
        tables = bench.done("trials=4").out.partition("counted")[0]
        stands_alone = f"\n{name}\n" in tables
        assert (stands_alone, name in tables) == (width == WIDTH, True)
    assert f"\n{name}\n" in bench.read("scoreboard.txt")


@pytest.mark.parametrize("width", [WIDTH, WIDE])
def test_commands_print_as_wide_lines_as_runs(
    bench: Bench, monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    columns = ", ".join(f"a_column_of_the_table_{i}: {{lower: 0, upper: 1}}" for i in range(5))
    (bench.folder / "table.yaml").write_text(f"{{n: 100, columns: {{{columns}}}}}")
    monkeypatch.setattr("dpbench.cli.main.screen_width", lambda: width)
    printed = bench.raw("plan", "table=table.yaml", "epsilon=1").out.splitlines()
    sentence = next(line for line in printed if line.startswith("shares of the budget"))
    assert width - 30 < len(sentence) <= width


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
        "eps=1", "0.1", "53,980", "50,000", "..", "6e+10", format_count(1e3 * len(TERMS)),
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


def test_numbers_below_a_million_are_written_in_full() -> None:
    """Not as 5.81e+03; the rooms that print have no format of their own."""
    for value, text in (
        (5812.0, "5,810"), (581234.5, "581,000"), (1234567.0, "1.23e+06"), (0.012345, "0.0123"),
        (581.4, "581"), (-5812.0, "-5,810"), (999999.0, "1e+06"),
    ):  # fmt: skip
        assert as_text(value) == text
    assert [as_text(123.0, 2), as_text(1234567.0, 6), as_text(0.1794, 4)] == [
        "120", "1.23457e+06", "0.1794",
    ]  # fmt: skip
    own = re.compile(r'(?<!float\()f"[^"]*:[\d.>]*\.[34]g\}')
    for room in ("planner", "report", "audit", "benchmark", "libraries", "tracking"):
        for path in Path(dpbench.__file__).parent.joinpath(room).rglob("*.py"):
            assert not own.search(path.read_text("utf-8")), path
