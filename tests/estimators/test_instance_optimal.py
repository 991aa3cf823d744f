"""HLY21 and PLAN against loops, and the budget of each step."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import PowerLawGaussian, ProductTwoPoint
from dpbench.estimators import Estimator, InstanceOptimalMean, PlanMean, instance_optimal
from dpbench.privacy import ZCDP, Ledger
from dpbench.samples import DenseSample
from dpbench.theory.exact.ball_searches import _centre_variance
from dpbench.theory.exact.clip_and_noise import ReleaseSetting
from tests.support import Floats, rng, run

SURE = ZCDP(1e6)  # next to no noise
LAW = PowerLawGaussian(d=5, power=2.0, norm=3.0)
SHIFTED = InstanceOptimalMean(radius=40.0, rounds=50)
PLAN = PlanMean(radius=20.0, sigma_low=1e-3, sigma_high=1e3, rounds=50)


def projected(offset: Floats, rank: int) -> Floats:
    """Return the mean of rows, projected on the ball that holds `rank` of them."""
    length = np.linalg.norm(offset, axis=1)
    bound = np.sort(length)[rank - 1]
    clipped = [x * bound / max(bound, r) for x, r in zip(offset, length, strict=True)]
    return np.asarray(np.mean(clipped, axis=0))


def low_median(values: Floats, rank: int) -> Floats:
    """Return the value of this rank in every column."""
    return np.asarray(np.sort(values, axis=0)[rank - 1])


def test_plan_by_a_loop() -> None:
    x = LAW.sample(rng(), 3, 403)
    estimate = run(PLAN, x, SURE)
    for records, value in zip(x.values, estimate.value, strict=True):
        pairs = np.array([(records[i] - records[i + 1]) ** 2 / 2 for i in range(0, 402, 2)])
        s = np.sqrt(low_median(pairs, 101))
        a = s + s.sum() / 5
        centre = low_median(records, 202)
        low, high = (projected((records - centre) / np.sqrt(a), 403 - m) for m in (21, 20))
        # The rank is 403 - sqrt(403): noise decides between the whole ranks below and above.
        off = abs(value - centre - np.sqrt(a) * (low + high) / 2)
        assert np.all(off < np.sqrt(a) * abs(high - low) / 2 + 1e-3)


def test_the_exact_variance_of_a_centre_without_noise_is_that_of_a_median() -> None:
    """5 standard errors of 4,000 medians, 11 per cent; false alarms 1e-6."""
    n, s = 401, np.array([1.0, 2.0, 5.0])
    setting = ReleaseSetting(n, 3, SURE)
    medians = np.median(rng().standard_normal((4000, n)), axis=1)
    for estimator in (PLAN, SHIFTED):
        variance = _centre_variance(estimator, s, setting, 1e12)
        assert variance == pytest.approx(s**2 * medians.var(), rel=5 * (2 / 4000) ** 0.5)


@pytest.mark.parametrize("d", [4, 8])
def test_huang_around_a_centre_that_a_rotation_finds(d: int) -> None:
    """Every direction has as many records on one side of c as on the other, so c is the centre."""
    half = rng().standard_normal((1, 100, d))
    x = np.concatenate([half, np.zeros((1, 1, d)), -3 * half], axis=1) + np.arange(d)
    estimate = run(SHIFTED, DenseSample(np.repeat(x, 2, axis=0)), SURE)
    low, high = (np.arange(d) + projected(x[0] - np.arange(d), rank) for rank in (200, 201))
    assert np.all(abs(estimate.value - (low + high) / 2) < abs(high - low) / 2 + 1e-3)


def test_huang_of_sparse_vectors_is_that_of_dense_ones() -> None:
    sparse = ProductTwoPoint(d=6, p=0.02).sample(rng(), 2, 150)
    dense = DenseSample(np.stack([sparse.records(i, rng()) for i in (0, 1)]))
    from_sparse, from_dense = (run(SHIFTED, sample, SURE).value for sample in (sparse, dense))
    np.testing.assert_allclose(from_sparse, from_dense, atol=1e-5)


@pytest.mark.parametrize(
    ("estimator", "parts"),
    [
        (InstanceOptimalMean(radius=9.0, rounds=4), {(1 / 16, 2.0): 4, (3 / 64, 1.0): 4}),
        (
            PlanMean(radius=9.0, sigma_low=1e-3, sigma_high=1e3, rounds=4),
            {(1 / 64, 2.0): 4, (3 / 64, 2.0): 4, (3 / 64, 1.0): 4},
        ),
    ],
)
def test_what_each_count_pays(
    monkeypatch: pytest.MonkeyPatch, estimator: Estimator, parts: dict[Any, int]
) -> None:
    """Counts get the given shares of rho, at sensitivities sqrt(d) = 2 and 1; the mean 9/16."""
    calls: list[tuple[float, Any]] = []
    add_noise = Ledger.add_noise

    def spy(self: Ledger, values: Floats, sensitivity: Any) -> Floats:
        calls.append((self.budget.amounts[0], sensitivity))
        return add_noise(self, values, sensitivity)

    monkeypatch.setattr(Ledger, "add_noise", spy)
    run(estimator, rng().standard_normal((2, 80, 4)), ZCDP(1.0))
    *counts, (last, _) = calls
    assert last == pytest.approx(9 / 16)
    expected = [
        (round(rho, 9), l2_sensitivity)
        for (rho, l2_sensitivity), number in parts.items()
        for _ in range(number)
    ]
    assert [
        (round(rho, 9), l2_sensitivity) for rho, l2_sensitivity in counts
    ] == expected  # in this order


def test_noise_follows_the_deviations() -> None:
    """The noises are as |s|_1 to sqrt(d) |s|_2, as in PLAN's theorem, up to factors of sqrt(2)."""
    law = PowerLawGaussian(d=64, power=2.0)
    x = law.sample(rng(), 10, 2000)
    noise = {}
    for estimator in (
        PlanMean(radius=100.0, sigma_low=1e-3, sigma_high=1e3),
        InstanceOptimalMean(radius=400.0),
    ):
        estimate = run(estimator, x, ZCDP(2.0))
        noise[type(estimator)] = np.linalg.norm(
            estimate.value - estimate.before_noise, axis=1
        ).mean()
    s = 64 / np.arange(1, 65)
    theory = np.sqrt(64) * np.linalg.norm(s) / s.sum()  # 2.7
    ratio = noise[InstanceOptimalMean] / noise[PlanMean]  # within a tenth of its mean, 10 trials
    assert theory / np.sqrt(2) < ratio < 1.5 * theory


