"""Blocks that depend on files outside their origin are computed again."""

from __future__ import annotations

from typing import Any

import pytest

from tests.bench import MINE, Bench

# What a plug-in may do with a file that nothing declares; {} is its name without suffix.
PATH = "import pathlib; path = pathlib.Path('{}'); "
READS = {
    "data.txt": PATH + "value = value + float(path.read_text())",
    "conf/table.txt": "import numpy; value = value + numpy.loadtxt('{}')",
    "conf/part.py": "import importlib; value = value + importlib.import_module('pa' + 'rt').SHIFT",
    "conf/more.py": PATH + "names = dict(); exec(path.read_text(), names); value += names['SHIFT']",
}


@pytest.mark.parametrize(("name", "jobs"), [*((name, 1) for name in READS), ("conf/part.py", 2)])
def test_what_a_plug_in_reads_is_never_stale(bench: Bench, name: str, jobs: int) -> None:
    """The numbers are those of a new run; a line names the file. A run without it is reused."""
    file, found = bench.folder / name, list[dict[Any, Any]]()
    bench.odd(READS[name].format(name))
    for shift in ("0.0", "100.0"):
        file.write_text(f"SHIFT = {shift}\n" if name.endswith(".py") else shift)
        bench.forget()
        argv = [*bench.argv(MINE, "trials=4"), f"n_jobs={jobs}"]
        result = bench.command(MINE, "trials=4", f"n_jobs={jobs}") if jobs > 1 else bench.raw(*argv)
        assert result.code == 0, result
        assert (str(file) in result.out) == bool(found), result.out
        assert bench.counts()[0] > 0
        assert bench.manifest()["files_opened"] == [str(file)]
        found.append(bench.table().set_index("estimator")["q50"].to_dict())
    assert found[1]["odd"] > found[0]["odd"] + 50
    assert found[1]["mean"] == found[0]["mean"]


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
