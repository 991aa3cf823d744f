"""Exact errors of `BoundedContributionMean`, and the cap on contributions with the smallest error.

A person has M records, and weighs w = min(M, cap) or 1. Let j be the number of records that are
averaged: w for ``records``, M for ``capped``, min(M, cap) for ``equal``. Lengths are in units of h,
half the width of the interval, from its middle. Let s^2 be the variance of a record given its
person, and t^2 the variance of the effects of people. If nothing is clipped, the mean U of a person
has the expectation m and the variance t^2 + s^2/j given M. The contribution is S = w U, clipped.

Let r = E S/E w. The released ratio of sums over n people is, to first order,

    r + sum(S - r w)/(n E w) + (Z - r Z_N/a)/(n E w).

Here Z and Z_N are the noises of the sum of S and of a times the sum of w. The first sum is normal
by the central limit theorem. So the mean square error is

    (r - m)^2 + E (S - r w)^2/(n (E w)^2) + (Var Z + r^2 Var Z_N/a^2)/(n E w)^2.

Without clipping r = m and E (S - r w)^2 = E w^2 (t^2 + s^2/j). As the cap grows, the second term
falls for ``records`` if t = 0: it is s^2/(n E min(M, cap)). The third is proportional to
(cap/E min(M, cap))^2, which grows. The best cap balances both.

The sensitivities are computed anew, by a search over all pairs of weights.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.optimize import brentq
from scipy.special import ndtr

from dpbench import distributions as dist
from dpbench.arrays import Floats
from dpbench.estimators import BoundedContributionMean, ClippedMean
from dpbench.privacy import Budget
from dpbench.theory.exact.averages import atoms
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, reduces_to
from dpbench.theory.exact.noise import (
    GaussianNoise,
    Laplace,
    Noise,
    Staircase,
    additive,
    standard_normal,
)
from dpbench.theory.exact.ratio import laplaces_above

__all__ = ["cap_errors"]

NAN = float("nan")
MAX_COUNT_VARIANCE = 2e-4  # largest variance of the noise of the count, in units of its square
ERROR_POINTS = 800  # steps of the integral of a mean error


class _Contributions(NamedTuple):
    """Moments of the contribution S and the weight w of a person, in units of h."""

    ratio: float  # E S/E w
    weight: float  # E w
    variance: float  # E (S - ratio w)^2


def _weights(e: BoundedContributionMean, numbers: Floats) -> tuple[Floats, Floats]:
    """Return the weight of a person with each number of records, and the number averaged."""
    kept = np.minimum(numbers, e.cap)
    weights = np.ones_like(kept) if e.weights == "equal" else kept
    return weights, numbers if e.weights == "capped" else kept


def _record_moments(
    law: dist.UserLevelData, centre: float, half: float
) -> tuple[float, float, float]:
    """Return the mean of a record and the variances given and of the person, scaled by `half`."""
    effects = law.between.variance if law.between else 0.0
    return (law.mean - centre) / half, law.of.variance / half**2, effects / half**2


def _contributions(e: BoundedContributionMean, law: dist.UserLevelData) -> _Contributions | None:
    """Return the moments of a contribution; None if they are not known.

    They are known for Gaussian records with Gaussian effects or none. For other records they are
    known if no contribution can be clipped: the records have finitely many values, all inside the
    interval, and the estimator has no `clip`.
    """
    centre, half = (e.lower + e.upper) / 2, (e.upper - e.lower) / 2
    numbers, probabilities = law.numbers
    weights, averaged = _weights(e, numbers)
    m, within, between = _record_moments(law, centre, half)
    mean_weight = float(probabilities @ weights)
    reach = np.inf if e.clip is None else e.clip / half
    if isinstance(law.of, dist.Gaussian) and isinstance(law.between, dist.Gaussian | None):
        # The contribution is w U, with U clipped to +-1 and to +-reach/w.
        ends = np.minimum(1.0, reach / weights)
        first, second = _clipped_moments(m, np.sqrt(between + within / averaged), ends)
        ratio = float(probabilities @ (weights * first)) / mean_weight
        spread = weights**2 * (second - 2 * ratio * first + ratio**2)
        return _Contributions(ratio, mean_weight, float(probabilities @ spread))
    points = atoms(law.of) if law.of.counted else None
    if (
        points is None
        or np.isfinite(reach)
        or np.abs(points[0] - centre).max() > half * (1 + 1e-12)
    ):
        return None
    spread = weights**2 * within / averaged
    return _Contributions(m, mean_weight, float(probabilities @ spread))


def _clipped_moments(mean: float, sd: Floats, end: Floats) -> tuple[Floats, Floats]:
    """Return E Y and E Y^2 for Y = U clipped to [-end, end], where U is N(mean, sd^2)."""
    low, high = (-end - mean) / sd, (end - mean) / sd
    below, above, inside = ndtr(low), ndtr(-high), ndtr(high) - ndtr(low)
    density = [np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi) for z in (low, high)]
    step = density[0] - density[1]
    first = mean * inside + sd * step + end * (above - below)
    squares = inside + low * density[0] - high * density[1]
    second = mean**2 * inside + 2 * mean * sd * step + sd**2 * squares + end**2 * (above + below)
    return first, second


def _noises(
    e: BoundedContributionMean, budget: Budget, half: float
) -> tuple[Noise, Noise | None, float]:
    """Return the noise of the sum of contributions, that of the scaled count, and its factor a.

    The unit of a contribution is h. With equal weights the count is public, so it has no noise.
    """
    largest = 1 if e.weights == "equal" else e.cap
    reach = min(np.inf if e.clip is None else e.clip / half, float(largest))
    if largest == 1:
        return additive(budget, 2 * reach, 2 * reach), None, 1.0
    k = np.arange(1.0, largest + 1)
    moves = min(reach, largest) + np.minimum(reach, k)

    def noise(factor: float) -> Noise:
        steps = factor * (largest - k)
        l1, l2 = float((moves + steps).max()), float(np.hypot(moves, steps).max())
        drawn = additive(budget, l1, l2)
        # A vector of two numbers never gets staircase noise.
        return drawn if isinstance(drawn, GaussianNoise) else Laplace(l1 / budget.pure_epsilon)

    gaussian, gap = isinstance(noise(1.0), GaussianNoise), largest - max(reach, 1.0)
    factor = float(np.sqrt(3)) if gaussian else 1.0
    if gap > 0:
        share = reach / largest
        cube = 2 * reach * share**2 / gap
        factor = min(factor, (2 * reach * share / gap) ** 0.5 if gaussian else cube ** (1 / 3))
    return noise(factor), noise(factor), factor


def _error_quantile(sd: float, bias: float, scales: tuple[float, float], q: float) -> float:
    """Return the q quantile of |bias + N(0, sd^2) + X + Y| for Laplace X and Y of two scales."""
    beyond = _tail(sd, bias, scales)
    unit = abs(bias) + sd + sum(scales)
    excess = lambda x: float(beyond(np.array([x]))[0]) - (1 - q)  # noqa: E731
    return float(brentq(excess, 0.0, 60 * unit, xtol=1e-14 * unit, rtol=1e-12))


def _tail(sd: float, bias: float, scales: tuple[float, float]) -> Any:
    """Return the function x -> P(|bias + N(0, sd^2) + X + Y| > x) for Laplace X and Y."""
    z, density = standard_normal()
    shift = (bias + sd * z)[:, None]

    def beyond(x: Floats) -> Floats:
        a, c = np.array(scales[0]), np.array(scales[1])
        above = laplaces_above(x - shift, a, c) + laplaces_above(x + shift, a, c)
        return np.asarray(density @ above)

    return beyond


def _column(metric: str, sd: float, bias: float, noises: tuple[Noise, Noise]) -> float:
    """Return a column of the error bias + N(0, sd^2) + two noises, of which either may be 0."""
    if metric == "noise_q90":
        sd, bias = 0.0, 0.0
    variance = sum(noise.variance for noise in noises)
    if metric == "rmse":
        return float(np.sqrt(bias**2 + sd**2 + variance))
    first, second = noises
    if isinstance(first, GaussianNoise) and isinstance(second, GaussianNoise):
        sd, scales = float(np.sqrt(sd**2 + variance)), (0.0, 0.0)
    elif isinstance(first, Laplace) and isinstance(second, Laplace):
        scales = (first.scale, second.scale)
    else:
        return NAN
    if scales == (0.0, 0.0):
        scales = (1e-9 * sd, 0.0)
    if metric in ("q90", "noise_q90"):
        return _error_quantile(sd, bias, scales, 0.9)
    end = 40 * (abs(bias) + sd + sum(scales))
    x = end * ((np.arange(ERROR_POINTS) + 0.5) / ERROR_POINTS) ** 3
    width = end * np.diff((np.arange(ERROR_POINTS + 1) / ERROR_POINTS) ** 3)
    return float(_tail(sd, bias, scales)(x) @ width)


def _scaled(noise: Noise, factor: float) -> Noise:
    """Return the noise times a factor, which is not negative."""
    if isinstance(noise, GaussianNoise):
        return GaussianNoise(noise.sd * factor)
    if isinstance(noise, Laplace):
        return Laplace(noise.scale * factor)
    if isinstance(noise, Staircase):
        return replace(noise, sensitivity=noise.sensitivity * factor)
    raise TypeError(f"{type(noise).__name__}: cannot be multiplied by a factor")


@reduces_to(BoundedContributionMean)
def _mean_of_numbers(
    e: BoundedContributionMean, law: dist.Distribution, setting: ReleaseSetting
) -> tuple[ClippedMean, ReleaseSetting] | None:
    """Return the clipped mean that releases numbers in the same way; None for people."""
    if law.d > 1 or (isinstance(law, dist.UserLevelData) and law.has_rows):
        return None
    centre, half = (e.lower + e.upper) / 2, (e.upper - e.lower) / 2
    reach = half if e.clip is None else min(half, e.clip)
    return ClippedMean(lower=centre - reach, upper=centre + reach), setting


@exact_for(BoundedContributionMean)
def _contribution_error(
    metric: str, e: BoundedContributionMean, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the exact value of a column for a mean of people with capped weights.

    The columns ``q90``, ``noise_q90``, ``mean_error`` and ``rmse`` are known if the noise of the
    count is small. With staircase noise only ``rmse`` is known. Numbers have the values of
    `_mean_of_numbers`.
    """
    centre, half = (e.lower + e.upper) / 2, (e.upper - e.lower) / 2
    if not isinstance(law, dist.UserLevelData) or not law.has_rows:
        return NAN
    moments = _contributions(e, law)
    if metric not in ("q90", "noise_q90", "mean_error", "rmse") or moments is None:
        return NAN
    first, second, factor = _noises(e, setting.budget, half)
    total = setting.n * moments.weight
    if second is None:
        second = GaussianNoise(0.0) if isinstance(first, GaussianNoise) else Laplace(0.0)
    elif second.variance / factor**2 > MAX_COUNT_VARIANCE * total**2:
        return NAN
    noises = _scaled(first, 1 / total), _scaled(second, abs(moments.ratio) / (factor * total))
    bias = moments.ratio - (law.target - centre) / half
    sd = float(np.sqrt(moments.variance * setting.n)) / total
    return half * _column(metric, sd, bias, noises)


