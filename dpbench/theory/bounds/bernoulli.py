"""Lower bounds by chains of skewed coins: the joint cost of sampling and privacy.

Notation (name in code). n records; h the skew and q the probability of a non-zero record:

    P = P(h, q)   a record is 1 with probability q (1/2 + h), -1 with q (1/2 - h), else 0
    Q             its mirror image, P(-h, q)
    M             number of non-zero records, equally distributed under P and Q
    D (`apart`)   |number of 1 - number of -1|, equally distributed under P and Q, given M, too
    w_D (`wrong`) = 1/(1 + r^D), r = (1/2 + h)/(1/2 - h): probability, given M and D, that the
                  larger count is that of the less likely value
    x_s (`missed`)  smallest common error of a private test of datasets s records apart, x_0 = 1/2
                  (`dpbench.theory.bounds.numbers`)

1. Pairs. Couple a dataset from P with one from Q: share the zeros, M and D. With probability 2 w_D
draw by a fair flip which value has the larger count, and share the result. Otherwise each dataset
has the larger count at its own likelier value, and the two differ in D records. In the first case
the errors of a test of the two sum to 1, in the second to at least 2 x_D. So half the sum of the
errors of every private test of P and Q is at least

    e(h, q) = E [w_D + (1 - 2 w_D) x_D]   (`bernoulli_chain_error`).

D is |sum of n independent steps|, whose distribution is computed by a Fourier transform. At h =
1/2, e = E x_M, the bound of two distributions with a rare point. At q = 1 without privacy x_s = 0
for s > 0, and e is the error of the majority, which is exact. For small epsilon n it is nearly x_s
at s = 2hn. Under (epsilon, delta)-DP tests/theory/bounds/test_bernoulli.py compares it with the
best test, by linear programs.

2. Chains. Take m distributions (`laws`) with skews h_i = (2i - m + 1) h, i = 0, ..., m-1. The
middle of neighbours is c = (2i - m + 2) h, with |c| <= (m-2) h. For any v <= 1 - 2 |c| both
neighbours are mixtures: a non-zero record comes with probability v from P(h/v) or from its mirror
image, and else from a distribution that they share. Sharing that part in the coupling, half the sum
of the errors of every test of neighbours is at least e(h/v, q v), v = 1 - 2 (m-2) h (`coins`).
Where that is m beta/(2 (m-1)), every estimator errs by half a step of the means with probability at
least beta under one of the distributions (`dpbench.theory.bounds.numbers`, 2). Half a step is h for
P(heads) at q = 1, and 2 h q tau for values +-tau, where tau makes the largest E|X - mean|^k of the
chain 1.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import expit

from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.theory.bounds.numbers import BETA, LEAST, _testing_error, chains_of_coins

__all__ = [
    "bernoulli_chain_error",
    "bernoulli_chain_lower_bound",
    "rare_bernoulli_chain_lower_bound",
]

MOST = 10**6  # largest expected number of non-zero records


def bernoulli_chain_error(h: float, n: int, budget: Budget, q: float = 1.0) -> float:
    """Return e(h, q), half the smallest sum of the errors of a private test of the pair.

    Parameters
    ----------
    h : float
        Skew, 0 < h < 1/2.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the test.
    q : float, default 1.0
        Probability that a record is not 0.

    Returns
    -------
    float
        Lower bound on the larger error. The Fourier transform wraps sums of probability about 1e-11
        around, which changes the result by at most that much, in either direction.
    """
    mean = 2 * h * q
    reach = 7 * np.sqrt(n * (q - mean**2)) + 40  # sums beyond have probability 1e-11
    size, middle = 2 ** int(np.ceil(np.log2(2 * reach))), round(n * mean)
    turn = 2 * np.pi * np.arange(size // 2 + 1) / size
    less, across = (
        2 * q * np.sin(turn / 2) ** 2,
        mean * np.sin(turn),
    )  # transform of a step: 1 - less + across i
    length = np.exp(n / 2 * np.log1p(np.maximum(across**2 - less * (2 - less), LEAST - 1)))
    angle = turn * middle - n * np.arctan2(across, 1 - less)
    weights = np.fft.irfft(length * np.exp(1j * angle), size)
    apart = np.abs(middle + np.round(np.fft.fftfreq(size, 1 / size)))
    wrong = expit(-apart * np.log((0.5 + h) / (0.5 - h)))
    missed = np.where(apart == 0, 0.5, _testing_error(apart, budget))
    return float(np.sum(weights * (wrong + (1 - 2 * wrong) * missed)))


@cache
def _chains(n: int, budget: Budget, q: float, beta: float) -> list[tuple[int, float]]:
    """Return numbers of distributions and h of the chains; an empty list if no bound is known."""

    def error(laws: int, h: float) -> float:
        """Return the lower bound on half the sum of the errors of a test of neighbours."""
        coins = 1 - 2 * (laws - 2) * h
        return bernoulli_chain_error(min(h / coins, 0.5 - LEAST), n, budget, q * coins)

    if n * q > MOST or not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return []
    return chains_of_coins(error, 0.1 / np.sqrt(max(1, n * q)), beta)


def bernoulli_chain_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on private estimators of a Bernoulli mean.

    Parameters
    ----------
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability of the error.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta for some mean. NaN for a notion
        without a bound, and above 1e6 records, where either sampling or privacy costs next to
        nothing.
    """
    return max((h for _, h in _chains(n, budget, 1.0, beta)), default=float("nan"))


def rare_bernoulli_chain_lower_bound(
    n: int, k: float, budget: Budget, q: float, *, beta: float = BETA
) -> float:
    """Return the lower bound by distributions on -tau, 0 and tau with unit k-th moments.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment: E|X - mean|^k <= 1.
    budget : Budget
        Privacy guarantee of the estimator.
    q : float
        Probability that a record is not 0.
    beta : float, default 0.1
        Probability of the error.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta. NaN for a notion without a bound, and
        for q n above 1e6.
    """

    def error(laws: int, h: float) -> float:
        """Return the half step 2 h q tau of a chain."""
        lean = h * np.arange(1 - laws, laws, 2)
        mean = 2 * q * lean
        above, below = (0.5 + lean) * (1 - mean) ** k, (0.5 - lean) * (1 + mean) ** k
        moment = (1 - q) * np.abs(mean) ** k + q * (above + below)
        return float(2 * h * q * moment.max() ** (-1 / k))

    return max((error(*chain) for chain in _chains(n, budget, q, beta)), default=float("nan"))
