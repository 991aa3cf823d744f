"""Where files lie and what the command is called, in a checkout and in an installed package."""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from pathlib import Path

import pytest

import dpbench
from dpbench import package
from dpbench.benchmark.table import archive_path
from dpbench.libraries.means.process import folder
from dpbench.tracking.baseline import baseline_path

ROOT = Path(__file__).parents[1]


@pytest.fixture
def installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Lay the package's folder as a wheel does, with configurations inside."""
    home = tmp_path / "site-packages" / "dpbench"
    (home / "conf").mkdir(parents=True)
    monkeypatch.setattr(package, "__file__", str(home / "package.py"))
    monkeypatch.setattr(package, "PACKAGE", home)
    return home


def test_a_checkout_keeps_everything_in_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBENCH_LIBRARIES", raising=False)
    assert package.checkout() == ROOT
    assert archive_path("s") == ROOT / "results" / "archive" / "s.parquet"
    assert folder("opendp") == ROOT / ".libraries" / "opendp"


def test_an_installed_package_writes_nothing_beside_itself(
    installed: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Other libraries are in the user's folder for caches, and baselines in the working folder."""
    monkeypatch.delenv("DPBENCH_LIBRARIES", raising=False)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert package.checkout() is None
    assert archive_path("s") == installed / "results" / "archive" / "s.parquet"
    assert folder("opendp") == tmp_path / "cache" / "dpbench" / "libraries" / "opendp"
    assert baseline_path(None, "ci") == Path("results/baselines/ci.parquet")
    monkeypatch.setenv("DPBENCH_LIBRARIES", str(tmp_path / "own"))
    assert folder("opendp") == tmp_path / "own" / "opendp"


def test_a_checkout_that_cannot_be_written_to_has_no_libraries(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("DPBENCH_LIBRARIES", raising=False)
    monkeypatch.setattr(os, "access", lambda *_: False)
    monkeypatch.setattr("dpbench.libraries.means.process.checkout", lambda: tmp_path)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert folder("opendp") == tmp_path / "cache" / "dpbench" / "libraries" / "opendp"
    (tmp_path / ".libraries").mkdir()
    assert folder("opendp") == tmp_path / ".libraries" / "opendp"


def test_the_folder_for_caches_of_a_platform(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    for platform, caches in (("linux", ".cache"), ("darwin", "Library/Caches")):
        monkeypatch.setattr(sys, "platform", platform)
        assert package.cache_folder() == Path.home() / caches / "dpbench"


def test_the_command_in_use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The script by its name if the shell finds it, else by its path; dev.sh sets its own."""
    monkeypatch.setenv("DPBENCH_COMMAND", "")
    monkeypatch.delenv("DPBENCH_COMMAND")
    monkeypatch.setenv("PATH", "")
    package.note_script("dpbench/__main__.py")
    assert package.command_in_use() == "python -m dpbench"
    script = tmp_path / "a b" / "dpbench"
    script.parent.mkdir()
    script.write_text("")
    script.chmod(0o755)
    package.note_script(str(script))
    assert package.command_in_use() == f"'{script}'"
    monkeypatch.delenv("DPBENCH_COMMAND")
    monkeypatch.setenv("PATH", str(script.parent))
    package.note_script(str(script))
    assert package.as_typed("usage: python -m dpbench plan") == "usage: dpbench plan"
    monkeypatch.setenv("DPBENCH_COMMAND", "bash dev.sh bench")
    package.note_script(str(script))
    assert package.command_in_use() == "bash dev.sh bench"


def test_help_names_pages_where_they_lie(installed: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = "docs/howto/benchmark.md"
    assert package.as_typed(f"see {page}") == f"see {installed / page}"
    monkeypatch.undo()
    assert package.as_typed(f"see {page}") == f"see {page}"
    assert (ROOT / page).is_file()


def test_completion_shows_the_api_alone() -> None:
    """In every package; names that are imported on first use are there before."""
    found = pkgutil.walk_packages(dpbench.__path__, "dpbench.")
    for name in ["dpbench", *(module.name for module in found if module.ispkg)]:
        module = importlib.import_module(name)
        shown = {one for one in dir(module) if not one.startswith("_")}
        helpers = {n for n in shown if not hasattr(getattr(module, n), "__path__")}
        submodules = {n for n in shown if f"{name}.{n}" in sys.modules}
        if public := getattr(module, "__all__", []):
            assert shown == set(public), name
            assert all(hasattr(module, one) for one in public), name
        else:
            assert helpers <= submodules, name
