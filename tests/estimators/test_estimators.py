"""One noisy mean: the right noise, the right sensitivity, the right bias."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from scipy import integrate, optimize, stats
from support import FALSE_ALARM, Floats, assert_follows, name, noise_law, run, same_law

from dpbench.distributions import Pareto, StudentT, TwoPoint
from dpbench.estimators import (
    BinaryMean,
    BoundedMean,
    ClippedMean,
    CoordinateWise,
    EmpiricalMean,
    Estimate,
    Estimator,
    ExponentialCoarseMean,
    FriendlyCoreMean,
    HeavyTailedMean,
    KarwaVadhanMean,
    KSU20Mean,
    LearnedGaussian,
    LocalMean,
    Median,
    MedianOfMeans,
    NaiveGaussianMean,
    ShrinkingIntervals,
    SubsampleAggregate,
    SubsampleTest,
    TrimmedMean,
)
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.samples import CountedSample, DenseSample, Sample

ONE_STEP: list[Estimator] = [
    BinaryMean(),
    BoundedMean(radius=2.5),
    ClippedMean(lower=-2.0, upper=3.0),
    CoordinateWise(base=ClippedMean(lower=-2.0, upper=3.0)),
    NaiveGaussianMean(radius=1.5),
    NaiveGaussianMean(radius=0.0, sigma=0.5, beta=0.01),
    HeavyTailedMean(k=2),
    HeavyTailedMean(k=3, policy="rate", radius=1.5),
    HeavyTailedMean(k=2.5, policy="all", beta=0.05),
    HeavyTailedMean(k=4, clip_at=0.7, radius=0.2),
    LocalMean(k=2),
    LocalMean(k=3, radius=1.5, beta=0.01),
]
# Whatever kind of data it is asked of, at a budget whose choices are neither certain nor noise.
NONE, PURE, GAUSS, APPROX = NonPrivate(), PureDP(6.0), ZCDP(4.0), ApproxDP(6.0, 0.01)
OUTPUTS: dict[str, Any] = {"buckets": 3, "lower": -4.0, "upper": 5.0}
AT_LARGE: list[tuple[Estimator, Budget]] = [
    (EmpiricalMean(), NONE),
    (Median(), NONE),
    (MedianOfMeans(groups=3), NONE),
    (TrimmedMean(fraction=0.2), NONE),
    (ExponentialCoarseMean(radius=2.0), PURE),
    (FriendlyCoreMean(radius=3.0), APPROX),
    (KSU20Mean(k=2, radius=1.5), GAUSS),
    (KSU20Mean(k=2.5, radius=1e300, constants="paper", beta=0.99), PURE),
    (KarwaVadhanMean(radius=2.0), APPROX),
    (LearnedGaussian(radius=1e300, sigma_low=0.5, sigma_high=2.0), GAUSS),
    (LocalMean(k=2), PURE),
    (ShrinkingIntervals(radius=3.0), PURE),
    (SubsampleAggregate(**OUTPUTS), PURE),
    (SubsampleAggregate(**OUTPUTS, aggregate="mean", base="median"), GAUSS),
    (SubsampleAggregate(**OUTPUTS, aggregate="mode", resolution=0.5), APPROX),
    (SubsampleTest(buckets=4, aggregate="exponential"), GAUSS),
    (SubsampleTest(buckets=3, aggregate="histogram"), PURE),
]
THREE: list[Budget] = [PureDP(0.01), ZCDP(1e-4), ApproxDP(0.01, 1e-6)]
each_notion = pytest.mark.parametrize("budget", THREE, ids=name)


@pytest.mark.parametrize("bounds", [(None, 1.0), (0.0, None), (None, None)])
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_a_clipped_mean_without_a_bound_releases_nothing(
    bounds: tuple[float | None, float | None], shape: tuple[int, ...]
) -> None:
    ledger = Ledger(PureDP(0.5), np.random.default_rng(0))
    found = ClippedMean(lower=bounds[0], upper=bounds[1]).run(DenseSample(np.ones(shape)), ledger)
    assert not any(ledger.spent)
    for part in (found.value, found.before_noise):
        assert part.shape == (shape[0], *shape[2:])
        assert np.all(np.isnan(part))


FEW: list[tuple[Estimator, Budget, int]] = [
    (FriendlyCoreMean(radius=3.0), APPROX, 3),
    (KSU20Mean(k=2, radius=1.5), PURE, 2),
    (KSU20Mean(k=2, radius=1.5, constants="paper", beta=0.99), PURE, 282),
    (LearnedGaussian(radius=2.0), GAUSS, 2),
    (SubsampleAggregate(**OUTPUTS), PURE, 3),
    (SubsampleTest(buckets=4), PURE, 4),
]


@pytest.mark.parametrize(("estimator", "budget", "fewest"), FEW, ids=name)
def test_too_few_records_are_refused(estimator: Estimator, budget: Budget, fewest: int) -> None:
    few = r"cannot (be cut|fill)|one record makes no pair|at least 3 records"
    for n in {1, fewest - 1}:
        for sample in (DenseSample(np.zeros((2, n))), CountedSample([0.0, 1.0], [[0, n], [n, 0]])):
            ledger = Ledger(budget, np.random.default_rng(0))
            with pytest.raises(ValueError, match=few):
                estimator.run(sample, ledger)
            assert not any(ledger.spent)
    assert run(estimator, np.zeros((2, fewest)), budget).value.shape == (2,)


@pytest.mark.parametrize(("estimator", "budget"), AT_LARGE, ids=name)
def test_dense_and_counted_data_agree(estimator: Estimator, budget: Budget) -> None:
    atoms, counts = np.array([-1.5, 0.25, 0.5, 2.0]), np.array([3, 9, 8, 5])
    counts = counts * (12 if isinstance(estimator, KSU20Mean) else 1)
    rows = np.tile(np.repeat(atoms, counts), (800, 1))
    # Records have an index in dense data, which counted data leave to chance.
    shuffled = np.random.default_rng(7).permuted(rows, axis=1)
    dense = run(estimator, shuffled, budget, seed=8).value
    ledger = Ledger(budget, np.random.default_rng(9))
    counted = estimator.run(CountedSample(atoms, np.tile(counts, (800, 1))), ledger)
    assert same_law(dense, counted.value)
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-9, abs=0)
    for far in (1e12, 1e300):
        sample = CountedSample([0.25, far], np.full((6, 2), counts.sum()))
        value = estimator.run(sample, Ledger(budget, np.random.default_rng(0))).value
        assert not np.isinf(value).any()


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    for sample in (DenseSample([[3.0, 1.0, 2.0, 10.0]]), CountedSample([2.0, 3.0], [[2, 2]])):
        assert run(Median(), sample, NONE).value.tolist() == [2.5]


@pytest.mark.parametrize("estimator", [ClippedMean(lower=-2.0, upper=3.0), MedianOfMeans(groups=3)])
def test_vectors_coordinate_by_coordinate(estimator: Estimator) -> None:
    budget = PURE if estimator.supports(PURE) else NONE
    values = np.random.default_rng(5).normal(size=(4, 9, 3))
    found = run(estimator, values, budget).before_noise
    for j in range(3):
        alone = run(estimator, values[..., j], budget).before_noise
        np.testing.assert_allclose(found[:, j], alone, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(
    "budget",
    [PureDP(0.5), ZCDP(0.1), ApproxDP(0.5, 1e-5), ApproxDP(0.5, 1e-5, "laplace")],
    ids=name,
)
def test_the_noise_of_clipped_vectors(budget: Budget) -> None:
    n, d, width = 3, 5, 5.0
    found = run(ClippedMean(lower=-2.0, upper=3.0), np.zeros((3000, n, d)), budget).value
    assert_follows(found, noise_law(budget, d * width / n, math.sqrt(d) * width / n))


class Spy(Ledger):
    """Keeps what is released and the sensitivities stated for it."""

    def add_noise(
        self,
        values: Floats,
        sensitivity: float | Floats,
        *,
        l1: float | Floats | None = None,
        draws: int = 1,
    ) -> Floats:
        self.values, self.draws, self.stated = values, draws, (l1, sensitivity)
        return super().add_noise(values, sensitivity, l1=l1, draws=draws)


class Halved(Ledger):
    """Adds half of the noise that it should: a bug for the tests to find."""

    def add_noise(
        self,
        values: Floats,
        sensitivity: float | Floats,
        *,
        l1: float | Floats | None = None,
        draws: int = 1,
    ) -> Floats:
        noisy = super().add_noise(values, sensitivity, l1=l1, draws=draws)
        return np.asarray((noisy + values) / 2)


class _NeverClips(ClippedMean):
    """States the sensitivity of a clipped mean and does not clip: another bug."""

    multivariate: ClassVar[bool] = True

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        assert self.lower is not None
        assert self.upper is not None
        stated = (self.upper - self.lower) / sample.n
        return Estimate(ledger.add_noise(sample.mean(), stated), sample.mean())


def moves(estimator: Estimator, budget: Budget, points: Floats, n: int) -> tuple[Spy, Floats]:
    """What the answer moves by between all neighbouring datasets of n of `points`."""
    grid = list(itertools.product(range(len(points)), repeat=n))
    spy = Spy(budget, np.random.default_rng(0))
    estimator.run(DenseSample(points[np.array(grid)]), spy)
    index = np.array(grid)
    differ = (index[:, None] != index[None]).sum(axis=2)
    one, two = np.nonzero(differ == 1)
    return spy, spy.values[one] - spy.values[two]


def sensitivity_is_right(estimator: Estimator, budget: Budget, n: int) -> bool:
    """Whether no neighbours differ by more than is stated, and some by that much."""
    points = np.array([-1e6, -1.0, 0.0, 0.3, 1e6])
    spy, gaps = moves(estimator, budget, points, n)
    # Average of `draws` releases: each is of one record, and moves by draws times this.
    largest = float(np.abs(gaps).max()) * spy.draws
    return all(largest == pytest.approx(s, rel=1e-12, abs=0) for s in spy.stated if s is not None)


@pytest.mark.parametrize("estimator", ONE_STEP, ids=name)
@pytest.mark.parametrize(("budget", "n"), [(PureDP(0.5), 1), (ZCDP(0.1), 3)], ids=["1", "3"])
def test_sensitivities_by_brute_force(estimator: Estimator, budget: Budget, n: int) -> None:
    assert sensitivity_is_right(estimator, budget, n)


def test_an_estimator_that_never_clips_is_caught() -> None:
    assert sensitivity_is_right(ClippedMean(lower=-2.0, upper=3.0), PureDP(0.5), 2)
    assert not sensitivity_is_right(_NeverClips(lower=-2.0, upper=3.0), PureDP(0.5), 2)


@pytest.mark.parametrize("n", [1, 2])
def test_sensitivities_of_vectors_by_brute_force(n: int) -> None:
    line = [-1e6, 0.0, 0.3, 1e6]
    points = np.array(list(itertools.product(line, line)))
    spy, gaps = moves(ClippedMean(lower=-2.0, upper=3.0), PureDP(0.5), points, n)
    found = np.abs(gaps).sum(axis=1).max(), np.linalg.norm(gaps, axis=1).max()
    assert found == pytest.approx(spy.stated, rel=1e-12, abs=0)


def follows(errors: Floats, cdf: Callable[[Floats], Floats]) -> bool:
    """Whether an empirical cdf stays in the DKW band of false-alarm probability 1e-6."""
    ordered = np.sort(errors)
    size = len(ordered)
    exact = cdf(ordered)
    above = np.max(np.arange(1, size + 1) / size - exact)
    below = np.max(exact - np.arange(size) / size)
    return bool(max(above, below) <= math.sqrt(math.log(2 / FALSE_ALARM) / (2 * size)))


LAW = TwoPoint(p=0.02, k=2, location=0.5)


def laplace_errors(make: type[Ledger]) -> Floats:
    estimator, n = ClippedMean(lower=-1.0, upper=4.0), 300
    rng = np.random.default_rng(6)
    sample = LAW.sample(rng, 20_000, n)
    return estimator.run(sample, make(PureDP(0.5), rng)).value - LAW.mean


def laplace_cdf(t: Floats) -> Floats:
    """The exact law of the error: a Laplace law shifted by a clipped binomial mean."""
    n, scale = 300, 5.0 / (300 * 0.5)
    rare = min(0.5 + LAW.tau, 4.0) - 0.5
    shifts = 0.5 + rare * np.arange(n + 1) / n - LAW.mean
    weights = stats.binom.pmf(np.arange(n + 1), n, LAW.p)
    keep = weights > 1e-15
    terms = (
        w * stats.laplace.cdf(t, s, scale) for w, s in zip(weights[keep], shifts[keep], strict=True)
    )
    return np.asarray(sum(terms))


def test_errors_of_the_clipped_mean_against_an_exact_convolution() -> None:
    errors = laplace_errors(Ledger)
    assert follows(errors, laplace_cdf)
    assert follows(np.abs(errors), lambda t: laplace_cdf(t) - laplace_cdf(-t))


def test_half_the_noise_is_caught() -> None:
    errors = laplace_errors(Halved)
    assert not follows(errors, laplace_cdf)
    assert not follows(np.abs(errors), lambda t: laplace_cdf(t) - laplace_cdf(-t))


BIASED: list[tuple[Any, Any]] = [
    (StudentT(tail_index=2.5, location=0.8), stats.t(2.5, loc=0.8)),
    (StudentT(tail_index=3.0), stats.t(3.0)),
    (Pareto(tail_index=2.5), stats.pareto(2.5, loc=-2.5 / 1.5)),
    (Pareto(tail_index=3.5, location=-0.5), stats.pareto(3.5, loc=-0.5 - 3.5 / 2.5)),
]


@pytest.mark.parametrize(("law", "oracle"), BIASED)
def test_clipping_bias_against_quadrature(law: Any, oracle: Any) -> None:
    estimator = HeavyTailedMean(k=2, radius=0.8)
    n, budget = 200, PureDP(0.3)
    bound = 0.8 + estimator.clipping_threshold(n, budget)

    def clipped(power: int) -> float:
        low = max(-bound, float(oracle.support()[0]))
        inside = integrate.quad(lambda x: x**power * oracle.pdf(x), low, bound, points=[0.0])[0]
        ends = (-bound) ** power * oracle.cdf(-bound) + bound**power * oracle.sf(bound)
        return float(inside + ends)

    rng = np.random.default_rng(7)
    found = estimator.run(law.sample(rng, 2000, n), Ledger(budget, rng)).before_noise
    sd = math.sqrt((clipped(2) - clipped(1) ** 2) / n)
    # z-test with false-alarm probability 1e-6; each is a mean of 4e5 bounded records.
    assert abs(found.mean() - clipped(1)) <= stats.norm.isf(FALSE_ALARM / 2) * sd / math.sqrt(2000)


@each_notion
@pytest.mark.parametrize(("k", "n"), [(2, 10**12), (2.5, 1000), (6, 1000)])
def test_the_minimax_threshold_is_the_minimiser(budget: Budget, k: float, n: int) -> None:
    found = HeavyTailedMean(k=k, beta=0.05).clipping_threshold(n, budget)
    noise = budget.noise_quantile(0.05)

    def worst(log_t: float) -> float:
        t = math.exp(log_t)
        return worst_clipping_bias(t, k) + 2 * t * noise / n

    at = math.log(found)
    best = optimize.minimize_scalar(
        worst, bounds=(at - 3, at + 3), method="bounded", options={"xatol": 1e-9}
    )
    assert math.exp(best.x) == pytest.approx(found, rel=1e-6, abs=0)
    assert worst(at) <= best.fun * (1 + 1e-14)


def test_thresholds_of_the_other_policies() -> None:
    n, eps = 10_000, 0.02
    pure = PureDP(eps)
    assert HeavyTailedMean(k=3).clipping_threshold(n, pure) == pytest.approx(
        2 / 3 * (n * eps / (2 * math.log(10))) ** (1 / 3)
    )
    rate = HeavyTailedMean(k=3, policy="rate", beta=0.01, c=0.4)
    assert rate.clipping_threshold(n, pure) == pytest.approx(0.4 * (n * eps) ** (1 / 3))
    every = HeavyTailedMean(k=2, policy="all", beta=0.04)
    assert every.clipping_threshold(n, pure) == pytest.approx(math.sqrt(n / 0.04))
    assert HeavyTailedMean(k=2, clip_at=7.5).clipping_threshold(n, pure) == 7.5
    local = LocalMean(k=2, beta=0.01)
    assert local.clipping_threshold(n, pure) == pytest.approx((n * eps**2) ** 0.25)


@pytest.mark.parametrize(("k", "threshold"), [(2, 0.9), (3, 5.0), (6, 1e4)])
def test_the_worst_bias_is_attained_and_never_exceeded(threshold: float, k: float) -> None:
    worst = worst_clipping_bias(threshold, k)

    def bias(x: float) -> float:
        """E(|X| - T)_+ with |X| = x with the largest probability of moment 1, else 0."""
        return min(1.0, math.pow(x, -k)) * max(0.0, x - threshold)

    at = k * threshold / (k - 1)
    assert at >= 1
    assert bias(at) == pytest.approx(worst, rel=1e-12, abs=0)
    assert max(bias(at * f) for f in np.geomspace(0.1, 10, 2001)) <= worst * (1 + 1e-12)


@pytest.mark.parametrize(("k", "threshold"), [(2, 0.2), (3, 5.0), (6, 100.0)])
def test_no_two_point_law_has_a_larger_bias(threshold: float, k: float) -> None:
    worst = worst_clipping_bias(threshold, k)
    for p in np.geomspace(1e-12, 0.999, 400):
        law = TwoPoint(p=float(p), k=k)
        points = np.array([-law.mean, law.tau - law.mean])
        clipped = np.clip(points, -threshold, threshold)
        moved = np.abs(points - clipped) @ [1 - p, p]
        assert abs(clipped @ [1 - p, p]) <= moved * (1 + 1e-9) + 1e-13
        assert moved <= worst * (1 + 1e-9)


@each_notion
def test_the_noise_of_the_local_mean(budget: Budget) -> None:
    n, trials = 500, 40_000
    estimator = LocalMean(k=3, radius=0.5)
    width = 2 * (0.5 + estimator.clipping_threshold(n, budget))
    sd = budget.noise_quantile(2 * float(stats.norm.sf(1)))
    one = 2 / 0.01**2 if isinstance(budget, PureDP) else sd**2
    z = run(estimator, np.zeros((trials, n)), budget).value / math.sqrt(one * width**2 / n)
    # z-tests with false-alarm probability 1e-6; excess kurtosis is 3/n or 0.
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(z.mean()) <= limit / math.sqrt(trials)
    assert abs((z**2).mean() - 1) <= limit * math.sqrt((2 + 3 / n) / trials)
