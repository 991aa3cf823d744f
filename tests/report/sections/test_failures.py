"""Failures in a page, and where results come from."""

from __future__ import annotations

from pathlib import Path

from tests.report.conftest import page_of


def test_failures_come_with_their_command_and_results_with_their_origin(example: Path) -> None:
    page = page_of(example)
    assert page.texts("li")[-1] == "ValueError: too few python -m dpbench rerun=ab"
    assert "python -m dpbench sweep=example" in page.texts("pre")
    assert "2026-01-02 03:04 UTC, in 5.6 s" in page.texts("dd")
    assert {"0123abc with uncommitted changes", "python 3.11.0, numpy 2.4.6"} <= {*page.texts("dd")}
    assert any("theorem: near_optimal" in text for text in page.texts("code"))
