"""Texts of a plan: description of the distribution, and code of the release."""

from __future__ import annotations

from dataclasses import fields
from typing import TYPE_CHECKING, Any

from dpbench.estimators import Estimator
from dpbench.planner.prediction import Clip
from dpbench.privacy import Budget, PureDP

if TYPE_CHECKING:
    from dpbench.planner.ranking import Candidate

__all__ = ["described", "opendp_code", "records", "release_code"]


def described(law: Any) -> str:
    """Return the name of a distribution and its parameters that are not None."""
    given = {field.name: getattr(law, field.name) for field in fields(law)}
    named = ", ".join(f"{name}={one}" for name, one in given.items() if one is not None)
    return f"{type(law).__name__}({named})"


def records(n: int) -> str:
    """Return `n` and the noun, as ``1 record`` or ``5,000 records``."""
    return f"{n:,} record{'s' * (n > 1)}"


def release_code(one: Candidate, budget: Budget) -> str:
    """Return Python code that releases the mean of an array `data`.

    Parameters
    ----------
    one : Candidate
        Estimator, with the centre and unit by which it standardises the records.
    budget : Budget
        Privacy budget of the release.

    Returns
    -------
    str
    """
    made: Any = one.estimator
    kind, given = (
        type(made).__name__,
        ((field, getattr(made, field.name)) for field in fields(made)),
    )
    named = ((f, one.kind_name() if isinstance(one, Estimator) else one) for f, one in given)
    words = ", ".join(f"{field.name}={value!r}" for field, value in named if value != field.default)
    amounts = ", ".join(map(repr, budget.amounts))
    more = ', neighbours="add_remove"' if budget.neighbours == "add_remove" else ""
    scaled, found = "", "value"
    if (one.centre, one.unit) != (0.0, 1.0):
        scaled = f"\ndata = (data - {one.centre!r}) / {one.unit!r}"
        found = f"{one.centre!r} + {one.unit!r} * value"
    return f"""\
import dpbench, numpy as np
from dpbench.estimators import {kind}

mean = {kind}({words})
budget = dpbench.{type(budget).__name__}({amounts}{more}){scaled}
value = dpbench.release(mean, data, budget, rng=np.random.default_rng())
print({found})"""


def opendp_code(clip: Clip, n: int, budget: Budget) -> str | None:
    """Return OpenDP 0.16 code of a clipped mean; None unless n is public and noise is Laplace.

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
