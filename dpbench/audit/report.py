"""Report of an audit: tables for the console, and a figure of bounds and claims."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dpbench.output.style import NOTIONS, Canvas, legend, line_styles, new_canvas, spaced
from dpbench.output.terminal import counted
from dpbench.output.terminal import table as text_table
from dpbench.output.verdicts import AUDIT, CONTROLS, failing

__all__ = ["CAVEAT", "blind_rows", "bounds_figure", "render", "strongest", "strongest_in_print"]

# Height of the figure in inches: per row, and of the frame around the rows.
ROW, FRAME = 0.155, 0.95

# Shorter headings for print, and columns that are not printed: files and titles have them.
PRINTED = {"lower bound": "bound", "move over sensitivity": "move"}
UNPRINTED = ("of pairs", "runs a side")

# Columns that identify an estimator and its budget; there are several pairs for each.
ROW_KEY = ("estimator", "notion", "delta")

CAVEAT = """\
A lower bound above the claim refutes it; a bound below it proves nothing:
another pair may give more. Visible: the largest factor such that noise
multiplied by it would be refuted in 95% of audits; "-" if not even a quarter
of the noise would be. Move: the largest change of a mechanism's input over its
stated sensitivity, over all pairs and given equal releases; a move above 1
refutes, "-" if nothing could be compared. Mistakes on other datasets may not
show at all."""

MOST_NAMED = 12  # rows that are printed for each reason; ``audit.csv`` has all
# The noise that is halved in each column of ``audit.csv``; see `dpbench.audit.blind`.
INJECTED = {"blind": "all noise", "blind_additive": "additive noise alone"}


def strongest(table: pd.DataFrame) -> pd.DataFrame:
    """Return the row with the largest lower bound for every estimator, notion and delta."""
    bound = table["lower_bound"].fillna(-1.0)
    best = bound.groupby([table[name] for name in ROW_KEY], sort=False, dropna=False).idxmax()
    return table.loc[best.to_numpy()].reset_index(drop=True)


def blind_rows(table: pd.DataFrame) -> list[str]:
    """List by reason the estimators and notions for which halved noise is not refuted."""
    best, lines = strongest(table), list[str]()
    for column, noise in INJECTED.items():
        if column not in best:
            continue
        reasons = best[column].fillna("").astype(str)
        blind = reasons != ""
        lines.append(f"Half of {noise}: not refuted in {blind.sum()} of {len(best)} rows")
        named: dict[str, list[str]] = {}
        for row in best[blind].to_dict("records"):
            kind = str(row[column]).partition(":")[0]
            named.setdefault(kind, []).append(f"{row['estimator']} {row['notion']}")
        for kind, some in named.items():
            more = len(some) - MOST_NAMED
            rest = [f"and {more} more: see {column} in audit.csv"] if more > 0 else []
            lines.append(f"  {kind}: {', '.join([*some[:MOST_NAMED], *rest])}")
    return lines


def render(audit: pd.DataFrame, controls: pd.DataFrame, missed: Sequence[str] = ()) -> str:
    """Return the printed report: the strongest pair of every estimator, notion and control.

    Parameters
    ----------
    audit, controls : DataFrame
        Rows of ``audit.csv`` and ``controls.csv``.
    missed : sequence of str
        Labels of controls that a replay should have refuted but did not.

    Returns
    -------
    str
    """
    best = strongest(controls)
    caught = ~best["verdict"].isin(failing(CONTROLS))
    verdicts = [{"verdict": CONTROLS[one].text} for one in best["verdict"]]
    broken = zip(strongest_in_print(controls), verdicts, strict=True)
    parts = []
    for title, rows in (
        ("Audit: the largest lower bound on each privacy parameter", strongest_in_print(audit)),
        ("Controls, broken on purpose: each must be caught", [a | b for a, b in broken]),
    ):
        runs = ", ".join(dict.fromkeys(row["runs a side"] for row in rows))
        shown = [
            {PRINTED.get(key, key): row[key] for key in row if key not in UNPRINTED} for row in rows
        ]
        parts.append(text_table(f"{title}; {runs} runs a side", shown))
    told = [
        f"{len(audit)} pairs: {counted(audit, failing(AUDIT))}",
        f"{caught.sum()} of {len(best)} controls caught",
    ]
    told += [
        f"replay refutes {row['estimator']} under {row['notion']}: {row['refuted_by_replay']}"
        for row in strongest(audit).to_dict("records")
        if row["refuted_by_replay"]
    ]
    if missed:
        told.append(f"a replay misses {', '.join(missed)}: its other results prove little")
    if not (caught | best["estimator"].isin(missed)).all():
        runs = controls["runs"].min()
        told.append(f"{runs} runs a side miss broken estimators: other results prove little")
    named = [
        textwrap.fill(line, 80, subsequent_indent="    ", break_on_hyphens=False)
        for line in blind_rows(audit)
    ]
    return "\n\n".join([*parts, "\n".join([*told, *named, CAVEAT])]) + "\n"


def strongest_in_print(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return one mapping from heading to printed cell for each strongest pair."""
    return [
        {
            "estimator": row["estimator"],
            "notion": row["notion"],
            "delta": "" if pd.isna(row["delta"]) else f"{row['delta']:g}",
            "pair": row["pair"],
            "of pairs": str(row["pairs"]),
            "runs a side": str(row["runs"]),
            "claimed": f"{row['claimed']:g}",
            "lower bound": f"{row['lower_bound']:.3f}",
            "visible": "-" if pd.isna(row["visible"]) else f"x {row['visible']:g}",
            "move over sensitivity": _ratio(row["move_over_sensitivity"]),
            "verdict": row["verdict"],
        }
        for row in strongest(table).to_dict("records")
    ]


