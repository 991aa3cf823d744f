"""Lower bounds from chains of Bernoulli distributions: the joint cost of sampling and privacy.

A chain is a sequence of distributions, each of which is tested against the next. A test decides
from n records between two distributions, and has two errors, one under each of them.

Notation (name in code). h in (0, 1/2] is a skew, and q the probability that a record is not 0.

    P = P(h, q)           a record is 1 with probability q (1/2 + h), -1 with q (1/2 - h), else 0
    Q                     P(-h, q), the mirror image of P
    M                     number of non-zero records, equally distributed under P and Q
    D (`difference`)      |number of 1 - number of -1|; given M, equally distributed under P and Q
    w_D (`majority_error`)  1/(1 + r^D), r = (1/2 + h)/(1/2 - h): probability, given M and D, that
                          the less likely value has the larger count
    x_s (`testing_error`) smallest x at which a private test of two datasets, s records apart,
                          has both errors x (`dpbench.theory.bounds.numbers`, 3); x_0 = 1/2

1. Pairs. Couple a dataset from P with one from Q that has the same zeros and the same D. With
probability 2 w_D, a fair coin decides for both datasets which of 1 and -1 is more frequent. The two
datasets are then equal, and the errors of a test sum to 1. Otherwise 1 is more frequent in the
dataset from P, and -1 in the dataset from Q. The two datasets then differ in D records, and the
errors of a test sum to at least 2 x_D. So half the sum of the errors of every private test of P and
Q is at least

    e(h, q) = E [w_D + (1 - 2 w_D) x_D]   (`bernoulli_chain_error`).

D is the absolute value of a sum of n independent steps. A Fourier transform yields its
distribution. Special cases:

    h = 1/2               e = E x_M, the bound of `two_point_lower_bound`, where p is q
    q = 1, no privacy     x_s = 0 for s > 0; e is the error of the majority, the best test
    small epsilon n       e is nearly x_s at s = 2hn

Under (epsilon, delta)-DP tests/theory/bounds/test_bernoulli.py compares e with the errors of the
best test, by linear programs.

2. Chains. Take m distributions (`laws`) with skews h_i = (2i - m + 1) h, i = 0, ..., m-1. Two
neighbours, distributions i and i + 1, have the mean skew c = (2i - m + 2) h, with |c| <= (m-2) h.
For any v <= 1 - 2 |c| both neighbours are mixtures. With probability v, a non-zero record comes
from P(h/v, 1) under one neighbour and from its mirror image under the other. Otherwise it comes
from a distribution that both neighbours share. Choose v = 1 - 2 (m-2) h, and couple the two
datasets so that records from the shared distribution are equal. Then half the sum of the errors of
every test of neighbours is at least e(h/v, q v). Suppose that e(h/v, q v) is at least
m beta/(2 (m-1)). Then every estimator errs by at least half the distance of neighbouring means,
with probability at least beta under one of the distributions (`dpbench.theory.bounds.numbers`, 2).

Half the distance of neighbouring means is h for Bernoulli means (q = 1), and 2 h q tau for the
values -tau, 0 and tau. Here tau is set so that the largest E|X - mean|^k over the chain is 1, where
X is a record and k the given order of the moment.

3. Squared errors. `binary_risk_lower_bound` needs no chain, because the minimax risk of a binary
mean is known for every trade-off function (`dpbench.estimators.binary_risk`).
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit

from dpbench.estimators.binary_risk import binary_minimax, minimax_for_noise
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.canonical import concentrated_trade_off, trade_off_noise
from dpbench.theory.bounds.numbers import (
    BETA,
    MIN_SHARED_MASS,
    _testing_error,
    find_bernoulli_chains,
)

__all__ = [
    "bernoulli_chain_error",
    "bernoulli_chain_lower_bound",
    "binary_risk_lower_bound",
    "rare_bernoulli_chain_lower_bound",
]

MAX_NONZERO_RECORDS = 10**6  # largest expected number of non-zero records


def bernoulli_chain_error(h: float, n: int, budget: Budget, q: float = 1.0) -> float:
    """Return a lower bound on half the sum of a private test's errors, for mirrored distributions.

    The test decides between two distributions. Under the first a record is 1 with probability
    q (1/2 + h), -1 with probability q (1/2 - h), and else 0. Under the second, 1 and -1 change
    places. The test has two errors: the probabilities of the wrong answer under each distribution.

    Parameters
    ----------
    h : float
        Skew, 0 < h < 1/2. Under the first distribution a non-zero record is 1 with probability
        1/2 + h.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the test.
    q : float, default 1.0
        Probability that a record is not 0.

    Returns
    -------
    float
        Lower bound, also on the larger of the two errors. A discrete Fourier transform of finite
        length computes the distribution of the sum of the records. Sums outside the range that the
        transform covers have probability about 1e-11, and the transform counts them at wrong
        values. So the result may be about 1e-11 too large or too small.
    """
    mean = 2 * h * q
    reach = 7 * np.sqrt(n * (q - mean**2)) + 40  # larger deviations have probability 1e-11
    size, middle = 2 ** int(np.ceil(np.log2(2 * reach))), round(n * mean)
    turn = 2 * np.pi * np.arange(size // 2 + 1) / size
    # The transform of a step is 1 - drop + imag i.
    drop, imag = 2 * q * np.sin(turn / 2) ** 2, mean * np.sin(turn)
    modulus = np.exp(n / 2 * np.log1p(np.maximum(imag**2 - drop * (2 - drop), MIN_SHARED_MASS - 1)))
    angle = turn * middle - n * np.arctan2(imag, 1 - drop)
    weights = np.fft.irfft(modulus * np.exp(1j * angle), size)
    difference = np.abs(middle + np.round(np.fft.fftfreq(size, 1 / size)))
    majority_error = expit(-difference * np.log((0.5 + h) / (0.5 - h)))
    testing_error = np.where(difference == 0, 0.5, _testing_error(difference, budget))
    return float(np.sum(weights * (majority_error + (1 - 2 * majority_error) * testing_error)))


@cache
def _private_chains(n: int, budget: Budget, q: float, beta: float) -> list[tuple[int, float]]:
    """Return the chains of distributions on -1, 0 and 1 that prove a lower bound on the error.

    A chain is a sequence of distributions, each of which is tested against the next. Each chain is
    given as a pair: the number of its distributions, and a number h. A record is not 0 with
    probability q. From one distribution to the next, the probability that a non-zero record is 1
    grows by 2h. For each chain, h is the largest value at which the chain proves a lower bound on
    the error of private estimators. The list is empty if no bound is known for the privacy notion
    of `budget`. It is also empty if n q, the mean number of non-zero records, is above
    `MAX_NONZERO_RECORDS`.
    """

    def error(laws: int, h: float) -> float:
        """Return a lower bound on half the sum of a private test's errors for two neighbours.

        The neighbours are any two successive distributions in a sequence of `laws` distributions on
        -1, 0 and 1. Under the second, the probability that a non-zero record is 1 is larger by 2h.
        """
        v = 1 - 2 * (laws - 2) * h
        return bernoulli_chain_error(min(h / v, 0.5 - MIN_SHARED_MASS), n, budget, q * v)

    if n * q > MAX_NONZERO_RECORDS or not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return []
    return find_bernoulli_chains(error, 0.1 / np.sqrt(max(1, n * q)), beta)


def bernoulli_chain_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators of a Bernoulli mean.

    The bound is from chains of Bernoulli distributions, each of which is tested against the next.

    Parameters
    ----------
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta for some mean. NaN if no bound is
        known for the privacy notion, and for n above 1e6, where the bound is not computed.
    """
    return max((h for _, h in _private_chains(n, budget, 1.0, beta)), default=float("nan"))


