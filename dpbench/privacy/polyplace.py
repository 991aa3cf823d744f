r"""PolyPlace noise, epsilon-DP noise for a smooth sensitivity, with polynomial tails.

The noise is from HT25, with the parameters scale S/t and a = epsilon/t. Here S is a t-smooth
sensitivity of the released number (`dpbench.privacy.smooth`), and 0 < t < epsilon. The density
below is our derivation from these parameters; formulas of HT25 were not compared.

**Condition.** Let the noise be (S/t) X for a variable X with density p, symmetric around 0. For
x > 0 let B(x) = -(ln p)'(x) >= 0. By `dpbench.privacy.smooth`, the releases on two neighbours are
distributed as X and e^u X + v in units of S/t, with |u| <= t and |v| <= t min(1, e^u). These are
the ends of the flow of the vector field u x + w, with |w| <= t. Along the flow the log-density
changes at the rate u (x B - 1) + w B at a point x > 0, and at most so fast at -x. So the noise is
epsilon-DP if, at every x > 0,

    |x B(x) - 1| + B(x) <= a.

**Density.** The largest B that satisfies the condition makes p fall fastest at every point, and
|X| stochastically smallest.

1. Where x B <= 1, the condition is B <= (a - 1)/(1 - x). This is the case up to x = 1/a.
2. Where x B >= 1, the condition is B <= (a + 1)/(1 + x). This is the case from x = 1/a on.

At x = 1/a both limits are a. Hence p(x) is proportional to (1 - |x|)^(a-1) for |x| <= 1/a, and to
c (1 + |x|)^(-a-1) beyond, where c = A (1 + 1/a)^(a+1) and A = (1 - 1/a)^(a-1) make p continuous.
The ratio of densities tends to e^(-a t) = e^-epsilon for u = -t in the tail, so the noise is not
larger than epsilon-DP needs. As t falls to 0, the noise tends to Laplace noise of scale S/epsilon.

**Distribution.** Let D = 1 + 2A/a. P(|X| > x) is (1 + x)^(-a) c/D for x >= 1/a, and
1 - (1 - (1 - x)^a)/D for x <= 1/a. The mean of |X| is finite for all a > 1, and the variance for
a > 2. Student's t noise needs a > 3.
"""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats

__all__ = ["draw"]


def draw(rng: np.random.Generator, shape: tuple[int, ...], epsilon: float, t: float) -> Floats:
    """Draw independent noises for numbers with a t-smooth sensitivity of 1.

    Parameters
    ----------
    rng : Generator
        Source of the noise.
    shape : tuple of int
        Shape of the result.
    epsilon : float
        Privacy parameter.
    t : float
        Smoothness, with 0 < t < epsilon.

    Returns
    -------
    ndarray
    """
    a = epsilon / t
    log_centre = (a - 1) * np.log1p(-1 / a)  # ln A
    total = 1 + 2 * np.exp(log_centre) / a  # D
    near_mass = -np.expm1(a * np.log1p(-1 / a))  # D P(|X| <= 1/a)
    log_tail = log_centre + (a + 1) * np.log1p(1 / a) - np.log(total)  # ln(c/D)
    beyond = 1 - rng.random(shape)  # P(|X| > |x|) for the drawn x, in (0, 1]
    far = np.expm1((log_tail - np.log(beyond)) / a)
    near = -np.expm1(np.log1p(-np.minimum((1 - beyond) * total, near_mass)) / a)
    distance = np.where(far > 1 / a, far, near)
    return np.asarray(np.where(rng.random(shape) < 0.5, -distance, distance) / t)
