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

__all__ = [
    "RenyiTest",
    "event_bound",
    "guess_bound",
    "lower_limit",
    "parameter_of_event",
    "upper_limit",
]


# Orders a of the Renyi divergences. The bound on rho holds for each order, so also for the largest.
ORDERS = np.concatenate([1 + np.geomspace(1e-2, 1, 12), np.geomspace(2.2, 100, 24)])


def lower_limit(hits: ArrayLike, runs: int, error: float) -> Floats:
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


def upper_limit(hits: ArrayLike, runs: int, error: float) -> Floats:
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
    return 1 - lower_limit(runs - np.asarray(hits, dtype=float), runs, error)


def guess_bound(right: int, guesses: int, error: float) -> float:
    """Return a lower bound on epsilon from the number of correct guesses of fair coins.

    A fair coin chooses on which of two neighbouring datasets each release is made. The coin is
    guessed from the release. Under epsilon-DP a guess is correct with probability at most
    e^epsilon/(1 + e^epsilon), given all other runs. The number of correct guesses is therefore
    stochastically at most binomial with this probability [1]_. The guesser may abstain.

    Parameters
    ----------
    right : int
        Number of correct guesses.
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
    return max(0.0, float(logit(lower_limit(right, guesses, error))))


def parameter_of_event(p: ArrayLike, q: ArrayLike, budget: Budget) -> Floats:
    """Return the smallest privacy parameter for an event with given probabilities.

    A mechanism's output is in the event with probability p on one dataset, and with probability q
    on its neighbour. Mechanisms with a smaller parameter cannot have both probabilities. If
    p <= q, the parameter is 0. If p > q, the parameter increases with p and decreases with q:

    - pure DP: epsilon = ln(p/q);
    - approximate DP: epsilon = ln((p - delta)/q);
    - zCDP: rho is the largest D_a/a over a grid of orders a (`ORDERS`). Here D_a is the Renyi
      divergence of Bernoulli(p) from Bernoulli(q). The bound holds because post-processing does not
      increase a Renyi divergence [3]_;
    - GDP: mu = Phi^-1(p) - Phi^-1(q), by definition, where Phi^-1 is the normal quantile function.

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
            parameter = np.log(p) - np.log(q)
        elif isinstance(budget, ApproxDP):
            parameter = np.log(np.maximum(p - budget.delta, 0)) - np.log(q)
        elif isinstance(budget, ZCDP):
            parameter = np.max([_renyi(p, q, a) / a for a in ORDERS], axis=0)
        elif isinstance(budget, GDP):
            parameter = ndtri(p) - ndtri(q)
        else:
            raise ValueError(f"budget: {budget}: gives no privacy to bound; give another notion")
        return np.where((p > q) & (parameter > 0), parameter, 0.0)


def _renyi(p: Floats, q: Floats, order: float) -> Floats:
    """Return the Renyi divergence D_a(Bernoulli(p) || Bernoulli(q)) of order a = `order`.

    D_a = ln(p^a q^(1-a) + (1-p)^a (1-q)^(1-a))/(a - 1).
    """
    log_inside = xlogy(order, p) + xlogy(1 - order, q)
    log_outside = xlogy(order, 1 - p) + xlogy(1 - order, 1 - q)
    return np.asarray(np.logaddexp(log_inside, log_outside) / (order - 1))


def event_bound(
    hits: ArrayLike, runs: int, others: ArrayLike, other_runs: int, budget: Budget, error: float
) -> Floats:
    """Return a lower bound on the privacy parameter from counts of an event on two datasets.

    Parameters
    ----------
    hits, others : array_like of int
        Occurrences of the event on the first and on the second dataset.
    runs, other_runs : int
        Runs on the first and on the second dataset.
    budget : Budget
        Budget that gives the notion, and delta.
    error : float
        Probability that the bound exceeds the true parameter. Half of it goes to each of the
        Clopper-Pearson limits for the two probabilities of the event.

    Returns
    -------
    ndarray
        Bounds on epsilon, rho or mu, with the broadcast shape of `hits` and `others`.
    """
    p = lower_limit(hits, runs, error / 2)
    return parameter_of_event(p, upper_limit(others, other_runs, error / 2), budget)


