"""Figure of errors against n, with the lower bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import ClassVar

import numpy as np
import pandas as pd

from dpbench.analysis.factors import add_bounds
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.axes import set_horizontal_ticks
from dpbench.report.drawing.curves import draw_bound, draw_outside, mark_guide
from dpbench.report.drawing.style import GUIDE, THEORY, Axes, line_styles
from dpbench.report.error_curves import (
    ABOVE,
    BOUNDED_COLUMN,
    MAX_BULK_RATIO,
    MAX_ERROR_RATIO,
    add_interval,
    axis_scale,
    divide_errors,
    draw_errors,
    intervals_text,
    largest_of_bulk,
    leave_frame,
    select_worst,
)
from dpbench.report.figures import Looks, Panel
from dpbench.report.labels import metric_text, plain_text
from dpbench.report.panel_split import PanelRows, SplitFigure
from dpbench.report.run_result import Result
from dpbench.report.study import Compared, Study
from dpbench.sweep.metrics import ERRORS, METRICS, MetricName
from dpbench.sweep.selection import rows_of_budget
from dpbench.theory.bounds.class_bound import LOCAL_BOUND_NAME

__all__ = ["BOUND_LABEL", "OVER", "ErrorAgainstN"]

BOUND_LABEL = "lower bound: worst case over the class"
SHORT_BOUND_LABEL = "lower bound"  # of errors divided by it
OVER = {True: "the lower bound", False: "the smallest"}  # references of relative errors
BOUND_NOTE = "errors on one easy distribution of the class may lie below the lower bound"


@validated
class ErrorAgainstN(SplitFigure):
    """Figure of the worst error over the distributions of each family, against the sample size n.

    Dotted lines have the slope that a theorem predicts, and go through the geometric mean of the
    measured errors. Bands are 95% intervals for the worst distribution, if the metric has
    intervals. Triangles at the upper edge are errors above 1e4 times the median of the curves at
    their n. A horizontal dotted line is the limit that claims of the study state for the metric.

    The black line is a lower bound. The bound is proved for a class of distributions. Every private
    estimator has an error of at least this size on some distribution of the class, but may have a
    smaller error on others. A vertical grey line marks the n beyond which the sampling error
    exceeds the cost of privacy in the bound.

    Parameters
    ----------
    metric : str
        Metric on the vertical axis, a column of the summary.
    relative : bool
        Whether errors are divided by the lower bound, False by default. A flat line then has the
        rate of the bound, and its height is the constant. A family without a lower bound has its
        smallest error at each n as the reference. Names stand at the ends of the lines, and
        estimators without privacy are left out.
    """

    metric: MetricName = "q90"
    relative: bool = False

    FIRST_SPLIT: ClassVar[tuple[str, ...]] = ("k",)
    ONE_BUDGET: ClassVar[bool] = True  # because a panel has one lower bound

    def describe(self) -> tuple[str, str]:
        intervals = intervals_text([self.metric])
        if self.metric == BOUNDED_COLUMN:
            intervals += f"; {BOUND_NOTE}"
        over = ", over the lower bound or the smallest error," if self.relative else ""
        return f"{plain_text(metric_text(self.metric))}{over} against n", intervals

    @property
    def names_lines(self) -> bool:
        return self.relative

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        super()._check(rows, study, where)
        description = METRICS[self.metric]
        if not self.relative:
            return
        if description.of not in ERRORS or description.share or description.signed:
            raise ConfigError(
                f"{where}.relative: metric {self.metric!r} is not a size of errors; choose another "
                "metric, such as q90"
            )
        if (rows["privacy"] == "none").all():
            raise ConfigError(f"{where}.relative: no selected estimator is private; select one")

    def _points(self, result: Result) -> pd.DataFrame:
        rows = self.summary_rows(result).assign(x=lambda rows: rows["n"])
        if self.relative:
            private = add_bounds(rows[rows["privacy"] != "none"])
            rows = private.assign(lower_bound=private["bound"])
        rows = select_worst(add_interval(rows, self.metric), self.metric)
        if self.relative:
            return divide_errors(leave_frame(rows, self.metric), self.metric)
        is_log = axis_scale(rows, self.metric) == "log"
        return leave_frame(rows, self.metric) if is_log else rows

    def compared(self, result: Result) -> Compared:
        rows = self._points(result) if self.relative else self.summary_rows(result)
        over = _reference(rows) if self.relative else ""
        return self._compare(rows, "n", self.metric, result.study, over)

    def _draw_split(
        self, panels: Sequence[PanelRows | None], result: Result
    ) -> Iterator[Panel | None]:
        rows = pd.concat([panel.rows for panel in panels if panel])
        looks = line_styles(rows["line"], free=rows.loc[rows["privacy"] == "none", "line"])
        yscale = "log" if "below" in rows else "linear"
        tops = [2 * largest_of_bulk(panel.rows, self.metric) for panel in panels if panel]
        top = np.nanmax(tops) if yscale == "log" else np.inf
        for panel in panels:
            if panel is None:
                yield None
                continue
            options = {"title": panel.title, "yscale": yscale}
            yield partial(self._draw_panel, panel.rows, options, looks, result, top)

    def _draw_panel(
        self,
        rows: pd.DataFrame,
        options: dict[str, str],
        looks: Looks,
        result: Result,
        top: float,
        ax: Axes,
    ) -> None:
        """Draw a panel; values above `top` leave it."""
        positive = rows.loc[np.isfinite(rows[self.metric]) & (rows[self.metric] > 0), self.metric]
        bounds = rows.loc[rows["lower_bound"] > 0, "lower_bound"]
        least = float(np.nanmin([positive.min(), bounds.min(), np.inf]))
        top = min(top, MAX_ERROR_RATIO * least)
        floor = rows["floor"].min() if "floor" in rows else np.nan
        above = rows[(rows[self.metric] > top) & np.isfinite(rows[self.metric])]
        if not above.empty:  # diverged estimates may reach 1e300: cut them off
            ax.set_ylim(np.nanmin([least / 2, floor]), top)
            for line, points in above.groupby("line"):
                draw_outside(ax, points["x"], label=ABOVE, look=looks[str(line)], above=True)
            columns = [self.metric, "low", "high"]
            far = MAX_BULK_RATIO * top
            rows = rows.assign(**{name: rows[name].clip(upper=far) for name in columns})
        elif np.isfinite(floor):
            ax.set_ylim(floor, 2 * np.nanmax([positive.max(), floor]))
        for line, curve in rows.groupby("line"):
            label = str(line)
            slopes = None if self.relative else result
            draw_errors(ax, curve, self.metric, "n", label, looks[label], slopes)
        limits = set() if self.relative else _claimed_limits(result, self.metric)
        if len(limits) == 1:
            mark_guide(ax.axhline(*limits, label="limit by theory", **THEORY))
        if self.metric == BOUNDED_COLUMN:
            self._draw_bound(ax, rows, positive[positive <= top])
            for n in _crossings(rows, result.study):
                look = GUIDE | {"linewidth": 1}
                mark_guide(ax.axvline(n, label="sampling overtakes privacy", **look))
        words = f"error over {_reference(rows)}" if self.relative else METRICS[self.metric].words
        ax.set(xscale="log", xlabel="$n$", ylabel=words, **options)
        set_horizontal_ticks(ax, rows["n"])

    def _draw_bound(self, ax: Axes, rows: pd.DataFrame, errors: pd.Series[float]) -> None:
        """Draw the lower bound on errors against n, and shade the area below it.

        The frame shows the bound and all `errors` of the panel. An infinite bound leaves it.
        """
        # Under several budgets draw the smallest bound. Errors without privacy may lie below it.
        # Draw bounds of the local model only if no other estimator is in the panel.
        private = rows[rows["privacy"] != "none"]
        central = private[private["bound_name"] != LOCAL_BOUND_NAME]
        private = private if central.empty else central
        bound = private.groupby("n")["lower_bound"].min().dropna()
        if not np.isfinite(bound).any():
            return
        margin, label = (1.2, SHORT_BOUND_LABEL) if self.relative else (2, BOUND_LABEL)
        highest = margin * np.nanmax([bound[np.isfinite(bound)].max(), errors.max()])
        bottom = np.nanmin([bound.min(), errors.min()]) / margin
        bound = bound.clip(upper=10 * highest)
        ground = bound / MAX_ERROR_RATIO  # low enough if panels share a lower frame
        draw_bound(ax, bound.index, bound, label=label)
        ax.fill_between(bound.index, bound, ground, color="black", alpha=0.08, linewidth=0)
        ax.set_ylim(bottom, highest)


def _reference(rows: pd.DataFrame) -> str:
    """Return words for the number by which `divide_errors` has divided the errors of some rows."""
    return OVER[bool(rows["lower_bound"].notna().all())]


def _claimed_limits(result: Result, metric: str) -> set[float]:
    """Return the upper limits that claims of the study state for a metric."""
    claims = result.claims
    of_metric = claims[(claims["variable"] == "limit") & (claims["metric"] == metric)]
    return {
        float(row["predicted"])
        for row in of_metric.to_dict("records")
        if result.study.all_claims[row["claim"]].statement.at_most
    }


def _crossings(rows: pd.DataFrame, study: Study) -> set[float]:
    """Return each n from which on a lower bound's sampling error exceeds its cost of privacy.

    Each family and budget has at most one such sample size n. Only n between the smallest and the
    largest n of `rows` are returned.
    """
    crossings = {
        study.families[label].value.crossing(variant.value)
        for label in rows["family"].unique()
        for variant in study.budgets.values()
        if rows_of_budget(rows, variant.value).any()
    }
    return {n for n in crossings if rows["n"].min() < n < rows["n"].max()}
