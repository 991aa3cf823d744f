"""People with several records each: their means, the estimator, and the lower bound."""

from __future__ import annotations

import math
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from dpbench import ZCDP, PureDP
from dpbench.distributions import Bernoulli, Gaussian, People, StudentT, TwoPoint
from dpbench.estimators import PersonMean
from dpbench.privacy import Budget, Ledger
from dpbench.samples import CountedSample, DenseSample
from dpbench.theory.bounds.numbers import indistinguishable, two_point_lower_bound
from dpbench.theory.bounds.of_class import of_people
from dpbench.theory.exact.value import exact
from dpbench.theory.families import TwoPointFamily


@pytest.mark.parametrize(("m", "p"), [(1, 0.3), (7, 0.2), (400, 1e-5), (100_000, 0.5)])
def test_counts_of_people_are_binomial(m: int, p: float) -> None:
    """The table against scipy's, and a batch by a chi-square test (false alarm 1e-7)."""
    people, binomial = People(of=Bernoulli(p=p), m=m), stats.binom(m, p)
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
    people = People(of=law, m=30)
    values, shares, _ = people.table
    assert shares @ values == pytest.approx(law.mean)
    assert people.moment(2) == pytest.approx(law.variance / 30)


def test_means_of_drawn_records() -> None:
    """Variances of 40,000 means, by their fourth moments: false alarms 1e-7 each."""
    for law in (Gaussian(scale=3.0, location=1.0), StudentT(tail_index=9.0, location=1.0)):
        people = People(of=law, m=40)
        sample = people.sample(np.random.default_rng(0), 2, 20_000)
        assert isinstance(sample, DenseSample)
        means = sample.values.ravel()
        away = (means - people.mean) ** 2
        assert abs(away.mean() - people.variance) < 5.4 * away.std() / 200
        assert people.variance == pytest.approx(law.variance / 40)


CASES = [(2, 16, 10**6, 0.001), (6, 256, 10**6, 0.001), (4, 3, 10**8, 0.1), (3, 1, 10**5, 0.1)]


@pytest.mark.parametrize(("k", "m", "n", "epsilon"), CASES)
@pytest.mark.parametrize("notion", [PureDP, ZCDP])
def test_people_err_as_computed(
    k: float, m: int, n: int, epsilon: float, notion: type[Budget]
) -> None:
    """By the share of errors below the 0.9 quantile; false alarms 1e-6 over the cases.

    Noise, or a clip, that is half as large gives another share.
    """
    budget = PureDP(epsilon) if notion is PureDP else ZCDP(epsilon**2 / 2)
    estimator = PersonMean(k=k, m=m, radius=5)
    family = TwoPointFamily(k=k, c=[1], m=m, sampling=True)
    for name, law in family.members("f", n, budget).items():
        if name not in ("f/c=1", "f/coin"):
            continue
        rng = np.random.default_rng(0)
        found = estimator.run(law.sample(rng, 2000, n), Ledger(budget, rng)).value
        quantile = exact("q90", estimator, law, n, budget)
        within = int(np.count_nonzero(np.abs(found - float(law.mean)) <= quantile))
        assert stats.binomtest(within, 2000, 0.9).pvalue > 1e-6 / 16, name


def test_the_exponents_in_m() -> None:
    """1/2 where the clip is that of normal means, 1 where one record shows, k/(k-1) in alpha."""
    budget = PureDP(1.0)

    def noise(n: int, m: int, k: float) -> float:
        return PersonMean(k=k, m=m, radius=0).half_width(n, budget) / n

    light = noise(10**5, 10**6, 6) / noise(10**5, 250_000, 6)
    assert light == pytest.approx(1 / 2)
    for k in (2, 3):
        heavy = noise(10**12, 4, k) / noise(10**12, 1, k)
        assert heavy == pytest.approx(4 ** (-(k - 1) / k), rel=2e-3)
        assert noise(10**14, 1, k) / noise(10**12, 1, k) == pytest.approx(
            100 ** (-(k - 1) / k), rel=2e-3
        )


def test_the_lower_bound_of_people() -> None:
    """With one record it is the one of records; the laws of one person are t apart."""
    budget, n, k = PureDP(0.01), 10**5, 6.0
    t = indistinguishable(n, budget)
    assert of_people(n, 1, k, budget, False).value == pytest.approx(
        two_point_lower_bound(n, k, budget).alpha
    )
    for m in (1, 6, 7, 4096):
        bound = of_people(n, m, k, budget, False)
        if bound.by == "two laws":
            p = 1 - (1 - t) ** (1 / m)
            assert bound.value == pytest.approx(p * TwoPoint(p=p, k=k).tau, rel=1e-9)
            continue
        # Of a coin that errs by h tau: what is the distance of its counts?
        h = next(
            h
            for h in np.geomspace(1e-9, 0.4, 4000)
            if h * TwoPoint(p=0.5 + h, k=k).tau >= bound.value
        )
        j = np.arange(m + 1)
        apart = np.abs(stats.binom.pmf(j, m, 0.5 + h) - stats.binom.pmf(j, m, 0.5 - h)).sum() / 2
        assert apart == pytest.approx(t, rel=6e-3)
    assert of_people(n, 4096, k, budget, False).by == "two coins"
    assert of_people(10, 4, k, budget, True).value == math.inf
