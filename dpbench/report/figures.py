"""What a figure is: what it is about, its panels, and how they come on a canvas or on axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd

from dpbench.columns import BUDGET, Choice, Selection, Variant, choose
from dpbench.drawing import THEORY, legend, panels
from dpbench.metrics import METRICS
from dpbench.registry import ConfigError, validated
from dpbench.report.words import Words
from dpbench.result import Result
from dpbench.study import Figure, Study

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = [
    "DrawnFigure", "Panel", "SelectingFigure", "check_one_budget", "chosen_labels", "linear",
    "slope_by_theory", "spread", "with_interval",
]  # fmt: skip

Panel = Callable[["Axes"], None]

NORMAL = 1.96  # the 0.975 quantile of a normal law


@validated
class DrawnFigure(Figure, ABC):
    """A figure with a caption. A subclass says what its panels draw.

    Parameters
    ----------
    caption : str
        A sentence or two.
    ylabel : str
        What the vertical axes say, with the unit, where the metric's words do not.
    """

    caption: str = ""
    ylabel: str = ""

    @abstractmethod
    def rows(self, result: Result) -> pd.DataFrame:
        """The rows of the summary that this is drawn from."""

    @abstractmethod
    def _panels(self, result: Result, words: Words) -> Sequence[Panel]:
        """What draws each panel on its axes."""

    @property
    @abstractmethod
    def shows(self) -> str:
        """What is drawn against what, in plain words."""

    @property
    def intervals(self) -> str:
        """What the intervals are, in words."""
        return "bars: 95 per cent intervals, bootstrap over trials"

    def figure(self, result: Result, names: Mapping[str, str] | None = None) -> Canvas:
        drawn = self._panels(result, Words(result.study, names or {}))
        canvas, axes = self._laid_out(len(drawn), None)
        self._draw(drawn, axes)
        legend(canvas)
        return canvas

    def plot(
        self,
        result: Result,
        ax: Axes,
        names: Mapping[str, str] | None = None,
        panel: int | None = None,
    ) -> None:
        drawn = self._panels(result, Words(result.study, names or {}))
        if panel is None:
            _, axes = self._laid_out(len(drawn), ax)
        elif 0 <= panel < len(drawn):
            drawn, axes = [drawn[panel]], iter([ax])
        else:
            raise ConfigError(f"panel: {panel}: the figure has panels 0 to {len(drawn) - 1}")
        self._draw(drawn, axes)
        legend(ax.figure.figure, on=ax)

    def _laid_out(self, count: int, on: Axes | None) -> tuple[Canvas, Iterator[Axes]]:
        """Axes for so many panels."""
        return panels(count, on=on)

    def _draw(self, drawn: Iterable[Panel], axes: Iterator[Axes]) -> None:
        for panel, ax in zip(drawn, axes, strict=False):
            panel(ax)
            if self.ylabel:
                ax.set_ylabel(self.ylabel)


@validated
class SelectingFigure(Selection, DrawnFigure, ABC):
    """A figure of the rows that it selects."""

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        rows = keys[study.about(self, keys, where)]
        if rows.empty:
            raise ConfigError(f"{where}: the sweep runs nothing of what the figure is about")
        self._check(rows, study, where)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        """Refuse keys that this kind of figure cannot show."""

    def rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        return summary[result.study.about(self, summary)].reset_index(drop=True)


def check_one_budget(rows: pd.DataFrame, where: str, way_out: str = "") -> None:
    """Refuse rows under several budgets."""
    budgets = rows.loc[rows["privacy"] != "none", BUDGET].drop_duplicates()
    if len(budgets) > 1:
        raise ConfigError(f"{where}.budgets: {len(budgets)} budgets; choose one{way_out}")


def chosen_labels(choice: Choice | None, labels: Iterable[str], where: str) -> list[str]:
    """Those of some labels that are chosen by name or pattern, as entries are."""
    return choose(choice, {label: Variant(label, None, {}) for label in labels}, where)


def with_interval(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows with ``low`` and ``high``, a 95% interval for `metric`, or NaN if none is known."""
    about = METRICS[metric]
    low = high = pd.Series(np.nan, rows.index)
    if about.interval is None:
        pass
    elif about.statistic == "quantile":
        low, high = rows[f"{metric}_low"], rows[f"{metric}_high"]
    elif about.statistic == "rate":
        from scipy.stats import beta

        hits, trials = rows[metric] * rows["trials"], rows["trials"]
        ends = np.asarray(beta.ppf([[0.025], [0.975]], hits + 0.5, trials - hits + 0.5))
        low, high = (pd.Series(end, rows.index) for end in ends)
    else:
        half = NORMAL * rows[f"{metric}_se"]
        low, high = rows[metric] - half, rows[metric] + half
    # no axis reaches infinity, which is where failures are
    return rows.assign(low=low.replace(np.inf, np.nan), high=high.replace(np.inf, np.nan))


def spread(metrics: Iterable[str]) -> str:
    """What `with_interval` gives, in words."""
    known = dict.fromkeys(METRICS[metric].interval for metric in metrics)
    told = [words for words in known if words]
    return f"bands: {'; '.join(told)}" if told else "no intervals are drawn"


def linear(rows: pd.DataFrame, metric: str) -> bool:
    """Whether the axis of a metric is: of shares, and of the mean of errors that are 0 or 1.

    Those are their own squares.
    """
    about = METRICS[metric]
    rate = about.statistic == "mean" and np.allclose(rows["rmse"] ** 2, rows[metric], atol=0)
    return about.share or bool(rate)


def slope_by_theory(
    ax: Axes,
    x: Iterable[float],
    values: Iterable[float],
    shape: Iterable[float],
    label: str = "slope by theory",
) -> None:
    """Draw a shape through the geometric mean of the values that are positive and finite."""
    table = pd.DataFrame({"x": x, "value": values, "shape": shape})
    table = table[np.isfinite(table["value"]) & (table["value"] > 0)]
    if not table.empty:
        scale = np.exp(np.mean(np.log(table["value"] / table["shape"])))
        ax.plot(table["x"], scale * table["shape"], label=label, **THEORY)
