"""Lower bounds for coins: what sampling and privacy cost together.

n records are 1 with probability q(1/2 + h), -1 with probability q(1/2 - h), else 0; or the two are
exchanged. Let M be the number of those that are not 0, of the same law for both, and D the distance
of the counts of 1 and of -1. Given M, D has the same law, too, and given both the larger count is
that of the likelier value with probability 1 - w, w = 1/(1 + r^D), r = (1/2 + h)/(1/2 - h). So the
two datasets can be coupled: zeros, M and D are shared; with probability 2w the larger count is of
the same value, by a fair flip; else of the likelier one of each, and they differ in D records. In
`dpbench.theory.bounds.numbers` the sum of the errors of a private test of datasets that differ in s
records is at least 2 x_s, x_0 = 1/2. So every test of the two laws has an error of at least

    e(h, q) = E (w_D + (1 - 2 w_D) x_D),

D being the distance from 0 of a sum of n independent steps: its law is by a Fourier transform. With
h = 1/2 that is E x_M, the bound of two laws with a rare point; with q = 1 records are coins. For
these, without privacy, x_s = 0, that is the majority's error, which is exact; for small epsilon n
it is nearly x_s at s = 2hn. Under (epsilon, delta) linear programs find tests that reach it.

Chains. Of m laws with leans h_i = (2i - m + 1) h, i < m, neighbours have their middle at
c = (2i - m + 2) h, at most (m-2) h. Both are mixtures: of records that are not 0 a part of v, any
v <= 1 - 2 abs(c), leans by h/v, one way or the other, and the rest is drawn from a law that both
share. The datasets can be coupled so that they share the rest, too: no test errs less than
e(h/v, q v). Where that is m beta/(2 (m-1)), at v = 1 - 2 (m-2) h, every estimator errs by half a
step of the means with probability at least beta under one of the laws (see `numbers`). Of
P(heads), q = 1, that is h. Of values +-tau it is 2 h q tau, where tau makes the largest
E|X - mean|^k of the laws one.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, LEAST, _miss, chains_of_coins

__all__ = ["coins_lower_bound", "error_of_coins", "rare_coins_lower_bound"]

MOST = 10**6  # records that are not 0


def error_of_coins(h: float, n: int, budget: Budget, q: float = 1.0) -> float:
    """What the larger error of every private test of two laws that lean by h is at least."""
    mean = 2 * h * q
    reach = 7 * np.sqrt(n * (q - mean**2)) + 40  # beyond are weights of 1e-11
    size, middle = 2 ** int(np.ceil(np.log2(2 * reach))), round(n * mean)
    turn = 2 * np.pi * np.arange(size // 2 + 1) / size
    less, across = 2 * q * np.sin(turn / 2) ** 2, mean * np.sin(turn)  # 1 - less + across i
    length = np.exp(n / 2 * np.log1p(np.maximum(across**2 - less * (2 - less), LEAST - 1)))
    angle = turn * middle - n * np.arctan2(across, 1 - less)
    weights = np.fft.irfft(length * np.exp(1j * angle), size)
    apart = np.abs(middle + np.round(np.fft.fftfreq(size, 1 / size)))
    wrong = expit(-apart * np.log((0.5 + h) / (0.5 - h)))
    missed = np.where(apart == 0, 0.5, _miss(apart, budget))
    return float(np.sum(weights * (wrong + (1 - 2 * wrong) * missed)))


@cache
def _chains(n: int, budget: Budget, q: float, beta: float) -> list[tuple[int, float]]:
    """How many laws, and their h, of chains that no test tells; none where nothing is known."""

    def error(laws: int, h: float) -> float:
        coins = 1 - 2 * (laws - 2) * h
        return error_of_coins(min(h / coins, 0.5 - LEAST), n, budget, q * coins)

    if n * q > MOST or not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return []
    return chains_of_coins(error, 0.1 / np.sqrt(max(1, n * q)), beta)


def coins_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """An error that every private estimator of a coin exceeds, with probability beta, on some coin.

    NaN for more than a million records, where one of the two costs nothing, and where nothing is
    known of the notion.
    """
    return max((h for _, h in _chains(n, budget, 1.0, beta)), default=float("nan"))


def rare_coins_lower_bound(
    n: int, k: float, budget: Budget, q: float, *, beta: float = BETA
) -> float:
    """The error that laws on -tau, 0 and tau force, of unit moments and P(X != 0) = q.

    NaN for q n above a million, and where nothing is known of the notion.
    """

    def error(laws: int, h: float) -> float:
        lean = h * np.arange(1 - laws, laws, 2)
        mean = 2 * q * lean
        above, below = (0.5 + lean) * (1 - mean) ** k, (0.5 - lean) * (1 + mean) ** k
        moment = (1 - q) * np.abs(mean) ** k + q * (above + below)
        return float(2 * h * q * moment.max() ** (-1 / k))

    return max((error(*chain) for chain in _chains(n, budget, q, beta)), default=float("nan"))
