"""Lower bounds on the error of estimators of one-dimensional means, private and non-private.

Notation. beta is the allowed probability of an error (`BETA`), n the number of records, alpha half
the distance of two means, and t the total-variation distance of two distributions P and Q. D_q is
the Renyi divergence of order q. A test of P against Q answers "P" or "Q"; its two errors are
P(answer "Q") and Q(answer "P").

1. Two distributions. Suppose that an estimator errs by less than alpha with probability above
   1 - beta under both. Comparing its answer with the middle of the two means is a test whose
   errors sum to less than 2 beta. So if the errors of every test sum to at least 2 beta, each
   estimator errs by at least alpha with probability at least beta under P or Q.

2. Chains. Let m distributions P_0, ..., P_(m-1) (`laws` in code) have means 2 alpha apart. An
   estimator that errs by less than alpha identifies the index, hence

       sum_j P_j(wrong) = sum over pairs (j, j+1) of P_j(answer > j) + P_(j+1)(answer <= j).

   If for every pair of neighbours the errors of every test sum to at least 2 e (on average over
   the m - 1 pairs), the mean of P_j(wrong) is at least 2 e (m-1)/m. So at e = m beta/(2 (m-1))
   (`of_a_pair`) each estimator errs by at least alpha with probability at least beta under one P_j.
   It is e = beta for two distributions, and e tends to beta/2 for many. N(j 2 alpha, 1) admits
   every m; Bernoulli means need (m-1) 2 alpha <= 1.

3. Private tests. Let S ~ Binomial(n, t) be the number of records in which a maximal coupling of
   P^n and Q^n differs, and x_s (`_testing_error`) the smallest common error of a private test of
   two fixed datasets that differ in s records. The errors of every private test sum to at least 2 E
   x_S. Equality holds where P and Q are 0 with probability 1 - p, and +tau or -tau with probability
   p.

       (epsilon, delta)-DP  x_s = ((1/2 + D) e^(-epsilon s/2) - D)_+                   for even s,
                            x_s = ((m_1 + D) e^(-epsilon (s-1)/2) - D)_+               for odd s,
                            D = delta/(e^epsilon - 1), m_1 = (1 - delta)/(1 + e^epsilon)
       mu-GDP               x_s = Phi(-s mu/2)
       rho-zCDP             x_s = 1/(1 + e^(l_s)), l_s by a recursion (`_chains`, `_step`)

   E x_S falls in t. `largest_untestable_tv` returns the t at which it is beta, or 1 where x_n >=
   beta.

4. From t to alpha: t/2 for Bernoulli distributions; m for N(+-m, 1), t = 2 Phi(m) - 1; and
   alpha = p tau for rare points at +-tau with p = t and E|X - mean|^k = 1.

5. Sampling alone. The best test without privacy of Bernoulli(c - h) against Bernoulli(c + h) is
   a likelihood ratio test, and `_told_apart` computes half the sum of its errors.

Proof: docs/theory/two_distributions.md. The pair of rare points is that of KSU20, Claim 3.9, here
with constants. The bound is exact for testing its pair; an estimator of a whole class may be unable
to reach it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache, lru_cache
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import bdtr, bdtrc, expit, ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.samples.hypergeometric import log_binomial_pmf

__all__ = [
    "BETA",
    "LEAST",
    "LowerBound",
    "bernoulli_lower_bound",
    "binomial_weights",
    "chain_of_coins",
    "chains_of_coins",
    "coin_logit",
    "fair_lower_bound",
    "gaussian_lower_bound",
    "largest_distance",
    "largest_untestable_tv",
    "of_a_pair",
    "sampling_lower_bound",
    "two_point_lower_bound",
]  # fmt: skip

# Errors are compared with bounds at their 1 - BETA quantile: the q90 of a summary.
BETA = 0.1
# Smallest 1 - t that is considered; it also guards logarithms against 0.
LEAST = 1e-12
# Numbers of records above which binomial tails are replaced by normal ones: for a fair coin, and
# for two coins, because the library's tails lose digits there.
NORMAL_FROM = 10**8
NORMAL_PAIRS_FROM = 10**6
# Numbers of distributions that a chain may have; the best is used.
LENGTHS = tuple(2**i for i in range(1, 11))
# Recursion under zCDP: the logit at which it stops, and the rho below which records are grouped.
ENOUGH = 40.0
FINE = 1e-4


class LowerBound(NamedTuple):
    """Lower bound on the error, and the pair of distributions that proves it.

    Parameters
    ----------
    alpha : float
        Error that is exceeded with probability at least beta, in the unit of the data.
    p_star : float
        Largest probability p of the rare point for which no private test separates the pair.
    """

    alpha: float
    p_star: float


def softplus(x: float) -> float:
    """Return ln(1 + e^x)."""
    return float(np.logaddexp(0.0, x))


def _testing_error(s: ArrayLike, budget: Budget) -> Floats:
    """Return x_s, the smallest common error of a private test of datasets s records apart."""
    s = np.asarray(s, dtype=float)
    if isinstance(budget, GDP):
        return np.asarray(ndtr(-s * budget.mu / 2))
    if isinstance(budget, ZCDP):
        return _concentrated_miss(s, budget.rho)
    assert isinstance(budget, PureDP | ApproxDP)
    epsilon, delta = budget.epsilon, getattr(budget, "delta", 0.0)
    odd = s % 2 == 1
    with np.errstate(over="ignore"):  # an infinite e^epsilon is as good as a large one
        offset = delta / np.expm1(epsilon)
        start = np.where(odd, (1 - delta) / (1 + np.exp(epsilon)), 0.5)
    miss = (start + offset) * np.exp(-epsilon * (s - odd) / 2) - offset
    return np.asarray(np.maximum(miss, 0.0))


def _step(near: float, rho: float) -> float:
    """Return l_(s+2) of the recursion under rho-zCDP, given l_s = `near`."""
    from scipy.optimize import brentq  # a slow import

    def excess(more: float) -> float:
        """Return the divergence over its order between `near` and `near + more`, minus rho."""
        far, m = near + more, -(near + more / 2)
        slope = (softplus(-far) - softplus(-near)) / more
        bend = slope - (softplus(-near) - softplus(-m)) / (near - m)
        return float(more**2 * bend / (far - m)) - rho

    high = 2 * np.sqrt(rho * (near + 2))
    while excess(high) < 0:
        high *= 2
    return near + float(brentq(excess, high / 1e3, high, xtol=1e-14, rtol=1e-13))


def coin_logit(rho: float) -> float:
    """Return the l with l tanh(l/2) = rho, the relative entropy of (x, 1-x) for x = 1/(1 + e^l)."""
    from scipy.optimize import brentq

    return float(
        brentq(lambda x: x * np.tanh(x / 2) - rho, 0, 2 * (rho + np.sqrt(rho)), xtol=1e-14)
    )


@cache
def _chains(rho: float) -> tuple[Floats, Floats]:
    """Return the logits l_s for even and for odd s, until 1/(1 + e^l) is below 1e-17."""

    def chain(logits: list[float]) -> Floats:
        while logits[-1] < ENOUGH:
            logits.append(_step(logits[-1], rho))
        return np.array(logits)

    return chain([0.0]), chain([coin_logit(rho)])


def _concentrated_miss(s: Floats, rho: float) -> Floats:
    """Return x_s under rho-zCDP; for small rho, m records at a time form an (m^2 rho)-zCDP step.

    Between these steps l_s is interpolated linearly. l is convex in s, so x_s becomes no larger.
    """
    m = max(1.0, np.floor(np.sqrt(FINE / rho)))
    even, odd = _chains(m**2 * rho)
    if m > 1:
        return np.asarray(expit(-np.interp(s / m, 2 * np.arange(len(even)), even, right=np.inf)))
    half = (s // 2).astype(int)
    logits = [np.append(one, np.inf)[np.minimum(half, len(one))] for one in (even, odd)]
    return np.asarray(expit(-np.where(s % 2 == 0, *logits)))


def binomial_weights(t: float, n: int) -> tuple[Floats, Floats]:
    """Return values s of S ~ Binomial(n, t) and their probabilities.

    Parameters
    ----------
    t : float
        Probability that a record differs.
    n : int
        Number of records.

    Returns
    -------
    s, weights : ndarray of shape (m,)
        Values and probabilities; values of total probability about 1e-15 are dropped.
    """
    reach = 9 * np.sqrt(n * t * (1 - t)) + 40
    s = np.arange(max(0, np.floor(n * t - reach)), min(n, np.ceil(n * t + reach)) + 1)
    weights = np.exp(log_binomial_pmf(s, n, t))
    return s, weights / weights.sum()


def largest_distance(spare: Callable[[float], float], n: int) -> float:
    """Return the largest t < 1 at which a falling function is positive.

    Parameters
    ----------
    spare : callable
        Falling function of t, positive at t = 1e-3/n.
    n : int
        Number of records.

    Returns
    -------
    float
        The root, or 1 - 1e-12 if `spare` is positive there.
    """
    from scipy.optimize import brentq  # a slow import

    @cache  # brentq evaluates both ends again
    def excess(log_t: float) -> float:
        return spare(np.exp(log_t))

    # Double t, beginning where S is nearly always 0 and the sums are short.
    low, highest = np.log(1e-3 / n), -LEAST
    while excess(high := min(low + np.log(2), highest)) > 0:
        if high == highest:
            return float(np.exp(highest))
        low = high
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


@lru_cache(64)  # searches for several beta begin with the same t
def _mean_miss(t: float, n: int, budget: Budget) -> float:
    """Return E x_S for S ~ Binomial(n, t)."""
    s, weights = binomial_weights(t, n)
    return float(weights @ _testing_error(s, budget))


@cache
def largest_untestable_tv(n: int, budget: Budget, beta: float = BETA) -> float:
    """Return the largest total-variation distance at which no private test separates a pair.

    Parameters
    ----------
    n : int
        Number of records, at most 1e15.
    budget : Budget
        Privacy guarantee of the test, or of the estimator.
    beta : float, default 0.1
        Error of the test, or probability of the estimator's error; below 1/2.

    Returns
    -------
    float
        The t with E x_S = beta: the errors of every private test sum to at least 2 beta. 1 if that
        holds at any distance; NaN for a notion without a bound.
    """

    def spare(t: float) -> float:
        return _mean_miss(t, n, budget) - beta

    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return float("nan")
    return 1.0 if _testing_error(n, budget) >= beta else largest_distance(spare, n)


def two_point_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """Return the lower bound by a pair of distributions with a rare point and unit k-th moment.

    Parameters
    ----------
    n, budget, beta
        See `largest_untestable_tv`.
    k : float
        Order of the moment: E|X - mean|^k = 1.

    Returns
    -------
    LowerBound
        Each private estimator errs by ``alpha`` with probability at least beta under one of the
        two. NaN for a notion without a bound. Infinite, with ``p_star`` = 1, if no private test
        separates n equal records from n others.
    """
    p = largest_untestable_tv(n, budget, beta)
    if np.isnan(p):
        return LowerBound(np.nan, np.nan)
    return LowerBound(p * TwoPoint(p=p, k=k).tau, p) if p < 1 else LowerBound(np.inf, 1.0)


def of_a_pair(laws: int, beta: float = BETA) -> float:
    """Return e = m beta/(2 (m-1)), the error of tests of neighbours that a chain needs.

    Parameters
    ----------
    laws : int
        Number m of distributions in the chain, at least 2.
    beta : float, default 0.1
        Probability of the estimator's error.

    Returns
    -------
    float
        Half the smallest sum of the two errors.
    """
    return laws * beta / (2 * (laws - 1))


def chain_of_coins(distance: Callable[[float], float], beta: float = BETA) -> float:
    """Return half the step of a chain of Bernoulli distributions.

    Parameters
    ----------
    distance : callable
        Function of e: largest distance of neighbours at which the errors of every test sum to 2 e.
    beta : float, default 0.1
        Probability of the estimator's error.

    Returns
    -------
    float
        Lower bound on the error for the longest chain that fits at the step for e = beta/2. NaN if
        `distance` is not known.
    """
    largest = distance(beta / 2)
    return distance(of_a_pair(1 + int(1 / largest), beta)) / 2 if largest > 0 else largest


def bernoulli_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on private estimators of a Bernoulli mean, by a chain.

    Parameters
    ----------
    n, budget, beta
        See `largest_untestable_tv`.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta for some mean.
    """
    return chain_of_coins(lambda error: largest_untestable_tv(n, budget, error), beta)