def binary_risk_lower_bound(n: int, budget: Budget) -> float:
    """Return a lower bound on the worst mean square error of private estimators of a binary mean.

    Under pure, (epsilon, delta) and Gaussian DP the bound is within 0.3 per cent of the smallest
    possible risk. Under zCDP it is the risk for a trade-off function that every rho-zCDP release
    satisfies. There the risk of `BinaryMinimax` was 1.01 to 1.44 times the bound in six settings.

    Parameters
    ----------
    n : int
        Number of records, 1 to 1000.
    budget : Budget
        Privacy guarantee of the estimator.

    Returns
    -------
    float
        Squared error that the worst p reaches or exceeds.
    """
    if isinstance(budget, ZCDP):
        return minimax_for_noise(n, trade_off_noise(concentrated_trade_off(budget.rho))).lower
    return binary_minimax(n, budget).lower


def rare_bernoulli_chain_lower_bound(
    n: int, k: float, budget: Budget, q: float, *, beta: float = BETA
) -> float:
    """Return the lower bound on the error from distributions on three values -tau, 0 and tau.

    The distributions of a record X form a sequence (a chain), and each is tested against the next.
    The number tau is set so that the largest E|X - mean|^k over the chain is 1.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment; every distribution of the chain has E|X - mean|^k <= 1.
    budget : Budget
        Privacy guarantee of the estimator.
    q : float
        Probability that a record is not 0.
    beta : float, default 0.1
        Probability with which the error is at least the bound.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta under one of the distributions of the
        chain. NaN if no bound is known for the privacy notion, and for q n above 1e6, where the
        bound is not computed.
    """

    def half_step(laws: int, h: float) -> float:
        """Return half the distance of neighbouring means in a sequence of distributions.

        There are `laws` distributions of a record X, on -tau, 0 and tau. From one distribution to
        the next, the probability that a non-zero record is tau grows by 2h. tau is set so that the
        largest E|X - mean|^k over the distributions is 1.
        """
        skew = h * np.arange(1 - laws, laws, 2)
        mean = 2 * q * skew
        longest = 1 + np.abs(mean).max()  # so that no power overflows
        near, far = ((1 - mean) / longest) ** k, ((1 + mean) / longest) ** k
        moment = (1 - q) * (np.abs(mean) / longest) ** k
        moment += q * ((0.5 + skew) * near + (0.5 - skew) * far)
        return float(2 * h * q * moment.max() ** (-1 / k) / longest)

    return max(
        (half_step(*chain) for chain in _private_chains(n, budget, q, beta)), default=float("nan")
    )
