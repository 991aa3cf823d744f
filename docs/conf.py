"""How Sphinx builds the documentation and the benchmark's pages: offline, one set, one look."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
sys.path.insert(0, str(HERE.parent))

from docs.archive import write_archive  # noqa: E402
from docs.generate import write_reference  # noqa: E402
from docs.modules import write_modules  # noqa: E402
from docs.plain import plain  # noqa: E402
from dpbench.package import __version__  # noqa: E402

project = "dpbench"
author = "the authors of dpbench"
version = release = __version__
extensions = ["sphinx.ext.autodoc", "numpydoc", "myst_parser"]
exclude_patterns = ["_build"]
default_role = "py:obj"  # of names in backticks; those of nothing that has a page are code
highlight_language = "text"  # of blocks that do not say: formulas

autodoc_typehints = "none"  # docstrings say what is taken and given
autodoc_class_signature = "mixed"
autodoc_member_order = "bysource"
numpydoc_show_class_members = False
myst_heading_anchors = 3
myst_enable_extensions = ["colon_fence"]

html_theme = "furo"
# The look of a run's page: its colours, light and dark.
CSS = (HERE.parent / "dpbench" / "report" / "page.css").read_text("utf-8")
LIGHT, DARK = (
    dict(re.findall(r"--(\w+): (#\w+)", block))
    for block in re.findall(r":root \{(.*?)\}", CSS, re.DOTALL)
)


def _colours(of: dict[str, str]) -> dict[str, str]:
    """The theme's colours from those of a run's page."""
    used = {
        "paper": ["background-primary"],
        "raised": ["background-secondary", "code-background"],
        "ink": ["foreground-primary"],
        "muted": ["foreground-secondary", "foreground-muted"],
        "rule": ["background-border"],
        "link": ["brand-primary", "brand-content", "brand-visited"],
    }
    return {f"color-{name}": of[key] for key, names in used.items() for name in names}


html_theme_options = {
    "light_css_variables": _colours(LIGHT),
    "dark_css_variables": _colours(DARK),
    "navigation_with_keys": True,
}
html_title = f"dpbench {version}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
html_show_search_summary = False  # a page that is read from disk may fetch nothing
html_copy_source = False
html_show_copyright = False


def setup(app: Any) -> None:
    """Write the generated pages before sources are read; docstrings are plain text."""
    app.add_config_value("archive", "", "env", str)  # of scores; by default that of the checkout
    app.connect("builder-inited", _generate)
    app.connect("autodoc-process-docstring", _docstring, priority=400)  # before numpydoc


def _generate(app: Any) -> None:
    write_reference(HERE)
    write_modules(HERE)
    write_archive(HERE, Path(app.config.archive) if app.config.archive else None)


def _docstring(
    _app: Any, _what: str, _name: str, _thing: Any, _options: Any, lines: list[str]
) -> None:
    lines[:] = plain(lines)
