"""Configuration of an audit, and the tasks that it consists of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Annotated

from pydantic import Field, field_validator

from dpbench.audit.controls import CONTROLS, Control
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import MIN_AUDIT_RUNS
from dpbench.audit.task import AuditTask
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.registry import ConfigError, labelled_entries, nested_entry, validated
from dpbench.sweep.entries import Budgets, Estimators
from dpbench.sweep.plan import Described
from dpbench.sweep.selection import Selection, select_labels

__all__ = ["AuditCase", "AuditSettings", "AuditSweep", "control_tasks", "list_pairs"]


@validated
class AuditCase(Selection):
    """Estimators that are audited on datasets of one shape.

    Parameters
    ----------
    estimators, budgets : optional
        Labels of the estimators and budgets in this case, see `Selection`; all by default. An
        estimator is audited under the selected budgets that it supports.
    n : int
        Number of records, from 2 to 100,000.
    d : int, optional
        Dimension of the records, at most 1000; scalars by default.
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
    cases : mapping of label to AuditCase
        Estimators to audit, grouped by the shape of the data.
    runs : int
        Average number of releases on each dataset of a neighbouring pair, 10,000 by default.
        ``trials=`` on the command line overrides it.
    failure_probability : float
        Probability that any bound of the audit exceeds the true parameter; 1e-5 by default. The
        audited estimators share this probability equally. Controls (estimators broken on purpose)
        have probabilities of their own. The controls that runs must refute share a second
        probability of the same size. The controls that only replays must refute share a third
        probability of this size.
    """

    cases: Annotated[
        dict[str, AuditCase], labelled_entries(AuditCase, least=1, title="a case of an audit")
    ]
    runs: Annotated[int, Field(ge=MIN_AUDIT_RUNS, le=10_000_000)] = 10_000
    failure_probability: Annotated[float, Field(gt=0, lt=1)] = 1e-5


@validated
class AuditSweep(Described):
    """Configuration of a sweep that audits the privacy claims of estimators.

    Parameters
    ----------
    estimators, budgets : mapping
        Estimators and budgets by label, as in a `dpbench.sweep.plan.Sweep`.
    audit : AuditSettings
        Settings of the audit: cases, number of runs, and error probability.
    """

    estimators: Estimators
    budgets: Budgets
    audit: Annotated[
        AuditSettings, nested_entry(AuditSettings, "an audit (a sweep with the key audit)")
    ]

    def tasks(self, seed: int, where: str = "sweep.audit") -> list[AuditTask]:
        """Return one audit task for each estimator and budget of all cases.

        The tasks share the error probability of the audit equally. A ConfigError, which names the
        key `where`, says that no case audits an estimator under a budget that it supports, or that
        two cases audit it under one budget.
        """
        audits: dict[tuple[str, str], tuple[Estimator, Budget, tuple[Pair, ...]]] = {}
        estimators = {
            label: Estimator.build(entry.value, f"sweep.estimators.{entry.name}")
            for label, entry in self.estimators.items()
        }
        for key, case in self.audit.cases.items():
            case_key = f"{where}.cases.{key}"
            budgets = select_labels(case.budgets, self.budgets, f"{case_key}.budgets")
            for name in select_labels(case.estimators, self.estimators, f"{case_key}.estimators"):
                for label in budgets:
                    budget = self.budgets[label].value
                    if estimators[name].supports(budget):
                        if (name, label) in audits:
                            raise ConfigError(
                                f"{case_key}: {name} under {label} is in another case, too"
                            )
                        estimator_key = f"sweep.estimators.{name}"
                        pairs = list_pairs(estimators[name], budget, case.n, case.d, estimator_key)
                        audits[name, label] = (estimators[name], budget, pairs)
        for name in sorted(set(estimators) - {name for name, _ in audits}):
            raise ConfigError(
                f"sweep.estimators.{name}: no case audits it under a notion that it honours"
            )
        return _make_tasks(
            [(name, *arguments) for (name, _), arguments in audits.items()], self.audit, seed
        )


def list_pairs(
    estimator: Estimator, budget: Budget, n: int, d: int | None, where: str
) -> tuple[Pair, ...]:
    """Return the pairs of neighbouring datasets on which an estimator may be audited.

    They are the pairs of `dpbench.audit.pairs.catalogue` and the estimator's own pairs
    (`Estimator.audit_pairs`). All are converted to the neighbouring relation of the budget. Without
    `d` the records are numbers. A ConfigError, which names the key `where`, says that
    `Estimator.audit_pairs` raises, or that it returns a pair of another shape.
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
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{where}: audit_pairs: {reason}") from error
    pairs = _convert_pairs(budget, *catalogue(n, d), *own)
    return tuple(pair.keep_first(estimator.first_private) for pair in pairs)


def _convert_pairs(budget: Budget, *pairs: Pair) -> tuple[Pair, ...]:
    return tuple(converted for pair in pairs for converted in pair.convert(budget.neighbours))


def control_tasks(settings: AuditSettings, seed: int) -> list[AuditTask]:
    """Return the audit tasks of all controls, the estimators that are broken on purpose.

    Controls that only a replay must refute share a separate error probability. Their number
    therefore does not change the bounds of the other controls.
    """
    tasks = []
    for by_runs in (True, False):
        combinations = [
            (c, budget)
            for c in CONTROLS
            if ("runs" in c.seen_by) == by_runs
            for budget in c.budgets
        ]
        new_tasks = _make_tasks(
            [(c.label, c, budget, _list_control_pairs(c, budget)) for c, budget in combinations],
            settings,
            seed,
        )
        controlled = zip(new_tasks, combinations, strict=True)
        tasks += [replace(task, seen_by=control.seen_by) for task, (control, _) in controlled]
    return tasks


def _list_control_pairs(control: Control, budget: Budget) -> tuple[Pair, ...]:
    n, d = control.n, control.d
    return _convert_pairs(budget, *catalogue(n, d), *control.audit_pairs(n, d, budget))


def _make_tasks(
    audits: Sequence[tuple[str, Estimator, Budget, tuple[Pair, ...]]],
    settings: AuditSettings,
    seed: int,
) -> list[AuditTask]:
    """Return one audit task for each element of `audits`.

    An element is a tuple (label, estimator, budget, pairs of datasets).

    The tasks share the error probability of the settings equally.
    """
    return [
        AuditTask(*arguments, settings.runs, settings.failure_probability / len(audits), seed)
        for arguments in audits
    ]
