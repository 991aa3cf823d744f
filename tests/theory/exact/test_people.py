"""Tests of the exact errors of means of people, by simulation and by other formulas."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench import GDP, ZCDP, ApproxDP, PureDP
from dpbench.distributions import Bernoulli, BoundedZipf, Gaussian, StudentT, UserLevelData
from dpbench.distributions import ZeroTruncatedPoisson as Poisson
from dpbench.estimators import BoundedContributionMean, ClippedMean
from dpbench.privacy import Budget, Ledger
from dpbench.theory.exact.noise import Laplace, Staircase
from dpbench.theory.exact.people import _column, _contributions, cap_errors
from dpbench.theory.exact.value import exact

ZIPF = BoundedZipf(exponent=1.5, largest=60)
VALUES = Gaussian(location=0.4, scale=0.1)
PLAIN, EFFECTS = UserLevelData(of=VALUES, m=ZIPF), Gaussian(scale=0.05)
CASES: list[tuple[UserLevelData, dict[str, Any], Budget]] = [
    (PLAIN, {"cap": 8}, PureDP(1.0)),
    (PLAIN, {"cap": 8, "weights": "capped"}, ZCDP(0.5)),
    (PLAIN, {"cap": 3, "weights": "equal"}, PureDP(0.3)),
    (UserLevelData(of=VALUES, m=ZIPF, between=EFFECTS), {"cap": 60}, GDP(1.0)),
    (UserLevelData(of=VALUES, m=9, between=EFFECTS), {"cap": 4}, PureDP(1.0)),
    (UserLevelData(of=VALUES, m=Poisson(rate=4.0)), {"cap": 6, "clip": 0.5}, PureDP(1.0)),
    (UserLevelData(of=VALUES, m=ZIPF), {"cap": 9, "clip": 1.0}, ApproxDP(1.0, 1e-2)),
    (UserLevelData(of=Bernoulli(p=0.2), m=ZIPF), {"cap": 5}, PureDP(1.0)),
]


@pytest.mark.parametrize(("law", "options", "budget"), CASES)
def test_errors_are_as_computed(
    law: UserLevelData, options: dict[str, Any], budget: Budget
) -> None:
    """The share below the exact 0.9 quantile is 0.9; false alarms 1e-6 over the cases."""
    estimator, n, trials = BoundedContributionMean(lower=0, upper=1, **options), 2000, 600
    rng = np.random.default_rng(0)
    batches = (law.sample(rng, 200, n) for _ in range(trials // 200))
    values = [estimator.run(sample, Ledger(budget, rng)).value for sample in batches]
    errors = np.abs(np.concatenate(values) - law.target)
    q90, mean, rmse = (exact(m, estimator, law, n, budget) for m in ("q90", "mean_error", "rmse"))
    within = int(np.count_nonzero(errors <= q90))
    assert stats.binomtest(within, trials, 0.9).pvalue > 1e-6 / len(CASES)
    assert abs(errors.mean() - mean) < 5.6 * errors.std() / trials**0.5
    assert abs((errors**2).mean() - rmse**2) < 5.6 * (errors**2).std() / trials**0.5


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)])
@pytest.mark.parametrize("metric", ["q90", "rmse", "noise_q90", "mean_error"])
def test_equal_numbers_agree_with_the_clipped_mean(budget: Budget, metric: str) -> None:
    """With effects, people's records are held; without, an average of means has known errors."""
    clipped, n = ClippedMean(lower=0, upper=1), 900
    one_mean = Gaussian(location=0.4, scale=float(np.sqrt(0.0025 + 0.01 / 8)))
    expected = exact(metric, clipped, one_mean, n, budget)
    equal = BoundedContributionMean(lower=0, upper=1, cap=8, weights="equal")
    held = UserLevelData(of=VALUES, m=8, between=EFFECTS)
    assert exact(metric, equal, held, n, budget) == pytest.approx(expected, rel=2e-4)
    means = UserLevelData(of=VALUES, m=8)
    for options in ({"weights": "equal"}, {"weights": "records"}):
        estimator = BoundedContributionMean(lower=0, upper=1, cap=8, **options)  # type: ignore[arg-type]
        expected = exact(metric, clipped, means, n, budget)
        assert exact(metric, estimator, means, n, budget) == pytest.approx(expected)


@pytest.mark.parametrize("options", [{"cap": 8, "weights": "equal"}, {"cap": 1}])
def test_staircase_noise_is_in_the_unit_of_the_data(options: dict[str, Any]) -> None:
    n, epsilon, estimator = 50, 4.0, BoundedContributionMean(lower=-2, upper=3, **options)
    squares = {
        noise: exact("rmse", estimator, PLAIN, n, PureDP(epsilon, noise_by=noise)) ** 2
        for noise in ("laplace", "staircase")
    }
    saved = 2 * (5 / (n * epsilon)) ** 2 - Staircase(epsilon, 5 / n).variance
    assert squares["laplace"] - squares["staircase"] == pytest.approx(saved)
    assert np.isnan(exact("q90", estimator, PLAIN, n, PureDP(epsilon, noise_by="staircase")))


