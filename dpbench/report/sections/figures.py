"""Section with the figures of a run."""

from __future__ import annotations

import base64
import inspect
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbench.registry import ConfigError
from dpbench.report.figures import DrawnFigure
from dpbench.report.page_run import RunFolder, as_mapping
from dpbench.report.sections.base import Section, section
from dpbench.report.study import SELECTION_KEYS, Figure, gather_entries


@section("figures", "More figures")
def build_figures(run: RunFolder) -> Section | None:
    """Build the section with all figures of a run.

    The page shows the first figure before all sections.
    """
    pictures = _read_pictures(run)
    if not pictures:
        return None
    first, *others = pictures
    interactive = any(picture["numbers"] for picture in pictures)
    return Section(look="figures", figure=first, data=others, interactive=interactive)


def _read_pictures(run: RunFolder) -> list[dict[str, Any]]:
    """Read the figures that the run has written, each with its caption, description and numbers.

    Figures of the configuration come first, in their order there.
    """
    labels = [path.stem for path in map(Path, run.written) if path.suffix == ".svg"]
    specs, pictures = gather_entries(run.sweep, "figures"), []
    for label in sorted(labels, key=[*specs, *labels].index):
        path, spec = run.path / "figures" / f"{label}.svg", as_mapping(specs.get(label))
        if not path.is_file():
            continue
        picture = {
            "label": label,
            "caption": str(spec.get("caption") or "").rstrip("."),
            "description": _describe_figure(spec),
            "data": base64.b64encode(path.read_bytes()).decode("ascii"),
            "numbers": _read_numbers(run, label),
            "file": pdf if (pdf := f"figures/{label}.pdf") in run.written else pdf[:-3] + "svg",
        }
        pictures.append(picture)
    return pictures


def _read_numbers(run: RunFolder, label: str) -> dict[str, Any] | None:
    """Read the numbers of a figure, from which the page draws an interactive form.

    Return None if the run has not written them, because the figure has no such form.
    """
    path = run.path / "figures" / f"{label}.json"
    if f"figures/{label}.json" not in run.written or not path.is_file():
        return None
    return as_mapping(json.loads(path.read_text(encoding="utf-8"))) or None


def _describe_figure(spec: Mapping[str, Any]) -> str:
    """Describe the axes and intervals of a figure, from its configuration.

    A figure of a plugin may have no description. It is described by its docstring's summary.
    """
    try:
        # The description does not depend on the selection, which may no longer be valid.
        description = {key: value for key, value in spec.items() if key not in SELECTION_KEYS}
        figure = Figure.build(description, "figure")
    except (ConfigError, KeyError):
        return ""
    if isinstance(figure, DrawnFigure):
        return "; ".join(figure.describe())
    return (inspect.getdoc(type(figure)) or "").partition("\n")[0].rstrip(".")
