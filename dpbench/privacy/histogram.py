"""The private histogram's fullest bin, whatever the number of bins.

A replaced record leaves one bin and enters another, so the counts have l1 sensitivity 2 and l2
sensitivity sqrt(2): Laplace noise of scale 2/epsilon on each bin, or Gaussian noise of variance
1/rho. (Scale 1/epsilon, as lecture 15 writes, is for records that are added or removed.)

Only the occupied bins are held. The largest of M independent noises, those of the empty bins, has
the distribution function F^M, and the bin that has it is uniform among them.

Under (epsilon, delta)-DP the histogram is the stability-based one [1]_, Laplace noise of scale
2/epsilon on the occupied bins only, of which those above a threshold are released. A bin that one
neighbour alone fills holds one record; the threshold 1 + (2/epsilon) ln(1/(2 delta)) is passed
from 1 with probability at most delta (exactly delta for delta <= 1/2). All other bins change by at
most one each, epsilon in all. That nothing is released is one of the outcomes.

.. [1] KV18 (V. Karwa, S. Vadhan, ITCS 2018), Lemma 2.3; KSU20, Lemma 2.9.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Floats
from dpbench.privacy.budgets import ApproxDP, Budget, PureDP
from dpbench.privacy.ledger import Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.noise_factor import noise_times
from dpbench.samples import Bins, Occupied, Sample

__all__ = ["audit_pairs", "fullest_bin", "largest_noise", "stability_threshold"]

L1, L2 = 2.0, float(np.sqrt(2.0))


def fullest_bin(sample: Sample, bins: Bins, ledger: Ledger) -> Floats:
    """The left end of the bin whose noisy count is largest; the whole ledger is spent.

    Only under (epsilon, delta)-DP may bins be infinitely many, and NaN says that none is released.
    """
    budget = ledger.budget
    # The stability-based histogram has Laplace noise whatever else the budget would draw.
    added = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget
    if added is budget and not np.all(np.isfinite(bins.count)):
        raise ValueError(f"a {budget.notion} histogram needs finitely many bins: give a radius")
    ledger.pay("fullest bin of a noisy histogram")
    held = sample.occupied(bins)
    starts = np.searchsorted(held.trial, np.arange(sample.trials))
    noisy = held.count + ledger.noise_factor * added.noise(ledger.rng, held.count.shape, L1, L2)
    largest = np.maximum.reduceat(noisy, starts)
    # The first occupied bin of each trial that attains its trial's largest count.
    at_top = np.flatnonzero(noisy == largest[held.trial])
    best = held.index[at_top[np.searchsorted(held.trial[at_top], np.arange(sample.trials))]]
    if isinstance(budget, ApproxDP):
        released = largest > stability_threshold(budget)
        return ledger.told(bins.left(np.where(released, best, np.nan)))
    empty = bins.count - np.diff(starts, append=held.trial.size)
    with noise_times(ledger.noise_factor):
        rival = largest_noise(budget, empty, ledger.rng)
    other = _empty_bin(held, starts, bins, empty, ledger.rng)
    return ledger.told(bins.left(np.where(rival > largest, other, best)))


def stability_threshold(budget: ApproxDP) -> float:
    """What a noisy count must exceed to be released under (epsilon, delta)-DP."""
    return float(1 + L1 / budget.pure_epsilon * np.log(1 / (2 * budget.delta)))


def audit_pairs(n: int, bins: Bins, budget: Budget) -> list[Pair]:
    """Datasets where a record turns `fullest_bin` over.

    Two bins that share the records, in turn, and one that goes over the edge between them. Under
    (epsilon, delta), a bin that holds as many as the threshold, and one of them that leaves.
    """
    edge, width = float(bins.origin), float(np.asarray(bins.width))
    sides = np.where(np.arange(n) % 2 == 0, edge - width / 2, edge + width / 2)
    pairs = [Pair.replacing("across_a_bin_edge", sides, 0, edge + width / 2)]
    if isinstance(budget, ApproxDP):
        held = min(round(stability_threshold(budget)), n)
        # The others over all bins on the right; beyond the last they would fill it.
        few = bool(np.isfinite(bins.count))
        right = max(1.0, float(bins.first + bins.count - 1)) if few else np.inf
        places = edge + width * (1.5 + np.arange(n + 1) % right)
        places[:held] = edge + width / 2
        pairs.append(Pair.replacing("at_the_threshold", places[:n], 0, places[n]))
    return pairs


def largest_noise(budget: Budget, draws: Floats, rng: np.random.Generator) -> Floats:
    """The largest of `draws` noises of empty bins, exactly; -inf where there are none.

    With U uniform, the largest of M `draws` is at the quantile U^(1/M): the noise's upper tail is
    -expm1(ln(U)/M) there, while U^(1/M) itself would round to 1 from M = 1e17 on.
    """
    with np.errstate(divide="ignore"):
        log_below = -rng.standard_exponential(np.shape(draws)) / draws
        above, below = -np.expm1(log_below), np.exp(log_below)
        high = budget.noise_tail(np.minimum(above, 0.5), L1, L2)
        low = -budget.noise_tail(np.minimum(below, 0.5), L1, L2)
    return np.where(draws > 0, np.where(above < 0.5, high, low), -np.inf)


def _empty_bin(
    held: Occupied, starts: NDArray[np.intp], bins: Bins, empty: Floats, rng: np.random.Generator
) -> Floats:
    """A uniformly random empty bin of each trial.

    The r-th, from 0, comes after those occupied bins that have at most r empty ones before
    them: the i-th occupied bin has its offset less i.
    """
    rank = np.floor(rng.random(empty.size) * empty)
    first = np.broadcast_to(bins.first, empty.shape)
    earlier = np.arange(held.trial.size) - starts[held.trial]
    before = (held.index - first[held.trial] - earlier) <= rank[held.trial]
    return np.asarray(first + rank + np.add.reduceat(before.astype(float), starts))
