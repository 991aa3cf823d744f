"""Figures of errors against n, and against another parameter."""

from __future__ import annotations

import inspect
import itertools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Annotated, Any, Literal

import numpy as np
import pandas as pd
from pydantic import Field

from dpbench.analysis.result import Result
from dpbench.analysis.study import Study
from dpbench.analysis.summary import metric_interval
from dpbench.arrays import Floats
from dpbench.output.axes import set_horizontal_ticks
from dpbench.output.style import (
    BOUND,
    GUIDE,
    GUIDE_DASHES,
    THEORY,
    Axes,
    line_styles,
    natural_sort_key,
    number_text,
)
from dpbench.privacy import AMOUNTS
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import Looks, Panel, SelectingFigure
from dpbench.report.labels import Labels, axis_label, metric_text, plain_text
from dpbench.sweep.metrics import METRICS, VARIABLES, MetricName
from dpbench.sweep.selection import BUDGET, KEY, rows_of_budget, swept_columns
from dpbench.theory.bounds.class_bound import LOCAL_BOUND_NAME

__all__ = ["GUIDES", "AgainstParameter", "ErrorAgainstN", "axis_scale", "check_one_budget"]
__all__ += ["check_sizes", "intervals_text"]

MAX_MARKERS = 15  # markers on a curve
MAX_ERROR_RATIO = 1e9  # largest ratio of two errors in a panel; larger errors leave the frame
BOUNDED_COLUMN = "q90"  # column to which lower bounds apply


def check_one_budget(rows: pd.DataFrame, where: str, way_out: str = "") -> None:
    """Check that a figure selects a single budget, because some figures can draw only one.

    Parameters
    ----------
    rows : DataFrame
        A row for each planned result that the figure selects.
    where : str
        Place of the figure in the configuration, for the error message.
    way_out : str
        Another remedy to name in the message, by default none.

    Raises
    ------
    ConfigError
        If the rows have several budgets.
    """
    budgets = rows.loc[rows["privacy"] != "none", BUDGET].drop_duplicates()
    if len(budgets) > 1:
        raise ConfigError(f"{where}.budgets: {len(budgets)} budgets; choose one{way_out}")


def check_sizes(rows: pd.DataFrame, sizes: Iterable[int], where: str) -> None:
    """Check that the sweep runs all sample sizes n that a figure shows.

    Parameters
    ----------
    rows : DataFrame
        A row for each planned result that the figure selects.
    sizes : iterable of int
        Sample sizes that the figure shows.
    where : str
        Place of the figure in the configuration, for the error message.

    Raises
    ------
    ConfigError
        If the sweep does not run one of these sample sizes.
    """
    for n in set(sizes) - set(rows["n"]):
        raise ConfigError(f"{where}.n: {n}: the sweep does not run it")


