"""Fullest bin of a private histogram, with any number of bins.

A replaced record leaves one bin and enters another, so the counts have l1 sensitivity 2 and l2
sensitivity sqrt(2). Each bin gets Laplace noise of scale 2/epsilon, or Gaussian noise of variance
1/rho. (The scale 1/epsilon in L15 is correct if neighbours add or remove a record.)

Only the occupied bins are stored. Let F be the distribution function of the noise, and M the number
of empty bins. The largest noise of the empty bins has the distribution function F^M, and its bin
is uniform among them.

Under (epsilon, delta)-DP the histogram is stability-based (KV18, Lemma 2.3; KSU20, Lemma 2.9): only
the occupied bins get Laplace noise of scale 2/epsilon, and only noisy counts above a threshold are
released. A bin that is occupied under one neighbour alone holds one record. Its noisy count exceeds
the threshold 1 + (2/epsilon) ln(1/(2 delta)) with probability at most delta (exactly delta for
delta <= 1/2). All other bins change by at most 1 each, which costs epsilon in total. Releasing no
bin is one of the outcomes.
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

__all__ = ["audit_pairs", "largest_noise", "private_mode_bin", "stability_threshold"]

L1, L2 = 2.0, float(np.sqrt(2.0))  # sensitivities of the counts


def private_mode_bin(sample: Sample, bins: Bins, ledger: Ledger) -> Floats:
    """Release the left end of the bin with the largest noisy count; spend the ledger.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers.
    bins : Bins
        Bins; only under (epsilon, delta)-DP may they be infinitely many.
    ledger : Ledger
        Spent completely.

    Returns
    -------
    ndarray of shape (trials,)
        Left ends; NaN where the stability-based histogram releases no bin.

    Raises
    ------
    ValueError
        If there are infinitely many bins and the budget has no delta.
    """
    budget = ledger.budget
    # The stability-based histogram always has Laplace noise.
    added = PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget
    if added is budget and not np.all(np.isfinite(bins.count)):
        raise ValueError(f"a {budget.notion} histogram needs finitely many bins: give a radius")
    ledger.pay("fullest bin of a noisy histogram")
    held = sample.occupied(bins)
    starts = np.searchsorted(held.trial, np.arange(sample.trials))
    noisy = held.count + ledger.noise_factor * added.noise(ledger.rng, held.count.shape, L1, L2)
    largest = np.maximum.reduceat(noisy, starts)
    # Find the first occupied bin of each trial with the trial's largest noisy count.
    at_top = np.flatnonzero(noisy == largest[held.trial])
    best = held.index[at_top[np.searchsorted(held.trial[at_top], np.arange(sample.trials))]]
    if isinstance(budget, ApproxDP):
        released = largest > stability_threshold(budget)
        return ledger.record_output(bins.left(np.where(released, best, np.nan)))
    empty = bins.count - np.diff(starts, append=held.trial.size)
    with noise_times(ledger.noise_factor):
        rival = largest_noise(budget, empty, ledger.rng)
    other = _empty_bin(held, starts, bins, empty, ledger.rng)
    return ledger.record_output(bins.left(np.where(rival > largest, other, best)))


def stability_threshold(budget: ApproxDP) -> float:
    """Return the threshold of noisy counts for a release under (epsilon, delta)-DP."""
    return float(1 + L1 / budget.pure_epsilon * np.log(1 / (2 * budget.delta)))


def audit_pairs(n: int, bins: Bins, budget: Budget) -> list[Pair]:
    """Return pairs of datasets on which one record changes the outcome of `private_mode_bin`.

    In the first pair two adjacent bins share the records equally, and one record moves from the one
    to the other. In the second pair, for (epsilon, delta)-DP only, a bin holds as many records as
    the threshold, and one record leaves it.

    Parameters
    ----------
    n : int
        Records in each dataset.
    bins : Bins
        Bins of `private_mode_bin`.
    budget : Budget
        Budget of `private_mode_bin`.

    Returns
    -------
    list of Pair
    """
    edge, width = float(bins.origin), float(np.asarray(bins.width))
    sides = np.where(np.arange(n) % 2 == 0, edge - width / 2, edge + width / 2)
    pairs = [Pair.replacing("across_a_bin_edge", sides, 0, edge + width / 2)]
    if isinstance(budget, ApproxDP):
        held = min(round(stability_threshold(budget)), n)
        # Spread the other records over the bins on the right. Records beyond the last bin would
        # all be counted in it.
        few = bool(np.isfinite(bins.count))
        right = max(1.0, float(bins.first + bins.count - 1)) if few else np.inf
        places = edge + width * (1.5 + np.arange(n + 1) % right)
        places[:held] = edge + width / 2
        pairs.append(Pair.replacing("at_the_threshold", places[:n], 0, places[n]))
    return pairs


def largest_noise(budget: Budget, draws: Floats, rng: np.random.Generator) -> Floats:
    """Draw the largest of M noises of empty bins, exactly; -inf if M = 0.

    For uniform U, the largest of M noises is the U^(1/M) quantile of the noise. The code uses the
    upper tail there, -expm1(ln(U)/M), because U^(1/M) itself rounds to 1 from M = 1e17 on.

    Parameters
    ----------
    budget : Budget
        Determines the noise.
    draws : ndarray
        M for each trial.
    rng : Generator
        Source of U.

    Returns
    -------
    ndarray
        In the shape of `draws`.
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
    """Draw a uniformly random empty bin for each trial.

    The i-th occupied bin (from 0) at offset o from the first bin has o - i empty bins before it. So
    the r-th empty bin (from 0) comes after all occupied bins with o - i <= r.
    """
    rank = np.floor(rng.random(empty.size) * empty)
    first = np.broadcast_to(bins.first, empty.shape)
    earlier = np.arange(held.trial.size) - starts[held.trial]
    before = (held.index - first[held.trial] - earlier) <= rank[held.trial]
    return np.asarray(first + rank + np.add.reduceat(before.astype(float), starts))
