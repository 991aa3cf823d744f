"""Keys of a plan, and the problem, distribution and budget that they describe."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dpbench.distributions import Distribution, Empirical
from dpbench.errors import choose_from
from dpbench.planner.answer import ReleasePlan
from dpbench.planner.prediction import BoundedMoment, BoundedRecords, KnownDistribution, Problem
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.registry import ConfigError, Count, MomentOrder, from_mapping, validated
from dpbench.theory.exact.averages import LAWS

__all__ = ["LAW_NAMES", "Question", "answer_question", "plan"]

Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Positive = Annotated[float, Field(gt=0, le=1e300)]
BUDGETS: dict[str, type[Budget]] = {"epsilon": PureDP, "rho": ZCDP, "mu": GDP}
# Distributions of a single number whose target is their mean.
LAW_NAMES = tuple(
    name
    for name, one in sorted(Distribution.kinds().items())
    if one in LAWS and name not in ("contaminated_gaussian", "empirical", "user_means")
)


@validated
class Question:
    """Keys of a plan; `plan` documents them."""

    n: Count | None = None
    epsilon: float | None = None
    delta: float | None = None
    rho: float | None = None
    mu: float | None = None
    neighbours: Literal["replace", "add_remove"] = "replace"
    lower: Number | None = None
    upper: Number | None = None
    law: Any = None
    data: str | None = None
    column: str | None = None
    k: MomentOrder | None = None
    scale: Positive | None = None
    alpha: Positive | None = None


def _given(question: Question, *names: str) -> list[str]:
    return [name for name in names if getattr(question, name) is not None]


def _budget(question: Question) -> Budget:
    given = _given(question, *BUDGETS)
    if len(given) != 1:
        raise ConfigError(
            f"{given[1]}: {getattr(question, given[1])}: give one of epsilon, rho, mu"
            if given
            else "epsilon: this key is required, or rho (zCDP), mu (Gaussian DP), epsilon and delta"
        )
    kind, names = BUDGETS[given[0]], [*given, "neighbours"]
    if question.delta is not None:
        if given != ["epsilon"]:
            raise ConfigError(f"delta: {question.delta}: goes with epsilon, not with {given[0]}")
        kind, names = ApproxDP, [*names, "delta"]
    return from_mapping(kind, {name: getattr(question, name) for name in names}, "")


def _law(question: Question) -> Distribution | None:
    """Return the distribution given by a name, a mapping, an instance or a file; or None."""
    if question.data is not None:
        if question.column is None:
            raise ConfigError("column: this key is required with data=")
        file = {"path": question.data, "column": question.column}
        try:
            return from_mapping(Empirical, file, "data")
        except ConfigError as error:  # name the keys of the plan instead of those of Empirical
            key, _, rest = str(error).partition(":")
            named = {"data.path": "data", "data.column": "column"}.get(key, key)
            raise ConfigError(f"{named}:{rest}") from error
    law = {"kind": question.law} if isinstance(question.law, str) else question.law
    if isinstance(law, Mapping):
        plain = {name.replace("_", ""): name for name in LAW_NAMES}
        kind = plain.get(str(law.get("kind")).replace("_", ""))
        if kind is None:
            raise ConfigError(
                f"law: {law.get('kind')!r}: {choose_from(law.get('kind'), LAW_NAMES)}"
            )
        return Distribution.build({**law, "kind": kind}, "law")
    if law is not None and type(law) not in {Empirical, *map(Distribution.kinds().get, LAW_NAMES)}:
        raise ConfigError(f"law: {law}: choose from {', '.join(LAW_NAMES)}")
    assert law is None or isinstance(law, Distribution)
    return law


def _problem(question: Question, law: Distribution | None, budget: Budget) -> Problem:
    """Return the problem: public knowledge about the records."""
    given = _given(question, "law", "data", "k")
    if len(given) > 1:
        raise ConfigError(f"{given[1]}: give one of law, data and k, not {given[0]}, too")
    if question.scale is not None and question.k is None:
        raise ConfigError(f"scale: {question.scale}: goes with k; a law has law.scale")
    low, high = question.lower, question.upper
    if low is not None and high is not None and low >= high:
        raise ConfigError(f"upper: {high}: must exceed lower, {low}")
    if law is not None:
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        mean = float(law.mean)
        if not law.variance > 0:
            raise ConfigError(
                f"{given[0]}: all records are {mean:g}; a plan needs records that vary"
            )
        if not low < mean < high:
            key = "lower" if mean <= low else "upper"
            raise ConfigError(
                f"{key}: {getattr(question, key)}: the mean of {given[0]}= is {mean:.6g}; choose "
                "bounds on either side of it"
            )
        return KnownDistribution.of(law, low, high)
    if low is None or high is None:
        key = "upper" if high is None else "lower"
        raise ConfigError(f"{key}: this key is required where no law or data is given")
    if question.k is None:
        return BoundedRecords.between(low, high)
    if budget.neighbours == "add_remove":
        raise ConfigError(
            "neighbours: 'add_remove': not available with k; choose replace, or give a law"
        )
    return BoundedMoment(question.k, question.scale or 1.0, low, high)


def plan(**question: Any) -> ReleasePlan:
    """Plan a private mean.

    Parameters
    ----------
    n : int
        Number of records; with `data` the default is the number in the file.
    epsilon, rho, mu : float
        Budget, exactly one: pure DP, zCDP, Gaussian DP; epsilon with `delta`: approximate DP.
    delta : float, optional
        Second amount of (epsilon, delta)-DP.
    neighbours : {'replace', 'add_remove'}
        Neighbouring relation; default ``replace``. Under ``add_remove`` n is private.
    lower, upper : float, optional
        Public bounds, in the unit of the records: on the clip, with `law` or `data`; on the mean,
        with `k`; else on the records, whose distribution is then arbitrary.
    law : str, mapping or Distribution, optional
        Distribution of the records: ``"log_normal"``, ``{"kind": "log_normal", "sigma": 2}``;
        on the command line ``law=log_normal law.sigma=2``.
    data, column : str, optional
        File and column whose values are the distribution. A plan made from the data that are to be
        protected is not private, because the clip depends on them.
    k, scale : float, optional
        Plan for the worst distribution with E|X - mu|^k <= scale^k, mu within the bounds; the
        default of `scale` is 1, in the unit of the records.
    alpha : float, optional
        Absolute error that the release should reach; see `ReleasePlan.records` and
        `ReleasePlan.privacy`.

    Returns
    -------
    Plan

    Raises
    ------
    ConfigError
        If a key cannot be used; the message names the key and the allowed values.

    Examples
    --------
    >>> import dpbench
    >>> plan = dpbench.plan(n=5000, epsilon=1, lower=0, upper=300, law={
    ...     "kind": "log_normal", "scale": 50, "sigma": 0.7})
    >>> low, high = plan.clip
    >>> low < 50 < high <= 300
    True
    >>> plan.expected.q90 < plan.error(0, 300).q90 < 2
    True
    """
    return answer_question(from_mapping(Question, question, ""))


def answer_question(asked: Question) -> ReleasePlan:
    """Return the plan for a question; raise ConfigError if its keys contradict each other."""
    law = _law(asked)
    budget = _budget(asked)
    problem = _problem(asked, law, budget)
    n = len(law._values) if asked.n is None and isinstance(law, Empirical) else asked.n
    if n is None:
        raise ConfigError("n: this key is required: how many records there are")
    made = ReleasePlan(problem, n, budget, law, asked.alpha)
    if not np.isfinite(made.expected.q90):
        raise ConfigError(
            f"n: {n}: too few records: the noise of their private count may exceed n/2; raise n"
        )
    return made
