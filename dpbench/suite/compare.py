"""Comparison of scores: tables, and performance profiles relative to lower bounds."""

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

# Mark of a value that does not count as a score, see `dpbench.suite.table.Scores.is_below`.
BELOW = "†"
WITHIN = (1.5, 2.0, 5.0, 10.0)  # factors x of the columns <=x
# Notes below the tables.
LEGENDS = {
    "overview": "answers: number of problems answered; <=x: share of all problems with an error\n"
    "within x times the bound; mean: geometric mean of the scores; fails: share of\n"
    "releases that fail; CPU: time of a release over the time of drawing its data",
    "by_problem": "best: smallest score of the archive; estimator: the entry that has it",
    "below": f"{BELOW} not a score: below the bound, by prior knowledge or lack of privacy",
    "problem_list": "known: kind of records; public sd, order k of a bounded moment,\n"
    "radius R of the mean; bound: lower bound on the q90 of private estimators",
}
# End of the horizontal axis of profiles.
MOST = 100.0


def band(rows: pd.DataFrame, problems: int, at: ArrayLike) -> tuple[Floats, Floats]:
    """Return a pointwise 95% bootstrap band around a performance `profile`.

    Each replicate resamples the trials of every problem separately and takes the worst member of
    a family anew. The set of problems is fixed, so the band does not cover other problems.

    Parameters
    ----------
    rows : DataFrame
        Scores of one entry, with the column ``draws``.
    problems : int
        Number of all problems.
    at : array_like
        Scores at which the profile is evaluated.

    Returns
    -------
    low, high : ndarray
        Ends of the band, with the shape of `at`.
    """
    draws = np.stack(rows["draws"].to_list()) if len(rows) else np.empty((0, 1))
    low, high = np.quantile(profile(draws.T, problems, at), [0.025, 0.975], axis=0)
    return low, high


def overview(
    rows: pd.DataFrame, problems: int, divisions: Mapping[str, str]
) -> list[dict[str, str]]:
    """Return one printed row for each entry, the best first.

    Parameters
    ----------
    rows : DataFrame
        Scores, see `dpbench.suite.table.Scores`.
    problems : int
        Number of all problems.
    divisions : mapping of str to str
        Division of each entry.

    Returns
    -------
    list of dict
    """
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
    """Return one printed row for each problem: its bound, the archive's best, and the scores.

    Parameters
    ----------
    rows, archive : DataFrame
        Scores of the entries, and of the archive.
    problems : iterable of Problem
        Problems to show.
    below : iterable of bool
        Whether each of `rows` does not count as a score; it is marked.

    Returns
    -------
    list of dict
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
    """Return one printed row for each problem."""
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
    """Return the public knowledge about a problem in a few words."""
    known = problem.known
    more = {"sd": known.scale, "k": known.k, "R": known.radius}
    told = (f"{name}={x:g}".replace("e+0", "e") for name, x in more.items() if x)
    return " ".join([known.records.removesuffix("ian"), *told])


# Kinds of problems; each has a panel.
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
    """Draw performance profiles of entries, in one panel for each kind of problem.

    Grey lines are the entries of the archive. The dashed black line takes the archive's best entry
    of each problem, a choice that needs knowledge of the results. Shaded bands are `band`. Call it
    within `dpbench.output.style.style`.

    Parameters
    ----------
    rows, archive : DataFrame
        Scores of the entries, and of the archive.
    problems : sequence of Problem
        All problems.

    Returns
    -------
    Canvas
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
