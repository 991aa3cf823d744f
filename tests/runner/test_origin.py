"""What a block reaches is part of its identity: a stored block does not survive an edit of it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import dpbench
from dpbench.audit import noise_times
from dpbench.audit.cases import AuditSettings, Case, control_tasks
from dpbench.estimators import LibraryMean
from dpbench.jobs.audit import AuditJob
from dpbench.runner import imports, origin
from dpbench.runner.origin import Origin

HERE = Path(dpbench.__file__).parent
# A block of a mean and of a library's mean, in a process that then says what it has
# loaded: an independent route to the files that a block reaches.
LOADED = """
import json, sys
import numpy as np
from dpbench.sweep.block import BlockTask, Setting, run_block
from dpbench.distributions import TwoPoint
from dpbench.estimators import ClippedMean, LibraryMean
from dpbench.privacy import PureDP
means = [ClippedMean(lower=-1, upper=1), LibraryMean(library="numpy", lower=-1, upper=1)]
settings = tuple(Setting(str(i), one, PureDP(1.0)) for i, one in enumerate(means))
block = run_block(BlockTask((("law", TwoPoint(p=0.1, k=2)),), 10, settings, 0, 0, "cell"))
assert not block.failures and np.isfinite(block.values["error"]).all(), block.failures
files = {getattr(module, "__file__", None) for module in sys.modules.values()}
print(json.dumps(sorted(str(file) for file in files if file)))
"""


@pytest.fixture(scope="module")
def reached() -> list[str]:
    """The files of the package that a block loads or runs, by their place in the package."""
    command = [sys.executable, "-c", LOADED]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    loaded = (Path(file) for file in json.loads(done.stdout.splitlines()[-1]))
    found = {file.relative_to(HERE).as_posix() for file in loaded if HERE in file.parents}
    # the package's face loads by name, and its version names no number
    found -= {"__init__.py", "package.py"}
    return sorted({*found, *(f"estimators/libraries/{name}" for name in LibraryMean.files)})


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A copy of the package, in the place of which origins are made."""
    ignored = shutil.ignore_patterns("__pycache__")
    shutil.copytree(HERE, tmp_path / "dpbench", ignore=ignored)
    monkeypatch.setattr(imports, "PACKAGE", tmp_path / "dpbench")
    yield tmp_path / "dpbench"
    origin._package.cache_clear()


def _source(work: str = origin.BLOCKS) -> str:
    """The digest as a new process would make it."""
    origin._package.cache_clear()
    return Origin.of(work).source


def test_a_block_does_not_survive_an_edit_of_what_it_reaches(
    reached: list[str], package: Path
) -> None:
    assert len(reached) > 60
    before = _source()
    for name in reached:
        text = (package / name).read_text("utf-8")
        (package / name).write_text(text + "\n", "utf-8")
        assert _source() != before, name
        (package / name).write_text(text, "utf-8")
    assert _source() == before


@pytest.mark.parametrize("name", ["analysis/claims.py", "report/page.py", "audit/releases.py"])
def test_a_block_survives_an_edit_of_what_it_does_not_reach(name: str, package: Path) -> None:
    before, audits = _source(), _source(AuditJob.work)
    with (package / name).open("a") as file:
        file.write("\n")
    assert _source() == before
    assert (_source(AuditJob.work) == audits) == (not name.startswith("audit/"))


def test_an_estimator_that_nobody_imports_by_name_is_reached(package: Path) -> None:
    """A module in the folder of estimators is imported with the others."""
    before = _source()
    (package / "estimators" / "mine.py").write_text("AMOUNT = 1\n")
    once = _source()
    (package / "estimators" / "mine.py").write_text("AMOUNT = 2\n")
    assert len({before, once, _source()}) == 3


def test_an_audit_does_not_survive_an_edit_of_what_it_attacks(package: Path) -> None:
    """Its controls are estimators, too."""
    settings = AuditSettings(cases={"all": Case(n=60)})
    attacked = {type(task.estimator).__module__ for task in control_tasks(settings, 0)}
    assert attacked == {"dpbench.audit.controls"}
    before = _source(AuditJob.work)
    for name in ("audit/controls.py", "audit/attack.py", "audit/releases.py", "audit/bounds.py"):
        with (package / name).open("a") as file:
            file.write("\n")
        after = _source(AuditJob.work)
        assert after != before, name
        before = after


def test_an_installed_package_is_known_by_its_text(
    tmp_path: Path, package: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A wheel lies in site-packages, where distributions are known by their versions."""
    installed = tmp_path / "site-packages" / "dpbench"
    installed.parent.mkdir()
    package.rename(installed)
    monkeypatch.setattr(imports, "PACKAGE", installed)
    before = _source()
    with (installed / "privacy" / "ledger.py").open("a") as file:
        file.write("\n")
    assert _source() != before


def test_numbers_with_a_wrong_noise_are_no_numbers_of_this_source() -> None:
    right = Origin.of()
    with noise_times(0.5):
        half = Origin.of()
    assert len({right.bits, half.bits, Origin.of().bits}) == 2
    half.here().check(half, "a worker", "")
