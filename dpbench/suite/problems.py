"""Problems of a suite, each frozen by a digest, and the public knowledge about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, Self

import yaml
from pydantic import Field, PlainValidator, model_validator

from dpbench.distributions import Distribution
from dpbench.estimators.public import Public
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
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.families import Family, build_family

__all__ = ["LEFT", "SUITE", "Problem", "ProblemClass", "PublicKnowledge", "Suite", "read_suite"]

SUITE = "dpbench-mean-v2"
# Earlier suites, which can be read and compared but not entered, and the reason for each.
LEFT = {
    "dpbench-mean-v1": "its laws stand at places that never change, so that an entry can answer "
    "them by heart: a constant 0.5 scores 0.93 on a Bernoulli problem"
}
# Parameters that give the location of a distribution, or its index in a family; always hidden.
HIDDEN = {"location", "norm", "p", "c"}


@validated
class ProblemClass:
    """Public knowledge about the records of a problem.

    Parameters
    ----------
    records : {'binary', 'gaussian', 'moments'}
        Class of distributions of the lower bound: records in {0, 1}; Gaussian with covariance
        scale^2 I; centred moments of order k at most 1 in every direction.
    scale : float, optional
        Standard deviation of every coordinate, for ``gaussian``.
    k : float, optional
        Order of the moment, at least 2, for ``moments``.
    radius : float, optional
        Bound on the norm of the mean; unknown by default.
    """

    stream_name: ClassVar[str] = "Known"

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
            raise ValueError(f"{self.records} records: give {wanted}")
        return self


@dataclass(frozen=True)
class PublicKnowledge(Public):
    """Knowledge about a problem from which an entry may choose its parameters.

    Attributes
    ----------
    law : mapping or None
        Open division: kind and shape of the distribution, with the keys of a sweep, without its
        location. Declared division: None.
    """

    law: Mapping[str, Any] | None = None


@validated
class Problem:
    """Problem of the suite: a distribution, or the worst of a family, with n and a budget.

    Parameters
    ----------
    id : str
        Label of the problem.
    digest : str
        Digest of the frozen parameters, see `actual_digest`.
    law : mapping
        Distribution or family of distributions, with the keys of a sweep.
    n : int
        Number of records.
    budget : Budget
        Budget of a release.
    known : Known
        Public knowledge about the records.
    trials : pair of int
        Trials per distribution in the whole suite, and with ``quick=true``.
    local : bool
        Whether only estimators of the local model may answer; False by default.
    placed : bool
        Whether the distributions are moved to places, see `dpbench.suite.places`.
    seed : int
        Seed of the places; not part of the digest, see `Suite.at`.
    """

    id: Label
    digest: str
    law: dict[str, Any]
    n: Count
    budget: Annotated[Budget, PlainValidator(lambda spec: Budget.build(spec, ""))]
    known: Annotated[ProblemClass, keyed(ProblemClass)]
    trials: tuple[Trials, Trials]
    local: bool = False
    placed: bool = False
    seed: int = 0

    @cached_property
    def _frozen(self) -> Family:
        """Family of distributions before it is moved to places."""
        return build_family(self.law, f"{self.id}.law")

    @cached_property
    def family(self) -> Family:
        """Family of distributions over which the worst error is taken."""
        if not self.placed:
            return self._frozen
        return placed(self._frozen, self.known.radius, self.seed)

    @cached_property
    def members(self) -> dict[str, Distribution]:
        """Distributions of `family` by label."""
        return self.family.members(self.id, self.n, self.budget)

    @property
    def d(self) -> int:
        """Dimension of a record."""
        return next(iter(self.members.values())).d

    @cached_property
    def bound(self) -> ErrorBound:
        """Lower bound on the worst 0.9 quantile over the class, for every private estimator.

        The bound for Gaussian distributions assumes that the mean may be anywhere; a bound that
        uses the public radius is smaller by at most 1.2% in `SUITE`. Under add/remove it is the
        bound for the guarantee that the budget implies under replacement.
        """
        budget = under_replacement(self.budget)
        return self.family.lower_bound(self.n, budget, local=self.local)

    @property
    def actual_digest(self) -> str:
        """Digest of all parameters, including defaults, except `seed`."""
        named = (self.id, canonical(self._frozen), self.n, canonical(self.budget))
        moves = ("placed",) if self.placed else ()
        return digest(*named, canonical(self.known), self.trials, self.local, *moves)[:12]

    def public_knowledge(self, *, open_division: bool) -> PublicKnowledge:
        """Return the knowledge that an entry of a division may use."""
        shape = {key: value for key, value in self.law.items() if key not in HIDDEN}
        return PublicKnowledge(
            n=None if self.budget.neighbours == "add_remove" else self.n,
            d=self.d,
            budget=self.budget,
            local=self.local,
            **{name: getattr(self.known, name) for name in ("records", "scale", "k", "radius")},
            law=shape if open_division else None,
        )


@dataclass(frozen=True)
class Suite:
    """Named version of the suite, whose problems never change.

    Parameters
    ----------
    name : str
        Name of the version.
    problems : tuple of Problem
        Problems of the version.
    """

    name: str
    problems: tuple[Problem, ...]

    def at(self, seed: int) -> Suite:
        """Return the suite with its distributions at the places of this seed."""
        return Suite(self.name, tuple(replace(one, seed=seed) for one in self.problems))

    def chosen(self, patterns: str) -> Suite:
        """Return the suite of the problems whose ids match one of the comma-separated patterns."""
        wanted = patterns.split(",")
        for pattern in wanted:
            if not any(fnmatchcase(one.id, pattern) for one in self.problems):
                raise ConfigError(f"problems: {pattern!r}: no problem of {self.name} matches it")
        found = (one for one in self.problems if any(fnmatchcase(one.id, p) for p in wanted))
        return Suite(self.name, tuple(found))


def read_suite(name: str = SUITE, folder: Path | None = None) -> Suite:
    """Read a suite.

    Parameters
    ----------
    name : str
        Name of the version; `SUITE` by default.
    folder : Path, optional
        Folder of the file; by default the folder ``conf/suite`` of the checkout.

    Returns
    -------
    Suite

    Raises
    ------
    ConfigError
        If a problem does not match its digest, or two problems share an id.
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
                "a problem is never edited; add a new one under a new id, in a new suite"
            )
        if one.id in {earlier.id for earlier in problems[:at]}:
            raise ConfigError(f"{path.name}: {one.id}: two problems have this id")
    return Suite(name, tuple(problems))
