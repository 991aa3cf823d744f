"""Private choice of the histogram bin with the most records.

A replaced record leaves one bin and enters another, so the counts have l1 sensitivity 2 and l2
sensitivity sqrt(2). Each bin gets Laplace noise of scale 2/epsilon under epsilon-DP, and Gaussian
noise of variance 1/rho under rho-zCDP. (The scale 1/epsilon in L15 is correct if neighbours add or
remove a record.)

The number of bins may be huge, because only the occupied bins are stored. Let F be the distribution
function of the noise, and M the number of empty bins. The largest noise of the empty bins has the
distribution function F^M, and its bin is uniform among the empty bins.

Under (epsilon, delta)-DP there are two histograms, and `noise_on_all_bins` chooses one of them from
public numbers. With noise on all bins a failure is a wrong bin, and nothing shows it. So its
probability is bounded by `wrong_bin_probability`, and a caller states the largest that it accepts.
The first is the histogram of epsilon-DP, which leaves delta unused. The second is
stability-based (KV18, Lemma 2.3; KSU20, Lemma 2.9): only the occupied bins get Laplace noise of
scale 2/epsilon, and only noisy counts above a threshold are released. A bin that is occupied in
only one of two neighbours holds one record. Its noisy count exceeds the threshold
1 + (2/epsilon) ln(1/(2 delta)) with probability at most delta (exactly delta for delta <= 1/2). All
other bins change by at most 1 each, which costs epsilon in total. If no noisy count exceeds the
threshold, the release is "no bin".
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_ndtr, ndtr

from dpbench.arrays import Bools, Floats
from dpbench.privacy.budgets import ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.ledger import Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.privacy.noise_factor import noise_times
from dpbench.samples import Bins, Occupied, Sample

__all__ = [
    "audit_pairs",
    "failure_probability",
    "largest_noise",
    "no_bin_probability",
    "noise_on_all_bins",
    "noise_scale",
    "overtaking_probability",
    "private_mode_bin",
    "smallest_passing",
    "stability_threshold",
    "wrong_bin_probability",
]

NEGLIGIBLE_MISS = 1e-9  # probability of no release below which the stability histogram is kept
MAX_RECORDS = 2**60  # numbers of records that are searched
L1, L2 = 2.0, float(np.sqrt(2.0))  # sensitivities of the counts


def private_mode_bin(
    sample: Sample,
    bins: Bins,
    ledger: Ledger,
    *,
    held: float | None = None,
    miss: float = 1.0,
) -> Floats:
    """Release the left end of the histogram bin with the largest noisy count; spend the ledger.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers.
    bins : Bins
        Histogram bins; infinitely many are allowed under (epsilon, delta)-DP only. Their number
        must be public or computed from paid releases.
    ledger : Ledger
        Ledger, spent completely.
    held : float, optional
        Public lower bound on the records of a right bin, where all other bins with records are
        right, too. By default a quarter of all records: if each bin has twice the width sqrt(2)
        sd, for standard deviation sd, Chebyshev's inequality puts half of the records into two
        bins.
    miss : float in (0, 1]
        Largest acceptable probability that an empty bin is released. By default any probability is
        acceptable, for callers whose result may be an arbitrary bin.

    Returns
    -------
    ndarray of shape (trials,)
        Left ends. NaN where an empty bin might be released with a probability above `miss`. With a
        stability-based histogram, also NaN if no noisy count exceeds the threshold
        `stability_threshold`.

    Raises
    ------
    ValueError
        If there are infinitely many bins and the budget has no delta.
    """
    budget = ledger.budget
    added = _noise_budget(budget)
    if added is budget and not np.all(np.isfinite(bins.count)):
        raise ValueError(f"a {budget.notion} histogram needs finitely many bins: give a radius")
    ledger.pay("fullest bin of a noisy histogram")
    full = sample.occupied(bins)
    starts = np.searchsorted(full.trial, np.arange(sample.trials))
    noisy = full.count + ledger.noise_factor * added.noise(ledger.rng, full.count.shape, L1, L2)
    largest = np.maximum.reduceat(noisy, starts)
    # Find the first occupied bin of each trial with the trial's largest noisy count.
    at_top = np.flatnonzero(noisy == largest[full.trial])
    best = full.index[at_top[np.searchsorted(full.trial[at_top], np.arange(sample.trials))]]
    held = sample.n / 4 if held is None else held
    on_all = noise_on_all_bins(budget, bins.count, held, miss)
    if isinstance(budget, ApproxDP):
        best = np.where(on_all | (largest > stability_threshold(budget)), best, np.nan)
    if on_all.any():
        empty = np.where(on_all, bins.count - np.diff(starts, append=full.trial.size), 0.0)
        with noise_times(ledger.noise_factor):
            rival = largest_noise(added, empty, ledger.rng)
        best = np.where(rival > largest, _empty_bin(full, starts, bins, empty, ledger.rng), best)
        refused = on_all & (wrong_bin_probability(budget, bins.count - 1, held) > miss)
        best = np.where(refused, np.nan, best)
    return ledger.record_output(bins.left(best))


def noise_on_all_bins(
    budget: Budget, number: float | Floats, held: float | Floats, miss: float = 1.0
) -> Bools:
    """Return whether all bins of a histogram get noise, not only the occupied ones.

    Without a delta, all bins do. Under (epsilon, delta)-DP the choice depends on public numbers
    only. Let s (`held`) be the records of a right bin, and p the bound `wrong_bin_probability` on a
    wrong bin for the lead s. Let b = 2/epsilon be the scale of the noise.

    The stability-based histogram releases nothing if no noisy count exceeds the threshold t. For a
    right bin alone this has the probability q. It is 1 - e^(-(t - s)/b)/2 for s < t, and
    e^(-(s - t)/b)/2 for s >= t. All bins get noise if p <= `miss`, p < q and q > 1e-9
    (`NEGLIGIBLE_MISS`). Otherwise the stability-based histogram is used, because its failures show.

    Parameters
    ----------
    budget : Budget
        Budget of the histogram.
    number : float or ndarray of shape (trials,)
        Number of bins; may be infinite.
    held : float or ndarray of shape (trials,)
        Public lower bound on the records of a right bin, at least 0.
    miss : float in (0, 1]
        Largest acceptable probability of a wrong bin.

    Returns
    -------
    ndarray of bool, in the broadcast shape of `number` and `held`
    """
    if not isinstance(budget, ApproxDP):
        return np.ones(np.broadcast_shapes(np.shape(number), np.shape(held)), dtype=bool)
    wrong = wrong_bin_probability(budget, np.asarray(number, dtype=float) - 1, held)
    nothing = no_bin_probability(budget, held)
    return np.asarray((wrong <= miss) & (wrong < nothing) & (nothing > NEGLIGIBLE_MISS))


def failure_probability(budget: Budget, number: float | Floats, held: float | Floats) -> Floats:
    """Return a bound on the probability that no right bin with `held` records is released.

    Other bins with records are right, too. Under (epsilon, delta)-DP the bound is that of the
    better histogram: the release is a wrong bin of `number` bins, or it is no bin.
    """
    wrong = wrong_bin_probability(budget, np.asarray(number, dtype=float) - 1, held)
    if isinstance(budget, ApproxDP):
        return np.minimum(wrong, no_bin_probability(budget, held))
    return wrong


def smallest_passing(fails: Callable[[int], bool]) -> int:
    """Return the smallest n >= 1 with `fails(n)` false, for a test that stays false from there."""
    high = 1
    while high < MAX_RECORDS and fails(high):
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fails(middle) else (low, middle)
    return high


def no_bin_probability(budget: ApproxDP, held: float | Floats) -> Floats:
    """Return the probability that a stability-based histogram does not release one given bin."""
    above = np.asarray(held, dtype=float) - stability_threshold(budget)
    far = np.exp(-np.abs(above) * (budget.pure_epsilon / L1)) / 2
    return np.where(above < 0, 1 - far, far)


def wrong_bin_probability(budget: Budget, wrong: float | Floats, lead: float | Floats) -> Floats:
    """Return an upper bound on the probability that a bin of `wrong` bins has the top noisy count.

    Some right bin holds at least `lead` >= 0 records more than each of the `wrong` bins, which may
    be empty. Let Z be the noise of the right bin, and Z' the noise of a wrong bin. They are
    independent and have one distribution. The wrong bin wins only if Z' - Z >= lead.

    - Laplace noise of scale b: Z' - Z has the density (b + |v|) e^(-|v|/b)/(4 b^2), so that
      P(Z' - Z >= v) = (2 + v/b) e^(-v/b)/4 for v >= 0.
    - Gaussian noise of standard deviation s: Z' - Z is Gaussian with variance 2 s^2, so that
      P(Z' - Z >= v) = Phi(-v/(s sqrt(2))).

    The bound is the union bound over the wrong bins, and at most 1. It depends on public numbers
    only. Under (epsilon, delta)-DP it is for Laplace noise, as in both histograms. A
    stability-based histogram releases no empty bin, so that there only occupied bins count as
    wrong bins.
    """
    scale, gaussian = noise_scale(budget)
    lead = np.asarray(lead, dtype=float)
    with np.errstate(divide="ignore", over="ignore", invalid="ignore"):  # no wrong bin; no noise
        log_wrong = np.log(np.asarray(wrong, dtype=float))
        scales = np.where(lead > 0, np.minimum(lead / scale, np.finfo(float).max), 0.0)
        log_wins = np.log(0.5 + scales / 4) - scales
        if gaussian:
            log_wins = log_ndtr(-scales / np.sqrt(2))
    return np.asarray(np.exp(np.minimum(log_wrong + log_wins, 0.0)))


def overtaking_probability(budget: Budget, n: float, right: float, wrong: Floats) -> Floats:
    """Return upper bounds on P(a wrong bin has a noisy count as large as a right bin).

    The n records are independent. The right bin holds a record with probability at least `right`,
    and wrong bin j with probability at most w_j (`wrong`). Let D be the difference of their counts,
    wrong minus right, and Z' - Z the difference of their noises. By Chernoff's bound, for all
    theta > 0,

        P(D + Z' - Z >= 0) <= (1 + right (e^-theta - 1) + w_j (e^theta - 1))^n M(theta).

    M is the moment generating function of Z' - Z. It is e^(theta^2 s^2) for Gaussian noise of
    standard deviation s. It is (1 - theta^2 b^2)^-2 for Laplace noise of scale b, if theta < 1/b.
    The right side falls with `right` and grows with w_j. The smallest value over a grid of theta is
    returned, so that the bound holds whatever the grid.
    """
    scale, gaussian = noise_scale(budget)
    steps = np.geomspace(1e-3, 1.0, 80)
    ends = np.minimum(12.0, 1 / scale) if scale else 12.0
    theta = np.concatenate([ends * steps, ends * (1 - steps[:-1])])
    if gaussian:
        theta = np.concatenate([theta, 12 * steps])
    with np.errstate(divide="ignore"):
        log_moment = (
            (theta * scale) ** 2
            if gaussian
            else -2 * np.log1p(-(np.minimum(theta * scale, 1) ** 2))
        )
    wrong = np.asarray(wrong, dtype=float)[..., None]
    each = np.log1p(np.maximum(right * np.expm1(-theta) + wrong * np.expm1(theta), -1 + 1e-16))
    return np.asarray(np.exp(np.minimum(n * each + log_moment, 0.0).min(axis=-1)))


def noise_scale(budget: Budget) -> tuple[float, bool]:
    """Return the scale of a count's noise, and whether this is a Gaussian standard deviation."""
    added = _noise_budget(budget)
    gaussian = not isinstance(added, NonPrivate) and added.gaussian(L1, L2)
    tail = ndtr(-1.0) if gaussian else np.exp(-1.0) / 2  # at one scale above 0
    return float(added.noise_tail(np.asarray(tail), L1, L2)), gaussian


def _noise_budget(budget: Budget) -> Budget:
    """Return the budget of the noise: under (epsilon, delta) both histograms have Laplace noise."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def stability_threshold(budget: ApproxDP) -> float:
    """Return the threshold that the noisy count of a bin must exceed for the bin to be released.

    The threshold is for histograms under (epsilon, delta)-DP. The noisy count of a bin with only
    one record exceeds the threshold with probability at most delta.
    """
    return float(1 + L1 / budget.pure_epsilon * np.log(1 / (2 * budget.delta)))


def audit_pairs(
    n: int, bins: Bins, budget: Budget, *, held: float | None = None, miss: float = 1.0
) -> list[Pair]:
    """Return pairs of datasets on which one record changes the fullest bin of a histogram.

    The pairs test `private_mode_bin`. In the first pair each of two adjacent bins holds half of the
    n records, and one record moves from one bin to the other. The second pair exists for a
    stability-based histogram only, where a bin is released if its noisy count exceeds a threshold.
    The number of records in one bin is the rounded threshold, or n if n is smaller. One record
    leaves this bin.

    Parameters
    ----------
    n : int
        Number of records in each dataset.
    bins : Bins
        Bins of the histogram.
    budget : Budget
        Privacy budget of the histogram.
    held, miss : float
        Arguments of `private_mode_bin`.

    Returns
    -------
    list of Pair
        One or two pairs.
    """
    edge, width = float(bins.origin), float(np.asarray(bins.width))
    sides = np.where(np.arange(n) % 2 == 0, edge - width / 2, edge + width / 2)
    pairs = [Pair.replacing("across_a_bin_edge", sides, 0, edge + width / 2)]
    held = n / 4 if held is None else held
    on_all = noise_on_all_bins(budget, bins.count, held, miss)
    if isinstance(budget, ApproxDP) and not on_all.all():
        passing = min(round(stability_threshold(budget)), n)
        # Spread the other records over the bins on the right. Records beyond the last bin would
        # all be counted in it.
        finite = bool(np.isfinite(bins.count))
        right = max(1.0, float(bins.first + bins.count - 1)) if finite else np.inf
        places = edge + width * (1.5 + np.arange(n + 1) % right)
        places[:passing] = edge + width / 2
        pairs.append(Pair.replacing("at_the_threshold", places[:n], 0, places[n]))
    return pairs


def largest_noise(budget: Budget, draws: Floats, rng: np.random.Generator) -> Floats:
    """Draw the largest of the noises of M empty histogram bins, without drawing M noises.

    Let U be uniform on (0, 1). The quantile of the noise at probability U^(1/M) is distributed as
    the largest of M independent noises. The code uses the upper tail probability
    1 - U^(1/M) = -expm1(ln(U)/M), because U^(1/M) itself rounds to 1 from M = 1e17 on.

    Parameters
    ----------
    budget : Budget
        Budget that determines the noise.
    draws : ndarray
        Number M of empty bins in each trial.
    rng : Generator
        Source of U.

    Returns
    -------
    ndarray
        Largest noises, in the shape of `draws`; -inf if M = 0.
    """
    with np.errstate(divide="ignore"):
        log_below = -rng.standard_exponential(np.shape(draws)) / draws
        above, below = -np.expm1(log_below), np.exp(log_below)
        high = budget.noise_tail(np.minimum(above, 0.5), L1, L2)
        low = -budget.noise_tail(np.minimum(below, 0.5), L1, L2)
    return np.where(draws > 0, np.where(above < 0.5, high, low), -np.inf)


def _empty_bin(
    full: Occupied, starts: NDArray[np.intp], bins: Bins, empty: Floats, rng: np.random.Generator
) -> Floats:
    """Draw a uniformly random empty bin for each trial.

    Number the bins from left to right, starting at 0. Also number the occupied bins alone, and the
    empty bins alone. If occupied bin i is bin o of all bins, o - i empty bins come before it. So
    empty bin r comes after exactly the occupied bins with o - i <= r.
    """
    rank = np.floor(rng.random(empty.size) * empty)
    first = np.broadcast_to(bins.first, empty.shape)
    earlier = np.arange(full.trial.size) - starts[full.trial]
    before = (full.index - first[full.trial] - earlier) <= rank[full.trial]
    return np.asarray(first + rank + np.add.reduceat(before.astype(float), starts))
