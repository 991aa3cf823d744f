"""Tests of the unbiased mean: its random bins, its threshold and its clip."""

from __future__ import annotations

import numpy as np
from scipy import stats

from dpbench.estimators import UnbiasedMean
from dpbench.privacy import ApproxDP, Ledger
from dpbench.privacy.tape import Tape
from dpbench.samples import DenseSample
from tests.support import rng, run


def test_only_random_bins_are_without_bias() -> None:
    """z-tests over 20000 releases: false alarms 1e-6; a bias of 0.015 is 14 standard errors."""
    x = rng(1).normal(0.25, 1.0, (20_000, 400))
    z = []
    for random_bins in (True, False):
        estimate = run(
            UnbiasedMean(clip=1.0, random_bins=random_bins, sigma=1), x, ApproxDP(1.0, 1 / 4000)
        )
        error = estimate.value - 0.25
        z.append(float(error.mean() / stats.sem(error)))
    assert abs(z[0]) < stats.norm.isf(5e-7)
    assert z[1] < -10


def test_no_release_without_a_full_bin() -> None:
    """A histogram of 16 records has its threshold at 1 + 2 ln(1/(2 delta)) = 27."""
    estimate = run(UnbiasedMean(sigma=1), np.zeros((100, 64)), ApproxDP(1.0, 1e-6))
    assert np.isnan(estimate.value).mean() > 0.9  # a release has probability e^(-11/2)/2


def test_the_clip_reaches_over_its_bin() -> None:
    """Some record is clipped with probability at most beta if the centre is within sigma of mu."""
    tape, n, beta = Tape(), 400, 0.1
    ledger = Ledger(ApproxDP(20.0, 1e-3), rng(), tape=tape)
    UnbiasedMean(sigma=2.0, beta=beta).run(DenseSample(np.zeros((1, n))), ledger)
    clip = float(tape.steps[-1].sensitivity["l2"]) * 300 / 2  # three quarters are averaged
    assert 2 * n * stats.norm.sf(clip / 2 - 1) <= beta
