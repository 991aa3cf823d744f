"""Distributions as weighted points, and distributions of averages of independent records.

A continuous distribution is replaced by a fine grid of points. Arrays `values` and `weights` hold
the points of a distribution and their probabilities; the pair has the type `Atoms`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc

from dpbench import distributions as dist
from dpbench.arrays import Floats
from dpbench.theory.exact.noise import NOISE_GRID_POINTS, Noise, binomial, standard_normal

__all__ = [
    "ATOM_FUNCTIONS", "Atoms", "atoms", "average", "average_of_few", "finite_atoms",
    "median_quantile",
]  # fmt: skip

Atoms = tuple[Floats, Floats]  # points and their probabilities, each of shape (m,)

NEGLIGIBLE_RECORDS = 1e-6  # expected number of records, per value, that counts as none
MAX_SKEWNESS = 0.1  # largest skewness and excess kurtosis that count as normal
TAIL_RECORDS = 1e-5  # expected number of records beyond the grid, on either side
MAX_SKEWNESS_BEFORE_FFT = 0.02  # stricter, because the Fourier transform is the alternative
SUM_POINTS = 2**14  # grid points of a sum of records
COARSE_POINTS = 2**11  # points of the returned distribution


def _gaussian(law: dist.Gaussian) -> Atoms:
    """Return a grid of points for a normal distribution, and their probabilities."""
    z, weights = standard_normal()
    return law.location + law._scale * z, weights


def _contaminated(law: dist.ContaminatedGaussian) -> Atoms:
    """Return points for a mixture of two normal distributions, and their probabilities."""
    z, weights = standard_normal()
    standard_points = np.concatenate([z, law.gap + law.spread * z])
    shares = np.concatenate([(1 - law.eta) * weights, law.eta * weights])
    return law.location + law._scale * standard_points, shares


def _student_t(law: dist.StudentT) -> Atoms:
    """Return a grid of points for Student's t distribution, and their probabilities.

    Let nu be the number of degrees of freedom, and t = sinh(y) a t-distributed variable. The grid
    is equally spaced in y, because the density in y falls exponentially, like e^(-nu |y|).
    """
    nu = law.tail_index
    t = np.sinh(np.linspace(-40, 40, 4 * NOISE_GRID_POINTS))
    weights = np.exp(-(nu + 1) / 2 * np.log1p(t**2 / nu)) * np.sqrt(1 + t**2)
    return law.location + law._scale * t, weights / weights.sum()


def _pareto(law: dist.Pareto) -> Atoms:
    """Return a grid of points for a Pareto distribution, and their probabilities.

    Let W be a Pareto variable with support [1, inf) and tail index a. Then y = a ln(W) is a
    standard exponential variable, and W has the mean a/(a-1). The grid is equally spaced in y. The
    points are W less its mean, scaled and shifted.
    """
    a = law.tail_index
    y = (np.arange(4 * NOISE_GRID_POINTS) + 0.5) * (10 / NOISE_GRID_POINTS)
    weights = np.exp(-y)
    x = law.location + law._scale * (np.exp(y / a) - a / (a - 1))
    return x, weights / weights.sum()


def _user_means(law: dist.UserLevelData) -> Atoms | None:
    """Return the distribution of the mean of one user's m records, as points and probabilities.

    The mean is Gaussian for Gaussian records, and a scaled binomial for records with two values.
    Other distributions of the records give None, and so do people with unequal numbers of records.
    """
    if law.has_rows:
        return None
    record_law = law.of
    if isinstance(record_law, dist.Gaussian):
        return _gaussian(
            dist.Gaussian(location=record_law.location, scale=record_law._scale / np.sqrt(law.m))
        )
    if not isinstance(record_law, dist.Bernoulli | dist.TwoPoint):
        return None
    record_atoms = ATOM_FUNCTIONS[type(record_law)](record_law)
    assert record_atoms is not None
    (low, high), (_, p) = record_atoms
    counts, shares = binomial(law.m, float(p))
    return low + (high - low) * counts / law.m, shares


def _log_normal(law: dist.LogNormal) -> Atoms:
    """Return a grid of points for a log-normal distribution, and their probabilities."""
    z, weights = standard_normal()
    return law.location + law._scale * np.exp(law.sigma * z), weights


def _beta(law: dist.Beta) -> Atoms:
    """Return a grid of quantiles of a beta distribution, of equal probabilities."""
    count = 4 * NOISE_GRID_POINTS
    z = law._standard_tail_quantile((np.arange(count) + 0.5) / count, upper=False)
    return law.location + law._scale * z, np.full(count, 1 / count)


# Functions by class of distribution, from a distribution to its atoms.
ATOM_FUNCTIONS: dict[type[dist.Distribution], Callable[[Any], Atoms | None]] = {
    dist.Bernoulli: lambda law: (np.array([0.0, 1.0]), np.array([1 - law.p, law.p])),
    dist.TwoPoint: lambda law: (
        law.location + np.array([0.0, law.sign * law.tau]),
        np.array([1 - law.p, law.p]),
    ),
    dist.BoundedZipf: lambda law: law.table,
    dist.ZeroTruncatedPoisson: lambda law: law.table,
    dist.Empirical: lambda law: (law._table.values, law._table.weights),
    dist.Gaussian: _gaussian,
    dist.ContaminatedGaussian: _contaminated,
    dist.StudentT: _student_t,
    dist.Pareto: _pareto,
    dist.UserLevelData: _user_means,
    dist.LogNormal: _log_normal,
    dist.Beta: _beta,
}


def atoms(law: dist.Distribution) -> Atoms | None:
    """Return the values that a distribution takes, and their probabilities.

    A fine grid of values stands for a continuous distribution. The result is None for a class of
    distributions without a function in `ATOM_FUNCTIONS`.
    """
    atom_function = ATOM_FUNCTIONS.get(type(law))
    return atom_function(law) if atom_function else None


def average(
    values: Floats, weights: Floats, n: float, noise: float, max_skewness: float = MAX_SKEWNESS
) -> Atoms | None:
    """Return the distribution of an average of n independent values, if it is nearly normal.

    If a value has only two likely outcomes, the average is a scaled binomial, and with one outcome
    it is constant. Otherwise skewness and excess kurtosis of the average plus its noise are
    computed. The average counts as normal if neither of them exceeds `max_skewness` in absolute
    value. Both are the first corrections to a normal distribution in the Edgeworth expansion.

    Parameters
    ----------
    values, weights : ndarray of shape (m,)
        Outcomes of one value in increasing order, and their probabilities.
    n : float
        Number of values in the average.
    noise : float
        Variance of the noise that is added to the average, in the squared unit of the values.
        Noise makes the sum more nearly normal.
    max_skewness : float, default 0.1
        Largest skewness, and largest excess kurtosis, that count as normal.

    Returns
    -------
    tuple of ndarray or None
        Points of the average without noise, and their probabilities. None if the average is not
        nearly normal.
    """
    tail_probability = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1])
    inside = n * tail_probability > TAIL_RECORDS
    if inside.sum() == 2 and n * weights[~inside].sum() < NEGLIGIBLE_RECORDS * len(weights):
        values, weights = values[inside], weights[inside] / weights[inside].sum()
    mean = float(weights @ values)
    if len(values) == 1:
        return values, np.ones(1)
    if len(values) == 2:
        s, shares = binomial(n, float(weights[1]))
        return mean + (s / n - weights[1]) * (values[1] - values[0]), shares
    sd = float(np.sqrt(weights @ (values - mean) ** 2 / n))
    deviations = (values - mean) / n / np.hypot(sd, np.sqrt(noise))  # unit: sd with the noise
    variance, third, fourth = (float(weights @ deviations**j) for j in (2, 3, 4))
    if n * max(abs(third), abs(fourth - 3 * variance**2)) > max_skewness:
        return None
    z, shares = standard_normal()
    return mean + sd * z, shares


def average_of_few(values: Floats, weights: Floats, n: int, noise: float) -> Atoms:
    """Return the distribution of the average of n independent values, even if it is skewed.

    1. If the average is nearly normal, the result of `average` is returned.
    2. Otherwise an equally spaced grid is laid from the smallest value to the largest. The
       probability of each value is split between its two neighbours on the grid. The split
       preserves the mean.
    3. The n-th power of the Fourier transform of these probabilities gives the distribution of the
       sum. The transform is long enough for all likely deviations of the sum from its mean.
    4. A change of scale removes the variance that the split of step 2 adds.

    Parameters
    ----------
    values, weights : ndarray of shape (m,)
        Outcomes of one value in increasing order, and their probabilities.
    n : int
        Number of values in the average.
    noise : float
        Variance of the noise that is added to the average, in the squared unit of the values.

    Returns
    -------
    points, weights : ndarray
        Points of the average without noise, and their probabilities.
    """
    nearly_normal = average(values, weights, n, noise, MAX_SKEWNESS_BEFORE_FFT)
    if nearly_normal is not None:
        return nearly_normal
    tail_probability = np.minimum(np.cumsum(weights), np.cumsum(weights[::-1])[::-1])
    inside = n * tail_probability > TAIL_RECORDS
    values, weights = values[inside], weights[inside] / weights[inside].sum()
    low, high, mean = float(values.min()), float(values.max()), float(weights @ values)
    if low == high:
        return np.array([mean]), np.ones(1)
    variance = float(weights @ (values - mean) ** 2)
    reach = 9 * np.sqrt(n * variance) + 5 * max(high - mean, mean - low)
    cells = int(np.ceil((high - low) * SUM_POINTS / (2 * reach)))
    step = (high - low) / cells
    positions = (values - low) / step
    left = np.minimum(positions.astype(int), cells - 1)
    value_shares = np.bincount(left, weights * (left + 1 - positions), SUM_POINTS)
    value_shares += np.bincount(left + 1, weights * (positions - left), SUM_POINTS)
    transform = np.fft.rfft(value_shares)
    power = np.abs(transform) ** n * np.exp(1j * n * np.angle(transform))
    first_cell = int(n * (mean - low) / step) - SUM_POINTS // 2
    shares = np.maximum(np.roll(np.fft.irfft(power, SUM_POINTS), -(first_cell % SUM_POINTS)), 0.0)
    offsets = (first_cell + np.arange(SUM_POINTS)) * (step / n) - (mean - low)
    shares, offsets = shares.reshape(COARSE_POINTS, -1), offsets.reshape(COARSE_POINTS, -1)
    coarse_shares = np.maximum(shares.sum(axis=1), 1e-300)
    offsets, coarse_shares = (
        (shares * offsets).sum(axis=1) / coarse_shares,
        coarse_shares / coarse_shares.sum(),
    )
    offsets -= coarse_shares @ offsets
    return mean + offsets * np.sqrt(variance / n / (coarse_shares @ offsets**2)), coarse_shares


def finite_atoms(law: dist.Distribution) -> Atoms | None:
    """Return the values of a distribution of finite variance, and their probabilities.

    A fine grid of values stands for a continuous distribution. The result is None if the variance
    is infinite, or if `atoms` has no formula for the distribution.
    """
    return atoms(law) if getattr(law, "tail_index", np.inf) > 2 else None


def median_quantile(values: Floats, weights: Floats, noise: Noise, groups: int) -> float:
    """Return the 0.9 quantile of |M|, where M is the median of independent copies of V + Z.

    V is a random number with given points and probabilities, and Z is noise. Let F be the
    distribution function of V + Z, and m the number of copies. Let I_p(a, b) be the regularised
    incomplete beta function.

    - For odd m, P(M <= x) = I_p((m+1)/2, (m+1)/2) with p = F(x).
    - For even m, M is the mean of the two middle copies. The function uses the formula for odd m,
      with an error of order 1/m.

    Parameters
    ----------
    values, weights : ndarray of shape (k,)
        Points of V, and their probabilities.
    noise : Noise
        Z, independent of V.
    groups : int >= 1
        Number m of copies; 1 for V + Z itself.

    Returns
    -------
    float
        Quantile, in the unit of the values.
    """
    half = (groups + 1) / 2

    def excess(x: float) -> float:
        # Sums of weights may exceed 1 by rounding.
        high, low = (min(1.0, float(weights @ noise.cdf(end - values))) for end in (x, -x))
        return float(betainc(half, half, high) - betainc(half, half, low) - 0.9)

    upper_end = noise.isf(0.02) + float(np.max(np.abs(values)))
    return float(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end, rtol=1e-7))
