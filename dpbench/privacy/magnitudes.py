"""How large records are, to a power of two, and the first power that holds enough of them.

Wherever records are, their magnitudes are among few powers of two: some 2000 for all doubles. A
search among these needs no bounds on the records.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dpbench.arrays import Floats
from dpbench.privacy.ledger import Ledger
from dpbench.samples import Bins, Sample

__all__ = ["MOST", "magnitudes", "powers", "radius_of_most"]

MOST = 1000  # nearly all of the powers of two that doubles have


def powers(most: int) -> Floats:
    """From 2^-most to 2^most: what is smaller, or larger, counts at an end."""
    return np.asarray(np.exp2(np.arange(-most, most + 1.0)))


@dataclass(frozen=True)
class _Magnitudes(Bins):
    """Bins (2^(j-1), 2^j] of |x - centre|; below the centre their numbers are negative."""

    width: float | Floats = 1.0
    centre: float | Floats = 0.0
    most: int = MOST

    def index(self, values: Floats) -> Floats:
        centre, most = np.asarray(self.centre), self.most
        with np.errstate(over="ignore"):
            away = values - (centre[:, None] if centre.ndim else centre)
        mantissa, power = np.frexp(np.clip(away, -(2.0**most), 2.0**most))
        power = np.where(away == 0, -most, np.maximum(power - (np.abs(mantissa) == 0.5), -most))
        return np.asarray(np.where(away < 0, -1.0, 1.0) * (power + most + 1))


def magnitudes(sample: Sample, centre: float | Floats = 0.0, most: int = MOST) -> Floats:
    """Counts of records by side, below the centre or not, and by power of two.

    Returns
    -------
    (trials, 2, 2 most + 1) array
        How many are above one of `powers` and at most the next; the first bin begins at 0, the last
        has no end.
    """
    held = sample.occupied(_Magnitudes(centre=centre, most=most))
    counts = np.zeros((sample.trials, 2, 2 * most + 1))
    above = (held.index > 0).astype(int)
    counts[held.trial, above, np.abs(held.index).astype(int) - 1] = held.count
    return counts


def radius_of_most(
    sample: Sample, centre: float | Floats, threshold: float, most: int, ledger: Ledger
) -> Floats:
    """A power of two that about `threshold` records of each dataset are within, from the centre.

    Replacing a record moves it nearer or farther: how many are within 2^j changes by at most 1, in
    one direction for all j, as `Ledger.above_threshold` asks. The centre is public or released
    before.
    """
    within = np.cumsum(magnitudes(sample, centre, most).sum(axis=1), axis=1)
    return np.asarray(powers(most)[ledger.above_threshold(within, 1.0, threshold)])
