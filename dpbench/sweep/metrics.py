"""Per-trial measurements, the summary columns derived from them, and the variables of exponents.

To add an output of estimators, measure it in `dpbench.sweep.block` and add a line to `METRICS`.
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
ORDER = "95 per cent intervals of the quantile from order statistics"
NORMAL = "95 per cent intervals of the mean, 1.96 standard errors to each side"
TRIMMED = "95 per cent intervals of the trimmed mean, 1.96 standard errors to each side"
JEFFREYS = "Jeffreys' 95 per cent intervals of the share"


@dataclass(frozen=True)
class Metric:
    """Column of a summary: a statistic over the trials of one measurement.

    Parameters
    ----------
    of : str
        Measurement, a key of `Block.values`.
    words : str
        Label of the axis.
    statistic : {'quantile', 'rate', 'mean', 'rms', 'sd', 'trimmed_mean'}
        Statistic over the trials.
    q : float
        Level, if it is a quantile.
    interval : str, optional
        Description of the confidence interval in the summary; None if it has none.
    share : bool
        If True, values are in [0, 1] and the axis is linear.
    """

    of: str
    words: str
    statistic: Literal["quantile", "rate", "mean", "rms", "sd", "trimmed_mean"] = "quantile"
    q: float = 0.9
    interval: str | None = None
    share: bool = False

    @property
    def resampled(self) -> bool:
        """True if claims can be about this metric, because the resampler supports its statistic."""
        unknown = self.statistic in ("trimmed_mean", "sd")
        return not unknown and (self.statistic, self.of) != ("rate", "error")

    @property
    def signed(self) -> bool:
        """True if values may be negative; the axis is then linear."""
        return self.of == "signed" and self.statistic == "mean"


METRICS = {
    "mean_error": Metric("error", "mean error", "mean", interval=NORMAL),
    "rmse": Metric("error", "root mean square error", "rms"),
    "q50": Metric("error", "error (median)", q=0.5),
    "q90": Metric("error", "error (0.9 quantile)", interval=ORDER),
    "trimmed_mean": Metric("error", "error\n(10% trimmed mean)", "trimmed_mean", interval=TRIMMED),
    "failure_rate": Metric("error", "failure rate", "rate", interval=JEFFREYS, share=True),
    "sampling_q90": Metric("sampling", "sampling error\n(0.9 quantile)"),
    "bias_q90": Metric("bias", "bias (0.9 quantile)"),
    "noise_q90": Metric("noise", "noise (0.9 quantile)"),
    "private_q90": Metric("private", "bias + noise\n(0.9 quantile)"),
    "width_q50": Metric("width", "interval width\n(median)", q=0.5),
    "miss_rate": Metric(
        "missed", "share of intervals\nthat miss", "rate", interval=JEFFREYS, share=True
    ),
    "width_ratio_q50": Metric("width_ratio", "width over the\nnon-private one (median)", q=0.5),
    "outside_q90": Metric("outside", "share of records outside\n(0.9 quantile)", share=True),
    "tv_q50": Metric("tv", "total variation (median)", q=0.5),
    "tv_q90": Metric("tv", "total variation\n(0.9 quantile)"),
    "error_over_guarantee_q90": Metric("promise", "error over the\npromised one (0.9 quantile)"),
    "core_fraction_q50": Metric("core", "core's share of\nthe records (median)", q=0.5, share=True),
    "budget_fraction_spent": Metric(
        "spent", "share of the budget\nthat is spent", q=0.0, share=True
    ),
    # Signed errors exist for numbers only: the mean error of vectors would be a vector.
    "bias": Metric("signed", "bias (mean signed error)", "mean", interval=NORMAL),
    "signed_sd": Metric("signed", "standard deviation", "sd"),
}
# Measurements that only some trials have: those with an interval, a scale, a promised accuracy, a
# filter, or an unspent part of the budget. For numbers the sign of the error is stored, because it
# takes a thirtieth of the space of a signed error.
EXTRAS = (*dict.fromkeys(m.of for m in METRICS.values() if m.of not in ERRORS), "sign")


def _known(name: str) -> str:
    if name not in METRICS:
        raise ValueError(f"choose from {', '.join(METRICS)}")
    return name


MetricName = Annotated[str, AfterValidator(_known)]


@dataclass(frozen=True)
class Variable:
    """Variable x in which an exponent s is fitted: n ~ x^s.

    Parameters
    ----------
    column : str
        Column of results that holds the amount.
    x : callable
        Function from the amounts to x.
    base : str
        Formula of x in plain text.
    axis : str
        Label of the axis in mathematical text: x if `shows_x`, otherwise the amount.
    shows_x : bool
        If True, figures show x instead of the amount.
    """

    column: str
    x: Callable[[Floats], Floats]
    base: str
    axis: str
    shows_x: bool = False


def _inverse(one: Symbol) -> Variable:
    """Return the variable 1/x of a quantity x written as a Greek letter."""
    return Variable(one.name, np.reciprocal, f"(1/{one.unicode})", f"${one.tex}$")


VARIABLES = {
    "n": Variable("n", np.positive, "n", "$n$"),
    **{name: _inverse(SYMBOLS[name]) for name in ("alpha", "epsilon", "rho", "mu")},
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
