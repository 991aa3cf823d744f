"""Scores side by side: tables, and profiles with an absolute anchor."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from dpbench.analysis.factors import profile
from dpbench.arrays import Floats
from dpbench.output.style import BOUND, Axes, Canvas, legend, line_styles, panels, spaced
from dpbench.suite.problems import Problem

__all__ = ["BELOW", "LEGENDS", "band", "by_problem", "overview", "problem_list", "profile_figure"]

# Stands beside what is no score, see `dpbench.suite.table.Scores.is_below`.
BELOW = "†"
WITHIN = (1.5, 2.0, 5.0, 10.0)
# What stands below the tables.
LEGENDS = {
    "overview": "answers: how many problems; <=x: the share of all problems within x times the\n"
    "bound; mean: geometric, of its scores; fails: of its releases; CPU: of a release,\n"
    "over that of drawing its data",
    "by_problem": "best: the least error of the archive over the bound, and by which estimator",
    "below": f"{BELOW} no score: below the bound, by prior knowledge or as it is not private",
    "problem_list": "known: the records, and what is public of them: their sd, the order k of a\n"
    "moment, a radius R of the mean; bound: what no private estimator's q90 is below",
}
# The score where the horizontal axis of profiles ends.
MOST = 100.0


def band(rows: pd.DataFrame, problems: int, at: ArrayLike) -> tuple[Floats, Floats]:
    """The ends of a 95% band around a `profile`, which are quantiles of bootstrap replicates.

    These resample the trials of every problem by itself, and take the worst of a family anew. The
    problems are what they are: the band says nothing of others.
    """
    draws = np.stack(rows["draws"].to_list()) if len(rows) else np.empty((0, 1))
    low, high = np.quantile(profile(draws.T, problems, at), [0.025, 0.975], axis=0)
    return low, high


def overview(
    rows: pd.DataFrame, problems: int, divisions: Mapping[str, str]
) -> list[dict[str, str]]:
    """A row for each entry, best first, for print; `divisions` are those of the cards."""
    found = []
    for name, own in rows.groupby("entry"):
        share = profile(own["score"], problems, WITHIN)
        solved = own["score"][np.isfinite(own["score"])]
        with np.errstate(divide="ignore"):
            mean = np.exp(np.log(solved).mean()) if len(solved) else np.nan
        draws = (own["seconds"] / own["drawing_seconds"]).median()
        title = f"{name} (open)" if divisions[str(name)] == "open" else str(name)
        row = {"estimator": title, "answers": str(len(own))}
        row |= {f"<={x:g}": f"{s:.0%}" for x, s in zip(WITHIN, share, strict=True)}
        row |= {
            "mean": f"{mean:.3g}",
            "fails": f"{own['failure_rate'].mean():.1%}",
            "CPU": _times(draws),
        }
        found.append((tuple(-share), row))
    return [row for _, row in sorted(found, key=lambda one: one[0])]


def _times(value: float) -> str:
    return f"{value:.2g}" if value < 99.5 else f"{value:.0f}" if np.isfinite(value) else "-"


def by_problem(
    rows: pd.DataFrame, archive: pd.DataFrame, problems: Iterable[Problem], below: Iterable[bool]
) -> list[dict[str, str]]:
    """Return for each problem the bound, the archive's best, and the scores of other entries.

    `below` says which of the rows are no scores: these have a mark.
    """
    marks = dict(zip(zip(rows["entry"], rows["problem"], strict=True), below, strict=True))
    names, found = list(dict.fromkeys(rows["entry"])), []
    told = "{:.3g} {:.2g}..{:.2g}" if len(names) == 1 else "{:.3g}"
    for problem in problems:
        known = archive[archive["problem"] == problem.id].sort_values("score", kind="stable")
        best = known.iloc[0] if len(known) else None
        row = {
            "problem": problem.id,
            "bound": f"{problem.bound.value:.3g}",
            "best": "-" if best is None else f"{best['score']:.3g}",
            "estimator": "-" if best is None else best["entry"],
        }
        for name in names:
            own = rows[(rows["entry"] == name) & (rows["problem"] == problem.id)]
            scores = own[["score", "score_low", "score_high"]].to_numpy()
            mark = BELOW if marks.get((name, problem.id)) else ""
            row[name] = told.format(*scores[0]) + mark if len(scores) else "-"
        found.append(row)
    return found


def problem_list(problems: Iterable[Problem]) -> list[dict[str, str]]:
    """The problems, for print."""
    return [
        {
            "problem": one.id,
            "known": _known(one),
            "bound": f"{one.bound.value:.3g}",
            "bound by": one.bound.by,
        }
        for one in problems
    ]


def _known(problem: Problem) -> str:
    """What is public, in a few words."""
    known = problem.known
    more = {"sd": known.scale, "k": known.k, "R": known.radius}
    told = (f"{name}={x:g}".replace("e+0", "e") for name, x in more.items() if x)
    return " ".join([known.records.removesuffix("ian"), *told])


# Kinds of problems, a panel each.
PANELS: dict[str, Callable[[Problem], bool]] = {
    "all problems": lambda _: True,
    "binary": lambda one: one.known.records == "binary" and not one.local,
    "Gaussian": lambda one: one.known.records == "gaussian" and one.d == 1 and not one.local,
    "bounded moments": lambda one: one.known.records == "moments" and one.d == 1 and not one.local,
    "vectors": lambda one: one.d > 1,
    "local": lambda one: one.local,
}


def profile_figure(
    rows: pd.DataFrame, archive: pd.DataFrame, problems: Sequence[Problem]
) -> Canvas:
    """Profiles of entries over those of an archive, in grey, a panel for each kind of problem.

    Black is the best of the archive for each problem, dashed, which knows the problems. Bands are
    those of `band`. To be drawn inside `dpbench.output.style.style`.
    """
    kinds = {name: [p for p in problems if of(p)] for name, of in PANELS.items()}
    kinds = {name: found for name, found in kinds.items() if found}
    canvas, axes = panels(len(kinds))
    looks = line_styles(str(name) for name in rows["entry"].unique())
    for ax, (title, found) in zip(axes, kinds.items(), strict=True):
        ids = [one.id for one in found]
        _panel(
            ax, rows[rows["problem"].isin(ids)], archive[archive["problem"].isin(ids)], ids, looks
        )
        ax.set(title=f"{title} ({len(ids)})")
    legend(canvas)
    return canvas


def _panel(
    ax: Axes,
    rows: pd.DataFrame,
    archive: pd.DataFrame,
    ids: Sequence[str],
    looks: Mapping[str, Any],
) -> None:
    at = np.geomspace(0.8, MOST, 300)
    for i, (_, own) in enumerate(archive.groupby("entry")):
        share = profile(own["score"], len(ids), at)
        ax.plot(at, share, color="0.75", linewidth=0.7, label="" if i else "archive")
    best = archive.loc[archive.groupby("problem")["score"].idxmin()]
    share = profile(best["score"], len(ids), at)
    ax.plot(at, share, color="black", linewidth=0.9, linestyle="--", label="best of the archive")
    for name, look in looks.items():
        own, shown = rows[rows["entry"] == name], {**look, "marker": "", "linewidth": 2.2}
        ax.plot(at, profile(own["score"], len(ids), at), label=spaced(name), **shown)
        ax.fill_between(at, *band(own, len(ids), at), color=look["color"], alpha=0.25, linewidth=0)
    ax.axvline(1, **BOUND)
    ax.set(xscale="log", xlim=(0.8, MOST), ylim=(0, 1.02))
    ax.set(xlabel="error over the bound", ylabel="share of problems")
