"""What a run prints at its end."""

from __future__ import annotations

import io
import time
from collections.abc import Hashable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from rich.table import Table

from dpbench.analysis.results import Failure
from dpbench.analysis.worst_case import CURVE, worst_case
from dpbench.columns import BUDGET
from dpbench.config import command_line
from dpbench.console import WIDTH, amounts
from dpbench.drawing import NOTIONS
from dpbench.runner.provenance import Cost

if TYPE_CHECKING:
    from dpbench.study import Study

__all__ = ["factors", "print_next", "render", "short_budget"]

VERDICTS = ("consistent", "inconsistent", "inconclusive")
MOST_FAILING = 12


def _print_claims(claims: pd.DataFrame, study: Study, out: Console) -> None:
    """Print every claim with its prediction, measurement, interval and verdict."""
    table = Table(title="Claims: theory against measurement", title_justify="left")
    for name in ("claim", "source", "estimator", "distribution", "privacy"):
        table.add_column(name, no_wrap=True)
    for name in ("predicted", "measured", "95% interval"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in claims.to_dict("records"):
        limit = "<= " if study.all_claims[row["claim"]].statement.at_most else ""
        table.add_row(
            row["claim"],
            row["source"],
            row["estimator"],
            row["distribution"],
            short_budget(row),
            f"{limit}{row['predicted']:.3f} +- {row['tolerance']:g}",
            _digits(row["measured"]),
            f"{_digits(row['low'])} .. {_digits(row['high'])}",
            row["verdict"],
        )
    out.print(table)
    counts = claims["verdict"].value_counts()
    out.print(", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS))


def _digits(value: float) -> str:
    """Three decimals, or two digits of what they would hide."""
    return f"{value:.3f}" if abs(value) >= 5e-3 or value == 0 or np.isnan(value) else f"{value:.1e}"


def short_budget(row: Mapping[Hashable, Any]) -> str:
    """A budget: its amounts, and its label where that says more than the notion."""
    known = row["privacy"] in {*NOTIONS, "none"} or pd.isna(row["privacy"])
    return " ".join([*amounts(row), *([] if known else [row["privacy"]])])


def _whole_budget(row: Mapping[Hashable, Any]) -> str:
    return " ".join([row["privacy"], *amounts(row)])


def factors(summary: pd.DataFrame) -> pd.DataFrame:
    """The worst q90 of each family over its lower bound.

    Returns
    -------
    DataFrame
        One row per estimator, budget and moment order k: ``low`` and ``high``, the
        smallest and largest factor over n. Estimators that ran at one n are left out.
    """
    known = summary[summary["lower_bound"].notna()]
    sizes = known.groupby(["family", "estimator"])["n"].transform("nunique")
    known = known[sizes > 1]
    if known.empty:
        return pd.DataFrame()
    curves, _ = worst_case(known.reset_index(drop=True), "q90")
    curves["factor"] = curves["value"] / curves["lower_bound"]
    grouped = curves.groupby(CURVE, dropna=False, observed=True)["factor"]
    return grouped.agg(low="min", high="max").reset_index()


def _print_factors(summary: pd.DataFrame, out: Console) -> None:
    """Print, per estimator and k, the worst error over the lower bound."""
    found = factors(summary)
    if found.empty:
        return
    orders = sorted(found["k"].unique())
    table = Table(
        title="Worst-case error (0.9 quantile) over the lower bound, range over n",
        title_justify="left",
    )
    table.add_column("estimator")
    table.add_column("privacy")
    for k in orders:
        table.add_column(f"k = {k:g}", justify="right", no_wrap=True)
    for _, rows in found.groupby(["estimator", *BUDGET], dropna=False):
        about = rows.iloc[0].to_dict()
        cells = {row["k"]: f"{row['low']:.3g} .. {row['high']:.3g}" for _, row in rows.iterrows()}
        table.add_row(about["estimator"], _whole_budget(about), *(cells.get(k, "") for k in orders))
    out.print(table)


def _print_samples(samples: pd.DataFrame, out: Console) -> None:
    """Print the sample complexities that were sought directly, beside the curves'."""
    if samples.empty:
        return
    sought = samples[samples["method"] == "search"]
    curve = samples[samples["method"] == "curve"]
    curve = curve.merge(sought[["request", "alpha"]].drop_duplicates(), on=["request", "alpha"])
    if sought.empty:
        return
    table = Table(title="Smallest n: P(error <= alpha) >= 1 - beta", title_justify="left")
    for name in ("estimator", "distribution", "privacy"):
        table.add_column(name, no_wrap=True)
    for name in ("alpha", "n, direct search", "n, from the curve", "theorem's terms, added"):
        table.add_column(name, justify="right", no_wrap=True)
    for one, other in zip(sought.to_dict("records"), curve.to_dict("records"), strict=True):
        terms = [one[f"{name}_term"] for name in ("sampling", "privacy", "range")]
        total = float(np.nansum(terms)) if np.isfinite(terms[1]) else np.nan
        table.add_row(
            one["estimator"],
            one["distribution"],
            short_budget(one),
            f"{one['alpha']:.3g}",
            *(f"{r['samples']:.4g} ({r['low']:.4g} .. {r['high']:.4g})" for r in (one, other)),
            f"{total:.4g}",
        )
    out.print(table)


def _print_failures(summary: pd.DataFrame, out: Console) -> None:
    """Print which estimators released nothing, and how often."""
    failing = summary[summary["failures"] > 0]
    if failing.empty:
        return
    table = Table(title="Trials without a release (counted failures)", title_justify="left")
    for name in ("estimator", "distribution", "privacy", "n", "failure rate"):
        table.add_column(name, no_wrap=True)
    by_curve = failing.groupby(["estimator", "family", *BUDGET], dropna=False)
    groups = [rows for _, rows in by_curve]
    for rows in groups[:MOST_FAILING]:
        about = rows.iloc[0].to_dict()
        sizes, rates = rows["n"], rows["failure_rate"]
        table.add_row(
            about["estimator"],
            about["family"],
            _whole_budget(about),
            f"{sizes.min():.3g} .. {sizes.max():.3g}",
            f"{rates.min():.3g} .. {rates.max():.3g}",
        )
    out.print(table)
    if len(groups) > MOST_FAILING:
        out.print(f"and {len(groups) - MOST_FAILING} more: see failure_rate in summary.csv")


def render(
    summary: pd.DataFrame,
    claims: pd.DataFrame,
    samples: pd.DataFrame,
    failures: Sequence[Failure],
    study: Study,
) -> str:
    """Verdicts, factors over the lower bound, sample complexities, failures, as plain text."""
    out = Console(highlight=False, width=WIDTH, file=io.StringIO(), color_system=None)
    if not claims.empty:
        _print_claims(claims, study, out)
    _print_factors(summary, out)
    _print_samples(samples, out)
    _print_failures(summary, out)
    for failure in failures:
        out.print(f"failed: {failure.text}", markup=False, soft_wrap=True)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def print_next(
    name: str, folder: Path, seed: int, cost: Cost, words: Sequence[str], out: Console
) -> None:
    """Print what was done, where the results are and what to type next."""
    out.print(
        f"{cost.blocks_done} blocks done, {cost.blocks_reused} reused, "
        f"{time.monotonic() - cost.started:.1f} s"
    )
    more = ", sample_complexity.csv" if (folder / "sample_complexity.csv").exists() else ""
    out.print(
        f"results: {folder}/report.html, summary.csv, claims.csv{more}, figures/, manifest.json",
        markup=False,
    )
    if name == "quick":
        out.print(f"next: {command_line(['sweep=heavy_tail'])}", markup=False)
    elif cost.trials is not None:
        kept = [word for word in words if not word.startswith(("trials=", "resume="))]
        command = command_line([*kept, f"trials={2 * cost.trials}"])
        out.print(f"more trials, keeping these: {command}", markup=False)
    else:
        kept = [word for word in words if not word.startswith(("seed=", "out=", "resume="))]
        command = command_line([*kept, f"seed={seed + 1}", f"out={folder}-seed{seed + 1}"])
        out.print(f"an independent replication: {command}", markup=False)
