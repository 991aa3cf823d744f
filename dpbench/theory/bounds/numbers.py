"""Lower bounds for one dimension: what no private estimator, and what none at all, can beat.

Each tests two laws against each other, or each law of a chain against the next. It is exact for
testing a pair of two-point laws: no test does better. Whether an estimator reaches it over a class
of laws is another question.

From errors to tests. An estimator whose error stays below half the distance of the two means, with
probability above 1 - beta under both laws, would be a test of size below beta and power above
1 - beta. Where none has those, every estimator errs by half that distance with probability at least
beta under one of the two laws.

Chains. Let m laws have means at equal steps of 2 alpha. An estimator that errs by less than alpha
is nearer to the law's own mean than to any other: it says which law it is. Its probabilities to
say a wrong one sum, over the laws, to those to say "above" under a law and "not above" under the
next one, summed over neighbours; each such pair is a test. So if no test of neighbours has both
errors below e, on average over the m - 1 pairs, then the mean probability to be wrong is at least
2e (m-1)/m, and where e is m beta/(2 (m-1)) every estimator errs by alpha with probability at least
beta under one of the laws. That e is beta for two laws, and near beta/2 for many: errors have two
signs. For Laplace noise and for normal errors it is just what they have. Gaussian laws have room
for any m, Bernoulli laws for (m-1) 2 alpha <= 1.

Private tests of laws P and Q at total-variation distance t. A maximal coupling draws n records from
each that differ in S of them, S ~ Binomial(n, t). Datasets that differ in s records are joined by a
path of s replacements, so the probabilities a and b that a private test says Q on the one and on
the other lie in a convex set A_s (below) that is symmetric under (a, b) -> (1 - b, 1 - a). By
convexity so do its means given S = s. The largest b - a in A_s is therefore on the line a = 1 - b,
at some a = x_s, and summing over S power minus size is at most 1 - 2 E x_S: no test has size beta
and power 1 - beta while E x_S > beta. Where P and Q are the laws {0 w.p. 1-p, tau w.p. p} and its
mirror image, t = p and the test that says x_s and 1 - x_s reaches that: it is exact (KSU20, Claim
3.9, with constants).

A_s for the notions, which are conditions on the probabilities a and b on neighbours:

- (epsilon, delta)-DP: b <= g(a) = min(e^epsilon a + delta, 1 - e^-epsilon (1 - delta - a), 1).
  This is concave and symmetric, and so is g^s, the s-fold composition. x_s = 1 - g^s(x_s); solving
  the recursion backwards from the middle, with D = delta/(e^epsilon - 1):

      s even: x_s = ((1/2 + D) e^(-epsilon s/2) - D)_+
      s odd:  x_s = (((1 - delta)/(1 + e^epsilon) + D) e^(-epsilon (s-1)/2) - D)_+

- mu-GDP: b <= Phi(Phi^-1(a) + s mu) (Dong, Roth and Su 2022, Theorem 2.14): x_s = Phi(-s mu/2).
- rho-zCDP: on neighbours the Renyi divergences of Bernoulli(a) and Bernoulli(b), both ways, of
  every order q > 1 are at most q rho. exp((q-1) D_q) is jointly convex, so that b <= g(a) for a
  concave g, and again x_s = 1 - g^s(x_s). Take logits, x = 1/(1 + e^l). Backwards from the middle,
  l_0 = 0, and l_1 is where the relative entropy l tanh(l/2) of (x, 1 - x) is rho: no D_q is above q
  times that. From l to l' = l_(s+2) > l, with A(m) = ln(1 + e^-m) and m = l' - q (l' - l), the
  logit of the tilted law, the divergence of the nearer to the middle from the other is

      D_q = (A(m) - q A(l) - (1-q) A(l'))/(q - 1), so that D_q/q = (l' - l)^2 A[l', l, m],

  a second divided difference. A'' is a bump around 0, and by symmetry this is largest near
  m = -(l + l')/2; l' is where it is rho at that order. A single order asks too little, if
  anything, so that x_s is too small and the bound valid; all orders ask for no more than
  5e-4 of rho at rho = 0.5, and 7e-3 at 2. As rho falls, s sqrt(2 rho) tends to
  2 int_0^l sqrt(tanh(l/2)/(2l)) dl, 2.08 at x = 0.1: the most powerful private test is not a
  Gaussian mechanism, which needs 2 Phi^-1(0.9) = 2.56.

x_s falls as s grows, and so does E x_S as t does, to x_n at t = 1. So where x_n >= beta (under pure
DP with even n: n epsilon <= 2 ln(1/(2 beta))) no test tells any laws apart, and the bound is half
of the largest distance that two means can have: infinite for heavy tails and Gaussians.

Half the distance of the means. Bernoulli laws of 0 and t: t/2. N(+-m, 1): m, where
t = 2 Phi(m) - 1. Laws with E|X - mean|^k = 1, rare points at +-tau with p = t: p tau, which grows
with p without limit, as (p tau)^-k = (1-p) (1 + ((1-p)/p)^(k-1)).

All tests of laws on the same two points, tau apart. Without privacy the best test of p = c - h
against c + h counts n records: it says c + h from the count on where that is the more likely one.
The sum of its errors is 1 minus the total variation, and near 2 Phi(-h sqrt(n/(c (1-c)))), with a
relative error of order 1/n: skewness moves the two errors against each other. A chain of m laws
around 1/2 that is as close as above has an error of h tau with probability at least beta, where
tau makes the largest of their E|X - mean|^k one. With z the 1 - beta/2 quantile of a normal law it
is below z/sqrt(n), by a part that falls like n^(-1/3). Of Gaussian records the average's error is
the least over all locations.
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
    "BETA", "LEAST", "LowerBound", "bernoulli_lower_bound", "chain_of_coins", "chains_of_coins",
    "coin_logit", "differing",
    "fair_lower_bound", "gaussian_lower_bound", "indistinguishable", "largest_distance",
    "of_a_pair",
    "sampling_lower_bound", "two_point_lower_bound",
]  # fmt: skip

# Errors are compared with bounds at their 1 - BETA quantile: the q90 of a summary.
BETA = 0.1
# How far from 1 a t is kept.
LEAST = 1e-12
# Records from which on sampling is normal: of one coin, and of two, where libraries lose digits.
NORMAL_FROM = 10**8
NORMAL_PAIRS_FROM = 10**6
# How many laws a chain of coins has: the best of these.
LENGTHS = tuple(2**i for i in range(1, 11))
# Of chains under zCDP: the largest l, and the rho up to which records are taken together.
ENOUGH = 40.0
FINE = 1e-4


class LowerBound(NamedTuple):
    """An error with probability beta, and the largest p whose two laws no private test tells."""

    alpha: float
    p_star: float


def softplus(x: float) -> float:
    """ln(1 + e^x)."""
    return float(np.logaddexp(0.0, x))


def _miss(s: ArrayLike, budget: Budget) -> Floats:
    """The x_s of the module."""
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
    """The l' > l of the module: the next of a chain under rho-zCDP."""
    from scipy.optimize import brentq  # a slow import

    def excess(more: float) -> float:
        far, m = near + more, -(near + more / 2)
        slope = (softplus(-far) - softplus(-near)) / more
        bend = slope - (softplus(-near) - softplus(-m)) / (near - m)
        return float(more**2 * bend / (far - m)) - rho

    high = 2 * np.sqrt(rho * (near + 2))
    while excess(high) < 0:
        high *= 2
    return near + float(brentq(excess, high / 1e3, high, xtol=1e-14, rtol=1e-13))


