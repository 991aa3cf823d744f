"""The command: flags, commands, and one line for each mistake."""

from __future__ import annotations

import gc
import re
import shutil

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench.cli.main import run
from dpbench.jobs.composition import expand_multirun
from dpbench.output.command_line import parse_flags
from dpbench.registry import ConfigError
from tests.bench import Bench, unusable


def test_flags() -> None:
    for argv, line in (
        (["--flag"], "--flag: no such flag; choose from --help, --version, --schema, "),
        (["--config-dir", "nowhere"], "--config-dir: 'nowhere': no such folder"),
        (["--cfg", "nope"], "--cfg: invalid choice: 'nope' (choose from 'job')"),
    ):
        with pytest.raises(ConfigError) as error:
            parse_flags(argv)
        assert str(error.value).startswith(line)
    with pytest.raises(ConfigError, match="seed=1,"):
        expand_multirun(["seed=1,["])
    for word in ("seed=glob(*)", "seed=range(1,9,0)"):
        with pytest.raises(ConfigError, match=r"seed=.*: list the values, as in seed=1,2,3"):
            expand_multirun([word])
    for words in (["seed=range(0,1000000000)"], ["seed=range(0,40)", "trials=range(1,40)"]):
        with pytest.raises(ConfigError, match="more than 1000 runs"):
            expand_multirun(words)


# The command itself, in this process.


COMMANDS = [
    ("sweep=nope", ["sweep: 'nope'", "heavy_tail"]),
    ("sweep.budgets.pure.epsilon=0", ["sweep.budgets.pure.epsilon: 0"]),
    ("+sweep.claims.alpha.nope=1", ["sweep.claims.alpha.nope"]),
    ("trials=0", ["trials: 0"]),
    ("--multirun seed=1,-2", ["seed: -2"]),
    ("-m seed=1,2", ["out: 'out': two of the runs share it", "${seed}"]),
    ("plugins=[no_such_module]", ["plugins: 'no_such_module': ModuleNotFoundError"]),
    ("~sweep", ["sweep: this key is required"]),
    ("out=file/x", ["out: 'file/x'"]),
    ("out=/proc/1/x", ["out: '/proc/1/x'"]),
    ("rerun=f0123456789n1000", ["rerun: 'f0123456789n1000': no block"]),
]


def test_commands(bench: Bench) -> None:
    (bench.folder / "file").write_text("")
    for words, named in COMMANDS:
        bench.refuses(*words.split(), named=named)


def test_the_real_command(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check one line without a traceback, and the traceback with HYDRA_FULL_ERROR=1."""
    before = bench.files()
    unusable(bench.command("trials=abc"), "trials: 'abc'")
    assert bench.files() == before
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ConfigError, match="trials: 'abc'"):
        bench.run("trials=abc")


def test_too_little_memory_without_a_reason(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever it is missing, the line says what to do."""

    def fails(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr("dpbench.jobs.study.StudyJob.compute", fails)
    result = bench.run("trials=4")
    line = "dpbench: MemoryError: use fewer processes (n_jobs=1), or raise the memory limit"
    assert result.code == 1
    assert result.err.startswith(line)
    assert "finished blocks are kept, to go on: " in result.err


def test_of_many_runs_no_garbage_is_left() -> None:
    gc.disable()
    try:
        assert run(["--multirun", "seed=1,2", "--cfg", "job"]) == 0
        assert gc.isenabled()
    finally:
        gc.enable()


def test_trials_auto_runs_until_the_claims_are_decided(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At 40 trials the exponents of k = 2 and 3 are open; a second run decides, or is named."""
    bench.write(lambda spec: spec["claims"]["alpha"].update(tolerance=0.1))
    first = bench.run("trials=40")
    needed = re.search(r"to decide: .* trials=(\d+)", first.out + first.err)
    assert needed
    assert int(needed[1]) > 40
    found = bench.run("trials=auto")
    assert "to decide" not in (found.out + found.err).splitlines()[-1]
    assert bench.manifest()["configuration"]["trials"] >= int(needed[1])
    monkeypatch.setattr("dpbench.cli.main.AUTO_SECONDS", 0.0)
    shutil.rmtree(bench.folder / "out")
    refused = bench.run("trials=auto")
    assert re.search(r"trials=auto: that would take about \d+ min", refused.err)
    assert bench.manifest()["configuration"]["trials"] is None
    assert "leave out --multirun" in bench.run("trials=auto", "--multirun", "seed=1,2").err
