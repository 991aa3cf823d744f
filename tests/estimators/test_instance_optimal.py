"""Huang, Liang, Yi and PLAN: by naive loops, and what each step pays."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import PowerLawGaussian, ProductTwoPoint
from dpbench.estimators import Estimator, InstanceOptimalMean, PlanMean, instance_optimal
from dpbench.privacy import ZCDP, Ledger
from dpbench.samples import DenseSample
from tests.support import Floats, rng, run

SURE = ZCDP(1e6)  # next to no noise
LAW = PowerLawGaussian(d=5, power=2.0, norm=3.0)
SHIFTED = InstanceOptimalMean(radius=40.0, rounds=50)
PLAN = PlanMean(radius=20.0, rounds=50)


def projected(offset: Floats, rank: int) -> Floats:
    """The mean of rows that are moved to a ball which holds `rank` of them."""
    length = np.linalg.norm(offset, axis=1)
    bound = np.sort(length)[rank - 1]
    kept = [x * bound / max(bound, r) for x, r in zip(offset, length, strict=True)]
    return np.asarray(np.mean(kept, axis=0))


def low_median(values: Floats, rank: int) -> Floats:
    return np.asarray(np.sort(values, axis=0)[rank - 1])


def test_plan_by_a_loop() -> None:
    x = LAW.sample(rng(), 3, 403)
    found = run(PLAN, x, SURE)
    for one, value in zip(x.values, found.value, strict=True):
        pairs = np.array([(one[i] - one[i + 1]) ** 2 / 2 for i in range(0, 402, 2)])
        s = np.sqrt(low_median(pairs, 101))
        a = s + s.sum() / 5
        centre = low_median(one, 202)
        low, high = (projected((one - centre) / np.sqrt(a), 403 - m) for m in (21, 20))
        # Of counts that equal the rank, 403 - sqrt(403), noise decides.
        off = abs(value - centre - np.sqrt(a) * (low + high) / 2)
        assert np.all(off < np.sqrt(a) * abs(high - low) / 2 + 1e-3)


@pytest.mark.parametrize("d", [4, 8])
def test_huang_around_a_centre_that_a_rotation_finds(d: int) -> None:
    """In every direction as many records lie on one side of c as on the other: c is the centre."""
    half = rng().standard_normal((1, 100, d))
    x = np.concatenate([half, np.zeros((1, 1, d)), -3 * half], axis=1) + np.arange(d)
    found = run(SHIFTED, DenseSample(np.repeat(x, 2, axis=0)), SURE)
    low, high = (np.arange(d) + projected(x[0] - np.arange(d), rank) for rank in (200, 201))
    assert np.all(abs(found.value - (low + high) / 2) < abs(high - low) / 2 + 1e-3)


def test_huang_of_sparse_vectors_is_that_of_dense_ones() -> None:
    sparse = ProductTwoPoint(d=6, p=0.02).sample(rng(), 2, 150)
    dense = DenseSample(np.stack([sparse.records(i, rng()) for i in (0, 1)]))
    one, other = (run(SHIFTED, sample, SURE).value for sample in (sparse, dense))
    np.testing.assert_allclose(one, other, atol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "parts"),
    [
        (InstanceOptimalMean(radius=9.0, rounds=4), {(1 / 16, 2.0): 4, (3 / 64, 1.0): 4}),
        (
            PlanMean(radius=9.0, rounds=4),
            {(1 / 64, 2.0): 4, (3 / 64, 2.0): 4, (3 / 64, 1.0): 4},
        ),
    ],
)
def test_what_each_count_pays(
    monkeypatch: pytest.MonkeyPatch, estimator: Estimator, parts: dict[Any, int]
) -> None:
    """Shares of rho, with sqrt(d) = 2 and 1 for sensitivities; the mean has the rest, 9/16."""
    told: list[tuple[float, Any]] = []
    add_noise = Ledger.add_noise

    def spy(self: Ledger, values: Floats, sensitivity: Any) -> Floats:
        told.append((self.budget.amounts[0], sensitivity))
        return add_noise(self, values, sensitivity)

    monkeypatch.setattr(Ledger, "add_noise", spy)
    run(estimator, rng().standard_normal((2, 80, 4)), ZCDP(1.0))
    *counts, (last, _) = told
    assert last == pytest.approx(9 / 16)
    wanted = [(round(rho, 9), one) for (rho, one), number in parts.items() for _ in range(number)]
    assert [(round(rho, 9), one) for rho, one in counts] == wanted  # in this order


def test_noise_follows_the_deviations() -> None:
    """As PLAN's theorem has it: |s|_1 against sqrt(d) |s|_2, but for factors up to sqrt(2)."""
    law = PowerLawGaussian(d=64, power=2.0)
    x = law.sample(rng(), 10, 2000)
    noise = {}
    for estimator in (PlanMean(radius=100.0), InstanceOptimalMean(radius=400.0)):
        found = run(estimator, x, ZCDP(2.0))
        noise[type(estimator)] = np.linalg.norm(found.value - found.before_noise, axis=1).mean()
    s = 64 / np.arange(1, 65)
    theory = np.sqrt(64) * np.linalg.norm(s) / s.sum()  # 2.7
    ratio = noise[InstanceOptimalMean] / noise[PlanMean]  # within a tenth of its mean, 10 trials
    assert theory / np.sqrt(2) < ratio < 1.5 * theory


