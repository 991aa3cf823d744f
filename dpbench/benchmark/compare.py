"""Comparison of scores: tables, and performance profiles relative to lower bounds.

A performance profile is the share of problems with a score (error over the lower bound) of at most
x, for each x.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.factors import profile
from dpbench.arrays import Floats
from dpbench.benchmark.leaderboard import Standing
from dpbench.benchmark.measure import RUNS
from dpbench.benchmark.problems import Problem
from dpbench.benchmark.table import Scores
from dpbench.output.names import as_text, display_name
from dpbench.report.drawing.curves import draw_curve
from dpbench.report.drawing.style import BOUND, Axes, Canvas, legend, line_styles, panels

__all__ = [
    "BELOW_MARK",
    "BOUND_NOTE",
    "LEGENDS",
    "NOTES",
    "OWN",
    "RELATIVE_NOTE",
    "describe_infinite",
    "describe_quick_audits",
    "overview",
    "problem_list",
    "profile_band",
    "profile_figure",
    "tabulate_classes",
    "tabulate_problems",
    "tabulate_standings",
]

# Mark of a value that does not count as a score; see `dpbench.benchmark.table.Scores.is_below`.
BELOW_MARK = "†"
OWN = "yours"  # column, and its value, that marks the entries to compare with the archive
# Remarks on scores, each with the condition under which it applies.
NOTES: dict[str, Callable[[Scores], Any]] = {
    f"{BELOW_MARK} not a score: below the bound, by prior knowledge or lack of privacy": (
        lambda scores: scores.is_below.any()
    ),
    "quick=true: fewer trials than the archive has, and wider intervals; audits of a part of the "
    "problems, with fewer runs": lambda scores: scores.about["quick"],
    "seed=NUMBER was given: an entry may have known the places of the distributions": (
        lambda scores: not scores.about.get("drawn", True)
    ),
}
WITHIN = (1.5, 2.0, 5.0, 10.0)  # factors x of the columns ``<=x`` of `overview`
# Notes below the tables.
LEGENDS = {
    "overview": "answers: number of problems answered; <=x: share of all problems with an error\n"
    "within x times the bound; fails: share of releases that fail;\n"
    "CPU: time of a release over the time of drawing its data",
    "by_class": "mean: geometric mean of the scores on the answered problems of the class; inf\n"
    "if over a tenth of the releases fail on one of them",
    "rank": "rank: among entries of the division declared that answered the whole class;\n"
    "leader: the first of them; best: their smallest mean over the same problems",
    "by_problem": "best: smallest score of the archive; estimator: the entry that has it",
    "problem_list": "known: kind of records; public sd, order k of a bounded moment,\n"
    "radius R of the mean",
}
BOUND_NOTE = "bound: lower bound on the q90 of private estimators"
RELATIVE_NOTE = "in this benchmark, bound is the smallest error of an entry of the archive"
# Upper end of the horizontal axis of profiles.
MAX_PLOTTED_SCORE = 100.0


def profile_band(rows: pd.DataFrame, problems: int, scores: ArrayLike) -> tuple[Floats, Floats]:
    """Return a pointwise 95% bootstrap band around the performance profile of an entry.

    The profile is the share of all problems with a score (error over a lower bound) of at most x,
    for each x in `scores`. Each replicate, in the column ``draws`` of the entry's rows, resamples
    the trials of every problem separately. If a problem has several distributions, the replicate
    uses the distribution with the largest error in the resample. The set of problems is fixed, so
    the band does not cover other problems. Both ends have the shape of `scores`.
    """
    draws = np.stack(rows["draws"].to_list()) if len(rows) else np.empty((0, 1))
    low, high = np.quantile(profile(draws.T, problems, scores), [0.025, 0.975], axis=0)
    return low, high


def overview(
    rows: pd.DataFrame, problems: int, divisions: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return one printed row for each entry, sorted by the number of problems that it solves.

    A problem is solved if the entry's error is within a small factor of the lower bound. `problems`
    is the number of all problems. The divisions, ``declared`` or ``open``, are keyed by the entry's
    name.
    """
    shares_and_rows = []
    for name, entry_rows in rows.groupby("entry"):
        share = profile(entry_rows["score"], problems, WITHIN)
        time_ratio = (entry_rows["seconds"] / entry_rows["drawing_seconds"]).median()
        title = f"{name} (open)" if divisions[str(name)] == "open" else str(name)
        row = {"estimator": title, "answers": str(len(entry_rows))}
        row |= {f"<={x:g}": f"{s:.0%}" for x, s in zip(WITHIN, share, strict=True)}
        row |= {
            "fails": f"{entry_rows['failure_rate'].mean():.1%}",
            "CPU": _format_ratio(time_ratio),
        }
        shares_and_rows.append((tuple(-share), row))
    return [row for _, row in sorted(shares_and_rows, key=lambda pair: pair[0])]


