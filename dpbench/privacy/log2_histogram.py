"""Histogram of distances from a centre, with powers of two as bin edges, and a private radius.

A ball of this radius around the centre contains about a given number of records. Double-precision
numbers span only about 2000 powers of two. So a search among the powers needs no bounds on the
records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.samples import Bins, Sample

__all__ = ["MAX_POWER", "magnitudes", "powers", "private_radius_by_sparse_vector"]

MAX_POWER = 1000  # largest exponent; 2^-1000 to 2^1000 are nearly all powers of two among doubles


def powers(max_power: int) -> Floats:
    """Return the upper ends 2^-max_power, ..., 2^max_power of the bins of a distance histogram.

    The histogram counts records by their distance from a centre. Smaller distances than
    2^-max_power are counted in the first bin, and larger distances than 2^max_power in the last.
    """
    return np.asarray(np.exp2(np.arange(-max_power, max_power + 1.0)))


@dataclass(frozen=True)
class _Magnitudes(Bins):
    """Histogram bins (2^(j-1), 2^j], for whole numbers j, for distances |x - centre| of records x.

    Records below the centre and records at or above the centre have separate bins. The bins for
    records below the centre have negative indices. The other bins have positive indices.
    """

    width: float | Floats = 1.0
    centre: float | Floats = 0.0
    max_power: int = MAX_POWER

    def index(self, values: Floats) -> Floats:
        centre, max_power = np.asarray(self.centre), self.max_power
        with np.errstate(over="ignore"):
            away = values - (centre[:, None] if centre.ndim else centre)
        mantissa, power = np.frexp(np.clip(away, -(2.0**max_power), 2.0**max_power))
        power = np.where(
            away == 0, -max_power, np.maximum(power - (np.abs(mantissa) == 0.5), -max_power)
        )
        return np.asarray(np.where(away < 0, -1.0, 1.0) * (power + max_power + 1))


def magnitudes(sample: Sample, centre: float | Floats = 0.0, max_power: int = MAX_POWER) -> Floats:
    """Return a histogram of distances from a centre, for the records on each side of the centre.

    The edges of the bins are powers of two.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers.
    centre : float or ndarray of shape (trials,)
        Centre, by default 0.
    max_power : int
        Largest exponent of two, by default nearly the largest of a double.

    Returns
    -------
    ndarray of shape (trials, 2, 2 max_power + 1)
        Counts below the centre, then at or above it. Column j counts distances in
        (2^(j-1-max_power), 2^(j-max_power)]. The first bin begins at 0; the last has no end.
    """
    held = sample.occupied(_Magnitudes(centre=centre, max_power=max_power))
    counts = np.zeros((sample.trials, 2, 2 * max_power + 1))
    above = (held.index > 0).astype(int)
    counts[held.trial, above, np.abs(held.index).astype(int) - 1] = held.count
    return counts


def private_radius_by_sparse_vector(
    sample: Sample, centre: float | Floats, threshold: float, max_power: int, ledger: Ledger
) -> Floats:
    """Release a distance from a centre within which about `threshold` records lie.

    The distance (radius) is a power of two. `Ledger.above_threshold` chooses the first radius 2^j
    within which more than `threshold` records lie, up to noise, and spends the ledger. Replacing a
    record moves it nearer to the centre or farther away. So the counts for all radii change by at
    most 1 and in one direction, as `Ledger.above_threshold` requires.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers.
    centre : float or ndarray of shape (trials,)
        Centre, public or already released.
    threshold : float
        Number of records that the radius should contain.
    max_power : int
        Largest exponent of two.
    ledger : Ledger
        Ledger, spent completely.

    Returns
    -------
    ndarray of shape (trials,)
        Radii, powers of two.
    """
    within = np.cumsum(magnitudes(sample, centre, max_power).sum(axis=1), axis=1)
    return np.asarray(powers(max_power)[ledger.above_threshold(within, 1.0, threshold)])
