"""The sweeps of this folder, each run once, a run's page, and what looks at both."""

from __future__ import annotations

from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.lines import Line2D

import dpbench
from dpbench.registry import ConfigError
from dpbench.report.error_curves import ABOVE, BELOW, FALLBACK
from dpbench.report.error_figures import BOUND_LABEL
from dpbench.report.page import write_page
from dpbench.report.parameter_figures import GUIDES
from dpbench.report.run_result import Result
from dpbench.runner.store import Store
from tests.report.page_folders import write_run

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
    others = {
        "slope by theory",
        "slowest slope by theory",
        "theory",
        "exact noise",
        "largest bias of the class",
        "limit by theory",
        BOUND_LABEL,
    }
    others |= {ABOVE, BELOW, FALLBACK} | {guide.label for guide in GUIDES.values()}
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


Element = tuple[str, dict[str, str | None], list[str]]


class Page(HTMLParser):
    """The elements of a page, in order, with their attributes and all text inside."""

    VOID = ("meta", "link", "img", "input", "br")

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.elements: list[Element] = []
        self._open: list[Element] = []
        self.feed(path.read_text(encoding="utf-8"))
        self.close()
        assert not self._open, "elements left open"

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_startendtag(tag, attrs)
        if tag not in self.VOID:
            self._open.append(self.elements[-1])

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs), []))

    def handle_endtag(self, tag: str) -> None:
        assert self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        for _, _, texts in self._open:
            texts.append(data)

    def all(self, tag: str) -> list[tuple[dict[str, str | None], str]]:
        return [(attrs, "".join(texts)) for name, attrs, texts in self.elements if name == tag]

    def texts(self, tag: str) -> list[str]:
        return [" ".join(text.split()) for _, text in self.all(tag)]

    def ids(self) -> list[str]:
        return [str(attrs["id"]) for _, attrs, _ in self.elements if "id" in attrs]

    def columns(self, name: str) -> dict[str, list[str]]:
        """What a table says, by column."""
        tags = [tag for tag, *_ in self.elements]
        start = next(i for i, (_, at, _) in enumerate(self.elements) if at.get("id") == name)
        end = tags.index("table", start + 1) if "table" in tags[start + 1 :] else len(tags)
        inside = self.elements[start:end]
        heads, cells = (
            ["".join(texts) for tag, _, texts in inside if tag == which] for which in ("th", "td")
        )
        assert len(cells) % len(heads) == 0
        return {head: cells[i :: len(heads)] for i, head in enumerate(heads)}


@pytest.fixture
def example(tmp_path: Path) -> Path:
    return write_run(tmp_path / "example")


def page_of(*folders: Path) -> Page:
    return Page(write_page(folders, folders[0].parent / "page.html"))
