"""The noisy search against enumeration, and the mean in a ball against a loop."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy import stats
from scipy.special import ndtr

from dpbench.privacy import GDP, ZCDP, Budget, Ledger
from dpbench.privacy.noisy_search import (
    clipped_mean_at_private_radius,
    private_quantile_by_bisection,
)
from dpbench.theory.exact.ball_searches import search_distribution
from tests.support import Floats, assert_follows, assert_frequencies, rng

ROW = np.array([0.1, 0.2, 0.2, 0.3, 0.6, 0.7, 2.0])
STEPS = 3


def law_of(rank: float, sd: float) -> Floats:
    """Return the probabilities of the eight cells of [0, 1], over all answers of a search."""
    found = np.zeros(2**STEPS)
    for answers in itertools.product([False, True], repeat=STEPS):
        low, high, chance = 0.0, 1.0, 1.0
        for up in answers:
            middle = (low + high) / 2
            above = ndtr((rank - np.count_nonzero(middle > ROW)) / sd)
            chance *= above if up else 1 - above
            low, high = (middle, high) if up else (low, middle)
        found[round(low * 2**STEPS)] = chance
    return found


@pytest.mark.parametrize("budget", [ZCDP(0.5), GDP(1.0)], ids=str)
@pytest.mark.parametrize("d", [0, 4])
def test_what_a_search_finds_is_as_enumerated(budget: Budget, d: int) -> None:
    """Compare frequencies, which detect half or twice the noise, or the noise of one coordinate."""
    shape = (20_000, d) if d else (20_000,)
    found = private_quantile_by_bisection(
        lambda points: np.sum(points[..., None] > ROW, axis=-1).astype(float),
        3.0, np.zeros(shape), 1.0, STEPS, Ledger(budget, rng(3)),
    )  # fmt: skip
    law = law_of(3.0, np.sqrt(STEPS * max(d, 1)))  # rho = 1/2: N(0, steps d/(2 rho)) on a count
    first = found[:, 0] if d else found
    assert_frequencies(np.bincount(np.floor(first * 2**STEPS).astype(int), minlength=8), law)


def test_the_law_of_a_search() -> None:
    def up(points: Floats) -> Floats:
        return np.asarray(ndtr((3.0 - np.sum(points[:, None] > ROW, axis=1)) / 2.0))

    points, chances = search_distribution(up, 1.0, STEPS)
    order = np.argsort(points)
    np.testing.assert_allclose(points[order], (np.arange(8) + 0.5) / 8)
    np.testing.assert_allclose(chances[order], law_of(3.0, 2.0), rtol=1e-12)


def test_the_mean_in_a_ball() -> None:
    """Compare with a loop over records with multiplicity; the noise has sensitivity 2C/n."""
    offset = rng().standard_normal((1, 30, 3)) * np.array([1, 5, 0.2])
    held = rng(1).integers(0, 4, (1, 30)).astype(float)
    records = np.repeat(offset[0], held[0].astype(int), axis=0)
    n, rank = len(records), len(records) - 6
    largest = np.sort(np.linalg.norm(records, axis=1))[rank - 1]
    wanted = np.mean([x * min(1, largest / np.linalg.norm(x)) for x in records], axis=0)
    trials = 5000
    offset, held = np.repeat(offset, trials, axis=0), np.repeat(held, trials, axis=0)
    sure = Ledger(ZCDP(1e6), rng(2))
    noisy, clipped = clipped_mean_at_private_radius(
        offset, held, rank - 0.5, np.full(trials, 100.0), 40, sure, Ledger(ZCDP(0.5), rng(3))
    )
    np.testing.assert_allclose(clipped, np.repeat(wanted[None], trials, axis=0), atol=1e-6)
    assert_follows((noisy - clipped) * n / (2 * largest), stats.norm)
