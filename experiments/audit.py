"""Figures of the privacy audit: ``python -m experiments audit``."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pandas as pd

from dpbench.audit.cases import AuditSweep
from dpbench.audit.report import bounds_figure, strongest_in_print
from dpbench.output.run_folder import read_manifest
from dpbench.output.style import NOTIONS, save, spaced
from dpbench.registry import from_mapping
from dpbench.report.labels import variant_text
from dpbench.report.latex import TEXT, escaped, tabular

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
# Columns of the table with their LaTeX types; the caption has the runs.
COLUMNS = {
    "estimator": TEXT, "notion": TEXT, "delta": "r", "pair": TEXT, "claimed": "r",
    "lower bound": "r", "visible": "r", "move over sensitivity": "r", "verdict": "l",
}  # fmt: skip


def draw_audit(folder: Path, target: Path) -> dict[str, str]:
    """Draw the strongest pair of each estimator and of each control.

    Parameters
    ----------
    folder : Path
        Folder of a finished audit.
    target : Path
        Folder to write the figures to.

    Returns
    -------
    dict of str to str
        Captions and tables by file name.
    """
    manifest = read_manifest(folder)
    sweep = from_mapping(AuditSweep, manifest["configuration"]["sweep"], "sweep")
    known = {label: variant_text(one, {}) for label, one in sweep.estimators.items()}

    def printed(label: str) -> str:
        return known.get(label, spaced(label))  # labels of controls are not in the sweep

    texts = {}
    for name, (file, says) in FIGURES.items():
        table = pd.read_csv(folder / file)
        save(bounds_figure(table, printed), target, name, ("pdf", "png"))
        texts[f"{name}.txt"] = _caption(says, table, sweep, manifest["seed"])
        rows = [{key: row[key] for key in COLUMNS} for row in strongest_in_print(table)]
        header = [key.capitalize() for key in COLUMNS]
        cells = [_cells(row, printed) for row in rows]
        texts[f"{name}.tex"] = tabular(f"@{{}}{''.join(COLUMNS.values())}@{{}}", header, cells)
    return texts


def _caption(says: str, table: pd.DataFrame, sweep: AuditSweep, seed: int) -> str:
    runs = ", ".join(map(str, sorted(table["runs"].unique())))
    notions = {one.value.label: one.value.notion for one in sweep.budgets.values()}
    units = {
        one.value.notion: next(iter(one.value.named_amounts), "") for one in sweep.budgets.values()
    }
    claimed = table.groupby(table["notion"].map(notions))["claimed"].first()
    claims = ", ".join(
        f"{units[str(one)]} ({NOTIONS[str(one)]}) = {value:g}" for one, value in claimed.items()
    )
    return (
        f"{says}. {len(table)} pairs of neighbouring datasets; claimed: {claims}; releases on each "
        f"dataset: {runs}; seed {seed}. All bounds of the table hold together with probability 1 - "
        f"{sweep.audit.error:g}.\n"
    )


def _cells(row: dict[str, str], printed: Callable[[str], str]) -> list[str]:
    about = {key: spaced(row[key]) for key in ("notion", "pair")}
    about["estimator"] = printed(row["estimator"])
    return [escaped(cell) for cell in (row | about).values()]
