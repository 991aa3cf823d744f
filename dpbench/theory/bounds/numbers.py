"""Lower bounds on the error of estimators of one-dimensional means, private and non-private.

Notation. beta is the allowed probability of an error (`BETA`), and n the number of records. alpha
is half the distance of two means, and t the total-variation distance of two distributions P and Q.
A test of P against Q answers "P" or "Q". Its two errors are P(answer "Q") and Q(answer "P").

1. Two distributions. Suppose that an estimator errs by less than alpha with probability above
   1 - beta under both P and Q. Comparing its answer with the middle of the two means is a test
   whose errors sum to less than 2 beta. So suppose that the errors of every test sum to at least 2
   beta. Then each estimator errs by at least alpha with probability at least beta under P or Q.

2. Chains. Let m distributions P_0, ..., P_(m-1) (`laws` in code) have means 2 alpha apart. An
   estimator that errs by less than alpha identifies the index j. So let its answer be an index, and
   let P_j(wrong) be the probability under P_j that the answer is not j. Then

       sum_j P_j(wrong) = sum over pairs (j, j+1) of P_j(answer > j) + P_(j+1)(answer <= j).

   Suppose that the errors of every test of neighbours sum to at least 2 e, on average over the
   m - 1 pairs. Then the mean of P_j(wrong) is at least 2 e (m-1)/m. So at e = m beta/(2 (m-1))
   (`neighbour_error`) each estimator errs by alpha or more with probability at least beta under
   one P_j. Two distributions need e = beta; for long chains e tends to beta/2. Normal means admit
   every m; Bernoulli means need (m-1) 2 alpha <= 1.

3. Private tests. A maximal coupling of n records of P with n of Q differs in S ~ Binomial(n, t)
   records. Let x_s (`_testing_error`) be the smallest x such that a private test of two fixed
   datasets, s records apart, has both errors x. The errors of every private test of P and Q sum to
   at least 2 E x_S. Equality holds where P and Q are 0 with probability 1 - p, and else +tau under
   P and -tau under Q.

       (epsilon, delta)-DP  x_s = ((1/2 + D) e^(-epsilon s/2) - D)_+                   for even s,
                            x_s = ((x_1 + D) e^(-epsilon (s-1)/2) - D)_+               for odd s,
                            D = delta/(e^epsilon - 1), x_1 = (1 - delta)/(1 + e^epsilon)
       mu-GDP               x_s = Phi(-s mu/2)
       rho-zCDP             x_s = 1/(1 + e^(l_s)), l_s by a recursion (`_next_logit`)

   E x_S falls in t. `largest_untestable_tv` returns the t at which E x_S = beta, or 1 if
   x_n >= beta.

4. From t to alpha: alpha = t/2 for Bernoulli distributions; t = 2 Phi(alpha) - 1 for
   N(+-alpha, 1); alpha = p tau for rare points at +-tau with p = t and E|X - mean|^k = 1.

5. Sampling alone. The best test without privacy of Bernoulli(c - h) against Bernoulli(c + h) is
   a likelihood ratio test. `_nonprivate_neighbour_error` returns half the sum of its errors.

Proof: docs/theory/two_distributions.md. The pair of rare points is from KSU20, Claim 3.9, here with
constants. For this pair 2 E x_S is the smallest sum of errors of a private test (under zCDP,
nearly). An estimator of a whole class may be unable to attain the bound.
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
    "BETA", "MIN_SHARED_MASS", "LowerBound", "bernoulli_chain_half_step", "bernoulli_lower_bound",
    "bernoulli_sampling_lower_bound", "binomial_weights", "entropy_logit", "find_bernoulli_chains",
    "gaussian_lower_bound", "largest_distance", "largest_untestable_difference",
    "largest_untestable_tv", "legendre_rule", "neighbour_error", "sampling_lower_bound",
    "two_point_lower_bound",
]  # fmt: skip

# Probability of an error. Bounds are compared with the 1 - BETA quantile of errors, column q90.
BETA = 0.1
# Smallest considered 1 - t, the mass that two distributions share; also guards logarithms.
MIN_SHARED_MASS = 1e-12
# From these numbers on normal tails replace binomial tails, because scipy's tails lose digits: half
# the signs of views in `dpbench.theory.bounds.local`; records in tests of two Bernoulli means.
NORMAL_FROM = 10**8
NORMAL_PAIRS_FROM = 10**6
# Numbers of distributions in the chains that are tried.
CHAIN_LENGTHS = tuple(2**i for i in range(1, 11))
# Under zCDP: logit at which the recursion stops, and largest m^2 rho of a step of m records.
MAX_LOGIT = 40.0
MAX_GROUPED_RHO = 1e-4


class LowerBound(NamedTuple):
    """Lower bound on the error, proved by two distributions with a rare point.

    A record X is 0, or with probability p it is tau under one distribution and -tau under the
    other. tau makes E|X - mean|^k equal to 1, for a moment order k. The bound is computed for a
    probability beta, by default 0.1.

    Parameters
    ----------
    alpha : float
        Error that is exceeded with probability at least beta, in the unit of the data.
    p_star : float
        Largest probability p at which the two errors of every private test of the two distributions
        sum to 2 beta or more.
    """

    alpha: float
    p_star: float


@cache
def legendre_rule(size: int) -> tuple[Floats, Floats]:
    """Return nodes and weights of the Gauss-Legendre quadrature on [-1, 1]; slow to compute."""
    nodes, weights = np.polynomial.legendre.leggauss(size)
    return nodes, weights


def softplus(x: float) -> float:
    """Return ln(1 + e^x)."""
    return float(np.logaddexp(0.0, x))


def _testing_error(s: ArrayLike, budget: Budget) -> Floats:
    """Return a lower bound on the larger error of every private test of two datasets.

    The datasets differ in `s` records. A test is given one of the two and guesses which one. It has
    an error for each dataset: the probability of the wrong guess.
    """
    s = np.asarray(s, dtype=float)
    if isinstance(budget, GDP):
        return np.asarray(ndtr(-s * budget.mu / 2))
    if isinstance(budget, ZCDP):
        return _zcdp_testing_error(s, budget.rho)
    assert isinstance(budget, PureDP | ApproxDP)
    epsilon, delta = budget.epsilon, getattr(budget, "delta", 0.0)
    odd = s % 2 == 1
    with np.errstate(over="ignore"):  # an infinite e^epsilon gives the limit
        offset = delta / np.expm1(epsilon)
        start = np.where(odd, (1 - delta) / (1 + np.exp(epsilon)), 0.5)
    error = (start + offset) * np.exp(-epsilon * (s - odd) / 2) - offset
    return np.asarray(np.maximum(error, 0.0))


def _next_logit(logit: float, rho: float) -> float:
    """Return the logit of the error of rho-zCDP tests for s + 2 differing records, from that for s.

    If two datasets differ in s records, every rho-zCDP test of them has an error of at least 1/(1 +
    e^l). The number l depends on s and is called the logit. `logit` is l for s records, and the
    result is l for s + 2 records.
    """
    from scipy.optimize import brentq

    def excess(increment: float) -> float:
        """Return D_q/q - rho, which is positive if a step of the logit is too large for rho-zCDP.

        D_q is the Renyi divergence of order q between two distributions of a test's answer. These
        distributions have the logits `logit` and `logit + increment`. zCDP demands D_q/q <= rho for
        all q > 1. The function checks a single q, near the one with the largest D_q/q.
        """
        next_logit, tilted = logit + increment, -(logit + increment / 2)
        slope = (softplus(-next_logit) - softplus(-logit)) / increment
        second_difference = slope - (softplus(-logit) - softplus(-tilted)) / (logit - tilted)
        return float(increment**2 * second_difference / (next_logit - tilted)) - rho

    high = 2 * np.sqrt(rho * (logit + 2))
    while excess(high) < 0:
        high *= 2
    return logit + float(brentq(excess, high / 1e3, high, xtol=1e-14, rtol=1e-13))


def entropy_logit(rho: float) -> float:
    """Return the logit l at which (x, 1-x) and (1-x, x) have the relative entropy rho.

    Here x = 1/(1 + e^l), and the relative entropy is l tanh(l/2).
    """
    from scipy.optimize import brentq

    # xtol is tiny, so that the relative error of a small logit is small, too.
    return float(
        brentq(lambda x: x * np.tanh(x / 2) - rho, 0, 2 * (rho + np.sqrt(rho)), xtol=1e-300)
    )


@cache
def _zcdp_logits(rho: float) -> tuple[Floats, Floats]:
    """Return the logits of the errors of private tests under rho-zCDP, for even and for odd s.

    If two datasets differ in s records, every rho-zCDP test of them has an error of at least 1/(1 +
    e^l). The number l is the logit, and grows with s. The first array holds l for s = 0, 2, 4, ...,
    the second for s = 1, 3, 5, .... Each ends with the first l that is `MAX_LOGIT` or more.
    """

    def extend(logits: list[float]) -> Floats:
        while logits[-1] < MAX_LOGIT:
            logits.append(_next_logit(logits[-1], rho))
        return np.array(logits)

    return extend([0.0]), extend([entropy_logit(rho)])


def _zcdp_testing_error(s: Floats, rho: float) -> Floats:
    """Return a lower bound on the larger error of rho-zCDP tests of two datasets s records apart.

    The bound is 1/(1 + e^l), where the logit l depends on s. For small rho, l is computed only at
    multiples of 2m records, where m^2 rho is at most `MAX_GROUPED_RHO`. For this, m records count
    as a single record: by group privacy, a test is (m^2 rho)-zCDP for datasets m records apart.
    Between the multiples, l is interpolated linearly. Because l is convex in s, interpolation does
    not raise the bound.
    """
    m = max(1.0, np.floor(np.sqrt(MAX_GROUPED_RHO / rho)))
    even, odd = _zcdp_logits(m**2 * rho)
    if m > 1:
        return np.asarray(expit(-np.interp(s / m, 2 * np.arange(len(even)), even, right=np.inf)))
    half = (s // 2).astype(int)
    logits = [np.append(chain, np.inf)[np.minimum(half, len(chain))] for chain in (even, odd)]
    return np.asarray(expit(-np.where(s % 2 == 0, *logits)))


def binomial_weights(t: float, n: int) -> tuple[Floats, Floats]:
    """Return the likely values of a Binomial(n, t) variable and their probabilities.

    Parameters
    ----------
    t : float
        Success probability; in this package, the probability that a record differs.
    n : int
        Number of records.

    Returns
    -------
    s, weights : ndarray of shape (m,)
        Values and their probabilities. Extreme values of total probability about 1e-15 are dropped,
        and the remaining probabilities are scaled to sum 1.
    """
    reach = 9 * np.sqrt(n * t * (1 - t)) + 40
    s = np.arange(max(0, np.floor(n * t - reach)), min(n, np.ceil(n * t + reach)) + 1)
    weights = np.exp(log_binomial_pmf(s, n, t))
    return s, weights / weights.sum()


def largest_distance(margin: Callable[[float], float], n: int) -> float:
    """Return the root of a falling function of a total-variation distance t < 1.

    Parameters
    ----------
    margin : callable
        Falling function of t, positive at t = 1e-3/n.
    n : int
        Number of records; the search begins at 1e-3/n.

    Returns
    -------
    float
        Largest t at which `margin` is positive. The result is 1 - 1e-12 if `margin` is still
        positive at 1 - 1e-12.
    """
    from scipy.optimize import brentq

    @cache  # brentq evaluates both ends again
    def excess(log_t: float) -> float:
        return margin(np.exp(log_t))

    # Double t, beginning where S is nearly always 0 and the sums are short.
    low, highest = np.log(1e-3 / n), -MIN_SHARED_MASS
    while excess(high := min(low + np.log(2), highest)) > 0:
        if high == highest:
            return float(np.exp(highest))
        low = high
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


@lru_cache(64)  # searches for several beta begin with the same t
def _mean_testing_error(t: float, n: int, budget: Budget) -> float:
    """Return the mean, over S ~ Binomial(n, t), of a lower bound on the error of private tests.

    Here t is the total-variation distance of two distributions, and S counts the records in which
    two datasets differ. A test guesses which of the two datasets it was given. For each S the bound
    is on the larger of its two probabilities of a wrong guess, one for each dataset.
    """
    s, weights = binomial_weights(t, n)
    return float(weights @ _testing_error(s, budget))


@cache
def largest_untestable_tv(n: int, budget: Budget, beta: float = BETA) -> float:
    """Return the largest distance at which the errors of every private test sum to at least 2 beta.

    The distance is the total variation of two distributions. A test decides between them from n
    records, and its errors are the probabilities of a wrong answer under each.

    Parameters
    ----------
    n : int
        Number of records, at most 1e15.
    budget : Budget
        Privacy guarantee of the test.
    beta : float, default 0.1
        Half the sum of the two errors, below 1/2. If the result is turned into a bound on the error
        of estimators, they err by the bound or more with probability at least beta.

    Returns
    -------
    float
        Distance in [0, 1]. It is 1 if private tests separate no two distributions, and NaN if no
        bound is known for the privacy notion.
    """

    def margin(t: float) -> float:
        return _mean_testing_error(t, n, budget) - beta

    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return float("nan")
    return 1.0 if _testing_error(n, budget) >= beta else largest_distance(margin, n)


def largest_untestable_difference(n: int, budget: Budget, beta: float = BETA) -> float:
    """Return the largest number s of records that private tests cannot detect.

    A test decides between two fixed datasets that differ in s of n records. Under the result s, one
    of its two errors is at least `beta`.

    Parameters
    ----------
    n : int
        Number of records of each dataset.
    budget : Budget
        Privacy guarantee of the test.
    beta : float, default 0.1
        Error of the test, below 1/2.

    Returns
    -------
    float
        Whole number from 0 to n; NaN if no bound is known for the privacy notion.
    """
    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return float("nan")
    low, high = 0, n + 1  # the error is at least beta at `low`, and below it at `high`
    while high - low > 1:
        middle = (low + high) // 2
        if _testing_error(middle, budget) >= beta:
            low = middle
        else:
            high = middle
    return float(low)


def two_point_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """Return the lower bound on the error of private estimators for k-th moments of 1.

    The bound is from two distributions with a rare point: a record is 0, or with probability p it
    is tau under one distribution and -tau under the other. tau makes E|X - mean|^k equal to 1.

    Parameters
    ----------
    n : int
        Number of records, at most 1e15.
    k : float
        Order of the moment: E|X - mean|^k = 1.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    LowerBound
        Each private estimator errs by ``alpha`` or more with probability at least beta under one of
        the two distributions, where p is ``p_star``. Both are NaN if no bound is known for the
        privacy notion. ``alpha`` is infinite and ``p_star`` is 1 if private tests separate no two
        distributions.
    """
    p = largest_untestable_tv(n, budget, beta)
    if np.isnan(p):
        return LowerBound(np.nan, np.nan)
    return LowerBound(p * TwoPoint(p=p, k=k).tau, p) if p < 1 else LowerBound(np.inf, 1.0)


def neighbour_error(laws: int, beta: float = BETA) -> float:
    """Return the testing error e at which a chain of m distributions proves a lower bound.

    A chain is a sequence of distributions, each of which is tested against the next. Suppose that
    the two errors of every such test sum to at least 2 e, on average over the m - 1 tests. Then
    every estimator errs by at least half the distance of neighbouring means, with probability at
    least beta under one of the distributions.

    Parameters
    ----------
    laws : int
        Number m of distributions in the chain, at least 2.
    beta : float, default 0.1
        Probability with which the estimator errs by half the distance of neighbouring means.

    Returns
    -------
    float
        e = m beta/(2 (m-1)), half the sum of a test's two errors.
    """
    return laws * beta / (2 * (laws - 1))


def bernoulli_chain_half_step(distance: Callable[[float], float], beta: float = BETA) -> float:
    """Return half the distance of neighbouring means in a chain of Bernoulli distributions.

    In a chain each distribution is tested against the next. Half the distance of neighbouring means
    is a lower bound on the error of estimators. The chain has as many means as fit into [0, 1] if
    they are `distance(beta/2)` apart. In the result, the means are as far apart as a chain of this
    length allows.

    Parameters
    ----------
    distance : callable
        Function of e that returns a distance of two Bernoulli means: the largest at which the two
        errors of every test sum to at least 2 e.
    beta : float, default 0.1
        Probability with which the estimator's error is at least the bound.

    Returns
    -------
    float
        Lower bound on the error; NaN if `distance` returns NaN.
    """
    largest = distance(beta / 2)
    return distance(neighbour_error(1 + int(1 / largest), beta)) / 2 if largest > 0 else largest


def bernoulli_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators of a Bernoulli mean.

    The bound is from a chain of distributions, each of which is tested against the next.

    Parameters
    ----------
    n : int
        Number of records, at most 1e15.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    float
        Error that is exceeded with probability at least beta for some mean.
    """
    return bernoulli_chain_half_step(lambda error: largest_untestable_tv(n, budget, error), beta)


