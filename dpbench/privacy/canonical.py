r"""Canonical noise: additive noise of one number that uses a guarantee in full (AV23).

A trade-off function f states a guarantee: every test of neighbouring datasets with type I error a
has a type II error of at least f(a) (DRS22). f is convex and decreasing, and here symmetric: it is
its own inverse where it is above 0. Noise N at sensitivity 1, with the tail T(x) = P(N > x), is
canonical for f if it is symmetric and

    T(x + 1) = f(1 - T(x))   for every x with T(x) < 1.                                      (1)

Equation (1) says that the best test of a number against the number plus 1 has exactly the trade-off
f (AV23, theorem numbers of this page not checked). Canonical noise:

- (epsilon, delta)-DP: f(a) = max(0, 1 - delta - e^epsilon a, e^-epsilon (1 - delta - a)). Tulap
  noise is canonical; (1) is equation (1) of `dpbench.privacy.tulap`. delta = 0 is pure DP.
- mu-GDP: f(a) = Phi(Phi^-1(1 - a) - mu), where Phi is the normal distribution function. The noise
  N(0, 1/mu^2) has T(x) = Phi(-mu x), so f(1 - T(x)) = Phi(-mu x - mu) = T(x + 1).
- Any symmetric f (AV23). Let c be the fixed point f(c) = c. On [-1/2, 1/2] the noise is uniform:
  T(x) = 1/2 - (1 - 2c) x, so T(1/2) = c and T(-1/2) = 1 - c. Equation (1) extends T to the right,
  and symmetry to the left. It holds at x = -1/2, because f(1 - (1 - c)) = f(c) = c.

rho-zCDP is no trade-off function. Gaussian noise N(0, 1/(2 rho)) is rho-zCDP, and serves as the
noise of a count. `concentrated_trade_off` gives an f that every rho-zCDP release satisfies. Its
noise need not be rho-zCDP, and yields lower bounds on errors.

Privacy. Numbers of neighbours differ by h <= 1. For Tulap noise see `dpbench.privacy.tulap`. For
Gaussian noise the best test rejects large releases, so its type II error at type I error a is
Phi(Phi^-1(1 - a) - h mu) >= f(a). For other f see AV23; no mechanism of the ledger uses them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import numpy as np
from scipy.special import ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.privacy import tulap

__all__ = [
    "CanonicalNoise", "NumberNoise", "concentrated_trade_off", "gaussian_noise", "trade_off_noise",
    "tulap_noise",
]  # fmt: skip

TradeOff = Callable[[Floats], Floats]
ORDERS = np.concatenate([1 + np.geomspace(1e-3, 1e3, 60), [1e4, 1e6]])  # of Renyi divergences
NEGLIGIBLE = 1e-18  # tail probabilities below this value are not distinguished
BISECTIONS = 60  # halvings of an interval of length 1, to the last digit of a double


@dataclass(frozen=True)
class NumberNoise:
    """Noise that is private for one number only, at sensitivity 1.

    `draw` maps a generator and a shape to independent noises. `upper_quantile` returns the points
    which the noise exceeds with given probabilities.
    """

    draw: Callable[[np.random.Generator, tuple[int, ...]], Floats]
    upper_quantile: Callable[[Floats], Floats]


@dataclass(frozen=True)
class CanonicalNoise(NumberNoise):
    """Noise of a count, by which exact tests and minimax rules of a proportion are computed.

    `upper_tail` returns the probabilities P(N > x) of points x.
    """

    upper_tail: Callable[[Floats], Floats]
    end: float = np.inf  # Largest value of the noise.
    # True if the density is constant between k - 1/2 and k + 1/2 for all integers k, up to `end`.
    steps: bool = False


def tulap_noise(epsilon: float, delta: float) -> CanonicalNoise:
    """Return the canonical noise of (epsilon, delta)-DP; delta may be 0."""
    end = float(tulap.upper_quantile(np.zeros(()), epsilon, delta)) if delta else np.inf
    draw, quantile, tail = (
        partial(function, epsilon=epsilon, delta=delta)
        for function in (tulap.draw, tulap.upper_quantile, tulap.upper_tail)
    )
    return CanonicalNoise(draw, quantile, tail, end, steps=True)


def gaussian_noise(sd: float) -> CanonicalNoise:
    """Return the canonical noise N(0, sd^2) of Gaussian DP with mu = 1/sd."""
    return CanonicalNoise(
        lambda rng, shape: np.asarray(rng.normal(0.0, sd, shape)),
        lambda upper: np.asarray(-sd * ndtri(upper)),
        lambda x: np.asarray(ndtr(-x / sd)),
    )


def trade_off_noise(f: TradeOff) -> CanonicalNoise:
    """Return canonical noise of a symmetric trade-off function (AV23).

    The function f maps an array of type I errors, and f(a) < 1 - a for some a. The noise is uniform
    on [-1/2, 1/2], and T(x + 1) = f(1 - T(x)) for its tail T extends it to the right. The time of a
    tail probability is proportional to the distance of its point from 0.
    """
    low, high = 0.0, 0.5  # f(a) - a decreases
    for _ in range(BISECTIONS):
        c = (low + high) / 2
        low, high = (c, high) if f(np.asarray(c)) > c else (low, c)

    def upper_tail(x: Floats) -> Floats:
        distance = np.abs(x)
        steps = np.maximum(np.ceil(distance - 0.5), 0.0).astype(int)
        starts, index = np.unique(distance - steps, return_inverse=True)
        tails = [0.5 - (1 - 2 * c) * starts]  # T(start + k) for k = 0, 1, ...
        while len(tails) <= steps.max(initial=0) and tails[-1].max() > NEGLIGIBLE:
            tails.append(f(1 - tails[-1]))
        rows = np.minimum(steps, len(tails) - 1)
        tail = np.array(tails)[rows, index.reshape(np.shape(x))]
        return np.asarray(np.where(np.asarray(x) < 0, 1 - tail, tail))

    def upper_quantile(upper: Floats) -> Floats:
        start, steps = np.array(upper, dtype=float), np.zeros(np.shape(upper))
        while (outside := start < c).any():  # inverse of (1), because f is its own inverse
            start = np.where(outside, 1 - f(start), start)
            steps += outside
        return np.asarray(steps + (0.5 - start) / (1 - 2 * c))

    def draw(rng: np.random.Generator, shape: tuple[int, ...]) -> Floats:
        distance = upper_quantile(0.5 * np.exp(-rng.standard_exponential(shape)))
        return np.where(rng.random(shape) < 0.5, -distance, distance)

    return CanonicalNoise(draw, upper_quantile, upper_tail)


@cache
def concentrated_trade_off(rho: float) -> TradeOff:
    r"""Return a symmetric trade-off function that every rho-zCDP release satisfies.

    A test of neighbours rejects with probability a under one dataset and with probability 1 - b
    under the other. The decision is a release, so its Renyi divergences of every order A > 1, in
    both directions, are at most rho A:

        ln(x^A y^(1-A) + (1-x)^A (1-y)^(1-A)) <= (A - 1) rho A   for {x, y} = {a, 1 - b}.       (2)

    The function is the smallest b that satisfies (2) for the finitely many orders `ORDERS`. Fewer
    conditions allow smaller b, so the function is valid. It is convex, because the pairs (a, b)
    that satisfy (2) form a convex set, and symmetric, because (2) treats a and b alike.
    """
    bound = ((ORDERS - 1) * rho * ORDERS)[:, None]

    def allowed(a: Floats, b: Floats) -> Floats:
        with np.errstate(divide="ignore", invalid="ignore"):
            logs = np.log([a, 1 - a]), np.log([1 - b, b])
            sums = [
                np.logaddexp(*(ORDERS[:, None] * p + (1 - ORDERS[:, None]) * q for p, q in pairs))
                for pairs in (zip(*logs, strict=True), zip(*reversed(logs), strict=True))
            ]
        return np.asarray(np.all([part <= bound for part in sums], axis=(0, 1)))

    def f(a: Floats) -> Floats:
        flat = np.ravel(np.asarray(a, dtype=float))
        low, high = np.zeros_like(flat), 1 - flat
        for _ in range(BISECTIONS):
            middle = (low + high) / 2
            fits = allowed(flat, middle)
            low, high = np.where(fits, low, middle), np.where(fits, middle, high)
        return np.where(flat <= 0, 1.0, low).reshape(np.shape(a))

    return f
