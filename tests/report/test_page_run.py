"""A run's folder as its page reads it, whatever lies there."""

from __future__ import annotations

from pathlib import Path

from dpbench.report.page import find_finished_runs
from tests.report.conftest import page_of


def test_whatever_the_manifest_there_is_a_page(tmp_path: Path) -> None:
    assert page_of(tmp_path).texts("h1") == [tmp_path.name]
    for text, name in (("{", tmp_path.name), ('{"sweep": "a\\ud800b"}', "a?b")):
        (tmp_path / "manifest.json").write_text(text)
        assert page_of(tmp_path).texts("h1") == [name]


def test_finished_runs_have_a_manifest_of_a_sweep(tmp_path: Path) -> None:
    known = {"b": '{"sweep": "b"}', "a": '{"sweep": "a"}', "broken": "{", "list": "[]", "": "{}"}
    for name, text in known.items():
        (tmp_path / name).mkdir(exist_ok=True)
        (tmp_path / name / "manifest.json").write_text(text)
    (tmp_path / "without").mkdir()
    assert find_finished_runs(tmp_path) == [tmp_path / "a", tmp_path / "b"]
    assert find_finished_runs(tmp_path / "nowhere") == []
