"""Median of vectors in few dimensions, by the exponential mechanism on halfspace depth.

The depth of a point y in a dataset is the least number of records in a closed halfspace with y on
its boundary (Tukey). Points of large depth are robust: k replaced records change every depth by at
most k. An exponential mechanism on the number of replaced records makes a robust estimator private
(AUZ23, HKMN23). Here the score of y is its depth.

**Directions.** The minimum is over the halfspaces {x: <v, x> >= <v, y>} for a finite set of vectors
v and -v. Let n_v(y) be the number of records in one halfspace. A replaced record changes n_v(y) by
at most 1, for every v and y, because it is counted by its own projection alone. The minimum over v
then changes by at most 1. So the sensitivity of the score is exactly 1 for every finite set, and
the mechanism on a public grid is epsilon-DP. For one coordinate v = 1 gives the exact depth, and
the score of y is n/2 minus the number of records to replace until y is a median.

**Error.** Let the records be N(mu, sigma^2 I) with n large and epsilon small, so that sampling
errors are negligible, and let the grid be fine. Near mu the depth falls with the distance r from
mu as n/2 - n r/(sigma sqrt(2 pi)), if all directions are tried. So the density of the release is
proportional to e^(-c r) with c = epsilon n/(2 sigma sqrt(2 pi)), and r has a Gamma(d) distribution
of scale 1/c. In d = 2 the 0.9 quantile of r is 3.890/c = 19.5 sigma/(epsilon n).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, ClassVar

import numpy as np
from pydantic import Field

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, MedianInBox
from dpbench.estimators.base import Estimate
from dpbench.estimators.clipped import _ClippingEstimator
from dpbench.privacy import Budget, Ledger
from dpbench.privacy.neighbours import Pair
from dpbench.registry import validated
from dpbench.samples import Sample

__all__ = ["TukeyMedian", "directions", "halfspace_depth"]

MAX_POINTS = 20_000  # points of a grid, which bounds time and memory
MAX_COORDINATE = 1e150  # larger coordinates are clipped, so that projections do not overflow


@validated
class TukeyMedian(_ClippingEstimator):
    """Tukey median of numbers, or of vectors of 2 or 3 coordinates (exponential mechanism).

    AUZ23, HKMN23, theorem numbers not checked. A point of a public grid is chosen with probability
    proportional to e^(epsilon depth/2). The depth is the least number of records on one side of the
    point, over a finite set of directions. Its sensitivity is 1, see
    `dpbench.estimators.tukey_median`.

    Parameters
    ----------
    lower, upper : float
        Public bounds of every coordinate of the median, lower < upper, in the unit of the data.
        Records are not clipped.
    resolution : float > 0
        Distance of neighbouring points of the grid, in the unit of the data. It is rounded such
        that the points fill [lower, upper]. The grid may have at most 20,000 points.
    directions : int in [1, 1000]
        Number of lines through a point that are tried, for 2 or 3 coordinates. With more lines the
        depth is more accurate, and the running time grows in proportion.
    """

    resolution: Annotated[float, Field(gt=0, le=1e300)]
    directions: Annotated[int, Field(ge=1, le=1000)] = 16
    multivariate: ClassVar[bool] = True

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (MedianInBox(self.lower, self.upper),)

    def grid(self, d: int) -> Floats:
        """Return the points of the grid, in the cube [lower, upper]^d, of shape (points, d).

        A ValueError is raised if the grid has too many points, or if d exceeds 3.
        """
        if d > 3:
            raise ValueError(f"tukey_median takes at most 3 coordinates, got {d}")
        steps = max(1.0, np.ceil((self.upper - self.lower) / self.resolution * (1 - 1e-12)))
        if min(steps + 1, MAX_POINTS + 1) ** d > MAX_POINTS:
            raise ValueError(
                f"resolution: {self.resolution:g}: the grid has more than {MAX_POINTS:,} points in "
                f"{d} coordinates; take a larger resolution or closer bounds"
            )
        axis = np.linspace(self.lower, self.upper, int(steps) + 1)
        return np.stack(np.meshgrid(*[axis] * d, indexing="ij"), axis=-1).reshape(-1, d)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        points, lines = self.grid(sample.d), directions(sample.d, self.directions)
        if sample.vectors:
            rows, counts = sample.listed()
        else:
            values, counts = sample.ranked(0, sample.n - 1)
            rows = values[..., None]
        once = rows.strides[0] == 0  # repeated releases on one dataset
        datasets = zip(rows[: 1 if once else None], counts[: 1 if once else None], strict=True)
        depth = np.stack([halfspace_depth(*dataset, points, lines) for dataset in datasets])
        depth = np.broadcast_to(depth, (sample.trials, len(points)))
        chosen = ledger.exponential(depth, 1.0)
        released = Estimate(points[chosen], points[depth.argmax(axis=1)])
        return released if sample.vectors else released.reshaped((sample.trials,))

    def audit_pairs(self, n: int, d: int | None, budget: Budget) -> list[Pair]:
        # The depth of `upper` grows by 1, and the depth of all other points falls by 1.
        records = np.where(np.arange(n) < n // 2, self.lower, self.upper)
        records = records if d is None else np.repeat(records[:, None], d, axis=1)
        return [Pair.replacing("from_end_to_end", records, 0, records[-1])]


def directions(d: int, count: int) -> Floats:
    """Return unit vectors along lines that are spread over all directions, of shape (lines, d).

    There are `count` lines for d = 2 and d = 3, and one for d = 1.
    """
    if d == 1:
        return np.ones((1, 1))
    i = np.arange(count)
    if d == 2:
        angle = np.pi * i / count
        return np.stack([np.cos(angle), np.sin(angle)], axis=1)
    # A Fibonacci lattice on the upper half of the sphere.
    height, angle = (i + 0.5) / count, np.pi * (3 - np.sqrt(5)) * i
    radius = np.sqrt(1 - height**2)
    return np.stack([radius * np.cos(angle), radius * np.sin(angle), height], axis=1)


def halfspace_depth(rows: Floats, counts: Floats, points: Floats, lines: Floats) -> Floats:
    """Return the depth of points in one dataset: the least number of records on one side.

    For each row of `lines`, a direction, the records on either side of a point are counted. Records
    on the boundary count on both sides. `rows` are distinct records of shape (m, d), and `counts`
    are their multiplicities.
    """
    rows = np.clip(rows, -MAX_COORDINATE, MAX_COORDINATE)
    least = np.full(len(points), np.inf)
    for line in lines:
        # Add coordinate by coordinate: a matrix product may round a row by the number of rows.
        y, t = (sum(part[:, j] * line[j] for j in range(len(line))) for part in (rows, points))
        order = np.argsort(y)
        upto = np.concatenate([[0.0], np.cumsum(counts[order])])
        below = upto[np.searchsorted(y[order], t, side="left")]
        within = upto[np.searchsorted(y[order], t, side="right")]
        least = np.minimum(least, np.minimum(within, upto[-1] - below))
    return least