def _ratio(value: float) -> str:
    """Return a ratio in three digits, or ``-`` for NaN."""
    return "-" if np.isnan(value) else f"{value:.3g}"


def bounds_figure(table: pd.DataFrame, names: Callable[[str], str] = spaced) -> Canvas:
    """Draw the largest lower bound of every estimator and notion, divided by the claim.

    Parameters
    ----------
    table : DataFrame
        Rows of ``audit.csv`` or ``controls.csv``. Budgets of one notion with different mechanisms
        (``approx``, ``approx_laplace``) share a mark, at the largest of their bounds.
    names : callable
        Function from an estimator's label to the printed name.

    Returns
    -------
    Canvas
    """
    best = strongest(table)
    best["share"] = best["lower_bound"] / best["claimed"]
    best["notion"] = best["notion"].str.split("_").str[0]
    best = best.groupby(["estimator", "notion"], sort=False)["share"].max().reset_index()
    order = best.groupby("estimator", sort=False)["share"].max().sort_values(kind="stable").index
    canvas, ((ax,),) = new_canvas(FRAME + ROW * len(order))
    ax.axvspan(0, 1, color="0.92", zorder=0)
    ax.axvline(1, color="black", linewidth=1.2, label="claimed")
    styles = line_styles(NOTIONS)
    for notion, words in NOTIONS.items():
        rows = best[best["notion"] == notion]
        look = {**styles[notion], "linestyle": "none", "markersize": 4, "clip_on": False}
        at = order.get_indexer(pd.Index(rows["estimator"]))
        if at.size:
            ax.plot(rows["share"], at, label=words, zorder=3, **look)
    ax.set_yticks(np.arange(len(order)), [names(label) for label in order])
    ax.set_ylim(-0.7, len(order) - 0.3)
    ax.set_xlim(0, max(1.1, 1.05 * best["share"].max()))
    ax.set_xlabel("lower bound over the claim")
    ax.grid(visible=False, axis="x")
    legend(canvas)
    return canvas
