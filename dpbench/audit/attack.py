"""Attacks: tests that distinguish two neighbouring datasets by the releases on them.

An audit releases many times on both datasets. The first releases are the pilot. They choose the
attacks. The other releases give the lower bound on the privacy parameter. The bound is therefore
valid for every choice of attacks.

A score is a function from a release to a number. An attack computes a lower bound on the privacy
parameter from the scores of many releases.
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

__all__ = ["Attack", "PairReleases", "choose_attacks"]

Score = Callable[[Floats], Floats]

EVENTS = 4  # number of tried events, which share the error equally
LEVELS = expit(np.linspace(-7, 7, 57))  # quantile levels of tail events, from 0.001 to 0.999
MAX_ATOM_EVENTS = 8  # most frequent scores that are tried as events
LIKELIHOOD_BINS = 16  # bins of a score for empirical likelihood ratios
ORDERS = (1.1, 1.3, 1.5)  # orders of Renyi divergence of `RenyiTest`
CLIPS = (0.5, 1.0, 2.0, 4.0)  # clips of the log-likelihood ratio of `RenyiTest`
# Step of a score as a share of its range: smaller differences are floating-point rounding.
RELATIVE_STEP = 1e-9


class PairReleases(NamedTuple):
    """Releases of m numbers on both datasets of a neighbouring pair.

    Each array has the shape (runs, m); the numbers of runs may differ.
    """

    left: Floats
    right: Floats


class Event(NamedTuple):
    """Set of releases whose score (a number computed from the release) passes a test."""

    score: Score
    test: Callable[[Floats], Bools]

    def __call__(self, released: Floats) -> Bools:
        return self.test(self.score(released))


@dataclass(frozen=True)
class Attack:
    """Test that distinguishes two neighbouring datasets by their releases.

    The test is chosen from the pilot, the first releases on both datasets.

    Attributes
    ----------
    promise : float
        Lower bound on the privacy parameter that is expected from the releases after the pilot.
    bound : callable
        Function (released, error) -> lower bound on the privacy parameter. `released` holds
        releases that are not in the pilot. The bound exceeds the true parameter with probability at
        most `error`.
    """

    promise: float
    bound: Callable[[PairReleases, float], float]


def choose_attacks(
    pilot: PairReleases, direction: Floats, budget: Budget, runs: int, error: float
) -> list[tuple[Attack, float]]:
    """Choose attacks that promise the largest lower bounds on the privacy parameter.

    An attack is a test that distinguishes two neighbouring datasets by their releases. The pilot,
    the first releases of an audit, chooses the attacks. Each attack gives a lower bound from the
    further releases, about `runs` on each dataset, with a share of the audit's error probability.
    The result lists the attacks with their shares.

    The direction, of shape (m,), is that in which the estimated quantity differs between the two
    datasets; it is empty if it is not known. The budget's notion selects the attacks.

    `error`, in (0, 1), is the probability that any of the bounds exceeds the true parameter. Under
    pure DP half of it goes to an attack that guesses the dataset. Under zCDP half goes to a test of
    a Renyi divergence. Attacks that count an event share the rest.
    """
    # Split the pilot: fit the scores on one half and compare them on the other, to avoid
    # overfitting.
    first, second = (PairReleases(*(side[half::2] for side in pilot)) for half in (0, 1))
    scores = [_round_score(score, first) for score in _scores(first, direction)]
    special: Attack | None = None
    if isinstance(budget, PureDP):
        special = _choose_guess(first, second, scores, runs, error / 2)
    elif isinstance(budget, ZCDP):
        special = _choose_divergence_test(first, second, scores, runs, error / 2)
    events = _choose_events(first, second, scores, budget, runs, error / 2 if special else error)
    event_share = 0.5 if special else 1.0
    event_attacks = [(attack, event_share / EVENTS) for attack in events]
    return [*event_attacks, (special, event_share)] if special else event_attacks


def _scores(pilot: PairReleases, direction: Floats) -> Iterator[Score]:
    """Yield scores, functions that compute one number from a release.

    If a release is one number, this number is the only score. If a release is a vector, there are
    two projections. One is on `direction`, in which the estimated quantity differs between the
    datasets; it is left out if `direction` is empty. The other is on the first coordinate axis.
    There are also two log-likelihood ratios of the two datasets. One ratio assumes independent
    Laplace noise. The other ratio assumes Gaussian noise with the covariance of the `pilot`
    releases.

    Each ratio uses the two coordinates with the largest shift between the datasets, relative to
    their spread. If there are more than two coordinates, each ratio is also computed from all of
    them.
    """
    if pilot.left.shape[1] == 1:
        yield lambda released: released[:, 0]
        return
    if direction.size:
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
    for coordinates in (order[:2], order)[: len(order) - 1]:
        yield from _likelihood_ratios(m0, m1, residuals, spread, coordinates)


def _likelihood_ratios(
    m0: Floats, m1: Floats, residuals: Floats, spread: Floats, coordinates: NDArray[np.intp]
) -> Iterator[Score]:
    """Yield two log-likelihood ratios of the two datasets, as functions of a release.

    Each ratio is known only up to an additive constant and a factor. It uses only the `coordinates`
    of a release. The first ratio assumes independent Laplace noise. The second ratio assumes
    Gaussian noise with the covariance of the `residuals`. A residual is a pilot release minus the
    median of the pilot releases on its dataset.
    """

    def laplace(released: Floats) -> Floats:
        distances = np.abs(released - m0) - np.abs(released - m1)
        return np.asarray((distances / spread)[:, coordinates].sum(axis=1))

    yield laplace
    covariance = np.cov(residuals[:, coordinates] / spread[coordinates], rowvar=False)
    shift = ((m1 - m0) / spread)[coordinates]
    # A ridge, because coordinates that share their noise have a singular covariance.
    normal = (
        np.linalg.solve(covariance + 1e-9 * np.eye(len(coordinates)), shift) / spread[coordinates]
    )
    yield lambda released: released[:, coordinates] @ normal


def _round_score(score: Score, pilot: PairReleases) -> Score:
    """Round a score, a function from a release to a number, to multiples of a tiny step.

    The step is `RELATIVE_STEP` times the range of the score over the `pilot` releases. Privacy
    claims are about real numbers. In floating point a constant score may differ in its last digit
    between the datasets. Without rounding, this difference would refute claims that hold.
    """
    pooled = _drop_non_finite(np.concatenate([score(side) for side in pilot]))
    step = RELATIVE_STEP * float(np.ptp(pooled)) if pooled.size else 0.0
    if step == 0 or not np.isfinite(step):
        return score
    return lambda released: np.round(score(released) / step) * step


def _drop_non_finite(values: Floats) -> Floats:
    return values[np.isfinite(values)]


def _medians(pilot: PairReleases, score: Score) -> tuple[float, float] | None:
    """Return the median scores of releases on the left and on the right dataset.

    A score is a number computed from a release. The result is None if the medians are equal, or if
    a dataset has no finite score.
    """
    finite_scores = [_drop_non_finite(score(side)) for side in pilot]
    if not all(side.size for side in finite_scores):
        return None
    m0, m1 = (float(np.median(side)) for side in finite_scores)
    return (m0, m1) if m0 != m1 else None


def _choose_guess(
    first: PairReleases, second: PairReleases, scores: list[Score], runs: int, error: float
) -> Attack | None:
    """Choose the guessing attack that promises the largest lower bound on epsilon.

    A guessing attack guesses on which of two datasets, left or right, a release was made. It uses a
    score (a number computed from the release) and the median score on each dataset in the pilot.
    The attack abstains if the score is between the medians. Otherwise it guesses the dataset with
    the nearer median. The result is None if no score has different medians on the two datasets.
    """
    size = sum(map(len, second))
    best: Attack | None = None
    for score in scores:
        medians = _medians(first, score)
        if medians is None:
            continue
        right, guesses = _count_guesses(score, *medians, second)
        # Shrink the share of right guesses, because even a perfect pilot may be followed by errors.
        expected_right = (right + 0.5) / (guesses + 1) * guesses
        share = 2 * runs / size
        promise = guess_bound(int(expected_right * share), int(guesses * share), error)
        if best is None or promise > best.promise:
            best = Attack(promise, partial(_judge_guesses, score, *medians))
    return best


def _count_guesses(score: Score, m0: float, m1: float, released: PairReleases) -> tuple[int, int]:
    """Count the correct guesses and all guesses of the dataset on which a release was made.

    The guess depends on the score, a number computed from the release. Let `m0` and `m1` be the
    median scores of pilot releases on the left and on the right dataset. Let m0 < m1. Then a score
    of at most m0 is a guess for left, and a score of at least m1 a guess for right. If m0 > m1,
    both inequalities are reversed. Scores between the medians give no guess.
    """
    sign = 1.0 if m1 > m0 else -1.0
    left, right = (sign * score(side) for side in released)
    for_left, for_right = [(s <= sign * m0).sum() for s in (left, right)]
    against_left, against_right = [(s >= sign * m1).sum() for s in (left, right)]
    return int(for_left + against_right), int(for_left + for_right + against_left + against_right)


def _judge_guesses(score: Score, m0: float, m1: float, rest: PairReleases, error: float) -> float:
    return guess_bound(*_count_guesses(score, m0, m1, rest), error)


def _choose_divergence_test(
    first: PairReleases, second: PairReleases, scores: list[Score], runs: int, error: float
) -> Attack | None:
    """Choose the test of a Renyi divergence that promises the largest lower bound on rho.

    The tested divergence is between the releases on the left and on the right dataset. The
    candidates differ in the estimate of the log-likelihood ratio, and in the bound at which this
    ratio is clipped. They also differ in the order of the divergence and in its direction, left
    against right or right against left. The result is None if there is no estimate of the ratio.
    """
    best: Attack | None = None
    ratios = [ratio for score in scores for ratio in _log_likelihood_ratios(first, score)]
    for ratio in ratios:
        values = PairReleases(*(ratio(side) for side in second))
        for swapped, clip in itertools.product((False, True), CLIPS):
            g_p, g_q = _clipped_ratios(values, swapped, clip)
            for order in ORDERS:
                bets, promise = RenyiTest.choose_bets(g_p, g_q, order, clip, runs, error)
                if best is None or promise > best.promise:
                    best = Attack(promise, partial(_judge_ratios, ratio, swapped, bets))
    return best


def _clipped_ratios(ratios: PairReleases, swapped: bool, clip: float) -> list[Floats]:
    """Return the clipped log-likelihood ratio ln(P/Q) on releases from P, and on releases from Q.

    P is the distribution of a release on the left dataset, and Q on the right dataset. If
    `swapped`, P belongs to the right dataset and Q to the left. For each release, `ratios` holds
    the log-likelihood ratio of left to right. The result is clipped to [-clip, clip].
    """
    left, right = (np.clip(side, -clip, clip) for side in ratios)
    return [-right, -left] if swapped else [left, right]


def _log_likelihood_ratios(pilot: PairReleases, score: Score) -> Iterator[Score]:
    """Yield two estimates of a log-likelihood ratio, as functions of a release.

    The ratio compares the distributions of a score on the left and on the right dataset. A score is
    a number computed from a release. The first estimate fits a normal density to the pilot's scores
    on each dataset, with a common variance. The second estimate counts the pilot's scores in bins.
    If a score is NaN, the ratio is 0.
    """
    values = [_drop_non_finite(score(side)) for side in pilot]
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
    ratio: Score, swapped: bool, bets: RenyiTest, rest: PairReleases, error: float
) -> float:
    values = PairReleases(*(ratio(side) for side in rest))
    g_p, g_q = _clipped_ratios(values, swapped, bets.clip)
    return bets.bound(g_p, g_q, error)


def _choose_events(
    first: PairReleases,
    second: PairReleases,
    scores: list[Score],
    budget: Budget,
    runs: int,
    error: float,
) -> Iterator[Attack]:
    """Yield the attacks by events that promise the largest lower bounds on the privacy parameter.

    Each attack counts the releases in one event, on the left and on the right dataset. Each event
    is tried twice: as more likely on the left dataset, and as more likely on the right. The number
    of attacks is `EVENTS`.
    """
    share = error / EVENTS
    events = [
        *_non_finite_events(),
        *(event for score in scores for event in _events(first, score)),
    ]
    m0, m1 = len(second.left), len(second.right)
    k0, k1 = (_count_hits(events, side) for side in second)
    # Expected counts in the further runs, shrunk because the pilot estimates rare events badly.
    e0, e1 = np.floor((k0 + 0.5) / (m0 + 1) * runs), np.floor((k1 + 0.5) / (m1 + 1) * runs)
    promise = np.concatenate(
        [event_bound(a, runs, b, runs, budget, share) for a, b in ((e0, e1), (e1, e0))]
    )
    for index in np.argsort(-promise, kind="stable")[:EVENTS]:
        event, swapped = events[index % len(events)], index >= len(events)
        yield Attack(float(promise[index]), partial(_judge_event, event, bool(swapped), budget))


def _count_hits(events: list[Event], released: Floats) -> NDArray[np.int_]:
    """Count the releases in each event.

    An event is a test of a score, a number computed from a release. Several events may test one
    score, so each score is computed only once.
    """
    values = {score: score(released) for score in dict.fromkeys(event.score for event in events)}
    return np.array([np.count_nonzero(test(values[score])) for score, test in events])


def _judge_event(
    event: Event, swapped: bool, budget: Budget, rest: PairReleases, error: float
) -> float:
    first, second = (rest.right, rest.left) if swapped else (rest.left, rest.right)
    counts = event(first).sum(), len(first), event(second).sum(), len(second)
    return float(event_bound(*counts, budget, error))


def _non_finite_events() -> Iterator[Event]:
    """Yield three events: some released number is NaN, some is +inf, and some is -inf."""
    for test in (np.isnan, np.isposinf, np.isneginf):
        yield Event(_keep_releases, partial(_test_any_number, test))


def _keep_releases(released: Floats) -> Floats:
    return released


def _test_any_number(test: Callable[..., Any], released: Floats) -> Bools:
    return np.asarray(test(released).any(axis=1))


def _events(pilot: PairReleases, score: Score) -> Iterator[Event]:
    """Yield events about a score (a number computed from a release).

    There are three kinds of events. A tail event begins at a quantile of the pilot's scores on both
    datasets together. A value event is that the score equals one of the most frequent scores. A bin
    event is that the score lies in a union of bins. The bins of a union have the largest (or
    smallest) ratios of the frequency on the left dataset to the frequency on the right.
    """
    values = [score(side) for side in pilot]
    pooled = _drop_non_finite(np.concatenate(values))
    if pooled.size == 0:
        return
    for threshold in np.unique(np.quantile(pooled, LEVELS, method="inverted_cdf")):
        yield Event(score, partial(_compare_scores, np.less_equal, threshold))
        yield Event(score, partial(_compare_scores, np.greater_equal, threshold))
    atoms, counts = np.unique(pooled, return_counts=True)
    for atom in atoms[np.argsort(-counts, kind="stable")][:MAX_ATOM_EVENTS]:
        yield Event(score, partial(_compare_scores, np.equal, atom))
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


def _compare_scores(comparison: Callable[..., Any], threshold: float, values: Floats) -> Bools:
    return np.asarray(comparison(values, threshold))


def _edges(pooled: Floats) -> Floats:
    return np.unique(np.quantile(pooled, np.linspace(0, 1, LIKELIHOOD_BINS + 1)[1:-1]))


def _bins(values: Floats, edges: Floats) -> NDArray[np.intp]:
    """Return the index of the bin that holds each value, and -1 for NaN.

    `edges` holds the sorted edges between the bins.
    """
    return np.where(np.isnan(values), -1, np.searchsorted(edges, values, side="right"))


def _counts(values: Floats, edges: Floats) -> NDArray[np.intp]:
    indices = _bins(values, edges)
    return np.bincount(indices[indices >= 0], minlength=len(edges) + 1)
