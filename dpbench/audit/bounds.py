"""Lower bounds on a privacy parameter from counts of observed events.

Each bound exceeds the true parameter with probability at most `error`, over the runs from which it
is computed.

References
----------
.. [1] T. Steinke, M. Nasr, M. Jagielski, "Privacy auditing with one (1) training run",
   NeurIPS 2023, Theorem 5.2; here every guess concerns a separate run.
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

__all__ = ["RenyiTest", "event_bound", "guess_bound", "highest", "lowest", "parameter_of_event"]


# Orders a of the Renyi divergences; the bound is valid for each of them, so for the largest.
ORDERS = np.concatenate([1 + np.geomspace(1e-2, 1, 12), np.geomspace(2.2, 100, 24)])


def lowest(hits: ArrayLike, runs: int, error: float) -> Floats:
    """Return the lower one-sided Clopper-Pearson limit [2]_ for a probability.

    Parameters
    ----------
    hits : array_like of int
        Numbers of occurrences.
    runs : int
        Number of trials.
    error : float
        Probability that the limit exceeds the true probability.

    Returns
    -------
    ndarray
        Limits, with the shape of `hits`.
    """
    k = np.asarray(hits, dtype=float)
    return np.where(k > 0, betaincinv(np.maximum(k, 1), runs - k + 1, error), 0.0)


def highest(hits: ArrayLike, runs: int, error: float) -> Floats:
    """Return the upper one-sided Clopper-Pearson limit [2]_ for a probability.

    Parameters
    ----------
    hits : array_like of int
        Numbers of occurrences.
    runs : int
        Number of trials.
    error : float
        Probability that the limit is below the true probability.

    Returns
    -------
    ndarray
        Limits, with the shape of `hits`.
    """
    return 1 - lowest(runs - np.asarray(hits, dtype=float), runs, error)


def guess_bound(right: int, guesses: int, error: float) -> float:
    """Return the lower bound on epsilon from right guesses of fair coins.

    Each run releases on the dataset that a fair coin chose. Under epsilon-DP a guess of the coin is
    right with probability at most e^epsilon/(1 + e^epsilon), given all other runs. The number of
    right guesses is therefore stochastically at most binomial [1]_. The guesser may abstain.

    Parameters
    ----------
    right : int
        Number of right guesses.
    guesses : int
        Number of guesses, without abstentions.
    error : float
        Probability that the bound exceeds the true epsilon.

    Returns
    -------
    float
    """
    if guesses == 0:
        return 0.0
    return max(0.0, float(logit(lowest(right, guesses, error))))


def parameter_of_event(p: ArrayLike, q: ArrayLike, budget: Budget) -> Floats:
    """Return the smallest privacy parameter with which an event's probability may go from q to p.

    Pure DP: epsilon = ln(p/q). Approximate DP: epsilon = ln((p - delta)/q). zCDP: rho is the
    largest D_a(Bernoulli(p) || Bernoulli(q))/a over the orders a > 1, because post-processing does
    not increase a Renyi divergence D_a [3]_. GDP: mu = Phi^-1(p) - Phi^-1(q), by definition. Each
    increases with p and decreases with q if p > q; it is 0 otherwise.

    Parameters
    ----------
    p, q : array_like
        Probabilities of the event on the two datasets, in [0, 1].
    budget : PureDP, ZCDP, GDP or ApproxDP
        Budget that gives the notion, and delta.

    Returns
    -------
    ndarray
        Parameters epsilon, rho or mu, with the broadcast shape of `p` and `q`.

    Raises
    ------
    ValueError
        If the budget has no notion of privacy.
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
            raise ValueError(f"budget: {budget}: gives no privacy to bound; give another notion")
        return np.where((p > q) & (found > 0), found, 0.0)


