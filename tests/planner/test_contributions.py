"""Tests of the choice of a cap."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench import PureDP
from dpbench.distributions import BoundedZipf, Gaussian, StudentT, UserLevelData
from dpbench.estimators import BoundedContributionMean
from dpbench.planner import best_cap
from dpbench.registry import ConfigError

PEOPLE = UserLevelData(
    of=Gaussian(location=0.4, scale=0.1), m=BoundedZipf(exponent=1.5, largest=200)
)
MEAN = BoundedContributionMean(lower=0, upper=1, cap=1)


def test_the_best_cap_grows_with_n_and_balances_sampling_and_noise() -> None:
    choices = [best_cap(MEAN, PEOPLE, n, PureDP(1.0)) for n in (100, 3000, 10**5)]
    assert [choice.cap for choice in choices] == sorted({choice.cap for choice in choices})
    assert choices[0].cap == 1
    middle = choices[1]
    assert middle.rmse == middle.errors["rmse"].min()
    assert middle.errors["sampling"].is_monotonic_decreasing
    assert middle.errors["noise"].is_monotonic_increasing
    parts = (middle.errors[["bias", "sampling", "noise"]] ** 2).sum(axis=1)
    assert np.sqrt(parts).to_numpy() == pytest.approx(middle.errors["rmse"].to_numpy())


def test_a_law_without_a_known_error_is_refused() -> None:
    tails = UserLevelData(of=StudentT(tail_index=4.0), m=BoundedZipf(exponent=1, largest=5))
    with pytest.raises(ConfigError, match="no error is known"):
        best_cap(MEAN, tails, 1000, PureDP(1.0))
    with pytest.raises(
        ConfigError,
        match=r"law: of type Gaussian: not a distribution of people; write UserLevelData",
    ):
        best_cap(MEAN, Gaussian(), 1000, PureDP(1.0))  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="n: 0: too small; write at least 1"):
        best_cap(MEAN, PEOPLE, 0, PureDP(1.0))


def test_every_cap_up_to_the_largest_number_of_records_is_tried() -> None:
    """With so many people that noise is nothing, no record is dropped."""
    people = UserLevelData(
        of=Gaussian(location=0.4, scale=0.1), m=BoundedZipf(exponent=1.5, largest=5)
    )
    choice = best_cap(MEAN, people, 10**9, PureDP(1.0))
    assert choice.errors["cap"].tolist() == [1, 2, 3, 4, 5]
    assert choice.cap == 5


def test_about_32_caps_are_tried_to_each_factor_of_10_beyond_64() -> None:
    caps = best_cap(MEAN, PEOPLE, 10**9, PureDP(1.0)).errors["cap"].to_numpy()
    assert caps[:64].tolist() == list(range(1, 65))
    ratios = np.log10(caps[64:] / caps[63:-1])
    assert caps[-1] == 200
    assert np.all(np.abs(ratios - 1 / 32) < 0.01)
