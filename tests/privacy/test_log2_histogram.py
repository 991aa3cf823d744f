"""Magnitudes against a loop, and the sparse vector technique against quadrature."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from dpbench.privacy import Ledger, PureDP
from dpbench.privacy.log2_histogram import magnitudes, powers
from dpbench.samples import CountedSample, DenseSample
from tests.support import assert_frequencies, rng

Floats = NDArray[np.float64]


def test_magnitudes_are_those_of_a_loop() -> None:
    tiny, largest = 5e-324, np.finfo(float).max
    values = np.array([0, 1, 1.1, 2, -2, -2.1, 1e-310, -tiny, largest, -largest, 3.0, -0.4])
    centres = np.array([0.0, 1.0, -2.1])
    sizes = powers(1000)
    wanted = np.zeros((3, 2, len(sizes)))
    for row, centre in enumerate(centres):
        for x in values:
            away = min(max(float(x) - centre, -sizes[-1]), sizes[-1])
            wanted[row, int(away >= 0), int(np.argmax(abs(away) <= sizes))] += 1
    dense = DenseSample(np.tile(values, (3, 1)))
    assert np.array_equal(magnitudes(dense, centres), wanted)
    assert np.array_equal(magnitudes(dense), np.repeat(wanted[:1], 3, axis=0))
    counted = CountedSample(np.sort(values), np.full((2, len(values)), 5))
    assert np.array_equal(magnitudes(counted, centres[1:]), 5 * wanted[1:])


def law(counts: Floats, threshold: float, epsilon: float) -> Floats:
    """Return the probability of every index, integrated over the noise of the threshold."""
    noise = stats.laplace(scale=2 / epsilon)
    t, step = np.linspace(-60 / epsilon, 60 / epsilon, 20_001, retstep=True)
    below = noise.cdf(threshold + t[:, None] - counts)
    below[:, -1] = 0.0  # the last, if no other
    first = np.cumprod(np.hstack([np.ones((len(t), 1)), below[:, :-1]]), axis=1) * (1 - below)
    return np.asarray(step * noise.pdf(t) @ first)


def test_above_threshold_is_private_and_follows_its_law() -> None:
    """Check that the loss is at most epsilon and nearly attained, and check frequencies."""
    epsilon, threshold = 1.0, 10.0
    few, at = np.repeat([9.0, 0.0, 20.0], [60, 1, 1]), np.arange(62)
    ratios = []
    for start, end in ((0, 60), (0, 61), (30, 60), (60, 61), (0, 62)):
        more = few + ((at >= start) & (at < end))
        ratios.append(np.log(law(few, threshold, epsilon) / law(more, threshold, epsilon)))
    # Past 60 of them the threshold is high, and the next count is far below it: the worst there is.
    assert 0.95 * epsilon <= np.abs(ratios).max() <= epsilon * (1 + 1e-6)
    ledger = Ledger(PureDP(epsilon), rng())
    found = ledger.above_threshold(np.tile(few, (20_000, 1)), 1.0, threshold)
    assert_frequencies(np.bincount(found, minlength=len(few)), law(few, threshold, epsilon))
