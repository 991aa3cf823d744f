"""The lower bound of the class that a law stands for: the largest of those that are known.

The class of a law is what estimators of it are told: Bernoulli laws, normal laws of that scale
wherever they are, laws with E|X - mean|^k at most 1. Every estimator errs by the bound with
probability at least 0.1 under some law of the class; under this one it may err by less.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from dpbench import distributions as dist
from dpbench.privacy import Budget
from dpbench.theory.lower_bounds import (
    BETA,
    bernoulli_lower_bound,
    fair_lower_bound,
    gaussian_lower_bound,
    sampling_lower_bound,
    two_point_lower_bound,
)

__all__ = ["Bound", "class_bound", "heavy_tailed", "largest"]

NAN = float("nan")


class Bound(NamedTuple):
    """A lower bound on the error's 0.9 quantile, and what it is `by`; NaN and '' if not known."""

    value: float = NAN
    by: str = ""


def largest(**values: float) -> Bound:
    """The largest of bounds by name, of those that are known."""
    known = [Bound(value, by.replace("_", " ")) for by, value in values.items() if value > 0]
    return max(known, default=Bound())


def heavy_tailed(n: int, k: float, budget: Budget, *, sampling: bool = True) -> Bound:
    """Of laws with E|X - mean|^k at most 1; without sampling, of those with a rare point."""
    return largest(
        two_laws=two_point_lower_bound(n, k, budget).alpha,
        sampling=sampling_lower_bound(n, k) if sampling else NAN,
    )


def _bernoulli(_: dist.Bernoulli, n: int, budget: Budget) -> Bound:
    return largest(two_laws=bernoulli_lower_bound(n, budget), sampling=fair_lower_bound(n))


def _gaussian(law: dist.Gaussian, n: int, budget: Budget) -> Bound:
    return largest(
        two_laws=law._scale * gaussian_lower_bound(n, budget),
        sampling=law._scale * float(-ndtri(BETA / 2)) / np.sqrt(n),
    )


_CLASSES: dict[type[dist.Distribution], Callable[[Any, int, Budget], Bound]] = {
    dist.Bernoulli: _bernoulli,
    dist.Gaussian: _gaussian,
}


def class_bound(law: dist.Distribution, n: int, budget: Budget) -> Bound:
    """The bound of the class of one law, and nothing if the class or a bound is not known."""
    if type(law) in _CLASSES:
        return _CLASSES[type(law)](law, n, budget)
    k = getattr(law, "unit_moment", None)
    return Bound() if k is None or law.d > 1 else heavy_tailed(n, k, budget)
