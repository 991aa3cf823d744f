"""Draw benchmarks of libraries with public bounds: ``python -m dpbench paper libraries``.

The figures show error against n and against epsilon, as public benchmarks of these libraries do.
Some of these benchmarks take the bounds from the data, which is not private. Here they are fixed.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpbench.libraries.report import CAPTIONS, benchmarks, figure
from dpbench.libraries.sweep import LibrarySweep
from dpbench.output.run_folder import read_manifest
from dpbench.registry import from_mapping
from dpbench.report.drawing.style import save, style

__all__ = ["draw_libraries"]


def draw_libraries(folder: Path, target: Path) -> dict[str, str]:
    """Draw the figures of a finished sweep in `target`, and return captions by file name."""
    manifest = read_manifest(folder)
    sweep = from_mapping(LibrarySweep, manifest["configuration"]["sweep"], "sweep")
    options, rows = sweep.libraries, pd.read_csv(folder / "libraries.csv")
    table = pd.read_csv(folder / "overview.csv", keep_default_na=False)
    bounds = f"It is public that the records lie in [{options.lower:g}, {options.upper:g}]"
    missing = ", ".join(table["estimator"][table["version"].str.startswith("not installed")])
    context = f"{bounds}; seed {manifest['seed']}."
    context += f" Not installed: {missing}." if missing else ""
    save(benchmarks(rows, options.upper - options.lower), target, "benchmarks", ("pdf", "png"))
    # Three panels need the width of a page.
    with style(font=manifest["configuration"].get("font", "sans")):
        save(figure(table, rows), target, "libraries", ("pdf", "png"))
    return {f"{name}.txt": f"{text}. {context}\n" for name, text in CAPTIONS.items()}