def _format_ratio(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}" if np.isfinite(value) else "-"


def tabulate_classes(
    classes: Mapping[str, Sequence[Standing]], names: Sequence[str] = ()
) -> list[dict[str, str] | str]:
    """Return the lines of a table of standings: one for each class of problems and entry.

    `names` are the entries to show, each below a line with the leader of every class in which it
    answered a problem. Without names, a line has a class with its leader or, if no entry is ranked,
    with the first entry. A line is a row of cells, or the heading of a class.
    """
    lines: list[dict[str, str] | str] = []
    for title, found in classes.items():
        ranked = [standing for standing in found if standing.rank is not None]
        if not names:
            lines += [{"class": title, **_standing_cells(one)} for one in (ranked or found)[:1]]
            continue
        rows = [
            {
                **_standing_cells(one),
                "best": as_text(one.rival) if ranked else "-",
                "rank": f"{one.rank} of {len(ranked)}" if one.rank else "-",
            }
            for one in found
            if one.entry in names
        ]
        if rows:
            leader = f"{ranked[0].entry}, {as_text(ranked[0].mean)}" if ranked else "none"
            lines += [f"{title}; leader: {leader}", *rows]
    return lines


def tabulate_standings(
    classes: Mapping[str, Sequence[Standing]], names: Collection[str]
) -> pd.DataFrame:
    """Return a row for each class of problems and entry; the entries `names` are marked."""
    return pd.DataFrame(
        {
            OWN: OWN if one.entry in names else "",
            "class": title,
            "rank": one.rank,
            "estimator": one.entry,
            "answers": f"{one.answers} of {one.problems}",
            **{name: getattr(one, name) for name in ("mean", "low", "high")},
            "best": one.rival,
        }
        for title, found in classes.items()
        for one in found
    )


def _standing_cells(standing: Standing) -> dict[str, str]:
    return {
        "estimator": standing.entry,
        "answers": f"{standing.answers} of {standing.problems}",
        "mean": as_text(standing.mean),
    }


def describe_infinite(rows: pd.DataFrame) -> list[str]:
    """Return a line for each entry with infinite scores, which many failed releases cause."""
    return [
        f"{name}: {len(infinite)} of {(rows['entry'] == name).sum()} scores are infinite, because "
        "over a tenth of the releases are NaN or fail: "
        f"{infinite['failure_rate'].max():.0%} on "
        f"{infinite['problem'][infinite['failure_rate'].idxmax()]}"
        for name, infinite in rows[np.isinf(rows["score"])].groupby("entry")
    ]


def describe_quick_audits(scores: Scores) -> str:
    """Return which scores of a quick run rest on audits, as text; empty for a full run."""
    if not scores.about["quick"]:
        return ""
    audited, answered = scores.about.get("audited", []), len(scores.rows)
    return (
        f"quick=true: {len(audited)} of {answered} scores rest on audits of {RUNS[True]} runs a "
        f"dataset: {', '.join(audited)}; the others rest on no audit at their n. A full run audits "
        f"all, with up to {RUNS[False]} runs"
    )


def tabulate_problems(
    rows: pd.DataFrame, archive: pd.DataFrame, problems: Iterable[Problem], below: Iterable[bool]
) -> list[dict[str, str]]:
    """Return one printed row for each problem: its lower bound, best stored score, and all scores.

    The archive has the stored scores. For each row of `rows`, `below` is True if its error is
    significantly below the lower bound. Such a row is marked, because it does not count as a score.
    """
    marks = dict(zip(zip(rows["entry"], rows["problem"], strict=True), below, strict=True))
    names, table = list(dict.fromkeys(rows["entry"])), []
    for problem in problems:
        archived = archive[archive["problem"] == problem.id].sort_values("score", kind="stable")
        best = archived.iloc[0] if len(archived) else None
        row = {
            "problem": problem.id,
            "bound": as_text(problem.bound.value),
            "best": "-" if best is None else as_text(best["score"]),
            "estimator": "-" if best is None else best["entry"],
        }
        for name in names:
            entry_rows = rows[(rows["entry"] == name) & (rows["problem"] == problem.id)]
            scores = entry_rows[["score", "score_low", "score_high"]].to_numpy()
            mark = BELOW_MARK if marks.get((name, problem.id)) else ""
            score, low, high = scores[0] if len(scores) else [np.nan] * 3
            ends = f" {as_text(low, 2)}..{as_text(high, 2)}" if len(names) == 1 else ""
            row[name] = f"{as_text(score)}{ends}{mark}" if len(scores) else "-"
        table.append(row)
    return table


