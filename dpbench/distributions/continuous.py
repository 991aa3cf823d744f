"""Continuous distributions: Gaussian, Student's t, Pareto, log-normal, contaminated Gaussian."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Annotated

import numpy as np
from pydantic import Field
from scipy.special import beta, gammaln, hyp1f1, hyp2f1, ndtr, ndtri, stdtr, stdtrit

from dpbench.arrays import Floats
from dpbench.distributions.base import Continuous
from dpbench.registry import validated

__all__ = [
    "ContaminatedGaussian", "Gaussian", "LogNormal", "Pareto", "StudentT", "mixture_quantile",
]  # fmt: skip

BISECTIONS = 64  # halvings that locate a quantile of a mixture to the last digits


def mixture_quantile(
    tail: Callable[..., Floats], t: Floats, one: Floats, other: Floats, *, upper: bool
) -> Floats:
    """Return quantiles of a mixture of two parts, by bisection between quantiles of the parts.

    `tail` returns tail probabilities of the mixture, and t holds tail probabilities in [0, 1]. The
    arrays `one` and `other` are the quantiles of the two parts, infinite in the same places.
    """
    finite = np.isfinite(one)
    low, high = (np.where(finite, end(one, other), 0.0) for end in (np.minimum, np.maximum))
    for _ in range(BISECTIONS):
        middle = low + (high - low) / 2
        # The quantile lies above the middle if the lower tail is too small, or the upper one too
        # large.
        above = (tail(middle, upper=upper) < t) ^ upper
        low, high = np.where(above, middle, low), np.where(above, high, middle)
    return np.where(finite, low, one)


def _gaussian_moment(k: float, mean: float = 0.0, sd: float = 1.0) -> float:
    """Return E|N(mean, sd^2)|^k, by Kummer's function (Winkelbauer, arXiv:1209.4340, eq. 17)."""
    scale = sd**k * np.exp(k / 2 * np.log(2) + gammaln((k + 1) / 2)) / np.sqrt(np.pi)
    return float(scale * hyp1f1(-k / 2, 0.5, -((mean / sd) ** 2) / 2))


@validated
class Gaussian(Continuous):
    """Gaussian (normal) distribution with mean `location` and standard deviation `scale`."""

    _standard_mean = 0.0

    def _standard_moment(self, k: float) -> float:
        return _gaussian_moment(k)

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        return rng.standard_normal(size)

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        return -ndtri(t) if upper else ndtri(t)

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        return ndtr(-z) if upper else ndtr(z)

    def distance_to_gaussian(self, mean: Floats, sd: Floats) -> Floats:
        """Return this distribution's total-variation distances to N(mean, sd^2), in closed form.

        Shift and scale both distributions so that the narrower one becomes N(0, 1). The wider one
        becomes N(delta, r^2), with mean delta and standard deviation r >= 1. The two densities are
        equal at the roots z of a z^2 + b z + c = 0. Here a = 1 - 1/r^2, b = 2 delta/r^2 and
        c = -(delta/r)^2 - 2 ln r. If r = 1, one root is infinite. Each distribution gives the
        interval between the roots a probability; the distance is the difference of the two
        probabilities. The square root of the discriminant b^2 - 4 a c is
        (2/r) sqrt(delta^2 + 2 (r^2 - 1) ln r).
        """
        # Beyond these limits the distance is 1 to all digits, and squares would overflow.
        delta = np.clip((mean - self.location) / self._scale, -1e50, 1e50)
        r = np.clip(sd / self._scale, 1e-50, 1e50)
        delta, r = np.where(r < 1, -delta / r, delta), np.where(r < 1, 1 / r, r)
        with np.errstate(divide="ignore", invalid="ignore"):
            a, b = 1 - 1 / r**2, 2 * delta / r**2
            c = -((delta / r) ** 2) - 2 * np.log(r)
            root = 2 / r * np.sqrt(delta**2 + 2 * (r**2 - 1) * np.log(r))
            q = -(b + np.copysign(root, b)) / 2
            ends = np.stack([q / a, c / q])
            inside = ndtr(ends) - ndtr((ends - delta) / r)
        return np.asarray(np.where((delta == 0) & (r == 1), 0.0, np.abs(inside[0] - inside[1])))


@validated
class StudentT(Continuous):
    """Student's t distribution; its moments of order below `tail_index` exist.

    Parameters
    ----------
    tail_index : float > 1
        Degrees of freedom nu. A smaller value means heavier tails.
    """

    tail_index: Annotated[float, Field(gt=1)]
    _standard_mean = 0.0

    def _standard_moment(self, k: float) -> float:
        nu = self.tail_index
        if k >= nu:
            return float("inf")
        logs = gammaln((k + 1) / 2) + gammaln((nu - k) / 2) - gammaln(nu / 2)
        return float(nu ** (k / 2) * np.exp(logs) / np.sqrt(np.pi))

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        return rng.standard_t(self.tail_index, size)

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        z = np.where(t > 0, stdtrit(self.tail_index, np.where(t > 0, t, 0.5)), -np.inf)
        return -z if upper else z

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        return np.asarray(stdtr(self.tail_index, -z if upper else z), dtype=float)