def gaussian_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """Return the lower bound on the error of private estimators of the mean of N(mean, 1).

    The bound is from a long chain of distributions, each of which is tested against the next.

    Parameters
    ----------
    n : int
        Number of records, at most 1e15.
    budget : Budget
        Privacy guarantee of the estimator.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    float
        Error, in standard deviations, that is exceeded with probability arbitrarily near to beta.
    """
    return float(ndtri((1 + largest_untestable_tv(n, budget, beta / 2)) / 2))


def _nonprivate_neighbour_error(h: float, laws: int, n: int) -> float:
    """Return half the sum of the two errors of the best non-private test of two Bernoulli means.

    The result is averaged over the neighbours in a chain of `laws` means around 1/2, each 2h from
    the next.
    """
    centre = 0.5 + (2 * np.arange(laws - 1) - laws + 2) * h
    low, high = centre - h, centre + h
    if n >= NORMAL_PAIRS_FROM:
        return float(ndtr(-h * np.sqrt(n / (centre * (1 - centre)))).mean())
    per_head, per_tail = (
        np.log(high / low),
        np.log((1 - low) / np.maximum(1 - high, MIN_SHARED_MASS)),
    )
    last_low_count = np.ceil(n * per_tail / (per_head + per_tail)) - 1  # largest count for "lower"
    return float((bdtrc(last_low_count, n, low) + bdtr(last_low_count, n, high)).mean() / 2)


