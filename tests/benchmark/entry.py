"""An entry that tries something before it releases."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.remote import RemoteMean, read_entry
from tests.conftest import entry_text
from tests.support import rng

__all__ = ["PROBLEM", "released", "tries"]

(PROBLEM,) = read_benchmark().select("gauss-n100-pure1").problems
RELEASE = "        noise = rng"


def tries(folder: Path, code: str, before: str = "") -> RemoteMean:
    """An entry that runs some code before it releases."""
    lines = "".join(f"        {line}\n" for line in code.splitlines())
    text = entry_text().replace(RELEASE, f"{lines}{RELEASE}")
    (folder / "mine.py").write_text(before + text)
    return read_entry(folder / "mine.py", [PROBLEM]).answers[PROBLEM.id]


def released(one: RemoteMean) -> float:
    value, _ = one.released(np.zeros((1, 100)), PROBLEM.budget, rng(0))
    return float(value[0])
