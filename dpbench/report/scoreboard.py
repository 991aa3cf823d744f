"""What a run prints at its end."""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from dpbench.analysis.claims import worst_case
from dpbench.runner.manifest import Cost

__all__ = ["console", "factors", "print_next", "print_run"]

STYLE = {"consistent": "green", "inconsistent": "bold red", "inconclusive": "yellow"}


def console() -> Console:
    """Standard output; wide enough for the tables where it is no terminal."""
    plain = Console(highlight=False)
    return plain if plain.is_terminal else Console(highlight=False, width=150)


def print_scoreboard(claims: pd.DataFrame, out: Console) -> None:
    """Print every claim with its prediction, measurement, interval and verdict."""
    table = Table(title="Claims: theory against measurement", title_justify="left")
    for name in ("claim", "source", "estimator", "distribution", "privacy"):
        table.add_column(name, overflow="fold")
    for name in ("predicted", "measured", "95% interval", "+-"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("verdict", no_wrap=True)
    for row in claims.to_dict("records"):
        limit = "<= " if row["at_most"] else ""
        table.add_row(
            row["claim"],
            row["source"],
            row["estimator"],
            row["distribution"],
            _budget(row),
            f"{limit}{row['predicted']:.3f}",
            f"{row['measured']:.3f}",
            f"{row['low']:.3f} .. {row['high']:.3f}",
            f"{row['tolerance']:g}",
            f"[{STYLE[row['verdict']]}]{row['verdict']}[/]",
        )
    out.print(table)
    counts = claims["verdict"].value_counts()
    out.print(", ".join(f"{counts.get(name, 0)} {name}" for name in STYLE))


def _budget(row: dict[str, object]) -> str:
    """A budget in a few characters; blank where a claim spans several."""
    amounts = [
        f"{symbol}={row[name]:g}"
        for name, symbol in (("epsilon", "eps"), ("delta", "delta"), ("rho", "rho"))
        if pd.notna(row.get(name, np.nan))
    ]
    return " ".join(amounts)


def factors(summary: pd.DataFrame) -> pd.DataFrame:
    """The worst q90 of each family over its exact lower bound.

    Returns
    -------
    DataFrame
        One row per estimator, budget and moment order k: ``low`` and ``high``, the
        smallest and largest factor over n, with the ``n`` of the largest.
    """
    known = summary[summary["lower_bound"].notna()]
    if known.empty:
        return pd.DataFrame()
    curves, _ = worst_case(known.reset_index(drop=True), "q90")
    curves["factor"] = curves["value"] / curves["lower_bound"]
    by = ["family", "k", "estimator", "privacy", "epsilon", "delta", "rho"]
    grouped = curves.groupby(by, dropna=False, observed=True)["factor"]
    return grouped.agg(low="min", high="max").reset_index()


def print_factors(summary: pd.DataFrame, out: Console) -> None:
    """Print, per estimator and k, the worst error over the exact lower bound."""
    found = factors(summary)
    if found.empty:
        return
    orders = sorted(found["k"].unique())
    table = Table(
        title="Worst-case error over the exact lower bound (range over n)", title_justify="left"
    )
    table.add_column("estimator")
    table.add_column("privacy")
    for k in orders:
        table.add_column(f"k = {k:g}", justify="right", no_wrap=True)
    by = ["estimator", "privacy", "epsilon", "delta", "rho"]
    for _, rows in found.groupby(by, dropna=False):
        about = rows.iloc[0].to_dict()
        cells = {row["k"]: f"{row['low']:.3g} .. {row['high']:.3g}" for _, row in rows.iterrows()}
        label = f"{about['privacy']} {_budget(about)}"
        table.add_row(about["estimator"], label, *(cells.get(k, "") for k in orders))
    out.print(table)


def print_summary(summary: pd.DataFrame, out: Console) -> None:
    """Print the 0.9-quantile error at the largest n, the worst of each family."""
    largest = summary[summary["n"] == summary.groupby("family")["n"].transform("max")]
    curves, _ = worst_case(largest.reset_index(drop=True), "q90")
    table = Table(title="Error (0.9 quantile) at the largest n", title_justify="left")
    for name in ("family", "n", "estimator", "privacy", "error"):
        table.add_column(name, justify="right" if name in ("n", "error") else "left")
    for row in curves.to_dict("records"):
        n, error = f"{row['n']:.3g}", f"{row['value']:.3g}"
        label = f"{row['privacy']} {_budget(row)}"
        table.add_row(row["family"], n, row["estimator"], label, error)
    out.print(table)


def print_run(
    summary: pd.DataFrame, claims: pd.DataFrame, failures: Sequence[str], out: Console
) -> None:
    """Print errors, verdicts, factors over the lower bound and failures."""
    print_summary(summary, out)
    if not claims.empty:
        print_scoreboard(claims, out)
    print_factors(summary, out)
    for text in failures:
        out.print(f"[bold red]failed[/] {escape(text)}")


def print_next(name: str, folder: Path, cost: Cost, overrides: Sequence[str], out: Console) -> None:
    """Print what was done, where the results are and what to type next."""
    out.print(
        f"{cost.blocks_done} blocks done, {cost.blocks_reused} reused, "
        f"{time.monotonic() - cost.started:.1f} s"
    )
    out.print(f"results: {folder}/summary.csv, claims.csv, figures/, manifest.json")
    if name == "quick":
        out.print("next: python -m dpbench sweep=heavy_tail")
    else:
        kept = [o for o in overrides if not o.startswith(("trials=", "resume="))]
        words = " ".join([*kept, f"trials={2 * cost.trials}"])
        out.print(f"more trials, keeping these: python -m dpbench {words}")
