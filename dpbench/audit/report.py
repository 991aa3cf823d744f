"""Report of an audit: tables for the console, and a figure of bounds and claims."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import pandas as pd

from dpbench.audit.verdicts import AUDIT, CONTROLS
from dpbench.output.names import NOTIONS, as_text, display_name
from dpbench.output.terminal import count_verdicts, fill
from dpbench.output.terminal import table as text_table
from dpbench.output.verdicts import failing_words
from dpbench.report.drawing.style import Canvas, legend, line_styles, new_canvas

__all__ = [
    "CAVEAT",
    "bounds_figure",
    "format_strongest",
    "list_blind_rows",
    "render",
    "select_strongest",
]

# Height of the figure in inches: per row, and of the frame around the rows.
ROW, FRAME = 0.155, 0.95

# Shorter headings for print, and columns that are not printed because files and titles have them.
PRINTED = {"lower bound": "bound", "move over sensitivity": "move"}
UNPRINTED = ("of pairs", "runs a side")

# Columns that identify an estimator and its budget; a table has several pairs for each.
ROW_KEY = ("estimator", "notion", "delta")

CAVEAT = """\
A lower bound above the claim refutes it; a bound below it proves nothing:
another pair may give more. Visible: the largest factor such that noise
multiplied by it would be refuted in 95% of audits; "-" if not even a quarter
of the noise would be. Move: the largest change of a mechanism's input over its
stated sensitivity, over all pairs and given equal releases; a move above 1
refutes, "-" if no mechanism could be compared, and 0 if no pair moves one. The
column compared of audit.csv says how much "not refuted" rests on. Mistakes on
other datasets may not show at all."""

MAX_NAMED_ROWS = 12  # rows that are printed for each reason; ``audit.csv`` has all
# The noise that is halved in each column of ``audit.csv``; see `dpbench.audit.blind`.
INJECTED = {"blind": "all noise", "blind_additive": "additive noise alone"}


def select_strongest(table: pd.DataFrame) -> pd.DataFrame:
    """Select the row with the largest lower bound for every estimator, privacy notion and delta.

    The lower bound is on the privacy parameter. `table` has one row for each pair of datasets on
    which an estimator was audited.
    """
    bound = table["lower_bound"].fillna(-1.0)
    best = bound.groupby([table[name] for name in ROW_KEY], sort=False, dropna=False).idxmax()
    return table.loc[best.to_numpy()].reset_index(drop=True)


def list_blind_rows(table: pd.DataFrame) -> list[str]:
    """Return lines to print that name the estimators whose halved noise an audit would miss.

    Estimators are grouped by the reason why the audit would miss halved noise.
    """
    rows, lines = select_strongest(table), list[str]()
    for column, noise in INJECTED.items():
        if column not in rows:
            continue
        reasons = rows[column].fillna("").astype(str)
        blind = reasons != ""
        lines.append(f"Half of {noise}: not refuted in {blind.sum()} of {len(rows)} rows")
        names_by_kind: dict[str, list[str]] = {}
        for row in rows[blind].to_dict("records"):
            kind = str(row[column]).partition(":")[0]
            names_by_kind.setdefault(kind, []).append(f"{row['estimator']} {row['notion']}")
        for kind, names in names_by_kind.items():
            unnamed = len(names) - MAX_NAMED_ROWS
            rest = [f"and {unnamed} more: see {column} in audit.csv"] if unnamed > 0 else []
            lines.append(f"  {kind}: {', '.join([*names[:MAX_NAMED_ROWS], *rest])}")
    return lines


def render(audit: pd.DataFrame, controls: pd.DataFrame, missed: Sequence[str] = ()) -> str:
    """Return the printed report of an audit.

    It shows the largest lower bound on the privacy parameter for every estimator and notion, and
    for every missed control. A control is an estimator broken on purpose. `missed` are the labels
    of controls that a replay should have refuted but did not.
    """
    strongest = select_strongest(controls)
    caught = ~strongest["verdict"].isin(failing_words(CONTROLS))
    passed = caught & ~strongest["estimator"].isin(missed)
    verdicts = [{"verdict": CONTROLS[verdict].text} for verdict in strongest["verdict"]]
    judged_controls = zip(format_strongest(controls), verdicts, passed, strict=True)
    missed_rows = [row | verdict for row, verdict, is_caught in judged_controls if not is_caught]
    parts = []
    for title, rows in (
        ("Audit: the largest lower bound on each privacy parameter", format_strongest(audit)),
        ("Missed controls, broken on purpose", missed_rows),
    ):
        if not rows:
            continue
        runs = ", ".join(dict.fromkeys(row["runs a side"] for row in rows))
        shown = [
            {PRINTED.get(key, key): row[key] for key in row if key not in UNPRINTED} for row in rows
        ]
        parts.append(text_table(f"{title}; {runs} runs a side", shown))
    lines = [
        f"{len(audit)} pairs: {count_verdicts(audit, failing_words(AUDIT))}",
        f"{caught.sum()} of {len(strongest)} controls caught",
    ]
    lines += [
        f"replay refutes {row['estimator']} under {row['notion']}: {row['refuted_by_replay']}"
        for row in select_strongest(audit).to_dict("records")
        if row["refuted_by_replay"]
    ]
    if missed:
        lines.append(f"a replay misses {', '.join(missed)}: its other results prove little")
    if not (caught | strongest["estimator"].isin(missed)).all():
        runs = controls["runs"].min()
        lines.append(f"{runs} runs a side miss broken estimators: other results prove little")
    blind_lines = [fill(line, "    ") for line in list_blind_rows(audit)]
    return "\n\n".join([*parts, "\n".join([*lines, *blind_lines, CAVEAT])]) + "\n"


def format_strongest(table: pd.DataFrame) -> list[dict[str, str]]:
    """Return printed rows, mappings from heading to cell, with the largest lower bounds.

    There is one row for every estimator, notion and delta.
    """
    return [
        {
            "estimator": row["estimator"],
            "notion": row["notion"],
            "delta": "" if pd.isna(row["delta"]) else f"{row['delta']:g}",
            "pair": row["pair"],
            "of pairs": str(row["pairs"]),
            "runs a side": str(row["runs"]),
            "claimed": as_text(row["claimed"]),
            "lower bound": f"{row['lower_bound']:.3f}",
            "detectable": "-"
            if pd.isna(row["detectable_noise"])
            else f"x {row['detectable_noise']:g}",
            "move over sensitivity": _ratio(row["move_over_sensitivity"]),
            "verdict": row["verdict"],
        }
        for row in select_strongest(table).to_dict("records")
    ]


def _ratio(value: float) -> str:
    """Return a ratio in three digits, or ``-`` for NaN."""
    return "-" if np.isnan(value) else as_text(value)


def bounds_figure(table: pd.DataFrame, names: Callable[[str], str] = display_name) -> Canvas:
    """Draw the lower bound divided by the claimed privacy parameter, for each estimator and notion.

    The table has the rows of ``audit.csv`` or ``controls.csv``. The largest lower bound over all
    audited pairs of datasets is used. Budgets of one notion with different mechanisms (``approx``,
    ``approx_laplace``) share a mark, at the largest of their bounds. A mark to the right of the
    vertical line at 1 refutes the claim. `names` maps an estimator's label to the printed name.
    """
    best = select_strongest(table)
    best["share"] = best["lower_bound"] / best["claimed"]
    best["notion"] = best["notion"].str.split("_").str[0]
    best = best.groupby(["estimator", "notion"], sort=False)["share"].max().reset_index()
    order = best.groupby("estimator", sort=False)["share"].max().sort_values(kind="stable").index
    canvas, ((ax,),) = new_canvas(FRAME + ROW * len(order))
    ax.axvspan(0, 1, color="0.92", zorder=0)
    ax.axvline(1, color="black", linewidth=1.2, label="claimed")
    styles = line_styles(NOTIONS)
    for notion, name in NOTIONS.items():
        rows = best[best["notion"] == notion]
        look = {**styles[notion], "linestyle": "none", "markersize": 4, "clip_on": False}
        places = order.get_indexer(pd.Index(rows["estimator"]))
        if places.size:
            ax.plot(rows["share"], places, label=name, zorder=3, **look)
    ax.set_yticks(np.arange(len(order)), [names(label) for label in order])
    ax.set_ylim(-0.7, len(order) - 0.3)
    ax.set_xlim(0, max(1.1, 1.05 * best["share"].max()))
    ax.set_xlabel("lower bound over the claim")
    ax.grid(visible=False, axis="x")
    legend(canvas)
    return canvas
