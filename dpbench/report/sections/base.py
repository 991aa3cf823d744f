"""Sections of the page of a run, and the registry of the functions that build them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import Table

__all__ = ["SECTIONS", "Builder", "Section", "section"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """Section of a page, with its contributions to the top of the page.

    Parameters
    ----------
    text, note : str
        Opening paragraphs in large and in small print; `Markup` if they contain tags.
    look : str
        Macro of ``page.html`` that draws the data.
    data : object
        Argument of this macro.
    tables : sequence of Table or None
        Folded tables below the data; None is left out.
    asked : str
        Question that the run answers. The page shows the question of the first section with one.
    found : sequence of str
        Parts of the answer.
    alone : str
        First part of the answer, used only if no section before it has found anything.
    rank : int
        Place of `found` in the answer; sections of equal rank keep their order on the page.
    tone : str
        Tone of the worst finding, see `dpbench.output.verdicts.Tone`.
    figure : mapping, optional
        Figure to show before all sections.
    captions : mapping of str to str
        Captions of figures that the sweep does not configure, by label.
    id, title, heading : str
        Set by `section`; a builder leaves them out.
    """

    text: str = ""
    note: str = ""
    look: str = "grids"
    data: Any = ()
    tables: Sequence[Table | None] = ()
    asked: str = ""
    found: Sequence[str] = ()
    alone: str = ""
    rank: int = 0
    tone: str = "calm"
    figure: Mapping[str, str] | None = None
    captions: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    title: str = ""
    heading: str = ""

    @property
    def drawn(self) -> bool:
        """Return whether the section has anything to show."""
        return bool(self.data) or any(self.tables)


# Returns None if there is nothing to show.
Builder = Callable[[RunFolder], Section | None]
# Builders by name. Pages of runs that list no sections have them in this order.
SECTIONS: dict[str, Builder] = {}


def section(name: str, title: str, heading: str = "") -> Callable[[Builder], Builder]:
    """Return a decorator that registers the builder of a section.

    Parameters
    ----------
    name : str
        Name of the section in a run's manifest, and the end of its id on the page.
    title : str
        Its title in the table of contents.
    heading : str, optional
        Its heading, by default the title.

    Returns
    -------
    callable
        The decorator, which returns the builder unchanged.
    """

    def register(build: Builder) -> Builder:
        def titled(run: RunFolder) -> Section | None:
            found = build(run)
            return found and replace(found, id=name, title=title, heading=heading or title)

        SECTIONS[name] = titled
        return build

    return register
