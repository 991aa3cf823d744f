"""The built wheel, away from the checkout."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def _do(*command: str | Path, cwd: Path, **env: str) -> str:
    done = subprocess.run(
        [str(word) for word in command],
        cwd=cwd,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("dist")
    _do(sys.executable, "-m", "build", "--no-isolation", "--outdir", out, ROOT, cwd=out)
    return out


def test_wheel_and_sdist_hold_the_configurations(built: Path) -> None:
    (wheel,) = built.glob("*.whl")
    assert wheel.name.startswith("dpbench_mean-")
    names = zipfile.ZipFile(wheel).namelist()
    assert "dpbench/conf/sweep/heavy_tail.yaml" in names
    assert "dpbench/conf/sweep.schema.json" in names
    assert "dpbench/__main__.py" in names
    assert not [name for name in names if name.startswith(("tests/", "experiments/"))]
    assert len(list(built.glob("*.tar.gz"))) == 1


def test_wheel_runs_by_module_and_by_script_from_another_folder(
    built: Path, tmp_path: Path
) -> None:
    target, work = tmp_path / "site", tmp_path / "work"
    work.mkdir()
    pip = (sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index")
    _do(*pip, "--target", target, next(built.glob("*.whl")), cwd=work)
    where = _do(
        sys.executable, "-c", "import dpbench; print(dpbench.__file__)", cwd=work,
        PYTHONPATH=str(target),
    )  # fmt: skip
    assert where.startswith(str(target))
    words = ("trials=4", "sweep.parts.worst_case.n.points=2")
    for command in ((sys.executable, "-m", "dpbench"), (target / "bin" / "dpbench",)):
        told = _do(*command, *words, cwd=work, PYTHONPATH=str(target))
        assert "heavy_tail" in told
        assert (work / "results" / "quick" / "summary.csv").exists()
