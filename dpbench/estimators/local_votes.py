"""Private votes: locally private releases of one number x in [-1, 1] by a few values.

A record votes up, down or not at all, and a vote has a grade. Notation (name in code):

    a_i (`low`)     probability of a vote of grade i in one direction, for x = 0
    b_i (`high`)    probability of an up vote of grade i for x = 1
    w_i (`weights`) value of an up vote of grade i; a down vote has the value -w_i

For x > 0 an up vote of grade i has the probability a_i + (b_i - a_i) x, and a down vote a_i. For
x < 0 the directions are exchanged, with |x| in place of x. So every x releases a mixture of two of
the distributions at -1, 0 and 1. Hence, by convexity, the worst pairs of records are among -1, 0
and 1. The value divided by sum_i w_i (b_i - a_i) (`slope`) is an unbiased estimate of x. Before the
division its variance is at most sum_i w_i^2 (2 a_i + (b_i - a_i) |x|).

`three_values` has one grade. `graded_votes` has a small bound on the variance for records with mean
|x| = 0.01 (`GRADED_RATIO`), under each notion of privacy:

- epsilon-DP, and the epsilon of (epsilon, delta): one grade, as `three_values`.
- rho-zCDP: one grade. b is the largest number for which the Renyi divergences of order q between
  the distributions at -1, 0 and 1 are at most q rho (`_divergence_excess`). D_q grows in q, and is
  at most the largest |log-likelihood ratio|. So it suffices that D_q <= p rho for neighbours p < q
  in a grid of orders from 1 to that ratio over rho.
- mu-GDP: `GRADES` grades. An up vote has a strength S > s, of density phi(S - mu/2) at x = 1, and
  phi(S + mu/2) at x = 0 and -1, where phi is the normal density. Grades are intervals of the
  strength. s makes the probability of no vote at x = 0 equal to that of an up vote at x = 1,

      Phi(s - mu/2) = 2 Phi(-s - mu/2).

  So -1, 0 and 1 are treated alike: each has its own kind of release, of probability Phi(mu/2 - s),
  and the two other kinds have probability Phi(-mu/2 - s) each. The log-likelihood ratio of any two
  is mu S on one kind, -mu S on the other, and 0 on the third. Compare with N(mu/2, 1) and
  N(-mu/2, 1), whose log-likelihood ratio at S is mu S: the kinds are the intervals S > s and
  S < -s, and the interval between is replaced by a ratio of 1. The power of a test is a concave
  function of its size. The replacement puts a chord in the place of an arc of this function, so
  the function falls and mu-GDP holds. Grades process the release further.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, Budget

__all__ = ["Votes", "graded_votes", "three_values"]

# Mean |x|/C, C the clip, at which the variance of `three_values` and of `graded_votes` is smallest.
TYPICAL_RATIO = 0.05
GRADED_RATIO = 0.01
GRADES = 10  # under GDP
ORDER_STEP = 1.004  # quotient of successive orders of the Renyi divergence
MAX_ORDERS = 1500
MAX_MU = 20.0  # for a larger mu, b rounds to 1


class Votes(NamedTuple):
    """Probabilities and values of graded votes, an array entry for each grade."""

    low: Floats  # Smallest probability a_i of a vote of each grade in one direction.
    high: Floats  # Largest probability b_i of such a vote.
    weights: Floats  # Values w_i of up votes; a down vote has the opposite value.

    @property
    def slope(self) -> float:
        """Mean value of a vote for x = 1; the estimate of x is the value divided by it."""
        return float(self.weights @ (self.high - self.low))

    def typical_sd(self, ratio: float) -> float:
        """Bound the standard deviation of the estimate of a record; `ratio` is the mean of |x|."""
        variance = self.weights**2 @ (2 * self.low + (self.high - self.low) * ratio)
        return float(np.sqrt(variance) / self.slope)


@cache
def three_values(budget: Budget) -> tuple[float, float]:
    """Return the probabilities a and b of a private mechanism that maps a record x to 1, 0 or -1.

    The record x is in [-1, 1]. For x > 0 the release is 1 with probability a + (b-a) x, and -1 with
    probability a. For x < 0 the two probabilities are exchanged, with |x| in place of x. So
    (P(1), P(0), P(-1)) is (b, 1-a-b, a) at x = 1, (a, 1-2a, a) at x = 0 and (a, 1-a-b, b) at
    x = -1. The release has mean (b-a) x and a variance of at most 2a + (b-a) |x|. The release
    divided by b - a is an unbiased estimate of x. Under GDP and zCDP the budget does not determine
    a. The function chooses the a with the smallest bound on the variance of this estimate, for
    records with mean |x| = 0.05 (`TYPICAL_RATIO`).

    - epsilon-DP: a = 1/(e^epsilon + 2) and b = e^epsilon a. Then 1-2a = b and 1-a-b = a.
    - mu-GDP: b = g(a), where g(a) = Phi(Phi^-1(a) + mu) is the largest power of a test of size a,
      and Phi is the normal distribution function. Likelihood-ratio tests of x = 0 against x = 1 may
      also reject at -1 or at 0. They need a + b <= g(2a), which holds because g has a slope of at
      least 1 up to Phi(-mu/2) >= 2a. Tests of -1 against 1 may also reject at 0. They need
      1-a = g(1-b), which holds by symmetry.
    - rho-zCDP: a and b of mu-GDP at mu = sqrt(2 rho), which implies rho-zCDP.

    The budget is that of one record, and 0 < a < b.
    """
    amounts = budget.named_amounts
    if "epsilon" in amounts:
        ratio = float(np.exp(-budget.pure_epsilon))
        return ratio / (1 + 2 * ratio), 1 / (1 + 2 * ratio)
    mu = amounts["mu"] if "mu" in amounts else float(np.sqrt(2 * amounts["rho"]))
    mu = min(mu, MAX_MU)
    sizes = ndtr(-mu / 2) / 2 * np.geomspace(1e-6, 1, 10_000)
    powers = ndtr(ndtri(sizes) + mu)
    best = np.argmin(_typical_sd(sizes, powers))
    return float(sizes[best]), float(powers[best])


def _typical_sd(low: Floats | float, high: Floats | float, ratio: float = TYPICAL_RATIO) -> Floats:
    """Bound the standard deviation of the estimate by three values.

    `three_values` describes the mechanism; `low` and `high` are its probabilities a and b. Records
    have the mean |x| `ratio`.
    """
    return np.asarray(np.sqrt(2 * low + (high - low) * ratio) / (high - low))


@cache
def graded_votes(budget: Budget) -> Votes:
    """Return the probabilities and the values of private votes of a record x in [-1, 1].

    The budget is that of one record. There is one grade, except under GDP.
    """
    if isinstance(budget, GDP):
        return _gaussian_votes(min(budget.mu, MAX_MU))
    low, high = three_values(budget)
    if isinstance(budget, ZCDP):
        pairs = (low, high), _zcdp_pair(budget.rho)
        low, high = min(pairs, key=lambda pair: float(_typical_sd(pair[0], pair[1], GRADED_RATIO)))
    return Votes(np.array([low]), np.array([high]), np.ones(1))


def _gaussian_votes(mu: float) -> Votes:
    """Return mu-GDP votes whose grades are intervals of a strength."""
    from scipy.optimize import brentq

    def excess(s: float) -> float:
        return float(ndtr(s - mu / 2) - 2 * ndtr(-s - mu / 2))

    start = float(brentq(excess, 0.0, 1.0, xtol=1e-14))
    edges = np.linspace(start, max(1.5 * mu, start) + 2, GRADES)
    tails = [ndtr(-(np.append(edges, np.inf) + shift)) for shift in (mu / 2, -mu / 2)]
    low, high = (-np.diff(tail) for tail in tails)
    weights = (high - low) / (2 * low + (high - low) * GRADED_RATIO)
    return Votes(low, high, weights / weights[0])


def _zcdp_pair(rho: float) -> tuple[float, float]:
    """Return the a and b of one grade with the smallest typical standard deviation under zCDP."""
    sizes = np.geomspace(1e-4, 0.3, 40)
    for _ in range(2):
        powers = _largest_power(sizes, rho)
        best = int(np.argmin(_typical_sd(sizes, powers, GRADED_RATIO)))
        pair = float(sizes[best]), float(powers[best])
        around = sizes[max(best - 1, 0)], sizes[min(best + 1, len(sizes) - 1)]
        sizes = np.linspace(*around, 15)
    return pair


def _largest_power(sizes: Floats, rho: float) -> Floats:
    """Return the largest b for each a at which release by three values is rho-zCDP."""
    low, high = sizes.copy(), 1 - sizes
    for _ in range(30):
        middle = (low + high) / 2
        private = _divergence_excess(sizes, middle, rho) <= 0
        low, high = np.where(private, middle, low), np.where(private, high, middle)
    return low


def _divergence_excess(a: Floats, b: Floats, rho: float) -> Floats:
    """Return the largest excess of a Renyi divergence over its limit, for each pair (a, b).

    Release by three values is rho-zCDP if the excess is at most 0. For successive orders p < q of a
    grid, the excess is D_q - p rho, between the distributions at -1, 0 and 1 in both directions.
    The last order is the largest |log-likelihood ratio| over rho, so no larger order needs a check.
    """
    log = np.log(np.maximum([[b, 1 - a - b, a], [a, 1 - 2 * a, a], [a, 1 - a - b, b]], 1e-300))
    largest = float(np.max(np.abs([log[0] - log[1], log[0] - log[2]])))
    count = int(np.ceil(np.log(max(largest / rho, 2)) / np.log(ORDER_STEP)))
    orders = np.geomspace(1, max(largest / rho, 2), min(count, MAX_ORDERS))
    q = orders[1:, None, None]
    pairs = [(0, 1), (1, 0), (0, 2)]
    excesses = [
        np.logaddexp.reduce(q * log[i] + (1 - q) * log[j], axis=1) / (q[:, 0] - 1)
        - orders[:-1, None] * rho
        for i, j in pairs
    ]
    return np.asarray(np.max(excesses, axis=(0, 1)))
