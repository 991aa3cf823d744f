"""A file is written whole or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbench.output.files import atomic


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
