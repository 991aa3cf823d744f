"""Histogram with exponentially growing bins, and private bounds at the edges of its bins.

The edges are 0 and a geometric sequence on either side of a centre. Double-precision numbers span
only about 2000 powers of two. So a search among such edges needs no bounds on the records.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger, ThresholdNoise
from dpbench.samples import Bins, Sample

__all__ = [
    "MAX_POWER",
    "GeometricGrid",
    "counts_along_line",
    "magnitudes",
    "private_bounds_by_sparse_vector",
    "private_radius_by_sparse_vector",
]

MAX_POWER = 1000  # largest exponent of two; 2^-1000 to 2^1000 are nearly all powers among doubles


@dataclass(frozen=True)
class GeometricGrid:
    """Edges of histogram bins on one side of a centre: unit (base^j - offset), j = low, ..., high.

    With offset 0 the edges are powers. With offset 1 they begin with nearly equal steps and then
    grow like powers, as in D23; `low` is then at least 1.
    """

    low: int = -MAX_POWER
    high: int = MAX_POWER
    base: float = 2.0  # Ratio of the growth, above 1.
    unit: float = 1.0  # Factor of all edges, above 0, in the unit of the data.
    offset: float = 0.0

    @property
    def sizes(self) -> Floats:
        """Distances of the edges from the centre, increasing, without the distance 0."""
        powers = np.power(self.base, np.arange(self.low, self.high + 1.0))
        return np.asarray(self.unit * (powers - self.offset))


@dataclass(frozen=True)
class _GeometricBins(Bins):
    """Bins (e_(j-1), e_j] for distances |x - centre| of records x, with the edges e_j of a grid.

    Records below the centre and records at or above the centre have separate bins. The bins for
    records below the centre have negative indices. The other bins have positive indices.
    """

    width: float | Floats = 1.0
    centre: float | Floats = 0.0
    low: int = -MAX_POWER
    high: int = MAX_POWER
    base: float = 2.0
    unit: float = 1.0
    offset: float = 0.0

    def index(self, values: Floats) -> Floats:
        centre = np.asarray(self.centre)
        edges = GeometricGrid(self.low, self.high, self.base, self.unit, self.offset).sizes
        with np.errstate(over="ignore"):
            away = values - (centre[:, None] if centre.ndim else centre)
        bin_number = np.searchsorted(edges[:-1], np.abs(away)) + 1.0
        return np.asarray(np.where(away < 0, -bin_number, bin_number))


def magnitudes(
    sample: Sample, grid: GeometricGrid | None = None, centre: float | Floats = 0.0
) -> Floats:
    """Return a histogram of distances from a centre, for the records on each side of the centre.

    The bins have the edges e_1 < ... < e_m of the grid, by default the powers of two up to 2^1000.
    The centre is a number or has shape (trials,). The counts below the centre come first, then
    those at or above it, in the shape (trials, 2, m). Column j counts distances in (e_(j-1), e_j].
    The first bin begins at 0; the last has no end.
    """
    grid = grid or GeometricGrid()
    held = sample.occupied(_GeometricBins(centre=centre, **asdict(grid)))
    counts = np.zeros((sample.trials, 2, grid.high - grid.low + 1))
    above = (held.index > 0).astype(int)
    counts[held.trial, above, np.abs(held.index).astype(int) - 1] = held.count
    return counts


def counts_along_line(sample: Sample, grid: GeometricGrid) -> tuple[Floats, Floats]:
    """Return the edges and the histogram of a grid around 0, in the order of the bins on the line.

    The 2m + 1 edges are -e_m, ..., -e_1, 0, e_1, ..., e_m. The counts between neighbouring edges
    have the shape (trials, 2m); the outermost bins also count all records beyond.
    """
    below, above = magnitudes(sample, grid).transpose(1, 0, 2)
    sizes = grid.sizes
    edges = np.concatenate([-sizes[::-1], [0.0], sizes])
    return edges, np.concatenate([below[:, ::-1], above], axis=1)


def private_radius_by_sparse_vector(
    sample: Sample, centre: float | Floats, threshold: float, max_power: int, ledger: Ledger
) -> Floats:
    """Release a distance from a centre within which about `threshold` records lie.

    The distance (radius) is a power of two. `Ledger.above_threshold` chooses the first radius 2^j
    within which more than `threshold` records lie, up to noise, and spends the ledger. Replacing a
    record moves it nearer to the centre or farther away. So the counts for all radii change by at
    most 1 and in one direction, as `Ledger.above_threshold` requires. The centre is public or
    already released. The radii have the shape (trials,), and are at most 2^`max_power`.
    """
    grid = GeometricGrid(-max_power, max_power)
    within = np.cumsum(magnitudes(sample, grid, centre).sum(axis=1), axis=1)
    return np.asarray(grid.sizes[ledger.above_threshold(within, 1.0, threshold)])


def private_bounds_by_sparse_vector(
    sample: Sample,
    grid: GeometricGrid,
    beyond: float,
    ledger: Ledger,
    noise: ThresholdNoise = "exponential",
) -> tuple[Floats, Floats]:
    """Release two edges of a grid, with about `beyond` records below and above; spend the ledger.

    For the upper bound, the search passes over the edges e from the lowest to the highest. It
    chooses the first edge for which the number of records in bins up to e exceeds n - `beyond`, up
    to noise. For the lower bound, it passes from the highest to the lowest edge, and counts the
    records in bins above e. A replaced record moves up or down. If it moves up, no count of the
    first search rises, and no count of the second search falls; and the other way round if it
    moves down. All counts change by at most 1. So `Ledger.above_opposite_thresholds` pays for both
    searches.

    Each search begins on the far side of the records. There the counts are 0, and the threshold is
    near n. So a premature end far from the records needs noise of nearly n, although the grid has
    thousands of edges. D23 assumes a public lower bound on the records, or calls the sparse vector
    technique twice for each quantile, for positive and for negative records. One call on a grid of
    both signs has half of the noise, because it has the whole budget of the quantile.

    Both bounds have the shape (trials,). With few records, noise may put the lower above the upper
    one.
    """
    edges, counts = counts_along_line(sample, grid)
    upward, downward = (np.cumsum(part, axis=1) for part in (counts, counts[:, ::-1]))
    chosen = ledger.above_opposite_thresholds(
        (upward, downward), 1.0, sample.n - beyond, noise=noise
    )
    return edges[::-1][1:][chosen[:, 1]], edges[1:][chosen[:, 0]]
