"""Base classes of figures, which select rows and draw panels on a canvas or the caller's axes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping
from typing import Any, ClassVar

import pandas as pd

from dpbench.output.names import check_math
from dpbench.registry import ConfigError, validated
from dpbench.report.drawing.axes import share_axes
from dpbench.report.drawing.curves import label_ends
from dpbench.report.drawing.style import Axes, Canvas, legend, panels
from dpbench.report.labels import Labels
from dpbench.report.run_result import Result
from dpbench.report.study import Figure, Names, Study
from dpbench.sweep.selection import Choice, Selection, Variant, select_labels

__all__ = ["DrawnFigure", "Looks", "NamedLooks", "Panel", "SelectingFigure", "chosen_labels"]

Panel = Callable[[Axes], None]
Looks = Mapping[str, dict[str, Any]]
NamedLooks = Mapping[Any, tuple[str, dict[str, Any]]]  # text in the legend, and look, by series


@validated
class DrawnFigure(Figure, ABC):
    """Base class of figures with a caption and panels; a subclass draws the panels.

    Parameters
    ----------
    caption : str
        Caption of one or two sentences, empty by default.
    ylabel : str
        Label of the vertical axes with the unit. By default each kind of figure has its own label.
    """

    caption: str = ""
    ylabel: str = ""
    # Relative heights of the rows of panels, if rows share their horizontal axes.
    HEIGHTS: ClassVar[tuple[float, ...]] = ()

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        check_math(self.ylabel, f"{where}.ylabel")

    @abstractmethod
    def summary_rows(self, result: Result) -> pd.DataFrame:
        """Return the rows of the summary that the figure shows."""

    @abstractmethod
    def _panels(self, result: Result, words: Labels) -> Iterable[Panel]:
        """Return one function for each panel, which draws the panel on given axes."""

    @abstractmethod
    def describe(self) -> tuple[str, str]:
        """Return two phrases for the caption, one on the axes and one on the kind of intervals."""

    @property
    def names_lines(self) -> bool:
        """Return whether names stand at the ends of lines if there is room, and in no legend."""
        return False

    def _grid(self, result: Result, words: Labels) -> tuple[list[Panel | None], int]:
        """Return the functions of all panels row by row, and the number of panels in a row.

        None stands for an empty place. If the number is 0, the width of the figure determines it.
        """
        return list(self._panels(result, words)), 0

    def figure(
        self, result: Result, names: Names = None, ax: Axes | None = None, panel: int | None = None
    ) -> Canvas:
        drawers, across = self._grid(result, Labels(result.study, names or {}))
        heights = self.HEIGHTS
        if panel is not None:
            drawn = [draw for draw in drawers if draw]
            if not 0 <= panel < len(drawn):
                raise ConfigError(f"panel: {panel}: the figure has panels 0 to {len(drawn) - 1}")
            drawers, across, heights = [drawn[panel]], 0, ()
        canvas, axes = panels(len(drawers), ax, heights, across)
        used_axes = []
        for draw, panel_axes in zip(drawers, axes, strict=False):  # without panels there is an axes
            if draw is None:
                panel_axes.remove()
                continue
            draw(panel_axes)
            used_axes.append(panel_axes)
            if self.ylabel:
                panel_axes.set_ylabel(self.ylabel)
        share_axes(used_axes)
        legend(canvas, ax, label_ends(used_axes) if self.names_lines and ax is None else ())
        return canvas


@validated
class SelectingFigure(Selection, DrawnFigure, ABC):
    """Base class of figures that select families, estimators and budgets of the summary."""

    def check(self, study: Study, keys: pd.DataFrame, where: str) -> None:
        super().check(study, keys, where)
        rows = keys[study.select_rows(self, keys, where)]
        if rows.empty:
            raise ConfigError(f"{where}: the sweep runs nothing that the figure selects")
        self._check(rows, study, where)

    def _check(self, rows: pd.DataFrame, study: Study, where: str) -> None:
        """Raise ConfigError if a figure of this kind cannot show the planned results in `rows`."""

    def summary_rows(self, result: Result) -> pd.DataFrame:
        summary = result.summary
        return summary[result.study.select_rows(self, summary)].reset_index(drop=True)


def chosen_labels(choice: Choice | None, labels: Iterable[str], where: str) -> list[str]:
    """Select labels by name or by pattern with wildcards; None selects all labels.

    See `dpbench.sweep.selection.select_labels`. Errors name `where` the choice stands in the
    configuration.
    """
    return select_labels(choice, {label: Variant(label, None, {}) for label in labels}, where)
