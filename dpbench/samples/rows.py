"""Projections of vectors, called rows, to l2 balls, and sums of the rows inside a ball.

A projection to a ball moves only the rows outside of the ball. The core is the bulk of the rows,
which most balls contain. The code stores the sum of the core, and stores all other rows one by one.
If a ball contains the core, only the other rows are projected, so each further ball is cheap.

No row is ever subtracted from a sum of all rows, because a row at 1e150 would erase the digits of
all other rows. The sensitivity of the mean of the projected rows could then exceed the bound that
the radius of the ball implies.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Bools, Floats

__all__ = ["Rows", "UnclippedRows", "norms"]

# A smaller share of rows outside the core is cheaper to project. A larger share makes the core
# smaller, so that more balls contain it.
SHARE_OUTSIDE_CORE = 0.05
# Relative error per coordinate of |x|^2 - 2 x.c + |c|^2, the squared distance of x and c.
DISTANCE_ROUNDING = 2e-15
# From this ratio of a centre's norm to the radius of the core, the centre is subtracted from every
# row of the core. Subtracting it from their sum would round at the size of the centre.
FAR_CENTRE = 1e3
# MIN_SQUARABLE: squares of smaller numbers may underflow. MAX_COORDINATE: coordinates are clipped
# to it, so that no offset from the centre of a ball overflows.
MIN_SQUARABLE, MAX_COORDINATE = 1e-150, 1e300


def norms(rows: Floats) -> Floats:
    """Return l2 norms along the last axis, correct even if squares overflow or underflow."""
    with np.errstate(over="ignore"):
        lengths = np.asarray(np.sqrt(np.einsum("...j,...j->...", rows, rows)))
    doubtful = ~((lengths > MIN_SQUARABLE) & np.isfinite(lengths))
    if doubtful.any():
        doubtful_rows = rows[doubtful]
        largest = np.abs(doubtful_rows).max(axis=-1, keepdims=True)
        unit = np.where(largest > 0, largest, 1.0)
        with np.errstate(over="ignore"):
            lengths[doubtful] = unit[..., 0] * np.sqrt(((doubtful_rows / unit) ** 2).sum(axis=-1))
    return lengths


@dataclass(frozen=True)
class UnclippedRows:
    """Core of each trial's rows (vectors): the rows that most l2 balls contain, and their sum.

    A projection to a ball moves only the rows outside of the ball. The core contains only rows
    that no projection has moved.
    """

    values: Floats  # (trials, n, d) array of all rows, inside and outside of the core
    squares: Floats  # (trials, n) squared l2 norms of the rows
    held: Bools  # (trials, n) mask of the rows in the core
    centre: Floats  # (trials, d) centres of balls that contain the cores
    radius: Floats  # (trials,) radii of these balls
    mean: Floats  # (trials, d) sums of the rows in the core, divided by the number n of all rows

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """Return the core of each trial: the rows near `centre`, about 95% of all rows.

        The farthest rows, about 5% and at least one, are left out. Distances are measured from
        `centre`, which has the shape (trials, d).
        """
        with np.errstate(over="ignore"):
            squares = np.einsum("tnd,tnd->tn", values, values)
        distance = _distances(values, squares, centre)
        rank = max(0, int((1 - SHARE_OUTSIDE_CORE) * values.shape[1]) - 1)
        radius = np.partition(distance, rank, axis=1)[:, rank]
        held = distance < radius[:, None]
        return cls(values, squares, held, centre, radius, _sum_held_over_n(values, held))

    def find_leaving_rows(self, centre: Floats, radius: float | Floats) -> Bools:
        """Return a mask of the core's rows that may lie outside of a ball, one ball per trial.

        The core is the set of rows for which `held` is True. Distances are rounded, so a row close
        to the boundary of the ball counts as outside. The mask has the shape (trials, n).
        """
        # Test a ball smaller by 1e-12, because distances are rounded.
        bound = np.broadcast_to(np.asarray(radius) * (1 - 1e-12), self.radius.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # overflow means "not sure"
            sure = np.asarray(norms(centre - self.centre) + self.radius <= bound)
        if np.all(sure):
            return np.zeros_like(self.held)
        inside = _distances(self.values, self.squares, centre) <= bound[:, None]
        return np.asarray(self.held & ~(inside | sure[:, None]))

    def mean_offset(self, centre: Floats) -> Floats:
        """Return the sum of x - centre over the rows x of the core, divided by n, (trials, d)."""
        offset = self.mean - self.held.mean(axis=1)[:, None] * centre
        for trial in np.flatnonzero(norms(centre) > FAR_CENTRE * self.radius).tolist():
            held = self.held[trial]
            rows = self.values[trial][held] - centre[trial]
            offset[trial] = rows.sum(axis=0) / held.size
        return np.asarray(offset)


def _distances(values: Floats, squares: Floats, centre: Floats) -> Floats:
    """Return upper bounds on the l2 distances of rows from their trial's centre, (trials, n).

    The bounds are computed from squared norms and inner products, without copying rows. They are
    raised by the largest rounding error, underflow included. A bound is infinite if a term
    overflows.
    """
    d = values.shape[2]
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("td,td->t", centre, centre)[:, None]
        product = np.matmul(values, centre[:, :, None])[..., 0]
        squared = squares - 2 * product + square + DISTANCE_ROUNDING * (d + 4) * (squares + square)
        return np.asarray(
            MIN_SQUARABLE + np.sqrt(np.where(np.isnan(squared), np.inf, np.maximum(squared, 0)))
        )


def _sum_held_over_n(values: Floats, held: Bools) -> Floats:
    """Add up the rows of each trial for which `held` is True, and divide the sum by n.

    Here n is the number of all rows of a trial. The result has the shape (trials, d).
    """
    return np.asarray(np.matmul((held / held.shape[1])[:, None, :], values)[:, 0])


@dataclass(frozen=True)
class Rows:
    """Vectors (rows) of every trial, with means and projections to l2 balls at low cost.

    Some rows are stored one by one. The sum of all other rows, the core, is stored with them.

    Parameters
    ----------
    n : int
        Number of rows of each trial.
    trial : ndarray of int, shape (m,)
        Index of the trial of each row stored by itself, increasing; every trial occurs.
    rows : ndarray of shape (m, d)
        Rows that are stored one by one.
    counts : ndarray of shape (m,)
        Multiplicity of each row that is stored one by one.
    core : UnclippedRows, optional
        All other rows; by default there are none.
    copies : int
        Number of trials that share the stored rows, by default 1.
    """

    n: int
    trial: NDArray[np.intp]
    rows: Floats
    counts: Floats
    core: UnclippedRows | None = None
    copies: int = 1

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """Build `Rows` from an array of vectors (rows).

        About 95% of each trial's rows, the nearest to the trial's centre, form the core, whose sum
        is stored. The other rows are stored one by one.

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
        rows = np.clip(values[trial, place], -MAX_COORDINATE, MAX_COORDINATE)
        return cls(values.shape[1], trial, rows, np.ones(trial.size), core)

    def mean(self) -> Floats:
        """Return the mean of each trial's rows, (trials, d)."""
        mean = self._sum(self.rows * (self.counts / self.n)[:, None])
        if self.core is not None:
            mean += self.core.mean
        return np.repeat(mean, self.copies, axis=0)

    def mean_offset(self, centre: Floats) -> Floats:
        """Return the mean of x - centre over each trial's rows x, (trials, d).

        The centre, (trials, d), is subtracted before rows are added. So the result rounds at the
        size of the differences, and not of the centre.
        """
        if self.copies > 1 and np.all(centre == centre[0]):
            once = replace(self, copies=1).mean_offset(centre[:1])
            return np.repeat(once, self.copies, axis=0)
        rows = self._expand_copies()
        offset = rows._sum((rows.rows - centre[rows.trial]) * (rows.counts / rows.n)[:, None])
        return offset if rows.core is None else offset + rows.core.mean_offset(centre)

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
        opened = self._expand_copies()._open_core(centre, radius)
        middle = centre[opened.trial]
        bound = np.broadcast_to(radius, len(centre))[opened.trial]
        offset = opened.rows - middle
        distance = norms(offset)
        with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
            moved = middle + offset * (bound / distance)[:, None]
        outside = ~(distance <= bound)[:, None]  # True also if the centre is NaN
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
        opened = self._expand_copies()._open_core(centre, radius)
        offset = opened.rows - centre[opened.trial]
        inside = norms(offset) <= np.broadcast_to(radius, len(centre))[opened.trial]
        counts = inside * opened.counts
        sums = opened._sum(np.where(inside[:, None], offset, 0.0) * counts[:, None])
        number = opened._sum(counts)
        core = opened.core
        if core is not None:
            bulk = core.held.sum(axis=1)
            # If the core is empty, the centre may be far away or NaN, so its product is not used.
            sums += np.where(bulk[:, None] > 0, self.n * core.mean_offset(centre), 0.0)
            number += bulk
        return sums, number

    def _expand_copies(self) -> Self:
        """Return `Rows` with the same vectors, but with a separate copy of them for each trial.

        The result has ``copies`` = 1.
        """
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
        """Return the sum of `values` over the individually stored rows of each trial.

        The array `values` has one entry along axis 0 for each row that is stored one by one.
        """
        starts = np.flatnonzero(np.diff(self.trial, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    def _open_core(self, centre: Floats, radius: float | Floats) -> Self:
        """Return equal `Rows` whose core lies inside of a ball, one ball per trial.

        The core is a set of rows that enter computations only by their sum. A row of the core that
        may lie outside of the ball leaves the core; the result stores this row individually.
        """
        core = self.core
        if core is None or not (leaving := core.find_leaving_rows(centre, radius)).any():
            return self
        trial = np.concatenate([self.trial, np.nonzero(leaving)[0]])
        rows = np.concatenate([self.rows, core.values[leaving]])
        counts = np.concatenate([self.counts, np.ones(trial.size - self.trial.size)])
        order = np.argsort(trial, kind="stable")
        trial, rows, counts = trial[order], rows[order], counts[order]
        held = core.held & ~leaving
        changed = leaving.any(axis=1, keepdims=True)
        core = replace(
            core, held=held, mean=np.where(changed, _sum_held_over_n(core.values, held), core.mean)
        )
        return replace(self, trial=trial, rows=rows, counts=counts, core=core)
