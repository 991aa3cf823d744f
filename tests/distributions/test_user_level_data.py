"""Means of people with several records each."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import (
    Bernoulli,
    BoundedZipf,
    Distribution,
    Gaussian,
    StudentT,
    TwoPoint,
    UserLevelData,
)
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample, PeopleSample


@pytest.mark.parametrize(("m", "p"), [(1, 0.3), (7, 0.2), (400, 1e-5), (100_000, 0.5)])
def test_counts_of_people_are_binomial(m: int, p: float) -> None:
    """Compare the table with scipy's, and a batch by a chi-square test (false alarm 1e-7)."""
    people, binomial = UserLevelData(of=Bernoulli(p=p), m=m), stats.binom(m, p)
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
    people = UserLevelData(of=law, m=30)
    values, shares, _ = people.table
    assert shares @ values == pytest.approx(law.mean)
    assert people.moment(2) == pytest.approx(law.variance / 30)


def test_means_of_drawn_records() -> None:
    """Compare variances of 40,000 means, by their fourth moments (false alarms 1e-7 each)."""
    for law in (Gaussian(scale=3.0, location=1.0), StudentT(tail_index=9.0, location=1.0)):
        people = UserLevelData(of=law, m=40)
        sample = people.sample(np.random.default_rng(0), 2, 20_000)
        assert isinstance(sample, DenseSample)
        means = sample.values.ravel()
        away = (means - people.mean) ** 2
        assert abs(away.mean() - people.variance) < 5.4 * away.std() / 200
        assert people.variance == pytest.approx(law.variance / 40)


ZIPF = BoundedZipf(exponent=1.2, largest=30)


@pytest.mark.parametrize(
    ("of", "between"),
    [
        (Gaussian(location=1.0, scale=3.0), None),
        (Gaussian(location=1.0, scale=3.0), Gaussian(location=0.5, scale=2.0)),
        (StudentT(tail_index=9.0, location=1.0), None),
        (Bernoulli(p=0.3), None),
        (TwoPoint(p=0.2, k=3, sign=-1, location=2.0), None),
    ],
)
def test_people_with_unequal_numbers(of: Distribution, between: Distribution | None) -> None:
    """Compare numbers, means and variances of 40,000 people (false alarms 1e-7 each)."""
    people = UserLevelData(of=of, m=ZIPF, between=between)
    sample = people.sample(np.random.default_rng(0), 2, 20_000)
    assert isinstance(sample, PeopleSample)
    sizes, (numbers, probabilities) = sample.sizes.ravel(), people.numbers
    assert abs(sizes.mean() - ZIPF.mean) < 5.4 * np.sqrt(ZIPF.variance / 40_000)
    means = sample.values.ravel()
    assert abs(means.mean() - people.mean) < 5.4 * np.sqrt(people.variance / 40_000)
    away = (means - people.mean) ** 2
    assert abs(away.mean() - people.variance) < 5.4 * away.std() / 200
    effects = between.variance if between else 0.0
    expected = effects + of.variance * (probabilities / numbers).sum()
    assert people.variance == pytest.approx(expected)
    assert people.target == pytest.approx(float(of.target) + (0.5 if between else 0.0))
    first = (sample.kept_means(1).ravel() - people.mean) ** 2
    assert abs(first.mean() - effects - of.variance) < 5.4 * first.std() / 200


def test_equal_numbers_with_effects_keep_all_records() -> None:
    people = UserLevelData(of=Gaussian(), m=5, between=Gaussian(scale=2.0))
    sample = people.sample(np.random.default_rng(0), 2, 10)
    assert isinstance(sample, PeopleSample)
    assert (sample.sizes == 5).all()
    assert people.variance == pytest.approx(4.2)
    assert people.held(10) == 70


def test_numbers_from_a_file(tmp_path: Path) -> None:
    (tmp_path / "n.csv").write_text("visits,share\n1,0.5\n4,0.5\n4,1\n2,1\n")
    column = {"kind": "empirical", "path": str(tmp_path / "n.csv"), "column": "visits"}
    people = UserLevelData(of={"kind": "bernoulli", "p": 0.5}, m=column)
    assert [part.tolist() for part in people.numbers] == [[1, 2, 4], [0.25, 0.25, 0.5]]
    sample = people.sample(np.random.default_rng(0), 1, 50)
    assert isinstance(sample, PeopleSample)
    assert set(sample.sizes.ravel()) == {1, 2, 4}
    with pytest.raises(ConfigError, match="give a whole number"):
        UserLevelData(of=Gaussian(), m={**column, "column": "share"})


@pytest.mark.parametrize("m", [0, 2.5, True, 10**7, "many", Gaussian(), None])
def test_a_wrong_number_is_refused(m: object) -> None:
    with pytest.raises(ConfigError, match="m"):
        UserLevelData(of=Gaussian(), m=m)


def test_effects_need_continuous_records() -> None:
    with pytest.raises(ConfigError, match="continuous records"):
        UserLevelData(of=Bernoulli(p=0.5), m=3, between=Gaussian())
    with pytest.raises(ConfigError, match="between"):
        UserLevelData(of=Gaussian(), m=3, between=Bernoulli(p=0.5))
