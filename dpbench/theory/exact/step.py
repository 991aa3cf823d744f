"""One step of an estimator, a clip and additive noise, as theory has it."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpbench.privacy import Budget
from dpbench.theory.exact.noise import Noise, additive

__all__ = [
    "EXACT", "STEPS", "At", "Step", "box", "exact_for", "quantile", "quietest", "reach",
    "step_for", "tail",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
# By kind of estimator: (metric, estimator, law, at) to a column of a summary, NaN if not known.
EXACT: dict[type[Any], Callable[[str, Any, Any, At], float]] = {}
# By kind of estimator: (estimator, at) to its clip with noise, None if it is none.
STEPS: dict[type[Any], Callable[[Any, At], Step | None]] = {}


def exact_for(*kinds: type[Any]) -> Callable[[F], F]:
    """Register a function as what computes the exact values of these kinds of estimators."""
    return _entered(EXACT, kinds)


def step_for(*kinds: type[Any]) -> Callable[[F], F]:
    """Register a function as what finds the last step of these, from which exact values follow."""
    return _entered(STEPS, kinds)


def _entered(registry: dict[type[Any], Any], kinds: tuple[type[Any], ...]) -> Callable[[F], F]:
    def enter(function: F) -> F:
        assert not registry.keys() & set(kinds)
        registry.update(dict.fromkeys(kinds, function))
        return function

    return enter


class At(NamedTuple):
    """Where an estimator runs: records, their coordinates, and the budget."""

    n: int
    d: int
    budget: Budget


class Step(NamedTuple):
    """Records clipped to a centre (None: where they are) +- half_width, averaged, with noise.

    Attributes
    ----------
    noise : Noise
        Of every coordinate.
    half_width : float
        Of an interval for each coordinate, or the radius of a ball.
    centre : float or None
        Public, or None for one that an earlier step finds.
    records : float
        How many are averaged.
    """

    noise: Noise
    half_width: float = np.inf
    centre: float | None = None
    records: float = np.inf


def quantile(budget: Budget, beta: float) -> float:
    """The 1 - beta quantile of |noise| at sensitivity 1."""
    return additive(budget, 1.0, 1.0).above(beta / 2)


def box(
    at: At, half_width: float, centre: float | None = None, *, share: float = 1.0, rows: float = 0
) -> Step:
    """Every coordinate of n records, or `rows`, is clipped, at a share of the budget.

    One record moves the mean by at most 2 half_width/n in all coordinates.
    """
    records = rows or at.n
    step = 2 * half_width / records
    noise = additive(at.budget.fraction(share), at.d * step, float(np.sqrt(at.d)) * step)
    return Step(noise, half_width, centre, records)


@cache
def quietest(k: float, radius: float, beta: float, noise: Noise) -> float:
    """The T where the 1 - beta quantile of |b(T) + (R + T) noise| is least.

    b(T) = ((k-1)/k)^k T^-(k-1)/(k-1), and the quantile is a root of the noise's distribution.
    """
    from scipy.optimize import brentq, minimize_scalar  # a slow import

    def error(log_t: float) -> float:
        t = float(np.exp(log_t))
        fall = float(np.exp(min(-(k - 1) * log_t, 600.0)))  # of t, where it is far too small
        bias = (1 - 1 / k) ** k / (k - 1) * fall / (radius + t)

        def missing(x: float) -> float:
            return (
                float(noise.cdf(np.asarray(x - bias)) - noise.cdf(np.asarray(-x - bias))) - within
            )

        return (radius + t) * float(brentq(missing, 0.0, most := 2 * (bias + q), xtol=1e-13 * most))

    within, q = 1 - beta, noise.above(beta / 2)
    alone = float(np.log(1 - 1 / k) - np.log(q) / k)  # where b(T) + q T is least
    ends = alone - 1 - float(np.log1p(radius * np.exp(-alone))), alone + 1
    least = minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(least.x))


def reach(e: Any) -> float:
    """R, how far the mean may be; without one it may be anywhere."""
    radius = getattr(e, "radius", None)
    return np.inf if radius is None else float(radius)


def tail(e: Any, n: int) -> float:
    """L15's t: n Gaussians are within it with probability 1 - beta, by a union bound."""
    return float(e.sigma * np.sqrt(2 * np.log(2 * n / e.beta)))
