"""Write the page of one or several runs: a single HTML file without external resources."""

from __future__ import annotations

import base64
import csv
import hashlib
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined, Template
from markupsafe import Markup

from dpbench.output.files import atomic
from dpbench.registry import ConfigError
from dpbench.report.page_run import RunFolder, read_manifest, worst
from dpbench.report.page_tables import HEIGHT, WIDTH
from dpbench.report.sections.base import SECTIONS

__all__ = ["finished_runs", "read_run", "write_page"]

# Rows of a table over all runs of a page, so that browsers open it at once.
MOST_ROWS = 6000


def finished_runs(root: Path) -> list[Path]:
    """Return the folders below `root` that hold a finished run, sorted by name."""
    folders = sorted(path.parent for path in root.glob("*/manifest.json"))
    return [folder for folder in folders if "sweep" in read_manifest(folder)]


def write_page(folders: Sequence[Path], target: Path) -> Path:
    """Write the page of one run, or of several runs that the reader can unfold.

    The page depends only on the files in the folders. Showing a finished run again changes times,
    memory and the number of reused blocks in these files, but not the page. If blocks are computed
    again, the line with their date and duration changes.

    Parameters
    ----------
    folders : sequence of Path
        Folders of finished runs.
    target : Path
        The HTML file to write.

    Returns
    -------
    Path
        The target.

    Raises
    ------
    ConfigError
        If the files of a folder cannot be read.
    """
    runs = []
    for i, folder in enumerate(folders, 1):
        try:
            runs.append(read_run(folder, f"run{i}", MOST_ROWS // len(folders)))
        except (KeyError, ValueError, TypeError, AttributeError, csv.Error) as error:
            raise ConfigError(
                f"report: '{folder}': cannot be read, another version may have written it; run it "
                f"again or move it away ({type(error).__name__}: {error})"
            ) from error
    style, script = _file("page.css"), _file("page.js")
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src '{_digest(script)}'"
    )
    own = {"style": Markup(style), "script": Markup(script), "policy": policy}  # noqa: S704
    sizes = {"width": WIDTH, "height": HEIGHT}
    text = _template().render(runs=runs, zip=zip, **own, **sizes)
    with atomic(target) as path:
        # JSON may contain a lone surrogate, which becomes a question mark
        path.write_bytes(text.encode("utf-8", "replace"))
    return target


def read_run(folder: Path, name: str, most: int) -> dict[str, Any]:
    """Read the data of a run that the page's template shows.

    The manifest lists the sections of the run in order. A run of an earlier version without the
    list has all sections with content. Sections that this version does not know are left out.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    name : str
        Beginning of the ids of the run's elements on the page.
    most : int
        Largest number of rows of a table.

    Returns
    -------
    dict
        Variables of the template ``page.html``.
    """
    run = RunFolder(folder, most)
    names = run.manifest.get("sections") or SECTIONS
    sections = [one for one in (SECTIONS[name](run) for name in names if name in SECTIONS) if one]
    found: list[str] = []
    for one in sorted(sections, key=lambda one: one.rank):
        found += [*filter(None, [one.alone if not found else ""]), *one.found]
    failed = ["bad"] if run.manifest.get("exit_code") else []
    return {
        "id": name,
        "name": str(run.manifest.get("sweep", folder.resolve().name)),
        "folder": folder.resolve().name,
        "asked": next((one.asked for one in sections if one.asked), ""),
        "found": "; ".join(found),
        "tone": worst([*failed, *(one.tone for one in sections)]),
        "figures": [one.figure for one in sections if one.figure],
        "captions": {label: text for one in sections for label, text in one.captions.items()},
        "sections": [one for one in sections if one.drawn],
    }


@cache
def _template() -> Template:
    """Return the template, cached because compiling takes longer than rendering."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(_file("page.html"))


def _file(name: str) -> str:
    return (files("dpbench.report") / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the source expression of a Content Security Policy that allows `text` inline."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
