"""Attacks: tests that distinguish two neighbouring datasets by the releases on them.

Pilot runs choose a score (a function from a release to a number) and an attack (a statistic of the
scores). The bound is computed from the other runs, so it is valid for every choice.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpbench.arrays import Bools, Floats
from dpbench.audit.bounds import RenyiTest, event_bound, guess_bound
from dpbench.privacy import ZCDP, Budget, PureDP

__all__ = ["Attack", "Released", "attacks"]

Score = Callable[[Floats], Floats]

EVENTS = 4  # events that share the error
LEVELS = expit(np.linspace(-7, 7, 57))  # quantile levels of tail events, from 0.001 to 0.999
MOST_ATOMS = 8  # most frequent scores that are tried as events
LIKELIHOOD_BINS = 16  # bins of a score for empirical likelihood ratios
ORDERS = (1.1, 1.3, 1.5)  # orders of Renyi divergence of `RenyiTest`
CLIPS = (0.5, 1.0, 2.0, 4.0)  # clips of the log-likelihood ratio of `RenyiTest`
# Step of a score as a share of its range: smaller differences are floating-point rounding.
QUANTUM = 1e-9


class Released(NamedTuple):
    """Releases on both datasets of a pair.

    Parameters
    ----------
    left, right : ndarray of shape (runs, m)
        Releases of m numbers on each dataset; the numbers of runs may differ.
    """

    left: Floats
    right: Floats


class Event(NamedTuple):
    """Event that the score of a release passes a test."""

    score: Score
    test: Callable[[Floats], Bools]

    def __call__(self, released: Floats) -> Bools:
        return self.test(self.score(released))


@dataclass(frozen=True)
class Attack:
    """Attack chosen from pilot runs.

    Attributes
    ----------
    promise : float
        Bound that is expected if further runs are distributed like the pilot.
    bound : callable
        Function (released, error) -> lower bound on the privacy parameter, for releases that are
        not in the pilot; the bound exceeds the true parameter with probability at most `error`.
    """

    promise: float
    bound: Callable[[Released, float], float]


def attacks(
    pilot: Released, direction: Floats, budget: Budget, runs: int, error: float
) -> list[tuple[Attack, float]]:
    """Return the most promising attacks, each with its share of the error.

    Parameters
    ----------
    pilot : Released
        Pilot releases.
    direction : ndarray of shape (m,)
        Direction in which the estimands of the two datasets differ.
    budget : Budget
        Claimed budget; its notion selects the attacks.
    runs : int
        Approximate number of further runs on each dataset.
    error : float
        Probability that any of the bounds exceeds the true parameter. Under pure DP half of it
        goes to guesses and half to events, under zCDP half to a divergence; else all to events.

    Returns
    -------
    list of (Attack, float)
    """
    # Split the pilot: fit the scores on one half and compare them on the other, to avoid
    # overfitting.
    first, second = (Released(*(side[half::2] for side in pilot)) for half in (0, 1))
    scores = [_coarse(score, first) for score in _scores(first, direction)]
    one: Attack | None = None
    if isinstance(budget, PureDP):
        one = _guess(first, second, scores, runs, error / 2)
    elif isinstance(budget, ZCDP):
        one = _divergence(first, second, scores, runs, error / 2)
    events = _best_events(first, second, scores, budget, runs, error / 2 if one else error)
    shared = 0.5 if one else 1.0
    found = [(attack, shared / EVENTS) for attack in events]
    return [*found, (one, shared)] if one else found


def _scores(pilot: Released, direction: Floats) -> Iterator[Score]:
    """Yield scores: the number itself, or projections and log-likelihood ratios of a vector.

    A vector is projected on `direction` and on its first coordinate. Log-likelihood ratios use the
    two coordinates with the largest standardised shift, and all of them: once with independent
    Laplace noise, once with Gaussian noise of the pilot's covariance.
    """
    if pilot.left.shape[1] == 1:
        yield lambda released: released[:, 0]
        return
    unit = direction / np.linalg.norm(direction)
    yield lambda released: released @ unit
    yield lambda released: released[:, 0]
    left, right = (side[np.isfinite(side).all(axis=1)] for side in pilot)
    if min(len(left), len(right)) < 2:
        return
    m0, m1 = np.median(left, axis=0), np.median(right, axis=0)
    residuals = np.concatenate([left - m0, right - m1])
    spread = np.abs(residuals).mean(axis=0)
    spread = np.where(spread > 0, spread, np.finfo(float).tiny)
    order = np.argsort(-np.abs(m1 - m0) / spread, kind="stable")
    for chosen in (order[:2], order)[: len(order) - 1]:
        yield from _likelihood_ratios(m0, m1, residuals, spread, chosen)


def _likelihood_ratios(
    m0: Floats, m1: Floats, residuals: Floats, spread: Floats, chosen: NDArray[np.intp]
) -> Iterator[Score]:
    """Yield Laplace and Gaussian log-likelihood ratios of some coordinates, up to a constant."""

    def laplace(released: Floats) -> Floats:
        distances = np.abs(released - m0) - np.abs(released - m1)
        return np.asarray((distances / spread)[:, chosen].sum(axis=1))

    yield laplace
    covariance = np.cov(residuals[:, chosen] / spread[chosen], rowvar=False)
    shift = ((m1 - m0) / spread)[chosen]
    # A ridge, because coordinates that share their noise have a singular covariance.
    normal = np.linalg.solve(covariance + 1e-9 * np.eye(len(chosen)), shift) / spread[chosen]
    yield lambda released: released[:, chosen] @ normal


def _coarse(score: Score, pilot: Released) -> Score:
    """Return the score rounded to steps of `QUANTUM` times its range.

    Claims are about real numbers. In floating point a constant score may differ in its last digit
    between the datasets, which would refute claims that hold.
    """
    pooled = _finite(np.concatenate([score(side) for side in pilot]))
    step = QUANTUM * float(np.ptp(pooled)) if pooled.size else 0.0
    if step == 0 or not np.isfinite(step):
        return score
    return lambda released: np.round(score(released) / step) * step


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _medians(pilot: Released, score: Score) -> tuple[float, float] | None:
    """Return the medians of the score on both sides; None unless they differ."""
    both = [_finite(score(side)) for side in pilot]
    if not all(side.size for side in both):
        return None
    m0, m1 = (float(np.median(side)) for side in both)
    return (m0, m1) if m0 != m1 else None


def _guess(
    first: Released, second: Released, scores: list[Score], runs: int, error: float
) -> Attack | None:
    """Choose the guessing attack with the largest promise; None if all medians coincide.

    It guesses left or right if a score lies beyond the pilot's medians, and abstains in between.
    """
    size = sum(map(len, second))
    best: Attack | None = None
    for score in scores:
        medians = _medians(first, score)
        if medians is None:
            continue
        right, guesses = _guessed(score, *medians, second)
        # Shrink the share of right guesses, because even a perfect pilot may be followed by errors.
        likely = (right + 0.5) / (guesses + 1) * guesses
        share = 2 * runs / size
        promise = guess_bound(int(likely * share), int(guesses * share), error)
        if best is None or promise > best.promise:
            best = Attack(promise, partial(_judge_guesses, score, *medians))
    return best


def _guessed(score: Score, m0: float, m1: float, released: Released) -> tuple[int, int]:
    """Return the number of right guesses and the number of guesses."""
    sign = 1.0 if m1 > m0 else -1.0
    left, right = (sign * score(side) for side in released)
    for_left, for_right = [(s <= sign * m0).sum() for s in (left, right)]
    against_left, against_right = [(s >= sign * m1).sum() for s in (left, right)]
    return int(for_left + against_right), int(for_left + for_right + against_left + against_right)


def _judge_guesses(score: Score, m0: float, m1: float, rest: Released, error: float) -> float:
    return guess_bound(*_guessed(score, m0, m1, rest), error)


def _divergence(
    first: Released, second: Released, scores: list[Score], runs: int, error: float
) -> Attack | None:
    """Choose the clipped log-likelihood ratio, direction and order with the largest promise."""
    best: Attack | None = None
    ratios = [ratio for score in scores for ratio in _ratios(first, score)]
    for ratio in ratios:
        values = Released(*(ratio(side) for side in second))
        for swapped, clip in itertools.product((False, True), CLIPS):
            g, others = _clipped_ratios(values, swapped, clip)
            for order in ORDERS:
                bets, promise = RenyiTest.placed(g, others, order, clip, runs, error)
                if best is None or promise > best.promise:
                    best = Attack(promise, partial(_judge_ratios, ratio, swapped, bets))
    return best


def _clipped_ratios(ratios: Released, swapped: bool, clip: float) -> list[Floats]:
    """Return clipped ln(P/Q) on releases of P and of Q; P is the left side, or right if swapped."""
    left, right = (np.clip(side, -clip, clip) for side in ratios)
    return [-right, -left] if swapped else [left, right]


def _ratios(pilot: Released, score: Score) -> Iterator[Score]:
    """Yield ln(left/right) of a score: Gaussian, and from counts in bins; 0 if not finite."""
    values = [_finite(score(side)) for side in pilot]
    if min(side.size for side in values) < 2:
        return
    m0, m1 = (float(side.mean()) for side in values)
    variance = float(np.mean([side.var() for side in values]))
    if 0 < variance < np.inf:
        yield lambda released: np.nan_to_num(
            (score(released) - (m0 + m1) / 2) * (m0 - m1) / variance, posinf=0.0, neginf=0.0
        )
    edges = _edges(np.concatenate(values))
    left, right = (_counts(side, edges) + 0.5 for side in values)
    ratios = np.append(np.log(left / left.sum()) - np.log(right / right.sum()), 0.0)
    yield lambda released: ratios[_bins(score(released), edges)]


def _judge_ratios(
    ratio: Score, swapped: bool, bets: RenyiTest, rest: Released, error: float
) -> float:
    values = Released(*(ratio(side) for side in rest))
    g, others = _clipped_ratios(values, swapped, bets.clip)
    return bets.bound(g, others, error)


def _best_events(
    first: Released,
    second: Released,
    scores: list[Score],
    budget: Budget,
    runs: int,
    error: float,
) -> Iterator[Attack]:
    """Yield the `EVENTS` events with the largest promise, as more likely left or right."""
    share = error / EVENTS
    events = [*_outcomes(), *(event for score in scores for event in _events(first, score))]
    m0, m1 = len(second.left), len(second.right)
    k0, k1 = (_hits(events, side) for side in second)
    # Expected counts of the further runs; shrunk, because a pilot is unsure of rare events.
    e0, e1 = np.floor((k0 + 0.5) / (m0 + 1) * runs), np.floor((k1 + 0.5) / (m1 + 1) * runs)
    promise = np.concatenate(
        [event_bound(a, runs, b, runs, budget, share) for a, b in ((e0, e1), (e1, e0))]
    )
    for index in np.argsort(-promise, kind="stable")[:EVENTS]:
        event, swapped = events[index % len(events)], index >= len(events)
        yield Attack(float(promise[index]), partial(_judge_event, event, bool(swapped), budget))


def _hits(events: list[Event], released: Floats) -> NDArray[np.int_]:
    """Return the number of releases in each event; each score is computed once."""
    values = {score: score(released) for score in dict.fromkeys(one.score for one in events)}
    return np.array([np.count_nonzero(test(values[score])) for score, test in events])


def _judge_event(
    event: Event, swapped: bool, budget: Budget, rest: Released, error: float
) -> float:
    one, other = (rest.right, rest.left) if swapped else (rest.left, rest.right)
    counts = event(one).sum(), len(one), event(other).sum(), len(other)
    return float(event_bound(*counts, budget, error))


def _outcomes() -> Iterator[Event]:
    """Yield the events that some released number is NaN, +inf or -inf."""
    for kind in (np.isnan, np.isposinf, np.isneginf):
        yield Event(_as_it_is, partial(_any_number, kind))


def _as_it_is(released: Floats) -> Floats:
    return released


def _any_number(kind: Callable[..., Any], released: Floats) -> Bools:
    return np.asarray(kind(released).any(axis=1))


def _events(pilot: Released, score: Score) -> Iterator[Event]:
    """Yield events of a score: tails at pooled quantiles, atoms, and likelihood-ratio sets."""
    values = [score(side) for side in pilot]
    pooled = _finite(np.concatenate(values))
    if pooled.size == 0:
        return
    for at in np.unique(np.quantile(pooled, LEVELS, method="inverted_cdf")):
        yield Event(score, partial(_compares, np.less_equal, at))
        yield Event(score, partial(_compares, np.greater_equal, at))
    atoms, counts = np.unique(pooled, return_counts=True)
    for atom in atoms[np.argsort(-counts, kind="stable")][:MOST_ATOMS]:
        yield Event(score, partial(_compares, np.equal, atom))
    edges = _edges(pooled)
    left, right = (_counts(side, edges) + 0.5 for side in values)
    order = np.argsort(-left / right, kind="stable")

    def superlevel(bins: NDArray[np.intp]) -> Event:
        inside = np.zeros(len(edges) + 2, bool)  # the last entry is for NaN
        inside[bins] = True
        return Event(score, lambda values: np.asarray(inside[_bins(values, edges)]))

    for size in range(1, len(order)):
        yield superlevel(order[:size])
        yield superlevel(order[size:])  # more likely on the right


def _compares(how: Callable[..., Any], at: float, values: Floats) -> Bools:
    return np.asarray(how(values, at))


def _edges(pooled: Floats) -> Floats:
    return np.unique(np.quantile(pooled, np.linspace(0, 1, LIKELIHOOD_BINS + 1)[1:-1]))


def _bins(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return the index of the bin of every value; -1 for NaN."""
    return np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right"))


def _counts(values: Floats, edges: Floats) -> NDArray[np.intp]:
    found = _bins(values, edges)
    return np.bincount(found[found >= 0], minlength=len(edges) + 1)
