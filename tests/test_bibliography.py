"""Sources have keys, and every citation by key has a source."""

from __future__ import annotations

import re

import pytest

from dpbench.bibliography import Source, bibliography, sources_in, split_links
from dpbench.estimators.catalogue import catalogue, search
from dpbench.registry import ConfigError
from dpbench.theory.theorems import BOUND, EXACT, TARGET, THEOREMS, TRANSFER

# Sources of claims that are no publication.
OWN = {EXACT, BOUND, TARGET, TRANSFER, "central limit theorem"}
# A place in a publication, or the statement that its number was not checked.
PLACE = re.compile(
    r", (?:(?:Theorem|Lemma|Claim|Algorithm) \d|equations? \(|section \d|remark on"
    r"|handwritten notes|binary mean estimation)|numbers? not checked\)$"
)


def test_a_source_is_one_line() -> None:
    source = Source(
        authors="Bun, Steinke", title="Averages", venue="V", year=2019, id="arXiv:1906.02830"
    )
    assert str(source) == 'Bun, Steinke, "Averages", V 2019, arXiv:1906.02830'
    assert str(Source(authors="A", title="T")) == 'A, "T", identifier not checked'
    with pytest.raises(ConfigError, match="id: '1906': "):
        Source(authors="A", title="T", id="1906")


def test_keys_are_found_as_whole_words() -> None:
    assert list(sources_in(["KSU20, Theorem 3.5", "HLY21: medians", "BS190"])) == ["HLY21", "KSU20"]


def test_sources_link_to_where_their_identifiers_resolve() -> None:
    text = "KSU20 and L15; see doi:10.1000/a.b-c, arXiv:2302.01855."
    parts = list(split_links(text))
    assert "".join(part for part, _ in parts) == text
    assert {part: url for part, url in parts if url} == {
        "KSU20": bibliography()["KSU20"].url,
        "doi:10.1000/a.b-c": "https://doi.org/10.1000/a.b-c",
        "arXiv:2302.01855": "https://arxiv.org/abs/2302.01855",
    }
    assert bibliography()["KSU20"].url.startswith("https://arxiv.org/abs/")
    assert bibliography()["L15"].url == ""


def test_every_cited_key_has_a_source() -> None:
    cited = {word for one in THEOREMS.values() for word in keys_in(one.source)}
    rows = [row for listing in catalogue().values() for row in listing.rows]
    cited |= {word for row in rows for word in keys_in(row.source)}
    assert cited <= set(bibliography())
    assert len(cited) >= 25


def test_every_author_finds_a_method() -> None:
    """``--help kind NAME`` answers for each author of the bibliography, and for each key."""
    authors = {who for source in bibliography().values() for who in source.authors.split(", ")}
    assert {word for word in {*authors, *bibliography()} if not search(word)} == set()
    assert "user_level_mean" in search("levy")


def test_every_theorem_names_its_place_in_a_source() -> None:
    sources = {one.source for one in THEOREMS.values()} - OWN
    assert {text for text in sources if not sources_in([text])} == set()
    assert {text for text in sources if not PLACE.search(text)} == set()


def keys_in(text: str) -> list[str]:
    """Return the words of capitals and two digits, the form of keys."""
    return re.findall(r"\b[A-Z]+\d{2}\b", text)
