"""Texts of a plan: descriptions of a distribution and an estimator, and code of a release."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbench.distributions import Distribution, Empirical
from dpbench.distributions.empirical import SHIPPED
from dpbench.estimators import Estimator
from dpbench.planner.prediction import Clip
from dpbench.privacy import Budget, PureDP

if TYPE_CHECKING:
    from dpbench.planner.ranking import Candidate

__all__ = [
    "data_code", "describe_object", "format_records", "opendp_code", "release_code",
]  # fmt: skip

MAX_PLACEHOLDER_RECORDS = 1_000_000  # 8 MB


def describe_object(described: Any) -> str:
    """Return the class of a distribution or estimator, and its parameters that are not None.

    A named option, such as a mechanism, is left out at its default.
    """
    values = {
        field.name: value
        for field in fields(described)
        if (value := getattr(described, field.name)) is not None
        and not (isinstance(value, str) and value == field.default)
    }
    parameters = ", ".join(f"{name}={value}" for name, value in values.items())
    return f"{type(described).__name__}({parameters})"


def data_code(n: int, clip: Clip, law: Distribution | None = None, *, binary: bool = False) -> str:
    """Return Python code that defines the array `data`.

    If the distribution `law` is a data file, the code reads the file. Otherwise `data` is a random
    placeholder of at most a million records in the range `clip`, or of records 0 and 1 if `binary`.
    """
    if isinstance(law, Empirical) and law.column is not None:
        path = law.path if Path(law.path).exists() else str(SHIPPED / law.path)
        read = "read_parquet" if path.lower().endswith(".parquet") else "read_csv"
        return f"data = pd.{read}({path!r})[{law.column!r}].to_numpy(float)"
    drawn = min(n, MAX_PLACEHOLDER_RECORDS)
    ends = ", ".join(repr(float(end)) for end in clip)
    draw = f"integers(2, size={drawn})" if binary else f"uniform({ends}, {drawn})"
    return f"""\
# A placeholder for your {format_records(n)}. To load them, write for example
# data = pd.read_csv("my.csv")["column"].to_numpy(float)
data = np.random.default_rng(0).{draw}"""


def format_records(n: int) -> str:
    """Return the phrase ``1 record``, or for example ``5,000 records``."""
    return f"{n:,} record{'s' * (n > 1)}"


def release_code(candidate: Candidate, budget: Budget, data: str) -> str:
    """Return Python code that releases the target of an array, which the code `data` defines."""
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
import dpbench, numpy as np, pandas as pd
from dpbench.estimators import {kind}

{data}
{estimator.estimand} = {kind}({arguments})
budget = dpbench.{type(budget).__name__}({amounts}{neighbours}){standardise}
value = dpbench.release({estimator.estimand}, data, budget, rng=np.random.default_rng())
print({printed})"""


def opendp_code(clip: Clip, n: int, budget: Budget, data: str) -> str | None:
    """Return OpenDP 0.16 code of a clipped mean with Laplace noise.

    The code `data` defines the records, and their number is public. The result is None if the
    number is private or the budget is not pure DP.
    """
    if not isinstance(budget, PureDP) or budget.neighbours != "replace":
        return None
    return f"""\
import numpy as np, opendp.prelude as dp, pandas as pd

{data}
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
