"""Classes of the sections of a run's page, and of the functions that build sections."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import Table

__all__ = ["Builder", "Section", "section"]


@dataclass(frozen=True, kw_only=True)
class Section:
    """Section of the page of a run, with its contributions to the top of the page.

    Parameters
    ----------
    text, note : str
        Opening paragraphs in large and in small print; `Markup` if they contain HTML tags.
    look : str
        Name of the macro of ``page.html`` that draws the data.
    data : object
        Argument of this macro.
    tables : sequence of Table or None
        Folded tables below the data; None is left out.
    question : str
        Question that the run answers. The page shows the question of the first section that has
        one.
    findings : sequence of str
        Parts of the answer at the top of the page.
    fallback : str
        First part of the answer at the top of the page. It is used only if no section of smaller
        `rank` has findings.
    rank : int
        Place of `findings` in the answer; sections of equal rank keep their order on the page.
    tone : str
        Colour of the worst finding, a CSS class in `dpbench.output.verdicts.Tone`.
    figure : mapping, optional
        Figure to show before all sections.
    interactive : bool
        Whether a figure has numbers from which the page draws an interactive form.
    captions : mapping of str to str
        Captions of figures that the sweep does not configure, by label.
    id, title, heading : str
        Identifier, title and heading. The decorator `section` sets them.
    """

    text: str = ""
    note: str = ""
    look: str = "grids"
    data: Any = ()
    tables: Sequence[Table | None] = ()
    question: str = ""
    findings: Sequence[str] = ()
    fallback: str = ""
    rank: int = 0
    tone: str = "calm"
    figure: Mapping[str, Any] | None = None
    interactive: bool = False
    captions: Mapping[str, str] = field(default_factory=dict)
    id: str = ""
    title: str = ""
    heading: str = ""

    @property
    def has_content(self) -> bool:
        """Return whether the section has anything to show."""
        return bool(self.data) or any(self.tables)


@dataclass(frozen=True)
class Builder:
    """Builder of a section: a function with a name, a title and a heading.

    Parameters
    ----------
    name : str
        Name of the section in a run's manifest, and the end of its id on the page.
    title : str
        Title of the section in the table of contents.
    heading : str
        Heading of the section.
    build : callable
        Function that returns the section's contents, or None if there is nothing to show.
    """

    name: str
    title: str
    heading: str
    build: Callable[[RunFolder], Section | None]

    def __call__(self, run: RunFolder) -> Section | None:
        """Return the section of a run; None if there is nothing to show."""
        content = self.build(run)
        return content and replace(content, id=self.name, title=self.title, heading=self.heading)


def section(
    name: str, title: str, heading: str = ""
) -> Callable[[Callable[[RunFolder], Section | None]], Builder]:
    """Return a decorator that makes the `Builder` of a section from a function.

    The heading is by default the title.
    """
    return lambda build: Builder(name, title, heading or title, build)
