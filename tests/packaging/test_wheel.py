"""The built wheel, away from the checkout, and the checkout's own environment."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dpbench.benchmark.problems import MEAN_BENCHMARK

ROOT = Path(__file__).parents[2]


def _do(*command: str | Path, cwd: Path, path: str = "") -> str:
    env, words = {**os.environ, "PYTHONPATH": path}, [str(word) for word in command]
    done = subprocess.run(
        words, cwd=cwd, env=env, capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.slow
def test_wheel_runs_by_module_and_by_script_from_another_folder(tmp_path: Path) -> None:
    """With its configurations, and without the checkout's tests and experiments."""
    _do(sys.executable, "-m", "build", "--no-isolation", "--outdir", tmp_path, ROOT, cwd=tmp_path)
    (wheel,) = tmp_path.glob("*.whl")
    assert wheel.name.startswith("dpbench_mean-")
    assert len(list(tmp_path.glob("*.tar.gz"))) == 1
    names = zipfile.ZipFile(wheel).namelist()
    configurations = ("sweep/heavy_tail.yaml", "papers/ksu20.yaml", "sweep.schema.json")
    assert {f"dpbench/conf/{path}" for path in configurations} < set(names)
    assert {
        "dpbench/tracking/templates/accuracy.yml",
        "dpbench/tracking/templates/my_mean.txt",
    } < set(names)
    assert "dpbench/estimators/catalogue.yaml" in names
    assert {
        f"dpbench/results/archive/{MEAN_BENCHMARK}.parquet",
        "dpbench/docs/howto/benchmark.md",
    } < set(names)
    assert not [name for name in names if not name.startswith("dpbench")]
    target, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    _do(*pip, "--target", target, wheel, cwd=work)
    find = "import importlib.util as u; print(u.find_spec('dpbench').origin)"
    assert _do(sys.executable, "-c", find, cwd=work, path=str(target)).startswith(str(target))
    script = target / "bin" / "dpbench"
    assert "heavy_tail" in _do(script, "--help", cwd=work, path=str(target))
    usage = " ".join(_do(script, "benchmark", "--help", cwd=work, path=str(target)).split())
    page = usage.partition(" says how to write an entry.")[0].rpartition(" ")[2]
    assert Path(page).is_file(), usage
    archived = (
        f"import dpbench.benchmark.table as t; print(t.archive_path('{MEAN_BENCHMARK}').is_file())"
    )
    assert "True" in _do(sys.executable, "-c", archived, cwd=work, path=str(target))
    words = [f"~sweep.parts.{part}.figures" for part in ("worst_case", "two_regimes", "real_tails")]
    words += ["~sweep.figures", "trials=4", "n_jobs=1", "paper=true"]
    words += ["sweep.parts.worst_case.n.points=2"]
    assert "heavy_tail" in _do(sys.executable, "-m", "dpbench", *words, cwd=work, path=str(target))
    for name in ("summary.csv", "claims.tex"):
        assert (work / "results" / "quick" / name).exists()


FAKE_PYTHON = """#!/bin/sh
case "$*" in
-c*) ;;
"-m venv"*) rm -rf "$4"; mkdir -p "$4/bin"; cp "$0" "$4/bin/python"; echo venv >>"$LOG" ;;
"-m pip"*" pip") ;;
"-m pip"*) for last; do :; done; echo "${last##*/}" >>"$LOG" ;;
esac
"""


def test_dev_sh_adds_what_is_missing_and_begins_anew_with_new_requirements(tmp_path: Path) -> None:
    """The environment is a fake one, which notes when it is made and what is installed."""
    folder, log, fake = tmp_path / "here", tmp_path / "log", tmp_path / "python"
    folder.mkdir()
    for name in ("dev.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, folder)
    fake.write_text(FAKE_PYTHON)
    fake.chmod(0o755)
    known = {**os.environ, "PYTHON": str(fake), "LOG": str(log)}

    def installed(command: str) -> list[str]:
        log.write_text("")
        subprocess.run(["bash", str(folder / "dev.sh"), command], env=known, check=True)
        return log.read_text().split()

    assert installed("bench") == ["venv", "here[dask]"]
    assert installed("bench") == []
    assert installed("python") == ["here[dev]"]
    assert installed("bench") == []
    assert installed("docs") == ["here[dev,docs]"]
    assert installed("python") == installed("bench") == []
    with (folder / "constraints.txt").open("a") as file:
        file.write("# another\n")
    assert installed("python") == ["venv", "here[dev]"]


@pytest.mark.parametrize("chosen", [True, False])
def test_dev_sh_says_what_to_do_where_it_cannot_write(tmp_path: Path, chosen: bool) -> None:
    """A file stands where the folder would be made, because root may write everywhere."""
    for name in ("dev.sh", "pyproject.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path)
    env = {key: value for key, value in os.environ.items() if key != "DPBENCH_VENV"}
    (tmp_path / ".venv").write_text("")
    if chosen:
        env["DPBENCH_VENV"] = ".venv/deeper"
    command = ["bash", "dev.sh", "bench"]
    done = subprocess.run(
        command, cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    venv = tmp_path / ".venv" / "deeper" if chosen else tmp_path / ".venv"
    wanted = f"dev.sh: {venv}: cannot be written; set DPBENCH_VENV=DIR, or copy the checkout\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", wanted)
