"""The sweeps of this folder, each run once, and what looks at their figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import dpbench
from dpbench.analysis.result import Result
from dpbench.registry import ConfigError
from dpbench.report.error_figures import GUIDES
from dpbench.runner.store import Store

Line = tuple[str, list[float], list[float]]

HERE = Path(__file__).parent
TRIALS = 40


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Result:
    out = tmp_path_factory.mktemp("run") / "numbers"
    return dpbench.run("numbers", config_dir=HERE, out=out, n_jobs=1)


@pytest.fixture(scope="session")
def folder(numbers: Result) -> Path:
    """Where it was written, for tests to read."""
    assert isinstance(numbers.blocks, Store)
    return numbers.blocks.folder.parent


@pytest.fixture(scope="session")
def vectors() -> Result:
    return dpbench.run("vectors", config_dir=HERE, n_jobs=1)


def drawn(result: Result, spec: Mapping[str, Any] | str) -> list[Axes]:
    """The panels of a figure."""
    return [ax for ax in result.figure(spec).axes if ax.get_visible()]


def lines(ax: Axes, label: str | None = None) -> list[Line]:
    """Label and points of every line that has a label; of those with one, if it is given."""
    found = []
    for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
        line = handle[0] if isinstance(handle, tuple) else handle  # of an errorbar
        if isinstance(line, Line2D) and label in {None, name}:
            x, y = (np.asarray(data, dtype=float).tolist() for data in line.get_data())
            found.append((name, x, y))
    return found


def curves(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The points of what is measured, by label: of all but theory, guides and bounds."""
    others = {"slope by theory", "slowest slope by theory", "theory", "lower bound"}
    others |= {guide.label for guide in GUIDES.values()}
    measured = [one for one in lines(ax) if one[0] not in others]
    assert len({label for label, _, _ in measured}) == len(measured)  # one label, one line
    return {label: (x, y) for label, x, y in measured}


def rows(result: Result, **about: Any) -> pd.DataFrame:
    """The rows of the summary with these values."""
    table = result.summary
    for name, value in about.items():
        table = table[table[name] == value]
    assert not table.empty
    return table


def assert_refused(result: Result, spec: Mapping[str, Any], words: list[str]) -> None:
    """A figure cannot be drawn, which one line says that names all of `words`."""
    with pytest.raises(ConfigError) as caught:
        result.figure(spec)
    text = str(caught.value)
    assert "\n" not in text
    assert [word for word in words if word not in text] == []
