"""Command ``compare``: compare two runs or baselines row by row, in a table and a figure.

A row is an estimator with a budget, on one distribution at one n.
"""

from __future__ import annotations

import os
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.api import load
from dpbench.errors import check_instance
from dpbench.jobs.replaced_run import differences
from dpbench.output.command_line import read_words
from dpbench.output.files import atomic, check_writable
from dpbench.output.names import number_text
from dpbench.output.run_folder import read_manifest
from dpbench.output.terminal import fill, say
from dpbench.output.terminal import table as in_columns
from dpbench.package import user_folder
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.style import Canvas, new_canvas, save, style
from dpbench.report.run_result import Result
from dpbench.runner.origin import Origin
from dpbench.runner.settings import PathText
from dpbench.runner.store import CorruptBlockError
from dpbench.tracking import comparison
from dpbench.tracking.baseline import Baseline, collect_errors
from dpbench.tracking.comparison import SMALLEST_CHANGE
from dpbench.tracking.report import ratio_text, row_name, worst_sentence
from dpbench.tracking.verdicts import COMPARED

__all__ = ["compare", "main", "read_errors"]

MAX_SHOWN_ROWS = 40  # rows in the printed table and in the figure
SHOWN = ("worse", "better", "gone", "new")  # verdicts of rows that are printed
ONE_SIDED = ("gone", "new")  # rows of one of the runs only
MAX_SHOWN_ALONE = 5
# Marks of rows without a change; those of other rows have the colour of their verdict.
MARKS: Mapping[str, dict[str, Any]] = {
    "not decided": {"color": "0.6", "mfc": "white"},
    "unchanged": {"color": "black"},
}
LOW, HIGH = 1 / (1 + SMALLEST_CHANGE), 1 + SMALLEST_CHANGE  # ratios between do not matter


@validated
class CompareKeys:
    """Keys ``out`` and ``config_dir`` of the command ``compare``."""

    out: PathText = "results/compare"
    config_dir: PathText | None = None


def compare(
    a: str | Path | Result, b: str | Path | Result, *, config_dir: str | Path | None = None
) -> pd.DataFrame:
    """Compare the errors of two runs, row by row.

    A row is an estimator with a budget, on one distribution at one n.

    Parameters
    ----------
    a, b : str, Path or Result
        Folder of a finished run, file of a baseline, or result returned by `dpbench.run`.
    config_dir : str or Path, optional
        Folder of the plug-ins of both runs; see `dpbench.load`.

    Returns
    -------
    DataFrame
        Columns of `dpbench.tracking.compare`; a ratio is an error of `b` divided by the error of
        `a`. In place of ``changed-within-noise`` a row is ``unchanged`` if the whole 95% interval
        of its ratio of trimmed means lies within 1/1.02 .. 1.02, and ``not decided`` otherwise.
        Rows with the verdicts worse and better come first. Rows that only `a` has follow, then rows
        that only `b` has, then undecided, unchanged and equal rows. Within each group, rows are
        sorted by the change of the errors' trimmed mean, the largest first.

    Raises
    ------
    ConfigError
        If a folder holds no finished run, or a file is not a baseline.
    """
    for name, run in (("a", a), ("b", b)):
        kinds = (str, os.PathLike, Result)
        check_instance(name, run, kinds, "a run", "a folder, the file of a baseline, or a result")
    if config_dir is not None:
        user_folder(config_dir, "config_dir")
    old, new = (_error_table(source, config_dir) for source in (a, b))
    table = comparison.compare(old, new)
    open_rows = table["verdict"] == "changed-within-noise"
    within = (table["trimmed_mean_error_low"] >= LOW) & (table["trimmed_mean_error_high"] <= HIGH)
    table.loc[open_rows, "verdict"] = np.where(within, "unchanged", "not decided")[open_rows]
    with np.errstate(divide="ignore"):
        change = np.nan_to_num(np.abs(np.log(table["trimmed_mean_error"].to_numpy(float))))
    order = np.lexsort([-change, table["verdict"].map(lambda word: COMPARED[word].rank)])
    return table.iloc[order].reset_index(drop=True)


def _error_table(source: str | Path | Result, config_dir: str | Path | None) -> pd.DataFrame:
    """Return a table of errors, with a row for each estimator, budget, distribution and n.

    The argument `source` is a result, the folder of a run or the file of a baseline.
    """
    if isinstance(source, Result):
        return collect_errors(source.cells, source.blocks, source.seed)
    return read_errors(Path(source).expanduser(), config_dir).rows


def read_errors(path: Path, config_dir: str | Path | None = None) -> Baseline:
    """Read the errors of a finished run from its folder, or of a stored baseline from its file.

    `config_dir` is the folder of the run's plug-ins; see `dpbench.load`. A ConfigError says that
    `path` does not exist, holds no finished run or no baseline, or that blocks are damaged.
    """
    if not os.path.exists(path):  # noqa: PTH110 (no error for a name that is too long)
        raise ConfigError(f"'{path}': no such folder of a finished run, nor file of a baseline")
    if not path.is_dir():
        return Baseline.read(path, None)
    result, manifest = load(path, config_dir=config_dir), read_manifest(path)
    try:
        rows = collect_errors(result.cells, result.blocks, result.seed)
    except (CorruptBlockError, OSError, KeyError) as error:
        raise ConfigError(f"'{path}': its blocks are not whole: {error}") from error
    versions_and_commits = {
        name: manifest.get(name) for name in ("commit", "dirty", "plugin_commits")
    }
    versions_and_commits["versions"] = manifest["versions"]
    machine = manifest["machine"]
    origin = Origin(manifest["source"], machine, stored=versions_and_commits)
    return Baseline(rows, manifest["sweep"], result.seed, origin)


