"""Figures of an audit for a paper: ``python -m dpbench paper audit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dpbench.audit.cases import AuditSweep
from dpbench.audit.report import bounds_figure, format_strongest
from dpbench.output.names import NOTIONS, display_name
from dpbench.output.run_folder import read_manifest
from dpbench.registry import from_mapping
from dpbench.report.drawing.style import save
from dpbench.report.labels import variant_text
from dpbench.report.latex import TEXT_COLUMN, escape_latex, tabular

__all__ = ["draw_audit"]

FIGURES = {
    "estimators": (
        "audit.csv",
        "Largest lower bound on the privacy parameter of every estimator, divided by the claimed "
        "value: none is refuted, which does not prove the claims",
    ),
    "controls": (
        "controls.csv",
        "Largest lower bounds for estimators broken on purpose, with mistakes of published code: "
        "each is refuted, by its bound or by a change of input above its stated sensitivity",
    ),
}
# Columns of the table with their LaTeX types; the number of runs is in the caption.
COLUMNS = {
    "estimator": TEXT_COLUMN, "notion": TEXT_COLUMN, "delta": "r", "pair": TEXT_COLUMN,
    "claimed": "r", "lower bound": "r", "detectable": "r", "move over sensitivity": "r",
    "verdict": "l",
}  # fmt: skip


def draw_audit(folder: Path, target: Path) -> dict[str, str]:
    """Draw the largest lower bound of each estimator and of each control of a finished audit.

    The figures are written to `target`. The result has captions and tables by file name.
    """
    manifest = read_manifest(folder)
    sweep = from_mapping(AuditSweep, manifest["configuration"]["sweep"], "sweep")
    names = {label: variant_text(variant, {}) for label, variant in sweep.estimators.items()}

    def print_label(label: str) -> str:
        return names.get(label, display_name(label))  # labels of controls are not in the sweep

    texts = {}
    for name, (file, summary) in FIGURES.items():
        table = pd.read_csv(folder / file)
        save(bounds_figure(table, print_label), target, name, ("pdf", "png"))
        texts[f"{name}.txt"] = _caption(summary, table, sweep, manifest["seed"])
        rows = [{key: row[key] for key in COLUMNS} for row in format_strongest(table)]
        header = [key.capitalize() for key in COLUMNS]
        cells = [_cells(row, print_label) for row in rows]
        texts[f"{name}.tex"] = tabular(f"@{{}}{''.join(COLUMNS.values())}@{{}}", header, cells)
    return texts


def _caption(summary: str, table: pd.DataFrame, sweep: AuditSweep, seed: int) -> str:
    runs = ", ".join(map(str, sorted(table["runs"].unique())))
    notions = {budget.value.label: budget.value.notion for budget in sweep.budgets.values()}
    units = {
        budget.value.notion: next(iter(budget.value.named_amounts), "")
        for budget in sweep.budgets.values()
    }
    claimed = table.groupby(table["notion"].map(notions))["claimed"].first()
    claims = ", ".join(
        f"{units[str(budget)]} ({NOTIONS[str(budget)]}) = {value:g}"
        for budget, value in claimed.items()
    )
    return (
        f"{summary}. {len(table)} pairs of neighbouring datasets; claimed: {claims}; releases on "
        f"each dataset: {runs}; seed {seed}. All bounds of the table hold together with "
        f"probability 1 - {sweep.audit.failure_probability:g}.\n"
    )


def _cells(row: dict[str, str], print_label: Callable[[str], str]) -> list[str]:
    printed_cells = {key: display_name(row[key]) for key in ("notion", "pair")}
    printed_cells["estimator"] = print_label(row["estimator"])
    return [escape_latex(cell) for cell in (row | printed_cells).values()]
