"""The mean around public records against a loop, and its independence of the place of the mean."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench import release
from dpbench.audit import audit_pair
from dpbench.errors import AssumptionWarning
from dpbench.estimators import CoinPressMean, PublicRecordMean
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.neighbours import Pair
from dpbench.samples import CountedSample, DenseSample
from tests.support import rng, run


def clip_radius(d: int, b: float, k: int) -> float:
    """Return s by the formulas of the docstring, in standard deviations."""
    gamma = np.sqrt(d + 2 * np.sqrt(d * np.log(1 / b)) + 2 * np.log(1 / b))
    r = gamma / np.sqrt(k)
    return float(min(np.sqrt(r**2 + 6 * r + gamma**2), r + gamma))


@pytest.mark.parametrize("budget", [PureDP(1e6), ZCDP(1e6), GDP(1e4), ApproxDP(1e4, 1e-6)])
@pytest.mark.parametrize(("d", "k"), [(1, 1), (3, 1), (3, 2)])
def test_one_round_by_a_loop(budget: Budget, d: int, k: int) -> None:
    """The records have tails so wide that some are projected."""
    x = 5 + 6 * rng().standard_normal((2, 40, d))
    estimator = PublicRecordMean(sigma=2.0, b=0.2, public_records=k)
    value = run(estimator, x[:, :, 0] if d == 1 else x, budget).value.reshape(2, d)
    clip = 2 * clip_radius(d, 0.2, k)
    for records, found in zip(x, value, strict=True):
        centre, total, clipped = records[:k].mean(axis=0), np.zeros(d), 0
        for record in records[k:]:
            length = np.linalg.norm(record - centre)
            total += (record - centre) * min(1, clip / length)
            clipped += bool(length > clip)
        assert clipped > 0
        np.testing.assert_allclose(found, centre + total / (40 - k), atol=0.02)


def test_more_rounds_are_coinpress_on_the_differences() -> None:
    x = 1e6 + rng().standard_normal((3, 60, 2))
    estimator = PublicRecordMean(sigma=1.0, rounds=3, b=0.05)
    gamma = np.sqrt(2 + 2 * np.sqrt(2 * np.log(20)) + 2 * np.log(20))
    base = CoinPressMean(radius=float(gamma), rounds=3, sigma=1.0, b=0.05)
    centre = x[:, 0]
    expected = centre + run(base, x[:, 1:] - centre[:, None], ZCDP(0.5)).value
    np.testing.assert_array_equal(run(estimator, x, ZCDP(0.5)).value, expected)


@pytest.mark.parametrize("rounds", [1, 2])
def test_the_error_moves_with_the_records(rounds: int) -> None:
    """All numbers are multiples of 2^-10, so that the differences are exact."""
    x = np.round(rng().standard_normal((4, 50)) * 1024) / 1024
    estimator = PublicRecordMean(sigma=1.0, rounds=rounds)
    here, there = (run(estimator, x + shift, ZCDP(0.5)).value for shift in (0.0, 2.0**40))
    np.testing.assert_allclose(there - 2.0**40, here, atol=2.0**-11)


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)])
def test_the_sensitivity_is_the_diameter_of_the_ball(budget: Budget) -> None:
    """The only noise is for 2s/(n - 1): compare the receipt."""
    ledger = Ledger(budget, rng())
    PublicRecordMean(sigma=1.0).run(DenseSample(np.zeros((1, 21))), ledger)
    stated = 2 * clip_radius(1, 0.01, 1) / 20
    assert f"sensitivity {stated:.6g}" in str(ledger.receipt())


def test_the_guarantee_is_for_private_records() -> None:
    """The release follows a public record, so no audit may replace it."""
    data = np.zeros(30)
    moved = data.copy()
    moved[0] = 1e6
    estimator = PublicRecordMean(sigma=1.0)
    with pytest.warns(AssumptionWarning):
        assert release(estimator, moved, PureDP(1.0), rng=rng()) > 9e5
    with pytest.raises(ValueError, match="record 0 is public"):
        audit_pair(estimator, PureDP(1.0), Pair("mine", data, moved), runs=1000, rng=rng())


@pytest.mark.parametrize(
    "sample",
    [DenseSample(np.zeros((1, 2))), CountedSample([0.0, 1.0], [[3, 2]])],
)
def test_records_that_are_too_few_or_only_counted(sample: DenseSample | CountedSample) -> None:
    with pytest.raises(ValueError, match="2 public records: needs more records than these"):
        run(PublicRecordMean(sigma=1.0, public_records=2), sample, ZCDP(0.5))
