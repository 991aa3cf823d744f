"""What a figure is: what it is about, its panels, and how they come on a canvas or on axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import pandas as pd

from dpbench.arrays import Floats
from dpbench.columns import BUDGET, Choice, Selection, Variant, choose
from dpbench.drawing import THEORY, legend, panels
from dpbench.metrics import METRICS, VARIABLES
from dpbench.registry import ConfigError, validated
from dpbench.report.words import Words
from dpbench.result import Result
from dpbench.study import Figure, Names, Study

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = [
    "BARS", "DrawnFigure", "Looks", "Panel", "SelectingFigure", "check_one_budget", "check_sizes",
    "chosen_labels", "draw_curve", "draw_slopes", "linear", "reach", "spread", "with_interval",
]  # fmt: skip

Panel = Callable[["Axes"], None]
Looks = Mapping[str, dict[str, Any]]

# What the intervals of claims and sample complexities are, in words.
BARS = "bars: 95 per cent intervals, bootstrap over trials"
NORMAL = 1.96  # the 0.975 quantile of a normal law
MOST_MARKERS = 15


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
    # of rows of panels that share horizontal axes, if they do
    HEIGHTS: ClassVar[tuple[float, ...]] = ()

    @abstractmethod
    def rows(self, result: Result) -> pd.DataFrame:
        """The rows of the summary that this is drawn from."""

    @abstractmethod
    def _panels(self, result: Result, words: Words) -> Iterable[Panel]:
        """What draws each panel on its axes."""

    @abstractmethod
    def told(self) -> tuple[str, str]:
        """What is drawn against what, and what the intervals are, in plain words."""

    def figure(
        self, result: Result, names: Names = None, ax: Axes | None = None, panel: int | None = None
    ) -> Canvas:
        drawn, heights = list(self._panels(result, Words(result.study, names or {}))), self.HEIGHTS
        if panel is not None:
            if not 0 <= panel < len(drawn):
                raise ConfigError(f"panel: {panel}: the figure has panels 0 to {len(drawn) - 1}")
            drawn, heights = [drawn[panel]], ()
        canvas, axes = panels(len(drawn), ax, heights)
        for draw, on in zip(drawn, axes, strict=False):  # without a panel there are axes, too
            draw(on)
            if self.ylabel:
                on.set_ylabel(self.ylabel)
        legend(canvas, ax)
        return canvas


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


def check_sizes(rows: pd.DataFrame, sizes: Iterable[int], where: str) -> None:
    """Refuse an n that no row has."""
    for n in sizes:
        if n not in set(rows["n"]):
            raise ConfigError(f"{where}.n: {n}: the sweep does not run it")


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


def reach(rows: pd.DataFrame, column: str) -> Floats:
    """How far intervals reach below and above a column."""
    ends = rows[["low", "high"]].to_numpy(float).T
    return np.asarray(np.abs(ends - rows[column].to_numpy(float)))


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


def draw_curve(
    ax: Axes, rows: pd.DataFrame, across: str, metric: str, look: Mapping[str, Any]
) -> pd.DataFrame:
    """Draw the worst of a metric at each place, failures as gaps, with intervals; those rows."""
    worst = rows.loc[rows.groupby(across)[metric].idxmax()]
    shown, every = worst[metric].replace(np.inf, np.nan), -(-len(worst) // MOST_MARKERS)
    ax.plot(worst[across], shown, markevery=every, **look)
    if worst["low"].notna().any():  # else an axis without points would have a range
        band = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(worst[across], worst["low"], worst["high"], **band)
    return worst


def draw_slopes(
    ax: Axes, curve: pd.DataFrame, across: str, metric: str, parameter: str, result: Result
) -> None:
    """Draw the slopes that claims predict in a parameter, through a curve's geometric mean.

    Claims are about n, over their regime of it, or about another parameter at fixed n. The curve
    is the rows of one family, estimator and budget; `across` is the column that it stands at.
    """
    study, row = result.study, curve.iloc[0]
    about = {
        "metric": metric,
        "distribution": study.families[row["family"]].label(parameter),
        "estimator": study.estimators[row["estimator"]].label(parameter),
        **{name: row[name] for name in BUDGET if name != parameter and pd.notna(row[name])},
    }
    for claim in result.claims.to_dict("records"):
        variable = VARIABLES.get("n" if claim["variable"] == "alpha" else claim["variable"])
        theorem = study.all_claims[claim["claim"]].statement
        if any(claim[name] != value for name, value in about.items()) or variable is None:
            continue
        if variable.column != parameter or (parameter != "n" and theorem.of != "fixed_n"):
            continue
        shown = curve[np.isfinite(curve[metric]) & (curve[metric] > 0)]
        if parameter == "n":
            shown = shown[shown["n"].between(claim["n_low"], claim["n_high"])]
        # of alpha it is the s in n ~ (1/alpha)^s
        exponent = -1 / claim["predicted"] if claim["variable"] == "alpha" else claim["predicted"]
        shape = variable.x(shown[parameter].to_numpy(float)) ** exponent
        if shape.size:
            scale = np.exp(np.mean(np.log(shown[metric] / shape)))
            label = "slowest slope by theory" if theorem.at_most else "slope by theory"
            ax.plot(shown[across], scale * shape, label=label, **THEORY)
