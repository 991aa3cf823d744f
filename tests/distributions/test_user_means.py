"""Means of people with several records each."""

from __future__ import annotations

from typing import Literal

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import Bernoulli, Gaussian, StudentT, TwoPoint, UserMeans
from dpbench.samples import CountedSample, DenseSample


@pytest.mark.parametrize(("m", "p"), [(1, 0.3), (7, 0.2), (400, 1e-5), (100_000, 0.5)])
def test_counts_of_people_are_binomial(m: int, p: float) -> None:
    """Compare the table with scipy's, and a batch by a chi-square test (false alarm 1e-7)."""
    people, binomial = UserMeans(of=Bernoulli(p=p), m=m), stats.binom(m, p)
    values, shares, upper = people.table
    j = np.round(values * m)
    assert shares.sum() == pytest.approx(1, abs=1e-12)
    assert shares == pytest.approx(binomial.pmf(j), rel=1e-9, abs=1e-300)
    assert upper == pytest.approx(binomial.sf(j - 1), rel=1e-9, abs=1e-300)
    assert people.moment(2) == pytest.approx(p * (1 - p) / m, rel=1e-9)
    sample = people.sample(np.random.default_rng(0), 5, 20_000)
    assert isinstance(sample, CountedSample)
    assert (sample.trials, sample.n) == (5, 20_000)
    counts, expected = np.zeros(len(j)), 100_000 * shares
    counts[np.searchsorted(values, sample.atoms)] = sample.counts.sum(axis=0)
    few = np.cumsum(expected) // 50  # cells of some 50 people and more
    cells = [np.bincount(few.astype(int), x) for x in (counts, expected)]
    seen, wanted = (x[cells[1] > 5] for x in cells)
    assert ((seen - wanted) ** 2 / wanted).sum() < stats.chi2.isf(1e-7, max(len(seen) - 1, 1))


@pytest.mark.parametrize("sign", [-1, 1])
def test_rare_points_of_people(sign: Literal[-1, 1]) -> None:
    law = TwoPoint(p=0.01, k=3, sign=sign, location=2.0)
    people = UserMeans(of=law, m=30)
    values, shares, _ = people.table
    assert shares @ values == pytest.approx(law.mean)
    assert people.moment(2) == pytest.approx(law.variance / 30)


def test_means_of_drawn_records() -> None:
    """Compare variances of 40,000 means, by their fourth moments (false alarms 1e-7 each)."""
    for law in (Gaussian(scale=3.0, location=1.0), StudentT(tail_index=9.0, location=1.0)):
        people = UserMeans(of=law, m=40)
        sample = people.sample(np.random.default_rng(0), 2, 20_000)
        assert isinstance(sample, DenseSample)
        means = sample.values.ravel()
        away = (means - people.mean) ** 2
        assert abs(away.mean() - people.variance) < 5.4 * away.std() / 200
        assert people.variance == pytest.approx(law.variance / 40)
