"""Distributions of additive noise, from their definitions and not from the code that draws it.

Noise vectors of d coordinates have independent coordinates, or (`Radial`) a radius of Gamma(d) and
a uniform direction (HT10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache

import numpy as np
from scipy.special import chdtr, chdtri, erfc, erfcx, gammainccinv, gammaln, ndtr, ndtri, wofz

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP

__all__ = [
    "MOST", "Gaussian", "Laplace", "Noise", "Radial", "Staircase", "additive", "binomial",
    "concentrated", "standard_normal",
]  # fmt: skip

MOST = 4001  # grid points for a continuous distribution


class Noise(ABC):
    """Symmetric distribution of a number Z, and of the norm of d independent copies."""

    @abstractmethod
    def cdf(self, x: Floats) -> Floats:
        """Return P(Z <= x)."""

    @abstractmethod
    def above(self, upper: float) -> float:
        """Return the point that Z exceeds with probability `upper` <= 1/2."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of one coordinate."""

    @abstractmethod
    def distance(self, c: Floats) -> Floats:
        """Return E|c + Z|."""

    def norm_quantile(self, d: int, q: float) -> float:
        """Return the q quantile of the norm of d coordinates.

        Parameters
        ----------
        d : int
            Number of coordinates.
        q : float
            Probability.

        Returns
        -------
        float
            Quantile; NaN if it is not known.
        """
        return self.above((1 - q) / 2) if d == 1 else float("nan")

    def norm_cdf(self, d: int, x: Floats) -> Floats:
        """Return P(norm <= x) for the norm of d coordinates.

        Parameters
        ----------
        d : int
            Number of coordinates.
        x : ndarray
            Norms.

        Returns
        -------
        ndarray of the shape of x
            Probabilities; NaN if they are not known.
        """
        return np.full_like(x, np.nan)

    def norm_mean(self, d: int) -> float:
        """Return the mean norm of d coordinates; NaN if it is not known."""
        return float("nan")


@dataclass(frozen=True)
class Gaussian(Noise):
    """Gaussian noise N(0, sd^2), whose norm is chi-distributed.

    Parameters
    ----------
    sd : float
        Standard deviation.
    """

    sd: float

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(ndtr(x / self.sd))

    def above(self, upper: float) -> float:
        return float(-self.sd * ndtri(upper))

    @property
    def variance(self) -> float:
        return self.sd * self.sd  # may overflow, to infinity

    def distance(self, c: Floats) -> Floats:
        z = np.abs(c) / self.sd
        density = np.exp(-(z**2) / 2) / np.sqrt(2 * np.pi)
        return np.asarray(self.sd * (2 * density + z * (1 - 2 * ndtr(-z))))

    def norm_quantile(self, d: int, q: float) -> float:
        return float(self.sd * np.sqrt(chdtri(d, 1 - q)))

    def norm_cdf(self, d: int, x: Floats) -> Floats:
        return np.asarray(chdtr(d, (x / self.sd) ** 2))

    def norm_mean(self, d: int) -> float:
        return float(self.sd * np.sqrt(2) * np.exp(gammaln((d + 1) / 2) - gammaln(d / 2)))


@dataclass(frozen=True)
class Laplace(Noise):
    """Laplace noise of density exp(-|z|/scale)/(2 scale).

    At scale 1 and Re s >= 0, E exp(-s Z^2) = m(s) = sqrt(pi/(4s)) erfcx(1/(2 sqrt(s))). The squared
    norm Q of d coordinates has the transform m(s)^d.

    Parameters
    ----------
    scale : float
        Scale, the mean absolute value.
    """

    scale: float

    def cdf(self, x: Floats) -> Floats:
        tail = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def above(self, upper: float) -> float:
        return float(-self.scale * np.log(2 * upper))

    @property
    def variance(self) -> float:
        return 2 * self.scale * self.scale

    def distance(self, c: Floats) -> Floats:
        return np.asarray(np.abs(c) + self.scale * np.exp(-np.abs(c) / self.scale))

    def norm_quantile(self, d: int, q: float) -> float:
        return self.scale * _laplace_norm_quantile(d, q)

    def norm_cdf(self, d: int, x: Floats) -> Floats:
        return np.asarray(np.interp(x / self.scale, *_laplace_norm_levels(d)))

    def norm_mean(self, d: int) -> float:
        """Return E sqrt(Q) = int_0^inf (1 - m(s)^d) s^(-3/2) ds/(2 sqrt(pi))."""
        u = np.linspace(-30, 70, 20_001)  # s = e^u; rounding errors would add up below -30
        root = np.exp(u / 2)
        less = -np.expm1(d * np.log(np.sqrt(np.pi) / (2 * root) * erfcx(0.5 / root)))
        return float(self.scale * np.sum(less / root) * (u[1] - u[0]) / (2 * np.sqrt(np.pi)))


