"""Distributions of additive noise, from their definitions and not from the code that draws it.

A noise vector has d independent coordinates. Only the vectors of `Radial` and `Cube` have dependent
coordinates (Hardt and Talwar, HT10).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from typing import ClassVar

import numpy as np
from scipy.special import (
    chdtr,
    chdtri,
    erfc,
    erfcx,
    gammainc,
    gammaincc,
    gammainccinv,
    gammaln,
    ndtr,
    ndtri,
    wofz,
)

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP

__all__ = [
    "NOISE_GRID_POINTS", "Cube", "GaussianNoise", "Laplace", "LaplaceSum", "Noise", "Radial",
    "Staircase", "Tulap", "additive", "binomial", "box_noise", "concentrated", "standard_normal",
]  # fmt: skip

NOISE_GRID_POINTS = 4001  # grid points for a continuous distribution


class Noise(ABC):
    """Distribution of additive noise Z, and of the norm of d independent copies of Z."""

    @abstractmethod
    def cdf(self, x: Floats) -> Floats:
        """Return P(Z <= x) for the noise Z and every point x."""

    @abstractmethod
    def isf(self, upper: float) -> float:
        """Return the point that the noise exceeds with probability `upper` <= 1/2."""

    @property
    @abstractmethod
    def variance(self) -> float:
        """Variance of the noise of one coordinate."""

    @abstractmethod
    def distance(self, c: Floats) -> Floats:
        """Return E|c + Z| for the noise Z and every shift c."""

    def norm_quantile(self, d: int, q: float) -> float:
        """Return the q quantile of the l2 norm of a noise vector of d coordinates.

        Parameters
        ----------
        d : int
            Number of coordinates.
        q : float in (0, 1)
            Probability.

        Returns
        -------
        float
            Quantile; NaN if no formula is implemented.
        """
        return self.isf((1 - q) / 2) if d == 1 else float("nan")

    def norm_cdf(self, d: int, x: Floats) -> Floats:
        """Return the probability that the l2 norm of a noise vector of d coordinates is at most x.

        Parameters
        ----------
        d : int
            Number of coordinates.
        x : ndarray
            Norms.

        Returns
        -------
        ndarray of the shape of x
            Probabilities; NaN if no formula is implemented.
        """
        if d == 1:
            return self.cdf(x) - self.cdf(-x)
        return np.full_like(x, np.nan)

    def norm_mean(self, d: int) -> float:
        """Return the mean l2 norm of a noise vector of d coordinates; NaN without a formula."""
        return float("nan")

    def norm_rms(self, d: int) -> float:
        """Return the root mean square of the l2 norm of a noise vector of d coordinates."""
        return float(np.sqrt(d * self.variance))


@dataclass(frozen=True)
class GaussianNoise(Noise):
    """Gaussian noise N(0, sd^2); the norm of a vector of such noise is sd times a chi variable.

    Parameters
    ----------
    sd : float
        Standard deviation.
    """

    sd: float

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(ndtr(x / self.sd))

    def isf(self, upper: float) -> float:
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

    At scale 1 let m(s) = E exp(-s Z^2) be the Laplace transform of the squared noise, for complex s
    with Re s >= 0. It equals sqrt(pi/(4s)) erfcx(1/(2 sqrt(s))). Let Q be the squared norm of d
    independent coordinates. Its Laplace transform is m(s)^d.

    Parameters
    ----------
    scale : float > 0
        Mean absolute value.
    """

    scale: float

    def cdf(self, x: Floats) -> Floats:
        tail = 0.5 * np.exp(-np.abs(x) / self.scale)
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def isf(self, upper: float) -> float:
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
        """Return the mean l2 norm of a Laplace noise vector of d coordinates.

        At scale 1 let m(s) = E exp(-s Z^2) for the noise Z of one coordinate. Then the mean norm is
        int_0^inf (1 - m(s)^d) s^(-3/2) ds/(2 sqrt(pi)).
        """
        u = np.linspace(-30, 70, 20_001)  # u = ln s; below -30 rounding errors would add up
        root = np.exp(u / 2)
        less = -np.expm1(d * np.log(np.sqrt(np.pi) / (2 * root) * erfcx(0.5 / root)))
        return float(self.scale * np.sum(less / root) * (u[1] - u[0]) / (2 * np.sqrt(np.pi)))


