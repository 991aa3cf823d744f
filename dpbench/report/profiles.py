"""Figure of the share of problems that each estimator solves within a factor of the bound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from dpbench.analysis.factors import LAW, profile, scores
from dpbench.analysis.result import Result
from dpbench.analysis.study import Study
from dpbench.output.style import Axes, line_styles
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import Looks, Panel, SelectingFigure
from dpbench.report.labels import Labels
from dpbench.sweep.selection import BUDGET

__all__ = ["Profile", "shares"]

MOST = 1000.0  # score at which the horizontal axis ends
OUTSIDE = 10 * MOST


def shares(found: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return each estimator's finite scores in increasing order, and the profile at each score.

    A problem is a family, a budget and an n in these `dpbench.analysis.factors.scores`. For the
    profile see `dpbench.analysis.factors.profile`.
    """
    problems = found[[*LAW, *BUDGET]].drop_duplicates()
    solved = {}
    for estimator, own in found.groupby("estimator"):
        reached = np.sort(own["score"][np.isfinite(own["score"])].to_numpy())
        solved[str(estimator)] = reached, profile(reached, len(problems), reached)
    return solved


@validated
class Profile(SelectingFigure):
    """Share of problems that each estimator solves within a factor, a panel for each notion.

    A problem is a family, a budget and an n. The factor is the worst 0.9 quantile of the error,
    divided by the lower bound or, if none is known, by the least such quantile without privacy. It
    does not depend on the other private estimators. Problems that an estimator was not run on
    count as never solved.
    """

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if (rows["privacy"] == "none").all():
            raise ConfigError(f"{where}: it selects no private estimator; add one")

    def describe(self) -> tuple[str, str]:
        return (
            "the share of problems (family, budget, n) against the worst 0.9 quantile of the error "
            "over the lower bound or, where none is known, over the least error without privacy",
            "no intervals are drawn",
        )

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        found = scores(self.rows(result))
        lines = {label: words.estimator(label) for label in found["estimator"].unique()}
        styles = line_styles(lines.values())
        looks = {label: {"label": line, **styles[line]} for label, line in lines.items()}
        for privacy, about in found.groupby("privacy", sort=False):
            yield partial(self._panel, about, words.notion(str(privacy)), looks)

    def _panel(self, found: pd.DataFrame, title: str, looks: Looks, ax: Axes) -> None:
        for label, (reached, share) in shares(found).items():
            x = np.concatenate([[0.5], np.minimum(reached, OUTSIDE), [OUTSIDE]])
            y = np.concatenate([[0.0], share, share[-1:]]) if len(reached) else np.zeros(2)
            ax.step(x, y, where="post", markevery=slice(1, -1), **looks[label])
        ax.axvline(1, color="black", linewidth=1.2)
        ax.set(xscale="log", xlim=(0.8, MOST), ylim=(0, 1.02), title=title)
        ax.set(xlabel="error over the limit", ylabel="share of problems")
