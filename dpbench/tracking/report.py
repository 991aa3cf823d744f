"""Output of a comparison with a baseline: terminal text, Markdown, and JUnit XML."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd

from dpbench.output.terminal import count_verdicts, fill
from dpbench.output.terminal import table as text_table
from dpbench.privacy.symbols import budget_text
from dpbench.tracking.comparison import LEVEL, METRICS, SMALLEST_CHANGE
from dpbench.tracking.verdicts import TRACKING

__all__ = [
    "METRIC_NAMES", "OTHER_BITS", "SUSPECT", "change_text", "failure_text", "format_terminal",
    "junit", "markdown", "ratio_text", "row_name", "worst_sentence",
]  # fmt: skip

MAX_PRINTED_ROWS = 30  # rows printed on a terminal
METRIC_NAMES = {"trimmed_mean_error": "trimmed mean", "q50": "median", "q90": "0.9 quantile"}
# Reasons why a row fails, each with the text of its message and with the remedy.
WORSE, GONE, OTHER_BITS, SUSPECT = "worse", "gone", "other bits", "suspiciously better"
MEANT = "if that is meant, run {update}"
REASONS = {
    WORSE: ("{change}", MEANT),
    GONE: ("in the baseline but not in this run", MEANT),
    OTHER_BITS: (
        "other errors from the same seed, source and processor",
        "set seeded = False if the estimator does not draw all randomness from the given rng",
    ),
    SUSPECT: ("{change}: is it as private as before?", "if you have checked that, run {update}"),
}
SHORT_NAMES = {"trimmed_mean_error": "mean", "q50": "median", "q90": "q90"}


def markdown(table: pd.DataFrame, sweep: str, notes: list[str]) -> str:
    """Return a comparison with a baseline as a Markdown table, the worst rows first.

    The table is for a pull request. Rows with equal errors are in a folded list. The notes are
    sentences about the baseline.
    """
    lines = [f"### Accuracy of `{sweep}` against its baseline", "", _summarise(table)]
    lines += ["", *notes, ""]
    equal_bits, changed = table["verdict"] == "same", _select_changed(table)
    if not changed.empty:
        lines += [
            "Ratios new/old with 95% bootstrap intervals. A row is worse or better if one is "
            f"beyond 1 ± {SMALLEST_CHANGE:g}, at a false discovery rate of {LEVEL:g} over the "
            "table. *Visible* is the smallest change that the row would show with probability 0.9.",
            "",
            *_markdown_rows(changed),
            "",
        ]
    if equal_bits.any():
        listed = [f"- {row_name(row)}" for row in table[equal_bits].to_dict("records")]
        lines += ["<details><summary>Equal bits</summary>", "", *listed, "", "</details>", ""]
    return "\n".join(lines)


def _summarise(table: pd.DataFrame) -> str:
    counts = f"{len(table)} rows: {count_verdicts(table, TRACKING)}."
    return " ".join(filter(None, [counts, worst_sentence(table, "the baseline")]))


def _select_changed(table: pd.DataFrame) -> pd.DataFrame:
    """Return the rows without the verdict ``same``, sorted from the worst verdict to the best."""
    changed = table[table["verdict"] != "same"]
    ranks = changed["verdict"].map(lambda word: TRACKING[word].rank)
    return changed.iloc[np.argsort(ranks, kind="stable")]


def format_terminal(table: pd.DataFrame, sweep: str, notes: list[str]) -> str:
    """Return a comparison with a baseline as text for a terminal, without intervals.

    At most `MAX_PRINTED_ROWS` rows are printed. The notes are sentences about the baseline.
    """
    lines = [f"Accuracy of {sweep} against its baseline"]
    lines += [fill(note.replace("**", ""), "") for note in (_summarise(table), *notes)]
    rows: list[Mapping[str, str] | str] = [
        {
            "row": row_name(row),
            **{name: "" if pd.isna(row[m]) else f"{row[m]:.3f}" for m, name in SHORT_NAMES.items()},
            "detectable": ""
            if pd.isna(row["smallest_detectable"])
            else f"{row['smallest_detectable']:.1%}",
            "verdict": row["verdict"],
        }
        for row in _select_changed(table).to_dict("records")
    ]
    if len(rows) > MAX_PRINTED_ROWS:
        rows = [
            *rows[:MAX_PRINTED_ROWS],
            f"and {len(rows) - MAX_PRINTED_ROWS} more: see tracking.md",
        ]
    return "\n".join([*lines, *([text_table("Ratios new/old", rows)] if rows else [])])


def _markdown_rows(table: pd.DataFrame) -> list[str]:
    headings = ["verdict", "row", *(METRIC_NAMES[m] for m in METRICS), "detectable", "compared"]
    lines = ["| " + " | ".join(headings) + " |", "|---" * len(headings) + "|"]
    for row in table.to_dict("records"):
        ratios = [ratio_text(row, metric) for metric in METRICS]
        visible = row["smallest_detectable"]
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
    """Return a row's ratio of new to old error with its interval, as text; "" without a ratio."""
    if pd.isna(row[metric]):
        return ""
    if pd.isna(row[f"{metric}_low"]):
        return f"{row[metric]:.3f}"
    return f"{row[metric]:.3f} ({row[f'{metric}_low']:.3f} .. {row[f'{metric}_high']:.3f})"