@validated
class Pareto(Continuous):
    """Pareto distribution of the first kind, moved to mean `location`; skewed to the right.

    With ``location = a/(a - 1)`` it has the textbook density a x^-(a+1) on [1, infinity).

    Parameters
    ----------
    tail_index : float in (1, 1e4]
        Shape a; moments of order below a exist. At 1e4 the distribution is exponential to four
        digits, and the closed form of the moments is still accurate.
    """

    tail_index: Annotated[float, Field(gt=1, le=1e4)]

    @property
    def _standard_mean(self) -> float:
        return 1 / (self.tail_index - 1)  # numpy draws the Pareto distribution that starts at 0

    def _standard_moment(self, k: float) -> float:
        """Return the moment E|Z - E Z|^k in closed form, for a Pareto variable Z >= 0.

        Let a be `tail_index`. The variable x = Z + 1 >= 1 has the density a x^-(a+1) and the mean
        mu = a/(a-1). Let t = x/mu. The moment is a mu^(k-a) times the sum of two integrals over t.
        Above the mean it is int_1^inf (t-1)^k t^-(a+1) dt = B(k+1, a-k), with the beta function B.
        Below the mean, with s = 1 - t and the hypergeometric function 2F1, it is

            int_0^(1/a) s^k (1-s)^-(a+1) ds = a^-(k+1)/(k+1) 2F1(k+1, a+1; k+2; 1/a).
        """
        a = self.tail_index
        if k >= a:
            return float("inf")
        above = beta(k + 1, a - k)
        below = a ** -(k + 1) / (k + 1) * hyp2f1(k + 1, a + 1, k + 2, 1 / a)
        return float(a * (a / (a - 1)) ** (k - a) * (above + below))

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        return rng.pareto(self.tail_index, size)

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        with np.errstate(divide="ignore"):
            return np.expm1(-(np.log(t) if upper else np.log1p(-t)) / self.tail_index)

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        log_upper = -self.tail_index * np.log1p(np.maximum(z, 0.0))
        return np.exp(log_upper) if upper else -np.expm1(log_upper)


@validated
class LogNormal(Continuous):
    """Log-normal distribution of X = location + scale exp(sigma Z), for a standard normal Z.

    The median of X is location + scale.

    Parameters
    ----------
    sigma : float in (0, 5]
        Standard deviation of the logarithm of (X - location)/scale.
    location : float
        Lower end of the distribution, in the unit of the data; not its mean.
    """

    sigma: Annotated[float, Field(gt=0, le=5)] = 1.0
    _standard_centre = 0.0

    @property
    def target(self) -> float:
        return self.mean

    @property
    def _standard_mean(self) -> float:
        return float(np.exp(self.sigma**2 / 2))

    def _standard_moment(self, k: float) -> float:
        """Return the moment E|Z - E Z|^k of the log-normal variable Z = exp(sigma Y).

        Y is standard normal. Quadrature computes the expectation as the sum of two integrals over
        Y, one for Z below its mean and one for Z above it.
        """
        from scipy.integrate import quad

        mean, middle = self._standard_mean, self.sigma / 2
        # The integrand peaks near 0 and k sigma, and is negligible farther than 11 from these.
        ends = (-11.0, middle, k * self.sigma + 11)

        def density(z: float) -> float:
            away = abs(np.expm1(self.sigma * (z - middle)))  # distance from the mean, over the mean
            return float(away**k * np.exp(-(z**2) / 2))

        halves = [
            quad(density, *side, epsabs=0, epsrel=1e-11, limit=200)[0]
            for side in itertools.pairwise(ends)
        ]
        return float(mean**k * sum(halves) / np.sqrt(2 * np.pi))

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        return np.exp(self.sigma * rng.standard_normal(size))

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        return np.exp(self.sigma * (-ndtri(t) if upper else ndtri(t)))

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        with np.errstate(divide="ignore"):
            log = np.log(np.maximum(z, 0.0)) / self.sigma
        return ndtr(-log) if upper else ndtr(log)


@validated
class ContaminatedGaussian(Continuous):
    """Contaminated Gaussian: a mixture of clean records and Gaussian outliers.

    A record is N(location, scale^2) with probability 1 - eta, and otherwise an outlier,
    N(location + gap scale, (spread scale)^2). The value to estimate is the clean mean, `location`.
    The properties `mean` and `variance` and the method `moment` describe the mixture.

    Parameters
    ----------
    eta : float in [0, 1]
        Probability that a record is an outlier.
    gap : float
        Mean of the outliers minus the clean mean, in clean standard deviations.
    spread : float > 0
        Standard deviation of the outliers, in clean standard deviations.
    """

    eta: Annotated[float, Field(ge=0, le=1)]
    gap: float
    spread: Annotated[float, Field(gt=0)] = 1.0
    _standard_centre = 0.0

    @property
    def _standard_mean(self) -> float:
        return self.eta * self.gap

    def _standard_moment(self, k: float) -> float:
        m = self._standard_mean
        clean = _gaussian_moment(k, -m)
        return (1 - self.eta) * clean + self.eta * _gaussian_moment(k, self.gap - m, self.spread)

    def _standard(self, rng: np.random.Generator, size: tuple[int, int]) -> Floats:
        z = rng.standard_normal(size)
        outlier = rng.random(size) < self.eta
        z[outlier] = self.gap + self.spread * z[outlier]
        return z

    def _standard_tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        z = -ndtri(t) if upper else ndtri(t)
        return mixture_quantile(self._standard_tail, t, z, self.gap + self.spread * z, upper=upper)

    def _standard_tail(self, z: Floats, *, upper: bool) -> Floats:
        outlier = (z - self.gap) / self.spread
        sign = -1.0 if upper else 1.0
        return (1 - self.eta) * ndtr(sign * z) + self.eta * ndtr(sign * outlier)