@pytest.mark.parametrize("rho", [0.1, 2.0])
def test_as_many_records_are_left_out_as_counts_are_off_by(
    monkeypatch: pytest.MonkeyPatch, rho: float
) -> None:
    """The ranks leave out as many records as the noisy counts are likely to be off by.

    PLAN: T counts have noise N(0, T/(2 rho')), rho' = 3 rho/16. All T are within the margin, except
    with probability beta. The bound P(|N(0, s^2)| > x) < e^(-x^2/(2 s^2)) is larger than the tail
    by less than a factor of 10 here; with 9/16 for 3/16 the tail would be far above beta. HLY21:
    the rank leaves out 2 sqrt(d/(2 rho_mean)) records and one standard deviation of a count.

    The search of PLAN ends at a radius that holds all but one in n of Gaussian records scaled by
    roots a of deviations a^2: at least the quantile of chi^2 with one degree times |a|^2.
    """
    ranks, n, steps, beta = list[float](), 2000, 6, 0.05
    offsets, radii = list[Floats](), list[Floats]()

    def record_rank(offset: Floats, held: Floats, rank: float, *rest: Any) -> Any:
        ranks.append(rank)
        offsets.append(offset)
        radii.append(rest[0])
        rest[-2].pay()
        rest[-1].pay()
        return 2 * [np.zeros((len(offset), offset.shape[2]))]

    monkeypatch.setattr(instance_optimal, "clipped_mean_at_private_radius", record_rank)
    x = rng().standard_normal((2, n, 4))
    plan_mean = PlanMean(radius=9, sigma_low=1e-3, sigma_high=1e3, rounds=steps, beta=beta)
    for estimator in (plan_mean, InstanceOptimalMean(radius=9, rounds=steps)):
        run(estimator, x, ZCDP(rho))
    plan, huang = ranks
    sd = np.sqrt(steps / (2 * 3 / 16 * rho))
    missed = 2 * steps * stats.norm.sf((n - np.sqrt(n) - plan) / sd)
    assert beta / 10 < missed <= beta
    assert 0 <= n - huang - 2 * np.sqrt(4 / (2 * 9 / 16 * rho)) - sd < 1
    squares = ((np.ptp(x, axis=1) / np.ptp(offsets[0], axis=1)) ** 2).sum(axis=1)
    quantiles = radii[0] ** 2 / squares / stats.chi2.isf(1 / n, 1)
    assert np.all((quantiles >= 1) & (quantiles < 1.9))
    assert radii[1].tolist() == [9.0, 9.0]


def test_scales_are_medians_of_half_squared_differences() -> None:
    """Compare scales with medians of half squared differences, up to the two middle ranks."""
    x = np.exp(3 * rng(4).standard_normal((2, 400, 3)))
    sample = DenseSample(x)
    scales = PLAN._release_scales(sample.columns(), sample, Ledger(SURE, rng()))
    ordered = np.sort(np.sqrt((x[:, ::2] - x[:, 1::2]) ** 2 / 2), axis=1)
    below, above = (ordered[:, rank] for rank in (98, 100))
    low, high = (s + s.mean(axis=1, keepdims=True) for s in (below, above))
    assert np.all((low * (1 - 1e-9) <= scales) & (scales <= high * (1 + 1e-9)))
