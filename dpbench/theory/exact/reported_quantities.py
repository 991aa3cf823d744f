"""Exact values of statements that estimators release: intervals, guarantees, and fitted Gaussians.

The formulas follow the definitions of the estimators; no estimator is called and nothing is drawn.
An exact value is the limit of a summary column as the number of trials grows.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri, ndtr

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import (
    MAX_MISS_PROBABILITY,
    count_noise,
    equiprobable_values,
    overtaking_probability,
    satisfies_assumptions,
)
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from dpbench.theory.exact.clip_and_noise_oracle import (
    Histogram,
    coinpress_round,
    gaussian_norm_bound,
    histogram,
    ksu20_alpha,
    last_step,
    round_shares,
    shrinking_intervals_round,
)
from dpbench.theory.exact.intervals import noisy_gaussian_cdf
from dpbench.theory.exact.noise import additive

__all__ = ["STATED", "exact_stated"]

# Columns of a summary about these statements.
STATED = ("width_q50", "miss_rate", "error_over_guarantee_q90", "tv_q90")
NAN = float("nan")
POINTS = 200  # equally likely values of a variance, and of its noise


def exact_stated(
    metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting, q90: float
) -> float:
    """Return the exact value of a summary column about statements that an estimator releases.

    Statements are intervals, guarantees of an error, and fitted Gaussians. The columns are listed
    in `STATED`.

    Parameters
    ----------
    metric : str
        Column: ``width_q50``, ``miss_rate``, ``error_over_guarantee_q90`` or ``tv_q90``. Others
        give NaN.
    e : Estimator
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.
    q90 : float
        Exact 0.9 quantile of the error, in the unit of the records; NaN if it is not known.

    Returns
    -------
    float
        Value; NaN if it is not known.
    """
    if isinstance(e, est.ShrinkingIntervals | est.CoinPressMean) and law.d == 1:
        return _round_interval_column(metric, e, law, setting)
    if isinstance(e, est.KSU20RangeEstimate):
        return _range_column(metric, e, law, setting)
    if (
        isinstance(e, est.KSU20Mean)
        and e.constants == "paper"
        and metric == "error_over_guarantee_q90"
    ):
        alpha = ksu20_alpha(e, setting.n, setting.budget)
        return q90 / (e.scale * alpha) if alpha < 1 / 16 else NAN
    if (
        isinstance(e, est.KarwaVadhanGaussian)
        and metric == "tv_q90"
        and isinstance(law, dist.Gaussian)
    ):
        return _distance_quantile(e, law, setting, q90)
    return NAN


def _round_interval_column(
    metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the width or the miss rate of an interval that an estimator releases in rounds.

    Let V be the mean of n records from N(mu, sigma^2), Z its noise, and V + Z -+ w the interval.

    1. In the first round no record is clipped, so V has the distribution N(mu, sigma^2/n).
    2. For shrinking intervals (lecture notes L15) w is the sum of a quantile of |V - mu| and a
       quantile of |Z|. For CoinPress (BDKU20) w is the standard deviation of V + Z times a bound on
       |N(0, 1)| (`gaussian_norm_bound`).
    3. Later rounds have widths of the same form. Their intervals miss more often, because records
       are clipped after an interval that missed. So the miss rate is NaN for later rounds.
    """
    if not satisfies_assumptions(law, e) or law.variance < e.sigma**2 * (1 - 1e-9):
        return NAN
    root = float(np.sqrt(setting.n))
    if isinstance(e, est.CoinPressMean):
        round_budgets = round_shares(e.rounds)[: e.reported_round]
        sd, _ = coinpress_round(e.radius / e.sigma, round_budgets, e.b, setting)
        gamma = gaussian_norm_bound(1, e.b)
        miss_rate, half_width = (
            2 * float(ndtr(-gamma)),
            gamma * e.sigma * float(np.hypot(1 / root, sd)),
        )
    else:
        step, half_width, narrowed = shrinking_intervals_round(e, setting)
        if not narrowed:
            return NAN
        low, high = noisy_gaussian_cdf(
            np.array([-half_width, half_width]), 0.0, e.sigma / root, step.noise
        )
        miss_rate = float(1 - high + low)
    if metric == "miss_rate":
        return miss_rate if 1 in (e.rounds, e.reported_round) else NAN
    return 2 * half_width if metric == "width_q50" else NAN


