"""What survives an interruption, damage and a change, and what is computed again."""

from __future__ import annotations

import resource
import shlex
import shutil
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import dpbench

from .conftest import FIGURE, Bench, finish, kill, unusable, wait_for

COMMAND = ["--config-dir", "conf", "sweep=tiny", "n_jobs=2"]


def slow(spec: dict[str, Any]) -> None:
    """Six blocks of a quarter of a second, four fast ones and a figure."""
    spec["parts"]["tails"] = {"families": ["tails"], "n": [1e4], "trials": 1200}
    spec["figures"] = {"errors": FIGURE}


def damage_truncate(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-100])


def damage_flip(path: Path, _: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 3] ^= 1
    path.write_bytes(data)


def damage_empty(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def damage_swap(path: Path, other: Path) -> None:
    shutil.copy(other, path)


def test_a_second_run_computes_nothing(bench: Bench) -> None:
    assert bench.run().code == 0
    done, results = bench.manifest()["blocks_done"], bench.results()
    assert done == len(bench.blocks()) == 5
    again = bench.run()
    assert again.code == 0
    assert "0 blocks done, 5 reused" in again.out
    assert bench.manifest()["blocks_done"] == 0
    assert bench.manifest()["blocks_reused"] == done
    assert bench.results() == results


@pytest.mark.parametrize("lost", ["manifest.json", "summary.csv", "claims.csv", "scoreboard.txt"])
def test_a_lost_file_is_made_again_from_the_blocks(bench: Bench, lost: str) -> None:
    bench.run()
    results = bench.results()
    (bench.folder / "out" / lost).unlink()
    assert bench.run().code == 0
    assert bench.manifest()["blocks_done"] == 0
    assert bench.manifest()["blocks_reused"] == 5
    assert bench.results() == results
    assert (bench.folder / "out" / lost).exists()


def test_an_edited_summary_is_made_again(bench: Bench) -> None:
    bench.run()
    results = bench.results()
    (bench.folder / "out" / "summary.csv").write_text("edited")
    assert bench.run().code == 0
    assert bench.results() == results


def test_resume_false_computes_all_again(bench: Bench) -> None:
    bench.run()
    results = bench.results()
    assert bench.run("resume=false").code == 0
    assert bench.manifest()["blocks_done"] == 5
    assert bench.results() == results


@pytest.mark.parametrize("keep_manifest", [True, False])
@pytest.mark.parametrize("damage", [damage_truncate, damage_flip, damage_empty, damage_swap])
def test_a_damaged_block(
    bench: Bench, damage: Callable[[Path, Path], None], *, keep_manifest: bool
) -> None:
    bench.run()
    results, shards = bench.results(), {p: p.read_bytes() for p in bench.blocks()}
    first, second = bench.blocks()[1:3]
    damage(first, second)
    if not keep_manifest:
        (bench.folder / "out" / "manifest.json").unlink()
    result = bench.run()
    assert result.code == 0
    assert first.name in result.out + result.err
    assert bench.manifest()["blocks_corrupt"] == [first.name]
    assert bench.manifest()["blocks_done"] == 1
    assert bench.manifest()["blocks_reused"] == 4
    assert bench.results() == results
    assert {p: p.read_bytes() for p in bench.blocks()} == shards


def test_a_byte_flipped_anywhere_changes_no_result(bench: Bench) -> None:
    bench.run()
    results, path = bench.results(), bench.blocks()[0]
    whole = path.read_bytes()
    for at in range(0, len(whole), len(whole) // 20):
        data = bytearray(whole)
        data[at] ^= 0x10
        path.write_bytes(data)
        assert bench.run().code == 0
        assert bench.results() == results, at


def edited_copy(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of the package that the commands of this test run."""
    source, root = Path(dpbench.__file__).parent, bench.folder / "copy"
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(source, root / "dpbench", ignore=ignore)
    if not (source / "conf").is_dir():
        shutil.copytree(source.parent / "conf", root / "conf")
    monkeypatch.setenv("PYTHONPATH", str(root))
    return root / "dpbench"


def test_a_changed_helper_makes_blocks_stale(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    package, command = edited_copy(bench, monkeypatch), bench.argv()
    assert bench.command(*command).code == 0
    results = bench.results()
    for name, done in [("analysis/claims.py", 0), ("privacy/budgets.py", 5)]:
        path = package / name
        path.write_text(path.read_text() + "\n# changed\n")
        assert bench.command(*command).code == 0
        assert bench.manifest()["blocks_done"] == done
        assert bench.results() == results


def test_a_changed_plugin_makes_blocks_stale(bench: Bench) -> None:
    bench.plugin("WideMean")
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    command = bench.argv("plugins=[mine]")
    assert bench.command(*command).code == 0
    before = bench.read("summary.csv")
    bench.plugin("WideMean", "value = value + 1")
    assert bench.command(*command).code == 0
    assert bench.manifest()["blocks_done"] == 5
    assert bench.read("summary.csv") != before


def test_a_changed_helper_of_a_plugin_makes_blocks_stale(bench: Bench) -> None:
    bench.plugin("WideMean", "from helper import SHIFT; value = value + SHIFT")
    text = (bench.conf / "mine.py").read_text()
    (bench.conf / "mine.py").write_text(f"import helper\n{text}")
    (bench.conf / "helper.py").write_text("SHIFT = 0.0\n")
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    command = bench.argv("plugins=[mine]")
    assert bench.command(*command).code == 0
    before = bench.read("summary.csv")
    (bench.conf / "helper.py").write_text("SHIFT = 100.0\n")
    assert bench.command(*command).code == 0
    assert bench.manifest()["blocks_done"] == 5
    assert bench.read("summary.csv") != before


def test_a_worker_that_dies_is_one_line(bench: Bench) -> None:
    dies = (
        "import multiprocessing as m, os; m.current_process().name != 'MainProcess' and os._exit(9)"
    )
    bench.plugin("WideMean", dies)
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    argv = [word for word in bench.argv("plugins=[mine]") if not word.startswith("n_jobs=")]
    result = bench.command(*argv, "n_jobs=2")
    assert result.code == 1, result
    assert "Traceback" not in result.err
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("dpbench: TerminatedWorkerError: ")
    assert "finished blocks are kept, to go on: " in last


def test_kill_9_loses_blocks_in_flight_only(bench: Bench) -> None:
    bench.write(slow)
    assert bench.command(*COMMAND, "out=whole").code == 0
    for moment in (1, 4, 8):
        process = bench.start(*COMMAND, "out=out")
        wait_for(
            lambda m=moment: (bench.folder / "out").exists() and len(bench.blocks()) >= m,  # type: ignore[misc]
            process,
        )
        kill(process)
        process.communicate()
    kept = len(bench.blocks())
    assert kept >= 8
    result = bench.command(*COMMAND, "out=out")
    assert result.code == 0
    assert bench.manifest()["blocks_reused"] >= kept
    assert "damaged" not in result.out
    assert bench.results() == bench.results("whole")


def test_ctrl_c_keeps_what_is_finished(bench: Bench) -> None:
    bench.write(slow)
    process = bench.start(*COMMAND, "out=out")
    wait_for(lambda: len(bench.blocks()) >= 3, process)
    kill(process, signal.SIGINT)
    result = finish(process)
    assert result.code == 130, result
    assert "Traceback" not in result.err
    assert [line for line in result.err.splitlines() if line][-1:] == [
        line for line in result.err.splitlines() if "interrupted" in line
    ]
    kept = len(bench.blocks())
    assert 3 <= kept < 10
    assert not list((bench.folder / "out").rglob("*.tmp"))
    resume = shlex.split(result.err.strip().rpartition("python -m dpbench ")[2])
    assert resume == [*COMMAND, "out=out"]
    assert bench.command(*resume).code == 0
    assert bench.manifest()["blocks_reused"] == kept


def test_two_runs_at_once(bench: Bench) -> None:
    bench.write(slow)
    command = ["--config-dir", "conf", "sweep=tiny", "n_jobs=1", "out=out"]
    both = [bench.start(*command) for _ in range(2)]
    for process in both:
        result = finish(process)
        assert result.code == 0, result.err
    results = bench.results()
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert bench.command(*command, "out=alone").code == 0
    assert results == bench.results("alone")


def test_more_trials_keep_the_earlier_ones(bench: Bench) -> None:
    bench.run("trials=30")
    first = bench.manifest()["blocks_done"]
    assert bench.run("trials=300").code == 0
    assert bench.manifest()["blocks_reused"] == first
    bench.run("trials=300", "out=once")
    assert bench.results() == bench.results("once")
    bench.run("trials=30")
    bench.run("trials=30", "out=few")
    assert bench.results() == bench.results("few")


@pytest.mark.parametrize("out", ["out", "my results"])
def test_the_printed_command_adds_trials(bench: Bench, out: str) -> None:
    """What a run tells the user to type must work as it stands."""
    bench.plugin("WideMean")
    bench.write(lambda spec: spec["estimators"].update(wide={"kind": "wide_mean"}))
    printed = bench.run("plugins=[mine]", f"out={out}").out.splitlines()[-1]
    words = shlex.split(printed.partition("python -m dpbench ")[2])
    result = bench.raw(*words)
    assert result.code == 0, result.err
    assert bench.manifest(out)["trials"] == 100
    assert bench.manifest(out)["blocks_reused"] == 5


@pytest.mark.parametrize("blocks_fit", [True, False])
def test_a_full_disk(bench: Bench, *, blocks_fit: bool) -> None:
    bench.write(lambda spec: spec["figures"].update(errors=FIGURE))
    assert bench.run("out=whole").code == 0
    largest = max(path.stat().st_size for path in bench.blocks("whole"))
    assert largest < (bench.folder / "whole" / "figures" / "errors.png").stat().st_size
    most = largest if blocks_fit else 2048

    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (most, most))

    result = bench.command(*bench.argv(), preexec_fn=limit)
    assert result.code == 1, result
    assert result.err.count("\n") == 1, result.err
    assert "finished blocks are kept" in result.err
    assert not list((bench.folder / "out").rglob("*.tmp"))
    assert len(bench.blocks()) == (5 if blocks_fit else 0)
    assert bench.run().code == 0
    assert bench.manifest()["blocks_reused"] == (5 if blocks_fit else 0)
    assert bench.results() == bench.results("whole")


@pytest.mark.parametrize("out", ["file/x", "/proc/x"])
def test_an_out_that_cannot_be_made(bench: Bench, out: str) -> None:
    (bench.folder / "file").write_text("")
    unusable(bench.command(*bench.argv(f"out={out}")), "out", out)


@pytest.mark.parametrize("out", ["a b/c", "é", "x=1,[2]", "a%20b", "~/tilde"])
def test_an_out_of_any_name(bench: Bench, monkeypatch: pytest.MonkeyPatch, out: str) -> None:
    """Python, pyarrow and matplotlib must agree on where it is."""
    monkeypatch.setenv("HOME", str(bench.folder / "home"))
    result = bench.run(f"out='{out}'")
    assert result.code == 0, result.err
    assert [len(bench.blocks(at)) for at in (out, out.replace("~", "home", 1))].count(5) >= 1
