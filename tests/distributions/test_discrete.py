"""Distributions on two points against their definitions."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import Bernoulli, TwoPoint
from dpbench.samples import CountedSample
from tests.support import BIG, assert_frequencies, assert_standard, rng


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 1.0])
def test_bernoulli_moments(p: float) -> None:
    law = Bernoulli(p=p)
    assert law.mean == p
    for k in (2, 3.7):
        assert law.moment(k) == pytest.approx(p * (1 - p) ** k + (1 - p) * p**k, rel=1e-13, abs=0)


@pytest.mark.parametrize(
    ("p", "k", "sign"), [(1e-12, 2, 1), (0.3, 2.5, -1), (0.97, 6, 1), (1e-12, 6, -1)]
)
def test_two_point_laws(p: float, k: float, sign: Any) -> None:
    law = TwoPoint(p=p, k=k, sign=sign, location=0.25)
    tau = law.tau
    assert law.moment(k) == pytest.approx(1.0, rel=1e-12, abs=0)
    assert law.mean == pytest.approx(0.25 + sign * p * tau, rel=1e-14, abs=0)
    for order in (k, 3.3):
        wanted = p * ((1 - p) * tau) ** order + (1 - p) * (p * tau) ** order
        assert law.moment(order) == pytest.approx(wanted, rel=1e-12, abs=0)
    sample = law.sample(rng(), 3, 1000)
    assert sample.atoms.tolist() == sorted([0.25, 0.25 + sign * tau])
    mirrored = TwoPoint(p=p, k=k, sign=-sign, location=0.25).sample(rng(), 3, 1000)
    np.testing.assert_array_equal(sample.counts, mirrored.counts[:, ::-1])


def test_a_two_point_law_that_is_a_point() -> None:
    law = TwoPoint(p=0.0, k=2, location=3.0)
    assert (law.tau, law.mean, law.moment(2), law.variance) == (0.0, 3.0, 0.0, 0.0)
    assert law.sample(rng(), 4, BIG).mean().tolist() == [3.0] * 4


@pytest.mark.parametrize("law", [Bernoulli(p=0.03), TwoPoint(p=0.03, k=2), Bernoulli(p=1e-5)])
def test_counts_are_binomial(law: Any) -> None:
    sample = law.sample(rng(3), 50_000, 40)
    assert isinstance(sample, CountedSample)
    found = np.bincount(sample.counts[:, 1], minlength=41)
    assert_frequencies(found, stats.binom.pmf(np.arange(41), 40, law.p))
    large = law.sample(rng(9), 5000, BIG)
    assert_standard((large.mean() - law.mean) / math.sqrt(law.variance / BIG))
