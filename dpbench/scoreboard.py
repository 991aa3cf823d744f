"""What a run prints at its end."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from dpbench.analysis.factors import factors
from dpbench.analysis.results import Failure
from dpbench.analysis.smallest_n import TERMS
from dpbench.columns import BUDGET
from dpbench.drawing import NOTIONS
from dpbench.output import amounts, print_table, text_console
from dpbench.study import Study

__all__ = ["render", "short_budget"]

VERDICTS = ("consistent", "inconsistent", "inconclusive")
MOST_FAILING = 12


def _print_claims(claims: pd.DataFrame, study: Study, out: Console) -> None:
    """Print every claim with its prediction, measurement, interval and verdict."""
    rows = []
    for row in claims.to_dict("records"):
        limit = "<= " if study.all_claims[row["claim"]].statement.at_most else ""
        about = {name: row[name] for name in ("claim", "source", "estimator", "distribution")}
        numbers = {
            "predicted": f"{limit}{row['predicted']:.3f} +- {row['tolerance']:g}",
            "measured": _digits(row["measured"]),
            "95% interval": f"{_digits(row['low'])} .. {_digits(row['high'])}",
            "visible": f"+- {_digits(row['visible'])}",
        }
        # of several amounts together the notion
        privacy = {
            "privacy": short_budget(row) or ("" if pd.isna(row["privacy"]) else row["privacy"])
        }
        verdict = {"verdict": row["verdict"]}
        rows.append(about | privacy | numbers | verdict)
    print_table("Claims: theory against measurement", rows, out)
    counts = claims["verdict"].value_counts()
    out.print(", ".join(f"{counts.get(name, 0)} {name}" for name in VERDICTS))
    out.print("visible: half of all runs would call a truth this far off inconsistent")


def _digits(value: float) -> str:
    """Three decimals, or two digits of what they would hide."""
    return f"{value:.3f}" if abs(value) >= 5e-3 or value == 0 or np.isnan(value) else f"{value:.1e}"


def _range(low: float, high: float) -> str:
    return f"{low:.3g} .. {high:.3g}"


def short_budget(row: Mapping[Hashable, Any]) -> str:
    """A budget: its amounts, and its label where that says more than the notion."""
    known = row["privacy"] in {*NOTIONS, "none"} or pd.isna(row["privacy"])
    return " ".join([*amounts(row), *([] if known else [row["privacy"]])])


def _about(row: Mapping[Hashable, Any], *names: str) -> dict[str, str]:
    """Columns of a row, and its whole budget."""
    budget = " ".join([row["privacy"], *amounts(row)])
    return {name: row[name] for name in names} | {"privacy": budget}


def _print_factors(summary: pd.DataFrame, study: Study, out: Console) -> None:
    """Print the best estimator's worst error over the lower bound, a column for each k."""
    found = factors(summary)
    found["law"] = [study.families[label].label("k") for label in found["distribution"]]
    found["order"] = ["factor" if np.isnan(k) else f"k = {k:g}" for k in found["k"]]
    title = "Best estimator's worst error (0.9 quantile) over the lower bound, range over n"
    for _, table in found.groupby(found["k"].isna()):
        orders, rows = table.sort_values("k")["order"].unique(), []
        for _, about in table.groupby(["law", *BUDGET], dropna=False, sort=False):
            row = {"distribution": str(about["law"].iloc[0])} | _about(about.iloc[0].to_dict())
            for name in ("bound_by", "estimator"):
                row[name.replace("_", " ")] = ", ".join(dict.fromkeys(about[name]))
            ranges = about.groupby("order")["factor"].agg(["min", "max"]).T
            row |= {one: _range(*ranges[one]) if one in ranges else "" for one in orders}
            verdicts = about["verdict"].unique()
            rows.append(row | {"verdict": verdicts[0] if len(verdicts) == 1 else "partly"})
        print_table(title, rows, out)


def _print_samples(samples: pd.DataFrame, out: Console) -> None:
    """Print the sample complexities that were sought directly, beside the curves'."""
    sought = samples[samples["method"] == "search"] if len(samples) else samples
    if sought.empty:
        return
    curve = samples[samples["method"] == "curve"]
    curve = curve.merge(sought[["request", "alpha"]].drop_duplicates(), on=["request", "alpha"])
    rows = []
    for one, other in zip(sought.to_dict("records"), curve.to_dict("records"), strict=True):
        terms = [one[f"{name}_term"] for name in TERMS]
        total = float(np.nansum(terms)) if np.isfinite(one["privacy_term"]) else np.nan
        direct, read = (
            f"{r['samples']:.4g} ({r['low']:.4g} .. {r['high']:.4g})" for r in (one, other)
        )
        row = {"estimator": one["estimator"], "distribution": one["distribution"]}
        row |= {"privacy": short_budget(one), "alpha": f"{one['alpha']:.3g}"}
        row |= {"n, direct search": direct, "n, from the curve": read}
        rows.append(row | {"theorem's terms, added": f"{total:.4g}"})
    print_table("Smallest n: P(error <= alpha) >= 1 - beta", rows, out)


def _print_failures(summary: pd.DataFrame, out: Console) -> None:
    """Print which estimators released nothing, and how often."""
    rows = []
    failing = summary[summary["failures"] > 0].drop(columns="distribution")
    failing = failing.rename(columns={"family": "distribution"})
    for _, found in failing.groupby(["estimator", "distribution", *BUDGET], dropna=False):
        row = _about(found.iloc[0].to_dict(), "estimator", "distribution")
        row["n"] = _range(found["n"].min(), found["n"].max())
        row["failure rate"] = _range(found["failure_rate"].min(), found["failure_rate"].max())
        rows.append(row)
    if rows:
        print_table("Trials without a release (counted failures)", rows[:MOST_FAILING], out)
    if len(rows) > MOST_FAILING:
        out.print(f"and {len(rows) - MOST_FAILING} more: see failure_rate in summary.csv")


def _print_spending(summary: pd.DataFrame, out: Console) -> None:
    """Print which estimators spend only part of their budgets."""
    partly = summary[summary["spent"].notna()] if "spent" in summary else summary[:0]
    for _, found in partly.groupby(["estimator", *BUDGET], dropna=False):
        row = _about(found.iloc[0].to_dict(), "estimator")
        out.print(f"{row['estimator']} spends {found['spent'].min():.3g} of {row['privacy']}")


def render(
    summary: pd.DataFrame,
    claims: pd.DataFrame,
    samples: pd.DataFrame,
    failures: Sequence[Failure],
    study: Study,
) -> str:
    """Verdicts, factors over the lower bound, sample complexities, failures, as plain text."""
    out, text = text_console()
    if not claims.empty:
        _print_claims(claims, study, out)
    _print_factors(summary, study, out)
    _print_samples(samples, out)
    _print_failures(summary, out)
    _print_spending(summary, out)
    for failure in failures:
        out.print(f"failed: {failure.text}", soft_wrap=True)
    return text.getvalue()
