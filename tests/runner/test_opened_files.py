"""Blocks that depend on files outside their origin are computed again."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import pytest

from dpbench.runner import opened_files
from dpbench.runner.origin import Origin
from tests.bench import MINE, Bench

PATH = "import pathlib; path = pathlib.Path('{}'); "
READS = {  # what a plug-in may do with a file that nothing declares; {} is its name without suffix
    "data.txt": PATH + "value = value + float(path.read_text())",
    "conf/table.txt": "import numpy; value = value + numpy.loadtxt('{}')",
    "conf/part.py": "import importlib; value = value + importlib.import_module('pa' + 'rt').SHIFT",
    "conf/more.py": PATH + "names = dict(); exec(path.read_text(), names); value += names['SHIFT']",
}


def test_what_a_plug_in_reads_is_never_stale(bench: Bench) -> None:
    """The numbers are those of a new run, after workers, too; a line names the files."""
    files, found = [bench.folder / name for name in READS], list[dict[Any, Any]]()
    bench.odd("; ".join(code.format(name) for name, code in READS.items()))
    for unit, jobs in ((0, 1), (100, 2), (200, 1)):
        for place, file in enumerate(files):  # each file's share of the sum shows
            shift = f"{unit * 2**place}.0"
            file.write_text(f"SHIFT = {shift}\n" if file.suffix == ".py" else shift)
        bench.forget()
        words = MINE, "trials=4", f"n_jobs={jobs}"
        result = bench.command(*words) if jobs > 1 else bench.raw(*bench.argv(*words))
        assert result.code == 0, result
        assert all((str(file) in result.out) == bool(found) for file in files), result.out
        assert bench.counts()[0] > 0
        assert bench.manifest()["files_opened"] == sorted(map(str, files))
        found.append(bench.table().set_index("estimator")["q50"].to_dict())
    for before, after in itertools.pairwise(found):
        assert after["odd"] == pytest.approx(before["odd"] + 1500, abs=50)
        assert after["mean"] == before["mean"]


def test_what_a_plug_in_reads_when_it_is_imported(bench: Bench) -> None:
    bench.odd("value = value + SHIFT")
    path = bench.conf / "mine.py"
    path.write_text(
        f"import pathlib\nSHIFT = float(pathlib.Path('data.txt').read_text())\n{path.read_text()}"
    )
    for shift in ("1.0", "2.0"):
        (bench.folder / "data.txt").write_text(shift)
        bench.forget()
        bench.done(MINE, "trials=4")
        assert bench.counts() == (5, 0)


def test_a_plug_in_without_files_is_reused(bench: Bench) -> None:
    bench.odd("import json, colorsys; value = value + 0")
    bench.done(MINE, "trials=4")
    assert bench.manifest()["files_opened"] == []
    (bench.folder / "out" / "manifest.json").unlink()
    bench.done(MINE, "trials=4")
    assert bench.counts() == (0, 5)


def test_another_process_knows_what_the_first_one_opened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The main process opens a file; the tasks travel to a process that has opened nothing."""
    (tmp_path / "mine.py").touch()
    data = tmp_path / "data.txt"
    data.write_text("1")
    monkeypatch.setattr(opened_files, "_opened", {})
    with opened_files.note_opened():
        data.read_text()
    origin = Origin("source", "machine", plugins=(tmp_path / "mine.py",))
    sent = opened_files.noting(abs, origin)
    monkeypatch.setattr(opened_files, "_opened", {})
    assert sent(-2) == (2, (str(data.resolve()),))
