"""Configuration of a sweep of libraries."""

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
from dpbench.sweep.selection import Choice, select_labels

__all__ = ["HostileSettings", "LibraryClaim", "LibrarySettings", "LibrarySweep", "ReplaySettings"]

STATISTICS = ("error", "bias")


@validated
class LibraryClaim:
    """Claim that releases of libraries match `dpbench.estimators.libraries.expected`.

    Parameters
    ----------
    tolerance : float
        Tolerance in units of width/(n epsilon).
    reason : str
        Reason for the tolerance.
    """

    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]


@validated
class HostileSettings:
    """Settings of adversarial columns.

    Parameters
    ----------
    estimators : optional
        Selected estimators, as in a part of a sweep; all by default.
    n : int
        Number of records, 1,000 by default.
    trials : int
        Releases of each column, 20 by default.
    """

    estimators: Choice | None = None
    n: Annotated[int, Field(ge=10, le=1_000_000)] = 1000
    trials: Annotated[int, Field(ge=1, le=10_000)] = 20


@validated
class ReplaySettings:
    """Settings of replays of libraries' queries on neighbouring datasets, with frozen releases.

    Parameters
    ----------
    libraries : list of 'numpy', 'diffprivlib' or 'opendp'
        Libraries; all by default. ``numpy`` has the control, a mean that states half of its
        sensitivity.
    n : int
        Number of records, 12 by default.
    epsilon : float
        Budget of a query, 1 by default.
    intervals : list of [lower, upper]
        Bounds on the records; [0, 1] and [2, 3] by default. In an interval away from 0 an added
        record changes a sum by more than a replaced one.
    refuted : mapping of library to query to list of mechanisms
        Known refutations. The exit code is 1 if another mechanism is refuted, or if one of these is
        not.
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
    """Settings of the measurements of libraries.

    Parameters
    ----------
    lower, upper : float
        Interval of the records, [0, 1] by default; errors have the unit width/(n epsilon).
    seconds : float
        Time limit of a cell after its first release, 2 s by default; at least three releases are
        made.
    hostile : HostileSettings
        Adversarial columns.
    audit : AuditSettings, optional
        Audit, as in a sweep that audits; its cases may leave out estimators.
    refuted : list of str
        Estimators that the audit is known to refute. The exit code is 1 if another estimator is
        refuted, or if one of these is not.
    replay : ReplaySettings, optional
        Replays of queries.
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
        raise ConfigError(f"{name}: no claim of libraries; choose {' or '.join(STATISTICS)}")
    return from_mapping(LibraryClaim, spec, name)


@validated
class LibrarySweep(Sweep):
    """Sweep that measures single releases of fixed columns.

    Parameters
    ----------
    libraries : LibrarySettings
        Settings of the measurements.
    claims : mapping of 'error' or 'bias' to LibraryClaim
        Claims about the measured errors; none by default.
    """

    libraries: Annotated[
        LibrarySettings, keyed(LibrarySettings, "libraries (a sweep with the key libraries)")
    ]
    claims: Annotated[
        Mapping[str, LibraryClaim],
        named({"libraries": LibraryClaim}, _claim, title="a claim of libraries"),
    ] = Field(default_factory=dict)

    def cells(self, trials: int | None) -> list[Cell]:
        """Return all cells; raise ConfigError if a budget or a selection cannot be used."""
        for label, one in self.budgets.items():
            if not isinstance(one.value, PureDP):
                raise ConfigError(f"sweep.budgets.{label}: libraries need the kind pure_dp")
        select_labels(self.libraries.hostile.estimators, self.estimators, "sweep.libraries.hostile")
        select_labels(
            list(self.libraries.refuted) or None, self.estimators, "sweep.libraries.refuted"
        )
        return make_cells(self, trials=trials)

    def audits(self, seed: int) -> list[AuditTask]:
        """Return the audit tasks of all estimators that a case selects."""
        how = self.libraries.audit
        if how is None:
            return []
        audited = {
            label: self.estimators[label]
            for key, case in how.cases.items()
            for label in select_labels(
                case.estimators, self.estimators, f"sweep.libraries.audit.cases.{key}"
            )
        }
        sweep = AuditSweep(name=self.name, estimators=audited, budgets=self.budgets, audit=how)
        return sweep.tasks(seed, "sweep.libraries.audit")