def cap_errors(
    estimator: BoundedContributionMean,
    law: dist.UserLevelData,
    n: int,
    budget: Budget,
    caps: Floats,
) -> pd.DataFrame:
    """Compute the root mean square error of a mean of people for several caps.

    Parameters
    ----------
    estimator : BoundedContributionMean
        Estimator; its `cap` is replaced.
    law : UserLevelData
        Distribution of people, with unequal numbers of records.
    n : int
        Number of people.
    budget : Budget
        Privacy budget.
    caps : ndarray of shape (m,)
        Whole numbers from 1.

    Returns
    -------
    DataFrame
        For each cap, columns ``cap``, ``rmse`` and its parts ``bias``, ``sampling`` and ``noise``:
        root mean squares in the unit of the data. NaN if the error is not known.
    """
    centre, half = (estimator.lower + estimator.upper) / 2, (estimator.upper - estimator.lower) / 2
    rows = []
    for cap in caps:
        e = replace(estimator, cap=int(cap))
        rmse = _contribution_error("rmse", e, law, ReleaseSetting(n, 1, budget))
        moments = _contributions(e, law)
        bias = sampling = NAN
        if moments is not None:
            bias = abs(moments.ratio - (law.target - centre) / half) * half
            sampling = half * float(np.sqrt(moments.variance / n)) / moments.weight
        noise = float(np.sqrt(max(rmse**2 - bias**2 - sampling**2, 0.0)))
        parts = {"bias": bias, "sampling": sampling, "noise": noise}
        rows.append({"cap": e.cap, "rmse": rmse, **parts})
    return pd.DataFrame(rows)
