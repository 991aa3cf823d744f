"""Search of neighbouring datasets on which a replay shows a larger move than on given ones."""

from __future__ import annotations

import copy

import numpy as np

from dpbench.arrays import Floats
from dpbench.audit.replay import Replay, replay
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair

__all__ = ["climb", "score"]

SMALLEST, LARGEST = -3.0, 6.0  # powers of 10 between which new values lie


def score(found: Replay) -> float:
    """Return how much a replay shows: its largest move over sensitivity, or infinity."""
    return np.inf if not found.same_flow else float(np.nan_to_num(found.move_over_sensitivity))


def climb(
    estimator: Estimator, budget: Budget, pair: Pair, tries: int, rng: np.random.Generator
) -> tuple[Pair, Replay]:
    """Change a pair of neighbours at random, and keep each change that does not lower the score.

    The score is the largest move of a mechanism's input over its stated sensitivity, in a replay.
    So no release is drawn to attack it, and a try costs two runs. The search stops at a refutation.

    Parameters
    ----------
    estimator, budget : Estimator, Budget
        Claim to test.
    pair : Pair
        Neighbours under the relation of `budget`, from which the search starts.
    tries : int
        Number of changes to try.
    rng : Generator
        Source of the changes, and of the releases of the first run on every pair.

    Returns
    -------
    tuple of Pair and Replay
        Pair with the largest score, and its replay.
    """
    seed = int(rng.integers(2**32))

    def look(candidate: Pair) -> Replay:
        return replay(estimator, budget, candidate, np.random.default_rng(seed))

    best, found = pair, look(pair)
    for _ in range(tries):
        if found.verdict == "refuted":
            break
        candidate = _change(best, estimator.first_private, rng)
        if candidate is not None and score(seen := look(candidate)) >= score(found):
            best, found = candidate, seen
    return best, found


def _change(pair: Pair, first: int, rng: np.random.Generator) -> Pair | None:
    """Return a pair in which one side of the record, or some other records, have a new value.

    The result is None if the record would be equal on both sides. Records before `first` stay.
    """
    left, record = pair.left.copy(), pair.record
    other = copy.copy(pair.right[record]) if pair.relation == "replace" else None
    value = _draw_value(left, rng)
    where = rng.integers(3 if other is not None else 2)
    if where == 0:
        chosen = rng.random(len(left)) < rng.choice([1 / len(left), 0.3, 1.0])
        left[chosen & (np.arange(len(left)) >= first) & (np.arange(len(left)) != record)] = value
    elif where == 1:
        left[record] = value
    else:
        other = value
    if other is None:
        return Pair("climbed", left, np.delete(left, record, axis=0))
    if np.array_equal(left[record], other):
        return None
    return Pair.replacing("climbed", left, record, other)


def _draw_value(records: Floats, rng: np.random.Generator) -> Floats:
    """Return a new value of a record.

    It is the value of another record, its negative, the middle of two records, or a random number
    of any size, alone or added to a record.
    """
    one, other = records[rng.integers(len(records), size=2)]
    size = rng.choice([-1.0, 1.0], one.shape) * 10 ** rng.uniform(SMALLEST, LARGEST)
    return np.asarray([one, (one + other) / 2, -one, one + size, size][rng.integers(5)])
