"""What a comparison with a baseline prints: Markdown for people, JUnit XML for machines."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pandas as pd

from dpbench.output import amounts
from dpbench.tracking.comparison import LEVEL, METRICS, SMALLEST, VERDICTS

__all__ = ["FAILING", "junit", "markdown", "row_name"]

FAILING = ("worse", "gone")
METRIC_NAMES = {"trimmed_mean": "trimmed mean", "q50": "median", "q90": "0.9 quantile"}


def markdown(table: pd.DataFrame, sweep: str, notes: list[str]) -> str:
    """A table fit for a pull request, worst rows first; those whose bits are equal are folded.

    Parameters
    ----------
    table : DataFrame
        See `dpbench.tracking.compare`.
    sweep : str
    notes : list of str
        Sentences about the baseline.
    """
    counts = table["verdict"].value_counts()
    summary = ", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS)
    lines = [
        f"### Accuracy of `{sweep}` against its baseline",
        "",
        f"{len(table)} rows: {summary}.",
    ]
    lines += ["", *notes, ""]
    same = table["verdict"] == "same"
    order = table["verdict"].map(VERDICTS.index)
    changed = table[~same].iloc[np.argsort(order[~same], kind="stable")]
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


def _rows(table: pd.DataFrame) -> list[str]:
    heads = ["verdict", "row", *(METRIC_NAMES[m] for m in METRICS), "visible", "compared"]
    lines = ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
    for row in table.to_dict("records"):
        ratios = [_ratio(row, metric) for metric in METRICS]
        visible = row["smallest_visible"]
        cells = [
            f"**{row['verdict']}**" if row["verdict"] in FAILING else row["verdict"],
            row_name(row),
            *ratios,
            "" if pd.isna(visible) else f"{visible:.1%}",
            "" if pd.isna(row["comparison"]) else row["comparison"],
        ]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def _ratio(row: Mapping[Hashable, Any], metric: str) -> str:
    if pd.isna(row[metric]):
        return ""
    if pd.isna(row[f"{metric}_low"]):
        return f"{row[metric]:.3f}"
    return f"{row[metric]:.3f} ({row[f'{metric}_low']:.3f} .. {row[f'{metric}_high']:.3f})"


def row_name(row: Mapping[Hashable, Any]) -> str:
    """A row in words: estimator on distribution, budget, n."""
    about = f"{row['estimator']} on {row['distribution']},"
    return " ".join([about, row["privacy"], *amounts(row), f"n={row['n']}"])


def junit(table: pd.DataFrame, sweep: str, reasons: Mapping[int, str]) -> str:
    """A test case for every row; those with a reason to fail, by their place, fail."""
    suite = ET.Element(
        "testsuite",
        {"name": f"dpbench {sweep}", "tests": str(len(table)), "failures": str(len(reasons))},
    )
    for place, row in enumerate(table.to_dict("records")):
        about = {"classname": f"dpbench.{sweep}", "name": row_name(row)}
        case = ET.SubElement(suite, "testcase", about)
        if place in reasons:
            ratios = [f"{METRIC_NAMES[m]} {_ratio(row, m)}" for m in METRICS if _ratio(row, m)]
            told = {"type": reasons[place], "message": "; ".join([reasons[place], *ratios])}
            ET.SubElement(case, "failure", told)
    ET.indent(suite)
    return ET.tostring(suite, encoding="unicode", xml_declaration=True) + "\n"