def row_name(row: Mapping[Hashable, Any]) -> str:
    """Return the name of a row: its estimator, distribution, budget and n."""
    names = f"{row['estimator']} on {row['distribution']},"
    return f"{names} {budget_text(row, label=row['privacy'])} n={row['n']}"


def change_text(row: Mapping[Hashable, Any], reference: str) -> str:
    """Return words for the change of a row's errors, with the 95% interval of the change.

    An example is ``error 9.5% (9.4 .. 9.7%) above the baseline``. The trimmed mean is named
    ``error``. If only the median or the 0.9 quantile changed by more than `SMALLEST_CHANGE`, this
    statistic is named. `reference` names the old errors.
    """
    ratios = {m: row[m] if row["verdict"] != "better" else 1 / row[m] for m in METRICS}
    changed = [metric for metric in METRICS if ratios[metric] > 1 + SMALLEST_CHANGE]
    if not changed:
        more = "fewer" if row["verdict"] == "better" else "more"
        return f"{more} trials without a release, or with an error, than {reference}"
    metric = changed[0]
    name = "error" if metric == METRICS[0] else f"{METRIC_NAMES[metric]} of the error"
    numbers = [row[metric], row[f"{metric}_low"], row[f"{metric}_high"]]
    if numbers[0] >= 2:
        ratio, low, high = (f"{number:.2f}" for number in numbers)
        return f"{name} {ratio} ({low} .. {high}) times {reference}"
    where, sign = ("above", 1) if numbers[0] > 1 else ("below", -1)
    first, *ends = (sign * 100 * (number - 1) for number in numbers)
    low, high = sorted(ends)
    return f"{name} {first:.1f}% ({low:.1f} .. {high:.1f}%) {where} {reference}"


def worst_sentence(table: pd.DataFrame, reference: str) -> str:
    """Return a sentence about the row that became worse by the largest factor.

    Without a worse row, the sentence is about the row that became better by the largest factor. It
    is empty if no row became worse or better. `reference` names the old errors, such as ``the
    baseline``.
    """
    for verdict, title, sign in (("worse", "Worst change", 1), ("better", "Largest gain", -1)):
        rows = table[table["verdict"] == verdict]
        if len(rows):
            ratios = sign * np.log(rows[list(METRICS)].astype(float)).max(axis=1).fillna(0)
            row = rows.loc[ratios.idxmax()].to_dict()
            return f"{title}: {row_name(row)}: {change_text(row, reference)}."
    return ""


def failure_text(reason: str, row: Mapping[Hashable, Any], update: str) -> str:
    """Return one line: why a row fails, by how much, and what to type if that was meant.

    `reason` is a key of `REASONS`. `update` is the command that stores the errors as the new
    baseline.
    """
    has_ratio = row["verdict"] in ("worse", "better")
    change = change_text(row, "the baseline") if has_ratio else ""
    text, remedy = REASONS[reason]
    return f"{text.format(change=change)}; {remedy.format(update=update)}"


def junit(table: pd.DataFrame, sweep: str, reasons: Mapping[int, str], update: str) -> str:
    """Return a comparison with a baseline as JUnit XML, with a test case for every row.

    `reasons` are keyed by the index of the row in the table, from 0. The test of a row fails if
    there is a reason for the row.
    """
    suite = ET.Element(
        "testsuite",
        {"name": f"dpbench {sweep}", "tests": str(len(table)), "failures": str(len(reasons))},
    )
    for place, row in enumerate(table.to_dict("records")):
        attributes = {"classname": f"dpbench.{sweep}", "name": row_name(row)}
        case = ET.SubElement(suite, "testcase", attributes)
        if place in reasons:
            reason = {"type": reasons[place], "message": failure_text(reasons[place], row, update)}
            ET.SubElement(case, "failure", reason)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
