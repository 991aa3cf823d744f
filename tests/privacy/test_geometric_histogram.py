"""Magnitudes against a loop, and the sparse vector technique against quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbench.privacy import Ledger, PureDP
from dpbench.privacy.geometric_histogram import (
    GeometricGrid,
    counts_along_line,
    magnitudes,
    private_bounds_by_sparse_vector,
)
from dpbench.privacy.ledger import ThresholdNoise
from dpbench.privacy.tape import Tape
from dpbench.samples import CountedSample, DenseSample
from tests.support import assert_frequencies, rng

Floats = NDArray[np.float64]


def test_magnitudes_are_those_of_a_loop() -> None:
    tiny, largest = 5e-324, np.finfo(float).max
    values = np.array([0, 1, 1.1, 2, -2, -2.1, 1e-310, -tiny, largest, -largest, 3.0, -0.4])
    centres = np.array([0.0, 1.0, -2.1])
    sizes = GeometricGrid().sizes
    assert np.array_equal(sizes, np.exp2(np.arange(-1000.0, 1001.0)))
    wanted = np.zeros((3, 2, len(sizes)))
    for row, centre in enumerate(centres):
        for x in values:
            away = min(max(float(x) - centre, -sizes[-1]), sizes[-1])
            wanted[row, int(away >= 0), int(np.argmax(abs(away) <= sizes))] += 1
    dense = DenseSample(np.tile(values, (3, 1)))
    assert np.array_equal(magnitudes(dense, centre=centres), wanted)
    assert np.array_equal(magnitudes(dense), np.repeat(wanted[:1], 3, axis=0))
    counted = CountedSample(np.sort(values), np.full((2, len(values)), 5))
    assert np.array_equal(magnitudes(counted, centre=centres[1:]), 5 * wanted[1:])


def law(
    counts: Floats, threshold: float, scale: float, noise: ThresholdNoise = "laplace"
) -> Floats:
    """Return the probability of every index, integrated over the noise of the threshold."""
    own = stats.laplace(scale=scale) if noise == "laplace" else stats.expon(scale=scale)
    t, step = np.linspace(
        0 if noise == "exponential" else -30 * scale, 30 * scale, 6_001, retstep=True
    )
    below = own.cdf(threshold + t[:, None] - counts)
    below[:, -1] = 0.0  # the last, if no other
    first = np.cumprod(np.hstack([np.ones((len(t), 1)), below[:, :-1]]), axis=1) * (1 - below)
    weights = own.pdf(t) * step
    weights[[0, -1]] /= 2  # trapezoid
    return np.asarray(weights @ first)


def steps_of_counts() -> list[tuple[Floats, Floats]]:
    """Return pairs of neighbours' counts, the smaller counts first."""
    few, at = np.repeat([9.0, 0.0, 20.0], [60, 1, 1]), np.arange(62)
    pieces = ((0, 60), (0, 61), (30, 60), (60, 61), (0, 62))
    return [(few, few + ((at >= start) & (at < end))) for start, end in pieces]


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_above_threshold_is_private_and_follows_its_law(noise: ThresholdNoise) -> None:
    """Check that the loss is at most epsilon and nearly attained, and check frequencies."""
    epsilon, threshold = 1.0, 10.0
    ratios = [
        np.log(law(few, threshold, 2 / epsilon, noise) / law(more, threshold, 2 / epsilon, noise))
        for few, more in steps_of_counts()
    ]
    # Past 60 of them the threshold is high, and the next count is far below it: the worst there is.
    assert 0.9 * epsilon <= np.abs(ratios).max() <= epsilon * (1 + 1e-4)
    ledger, few = Ledger(PureDP(epsilon), rng()), steps_of_counts()[0][0]
    found = ledger.above_threshold(np.tile(few, (20_000, 1)), 1.0, threshold, noise=noise)
    assert_frequencies(
        np.bincount(found, minlength=len(few)), law(few, threshold, 2 / epsilon, noise)
    )


