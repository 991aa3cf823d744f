"""Reader of ``catalogue.yaml``, which describes estimators, distributions and other objects.

An entry of the file belongs to a kind, which is the name of a class in configurations. The
benchmark and the planner build estimators from the file. The planner suggests estimators for
given records and a given budget. Help and documentation print the groups, sources and search words
of the file. Results of sweeps do not depend on it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from dpbench.bibliography import Source, sources_in
from dpbench.errors import ConfigError
from dpbench.estimators.base import Estimator
from dpbench.estimators.estimands import MEAN, Estimand
from dpbench.estimators.public import Public
from dpbench.registry import (
    Label,
    from_mapping,
    labelled_entries,
    nested_entry,
    validated,
)

__all__ = [
    "GROUPS", "CatalogueRow", "Keywords", "Listing", "Use", "catalogue", "keywords", "search",
    "uses",
]  # fmt: skip

PATH = Path(__file__).with_name("catalogue.yaml")
Text = Annotated[str, Field(min_length=1)]
Records = Literal["any", "bounded", "binary", "gaussian", "moments", "variance"]
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
# Classes of records whose bounds also bound the mean, so that no radius is needed.
BOUNDED_CLASSES = ("bounded", "binary")


@validated
class CatalogueRow:
    """A row of the documentation page of estimators: an estimator, or a variant of it."""

    variant: str = ""  # Parameters of the variant; empty if the estimator has a single row.
    source: str = ""  # Keys of the bibliography, with remarks.
    n: str = ""  # Number of records for an error alpha, up to logarithms.
    measured: str = ""  # Measured exponents or factors, with the sweep in brackets.
    also: str = ""  # Restrictions that `Estimator.notions` does not state.


@validated
class Use:
    """Records and parameters with which the benchmark and the planner use an estimator.

    The estimator applies to the classes of records in `numbers` if records are numbers, and in
    `vectors` if they are vectors. A class is a value of `Public.records`, such as ``bounded``. The
    two lists together need at least one class.
    """

    paper: Text  # Keys of the bibliography, or ``this package``.
    numbers: tuple[Records, ...] = ()
    vectors: tuple[Records, ...] = ()
    needs_radius: bool = False  # True if a bound on the norm of the mean has to be public.
    # Parameters of the estimator; ``$name`` stands for an attribute of `Public`.
    parameters: dict[str, Any] = Field(default_factory=dict)
    # Fixed release if the private steps find nothing; accurate by luck if the mean is near it.
    guess: float | None = None
    # True if the estimator reads every record; the planner then simulates fewer releases.
    slow: bool = False

    @model_validator(mode="after")
    def _check_records(self) -> Self:
        unknown = {name for name in self._public_names() if not hasattr(Public, name)}
        unknown -= set(Public.__dataclass_fields__)
        if unknown or not self.numbers + self.vectors:
            raise ValueError(f"nothing public is called {unknown}, or it is for no records")
        return self

    def _public_names(self) -> set[str]:
        """Return the names that follow a ``$`` in the values of `parameters`.

        Each name is an attribute of `Public`, the public knowledge of the records.
        """
        inner = (value.values() if isinstance(value, dict) else [value] for value in self._values)
        texts = (text for value in inner for text in value if isinstance(text, str))
        return {text[1:] for text in texts if text.startswith("$")}

    @property
    def _values(self) -> list[Any]:
        """Values of the estimator's parameters, without their names."""
        return list(self.parameters.values())

    @property
    def uses_radius(self) -> bool:
        """True if a parameter of the estimator depends on a public bound on the mean."""
        return bool(self._public_names() & {"radius", "far", "reach", "least_mean", "largest_mean"})

    def estimator(self, kind: type[Estimator], public: Public) -> Estimator | None:
        """Build the estimator for records with the public knowledge `public`, or return None.

        The result is None unless the estimator satisfies all of these conditions:

        - it suits the class of the records and the privacy model, and supports the budget;
        - it needs no public bound on the mean, or `public` has a bound;
        - it accepts n records, or n is not public.
        """
        classes = self.vectors if public.d > 1 else self.numbers
        mean_is_bounded = (
            public.radius is not None or public.records in BOUNDED_CLASSES or not self.needs_radius
        )
        local = kind.bounded_in == "local"
        if public.records not in classes or not mean_is_bounded or public.local != local:
            return None
        instance: Estimator = kind(**_resolve(self.parameters, public))
        if not instance.supports(public.budget):
            return None
        least, most, n = (
            instance.least_records(public.d, public.budget),
            instance.most_records,
            public.n,
        )
        return instance if n is None or least <= n <= (most or n) else None


def _resolve(value: Any, public: Public) -> Any:
    """Replace every text ``$name`` in a parameter by the value of ``public.name``."""
    if isinstance(value, Mapping):
        return {key: _resolve(item, public) for key, item in value.items()}
    is_name = isinstance(value, str) and value.startswith("$")
    return getattr(public, value[1:]) if is_name else value


