"""From counts of what was observed to a lower bound on a privacy parameter.

Each bound exceeds the true parameter with probability at most `error`, over the runs that it is
computed from.

References
----------
.. [1] T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run",
   NeurIPS 2023, Theorem 5.2; here every guess is about a run of its own.
.. [2] C. Clopper, E. Pearson, "The use of confidence or fiducial limits illustrated in the case
   of the binomial", Biometrika 1934.
.. [3] M. Bun, T. Steinke, "Concentrated differential privacy", TCC 2016, Definition 1.1.
.. [4] J. Birrell et al., "Variational representations and neural network estimation of Renyi
   divergences", SIMODS 2021, Theorem 3.
.. [5] I. Waudby-Smith, A. Ramdas, "Estimating means of bounded random variables by betting",
   JRSS B 2024.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import brentq
from scipy.special import betaincinv, logit, ndtri, xlogy

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP

__all__ = ["Bets", "event_bound", "guess_bound", "highest", "lowest", "parameter_of_event"]


# Orders of Renyi divergences that are tried; a valid bound holds for each of them.
ORDERS = np.concatenate([1 + np.geomspace(1e-2, 1, 12), np.geomspace(2.2, 100, 24)])


def lowest(hits: ArrayLike, runs: int, error: float) -> Floats:
    """Lower end of the Clopper-Pearson interval [2]_ for a probability, one-sided."""
    k = np.asarray(hits, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, error), 0.0)


def highest(hits: ArrayLike, runs: int, error: float) -> Floats:
    """The upper end, likewise."""
    return 1 - lowest(runs - np.asarray(hits, dtype=float), runs, error)


def guess_bound(right: int, guesses: int, error: float) -> float:
    """The epsilon that `right` of `guesses` right guesses of a fair coin show.

    A release of the dataset that a coin chose tells the coin with odds of at most e^epsilon, so
    each guess is right with probability at most e^epsilon/(1 + e^epsilon), given all others:
    their number is at most binomial [1]_. A rule may abstain.
    """
    if guesses == 0:
        return 0.0
    return max(0.0, float(logit(lowest(right, guesses, error))))


def parameter_of_event(p: ArrayLike, q: ArrayLike, budget: Budget) -> Floats:
    """The smallest parameter of the budget's notion under which an event may go from q to p.

    epsilon = ln(p/q) under pure DP; ln((p - delta)/q) at the budget's delta; under zCDP the
    largest D_a(Bernoulli(p) || Bernoulli(q))/a over orders a > 1, as post-processing
    lowers no Renyi divergence [3]_; mu = Phi^-1(p) - Phi^-1(q) under GDP, by its definition. All of
    them grow with p and fall with q where p > q; 0 elsewhere.

    Parameters
    ----------
    p, q : array_like in [0, 1]
        Probabilities of the event on the two datasets.
    budget : PureDP, ZCDP, GDP or ApproxDP
        For its notion, and its delta.
    """
    p, q = np.broadcast_arrays(np.asarray(p, dtype=float), np.asarray(q, dtype=float))
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        if isinstance(budget, PureDP):
            found = np.log(p) - np.log(q)
        elif isinstance(budget, ApproxDP):
            found = np.log(np.maximum(p - budget.delta, 0)) - np.log(q)
        elif isinstance(budget, ZCDP):
            found = np.max([_renyi(p, q, a) / a for a in ORDERS], axis=0)
        elif isinstance(budget, GDP):
            found = ndtri(p) - ndtri(q)
        else:
            raise ValueError(f"nothing is claimed under {budget}")
        return np.where((p > q) & (found > 0), found, 0.0)


def _renyi(p: Floats, q: Floats, order: float) -> Floats:
    """D_a(Bernoulli(p) || Bernoulli(q)) = ln(p^a q^(1-a) + (1-p)^a (1-q)^(1-a))/(a - 1)."""
    one = xlogy(order, p) + xlogy(1 - order, q)
    other = xlogy(order, 1 - p) + xlogy(1 - order, 1 - q)
    return np.asarray(np.logaddexp(one, other) / (order - 1))


def event_bound(
    hits: ArrayLike, runs: int, others: ArrayLike, other_runs: int, budget: Budget, error: float
) -> Floats:
    """The parameter that an event shows which occurred in `hits` of `runs` on one dataset.

    Parameters
    ----------
    hits, others : array_like of int
        How often the event occurred on one dataset and on the other.
    runs, other_runs : int
        Out of how many.
    budget : Budget
    error : float
        Half of it for each probability.
    """
    p = lowest(hits, runs, error / 2)
    return parameter_of_event(p, highest(others, other_runs, error / 2), budget)


@dataclass(frozen=True)
class Bets:
    """A test of zCDP by a function g of a release, clipped at +-`clip`, at one order a.

    By Hoelder's inequality D_a(P || Q) >= a/(a-1) ln E_P e^((a-1)g) - ln E_Q e^(a g), with
    equality at g = ln(dP/dQ) [4]_, and rho >= D_a/a. Both means are bounded by betting [5]_: at
    the true mean m the product of 1 +- bet (x - m) over independent runs has mean 1, so it
    exceeds 1/error with probability at most the error (Markov); a mean at which it does is out.

    Attributes
    ----------
    order, clip : float
        a > 1, and the bound on g.
    low, high : float
        Bets for a lower bound on the first mean and an upper one on the second, chosen from
        other runs; `high` is below e^(-a clip).
    """

    order: float
    clip: float
    low: float
    high: float

    @classmethod
    def placed(
        cls, g: Floats, others: Floats, order: float, clip: float, runs: int, error: float
    ) -> tuple[Bets, float]:
        """The bets that suit such values of g best, for so many other runs a side.

        And about the bound of runs whose values are like these.
        """
        p, q = np.exp((order - 1) * g), np.exp(order * others)
        (p_mean, p_var), (q_mean, q_var) = ((x.mean(), x.var()) for x in (p, q))
        least = np.log(2 / error) / runs
        growth = np.sqrt(2 * least)
        low = min(growth / max(np.sqrt(p_var), 1e-9), 0.5 / p_mean)
        high = min(growth / max(np.sqrt(q_var), 1e-9), 0.9 * np.exp(-order * clip))
        bets = cls(order, clip, low, high)
        # ln(1 + b(x - m)) has mean b(E x - m) - b^2 Var(x)/2, about.
        mean = p_mean - least / low - low * p_var / 2
        other = q_mean + least / high + high * q_var / 2
        return bets, bets._rho(mean, other) if mean > 0 else 0.0

    def bound(self, g: Floats, others: Floats, error: float) -> float:
        """The rho that these runs show, g on one dataset and on the other; 0 for none."""
        p, q = np.exp((self.order - 1) * g), np.exp(self.order * others)
        least = np.log(2 / error)  # half of the error for each mean

        def short(m: float) -> float:
            return float(least - np.log1p(self.low * (p - m)).sum())

        def beyond(m: float) -> float:
            return float(np.log1p(self.high * (m - q)).sum() - least)

        top = min(p.mean(), 0.99 / self.low)
        most = np.exp(self.order * self.clip)
        if short(0.0) >= 0 or beyond(most) <= 0:
            return 0.0
        mean = brentq(short, 0.0, top) if short(top) > 0 else top
        return self._rho(mean, brentq(beyond, q.mean(), most))

    def _rho(self, mean: float, other: float) -> float:
        return max(0.0, float(np.log(mean) / (self.order - 1) - np.log(other) / self.order))