@cache
def _laplace_norm_quantile(d: int, q: float) -> float:
    """Return the q quantile of the l2 norm of d independent Laplace numbers of scale 1."""
    if d == 1:
        return float(-np.log(1 - q))
    from scipy.optimize import brentq

    below = _laplace_square(d)
    return float(np.sqrt(brentq(lambda x: below(x) - q, 0.01 * d, 2 * d + 100 * np.sqrt(d))))


def _laplace_square(d: int) -> Callable[[float], float]:
    """Return the distribution function of the sum Q of the squares of d Laplace numbers of scale 1.

    Let m(s) = E exp(-s Z^2) for one Laplace number Z. Then Gil-Pelaez inversion gives P(Q <= x) =
    1/2 - int_0^inf Im(e^(-itx) m(-it)^d)/t dt/pi, where i is the imaginary unit.
    """
    # The integrand is negligible beyond `end`, because |m(-it)| is at most sqrt(pi/(4t)).
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
    """Return 150 norms x, and P(norm <= x) for the norm of d Laplace numbers of scale 1.

    The norms are equally spaced from 0 to a norm that is hardly ever exceeded.
    """
    x = np.linspace(0, np.sqrt(2 * d) + 15, 150)
    below = _laplace_square(d)
    return x, np.array([below(square) for square in x**2]) if d > 1 else -np.expm1(-x)


@dataclass(frozen=True)
class LaplaceSum(Noise):
    """Sum of independent Laplace variables of different scales.

    Its characteristic function is the product of the 1/(1 + b_i^2 t^2). Partial fractions in t^2
    make it the sum of the A_i/(1 + b_i^2 t^2), where A_i is the product of the b_i^2/(b_i^2 -
    b_j^2) over j != i. So the distribution is a mixture of Laplace distributions, whose weights A_i
    add up to 1 but may be negative. Scales that are nearly equal are moved apart by `SPREAD`.

    Parameters
    ----------
    scales : tuple of float > 0
        Scales of the variables.
    """

    SPREAD: ClassVar[float] = 1e-4  # relative; moves a quantile by about as much

    scales: tuple[float, ...]

    @property
    def _mixture(self) -> Iterator[tuple[float, Laplace]]:
        """Yield the weight A_i and the Laplace distribution of each scale."""
        apart = list[float]()
        for scale in sorted(self.scales):
            apart.append(max(scale, apart[-1] * (1 + self.SPREAD)) if apart else scale)
        squares = np.square(apart)
        for i, scale in enumerate(apart):
            others = np.delete(squares, i)
            yield float(np.prod(squares[i] / (squares[i] - others))), Laplace(scale)

    def cdf(self, x: Floats) -> Floats:
        return np.asarray(sum(weight * part.cdf(x) for weight, part in self._mixture))

    def isf(self, upper: float) -> float:
        from scipy.optimize import brentq

        # One of the m variables exceeds its share of the sum of these quantiles.
        largest = 1.1 * sum(Laplace(b).isf(upper / len(self.scales)) for b in self.scales)
        excess = lambda x: 1 - float(self.cdf(np.array(x))) - upper  # noqa: E731
        return float(brentq(excess, 0.0, largest, xtol=1e-14 * largest))

    @property
    def variance(self) -> float:
        return 2 * float(np.sum(np.square(self.scales)))

    def distance(self, c: Floats) -> Floats:
        return np.asarray(sum(weight * part.distance(c) for weight, part in self._mixture))


