"""Exact private tests of a proportion, and confidence limits that invert them (AS18, AS20, AV23).

Let S ~ Binomial(n, p) be the number of ones among n records. Let N be canonical noise
(`dpbench.privacy.canonical`) for a trade-off function f, and T = S + N the noisy count. T has a
continuous distribution, and P_p(T >= x) increases in p. Theorem numbers of the sources are not
checked; the proof below covers all three.

1. One-sided p-values. For the hypothesis that the mean is at most p, the p-value is
   P_p(S + N >= T). If the mean is p, it is uniform on [0, 1]. So a test at level alpha has size
   alpha, exactly.
2. No test that satisfies f has more power. Let phi(s) be the probability that a test rejects, given
   S = s; a test may depend on S alone, by averaging over the orders of the records. The test has
   the largest power at p1 > p among tests of size alpha if it maximises the sum over s of
   c_s phi(s), c_s = P_p1(S = s) - l P_p(S = s), for some l >= 0. These weights are first negative,
   then positive. By steps 3 and 4 of docs/theory/binary_minimax.md the best phi(s) is
   P(s + N >= x) for some x. It does not depend on p1. So the test is uniformly most powerful
   (AS18, AV23).
3. Two-sided p-values. The test rejects for T <= u and for T >= v. Let
   G(x) = E_p[(S - n p) 1{T >= x}], which is p (1 - p) times the derivative of P_p(T >= x) in p. It
   rises from 0 to a maximum and falls to 0, because E_p[S | T = x] increases in x. The power has
   the derivative 0 at p if G(u) = G(v). The p-value is P_p(T <= u) + P_p(T >= v), where one of u
   and v is the observed T. So the size is exact, and the power has no slope at p. It is not the
   largest power of such tests: a release of |S - k| + N, for a k that is made for p and alpha, has
   more (AS20), but it tests this p only and yields no interval.
4. Confidence limits. The lower limit is the p at which the p-value of step 1 is beta. The mean is
   below it with probability beta exactly, if there is such a p. Otherwise the limit is 0 or 1, and
   covers the mean 0 or 1. The upper limit is the mirror image, because n - S is binomial, too.
   The limits are uniformly most accurate, because the tests are uniformly most powerful.

The noise N may be any symmetric noise in steps 1 and 4. Under zCDP it is Gaussian. The tests are
exact then, but better ones may exist.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpbench.arrays import Floats, Ints
from dpbench.privacy import Budget
from dpbench.privacy.canonical import CanonicalNoise
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = ["LARGEST_N", "binary_limit", "binary_p_value"]

Alternative = Literal["greater", "less", "two_sided"]
LARGEST_N = 10**6
MAX_PRODUCTS = 10**6  # probabilities held in memory at once
MAX_STEPS = 200  # of a search; about 10 are needed
SEARCHES = 60  # halvings of an interval of noisy counts
TOLERANCE = 1e-10  # of normal scores and of arcsin(sqrt(p)); the last step is much more accurate
MAX_NORMAL_SCORE = 37.0  # beyond, normal probabilities underflow


def binary_p_value(
    estimate: ArrayLike,
    n: int,
    p: float,
    budget: Budget,
    alternative: Alternative = "two_sided",
) -> Floats:
    """Return exact p-values of hypotheses about the mean of binary records.

    Parameters
    ----------
    estimate : array_like
        Estimates that `BinaryInterval` releases: noisy counts divided by n.
    n : int
        Number of records, at most 1e6.
    p : float in (0, 1)
        Mean of the records under the null hypothesis. The hypothesis of one-sided tests is that the
        mean is at most p (``greater``) or at least p (``less``).
    budget : Budget
        Privacy budget of the release.
    alternative : {'two_sided', 'greater', 'less'}
        Side on which the mean lies if the hypothesis is wrong.

    Returns
    -------
    ndarray
        p-values in the shape of `estimate`. If the mean is p, they are uniform on [0, 1].

    Raises
    ------
    ValueError
        If p or n is out of range, if the alternative is unknown, or if the budget is not private.

    Examples
    --------
    >>> import numpy as np
    >>> from dpbench import PureDP, release
    >>> from dpbench.estimators import BinaryInterval, binary_p_value
    >>> votes = np.repeat([0.0, 1.0], [200, 300])
    >>> share = release(BinaryInterval(), votes, PureDP(0.5), rng=np.random.default_rng(0))
    >>> bool(binary_p_value(share, len(votes), 0.5, PureDP(0.5)) < 0.01)
    True
    """
    if not (0 < p < 1 and 1 <= n <= LARGEST_N):
        raise ValueError(f"need 0 < p < 1 and 1 <= n <= {LARGEST_N}, got p = {p} and n = {n}")
    if alternative not in ("two_sided", "greater", "less"):
        raise ValueError(f"alternative: {alternative!r}; give two_sided, greater or less")
    noise = budget.canonical_noise
    x = n * np.asarray(estimate, dtype=float)
    flat = x.ravel()
    if alternative == "less":
        result = _exceeds(n - flat, n, np.full(flat.size, 1 - p), noise)
    else:
        result = _exceeds(flat, n, np.full(flat.size, p), noise)
    if alternative == "two_sided":
        other = _other_cut(flat, n, p, noise)
        beyond = _exceeds(other, n, np.full(flat.size, p), noise)
        result = np.where(other < flat, 1 - beyond + result, 1 - result + beyond)
    return np.asarray(result.reshape(x.shape))


def binary_limit(
    noisy: Floats, n: int, beta: float, noise: CanonicalNoise, factor: float = 1.0
) -> Floats:
    """Return lower confidence limits in [0, 1] for the mean of binary records.

    The mean is below a limit with probability `beta`. `noisy` holds (trials,) noisy counts of ones.
    `noise` is their noise at sensitivity 1, which `factor` multiplies. The upper limits for noisy
    counts T are 1 minus the lower limits for n - T.
    """
    limits = np.empty_like(noisy)
    pieces = 1 + noisy.size * _window(n) // MAX_PRODUCTS
    for rows in np.array_split(np.arange(noisy.size), pieces):
        limits[rows] = _solve(noisy[rows], n, beta, noise, factor)
    return limits


def _window(n: int) -> int:
    """Return the number of counts that carry the mass of a binomial distribution, for every p.

    Other counts are more than 4.5 sqrt(n) away from n p. By Hoeffding's inequality their
    probability is at most 2 e^-40.5, which is less than 1e-17.
    """
    return min(n + 1, 2 * int(np.ceil(4.5 * np.sqrt(n))) + 3)


@lru_cache(maxsize=4)
def _log_choices(n: int) -> Floats:
    """Return the logarithms of the binomial coefficients of 0, ..., n ones among n, (n + 1,)."""
    return np.asarray(log_binomial_pmf(np.arange(n + 1), n, 0.5) + n * np.log(2))


def _counts(n: int, p: Floats) -> tuple[Ints, Floats]:
    """Return likely counts of ones and their probabilities, both of shape (len(p), window)."""
    size = _window(n)
    first = np.clip(np.rint(n * p) - size // 2, 0, n + 1 - size).astype(int)
    s = first[:, None] + np.arange(size)
    p = np.clip(p, 1e-300, 1 - 1e-16)[:, None]
    return s, np.exp(_log_choices(n)[s] + s * np.log(p) + (n - s) * np.log1p(-p))


def _exceeds(x: Floats, n: int, p: Floats, noise: CanonicalNoise, factor: float = 1.0) -> Floats:
    """Return P_p(S + factor N >= x) for points x and means p, both of shape (m,)."""
    s, weights = _counts(n, p)
    tails = noise.upper_tail((x[:, None] - s) / factor)
    return np.asarray(np.sum(weights * tails, axis=1))


def _solve(x: Floats, n: int, beta: float, noise: CanonicalNoise, factor: float) -> Floats:
    """Return the p with P_p(S + factor N >= x) = beta, or the nearest end of [0, 1], shape (m,).

    The search is for the angle arcsin(sqrt(p)), in which the normal score of the probability is
    nearly linear. A secant step that leaves the known bracket is replaced by its middle.
    """
    target = float(ndtri(beta))

    def excess(angle: Floats, x: Floats) -> Floats:
        chance = _exceeds(x, n, np.sin(angle) ** 2, noise, factor)
        score = np.clip(ndtri(np.clip(chance, 0.0, 1.0)), -MAX_NORMAL_SCORE, MAX_NORMAL_SCORE)
        return np.asarray(score - target)

    low, high = np.zeros_like(x), np.full_like(x, np.pi / 2)
    at_low, at_high = excess(low, x), excess(high, x)
    limit = np.where(at_low >= 0, 0.0, 1.0)
    rows = np.flatnonzero((at_low < 0) & (at_high > 0))  # searches that go on
    low, high, old, new = low[rows], high[rows], low[rows], high[rows]
    at_old, at_new = at_low[rows], at_high[rows]
    for step in range(MAX_STEPS):
        with np.errstate(divide="ignore", invalid="ignore"):
            guess = new - at_new * (new - old) / (at_new - at_old)
        inside = (guess > low) & (guess < high) & (step % 4 < 3)  # halve at times, to be sure
        guess = np.where(inside, guess, (low + high) / 2)
        old, at_old, new, at_new = new, at_new, guess, excess(guess, x[rows])
        low, high = np.where(at_new < 0, new, low), np.where(at_new < 0, high, new)
        limit[rows] = np.sin(new) ** 2
        going = (np.abs(at_new) > TOLERANCE) & (high - low > TOLERANCE)
        rows, low, high = rows[going], low[going], high[going]
        old, new, at_old, at_new = old[going], new[going], at_old[going], at_new[going]
        if not rows.size:
            break
    return limit


def _other_cut(x: Floats, n: int, p: float, noise: CanonicalNoise) -> Floats:
    """Return for each noisy count x the count on the other side with equal G, shape (m,).

    G(x) = E_p[(S - n p) 1{S + N >= x}] rises to a maximum and falls. The maximum is found first.
    """
    s, weights = _counts(n, np.array([p]))
    weights = weights[0] * (s[0] - n * p)

    def g(points: Floats) -> Floats:
        return np.asarray(noise.upper_tail(points[:, None] - s[0]) @ weights)

    reach = min(float(noise.upper_quantile(np.asarray(1e-17))), noise.end)
    left, right = np.array([-reach]), np.array([n + reach])
    first, last = left, right
    for _ in range(SEARCHES):
        third = (right - left) / 3
        rises = g(left + third) < g(right - third)
        left, right = np.where(rises, left + third, left), np.where(rises, right, right - third)
    top, level = (left + right) / 2, g(x)
    above = x > top
    low, high = np.where(above, first, top), np.where(above, top, last)
    for _ in range(SEARCHES):
        middle = (low + high) / 2
        move_right = np.where(above, g(middle) < level, g(middle) > level)
        low, high = np.where(move_right, middle, low), np.where(move_right, high, middle)
    return np.asarray((low + high) / 2)