def main(words: Sequence[str]) -> int:
    """Compare two runs and write all rows to compare.csv; return the exit code 0.

    At most 40 (`MAX_SHOWN_ROWS`) of the rows that changed are printed. As many rows whose errors
    differ in some bit are drawn.
    """
    (a, b), options = read_words("compare", words, "A B", CompareKeys)
    out = Path(options.out)
    check_writable(out)
    table = compare(a, b, config_dir=options.config_dir)
    with atomic(out / "compare.csv") as path:
        table.to_csv(path, index=False)
    say("\n".join(filter(None, [_compare_configurations(a, b), _summarise(table, a, b)])))
    changed = table[table["verdict"].isin(SHOWN)]
    if not changed.empty:
        alone = changed["verdict"].isin(ONE_SIDED)
        listed = pd.concat([changed[~alone], changed[alone][:MAX_SHOWN_ALONE]])[:MAX_SHOWN_ROWS]
        cells = [_format_row(row) for row in listed.to_dict("records")]
        shown = f"{len(cells)} of {len(changed)} changed rows"
        say(in_columns(f"Ratios B/A, with 95% intervals of trimmed means; {shown}", cells))
    drawn = table[table["trimmed_mean_error_low"].notna()][:MAX_SHOWN_ROWS]
    if not drawn.empty:
        with style("page"):
            save(_draw_ratios(drawn), out, "compare")
    say(f"written to {out}")
    return 0


def _compare_configurations(a: str, b: str) -> str:
    """Return lines that say how the configurations of two runs differ; "" if one is a baseline."""
    folders = [Path(source).expanduser() for source in (a, b)]
    if not all(folder.is_dir() for folder in folders):
        return ""
    old, new = (read_manifest(folder)["configuration"] for folder in folders)
    lines = differences(old, new, "{} (A), {} (B)")
    return "\n".join(
        ["The configurations differ in", *lines] if lines else ["Equal configurations."]
    )


def _summarise(table: pd.DataFrame, a: str, b: str) -> str:
    """Return the sentences that say what was compared, and how many rows changed, and the worst."""
    counts = table["verdict"].value_counts()
    parts = [f"{counts.get(word, 0)} {word}" for word in ("worse", "better", "not decided")]
    equal = counts.get("same", 0)
    unchanged = equal + counts.get("unchanged", 0)
    parts.append(f"{unchanged} unchanged" + (" in every bit" if 0 < equal == unchanged else ""))
    parts += [
        f"{counts[word]} only in {name}"
        for word, name in (("gone", a), ("new", b))
        if word in counts
    ]
    rows = "1 row" if len(table) == 1 else f"{len(table)} rows"
    text = f"{b} (B) against {a} (A), {rows}: {', '.join(parts)}."
    rules = []
    if "not decided" in counts:
        rules.append("Not decided: no change is shown, and the interval leaves 1/1.02 .. 1.02.")
    if {*ONE_SIDED} & {*counts.index}:
        rules.append("Rows are compared if estimator, budget, distribution and n are equal.")
    text = " ".join(filter(None, [text, *rules, worst_sentence(table, "A")]))
    return fill(text, "")


def _format_row(row: Mapping[Hashable, Any]) -> dict[str, str]:
    """Return the texts with which the printed table shows one row of the comparison."""
    q90_text = "" if pd.isna(row["q90"]) else f"{row['q90']:.3f}"
    ratio = ratio_text(row, "trimmed_mean_error")
    return {"row": row_name(row), "mean": ratio, "q90": q90_text, "verdict": str(row["verdict"])}


def _draw_ratios(rows: pd.DataFrame) -> Canvas:
    """Draw the ratio of two runs' errors for each row of a comparison, with its 95% interval.

    The ratio is the trimmed mean of run B's errors divided by the trimmed mean of run A's errors.
    The band marks ratios between 1/1.02 and 1.02, because changes of at most 2%
    (`SMALLEST_CHANGE`) do not matter. Rows that are not decided have hollow grey marks.
    """
    from matplotlib.ticker import LogLocator

    canvas, ((ax,),) = new_canvas(1.2 + 0.16 * len(rows))
    ax.axvspan(LOW, HIGH, color="0.9", linewidth=0, label=f"within {SMALLEST_CHANGE:.0%}")
    ax.axvline(1, color="black", linewidth=0.8)
    places = pd.Series(range(len(rows)), index=rows.index)
    for word, group in rows.groupby("verdict", sort=False):
        ratio = group["trimmed_mean_error"]
        ends = [ratio - group["trimmed_mean_error_low"], group["trimmed_mean_error_high"] - ratio]
        look = MARKS.get(str(word)) or {"color": COMPARED[str(word)].tone.figure}
        ax.errorbar(
            ratio, places[group.index], xerr=np.maximum(ends, 0), fmt="o", label=str(word), **look
        )
    ax.legend(loc="lower center", bbox_to_anchor=(0.5, 1), ncols=5, frameon=False)
    names = [row_name(row) for row in rows.to_dict("records")]
    ax.set_yticks(range(len(rows)), names, fontsize=6)
    ax.set(ylim=(len(rows) - 0.4, -0.6), xscale="log", xlabel="error, B/A")
    ax.grid(visible=False, axis="y")
    low, high = ax.get_xlim()
    if high < 3 * low:  # a logarithmic axis this short may have no labelled tick
        ax.set_xscale("linear")
        ax.locator_params(axis="x", nbins=5)
    else:
        ax.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.xaxis.set_major_formatter(lambda value, _: f"${number_text(value)}$")
        ax.minorticks_off()
    return canvas