def _range_column(
    metric: str, e: est.KSU20RangeEstimate, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the width of KSU20's private range, or the distance from its middle to the mean.

    The distance is in units of the range's guarantee 2r. The range consists of a bin of width 2r
    and its two neighbours, so it is 6r wide. Let the position of the mean in its own bin be in [0,
    1]. If the range is around this bin, the distance is |position - 1/2|.

    By Chebyshev's inequality few records are in other bins, unless the mean is near an edge. At an
    edge two bins are equally right, and both give the distance 1/2. NaN if another bin may be
    chosen.
    """
    bins = histogram(e, setting)
    if bins is None or metric not in ("width_q50", "error_over_guarantee_q90"):
        return NAN
    if metric == "width_q50":
        return 3 * bins.width
    place = float((law.mean - bins.start) / bins.width % 1)
    edge = min(place, 1 - place)
    if edge < 1e-9:
        return 0.5
    tail_bound = float(law.variance) / (edge * bins.width) ** 2
    certain = tail_bound < 0.5 and _is_certain(1 - tail_bound, bins)
    return abs(place - 0.5) if certain and abs(place - 0.5) > 1e-9 else NAN


def _is_certain(share: float, bins: Histogram) -> bool:
    """Return whether a bin nearly always keeps a higher noisy count than a rival bin.

    `share` is the probability that a record is in the first bin. The rival bin holds all other
    records.
    """
    return overtaking_probability(share, bins) < MAX_MISS_PROBABILITY


def _distance_quantile(
    e: est.KarwaVadhanGaussian, law: dist.Gaussian, setting: ReleaseSetting, q90: float
) -> float:
    """Return ``tv_q90``, the 0.9 quantile of the total variation distance of a fitted Gaussian.

    The fitted Gaussian is N(V + Z, S^2). V is the mean of the records, Z its noise, and S a private
    standard deviation. The distance is from the distribution N(mu, sigma^2) of the records.

    1. If the estimator has a known sigma, S is sigma and the distance grows with the error. So
       ``tv_q90`` is 2 Phi(|error|/(2 sigma)) - 1 at the 0.9 quantile of |error|.
    2. Otherwise S^2 is a clipped noisy variance that is independent of V. The noise of the mean is
       proportional to S. For every S the distance grows with |V + Z - mu|. So the distribution
       function of the distance is computed for every S, and averaged.
    """
    scale = float(np.sqrt(law.variance))
    if e.sigma is not None:
        return 2 * float(ndtr(q90 / (2 * scale))) - 1 if abs(e.sigma - scale) < 1e-9 else NAN
    if setting.n < 2 or not np.isfinite(q90):
        return NAN
    mean_estimator = est.KarwaVadhanMean(radius=e.radius, sigma=scale, beta=e.beta)
    step = last_step(mean_estimator, setting._replace(budget=setting.budget.fraction(0.5)))
    assert step is not None
    branches = _variance_branches(e, scale, setting)
    variances = np.concatenate([branch for _, branch in branches])
    weight = np.concatenate(
        [np.full(len(branch), share / len(branch)) for share, branch in branches]
    )
    sd = np.sqrt(np.maximum(variances, 1e-12 * scale**2))
    sampling = scale**2 / (sd * np.sqrt(setting.n))[:, None]

    def excess(distance: float) -> float:
        error = _error_at_distance(law, distance, sd) * scale / sd
        inside = noisy_gaussian_cdf(error, 0.0, sampling, step.noise) - noisy_gaussian_cdf(
            -error, 0.0, sampling, step.noise
        )
        return float(weight @ np.where(error > 0, inside, 0.0)) - 0.9

    return float(brentq(excess, 1e-12, 1 - 1e-9, rtol=1e-6))


def _error_at_distance(law: dist.Gaussian, distance: float, sd: Floats) -> Floats:
    """Return the largest error of the mean at which a fitted Gaussian stays within a distance.

    For every entry of `sd`, the fitted Gaussian N(mean + error, sd^2) has at most the total
    variation distance `distance` from the Gaussian `law`. The error is 0 if no error is small
    enough.
    """
    low, high = np.zeros(len(sd)), np.full(len(sd), 20.0) * np.maximum(sd, np.sqrt(law.variance))
    for _ in range(50):
        middle = (low + high) / 2
        within = law.distance_to_gaussian(law.location + middle, sd) <= distance
        low, high = np.where(within, middle, low), np.where(within, high, middle)
    return np.where(
        law.distance_to_gaussian(np.full(len(sd), law.location), sd) <= distance, low, 0.0
    )


def _variance_branches(
    e: est.KarwaVadhanGaussian, scale: float, setting: ReleaseSetting
) -> list[tuple[float, Floats]]:
    """Return likely private variances S^2 for each of the two likeliest bins [2^j, 2^(j+1)).

    The estimator first chooses a bin for the variance sigma^2. Then it estimates the variance from
    m pairs of records. Each entry of the list is the probability of a bin, and equally likely
    values of S^2.

    1. A quarter of the budget pays for the choice of the bin. Half the squared difference of a pair
       is in the two likeliest bins with probabilities p and q. The bin with the larger noisy count
       is chosen. The difference of the two noisy counts is nearly normal. Its variance is m (p + q
       - (p - q)^2) plus the variance of the noise.
    2. Another quarter of the budget pays for the variance. Each half squared difference is clipped
       to [0, 2^(j+3) ln(2m/beta)], where beta is the estimator's tail probability. S^2 is the noisy
       mean of the m clipped numbers, clipped to [2^(j-2), 2^(j+3)].
    """
    pairs, quarter = setting.n // 2, setting.budget.fraction(0.25)
    powers = np.floor(2 * np.log2(scale)) + np.arange(-6, 3)
    edges = np.exp2(np.append(powers, powers[-1] + 1) / 2) / scale
    held = 2 * np.diff(ndtr(edges))
    second, first = np.argsort(held)[-2:]
    p, q = held[first], held[second]
    spread = pairs * (p + q - (p - q) ** 2) + 2 * count_noise(quarter).variance
    first_wins = float(ndtr(pairs * (p - q) / np.sqrt(spread)))
    upper = (np.arange(POINTS) + 0.5) / POINTS
    branches = []
    for share, power in ((first_wins, powers[first]), (1 - first_wins, powers[second])):
        step = float(np.exp2(power + 3) * np.log(2 * pairs / e.beta) / pairs)
        noise = equiprobable_values(additive(quarter, step, step), POINTS)
        noisy = np.sort(np.add.outer(scale**2 * chdtri(pairs, upper) / pairs, noise).ravel())
        clipped = np.clip(noisy, np.exp2(power - 2), np.exp2(power + 3))
        branches.append((share, clipped.reshape(POINTS, -1).mean(axis=1)))
    return branches
