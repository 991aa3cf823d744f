"""Votes and coins: exact distributions of few records, moments of 1e12."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats

from dpbench.arrays import Floats
from dpbench.estimators.local_votes import graded_votes, three_values
from dpbench.privacy import GDP, PureDP
from dpbench.privacy.local import count_heads, sum_votes
from dpbench.samples import CountedSample, DenseSample, Sample
from tests.support import FALSE_ALARM, rng


def vote(sample: Sample, low: float, high: float, bound: float = 1.0) -> Floats:
    """Draw votes of one grade."""
    return sum_votes(sample, bound, np.array([low]), np.array([high]), np.ones(1), rng())


def test_votes_are_unbiased_and_vary_as_they_should() -> None:
    """Compare with the exact distribution for few records, and with its moments for 1e12."""
    few, low, high = np.array([-3.0, 0.2, 0.2, 0.0]), 0.1, 0.4
    dense = DenseSample(np.broadcast_to(few, (40_000, 4)))
    counted = CountedSample([-3, 0.0, 0.2], [[1, 1, 2]] * 40_000)
    law = np.ones(1)
    for x in np.clip(few, -1, 1):
        up, down = low + (high - low) * max(x, 0), low + (high - low) * max(-x, 0)
        law = np.convolve(law, [down, 1 - up - down, up])
    for sample in (dense, counted):
        found = np.bincount(vote(sample, low, high).astype(int) + 4, minlength=9)
        assert stats.chisquare(found, law * 40_000).pvalue > FALSE_ALARM
    many = CountedSample([0.0, 0.5], [[10**12 - 10**6, 10**6]] * 1000)
    # a z-test with false-alarm probability 1e-6
    z = (vote(many, low, high) - 0.15e6) / math.sqrt(0.2e12)
    assert abs(z.mean()) <= stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(1000)
    # The probability of up votes rounds to 1, so down votes have none.
    low, high = three_values(PureDP(50.0))
    assert high == 1
    assert vote(CountedSample([-9.0, 9.0], [[3, 5]]), low, high) == 2


def test_grades_have_their_probabilities_and_values() -> None:
    """Two grades of the values 1 and 10 show in the digits of the sum of two records."""
    low, high, weights = np.array([0.1, 0.05]), np.array([0.15, 0.35]), np.array([1.0, 10.0])
    law: dict[int, float] = {0: 1.0}
    for x in (0.4, -2.0):
        y = max(-1.0, min(x, 1.0))
        ups, downs = (low + (high - low) * max(s * y, 0) for s in (1, -1))
        one = {0: 1 - sum(ups) - sum(downs), 1: ups[0], -1: downs[0], 10: ups[1], -10: downs[1]}
        pairs = [(a + b, p * q) for a, p in law.items() for b, q in one.items()]
        law = {value: sum(p for v, p in pairs if v == value) for value, _ in pairs}
    values = sorted(law)
    for sample in (
        DenseSample(np.broadcast_to([0.4, -2.0], (40_000, 2))),
        CountedSample([-2.0, 0.4], [[1, 1]] * 40_000),
    ):
        drawn = np.round(sum_votes(sample, 1.0, low, high, weights, rng())).astype(int)
        found = [np.count_nonzero(drawn == value) for value in values]
        assert sum(found) == 40_000
        expected = np.array([law[value] for value in values]) * 40_000
        assert stats.chisquare(found, expected).pvalue > FALSE_ALARM
    votes = graded_votes(GDP(1.0))
    many = CountedSample([0.0, 0.5], [[10**12 - 10**9, 10**9]] * 400)
    z = sum_votes(many, 1.0, *votes, rng()) / votes.slope - 0.5e9
    z /= math.sqrt(1e12) * votes.typical_sd(0.0)
    assert abs(z.mean()) <= stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(400)
    assert z.std() == pytest.approx(1, rel=0.2)


def test_as_many_coins_fall_heads_in_counted_data() -> None:
    """Compare with the exact distribution for few records, and with its moments for 1e12."""
    few, counted = (
        np.array([-3.0, 0.2, 0.2, 0.9]),
        CountedSample([-3, 0.2, 0.9], [[1, 2, 1]] * 40_000),
    )
    dense = DenseSample(np.broadcast_to(few, (40_000, 4)))
    law = np.ones(1)
    for x in np.clip(few, -1, 1):
        law = np.convolve(law, [(1 - 0.4 * x) / 2, (1 + 0.4 * x) / 2])
    for sample in (dense, counted):
        found = np.bincount(count_heads(sample, 1.0, 0.4, rng()).astype(int), minlength=5)
        assert stats.chisquare(found, law * 40_000).pvalue > FALSE_ALARM
    many = count_heads(CountedSample([0.0, 0.5], [[10**12 - 10**6, 10**6]] * 1000), 1.0, 0.5, rng())
    # a z-test with false-alarm probability 1e-6
    z = (many - 0.5e12 - 0.125e6) / 0.5e6
    assert abs(z.mean()) <= stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(1000)