def coin_logit(rho: float) -> float:
    """The l with l tanh(l/2) = rho: of coins 1/(1+e^l) and 1/(1+e^-l) of that entropy."""
    from scipy.optimize import brentq

    return float(
        brentq(lambda x: x * np.tanh(x / 2) - rho, 0, 2 * (rho + np.sqrt(rho)), xtol=1e-14)
    )


@cache
def _chains(rho: float) -> tuple[Floats, Floats]:
    """The l_s of even and of odd s, until 1/(1 + e^l) is below 1e-17."""

    def chain(logits: list[float]) -> Floats:
        while logits[-1] < ENOUGH:
            logits.append(_step(logits[-1], rho))
        return np.array(logits)

    return chain([0.0]), chain([coin_logit(rho)])


def _concentrated_miss(s: Floats, rho: float) -> Floats:
    """The x_s under rho-zCDP, of a small rho by steps of m records each, m^2 rho-zCDP.

    Between them l is taken from a line; it is convex in s, so that this makes x_s no larger.
    """
    m = max(1.0, np.floor(np.sqrt(FINE / rho)))
    even, odd = _chains(m**2 * rho)
    if m > 1:
        return np.asarray(expit(-np.interp(s / m, 2 * np.arange(len(even)), even, right=np.inf)))
    half = (s // 2).astype(int)
    logits = [np.append(one, np.inf)[np.minimum(half, len(one))] for one in (even, odd)]
    return np.asarray(expit(-np.where(s % 2 == 0, *logits)))


def differing(t: float, n: int) -> tuple[Floats, Floats]:
    """Values of S ~ Binomial(n, t), all but those of probability 1e-15, and their probabilities."""
    reach = 9 * np.sqrt(n * t * (1 - t)) + 40
    s = np.arange(max(0, np.floor(n * t - reach)), min(n, np.ceil(n * t + reach)) + 1)
    weights = np.exp(log_binomial_pmf(s, n, t))
    return s, weights / weights.sum()


def largest_distance(spare: Callable[[float], float], n: int) -> float:
    """The largest t < 1 at which `spare` is positive; it falls as t grows, from 1e-3/n or less."""
    from scipy.optimize import brentq  # a slow import

    @cache  # the root is sought between places that are known
    def excess(log_t: float) -> float:
        return spare(np.exp(log_t))

    # Double t from where S is nearly always 0, and sums are short.
    low, highest = np.log(1e-3 / n), -LEAST
    while excess(high := min(low + np.log(2), highest)) > 0:
        if high == highest:
            return float(np.exp(highest))
        low = high
    return float(np.exp(brentq(excess, low, high, xtol=1e-13, rtol=1e-13)))


@lru_cache(64)  # searches for several beta begin alike
def _mean_miss(t: float, n: int, budget: Budget) -> float:
    """E x_S of the module."""
    s, weights = differing(t, n)
    return float(weights @ _miss(s, budget))


@cache
def indistinguishable(n: int, budget: Budget, beta: float = BETA) -> float:
    """The largest t such that no private test tells any two laws at total-variation distance t.

    With size and power beta and 1 - beta, beta < 1/2, by n records, up to 1e15: E x_S = beta. 1
    where no private test tells any two laws; NaN where nothing is known of the notion.
    """

    def spare(t: float) -> float:
        return _mean_miss(t, n, budget) - beta

    if not isinstance(budget, PureDP | ApproxDP | ZCDP | GDP):
        return float("nan")
    return 1.0 if _miss(n, budget) >= beta else largest_distance(spare, n)


def two_point_lower_bound(n: int, k: float, budget: Budget, *, beta: float = BETA) -> LowerBound:
    """The largest error that testing a pair with a rare point forces on private estimators.

    Every one errs by ``alpha`` on some two-point law with E|X - mean|^k = 1, with probability at
    least beta < 1/2, on up to 1e15 records. NaN where no bound is known; infinite, with p* = 1,
    where no private test tells apart n equal records from n others.
    """
    p = indistinguishable(n, budget, beta)
    if np.isnan(p):
        return LowerBound(np.nan, np.nan)
    return LowerBound(p * TwoPoint(p=p, k=k).tau, p) if p < 1 else LowerBound(np.inf, 1.0)


def of_a_pair(laws: int, beta: float = BETA) -> float:
    """The error of tests of neighbours in a chain that makes estimators err: the module's e."""
    return laws * beta / (2 * (laws - 1))


def chain_of_coins(distance: Callable[[float], float], beta: float = BETA) -> float:
    """Half the step of a chain of Bernoulli laws, of the `distance` that no test tells, by e.

    Of as many laws as fit at the largest step, of e = beta/2; NaN where no distance is known.
    """
    largest = distance(beta / 2)
    return distance(of_a_pair(1 + int(1 / largest), beta)) / 2 if largest > 0 else largest


def bernoulli_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """The error that testing Bernoulli laws forces on private estimators of their means."""
    return chain_of_coins(lambda error: indistinguishable(n, budget, error), beta)


def gaussian_lower_bound(n: int, budget: Budget, *, beta: float = BETA) -> float:
    """The error that testing N(m, 1) and N(-m, 1), in a long chain, forces on private estimators.

    It is m; with probability as near to beta as one likes.
    """
    return float(ndtri((1 + indistinguishable(n, budget, beta / 2)) / 2))


def _told_apart(h: float, laws: int, n: int) -> float:
    """The mean error of the best tests of neighbours in a chain of coins 2h apart, around 1/2."""
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
    """How many laws, and half the step h, of chains of coins that no test tells: until h falls.

    `error` is that of telling neighbours, by the number of laws and h, which is more than `least`.
    """
    from scipy.optimize import brentq  # a slow import

    found, h = [], least
    for laws in LENGTHS:
        most = (0.5 - LEAST) / (laws - 1)

        @cache  # as above
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
    return chains_of_coins(lambda laws, h: _told_apart(h, laws, n), 0.1 / np.sqrt(n), beta)


def fair_lower_bound(n: int, *, beta: float = BETA) -> float:
    """The error that sampling forces on every estimator of a Bernoulli mean: the module's h."""
    return _fair_chains(n, beta)[-1][1]


def sampling_lower_bound(n: int, k: float, *, beta: float = BETA) -> float:
    """The error that testing laws on the same two points forces on every estimator, private or not.

    As in `two_point_lower_bound`; of any number of records, up to a relative error of 1e-6.
    """
    return max(
        h * min(TwoPoint(p=0.5 + i * h, k=k).tau for i in range(1 - laws, laws, 2))
        for laws, h in _fair_chains(n, beta)
    )
