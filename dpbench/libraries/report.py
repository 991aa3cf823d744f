"""Report of a sweep of libraries: an overview as a table and as a figure, and benchmarks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import headline
from dpbench.audit.report import strongest
from dpbench.libraries.hostile import CASES
from dpbench.libraries.replay import CONTROL
from dpbench.output.axes import share_axes, ticks, widen_covered_curves
from dpbench.output.style import (
    BOUND,
    Axes,
    Canvas,
    legend,
    line_styles,
    new_canvas,
    panels,
    spaced,
)
from dpbench.output.terminal import table as text_table
from dpbench.output.verdicts import BAD, CONTROLS, HOSTILE
from dpbench.privacy.symbols import SYMBOLS

__all__ = ["CAPTIONS", "benchmarks", "figure", "overview", "render", "render_replay"]

CAPTIONS = {
    "libraries": "Left, mean absolute error in units of width/(n epsilon) with 95% intervals; "
    "ticks, lower bounds for the neighbours of each library; middle, time of a release; right, "
    "response to adversarial columns, + if they are answered",
    "benchmarks": "Error of a private mean against n and against epsilon; curves without noise or "
    "with useless errors lie outside the panels",
}

# Height of the figure in inches: per row, and of the frame around the rows.
ROW, FRAME = 0.24, 1.3
MOST_SHOWN = 3.0  # end of the axis of errors
FEW = 30  # with fewer releases no interval is shown
LETTERS = {"": "", **{word: one.text for word, one in HOSTILE.items()}}
AXES = {"n": "n", "epsilon": SYMBOLS["epsilon"].tex}
# Colours of the outcomes in the figure: bad outcomes red, refusals blue.
COLOURS = {word: "#e8a090" if one.tone is BAD else "#a6c8e0" for word, one in HOSTILE.items()}
COLOURS |= {"": "white", "answered": "0.85"}
# Titles of the printed tables.
TITLES = (
    "Libraries, and ms of a release",
    "Mean absolute error n epsilon/width, at the largest n epsilon; 95% intervals",
    "Bias n epsilon/width; lower bound of an audit on epsilon, of the claimed epsilon",
    "Adversarial columns: + is answered",
)
RAN = ("version", "neighbours", "n", "failed", "ms", "first ms")
AUDITED = ("shown", "verdict")
PRINTED = {
    "infinity": "inf", "huge": "1e300", "integers": "int", "constant": "same", "one_record": "one",
    "wrong_size": "size",
}  # fmt: skip
PRINTED_SIZES = ("stated", "moved", "ratio")
REPLAY_CAVEAT = """\
Replay: releases are frozen, and one record is replaced, or added or removed in
rows marked add_remove. Each mechanism is judged alone: costs are not added up.
A move is NaN if a value is NaN or missing on only one of the datasets."""
CAVEAT = """\
At least: lower bound for these neighbours on the worst of nearby columns; with
a mean at an end of the interval truncation beats it. n is public under replace
and private under add_remove, a stronger guarantee. An audit that does not
refute a claim does not prove it."""


def overview(
    status: pd.DataFrame, rows: pd.DataFrame, hostile: pd.DataFrame, audit: pd.DataFrame
) -> pd.DataFrame:
    """Return one row for each estimator with all results.

    Parameters
    ----------
    status : DataFrame
        Columns ``estimator`` and ``version``.
    rows, hostile, audit : DataFrame
        Rows of ``libraries.csv``, ``hostile.csv`` and ``audit.csv``.

    Returns
    -------
    DataFrame
        Printed cells, as text.
    """
    bounds = strongest(audit).set_index("estimator") if len(audit) else audit
    found = []
    for label, version in status[["estimator", "version"]].itertuples(index=False):
        own = rows[rows["estimator"] == label]
        one: dict[str, Any] = {"estimator": label, "version": version, "neighbours": "", "n": ""}
        if len(own):
            best = _shown(own)
            one |= {"neighbours": own["neighbours"].iloc[0], "n": best["n"].iloc[0]}
            one |= {"epsilon": f"{best['epsilon'].iloc[0]:g}", "trials": own["trials"].sum()}
            for law in rows["distribution"].unique():
                here = best[best["distribution"] == law]
                one[f"error {law}"] = _within(here)
                one[f"bias {law}"] = f"{here['bias'].iloc[0]:z.2f}" if len(here) else ""
            least = {f"{x:.2f}": None for x in sorted(best["lower_bound"])}
            one["at least"] = "..".join([*least][:: max(1, len(least) - 1)])
            one["failed"] = f"{own['failures'].sum() / own['trials'].sum():.2g}"
            ms = best["ms"].median()
            one["ms"] = f"{ms:.2g}" if ms < 100 else f"{ms:.0f}"
            one["first ms"] = f"{own['first_ms'].max():.0f}"
        if label in bounds.index:
            bound = bounds.loc[label]
            one["shown"] = f"{bound['lower_bound']:.2f} of {bound['claimed']:g}"
            one["verdict"] = bound["verdict"]
        met = hostile[hostile["estimator"] == label]
        one |= dict(zip(met["column"], met["outcome"], strict=True))
        found.append(one)
    columns = dict.fromkeys(name for one in found for name in one)
    return pd.DataFrame([{name: one.get(name, "") for name in columns} for one in found])


def _shown(rows: pd.DataFrame) -> pd.DataFrame:
    """Return for each estimator the rows of one (n, epsilon).

    It is the (n, epsilon) run on most distributions; on ties the largest n epsilon.
    """
    setting = ["estimator", "n", "epsilon"]
    laws = rows.groupby(setting)["distribution"].transform("nunique")
    ordered = rows.assign(laws=laws, size=rows["n"] * rows["epsilon"])
    ordered = ordered.sort_values(["laws", "size", "n"], kind="stable")
    last = ordered.drop_duplicates("estimator", keep="last")[setting]
    return rows.merge(last, on=setting)


def _within(here: pd.DataFrame) -> str:
    """Return the error with half of its interval, or with the number of releases if it is small."""
    if here.empty:
        return ""
    error, high, trials = (here[name].iloc[0] for name in ("error", "error_high", "trials"))
    if trials < FEW:
        return f"{error:.2f} (of {trials})"
    return f"{error:.2f} ± {high - error:.2f}"


def render(table: pd.DataFrame, claims: pd.DataFrame) -> str:
    """Return the printed report of a sweep of libraries.

    Parameters
    ----------
    table : DataFrame
        Result of `overview`.
    claims : DataFrame
        Rows of ``claims.csv``.

    Returns
    -------
    str
        Tables, libraries that did not run, and claims that are not consistent.
    """
    missing = table[table["n"] == ""]
    cases = [name for name in CASES if name in table]
    letters = {name: table[name].map(LETTERS) for name in cases}
    there = table.assign(**letters).drop(missing.index).astype(str).to_dict("records")
    parts = [
        text_table(title, [{columns[name]: row[name] for name in columns} for row in there])
        for title, columns in _views(list(map(str, table)))
        if there and len(columns) > 1
    ]
    told = [f"{row['estimator']}: {row['version']}" for row in missing.to_dict("records")]
    told += headline(claims.to_dict("records"))
    for row in claims[claims["verdict"] != "consistent"].sort_values("verdict").to_dict("records"):
        numbers = f"predicted {row['predicted']:.3f}, measured {row['measured']:.3f}"
        told.append(
            f"{row['verdict']}: {row['claim']} of {row['estimator']} on {row['distribution']}:\n"
            f"  {numbers} ({row['low']:.3f} .. {row['high']:.3f})"
        )
    return "\n\n".join([*parts, "\n".join([*told, CAVEAT])]) + "\n"


def render_replay(replay: pd.DataFrame) -> str:
    """Return the printed report of replays: moves, differences in control flow, the control."""
    absent = replay[replay["query"] == ""]
    control = (replay["library"] == CONTROL[0]) & (replay["query"] == CONTROL[1])
    parts = [
        text_table(
            f"Replay of {name}: largest moves of mechanisms over stated sensitivities",
            [_replayed(row) for row in own.to_dict("records")],
        )
        for name, own in replay[(replay["query"] != "") & ~control].groupby("library", sort=False)
    ]
    told = [f"{row['library']}: replay: {row['message']}" for row in absent.to_dict("records")]
    flows = replay[~replay["control_flow"].isin(["", "same"])].drop_duplicates("control_flow")
    told += [
        f"{row['library']} {row['query']}: one record changes\n  {row['control_flow']}"
        for row in flows.to_dict("records")
    ]
    told += [
        f"control, a mean that states half of its sensitivity: {CONTROLS[one].text}"
        for one in replay[control]["verdict"]
    ]
    return "\n\n".join([*parts, "\n".join([*told, REPLAY_CAVEAT])]) + "\n"


def _replayed(row: Mapping[Any, Any]) -> dict[str, str]:
    where = "" if row["neighbours"] == "replace" else f" {row['neighbours']}"
    columns = ("stated_sensitivity", "largest_move", "move_over_sensitivity")
    sizes = {name: row[column] for name, column in zip(PRINTED_SIZES, columns, strict=True)}
    return {
        "query": f"{row['query']}{where}",
        "mechanism": row["mechanism"],
        **{name: "" if pd.isna(x) and name != "moved" else f"{x:.3g}" for name, x in sizes.items()},
        "verdict": row["verdict"],
    }


def _views(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Return the printed tables: title, and columns of the overview with their headings."""
    laws = [name.removeprefix("error ") for name in names if name.startswith("error ")]
    columns = (
        {name: name for name in RAN},
        {f"error {law}": law for law in laws} | {"at least": "at least"},
        {f"bias {law}": law for law in laws} | {name: name for name in AUDITED},
        {case: PRINTED.get(case, case) for case in CASES},
    )
    shown = [
        {name: text for name, text in ({"estimator": "estimator"} | one).items() if name in names}
        for one in columns
    ]
    return list(zip(TITLES, shown, strict=True))


