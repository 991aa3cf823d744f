"""Pairs of neighbouring datasets that expose mistakes.

Random neighbours hardly ever expose a mistake. In each pair of the catalogue the replaced record
has a large effect on the release, or sits at a decision boundary of a data-dependent step.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import ndtri

from dpbench.errors import ConfigError, check_instance
from dpbench.estimators import Estimator
from dpbench.estimators.releases import EXAMPLE
from dpbench.privacy import Budget
from dpbench.privacy.neighbours import Pair
from dpbench.seeds import check_generator

__all__ = ["catalogue", "check_pair"]

FAR_RECORD = 1e6  # a record beyond the bounds of every estimator
NEAR_EQUAL = 1e-9  # half of the range of records that are almost equal
GOLDEN_RATIO = (5**0.5 - 1) / 2  # its multiples modulo 1 are evenly spread in a mixed order


def catalogue(n: int, d: int | None = None) -> list[Pair]:
    """Return the pairs of neighbouring datasets on which every estimator is audited.

    The pairs suit estimators for records of about unit size; some records are far outliers. There
    are at least 4 records. Without `d` the records are numbers. For vectors each scalar pair is
    placed on the first axis. If d > 1, each is also placed on the diagonal, and one more pair uses
    two axes.
    """
    numbers = _scalar_pairs(n)
    if d is None:
        return numbers
    axis, diagonal = np.eye(d)[0], np.full(d, d**-0.5)
    pairs = [pair.along(axis) for pair in numbers]
    if d == 1:
        return pairs
    # Orthogonal records, because their second moments differ most.
    corner = Pair.replacing(
        "around_a_corner",
        np.outer(np.arange(n) == 0, FAR_RECORD * axis),
        0,
        FAR_RECORD * np.eye(d)[1],
    )
    return [*pairs, *(pair.along(diagonal, "_diagonal") for pair in numbers), corner]


def _scalar_pairs(n: int) -> list[Pair]:
    zeros, low = np.zeros(n), np.full(n, -FAR_RECORD)
    one_far = np.append(np.zeros(n - 1), FAR_RECORD)
    halves = np.where(np.arange(n) % 2 == 0, -1.0, 1.0)
    nearly_equal = NEAR_EQUAL * np.linspace(-1, 1, n)
    # Quantiles of a Gaussian in a well mixed order, and one outlier.
    mixed = np.argsort(np.arange(n) * GOLDEN_RATIO % 1)
    spread = ndtri((mixed + 0.5) / n)
    spread[-1] = -FAR_RECORD
    datasets = {
        "one_to_the_far_end": (zeros, 0, FAR_RECORD),
        "all_equal_but_one": (zeros, 0, 1.0),
        "ends_of_the_clip": (np.append(np.zeros(n - 1), -FAR_RECORD), n - 1, FAR_RECORD),
        "all_low_but_one": (low, 0, FAR_RECORD),
        "two_clusters": (halves, 0, 1.0),
        "two_far_clusters": (FAR_RECORD * halves, 0, FAR_RECORD),
        "almost_constant": (nearly_equal, 0, 1.0),
        "far_outlier": (spread, n - 1, FAR_RECORD),
        "outlier_in_both": (one_far, 0, 1.0),
    }
    return [Pair.replacing(name, *pair) for name, pair in datasets.items()]


def check_pair(
    estimator: Estimator,
    budget: Budget,
    pair: Pair | tuple[ArrayLike, ArrayLike],
    rng: np.random.Generator,
) -> Pair:
    """Check that an audit is possible, and return its two datasets as a `Pair`.

    The datasets have the shape (n,) or (n, d). ValueError says that they are not neighbours under
    the budget's relation, that the estimator does not claim the budget's notion, that it takes
    scalars and gets vectors, or that the record is public. TypeError says that `rng` is a seed
    instead of a generator; the generator is not used here.
    """
    check_instance("estimator", estimator, Estimator, "an estimator", EXAMPLE)
    check_instance("budget", budget, Budget, "a budget", "PureDP(1.0)")
    check_generator(rng)
    if not isinstance(pair, Pair):
        check_instance("pair", pair, tuple | list, "two datasets", "(data, neighbour)")
        if len(pair) != 2:
            raise ConfigError(f"pair: {len(pair)} datasets; write two, (data, neighbour)")
        left, right = (np.asarray(side, dtype=float) for side in pair)
        pair = Pair("pair", left, right)
    name = type(estimator).__name__
    if not budget.amounts or not estimator.supports(budget):
        raise ValueError(f"{name} claims nothing under a budget of notion {budget.label!r}")
    if pair.relation != budget.neighbours:
        raise ValueError(
            f"pair: {pair.name}: these datasets are not neighbours under {budget.neighbours}; give "
            "a pair that is"
        )
    if pair.record < estimator.first_private:
        raise ValueError(
            f"pair: {pair.name}: record {pair.record} is public for {name}; replace a record from "
            f"number {estimator.first_private} on"
        )
    if pair.left.ndim == 2 and not estimator.multivariate:
        raise ValueError(f"{name} takes scalar records, got vectors")
    return pair
