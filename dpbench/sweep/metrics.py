"""Per-trial measurements, the summary columns derived from them, and variables of power laws.

To add an output of estimators, measure it in `dpbench.sweep.block` and add an entry to `METRICS`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Annotated, Literal

import numpy as np
from pydantic import AfterValidator

from dpbench.arrays import Floats
from dpbench.privacy.symbols import SYMBOLS, Symbol

__all__ = ["ERRORS", "EXTRAS", "METRICS", "VARIABLES", "Metric", "MetricName", "Variable"]


# Measurements that every trial has: the error and its parts, see `dpbench.sweep.block.Block`.
ERRORS = ("error", "sampling", "bias", "noise", "private")

# Descriptions of the confidence intervals of a column.
ORDER_INTERVAL = "95 per cent intervals of the quantile from order statistics"
NORMAL_INTERVAL = "95 per cent intervals of the mean, 1.96 standard errors to each side"
TRIMMED_INTERVAL = "95 per cent intervals of the trimmed mean, 1.96 standard errors to each side"
JEFFREYS_INTERVAL = "Jeffreys' 95 per cent intervals of the share"


@dataclass(frozen=True)
class Metric:
    """Column of a summary: a statistic over the trials of one measurement."""

    of: str  # Measurement: a key of `Block.values`, or ``signed`` for errors with their sign.
    words: str  # Label of the axis in figures.
    # Over the trials; ``rate`` is the share with an event, for example a miss.
    statistic: Literal["quantile", "rate", "mean", "rms", "sd", "trimmed_mean"] = "quantile"
    q: float = 0.9  # Level of the quantile, in [0, 1]; other statistics ignore it.
    # Description of the confidence interval in the summary, if there is one.
    interval: str | None = None
    share: bool = False  # True if values are in [0, 1] and the axis is linear.

    @property
    def resampled(self) -> bool:
        """True if the bootstrap supports this metric, so that a claim may name it.

        A claim is a prediction of a theorem that is compared with measurements.
        """
        unsupported = self.statistic in ("trimmed_mean", "sd")
        return not unsupported and (self.statistic, self.of) != ("rate", "error")

    @property
    def signed(self) -> bool:
        """True if values of this metric may be negative; figures then use a linear axis."""
        return self.of == "signed" and self.statistic == "mean"


METRICS = {
    "mean_error": Metric("error", "mean error", "mean", interval=NORMAL_INTERVAL),
    "rmse": Metric("error", "root mean square error", "rms"),
    "q50": Metric("error", "error (median)", q=0.5),
    "q90": Metric("error", "error (0.9 quantile)", interval=ORDER_INTERVAL),
    "trimmed_mean_error": Metric(
        "error", "error\n(10% trimmed mean)", "trimmed_mean", interval=TRIMMED_INTERVAL
    ),
    "failure_rate": Metric("error", "failure rate", "rate", interval=JEFFREYS_INTERVAL, share=True),
    "sampling_q90": Metric("sampling", "sampling error\n(0.9 quantile)"),
    "clipping_q90": Metric("bias", "bias (0.9 quantile)"),
    "noise_q90": Metric("noise", "noise (0.9 quantile)"),
    "privacy_cost_q90": Metric("private", "bias + noise\n(0.9 quantile)"),
    "width_q50": Metric("width", "interval width\n(median)", q=0.5),
    "miss_rate": Metric(
        "missed", "share of intervals\nthat miss", "rate", interval=JEFFREYS_INTERVAL, share=True
    ),
    "width_ratio_q50": Metric("width_ratio", "width over the\nusual one (median)", q=0.5),
    "outside_q90": Metric("outside", "share of records outside\n(0.9 quantile)", share=True),
    "tv_q50": Metric("tv", "total variation (median)", q=0.5),
    "tv_q90": Metric("tv", "total variation\n(0.9 quantile)"),
    "error_over_guarantee_q90": Metric("promise", "error over the\npromised one (0.9 quantile)"),
    "core_fraction_q50": Metric("core", "core's share of\nthe records (median)", q=0.5, share=True),
    "budget_fraction_spent": Metric(
        "spent", "share of the budget\nthat is spent", q=0.0, share=True
    ),
    # Signed errors exist for numbers only: the mean error of vectors would be a vector.
    "bias": Metric("signed", "bias (mean signed error)", "mean", interval=NORMAL_INTERVAL),
    "signed_sd": Metric("signed", "standard deviation", "sd"),
}
# Measurements that only some settings have: with an interval, a scale, a promised accuracy, a
# filter, or an unspent part of the budget. For numbers the sign of the error is stored, because it
# takes a thirtieth of the space of a signed error.
EXTRAS = (*dict.fromkeys(m.of for m in METRICS.values() if m.of not in ERRORS), "sign")


def _check_metric(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"choose from {', '.join(METRICS)}")
    return name


MetricName = Annotated[str, AfterValidator(_check_metric)]


@dataclass(frozen=True)
class Variable:
    """Variable x of a power law y ~ x^s, in which the exponent s is fitted to measured y."""

    column: str  # Column of results with the quantity from which x is computed.
    x: Callable[[Floats], Floats]  # Maps an array of these quantities to an array of x.
    base: str  # Formula of x in plain text.
    axis: str  # Label of the axis in LaTeX: x if `shows_x`, otherwise the quantity.
    shows_x: bool = False  # True if figures show x instead of the quantity.


def _inverse_variable(symbol: Symbol) -> Variable:
    """Return the variable x = 1/q for a quantity q with a Greek symbol, for example epsilon."""
    return Variable(symbol.name, np.reciprocal, f"(1/{symbol.unicode})", f"${symbol.tex}$")


VARIABLES = {
    "n": Variable("n", np.positive, "n", "$n$"),
    **{name: _inverse_variable(SYMBOLS[name]) for name in ("alpha", "epsilon", "rho", "mu")},
    "delta": Variable("delta", lambda delta: -np.log(delta), "ln(1/δ)", r"$\ln(1/\delta)$", True),
    "radius": Variable("radius", np.positive, "R", "$R$"),
    "log_radius": Variable("radius", np.log, "(ln R)", r"$\ln R$"),
    "d": Variable("d", np.positive, "d", "dimension $d$"),
    "m": Variable("m", np.reciprocal, "(1/m)", "records of a person $m$"),
    "condition": Variable("condition", np.positive, "κ", r"condition number $\kappa$"),
    "norm": Variable("norm", np.positive, "‖μ‖", r"$\|\mu\|$"),
    "location": Variable("location", np.positive, "|μ|", r"$\mu$"),
    "log_location": Variable("location", np.log, "(ln |μ|)", r"$\ln \mu$"),
}
