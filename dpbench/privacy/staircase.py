r"""Staircase noise: of all that is added to one number, whatever it is, E|X| is least (GV14).

At sensitivity 1 its density falls by b = e^-epsilon in steps: for k = 0, 1, ... it is a b^k on
[k, k + g) and a b^(k+1) on [k + g, k + 1), and the same on the other side of 0. It falls with |x|,
and by b over a length of 1, so that points within 1 of each other have densities within a factor
e^epsilon: the noise is epsilon-DP for one number. It is not for vectors, at any l1 sensitivity:
however little a coordinate moves, it may pass a step, and every coordinate that does costs epsilon.

|X| exceeds k with probability b^k. Within [k, k + 1) a share g/D of it is uniform on the first part
and (1-g) b/D on the other, D = g + (1-g) b. g = 1/(1 + e^(epsilon/2)) makes E|X| least,
e^(epsilon/2)/(e^epsilon - 1), where Laplace noise has 1/epsilon: 0.85 times as much at epsilon = 2,
0.55 at 4 and 0.15 at 8.

.. [GV14] Q. Geng, P. Viswanath, "The optimal mechanism in differential privacy", ISIT 2014.
"""

from __future__ import annotations

import numpy as np
from scipy.special import expit

from dpbench.arrays import Floats

__all__ = ["draw", "upper_quantile"]

# Beyond this epsilon the noise is that of this one: b would vanish.
LARGEST = 200.0


def _distance(log_tail: Floats, epsilon: float) -> Floats:
    """The x that |X| exceeds with probability e^-log_tail."""
    epsilon = min(epsilon, LARGEST)
    g, b = expit(-epsilon / 2), np.exp(-epsilon)
    whole = g + (1 - g) * b
    k = np.floor(log_tail / epsilon)
    share = np.expm1(k * epsilon - log_tail) / np.expm1(-epsilon)  # of [k, k + 1) below x
    near = share * whole
    return np.asarray(k + np.where(near <= g, near, g + (near - g) / b))


def draw(rng: np.random.Generator, shape: tuple[int, ...], epsilon: float) -> Floats:
    """Independent noises for numbers of sensitivity 1."""
    distance = _distance(rng.standard_exponential(shape), epsilon)
    return np.where(rng.random(shape) < 0.5, -distance, distance)


def upper_quantile(upper: Floats, epsilon: float) -> Floats:
    """The point that the noise exceeds with probability `upper` <= 1/2."""
    return _distance(-np.log(2 * upper), epsilon)
