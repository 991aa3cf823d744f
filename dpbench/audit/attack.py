"""Telling neighbouring datasets apart by what is released on them.

A pilot chooses how other runs are judged: what number to read off a release (a score), and what
is counted of it (an attack). Whatever it chooses, the bound that the other runs give is valid.
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
from dpbench.audit.bounds import Bets, event_bound, guess_bound
from dpbench.privacy import ZCDP, Budget, PureDP

__all__ = ["Attack", "Released", "attacks"]

Score = Callable[[Floats], Floats]

EVENTS = 4
LEVELS = expit(np.linspace(-7, 7, 57))  # from one in a thousand to all but one
MOST_ATOMS = 8
LIKELIHOOD_BINS = 16
ORDERS = (1.1, 1.3, 1.5)
CLIPS = (0.5, 1.0, 2.0, 4.0)
# Of a score's range: below lie the last digits of floats, which depend on the data by rounding.
QUANTUM = 1e-9


class Released(NamedTuple):
    """Releases on both datasets of a pair, (runs, numbers of a release) arrays."""

    left: Floats
    right: Floats


class Event(NamedTuple):
    """Releases whose score passes a test."""

    score: Score
    test: Callable[[Floats], Bools]

    def __call__(self, released: Floats) -> Bools:
        return self.test(self.score(released))


@dataclass(frozen=True)
class Attack:
    """A way to judge releases, chosen from a pilot.

    Attributes
    ----------
    promise : float
        The bound that runs like the pilot's would give.
    bound : callable
        Of a `Released` that is not the pilot, and an error: a lower bound on the parameter of
        the budget's notion, which exceeds the true one with at most that probability.
    """

    promise: float
    bound: Callable[[Released, float], float]


def attacks(
    pilot: Released, direction: Floats, budget: Budget, runs: int, error: float
) -> list[tuple[Attack, float]]:
    """The attacks that promise most, and the share of the error that each has.

    Parameters
    ----------
    pilot : Released
    direction : (numbers of a release,) array
        Along which the pair's means differ.
    budget : Budget
    runs : int
        How many there will be on each dataset, about.
    error : float
        The probability that any of their bounds is wrong. Under pure DP half of it is for
        guesses and half for events, under zCDP half for a divergence; else all is for events.
    """
    # One half finds what may tell, the other compares it: a score can fit the noise of a half.
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
    """What to read off a release: numbers as they are, vectors along directions.

    A vector is projected on the direction of the pair and on its first coordinate. Of the two
    coordinates that the pilot moves most, and of all, log-likelihood ratios are read: as if their
    noises were independent Laplace, and as if they were Gaussian with the pilot's covariance.
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
    """Laplace and Gaussian log-likelihood ratios of some coordinates, up to a constant."""

    def laplace(released: Floats) -> Floats:
        distances = np.abs(released - m0) - np.abs(released - m1)
        return np.asarray((distances / spread)[:, chosen].sum(axis=1))

    yield laplace
    covariance = np.cov(residuals[:, chosen] / spread[chosen], rowvar=False)
    shift = ((m1 - m0) / spread)[chosen]
    # The ridge is for coordinates that share their noise, whose difference then shows all.
    normal = np.linalg.solve(covariance + 1e-9 * np.eye(len(chosen)), shift) / spread[chosen]
    yield lambda released: released[:, chosen] @ normal


def _coarse(score: Score, pilot: Released) -> Score:
    """The score in steps of `QUANTUM` of its range.

    What is claimed holds for real numbers. In floats a score that is constant over many releases
    splits by its last digit, and which way tells the datasets apart.
    """
    pooled = _finite(np.concatenate([score(side) for side in pilot]))
    step = QUANTUM * float(np.ptp(pooled)) if pooled.size else 0.0
    if step == 0 or not np.isfinite(step):
        return score
    return lambda released: np.round(score(released) / step) * step


def _finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _medians(pilot: Released, score: Score) -> tuple[float, float] | None:
    """The medians on both sides, if they differ."""
    both = [_finite(score(side)) for side in pilot]
    if not all(side.size for side in both):
        return None
    m0, m1 = (float(np.median(side)) for side in both)
    return (m0, m1) if m0 != m1 else None


def _guess(
    first: Released, second: Released, scores: list[Score], runs: int, error: float
) -> Attack | None:
    """Guess the dataset of the nearer median beyond the pilot's medians; between them abstain."""
    size = sum(map(len, second))
    best: Attack | None = None
    for score in scores:
        medians = _medians(first, score)
        if medians is None:
            continue
        right, guesses = _guessed(score, *medians, second)
        # A perfect pilot is no perfect rest.
        likely = (right + 0.5) / (guesses + 1) * guesses
        share = 2 * runs / size
        promise = guess_bound(int(likely * share), int(guesses * share), error)
        if best is None or promise > best.promise:
            best = Attack(promise, partial(_judge_guesses, score, *medians))
    return best


