"""Registries of exact values, and the model of an estimator's last step: clip and additive noise.

An exact value is the limit of a summary column as the number of trials grows. `EXACT`, `STEPS` and
`REDUCTIONS` map a class of estimators to a function for its exact values, for its last step, or for
a simpler estimator. Functions read the parameters of an estimator, but never call it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple, TypeVar

import numpy as np

from dpbench.privacy import Budget
from dpbench.theory.exact.noise import Noise, additive, box_noise

__all__ = [
    "EXACT", "REDUCTIONS", "STEPS", "ClipAndNoise", "ReleaseSetting", "best_clip_threshold",
    "box_step", "exact_for", "gaussian_tail", "mean_bound", "reduces_to", "step_for",
    "unit_noise_quantile",
]  # fmt: skip

F = TypeVar("F", bound=Callable[..., Any])
# Functions by class of estimator: (metric, estimator, law, setting) to the exact value of the
# summary column `metric`, NaN if it is not known.
EXACT: dict[type[Any], Callable[[str, Any, Any, ReleaseSetting], float]] = {}
# Functions by class of estimator: (estimator, setting) to its clip with noise, or None.
STEPS: dict[type[Any], Callable[[Any, ReleaseSetting], ClipAndNoise | None]] = {}
# Functions by class of estimator: (estimator, law, setting) to an estimator and its setting with
# the same releases, or None.
REDUCTIONS: dict[type[Any], Callable[[Any, Any, ReleaseSetting], tuple[Any, ReleaseSetting] | None]]
REDUCTIONS = {}


def exact_for(*kinds: type[Any]) -> Callable[[F], F]:
    """Return a decorator that registers a function for the exact values of some estimators.

    `kinds` are the classes of these estimators. An exact value is the limit of a summary column as
    the number of trials grows.
    """
    return _register_in(EXACT, kinds)


def reduces_to(*kinds: type[Any]) -> Callable[[F], F]:
    """Return a decorator that registers a function for a simpler estimator with the same releases.

    `kinds` are the classes of estimators that the function replaces.
    """
    return _register_in(REDUCTIONS, kinds)


def step_for(*kinds: type[Any]) -> Callable[[F], F]:
    """Return a decorator that registers a function for the last step of some estimators.

    `kinds` are the classes of these estimators. The step is a clip with additive noise
    (`ClipAndNoise`).
    """
    return _register_in(STEPS, kinds)


def _register_in(registry: dict[type[Any], Any], kinds: tuple[type[Any], ...]) -> Callable[[F], F]:
    """Return a decorator that enters a function in `registry`, for each class in `kinds`."""

    def enter(function: F) -> F:
        assert not registry.keys() & set(kinds)
        registry.update(dict.fromkeys(kinds, function))
        return function

    return enter


class ReleaseSetting(NamedTuple):
    """Size of the data and privacy budget of a release.

    Parameters
    ----------
    n : int
        Number of records.
    d : int
        Number of coordinates of a record.
    budget : Budget
        Privacy budget.
    """

    n: int
    d: int
    budget: Budget


class ClipAndNoise(NamedTuple):
    """Average of clipped records with additive noise, as in the last step of many estimators.

    Parameters
    ----------
    noise : Noise
        Noise of each coordinate of the average, in the unit of the records.
    half_width : float, default inf
        Half the width of the interval to which each coordinate is clipped, or the radius of the
        ball on which records are projected. The unit is the unit of the records.
    centre : float or None
        Public centre of the interval or ball; None (default) if an earlier step finds the centre.
    records : float, default inf
        Number of records that are averaged.
    """

    noise: Noise
    half_width: float = np.inf
    centre: float | None = None
    records: float = np.inf


def unit_noise_quantile(budget: Budget, beta: float) -> float:
    """Return the 1 - beta quantile of |noise| that a budget adds to a number of sensitivity 1.

    Parameters
    ----------
    budget : Budget
        Privacy budget.
    beta : float in (0, 1)
        Tail probability.

    Returns
    -------
    float
        Quantile, in units of the sensitivity.
    """
    return additive(budget, 1.0, 1.0).isf(beta / 2)


def box_step(
    setting: ReleaseSetting,
    half_width: float,
    centre: float | None = None,
    *,
    share: float = 1.0,
    rows: float = 0,
) -> ClipAndNoise:
    """Return the average of records clipped to an interval in every coordinate, with its noise.

    A replaced record moves the average by at most 2 half_width/n in each coordinate, for n averaged
    records.

    Parameters
    ----------
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.
    half_width : float
        Half the width of the interval, in the unit of the records.
    centre : float, optional
        Public centre of the interval; None (default) if an earlier step finds the centre.
    share : float in (0, 1], default 1.0
        Share of the budget for this step.
    rows : float, default 0
        Number of averaged records; 0 for all records.

    Returns
    -------
    ClipAndNoise
        Clip and noise of the average.
    """
    records = rows or setting.n
    step = 2 * half_width / records
    noise = box_noise(setting.budget.fraction(share), setting.d, step)
    return ClipAndNoise(noise, half_width, centre, records)


@cache
def best_clip_threshold(k: float, radius: float, beta: float, noise: Noise) -> float:
    """Return the clip threshold T with the smallest 1 - beta quantile of bias plus noise.

    Records are clipped to +-(R + T), where R bounds the absolute value of the mean. The noise is (R
    + T) Z. If the k-th absolute central moment is at most 1, the bias of clipping is at most b(T) =
    ((k-1)/k)^k T^-(k-1)/(k-1). T minimises the 1 - beta quantile of |b(T) + (R + T) Z|.

    Parameters
    ----------
    k : float > 1
        Order of the moment.
    radius : float
        Bound R on the absolute value of the mean.
    beta : float in (0, 1)
        Tail probability.
    noise : Noise
        Noise Z of the average if records are clipped to +-1.

    Returns
    -------
    float
        T, in the unit of the records.
    """
    from scipy.optimize import brentq, minimize_scalar

    def error(log_t: float) -> float:
        t = float(np.exp(log_t))
        decay = float(np.exp(min(-(k - 1) * log_t, 600.0)))  # capped for a T that is far too small
        bias = (1 - 1 / k) ** k / (k - 1) * decay / (radius + t)

        def excess(x: float) -> float:
            return (
                float(noise.cdf(np.asarray(x - bias)) - noise.cdf(np.asarray(-x - bias)))
                - confidence
            )

        return (radius + t) * float(
            brentq(excess, 0.0, upper_end := 2 * (bias + q), xtol=1e-13 * upper_end)
        )

    confidence, q = 1 - beta, noise.isf(beta / 2)
    log_start = float(np.log(1 - 1 / k) - np.log(q) / k)  # minimises b(T) + q T
    bounds = log_start - 1 - float(np.log1p(radius * np.exp(-log_start))), log_start + 1
    minimum = minimize_scalar(error, bounds=bounds, method="bounded", options={"xatol": 1e-9})
    return float(np.exp(minimum.x))


def mean_bound(e: Any) -> float:
    """Return the bound on the absolute value of the mean that an estimator assumes.

    It is the estimator's `radius`, or infinity for an estimator without this parameter.
    """
    radius = getattr(e, "radius", None)
    return np.inf if radius is None else float(radius)


def gaussian_tail(e: Any, n: int) -> float:
    """Return t such that all n Gaussian records are within t of the mean with probability 1 - beta.

    Let sigma be the standard deviation. A union bound gives t = sigma sqrt(2 ln(2n/beta)) (lecture
    notes L15, Theorem 1).

    Parameters
    ----------
    e : Estimator
        Estimator; its `sigma` and `beta` are read.
    n : int
        Number of records.

    Returns
    -------
    float
        Distance t, in the unit of the records.
    """
    return float(e.sigma * np.sqrt(2 * np.log(2 * n / e.beta)))