def problem_list(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """Return one printed row for each problem: its id, public knowledge and lower bound."""
    return [
        {
            "problem": problem.id,
            "known": _describe_knowledge(problem),
            "bound": as_text(problem.bound.value),
            "bound by": problem.bound.by,
        }
        for problem in problems
    ]


def _describe_knowledge(problem: Problem) -> str:
    """Return the public knowledge about a problem in a few words."""
    known = problem.known
    amounts = {"sd": known.scale, "k": known.k, "R": known.radius}
    phrases = (f"{name}={x:g}".replace("e+0", "e") for name, x in amounts.items() if x)
    if known.records == "variance":  # `scale` is a bound
        return f"sd<={known.scale:g} R={known.radius:g}"
    return " ".join([known.records.removesuffix("ian"), *phrases])


# Kinds of problems; each kind has a panel in `profile_figure`.
PANELS: dict[str, Callable[[Problem], bool]] = {
    "all problems": lambda _: True,
    "binary": lambda p: p.known.records == "binary" and not p.local,
    "Gaussian": lambda p: p.known.records == "gaussian" and p.d == 1 and not p.local,
    "bounded moments": lambda p: p.known.records == "moments" and p.d == 1 and not p.local,
    "bounded variance": lambda p: p.known.records == "variance",
    "vectors": lambda p: p.d > 1,
    "local": lambda p: p.local,
}


def profile_figure(
    rows: pd.DataFrame, archive: pd.DataFrame, problems: Sequence[Problem]
) -> Canvas:
    """Draw performance profiles of entries, in one panel for each kind of problem.

    A profile is the share of problems with a score (error over a lower bound) of at most x, for
    each x. Grey lines are the entries of the archive (stored scores). The dashed black line takes
    the archive's best entry for each problem. No entry can make this choice, because the choice
    needs the results. Shaded bands are 95% bootstrap bands. An entry that answered no problem of a
    kind has no line there, and a kind that no entry answered has no panel. Call the function within
    `dpbench.report.drawing.style.style`.
    """
    kinds = {
        name: [candidate for candidate in problems if belongs(candidate)]
        for name, belongs in PANELS.items()
    }
    answered = set(rows["problem"])
    kinds = {name: found for name, found in kinds.items() if answered & {p.id for p in found}}
    canvas, axes = panels(len(kinds))
    looks = line_styles(str(name) for name in rows["entry"].unique())
    for ax, (title, panel_problems) in zip(axes, kinds.items(), strict=True):
        ids = [problem.id for problem in panel_problems]
        _draw_profiles(
            ax, rows[rows["problem"].isin(ids)], archive[archive["problem"].isin(ids)], ids, looks
        )
        ax.set(title=f"{title} ({len(ids)})")
    legend(canvas)
    return canvas


def _draw_profiles(
    ax: Axes,
    rows: pd.DataFrame,
    archive: pd.DataFrame,
    ids: Sequence[str],
    looks: Mapping[str, Any],
) -> None:
    scores = np.geomspace(0.8, MAX_PLOTTED_SCORE, 300)
    for _, entry_rows in archive.groupby("entry"):
        share = profile(entry_rows["score"], len(ids), scores)
        corners = (np.diff(share, prepend=-1) != 0) | (np.diff(share, append=-1) != 0)
        x, y = scores[corners], share[corners]
        ax.plot(x, y, color="0.75", linewidth=0.7, label="archive")
    best = archive.loc[archive.groupby("problem")["score"].idxmin()]
    share = profile(best["score"], len(ids), scores)
    ax.plot(
        scores, share, color="black", linewidth=0.9, linestyle="--", label="best of the archive"
    )
    for name, look in looks.items():
        entry_rows, line = rows[rows["entry"] == name], {**look, "marker": "", "linewidth": 2.2}
        if entry_rows.empty:  # a class that was not entered is not a class without a solution
            continue
        draw_curve(
            ax, scores, profile(entry_rows["score"], len(ids), scores),
            *profile_band(entry_rows, len(ids), scores), label=display_name(name), look=line,
        )  # fmt: skip
    ax.axvline(1, **BOUND)
    ax.set(xscale="log", xlim=(0.8, MAX_PLOTTED_SCORE), ylim=(0, 1.02))
    ax.set(xlabel="error over the bound", ylabel="share of problems")
