"""A mean without bias: where its bins begin, and when it releases nothing."""

from __future__ import annotations

import numpy as np
from scipy import stats

from dpbench.estimators import UnbiasedMean
from dpbench.privacy import ApproxDP
from tests.support import rng, run


def test_only_random_bins_are_without_bias() -> None:
    """z-tests over 20000 releases: a false alarm of 1e-6, a bias of 0.015 is 14 standard errors."""
    x = rng(1).normal(0.25, 1.0, (20_000, 400))
    z = []
    for random_bins in (True, False):
        found = run(UnbiasedMean(clip=1.0, random_bins=random_bins), x, ApproxDP(1.0, 1 / 4000))
        error = found.value - 0.25
        z.append(float(error.mean() / stats.sem(error)))
    assert abs(z[0]) < stats.norm.isf(5e-7)
    assert z[1] < -10


def test_no_release_without_a_full_bin() -> None:
    """A histogram of 16 records has its threshold at 1 + 2 ln(1/(2 delta)) = 27."""
    found = run(UnbiasedMean(), np.zeros((100, 64)), ApproxDP(1.0, 1e-6))
    assert np.isnan(found.value).mean() > 0.9  # each with probability e^(-11/2)/2 otherwise
