"""Entry point of the planner: `plan` and the keys that describe a private mean to plan.

The keys are checked and translated into a problem, a distribution and a budget.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field

from dpbench.distributions import Distribution, Empirical
from dpbench.errors import choose_from, describe_value
from dpbench.planner.page import ReleasePlan
from dpbench.planner.prediction import BoundedMoment, BoundedRecords, KnownDistribution, Problem
from dpbench.planner.variance import BoundedVariance, KnownVariance
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.registry import ConfigError, Count, MomentOrder, from_mapping, validated
from dpbench.theory.exact.averages import ATOM_FUNCTIONS

__all__ = [
    "LAW_NAMES",
    "Question",
    "answer_question",
    "build_budget",
    "build_law",
    "build_problem",
    "plan",
]

Number = Annotated[float, Field(ge=-1e300, le=1e300)]
Positive = Annotated[float, Field(gt=0, le=1e300)]
BUDGETS: dict[str, type[Budget]] = {"epsilon": PureDP, "rho": ZCDP, "mu": GDP}
# A target that is not the mean; a file; and laws of people and of their numbers of records.
NO_PLANNED_LAWS = (
    "contaminated_gaussian", "empirical", "user_level_data", "bounded_zipf",
    "zero_truncated_poisson",
)  # fmt: skip
# Distributions of a single number whose target is their mean.
LAW_NAMES = tuple(
    name
    for name, kind in sorted(Distribution.kinds().items())
    if kind in ATOM_FUNCTIONS and name not in NO_PLANNED_LAWS
)


@validated
class Question:
    """Description of a private mean to plan: the arguments of `plan`, before they are checked."""

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
    target: Literal["mean", "variance"] = "mean"


def _list_given_keys(question: Question, *names: str) -> list[str]:
    return [name for name in names if getattr(question, name) is not None]


def build_budget(question: Question) -> Budget:
    """Return the privacy budget that a question gives.

    If the question gives no budget, several, or one that cannot be used, a ConfigError is raised.
    """
    given_keys = _list_given_keys(question, *BUDGETS)
    if len(given_keys) != 1:
        raise ConfigError(
            f"{given_keys[1]}: {getattr(question, given_keys[1])}: give one of epsilon, rho, mu"
            if given_keys
            else "epsilon: this key is required, or rho (zCDP), mu (Gaussian DP), epsilon and delta"
        )
    kind, keys = BUDGETS[given_keys[0]], [*given_keys, "neighbours"]
    if question.delta is not None:
        if given_keys != ["epsilon"]:
            raise ConfigError(
                f"delta: {question.delta}: goes with epsilon, not with {given_keys[0]}"
            )
        kind, keys = ApproxDP, [*keys, "delta"]
    return from_mapping(kind, {name: getattr(question, name) for name in keys}, "")


def build_law(question: Question) -> Distribution | None:
    """Return the distribution of the records that the user gave; None if there is none.

    The key `law` gives it as a name, a mapping or an object. The keys `data` and `column` give a
    file and the column whose values are the distribution. If a key cannot be used, a ConfigError is
    raised.
    """
    if question.column is not None and question.data is None:
        raise ConfigError(f"column: {question.column!r}: goes with data; give the file, too")
    if question.data is not None:
        if question.column is None:
            raise ConfigError("column: this key is required with data=")
        file = {"path": question.data, "column": question.column}
        try:
            return from_mapping(Empirical, file, "data")
        except ConfigError as error:  # name the keys of the plan instead of those of Empirical
            key, _, rest = str(error).partition(":")
            key_of_plan = {"data.path": "data", "data.column": "column"}.get(key, key)
            raise ConfigError(f"{key_of_plan}:{rest}") from error
    law = {"kind": question.law} if isinstance(question.law, str) else question.law
    if isinstance(law, Mapping):
        names = {name.replace("_", ""): name for name in LAW_NAMES}
        kind = names.get(str(law.get("kind")).replace("_", ""))
        if kind is None:
            raise ConfigError(
                f"law: {law.get('kind')!r}: {choose_from(law.get('kind'), LAW_NAMES)}"
            )
        return Distribution.build({**law, "kind": kind}, "law")
    if law is not None and type(law) not in {Empirical, *map(Distribution.kinds().get, LAW_NAMES)}:
        raise ConfigError(f"law: {describe_value(law)}: choose from {', '.join(LAW_NAMES)}")
    assert law is None or isinstance(law, Distribution)
    return law


def build_problem(question: Question, law: Distribution | None, budget: Budget) -> Problem:
    """Return the public knowledge about the records, built from the keys of a question.

    A question holds the arguments of `plan`.
    """
    given_keys = _list_given_keys(question, "law", "data", "k")
    if len(given_keys) > 1:
        raise ConfigError(f"{given_keys[1]}: give one of law, data and k, not {given_keys[0]}, too")
    if question.scale is not None and question.k is None:
        raise ConfigError(f"scale: {question.scale}: goes with k; a law has law.scale")
    low, high = question.lower, question.upper
    if low is not None and high is not None and low >= high:
        raise ConfigError(f"upper: {high}: must exceed lower, {low}")
    if question.target == "variance":
        return _build_variance_problem(question, law)
    if law is not None:
        low, high = -np.inf if low is None else low, np.inf if high is None else high
        mean = float(law.mean)
        if not law.variance > 0:
            raise ConfigError(
                f"{given_keys[0]}: all records are {mean:g}; a plan needs records that vary"
            )
        if not low < mean < high:
            key = "lower" if mean <= low else "upper"
            raise ConfigError(
                f"{key}: {getattr(question, key)}: the mean of {given_keys[0]}= is {mean:.6g}; "
                "choose bounds on either side of it"
            )
        return KnownDistribution.discretise(law, low, high)
    if low is None or high is None:
        key = "upper" if high is None else "lower"
        raise ConfigError(f"{key}: this key is required where no law or data is given")
    if question.k is None:
        return BoundedRecords.between(low, high)
    if budget.neighbours == "add_remove":
        raise ConfigError(
            "neighbours: 'add_remove': not available with k; choose replace, or give a law"
        )
    if question.scale is None:
        raise ConfigError(
            f"scale: this key is required with k: E|X - mu|^{question.k:g} is at most "
            f"scale^{question.k:g}, in the unit of the records; state it from public knowledge"
        )
    return BoundedMoment(question.k, question.scale, low, high)


def _build_variance_problem(question: Question, law: Distribution | None) -> Problem:
    """Return the public knowledge about records whose variance is the target."""
    if question.k is not None:
        raise ConfigError(f"k: {question.k:g}: not available with target=variance; give a law")
    for key in ("upper", "lower"):
        if getattr(question, key) is None:
            raise ConfigError(f"{key}: this key is required with target=variance: records' bounds")
    low, high = float(question.lower or 0.0), float(question.upper or 0.0)
    if question.n == 1:
        raise ConfigError("n: 1: one record has no variance; give two or more")
    if not max(abs(low), abs(high)) * 1e-6 <= high - low <= 1e100 or high - low < 1e-100:
        raise ConfigError(
            f"upper: {high:g}: a variance needs a width of 1e-100 to 1e100, and of a millionth of "
            "the bounds; move the records, or change their unit"
        )
    if law is None:
        return BoundedVariance.between(low, high)
    if not 0 < law.variance < np.inf:
        raise ConfigError(
            f"{'law' if question.data is None else 'data'}: the variance is {law.variance:g}; a "
            "plan needs a finite one above 0"
        )
    known = KnownVariance.discretise(law, low, high)
    if not low < known.values[-1] or not known.values[0] < high:
        raise ConfigError(f"upper: {high:g}: no record lies between {low:g} and this bound")
    return known


def plan(**question: Any) -> ReleasePlan:
    """Plan a private mean or variance: choose its clip, predict its error, and rank estimators.

    Parameters
    ----------
    target : {'mean', 'variance'}
        What is released; default ``mean``. A variance needs `lower` and `upper`, and its errors are
        in the squared unit of the records.
    n : int
        Number of records; with `data` the default is the number in the file.
    epsilon, rho, mu : float
        Budget under pure DP, zCDP or Gaussian DP; exactly one is required. With `delta`, epsilon is
        the budget under approximate DP.
    delta : float, optional
        Second amount of (epsilon, delta)-DP.
    neighbours : {'replace', 'add_remove'}
        Neighbouring relation; default ``replace``. Under ``add_remove`` n is private.
    lower, upper : float, optional
        Public bounds, in the unit of the records. With `law` or `data` they bound the clip, with
        `k` the mean. Otherwise they bound the records, whose distribution is then arbitrary.
    law : str, mapping or Distribution, optional
        Distribution of the records: ``"log_normal"``, ``{"kind": "log_normal", "sigma": 2}``;
        on the command line ``law=log_normal law.sigma=2``.
    data, column : str, optional
        File and column whose values are the distribution. A plan that is made from the data to be
        protected is not private, because its clip depends on them.
    k, scale : float, optional
        Plan for the worst distribution with E|X - mu|^k <= scale^k and mean mu within the bounds.
        `scale` is in the unit of the records, and is required with `k`.
    alpha : float, optional
        Absolute error that the release should reach; see `ReleasePlan.records` and
        `ReleasePlan.privacy`.

    Returns
    -------
    ReleasePlan

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


def answer_question(question: Question) -> ReleasePlan:
    """Return the plan for a question, which holds the arguments of `plan`.

    If arguments are missing, contradict each other or cannot be used, a ConfigError is raised.
    """
    law = build_law(question)
    budget = build_budget(question)
    problem = build_problem(question, law, budget)
    n = len(law._values) if question.n is None and isinstance(law, Empirical) else question.n
    if n is None:
        raise ConfigError("n: this key is required: how many records there are")
    release_plan = ReleasePlan(problem, n, budget, law, question.alpha)
    if not np.isfinite(release_plan.expected.q90):
        raise ConfigError(
            f"n: {n}: too few records: the noise of their private count may exceed n/2; raise n"
        )
    return release_plan