@pytest.mark.parametrize("rho", [0.1, 2.0])
def test_as_many_records_are_left_out_as_counts_are_off_by(
    monkeypatch: pytest.MonkeyPatch, rho: float
) -> None:
    """PLAN: T counts with noise N(0, T/(2 rho')), rho' = 3 rho/16, are off by no more but for beta.

    The tail P(|N(0, s^2)| > x) is below e^(-x^2/(2 s^2)), and with less than a factor 10 between
    them here; a share of 9/16 in place of 3/16 would leave a probability above 1. Huang et al.
    leave out 2 sqrt(d/(2 rho_mean)) records and one standard deviation of a count.
    """
    ranks, n, steps, beta = list[float](), 2000, 6, 0.05

    def given(offset: Floats, held: Floats, rank: float, *about: Any) -> Any:
        ranks.append(rank)
        about[-2].pay()
        about[-1].pay()
        return 2 * [np.zeros((len(offset), offset.shape[2]))]

    monkeypatch.setattr(instance_optimal, "clipped_mean_at_private_radius", given)
    plan_mean = PlanMean(radius=9, rounds=steps, beta=beta)
    for one in (plan_mean, InstanceOptimalMean(radius=9, rounds=steps)):
        run(one, rng().standard_normal((2, n, 4)), ZCDP(rho))
    plan, huang = ranks
    sd = np.sqrt(steps / (2 * 3 / 16 * rho))
    missed = 2 * steps * stats.norm.sf((n - np.sqrt(n) - plan) / sd)
    assert beta / 10 < missed <= beta
    assert 0 <= n - huang - 2 * np.sqrt(4 / (2 * 9 / 16 * rho)) - sd < 1


def test_scales_are_medians_of_half_squared_differences() -> None:
    """Of records whose quartiles are far apart, up to the two ranks beside the middle."""
    x = np.exp(3 * rng(4).standard_normal((2, 400, 3)))
    sample = DenseSample(x)
    found = PLAN._scales(sample.columns(), sample, Ledger(SURE, rng()))
    ordered = np.sort(np.sqrt((x[:, ::2] - x[:, 1::2]) ** 2 / 2), axis=1)
    below, above = (ordered[:, rank] for rank in (98, 100))
    low, high = (s + s.mean(axis=1, keepdims=True) for s in (below, above))
    assert np.all((low * (1 - 1e-9) <= found) & (found <= high * (1 + 1e-9)))
