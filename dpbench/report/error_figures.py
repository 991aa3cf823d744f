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
from dpbench.analysis.summary import NORMAL
from dpbench.arrays import Floats
from dpbench.output.axes import ticks
from dpbench.output.style import (
    BOUND,
    GUIDE,
    GUIDE_DASHES,
    THEORY,
    Axes,
    line_styles,
    natural,
    number_text,
)
from dpbench.privacy import AMOUNTS
from dpbench.registry import ConfigError, validated
from dpbench.report.figures import Looks, Panel, SelectingFigure
from dpbench.report.labels import Labels, axis, metric_text, plain_text
from dpbench.sweep.metrics import METRICS, VARIABLES, MetricName
from dpbench.sweep.selection import BUDGET, KEY, rows_of_budget, swept_columns
from dpbench.theory.bounds.class_bound import OF_VIEWS

__all__ = ["GUIDES", "AgainstParameter", "ErrorAgainstN", "axis_scale", "check_one_budget"]
__all__ += ["check_sizes", "intervals_text"]

MOST_MARKERS = 15  # markers on a curve
MOST_DECADES = 1e9  # largest ratio of two errors in a panel; larger errors leave the frame
BOUNDED = "q90"  # column to which lower bounds apply


def check_one_budget(rows: pd.DataFrame, where: str, way_out: str = "") -> None:
    """Check that rows have a single budget, for figures that draw only one.

    Parameters
    ----------
    rows : DataFrame
    where : str
        The figure's key, for the message.
    way_out : str
        Another remedy to name in the message.

    Raises
    ------
    ConfigError
        If there are several budgets.
    """
    budgets = rows.loc[rows["privacy"] != "none", BUDGET].drop_duplicates()
    if len(budgets) > 1:
        raise ConfigError(f"{where}.budgets: {len(budgets)} budgets; choose one{way_out}")


def check_sizes(rows: pd.DataFrame, sizes: Iterable[int], where: str) -> None:
    """Check that all sample sizes of a figure are run.

    Parameters
    ----------
    rows : DataFrame
    sizes : iterable of int
    where : str
        The figure's key, for the message.

    Raises
    ------
    ConfigError
        If a sample size is not run.
    """
    for n in set(sizes) - set(rows["n"]):
        raise ConfigError(f"{where}.n: {n}: the sweep does not run it")


