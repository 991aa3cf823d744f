"""What a sweep's figures are, and what they are drawn with."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from pydantic import Field

from dpbench.analysis.worst_case import under
from dpbench.registry import Registered
from dpbench.privacy import Budget
from dpbench.runner.plan import Sweep

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = [
    "BOUND",
    "GUIDE",
    "GUIDE_DASHES",
    "NOTIONS",
    "THEORY",
    "Asked",
    "Figure",
    "Labels",
    "Metric",
    "Results",
    "axis_label",
    "band",
    "budget_text",
    "frame",
    "legend",
    "number_text",
    "panels",
    "power_text",
    "shown",
    "spread",
    "two_rows",
    "with_interval",
]

Labels = Annotated[list[str], Field(min_length=1)]
Metric = Literal[
    "q90", "private_q90", "sampling_q90", "mean_error", "failure_rate", "width_q50", "miss_rate",
    "outside_q90", "tv_q50", "tv_q90", "trimmed_mean", "core_q50", "noise_q90", "bias_q90",
]  # fmt: skip
MOST_TICKS = 6
FEW_DECADES = 1.7
# Inches.
NARROWEST = 1.6
LABEL_WIDTH = 0.33
LEGEND_ROW = 0.14
BESIDE = 0.5  # what labels take of a panel's width
# One style each in all figures: what theory predicts, seen on top of what agrees with it; what
# no private estimator can beat; and formulas to compare with, terms of a theorem or rates
# without their constants.
THEORY: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 0.9, "zorder": 2.5}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 3}
GUIDE: dict[str, Any] = {"color": "0.7", "linewidth": 2.5, "zorder": 0}
GUIDE_DASHES = ("-", (0, (4, 1)), (0, (1, 1)))
INTERVALS = {
    "q90": "95 per cent intervals of the quantile from order statistics",
    "mean_error": "95 per cent intervals of the mean, 1.96 standard errors to each side",
    "trimmed_mean": "95 per cent intervals of the trimmed mean, 1.96 standard errors to each side",
    **dict.fromkeys(("miss_rate", "failure_rate"), "Jeffreys' 95 per cent intervals of the share"),
}
NOTIONS = {"pure": "pure DP", "zcdp": "zCDP", "approx": "approximate DP"}
NORMAL = 1.96  # the 0.975 quantile of a normal law
METRIC_NAMES = {
    "q90": "error (0.9 quantile)",
    "mean_error": "mean error",
    "private_q90": "bias + noise\n(0.9 quantile)",
    "sampling_q90": "sampling error\n(0.9 quantile)",
    "width_q50": "interval width\n(median)",
    "miss_rate": "share of intervals\nthat miss",
    "outside_q90": "share of records outside\n(0.9 quantile)",
    "tv_q90": "total variation\n(0.9 quantile)",
    "tv_q50": "total variation (median)",
    "failure_rate": "failure rate",
    "trimmed_mean": "error\n(10% trimmed mean)",
    "core_q50": "core's share of\nthe records (median)",
    "noise_q90": "noise (0.9 quantile)",
    "bias_q90": "bias (0.9 quantile)",
}


def budget_text(budget: Budget, words: Callable[[str], str] = str) -> str:
    """A budget for a title, its notion in these words."""
    symbols = {"epsilon": r"\varepsilon", "delta": r"\delta", "rho": r"\rho"}
    amounts = [
        f"${symbol} = {number_text(getattr(budget, name))}$"
        for name, symbol in symbols.items()
        if hasattr(budget, name)
    ]
    return ", ".join([words(budget.label), *amounts])


def number_text(value: float) -> str:
    """A number for mathematical text: four digits as they are, more as powers of ten."""
    if 1000 <= value < 10000 and value == round(value):
        return f"{value:.0f}"
    mantissa, _, exponent = f"{value:.3g}".partition("e")
    if not exponent:
        return mantissa
    power = f"10^{{{int(exponent)}}}"
    return power if mantissa == "1" else rf"{mantissa} \times {power}"


def axis_label(metric: str) -> str:
    """A column of a summary in words."""
    return METRIC_NAMES.get(metric, metric)


@dataclass(frozen=True)
class Results:
    """What figures are drawn from.

    Attributes
    ----------
    sweep : Sweep
    summary, claims, samples : DataFrame
    words : callable
        What a figure writes for a label of the sweep; the label itself, by which its user
        knows it, if nothing else is said.
    """

    sweep: Sweep
    summary: pd.DataFrame
    claims: pd.DataFrame
    samples: pd.DataFrame
    words: Callable[[str], str] = str


class Request(Protocol):
    """What of a sample complexity a figure has to know; see `dpbench.complexity`."""

    @property
    def families(self) -> list[str]:
        """Labels or patterns."""

    @property
    def estimators(self) -> list[str] | None:
        """Labels or patterns; all by default."""


@dataclass(frozen=True)
class Asked:
    """A sweep's claims and sample complexities, by label."""

    claims: Collection[str] = ()
    requests: Mapping[str, Request] = field(default_factory=dict)