def _add_interval(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Add the columns ``low`` and ``high``, the ends of the 95% interval of a metric in each row.

    They are NaN for metrics without an interval.
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
    """Return the scale of the vertical axis for a metric.

    Parameters
    ----------
    rows : DataFrame
        Rows of a summary.
    metric : str
        Metric to draw, a column of the summary.

    Returns
    -------
    {'linear', 'log'}
        Linear for shares, for numbers that may be negative, and for means of errors that are all 0
        or 1. Such means are recognised because they equal the squared ``rmse``.
    """
    description = METRICS[metric]
    rate = description.statistic == "mean" and np.allclose(rows["rmse"] ** 2, rows[metric], atol=0)
    return "linear" if description.share or description.signed or rate else "log"


def _draw_curve(
    ax: Axes, rows: pd.DataFrame, metric: str, parameter: str, style: Any, result: Result
) -> None:
    """Draw the largest value of a metric at each position on the horizontal axis, as a curve.

    The column ``x`` of `rows` holds the positions. The curve has its 95% intervals as a band, and
    lines with the slopes that claims predict. An infinite value leaves a gap in the curve.
    """
    worst = rows.loc[rows.groupby("x")[metric].idxmax()]
    shown, marker_step = worst[metric].replace(np.inf, np.nan), -(-len(worst) // MAX_MARKERS)
    ax.plot(worst["x"], shown, markevery=marker_step, **style)
    if worst["low"].notna().any():  # an empty band would give an axis without points a range
        band = {"color": style["color"], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(worst["x"], worst["low"], worst["high"], **band)
    _draw_slopes(ax, worst, metric, parameter, result)


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
            label = slope if np.isnan(claim["at_these_n"]) else "exact slope at these n"
            ax.plot(shown["x"], scale * shape, label=label, **THEORY)


@validated
class ErrorAgainstN(SelectingFigure):
    """Figure of the worst error over the distributions of each family, against the sample size n.

    Dotted lines have the slope that a theorem predicts, and go through the geometric mean of the
    measured errors. Bands are 95% intervals for the worst distribution, if the metric has
    intervals.

    The black line is a lower bound. The bound is proved for a class of distributions. Every private
    estimator has an error of at least this size on some distribution of the class, but may have a
    smaller error on others. A vertical grey line marks the n beyond which the sampling error
    exceeds the cost of privacy in the bound.

    Parameters
    ----------
    metric : str
        Metric on the vertical axis, a column of the summary.
    by : {'k', 'family', 'budget'}
        Property in which the panels differ: the order k of the bounded moment, the family or the
        budget. Families in one panel have separate lines.
    """

    metric: MetricName = "q90"
    by: Literal["k", "family", "budget"] = "k"

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        if self.by != "budget":
            check_one_budget(rows, where, ", or by: budget")

    def describe(self) -> tuple[str, str]:
        return f"{plain_text(metric_text(self.metric))} against n", intervals_text([self.metric])

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self.rows(result).dropna(subset=[self.metric])
        rows = _add_interval(rows, self.metric).assign(x=rows["n"])
        parts = list(self._split_panels(rows, words))
        several = any(panel["family"].nunique() > 1 for _, panel in parts)
        lines = {}
        for label, family in rows[["estimator", "family"]].drop_duplicates().to_numpy():
            law = words.family(family, *(["k"] if self.by == "k" else [])) if several else ""
            lines[label, family] = ", ".join(filter(None, [words.estimator(label), law]))
        styles = line_styles(lines.values())
        looks = {curve: {"label": line, **styles[line]} for curve, line in lines.items()}
        yscale = axis_scale(rows, self.metric)
        for title, panel in parts:
            yield partial(
                self._draw_panel, panel, {"title": title, "yscale": yscale}, looks, result
            )

    def _split_panels(
        self, rows: pd.DataFrame, words: Labels
    ) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the title of each panel, and the rows of the summary that it shows."""
        if self.by == "budget":
            free = rows["privacy"] == "none"
            for budget in words.study.budgets.values():
                paid = rows_of_budget(rows, budget.value)
                if paid.any():
                    yield words.budget(budget.value.columns), rows[paid | free]
            return
        value: Any
        panels = rows.groupby(self.by, dropna=False)
        for value, panel in sorted(panels, key=lambda group: natural_sort_key(str(group[0]))):
            if self.by == "family":
                yield words.family(value), panel
            else:
                yield "" if pd.isna(value) else f"$k = {value:g}$", panel

    def _draw_panel(
        self, rows: pd.DataFrame, options: dict[str, str], looks: Any, result: Result, ax: Axes
    ) -> None:
        positive = rows.loc[np.isfinite(rows[self.metric]) & (rows[self.metric] > 0), self.metric]
        top = MAX_ERROR_RATIO * positive.min()
        if positive.max() > top:  # diverged estimates may reach 1e300: cut them off
            ax.set_ylim(positive.min() / 2, top)
            columns = [self.metric, "low", "high"]
            rows = rows.assign(**{name: rows[name].clip(upper=10 * top) for name in columns})
        for key, curve in rows.groupby(["estimator", "family"]):
            _draw_curve(ax, curve, self.metric, "n", looks[key], result)
        if self.metric == BOUNDED_COLUMN:
            self._draw_bound(ax, rows, min(positive.max(), top))
            for n in _crossings(rows, result.study):
                ax.axvline(n, label="sampling overtakes privacy", **GUIDE | {"linewidth": 1})
        ax.set(xscale="log", xlabel="$n$", ylabel=METRICS[self.metric].words, **options)
        set_horizontal_ticks(ax, rows["n"])

    def _draw_bound(self, ax: Axes, rows: pd.DataFrame, highest: float) -> None:
        """Draw the lower bound on errors against n, and shade the area below it.

        An infinite bound leaves the frame.
        """
        # Under several budgets draw the smallest bound. Errors without privacy may lie below it.
        # Draw bounds of the local model only if no other estimator is in the panel.
        private = rows[rows["privacy"] != "none"]
        central = private[private["bound_name"] != LOCAL_BOUND_NAME]
        private = private if central.empty else central
        bound = private.groupby("n")["lower_bound"].min().dropna()
        if not np.isfinite(bound).any():
            return
        highest = 2 * max(bound[np.isfinite(bound)].max(), highest)
        bottom, bound = bound.min() / 2, bound.clip(upper=10 * highest)
        ground = bound / MAX_ERROR_RATIO  # low enough if panels share a lower frame
        ax.plot(bound.index, bound, label="lower bound", **BOUND)
        ax.fill_between(bound.index, bound, ground, color="black", alpha=0.08, linewidth=0)
        ax.set_ylim(bottom, highest)


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


@dataclass(frozen=True)
class Guide:
    """Formula that a figure draws as a line for comparison, and the label of the line.

    The arguments of the formula are columns of the summary.
    """

    label: str
    formula: Callable[..., Floats]

    @property
    def needs(self) -> list[str]:
        """Return the columns that the formula takes as arguments."""
        return list(inspect.signature(self.formula).parameters)


# Formulas for comparison: rates without their constants, and a share with its constants.
GUIDES = {
    # Lower bounds of Z24 for records of norm 1, whose constants are not known.
    "pure": Guide(r"$d/(n\varepsilon)$", lambda d, n, epsilon: d / (n * epsilon)),
    "approx": Guide(
        r"$\sqrt{d\ln(1/\delta)}/(n\varepsilon)$",
        lambda d, n, epsilon, delta: np.sqrt(-d * np.log(delta)) / (n * epsilon),
    ),
    # Share of the records that remain in a core of friends if a share eta of them are outliers.
    "core": Guide(r"$(1-\eta)(1-2\eta)$", lambda eta: (1 - eta) * np.maximum(1 - 2 * eta, 0)),
}


# Columns of a key that can be the parameter of an `AgainstParameter` figure.
KEY_PARAMETERS = ("k", "d", *AMOUNTS)

Size = Annotated[int, Field(ge=1)]


@validated
class AgainstParameter(SelectingFigure):
    """Figure of columns of the summary against a parameter, a panel for each column and family.

    Dotted lines have the slope that a theorem predicts in the parameter at fixed n. They go through
    the geometric mean of the measured values.

    Parameters
    ----------
    parameter : str
        Column of the summary on the horizontal axis: the order ``k`` of the bounded moment, the
        dimension ``d``, an amount of the budgets, or a parameter with a list of values. The axis
        of ``delta`` shows ln(1/delta).
    n : int or list of int
        Sample sizes, with a line for each.
    metrics : list of str
        Columns of the summary on the vertical axis, with panels for each.
    logarithmic : bool
        Whether the horizontal axis is logarithmic.
    guides : list of str
        Names of formulas in `GUIDES` to draw for comparison.
    """

    parameter: str
    n: Size | Annotated[list[Size], Field(min_length=1)]
    metrics: Annotated[list[MetricName], Field(min_length=1)] = Field(
        default_factory=lambda: ["q90"]
    )
    logarithmic: bool = True
    guides: list[Literal["pure", "approx", "core"]] = Field(default_factory=list)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        no_parameter = {*KEY, "lower_bound", "bound_name"} - {*KEY_PARAMETERS}
        choosable = [str(name) for name in rows if name not in no_parameter]
        if self.parameter not in choosable:
            choices = ", ".join(choosable)
            raise ConfigError(f"{where}.parameter: {self.parameter!r}: choose from {choices}")
        check_sizes(rows, self._sizes, where)
        for name in self.guides:
            needs = GUIDES[name].needs
            if self.parameter not in needs or set(needs) - {self.parameter, "d", "n", *BUDGET}:
                raise ConfigError(
                    f"{where}.guides: {name!r}: it needs the columns {', '.join(needs)}"
                )
        sections = {"estimators": "estimator", "families": "family"}
        if self.parameter in AMOUNTS:
            rows, sections = rows[rows["privacy"] != "none"], {"budgets": "privacy"}
        numbers = pd.to_numeric(rows[self.parameter], errors="coerce").notna()
        for section, column in sections.items():
            has_number = numbers.groupby(rows[column]).any()
            for label in has_number.index[~has_number]:
                raise ConfigError(
                    f"{where}.{section}: {label!r}: leave it out: it has no {self.parameter}"
                )

    @property
    def _sizes(self) -> list[int]:
        return self.n if isinstance(self.n, list) else [self.n]

    def describe(self) -> tuple[str, str]:
        metrics = " and ".join(plain_text(metric_text(metric)) for metric in self.metrics)
        return f"{metrics} against {plain_text(self.parameter)}", intervals_text(self.metrics)

    def rows(self, result: Result) -> pd.DataFrame:
        rows = super().rows(result)
        rows = rows[rows["n"].isin(self._sizes)].astype({self.parameter: float})
        return rows.dropna(subset=[self.parameter])

    def _panels(self, result: Result, words: Labels) -> Iterator[Panel]:
        rows = self._add_line_columns(self.rows(result), words)
        looks = line_styles(rows["line"])
        laws = list(rows.groupby("law", sort=False))
        for metric in self.metrics:
            yscale = axis_scale(rows, metric)
            for law, panel in laws:
                options = {"title": str(law) if len(laws) > 1 else "", "yscale": yscale}
                yield partial(self._draw_panel, panel, metric, options, looks, result)

    def _add_line_columns(self, rows: pd.DataFrame, words: Labels) -> pd.DataFrame:
        """Add three columns that say where a row is drawn.

        ``x`` is the position on the horizontal axis, ``law`` the title of the panel, and ``line``
        the name of the line in the legend.
        """
        study = words.study
        columns = swept_columns(study.families.values(), study.estimators.values())[1]
        parameters = {
            column: name for name, column in columns.items()
        }  # the estimators' parameter names
        swept = parameters.get(self.parameter, self.parameter)
        names = rows["estimator"].map(lambda label: words.estimator(label, swept))
        budgets = words.budgets(rows, self.parameter)
        sizes = [f"$n = {number_text(n)}$" if len(self._sizes) > 1 else "" for n in rows["n"]]
        parts = zip(names, budgets, sizes, strict=True)
        variable, x = VARIABLES.get(self.parameter), rows[self.parameter].to_numpy()
        return rows.assign(
            x=variable.x(x) if variable and variable.shows_x else x,
            law=rows["family"].map(lambda label: words.family(label, self.parameter)),
            line=[", ".join(filter(None, part)) for part in parts],
        )

    def _draw_panel(
        self, rows: pd.DataFrame, metric: str, options: Any, looks: Looks, result: Result, ax: Axes
    ) -> None:
        finite = _add_interval(rows, metric).dropna(subset=[metric])
        for line, points in finite.groupby("line"):
            style = {"label": line, **looks[str(line)]}
            _draw_curve(ax, points, metric, self.parameter, style, result)
        self._draw_guides(ax, rows)
        ax.set(xlabel=axis_label(self.parameter), ylabel=METRICS[metric].words, **options)
        if self.logarithmic:
            ax.set_xscale("log")
        set_horizontal_ticks(ax, rows["x"] if self.logarithmic else [])
        if not self.logarithmic and np.all(rows["x"] == np.round(rows["x"])):
            ax.set_xticks(np.unique(rows["x"]))

    def _draw_guides(self, ax: Axes, rows: pd.DataFrame) -> None:
        for name, dash in zip(self.guides, itertools.cycle(GUIDE_DASHES)):
            guide = GUIDES[name]
            needed = rows.dropna(subset=guide.needs).drop_duplicates(guide.needs)
            others = [column for column in guide.needs if column != self.parameter]
            for _, line in needed.groupby(others) if others else [((), needed)]:
                points = line.sort_values("x")
                height = guide.formula(**points[guide.needs].astype(float))
                ax.plot(points["x"], height, label=guide.label, **GUIDE | {"linestyle": dash})