def _with_interval(rows: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Add ``low`` and ``high``, a 95% interval for `metric`; NaN if it has none."""
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
    # failures give infinite ends, which cannot be drawn
    return rows.assign(low=low.replace(np.inf, np.nan), high=high.replace(np.inf, np.nan))


def intervals_text(metrics: Iterable[str]) -> str:
    """Describe the intervals of some metrics in words, as `_with_interval` computes them."""
    known = dict.fromkeys(METRICS[metric].interval for metric in metrics)
    told = [words for words in known if words]
    return f"bands: {'; '.join(told)}" if told else "no intervals are drawn"


def axis_scale(rows: pd.DataFrame, metric: str) -> str:
    """Return the scale of an axis for a metric.

    Parameters
    ----------
    rows : DataFrame
    metric : str
        A column of the summary.

    Returns
    -------
    {'linear', 'log'}
        Linear for shares, for numbers with a sign, and for means of errors that are 0 or 1, which
        are recognised because they equal their squares.
    """
    about = METRICS[metric]
    rate = about.statistic == "mean" and np.allclose(rows["rmse"] ** 2, rows[metric], atol=0)
    return "linear" if about.share or about.signed or rate else "log"


def _draw_curve(
    ax: Axes, rows: pd.DataFrame, metric: str, parameter: str, look: Any, result: Result
) -> None:
    """Draw the largest value of a metric at each x; failures are gaps."""
    worst = rows.loc[rows.groupby("x")[metric].idxmax()]
    shown, every = worst[metric].replace(np.inf, np.nan), -(-len(worst) // MOST_MARKERS)
    ax.plot(worst["x"], shown, markevery=every, **look)
    if worst["low"].notna().any():  # an empty band would give an axis without points a range
        band = {"color": look["color"], "alpha": 0.2, "linewidth": 0}
        ax.fill_between(worst["x"], worst["low"], worst["high"], **band)
    _draw_slopes(ax, worst, metric, parameter, result)


def _draw_slopes(
    ax: Axes, curve: pd.DataFrame, metric: str, parameter: str, result: Result
) -> None:
    """Draw the slopes that claims predict in a parameter, through a curve's geometric mean."""
    # The curve has a single family, estimator and budget. A claim is about n, over its regime of
    # n, or about another parameter at fixed n.
    study, row = result.study, curve.iloc[0]
    about = {
        "metric": metric,
        "distribution": study.families[row["family"]].label(parameter),
        "estimator": study.estimators[row["estimator"]].label(parameter),
        **{name: row[name] for name in BUDGET if name != parameter and pd.notna(row[name])},
    }
    for claim in result.claims.to_dict("records"):
        inverse = claim["variable"] == "alpha"  # claims about alpha predict s in n ~ (1/alpha)^s
        variable = VARIABLES.get("n" if inverse else claim["variable"])
        theorem = study.all_claims[claim["claim"]].statement
        if any(claim[name] != value for name, value in about.items()) or variable is None:
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
    """Worst error over each family against n, in panels.

    Dotted lines have the slope that a claim of the study predicts, and go through the geometric
    mean of the measured errors. Bands are 95% intervals for the worst member, if the metric has
    intervals. The black line is the lower bound: no private estimator has a smaller error on all
    distributions of the class, but may have on a single one. A vertical grey line marks the n at
    which the sampling error overtakes the cost of privacy in this bound.

    Parameters
    ----------
    metric : str
        Column of the summary to draw.
    by : {'k', 'family', 'budget'}
        Property in which the panels differ. Families in one panel have separate lines.
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
        rows = _with_interval(rows, self.metric).assign(x=rows["n"])
        parts = list(self._parts(rows, words))
        several = any(panel["family"].nunique() > 1 for _, panel in parts)
        lines = {}
        for label, family in rows[["estimator", "family"]].drop_duplicates().to_numpy():
            law = words.family(family, *(["k"] if self.by == "k" else [])) if several else ""
            lines[label, family] = ", ".join(filter(None, [words.estimator(label), law]))
        styles = line_styles(lines.values())
        looks = {one: {"label": line, **styles[line]} for one, line in lines.items()}
        yscale = axis_scale(rows, self.metric)
        for title, panel in parts:
            yield partial(self._panel, panel, {"title": title, "yscale": yscale}, looks, result)

    def _parts(self, rows: pd.DataFrame, words: Labels) -> Iterator[tuple[str, pd.DataFrame]]:
        """Yield the title and the rows of each panel."""
        if self.by == "budget":
            free = rows["privacy"] == "none"
            for budget in words.study.budgets.values():
                paid = rows_of_budget(rows, budget.value)
                if paid.any():
                    yield words.budget(budget.value.columns), rows[paid | free]
            return
        value: Any
        panels = rows.groupby(self.by, dropna=False)
        for value, panel in sorted(panels, key=lambda one: natural(str(one[0]))):
            if self.by == "family":
                yield words.family(value), panel
            else:
                yield "" if pd.isna(value) else f"$k = {value:g}$", panel

    def _panel(
        self, rows: pd.DataFrame, about: dict[str, str], looks: Any, result: Result, ax: Axes
    ) -> None:
        positive = rows.loc[np.isfinite(rows[self.metric]) & (rows[self.metric] > 0), self.metric]
        top = MOST_DECADES * positive.min()
        if positive.max() > top:  # diverged estimates may reach 1e300: cut them off
            ax.set_ylim(positive.min() / 2, top)
            drawn = [self.metric, "low", "high"]
            rows = rows.assign(**{name: rows[name].clip(upper=10 * top) for name in drawn})
        for one, curve in rows.groupby(["estimator", "family"]):
            _draw_curve(ax, curve, self.metric, "n", looks[one], result)
        if self.metric == BOUNDED:
            self._draw_bound(ax, rows, min(positive.max(), top))
            for n in _crossings(rows, result.study):
                ax.axvline(n, label="sampling overtakes privacy", **GUIDE | {"linewidth": 1})
        ax.set(xscale="log", xlabel="$n$", ylabel=METRICS[self.metric].words, **about)
        ticks(ax, rows["n"])

    def _draw_bound(self, ax: Axes, rows: pd.DataFrame, highest: float) -> None:
        """Draw the lower bound and shade the area below; an infinite bound leaves the frame."""
        # Under several budgets draw the smallest bound. Errors without privacy may lie below it.
        # Draw bounds of the local model only if no other estimator is in the panel.
        private = rows[rows["privacy"] != "none"]
        central = private[private["bound_name"] != OF_VIEWS]
        private = private if central.empty else central
        bound = private.groupby("n")["lower_bound"].min().dropna()
        if not np.isfinite(bound).any():
            return
        highest = 2 * max(bound[np.isfinite(bound)].max(), highest)
        bottom, bound = bound.min() / 2, bound.clip(upper=10 * highest)
        ground = bound / MOST_DECADES  # low enough if panels share a lower frame
        ax.plot(bound.index, bound, label="lower bound", **BOUND)
        ax.fill_between(bound.index, bound, ground, color="black", alpha=0.08, linewidth=0)
        ax.set_ylim(bottom, highest)


def _crossings(rows: pd.DataFrame, study: Study) -> set[float]:
    """Return the n inside the rows' range where sampling overtakes privacy in the lower bound."""
    found = {
        study.families[label].value.crossing(one.value)
        for label in rows["family"].unique()
        for one in study.budgets.values()
        if rows_of_budget(rows, one.value).any()
    }
    return {n for n in found if rows["n"].min() < n < rows["n"].max()}


@dataclass(frozen=True)
class Guide:
    """Formula of columns of a summary, drawn for comparison under a label."""

    label: str
    formula: Callable[..., Floats]

    @property
    def needs(self) -> list[str]:
        """Return the columns that the formula takes."""
        return list(inspect.signature(self.formula).parameters)


# Formulas for comparison: rates without their constants, and an exact share.
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


# Columns of a key that can be the parameter of a figure.
OF_KEYS = ("k", "d", *AMOUNTS)

Size = Annotated[int, Field(ge=1)]


@validated
class AgainstParameter(SelectingFigure):
    """Columns of the summary against a parameter, in panels by column and distribution.

    Dotted lines have the slope that a claim of the study predicts in the parameter at fixed n,
    and go through the geometric mean of the measured values.

    Parameters
    ----------
    parameter : str
        Column of the summary on the horizontal axis: ``k``, ``d``, an amount of the budgets
        (``delta`` is drawn as ln(1/delta)), or a parameter with a list of values.
    n : int or list of int
        Sample sizes, with a line for each.
    metrics : list of str
        Columns of the summary, with panels for each.
    logarithmic : bool
        Whether the horizontal axis is logarithmic.
    guides : list of str
        Names of formulas in `GUIDES` to draw.
    """

    parameter: str
    n: Size | Annotated[list[Size], Field(min_length=1)]
    metrics: Annotated[list[MetricName], Field(min_length=1)] = Field(
        default_factory=lambda: ["q90"]
    )
    logarithmic: bool = True
    guides: list[Literal["pure", "approx", "core"]] = Field(default_factory=list)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        no_parameter = {*KEY, "lower_bound", "bound_name"} - {*OF_KEYS}
        known = [str(name) for name in rows if name not in no_parameter]
        if self.parameter not in known:
            choices = ", ".join(known)
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
            able = numbers.groupby(rows[column]).any()
            for label in able.index[~able]:
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
        rows = self._told(self.rows(result), words)
        looks = line_styles(rows["line"])
        laws = list(rows.groupby("law", sort=False))
        for metric in self.metrics:
            yscale = axis_scale(rows, metric)
            for law, panel in laws:
                about = {"title": str(law) if len(laws) > 1 else "", "yscale": yscale}
                yield partial(self._panel, panel, metric, about, looks, result)

    def _told(self, rows: pd.DataFrame, words: Labels) -> pd.DataFrame:
        """Add ``x`` on the axis, ``law`` for the panel, and ``line`` for the legend."""
        study = words.study
        columns = swept_columns(study.families.values(), study.estimators.values())[1]
        own = {column: name for name, column in columns.items()}  # the estimators' parameter names
        swept = own.get(self.parameter, self.parameter)
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

    def _panel(
        self, rows: pd.DataFrame, metric: str, about: Any, looks: Looks, result: Result, ax: Axes
    ) -> None:
        known = _with_interval(rows, metric).dropna(subset=[metric])
        for line, points in known.groupby("line"):
            look = {"label": line, **looks[str(line)]}
            _draw_curve(ax, points, metric, self.parameter, look, result)
        self._guides(ax, rows)
        ax.set(xlabel=axis(self.parameter), ylabel=METRICS[metric].words, **about)
        if self.logarithmic:
            ax.set_xscale("log")
        ticks(ax, rows["x"] if self.logarithmic else [])
        if not self.logarithmic and np.all(rows["x"] == np.round(rows["x"])):
            ax.set_xticks(np.unique(rows["x"]))

    def _guides(self, ax: Axes, rows: pd.DataFrame) -> None:
        for name, dash in zip(self.guides, itertools.cycle(GUIDE_DASHES)):
            guide = GUIDES[name]
            needed = rows.dropna(subset=guide.needs).drop_duplicates(guide.needs)
            others = [column for column in guide.needs if column != self.parameter]
            for _, line in needed.groupby(others) if others else [((), needed)]:
                points = line.sort_values("x")
                height = guide.formula(**points[guide.needs].astype(float))
                ax.plot(points["x"], height, label=guide.label, **GUIDE | {"linestyle": dash})
