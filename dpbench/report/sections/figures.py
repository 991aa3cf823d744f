"""Section with the figures of a run."""

from __future__ import annotations

import base64
import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbench.analysis.study import SELECTED, Figure, gathered
from dpbench.registry import ConfigError
from dpbench.report.figures import DrawnFigure
from dpbench.report.page_run import RunFolder, mapping
from dpbench.report.sections.base import Section, section


@section("figures", "More figures")
def build_figures(run: RunFolder) -> Section | None:
    """Build all figures; the first stands before all sections."""
    pictures = _pictures(run)
    if not pictures:
        return None
    first, *others = pictures
    return Section(look="figures", figure=first, data=others)


def _pictures(run: RunFolder) -> list[dict[str, str]]:
    """Read the figures that the run has written: those of the configuration first, in its order."""
    labels = [path.stem for path in map(Path, run.written) if path.suffix == ".svg"]
    specs, found = gathered(run.sweep, "figures"), []
    for label in sorted(labels, key=[*specs, *labels].index):
        path, spec = run.path / "figures" / f"{label}.svg", mapping(specs.get(label))
        if not path.is_file():
            continue
        picture = {
            "label": label,
            "caption": str(spec.get("caption") or "").rstrip("."),
            "drawn": _drawn(spec),
            "data": base64.b64encode(path.read_bytes()).decode("ascii"),
        }
        found.append(picture)
    return found


def _drawn(spec: Mapping[str, Any]) -> str:
    """Describe a figure and its intervals; a kind of figure from a plugin by its docstring."""
    try:
        # The description does not depend on the selection, which may no longer be valid.
        about = {key: value for key, value in spec.items() if key not in SELECTED}
        figure = Figure.build(about, "figure")
    except (ConfigError, KeyError):
        return ""
    if isinstance(figure, DrawnFigure):
        return "; ".join(figure.describe())
    return (inspect.getdoc(type(figure)) or "").partition("\n")[0].rstrip(".")