@dataclass(frozen=True)
class Radial(Laplace):
    """Noise vector z of density proportional to exp(-|z|/scale), where |z| is the l2 norm."""

    def norm_quantile(self, d: int, q: float) -> float:
        return float(self.scale * gammainccinv(d, 1 - q))

    def norm_mean(self, d: int) -> float:
        return d * self.scale

    def norm_rms(self, d: int) -> float:
        return float(np.sqrt(d * (d + 1))) * self.scale


@dataclass(frozen=True)
class Cube(Noise):
    """Noise vector z of density proportional to exp(-max_j |z_j|/scale), in d >= 2 coordinates.

    In units of the scale, z is a Gamma(d + 1) number times a uniform point of the cube [-1, 1]^d.
    Its max norm r is a Gamma(d) number. Given r, a coordinate is r in absolute value with
    probability 1/d, and else uniform on [-r, r]. Let Q(k, x) be the probability that a Gamma(k)
    number exceeds x. So a coordinate exceeds x >= 0 with probability
    (Q(d, x) - x Q(d - 1, x)/d)/2.

    Parameters
    ----------
    scale : float > 0
        Sensitivity in the max norm over epsilon.
    d : int >= 2
        Number of coordinates.
    """

    scale: float
    d: int

    def _tail(self, x: Floats) -> Floats:
        """Return the probability that a coordinate exceeds x >= 0, for a scale of 1."""
        return np.asarray((gammaincc(self.d, x) - x / self.d * gammaincc(self.d - 1, x)) / 2)

    def cdf(self, x: Floats) -> Floats:
        tail = self._tail(np.abs(x) / self.scale)
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def isf(self, upper: float) -> float:
        from scipy.optimize import brentq

        end = float(gammainccinv(self.d, upper)) + 1.0
        excess = lambda x: float(self._tail(np.asarray(x))) - upper  # noqa: E731
        return self.scale * float(brentq(excess, 0.0, end, xtol=1e-14 * end, rtol=1e-14))

    @property
    def variance(self) -> float:
        return (self.d + 1) * (self.d + 2) / 3 * self.scale**2

    def distance(self, c: Floats) -> Floats:
        """Return E|c + Z| for a coordinate Z and every shift c.

        It is |c| plus twice the integral of the tail from |c| on. With a = |c|, the integrals of
        Q(d, x) and x Q(d - 1, x) are d Q(d + 1, a) - a Q(d, a) and
        (d (d - 1) Q(d + 1, a) - a^2 Q(d - 1, a))/2.
        """
        d, a = self.d, np.abs(c) / self.scale
        below, same, above = (gammaincc(k, a) for k in (d - 1, d, d + 1))
        first = d * above - a * same
        second = (d * (d - 1) * above - a**2 * below) / 2
        return np.asarray(np.abs(c) + self.scale * (first - second / d))

    def norm_quantile(self, d: int, q: float) -> float:
        return self.scale * _cube_norm_quantile(self.d, q) if d == self.d else float("nan")

    def norm_cdf(self, d: int, x: Floats) -> Floats:
        return np.interp(x / self.scale, *_cube_norm_levels(self.d)) if d == self.d else x * np.nan

    def norm_mean(self, d: int) -> float:
        squares, weights = _cube_squares(self.d)
        mean = (self.d + 1) * self.scale * float(weights @ np.sqrt(squares))
        return mean if d == self.d else float("nan")


@cache
def _cube_squares(d: int) -> tuple[Floats, Floats]:
    """Return values for the squared norm of a uniform point of [-1, 1]^d, and their probabilities.

    The square of a coordinate has the distribution function sqrt(u) on [0, 1]. Its mass is put on
    the points of a grid, in such a way that all means over intervals between points are kept. Then
    the masses are convolved d times.
    """
    size = 2**13
    u = np.linspace(-1, size, size + 2) * (d / (size - 1))
    integral = 2 / 3 * np.clip(u, 0, 1) ** 1.5 + np.maximum(u - 1, 0)
    masses = np.diff(integral, 2) / (u[1] - u[0])
    # The sum is at most d, so nothing is wrapped around.
    weights = np.fft.irfft(np.fft.rfft(masses, 2 * size) ** d, 2 * size)[:size]
    kept = weights > 1e-15
    return u[1:-1][kept], np.asarray(weights[kept] / weights[kept].sum(), dtype=float)


