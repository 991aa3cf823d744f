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
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import betaincinv, logit, xlogy

from dpbench.arrays import Floats
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP

__all__ = ["event_bound", "guess_bound", "highest", "lowest", "parameter_of_event"]


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
    lowers no Renyi divergence [3]_. All of them grow with p and fall with q where p > q; 0
    elsewhere.

    Parameters
    ----------
    p, q : array_like in [0, 1]
        Probabilities of the event on the two datasets.
    budget : PureDP, ZCDP or ApproxDP
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
