"""Distributions as weighted points, and distributions of averages of independent records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc

from dpbench import distributions as dist
from dpbench.arrays import Floats
from dpbench.theory.exact.noise import MOST, Noise, binomial, standard_normal

__all__ = [
    "LAWS", "Atoms", "atoms", "average", "average_of_few", "finite_atoms", "median_quantile",
]  # fmt: skip

Atoms = tuple[Floats, Floats]  # points and their probabilities

RARELY = 1e-6  # expected number of records that is treated as none
MOST_SKEWED = 0.1  # largest skewness and excess kurtosis that count as normal
FAR = 1e-5  # expected number of records beyond the grid, on either side
LITTLE = 0.02  # `MOST_SKEWED` where the Fourier transform is the alternative
GRID = 2**14  # points of a sum
COARSE = 2**11  # points of the returned distribution


def _gaussian(law: dist.Gaussian) -> Atoms:
    """Return points of a normal distribution."""
    z, weights = standard_normal()
    return law.location + law._scale * z, weights


def _contaminated(law: dist.ContaminatedGaussian) -> Atoms:
    """Return points of a contaminated normal distribution."""
    z, weights = standard_normal()
    both = np.concatenate([z, law.gap + law.spread * z])
    shares = np.concatenate([(1 - law.eta) * weights, law.eta * weights])
    return law.location + law._scale * both, shares


def _student_t(law: dist.StudentT) -> Atoms:
    """Return points of Student's t, equally spaced in y with t = sinh(y).

    In y the density falls like e^(-nu |y|).
    """
    nu = law.tail_index
    t = np.sinh(np.linspace(-40, 40, 4 * MOST))
    weights = np.exp(-(nu + 1) / 2 * np.log1p(t**2 / nu)) * np.sqrt(1 + t**2)
    return law.location + law._scale * t, weights / weights.sum()


def _pareto(law: dist.Pareto) -> Atoms:
    """Return points of a Pareto distribution, equally spaced in the logarithm.

    The logarithm of a Pareto variable that starts at 1 is exponential; its mean is a/(a-1).
    """
    a = law.tail_index
    y = (np.arange(4 * MOST) + 0.5) * (10 / MOST)
    weights = np.exp(-y)
    x = law.location + law._scale * (np.exp(y / a) - a / (a - 1))
    return x, weights / weights.sum()


def _people(law: dist.UserMeans) -> Atoms | None:
    """Return points of the mean of m records: binomial for two values, else Gaussian."""
    one = law.of
    if isinstance(one, dist.Gaussian):
        return _gaussian(dist.Gaussian(location=one.location, scale=one._scale / np.sqrt(law.m)))
    if not isinstance(one, dist.Bernoulli | dist.TwoPoint):
        return None
    found = LAWS[type(one)](one)
    assert found is not None
    (low, high), (_, p) = found
    counts, shares = binomial(law.m, float(p))
    return low + (high - low) * counts / law.m, shares


def _log_normal(law: dist.LogNormal) -> Atoms:
    """Return points of a log-normal distribution."""
    z, weights = standard_normal()
    return law.location + law._scale * np.exp(law.sigma * z), weights


LAWS: dict[type[dist.Distribution], Callable[[Any], Atoms | None]] = {
    dist.Bernoulli: lambda law: (np.array([0.0, 1.0]), np.array([1 - law.p, law.p])),
    dist.TwoPoint: lambda law: (
        law.location + np.array([0.0, law.sign * law.tau]),
        np.array([1 - law.p, law.p]),
    ),
    dist.Empirical: lambda law: law._table,
    dist.Gaussian: _gaussian,
    dist.ContaminatedGaussian: _contaminated,
    dist.StudentT: _student_t,
    dist.Pareto: _pareto,
    dist.UserMeans: _people,
    dist.LogNormal: _log_normal,
}


def atoms(law: dist.Distribution) -> Atoms | None:
    """Return points and probabilities, a fine grid for a density; None if they are not known."""
    known = LAWS.get(type(law))
    return known(law) if known else None


def average(
    values: Floats, weights: Floats, n: float, noise: float, most: float = MOST_SKEWED
) -> Atoms | None:
    """Return the distribution of the average of n values, or None if it is not nearly normal.

    It is binomial for two values. By the Edgeworth expansion the skewness and the excess kurtosis
    of the sum measure the distance from a normal distribution.

    Parameters
    ----------
    values, weights : ndarray of shape (m,)
        Values, sorted, and probabilities.
    n : float
        Number of values in the average.
    noise : float
        Variance of noise that is added, which makes the sum more normal.
    most : float, default 0.1
        Largest skewness, and excess kurtosis, that counts as normal.

    Returns
    -------
    tuple of ndarray or None
        Points of the average and their probabilities.
    """
    beyond = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1])
    seen = n * beyond > FAR
    if seen.sum() == 2 and n * weights[~seen].sum() < RARELY * len(weights):
        values, weights = values[seen], weights[seen] / weights[seen].sum()
    mean = float(weights @ values)
    if len(values) == 2:
        s, shares = binomial(n, float(weights[1]))
        return mean + (s / n - weights[1]) * (values[1] - values[0]), shares
    sd = float(np.sqrt(weights @ (values - mean) ** 2 / n))
    away = (values - mean) / n / np.hypot(sd, np.sqrt(noise))  # in standard deviations of the sum
    variance, third, fourth = (float(weights @ away**j) for j in (2, 3, 4))
    if n * max(abs(third), abs(fourth - 3 * variance**2)) > most:
        return None
    z, shares = standard_normal()
    return mean + sd * z, shares


def average_of_few(values: Floats, weights: Floats, n: int, noise: float) -> Atoms:
    """Return the distribution of the average of n increasing values, even if it is skewed.

    If it is not normal it is the n-th power of a Fourier transform. Each value is split between its
    two neighbours on a grid that contains both ends, so that the mean stays. The grid is as long as
    the sum departs from its mean. A scale removes the variance that the split adds.

    Parameters
    ----------
    values, weights : ndarray of shape (m,)
        Values, increasing, and probabilities.
    n : int
        Number of values in the average.
    noise : float
        Variance of noise that is added.

    Returns
    -------
    points, weights : ndarray
        Points of the average and their probabilities.
    """
    known = average(values, weights, n, noise, LITTLE)
    if known is not None:
        return known
    beyond = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1])
    seen = n * beyond > FAR
    values, weights = values[seen], weights[seen] / weights[seen].sum()
    low, high, mean = float(values.min()), float(values.max()), float(weights @ values)
    if low == high:
        return np.array([mean]), np.ones(1)
    variance = float(weights @ (values - mean) ** 2)
    reach = 9 * np.sqrt(n * variance) + 5 * max(high - mean, mean - low)
    cells = int(np.ceil((high - low) * GRID / (2 * reach)))
    step = (high - low) / cells
    place = (values - low) / step
    left = np.minimum(place.astype(int), cells - 1)
    one = np.bincount(left, weights * (left + 1 - place), GRID)
    one += np.bincount(left + 1, weights * (place - left), GRID)
    turned = np.fft.rfft(one)
    power = np.abs(turned) ** n * np.exp(1j * n * np.angle(turned))
    first = int(n * (mean - low) / step) - GRID // 2
    shares = np.maximum(np.roll(np.fft.irfft(power, GRID), -(first % GRID)), 0.0)
    away = (first + np.arange(GRID)) * (step / n) - (mean - low)
    shares, away = shares.reshape(COARSE, -1), away.reshape(COARSE, -1)
    whole = np.maximum(shares.sum(axis=1), 1e-300)
    away, whole = (shares * away).sum(axis=1) / whole, whole / whole.sum()
    away -= whole @ away
    return mean + away * np.sqrt(variance / n / (whole @ away**2)), whole


def finite_atoms(law: dist.Distribution) -> Atoms | None:
    """Return the points of a distribution of finite variance; None if they are not known."""
    return atoms(law) if getattr(law, "tail_index", np.inf) > 2 else None


def median_quantile(values: Floats, weights: Floats, noise: Noise, groups: int) -> float:
    """Return the 0.9 quantile of |V + Z|, or of the |median| of several independent copies.

    The median of an odd number m of copies is below x with probability I_F(x)((m+1)/2, (m+1)/2),
    where I is the regularised incomplete beta function and F(x) = P(V + Z <= x). For an even m the
    mean of the middle two has this distribution up to order 1/m.

    Parameters
    ----------
    values, weights : ndarray of shape (m,)
        Points of V and probabilities.
    noise : Noise
        Z.
    groups : int
        Number of copies; 1 for V + Z itself.

    Returns
    -------
    float
        Quantile, in the unit of the values.
    """
    half = (groups + 1) / 2

    def missing(x: float) -> float:
        # Sums of weights may pass 1 by rounding.
        high, low = (min(1.0, float(weights @ noise.cdf(end - values))) for end in (x, -x))
        return float(betainc(half, half, high) - betainc(half, half, low) - 0.9)

    most = noise.above(0.02) + float(np.max(np.abs(values)))
    return float(brentq(missing, 0.0, most, xtol=1e-12 * most, rtol=1e-7))
