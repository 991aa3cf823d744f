"""The problems of a suite, each frozen by a digest, and what an entry is told of them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, PlainValidator, model_validator

from dpbench.distributions import Distribution
from dpbench.estimators.catalogue import Public
from dpbench.package import conf_folder
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import under_replacement
from dpbench.registry import (
    ConfigError,
    Count,
    Label,
    MomentOrder,
    Radius,
    Trials,
    from_mapping,
    keyed,
    validated,
)
from dpbench.seeds import canonical, digest
from dpbench.suite.places import placed
from dpbench.theory.bounds.of_class import Bound
from dpbench.theory.families import Family, build_family

__all__ = ["LEFT", "SUITE", "Known", "Problem", "Suite", "Told", "read_suite"]

SUITE = "dpbench-mean-v2"
# Earlier suites, which can be read and compared but not entered, and why each was left.
LEFT = {
    "dpbench-mean-v1": "its laws stand at places that never change, so that an entry can answer "
    "them by heart: a constant 0.5 scores 0.93 on a Bernoulli problem"
}
# Parameters of a law that say where it is, or which of a family: nobody is told.
HIDDEN = {"location", "norm", "p", "c"}


@validated
class Known:
    """What is public about the records of a problem.

    Parameters
    ----------
    records : {'binary', 'gaussian', 'moments'}
        The class of laws that the lower bound is about: records in {0, 1}; Gaussian, of covariance
        scale^2 I; laws whose centred moments of order k are at most 1, in every direction.
    scale : float, optional
    k : float >= 2, optional
    radius : float, optional
        The norm of the mean is at most this; if it is not given, nobody knows.
    """

    records: Literal["binary", "gaussian", "moments"]
    scale: Annotated[float, Field(gt=0)] | None = None
    k: MomentOrder | None = None
    radius: Radius | None = None

    @model_validator(mode="after")
    def _what_the_class_needs(self) -> Self:
        needed = {"binary": set(), "gaussian": {"scale"}, "moments": {"k"}}[self.records]
        given = {name for name in ("scale", "k") if getattr(self, name) is not None}
        if given != needed:
            wanted = " ".join(needed) or "neither scale nor k"
            raise ValueError(f"of {self.records} records give {wanted}")
        return self


@dataclass(frozen=True)
class Told(Public):
    """What an entry is told of a problem, and may choose its parameters by.

    Attributes
    ----------
    law : mapping or None
        In the open division the kind of the law that is drawn and its shape, as a sweep has them,
        without its place; None in the declared one.
    """

    law: Mapping[str, Any] | None = None


@validated
class Problem:
    """A law, or the worst of a family, with n, a budget, and what is public.

    Parameters
    ----------
    id : str
    digest : str
        Of all that follows; see `actual_digest`.
    law : mapping
        A distribution or a family of laws, as in a sweep.
    n : int
    budget : Budget
    known : Known
    local : bool
        Whether estimators have to be of the local model.
    trials : pair of int
        Of the whole suite and of the quick one.
    placed : bool
        Whether the laws stand at places that `seed` names, see `dpbench.suite.places`.
    seed : int
        Names the places; no part of what is frozen, see `Suite.at`.
    """

    id: Label
    digest: str
    law: dict[str, Any]
    n: Count
    budget: Annotated[Budget, PlainValidator(lambda spec: Budget.build(spec, ""))]
    known: Annotated[Known, keyed(Known)]
    trials: tuple[Trials, Trials]
    local: bool = False
    placed: bool = False
    seed: int = 0

    @cached_property
    def _frozen(self) -> Family:
        """The laws as they are written down."""
        return build_family(self.law, f"{self.id}.law")

    @cached_property
    def family(self) -> Family:
        """The laws over which the worst is taken."""
        if not self.placed:
            return self._frozen
        return placed(self._frozen, self.known.radius, self.seed)

    @cached_property
    def members(self) -> dict[str, Distribution]:
        """These laws, by label."""
        return self.family.members(self.id, self.n, self.budget)

    @property
    def d(self) -> int:
        """Coordinates of a record."""
        return next(iter(self.members.values())).d

    @cached_property
    def bound(self) -> Bound:
        """What the 0.9 quantile of no estimator's error beats on the whole class.

        Of Gaussian laws it is that of means anywhere; chains of laws that stay within the radius
        have one that is smaller by 1.2% at most in `SUITE`.
        Where neighbours add or remove a record, that of what the budget implies for replacing one.
        """
        budget = under_replacement(self.budget)
        return self.family.lower_bound(self.n, budget, local=self.local)

    @property
    def actual_digest(self) -> str:
        """Of the parameters, those with a default too."""
        named = (self.id, canonical(self._frozen), self.n, canonical(self.budget))
        moves = ("placed",) if self.placed else ()
        return digest(*named, canonical(self.known), self.trials, self.local, *moves)[:12]

    def told(self, *, open_division: bool) -> Told:
        """What an entry of a division is told."""
        shape = {key: value for key, value in self.law.items() if key not in HIDDEN}
        return Told(
            n=None if self.budget.neighbours == "add_remove" else self.n,
            d=self.d,
            budget=self.budget,
            local=self.local,
            **{name: getattr(self.known, name) for name in ("records", "scale", "k", "radius")},
            law=shape if open_division else None,
        )


@dataclass(frozen=True)
class Suite:
    """Problems under the name of their version, which never change."""

    name: str
    problems: tuple[Problem, ...]

    def at(self, seed: int) -> Suite:
        """The problems with their laws at the places of this seed."""
        return Suite(self.name, tuple(replace(one, seed=seed) for one in self.problems))

    def chosen(self, patterns: str) -> Suite:
        """The problems whose ids match one of these shell patterns, which commas separate."""
        wanted = patterns.split(",")
        for pattern in wanted:
            if not any(fnmatchcase(one.id, pattern) for one in self.problems):
                raise ConfigError(f"problems: {pattern!r}: no problem of {self.name} matches it")
        found = (one for one in self.problems if any(fnmatchcase(one.id, p) for p in wanted))
        return Suite(self.name, tuple(found))


def read_suite(name: str = SUITE, folder: Path | None = None) -> Suite:
    """Read a suite, of the checkout by default.

    Raises
    ------
    ConfigError
        If a problem is not what its digest says, or two have one id.
    """
    path = (folder or conf_folder() / "suite") / f"{name}.yaml"
    fast = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    found = yaml.load(path.read_text("utf-8"), fast)  # noqa: S506 (both are safe)
    moves = {"placed": True} if found.get("placed") else {}
    problems = [from_mapping(Problem, one | moves, f"{name}.problems") for one in found["problems"]]
    for at, one in enumerate(problems):
        if one.digest != one.actual_digest:
            raise ConfigError(
                f"{path.name}: {one.id}: its digest is {one.actual_digest}, not {one.digest}: "
                "a problem is never edited; what is new has an id and a suite of its own"
            )
        if one.id in {earlier.id for earlier in problems[:at]}:
            raise ConfigError(f"{path.name}: {one.id}: two problems have this id")
    return Suite(name, tuple(problems))
