"""Sections of the page of a run, and the registry of what builds them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import Table

__all__ = ["SECTIONS", "Builder", "Section", "section"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """A section of a page, and its part of what stands before all sections.

    Parameters
    ----------
    text, note : str
        Begin the section, in large and in small print; `Markup` where they have tags.
    look, data : str, object
        The macro of ``page.html`` that draws the data, and these.
    tables : sequence of Table or None
        Tables to be opened, below the data; None is left out.
    asked : str
        The question of such a run. A page shows that of the first section which has one.
    found, alone : sequence of str, str
        Parts of the answer; another, before these, if no section before it has found anything.
    rank : int
        Place in the answer, where sections of one rank stand in their order on the page.
    tone : str
        How the worst finding looks.
    figure : mapping, optional
        A figure that stands before all sections.
    captions : mapping of str to str
        Captions of figures that the sweep does not configure, by label.
    id, title, heading : str
        Those that `section` registers, which a builder leaves out.
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
        """Whether there is anything to show."""
        return bool(self.data) or any(self.tables)


# None if there is nothing to show.
Builder = Callable[[RunFolder], Section | None]
# By name, in the order of a page whose run does not say which it has.
SECTIONS: dict[str, Builder] = {}


def section(name: str, title: str, heading: str = "") -> Callable[[Builder], Builder]:
    """Register what builds a section.

    Parameters
    ----------
    name : str
        The name by which a run asks for it, which ends the ids of its elements.
    title, heading : str
        What the contents call it, and the section itself, by default the same.
    """

    def register(build: Builder) -> Builder:
        def titled(run: RunFolder) -> Section | None:
            found = build(run)
            return found and replace(found, id=name, title=title, heading=heading or title)

        SECTIONS[name] = titled
        return build

    return register