def find_bernoulli_chains(
    error: Callable[[int, float], float], first_step: float, beta: float = BETA
) -> list[tuple[int, float]]:
    """Return chains of Bernoulli distributions that prove a lower bound on the error of estimators.

    In a chain each distribution is tested against the next, and neighbouring means are 2h apart.
    The chains have 2, 4, 8, ... distributions. For each length, h is the largest at which the chain
    proves a bound. The search ends when a longer chain does not allow a larger h than the chain
    before.

    Parameters
    ----------
    error : callable
        Function of the number of distributions and of the half step h. It returns half the sum of
        the errors of the best test of neighbours, and falls in h.
    first_step : float
        Value of h at which a chain of two distributions proves a bound; the search begins there.
    beta : float, default 0.1
        Probability with which the estimator's error is at least the bound.

    Returns
    -------
    list of (int, float)
        Number of distributions of each chain, and its h, half the distance of neighbouring means.
    """
    from scipy.optimize import brentq

    chains, h = [], first_step
    for laws in CHAIN_LENGTHS:
        max_step = (0.5 - MIN_SHARED_MASS) / (laws - 1)

        @cache  # brentq evaluates both ends again
        def excess(h: float, laws: int = laws) -> float:
            return error(laws, h) - neighbour_error(laws, beta)

        if h >= max_step or excess(h) < 0:
            break
        low = high = h
        while high < max_step and (low == high or excess(high) > 0):
            low, high = high, min(2 * high, max_step)
        h = high if excess(high) >= 0 else float(brentq(excess, low, high, xtol=1e-18, rtol=1e-7))
        chains.append((laws, h))
    return chains