def _cube_norm_cdf(d: int, x: float) -> float:
    """Return P(|z| <= x) for the l2 norm |z| of the noise of a cube of scale 1."""
    squares, weights = _cube_squares(d)
    return float(weights @ gammainc(d + 1, x / np.sqrt(np.maximum(squares, 1e-300))))


@cache
def _cube_norm_quantile(d: int, q: float) -> float:
    """Return the q quantile of the l2 norm of the noise of a cube of scale 1."""
    from scipy.optimize import brentq

    end = float(np.sqrt(d) * gammainccinv(d + 1, (1 - q) / 2)) + 1.0
    return float(brentq(lambda x: _cube_norm_cdf(d, x) - q, 0.0, end))


@cache
def _cube_norm_levels(d: int) -> tuple[Floats, Floats]:
    """Return 150 norms x, and P(norm <= x) for the noise of a cube of scale 1.

    The norms are equally spaced from 0 to a norm that is hardly ever exceeded.
    """
    x = np.linspace(0, float(np.sqrt(d) * gammainccinv(d + 1, 1e-7)), 150)
    return x, np.array([_cube_norm_cdf(d, float(norm)) if norm else 0.0 for norm in x])


@dataclass(frozen=True)
class Staircase(Noise):
    """Staircase noise of one number (Geng and Viswanath, GV14, theorem number not checked).

    Let b = e^-epsilon and g = 1/(1 + e^(epsilon/2)). In units of the sensitivity the noise is X =
    +-(G + V), with a random sign, a geometric number G and a fraction V. These three are
    independent. P(G >= k) = b^k for integers k >= 0. V has density 1/D on [0, g) and b/D on [g, 1),
    where D = g + (1-g) b.

    Parameters
    ----------
    epsilon : float > 0
        Privacy parameter.
    sensitivity : float > 0
        Sensitivity of the number.
    """

    epsilon: float
    sensitivity: float

    @property
    def _shape(self) -> tuple[float, float, float]:
        """Numbers g = 1/(1 + e^(epsilon/2)), b = e^-epsilon, and D = g + (1-g) b of the density."""
        g, b = float(1 / (1 + np.exp(self.epsilon / 2))), float(np.exp(-self.epsilon))
        return g, b, g + (1 - g) * b

    def cdf(self, x: Floats) -> Floats:
        g, b, whole = self._shape
        k = np.floor(np.abs(x) / self.sensitivity)
        v = np.abs(x) / self.sensitivity - k
        below = (np.minimum(v, g) + b * np.maximum(v - g, 0.0)) / whole
        tail = 0.5 * b**k * (1 - (1 - b) * below)
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def isf(self, upper: float) -> float:
        from scipy.optimize import brentq

        upper_end = self.sensitivity * (2 - np.log(2 * upper) / self.epsilon)
        excess = lambda x: float(self.cdf(np.asarray(-x))) - upper  # noqa: E731
        return float(brentq(excess, 0.0, upper_end, xtol=1e-14 * upper_end, rtol=1e-14))

    @property
    def variance(self) -> float:
        g, b, whole = self._shape
        first, second = b / (1 - b), b * (1 + b) / (1 - b) ** 2  # moments of G
        first_v = (g**2 + b * (1 - g**2)) / (2 * whole)  # moments of V
        second_v = (g**3 + b * (1 - g**3)) / (3 * whole)
        return self.sensitivity**2 * (second + 2 * first * first_v + second_v)

    def distance(self, c: Floats) -> Floats:
        """Return E|c + X| for the noise X and every shift c.

        It is |c| + 2 int_|c|^inf P(X > u) du, because X is symmetric.
        """
        g, b, whole = self._shape
        k = np.floor(np.abs(c) / self.sensitivity)
        v = np.abs(c) / self.sensitivity - k

        def area(v: Floats) -> Floats:
            """Return the integral of (1 - b) P(V > u) + b over u in [0, v].

            V is the fractional part of |X| in units of the sensitivity, and b is e^-epsilon.
            """
            low, high = np.minimum(v, g), np.maximum(v - g, 0.0)
            lost = low**2 / 2 + high * g + b * high**2 / 2
            return np.asarray(v - (1 - b) / whole * lost)

        rest = b**k * (area(np.ones(1)) - area(v) + b / (1 - b) * area(np.ones(1)))
        return np.asarray(np.abs(c) + self.sensitivity * rest)


