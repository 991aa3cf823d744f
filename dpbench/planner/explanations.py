"""Texts of a plan: the description of a distribution, and code of a release."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dpbench.estimators import Estimator
from dpbench.planner.prediction import Clip
from dpbench.privacy import Budget, PureDP

if TYPE_CHECKING:
    from dpbench.planner.ranking import Candidate

__all__ = ["describe_distribution", "format_records", "opendp_code", "release_code"]


def describe_distribution(law: Any) -> str:
    """Return the name of a distribution and its parameters that are not None."""
    values = {field.name: getattr(law, field.name) for field in fields(law)}
    parameters = ", ".join(f"{name}={value}" for name, value in values.items() if value is not None)
    return f"{type(law).__name__}({parameters})"


def format_records(n: int) -> str:
    """Return the phrase ``1 record``, or for example ``5,000 records``."""
    return f"{n:,} record{'s' * (n > 1)}"


def release_code(candidate: Candidate, budget: Budget) -> str:
    """Return Python code that releases the mean of an array `data`.

    Parameters
    ----------
    candidate : Candidate
        Estimator, with the centre and unit by which it standardises the records.
    budget : Budget
        Privacy budget of the release.

    Returns
    -------
    str
    """
    estimator: Any = candidate.estimator
    kind, values = (
        type(estimator).__name__,
        ((field, getattr(estimator, field.name)) for field in fields(estimator)),
    )
    parameters = (
        (field, value.kind_name() if isinstance(value, Estimator) else value)
        for field, value in values
    )
    arguments = ", ".join(
        f"{field.name}={value!r}" for field, value in parameters if value != field.default
    )
    amounts = ", ".join(map(repr, budget.amounts))
    neighbours = ', neighbours="add_remove"' if budget.neighbours == "add_remove" else ""
    standardise, printed = "", "value"
    if (candidate.centre, candidate.unit) != (0.0, 1.0):
        standardise = f"\ndata = (data - {candidate.centre!r}) / {candidate.unit!r}"
        printed = f"{candidate.centre!r} + {candidate.unit!r} * value"
    return f"""\
import dpbench, numpy as np
from dpbench.estimators import {kind}

mean = {kind}({arguments})
budget = dpbench.{type(budget).__name__}({amounts}{neighbours}){standardise}
value = dpbench.release(mean, data, budget, rng=np.random.default_rng())
print({printed})"""


def opendp_code(clip: Clip, n: int, budget: Budget) -> str | None:
    """Return OpenDP 0.16 code of a clipped mean with Laplace noise.

    Parameters
    ----------
    clip : pair of float
        Ends of the clip.
    n : int
        Number of records, public.
    budget : Budget
        Privacy budget of the release.

    Returns
    -------
    str or None
        None if n is private or the budget is not pure DP.
    """
    if not isinstance(budget, PureDP) or budget.neighbours != "replace":
        return None
    return f"""\
import opendp.prelude as dp

dp.enable_features("contrib")
domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size={n})
mean = (
    (domain, dp.symmetric_distance())
    >> dp.t.then_clamp(({clip[0]!r}, {clip[1]!r}))
    >> dp.t.then_mean()
)
# Replacing a record removes one and adds one: symmetric distance 2.
release = dp.binary_search_chain(
    lambda scale: mean >> dp.m.then_laplace(scale=scale), d_in=2, d_out={budget.epsilon!r}
)
print(release(list(data)))"""
