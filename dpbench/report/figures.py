"""What a sweep's figures are, and what they are drawn with."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, Literal, Protocol

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.worst_case import under
from dpbench.parameters import Registered
from dpbench.privacy import Budget
from dpbench.runner.plan import Sweep

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure as Canvas

__all__ = [
    "BOUND",
    "THEORY",
    "Asked",
    "Figure",
    "Labels",
    "Metric",
    "Results",
    "axis_label",
    "budget_text",
    "frame",
    "legend",
    "number_text",
    "panels",
    "power_text",
    "shown",
    "two_rows",
]

Labels = Annotated[list[str], Field(min_length=1)]
Metric = Literal[
    "q90", "private_q90", "sampling_q90", "mean_error", "failure_rate", "width_q50", "miss_rate",
    "outside_q90", "tv_q50", "tv_q90", "trimmed_mean", "core_q50", "noise_q90", "bias_q90",
]  # fmt: skip
MOST_TICKS = 6
FEW_DECADES = 1.7
THEORY: dict[str, Any] = {"color": "black", "linestyle": ":", "linewidth": 0.9, "zorder": 1}
BOUND: dict[str, Any] = {"color": "black", "linewidth": 1.2, "zorder": 3}
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


def budget_text(budget: Budget) -> str:
    """A budget for a title."""
    symbols = {"epsilon": r"\varepsilon", "delta": r"\delta", "rho": r"\rho"}
    amounts = [
        f"${symbol} = {number_text(getattr(budget, name))}$"
        for name, symbol in symbols.items()
        if hasattr(budget, name)
    ]
    return ", ".join([budget.label, *amounts])


def number_text(value: float) -> str:
    """A number for mathematical text."""
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
    """What figures are drawn from."""

    sweep: Sweep
    summary: pd.DataFrame
    claims: pd.DataFrame
    samples: pd.DataFrame


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


def panels(count: int, height: float = 2.4) -> tuple[Canvas, Iterator[Axes]]:
    """A canvas with `count` panels, up to three beside each other."""
    import matplotlib.pyplot as plt

    from dpbench.report.style import WIDTH

    count = max(count, 1)
    height = 3.2 if count == 1 else height  # a wide panel needs it
    columns = count if count <= 3 else 2 if count == 4 else 3
    rows = -(-count // columns)
    canvas, axes = plt.subplots(rows, columns, figsize=(WIDTH, height * rows), squeeze=False)
    for spare in axes.flat[count:]:
        spare.set_visible(False)
    return canvas, iter(axes.flat)


def two_rows(columns: int) -> tuple[Canvas, list[Axes], list[Axes]]:
    """Panels above smaller ones that share their horizontal axes."""
    import matplotlib.pyplot as plt

    from dpbench.report.style import WIDTH

    canvas, axes = plt.subplots(
        2,
        columns,
        figsize=(WIDTH, 4.4),
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
            ax.set_xticks(known, [f"${number_text(value)}$" for value in known])
        else:
            plain.append(ax.xaxis)
    low, high = ax.get_ylim()
    if ax.get_yscale() == "log" and 0 < low < high < low * 10**FEW_DECADES:
        plain.append(ax.yaxis)
    for axis in plain:
        axis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axis.set_major_formatter(lambda value, _: f"${number_text(value)}$")
    ax.minorticks_off()


def power_text(n: float) -> str:
    """A size for mathematical text: powers of ten as such."""
    exponent = round(np.log10(n))
    return f"10^{{{exponent}}}" if 10.0**exponent == n else f"{n:g}"


def legend(canvas: Canvas) -> None:
    """One legend for all panels, below them."""
    entries: dict[str, Any] = {}
    for axes in canvas.axes:
        handles, labels = axes.get_legend_handles_labels()
        entries |= {label: h for h, label in zip(handles, labels, strict=True)}
    # at this size a letter takes 0.065 inches, the line beside it 0.6
    width = 0.6 + 0.065 * max(map(len, entries), default=1)
    columns = max(1, min(len(entries), int(canvas.get_figwidth() / width)))
    canvas.legend(
        entries.values(), entries.keys(), loc="outside lower center", ncols=columns, frameon=False
    )


def shown(summary: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """The rows under `budget`, and those without privacy."""
    chosen = under(summary, budget) | (summary["privacy"] == "none")
    return summary[chosen].reset_index(drop=True)