@dataclass(frozen=True)
class Tulap(Noise):
    """Tulap noise of one number (Awan and Slavkovic, AS18, theorem number not checked).

    Let b = e^-epsilon, and let N = G - H + U with independent geometric numbers G and H,
    P(G >= k) = b^k, and U uniform on [-1/2, 1/2]. With q = 2 delta b/(1 - b + 2 delta b) the noise
    is N given that N is between its q/2 and 1 - q/2 quantiles, in units of the sensitivity.

    Parameters
    ----------
    epsilon : float > 0
        Privacy parameter.
    delta : float in (0, 1)
        Privacy parameter.
    sensitivity : float > 0
        Sensitivity of the number.
    """

    epsilon: float
    delta: float
    sensitivity: float

    @property
    def _tail(self) -> tuple[Floats, Floats]:
        """Points from 0 on between which the tail probability is linear, and its values there."""
        x, tail = _tulap_tail(self.epsilon, self.delta)
        return self.sensitivity * x, tail

    def cdf(self, x: Floats) -> Floats:
        tail = np.interp(np.abs(x), *self._tail)
        return np.asarray(np.where(x < 0, tail, 1 - tail))

    def isf(self, upper: float) -> float:
        x, tail = self._tail
        return float(np.interp(upper, tail[::-1], x[::-1]))

    @property
    def variance(self) -> float:
        x, tail = self._tail  # E X^2 = 4 int_0^inf x P(X > x) dx; Simpson's rule is exact
        middle = (x[1:] + x[:-1]) * (tail[1:] + tail[:-1])
        moments = x[1:] * tail[1:] + middle + x[:-1] * tail[:-1]
        return float(4 / 6 * np.sum(np.diff(x) * moments))

    def distance(self, c: Floats) -> Floats:
        x, tail = self._tail
        beyond = np.append(np.cumsum((np.diff(x) * (tail[1:] + tail[:-1]) / 2)[::-1])[::-1], 0.0)
        shift = np.minimum(np.abs(c), x[-1])
        right = np.searchsorted(x, shift)
        area = (np.interp(shift, x, tail) + tail[right]) / 2 * (x[right] - shift)
        return np.asarray(np.abs(c) + 2 * (beyond[right] + area))


@cache
def _tulap_tail(epsilon: float, delta: float) -> tuple[Floats, Floats]:
    """Return points x >= 0 between which P(X > x) is linear for Tulap noise X, and P(X > x).

    The sensitivity is 1. The last point is the largest value of the noise.
    """
    b = float(np.exp(-epsilon))
    q = 2 * delta * b / (1 - b + 2 * delta * b)
    steps = np.arange(2 + int(np.log(2 / q) / epsilon))
    x = np.append(0.0, steps + 0.5)
    tail = np.append(0.5, b ** (steps + 1) / (1 + b))  # of N, without the condition
    end = float(np.interp(q / 2, tail[::-1], x[::-1]))
    inside = x < end
    x, tail = np.append(x[inside], end), np.append(tail[inside], q / 2)
    return x, (tail - q / 2) / (1 - q)


