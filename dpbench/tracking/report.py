"""Output of a comparison with a baseline: terminal text, Markdown, and JUnit XML."""

from __future__ import annotations

import textwrap
from collections.abc import Hashable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd

from dpbench.output.terminal import counted
from dpbench.output.terminal import table as text_table
from dpbench.output.verdicts import TRACKING
from dpbench.privacy.symbols import budget_text
from dpbench.tracking.comparison import LEVEL, METRICS, SMALLEST

__all__ = [
    "METRIC_NAMES", "failure", "in_print", "junit", "markdown", "ratio_text", "row_name",
]  # fmt: skip

MOST_ROWS = 30  # rows printed on a terminal
METRIC_NAMES = {"trimmed_mean": "trimmed mean", "q50": "median", "q90": "0.9 quantile"}
SHORT = {"trimmed_mean": "mean", "q50": "median", "q90": "q90"}


def markdown(table: pd.DataFrame, sweep: str, notes: list[str]) -> str:
    """Return a Markdown table for a pull request, worst rows first; rows of equal bits are folded.

    Parameters
    ----------
    table : DataFrame
        Table of `dpbench.tracking.compare`.
    sweep : str
        Name of the sweep.
    notes : list of str
        Sentences about the baseline.

    Returns
    -------
    str
    """
    lines = [f"### Accuracy of `{sweep}` against its baseline", "", _counts(table)]
    lines += ["", *notes, ""]
    same, changed = table["verdict"] == "same", _changed(table)
    if not changed.empty:
        lines += [
            "Ratios new/old with 95% bootstrap intervals. A row is worse or better if one is "
            f"beyond 1 ± {SMALLEST:g}, at a false discovery rate of {LEVEL:g} over the table. "
            "*Visible* is the smallest change that the row would show with probability 0.9.",
            "",
            *_rows(changed),
            "",
        ]
    if same.any():
        listed = [f"- {row_name(row)}" for row in table[same].to_dict("records")]
        lines += ["<details><summary>Equal bits</summary>", "", *listed, "", "</details>", ""]
    return "\n".join(lines)


def _counts(table: pd.DataFrame) -> str:
    return f"{len(table)} rows: {counted(table, TRACKING)}."


def _changed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows whose bits differ, worst first."""
    changed = table[table["verdict"] != "same"]
    ranks = changed["verdict"].map(lambda word: TRACKING[word].rank)
    return changed.iloc[np.argsort(ranks, kind="stable")]


def in_print(table: pd.DataFrame, sweep: str, notes: list[str]) -> str:
    """Return the comparison for a terminal: ratios without intervals, the first `MOST_ROWS` rows.

    Parameters
    ----------
    table : DataFrame
        Table of `dpbench.tracking.compare`.
    sweep : str
        Name of the sweep.
    notes : list of str
        Sentences about the baseline.

    Returns
    -------
    str
    """
    lines = [f"Accuracy of {sweep} against its baseline", _counts(table)]
    lines += [textwrap.fill(note.replace("**", ""), 80) for note in notes]
    rows: list[Mapping[str, str] | str] = [
        {
            "row": row_name(row),
            **{name: "" if pd.isna(row[m]) else f"{row[m]:.3f}" for m, name in SHORT.items()},
            "visible": "" if pd.isna(row["smallest_visible"]) else f"{row['smallest_visible']:.1%}",
            "verdict": row["verdict"],
        }
        for row in _changed(table).to_dict("records")
    ]
    if len(rows) > MOST_ROWS:
        rows = [*rows[:MOST_ROWS], f"and {len(rows) - MOST_ROWS} more: see tracking.md"]
    return "\n".join([*lines, *([text_table("Ratios new/old", rows)] if rows else [])])


def _rows(table: pd.DataFrame) -> list[str]:
    heads = ["verdict", "row", *(METRIC_NAMES[m] for m in METRICS), "visible", "compared"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in table.to_dict("records"):
        ratios = [ratio_text(row, metric) for metric in METRICS]
        visible = row["smallest_visible"]
        cells = [
            f"**{row['verdict']}**" if TRACKING[row["verdict"]].fails else row["verdict"],
            row_name(row),
            *ratios,
            "" if pd.isna(visible) else f"{visible:.1%}",
            "" if pd.isna(row["comparison"]) else row["comparison"],
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def ratio_text(row: Mapping[Hashable, Any], metric: str) -> str:
    """Return a ratio of a row with its interval, as text; "" if the row has none.

    Parameters
    ----------
    row : mapping
        A row of `dpbench.tracking.compare`.
    metric : str
        A name of `dpbench.tracking.comparison.METRICS`.

    Returns
    -------
    str
    """
    if pd.isna(row[metric]):
        return ""
    if pd.isna(row[f"{metric}_low"]):
        return f"{row[metric]:.3f}"
    return f"{row[metric]:.3f} ({row[f'{metric}_low']:.3f} .. {row[f'{metric}_high']:.3f})"


def row_name(row: Mapping[Hashable, Any]) -> str:
    """Return a row in words: estimator on distribution, budget, n."""
    about = f"{row['estimator']} on {row['distribution']},"
    return f"{about} {budget_text(row, label=row['privacy'])} n={row['n']}"


def failure(reason: str, row: Mapping[Hashable, Any]) -> str:
    """Return one line with the reason of a row's failure and its ratios.

    Parameters
    ----------
    reason : str
        Reason of the failure.
    row : mapping
        A row of `dpbench.tracking.compare`.

    Returns
    -------
    str
    """
    ratios = [f"{METRIC_NAMES[m]} {ratio_text(row, m)}" for m in METRICS if ratio_text(row, m)]
    return "; ".join([reason, *ratios])


def junit(table: pd.DataFrame, sweep: str, reasons: Mapping[int, str]) -> str:
    """Return JUnit XML with a test case for every row; rows with a reason fail.

    Parameters
    ----------
    table : DataFrame
        Table of `dpbench.tracking.compare`.
    sweep : str
        Name of the sweep.
    reasons : mapping of int to str
        Reason of every row that fails, by its place in the table.

    Returns
    -------
    str
    """
    suite = ET.Element(
        "testsuite",
        {"name": f"dpbench {sweep}", "tests": str(len(table)), "failures": str(len(reasons))},
    )
    for place, row in enumerate(table.to_dict("records")):
        about = {"classname": f"dpbench.{sweep}", "name": row_name(row)}
        case = ET.SubElement(suite, "testcase", about)
        if place in reasons:
            told = {"type": reasons[place], "message": failure(reasons[place], row)}
            ET.SubElement(case, "failure", told)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
