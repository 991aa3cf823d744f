"""Histogram of magnitudes by powers of two, and a private radius that contains most records.

The doubles span only some 2000 powers of two, so a search among the powers needs no bounds on the
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
    """Return 2^-max_power, ..., 2^max_power, (2 max_power + 1,).

    Other magnitudes count in the outermost bins.
    """
    return np.asarray(np.exp2(np.arange(-max_power, max_power + 1.0)))


@dataclass(frozen=True)
class _Magnitudes(Bins):
    """Bins (2^(j-1), 2^j] of |x - centre|; for x below the centre their numbers are negative."""

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
    """Count the records by side of a centre and by power of two of their distance from it.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers.
    centre : float or ndarray of shape (trials,)
        Centre, by default 0.
    max_power : int
        Largest exponent of two.

    Returns
    -------
    ndarray of shape (trials, 2, 2 max_power + 1)
        Counts below the centre, then at or above it. Column j counts distances in
        (2^(j-1-max_power), 2^(j-max_power)]; the first bin begins at 0, and the last has no end.
    """
    held = sample.occupied(_Magnitudes(centre=centre, max_power=max_power))
    counts = np.zeros((sample.trials, 2, 2 * max_power + 1))
    above = (held.index > 0).astype(int)
    counts[held.trial, above, np.abs(held.index).astype(int) - 1] = held.count
    return counts


def private_radius_by_sparse_vector(
    sample: Sample, centre: float | Floats, threshold: float, max_power: int, ledger: Ledger
) -> Floats:
    """Release a power of two within which about `threshold` records are from the centre.

    The mechanism is `Ledger.above_threshold` on the counts of records within 2^j of the centre.
    Replacing a record moves it nearer or farther, so these counts change by at most 1, and for all
    j in one direction, which that mechanism requires.

    Parameters
    ----------
    sample : Sample
        Datasets of numbers.
    centre : float or ndarray of shape (trials,)
        Centre, public or released before.
    threshold : float
        Wanted number of records.
    max_power : int
        Largest exponent of two.
    ledger : Ledger
        Spent completely.

    Returns
    -------
    ndarray of shape (trials,)
        Radii, powers of two.
    """
    within = np.cumsum(magnitudes(sample, centre, max_power).sum(axis=1), axis=1)
    return np.asarray(powers(max_power)[ledger.above_threshold(within, 1.0, threshold)])
