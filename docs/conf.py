"""Configuration of Sphinx for the documentation and the pages of the benchmark."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

from docutils.nodes import SkipNode
from latex2mathml.converter import convert

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from docs.archive import write_archive  # noqa: E402
from docs.docstring_to_rst import docstring_to_rst  # noqa: E402
from docs.figures import STATIC, STYLE, add_numbers, add_scripts  # noqa: E402
from docs.generate import write_reference  # noqa: E402
from docs.modules import write_modules  # noqa: E402
from dpbench.package import __version__  # noqa: E402

project = "dpbench"
author = "the authors of dpbench"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser"]
exclude_patterns = ["_build"]
default_role = "py:obj"  # names in backticks link to their page, or are code if they have none
highlight_language = "text"  # blocks without a language are formulas

autodoc_typehints = "none"  # docstrings give the types
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence", "dollarmath"]
html_math_renderer = "mathml"  # see setup: no script from the network

html_theme = "furo"
# Light and dark colours of a run's report page, which the documentation shares.
CSS = (HERE.parent / "dpbench" / "report" / "page.css").read_text("utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#\w+)", block))
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)


def _colours(colours: dict[str, str]) -> dict[str, str]:
    """Map the colours of a run's report page to variables of the theme."""
    used = {
        "paper": ["background-primary"],
        "raised": ["background-secondary", "code-background"],
        "ink": ["foreground-primary"],
        "muted": ["foreground-secondary", "foreground-muted"],
        "rule": ["background-border"],
        "link": ["brand-primary", "brand-content", "brand-visited"],
    }
    return {f"color-{name}": colours[key] for key, names in used.items() for name in names}


html_theme_options = {
    "light_css_variables": _colours(LIGHT),
    "dark_css_variables": _colours(DARK),
    "navigation_with_keys": True,
}
html_title = f"dpbench {version}"
html_static_path = ["_static", "../dpbench/report/sort.js", str(STATIC)]
html_css_files = ["site.css", STYLE]
html_js_files = [("sort.js", {"defer": "defer"})]
html_show_search_summary = False  # summaries are fetched, which fails for pages on disk
html_copy_source = False
html_show_copyright = False


def setup(app: Any) -> None:
    """Generate pages before Sphinx reads the sources, and convert docstrings to reST."""
    app.add_config_value("archive", "", "env", str)  # file of scores
    app.add_html_math_renderer("mathml", (_mathml, None), (_mathml_block, None))
    app.connect("builder-inited", _generate)
    app.connect("doctree-resolved", add_numbers)
    app.connect("html-page-context", add_scripts)
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before numpydoc


def _mathml(page: Any, node: Any) -> None:
    page.body.append(convert(node.astext()))
    raise SkipNode


def _mathml_block(page: Any, node: Any) -> None:
    page.body.append(f'<div class="math">{convert(node.astext(), display="block")}</div>')
    raise SkipNode


def _generate(app: Any) -> None:
    write_reference(HERE)
    write_modules(HERE)
    write_archive(HERE, Path(app.config.archive) if app.config.archive else None)


def _docstring(
    _app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = docstring_to_rst(lines)
