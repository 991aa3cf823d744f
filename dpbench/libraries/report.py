"""Report of a sweep of libraries: printed tables, a figure of all results, and error curves."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import count_claim_verdicts
from dpbench.audit.report import select_strongest
from dpbench.audit.verdicts import CONTROLS
from dpbench.libraries.hostile_columns import CASES
from dpbench.libraries.replay import CONTROL
from dpbench.libraries.verdicts import HOSTILE
from dpbench.output.names import as_text, display_name
from dpbench.output.terminal import fill
from dpbench.output.terminal import table as text_table
from dpbench.output.verdicts import BAD
from dpbench.privacy.symbols import SYMBOLS
from dpbench.report.drawing.axes import set_horizontal_ticks, share_axes
from dpbench.report.drawing.curves import draw_curve
from dpbench.report.drawing.style import (
    BOUND,
    Axes,
    Canvas,
    legend,
    line_styles,
    new_canvas,
    panels,
)

__all__ = ["CAPTIONS", "benchmarks", "figure", "overview", "render", "render_replay"]

CAPTIONS = {
    "libraries": "Left, mean absolute error in units of width/(n epsilon), of variances "
    "width^2/(n epsilon), with 95% intervals; ticks, lower bounds for the neighbours of each "
    "library; middle, time of a release; right, response to adversarial columns, + if they are "
    "answered. Below the line: controls that are wrong on purpose",
    "benchmarks": "Error of a private mean against n and against epsilon, without the controls; "
    "curves with useless errors lie outside the panels",
}

# Height of the figure in inches: one row, and the frame around the rows.
ROW, FRAME = 0.24, 1.3
MAX_SHOWN = 3.0  # end of the axis of errors, in units of width/(n epsilon)
MIN_INTERVAL_RELEASES = 30  # with fewer releases no interval is shown
LETTERS = {"": "", **{word: verdict.text for word, verdict in HOSTILE.items()}}
AXES = {"n": "n", "epsilon": SYMBOLS["epsilon"].tex}
# Colours of the outcomes in the figure: bad outcomes red, refusals blue.
COLOURS = {
    word: "#e8a090" if verdict.tone is BAD else "#a6c8e0" for word, verdict in HOSTILE.items()
}
COLOURS |= {"": "white", "answered": "0.85"}
ON_PURPOSE = "wrong on purpose"  # cell of the column ``control``
# Titles of the printed tables.
TITLES = (
    "Libraries, and ms of a release",
    "Mean absolute error n epsilon/width, at the largest n epsilon; 95% intervals",
    "Bias n epsilon/width; lower bound of an audit on epsilon, of the claimed epsilon",
    "Adversarial columns: + is answered",
)
RUN_COLUMNS = ("version", "neighbours", "n", "failed", "ms", "first ms")
AUDIT_COLUMNS = ("shown", "verdict")
PRINTED = {
    "infinity": "inf", "huge": "1e300", "integers": "int", "constant": "same", "one_record": "one",
    "wrong_size": "size",
}  # fmt: skip
PRINTED_SIZES = ("stated", "moved", "ratio")
SENTENCES = "Which library can be trusted, as far as this run tells:"
RULE = """\
Honest: audited, not refuted, errors and biases as by formula. Refuted: by an
audit or a replay. Inconclusive: not audited, or too few trials to decide."""
CONTROLS_HEADING = """\
Controls, wrong on purpose: an audit must refute them. Their small errors count
for nothing."""
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
    status: pd.DataFrame,
    rows: pd.DataFrame,
    hostile: pd.DataFrame,
    audit: pd.DataFrame,
    controls: Collection[str] = (),
) -> pd.DataFrame:
    """Return one row for each estimator with all its results, as text; "" stands for no result.

    Errors, bias and median time are for one pair (n, epsilon) of each estimator: the pair that was
    run on most distributions.

    `status` has the columns ``estimator`` and ``version``, the version or the reason why the
    estimator did not run. The other tables are those of ``libraries.csv``, ``hostile.csv`` and
    ``audit.csv``. `controls` has the labels of estimators that are wrong on purpose. Their rows are
    the last, with `ON_PURPOSE` in the column ``control``.
    """
    bounds = select_strongest(audit).set_index("estimator") if len(audit) else audit
    summaries = []
    labels = status[["estimator", "version"]].itertuples(index=False)
    for label, version in sorted(labels, key=lambda pair: pair[0] in controls):
        own_rows = rows[rows["estimator"] == label]
        cells: dict[str, Any] = {"estimator": label, "version": version, "neighbours": "", "n": ""}
        cells["control"] = ON_PURPOSE if label in controls else ""
        if len(own_rows):
            best = _select_setting(own_rows)
            cells |= {"neighbours": own_rows["neighbours"].iloc[0], "n": best["n"].iloc[0]}
            cells |= {"epsilon": f"{best['epsilon'].iloc[0]:g}", "trials": own_rows["trials"].sum()}
            for law in rows["distribution"].unique():
                best_of_law = best[best["distribution"] == law]
                cells[f"error {law}"] = _format_error(best_of_law)
                cells[f"bias {law}"] = (
                    f"{best_of_law['bias'].iloc[0]:z.2f}" if len(best_of_law) else ""
                )
            lowest = {f"{x:.2f}": None for x in sorted(best["lower_bound"].dropna())}
            cells["at least"] = "..".join([*lowest][:: max(1, len(lowest) - 1)])
            cells["failed"] = f"{own_rows['failures'].sum() / own_rows['trials'].sum():.2g}"
            ms = best["ms"].median()
            cells["ms"] = f"{ms:.2g}" if ms < 100 else f"{ms:.0f}"
            cells["first ms"] = f"{own_rows['first_ms'].max():.0f}"
        if label in bounds.index:
            bound = bounds.loc[label]
            cells["shown"] = f"{bound['lower_bound']:.2f} of {bound['claimed']:g}"
            cells["verdict"] = bound["verdict"]
        outcomes = hostile[hostile["estimator"] == label]
        cells |= dict(zip(outcomes["column"], outcomes["outcome"], strict=True))
        summaries.append(cells)
    columns = dict.fromkeys(name for cells in summaries for name in cells)
    return pd.DataFrame([{name: cells.get(name, "") for name in columns} for cells in summaries])


def _select_setting(rows: pd.DataFrame) -> pd.DataFrame:
    """Return, for each estimator, the table rows of one pair (n, epsilon).

    The pair is the one that was run on most distributions. On ties the largest n epsilon is taken,
    then the largest n.
    """
    setting = ["estimator", "n", "epsilon"]
    laws = rows.groupby(setting)["distribution"].transform("nunique")
    ordered = rows.assign(laws=laws, size=rows["n"] * rows["epsilon"])
    ordered = ordered.sort_values(["laws", "size", "n"], kind="stable")
    last = ordered.drop_duplicates("estimator", keep="last")[setting]
    return rows.merge(last, on=setting)


def _format_error(rows: pd.DataFrame) -> str:
    """Return the mean absolute error and half the width of its confidence interval, as text.

    With few releases the number of releases stands in place of the interval.
    """
    if rows.empty:
        return ""
    error, high, trials = (rows[name].iloc[0] for name in ("error", "error_high", "trials"))
    if trials < MIN_INTERVAL_RELEASES:
        return f"{error:.2f} (of {trials})"
    return f"{error:.2f} ± {high - error:.2f}"


def render(table: pd.DataFrame, claims: pd.DataFrame, verdicts: pd.DataFrame) -> str:
    """Return the printed report of a sweep of libraries.

    The arguments are the tables of `overview`, of ``claims.csv``, and of
    `dpbench.libraries.library_verdict.judge_libraries`. The report has a sentence on each library,
    then the tables. A line follows for each library that did not run, and for each claim that is
    not consistent with the measurements. The tables of controls are the last.
    """
    missing = table[table["n"] == ""]
    cases = [name for name in CASES if name in table]
    letters = {name: table[name].map(LETTERS) for name in cases}
    ran = table.assign(**letters).drop(missing.index).astype(str)
    control = ran["control"] == ON_PURPOSE
    sentences = list(map(fill, verdicts["sentence"]))
    parts = ["\n".join([SENTENCES, *sentences, RULE])] if sentences else []
    parts += _render_tables(ran[~control])
    lines = [f"{row['estimator']}: {row['version']}" for row in missing.to_dict("records")]
    lines += count_claim_verdicts(claims.to_dict("records"))
    for row in claims[claims["verdict"] != "consistent"].sort_values("verdict").to_dict("records"):
        numbers = f"predicted {row['predicted']:.3f}, measured {row['measured']:.3f}"
        lines.append(
            f"{row['verdict']}: {row['claim']} of {row['estimator']} on {row['distribution']}:\n"
            f"  {numbers} ({row['low']:.3f} .. {row['high']:.3f})"
        )
    parts.append("\n".join([*lines, CAVEAT]))
    if control.any():
        parts += [CONTROLS_HEADING, *_render_tables(ran[control])]
    return "\n\n".join(parts) + "\n"


def _render_tables(ran: pd.DataFrame) -> list[str]:
    """Return the printed tables of some rows of `overview`."""
    rows = ran.to_dict("records")
    return [
        text_table(title, [{columns[name]: row[name] for name in columns} for row in rows])
        for title, columns in _views(list(map(str, ran)))
        if rows and len(columns) > 1
    ]


def render_replay(replay: pd.DataFrame) -> str:
    """Return the printed report of replays of libraries' queries on neighbouring datasets.

    The report has the largest change of each mechanism's inputs and the differences between
    sequences of mechanisms. It ends with the verdict on the control, a query that must be refuted.
    `replay` is the result of `dpbench.libraries.replay.replay_table`.
    """
    absent = replay[replay["query"] == ""]
    control = (replay["library"] == CONTROL[0]) & (replay["query"] == CONTROL[1])
    parts = [
        text_table(
            f"Replay of {name}: largest moves of mechanisms over stated sensitivities",
            [_format_replay(row) for row in library_rows.to_dict("records")],
        )
        for name, library_rows in replay[(replay["query"] != "") & ~control].groupby(
            "library", sort=False
        )
    ]
    lines = [f"{row['library']}: replay: {row['message']}" for row in absent.to_dict("records")]
    flows = replay[~replay["control_flow"].isin(["", "same"])].drop_duplicates("control_flow")
    lines += [
        f"{row['library']} {row['query']}: one record changes\n  {row['control_flow']}"
        for row in flows.to_dict("records")
    ]
    lines += [
        f"control, a mean that states half of its sensitivity: {CONTROLS[verdict].text}"
        for verdict in replay[control]["verdict"]
    ]
    return "\n\n".join([*parts, "\n".join([*lines, REPLAY_CAVEAT])]) + "\n"


def _format_replay(row: Mapping[Any, Any]) -> dict[str, str]:
    """Return the row to print for one mechanism of a replayed query: a text for each column."""
    relation = "" if row["neighbours"] == "replace" else f" {row['neighbours']}"
    columns = ("stated_sensitivity", "largest_move", "move_over_sensitivity")
    sizes = {name: row[column] for name, column in zip(PRINTED_SIZES, columns, strict=True)}
    return {
        "query": f"{row['query']}{relation}",
        "mechanism": row["mechanism"],
        **{name: "" if pd.isna(x) and name != "moved" else as_text(x) for name, x in sizes.items()},
        "verdict": row["verdict"],
    }


def _views(names: Sequence[str]) -> list[tuple[str, dict[str, str]]]:
    """Return the title of each printed table, and its columns as a mapping of name to heading.

    `names` are the columns of the table from `overview`. Each printed table shows some of them.
    """
    laws = [name.removeprefix("error ") for name in names if name.startswith("error ")]
    columns = (
        {name: name for name in RUN_COLUMNS},
        {f"error {law}": law for law in laws} | {"at least": "at least"},
        {f"bias {law}": law for law in laws} | {name: name for name in AUDIT_COLUMNS},
        {case: PRINTED.get(case, case) for case in CASES},
    )
    shown = [
        {
            name: text
            for name, text in ({"estimator": "estimator"} | columns_of_table).items()
            if name in names
        }
        for columns_of_table in columns
    ]
    return list(zip(TITLES, shown, strict=True))


def figure(table: pd.DataFrame, rows: pd.DataFrame) -> Canvas:
    """Draw errors with lower bounds, times of a release, and responses to adversarial columns.

    `table` is the result of `overview`, and `rows` are those of ``libraries.csv``. Libraries that
    did not run are left out.
    """
    table = table[table["n"] != ""]
    labels = list(table["estimator"])
    canvas, ((errors, times, strip),) = new_canvas(
        FRAME + ROW * len(labels), 1, 3, sharey=True, width_ratios=(3, 1.2, 3.6)
    )
    _draw_errors(errors, rows, labels)
    medians = rows.groupby("estimator", sort=False)["ms"].median().reindex(labels)
    times.plot(medians, np.arange(len(labels)), "o", color="0.3")
    times.set_xscale("log")
    times.set_xlabel("ms a release")
    set_horizontal_ticks(times, medians)
    _draw_outcomes(strip, table)
    for ax in (times, strip):
        ax.tick_params(left=False)
    names = [display_name(label) for label in labels]
    controls = int((table["control"] == ON_PURPOSE).sum())
    if controls:
        names[-controls:] = [f"{name} (control)" for name in names[-controls:]]
        for ax in (errors, times, strip):  # above the controls, which are the last rows
            ax.axhline(len(labels) - controls - 0.5, color="0.3", linewidth=0.8)
    errors.set_yticks(np.arange(len(labels)), names)
    errors.set_ylim(len(labels) - 0.5, -0.5)
    legend(canvas)
    return canvas


def _draw_errors(ax: Axes, rows: pd.DataFrame, labels: list[str]) -> None:
    """Draw the error of each estimator, with confidence interval and lower bound.

    Each label in `labels` names an estimator and has one horizontal line of the plot.
    """
    shown, laws = _select_setting(rows), list(rows["distribution"].unique())
    styles = line_styles(laws)
    for law, shift in zip(laws, np.linspace(-0.25, 0.25, len(laws)), strict=True):
        law_rows = shown[shown["distribution"] == law]
        heights = np.array([labels.index(label) for label in law_rows["estimator"]]) + shift
        marker_style = {**styles[law], "linestyle": "none", "clip_on": False, "zorder": 4}
        ax.plot(
            law_rows["error"].clip(upper=MAX_SHOWN),
            heights,
            label=display_name(law),
            **marker_style,
        )
        low, high = (
            law_rows[f"error_{end}"].where(law_rows["trials"] >= MIN_INTERVAL_RELEASES)
            for end in ("low", "high")
        )
        ax.hlines(heights, low, high, color=marker_style["color"], linewidth=1)
        name = "lower bound" if law == laws[0] else None
        tick = {"color": BOUND["color"], "marker": "|", "markersize": 7, "linestyle": "none"}
        ax.plot(law_rows["lower_bound"], heights, label=name, zorder=3, **tick)
    ax.set_xlim(0, MAX_SHOWN)
    ax.set_xlabel(f"mean absolute error\n$n \\varepsilon$/width, up to {MAX_SHOWN:g}")


def _draw_outcomes(ax: Axes, table: pd.DataFrame) -> None:
    """Draw each estimator's response to each adversarial column, as a coloured rectangle.

    Each estimator has one horizontal line of the plot.
    """
    cases = [name for name in CASES if name in table]
    for row, outcomes in enumerate(table.to_dict("records")):
        for column, case in enumerate(cases):
            ax.axhspan(
                row - 0.5, row + 0.5, column / len(cases), (column + 1) / len(cases),
                facecolor=COLOURS[outcomes[case]], edgecolor="white",
            )  # fmt: skip
            ax.text(
                column + 0.5, row, LETTERS[outcomes[case]], ha="center", va="center", fontsize=4.6
            )
    ax.set_xlim(0, max(1, len(cases)))
    ax.set_xticks(np.arange(len(cases)) + 0.5, [display_name(case) for case in cases], rotation=90)
    ax.grid(visible=False)


def benchmarks(rows: pd.DataFrame, width: float) -> Canvas:
    """Draw the mean absolute error against n and against epsilon, one curve per estimator.

    The figure shows the distribution that was run with most values of n and epsilon. The left panel
    varies n, at the epsilon that was run with most values of n. The right panel varies epsilon, at
    the n that was run with most values of epsilon. `rows` are those of ``libraries.csv``. The
    `width` of the records' interval converts errors to the unit of the records.
    """
    law = rows.groupby("distribution", sort=False)[["n", "epsilon"]].nunique().sum(axis=1).idxmax()
    law_rows = rows[rows["distribution"] == law]
    law_rows = law_rows.assign(
        size=law_rows["error"] * width / (law_rows["n"] * law_rows["epsilon"])
    )
    styles = line_styles(law_rows["estimator"].unique())
    canvas, axes = panels(2)
    unit = width / (
        law_rows["n"] * law_rows["epsilon"]
    )  # errors far above or below leave the panel
    for ax, name, other in zip(axes, ("n", "epsilon"), ("epsilon", "n"), strict=True):
        # Fix the frame first, because matplotlib cannot add a margin to an error near 1e300.
        ax.set(xscale="log", yscale="log", ylim=(unit.min() / 30, unit.max() * 30))
        fixed = law_rows.groupby(other)[name].nunique().idxmax()
        for label, estimator_rows in law_rows[law_rows[other] == fixed].groupby(
            "estimator", sort=False
        ):
            line = estimator_rows[estimator_rows["size"] > 0].sort_values(name)
            text, look = display_name(str(label)), styles[str(label)]
            draw_curve(ax, line[name], line["size"], label=text, look=look)
        ax.set_xlabel(f"${AXES[name]}$ (${AXES[other]} = {fixed:g}$)")
        ax.set_ylabel("mean absolute error")
        set_horizontal_ticks(ax, law_rows[name])
    share_axes(axes)
    legend(canvas)
    return canvas
