"""Vectors and balls: projecting rows on a ball, averaging them, adding up those inside.

A mean of projected rows has the sensitivity that the ball allows only if no large numbers
are subtracted, as a row at 1e150 would take the digits of all the others: rows that a ball
may move are held one by one. While balls contain the core, where the bulk of the rows lies,
only its sum is asked for: many balls then cost little more than one.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Self

import numpy as np
from numpy.typing import NDArray

from dpbench.arrays import Bools, Floats

__all__ = ["Core", "Rows", "norms"]

# Share of the rows outside the core: fewer are cheaper to move, more make a smaller core.
OUTSIDE = 0.05
# Relative error of a squared distance from squared norms and a product, per coordinate.
ROUNDING = 2e-15
# Squares of smaller numbers vanish. Larger ones are moved to the other, so that no offset from
# the centre of a ball overflows.
TINY, LARGEST = 1e-150, 1e300


def norms(rows: Floats) -> Floats:
    """Euclidean norms along the last axis, for numbers whose squares overflow, too."""
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
class Core:
    """The bulk of the rows of every trial, unmoved."""

    values: Floats  # (trials, n, d): all rows, moved or not
    squares: Floats  # (trials, n): their squared norms
    held: Bools  # (trials, n): which of them are in the core,
    centre: Floats  # (trials, d)
    radius: Floats  # (trials,): and so within this of the centre
    mean: Floats  # (trials, d): the sum of these over n

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """The rows nearest to `centre`, but for the farthest few, at least one, of each trial."""
        with np.errstate(over="ignore"):
            squares = np.einsum("tnd,tnd->tn", values, values)
        distance = _distances(values, squares, centre)
        rank = max(0, int((1 - OUTSIDE) * values.shape[1]) - 1)
        radius = np.partition(distance, rank, axis=1)[:, rank]
        held = distance < radius[:, None]
        return cls(values, squares, held, centre, radius, _share(values, held))

    def leaving(self, centre: Floats, radius: float | Floats) -> Bools:
        """The core's rows that a ball may not contain, (trials, n)."""
        # Room for rounding: a row that is outside by that little may stay.
        bound = np.broadcast_to(np.asarray(radius) * (1 - 1e-12), self.radius.shape)
        with np.errstate(over="ignore", invalid="ignore"):  # a distance that overflows is not sure
            sure = np.asarray(norms(centre - self.centre) + self.radius <= bound)
        if np.all(sure):
            return np.zeros_like(self.held)
        inside = _distances(self.values, self.squares, centre) <= bound[:, None]
        return np.asarray(self.held & ~(inside | sure[:, None]))


def _distances(values: Floats, squares: Floats, centre: Floats) -> Floats:
    """Upper bounds on the rows' distances from the centres, (trials, n), without a copy of them.

    From squared norms and a product, rounded up for what these lose, by underflow too;
    infinite where they overflow.
    """
    d = values.shape[2]
    with np.errstate(over="ignore", invalid="ignore"):
        square = np.einsum("td,td->t", centre, centre)[:, None]
        product = np.matmul(values, centre[:, :, None])[..., 0]
        found = squares - 2 * product + square + ROUNDING * (d + 4) * (squares + square)
        return np.asarray(TINY + np.sqrt(np.where(np.isnan(found), np.inf, np.maximum(found, 0))))


def _share(values: Floats, held: Bools) -> Floats:
    """The sum of the rows that are held, over n."""
    return np.asarray(np.matmul((held / held.shape[1])[:, None, :], values)[:, 0])


@dataclass(frozen=True)
class Rows:
    """The rows of every trial: some held one by one, with multiplicity, the rest in a core."""

    n: int  # rows of a trial
    trial: NDArray[np.intp]  # (m,): increasing; every trial is there
    rows: Floats  # (m, d)
    counts: Floats  # (m,): how many there are of each
    core: Core | None = None  # the other rows
    copies: int = 1  # if there is one trial only: how many trials see it

    @classmethod
    def of(cls, values: Floats, centre: Floats) -> Self:
        """All rows of a (trials, n, d) array, with a core around the (trials, d) centre."""
        core = Core.of(values, centre)
        trial, place = np.nonzero(~core.held)
        rows = np.clip(values[trial, place], -LARGEST, LARGEST)  # the core has no such numbers
        return cls(values.shape[1], trial, rows, np.ones(trial.size), core)

    def mean(self) -> Floats:
        """The mean of each trial's rows, (trials, d)."""
        mean = self._sum(self.rows * (self.counts / self.n)[:, None])
        if self.core is not None:
            mean += self.core.mean
        return np.repeat(mean, self.copies, axis=0)

    def projected(self, centre: Floats, radius: float | Floats) -> Self:
        """The rows moved to the nearest points of a ball, its radius one or one per trial.

        Where the (trials, d) centre is no number, neither is what comes of the trial.
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
        """The rows within a ball: sums of what they are off its centre, and how many."""
        opened = self._expanded()._opened(centre, radius)
        offset = opened.rows - centre[opened.trial]
        inside = norms(offset) <= np.broadcast_to(radius, len(centre))[opened.trial]
        counts = inside * opened.counts
        sums = opened._sum(np.where(inside[:, None], offset, 0.0) * counts[:, None])
        number = opened._sum(counts)
        core = opened.core
        if core is not None:
            bulk = core.held.sum(axis=1)
            # Where nothing is held the centre may be far, or no number.
            sums += np.where(bulk[:, None] > 0, self.n * core.mean - bulk[:, None] * centre, 0.0)
            number += bulk
        return sums, number

    def _expanded(self) -> Self:
        """Every trial by itself."""
        trials, core = self.copies, self.core
        if trials == 1:
            return self
        if core is not None:
            fields = vars(core).items()
            core = Core(**{k: np.broadcast_to(a, (trials, *a.shape[1:])) for k, a in fields})
        trial = np.repeat(np.arange(trials), len(self.rows))
        rows, counts = np.tile(self.rows, (trials, 1)), np.tile(self.counts, trials)
        return replace(self, trial=trial, rows=rows, counts=counts, core=core, copies=1)

    def _sum(self, values: Floats) -> Floats:
        """Add up what belongs to each trial."""
        starts = np.flatnonzero(np.diff(self.trial, prepend=-1))
        return np.asarray(np.add.reduceat(values, starts, axis=0))

    def _opened(self, centre: Floats, radius: float | Floats) -> Self:
        """Hold those rows of the core one by one that a ball may not contain."""
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