@cache
def _gaussian_sd(epsilon: float, delta: float) -> float:
    """Return the smallest standard deviation s of Gaussian noise that is (epsilon, delta)-DP.

    The sensitivity is 1. Balle and Wang (BW18, Theorem 8; number not checked) prove that s solves
    Phi(-a) - e^epsilon Phi(-b) = delta. Here a is epsilon s - 1/(2s), b is epsilon s + 1/(2s), and
    Phi is the normal distribution function. Because b^2/2 = a^2/2 + epsilon, both terms have the
    factor e^(-a^2/2)/2. The other factors are erfcx(a/sqrt(2)) and erfcx(b/sqrt(2)), where erfcx is
    the scaled complementary error function.
    """
    from scipy.optimize import brentq

    def excess(log_sd: float) -> float:
        s, root = float(np.exp(log_sd)), float(np.sqrt(2))
        a, b = epsilon * s - 0.5 / s, epsilon * s + 0.5 / s
        if a > 0:
            log_delta = np.log((erfcx(a / root) - erfcx(b / root)) / 2) - a * a / 2
        else:
            log_delta = np.log((erfc(a / root) - np.exp(-a * a / 2) * erfcx(b / root)) / 2)
        return float(log_delta - np.log(delta))

    sufficient = 10 * np.sqrt(np.log(2 / delta)) / min(epsilon, 1.0)
    return float(np.exp(brentq(excess, np.log(0.01 / np.sqrt(1 + epsilon)), np.log(sufficient))))


def _number_noise(budget: Budget, sensitivity: float) -> Noise | None:
    """Return the noise that a budget has for single numbers only; None if it has no such noise."""
    if isinstance(budget, PureDP) and budget.noise_by == "staircase":
        return Staircase(budget.epsilon, sensitivity)
    if isinstance(budget, ApproxDP) and budget.noise_by == "tulap":
        return Tulap(budget.epsilon, budget.delta, sensitivity)
    return None


def additive(budget: Budget, l1: float, l2: float) -> Noise:
    """Return the noise that a budget adds to each coordinate of a quantity.

    The noise depends on the notion of the budget, and on its parameter `noise_by`.

    - Pure DP: Laplace noise of scale l1/epsilon. For a single number `noise_by` may choose
      staircase noise.
    - zCDP: N(0, l2^2/(2 rho)).
    - Gaussian DP: N(0, (l2/mu)^2).
    - (epsilon, delta): N(0, l2^2 s^2), with the smallest s that is private at sensitivity 1.
      Laplace noise of scale l1/epsilon is used if its variance is at most as large. `noise_by` may
      force Laplace noise (``laplace``), or the smallest s (``analytic``). It may also force s =
      sqrt(2 ln(c/delta))/epsilon, where c is 1.25 (``classical``) or 2 (``ksu20``; KSU20, Lemma
      2.8). ``tulap`` gives Tulap noise to a single number.

    Parameters
    ----------
    budget : Budget
        Privacy budget.
    l1, l2 : float
        Sensitivities in the l1 and the l2 norm.

    Returns
    -------
    Noise
        Noise of one coordinate, in the unit of the sensitivities.

    Raises
    ------
    TypeError
        If the budget is not private.
    """
    if isinstance(budget, ZCDP):
        return GaussianNoise(l2 / float(np.sqrt(2 * budget.rho)))
    if isinstance(budget, GDP):
        return GaussianNoise(l2 / budget.mu)
    if l1 == l2 and (number_noise := _number_noise(budget, l1)) is not None:
        return number_noise
    if isinstance(budget, PureDP) or (
        isinstance(budget, ApproxDP) and budget.noise_by == "laplace"
    ):
        return Laplace(l1 / budget.pure_epsilon)
    if not isinstance(budget, ApproxDP):
        raise TypeError(f"{budget} adds no noise")
    if budget.noise_by in ("best", "analytic", "tulap"):
        gaussian = GaussianNoise(l2 * _gaussian_sd(budget.epsilon, budget.delta))
        laplace = Laplace(l1 / budget.epsilon)
        laplace_is_quieter = laplace.variance <= gaussian.variance
        return laplace if laplace_is_quieter and budget.noise_by != "analytic" else gaussian
    factor = {"classical": 1.25, "ksu20": 2.0}[budget.noise_by]
    return GaussianNoise(l2 * float(np.sqrt(2 * np.log(factor / budget.delta))) / budget.epsilon)


