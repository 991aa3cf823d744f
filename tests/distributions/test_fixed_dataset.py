"""A fixed dataset: equal in all trials and processes, with its own mean as the target."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench.distributions import Bernoulli, FixedDataset, Gaussian, MultivariateGaussian
from tests.support import rng


def test_all_trials_have_the_dataset_of_its_number() -> None:
    law = FixedDataset(of=Gaussian(location=3, scale=2))
    samples = [law.sample(rng(seed), 4, 1000) for seed in (0, 1)]
    records = law.records(1000)
    for sample in samples:
        assert np.array_equal(sample.values, np.tile(records, (4, 1)))
        assert law.target_of(sample) == pytest.approx(np.full(4, records.mean()), rel=1e-13)
    assert not records.flags.writeable
    assert records.mean() == pytest.approx(3, abs=0.4)  # 6 standard deviations
    other = FixedDataset(of=Gaussian(location=3, scale=2), number=1).records(1000)
    assert not np.isin(other, records).any()
    assert not np.isin(law.records(999), records).any()  # drawn anew for every n


def test_counts_become_records() -> None:
    assert set(FixedDataset(of=Bernoulli(p=0.3)).records(200)) == {0.0, 1.0}
    assert (FixedDataset(of=Bernoulli(p=0.3)).mean, FixedDataset(of=Gaussian()).moment(2)) == (
        0.3,
        1,
    )


def test_what_is_refused() -> None:
    with pytest.raises(ValueError, match="give a distribution of numbers"):
        FixedDataset(of=MultivariateGaussian(d=2))
    with pytest.raises(ValueError, match="at most 10000000 records"):
        FixedDataset(of=Gaussian()).records(10**7 + 1)
