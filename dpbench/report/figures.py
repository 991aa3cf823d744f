"""Base classes of figures: their selection, their panels, and drawing these on a canvas or axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pandas as pd

from dpbench.analysis.result import Result
from dpbench.analysis.study import Figure, Names, Study
from dpbench.output.axes import share_axes, widen_covered_curves
from dpbench.output.style import Axes, Canvas, legend, panels
from dpbench.registry import ConfigError, validated
from dpbench.report.labels import Labels
from dpbench.sweep.selection import Choice, Selection, Variant, select_labels

__all__ = ["DrawnFigure", "Looks", "Panel", "SelectingFigure", "chosen_labels"]

Panel = Callable[[Axes], None]
Looks = Mapping[str, dict[str, Any]]


@validated
class DrawnFigure(Figure, ABC):
    """Figure with a caption, whose panels a subclass draws.

    Parameters
    ----------
    caption : str
        A sentence or two.
    ylabel : str
        Label of the vertical axes with the unit, by default the metric's words.
    """

    caption: str = ""
    ylabel: str = ""
    # Relative heights of the rows of panels, if rows share their horizontal axes.
    HEIGHTS: ClassVar[tuple[float, ...]] = ()

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        if "$" in self.ylabel:  # mathematical text
            from matplotlib.mathtext import MathTextParser

            try:
                MathTextParser("path").parse(self.ylabel)
            except ValueError as error:
                text = f"{where}.ylabel: {self.ylabel!r}: not valid mathematical text"
                raise ConfigError(f"{text}: {error}") from error

    @abstractmethod
    def rows(self, result: Result) -> pd.DataFrame:
        """Return the rows of the summary that the figure shows."""

    @abstractmethod
    def _panels(self, result: Result, words: Labels) -> Iterable[Panel]:
        """Return a function for each panel that draws it on its axes."""

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Return two phrases in plain words: the axes, and the kind of intervals."""

    def figure(
        self, result: Result, names: Names = None, ax: Axes | None = None, panel: int | None = None
    ) -> Canvas:
        drawn, heights = list(self._panels(result, Labels(result.study, names or {}))), self.HEIGHTS
        if panel is not None:
            if not 0 <= panel < len(drawn):
                raise ConfigError(f"panel: {panel}: the figure has panels 0 to {len(drawn) - 1}")
            drawn, heights = [drawn[panel]], ()
        canvas, axes = panels(len(drawn), ax, heights)
        for draw, on in zip(drawn, axes, strict=False):  # a canvas without panels still has axes
            draw(on)
            if self.ylabel:
                on.set_ylabel(self.ylabel)
        shown = list(axes)[: len(drawn)]
        share_axes(shown)
        legend(canvas, ax)
        for on in shown:  # after the legend, because this widens curves differently in each panel
            widen_covered_curves(on)
        return canvas


@validated
class SelectingFigure(Selection, DrawnFigure, ABC):
    """Figure of the rows of a summary that it selects."""

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        super().check(study, keys, where)
        rows = keys[study.about(self, keys, where)]
        if rows.empty:
            raise ConfigError(f"{where}: the sweep runs nothing that the figure selects")
        self._check(rows, study, where)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        """Raise ConfigError for keys that this kind of figure cannot show."""

    def rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        return summary[result.study.about(self, summary)].reset_index(drop=True)


def chosen_labels(choice: Choice | None, labels: Iterable[str], where: str) -> list[str]:
    """Select labels by name or pattern, as entries are selected.

    Parameters
    ----------
    choice : list of str, mapping or None
        Names or patterns; None selects all.
    labels : iterable of str
        Labels to select from.
    where : str
        Key of the choice, for messages.

    Returns
    -------
    list of str
        The selected labels.
    """
    return select_labels(choice, {label: Variant(label, None, {}) for label in labels}, where)
