"""Make and check the configuration of a sweep of libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpbench.audit.cases import AuditSettings, AuditSweep
from dpbench.audit.task import AuditTask
from dpbench.errors import choose_from
from dpbench.estimators.libraries.recorder import QUERIES
from dpbench.privacy import PureDP
from dpbench.registry import ConfigError, from_mapping, keyed, named, validated
from dpbench.sweep.plan import Cell, Sweep, make_cells
from dpbench.sweep.selection import Choice, choose

__all__ = ["HostileSettings", "LibraryClaim", "LibrarySettings", "LibrarySweep", "ReplaySettings"]

STATISTICS = ("error", "bias")


@validated
class LibraryClaim:
    """Compare libraries' releases with what `dpbench.estimators.libraries.expected` says.

    Parameters
    ----------
    tolerance : float
        In units of width/(n epsilon).
    reason : str
        Why the tolerance is what it is.
    """

    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]


@validated
class HostileSettings:
    """Columns that nobody expects.

    Parameters
    ----------
    estimators : optional
        As of a part; by default all.
    n : int
        Records.
    trials : int
        Releases of each column.
    """

    estimators: Choice | None = None
    n: Annotated[int, Field(ge=10, le=1_000_000)] = 1000
    trials: Annotated[int, Field(ge=1, le=10_000)] = 20


@validated
class ReplaySettings:
    """Configure replays of libraries' queries on neighbouring datasets, with releases frozen.

    Parameters
    ----------
    libraries : list of 'numpy', 'diffprivlib' or 'opendp'
        ``numpy`` has the control, a mean that states half of its sensitivity.
    n : int
        Records.
    epsilon : float
        The budget of a query.
    intervals : list of [lower, upper]
        Bounds on the records. Away from 0 a record that comes or goes moves a sum by more than one
        that is replaced.
    refuted : mapping of library to query to list of mechanisms
        The refutations that are known. Any other refutation makes the exit code 1, and so does a
        mechanism of these that is not refuted.
    """

    libraries: tuple[Literal["numpy", "diffprivlib", "opendp"], ...] = (
        "numpy", "diffprivlib", "opendp",
    )  # fmt: skip
    n: Annotated[int, Field(ge=3, le=1000)] = 12
    epsilon: Annotated[float, Field(gt=0)] = 1.0
    intervals: Annotated[tuple[tuple[float, float], ...], Field(min_length=1)] = (
        (0.0, 1.0),
        (2.0, 3.0),
    )
    refuted: Mapping[str, Mapping[str, tuple[str, ...]]] = Field(default_factory=dict)

    @model_validator(mode="after")
    def _usable(self) -> Self:
        for low, high in self.intervals:
            if not low < high:
                raise ValueError(f"intervals: upper must exceed lower, got [{low:g}, {high:g}]")
        for name, queries in self.refuted.items():
            if name not in self.libraries:
                raise ValueError(f"refuted: {name!r}: {choose_from(name, self.libraries)}")
            for query in set(queries) - set(QUERIES[name]):
                raise ValueError(f"refuted.{name}: {query!r}: {choose_from(query, QUERIES[name])}")
        return self


@validated
class LibrarySettings:
    """Configure how libraries are measured.

    Parameters
    ----------
    lower, upper : float
        The interval whose width is the unit of errors: width/(n epsilon).
    seconds : float
        How long to go on with a cell after its first release; three are made whatever they take.
    hostile : HostileSettings
    audit : AuditSettings, optional
        As of a sweep that audits; here cases may leave out estimators.
    refuted : list of str
        The estimators that the audit refutes, as far as is known. Any other refutation makes
        the exit code 1, and so does one of these that is not refuted.
    replay : ReplaySettings, optional
    """

    lower: float = 0.0
    upper: float = 1.0
    seconds: Annotated[float, Field(gt=0, le=3600)] = 2.0
    hostile: Annotated[HostileSettings, keyed(HostileSettings, "hostile columns of libraries")] = (
        HostileSettings()
    )
    audit: Annotated[AuditSettings | None, keyed(AuditSettings)] = None
    refuted: tuple[str, ...] = ()
    replay: Annotated[ReplaySettings | None, keyed(ReplaySettings, "replays of libraries")] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower >= self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        return self


def _claim(spec: object, name: str) -> LibraryClaim:
    if name not in STATISTICS:
        raise ConfigError(f"{name}: claims of libraries are about {' or '.join(STATISTICS)}")
    return from_mapping(LibraryClaim, spec, name)


@validated
class LibrarySweep(Sweep):
    """A sweep that measures releases of fixed columns one by one.

    Parameters
    ----------
    libraries : LibrarySettings
    claims : mapping of 'error' or 'bias' to LibraryClaim
    """

    libraries: Annotated[
        LibrarySettings, keyed(LibrarySettings, "libraries (a sweep with the key libraries)")
    ]
    claims: Annotated[
        Mapping[str, LibraryClaim],
        named({"libraries": LibraryClaim}, _claim, title="a claim of libraries"),
    ] = Field(default_factory=dict)

    def cells(self, trials: int | None) -> list[Cell]:
        """All cells; ConfigError, as of what is audited or hostile, if one cannot be run."""
        for label, one in self.budgets.items():
            if not isinstance(one.value, PureDP):
                raise ConfigError(f"sweep.budgets.{label}: libraries run under pure_dp alone")
        choose(self.libraries.hostile.estimators, self.estimators, "sweep.libraries.hostile")
        choose(list(self.libraries.refuted) or None, self.estimators, "sweep.libraries.refuted")
        return make_cells(self, trials=trials)

    def audits(self, seed: int) -> list[AuditTask]:
        """What is audited, of all estimators that a case names."""
        how = self.libraries.audit
        if how is None:
            return []
        audited = {
            label: self.estimators[label]
            for key, case in how.cases.items()
            for label in choose(
                case.estimators, self.estimators, f"sweep.libraries.audit.cases.{key}"
            )
        }
        sweep = AuditSweep(name=self.name, estimators=audited, budgets=self.budgets, audit=how)
        return sweep.tasks(seed, "sweep.libraries.audit")