@cache
def _laplace_norm_quantile(d: int, q: float) -> float:
    """Return the q quantile of the norm at scale 1, by inverting `_laplace_square`."""
    if d == 1:
        return float(-np.log(1 - q))
    from scipy.optimize import brentq  # a slow import

    below = _laplace_square(d)
    return float(np.sqrt(brentq(lambda x: below(x) - q, 0.01 * d, 2 * d + 100 * np.sqrt(d))))


def _laplace_square(d: int) -> Callable[[float], float]:
    """Return the distribution function of Q at scale 1.

    By Gil-Pelaez inversion, P(Q <= x) = 1/2 - int_0^inf Im(e^(-itx) m(-it)^d)/t dt/pi.
    """
    # |m(-it)| is at most sqrt(pi/(4t)), and E Q = 2d.
    end = min(3000.0, np.pi / 4 * 1e24 ** (1 / d))
    t = (np.arange(200_000) + 0.5) * (end / 200_000)
    root = np.sqrt(-1j * t)
    transform = (np.sqrt(np.pi) / (2 * root) * wofz(0.5j / root)) ** d

    def below(x: float) -> float:
        area = np.sum((np.exp(-1j * t * x) * transform).imag / t) * end / t.size
        return float(0.5 - area / np.pi)

    return below


@cache
def _laplace_norm_levels(d: int) -> tuple[Floats, Floats]:
    """Return norms at scale 1 and the probabilities that they are not exceeded."""
    x = np.linspace(0, np.sqrt(2 * d) + 15, 150)
    below = _laplace_square(d)
    return x, np.array([below(one) for one in x**2]) if d > 1 else -np.expm1(-x)


@dataclass(frozen=True)
class Radial(Laplace):
    """Noise vector of density proportional to exp(-|z|_2/scale)."""

    def norm_quantile(self, d: int, q: float) -> float:
        return float(self.scale * gammainccinv(d, 1 - q))

    def norm_mean(self, d: int) -> float:
        return d * self.scale


@dataclass(frozen=True)
class Staircase(Noise):
    """Staircase noise of GV14, for one number (theorem number not checked).

    With b = e^-epsilon and g = 1/(1 + e^(epsilon/2)), and in units of the sensitivity, X = +-(G +
    V): G is geometric, P(G >= k) = b^k, and V in [0, 1) has density 1/D on [0, g) and b/D on [g,
    1), where D = g + (1-g) b (`whole`).

    Parameters
    ----------
    epsilon : float
        Privacy parameter.
    sensitivity : float
        Sensitivity of the number.
    """

    epsilon: float
    sensitivity: float

    @property
    def _shape(self) -> tuple[float, float, float]:
        """Tuple (g, b, D)."""
        g, b = float(1 / (1 + np.exp(self.epsilon / 2))), float(np.exp(-self.epsilon))
        return g, b, g + (1 - g) * b

    def cdf(self, x: Floats) -> Floats:
        g, b, whole = self._shape
        k = np.floor(np.abs(x) / self.sensitivity)
        v = np.abs(x) / self.sensitivity - k
        below = (np.minimum(v, g) + b * np.maximum(v - g, 0.0)) / whole
        tail = 0.5 * b**k * (1 - (1 - b) * below)
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def above(self, upper: float) -> float:
        from scipy.optimize import brentq  # a slow import

        most = self.sensitivity * (2 - np.log(2 * upper) / self.epsilon)
        missing = lambda x: float(self.cdf(np.asarray(-x))) - upper  # noqa: E731
        return float(brentq(missing, 0.0, most, xtol=1e-14 * most, rtol=1e-14))

    @property
    def variance(self) -> float:
        g, b, whole = self._shape
        first, second = b / (1 - b), b * (1 + b) / (1 - b) ** 2  # moments of G
        one = (g**2 + b * (1 - g**2)) / (2 * whole)  # moments of V
        two = (g**3 + b * (1 - g**3)) / (3 * whole)
        return self.sensitivity**2 * (second + 2 * first * one + two)

    def distance(self, c: Floats) -> Floats:
        """Return E|c + X| = |c| + 2 int_|c|^inf P(X > u) du."""
        g, b, whole = self._shape
        k = np.floor(np.abs(c) / self.sensitivity)
        v = np.abs(c) / self.sensitivity - k

        def area(v: Floats) -> Floats:
            """Return the integral of P(V > u) (1 - b) + b over [0, v]."""
            low, high = np.minimum(v, g), np.maximum(v - g, 0.0)
            lost = low**2 / 2 + high * g + b * high**2 / 2
            return np.asarray(v - (1 - b) / whole * lost)

        rest = b**k * (area(np.ones(1)) - area(v) + b / (1 - b) * area(np.ones(1)))
        return np.asarray(np.abs(c) + self.sensitivity * rest)


