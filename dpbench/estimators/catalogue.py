"""Read the catalogue of kinds, ``catalogue.yaml`` beside this module.

The suite makes its entries from the catalogue, and the planner its candidates. Help and
documentation print its groups, sources and search words. Nothing here computes a number of a sweep.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from dpbench.bibliography import Source, sources_in
from dpbench.errors import ConfigError
from dpbench.estimators.base import Estimator
from dpbench.estimators.public import Public
from dpbench.registry import Label, from_mapping, keyed, named, validated

__all__ = [
    "GROUPS", "Keywords", "Listing", "Row", "Use", "catalogue", "keywords", "search", "uses",
]  # fmt: skip

PATH = Path(__file__).with_name("catalogue.yaml")
Text = Annotated[str, Field(min_length=1)]
Records = Literal["any", "bounded", "binary", "gaussian", "moments"]
# The groups of estimators in `--help kind` and in the documentation, with their headings.
GROUPS = {
    "non_private": "estimators without privacy",
    "scalar": "private means of numbers, central model",
    "vector": "private means of vectors, central model",
    "local": "private means in the local model",
    "interval": "private intervals and ranges",
    "other": "private regression, covariance and tests",
}
Group = Literal["non_private", "scalar", "vector", "local", "interval", "other"]
# classes of records whose mean is within public bounds without a radius
PLACED = ("bounded", "binary")


@validated
class Row:
    """Say of an estimator, or a variant of it, what its class does not; see ``catalogue.yaml``.

    Parameters
    ----------
    variant, source, assumes, n, measured, also : str, optional
        Cells of the page of estimators; empty where there is nothing to say.
    """

    variant: str = ""
    source: str = ""
    assumes: str = ""
    n: str = ""
    measured: str = ""
    also: str = ""


@validated
class Use:
    """Say which records an estimator is for, and how it uses what is public of them.

    Parameters
    ----------
    paper : str
        Source, as `dpbench.estimators` lists it.
    numbers, vectors : list of str, optional
        Classes of records, `Public.records`.
    needs_radius : bool
        Whether a bound on the norm of the mean has to be public.
    parameters : mapping, optional
        Parameters of the estimator; the text ``$name`` stands for an attribute of `Public`.
    guess : float, optional
        What it releases if in doubt, whatever the data: right, by luck, if the mean is there.
    slow : bool
        Whether it looks at every record, so that the planner simulates fewer releases.
    """

    paper: Text
    numbers: tuple[Records, ...] = ()
    vectors: tuple[Records, ...] = ()
    needs_radius: bool = False
    parameters: dict[str, Any] = Field(default_factory=dict)
    guess: float | None = None
    slow: bool = False

    @model_validator(mode="after")
    def _for_something(self) -> Self:
        unknown = {name for name in self._names() if not hasattr(Public, name)}
        unknown -= set(Public.__dataclass_fields__)
        if unknown or not self.numbers + self.vectors:
            raise ValueError(f"nothing public is called {unknown}, or it is for no records")
        return self

    def _names(self) -> set[str]:
        """Names of the public attributes that parameters follow from."""
        inner = (one.values() if isinstance(one, dict) else [one] for one in self._given)
        texts = (text for one in inner for text in one if isinstance(text, str))
        return {text[1:] for text in texts if text.startswith("$")}

    @property
    def _given(self) -> list[Any]:
        return list(self.parameters.values())

    @property
    def uses_radius(self) -> bool:
        """Whether a parameter follows from where the mean is."""
        return bool(self._names() & {"radius", "far", "reach", "least_mean", "largest_mean"})

    def estimator(self, kind: type[Estimator], public: Public) -> Estimator | None:
        """Make the estimator for these records; None if it does not apply to them.

        It applies if it is for their class and the model, supports the budget, and n, where that
        is public, is not too few or too many.
        """
        wanted = self.vectors if public.d > 1 else self.numbers
        placed = public.radius is not None or public.records in PLACED or not self.needs_radius
        local = kind.bounded_in == "local"
        if public.records not in wanted or not placed or public.local != local:
            return None
        made: Estimator = kind(**_resolved(self.parameters, public))
        if not made.supports(public.budget):
            return None
        least, most, n = made.least_records(public.d, public.budget), made.most_records, public.n
        return made if n is None or least <= n <= (most or n) else None


def _resolved(value: Any, public: Public) -> Any:
    """Replace names of public attributes by their values."""
    if isinstance(value, Mapping):
        return {key: _resolved(one, public) for key, one in value.items()}
    named_so = isinstance(value, str) and value.startswith("$")
    return getattr(public, value[1:]) if named_so else value


@validated
class Keywords:
    """The search words and the sources of a kind.

    Parameters
    ----------
    words : list of str
        Search words.
    source : str
        Sources by their keys in the bibliography; empty for a textbook distribution.
    """

    words: Annotated[tuple[Text, ...], Field(min_length=1)]
    source: str

    @property
    def sources(self) -> dict[str, Source]:
        """The cited entries of the bibliography, by key."""
        return sources_in([self.source])

    def matches(self, word: str) -> bool:
        """Return whether a search word or an author begins with `word`."""
        authors = (name for one in self.sources.values() for name in one.authors.split(", "))
        return any(_begins(word, text) for text in (*self.words, *self.sources, *authors))

    def lines(self) -> list[str]:
        """Return the references and the search words in lines, for the terminal."""
        references = [f"reference {key}: {source}" for key, source in self.sources.items()]
        return [*references, f"words: {', '.join(self.words)}"]


@validated
class Listing:
    """The entry of an estimator in the catalogue.

    Parameters
    ----------
    group : str
        Heading in ``--help kind``, a key of `GROUPS`.
    words : list of str
        Search words.
    rows : list of Row
        Rows of the page of estimators, one for each variant.
    entries : mapping of str to Use, optional
        Uses in the suite and in plans, by names of their own.
    left_out : str, optional
        Reason for having no entries.
    not_in : mapping of str to str, optional
        Reason for being absent from the sweep ``audit`` or ``ci``, by sweep.
    """

    group: Group
    words: Annotated[tuple[Text, ...], Field(min_length=1)]
    rows: Annotated[tuple[Annotated[Row, keyed(Row)], ...], Field(min_length=1)]
    entries: Annotated[dict[Label, Use], named(Use)] = Field(default_factory=dict)
    left_out: str = ""
    not_in: dict[Literal["audit", "ci"], Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _used_or_not(self) -> Self:
        if bool(self.entries) == bool(self.left_out):
            raise ValueError("give entries, or say in left_out why there are none")
        return self

    @property
    def keywords(self) -> Keywords:
        """The search words and the sources of all rows and entries."""
        texts = [row.source for row in self.rows] + [use.paper for use in self.entries.values()]
        return Keywords(words=self.words, source="; ".join(dict.fromkeys(texts)))

    def lines(self) -> list[str]:
        """Return the catalogue's facts about the kind in lines, for the terminal."""
        found = []
        for row in self.rows:
            cells = {name: getattr(row, name) for name in Row.__dataclass_fields__}
            found += [f"{name}: {text.replace('*', '')}" for name, text in cells.items() if text]
        used = ", ".join(self.entries) or f"no, because {self.left_out}"
        return [*found, *self.keywords.lines(), f"in the suite and in plans: {used}"]


