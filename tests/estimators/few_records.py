"""Small datasets as dense and as counted samples."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from dpbench.samples import CountedSample, DenseSample, Sample

Floats = NDArray[np.float64]


def samples(x: Floats) -> list[Sample]:
    """Return the datasets x, (trials, n), as a dense sample and as a counted sample."""
    atoms = np.unique(x)
    return [DenseSample(x), CountedSample(atoms, (x[:, :, None] == atoms).sum(axis=1))]
