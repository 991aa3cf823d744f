"""Pairs of neighbouring datasets on which an entry is audited among the scored calls.

All datasets have the n of the problem, because an entry recognises another n. Notation: k is the
size of a group of records (`group_size`), a and b are the lowest and the highest record of a scored
dataset along a random direction.

- ``typical``: the k lowest records of a scored dataset become the k highest records of another.
  The lower bounds on the error are proved by changing groups of records. So this pair refutes an
  estimator whose error is far below the bound.
- ``extreme``: one record of a scored dataset moves far beyond all others.
- ``equal``: all records are a, except k records at b. This pair refutes noise that follows the
  spread of the data, and noise on a sum that is divided by a private n.
- ``clusters``: half of the records are a and half are b, and one record moves. The median and other
  quantiles of the middle then jump by b - a.
- ``one-sided``: the record of rank t from the top is a + (b - a) R^(1 - ln t / ln n), where R is
  `LADDER_RANGE`. Moving the k lowest records above the top multiplies the record of every rank t by
  about e^(k c/t) with c = ln R / ln n. Let an estimator clip at its own quantile, which t records
  exceed by more than T. Its clipped mean then moves by at least (t/n) T (k c/t) = k c T/n. Noise
  for a clip T that does not depend on the data has a scale of order T/n. So this pair refutes all
  quantiles at once.

Under ``replace`` the changed records get new values. Under ``add_remove`` they are removed. In the
local model a record at a fixed index is low, and in the other dataset high (``equal``) or far
(``extreme``).
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy import Budget
from dpbench.privacy.budgets import Relation

__all__ = ["HostilePair", "draw_local_pairs", "draw_pairs", "group_size"]

# Size of an extreme record relative to the largest record of its dataset, or to 1 if larger.
EXTREME_RATIO = 1e6
LADDER_RANGE = 1e120  # largest over smallest record of one-sided data; squares do not overflow
# Privacy parameter of a group of records, by notion; a group has at least one record.
GROUP_PARAMETER = {"pure": 1.0, "approx": 1.0, "gdp": 1.0, "zcdp": 1.0}


class HostilePair(NamedTuple):
    """Two datasets of shape (n,) or (n, d) that differ in `changed` records, and their name."""

    name: str
    left: Floats
    right: Floats
    changed: int


def draw_pairs(
    records: Floats, others: Floats, budget: Budget, rng: np.random.Generator
) -> Iterator[HostilePair]:
    """Yield hostile pairs for two scored datasets and the budget of a release."""
    relation, n = budget.neighbours, len(records)
    many = min(group_size(budget), n - 1)
    axis = np.asarray(rng.standard_normal(records.shape[1:]))
    lowest, highest = (x[np.argsort(np.tensordot(x, axis, axis.ndim))] for x in (records, others))
    tops = highest[-many:] + (1.0 if np.array_equal(highest[-many:], lowest[:many]) else 0.0)
    yield _pair("typical", lowest, tops, relation, rng)
    yield _extreme_pair(lowest, axis, relation, rng)
    low, step = lowest[0], lowest[-1] - lowest[0]
    step = step if np.any(step) else step + 1.0

    def place(shares: Floats) -> Floats:
        return np.asarray(low + np.multiply.outer(shares, step))

    ones, zeros = np.ones(n), np.zeros(n)
    yield _pair("equal", place(np.append(ones[:many], zeros[many:])), place(zeros[:many]),
                relation, rng)  # fmt: skip
    half = (n + 1) // 2
    yield _pair("clusters", place(np.append(zeros[:half], ones[half:])), place(ones[:1]),
                relation, rng)  # fmt: skip
    ladder = LADDER_RANGE ** (1 - np.log(np.arange(1.0, n + many + 1)) / np.log(n))
    moved = ladder[:n] if relation == "add_remove" else np.roll(ladder[many:], many)
    yield _pair("one-sided", place(moved), place(ladder[:many]), relation, rng)


def draw_local_pairs(records: Floats, place: int) -> Iterator[HostilePair]:
    """Yield pairs that differ in the record at the index `place`, for the local model."""
    low, high = float(records.min()), float(records.max())
    step = high - low or 1.0
    for name, value in (("equal", low + step), ("extreme", low + EXTREME_RATIO * step)):
        left, right = records.copy(), records.copy()
        left[place], right[place] = low, value
        yield HostilePair(f"1 {name}", left, right, 1)


def group_size(budget: Budget) -> int:
    """Return the number of records that an audit changes together, at least 1.

    Group privacy gives a privacy parameter for datasets that differ in a group of records. The
    size is the largest for which this parameter is at most `GROUP_PARAMETER[budget.notion]`.
    """
    share = GROUP_PARAMETER[budget.notion] / budget.amounts[0]
    return max(1, int((np.sqrt(share) if budget.notion == "zcdp" else share) + 1e-9))


def _pair(
    name: str, records: Floats, values: Floats, relation: Relation, rng: np.random.Generator
) -> HostilePair:
    """Return records in random order, and the neighbour whose first records change.

    The first ``len(values)`` records get these values, or are removed.
    """
    order, changed = rng.permutation(len(records)), len(values)
    left, places = records[order], np.argsort(order)[:changed]
    if relation == "add_remove":
        right = np.delete(left, places, axis=0)
    else:
        right = left.copy()
        right[places] = values
    return HostilePair(f"{changed} {name}", left, right, changed)


def _extreme_pair(
    records: Floats, axis: Floats, relation: Relation, rng: np.random.Generator
) -> HostilePair:
    """Return a pair with a record far beyond all others, in the direction `axis` or against it.

    Under replacement it takes the place of the record at the opposite end of `records`, which are
    sorted along the axis. Under add/remove it is an additional record.
    """
    upwards = rng.random() < 0.5
    size = EXTREME_RATIO * max(1.0, float(np.abs(records).max())) / np.linalg.norm(axis)
    extreme = (size if upwards else -size) * axis[None]
    ordered = records if upwards else records[::-1]
    if relation == "add_remove":
        ordered = np.concatenate([extreme, ordered])
    return _pair("extreme", ordered, extreme, relation, rng)