@cache
def _gaussian_sd(epsilon: float, delta: float) -> float:
    """Return the smallest sufficient sd s at sensitivity 1 (BW18, Theorem 8; number not checked).

    s solves Phi(-a) - e^epsilon Phi(-b) = delta with a = epsilon s - 1/(2s), b = epsilon s +
    1/(2s). Because b^2/2 = a^2/2 + epsilon, both terms are e^(-a^2/2) times an erfcx.
    """
    from scipy.optimize import brentq  # a slow import

    def excess(log_sd: float) -> float:
        s, root = float(np.exp(log_sd)), float(np.sqrt(2))
        a, b = epsilon * s - 0.5 / s, epsilon * s + 0.5 / s
        if a > 0:
            log_delta = np.log((erfcx(a / root) - erfcx(b / root)) / 2) - a * a / 2
        else:
            log_delta = np.log((erfc(a / root) - np.exp(-a * a / 2) * erfcx(b / root)) / 2)
        return float(log_delta - np.log(delta))

    enough = 10 * np.sqrt(np.log(2 / delta)) / min(epsilon, 1.0)
    return float(np.exp(brentq(excess, np.log(0.01 / np.sqrt(1 + epsilon)), np.log(enough))))


def additive(budget: Budget, l1: float, l2: float) -> Noise:
    """Return the noise of each coordinate of a quantity with these sensitivities.

    Pure DP: Laplace noise of scale l1/epsilon, or a staircase for a single number. zCDP:
    N(0, l2^2/(2 rho)). GDP: N(0, (l2/mu)^2). (epsilon, delta): N(0, l2^2 s^2) with the smallest
    sufficient s, or the Laplace noise above if its variance is smaller; on request (`noise_by`)
    with s = sqrt(2 ln(c/delta))/epsilon, c = 1.25 (classical) or 2 (KSU20, Lemma 2.8).

    Parameters
    ----------
    budget : Budget
        Privacy guarantee.
    l1, l2 : float
        Sensitivities in the l1 and the l2 norm.

    Returns
    -------
    Noise
        Noise of one coordinate.

    Raises
    ------
    TypeError
        If the budget is not private.
    """
    if isinstance(budget, ZCDP):
        return Gaussian(l2 / float(np.sqrt(2 * budget.rho)))
    if isinstance(budget, GDP):
        return Gaussian(l2 / budget.mu)
    if isinstance(budget, PureDP) and budget.noise_by == "staircase" and l1 == l2:
        return Staircase(budget.epsilon, l1)
    if isinstance(budget, PureDP) or (
        isinstance(budget, ApproxDP) and budget.noise_by == "laplace"
    ):
        return Laplace(l1 / budget.pure_epsilon)
    if not isinstance(budget, ApproxDP):
        raise TypeError(f"{budget} adds no noise")
    if budget.noise_by in ("best", "analytic"):
        gaussian = Gaussian(l2 * _gaussian_sd(budget.epsilon, budget.delta))
        laplace = Laplace(l1 / budget.epsilon)
        quieter = laplace.variance <= gaussian.variance
        return laplace if quieter and budget.noise_by == "best" else gaussian
    factor = {"classical": 1.25, "ksu20": 2.0}[budget.noise_by]
    return Gaussian(l2 * float(np.sqrt(2 * np.log(factor / budget.delta))) / budget.epsilon)


def concentrated(budget: Budget) -> ZCDP:
    """Return the zCDP budget itself, that of GDP noise, or the largest within (epsilon, delta)."""
    if isinstance(budget, ApproxDP):
        return ZCDP.within(budget)
    if isinstance(budget, GDP):
        return ZCDP(budget.mu**2 / 2)
    assert isinstance(budget, ZCDP)
    return budget


def standard_normal() -> tuple[Floats, Floats]:
    """Return points and probabilities of a grid for N(0, 1)."""
    z = np.linspace(-10, 10, MOST)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


def binomial(n: float, p: float) -> tuple[Floats, Floats]:
    """Return counts and probabilities of Binomial(n, p); the normal approximation if it is long.

    Parameters
    ----------
    n : float
        Number of draws.
    p : float
        Probability.

    Returns
    -------
    counts, weights : ndarray of shape (m,)
        Support, up to negligible tails, and probabilities.
    """
    if p in (0.0, 1.0):
        return np.array([n * p]), np.ones(1)
    spread = float(np.sqrt(n * p * (1 - p)))
    reach = 10 * spread + 30
    low, high = max(0.0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach))
    if high - low >= MOST:
        z, weights = standard_normal()
        return n * p + spread * z, weights
    s = np.arange(low, high + 1)
    # P(s + 1)/P(s) = (n - s)/(s + 1) p/(1 - p): no difference of large logarithms of factorials.
    steps = np.log((n - s[:-1]) / (s[:-1] + 1)) + np.log(p) - np.log1p(-p)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return s, weights / weights.sum()
