"""What a figure is: what it is about, its panels, and how they come on a canvas or on axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pandas as pd

from dpbench.analysis.result import Result
from dpbench.analysis.study import Figure, Names, Study
from dpbench.output.scales import share, uncover
from dpbench.output.style import Axes, Canvas, legend, panels
from dpbench.registry import ConfigError, validated
from dpbench.report.words import Words
from dpbench.sweep.selection import Choice, Selection, Variant, choose

__all__ = ["DrawnFigure", "Looks", "Panel", "SelectingFigure", "chosen_labels"]

Panel = Callable[[Axes], None]
Looks = Mapping[str, dict[str, Any]]


@validated
class DrawnFigure(Figure, ABC):
    """A figure with a caption. A subclass says what its panels draw.

    Parameters
    ----------
    caption : str
        A sentence or two.
    ylabel : str
        What the vertical axes say, with the unit, where the metric's words do not.
    """

    caption: str = ""
    ylabel: str = ""
    # of rows of panels that share horizontal axes, if they do
    HEIGHTS: ClassVar[tuple[float, ...]] = ()

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        if "$" in self.ylabel:  # which may be mathematical text
            from matplotlib.mathtext import MathTextParser

            try:
                MathTextParser("path").parse(self.ylabel)
            except ValueError as error:
                text = f"{where}.ylabel: {self.ylabel!r}: no mathematical text"
                raise ConfigError(f"{text}: {error}") from error

    @abstractmethod
    def rows(self, result: Result) -> pd.DataFrame:
        """The rows of the summary that this is drawn from."""

    @abstractmethod
    def _panels(self, result: Result, words: Words) -> Iterable[Panel]:
        """What draws each panel on its axes."""

    @abstractmethod
    def told(self) -> tuple[str, str]:
        """What is drawn against what, and what the intervals are, in plain words."""

    def figure(
        self, result: Result, names: Names = None, ax: Axes | None = None, panel: int | None = None
    ) -> Canvas:
        drawn, heights = list(self._panels(result, Words(result.study, names or {}))), self.HEIGHTS
        if panel is not None:
            if not 0 <= panel < len(drawn):
                raise ConfigError(f"panel: {panel}: the figure has panels 0 to {len(drawn) - 1}")
            drawn, heights = [drawn[panel]], ()
        canvas, axes = panels(len(drawn), ax, heights)
        for draw, on in zip(drawn, axes, strict=False):  # without a panel there are axes, too
            draw(on)
            if self.ylabel:
                on.set_ylabel(self.ylabel)
        shown = list(axes)[: len(drawn)]
        share(shown)
        legend(canvas, ax)
        for on in shown:  # after the legend, where curves look alike in all panels
            uncover(on)
        return canvas


@validated
class SelectingFigure(Selection, DrawnFigure, ABC):
    """A figure of the rows that it selects."""

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        super().check(study, keys, where)
        rows = keys[study.about(self, keys, where)]
        if rows.empty:
            raise ConfigError(f"{where}: the sweep runs nothing of what the figure is about")
        self._check(rows, study, where)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        """Refuse keys that this kind of figure cannot show."""

    def rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        return summary[result.study.about(self, summary)].reset_index(drop=True)


def chosen_labels(choice: Choice | None, labels: Iterable[str], where: str) -> list[str]:
    """Those of some labels that are chosen by name or pattern, as entries are."""
    return choose(choice, {label: Variant(label, None, {}) for label in labels}, where)
