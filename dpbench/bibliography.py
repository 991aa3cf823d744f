"""Sources that estimators and theorems cite, each with a short key such as KSU20."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import cache
from typing import Annotated

import yaml
from pydantic import Field

from dpbench.package import PACKAGE
from dpbench.registry import from_mapping, validated

__all__ = ["Source", "bibliography", "sources_in", "split_links"]

Text = Annotated[str, Field(min_length=1)]
IDENTIFIER = r"doi:10\.\d{4,}/\S*[^\s.,;)]|arXiv:\d{4}\.\d{4,5}"


@validated
class Source:
    """Bibliographic reference to a paper, a lecture or a library."""

    authors: Text  # Last names, separated by commas.
    title: Text
    venue: str = ""  # Conference, journal or place; empty for a preprint.
    year: Annotated[int, Field(ge=1800, le=2100)] | None = None
    # Identifier that begins with ``doi:`` or ``arXiv:``; empty if no identifier was checked.
    id: Annotated[str, Field(pattern=rf"^({IDENTIFIER})?$")] = ""

    def __str__(self) -> str:
        """Return the reference as one line of text."""
        where = " ".join(str(part) for part in (self.venue, self.year) if part)
        number = self.id or "identifier not checked"
        return ", ".join(filter(None, [self.authors, f'"{self.title}"', where, number]))

    @property
    def url(self) -> str:
        """Address of the work at its identifier's resolver; empty without an identifier."""
        return _address(self.id)


def _address(identifier: str) -> str:
    """Return the address of a work with an identifier ``doi:...`` or ``arXiv:...``, else ""."""
    kind, _, number = identifier.partition(":")
    home = {"doi": "https://doi.org/", "arxiv": "https://arxiv.org/abs/"}.get(kind.lower())
    return f"{home}{number}" if home else ""


def split_links(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text on sources, each with the address that it should link to.

    A source is named by a key of the bibliography such as KSU20, or by an identifier such as
    arXiv:2002.09464. The address is empty if the part names no source, or if the bibliography has
    no identifier of the source. Together the parts are the whole text.
    """
    known = {key: source.url for key, source in bibliography().items()}
    for part in re.split(rf"({IDENTIFIER}|\w+)", text):
        if part:
            yield part, known.get(part) or _address(part)


@cache
def bibliography() -> dict[str, Source]:
    """Return every source in ``data/bibliography.yaml``, keyed by its short key such as KSU20.

    An entry that lacks a field or has an unknown one is a `ConfigError`.
    """
    entries = yaml.safe_load((PACKAGE / "data" / "bibliography.yaml").read_text("utf-8"))
    return {key: from_mapping(Source, entry, key) for key, entry in entries.items()}


def sources_in(texts: Iterable[str]) -> dict[str, Source]:
    """Return the sources that texts cite by keys such as KSU20, in the bibliography's order.

    A key counts only as a whole word.
    """
    words = {word for text in texts for word in re.findall(r"\w+", text)}
    return {key: source for key, source in bibliography().items() if key in words}
