"""Captions: what a figure shows and the setting, read off the result that it is drawn from.

No character of a caption means anything to LaTeX, so that it can be pasted.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import pandas as pd

from dpbench.columns import Variant
from dpbench.drawing import spaced
from dpbench.privacy import AMOUNTS
from dpbench.report.figures import DrawnFigure
from dpbench.report.words import Words
from dpbench.result import Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

__all__ = ["caption"]

# What a legend says of lines that are no measurement.
LINES = {
    "slope by theory": "dotted: the slope of theory, through the geometric mean of the points",
    "slowest slope by theory": "dotted: the slowest decrease that theory allows",
    "theory": "dotted: theory",
    "theory, all terms": "dotted: the theorem's terms added, in grey each by itself",
    "direct search": "diamonds: found by direct search",
    "sampling overtakes privacy": "vertical: where sampling overtakes privacy in the lower bound",
    "lower bound": "solid black: the lower bound, below which (shaded) no private estimator is",
}


def caption(figure: DrawnFigure, result: Result, canvas: Canvas, names: Mapping[str, str]) -> str:
    """A paragraph: the figure's caption, what is drawn, the setting, trials, seed and intervals.

    Parameters
    ----------
    figure : Figure
    result : Result
        What it is drawn from.
    canvas : matplotlib Figure
        Where it is drawn.
    names : mapping
        What it writes for entries.
    """
    rows, study = figure.rows(result), result.study
    shown, intervals = figure.told()
    entries = {text.get_text() for legend in canvas.legends for text in legend.get_texts()}
    lines = [text for label, text in LINES.items() if label in entries]
    families = [study.families[label] for label in rows["family"].unique()]
    estimators = [study.estimators[label] for label in rows["estimator"].unique()]
    sentences = [
        figure.caption.rstrip("."),
        f"Shown: {shown}",
        f"Data: {_described(families, names)}",
        f"Estimators: {_described(estimators, names)}",
        f"Budgets: {_budgets(rows, Words(study))}",
        f"{_range('n', rows['n'])}; {_range('trials per point', rows['trials'])}; "
        f"seed {result.seed}",
        "; ".join([intervals[0].upper() + intervals[1:], *lines]),
    ]
    return ". ".join(filter(None, sentences)) + ".\n"


def _described(variants: Iterable[Variant[Any]], names: Mapping[str, str]) -> str:
    """Entries with their kind and what they are given: parameters that are numbers or words."""
    entries: dict[str, list[Variant[Any]]] = {}
    for one in variants:
        entries.setdefault(one.name, []).append(one)
    texts = []
    for name, ones in entries.items():
        told = [spaced(_kind(ones[0].value))]
        value = ones[0].value
        for parameter in value if isinstance(value, Mapping) else ones[0].parameters:
            values = {one.parameters[parameter] for one in ones if _plain(one, parameter)}
            if values:
                shown = (spaced(v) if isinstance(v, str) else f"{v:g}" for v in sorted(values))
                told.append(f"{spaced(parameter)} = {', '.join(shown)}")
        texts.append(f"{names.get(name, spaced(name))} ({'; '.join(told)})")
    return ", ".join(texts)


def _plain(one: Variant[Any], parameter: str) -> bool:
    known = isinstance(one.parameters[parameter], int | float | str)
    return known and parameter not in {"kind", "_target_"}


def _kind(made: Any) -> str:
    """The name that a specification gives, or that an instance's class goes by."""
    if isinstance(made, Mapping):
        return str(made.get("kind") or made["_target_"])
    law = type(getattr(made, "distribution", made))  # of a family of one
    return next(str(name) for name, kind in law.kinds().items() if kind is law)


def _budgets(rows: pd.DataFrame, words: Words) -> str:
    """Notions, each with its amounts."""
    texts = []
    for label, paid in rows[rows["privacy"] != "none"].groupby("privacy"):
        amounts = [
            f"{name} = {', '.join(f'{value:g}' for value in sorted(paid[name].unique()))}"
            for name in AMOUNTS
            if paid[name].notna().all()
        ]
        texts.append(", ".join([words.notion(str(label)), *amounts]))
    return "; ".join(texts) or "none"


def _range(name: str, values: pd.Series[float]) -> str:
    low, high = values.min(), values.max()
    return f"{name} {low:g} to {high:g}" if low < high else f"{name} {low:g}"
