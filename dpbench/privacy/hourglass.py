r"""Hourglass noise, epsilon-DP noise for the sum and the number of records in [-1, 1].

The mechanism is from KSW23. The density below is our derivation; formulas of KSW23 were not
compared. Adding or removing a record c in [-1, 1] moves (sum, count) by +-(c, 1). The count is an
integer and moves by exactly 1. So its noise J may be an integer, and the noise Z of the sum may
depend on J. Let b = e^-epsilon and 0 <= g <= 1.

**Density.** The level L(z, j) is the least integer l >= |j| of the parity of j with
|z| <= 2g + l. The density of (Z, J) at (z, j) is proportional to b^L(z, j). The set where
L = |j| is narrowest at j = 0 and widens with |j|, like an hourglass.

**Privacy.** Let |c| <= 1. If l satisfies the conditions at (z, j), then l + 1 satisfies them at
(z + c, j + 1) and at (z + c, j - 1): the bounds and the parity move by 1. So L changes by at most 1
between neighbours, and the density by a factor of at most e^epsilon.

**Marginals.** Let S = (sum + count)/2 and T = (count - sum)/2. For records u = (1 + c)/2 in [0, 1],
S is the sum of the numbers u, and T is the sum of the numbers 1 - u. Their noises are (J + Z)/2 and
(J - Z)/2, which have one distribution, because the density is even in z. Let x > g be a value of
the noise of S, and K = ceil(x - g), so z = 2x - j.

1. For 0 <= j, L is the least l >= j of the parity of j with 2x - j <= 2g + l, that is
   l >= 2(x - g) - j. So L = max(j, 2K - j).
2. For j < 0, the condition is l >= 2(x - g) + |j|. So L = 2K + |j|.
3. The sum of b^L over j is b^K (1 + b)/(1 - b). For |x| <= g it is (1 + b)/(1 - b), because
   L = |j| for all j.

So the density of the noise of S at x is proportional to b^ceil(|x| - g) for |x| > g, and constant
for |x| <= g. This is staircase noise for sensitivity 1 (`dpbench.privacy.staircase`), whose first
step has the width g.

**Choice of g.** Let y = (b (1 + b)/2)^(1/3). Staircase noise of width g = (y - b)/(1 - b) has the
variance V = (y^2 + b)/(1 - b)^2. It is the smallest of all epsilon-DP additive noises for one
number of sensitivity 1 (GV14). With this g the noises of S and T are uncorrelated, because their
covariance is Var(J)/2 - V, and the weights of **Sampling** give
Var(J) = b (2y + 1 + b)/(y (1 - b)^2). This equals 2V, because 2 y^3 = b (1 + b).

**Sampling.** Let h = 2g + |j| and q = b^2/(1 - b^2). The integral of b^L over z is
2 b^|j| (h + 2q). So J has a mixture of two distributions. With probability b/(y (1 + b)) it is a
random sign times 1 plus the sum of two geometric variables, with P(J = j) proportional to
|j| b^|j|. Otherwise it is the difference of two geometric variables, with P(J = j) proportional to
b^|j|. Given J = j, |Z| is uniform on [0, h] with probability h/(h + 2q). Otherwise it is uniform on
[h + 2i - 2, h + 2i], for a geometric i >= 1 with P(i) proportional to b^(2i).
"""

from __future__ import annotations

import numpy as np

from dpbench.arrays import Floats

__all__ = ["draw"]

# A larger epsilon is replaced by this value, because b would underflow.
MAX_EPSILON = 200.0


def _shape(epsilon: float) -> tuple[float, float, float]:
    """Return b = e^-epsilon, y = (b (1 + b)/2)^(1/3), and the width g = (y - b)/(1 - b).

    The noise is private for every g from 0 to 1, so rounding errors of g are harmless.
    """
    b = float(np.exp(-min(epsilon, MAX_EPSILON)))
    y = float(np.cbrt(b * (1 + b) / 2))
    return b, y, float(np.clip((y - b) / -np.expm1(-epsilon), 0.0, 0.5))


def draw(rng: np.random.Generator, trials: int, epsilon: float) -> Floats:
    """Draw hourglass noise of the sum and the number of records in [-1, 1].

    Parameters
    ----------
    rng : Generator
        Source of the noise.
    trials : int
        Number of independent draws.
    epsilon : float
        Privacy parameter, above 0.

    Returns
    -------
    ndarray of shape (trials, 2)
        Noise Z of the sum, then noise J of the count, an integer.
    """
    epsilon = min(epsilon, MAX_EPSILON)
    b, y, g = _shape(epsilon)
    success, success_of_pairs = -np.expm1(-epsilon), -np.expm1(-2 * epsilon)
    first, second = rng.geometric(success, (2, trials)) - 1.0
    shell = rng.geometric(success_of_pairs, trials)
    in_mixture, within, place = rng.random((3, trials))
    signs = np.where(rng.random((2, trials)) < 0.5, -1.0, 1.0)
    summed = in_mixture * y * (1 + b) < b
    count = np.where(summed, signs[0] * (1 + first + second), first - second)
    h, q = 2 * g + np.abs(count), b**2 / success_of_pairs
    inside = within * (h + 2 * q) < h
    distance = np.where(inside, place * h, h + 2 * (shell - 1 + place))
    return np.stack([signs[1] * distance, count], axis=1)
