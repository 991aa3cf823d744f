"""Exact noise of the balloon mean (BALLOON26), whose radii the sparse vector technique finds."""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtr, ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import is_isotropic
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for
from dpbench.theory.exact.clip_and_noise_oracle import gaussian_norm_bound
from dpbench.theory.exact.noise import concentrated

__all__ = ["radius_distribution"]

GRID = (np.arange(40) + 0.5) / 40  # levels at which the noise of a threshold is averaged
MAX_CENTRE_VARIANCE = 1.0  # largest variance of the first centre in a coordinate, in sigma^2


def radius_distribution(inside: Floats, share: float, n: int, scale: float) -> Floats:
    """Return the probabilities of the balls that the sparse vector technique chooses.

    The first noisy count above a noisy threshold is chosen, otherwise the last. The noises are
    exponential. The counts of nearby balls have nearly equal sampling errors, which count as equal
    here: they are a part of the noise of the threshold.

    Parameters
    ----------
    inside : ndarray of shape (m,)
        Probability of every ball, in increasing order.
    share : float
        Share of the n records at the threshold.
    n : int
        Number of records.
    scale : float
        Mean of the exponential noises of threshold and counts, in records.

    Returns
    -------
    ndarray of shape (m,)
        Probabilities, which add up to 1.
    """
    noise = -scale * np.log(GRID)[:, None]
    sampling = np.sqrt(n * share * (1 - share)) * ndtri(GRID)
    gap = share * n + (noise + sampling).ravel()[:, None] - n * inside  # noise that a count needs
    passed = np.exp(-np.maximum(gap, 0) / scale)
    passed[:, -1] = 1.0
    rejected = np.cumprod(1 - passed, axis=1)
    before = np.concatenate([np.ones((len(gap), 1)), rejected[:, :-1]], axis=1)
    return np.asarray((before * passed).mean(axis=0))


@exact_for(est.BalloonMean)
def _balloon_noise(
    metric: str, e: est.BalloonMean, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return ``noise_q90``, the 0.9 quantile of the norm of the noise, of the balloon mean.

    Records are normal vectors with the standard deviation s = sigma in every coordinate. The result
    is NaN for other records and columns. It is NaN, too, if the first ball cuts records off, or if
    the first centre has a larger variance than s^2 in a coordinate.

    1. Let v be the variance of the centre's error in a coordinate. It is s^2/n for sampling, and
       the variance of the noise. The first centre has the noise of a tenth of the budget.
    2. The record less the centre is normal with the variance s^2 + v. So the probabilities of the
       balls around the centre are chi-square. `radius_distribution` returns the distribution of the
       radius C of a round.
    3. Given C, the noise is (2C/n)/sqrt(2 rho') times a standard normal vector, for the budget rho'
       of the mean of a round.
    """
    n, d, s = setting.n, setting.d, e.sigma
    fits = is_isotropic(law) and law.scale == s
    reach = float(np.linalg.norm(law.mean)) + s * gaussian_norm_bound(d, 1 / n)
    if metric != "noise_q90" or not fits or reach > e.radius:
        return np.nan
    rho = concentrated(setting.budget).rho
    part = 0.9 * rho / len(e.inside) / 2  # for a radius, and for a mean
    epsilon = concentrated(setting.budget).fraction(part / rho).pure_epsilon
    radii = _radii(e)
    v = s**2 / n + (2 * e.radius / n) ** 2 / (2 * rho / 10)
    if v > MAX_CENTRE_VARIANCE * s**2:
        return np.nan
    for share in e.inside:
        chances = radius_distribution(chdtr(d, radii**2 / (s**2 + v)), share, n, 2 / epsilon)
        sd = 2 * radii / n / np.sqrt(2 * part)
        v = s**2 / n + float(chances @ sd**2)

    def excess(x: float) -> float:
        return float(chances @ chdtr(d, (x / sd) ** 2)) - 0.9

    upper_end = 10 * float(sd.max() * np.sqrt(d))
    return float(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end, rtol=1e-9))


def _radii(e: est.BalloonMean) -> Floats:
    """Return the radii sigma growth^i of the search below 2 `radius`, and 2 `radius`."""
    radii, largest = [e.sigma], max(2 * e.radius, e.sigma)
    while radii[-1] * e.growth < largest:
        radii.append(radii[-1] * e.growth)
    return np.array([*radii, largest])
