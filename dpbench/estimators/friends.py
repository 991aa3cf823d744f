"""Friends: records for which a predicate of two records holds, and how many each has.

`count_friends` takes any predicate. `count_within` takes the distance of vectors, for many
datasets at once; `clusters_match` is the predicate of clusterings.

References
----------
.. [1] G. Brown, lecture 17, section 3.2.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dpbench.arrays import Bools, Floats

__all__ = ["clusters_match", "count_friends", "count_within"]


# Distances held at a time; sides of tiles must fit into 16 bits.
CHUNK = 250_000
# Records that place the origin of the distances.
PROBE = 64


def count_friends(
    records: Sequence[Any] | NDArray[Any], predicate: Callable[[Any, Any], bool]
) -> Floats:
    """How many friends each record of one dataset has, itself included.

    Parameters
    ----------
    records : sequence
    predicate : function of two records
        Symmetric and reflexive: it is asked once for every two records.

    Returns
    -------
    (n,) array
    """
    counts = np.ones(len(records))
    for i, j in itertools.combinations(range(len(records)), 2):
        if predicate(records[i], records[j]):
            counts[[i, j]] += 1
    return counts


def clusters_match(one: ArrayLike, other: ArrayLike, radius: float) -> bool:
    """Whether the centres can be permuted so that corresponding ones are within `radius`.

    The predicate of Example 3.5 in [1]_. Exact: an assignment of least cost, where pairs
    of centres cost 1 if they are farther apart, costs 0 if and only if there is a match.

    Parameters
    ----------
    one, other : (m, c) array_like
        m centres each.
    radius : float > 0

    Examples
    --------
    Clusterings of five buckets, in any order of centres; the last one is wrong.

    >>> from dpbench.estimators.friendly_core import core_weights
    >>> near, far = [0.0, 0.0], [9.0, 9.0]
    >>> outputs = [[near, far], [far, near], [[0.5, 0.0], far], [far, near], [near, near]]
    >>> friends = count_friends(outputs, lambda a, b: clusters_match(a, b, 1.0))
    >>> friends.tolist()
    [4.0, 4.0, 4.0, 4.0, 1.0]
    >>> core_weights(friends).tolist()
    [0.5, 0.5, 0.5, 0.5, 0.0]
    """
    from scipy.optimize import linear_sum_assignment  # slow and rarely needed

    left, right = np.asarray(one, dtype=float), np.asarray(other, dtype=float)
    if left.ndim != 2 or left.shape != right.shape:
        raise ValueError(f"expected two (m, c) arrays, got {left.shape} and {right.shape}")
    unit, limit = _scale(np.asarray(radius, dtype=float))
    with np.errstate(over="ignore", under="ignore"):
        apart = ~_direct(left[:, None], right[None], unit[..., None], limit)
    return not apart[linear_sum_assignment(apart)].any()


def _scale(radius: Floats) -> tuple[Floats, Floats]:
    """A power of two near the radius, which scales without rounding, and (radius/unit)^2."""
    if not np.all((radius > 0) & np.isfinite(radius)):
        raise ValueError(f"radius {radius} is not a finite number > 0")
    # Not so small that 1/unit overflows.
    unit = np.ldexp(1.0, np.maximum(np.frexp(radius)[1] - 1, -1000))
    return unit, (radius / unit) ** 2


def _direct(one: Floats, other: Floats, unit: Floats, limit: Floats) -> Bools:
    """Whether rows are friends: a function of the two alone.

    A distance that overflows is beyond any radius.
    """
    difference = (one - other) / unit
    return np.asarray(np.einsum("...j,...j->...", difference, difference) <= limit)


def count_within(rows: ArrayLike, radius: float | Floats, counts: Floats | None = None) -> Floats:
    """How many rows of its dataset are within `radius` of each row, itself included.

    The squared distances come from one product of matrices, relative to an origin near the
    bulk of the rows. The origin depends on all of them, and whether two are friends may
    not: where rounding could decide, the direct difference of the two rows does. Rows
    within radius/2 of the origin are friends of each other without a product.

    Parameters
    ----------
    rows : (trials, n, d) array_like of finite numbers
    radius : float > 0 or (trials,) array
    counts : (trials, n) array, optional
        How many there are of each row.

    Returns
    -------
    (trials, n) array

    Raises
    ------
    ValueError
        If a radius is not a finite number above 0, or the rows are no such array.
    """
    data = np.asarray(rows, dtype=float)
    if data.ndim != 3 or 0 in data.shape:
        raise ValueError(f"expected a non-empty (trials, n, d) array, got {data.shape}")
    trials, n, d = data.shape
    unit, limit = _scale(np.broadcast_to(np.asarray(radius, dtype=float), (trials,)))
    step = max(1, CHUNK // (n * max(n, d + 2)))
    found = np.empty((trials, n))
    with np.errstate(over="ignore", invalid="ignore"):
        for start in range(0, trials, step):
            some = slice(start, start + step)
            held = None if counts is None else counts[some]
            found[some] = _count(data[some], held, unit[some], limit[some])
    return found


def _count(
    rows: Floats, counts: Floats | None, unit: Floats, limit: Floats, splits: int = 3
) -> Floats:
    """The counts of some trials; of a single one by parts, if none has friends in another.

    Parts far from each other have origins of their own, so that rounding decides less.
    """
    chunk = _Chunk.of(rows, counts, unit, limit)
    gap = chunk.gap() if len(rows) == 1 and splits else 0
    if not gap:
        return chunk.friends()
    found = np.empty(rows.shape[:2])
    for part in np.split(chunk.order[0], [gap]):
        held = None if counts is None else counts[:, part]
        found[:, part] = _count(rows[:, part], held, unit, limit, splits - 1)
    return found


def _origin(rows: Floats) -> Floats:
    """A point near the bulk of the rows, (trials, 1, d): only speed depends on it.

    The coordinate-wise median of a few rows, fixed by index, withstands outliers but
    leans to their side; the mean of the half of these that is nearest to it hardly does.
    """
    some = rows[:, :: max(1, rows.shape[1] // PROBE)]
    half = some.shape[1] // 2
    middle = np.partition(some, half, axis=1)[:, half : half + 1]
    distance = np.square(some - middle).sum(axis=2)
    near = np.argpartition(distance, half, axis=1)[:, : half + 1]
    return np.asarray((_pick(some, near) / (half + 1)).sum(axis=1, keepdims=True))


def _pick(rows: Floats, index: NDArray[np.intp]) -> Floats:
    """Rows of every trial by their index, (trials, m)."""
    return np.asarray(rows[np.arange(len(rows))[:, None], index])


class _Chunk(NamedTuple):
    """Some trials, with their rows by decreasing distance from the origin."""

    rows: Floats  # (t, n, d), as they came
    order: NDArray[np.intp]  # (t, n)
    counts: Floats | None  # (t, n), how many there are of each
    squares: Floats  # (t, n), of the distances from the origin, in units
    left: Floats  # (t, n, d + 2); left . right is the squared distance minus `limit`
    right: Floats
    unit: Floats  # (t,)
    limit: Floats  # (t,)

    @classmethod
    def of(cls, rows: Floats, counts: Floats | None, unit: Floats, limit: Floats) -> Self:
        offset = rows - _origin(rows)
        offset *= (1 / unit)[:, None, None]
        squares = np.einsum("tnd,tnd->tn", offset, offset)
        order = np.argsort(-squares, axis=1)
        squares = _pick(squares, order)
        # Products of larger ones may overflow on the way, though their sum is small.
        squares[squares > 1e300] = np.inf
        right = np.empty((*squares.shape, offset.shape[2] + 2))
        right[..., :-2] = _pick(offset, order)
        left = -2 * right
        right[..., -2], left[..., -1] = 1, 1
        right[..., -1], left[..., -2] = squares, squares - limit[:, None]
        counts = None if counts is None else _pick(counts, order)
        return cls(rows, order, counts, squares, left, right, unit, limit)

    @property
    def rounding(self) -> float:
        """What left . right and `_direct` err by, over the sum s of the two squares.

        In units of eps/2, where the distance is near the radius: 4s as the shift rounds
        coordinates; (d + 2) s in the squares; (d + 2) 4s in the product, of d + 2 terms
        that add up to at most 2s + limit; (d + 6) 2s in `_direct`. Below (8d + 32) s.
        """
        return float(np.finfo(float).eps) * (4 * int(self.rows.shape[2]) + 16)

    def gap(self) -> int:
        """How many rows of the first trial are far from all others; 0 if there is no gap.

        One more than twice as far from the origin as the other, and as the radius, is no
        friend of it.
        """
        square = self.squares[0]
        found = np.flatnonzero(square[:-1] > 4.1 * (square[1:] + self.limit[0]))
        return int(found[-1]) + 1 if found.size else 0

    def friends(self) -> Floats:
        """Counts in the order of the rows: from tiles on and above the diagonal."""
        trials, n = self.squares.shape
        near = self.squares * (1 + self.rounding) <= self.limit[:, None] / 4
        outer = n - int(np.count_nonzero(near, axis=1).min())
        side = max(1, int(np.sqrt(CHUNK // trials)))
        edges = [*range(0, outer, side), *range(outer, n, side), n]
        spans = [slice(a, b) for a, b in itertools.pairwise(edges)]
        found = np.zeros((trials, n))
        inner = slice(outer, n)
        found[:, inner] = n - outer if self.counts is None else self._held(inner)
        for k, one in enumerate(spans[: -(-outer // side)]):
            for other in spans[k:]:
                friends = self._tile(one, other)
                found[:, one] += self._sums(friends, other)
                if other is not one:
                    found[:, other] += self._sums(friends.swapaxes(1, 2), one)
        result = np.empty_like(found)
        np.put_along_axis(result, self.order, found, 1)
        return result

    def _held(self, span: slice) -> Floats:
        assert self.counts is not None
        return np.asarray(self.counts[:, span].sum(axis=1, keepdims=True))

    def _sums(self, friends: Bools, span: slice) -> Floats:
        """Friends along the last axis, which is that of the rows in `span`."""
        if self.counts is None:
            return np.asarray(np.add.reduce(friends.view(np.uint8), axis=2, dtype=np.uint16))
        return np.asarray(np.matmul(friends, self.counts[:, span, None])[..., 0])

    def _tile(self, one: slice, other: slice) -> Bools:
        """Who are friends, of rows in `one` and rows in `other`, which is not before it."""
        excess = np.matmul(self.left[:, one], self.right[:, other].swapaxes(1, 2))
        most = 2 * self.rounding * float(self.squares[:, one.start].max())
        friends: Bools = np.asarray(excess <= -most)
        if np.count_nonzero(friends) + np.count_nonzero(excess > most) < excess.size:
            np.less_equal(excess, 0, out=friends)
            self._settle(friends, excess, one, other)
        return friends

    def _settle(self, friends: Bools, excess: Floats, one: slice, other: slice) -> None:
        """Decide by `_direct` where rounding, or overflow, could have decided."""
        far, near = self.squares[:, one, None], self.squares[:, None, other]
        unsure = ~(np.abs(excess) > self.rounding * (far + near))
        unsure &= ~(far > 4.1 * (near + self.limit[:, None, None]))  # as in `gap`
        pairs = np.nonzero(unsure)
        step = max(1, CHUNK // self.rows.shape[2])
        for start in range(0, pairs[0].size, step):
            trial, i, j = (index[start : start + step] for index in pairs)
            left = self.rows[trial, self.order[trial, one.start + i]]
            right = self.rows[trial, self.order[trial, other.start + j]]
            unit, limit = self.unit[trial, None], self.limit[trial]
            friends[trial, i, j] = _direct(left, right, unit, limit)