@validated
class Keywords:
    """Search words and sources of a kind, which is the name of a class in configurations."""

    words: Annotated[tuple[Text, ...], Field(min_length=1)]
    source: str  # Keys of the bibliography; empty for a textbook distribution.

    @property
    def sources(self) -> dict[str, Source]:
        """The cited entries of the bibliography, keyed by names such as KSU20."""
        return sources_in([self.source])

    def matches(self, word: str) -> bool:
        """Return True if a word of the search words or sources starts with `word`.

        The words of a source are its bibliography key, authors and title.
        """
        cited = [f"{source.authors}; {source.title}" for source in self.sources.values()]
        return any(_has_word_beginning(word, text) for text in (*self.words, *self.sources, *cited))

    def lines(self) -> list[str]:
        """Return the references and the search words as lines of text for the terminal."""
        references = [f"reference {key}: {source}" for key, source in self.sources.items()]
        return [*references, f"words: {', '.join(self.words)}"]


@validated
class Listing:
    """The entry of an estimator in the catalogue of estimators."""

    group: Group  # Key of `GROUPS`.
    words: Annotated[tuple[Text, ...], Field(min_length=1)]
    # Assumptions about the records, in words of the estimator's parameters, on which its accuracy
    # depends. Its privacy depends on none of them.
    assumes: Text
    # One row for each variant on the documentation page of estimators.
    rows: Annotated[
        tuple[Annotated[CatalogueRow, nested_entry(CatalogueRow)], ...], Field(min_length=1)
    ]
    # Uses by the benchmark and the planner, keyed by entry name.
    entries: Annotated[dict[Label, Use], labelled_entries(Use)] = Field(default_factory=dict)
    # Reason for having no entries; required if there are none, and not allowed otherwise.
    left_out: str = ""
    # Reasons for being absent from a sweep, keyed by the sweep: ``audit`` or ``ci``.
    not_in: dict[Literal["audit", "ci"], Text] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _check_entries(self) -> Self:
        if bool(self.entries) == bool(self.left_out):
            raise ValueError("give entries, or say in left_out why there are none")
        return self

    @property
    def keywords(self) -> Keywords:
        """The search words and the sources of all rows and uses of the estimator."""
        texts = [row.source for row in self.rows] + [use.paper for use in self.entries.values()]
        return Keywords(words=self.words, source="; ".join(dict.fromkeys(texts)))

    def lines(self) -> list[str]:
        """Return the catalogue's facts about the estimator as lines of text for the terminal."""
        facts = [f"assumes: {self.assumes}"]
        for row in self.rows:
            cells = {name: getattr(row, name) for name in CatalogueRow.__dataclass_fields__}
            facts += [f"{name}: {text.replace('*', '')}" for name, text in cells.items() if text]
        used = ", ".join(self.entries) or f"no, because {self.left_out}"
        return [*facts, *self.keywords.lines(), f"in plans, and of means in the benchmark: {used}"]


def _has_word_beginning(word: str, text: str) -> bool:
    """Return True if some word of `text` begins with `word`; case and punctuation do not matter."""

    def normalise(words: str) -> str:
        return " " + re.sub(r"[\W_]+", " ", words.lower())

    return normalise(word) in normalise(text)


@cache
def _read() -> dict[str, Any]:
    """Return the entries of ``catalogue.yaml`` as plain dictionaries, without checking them."""
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    entries: dict[str, Any] = yaml.load(PATH.read_text("utf-8"), fast)  # noqa: S506 (both are safe)
    return entries


@cache
def catalogue() -> dict[str, Listing]:
    """Return the package's estimators keyed by their names in configurations.

    They are in the order of the file. A wrong key or value, or one name of two uses, is a
    `ConfigError`.
    """
    entries = {name: entry for name, entry in _read().items() if "rows" in entry}
    listings = {name: from_mapping(Listing, entry, name) for name, entry in entries.items()}
    names = [name for listing in listings.values() for name in listing.entries]
    if len(set(names)) < len(names):
        raise ConfigError(f"{PATH.name}: two entries have one name: {sorted(names)}")
    return listings


@cache
def keywords() -> dict[str, Keywords]:
    """Return the search words and sources of all kinds, keyed by the names in configurations.

    Estimators come first, then distributions, families and budgets.
    """
    others = {name: entry for name, entry in _read().items() if "rows" not in entry}
    return {
        **{name: listing.keywords for name, listing in catalogue().items()},
        **{name: from_mapping(Keywords, entry, name) for name, entry in others.items()},
    }


def uses(target: Estimand = MEAN) -> list[tuple[str, type[Any], Use]]:
    """List the entries of estimators of a target as tuples (entry name, class, use).

    An entry is an estimator with parameters. Entries of the local model come last. The benchmark
    has the entries of means, and a plan those of its target.
    """
    kinds = Estimator.kinds()
    entries = [
        (name, kinds[kind], use)
        for kind, listing in catalogue().items()
        for name, use in listing.entries.items()
        if kinds[kind].estimand is target
    ]
    return sorted(entries, key=lambda entry: entry[1].bounded_in == "local")


def search(word: str) -> list[str]:
    """List the estimators, distributions and other objects that match a search word.

    The result holds their names in configurations. An object matches if a word of one of the
    following texts begins with `word`: its name, its search words, the names of its entries in the
    benchmark, and the keys, authors and titles of its sources.
    """
    names = {kind: [kind, *listing.entries] for kind, listing in catalogue().items()}
    return [
        kind
        for kind, entry in keywords().items()
        if entry.matches(word)
        or any(_has_word_beginning(word, name) for name in names.get(kind, [kind]))
    ]
