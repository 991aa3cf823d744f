"""What an entry is told."""

from __future__ import annotations

import sys
from pathlib import Path

from dpbench.estimators import Estimator
from dpbench.suite.entries import read_entry
from dpbench.suite.problems import read_suite
from tests.conftest import entry_text


def test_the_open_division_is_told_the_law(entry_folder: Path) -> None:
    """And the declared one is not."""
    text = entry_text().replace("def entry(told):", "def entry(told):\n    SEEN.append(told.law)")
    (entry_folder / "mine.py").write_text(text.replace('"declared"', '"open"') + "\nSEEN = []\n")
    (entry_folder / "wide_clip.py").write_text(text + "\nSEEN = []\n")
    (problem,) = read_suite().chosen("gauss-n100-pure1").problems
    for name, law in (("mine", {"kind": "gaussian"}), ("wide_clip", None)):
        Estimator._registry.pop("wide_clip", None)
        entry, _ = read_entry(entry_folder / f"{name}.py")
        assert entry.estimator(problem) is not None
        assert [law] == sys.modules[name].SEEN