def gaussian_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound m on private estimators of the mean of N(mean, 1), by a long chain.

    Parameters
    ----------
    n, budget, beta
        See `largest_untestable_tv`.

    Returns
    -------
    float
        Error, in standard deviations, that is exceeded with probability arbitrarily near to beta.
    """
    return float(ndtri((1 + largest_untestable_tv(n, budget, beta / 2)) / 2))


def _told_apart(h: float, laws: int, n: int) -> float:
    """Return half the sum of the errors of the best non-private test, averaged over neighbours.

    The chain has `laws` Bernoulli means 2h apart, centred at 1/2.
    """
    centre = 0.5 + (2 * np.arange(laws - 1) - laws + 2) * h
    low, high = centre - h, centre + h
    if n >= NORMAL_PAIRS_FROM:
        return float(ndtr(-h * np.sqrt(n / (centre * (1 - centre)))).mean())
    per_head, per_tail = np.log(high / low), np.log((1 - low) / np.maximum(1 - high, LEAST))
    least = np.ceil(n * per_tail / (per_head + per_tail)) - 1  # the last count that says "lower"
    return float((bdtrc(least, n, low) + bdtr(least, n, high)).mean() / 2)


def chains_of_coins(
    error: Callable[[int, float], float], least: float, beta: float = BETA
) -> list[tuple[int, float]]:
    """Return the chains, by length, up to the length from which the half step h falls.

    Parameters
    ----------
    error : callable
        Function of the number of distributions and of h: half the sum of the errors of the best
        test of neighbours. It falls in h.
    least : float
        An h that is small enough for chains of two.
    beta : float, default 0.1
        Probability of the estimator's error.

    Returns
    -------
    list of (int, float)
        Number of distributions and half step h of each chain.
    """
    from scipy.optimize import brentq  # a slow import

    found, h = [], least
    for laws in LENGTHS:
        most = (0.5 - LEAST) / (laws - 1)

        @cache  # brentq evaluates both ends again
        def excess(h: float, laws: int = laws) -> float:
            return error(laws, h) - of_a_pair(laws, beta)

        if h >= most or excess(h) < 0:
            break
        low = high = h
        while high < most and (low == high or excess(high) > 0):
            low, high = high, min(2 * high, most)
        h = high if excess(high) >= 0 else float(brentq(excess, low, high, xtol=1e-18, rtol=1e-7))
        found.append((laws, h))
    return found


@cache
def _fair_chains(n: int, beta: float) -> list[tuple[int, float]]:
    """Return chains of Bernoulli distributions, as bounds without privacy."""
    return chains_of_coins(lambda laws, h: _told_apart(h, laws, n), 0.1 / np.sqrt(n), beta)


def fair_lower_bound(n: int, *, beta: float = BETA) -> float:
    """Return the lower bound h that sampling alone implies for a Bernoulli mean.

    Parameters
    ----------
    n, beta
        See `largest_untestable_tv`; n has no limit.

    Returns
    -------
    float
        Error that every estimator, private or not, exceeds with probability at least beta.
    """
    return _fair_chains(n, beta)[-1][1]


def sampling_lower_bound(n: int, k: float, *, beta: float = BETA) -> float:
    """Return the lower bound that sampling alone implies under a unit k-th moment.

    Parameters
    ----------
    n, beta
        See `largest_untestable_tv`; n has no limit.
    k : float
        Order of the moment: E|X - mean|^k is at most 1 along the chain.

    Returns
    -------
    float
        Error that every estimator exceeds with probability at least beta, within 1e-6 of its value.
    """
    return max(
        h * min(TwoPoint(p=0.5 + i * h, k=k).tau for i in range(1 - laws, laws, 2))
        for laws, h in _fair_chains(n, beta)
    )