def _renyi(p: Floats, q: Floats, order: float) -> Floats:
    """Return D_a(Bernoulli(p) || Bernoulli(q)), a the order.

    It is ln(p^a q^(1-a) + (1-p)^a (1-q)^(1-a))/(a - 1).
    """
    one = xlogy(order, p) + xlogy(1 - order, q)
    other = xlogy(order, 1 - p) + xlogy(1 - order, 1 - q)
    return np.asarray(np.logaddexp(one, other) / (order - 1))


def event_bound(
    hits: ArrayLike, runs: int, others: ArrayLike, other_runs: int, budget: Budget, error: float
) -> Floats:
    """Return the lower bound on the privacy parameter from the counts of an event.

    Parameters
    ----------
    hits, others : array_like of int
        Occurrences of the event on the first and on the second dataset.
    runs, other_runs : int
        Runs on the first and on the second dataset.
    budget : Budget
        Budget that gives the notion, and delta.
    error : float
        Probability that the bound exceeds the true parameter; each of the two Clopper-Pearson
        limits has half of it.

    Returns
    -------
    ndarray
    """
    p = lowest(hits, runs, error / 2)
    return parameter_of_event(p, highest(others, other_runs, error / 2), budget)


@dataclass(frozen=True)
class RenyiTest:
    """Test of zCDP by betting on a function g of a release, |g| <= `clip`, at one order a.

    Let P and Q be the distributions of the release on the two datasets. By Hoelder's inequality
    D_a(P || Q) >= a/(a-1) ln E_P e^((a-1)g) - ln E_Q e^(a g), with equality at g = ln(dP/dQ) [4]_,
    and rho >= D_a/a. Both means are bounded by betting [5]_: at the true mean m of x the product of
    1 +- bet (x - m) over independent runs has expectation 1. By Markov's inequality it exceeds
    1/error with probability at most `error`; every m for which it does is excluded.

    Attributes
    ----------
    order, clip : float
        Order a > 1, and bound on |g|.
    low, high : float
        Bets for the lower limit of E_P e^((a-1)g) and the upper limit of E_Q e^(a g), chosen from
        other runs; `high` is below e^(-a clip).
    """

    order: float
    clip: float
    low: float
    high: float

    @classmethod
    def placed(
        cls, g: Floats, others: Floats, order: float, clip: float, runs: int, error: float
    ) -> tuple[RenyiTest, float]:
        """Choose near-optimal bets from pilot values of g.

        Parameters
        ----------
        g, others : ndarray of shape (pilot runs,)
            Values of g on releases of P and of Q.
        order, clip : float
            Order a > 1, and bound on |g|.
        runs : int
            Number of further runs on each dataset.
        error : float
            Probability that the bound exceeds the true rho.

        Returns
        -------
        bets : Bets
            Bets for the further runs.
        promise : float
            Approximate bound on rho that further runs like the pilot give.
        """
        p, q = np.exp((order - 1) * g), np.exp(order * others)
        (p_mean, p_var), (q_mean, q_var) = ((x.mean(), x.var()) for x in (p, q))
        least = np.log(2 / error) / runs
        growth = np.sqrt(2 * least)
        low = min(growth / max(np.sqrt(p_var), 1e-9), 0.5 / p_mean)
        high = min(growth / max(np.sqrt(q_var), 1e-9), 0.9 * np.exp(-order * clip))
        bets = cls(order, clip, low, high)
        # Approximation: E ln(1 + b(x - m)) = b(E x - m) - b^2 Var(x)/2, with b the bet.
        mean = p_mean - least / low - low * p_var / 2
        other = q_mean + least / high + high * q_var / 2
        return bets, bets._rho(mean, other) if mean > 0 else 0.0

    def bound(self, g: Floats, others: Floats, error: float) -> float:
        """Return the lower bound on rho from runs outside the pilot; 0 if there is none.

        Parameters
        ----------
        g, others : ndarray of shape (runs,)
            Values of g on releases of P and of Q.
        error : float
            Probability that the bound exceeds the true rho.

        Returns
        -------
        float
        """
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
