"""Vectors and l2 balls: project rows to a ball, average them, and sum the rows inside.

Rows that a ball may move are held individually. They are never subtracted from a sum of all rows,
because a row at 1e150 would take the digits of all others, and the mean of the projected rows would
no longer have the sensitivity that the ball implies. The bulk of the rows, the core, contributes
only its sum as long as the balls contain it, so that many balls cost little more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Bools, Floats

__all__ = ["Rows", "UnclippedRows", "norms"]

# Share of the rows outside the core. A smaller share is cheaper to project; a larger share makes a
# smaller core, which more balls contain.
OUTSIDE = 0.05
# Relative error per coordinate of |x|^2 - 2 x.c + |c|^2, the squared distance of x and c.
ROUNDING = 2e-15
# TINY: squares of smaller numbers underflow. LARGEST: coordinates are clipped to it, so that no
# offset from the centre of a ball overflows.
TINY, LARGEST = 1e-150, 1e300


def norms(rows: Floats) -> Floats:
    """Return the l2 norms along the last axis, correct even if squares over- or underflow."""
    with np.errstate(over="ignore"):
        found = np.asarray(np.sqrt(np.einsum("...j,...j->...", rows, rows)))
    doubtful = ~((found > TINY) & np.isfinite(found))
    if doubtful.any():
        some = rows[doubtful]
        largest = np.abs(some).max(axis=-1, keepdims=True)
        unit = np.where(largest > 0, largest, 1.0)
        with np.errstate(over="ignore"):
            found[doubtful] = unit[..., 0] * np.sqrt(((some / unit) ** 2).sum(axis=-1))
    return found


@dataclass(frozen=True)
class UnclippedRows:
    """The rows that no ball has moved so far; their sum is computed once.

    Parameters
    ----------
    values : ndarray of shape (trials, n, d)
        All rows, in the core or not.
    squares : ndarray of shape (trials, n)
        Squared l2 norms of the rows.
    held : ndarray of bool, shape (trials, n)
        True for the rows in the core.
    centre : ndarray of shape (trials, d)
        Centre of a ball that contains the core.
    radius : ndarray of shape (trials,)
        Radius of that ball.
    mean : ndarray of shape (trials, d)
        Sum of the rows in the core, over n.
    """

    values: Floats
    squares: Floats
    held: Bools
    centre: Floats
    radius: Floats
    mean: Floats

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """Return the core of the rows: all but the farthest few, at least one, of each trial.

        Parameters
        ----------
        values : ndarray of shape (trials, n, d)
            Rows.
        centre : ndarray of shape (trials, d)
            Points from which distances are measured.

        Returns
        -------
        Core
        """
        with np.errstate(over="ignore"):
            squares = np.einsum("tnd,tnd->tn", values, values)
        distance = _distances(values, squares, centre)
        rank = max(0, int((1 - OUTSIDE) * values.shape[1]) - 1)
        radius = np.partition(distance, rank, axis=1)[:, rank]
        held = distance < radius[:, None]
        return cls(values, squares, held, centre, radius, _share(values, held))

    def leaving(self, centre: Floats, radius: float | Floats) -> Bools:
        """Return True for the rows of the core that a ball may not contain, (trials, n).

        Parameters
        ----------
        centre : ndarray of shape (trials, d)
            Centres of the balls.
        radius : float or ndarray of shape (trials,)
            Radii of the balls.

        Returns
        -------
        ndarray of bool, shape (trials, n)
        """
        # A ball smaller by 1e-12 is tested, which leaves room for rounding.
        bound = np.broadcast_to(np.asarray(radius) * (1 - 1e-12), self.radius.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # not sure where it overflows
            sure = np.asarray(norms(centre - self.centre) + self.radius <= bound)
        if np.all(sure):
            return np.zeros_like(self.held)
        inside = _distances(self.values, self.squares, centre) <= bound[:, None]
        return np.asarray(self.held & ~(inside | sure[:, None]))


def _distances(values: Floats, squares: Floats, centre: Floats) -> Floats:
    """Return upper bounds on the distances of rows and centres, (trials, n), without a copy.

    The bound is computed from squared norms and a product, and is rounded up by the largest error
    of these, underflow included. It is infinite if a term overflows.
    """
    d = values.shape[2]
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("td,td->t", centre, centre)[:, None]
        product = np.matmul(values, centre[:, :, None])[..., 0]
        found = squares - 2 * product + square + ROUNDING * (d + 4) * (squares + square)
        return np.asarray(TINY + np.sqrt(np.where(np.isnan(found), np.inf, np.maximum(found, 0))))


def _share(values: Floats, held: Bools) -> Floats:
    """Return the sum of the held rows over n, (trials, d)."""
    return np.asarray(np.matmul((held / held.shape[1])[:, None, :], values)[:, 0])


@dataclass(frozen=True)
class Rows:
    """The rows of every trial: some held individually with multiplicity, the rest in a core.

    Parameters
    ----------
    n : int
        Rows of each trial.
    trial : ndarray of int, shape (m,)
        Trial of each individual row, increasing; every trial occurs.
    rows : ndarray of shape (m, d)
        The individual rows.
    counts : ndarray of shape (m,)
        Multiplicity of each individual row.
    core : Core, optional
        The other rows.
    copies : int
        Number of trials that share the dataset, if only one dataset is stored.
    """

    n: int
    trial: NDArray[np.intp]
    rows: Floats
    counts: Floats
    core: UnclippedRows | None = None
    copies: int = 1

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """Return the rows of an array, with a core around the centre.

        Parameters
        ----------
        values : ndarray of shape (trials, n, d)
            Rows.
        centre : ndarray of shape (trials, d)
            Points near the bulk of the rows.

        Returns
        -------
        Rows
        """
        core = UnclippedRows.of(values, centre)
        trial, place = np.nonzero(~core.held)
        rows = np.clip(values[trial, place], -LARGEST, LARGEST)  # the core has no larger numbers
        return cls(values.shape[1], trial, rows, np.ones(trial.size), core)

    def mean(self) -> Floats:
        """Return the mean of each trial's rows, (trials, d)."""
        mean = self._sum(self.rows * (self.counts / self.n)[:, None])
        if self.core is not None:
            mean += self.core.mean
        return np.repeat(mean, self.copies, axis=0)

    def projected(self, centre: Floats, radius: float | Floats) -> Self:
        """Return the rows projected to l2 balls, one ball per trial.

        Parameters
        ----------
        centre : ndarray of shape (trials, d)
            Centres of the balls. If a centre is NaN, so are the projected rows of its trial.
        radius : float or ndarray of shape (trials,)
            Radii of the balls.

        Returns
        -------
        Rows
        """
        if self.copies > 1 and np.all(centre == centre[0]) and np.ndim(radius) == 0:
            once = replace(self, copies=1).projected(centre[:1], radius)
            return replace(once, copies=self.copies)
        opened = self._expanded()._opened(centre, radius)
        middle = centre[opened.trial]
        bound = np.broadcast_to(radius, len(centre))[opened.trial]
        offset = opened.rows - middle
        distance = norms(offset)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moved = middle + offset * (bound / distance)[:, None]
        outside = ~(distance <= bound)[:, None]  # also where the centre is NaN
        return replace(opened, rows=np.where(outside, moved, opened.rows))

    def within(self, centre: Floats, radius: float | Floats) -> tuple[Floats, Floats]:
        """Return the sum of x - centre over the rows x in a ball, and the number of these rows.

        Parameters
        ----------
        centre : ndarray of shape (trials, d)
            Centres of the balls, one ball per trial.
        radius : float or ndarray of shape (trials,)
            Radii of the balls.

        Returns
        -------
        tuple of ndarray
            Sums, (trials, d), and numbers of rows, (trials,).
        """
        opened = self._expanded()._opened(centre, radius)
        offset = opened.rows - centre[opened.trial]
        inside = norms(offset) <= np.broadcast_to(radius, len(centre))[opened.trial]
        counts = inside * opened.counts
        sums = opened._sum(np.where(inside[:, None], offset, 0.0) * counts[:, None])
        number = opened._sum(counts)
        core = opened.core
        if core is not None:
            bulk = core.held.sum(axis=1)
            # With an empty core the centre may be far away or NaN, so its product is not used.
            sums += np.where(bulk[:, None] > 0, self.n * core.mean - bulk[:, None] * centre, 0.0)
            number += bulk
        return sums, number

    def _expanded(self) -> Self:
        """Return a copy in which every trial has its own rows (``copies`` = 1)."""
        trials, core = self.copies, self.core
        if trials == 1:
            return self
        if core is not None:
            fields = vars(core).items()
            core = UnclippedRows(
                **{k: np.broadcast_to(a, (trials, *a.shape[1:])) for k, a in fields}
            )
        trial = np.repeat(np.arange(trials), len(self.rows))
        rows, counts = np.tile(self.rows, (trials, 1)), np.tile(self.counts, trials)
        return replace(self, trial=trial, rows=rows, counts=counts, core=core, copies=1)

    def _sum(self, values: Floats) -> Floats:
        """Return the sums of `values` over the individual rows of each trial."""
        starts = np.flatnonzero(np.diff(self.trial, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    def _opened(self, centre: Floats, radius: float | Floats) -> Self:
        """Move the rows of the core that a ball may not contain to the individual rows."""
        core = self.core
        if core is None or not (leaving := core.leaving(centre, radius)).any():
            return self
        trial = np.concatenate([self.trial, np.nonzero(leaving)[0]])
        rows = np.concatenate([self.rows, core.values[leaving]])
        counts = np.concatenate([self.counts, np.ones(trial.size - self.trial.size)])
        order = np.argsort(trial, kind="stable")
        trial, rows, counts = trial[order], rows[order], counts[order]
        held = core.held & ~leaving
        changed = leaving.any(axis=1, keepdims=True)
        core = replace(
            core, held=held, mean=np.where(changed, _share(core.values, held), core.mean)
        )
        return replace(self, trial=trial, rows=rows, counts=counts, core=core)