def _begins(word: str, text: str) -> bool:
    """Return whether a word of `text` begins with `word`; case, - and _ do not matter."""

    def plain(words: str) -> str:
        return " " + words.lower().replace("_", " ").replace("-", " ")

    return plain(word) in plain(text)


@cache
def _read() -> dict[str, Any]:
    """Return the file's entries, unchecked."""
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: dict[str, Any] = yaml.load(PATH.read_text("utf-8"), fast)  # noqa: S506 (both are safe)
    return entries


@cache
def catalogue() -> dict[str, Listing]:
    """Read the catalogue of the package's estimators.

    Returns
    -------
    dict of str to Listing
        By kind, in the order of the file.

    Raises
    ------
    ConfigError
        If an entry has a wrong key or value, or two uses have one name.
    """
    entries = {name: one for name, one in _read().items() if "rows" in one}
    listings = {name: from_mapping(Listing, one, name) for name, one in entries.items()}
    names = [name for one in listings.values() for name in one.entries]
    if len(set(names)) < len(names):
        raise ConfigError(f"{PATH.name}: two entries have one name: {sorted(names)}")
    return listings


@cache
def keywords() -> dict[str, Keywords]:
    """Read the search words and sources of all kinds.

    Returns
    -------
    dict of str to Keywords
        By kind: estimators, then distributions, families and budgets.
    """
    others = {name: one for name, one in _read().items() if "rows" not in one}
    return {
        **{name: one.keywords for name, one in catalogue().items()},
        **{name: from_mapping(Keywords, one, name) for name, one in others.items()},
    }


def uses() -> list[tuple[str, type[Any], Use]]:
    """List the entries with their names and classes: those of the local model last."""
    kinds = Estimator.kinds()
    found = [
        (name, kinds[kind], use)
        for kind, one in catalogue().items()
        for name, use in one.entries.items()
    ]
    return sorted(found, key=lambda one: one[1].bounded_in == "local")


def search(word: str) -> list[str]:
    """List the kinds whose names, search words or authors have a word that begins with `word`."""
    names = {kind: [kind, *listing.entries] for kind, listing in catalogue().items()}
    return [
        kind
        for kind, entry in keywords().items()
        if entry.matches(word) or any(_begins(word, name) for name in names.get(kind, [kind]))
    ]