@cache
def _sampling_chains(n: int, beta: float) -> list[tuple[int, float]]:
    """Return chains of Bernoulli distributions that prove a lower bound without privacy.

    In a chain each distribution is tested against the next. A chain is given as its number of
    distributions and half the distance of neighbouring means.
    """
    return find_bernoulli_chains(
        lambda laws, h: _nonprivate_neighbour_error(h, laws, n), 0.1 / np.sqrt(n), beta
    )


def bernoulli_sampling_lower_bound(n: int, *, beta: float = BETA) -> float:
    """Return the lower bound on the error that sampling alone implies for a Bernoulli mean.

    Parameters
    ----------
    n : int
        Number of records.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    float
        Error that every estimator, private or not, exceeds with probability at least beta for some
        mean.
    """
    return _sampling_chains(n, beta)[-1][1]


@cache  # parts of a sweep have n and k in common
def sampling_lower_bound(n: int, k: float, *, beta: float = BETA) -> float:
    """Return the lower bound on the error that sampling alone implies for k-th moments of 1.

    The bound is from distributions on two values, with E|X - mean|^k of at most 1.

    Parameters
    ----------
    n : int
        Number of records.
    k : float
        Order of the moment: E|X - mean|^k <= 1.
    beta : float, default 0.1
        Probability with which the error is at least the bound, below 1/2.

    Returns
    -------
    float
        Error that every estimator, private or not, exceeds with probability at least beta under one
        of the distributions. The relative accuracy is 1e-6.
    """
    return max(
        h * min(TwoPoint(p=0.5 + i * h, k=k).tau for i in range(1 - laws, laws, 2))
        for laws, h in _sampling_chains(n, beta)
    )