def figure(table: pd.DataFrame, rows: pd.DataFrame) -> Canvas:
    """Draw errors with lower bounds, times of a release, and responses to adversarial columns.

    Parameters
    ----------
    table : DataFrame
        Result of `overview`; libraries that did not run are left out.
    rows : DataFrame
        Rows of ``libraries.csv``.

    Returns
    -------
    Canvas
    """
    table = table[table["n"] != ""]
    labels = list(table["estimator"])
    canvas, ((errors, times, strip),) = new_canvas(
        FRAME + ROW * len(labels), 1, 3, sharey=True, width_ratios=(3, 1.2, 3.6)
    )
    _errors(errors, rows, labels)
    own = rows.groupby("estimator", sort=False)["ms"].median().reindex(labels)
    times.plot(own, np.arange(len(labels)), "o", color="0.3")
    times.set_xscale("log")
    times.set_xlabel("ms a release")
    ticks(times, own)
    _strip(strip, table)
    for ax in (times, strip):
        ax.tick_params(left=False)
    errors.set_yticks(np.arange(len(labels)), [spaced(label) for label in labels])
    errors.set_ylim(len(labels) - 0.5, -0.5)
    legend(canvas)
    return canvas


def _errors(ax: Axes, rows: pd.DataFrame, labels: list[str]) -> None:
    shown, laws = _shown(rows), list(rows["distribution"].unique())
    styles = line_styles(laws)
    for law, shift in zip(laws, np.linspace(-0.25, 0.25, len(laws)), strict=True):
        here = shown[shown["distribution"] == law]
        at = np.array([labels.index(one) for one in here["estimator"]]) + shift
        look = {**styles[law], "linestyle": "none", "clip_on": False, "zorder": 4}
        ax.plot(here["error"].clip(upper=MOST_SHOWN), at, label=spaced(law), **look)
        low, high = (here[f"error_{end}"].where(here["trials"] >= FEW) for end in ("low", "high"))
        ax.hlines(at, low, high, color=look["color"], linewidth=1)
        name = "lower bound" if law == laws[0] else None
        tick = {"color": BOUND["color"], "marker": "|", "markersize": 7, "linestyle": "none"}
        ax.plot(here["lower_bound"], at, label=name, zorder=3, **tick)
    ax.set_xlim(0, MOST_SHOWN)
    ax.set_xlabel(f"mean absolute error $n \\varepsilon$/width\n(shown up to {MOST_SHOWN:g})")