def box_noise(budget: Budget, d: int, side: float) -> Noise:
    """Return the noise of a vector, each coordinate of which a replaced record moves by `side`.

    It is the noise of a cube under pure DP, and Gaussian under zCDP and GDP. Under (epsilon, delta)
    it is the one of these two with the smaller variance. For d = 1 it is `additive` noise.

    Parameters
    ----------
    budget : Budget
        Privacy budget.
    d : int
        Number of coordinates.
    side : float
        Sensitivity of every coordinate.

    Returns
    -------
    Noise
        Noise of the vector, in the unit of `side`.
    """
    # Laplace noise of this l1 sensitivity has the variance of the noise of the cube.
    equivalent_l1 = side * float(np.sqrt((d + 1) * (d + 2) / 6))
    noise = additive(budget, equivalent_l1, float(np.sqrt(d)) * side)
    return (
        noise if d == 1 or isinstance(noise, GaussianNoise) else Cube(side / budget.pure_epsilon, d)
    )


def concentrated(budget: Budget) -> ZCDP:
    """Return the zCDP budget whose Gaussian noise `budget` can pay for.

    Gaussian steps of sensitivity 1 are as private together as one release with N(0, 1/(2 rho))
    noise. So for an (epsilon, delta) budget 1/(2 rho) is the smallest variance of Gaussian noise
    that is (epsilon, delta)-DP. For mu-GDP it has rho = mu^2/2. A zCDP budget is returned
    unchanged.
    """
    if isinstance(budget, ApproxDP):
        return ZCDP(1 / (2 * _gaussian_sd(budget.epsilon, budget.delta) ** 2))
    if isinstance(budget, GDP):
        return ZCDP(budget.mu**2 / 2)
    assert isinstance(budget, ZCDP)
    return budget


def standard_normal() -> tuple[Floats, Floats]:
    """Return a grid of points for N(0, 1), and their probabilities.

    Both arrays have the shape (NOISE_GRID_POINTS,), with 4001 entries.
    """
    z = np.linspace(-10, 10, NOISE_GRID_POINTS)
    weights = np.exp(-(z**2) / 2)
    return z, weights / weights.sum()


def binomial(n: float, p: float) -> tuple[Floats, Floats]:
    """Return the likely values of a binomial count, and their probabilities.

    If there are too many likely counts, the normal approximation is returned. Its points need not
    be integers.

    Parameters
    ----------
    n : float
        Number of draws.
    p : float in [0, 1]
        Probability that a draw is a success.

    Returns
    -------
    counts, weights : ndarray of shape (m,)
        Counts, without negligible tails, and their probabilities.
    """
    if p in (0.0, 1.0):
        return np.array([n * p]), np.ones(1)
    spread = float(np.sqrt(n * p * (1 - p)))
    reach = 10 * spread + 30
    low, high = max(0.0, np.floor(n * p - reach)), min(n, np.ceil(n * p + reach))
    if high - low >= NOISE_GRID_POINTS:
        z, weights = standard_normal()
        return n * p + spread * z, weights
    s = np.arange(low, high + 1)
    # P(s + 1)/P(s) = (n - s)/(s + 1) p/(1 - p) avoids differences of large log-factorials.
    steps = np.log((n - s[:-1]) / (s[:-1] + 1)) + np.log(p) - np.log1p(-p)
    logs = np.concatenate([[0.0], np.cumsum(steps)])
    weights = np.exp(logs - logs.max())
    return s, weights / weights.sum()
