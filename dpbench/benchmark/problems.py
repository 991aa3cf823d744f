"""Problems of a benchmark, each frozen by a digest, and the public knowledge about them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Annotated, Any, Literal, Self

import yaml
from pydantic import Field, PlainValidator, model_validator

from dpbench.benchmark.random_locations import draw_unit, place_family
from dpbench.benchmark.reference import reference
from dpbench.distributions import Distribution
from dpbench.estimators.public import Public
from dpbench.package import conf_folder
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import replacement_budget
from dpbench.registry import (
    ConfigError,
    Count,
    Label,
    MomentOrder,
    Radius,
    Trials,
    from_mapping,
    nested_entry,
    validated,
)
from dpbench.seeds import canonical, digest
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.families import Family, build_family

__all__ = [
    "BENCHMARKS",
    "MEAN_BENCHMARK",
    "REAL_BENCHMARK",
    "Benchmark",
    "Problem",
    "ProblemClass",
    "PublicKnowledge",
    "read_benchmark",
]

MEAN_BENCHMARK = "dpbench-mean-v2"
REAL_BENCHMARK = "dpbench-real-v2"  # real columns
BENCHMARKS = (MEAN_BENCHMARK, REAL_BENCHMARK)
# Parameters that give the location of a distribution, or its index in a family; always hidden.
HIDDEN_PARAMETERS = {"location", "norm", "p", "c"}
# Parameters of a real column, which all tell which column it is.
HIDDEN_OF_COLUMNS = {"column", "scale"}


@validated
class ProblemClass:
    """Public knowledge about the records of a problem.

    Parameters
    ----------
    records : {'binary', 'gaussian', 'moments', 'variance'}
        Class of the records' distribution. The problem's lower bound on the error is proved for
        this class. ``binary``: records in {0, 1}; ``gaussian``: Gaussian with covariance
        scale^2 I; ``moments``: centred moments of order k at most 1 in every direction;
        ``variance``: numbers with standard deviation at most `scale`.
    scale : float, optional
        Standard deviation of every coordinate, for ``gaussian``; a bound on it, for ``variance``.
    k : float, optional
        Order of the moment, at least 2, for ``moments``.
    radius : float, optional
        Bound on the norm of the mean; unknown by default.
    """

    records: Literal["binary", "gaussian", "moments", "variance"]
    scale: Annotated[float, Field(gt=0)] | None = None
    k: MomentOrder | None = None
    radius: Radius | None = None

    @model_validator(mode="after")
    def _check_parameters(self) -> Self:
        needed_by_class = {"gaussian": {"scale"}, "moments": {"k"}, "variance": {"scale"}}
        needed = needed_by_class.get(self.records, set())
        given_parameters = {name for name in ("scale", "k") if getattr(self, name) is not None}
        if given_parameters != needed:
            names = " ".join(needed) or "neither scale nor k"
            raise ValueError(f"{self.records} records: give {names}")
        return self


@dataclass(frozen=True)
class PublicKnowledge(Public):
    """Public knowledge about a problem, from which an entry may choose its parameters.

    Attributes
    ----------
    law : mapping or None
        Kind and shape of the distribution without its location, as a mapping of configuration
        keys. Entries of the open division may use it. None for entries of the declared division.
    """

    law: Mapping[str, Any] | None = None


@validated
class Problem:
    """Problem of the benchmark: estimate a mean from n records under a privacy budget.

    The records have one distribution or, if there is a family of distributions, the worst of them.

    Parameters
    ----------
    id : str
        Label of the problem.
    digest : str
        Digest of the frozen parameters, see `actual_digest`.
    law : mapping
        Distribution or family of distributions, written as in a sweep.
    n : int
        Number of records.
    budget : Budget
        Budget of a release.
    known : ProblemClass
        Public knowledge about the records.
    trials : pair of int
        Number of trials per distribution, and the smaller number with ``quick=true``.
    local : bool
        Whether only estimators of the local model may answer; False by default.
    placed : bool
        Whether the distributions are moved to random locations, see
        `dpbench.benchmark.random_locations`.
    seed : int
        Seed of the random locations; not part of the digest, see `Benchmark.at_places`.
    archive : str
        Name of the benchmark whose archive has the reference error; empty (the default) if the
        problem has a lower bound.
    """

    id: Label
    digest: str
    law: dict[str, Any]
    n: Count
    budget: Annotated[Budget, PlainValidator(lambda spec: Budget.build(spec, ""))]
    known: Annotated[ProblemClass, nested_entry(ProblemClass)]
    trials: tuple[Trials, Trials]
    local: bool = False
    placed: bool = False
    seed: int = 0
    archive: str = ""

    @cached_property
    def _frozen(self) -> Family:
        """Family of distributions before they are moved to random locations."""
        return build_family(self.law, f"{self.id}.law")

    @cached_property
    def family(self) -> Family:
        """Family of the problem's distributions; the score uses the worst error over them."""
        if not self.placed:
            return self._frozen
        return place_family(self._frozen, self.known.radius, self.seed, self.unit)

    @cached_property
    def unit(self) -> float:
        """Unit of the records in this run, a power of two; 1 unless the problem has an archive.

        Public knowledge is in this unit, too. Errors are divided by it before they are scored.
        """
        return draw_unit(self.id, self.seed) if self.placed and self.archive else 1.0

    @property
    def relative(self) -> bool:
        """True if scores are relative to the archive's smallest error, not to a lower bound."""
        return bool(self.archive)

    @cached_property
    def members(self) -> dict[str, Distribution]:
        """Distributions of the problem's family, keyed by label."""
        return self.family.members(self.id, self.n, self.budget)

    @property
    def d(self) -> int:
        """Dimension of a record."""
        return next(iter(self.members.values())).d

    @cached_property
    def bound(self) -> ErrorBound:
        """Lower bound on every private estimator's 0.9 quantile of the error, in the worst case.

        If the problem has an archive, it is instead the smallest error of the archive's entries.
        The worst case is over the distributions of the class. The bound for Gaussian distributions
        assumes that the mean may be anywhere. If the norm of the mean is publicly bounded, a bound
        that uses this knowledge is smaller, by at most 1.2% in the benchmark `MEAN_BENCHMARK`. An
        add/remove budget implies a weaker guarantee under replacement. The bound is for this
        guarantee.
        """
        if self.relative:
            return reference(self.archive, self.id)
        budget = replacement_budget(self.budget)
        return self.family.lower_bound(self.n, budget, local=self.local)

    @property
    def actual_digest(self) -> str:
        """Digest of all parameters of the problem except `seed`, including default values."""
        parts = (self.id, canonical(self._frozen), self.n, canonical(self.budget))
        moves = [word for word in ("placed", "archive") if getattr(self, word)]
        return digest(*parts, canonical(self.known), self.trials, self.local, *moves)[:12]

    def public_knowledge(self, *, open_division: bool) -> PublicKnowledge:
        """Return the public knowledge that an entry may use to choose its estimator.

        An entry of the declared division uses public knowledge about the records. An entry of the
        open division may also use the shape of the distribution.
        """
        hidden = HIDDEN_PARAMETERS
        if self.law["kind"] == "real_column":
            hidden = hidden | HIDDEN_OF_COLUMNS
        shape = {key: value for key, value in self.law.items() if key not in hidden}
        return PublicKnowledge(
            n=None if self.budget.neighbours == "add_remove" else self.n,
            d=self.d,
            budget=self.budget,
            local=self.local,
            records=self.known.records,
            scale=None if self.known.scale is None else self.known.scale * self.unit,
            k=self.known.k,
            radius=None if self.known.radius is None else self.known.radius * self.unit,
            law=shape if open_division else None,
        )


