"""What a sweep's figures are, and what they say of metrics, budgets and intervals."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Literal, Protocol

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.worst_case import under
from dpbench.drawing import number_text
from dpbench.privacy import Budget
from dpbench.registry import Registered
from dpbench.runner.plan import Sweep

if TYPE_CHECKING:  # drawing libraries load when the first figure is drawn
    from matplotlib.figure import Figure as Canvas

__all__ = [
    "Asked",
    "Figure",
    "Labels",
    "Metric",
    "Results",
    "axis_label",
    "budget_text",
    "shown",
    "spread",
    "with_interval",
]

Labels = Annotated[list[str], Field(min_length=1)]
Metric = Literal[
    "q90", "private_q90", "sampling_q90", "mean_error", "failure_rate", "width_q50", "miss_rate",
    "outside_q90", "tv_q50", "tv_q90", "trimmed_mean", "core_q50", "noise_q90", "bias_q90",
]  # fmt: skip
INTERVALS = {
    "q90": "95 per cent intervals of the quantile from order statistics",
    "mean_error": "95 per cent intervals of the mean, 1.96 standard errors to each side",
    "trimmed_mean": "95 per cent intervals of the trimmed mean, 1.96 standard errors to each side",
    **dict.fromkeys(("miss_rate", "failure_rate"), "Jeffreys' 95 per cent intervals of the share"),
}
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


def spread(metrics: Iterable[str]) -> str:
    """What `with_interval` gives, in words."""
    known = dict.fromkeys(INTERVALS[metric] for metric in metrics if metric in INTERVALS)
    return f"bands: {'; '.join(known)}" if known else "no intervals are drawn"


def shown(summary: pd.DataFrame, budget: Budget) -> pd.DataFrame:
    """The rows under `budget`, and those without privacy."""
    chosen = under(summary, budget) | (summary["privacy"] == "none")
    return summary[chosen].reset_index(drop=True)