def test_the_parts_of_the_error() -> None:
    """For dropped records they have closed forms in the moments of min(m, cap)."""
    n, epsilon, caps = 3000, 1.0, np.array([1, 4, 20])
    estimator = BoundedContributionMean(lower=0, upper=1, cap=1)
    table = cap_errors(estimator, PLAIN, n, PureDP(epsilon), caps)
    numbers, probabilities = ZIPF.table
    for row in table.to_dict("records"):
        weights = np.minimum(numbers, row["cap"])
        kept = float(probabilities @ weights)
        assert row["sampling"] == pytest.approx(0.1 / (n * kept) ** 0.5, rel=1e-3)
        assert row["bias"] == pytest.approx(0, abs=1e-5)
        shift = (0.4 - 0.5) if row["cap"] > 1 else 0.0  # the count of people is public
        noise = 2 * row["cap"] / (n * kept * epsilon) * (2 * (0.25 + shift**2)) ** 0.5
        assert row["noise"] == pytest.approx(noise, rel=1e-3)


def test_unknown_errors_are_nan() -> None:
    estimator = BoundedContributionMean(lower=0, upper=1, cap=8)
    tails = UserLevelData(of=StudentT(tail_index=4.0), m=ZIPF)
    assert np.isnan(exact("rmse", estimator, tails, 1000, PureDP(1.0)))
    outside = UserLevelData(of=Bernoulli(p=0.2), m=ZIPF)
    narrow = BoundedContributionMean(lower=0.1, upper=1, cap=8)
    assert np.isnan(exact("rmse", narrow, outside, 1000, PureDP(1.0)))
    assert np.isnan(exact("rmse", estimator, PLAIN, 20, PureDP(1.0)))  # the count is noise
    assert np.isnan(exact("bias", estimator, PLAIN, 1000, PureDP(1.0)))


def test_errors_are_unknown_where_the_count_is_noise() -> None:
    """Relative variances above 2e-4 are too large. For C = 1 and a cap of 10, a^3 = 2/(9 10^2).

    The l1 sensitivity is 2 + 9a, and the count has Laplace noise of scale (2 + 9a)/(a epsilon).
    """
    estimator = BoundedContributionMean(lower=0, upper=1, cap=10, clip=0.5)
    a = (2 / 900) ** (1 / 3)
    noise_sd = 2**0.5 * (2 + 9 * a) / a
    weight = ZIPF.table[1] @ np.minimum(ZIPF.table[0], 10)
    least = noise_sd / (2e-4**0.5 * weight)
    below, above = (
        exact("rmse", estimator, PLAIN, int(least * x), PureDP(1.0)) for x in (0.99, 1.01)
    )
    assert np.isnan(below)
    assert np.isfinite(above)


@pytest.mark.parametrize("weights", ["records", "capped", "equal"])
@pytest.mark.parametrize("clip", [None, 0.9])
def test_the_moments_of_clipped_contributions_by_quadrature(weights: Any, clip: Any) -> None:
    """Means near the end 1 are clipped the more, the fewer records a person has."""
    law = UserLevelData(
        of=Gaussian(location=0.9, scale=0.4), m=BoundedZipf(exponent=1.5, largest=9)
    )
    e = BoundedContributionMean(lower=0, upper=1, cap=4, weights=weights, clip=clip)
    z = np.linspace(-9, 9, 20_001)
    density = stats.norm.pdf(z) * (z[1] - z[0])
    sums, squares = [], []
    for m, probability in zip(*law.numbers, strict=True):
        w = 1 if weights == "equal" else min(m, 4)
        mean = 0.9 + 0.4 * z / np.sqrt(m if weights == "capped" else min(m, 4))
        s = np.clip(w * np.clip(2 * mean - 1, -1, 1), *((-2 * clip, 2 * clip) if clip else (-9, 9)))
        sums.append(probability * np.array([density @ s, w]))
        squares.append((probability, w, s))
    total, weight = np.sum(sums, axis=0)
    ratio = total / weight
    variance = sum(p * (density @ (s - ratio * w) ** 2) for p, w, s in squares)
    assert _contributions(e, law) == pytest.approx((ratio, weight, variance), rel=1e-5)


@pytest.mark.parametrize("location", [0.5, 0.95])
def test_the_noise_of_a_gaussian_count_costs_a_third(location: float) -> None:
    """The error is Z - r Z_N/sqrt(3), for the deviation 2 cap/mu of Z and Z_N, over n E w.

    Half the width of the interval is 1/2, and r is twice the distance of the mean from 1/2.
    """
    law, n = UserLevelData(of=Gaussian(location=location, scale=1e-3), m=ZIPF), 10_000
    e = BoundedContributionMean(lower=0, upper=1, cap=8)
    weight = law.numbers[1] @ np.minimum(law.numbers[0], 8)
    sd = 16 / (n * weight) * np.sqrt(1 + (2 * location - 1) ** 2 / 3) / 2
    expected = stats.norm.isf(0.05) * sd
    assert exact("noise_q90", e, law, n, GDP(1.0)) == pytest.approx(expected, rel=1e-3)


def test_columns_of_laplace_noise_in_closed_form() -> None:
    """E|X| = b, E|X + Y| = 3b/2 for equal scales; P(|X| > x) = e^(-x/b); a bias is no noise."""
    one, none = Laplace(0.7), Laplace(0.0)
    assert _column("mean_error", 1e-9, 0.0, (one, none)) == pytest.approx(0.7, rel=1e-4)
    assert _column("mean_error", 1e-9, 0.0, (one, one)) == pytest.approx(1.05, rel=1e-3)
    for bias in (0.0, 5.0):
        q90 = _column("noise_q90", 2.0, bias, (one, none))
        assert q90 == pytest.approx(0.7 * np.log(10), rel=1e-6)
