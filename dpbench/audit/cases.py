"""What a sweep audits: its cases, made into tasks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from pydantic import Field

from dpbench.audit.controls import CONTROLS
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import LEAST_RUNS, AuditTask
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.registry import ConfigError, from_mapping, validated
from dpbench.runner.plan import pick, section

__all__ = ["AuditSettings", "Case", "control_tasks", "tasks"]

Labels = Annotated[list[str], Field(min_length=1)]


@validated
class Case:
    """Estimators that are audited on data of one shape.

    Parameters
    ----------
    estimators, budgets : list of str
        Labels of the sweep, or patterns; by default all. An estimator runs under the notions
        that it honours.
    n : int
        Records.
    d : int, optional
        Coordinates of vectors; by default the records are numbers.
    """

    estimators: Labels | None = None
    budgets: Labels | None = None
    n: Annotated[int, Field(ge=4)]
    d: Annotated[int, Field(ge=1)] | None = None


@validated
class AuditSettings:
    """How to audit.

    Parameters
    ----------
    cases : mapping of label to Case
    runs : int
        Releases on each dataset of a pair; ``trials=`` on the command line says another number.
    error : float
        Probability that any bound of the audit exceeds the truth. The controls have as much
        of their own.
    """

    cases: Annotated[dict[str, Any], Field(min_length=1)]
    runs: Annotated[int, Field(ge=LEAST_RUNS)] = 1000
    error: Annotated[float, Field(gt=0, lt=1)] = 1e-5


def tasks(spec: Mapping[str, Any], how: AuditSettings, seed: int) -> list[AuditTask]:
    """All that the sweep's cases ask for; the error is divided over their pairs."""
    where = "sweep.estimators"
    estimators = section(spec["estimators"], where, Estimator.build, Estimator)
    budgets = section(spec["budgets"], "sweep.budgets", Budget.build, Budget)
    found: dict[tuple[str, str], tuple[Estimator, Budget, tuple[Pair, ...]]] = {}
    for label, one in how.cases.items():
        at = f"sweep.audit.cases.{label}"
        case = from_mapping(Case, one, at)
        for name in pick(case.estimators, estimators, f"{at}.estimators"):
            estimator = estimators[name]
            for key in pick(case.budgets, budgets, f"{at}.budgets"):
                if estimator.supports(budgets[key]):
                    if (name, key) in found:
                        raise ConfigError(f"{at}: {name} under {key} is in another case, too")
                    pairs = _pairs(estimator, budgets[key], case, f"{where}.{name}")
                    found[name, key] = (estimator, budgets[key], pairs)
    for name in sorted(set(estimators) - {name for name, _ in found}):
        raise ConfigError(f"{where}.{name}: no case audits it under a notion that it honours")
    total = sum(len(pairs) for *_, pairs in found.values())
    return [
        AuditTask(name, estimator, budget, pairs, how.runs, how.error / total, seed)
        for (name, _), (estimator, budget, pairs) in found.items()
    ]


def _pairs(estimator: Estimator, budget: Budget, case: Case, where: str) -> tuple[Pair, ...]:
    shape = (case.n,) if case.d is None else (case.n, case.d)
    try:
        own = tuple(estimator.audit_pairs(case.n, case.d, budget))
        for pair in own:
            if not isinstance(pair, Pair) or pair.left.shape != shape:
                raise ValueError(f"a Pair of records of shape {shape} is wanted")
    except MemoryError:
        raise
    except Exception as error:  # whatever a plug-in raises
        told = (str(error).splitlines() or [type(error).__name__])[0]
        raise ConfigError(f"{where}: audit_pairs: {told}") from error
    return (*catalogue(case.n, case.d), *own)


def control_tasks(how: AuditSettings, seed: int) -> list[AuditTask]:
    """What is broken on purpose, with as much of the error."""
    asked = [
        (c, budget, (*catalogue(c.n, c.d), *c.audit_pairs(c.n, c.d, budget)))
        for c in CONTROLS
        for budget in c.budgets
    ]
    total = sum(len(pairs) for *_, pairs in asked)
    return [
        AuditTask(c.label, c, budget, pairs, max(how.runs, c.runs), how.error / total, seed)
        for c, budget, pairs in asked
    ]
