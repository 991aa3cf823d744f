"""Benchmarks of libraries with bounds known beforehand: ``python -m experiments libraries``.

Error against n and against epsilon is what public benchmarks of such libraries show; where they
take the bounds from the data, what is measured is not private.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpbench.libraries.report import CAPTIONS, benchmarks, figure
from dpbench.libraries.sweep import LibrarySweep
from dpbench.output.folder import read_manifest
from dpbench.output.style import save, style
from dpbench.registry import from_mapping

__all__ = ["draw_libraries"]


def draw_libraries(folder: Path, target: Path) -> dict[str, str]:
    """Draw what a finished sweep of libraries has written; captions, by file."""
    manifest = read_manifest(folder)
    sweep = from_mapping(LibrarySweep, manifest["configuration"]["sweep"], "sweep")
    how, rows = sweep.libraries, pd.read_csv(folder / "libraries.csv")
    table = pd.read_csv(folder / "overview.csv", keep_default_na=False)
    bounds = f"The records are known beforehand to lie in [{how.lower:g}, {how.upper:g}]"
    missing = ", ".join(table["estimator"][table["version"].str.startswith("not installed")])
    about = f"{bounds}; seed {manifest['seed']}."
    about += f" Not installed: {missing}." if missing else ""
    save(benchmarks(rows, how.upper - how.lower), target, "benchmarks", ("pdf", "png"))
    with style(font=manifest["configuration"].get("font", "sans")):  # three panels need a page
        save(figure(table, rows), target, "libraries", ("pdf", "png"))
    return {f"{name}.txt": f"{text}. {about}\n" for name, text in CAPTIONS.items()}
