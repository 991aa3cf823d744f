"""Curves of errors: the worst distribution, its intervals, the frame, and slopes by theory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.fallback import EXACT_RATIO, FALLBACK_NOTE, answers_without_data
from dpbench.analysis.trial_statistics import metric_interval
from dpbench.registry import ConfigError
from dpbench.report.drawing.curves import draw_curve, draw_guide, draw_outside
from dpbench.report.drawing.style import THEORY, THEORY_AT_N, Axes
from dpbench.report.run_result import Result
from dpbench.sweep.metrics import ERRORS, METRICS, VARIABLES
from dpbench.sweep.selection import BUDGET

__all__ = [
    "ABOVE", "BELOW", "BOUNDED_COLUMN", "FALLBACK", "MAX_BULK_RATIO", "MAX_ERROR_RATIO",
    "add_interval", "axis_scale",
    "check_one_budget", "check_sizes", "divide_errors", "draw_errors", "intervals_text",
    "largest_of_bulk", "leave_frame", "select_worst",
]  # fmt: skip

MAX_ERROR_RATIO = 1e9  # largest ratio of two errors in a panel; larger errors leave the frame
BOUNDED_COLUMN = "q90"  # column to which lower bounds apply
MAX_BULK_RATIO = 1e4  # largest ratio of an error to the median of all curves at the same place
# Texts of the legend for triangles at the edges of the frame.
ABOVE = "above the frame"
BELOW = "below the frame"
FALLBACK = f"{BELOW}: {FALLBACK_NOTE}".replace(" what", "\nwhat")


def check_one_budget(rows: pd.DataFrame, where: str, way_out: str = "") -> None:
    """Check that a figure selects a single budget, because some figures can draw only one.

    `rows` has a row for each planned result that the figure selects. The error message names the
    figure's place `where` in the configuration, and another remedy `way_out`.
    """
    budgets = rows.loc[rows["privacy"] != "none", BUDGET].drop_duplicates()
    if len(budgets) > 1:
        raise ConfigError(f"{where}.budgets: {len(budgets)} budgets; choose one{way_out}")


def check_sizes(rows: pd.DataFrame, sizes: Iterable[int], where: str) -> None:
    """Check that the sweep runs all sample sizes n that a figure shows.

    `rows` has a row for each planned result that the figure selects. The error message names the
    figure's place `where` in the configuration.
    """
    for n in set(sizes) - set(rows["n"]):
        raise ConfigError(f"{where}.n: {n}: the sweep does not run it")


def add_interval(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Add the columns ``low`` and ``high``, the ends of the 95% interval of a metric in each row.

    An end is NaN if it is infinite, or if the metric has no interval.
    """
    low, high = metric_interval(rows, metric)
    # failures give infinite ends, which cannot be drawn
    return rows.assign(low=low.replace(np.inf, np.nan), high=high.replace(np.inf, np.nan))


def intervals_text(metrics: Iterable[str]) -> str:
    """Describe the intervals of some metrics in words, for the caption of a figure."""
    intervals = dict.fromkeys(METRICS[metric].interval for metric in metrics)
    texts = [words for words in intervals if words]
    return f"bands: {'; '.join(texts)}" if texts else "no intervals are drawn"


def axis_scale(rows: pd.DataFrame, metric: str) -> str:
    """Return the scale of the vertical axis for a metric, ``linear`` or ``log``.

    Linear for shares, for numbers that may be negative, and for means of errors that are all 0 or
    1. Such means are recognised because they equal the squared ``rmse``.
    """
    description = METRICS[metric]
    rate = description.statistic == "mean" and np.allclose(rows["rmse"] ** 2, rows[metric], atol=0)
    return "linear" if description.share or description.signed or rate else "log"


