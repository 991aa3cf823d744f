"""Bootstrap replicates of a quantile, by independent routes."""

from __future__ import annotations

import numpy as np
from scipy.stats import binom

from dpbench.analysis.resample import quantile_replicates

FALSE_ALARM = 1e-6
DRAWS = 20_000


def test_replicates_of_a_quantile_have_their_law() -> None:
    """Enumerated: at most rank r iff at least 36 of 40 resampled trials are, Bin(40, r/40).

    By the inequality of Dvoretzky, Kiefer and Wolfowitz a false alarm has probability 1e-6.
    """
    trials, rng = 40, np.random.default_rng(0)
    ranks = np.arange(1.0, trials + 1)
    draws = quantile_replicates(np.stack([ranks, ranks]), 0.9, rng, DRAWS)
    wanted = binom.sf(35, trials, ranks / trials)
    found = (draws[:, :, None] <= ranks).mean(axis=1)
    assert np.abs(found - wanted).max() < np.sqrt(np.log(4 / FALSE_ALARM) / (2 * DRAWS))
    assert (draws[0] != draws[1]).any()


def test_one_row_and_several_draw_alike() -> None:
    values = np.sort(np.random.default_rng(1).normal(size=(3, 50)))
    together = quantile_replicates(values, 0.5, np.random.default_rng(2), 100)
    rng = np.random.default_rng(2)
    assert [quantile_replicates(one, 0.5, rng, 100).tolist() for one in values] == together.tolist()