def _strip(ax: Axes, table: pd.DataFrame) -> None:
    """Draw the outcome of each adversarial column."""
    cases = [name for name in CASES if name in table]
    for row, one in enumerate(table.to_dict("records")):
        for column, case in enumerate(cases):
            ax.axhspan(
                row - 0.5, row + 0.5, column / len(cases), (column + 1) / len(cases),
                facecolor=COLOURS[one[case]], edgecolor="white",
            )  # fmt: skip
            ax.text(column + 0.5, row, LETTERS[one[case]], ha="center", va="center", fontsize=4.6)
    ax.set_xlim(0, max(1, len(cases)))
    ax.set_xticks(np.arange(len(cases)) + 0.5, [spaced(case) for case in cases], rotation=90)
    ax.grid(visible=False)


def benchmarks(rows: pd.DataFrame, width: float) -> Canvas:
    """Draw the mean absolute error against n and against epsilon, one line per estimator.

    The distribution is the one with most values of n and epsilon. The fixed epsilon (or n) is the
    one with most values of n (or epsilon).

    Parameters
    ----------
    rows : DataFrame
        Rows of ``libraries.csv``.
    width : float
        Width of the interval, which converts errors to the unit of the records.

    Returns
    -------
    Canvas
    """
    law = rows.groupby("distribution", sort=False)[["n", "epsilon"]].nunique().sum(axis=1).idxmax()
    here = rows[rows["distribution"] == law]
    here = here.assign(size=here["error"] * width / (here["n"] * here["epsilon"]))
    styles = line_styles(here["estimator"].unique())
    canvas, axes = panels(2)
    unit = width / (here["n"] * here["epsilon"])  # far larger or smaller errors leave the panel
    for ax, name, other in zip(axes, ("n", "epsilon"), ("epsilon", "n"), strict=True):
        at = here.groupby(other)[name].nunique().idxmax()
        for label, own in here[here[other] == at].groupby("estimator", sort=False):
            line = own[own["size"] > 0].sort_values(name)
            ax.plot(line[name], line["size"], label=spaced(str(label)), **styles[str(label)])
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xlabel(f"${AXES[name]}$ (${AXES[other]} = {at:g}$)")
        ax.set_ylabel("mean absolute error")
        ax.set_ylim(unit.min() / 30, unit.max() * 30)
        ticks(ax, here[name])
    share_axes(axes)
    legend(canvas)
    for ax in axes:
        widen_covered_curves(ax)
    return canvas
