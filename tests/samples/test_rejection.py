"""Cuts of large counted data, whose rejection sampler is not the one of small data."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support import assert_frequencies, rng

from dpbench.samples import CountedSample

TOTAL = 10**9  # where numpy's own sampler ends


@pytest.mark.parametrize("share", [0.5, 0.3, 0.8])
def test_few_marked_records_among_many_are_hypergeometric(share: float) -> None:
    """In exact whole numbers: C(20, x) (drawn)_x (rest)_(20-x) / (total)_20."""
    marked, drawn, trials = 20, int(share * TOTAL), 100_000
    sample = CountedSample([0.0, 1.0], np.tile([TOTAL - marked, marked], (trials, 1)))
    part, _ = sample.split([drawn, TOTAL - drawn], rng(1))
    ways = [
        math.comb(marked, x) * math.perm(drawn, x) * math.perm(TOTAL - drawn, marked - x)
        for x in range(marked + 1)
    ]
    law = [way / math.perm(TOTAL, marked) for way in ways]
    assert_frequencies(np.bincount(part.counts[:, 1], minlength=marked + 1), law)
