"""What plug-ins import from anywhere is part of what computes their numbers."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest
import scipy

from dpbench.estimators import EmpiricalMean, Estimator
from dpbench.runner.origin import Origin

FILES = {
    "hers/mine_too.py": "import json\nimport numpy\nfrom herlib import noise\n",
    "lib/herlib/__init__.py": "from .core import noise\n",
    "lib/herlib/core.py": "def noise():\n    from herlib.deep import(scale)\n    return scale\n",
    "lib/herlib/deep/__init__.py": "",
    "lib/herlib/deep/scale.py": "AMOUNT = 1\n",
    "lib/herlib/unused.py": "AMOUNT = 1\n",
}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name, text in FILES.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for folder in ("hers", "lib"):
        monkeypatch.syspath_prepend(str(tmp_path / folder))
    for name in ("mine_too", "herlib.deep.scale"):
        importlib.import_module(name)
    yield tmp_path
    for name in [one for one in sys.modules if one.partition(".")[0] in {"mine_too", "herlib"}]:
        del sys.modules[name]


def test_every_source_file_that_is_imported_is_named(files: Path) -> None:
    found = Origin.of(names=["mine_too"]).outside
    libraries = {"numpy": np.__version__, "scipy": scipy.__version__}
    assert {name: found.pop(name) for name in libraries} == libraries
    used = {"mine_too", "herlib", "herlib.core", "herlib.deep", "herlib.deep.scale"}
    assert set(found) == used  # not json, and not what nobody imports
    more = Origin.of(names=["mine_too", "dpbench.estimators", "json"])
    assert more.outside == found | libraries


def test_a_plug_in_depends_on_the_package_if_it_imports_more_than_estimators_do(
    files: Path,
) -> None:
    def listed(text: str) -> set[str]:
        (files / "hers/mine_too.py").write_text(text)
        found = Origin.of(names=["mine_too"]).modules
        return {line.partition(" ")[0] for line in found} - {"mine_too"}

    core = {line.partition(" ")[0] for line in Origin.of().modules}
    assert listed("from dpbench import ConfigError, run\nimport dpbench.estimators.base\n") == core
    more = listed("from dpbench.theory.families import Family\n") - core
    assert {"dpbench.theory.families", "dpbench.analysis.claims"} <= more
    assert "dpbench" not in Origin.of(names=["mine_too"]).outside  # it would hide the version


@pytest.mark.parametrize("name", ["hers/mine_too.py", "lib/herlib/deep/scale.py"])
def test_another_source_is_another_digest(files: Path, name: str) -> None:
    def source() -> str:
        return Origin.of(names=["mine_too"]).source

    before = source()
    (files / "lib/herlib/unused.py").write_text("AMOUNT = 2\n")
    assert source() == before != Origin.of().source
    (files / name).write_text((files / name).read_text() + "# five times less\n")
    assert source() != before


def test_a_file_that_a_plug_ins_estimator_names_is_part_of_it(
    files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))

    class Weighed(EmpiricalMean):
        files: ClassVar[tuple[str, ...]] = ("weights.bin",)

    Weighed.__module__ = "mine_too"
    found = set[str]()
    for weights in (None, b"1", b"2"):
        if weights is not None:
            (files / "hers/weights.bin").write_bytes(weights)
        found.add(Origin.of(names=["mine_too"]).source)
    assert len(found) == 3
