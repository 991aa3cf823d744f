"""Completion by Tab: the candidates, and the scripts in real shells."""

from __future__ import annotations

import os
import pty
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dpbench.app import commands
from dpbench.cli.completion import SCRIPTS, complete
from dpbench.cli.main import run
from dpbench.jobs.sweep_files import find_sweeps
from dpbench.package import conf_folder
from tests.output.test_command_line import CASES


@pytest.mark.parametrize(
    ("line", "wanted"),
    [
        ("pl", ["plan", "plugins="]),
        ("sweep=heavy_tail_l", ["sweep=heavy_tail_large", "sweep=heavy_tail_location"]),
        ("track=", ["track=check", "track=update"]),
        ("runner=", ["runner=dask", "runner=local"]),
        ("--c", ["--cfg", "--config-dir", "--completion"]),
        ("--cfg ", ["job"]),
        ("--help ki", ["kind"]),
        ("--help kind clip", ["clipped_mean", "clipped_variance"]),
        ("help sweep qu", ["quick"]),
        ("--help figure error_against", ["error_against_n"]),
        ("--completion z", ["zsh"]),
        ("benchmark c", ["compare"]),
        ("benchmark run mine.py q", ["quick="]),
        ("plan law=ga", ["law=gaussian"]),
        ("plan neighbours=a", ["neighbours=add_remove"]),
        ("libraries o", ["opendp"]),
        ("nonsense=", []),
        ("sweep.budgets.", []),
    ],
)
def test_candidates(line: str, wanted: list[str]) -> None:
    assert complete(line.split(" ")) == wanted


def test_every_command_and_sweep_and_key_of_a_command_is_completed() -> None:
    assert set(commands()) | {"help", "sweep=", "seed="} <= set(complete([""]))
    assert [f"sweep={name}" for name in find_sweeps([conf_folder()])] == complete(["sweep="])
    for name, case in CASES.items():
        keys = {f"{key}=" for key in case.keys.split() if "." not in key}
        assert keys - {"config_dir="} <= {*complete([*name.split(), ""]), "problems=", "benchmark="}


def test_sweeps_of_a_folder_of_ones_own(tmp_path: Path) -> None:
    (tmp_path / "sweep").mkdir()
    (tmp_path / "sweep" / "mine.yaml").touch()
    assert complete(["--config-dir", str(tmp_path), "sweep=mi"]) == ["sweep=mine"]


def test_what_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["--complete", "sweep=qui"]) == 0
    assert capsys.readouterr().out == "sweep=quick\n"
    assert run(["--complete", "nothing"]) == 0
    assert capsys.readouterr().out == ""
    assert run(["--completion", "bash"]) == 0
    assert capsys.readouterr().out == SCRIPTS["bash"] + "\n"
    assert run(["--completion", "bsh"]) == 2
    assert "--completion: 'bsh': did you mean 'bash'?" in capsys.readouterr().err


def test_nothing_slow_is_imported() -> None:
    """An answer must appear at once; time is not measured, because test machines are busy."""
    code = (
        "import sys; from dpbench.cli.completion import complete; "
        "complete(['sweep=']); "
        "print({'numpy', 'hydra', 'omegaconf', 'pydantic', 'pandas'} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "set()\n"


@pytest.fixture
def shell(tmp_path: Path) -> dict[str, str]:
    """Return an environment whose PATH has the command ``dpbench``."""
    script = tmp_path / "dpbench"
    root = Path(__file__).parents[2]
    script.write_text(f'#!/bin/sh\nPYTHONPATH={root} exec {sys.executable} -m dpbench "$@"\n')
    script.chmod(0o755)
    for name, text in SCRIPTS.items():
        (tmp_path / name).write_text(text)
    return {**os.environ, "PATH": f"{tmp_path}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "$ "}


def _press_tab(shell: list[str], env: dict[str, str], folder: Path, *typed: str) -> str:
    """Type lines into an interactive shell, a Tab after the last, and return what it shows."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(folder)
        os.execvpe(shell[0], shell, env)
    shown = ""
    try:
        for line in typed:
            os.write(terminal, line.encode())
            time.sleep(0.1)
        limit = time.monotonic() + 20
        while time.monotonic() < limit and "heavy_tail_location" not in shown:
            shown += os.read(terminal, 4096).decode(errors="replace")
    finally:
        os.kill(pid, 9)
        os.waitpid(pid, 0)
        os.close(terminal)
    return shown


def test_tab_in_a_real_bash(shell: dict[str, str], tmp_path: Path) -> None:
    lines = ("source ./bash\n", "dpbench sweep=heavy_tail_loc\t")
    shown = _press_tab(["bash", "--norc", "-i"], shell, tmp_path, *lines)
    assert "dpbench sweep=heavy_tail_location" in shown


@pytest.mark.skipif(shutil.which("zsh") is None, reason="needs zsh")
def test_tab_in_a_real_zsh(shell: dict[str, str], tmp_path: Path) -> None:
    lines = ("autoload -U compinit; compinit -u -D; source ./zsh\n",)
    typed = (*lines, "dpbench sweep=heavy_tail_loc\t")
    assert "sweep=heavy_tail_location" in _press_tab(["zsh", "-f", "-i"], shell, tmp_path, *typed)


@pytest.mark.skipif(shutil.which("fish") is None, reason="needs fish")
def test_a_real_fish(shell: dict[str, str], tmp_path: Path) -> None:
    command = ["fish", "-c", "source ./fish; complete -C 'dpbench sweep=heavy_tail_loc'"]
    done = subprocess.run(
        command, cwd=tmp_path, env=shell, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == ["sweep=heavy_tail_location"]


@pytest.mark.parametrize("word_breaks", [" =:", " "])
def test_candidates_replace_what_bash_replaces(
    word_breaks: str, shell: dict[str, str], tmp_path: Path
) -> None:
    """Bash replaces what follows the last = if = breaks words, else the whole word."""
    code = (
        f"source ./bash; COMP_WORDBREAKS='{word_breaks}'; COMP_LINE='dpbench n_jobs=1 track='; "
        'COMP_POINT=${#COMP_LINE}; _dpbench dpbench; echo "${COMPREPLY[@]}"'
    )
    done = subprocess.run(
        ["bash", "--norc", "-c", code], cwd=tmp_path, env=shell, capture_output=True, text=True,
        check=True,
    )  # fmt: skip
    wanted = "check update" if "=" in word_breaks else "track=check track=update"
    assert done.stdout.split() == wanted.split()