def _guessed(score: Score, m0: float, m1: float, released: Released) -> tuple[int, int]:
    """Right guesses, and guesses."""
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
    """The log-likelihood ratio of a score, clipped, and the order that promise most."""
    best: Attack | None = None
    ratios = [ratio for score in scores for ratio in _ratios(first, score)]
    for ratio in ratios:
        values = Released(*(ratio(side) for side in second))
        for swapped, clip in itertools.product((False, True), CLIPS):
            g, others = _clipped_ratios(values, swapped, clip)
            for order in ORDERS:
                bets, promise = Bets.placed(g, others, order, clip, runs, error)
                if best is None or promise > best.promise:
                    best = Attack(promise, partial(_judge_ratios, ratio, swapped, bets))
    return best


def _clipped_ratios(ratios: Released, swapped: bool, clip: float) -> list[Floats]:
    """ln(P/Q) on P and on Q; P is on the left, or on the right where swapped."""
    left, right = (np.clip(side, -clip, clip) for side in ratios)
    return [-right, -left] if swapped else [left, right]


def _ratios(pilot: Released, score: Score) -> Iterator[Score]:
    """ln(left/right) of a score: as of two Gaussians, and from counts in bins; 0 if not finite."""
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


def _judge_ratios(ratio: Score, swapped: bool, bets: Bets, rest: Released, error: float) -> float:
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
    """The events that promise most, each way round."""
    share = error / EVENTS
    events = [*_outcomes(), *(event for score in scores for event in _events(first, score))]
    m0, m1 = len(second.left), len(second.right)
    k0, k1 = (_hits(events, side) for side in second)
    # What the rest would show if it were as the pilot, which is not certain of its extremes.
    e0, e1 = np.floor((k0 + 0.5) / (m0 + 1) * runs), np.floor((k1 + 0.5) / (m1 + 1) * runs)
    promise = np.concatenate(
        [event_bound(a, runs, b, runs, budget, share) for a, b in ((e0, e1), (e1, e0))]
    )
    for index in np.argsort(-promise, kind="stable")[:EVENTS]:
        event, swapped = events[index % len(events)], index >= len(events)
        yield Attack(float(promise[index]), partial(_judge_event, event, bool(swapped), budget))


def _hits(events: list[Event], released: Floats) -> NDArray[np.int_]:
    """How many releases each event holds; a score is read off once for all of its events."""
    values = {score: score(released) for score in dict.fromkeys(one.score for one in events)}
    return np.array([np.count_nonzero(test(values[score])) for score, test in events])


def _judge_event(
    event: Event, swapped: bool, budget: Budget, rest: Released, error: float
) -> float:
    one, other = (rest.right, rest.left) if swapped else (rest.left, rest.right)
    counts = event(one).sum(), len(one), event(other).sum(), len(other)
    return float(event_bound(*counts, budget, error))


def _outcomes() -> Iterator[Event]:
    """Nothing released, and infinities."""
    for kind in (np.isnan, np.isposinf, np.isneginf):
        yield Event(_as_it_is, partial(_any_number, kind))


def _as_it_is(released: Floats) -> Floats:
    return released


def _any_number(kind: Callable[..., Any], released: Floats) -> Bools:
    return np.asarray(kind(released).any(axis=1))


def _events(pilot: Released, score: Score) -> Iterator[Event]:
    """Tails at pooled quantiles, atoms, and sets where the likelihood ratio is large."""
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
        inside = np.zeros(len(edges) + 2, bool)  # the last is that of NaN
        inside[bins] = True
        return Event(score, lambda values: np.asarray(inside[_bins(values, edges)]))

    for size in range(1, len(order)):
        yield superlevel(order[:size])
        yield superlevel(order[size:])  # for the other way round


def _compares(how: Callable[..., Any], at: float, values: Floats) -> Bools:
    return np.asarray(how(values, at))


def _edges(pooled: Floats) -> Floats:
    return np.unique(np.quantile(pooled, np.linspace(0, 1, LIKELIHOOD_BINS + 1)[1:-1]))


def _bins(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """The bin of every value; -1 for NaN."""
    return np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right"))


def _counts(values: Floats, edges: Floats) -> NDArray[np.intp]:
    found = _bins(values, edges)
    return np.bincount(found[found >= 0], minlength=len(edges) + 1)