class Figure(Registered, ABC):
    """A figure of a sweep, as configured."""

    @abstractmethod
    def check(self, sweep: Sweep, known: Asked, where: str) -> None:
        """Raise ConfigError if a label is unknown."""

    @abstractmethod
    def draw(self, results: Results) -> Canvas:
        """Draw the figure."""

    @property
    def intervals(self) -> str:
        """What the figure's intervals are, for a caption."""
        return "bars: 95 per cent intervals, bootstrap over trials"


def _width() -> float:
    """The width of a canvas in inches, as the style says."""
    import matplotlib as mpl

    return float(mpl.rcParams["figure.figsize"][0])


def panels(count: int, height: float = 2.4) -> tuple[Canvas, Iterator[Axes]]:
    """A canvas with `count` panels, up to three beside each other, two in a narrow column."""
    import matplotlib.pyplot as plt

    width, count = _width(), max(count, 1)
    most = min(3, int(width / NARROWEST))
    columns = count if count <= most else 2 if count == 4 else most
    rows = -(-count // columns)
    # a wide panel needs to be higher, a narrow one must not be
    height = min(3.2, 0.72 * width) if count == 1 else min(height, width / columns + 0.4)
    canvas, axes = plt.subplots(rows, columns, figsize=(width, height * rows), squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return canvas, iter(axes.flat)


def two_rows(columns: int) -> tuple[Canvas, list[Axes], list[Axes]]:
    """Panels above smaller ones that share their horizontal axes."""
    import matplotlib.pyplot as plt

    width = _width()
    canvas, axes = plt.subplots(
        2,
        columns,
        figsize=(width, min(4.4, width)),
        height_ratios=(2, 1),
        sharex="col",
        squeeze=False,
    )
    return canvas, list(axes[0]), list(axes[1])


def frame(ax: Axes, values: Iterable[float]) -> None:
    """Ticks of logarithmic axes: powers of ten, and where few of them fit other numbers.

    On the horizontal axis those are `values`, the places of points, if they are few; else, and
    on the vertical one, 1, 2 and 5 times powers of ten.
    """
    from matplotlib.ticker import LogLocator

    known = np.unique(np.fromiter(values, float))
    plain: list[Any] = []
    if known.size and known[0] > 0 and np.log10(known[-1] / known[0]) < FEW_DECADES:
        if known.size <= MOST_TICKS:
            ax.set_xticks(known, _labels(ax, known))
        else:
            plain.append(ax.xaxis)
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and 0 < low < high:
        powers = np.floor(np.log10(high)) - np.ceil(np.log10(low)) + 1
        plain += [ax.yaxis] if high < low * 10**FEW_DECADES or powers < 2 else []
    for axis in plain:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"${number_text(value)}$")
    ax.minorticks_off()


def _labels(ax: Axes, values: NDArray[np.float64]) -> list[str]:
    """Numbers below the ticks of a logarithmic axis; blank where they would run together."""
    spot = ax.get_subplotspec()
    assert spot is not None
    inches = _width() / spot.get_gridspec().ncols - BESIDE
    whole = np.log(values[-1] / values[0]) or 1.0
    labels, last = [], -np.inf
    for value in values:
        place = np.log(value) / whole * inches
        labels.append(f"${number_text(value)}$" if place - last > LABEL_WIDTH else "")
        last = place if labels[-1] else last
    return labels


def power_text(n: float) -> str:
    """A size for mathematical text: powers of ten as such."""
    exponent = round(np.log10(n))
    return f"10^{{{exponent}}}" if 10.0**exponent == n else f"{n:g}"


def legend(canvas: Canvas) -> None:
    """One legend for all panels, below them; a label that neighbours share is written once.

    What is measured comes first, then theory and bounds.
    """
    from dpbench.report.style import natural

    entries: dict[str, Any] = {}
    for axes in canvas.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}
    known = sorted(entries, key=lambda label: (_is_theory(entries[label]), natural(label)))
    for columns in range(len(known), 0, -1):
        shown = canvas.legend(
            [entries[label] for label in known],
            known,
            loc="outside lower center",
            ncols=columns,
            frameon=False,
        )
        if columns == 1 or shown.get_window_extent().width <= canvas.bbox.width:
            break
        shown.remove()
    # what a long legend takes is given back to the panels
    more = max(0, -(-len(known) // columns) - 2)
    canvas.set_figheight(canvas.get_figheight() + LEGEND_ROW * more)
    for ax in canvas.axes:
        _fit_title(ax)
    for left, right in itertools.pairwise(canvas.axes):
        spot = right.get_subplotspec()
        if spot is not None and not spot.is_first_col() and _said(left) == _said(right):
            right.yaxis.label.set_visible(False)


def _fit_title(ax: Axes) -> None:
    """Break a title in two that is wider than its panel."""
    spot = ax.get_subplotspec()
    assert spot is not None
    assert ax.figure is not None
    widest = _width() / spot.get_gridspec().ncols - BESIDE
    head, _, tail = ax.get_title().rpartition(", ")
    if head and ax.title.get_window_extent().width > widest * ax.figure.dpi:
        ax.set_title(f"{head},\n{tail}")


def _is_theory(handle: Any) -> bool:
    """Whether a line is drawn in one of the styles that nothing measured has."""
    return getattr(handle, "get_color", str)() in {"black", GUIDE["color"]}


def _said(ax: Axes) -> str:
    return ax.get_ylabel() if ax.get_visible() else ""


def with_interval(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """The rows with ``low`` and ``high``, a 95% interval for `metric`, or NaN if none is known."""
    low, high = pd.Series(np.nan, rows.index), pd.Series(np.nan, rows.index)
    if metric == "q90":
        low, high = rows["q90_low"], rows["q90_high"]
    elif metric in {"miss_rate", "failure_rate"}:
        from scipy.stats import beta

        hits, trials = rows[metric] * rows["trials"], rows["trials"]
        ends = np.asarray(beta.ppf([[0.025], [0.975]], hits + 0.5, trials - hits + 0.5))
        low, high = (pd.Series(end, rows.index) for end in ends)
    elif metric in INTERVALS:
        half = NORMAL * rows[f"{metric}_se"]
        low, high = rows[metric] - half, rows[metric] + half
    # no axis reaches infinity, which is where failures are
    return rows.assign(low=low.replace(np.inf, np.nan), high=high.replace(np.inf, np.nan))


def band(ax: Axes, rows: pd.DataFrame, across: str, color: Any) -> None:
    """Draw the intervals of `with_interval` against a column, if there are any."""
    if rows["low"].notna().any():  # else an axis without points would have a range
        ax.fill_between(
            rows[across], rows["low"], rows["high"], color=color, alpha=0.2, linewidth=0
        )


def spread(metrics: Iterable[str]) -> str:
    """What `with_interval` gives, in words."""
    known = dict.fromkeys(INTERVALS[metric] for metric in metrics if metric in INTERVALS)
    return f"bands: {'; '.join(known)}" if known else "no intervals are drawn"


def shown(summary: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """The rows under `budget`, and those without privacy."""
    chosen = under(summary, budget) | (summary["privacy"] == "none")
    return summary[chosen].reset_index(drop=True)
