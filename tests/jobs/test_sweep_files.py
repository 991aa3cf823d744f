"""Texts of sweeps: every shipped sweep says its question, and what it costs."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbench.jobs.sweep_files import SweepTexts, find_sweeps, read_texts
from dpbench.package import conf_folder

SWEEPS = find_sweeps([conf_folder()])


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_says_its_question_and_cost(name: str) -> None:
    texts = read_texts(SWEEPS[name])
    time, unit, size, megabytes = texts.cost.split()
    assert int(time) > 0
    assert unit in {"s,", "min,"}
    assert (int(size) > 0, megabytes) == (True, "MB")
    assert 10 < len(texts.title) <= 60
    assert (texts.question[-1], texts.question.count("?")) == ("?", 1)
    assert texts.about[-1] == "."


def test_no_two_sweeps_have_one_question() -> None:
    assert len({read_texts(path).question for path in SWEEPS.values()}) == len(SWEEPS)


@pytest.mark.parametrize("content", ["", "- a list", "a: [", "name: mine\ntitle:\n"])
def test_a_file_without_texts(content: str, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(content)
    assert read_texts(path) == SweepTexts()


def test_the_first_folder_goes_before(tmp_path: Path) -> None:
    for folder, names in (("a", "xy"), ("b", "wxz")):
        (tmp_path / folder / "sweep").mkdir(parents=True)
        for name in names:
            (tmp_path / folder / "sweep" / f"{name}.yaml").touch()
    found = find_sweeps([tmp_path / "a", tmp_path / "b"])
    assert {name: path.parents[1].name for name, path in found.items()} == {
        "w": "b", "x": "a", "y": "a", "z": "b",
    }  # fmt: skip
    assert list(found) == sorted(found)
