r"""Tulap noise, the canonical noise of one number under (epsilon, delta)-DP (AS18, AV23).

Let b = e^-epsilon and c = (1 - delta) b/(1 + b). Tulap noise X at sensitivity 1 has a density f
that depends only on |x|. It is 1 - 2c if |x| < 1/2, and (1 - 2c) b^k if |x| is in
[k - 1/2, k + 1/2), for k = 1, 2, ... It is 0 from the point t on at which the total mass is 1. Let
T(x) = P(X > x). Then T(1/2) = c, and for x >= -1/2

    T(x + 1) = max(0, b (T(x) - delta)).                                                    (1)

Proof of (1): both sides have the slope -f(x + 1) = -b f(x) where they are above 0, and at x = -1/2
both are c, because b (1 - c - delta) = c.

Privacy. The noise is (epsilon, delta)-DP for one number of sensitivity 1:

1. Let the numbers of two neighbours differ by s, 0 < s <= 1. Points at the distance s lie in the
   same step of the density or in adjacent steps. So their densities differ by a factor of at most
   e^epsilon, unless one of them is 0.
2. So max over events A of P(X in A) - e^epsilon P(X + s in A) is at most P(X < s - t) =
   T(t - s) <= T(t - 1).
3. T(t) = 0, so (1) gives T(t - 1) <= delta.

The noise is canonical: at s = 1 it has exactly the trade-off curve of (epsilon, delta)-DP (AV23,
theorem number not checked). It is not suitable for vectors, because every coordinate that crosses a
step costs epsilon.

For delta = 0 the noise is epsilon-DP. It is a staircase whose steps end at 1/2, 3/2, ..., and its
variance is 2b/(1-b)^2 + 1/12, against 2/epsilon^2 for Laplace noise.

Quantiles. Let g = delta b/(1 - b). By (1), T(k + 1/2) + g = b^k (c + g) while T is above 0. So
T(x) = u < c for x = 1/2 + k + (1 - e^(k epsilon - r))/(1 - b), where r = ln((c + g)/(u + g)) and
k is the integer part of r/epsilon. For u >= c it is x = (1/2 - u)/(1 - 2c).
"""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats

__all__ = ["draw", "upper_quantile", "upper_tail"]

# A larger epsilon is replaced by this value, because b would underflow.
MAX_EPSILON = 200.0
TINY = 1e-200  # below, u + g may underflow, and a ratio to it overflow


def draw(rng: np.random.Generator, shape: tuple[int, ...], epsilon: float, delta: float) -> Floats:
    """Draw independent Tulap noises for numbers of sensitivity 1.

    Parameters
    ----------
    rng : Generator
        Source of the noise.
    shape : tuple of int
        Shape of the result.
    epsilon : float
        Privacy parameter, above 0.
    delta : float in [0, 1)
        Privacy parameter.

    Returns
    -------
    ndarray
    """
    distance = upper_quantile(0.5 * np.exp(-rng.standard_exponential(shape)), epsilon, delta)
    return np.where(rng.random(shape) < 0.5, -distance, distance)


def upper_quantile(upper: Floats, epsilon: float, delta: float) -> Floats:
    """Return the points that Tulap noise at sensitivity 1 exceeds with given probabilities.

    Parameters
    ----------
    upper : ndarray
        Probabilities above 0, at most 1/2.
    epsilon : float
        Privacy parameter, above 0.
    delta : float in [0, 1)
        Privacy parameter.

    Returns
    -------
    ndarray
    """
    epsilon, lost, c, g, centre = _constants(epsilon, delta)
    small = np.asarray(upper + g < TINY)
    r = np.log1p(np.maximum(c - upper, 0.0) / np.where(small, 1.0, upper + g))
    if small.any():  # r is large, so that a difference of logarithms loses no digits
        with np.errstate(divide="ignore"):
            log_g = np.log(delta) - epsilon - np.log(lost)
            r = np.where(small, np.log(c + g) - np.logaddexp(np.log(upper), log_g), r)
    k = np.floor(r / epsilon)
    outer = 0.5 + k - np.expm1(k * epsilon - r) / lost
    return np.asarray(np.where(upper < c, outer, (0.5 - upper) / centre))


def upper_tail(x: Floats, epsilon: float, delta: float) -> Floats:
    """Return the probabilities P(X > x) of Tulap noise X at sensitivity 1.

    For x = 1/2 + k + v with an integer k >= 0 and v in [0, 1), T(x) + g is (c + g) w, where
    w = b^k (1 - v (1 - b)), because T is linear between steps. The code writes T(x) as
    c w - g (1 - w), which loses no digits if g is large.

    Parameters
    ----------
    x : ndarray
        Points.
    epsilon : float
        Privacy parameter, above 0.
    delta : float in [0, 1)
        Privacy parameter.

    Returns
    -------
    ndarray
    """
    epsilon, lost, c, g, centre = _constants(epsilon, delta)
    distance = np.abs(x)
    k = np.floor(np.maximum(distance - 0.5, 0.0))
    log_w = np.log1p(-lost * np.maximum(distance - 0.5 - k, 0.0)) - k * epsilon
    outer = np.maximum(c * np.exp(log_w) + g * np.expm1(log_w), 0.0)
    tail = np.where(distance < 0.5, 0.5 - centre * distance, outer)
    return np.where(np.asarray(x) < 0, 1 - tail, tail)


def _constants(epsilon: float, delta: float) -> tuple[float, float, float, float, float]:
    """Return epsilon, at most `MAX_EPSILON`, and the numbers 1 - b, c, g and 1 - 2c."""
    epsilon = min(epsilon, MAX_EPSILON)
    b, lost = float(np.exp(-epsilon)), -float(np.expm1(-epsilon))
    c, g = (1 - delta) * b / (1 + b), delta * b / lost
    return epsilon, lost, c, g, (lost + 2 * b * delta) / (1 + b)
