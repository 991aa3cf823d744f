"""Vectors and balls: projecting rows on a ball, averaging them, adding up those inside.

A mean of projected rows has the sensitivity that the ball allows only if no large numbers
are subtracted, as a row at 1e150 would take the digits of all the others. So rows that a
ball may move are held one by one. The bulk of the rows lies in a core ball, and while
balls contain the core all that is asked of the bulk is its sum: many balls then cost
little more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

__all__ = ["Core", "Rows", "norms"]

Floats = NDArray[np.float64]

# Share of the rows outside the core: fewer are cheaper to move, more make a smaller core.
OUTSIDE = 0.05
# Relative error of a squared distance from squared norms and a product, per coordinate.
ROUNDING = 2e-15


def norms(rows: Floats) -> Floats:
    """Euclidean norms along the last axis, for numbers whose squares overflow, too."""
    with np.errstate(over="ignore"):
        found = np.sqrt(np.einsum("...j,...j->...", rows, rows))
    if np.all((found > 1e-150) & np.isfinite(found)):
        return np.asarray(found)
    largest = np.abs(rows).max(axis=-1, keepdims=True)
    unit = np.where(largest > 0, largest, 1.0)
    return np.asarray(unit[..., 0] * np.sqrt(((rows / unit) ** 2).sum(axis=-1)))


@dataclass(frozen=True)
class Core:
    """The bulk of the rows of every trial, unmoved.

    Attributes
    ----------
    values : (trials, n, d) array
        All rows, moved or not.
    held : (trials, n) bool array
        Which of them are in the core.
    centre : (trials, d) array
    radius : (trials,) array
        The core's rows are within this of the centre.
    mean : (trials, d) array
        Their sum over n.
    intact : (trials,) bool array
        Whether the core is still held as a whole; else its rows are among those held one
        by one.
    """

    values: Floats
    held: NDArray[np.bool_]
    centre: Floats
    radius: Floats
    mean: Floats
    intact: NDArray[np.bool_]

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """The rows nearest to `centre`, but for the farthest few, at least one, of each trial."""
        _, n, d = values.shape
        with np.errstate(over="ignore", invalid="ignore"):
            # By a product, which needs no copy of the data; rounded up for what it loses.
            squares = np.einsum("tnd,tnd->tn", values, values)
            square = np.einsum("td,td->t", centre, centre)[:, None]
            product = np.matmul(values, centre[:, :, None])[..., 0]
            distance = squares - 2 * product + square + ROUNDING * (d + 4) * (squares + square)
        distance = np.sqrt(np.where(np.isnan(distance), np.inf, np.maximum(distance, 0)))
        rank = max(0, int((1 - OUTSIDE) * n) - 1)
        radius = np.partition(distance, rank, axis=1)[:, rank]
        held = distance < radius[:, None]
        mean = np.matmul((held / n)[:, None, :], values)[:, 0]
        return cls(values, held, centre, radius, mean, np.isfinite(radius))

    def within(self, centre: Floats, radius: float | Floats) -> NDArray[np.bool_]:
        """Whether a ball contains the core, (trials,)."""
        # Room for rounding: a row that is outside by that little may stay.
        reach = norms(centre - self.centre) + self.radius
        return np.asarray(reach <= np.asarray(radius) * (1 - 1e-12))


@dataclass(frozen=True)
class Rows:
    """The rows of every trial: some held one by one, with multiplicity, the rest in a core.

    Attributes
    ----------
    n : int
        Rows of a trial.
    trial : (m,) int array
        Increasing; every trial is there.
    rows : (m, d) array
    counts : (m,) array
        How many there are of each.
    core : Core, optional
        The other rows.
    """

    n: int
    trial: NDArray[np.intp]
    rows: Floats
    counts: Floats
    core: Core | None = None

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """All rows of a (trials, n, d) array, with a core around the (trials, d) centre."""
        core = Core.of(values, centre)
        apart = ~core.held | ~core.intact[:, None]
        trial, _ = np.nonzero(apart)
        return cls(values.shape[1], trial, values[apart], np.ones(trial.size), core)

    def mean(self) -> Floats:
        """The mean of each trial's rows, (trials, d)."""
        mean = self._sum(self.rows * (self.counts / self.n)[:, None])
        if self.core is not None:
            mean += np.where(self.core.intact[:, None], self.core.mean, 0.0)
        return mean

    def projected(self, centre: Floats, radius: float | Floats) -> Self:
        """The rows moved to the nearest points of a ball.

        Parameters
        ----------
        centre : (trials, d) array
        radius : float or (trials,) array
        """
        opened = self._open_unless_within(centre, radius)
        middle = centre[opened.trial]
        bound = np.broadcast_to(radius, len(centre))[opened.trial]
        offset = opened.rows - middle
        distance = norms(offset)
        with np.errstate(divide="ignore", invalid="ignore"):
            moved = middle + offset * (bound / distance)[:, None]
        outside = (distance > bound)[:, None]
        return replace(opened, rows=np.where(outside, moved, opened.rows))

    def within(self, centre: Floats, radius: float | Floats) -> tuple[Floats, Floats]:
        """The rows within a ball: the sum of what they are off its centre, and how many.

        Returns
        -------
        sums : (trials, d) array
        counts : (trials,) array
        """
        opened = self._open_unless_within(centre, radius)
        offset = opened.rows - centre[opened.trial]
        inside = norms(offset) <= np.broadcast_to(radius, len(centre))[opened.trial]
        counts = inside * opened.counts
        sums = opened._sum(np.where(inside[:, None], offset, 0.0) * counts[:, None])
        number = opened._sum(counts)
        core = opened.core
        if core is not None:
            bulk = np.where(core.intact, core.held.sum(axis=1), 0)
            whole = self.n * core.mean - bulk[:, None] * centre
            sums += np.where(core.intact[:, None], whole, 0.0)
            number += bulk
        return sums, number

    def _sum(self, values: Floats) -> Floats:
        """Add up what belongs to each trial."""
        starts = np.flatnonzero(np.diff(self.trial, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    def _open_unless_within(self, centre: Floats, radius: float | Floats) -> Self:
        """Hold the core's rows one by one in those trials whose core leaves the ball."""
        core = self.core
        if core is None:
            return self
        leaving = core.intact & ~core.within(centre, radius)
        if not leaving.any():
            return self
        index = np.flatnonzero(leaving)
        which = core.held[index]
        trial = np.concatenate([self.trial, index[np.nonzero(which)[0]]])
        rows = np.concatenate([self.rows, core.values[index][which]])
        order = np.argsort(trial, kind="stable")
        counts = np.concatenate([self.counts, np.ones(trial.size - self.trial.size)])
        return replace(
            self,
            trial=trial[order],
            rows=rows[order],
            counts=counts[order],
            core=replace(core, intact=core.intact & ~leaving),
        )
