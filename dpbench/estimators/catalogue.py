"""Look up what is known of every kind of estimator, in ``catalogue.yaml`` beside this module.

The suite makes its entries from the catalogue, the planner its candidates, help and documentation
what they say of a kind. Nothing here computes a number of a sweep.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, model_validator

from dpbench.errors import ConfigError
from dpbench.estimators.base import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation
from dpbench.registry import Label, from_mapping, keyed, named, validated

__all__ = ["Listing", "Public", "Row", "Use", "catalogue", "search", "uses"]

PATH = Path(__file__).with_name("catalogue.yaml")
Text = Annotated[str, Field(min_length=1)]
Records = Literal["any", "bounded", "binary", "gaussian", "moments"]
PLACED = ("bounded", "binary")  # records whose mean is within public bounds by themselves


@dataclass(frozen=True)
class Public:
    """Hold what is publicly known of records, by which an estimator's parameters may be chosen.

    Attributes
    ----------
    n : int or None
        Number of records; None if it is private, as under ``add_remove``.
    d : int
        Coordinates of a record; 1 stands for numbers.
    budget : Budget
        Privacy budget, with its `neighbours`.
    local : bool
        Whether every record has to be released by itself.
    records : {'any', 'bounded', 'binary', 'gaussian', 'moments'}
        Class of laws of the records, see ``catalogue.yaml``.
    scale : float or None
        Standard deviation of a coordinate, if it is known.
    k : float or None
        Order of the moment that is at most 1, if one is known.
    radius : float or None
        Bound on the norm of the mean; None if nobody knows one.
    bounds : pair of float, optional
        Public ends of numbers, if they are `bounded`.
    """

    n: int | None
    d: int
    budget: Budget
    local: bool
    records: str
    scale: float | None = None
    k: float | None = None
    radius: float | None = None
    bounds: tuple[float, float] | None = None

    @property
    def notion(self) -> str:
        """``pure``, ``zcdp``, ``gdp`` or ``approx``."""
        return self.budget.notion

    @property
    def relation(self) -> Relation:
        """``replace`` or ``add_remove``."""
        return self.budget.neighbours

    @property
    def ends(self) -> tuple[float, float]:
        """Public bounds on numbers."""
        if self.bounds is not None:
            return self.bounds
        return (0.0, 1.0) if self.records == "binary" else (-self.far, self.far)

    @property
    def lower(self) -> float:
        """Lower public bound on numbers."""
        return self.ends[0]

    @property
    def upper(self) -> float:
        """Upper public bound on numbers."""
        return self.ends[1]

    @property
    def far(self) -> float:
        """A norm that hardly any record exceeds: by 4 deviations, of vectors by 2 + sqrt(d)."""
        assert self.radius is not None
        spread = 4.0 if self.d == 1 else 2.0 + math.sqrt(self.d)
        return self.radius + spread * (self.scale or 3.0)

    @property
    def reach(self) -> float:
        """Bound on the mean; that of records in [0, 1] is at most 1."""
        return self.radius or 1.0

    @property
    def least_mean(self) -> float:
        """Least that the mean may be."""
        return -float(self.radius or 0.0)

    @property
    def largest_mean(self) -> float:
        """Largest that the mean may be."""
        return float(self.radius or 0.0)

    @property
    def deviation(self) -> float:
        """Standard deviation; that of laws of a moment is at most 1."""
        return self.scale or 1.0

    @property
    def resolution(self) -> float:
        """Accuracy to which a median is wanted: a hundredth of a deviation."""
        return self.deviation / 100

    @property
    def variance(self) -> float:
        """Bound on the variance of every projection."""
        return self.deviation**2

    @property
    def order(self) -> float:
        """Order of a moment; centred moments of records in [0, 1] are below 1, too."""
        return self.k or 2.0

    @property
    def ball_noise(self) -> str:
        """Mechanism of `BoundedMean` whose noise is least."""
        return "l2" if self.notion == "pure" else "additive"


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
class Listing:
    """Describe a kind of estimator.

    Parameters
    ----------
    words : list of str
        Search words.
    rows : list of Row
        What the page of estimators says, a row for each variant.
    entries : mapping of str to Use, optional
        How it uses what is public, by names of their own.
    left_out : str, optional
        Why there are no entries.
    not_in : mapping of str to str, optional
        Which of the sweeps ``audit`` and ``ci``, that have every kind, lack it, and why.
    """

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

    def lines(self) -> list[str]:
        """Say in lines what is known of the kind, for the terminal."""
        found = []
        for row in self.rows:
            told = {name: getattr(row, name) for name in Row.__dataclass_fields__}
            found += [f"{name}: {text.replace('*', '')}" for name, text in told.items() if text]
        used = ", ".join(self.entries) or f"no, because {self.left_out}"
        return [*found, f"words: {', '.join(self.words)}", f"in the suite and in plans: {used}"]


@cache
def catalogue() -> dict[str, Listing]:
    """Read the catalogue: a listing for each kind of estimator of the package.

    Raises
    ------
    ConfigError
        If the file says what it may not, or a kind twice.
    """
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(PATH.read_text("utf-8"), fast)  # noqa: S506 (both are safe)
    listings = {name: from_mapping(Listing, one, name) for name, one in found.items()}
    names = [name for one in listings.values() for name in one.entries]
    if len(set(names)) < len(names):
        raise ConfigError(f"{PATH.name}: two entries have one name: {sorted(names)}")
    return listings


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
    """List the kinds of whose names or search words a word begins with this one."""

    def plain(text: str) -> str:
        return " " + text.lower().replace("_", " ").replace("-", " ")

    return [
        kind
        for kind, one in catalogue().items()
        if any(plain(word) in plain(text) for text in (kind, *one.words, *one.entries))
    ]