@dataclass(frozen=True)
class Benchmark:
    """Named version of the benchmark, whose problems never change."""

    name: str
    problems: tuple[Problem, ...]

    def at_places(self, seed: int) -> Benchmark:
        """Return the benchmark with distributions moved to random locations, drawn with `seed`."""
        return Benchmark(self.name, tuple(replace(problem, seed=seed) for problem in self.problems))

    def select(self, patterns: str) -> Benchmark:
        """Return a benchmark of the problems whose ids match any of the comma-separated patterns.

        A ConfigError says that no problem matches a pattern.
        """
        globs = patterns.split(",")
        for pattern in globs:
            if not any(fnmatchcase(problem.id, pattern) for problem in self.problems):
                raise ConfigError(f"problems: {pattern!r}: no problem of {self.name} matches it")
        matching = (
            problem for problem in self.problems if any(fnmatchcase(problem.id, p) for p in globs)
        )
        return Benchmark(self.name, tuple(matching))


def read_benchmark(name: str = MEAN_BENCHMARK, folder: Path | None = None) -> Benchmark:
    """Read a version of the benchmark from its file, by default in the folder ``conf/benchmark``.

    A ConfigError says that a problem does not match its digest, or that two problems share an id.
    """
    path = (folder or conf_folder() / "benchmark") / f"{name}.yaml"
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    content = yaml.load(path.read_text("utf-8"), loader)  # noqa: S506 (both are safe)
    placement: dict[str, Any] = {"placed": True} if content.get("placed") else {}
    if content.get("relative"):
        placement["archive"] = name
    problems = [
        from_mapping(Problem, problem | placement, f"{name}.problems")
        for problem in content["problems"]
    ]
    for index, problem in enumerate(problems):
        if problem.digest != problem.actual_digest:
            raise ConfigError(
                f"{path.name}: {problem.id}: its digest is {problem.actual_digest}, not "
                f"{problem.digest}: a problem is never edited; add a new problem under a new id, "
                "in a new benchmark"
            )
        if problem.id in {earlier.id for earlier in problems[:index]}:
            raise ConfigError(f"{path.name}: {problem.id}: two problems have this id")
    return Benchmark(name, tuple(problems))
