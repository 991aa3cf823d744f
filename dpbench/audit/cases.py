"""Configuration of an audit, and the tasks that it consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, field_validator

from dpbench.audit.controls import CONTROLS, Control
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import LEAST_RUNS
from dpbench.audit.task import AuditTask
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.registry import ConfigError, Label, keyed, named, validated
from dpbench.sweep.entries import Budgets, Estimators
from dpbench.sweep.selection import Selection, select_labels

__all__ = ["AuditSettings", "AuditSweep", "Case", "control_tasks", "pairs_of"]


@validated
class Case(Selection):
    """Estimators that are audited on datasets of one shape.

    Parameters
    ----------
    estimators, budgets : optional
        Selected labels, see `Selection`; all by default. An estimator is audited under the
        selected budgets that it supports.
    n : int
        Number of records.
    d : int, optional
        Dimension of the records; scalars by default.
    """

    n: Annotated[int, Field(ge=2, le=100_000)]
    d: Annotated[int, Field(ge=1, le=1000)] | None = None

    @field_validator("families", mode="before")
    @classmethod
    def _no_families(cls, families: None) -> None:
        if families is not None:
            raise ValueError("an audit uses pairs of datasets, not families; remove this key")


@validated
class AuditSettings:
    """Settings of an audit.

    Parameters
    ----------
    cases : mapping of label to Case
        Estimators to audit, grouped by the shape of the data.
    runs : int
        Releases on each dataset of a pair, 10,000 by default; ``trials=`` on the command line
        overrides it.
    error : float
        Probability that any bound of the audit exceeds the true parameter. The controls that runs
        must refute share a second error of this size, and controls for replays alone a third.
    """

    cases: Annotated[dict[str, Case], named(Case, least=1, title="a case of an audit")]
    runs: Annotated[int, Field(ge=LEAST_RUNS, le=10_000_000)] = 10_000
    error: Annotated[float, Field(gt=0, lt=1)] = 1e-5


@validated
class AuditSweep:
    """Sweep that audits estimators.

    Parameters
    ----------
    name : str
        Name of the run's folder.
    estimators, budgets : mapping
        Estimators and budgets by label, as in a `dpbench.sweep.plan.Sweep`.
    audit : AuditSettings
        Cases, runs and error.
    """

    name: Label
    estimators: Estimators
    budgets: Budgets
    audit: Annotated[AuditSettings, keyed(AuditSettings, "an audit (a sweep with the key audit)")]

    def tasks(self, seed: int, where: str = "sweep.audit") -> list[AuditTask]:
        """Return the tasks of all cases; they share the error equally.

        Parameters
        ----------
        seed : int
            Seed of the audit.
        where : str
            Key of the audit in error messages.

        Returns
        -------
        list of AuditTask

        Raises
        ------
        ConfigError
            If an estimator is in no case, or in two under one budget.
        """
        found: dict[tuple[str, str], tuple[Estimator, Budget, tuple[Pair, ...]]] = {}
        made = {
            label: Estimator.build(one.value, f"sweep.estimators.{one.name}")
            for label, one in self.estimators.items()
        }
        for key, case in self.audit.cases.items():
            at = f"{where}.cases.{key}"
            budgets = select_labels(case.budgets, self.budgets, f"{at}.budgets")
            for name in select_labels(case.estimators, self.estimators, f"{at}.estimators"):
                for label in budgets:
                    budget = self.budgets[label].value
                    if made[name].supports(budget):
                        if (name, label) in found:
                            raise ConfigError(f"{at}: {name} under {label} is in another case, too")
                        own = f"sweep.estimators.{name}"
                        pairs = pairs_of(made[name], budget, case.n, case.d, own)
                        found[name, label] = (made[name], budget, pairs)
        for name in sorted(set(made) - {name for name, _ in found}):
            raise ConfigError(
                f"sweep.estimators.{name}: no case audits it under a notion that it honours"
            )
        return _tasks([(name, *what) for (name, _), what in found.items()], self.audit, seed)


def pairs_of(
    estimator: Estimator, budget: Budget, n: int, d: int | None, where: str
) -> tuple[Pair, ...]:
    """Return the pairs of the catalogue and the estimator's own.

    Parameters
    ----------
    estimator : Estimator
        Estimator to audit.
    budget : Budget
        Claimed budget; its neighbouring relation selects the kind of pairs.
    n : int
        Number of records.
    d : int or None
        Dimension of the records; None for scalars.
    where : str
        Key of the estimator in error messages.

    Returns
    -------
    tuple of Pair

    Raises
    ------
    ConfigError
        If `Estimator.audit_pairs` raises, or returns a pair of another shape.
    """
    shape = (n,) if d is None else (n, d)
    try:
        own = tuple(estimator.audit_pairs(n, d, budget))
        for pair in own:
            if not isinstance(pair, Pair) or pair.left.shape != shape:
                raise ValueError(f"expected a Pair of datasets of shape {shape}")
    except MemoryError:
        raise
    except Exception as error:  # a plug-in may raise anything
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{where}: audit_pairs: {told}") from error
    return _under(budget, *catalogue(n, d), *own)


def _under(budget: Budget, *pairs: Pair) -> tuple[Pair, ...]:
    return tuple(one for pair in pairs for one in pair.convert(budget.neighbours))


def control_tasks(how: AuditSettings, seed: int) -> list[AuditTask]:
    """Return the tasks of all controls.

    Controls that only a replay must refute have a separate error, so that their number does not
    change the bounds of the other controls.

    Parameters
    ----------
    how : AuditSettings
        Settings that give the runs and the error.
    seed : int
        Seed of the audit.

    Returns
    -------
    list of AuditTask
    """
    tasks = []
    for by_runs in (True, False):
        asked = [
            (c, budget)
            for c in CONTROLS
            if ("runs" in c.seen_by) == by_runs
            for budget in c.budgets
        ]
        found = _tasks([(c.label, c, one, _pairs_of(c, one)) for c, one in asked], how, seed)
        both = zip(found, asked, strict=True)
        tasks += [replace(task, seen_by=control.seen_by) for task, (control, _) in both]
    return tasks


def _pairs_of(control: Control, budget: Budget) -> tuple[Pair, ...]:
    n, d = control.n, control.d
    return _under(budget, *catalogue(n, d), *control.audit_pairs(n, d, budget))


def _tasks(
    asked: Sequence[tuple[str, Estimator, Budget, tuple[Pair, ...]]], how: AuditSettings, seed: int
) -> list[AuditTask]:
    """Return one task for each entry of `asked`; they share the error equally."""
    return [AuditTask(*about, how.runs, how.error / len(asked), seed) for about in asked]
