"""A file is written whole or not at all."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dpbench.output.files import atomic, stamp


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    def write(text: str, *, fail: bool) -> None:
        with atomic(tmp_path / "a" / "b") as temporary:
            temporary.write_text(text)
            if fail:
                raise OSError("full")

    for before in ([], ["y"]):
        with pytest.raises(OSError, match="full"):
            write("x", fail=True)
        assert [path.read_text() for path in (tmp_path / "a").iterdir()] == before
        write("y", fail=False)


def test_a_stamp_tells_writes_within_a_second(tmp_path: Path) -> None:
    """Of one size, as two tables of a run may be."""
    path, second = tmp_path / "a", 10**9 * 1_800_000_000
    found = []
    for text, nanoseconds in (("x", 1), ("y", 2), ("yy", 2)):
        path.write_text(text)
        os.utime(path, ns=(second, second + nanoseconds))
        found.append(stamp(path))
    assert found[0] != found[1] != found[2] != found[0]
