"""What an audit prints at its end."""

from __future__ import annotations

import io

import pandas as pd
from rich.console import Console
from rich.table import Table

from dpbench.report.scoreboard import WIDTH

__all__ = ["CAVEAT", "render", "strongest"]

CAVEAT = "A lower bound above a claim refutes it. One below proves nothing: look for better pairs."


def strongest(table: pd.DataFrame) -> pd.DataFrame:
    """The pair with the largest lower bound of every estimator and notion, in their order."""
    bound = table["lower_bound"].fillna(-1.0)
    best = bound.groupby([table["estimator"], table["notion"]], sort=False).idxmax()
    return table.loc[best.to_numpy()].reset_index(drop=True)


def render(audit: pd.DataFrame, controls: pd.DataFrame) -> str:
    """The strongest pair of every estimator and notion, and of every control."""
    out = Console(highlight=False, width=WIDTH, file=io.StringIO(), color_system=None)
    for title, table in (
        ("Audit: the largest lower bound on each privacy parameter", audit),
        ("Controls, broken on purpose: each must be refuted", controls),
    ):
        out.print(_table(title, table))
    best = strongest(controls)
    refuted, failed = ((audit["verdict"] == word).sum() for word in ("refuted", "failed"))
    caught = (best["verdict"] == "refuted").sum()
    out.print(f"{len(audit)} pairs: {refuted} refuted, {failed} failed")
    out.print(f"{caught} of {len(best)} controls refuted")
    out.print(CAVEAT)
    assert isinstance(out.file, io.StringIO)
    return out.file.getvalue()


def _table(title: str, table: pd.DataFrame) -> Table:
    shown = Table(title=title, title_justify="left")
    for name in ("estimator", "notion", "pair"):
        shown.add_column(name, no_wrap=True)
    for name in ("pairs", "runs a side", "claimed", "lower bound"):
        shown.add_column(name, justify="right", no_wrap=True)
    shown.add_column("verdict", no_wrap=True)
    sizes = table.groupby(["estimator", "notion"], sort=False).size()
    for row, pairs in zip(strongest(table).to_dict("records"), sizes, strict=True):
        shown.add_row(
            row["estimator"],
            row["notion"],
            row["pair"],
            str(pairs),
            str(row["runs"]),
            f"{row['claimed']:g}",
            f"{row['lower_bound']:.3f}",
            row["verdict"],
        )
    return shown
