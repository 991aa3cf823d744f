"""Figures in a page."""

from __future__ import annotations

import base64
from pathlib import Path

from tests.report.conftest import page_of


def test_figures_are_embedded_with_words(example: Path) -> None:
    """Of what they draw, not of their configuration; the first stands before all tables."""
    for name in ("another", "of_an_earlier_run"):
        (example / "figures" / f"{name}.svg").write_text("<svg/>")
    page = page_of(example)
    first, second = (attrs for attrs, _ in page.all("img"))
    data = str(first["src"]).removeprefix("data:image/svg+xml;base64,")
    assert base64.b64decode(data) == (example / "figures" / "curves.svg").read_bytes()
    assert (first["alt"], second["alt"]) == ("The <worst>", "another")
    captions = page.texts("figcaption")
    assert captions[0] == (
        "The <worst>. Shown: error (0.9 quantile) against n; bands: 95% intervals of the "
        "quantile from order statistics; errors on one easy distribution of the class may lie "
        "below the lower bound.File: figures/curves.svg"
    )
    assert captions[1] == "another. For print: figures/another.pdf"  # the PDF was written
