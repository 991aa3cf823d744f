"""Headers of sweeps: titles, and the run time and disk space that every shipped sweep states."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbench.jobs.sweep_header import find_sweeps, read_header
from dpbench.package import conf_folder

SWEEPS = find_sweeps([conf_folder()])


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_states_its_title_run_time_and_disk_space(name: str) -> None:
    header = read_header(SWEEPS[name])
    time, unit, size, megabytes = header.cost.split()
    assert int(time) > 0
    assert unit in {"s,", "min,"}
    assert (int(size) > 0, megabytes) == (True, "MB")
    assert 10 < len(header.title) <= 60


def test_the_header_of_a_file(tmp_path: Path) -> None:
    """A cost may go over the end of a line; comments after the first key belong to no header."""
    path = tmp_path / "mine.yaml"
    path.write_text(
        "# yaml-language-server: $schema=x\n# My sweep.\n#   code\n"
        "# Run time: about 2 min on two\n# cores. Disk space: 3 MB.\nname: mine\n# a comment\n"
    )
    header = read_header(path)
    assert header.lines[:2] == ("My sweep.", "  code")
    assert (header.title, header.cost, len(header.lines)) == ("My sweep", "2 min, 3 MB", 4)
    path.write_text("name: mine\n")
    assert (read_header(path).title, read_header(path).cost) == ("", "")


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
