"""Captions: what a figure shows and the setting, read off the run that it is drawn from.

No character of a caption means anything to LaTeX, so that it can be pasted.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from dpbench.complexity import SampleComplexity
from dpbench.drawing import NOTIONS
from dpbench.report.figures import Figure, axis_label
from dpbench.runner.plan import Sweep, pick
from dpbench.selection import rows_about

if TYPE_CHECKING:
    from matplotlib.figure import Figure as Canvas

__all__ = ["Run", "caption", "drawn"]

# What a legend says of lines that are no measurement.
LINES = {
    "slope by theory": "dotted: the slope of theory, through the geometric mean of the points",
    "slowest slope by theory": "dotted: the slowest decrease that theory allows",
    "theory": "dotted: theory",
    "theory, all terms": "dotted: the theorem's terms added, in grey each by itself",
    "lower bound": "solid black: the lower bound, below which (shaded) no private estimator is",
}
AXES = {
    "delta": "ln(1/delta)",
    "eta": "the share eta of outliers",
    "norm": "the norm of the mean",
    "radius": "R",
    "report": "the round",
    "rounds": "the number of rounds",
    "buckets": "the number of buckets",
}


@dataclass(frozen=True)
class Run:
    """A finished run of a sweep, read back.

    Attributes
    ----------
    config : mapping
        The sweep's configuration.
    sweep : Sweep
        Made from it.
    seed : int
    summary, claims, samples : DataFrame
        Claims are named by their label; ``full`` has the budget, too.
    """

    config: Mapping[str, Any]
    sweep: Sweep
    seed: int
    summary: pd.DataFrame
    claims: pd.DataFrame
    samples: pd.DataFrame


@dataclass(frozen=True)
class Selection:
    """What a figure is about; see `dpbench.selection.rows_about`."""

    families: list[str]
    estimators: list[str] | None
    budgets: list[str] | None


def drawn(spec: Mapping[str, Any], run: Run) -> pd.DataFrame:
    """The rows of the summary that a figure is drawn from."""
    if "claims" in spec:
        labels = pick(spec["claims"], list(run.config["claims"]), "claims")
        wanted: list[Mapping[str, Any]] = [run.config["claims"][label] for label in labels]
    elif "request" in spec:
        wanted = [{**run.config["sample_complexity"][spec["request"]], **spec}]
    else:
        budget = spec["budget"]
        wanted = [{**spec, "budgets": [budget] if isinstance(budget, str) else budget}]
    chosen = pd.Series(data=False, index=run.summary.index)
    for one in wanted:
        families, estimators = one.get("families", ["*"]), one.get("estimators")
        about = rows_about(
            run.summary, Selection(families, estimators, one.get("budgets")), run.sweep
        )
        if "request" not in spec:  # estimators without privacy are drawn beside the others
            about |= rows_about(run.summary, Selection(families, estimators, None), run.sweep)
        low, high = one.get("n_min") or 1, one.get("n_max") or np.inf
        chosen |= about & run.summary["n"].between(low, high)
    rows = run.summary[chosen]
    return rows[rows["n"].isin(np.atleast_1d(spec["n"]))] if "n" in spec else rows


def caption(
    says: str,
    spec: Mapping[str, Any],
    figure: Figure,
    run: Run,
    canvas: Canvas,
    names: Mapping[str, str],
) -> str:
    """A paragraph: the sentence, what is drawn, the setting, trials, seed and intervals."""
    rows = drawn(spec, run)
    entries = {text.get_text() for legend in canvas.legends for text in legend.get_texts()}
    lines = [text for label, text in LINES.items() if label in entries]
    if "direct search" in entries:
        request = run.config["sample_complexity"][spec["request"]]
        trials = request.get("trials", SampleComplexity.trials)
        lines.append(f"diamonds: found by direct search, {trials} trials at every n")

    def called(label: str) -> str:
        return names.get(label, label.replace("_", " "))

    families = _described(
        run.config["families"], rows["family"].unique(), run.sweep.family_value, called
    )
    estimators = _described(
        run.config["estimators"],
        rows["estimator"].unique(),
        lambda label, name: run.sweep.estimators[label].get(name),
        called,
    )
    sentences = [
        f"{says}. Shown: {_what(spec)}",
        f"Data: {families}",
        f"Estimators: {estimators}",
        f"Budgets: {_budgets(rows)}",
        f"{_range('n', rows['n'])}; {_range('trials per point', rows['trials'])}; seed {run.seed}",
        "; ".join([figure.intervals[0].upper() + figure.intervals[1:], *lines]),
    ]
    return ". ".join(sentences) + ".\n"


def _what(spec: Mapping[str, Any]) -> str:
    """The axes in words."""
    metrics = spec.get("metrics", [spec.get("metric", "q90")])
    measured = " and ".join(axis_label(metric) for metric in metrics)
    measured = measured.replace("\n", " ").replace("%", " per cent")
    across = spec.get("parameter", spec.get("against", "radius"))
    across = AXES.get(across, across)
    return {
        "error_against_n": f"{measured} against n",
        "against_parameter": f"{measured} against {across}",
        "decomposition": "0.9 quantiles of the error and its parts against the clipping threshold",
        "exponents": "fitted exponents against the moment order k, and measured minus theory",
        "sample_complexity_curves": "the smallest n with error at most alpha in 0.9 of the trials",
        "thresholds": f"the smallest n with a coarse error against {across}",
    }[spec["kind"]]


def _described(
    section: Mapping[str, Any],
    labels: Iterable[str],
    value_of: Callable[[str, str], Any],
    called: Callable[[str], str],
) -> str:
    """The entries of a section that `labels` come from, with class and parameters."""
    found: dict[str, list[str]] = {}
    for label in labels:
        keys = [key for key in section if label == key or label.startswith(f"{key}_")]
        found.setdefault(max(keys, key=len), []).append(label)
    texts = []
    for key, members in found.items():
        kind = str(section[key].get("_target_", section[key].get("kind"))).rpartition(".")[2]
        known = []
        for name in section[key]:
            values = [value_of(label, name) for label in members]
            if name != "kind" and all(isinstance(value, int | float | str) for value in values):
                several = ", ".join(map(_plain, sorted(set(values))))
                known.append(f"{name.replace('_', ' ')} = {several}")
        texts.append(f"{called(key)} ({'; '.join([kind.replace('_', ' '), *known])})")
    return ", ".join(texts)


def _plain(value: float | str) -> str:
    return value.replace("_", " ") if isinstance(value, str) else f"{value:g}"


def _budgets(rows: pd.DataFrame) -> str:
    """Notions, each with its amounts."""
    texts = []
    for label, paid in rows[rows["privacy"] != "none"].groupby("privacy"):
        notion, _, mechanism = str(label).partition("_")
        amounts = [
            f"{name} = {', '.join(f'{value:g}' for value in sorted(paid[name].unique()))}"
            for name in ("epsilon", "delta", "rho")
            if paid[name].notna().all()
        ]
        called = f"{NOTIONS.get(notion, notion)} {mechanism}".strip()
        texts.append(f"{called}, {', '.join(amounts)}")
    return "; ".join(texts) or "none"


def _range(name: str, values: pd.Series) -> str:
    low, high = values.min(), values.max()
    return f"{name} {low:g} to {high:g}" if low < high else f"{name} {low:g}"
