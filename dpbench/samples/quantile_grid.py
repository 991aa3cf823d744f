"""Cells of a continuous distribution, with exact probabilities and conditional means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats, Ints

__all__ = ["ContinuousLaw", "QuantileGrid", "clipped_means", "quantile_grid"]

# Cells of equal probability between the tail probabilities t and t/2. With 32, a draw takes 1.3 to
# 2 times as long, and the missing part of the variance is at most 4e-5 in place of 6e-5.
CELLS_PER_OCTAVE = 16
# The last cell of each side has a probability below 2^-(SPARE_OCTAVES + 1)/n, so that fewer than
# one in 10^9 datasets has a record there.
SPARE_OCTAVES = 29
# A cell of width w and probability p is halved while p w^2/12, its part of the variance that the
# conditional mean misses, exceeds MAX_SHARE squared interquartile ranges and w exceeds
# MAX_RELATIVE_WIDTH times the distance from the median. Only gaps of mixtures and the tails of very
# skewed distributions have such cells.
MAX_SHARE, MAX_RELATIVE_WIDTH, MAX_HALVINGS = 1e-6, 0.05, 30
# Gauss-Legendre quadrature of quantile functions: a panel is halved until the sums of one panel and
# of its two halves agree to these errors, at most MAX_BISECTIONS times. Near x = 0 rounding errors
# may exceed them. More than MAX_PANELS panels for each integral, on average, come from these alone.
NODES, WEIGHTS = np.polynomial.legendre.leggauss(8)
RELATIVE_ERROR, MAX_BISECTIONS, MAX_PANELS = 1e-13, 60, 64
# The panel beside t = 0 of a heavy tail is halved further, to SMALLEST_TAIL.
MAX_TAIL_BISECTIONS, SMALLEST_TAIL = 500, 2.0**-400


class ContinuousLaw(Protocol):
    """Continuous distribution of numbers, with a quantile function for each of its two tails."""

    def tail_quantile(self, t: Floats, *, upper: bool) -> Floats:
        """Return numbers x with P(X > x) = t for a record X if `upper`, else with P(X < x) = t."""

    def tail(self, x: Floats, *, upper: bool) -> Floats:
        """Return P(X > x) for a record X if `upper`, else P(X < x); x may be infinite."""


def partial_mean(law: ContinuousLaw, a: ArrayLike, b: ArrayLike, *, upper: bool) -> Floats:
    """Return the integral of a tail's quantile function from a to b.

    It is E[X; A], where A is the event that the tail probability of X lies in [a, b]. The tail
    probabilities satisfy 0 <= a <= b <= 1, and broadcast. Relative errors are near `RELATIVE_ERROR`
    (1e-13), or like the rounding errors of the quantiles if these are larger.
    """
    a, b = np.broadcast_arrays(np.asarray(a, dtype=float), np.asarray(b, dtype=float))
    total, rest = np.zeros(a.size), np.arange(a.size)
    low, high = a.ravel(), b.ravel()

    def panel(low: Floats, high: Floats) -> Floats:
        half = (high - low)[:, None] / 2
        t = low[:, None] + half * (1 + NODES)
        return np.asarray((law.tail_quantile(t, upper=upper) * half * WEIGHTS).sum(axis=1))

    whole = panel(low, high)
    allowed = RELATIVE_ERROR * np.abs(whole)
    for level in range(MAX_TAIL_BISECTIONS):
        middle = (low + high) / 2
        left, right = panel(low, middle), panel(middle, high)
        rough = np.abs(left + right - whole) > allowed[rest]
        if level >= MAX_BISECTIONS:  # go on beside t = 0 only
            rough &= low == 0
        np.add.at(total, rest[~rough], (left + right)[~rough])
        low, high = np.concatenate([[low[rough], middle[rough]], [middle[rough], high[rough]]], 1)
        whole, rest = np.concatenate([left[rough], right[rough]]), np.tile(rest[rough], 2)
        tiny = level >= MAX_BISECTIONS and high.max(initial=0) <= SMALLEST_TAIL
        if tiny or not rest.size or rest.size > MAX_PANELS * a.size:
            break
    np.add.at(total, rest, np.where(low == 0, _power_panel(law, high, whole, upper=upper), whole))
    return total.reshape(a.shape)


def _power_panel(law: ContinuousLaw, end: Floats, whole: Floats, *, upper: bool) -> Floats:
    """Return the integral of a tail's quantile function from 0 to `end` for a heavy tail.

    Near t = 0 the quantile function of a heavy tail is near C t^-g, so the integral is
    `end` Q(end)/(1 - g). Where g is not in (0, 1) the result is `whole`.
    """
    if not end.size:
        return whole
    near, far = (law.tail_quantile(t, upper=upper) for t in (end, end / 2))
    with np.errstate(divide="ignore", invalid="ignore"):
        g = np.log2(far / near)
        return np.asarray(np.where((g > 0) & (g < 1), end * near / (1 - g), whole))


@dataclass(frozen=True)
class QuantileGrid:
    """Cells of a continuous distribution: intervals between quantiles, finer in the tails.

    A cell is described by tail probabilities. A record x of the lower side, below the median, has
    the tail probability t = P(X < x). A record of the upper side has t = P(X > x). On both sides t
    is uniform on [0, 1/2]. Octave j = 1, 2, ... of a side consists of t in [2^-(j+1), 2^-j]. It is
    divided into cells of equal probability, and cells in a gap of the distribution are halved. The
    last cell of a side is [0, 2^-(octaves + 1)]. So every probability is a dyadic fraction, and a
    cell can be split into halves of equal probability as often as a question needs it.

    Cells are ordered as their records are: the lower side from t = 0 to 1/2, then the upper side
    from t = 1/2 to 0. There are m cells. `octaves` is the number of octaves on each side.
    """

    law: ContinuousLaw
    octaves: int

    @cached_property
    def octave_edges(self) -> list[list[Floats]]:
        """Increasing tail probabilities of the edges of the cells, by side and octave.

        The lower side comes first. After the octaves, each side has the cell that ends at 0.
        """
        last = [np.array([0.0, 2.0 ** -(self.octaves + 1)])]
        octaves = range(1, self.octaves + 1)
        return [
            [self._cut_octave(j, upper=upper) for j in octaves] + last for upper in (False, True)
        ]

    def _cut_octave(self, j: int, *, upper: bool) -> Floats:
        edges = 2.0 ** -(j + 1) * (1 + np.arange(CELLS_PER_OCTAVE + 1) / CELLS_PER_OCTAVE)
        first, median, third = self.law.tail_quantile(np.array([0.25, 0.5, 0.75]), upper=False)
        for _ in range(MAX_HALVINGS):
            x = self.law.tail_quantile(edges, upper=upper)
            width, away = np.abs(np.diff(x)), np.abs(x - median)
            # Divide before squaring, because squares may overflow. A difference of quartiles that
            # rounds to 0 has no cells to halve.
            relative = width / max(third - first, np.finfo(float).tiny)
            share = np.diff(edges) * relative**2 / 12
            far = np.maximum(away[1:], away[:-1])
            wide = (share > MAX_SHARE) & (width > MAX_RELATIVE_WIDTH * far)
            if not wide.any():
                break
            edges = np.sort(np.r_[edges, ((edges[1:] + edges[:-1]) / 2)[wide]])
        return edges

    @cached_property
    def probabilities(self) -> Floats:
        """Conditional probabilities of the cells of each octave, (2, octaves + 1, cells).

        Octaves with fewer cells than others have zeros at the end.
        """
        sides = [
            [np.diff(edges) / (edges[-1] - edges[0]) for edges in side]
            for side in self.octave_edges
        ]
        table = np.zeros((2, self.octaves + 1, max(p.size for side in sides for p in side)))
        for i, side in enumerate(sides):
            for j, p in enumerate(side):
                table[i, j, : p.size] = p
        return table

    @cached_property
    def tails(self) -> list[Floats]:
        """Increasing tail probabilities of all edges of the lower and of the upper side."""
        return [np.unique(np.concatenate(side)) for side in self.octave_edges]

    @property
    def lower_cells(self) -> int:
        """Number of cells below the median."""
        return self.tails[0].size - 1

    def is_upper(self, cell: int) -> bool:
        """Return True if a cell is on the upper side."""
        return cell >= self.lower_cells

    def quantiles(self, t: Floats, cell: int) -> Floats:
        """Return the numbers with tail probabilities t on the side of a cell."""
        return self.law.tail_quantile(t, upper=self.is_upper(cell))

    @cached_property
    def bounds(self) -> tuple[Floats, Floats]:
        """Smallest and largest tail probability of each cell, two arrays (m,)."""
        lower, upper = self.tails
        return np.r_[lower[:-1], upper[-2::-1]], np.r_[lower[1:], upper[:0:-1]]

    @cached_property
    def edges(self) -> Floats:
        """Numbers at which cells begin and end, increasing, (m + 1,); the ends may be infinite."""
        lower, upper = self.tails
        below = self.law.tail_quantile(lower, upper=False)
        return np.concatenate([below, self.law.tail_quantile(upper[-2::-1], upper=True)])

    @cached_property
    def means(self) -> Floats:
        """Conditional mean of the records of each cell, (m,)."""
        parts = [
            partial_mean(self.law, tails[:-1], tails[1:], upper=upper) / np.diff(tails)
            for tails, upper in zip(self.tails, (False, True), strict=True)
        ]
        return np.concatenate([parts[0], parts[1][::-1]])

    def clipped_means(self, low: Floats, high: Floats) -> Floats:
        """Return the conditional mean of the clipped record clip(X, low, high) of each cell.

        `low` and `high` are the ends of clipping intervals, possibly infinite, of shape (rows, 1).
        The result has the shape (rows, m).
        """
        means = np.clip(self.means, low, high)
        for bound in (low, high):
            cell, _ = self.locate(bound[:, 0])
            means[np.arange(len(means)), cell] = self._clip_in_cell(cell, low[:, 0], high[:, 0])
        return means

    def _clip_in_cell(self, cell: Ints, low: Floats, high: Floats) -> Floats:
        """Return the conditional means of clip(X, low, high) given one cell each, all (rows,)."""
        answer = np.empty(cell.size)
        first, last = (bound[cell] for bound in self.bounds)
        for upper in (False, True):
            at = (cell >= self.lower_cells) == upper
            a, b = first[at], last[at]
            t_low, t_high = (
                np.clip(self.law.tail(bound[at], upper=upper), a, b) for bound in (low, high)
            )
            inner = np.minimum(t_low, t_high), np.maximum(t_low, t_high)
            below, above = (b - t_low, t_high - a) if upper else (t_low - a, b - t_high)
            total = partial_mean(self.law, *inner, upper=upper)
            for bound, mass in ((low[at], below), (high[at], above)):
                total += np.where(mass > 0, bound, 0.0) * mass
            answer[at] = total / (b - a)
        return answer

    def draw(self, rng: np.random.Generator, trials: int, n: int) -> Ints:
        """Draw the number of records in each cell, for independent datasets of n records.

        The counts are multinomial, of shape (trials, m). A record is on either side with
        probability 1/2, and beyond each octave with probability 1/2 given that it is not before the
        octave.
        """
        below = rng.binomial(np.full(trials, n), 0.5)
        beyond, octaves = np.stack([below, n - below]), []
        for _ in range(self.octaves):
            inner, beyond = beyond, rng.binomial(beyond, 0.5)
            octaves.append(inner - beyond)
        totals = np.stack([*octaves, beyond], axis=-1)
        table = rng.multinomial(totals, self.probabilities[:, None])
        sides = [
            np.concatenate(
                [table[i, :, j, : p.size - 1] for j, p in reversed(list(enumerate(side)))], 1
            )
            for i, side in enumerate(self.octave_edges)
        ]
        return np.concatenate([sides[0], sides[1][:, ::-1]], axis=1)

    def locate(self, x: Floats) -> tuple[Ints, Floats]:
        """Return the cells of numbers, and their tail probabilities on the side of the cell.

        A number at the edge of two cells belongs to the cell above. The infinities belong to the
        first and the last cell.
        """
        below, above = (self.law.tail(x, upper=upper) for upper in (False, True))
        low, high = self.tails
        left = np.searchsorted(low, below, "right") - 1
        right = self.means.size - np.searchsorted(high, above, "left")
        cell = np.where(below < 0.5, left, np.minimum(right, self.means.size - 1))
        return cell, np.where(below < 0.5, below, above)


@lru_cache(maxsize=32)
def quantile_grid(law: ContinuousLaw, n: int) -> QuantileGrid:
    """Return the cells for datasets of n >= 1 records, cached for the distributions of a sweep."""
    return QuantileGrid(law, int(np.ceil(np.log2(n))) + SPARE_OCTAVES)


@lru_cache(maxsize=512)
def clipped_means(grid: QuantileGrid, low: float, high: float) -> Floats:
    """Return the conditional mean of the clipped record clip(X, low, high) of each cell, cached.

    The ends of the interval may be infinite. The means, one for each cell, are read-only.
    """
    means = np.asarray(grid.clipped_means(np.array([[low]]), np.array([[high]]))[0])
    means.flags.writeable = False
    return means
