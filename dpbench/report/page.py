"""Write the page of one or several runs: a single HTML file without external resources."""

from __future__ import annotations

import base64
import csv
import gzip
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
from dpbench.report.page_run import RunFolder, read_manifest, worst_tone
from dpbench.report.page_tables import HEIGHT, WIDTH
from dpbench.report.sections import find_builder

__all__ = ["embed", "find_finished_runs", "read_file", "read_run", "template", "write_page"]

# Rows of a table over all runs of a page. A page that is larger than MAX_BYTES has fewer rows, so
# that browsers open it at once.
MAX_ROWS = (6000, 2000, 1000, 500)
MAX_BYTES = 2_000_000


def find_finished_runs(root: Path) -> list[Path]:
    """Return the folders directly below `root` that hold a finished run, sorted by name."""
    folders = sorted(path.parent for path in root.glob("*/manifest.json"))
    return [folder for folder in folders if "sweep" in read_manifest(folder)]


def write_page(folders: Sequence[Path], target: Path) -> Path:
    """Write the page of one run, or of several runs that the reader can unfold.

    The page depends only on the files in the folders. If a finished run is started again, times,
    memory and the number of reused blocks change in these files, but the page does not. If blocks
    are computed again, the line with their date and duration changes. A ConfigError is raised if
    the files of a folder cannot be read. Return the target, an HTML file.
    """
    fitting = MAX_ROWS[0]  # more rows do not fit, because half the rows are at least half the page
    for max_rows in MAX_ROWS:
        if max_rows <= fitting or max_rows == MAX_ROWS[-1]:
            text = _render(folders, max_rows // len(folders))
            if len(text) <= MAX_BYTES:
                break
            fitting = max_rows * MAX_BYTES // len(text)
    with atomic(target) as path:
        path.write_bytes(text)
    return target


def _render(folders: Sequence[Path], max_rows: int) -> bytes:
    """Return the page of some runs, with at most `max_rows` rows in each table."""
    runs = []
    for i, folder in enumerate(folders, 1):
        try:
            runs.append(read_run(folder, f"run{i}", max_rows))
        except (KeyError, ValueError, TypeError, AttributeError, csv.Error) as error:
            raise ConfigError(
                f"report: '{folder}': cannot be read; run it "
                f"again or move it away ({type(error).__name__}: {error})"
            ) from error
    parts = _style_and_scripts(interactive=any(run["interactive"] for run in runs))
    sizes = {"width": WIDTH, "height": HEIGHT}
    text = template(read_file("page.html")).render(runs=runs, zip=zip, **parts, **sizes)
    # A lone surrogate from JSON cannot be encoded and becomes a question mark.
    return text.encode("utf-8", "replace")


@cache  # a page is rendered with fewer rows until it is small enough
def _style_and_scripts(*, interactive: bool) -> dict[str, Any]:
    """Return the page's style and scripts, and the policy that allows these texts alone.

    The library that draws interactive figures is on the page only if `interactive` is True. It is
    compressed, because it would take a quarter of the page; ``figure.js`` unpacks it. It sets
    styles of elements as properties, never as attributes or style sheets, so that the policy
    needs no exception.
    """
    style, scripts, library, unpacked = (
        read_file("page.css"),
        [read_file("sort.js") + read_file("page.js")],
        "",
        [],
    )
    if interactive:
        style += read_file("interactive/figure.css")
        scripts.insert(0, read_file("interactive/figure.js"))
        unpacked = [read_file("interactive/vega.js")]
        packed = gzip.compress(unpacked[0].encode("utf-8"), mtime=0)
        library = base64.b64encode(packed).decode("ascii")
    return {**embed(style, scripts, unpacked), "library": library}


def embed(style: str, scripts: Sequence[str], unpacked: Sequence[str] = ()) -> dict[str, Any]:
    """Return the variables `style`, `scripts` and `policy` of the template of a page.

    The policy allows this style sheet and these scripts alone, also scripts that are `unpacked` on
    the page.
    """
    allowed = " ".join(f"'{_digest(script)}'" for script in [*scripts, *unpacked])
    policy = (
        "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; "
        f"style-src '{_digest(style)}'; script-src {allowed}"
    )
    marked = [Markup(script) for script in scripts]  # noqa: S704
    return {"style": Markup(style), "scripts": marked, "policy": policy}  # noqa: S704


def read_run(folder: Path, name: str, max_rows: int) -> dict[str, Any]:
    """Read the data of a run: the variables of the template ``page.html``.

    The manifest, a file in the folder, lists the sections of the page in order. Sections that this
    version does not have are left out. The ids of the run's elements on the page begin with `name`.
    """
    run = RunFolder(folder, max_rows)
    builders = filter(None, map(find_builder, run.manifest.get("sections", ())))
    sections = [section for section in (build(run) for build in builders) if section]
    answer: list[str] = []
    for section in sorted(sections, key=lambda section: section.rank):
        answer += [*filter(None, [section.fallback if not answer else ""]), *section.findings]
    failed = ["bad"] if run.manifest.get("exit_code") else []
    return {
        "id": name,
        "name": str(run.manifest.get("sweep", folder.resolve().name)),
        "noun": str(run.manifest.get("noun", "Sweep")),
        "folder": folder.resolve().name,
        "question": str(run.sweep.get("question") or run.sweep.get("title") or ""),
        "setup": next((section.setup for section in sections if section.setup), ""),
        "answer": "; ".join(answer),
        "tone": worst_tone([*failed, *(section.tone for section in sections)]),
        "interactive": any(section.interactive for section in sections),
        "figures": [section.figure for section in sections if section.figure],
        "captions": {
            label: text for section in sections for label, text in section.captions.items()
        },
        "sections": [section for section in sections if section.has_content],
    }


@cache
def template(text: str) -> Template:
    """Return the template of a page, cached because compiling takes longer than rendering."""
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(text)


def read_file(name: str, package: str = "dpbench.report") -> str:
    """Return the text of a file that is shipped in a package."""
    return (files(package) / name).read_text(encoding="utf-8")


def _digest(text: str) -> str:
    """Return the hash that lets a Content Security Policy allow the inline CSS or script `text`."""
    return "sha256-" + base64.b64encode(hashlib.sha256(text.encode()).digest()).decode("ascii")
