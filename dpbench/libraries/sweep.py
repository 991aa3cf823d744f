"""Configuration of a sweep that measures the private means of other libraries."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from dpbench.audit.cases import AuditSettings, AuditSweep
from dpbench.audit.task import AuditTask
from dpbench.errors import choose_from
from dpbench.libraries.means.recorder import QUERIES
from dpbench.privacy import PureDP
from dpbench.registry import ConfigError, from_mapping, labelled_entries, nested_entry, validated
from dpbench.sweep.plan import Cell, Sweep, make_cells
from dpbench.sweep.selection import Choice, select_labels

__all__ = ["HostileSettings", "LibraryClaim", "LibrarySettings", "LibrarySweep", "ReplaySettings"]

STATISTICS = ("error", "bias")


@validated
class LibraryClaim:
    """Claim that releases of libraries have the error or the bias that formulas predict.

    The formulas are in `dpbench.libraries.means.expected`.

    Parameters
    ----------
    tolerance : float > 0
        Largest accepted distance from the predicted number. The unit is width/(n epsilon), for n
        records in an interval of length width.
    reason : str
        Reason for the tolerance, a full sentence.
    """

    tolerance: Annotated[float, Field(gt=0)]
    reason: Annotated[str, Field(min_length=1)]


@validated
class HostileSettings:
    """Settings for releases of means of adversarial datasets (NaN, inf, empty, ...).

    A dataset is a column of numbers, one for each record.

    Parameters
    ----------
    estimators : optional
        Selected labels of estimators, see `Selection`; all by default.
    n : int in [10, 1e6]
        Number of records of a column, 1,000 by default.
    trials : int in [1, 10000]
        Number of releases of each column's mean, 20 by default.
    """

    estimators: Choice | None = None
    n: Annotated[int, Field(ge=10, le=1_000_000)] = 1000
    trials: Annotated[int, Field(ge=1, le=10_000)] = 20


@validated
class ReplaySettings:
    """Settings for replays: runs of a library's query on neighbouring datasets.

    In the later runs mechanisms reuse the releases of the first run. A mechanism is refuted if its
    inputs on two neighbouring datasets differ by more than its stated sensitivity.

    Parameters
    ----------
    libraries : list of 'numpy', 'diffprivlib', 'opendp' or 'pipeline-dp'
        Libraries; all by default. ``numpy`` has the control, a mean that states half of its
        sensitivity and so must be refuted.
    n : int in [3, 1000]
        Number of records, 12 by default.
    epsilon : float > 0
        Budget of a query, 1 by default.
    intervals : list of [lower, upper]
        Bounds on the records; [0, 1] and [2, 3] by default. In an interval away from 0 an added
        record changes a sum by more than a replaced record does.
    refuted : mapping of library to query to list of mechanisms
        Known refutations. The exit code is 1 if another mechanism is refuted, or if a listed
        mechanism is not.
    """

    libraries: tuple[Literal["numpy", "diffprivlib", "opendp", "pipeline-dp"], ...] = (
        "numpy", "diffprivlib", "opendp", "pipeline-dp",
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
    """Settings of a sweep that measures private means of libraries.

    Parameters
    ----------
    lower, upper : float
        Interval of the records, [0, 1] by default. The length of the interval, width, gives the
        unit of errors, width/(n epsilon).
    seconds : float in (0, 3600]
        Time limit for all releases of an estimator on one column of records, without the time of
        the first release; 2 s by default. At least three releases are made, even beyond the
        limit, unless fewer trials are set.
    hostile : HostileSettings
        Settings for adversarial columns of records.
    audit : AuditSettings, optional
        Settings of a privacy audit, which need not cover all estimators. By default there is no
        audit.
    refuted : list of str
        Estimators that are wrong on purpose, so that the audit must refute them. They are shown
        apart as controls. The exit code is 1 if another estimator is refuted, or if a listed
        estimator is not.
    replay : ReplaySettings, optional
        Settings of replays of the libraries' queries on neighbouring datasets.
    """

    lower: float = 0.0
    upper: float = 1.0
    seconds: Annotated[float, Field(gt=0, le=3600)] = 2.0
    hostile: Annotated[
        HostileSettings, nested_entry(HostileSettings, "hostile columns of libraries")
    ] = HostileSettings()
    audit: Annotated[AuditSettings | None, nested_entry(AuditSettings)] = None
    refuted: tuple[str, ...] = ()
    replay: Annotated[
        ReplaySettings | None, nested_entry(ReplaySettings, "replays of libraries")
    ] = None

    @model_validator(mode="after")
    def _ordered(self) -> Self:
        if self.lower >= self.upper:
            raise ValueError(f"upper must exceed lower, got [{self.lower}, {self.upper}]")
        return self


def _claim(spec: object, name: str) -> LibraryClaim:
    """Build a claim about libraries from its configuration; `name` is ``error`` or ``bias``."""
    if name not in STATISTICS:
        raise ConfigError(f"{name}: no claim of libraries; choose {' or '.join(STATISTICS)}")
    return from_mapping(LibraryClaim, spec, name)


@validated
class LibrarySweep(Sweep):
    """Sweep that measures private means by libraries and by dpbench on fixed datasets.

    Parameters
    ----------
    libraries : LibrarySettings
        Settings of the measurements.
    claims : mapping of 'error' or 'bias' to LibraryClaim
        Claims about the measured errors; none by default.
    """

    libraries: Annotated[
        LibrarySettings, nested_entry(LibrarySettings, "libraries (a sweep with the key libraries)")
    ]
    claims: Annotated[
        Mapping[str, LibraryClaim],
        labelled_entries({"libraries": LibraryClaim}, _claim, title="a claim of libraries"),
    ] = Field(default_factory=dict)

    def cells(self, trials: int | None) -> list[Cell]:
        """Return the sweep's cells: each family of distributions at each n, with its estimators.

        Raise ConfigError for a budget other than pure DP, or for a selection of unknown estimators.
        """
        for label, budget in self.budgets.items():
            if not isinstance(budget.value, PureDP):
                raise ConfigError(f"sweep.budgets.{label}: libraries need the kind pure_dp")
        select_labels(self.libraries.hostile.estimators, self.estimators, "sweep.libraries.hostile")
        select_labels(
            list(self.libraries.refuted) or None, self.estimators, "sweep.libraries.refuted"
        )
        return make_cells(self, trials=trials)

    def audits(self, seed: int) -> list[AuditTask]:
        """Return the audit tasks of the estimators that the configured audit cases select.

        The list is empty if no audit is configured.
        """
        settings = self.libraries.audit
        if settings is None:
            return []
        audited = {
            label: self.estimators[label]
            for key, case in settings.cases.items()
            for label in select_labels(
                case.estimators, self.estimators, f"sweep.libraries.audit.cases.{key}"
            )
        }
        sweep = AuditSweep(name=self.name, estimators=audited, budgets=self.budgets, audit=settings)
        return sweep.tasks(seed, "sweep.libraries.audit")