def select_worst(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Select the distribution with the largest value of a metric, for each point of each curve.

    The column ``x`` of `rows` holds positions on the horizontal axis. One row is returned for each
    point, in the order of ``x``.
    """
    point = ["estimator", "family", *BUDGET, "n", "x"]
    worst = rows.dropna(subset=[metric]).groupby(point, dropna=False)[metric].idxmax()
    return rows.loc[worst].sort_values("x", kind="stable")


def leave_frame(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Take values out of the curves of a logarithmic axis that would make it useless.

    A value is tiny in one of three cases. First, it is 0, which has no place on the axis. Second,
    the estimator answers the mean without data, see `dpbench.analysis.fallback`. Third, an error or
    a part of an error is at most 1e-9 (`EXACT_RATIO`) of the sampling error in the same row, which
    a rounding error is. Tiny values do not determine the frame. All other values, and the lower
    bounds, do. If there are none, sampling errors determine the frame. A tiny value that lies above
    half of the least of these numbers is drawn as any other.

    The columns ``low`` and ``high`` of `rows` hold the ends of intervals. In the result, NaN stands
    for the values that leave the frame. The added column ``below`` holds the text of the legend for
    these values, and is blank for others. The added column ``floor`` holds the lower end of the
    frame if a value leaves it, else NaN.
    """
    value, sampling = rows[metric], rows["sampling_q90"]
    fallback = answers_without_data(rows)
    tiny = fallback | (value <= 0)
    if METRICS[metric].of in ERRORS:
        tiny |= (value <= EXACT_RATIO * sampling) & (sampling > 0)
    bound = rows["lower_bound"] if metric == BOUNDED_COLUMN else value.iloc[:0]
    candidates = (pd.concat([value[~tiny], bound]), sampling)
    lowest = (numbers[numbers > 0].min() for numbers in candidates)
    floor = next((low / 2 for low in lowest if np.isfinite(low)), np.nan)
    below = tiny & ~(value >= floor)
    text = np.where(fallback, FALLBACK, BELOW)
    return rows.assign(
        **{metric: value.mask(below)},
        low=rows["low"].mask(rows["low"] < floor / MAX_ERROR_RATIO, 0).mask(below),
        high=rows["high"].mask(below),
        below=np.where(below, text, ""),
        floor=floor if below.any() else np.nan,
    )


def largest_of_bulk(rows: pd.DataFrame, metric: str) -> float:
    """Return the largest value of a metric in a panel without those far above other curves.

    A value is far above if it exceeds 1e4 (`MAX_BULK_RATIO`) times the lower median of the curves'
    values at the same ``x``. NaN if there is no finite positive value.
    """
    positive = rows[np.isfinite(rows[metric]) & (rows[metric] > 0)]
    middle = positive.groupby("x")[metric].transform(lambda v: v.quantile(0.5, "lower"))
    return float(positive.loc[positive[metric] <= MAX_BULK_RATIO * middle, metric].max())


def divide_errors(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Divide errors and the ends of their intervals by the lower bound, or by the smallest error.

    `rows` comes from `leave_frame`. A family under a budget has one reference at each n: its lower
    bound, or its smallest error if the metric has no lower bound or the bound is missing at some n.
    The column ``lower_bound`` of the result is 1 if the bound is the reference, else NaN.
    """
    problem = ["family", *BUDGET]
    at_n = rows.groupby([*problem, "n"], dropna=False)
    bound = at_n["lower_bound"].transform("min")
    usable = np.isfinite(bound) & (bound > 0) & (metric == BOUNDED_COLUMN)
    bounded = usable.groupby([rows[name] for name in problem], dropna=False).transform("all")
    reference = bound.where(bounded, at_n[metric].transform("min"))
    ratios = rows.assign(
        **{name: rows[name] / reference for name in (metric, "low", "high")},
        lower_bound=np.where(bounded, 1.0, np.nan),
    )
    return ratios.assign(floor=rows["floor"].mask(rows["floor"].notna(), ratios[metric].min() / 2))


def draw_errors(
    ax: Axes,
    curve: pd.DataFrame,
    metric: str,
    parameter: str,
    label: str,
    look: dict[str, Any],
    result: Result | None,
) -> None:
    """Draw a curve of errors with its 95% intervals, and the slopes that claims predict.

    The points of the curve come from `select_worst` and, for a logarithmic axis, `leave_frame`. The
    column ``x`` holds their positions, on the axis of the variable `parameter`. An infinite value
    leaves a gap in the curve.
    Without a `result` there are no slopes. The look comes from
    `dpbench.report.drawing.style.line_styles`.
    """
    ends = (curve["low"], curve["high"])
    draw_curve(ax, curve["x"], curve[metric], *ends, label=label, look=look)
    if "below" in curve:
        for text, points in curve[curve["below"] != ""].groupby("below"):
            draw_outside(ax, points["x"], label=str(text), look=look)
    if result is not None:
        _draw_slopes(ax, curve, metric, parameter, result)


def _draw_slopes(
    ax: Axes, curve: pd.DataFrame, metric: str, parameter: str, result: Result
) -> None:
    """Draw lines with the slopes that the claims of the study predict for a curve.

    `parameter` is the variable on the horizontal axis. A claim is a prediction of a theorem that
    the study tests. Each line goes through the geometric mean of the curve's values.
    """
    # The curve has a single family, estimator and budget. A claim is about n, over its regime of
    # n, or about another parameter at fixed n.
    study, row = result.study, curve.iloc[0]
    curve_labels = {
        "metric": metric,
        "distribution": study.families[row["family"]].label(parameter),
        "estimator": study.estimators[row["estimator"]].label(parameter),
        **{name: row[name] for name in BUDGET if name != parameter and pd.notna(row[name])},
    }
    for claim in result.claims.to_dict("records"):
        inverse = claim["variable"] == "alpha"  # claims about alpha predict s in n ~ (1/alpha)^s
        variable = VARIABLES.get("n" if inverse else claim["variable"])
        theorem = study.all_claims[claim["claim"]].statement
        if any(claim[name] != value for name, value in curve_labels.items()) or variable is None:
            continue
        if variable.column != parameter or (parameter != "n" and theorem.of != "fixed_n"):
            continue
        shown = curve[np.isfinite(curve[metric]) & (curve[metric] > 0)]
        if parameter == "n":
            shown = shown[shown["n"].between(claim["n_low"], claim["n_high"])]
        exponent = -1 / claim["predicted"] if inverse else claim["predicted"]
        shape = variable.x(shown[parameter].to_numpy(float)) ** exponent
        if shape.size:
            scale = np.exp(np.mean(np.log(shown[metric] / shape)))
            slope = "slowest slope by theory" if theorem.at_most else "slope by theory"
            limit = bool(np.isnan(claim["exact_at_run_n"]))
            label, look = (slope, THEORY) if limit else ("exact slope at these n", THEORY_AT_N)
            draw_guide(ax, shown["x"], scale * shape, label=label, look=look)
