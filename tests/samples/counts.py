"""Small datasets as counts and record by record."""

from __future__ import annotations

import numpy as np

from dpbench.samples import CountedSample, DenseSample
from tests.support import rng

ATOMS = [-3.5, -1.0, 0.0, 0.25, 2.0, 50.0]


def counted() -> CountedSample:
    return CountedSample(ATOMS, rng(1).multinomial(200, [0.05, 0.2, 0.4, 0.2, 0.1, 0.05], 7))


def expanded(sample: CountedSample) -> DenseSample:
    return DenseSample(np.stack([np.repeat(sample.atoms, row) for row in sample.counts]))
