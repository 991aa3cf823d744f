"""Errors over commits: what is stored, and what is shown."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import pytest
from scipy.stats import trim_mean

from dpbench.cli.main import run
from dpbench.registry import ConfigError
from dpbench.runner.origin import Origin
from dpbench.tracking import command_history as commands
from dpbench.tracking.baseline import Baseline
from dpbench.tracking.changes import _intervals
from dpbench.tracking.command_history import add_errors, find_changes, read_history
from dpbench.tracking.comparison import KEY, LEVEL
from tests.support import page_columns
from tests.tracking.baselines import errors


def history(*factors: float) -> pd.DataFrame:
    table = None
    for day, factor in enumerate(factors):
        table = add_errors(table, errors(factor), f"commit{day}", f"2026-11-{day + 1:02d}")
    assert table is not None
    return table


def test_a_step_is_shown_in_its_row_at_its_commit() -> None:
    """Of the same streams, by 200 trials."""
    found = find_changes(history(1, 1, 1, 1.05, 1.05))
    assert list(found) == page_columns("changes.csv")
    assert found["distribution"].tolist() == ["inside", "inside", "at_a_bound"]
    assert found["commit"].tolist() == ["commit0", "commit3", "commit0"]
    assert found["points"].tolist() == [3, 2, 5]
    wanted = [np.nan, 1.05, np.nan]
    assert found["ratio"].tolist() == pytest.approx(wanted, nan_ok=True)
    # Another seed has other luck, and always the same: it is no change of accuracy.
    other = history(1, 1, 1)
    for day in (4, 5, 6, 7):
        other = add_errors(other, errors(1.02, "t", seed=1), f"commit{day}", f"2026-11-0{day}")
    assert find_changes(other)["ratio"].isna().all()


def test_adding_again_changes_nothing_and_others_replace() -> None:
    """Points are in order of time, whenever they come."""
    table = history(1, 1, 1)
    again = add_errors(table, errors(), "commit1", "2026-11-02")
    key = ["commit", *KEY]
    pd.testing.assert_frame_equal(
        again.sort_values(key, ignore_index=True), table.sort_values(key, ignore_index=True)
    )
    late = add_errors(table, errors(2.0), "commit1", "2026-10-01")
    assert late["commit"].tolist() == [f"commit{i}" for i in (1, 1, 0, 0, 2, 2)]
    assert late["trimmed_mean_error"][0] == pytest.approx(2 * table["trimmed_mean_error"][0])
    row = table.iloc[0]
    assert (
        row["trimmed_mean_error_low"] < row["trimmed_mean_error"] < row["trimmed_mean_error_high"]
    )
    assert row["q90_low"] < row["q90"] < row["q90_high"]
    assert (row["trials"], row["failures"]) == (200, 0)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for day, factor in enumerate((1, 1, 1.05)):
        errors(factor).write(Path("base.parquet"))
        for _ in range(2):
            words = [f"commit=c{day}", f"date=2026-11-0{day + 1}", "to=h.parquet"]
            assert run(["history", "add", "base.parquet", *words]) == 0
    assert len(read_history(Path("h.parquet"))) == 6
    capsys.readouterr()
    assert run(["history", "show", "h.parquet", "out=shown"]) == 0
    told = capsys.readouterr().out.splitlines()
    level = trim_mean(errors(1.05).rows["errors"][0], 0.1)
    assert told[0].startswith(f"mine on inside, pure eps=1 n=100: {level:.4g} (")
    assert told[1] == "    1.050 from c2 on (2026-11-03)"
    assert told[2].startswith("mine on at_a_bound")
    assert told[3] == "1 changes; written to shown"
    assert {path.name for path in Path("shown").iterdir()} == {"changes.csv", "history.svg"}
    # By itself it knows the commit, and the date.
    assert run(["history", "add", "base.parquet"]) == 0
    assert set(read_history(Path("history.parquet"))["commit"]) == {"abc"}

    before = Path("h.parquet").read_bytes()

    def fails(_: object, path: Path) -> None:
        path.write_bytes(b"half")
        raise OSError("disk full")

    monkeypatch.setattr(pq, "write_table", fails)
    assert run(["history", "add", "base.parquet", "to=h.parquet", "commit=c9"]) == 1
    assert capsys.readouterr().err == "dpbench: OSError: disk full\n"
    assert Path("h.parquet").read_bytes() == before
    assert not list(Path().glob(".*.tmp"))


def test_errors_of_changed_files_should_be_committed_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    for dirty in (False, True):
        about = {"commit": "a", "dirty": dirty}
        Baseline(errors().rows, "a", 0, Origin("", "", stored=about)).write(Path("base.parquet"))
        assert run(["history", "add", "base.parquet"]) == 0
        assert ("Commit them first, store the errors again" in capsys.readouterr().out) is dirty


def test_what_cannot_be_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    one = errors()
    one.write(Path("base.parquet"))
    Baseline(one.rows, "a", 0, Origin("", "", stored={"commit": None})).write(
        Path("nobodys.parquet")
    )
    Path("empty").mkdir()
    for words, told in (
        ("history", "choose from add, show"),
        ("history remove h.parquet", "'remove': no such task"),
        ("history ad", "'ad': no such task; did you mean 'add'?"),
        ("history show", "FILE: this word is required; expected: history show FILE [out=]"),
        ("history show h.parquet", "'h.parquet': no such file; `history add RUN` makes it"),
        ("history show base.parquet", "'base.parquet': not a history"),
        ("history add base.parquet to=base.parquet", "'base.parquet': not a history"),
        ("history add base.parquet date=soon", "date: 'soon'"),
        ("history add base.parquet form=h.parquet", "form: no such key of history add"),
        ("history add nobodys.parquet", "commit=NAME"),
        ("history add nothing.parquet", "'nothing.parquet': no such folder"),
        ("compare base.parquet", "B: this word is required; expected: compare A B"),
        ("compare base.parquet empty", "'empty': holds no finished run"),
        ("compare base.parquet base.parquet --loud", "'--loud': no such flag"),
    ):
        assert run(words.split()) == 2
        err = capsys.readouterr().err
        assert err.startswith("dpbench: ")
        assert told in err
        assert err.count("\n") == 1
    assert run(["compare", "--help"]) == run(["history", "-h"]) == run(["--help"]) == 0
    out = capsys.readouterr().out
    assert "python -m dpbench compare A B [out=DIR]" in out
    assert "python -m dpbench history add RUN" in out
    assert "init-ci [DIR]" in out


def test_false_changes_of_all_rows_are_rare_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gap of every interval, of both rows, has an equal part of 1%: 4 commits have 3 + 3."""
    given = list[float]()

    def none(_: object, alpha: float) -> list[int]:
        given.append(alpha)
        return []

    monkeypatch.setattr(commands, "change_points", none)
    find_changes(history(1, 1, 1, 1))
    looks = sum(last - first - 1 for first, last in _intervals(4))
    assert looks > 3
    assert given == pytest.approx([LEVEL / (2 * looks)] * 2)


def test_dates_are_of_one_zone(tmp_path: Path) -> None:
    """They are sorted as text."""
    (path := tmp_path / "base.parquet").touch()
    for given, wanted in (
        ("2026-11-02T01:00+05:00", "2026-11-01 20:00+00:00"),
        ("2026-11-02", "2026-11-02 00:00+00:00"),
    ):
        assert commands._date(given, "no commit", path) == wanted


@pytest.mark.parametrize(
    ("commits", "found"),
    [
        ([("a", False), ("a", False)], "a"),
        ([("a", True)], "a-dirty"),
        ([("a", False), ("b", False)], None),
        ([("a", False), ("a", True)], None),
        ([(None, True)], "no commit"),
    ],
)
def test_errors_are_of_one_commit(
    commits: list[tuple[str | None, bool]], found: str | None
) -> None:
    of = {str(i): {"commit": one, "dirty": dirty} for i, (one, dirty) in enumerate(commits)}
    origin = Origin("source", "machine", stored={"plugin_commits": of})
    told = dataclasses.replace(errors(), origin=origin)
    if found is not None:
        assert commands._commit(told)[0] == found
        return
    with pytest.raises(ConfigError, match="the commit of these errors is not known"):
        commands._commit(told)
