"""Exact miss rates and widths of confidence intervals for the mean of a Gaussian.

The formulas follow the definitions of the intervals; no estimator is called and nothing is drawn.
Let V be the mean of clipped records, which is normal, and Z its noise. Each interval is computed
from the released value V + Z and a scale s that is independent of this value. The interval contains
the mean if V + Z is between two points that depend on s.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from scipy.special import bdtr, betainc, betaincinv, chdtri, erf, ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, reduces_to
from dpbench.theory.exact.noise import Noise, additive, standard_normal

__all__ = ["exact_interval", "noisy_gaussian_cdf"]

SCALE_POINTS = 200  # equally likely values of a variance, and of the scale s
MAX_VARIANCE_NOISE = 0.1  # largest relative noise of an estimated variance that counts as known
NAN = float("nan")


@reduces_to(est.KarwaVadhanGaussian, est.KarwaVadhanInterval)
def _with_sigma(
    e: est.KarwaVadhanGaussian, law: dist.Distribution, setting: ReleaseSetting
) -> tuple[est.Estimator, ReleaseSetting] | None:
    """Return the mean with a known sigma that a `KarwaVadhanGaussian` runs, and its setting.

    If the estimator has a sigma, the mean has the whole budget. If it estimates sigma, half of the
    budget is left for the mean. The estimate of sigma counts as exact under three conditions:

    - the records are Gaussian, and sigma is in the estimator's range;
    - the estimator does not release an interval;
    - the noise of the estimated variance is small compared with sigma^2. This variance costs a
      quarter of the budget. It is the mean of the half squared differences of m pairs, each clipped
      at 8 sigma^2 ln(2m/beta).

    If a condition fails, the result is None.
    """
    sigma, pairs, interval = e.sigma, setting.n // 2, isinstance(e, est.KarwaVadhanInterval)
    if sigma is None:
        if not isinstance(law, dist.Gaussian) or not pairs or interval:
            return None
        sigma = law._scale
        if not e.sigma_low <= sigma <= e.sigma_high:
            return None
        width = 8 * float(np.log(2 * pairs / e.beta)) / pairs
        if additive(setting.budget.fraction(0.25), width, width).variance > MAX_VARIANCE_NOISE**2:
            return None
        setting = setting._replace(budget=setting.budget.fraction(0.5))
    beta = e.beta / 4 if interval else e.beta
    return est.KarwaVadhanMean(radius=e.radius, sigma=sigma, beta=beta), setting


def exact_interval(metric: str, e: Any, law: dist.Distribution, setting: ReleaseSetting) -> float:
    """Return the exact miss rate of a confidence interval, or its exact relative width.

    Parameters
    ----------
    metric : {'miss_rate', 'width_ratio_q50'}
        Column. ``miss_rate`` is the probability that the interval misses the mean.
        ``width_ratio_q50`` is the median width, divided by the width of the non-private interval
        for known sigma.
    e : Estimator
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.

    Returns
    -------
    float
        Value. NaN unless the records are Gaussian and the estimator is `KarwaVadhanInterval`,
        `NoisyvarInterval`, `ParametricBootstrapInterval`, `BergerBoosInterval` with the true sigma,
        or `SubsampleInterval` with base `ClippedMean`.
    """
    interval: tuple[float, float] | None = None
    mean, sd = float(law.mean), float(np.sqrt(law.variance))
    if isinstance(law, dist.Gaussian) and isinstance(e, est.KarwaVadhanInterval):
        interval = _quantile_interval(e, sd, setting)
    simulated = isinstance(e, est.NoisyvarInterval | est.ParametricBootstrapInterval)
    if isinstance(law, dist.Gaussian) and simulated:
        interval = _simulated_interval(e, mean, sd, setting)
    if isinstance(law, dist.Gaussian) and isinstance(e, est.BergerBoosInterval) and e.sigma == sd:
        interval = _inverted_interval(e, mean, setting)
    if isinstance(law, dist.Gaussian) and isinstance(e, est.SubsampleInterval):
        interval = _subsample_interval(e, mean, sd, setting)
    if interval is None:
        return NAN
    miss_rate, half_width = interval
    normal_half_width = -float(ndtri(e.beta / 2)) * sd / float(np.sqrt(setting.n))
    return miss_rate if metric == "miss_rate" else half_width / normal_half_width


def noisy_gaussian_cdf(x: Floats, mean: float, sd: float | Floats, noise: Noise) -> Floats:
    """Return P(V + Z <= x) for a normal variable V and noise Z.

    Parameters
    ----------
    x : ndarray of shape (m,)
        Points.
    mean : float
        Mean of V.
    sd : float or ndarray of shape (m, 1)
        Standard deviation of V, one for all points or one for each.
    noise : Noise
        Z, independent of V.

    Returns
    -------
    ndarray of shape (m,)
        Probabilities.
    """
    z, weights = standard_normal()
    grid = slice(800, 3201, 4)  # from -6 to 6 in steps of 0.02
    probabilities = noise.cdf(x[:, None] - mean - sd * z[grid]) @ weights[grid]
    return np.asarray(probabilities / weights[grid].sum())


def _quantile_interval(
    e: est.KarwaVadhanInterval, sd: float, setting: ReleaseSetting
) -> tuple[float, float] | None:
    """Return the miss rate and the half-width of the interval of KV18 (Karwa and Vadhan).

    1. Records are clipped to +-3t around a private centre, with t = sigma sqrt(2 ln(2n/(beta/4))).
       The effect of the clip is neglected, because it rarely touches a record.
    2. The half-width is the sum of two quantiles. The absolute sampling error exceeds its quantile
       with probability beta/2, and the absolute noise exceeds its quantile with probability beta/4.

    None if the estimator has no sigma, or a sigma below the standard deviation `sd` of the records.
    """
    if e.sigma is None or sd > e.sigma:
        return None
    t = e.sigma * float(np.sqrt(2 * np.log(8 * setting.n / e.beta)))
    noise = additive(setting.budget.fraction(0.5), 6 * t / setting.n, 6 * t / setting.n)
    half_width = noise.isf(e.beta / 8) - float(ndtri(e.beta / 4)) * e.sigma / float(
        np.sqrt(setting.n)
    )
    low, high = noisy_gaussian_cdf(
        np.array([-half_width, half_width]), 0.0, sd / float(np.sqrt(setting.n)), noise
    )
    return float(1 - high + low), half_width


def _scales(e: Any, sd: float, setting: ReleaseSetting) -> Floats:
    """Return equally likely values of the standard deviation s that an interval uses.

    If the estimator has a known sigma, s is sigma. Otherwise s^2 is a private variance from m pairs
    of records: `sd`^2 times chi2_m/m, plus noise. Here chi2_m is chi-squared with m degrees of
    freedom.
    """
    if e.sigma is not None:
        return np.array([e.sigma])
    pairs, upper = setting.n // 2, (np.arange(SCALE_POINTS) + 0.5) / SCALE_POINTS
    step = (e.upper - e.lower) ** 2 / 2 / pairs
    noise = additive(setting.budget.fraction(1 - e.share), step, step)
    tails = np.array([noise.isf(probability) for probability in upper[: SCALE_POINTS // 2]])
    variances = np.add.outer(sd**2 * chdtri(pairs, upper) / pairs, np.concatenate([tails, -tails]))
    means = np.sort(variances.ravel()).reshape(SCALE_POINTS, -1).mean(axis=1)
    return np.asarray(np.sqrt(np.maximum(means, 0.0)))


def _moments(mean: Floats, sd: float, low: float, high: float) -> tuple[Floats, Floats]:
    """Return the means and the variances of N(mean, sd^2) clipped to [low, high].

    Both arrays have a value for each entry of `mean`. Let T be the clipped variable, and F the
    distribution function of N(mean, sd^2). With integrals over [low, high], E T = high - int F(x)
    dx and E (high - T)^2 = 2 int (high - x) F(x) dx.
    """
    x, step = np.linspace(low, high, 4001, retstep=True)
    weights = np.full(x.size, step)
    weights[[0, -1]] /= 2
    under = (1 + erf((x - mean[:, None]) / (np.sqrt(2) * max(sd, 1e-9 * (high - low))))) / 2
    short = under @ weights
    return high - short, 2 * (under @ (weights * (high - x))) - short**2


@cache
def _simulated_interval(
    e: Any, mean: float, sd: float, setting: ReleaseSetting
) -> tuple[float, float] | None:
    """Return the miss rate and the half-width of an interval that an estimator finds by simulation.

    The estimator releases a noisy mean and a standard deviation s. With these two numbers it
    simulates data sets of Gaussian records. The result is for infinitely many simulated data sets.

    1. The interval is the noisy mean - bias -+ q. Here q is the 1 - beta quantile of |N(0,
       variance/n) + Z|, where Z is the noise of the mean.
    2. The bias and the variance are those of a simulated record after clipping. Only
       `ParametricBootstrapInterval` clips simulated records. Otherwise the bias is 0, and the
       variance is s^2.

    None if sigma is unknown, and either n is 1 or clipping of the true records has an effect. In
    the latter case the noisy mean and s are dependent.
    """
    main = setting.budget if e.sigma is not None else setting.budget.fraction(e.share)
    step, root = (e.upper - e.lower) / setting.n, float(np.sqrt(setting.n))
    noise = additive(main, step, step)
    (centre,), (variance,) = _moments(np.array([mean]), sd, e.lower, e.upper)
    inside = abs(centre - mean) < 1e-3 * sd and abs(variance - sd**2) < 1e-3 * sd**2
    if e.sigma is None and not (inside and setting.n > 1):
        return None  # mean and variance of clipped records are not independent
    reach = 8 * float(np.sqrt(variance)) / root + 2 * noise.isf(1e-7)
    values = centre + reach * np.linspace(-1, 1, 401)
    scales = _scales(e, sd, setting)
    spread, q = _quantiles(max(scales.max(), 1e-9 * sd) / root, noise, e.beta)
    bias, deviations = np.zeros_like(values), np.ones_like(values)
    clipped = isinstance(e, est.ParametricBootstrapInterval)  # a noisy mean may be outside
    miss_rates, half_widths = [], []
    for scale in np.maximum(scales, 1e-9 * sd):
        if clipped:
            clipped_means, clipped_variances = _moments(values, scale, e.lower, e.upper)
            bias, deviations = (
                clipped_means - values,
                np.sqrt(np.maximum(clipped_variances, 0.0)) / scale,
            )
        half_width = np.interp(deviations * scale / root, spread, q)
        ends = (np.interp(mean, values - bias + sign * half_width, values) for sign in (1, -1))
        low, high = noisy_gaussian_cdf(
            np.array(list(ends)), centre, float(np.sqrt(variance)) / root, noise
        )
        miss_rates.append(1 - high + low)
        half_widths.append(float(np.interp(centre, values, half_width)))
    return float(np.mean(miss_rates)), float(np.median(half_widths))


@cache
def _inverted_interval(
    e: est.BergerBoosInterval, mean: float, setting: ReleaseSetting
) -> tuple[float, float]:
    """Return the miss rate and the half-width of an interval that inverts tests, for known sigma.

    The release A is the mean of clipped records plus noise Z. A mean m is in the interval if A is
    within q(m) of M(m). Here M(m) is the mean of a clipped record, and q(m) the 1 - beta quantile
    of |N(0, variance(m)/n) + Z|. So the ends solve M(m) + q(m) = A and M(m) - q(m) = A in
    [lower, upper]. The width grows or falls with A near its median M(mean), so its median is the
    width there.
    """
    assert e.sigma is not None
    step, root = (e.upper - e.lower) / setting.n, float(np.sqrt(setting.n))
    noise = additive(setting.budget, step, step)
    m = np.linspace(e.lower, e.upper, 801)
    centres, variances = _moments(m, e.sigma, e.lower, e.upper)
    spread, q = _quantiles(e.sigma / root, noise, e.beta)
    reach = np.interp(np.sqrt(np.maximum(variances, 0.0)) / root, spread, q)
    (centre,), (variance,) = _moments(np.array([mean]), e.sigma, e.lower, e.upper)
    error = float(np.sqrt(variance)) / root
    half = float(np.interp(error, spread, q))
    low, high = noisy_gaussian_cdf(np.array([-half, half]), 0.0, error, noise)
    ends = [float(np.interp(centre, centres + sign * reach, m)) for sign in (1, -1)]
    return float(1 - high + low), (ends[1] - ends[0]) / 2


def _quantiles(largest_sd: float, noise: Noise, beta: float) -> tuple[Floats, Floats]:
    """Return 60 standard deviations sd, and for each the 1 - beta quantile of |N(0, sd^2) + Z|.

    Z is `noise`, independent of the normal variable. The standard deviations are equally spaced
    from 0 to `largest_sd`.
    """
    spread = np.linspace(0.0, largest_sd, 60)
    z, weights = standard_normal()
    grid = slice(800, 3201, 4)
    shares = weights[grid] / weights[grid].sum()
    low, high = np.zeros(60), np.full(60, noise.isf(beta / 4) - largest_sd * float(ndtri(beta / 8)))
    for _ in range(40):
        middle = (low + high) / 2
        # Because the sum is symmetric, P(|N + Z| > x) = 2 P(N + Z > x).
        above = 1 - noise.cdf(middle[:, None] - spread[:, None] * z[grid]) @ shares
        too_low = 2 * above > beta
        low, high = np.where(too_low, middle, low), np.where(too_low, high, middle)
    return spread, (low + high) / 2


@cache
def _subsample_interval(
    e: est.SubsampleInterval, mean: float, sd: float, setting: ReleaseSetting
) -> tuple[float, float] | None:
    """Return the miss rate and the half-width of an interval of clipped means of disjoint parts.

    The k outputs Y are independent, and each is a normal variable plus noise. Their distribution
    function is F. Let j be the rank of the lower end.

    1. The lower end is above the mean if at most j - 1 outputs are below it, of Bin(k, F(mean)).
       The upper end is below the mean if at most j - 1 outputs are above it.
    2. F(lower end) has the distribution Beta(j, k + 1 - j). Given a lower end y, the upper end is
       at most y + w if k + 1 - 2j of k - j outputs are. They are independent, and each is at most
       y + w with probability (F(y + w) - F(y))/(1 - F(y)).

    None unless the base is a mean clipped to finite bounds, and all parts have equal size.
    """
    base, k = e.base, e.parts
    if type(base) is not est.ClippedMean or setting.n % k:
        return None
    if base.lower is None or base.upper is None:
        return None
    size = setting.n // k
    (centre,), (variance,) = _moments(np.array([mean]), sd, base.lower, base.upper)
    step, root = (base.upper - base.lower) / size, float(np.sqrt(variance / size))
    noise = additive(setting.budget, step, step)
    u, v = 0.5 + e.median_bias, 0.5 - e.median_bias
    j = 1
    while j + 1 <= k // 2 and bdtr(j, k, u) + bdtr(j, k, v) <= e.beta:
        j += 1
    below = float(noisy_gaussian_cdf(np.array([mean]), centre, root, noise)[0])
    miss_rate = float(bdtr(j - 1, k, below) + bdtr(j - 1, k, 1 - below))
    reach = 8 * root + 2 * noise.isf(1e-9)
    y = centre + reach * np.linspace(-1, 1, 4001)
    cdf = noisy_gaussian_cdf(y, centre, root, noise)
    first = betaincinv(j, k + 1 - j, (np.arange(SCALE_POINTS) + 0.5) / SCALE_POINTS)
    starts, low, high = np.interp(first, cdf, y), 0.0, 2 * reach
    for _ in range(40):
        width = (low + high) / 2
        shares = (np.interp(starts + width, y, cdf) - first) / (1 - first)
        within = betainc(k + 1 - 2 * j, j, np.clip(shares, 0.0, 1.0)).mean()
        low, high = (width, high) if within < 0.5 else (low, width)
    return miss_rate, (low + high) / 4
