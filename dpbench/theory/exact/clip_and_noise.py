"""Registries of exact values, and the model of an estimator's last step."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpbench.privacy import Budget
from dpbench.theory.exact.noise import Noise, additive

__all__ = [
    "EXACT",
    "STEPS",
    "ClipAndNoise",
    "ReleaseSetting",
    "best_clip_threshold",
    "box",
    "exact_for",
    "gaussian_tail",
    "mean_bound",
    "quantile",
    "step_for",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
# Functions by kind of estimator: (metric, estimator, law, at) to a summary column, NaN if unknown.
EXACT: dict[type[Any], Callable[[str, Any, Any, ReleaseSetting], float]] = {}
# Functions by kind of estimator: (estimator, at) to its clip with noise, or None.
STEPS: dict[type[Any], Callable[[Any, ReleaseSetting], ClipAndNoise | None]] = {}


def exact_for(*kinds: type[Any]) -> Callable[[F], F]:
    """Return a decorator that registers the exact values of these kinds of estimators."""
    return _entered(EXACT, kinds)


def step_for(*kinds: type[Any]) -> Callable[[F], F]:
    """Return a decorator that registers the last step of these kinds of estimators."""
    return _entered(STEPS, kinds)


def _entered(registry: dict[type[Any], Any], kinds: tuple[type[Any], ...]) -> Callable[[F], F]:
    """Return a decorator that enters a function in a registry."""

    def enter(function: F) -> F:
        assert not registry.keys() & set(kinds)
        registry.update(dict.fromkeys(kinds, function))
        return function

    return enter


class ReleaseSetting(NamedTuple):
    """Conditions of a run.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of their coordinates.
    budget : Budget
        Privacy guarantee.
    """

    n: int
    d: int
    budget: Budget


class ClipAndNoise(NamedTuple):
    """Average of clipped records with additive noise.

    Parameters
    ----------
    noise : Noise
        Noise of each coordinate.
    half_width : float
        Half the width of the interval of each coordinate, or the radius of a ball.
    centre : float or None
        Public centre of the clip, or None if an earlier step finds it.
    records : float
        Number of records that are averaged.
    """

    noise: Noise
    half_width: float = np.inf
    centre: float | None = None
    records: float = np.inf


def quantile(budget: Budget, beta: float) -> float:
    """Return the 1 - beta quantile of |noise| at sensitivity 1.

    Parameters
    ----------
    budget : Budget
        Privacy guarantee.
    beta : float
        Tail probability.

    Returns
    -------
    float
        Quantile.
    """
    return additive(budget, 1.0, 1.0).above(beta / 2)


def box(
    at: ReleaseSetting,
    half_width: float,
    centre: float | None = None,
    *,
    share: float = 1.0,
    rows: float = 0,
) -> ClipAndNoise:
    """Return the step that clips every coordinate to an interval.

    A record moves the mean by at most 2 half_width/n in each coordinate.

    Parameters
    ----------
    at : At
        Records, dimension and budget.
    half_width : float
        Half the width of the interval.
    centre : float, optional
        Public centre; None if an earlier step finds it.
    share : float, default 1.0
        Share of the budget.
    rows : float, default 0
        Number of averaged records; 0 for all n.

    Returns
    -------
    Step
        The step with its noise.
    """
    records = rows or at.n
    step = 2 * half_width / records
    noise = additive(at.budget.fraction(share), at.d * step, float(np.sqrt(at.d)) * step)
    return ClipAndNoise(noise, half_width, centre, records)


@cache
def best_clip_threshold(k: float, radius: float, beta: float, noise: Noise) -> float:
    """Return the T at which the 1 - beta quantile of |b(T) + (R + T) Z| is smallest.

    b(T) = ((k-1)/k)^k T^-(k-1)/(k-1) is the largest bias of clipping at R + T.

    Parameters
    ----------
    k : float
        Order of the moment that is at most 1.
    radius : float
        Bound R on the absolute value of the mean.
    beta : float
        Tail probability.
    noise : Noise
        Z: noise for a clip of half-width 1.

    Returns
    -------
    float
        T, in the unit of the data.
    """
    from scipy.optimize import brentq, minimize_scalar  # a slow import

    def error(log_t: float) -> float:
        t = float(np.exp(log_t))
        fall = float(np.exp(min(-(k - 1) * log_t, 600.0)))  # capped for a T that is far too small
        bias = (1 - 1 / k) ** k / (k - 1) * fall / (radius + t)

        def missing(x: float) -> float:
            return (
                float(noise.cdf(np.asarray(x - bias)) - noise.cdf(np.asarray(-x - bias))) - within
            )

        return (radius + t) * float(brentq(missing, 0.0, most := 2 * (bias + q), xtol=1e-13 * most))

    within, q = 1 - beta, noise.above(beta / 2)
    alone = float(np.log(1 - 1 / k) - np.log(q) / k)  # minimises b(T) + q T
    ends = alone - 1 - float(np.log1p(radius * np.exp(-alone))), alone + 1
    least = minimize_scalar(error, bounds=ends, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(least.x))


def mean_bound(e: Any) -> float:
    """Return the estimator's bound R on the absolute value of the mean; infinity if it has none."""
    radius = getattr(e, "radius", None)
    return np.inf if radius is None else float(radius)


def gaussian_tail(e: Any, n: int) -> float:
    """Return t of L15: n Gaussian records are within t of the mean with probability 1 - beta.

    By a union bound t = sigma sqrt(2 ln(2n/beta)) (L15, Theorem 1).

    Parameters
    ----------
    e : Estimator
        Its sigma and beta are read.
    n : int
        Number of records.

    Returns
    -------
    float
        t, in the unit of the data.
    """
    return float(e.sigma * np.sqrt(2 * np.log(2 * n / e.beta)))
