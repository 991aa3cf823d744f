"""Figure of the share of problems that each estimator solves within a factor of the lower bound."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np
import pandas as pd

from dpbench.analysis.factors import DATA_KEY, profile, scores
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.curves import draw_curve, mark_guide
from dpbench.report.drawing.style import Axes, line_styles
from dpbench.report.figures import NamedLooks, Panel, SelectingFigure
from dpbench.report.labels import Labels
from dpbench.report.run_result import Result
from dpbench.report.study import Study
from dpbench.sweep.selection import BUDGET

__all__ = ["Profile", "shares"]

MAX_SCORE = 1000.0  # score at which the horizontal axis ends
OUTSIDE = 10 * MAX_SCORE


def shares(scored: pd.DataFrame) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Return the profile of each estimator: the share of problems that it solves within a score.

    A problem is a family, a budget and a sample size n. A score is the estimator's error on a
    problem, divided by a lower bound or by the error without privacy. The profile at x is the share
    of all problems with a score of at most x. For each estimator, the first array holds its finite
    scores in increasing order. The second array holds the profile at these scores. `scored` is a
    table of `dpbench.analysis.factors.scores`.
    """
    problems = scored[[*DATA_KEY, *BUDGET]].drop_duplicates()
    profiles = {}
    for estimator, estimator_rows in scored.groupby("estimator"):
        finite = np.sort(estimator_rows["score"][np.isfinite(estimator_rows["score"])].to_numpy())
        profiles[str(estimator)] = finite, profile(finite, len(problems), finite)
    return profiles


@validated
class Profile(SelectingFigure):
    """Figure of the share of problems that each estimator solves within a factor of a lower bound.

    There is a panel for each notion of privacy. A problem is a family, a budget and a sample size
    n. The factor is the worst 0.9 quantile of the error over the family, divided by the lower
    bound. If no bound is known, the least such quantile of estimators without privacy replaces the
    bound. So a factor does not depend on the other private estimators. A problem on which an
    estimator was not run counts as never solved.
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
        scored = scores(self.summary_rows(result))
        lines = {label: words.estimator(label) for label in scored["estimator"].unique()}
        styles = line_styles(lines.values())
        looks = {label: (line, styles[line]) for label, line in lines.items()}
        for privacy, group in scored.groupby("privacy", sort=False):
            yield partial(self._draw_panel, group, words.notion(str(privacy)), looks)

    def _draw_panel(self, scored: pd.DataFrame, title: str, looks: NamedLooks, ax: Axes) -> None:
        steps = {"drawstyle": "steps-post", "markevery": slice(1, -1)}
        for label, (finite, share) in shares(scored).items():
            x = np.concatenate([[0.5], np.minimum(finite, OUTSIDE), [OUTSIDE]])
            y = np.concatenate([[0.0], share, share[-1:]]) if len(finite) else np.zeros(2)
            text, look = looks[label]
            draw_curve(ax, x, y, label=text, look=look | steps)
        mark_guide(ax.axvline(1, color="black", linewidth=1.2))
        ax.set(xscale="log", xlim=(0.8, MAX_SCORE), ylim=(0, 1.02), title=title)
        ax.set(xlabel="error over the limit", ylabel="share of problems")
