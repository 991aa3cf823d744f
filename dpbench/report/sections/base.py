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

    The decorator `section` sets its identifier, title and heading.
    """

    # Opening paragraphs in large and in small print; `Markup` if they contain HTML tags.
    text: str = ""
    note: str = ""
    look: str = "grids"  # macro of page.html that draws the data
    data: Any = ()  # argument of this macro
    tables: Sequence[Table | None] = ()  # folded below the data; None is left out
    # What was run: estimators, distributions, n and trials. The page shows the first that it finds.
    setup: str = ""
    findings: Sequence[str] = ()  # parts of the answer at the top of the page
    # First part of the answer, if no section of smaller rank has findings.
    fallback: str = ""
    # Place of the findings in the answer; equal ranks keep the order of the sections.
    rank: int = 0
    tone: str = "calm"  # of the worst finding, a CSS class in `dpbench.output.verdicts.Tone`
    figure: Mapping[str, Any] | None = None  # shown before all sections
    # Whether a figure has numbers from which the page draws an interactive form.
    interactive: bool = False
    # Captions of figures that the sweep does not configure, by label.
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

    The name stands in a run's manifest, and ends the id of the section on the page. The title
    stands in the table of contents. The function `build` returns the section's contents, or None
    if there is nothing to show.
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
