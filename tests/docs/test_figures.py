"""Interactive figures of the documentation."""

from __future__ import annotations

import json
from pathlib import Path
from types import SimpleNamespace

import pytest

nodes = pytest.importorskip("docutils.nodes")
ROOT = Path(__file__).parents[2]


def test_numbers_cannot_end_their_element() -> None:
    from docs.figures import interactive

    html = interactive("<svg/>", {"legend": ["</script><b>"]})
    assert html.count("<") == 5
    assert html.startswith('<div class="interactive"><svg/><script type="application/json">')
    assert interactive("<svg/>", None) == "<svg/>"


def test_images_with_numbers_beside_them_are_wrapped(tmp_path: Path) -> None:
    from docs.figures import add_numbers

    (tmp_path / "with.json").write_text('{"columns": 1}')
    document = nodes.section()
    for name in ("with", "without"):
        document += nodes.paragraph("", "", nodes.image(uri=f"{name}.png"))
    add_numbers(SimpleNamespace(srcdir=str(tmp_path)), document, "page")
    kinds = [type(child).__name__ for child in document.children]
    assert kinds == ["raw", "paragraph", "raw", "paragraph"]
    assert '{"columns":1}' in document.children[2].astext()


def test_stored_numbers_are_those_of_figures_with_images() -> None:
    found = sorted((ROOT / "results" / "figures").glob("*.json"))
    assert found
    for path in found:
        assert path.with_suffix(".png").is_file()
        assert {"columns", "legend", "panels"} == json.loads(path.read_text("utf-8")).keys()
