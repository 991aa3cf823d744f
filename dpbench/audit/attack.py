"""Telling neighbouring datasets apart by what is released on them.

The first fifth of the runs, the pilot, chooses how the rest is judged: what number to read off a
release (a score), which rule guesses the dataset, and which events are counted. Whatever it
chooses, the bound that the rest gives is valid.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit

from dpbench.arrays import Bools, Floats
from dpbench.audit.bounds import event_bound, guess_bound
from dpbench.privacy import Budget, PureDP

__all__ = ["PILOT", "Released", "lower_bound"]

Score = Callable[[Floats], Floats]
Event = Callable[[Floats], Bools]

PILOT = 0.2
EVENTS = 4
LEVELS = expit(np.linspace(-7, 7, 57))  # from one in a thousand to all but one
MOST_ATOMS = 8
LIKELIHOOD_BINS = 16


class Released(NamedTuple):
    """Releases on both datasets of a pair, (runs, numbers of a release) arrays."""

    left: Floats
    right: Floats


def lower_bound(
    pilot: Released, rest: Released, direction: Floats, budget: Budget, error: float
) -> float:
    """A lower bound on the parameter of the budget's notion.

    It exceeds the true parameter with probability at most `error`. Under pure DP half of
    that is for guesses, half for events; else all is for events.

    Parameters
    ----------
    pilot, rest : Released
        The dataset of every run was chosen by a fair coin.
    direction : (numbers of a release,) array
        Along which the pair's means differ.
    budget : Budget
    error : float
    """
    scores = list(_scores(pilot, direction))
    guessing = isinstance(budget, PureDP)
    shared = error / 2 if guessing else error
    found = [_by_events(pilot, rest, scores, budget, shared)]
    if guessing:
        found.append(_by_guesses(pilot, rest, scores, shared))
    return max(found)


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


def _by_guesses(pilot: Released, rest: Released, scores: list[Score], error: float) -> float:
    """Guess the dataset of the nearer median beyond the pilot's medians; between them abstain."""
    size = len(rest.left) + len(rest.right)
    share = size / (len(pilot.left) + len(pilot.right))
    best: float = 0.0
    chosen: tuple[Score, float, float] | None = None
    for score in scores:
        m0, m1 = (_median(score(side)) for side in pilot)
        if not np.isfinite([m0, m1]).all() or m0 == m1:
            continue
        right, guesses = _guessed(pilot, score, m0, m1)
        # A perfect pilot is no perfect rest.
        likely = (right + 0.5) / (guesses + 1) * guesses
        bound = guess_bound(int(likely * share), int(guesses * share), error)
        if bound > best:
            best, chosen = bound, (score, m0, m1)
    return guess_bound(*_guessed(rest, *chosen), error) if chosen else 0.0


def _median(values: Floats) -> float:
    finite = values[np.isfinite(values)]
    return float(np.median(finite)) if finite.size else np.nan


def _guessed(released: Released, score: Score, m0: float, m1: float) -> tuple[int, int]:
    """Right guesses, and guesses."""
    sign = 1.0 if m1 > m0 else -1.0
    left, right = (sign * score(side) for side in released)
    for_left, for_right = [(s <= sign * m0).sum() for s in (left, right)]
    against_left, against_right = [(s >= sign * m1).sum() for s in (left, right)]
    return int(for_left + against_right), int(for_left + for_right + against_left + against_right)


def _by_events(
    pilot: Released, rest: Released, scores: list[Score], budget: Budget, error: float
) -> float:
    """The largest bound of the events that promise most in the pilot, each way round."""
    share = error / EVENTS
    events = [*_outcomes(), *(event for score in scores for event in _events(pilot, score))]
    m0, m1 = len(pilot.left), len(pilot.right)
    n0, n1 = len(rest.left), len(rest.right)
    k0, k1 = np.array([[event(side).sum() for side in pilot] for event in events]).T
    # What the rest would show if it were as the pilot, which is not certain of its extremes.
    e0, e1 = np.floor((k0 + 0.5) / (m0 + 1) * n0), np.floor((k1 + 0.5) / (m1 + 1) * n1)
    promise = np.concatenate(
        [event_bound(e0, n0, e1, n1, budget, share), event_bound(e1, n1, e0, n0, budget, share)]
    )
    found = []
    for index in np.argsort(-promise, kind="stable")[:EVENTS]:
        event, swapped = events[index % len(events)], index >= len(events)
        one, other = (rest.right, rest.left) if swapped else (rest.left, rest.right)
        counts = event(one).sum(), len(one), event(other).sum(), len(other)
        found.append(float(event_bound(*counts, budget, share)))
    return max(found)


def _outcomes() -> Iterator[Event]:
    """Nothing released, and infinities."""
    for kind in (np.isnan, np.isposinf, np.isneginf):
        yield partial(_any_number, kind)


def _any_number(kind: Callable[..., Any], released: Floats) -> Bools:
    return np.asarray(kind(released).any(axis=1))


def _events(pilot: Released, score: Score) -> Iterator[Event]:
    """Tails at pooled quantiles, atoms, and sets where the likelihood ratio is large."""
    values = [score(side) for side in pilot]
    pooled = np.concatenate(values)
    pooled = pooled[np.isfinite(pooled)]
    if pooled.size == 0:
        return

    for at in np.unique(np.quantile(pooled, LEVELS, method="inverted_cdf")):
        yield partial(_compares, np.less_equal, score, at)
        yield partial(_compares, np.greater_equal, score, at)
    atoms, counts = np.unique(pooled, return_counts=True)
    for atom in atoms[np.argsort(-counts, kind="stable")][:MOST_ATOMS]:
        yield partial(_compares, np.equal, score, atom)
    edges = np.unique(np.quantile(pooled, np.linspace(0, 1, LIKELIHOOD_BINS + 1)[1:-1]))
    left, right = (_counts(side, edges) + 0.5 for side in values)
    order = np.argsort(-left / right, kind="stable")

    def superlevel(bins: NDArray[np.intp]) -> Event:
        return lambda released: np.isin(_bins(score(released), edges), bins)

    for size in range(1, len(order)):
        yield superlevel(order[:size])
        yield superlevel(order[size:])  # for the other way round


def _compares(how: Callable[..., Any], score: Score, at: float, released: Floats) -> Bools:
    return np.asarray(how(score(released), at))


def _bins(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """The bin of every value; -1 for NaN."""
    return np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right"))


def _counts(values: Floats, edges: Floats) -> NDArray[np.intp]:
    found = _bins(values, edges)
    return np.bincount(found[found >= 0], minlength=len(edges) + 1)
