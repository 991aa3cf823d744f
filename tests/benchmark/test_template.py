"""The file of a new entry."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.remote import read_entry
from dpbench.benchmark.template import write_entry
from dpbench.registry import ConfigError
from tests.conftest import entry_text


def test_the_file_is_the_guides_and_can_be_read(
    entry_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (entry_folder / "sub").mkdir()
    assert write_entry("wide_clip").read_text() == entry_text()
    monkeypatch.setenv("DPBENCH_COMMAND", "bash dev.sh bench")
    path = write_entry("sub/mine.py")
    assert path == Path("sub/mine.py")
    assert path.read_text().splitlines()[1] == (
        "# bash dev.sh bench benchmark run sub/mine.py quick=true"
    )
    entry = read_entry(path, read_benchmark().select("binary-n300-*,gauss-n100-*").problems)
    assert entry.card.name == "mine"
    assert set(entry.answers) == {"binary-n300-pure0.1", "gauss-n100-pure1"}


def test_no_file_is_replaced_and_no_module_hidden(entry_folder: Path) -> None:
    (entry_folder / "mine.py").write_text("mine")
    for name, said in (("mine", "exists, and is not"), ("json", "Python has a module of this")):
        with pytest.raises(ConfigError, match=said):
            write_entry(name)
    assert [path.name for path in entry_folder.iterdir()] == ["mine.py"]
    assert (entry_folder / "mine.py").read_text() == "mine"
