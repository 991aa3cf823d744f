"""Make figures of the documentation interactive, as figures of a run's report page are."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dpbench.package import PACKAGE

__all__ = ["SCRIPTS", "STATIC", "STYLE", "add_numbers", "add_scripts", "interactive"]

STATIC = PACKAGE / "report" / "interactive"
STYLE, SCRIPTS = "figure.css", ("vega.js", "figure.js")


def interactive(still: str, numbers: Mapping[str, Any] | None) -> str:
    """Return the HTML of a figure with its numbers, from which a script draws the figure.

    Parameters
    ----------
    still : str
        HTML of the still figure, which a reader without scripts sees.
    numbers : mapping or None
        Description of the figure by `dpbench.report.drawing.interactive.describe`. If it is None,
        the still figure is returned.
    """
    if numbers is None:
        return still
    text = json.dumps(numbers, ensure_ascii=False, separators=(",", ":")).replace("<", "\\u003c")
    script = f'<script type="application/json">{text}</script>'
    return f'<div class="interactive">{still}{script}</div>'


def add_numbers(app: Any, doctree: Any, _name: str) -> None:
    """Add numbers to each image of a page that has a file with its numbers beside it."""
    from docutils import nodes  # installed with Sphinx only, and other modules import this one

    for image in list(doctree.findall(nodes.image)):
        path = Path(app.srcdir, image["uri"]).with_suffix(".json")
        if not path.is_file() or len(image.parent.children) > 1:
            continue
        before, _, after = interactive("\n", json.loads(path.read_text("utf-8"))).partition("\n")
        around = image.parent
        parts = [nodes.raw("", html, format="html") for html in (before, after)]
        around.replace_self([parts[0], around.deepcopy(), parts[1]])


def add_scripts(app: Any, _page: str, _template: str, context: dict[str, Any], _tree: Any) -> None:
    """Load the scripts on a page that has interactive figures."""
    if '<div class="interactive">' in context.get("body", ""):
        for script in SCRIPTS:
            app.add_js_file(script, loading_method="defer")
