"""Neighbouring datasets on which a mistake shows.

Random neighbours show nothing. In each of these pairs one record goes where it moves a release
most, or where a step that looks at the data turns over.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.seeds import check_generator

__all__ = ["catalogue", "checked_pair"]

FAR = 1e6  # beyond every bound
NEAR_EQUAL = 1e-9
GOLDEN = (5**0.5 - 1) / 2


def catalogue(n: int, d: int | None = None) -> list[Pair]:
    """The pairs that every estimator is audited on; a record's natural scale is 1.

    Parameters
    ----------
    n : int
        Records, at least 4.
    d : int, optional
        Coordinates; numbers lie along the first of them and, for d > 1, along the diagonal too.
    """
    numbers = _of_numbers(n)
    if d is None:
        return numbers
    axis, diagonal = np.eye(d)[0], np.full(d, d**-0.5)
    pairs = [pair.along(axis) for pair in numbers]
    if d == 1:
        return pairs
    # The squares of records at a right angle differ most.
    corner = Pair.replacing(
        "around_a_corner", np.outer(np.arange(n) == 0, FAR * axis), 0, FAR * np.eye(d)[1]
    )
    return [*pairs, *(pair.along(diagonal, "_diagonal") for pair in numbers), corner]


def _of_numbers(n: int) -> list[Pair]:
    zeros, low = np.zeros(n), np.full(n, -FAR)
    one_far = np.append(np.zeros(n - 1), FAR)
    halves = np.where(np.arange(n) % 2 == 0, -1.0, 1.0)
    almost = NEAR_EQUAL * np.linspace(-1, 1, n)
    # A Gaussian's quantiles, well mixed, and an outlier.
    mixed = np.argsort(np.arange(n) * GOLDEN % 1)
    spread = ndtri((mixed + 0.5) / n)
    spread[-1] = -FAR
    made = {
        "one_to_the_far_end": (zeros, 0, FAR),
        "all_equal_but_one": (zeros, 0, 1.0),
        "ends_of_the_clip": (np.append(np.zeros(n - 1), -FAR), n - 1, FAR),
        "all_low_but_one": (low, 0, FAR),
        "two_clusters": (halves, 0, 1.0),
        "two_far_clusters": (FAR * halves, 0, FAR),
        "almost_constant": (almost, 0, 1.0),
        "far_outlier": (spread, n - 1, FAR),
        "outlier_in_both": (one_far, 0, 1.0),
    }
    return [Pair.replacing(name, *what) for name, what in made.items()]


def checked_pair(
    estimator: Estimator,
    budget: Budget,
    pair: Pair | tuple[ArrayLike, ArrayLike],
    rng: np.random.Generator,
) -> Pair:
    """Return a pair on which the estimator claims the budget.

    Raises
    ------
    ValueError
        If these are no neighbours, or the estimator claims nothing of the kind.
    TypeError
        If `rng` is a seed.
    """
    check_generator(rng)
    if not isinstance(pair, Pair):
        left, right = (np.asarray(side, dtype=float) for side in pair)
        pair = Pair("pair", left, right)
    name = type(estimator).__name__
    if not budget.amounts or not estimator.supports(budget):
        raise ValueError(f"{name} claims nothing under a budget of notion {budget.label!r}")
    if pair.relation != budget.neighbours:
        raise ValueError(f"{pair.name}: the budget is about neighbours: {budget.neighbours}")
    if pair.left.ndim == 2 and not estimator.multivariate:
        raise ValueError(f"{name} takes scalar records, got vectors")
    return pair
