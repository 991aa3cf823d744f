"""Draw benchmarks of libraries with public bounds: ``python -m experiments libraries``.

The figures show error against n and against epsilon, as public benchmarks of these libraries do.
Unlike some of these, the bounds are not taken from the data, which would not be private.
"""

from __future__ import annotations

from pathlib import Path

import pandas as pd

from dpbench.libraries.report import CAPTIONS, benchmarks, figure
from dpbench.libraries.sweep import LibrarySweep
from dpbench.output.run_folder import read_manifest
from dpbench.output.style import save, style
from dpbench.registry import from_mapping

__all__ = ["draw_libraries"]


def draw_libraries(folder: Path, target: Path) -> dict[str, str]:
    """Draw the figures of a finished sweep of libraries.

    Parameters
    ----------
    folder : Path
        Folder of the finished sweep.
    target : Path
        Folder to write the figures to.

    Returns
    -------
    dict of str to str
        Captions by file name.
    """
    manifest = read_manifest(folder)
    sweep = from_mapping(LibrarySweep, manifest["configuration"]["sweep"], "sweep")
    how, rows = sweep.libraries, pd.read_csv(folder / "libraries.csv")
    table = pd.read_csv(folder / "overview.csv", keep_default_na=False)
    bounds = f"It is public that the records lie in [{how.lower:g}, {how.upper:g}]"
    missing = ", ".join(table["estimator"][table["version"].str.startswith("not installed")])
    about = f"{bounds}; seed {manifest['seed']}."
    about += f" Not installed: {missing}." if missing else ""
    save(benchmarks(rows, how.upper - how.lower), target, "benchmarks", ("pdf", "png"))
    with style(
        font=manifest["configuration"].get("font", "sans")
    ):  # three panels need the width of a page
        save(figure(table, rows), target, "libraries", ("pdf", "png"))
    return {f"{name}.txt": f"{text}. {about}\n" for name, text in CAPTIONS.items()}