@pytest.mark.parametrize("noise", ["laplace", "exponential"])
def test_two_opposite_lists_are_private_and_follow_their_law(noise: ThresholdNoise) -> None:
    """A record that raises one list lowers the other: two losses of 2/3 and 1/3 of epsilon.

    Two lists that a record moves in one direction would lose 4/3 of epsilon.
    """
    epsilon, threshold = 1.0, 10.0
    up, down = [], []
    for few, more in steps_of_counts():
        loss = np.log(
            law(few, threshold, 3 / epsilon, noise) / law(more, threshold, 3 / epsilon, noise)
        )
        up.append(loss.max())  # of the list whose counts rise
        down.append(-loss.min())  # of the list whose counts fall
    assert 0.9 * epsilon <= max(up) + max(down) <= epsilon * (1 + 1e-4)
    assert 2 * max(*up, *down) > 1.2 * epsilon
    few, more = steps_of_counts()[1]
    ledger = Ledger(PureDP(epsilon), rng())
    lists = tuple(np.tile(counts, (20_000, 1)) for counts in (few, more))
    found = ledger.above_opposite_thresholds((lists[0], lists[1]), 1.0, threshold, noise=noise)
    for chosen, counts in zip(found.T, (few, more), strict=True):
        assert_frequencies(
            np.bincount(chosen, minlength=len(few)), law(counts, threshold, 3 / epsilon, noise)
        )
    assert abs(np.asarray(np.corrcoef(found.T))[0, 1]) < 5 / np.sqrt(20_000)  # false alarms 6e-7


GRID = GeometricGrid(1, 9, 1.5, 0.5, offset=1.0)


def test_counts_along_the_line_are_those_of_a_loop() -> None:
    edges = np.concatenate([-GRID.sizes[::-1], [0.0], GRID.sizes])
    assert GRID.sizes[:2] == pytest.approx([0.25, 0.625])
    values = np.concatenate([rng().normal(0, 4, 50), edges, [-1e300, 1e300, 0.0]])
    wanted = np.zeros(18)
    for x in values:
        near = min(max(x, edges[0]), edges[-1])
        # Bins are open towards 0, except for the first bin at or above 0.
        inside = (
            (edges[:-1] < near) & (near <= edges[1:])
            if x > 0
            else ((edges[:-1] <= near) & (near < edges[1:]))
        )
        wanted[int(np.argmax(inside))] += 1
    found_edges, found = counts_along_line(DenseSample(values[None]), GRID)
    assert np.array_equal(found_edges, edges)
    assert np.array_equal(found, wanted[None])


def test_bounds_without_noise_leave_out_the_given_number() -> None:
    """At a huge epsilon the bounds are the first edges with at most 3 records beyond."""
    x = rng(2).normal(3, 2, 400)
    edges, _ = counts_along_line(DenseSample(x[None]), GRID)
    low, high = private_bounds_by_sparse_vector(
        DenseSample(x[None]), GRID, 3.0, Ledger(PureDP(1e6), rng())
    )
    assert high == min(e for e in edges if np.sum(x > e) <= 3)
    assert low == max(e for e in edges if np.sum(x < e) <= 3)


def test_a_replaced_record_moves_the_two_lists_in_opposite_directions() -> None:
    tape, x = list[Floats](), np.array([-7.0, -0.3, 0.0, 0.6, 2.0, 9.0])
    for row in (x, *(np.where(np.arange(6) == i, y, x) for i in range(6) for y in (*x, 1.0, 1e9))):
        steps = Tape()
        ledger = Ledger(PureDP(1.0), rng(), tape=steps)
        private_bounds_by_sparse_vector(DenseSample(row[None]), GRID, 1.0, ledger)
        (step,) = [step for step in steps.steps if step.mechanism == "above_threshold"]
        tape.append(np.asarray(step.values)[0])
    for counts in tape[1:]:
        up, down = np.split(counts - tape[0], 2)
        assert np.abs(counts - tape[0]).max() <= 1
        assert (up.min() >= 0 and down.max() <= 0) or (up.max() <= 0 and down.min() >= 0)
