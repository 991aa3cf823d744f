"""Reports of a comparison with a baseline: which rows they show, and in which order."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.output.terminal import WIDTH
from dpbench.tracking.comparison import COLUMNS, METRICS
from dpbench.tracking.report import (
    MAX_PRINTED_ROWS,
    REASONS,
    change_text,
    failure_text,
    format_terminal,
    markdown,
    worst_sentence,
)  # fmt: skip
from dpbench.tracking.verdicts import TRACKING


def test_the_worst_rows_come_first_and_equal_bits_are_folded() -> None:
    """Rows of all verdicts, in the reverse of their order."""
    about = {"estimator": "mean", "distribution": "law", "privacy": "pure", "epsilon": 0.5, "n": 10}
    rows = [{**about, "verdict": word} for word in reversed([*TRACKING])]
    table = pd.DataFrame(rows, columns=list(COLUMNS)).replace({None: np.nan})
    wanted = ["worse", "gone", "better", "new", "changed-within-noise"]
    printed = format_terminal(table, "sweep", []).splitlines()
    at = next(i for i, line in enumerate(printed) if line.startswith("Ratios")) + 2
    assert [line.split()[-1] for line in printed[at:]] == wanted
    assert "mean on law, pure eps=0.5 n=10" in printed[at]
    assert max(map(len, printed)) <= WIDTH
    text = markdown(table, "sweep", [])
    cells = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if "| mean on" in line]
    assert cells == ["**worse**", "**gone**", *wanted[2:]]
    assert "6 rows: 1 worse, 1 gone, 1 better, 1 new, 1 changed-within-noise, 1 same." in text
    assert text.count("- mean on law") == 1


def test_rows_that_are_not_printed_are_counted() -> None:
    row = {"estimator": "mean", "distribution": "law", "privacy": "none", "n": 10}
    rows = [{**row, "verdict": "worse"}] * (MAX_PRINTED_ROWS + 3)
    table = pd.DataFrame(rows, columns=list(COLUMNS)).replace({None: np.nan})
    printed = format_terminal(table, "sweep", [])
    assert printed.count("mean on law") - ("Worst change" in printed) == MAX_PRINTED_ROWS
    assert printed.rstrip().endswith("and 3 more: see tracking.md")


def _row(verdict: str, **ratios: tuple[float, float, float]) -> dict[Hashable, Any]:
    """A row with a ratio and its interval for some statistics."""
    row: dict[Hashable, Any] = {"estimator": "mean", "distribution": "law", "privacy": "pure"}
    row |= {"epsilon": 0.5, "n": 10}
    ends: dict[Hashable, Any] = {
        f"{metric}{end}": value
        for metric in METRICS
        for end, value in zip(("", "_low", "_high"), ratios.get(metric, (1, 1, 1)), strict=True)
    }
    return {**row, **ends, "verdict": verdict}


@pytest.mark.parametrize(
    ("row", "told"),
    [
        (
            _row("worse", trimmed_mean_error=(1.095, 1.094, 1.097), q90=(1.2, 1.1, 1.3)),
            "error 9.5% (9.4 .. 9.7%) above the baseline",
        ),
        (
            _row("worse", q90=(1.2, 1.1, 1.3)),
            "0.9 quantile of the error 20.0% (10.0 .. 30.0%) above the baseline",
        ),
        (
            _row("worse", trimmed_mean_error=(12.34, 9, 15)),
            "error 12.34 (9.00 .. 15.00) times the baseline",
        ),
        (
            _row("better", trimmed_mean_error=(0.9, 0.85, 1.01)),
            "error 10.0% (-1.0 .. 15.0%) below the baseline",
        ),
        (
            _row("worse", trimmed_mean_error=(np.nan, np.nan, np.nan)),
            "more trials without a release, or with an error, than the baseline",
        ),
    ],
)
def test_how_much_a_row_changed(row: dict[Hashable, Any], told: str) -> None:
    assert change_text(row, "the baseline") == told
    assert told in worst_sentence(pd.DataFrame([row]), "the baseline")


def test_the_worst_change_comes_before_gains() -> None:
    rows = [
        _row("better", trimmed_mean_error=(0.2, 0.2, 0.2)),
        _row("worse", trimmed_mean_error=(1.1, 1.1, 1.1)),
        _row("worse", trimmed_mean_error=(1.3, 1.2, 1.4)),
        _row("same"),
    ]
    told = worst_sentence(pd.DataFrame(rows), "A")
    name = "mean on law, pure eps=0.5 n=10"
    assert told == f"Worst change: {name}: error 30.0% (20.0 .. 40.0%) above A."
    gain = worst_sentence(pd.DataFrame([rows[0], rows[3]]), "A")
    assert gain == f"Largest gain: {name}: error 80.0% (80.0 .. 80.0%) below A."
    assert worst_sentence(pd.DataFrame([rows[3]]), "A") == ""


@pytest.mark.parametrize("reason", REASONS)
def test_a_failure_says_what_to_do(reason: str) -> None:
    row = _row("worse", trimmed_mean_error=(1.095, 1.094, 1.097))
    told = failure_text(reason, row, "dpbench sweep=ci track=update")
    assert "\n" not in told
    assert ("dpbench sweep=ci track=update" in told) == (reason != "other bits")
    assert "{" not in told
    if reason == "worse":
        assert told == (
            "error 9.5% (9.4 .. 9.7%) above the baseline; if that is meant, run "
            "dpbench sweep=ci track=update"
        )