@dataclass(frozen=True)
class RenyiTest:
    """Lower bound on rho of zCDP by betting on the values of a function g of the release.

    Let P and Q be the distributions of the release on the two datasets, and D_a their Renyi
    divergence of order a. For every g, Hoelder's inequality gives

        D_a(P || Q) >= a/(a-1) ln E_P e^((a-1)g) - ln E_Q e^(a g),

    with equality at g = ln(dP/dQ) [4]_. Under zCDP rho >= D_a/a. Both expectations are bounded by
    betting [5]_. Let x be e^((a-1)g) or e^(a g), let m be the mean of x, and let b > 0 be a fixed
    number, the bet. A product over independent runs has expectation 1 if its factors are 1 +
    b(x-m), or 1 - b(x-m). By Markov's inequality, this product exceeds 2/error with probability at
    most error/2. Therefore every value of m whose product exceeds 2/error is excluded. The
    remaining values give a lower limit of the first expectation and an upper limit of the second.

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
    def choose_bets(
        cls, g: Floats, others: Floats, order: float, clip: float, runs: int, error: float
    ) -> tuple[RenyiTest, float]:
        """Choose near-optimal bets for a test of zCDP from pilot runs.

        A bet is a parameter of the test, see `RenyiTest`. The test bounds rho from below by the
        values of a function g of the release. Bets are chosen from pilot runs, and used on further
        runs.

        Parameters
        ----------
        g, others : ndarray of shape (pilot runs,)
            Values of g on releases from the first and from the second dataset.
        order, clip : float
            Order a > 1 of the Renyi divergence, and bound on |g|.
        runs : int
            Number of further runs on each dataset.
        error : float
            Probability that the bound exceeds the true rho.

        Returns
        -------
        bets : RenyiTest
            Bets for the further runs.
        promise : float
            Approximate lower bound on rho that is expected from the further runs.
        """
        p, q = np.exp((order - 1) * g), np.exp(order * others)
        (p_mean, p_var), (q_mean, q_var) = ((x.mean(), x.var()) for x in (p, q))
        log_threshold = np.log(2 / error) / runs
        growth = np.sqrt(2 * log_threshold)
        low = min(growth / max(np.sqrt(p_var), 1e-9), 0.5 / p_mean)
        high = min(growth / max(np.sqrt(q_var), 1e-9), 0.9 * np.exp(-order * clip))
        bets = cls(order, clip, low, high)
        # Approximation: E ln(1 + b(x - m)) = b(E x - m) - b^2 Var(x)/2, with b the bet.
        mean = p_mean - log_threshold / low - low * p_var / 2
        other_mean = q_mean + log_threshold / high + high * q_var / 2
        return bets, bets._rho(mean, other_mean) if mean > 0 else 0.0

    def bound(self, g: Floats, others: Floats, error: float) -> float:
        """Return a lower bound on rho, at least 0, from the values of a function g of the release.

        The runs must be independent of the pilot runs by which `choose_bets` chose the bets.

        Parameters
        ----------
        g, others : ndarray of shape (runs,)
            Values of the tested function g on releases from the first and from the second dataset.
        error : float
            Probability that the bound exceeds the true rho.

        Returns
        -------
        float
        """
        p, q = np.exp((self.order - 1) * g), np.exp(self.order * others)
        log_threshold = np.log(2 / error)  # half of the error for each mean

        def lower_shortfall(m: float) -> float:
            return float(log_threshold - np.log1p(self.low * (p - m)).sum())

        def upper_excess(m: float) -> float:
            return float(np.log1p(self.high * (m - q)).sum() - log_threshold)

        top = min(p.mean(), 0.99 / self.low)
        ceiling = np.exp(self.order * self.clip)
        if lower_shortfall(0.0) >= 0 or upper_excess(ceiling) <= 0:
            return 0.0
        mean = brentq(lower_shortfall, 0.0, top) if lower_shortfall(top) > 0 else top
        return self._rho(mean, brentq(upper_excess, q.mean(), ceiling))

    def _rho(self, mean: float, other_mean: float) -> float:
        return max(0.0, float(np.log(mean) / (self.order - 1) - np.log(other_mean) / self.order))
