"""Every estimator pays its budget, adds the right noise, and has the right bias."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, optimize, stats

from dpbench.distributions import Pareto, StudentT, TwoPoint
from dpbench.estimators import (
    BinaryMean,
    BoundedMean,
    ClippedMean,
    CoinPressCovariance,
    CoinPressMean,
    CoordinateWise,
    EmpiricalMean,
    Estimate,
    Estimator,
    ExponentialCoarseMean,
    FriendlyCoreMean,
    HeavyTailedMean,
    KarwaVadhanMean,
    KSU20BallMean,
    KSU20CoverMean,
    KSU20Mean,
    KSU20Range,
    LearnedGaussian,
    LocalMean,
    Median,
    MedianOfMeans,
    NaiveGaussianMean,
    ShrinkingIntervals,
    SubsampleAggregate,
    SubsampleTest,
    TrimmedMean,
    WhitenedCoinPressMean,
)
from dpbench.estimators.heavy_tailed import worst_clipping_bias
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.samples import CountedSample, DenseSample, Sample

Floats = NDArray[np.float64]
FALSE_ALARM = 1e-6

# One noisy mean, clipped to public bounds.
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
WITHOUT_PRIVACY: list[Estimator] = [
    EmpiricalMean(),
    Median(),
    MedianOfMeans(groups=3),
    TrimmedMean(fraction=0.2),
]
# Where a later step rests on what an earlier one released, or the output is a choice.
IN_STEPS: list[Estimator] = [
    BoundedMean(radius=2.5, mechanism="l2"),
    CoordinateWise(base=KarwaVadhanMean(radius=2.0)),
    FriendlyCoreMean(radius=3.0),
    FriendlyCoreMean(sigma=0.5, composition="zcdp", threshold=0.1),
    CoinPressMean(radius=3.0),
    CoinPressMean(radius=3.0, rounds=1, sigma=0.5),
    CoinPressMean(radius=1e300, rounds=3, report=2),
    ExponentialCoarseMean(radius=2.0),
    ExponentialCoarseMean(radius=1e300, sigma=0.5),
    KSU20Mean(k=2, radius=1.5),
    KSU20Mean(k=3, radius=None, alpha=0.3),
    KSU20Mean(k=2.5, radius=1e300, constants="paper", beta=0.99),
    KSU20Mean(k=2, radius=None, alpha=0.06, constants="paper", beta=0.99),
    KSU20Range(k=2, alpha=0.05, radius=1.5),
    KSU20Range(k=3, alpha=0.3, radius=None, constants="practical"),
    KarwaVadhanMean(radius=2.0),
    KarwaVadhanMean(radius=None, sigma=0.5),
    LearnedGaussian(radius=2.0, sigma=1.5),
    LearnedGaussian(radius=2.0),
    LearnedGaussian(radius=1e300, sigma_low=0.5, sigma_high=2.0),
    LearnedGaussian(radius=None, sigma_low=0.1, sigma_high=10.0),
    ShrinkingIntervals(radius=3.0),
    ShrinkingIntervals(radius=3.0, rounds=1, sigma=0.5),
    ShrinkingIntervals(radius=1e280, rounds=3, report=2),
    SubsampleAggregate(buckets=3, lower=-4.0, upper=5.0),
    SubsampleAggregate(buckets=4, lower=-4.0, upper=5.0, aggregate="mean", base="median"),
    SubsampleAggregate(buckets=3, lower=-4.0, upper=5.0, aggregate="mode", resolution=0.5),
    SubsampleAggregate(buckets=9, aggregate="friendly_core", friends_within=2.0),
    SubsampleTest(buckets=3),
    SubsampleTest(buckets=4, aggregate="exponential"),
    SubsampleTest(buckets=3, aggregate="histogram"),
]
ESTIMATORS = ONE_STEP + WITHOUT_PRIVACY + IN_STEPS
# What takes no numbers: see test_multivariate.py, test_covariance.py and test_ksu20_cover.py.
OF_VECTORS: list[Estimator] = [
    CoinPressCovariance(bound=4.0),
    KSU20BallMean(k=2, radius=3.0),
    KSU20CoverMean(k=2, radius=3.0),
    WhitenedCoinPressMean(radius=3.0, bound=4.0),
]
BUDGETS: list[Budget] = [
    PureDP(0.5),
    ZCDP(0.1),
    ApproxDP(0.5, 1e-5),
    ApproxDP(0.5, 1e-5, "classical"),
    ApproxDP(0.5, 1e-5, "ksu20"),
    ApproxDP(0.5, 1e-5, "laplace"),
    NonPrivate(),
]
THREE: list[Budget] = [PureDP(0.01), ZCDP(1e-4), ApproxDP(0.01, 1e-6)]
# At which the choices of the few records of a test are neither certain nor pure noise.
LARGE: list[Budget] = [PureDP(6.0), ZCDP(4.0), ApproxDP(6.0, 0.01)]


def filters(estimator: Estimator) -> bool:
    """Whether a FriendlyCore is in it."""
    chosen = getattr(estimator, "aggregate", "") == "friendly_core"
    return chosen or isinstance(estimator, FriendlyCoreMean)


def honours(estimator: Estimator, budget: Budget) -> bool:
    """Which notion is for whom; algorithms.md, sections 2 to 4."""
    if estimator in WITHOUT_PRIVACY or isinstance(budget, NonPrivate):
        return estimator in WITHOUT_PRIVACY and isinstance(budget, NonPrivate)
    if isinstance(estimator, CoordinateWise):
        return honours(estimator.base, budget)
    if filters(estimator) or getattr(estimator, "radius", 0.0) is None:
        return isinstance(budget, ApproxDP)
    if getattr(estimator, "mechanism", "") == "l2":
        return isinstance(budget, PureDP)
    return not (isinstance(estimator, CoinPressMean) and isinstance(budget, PureDP))


def pairs(estimators: list[Estimator], budgets: list[Budget]) -> list[tuple[Estimator, Budget]]:
    return [pair for pair in itertools.product(estimators, budgets) if honours(*pair)]


HONOURED = pairs(ESTIMATORS, BUDGETS)
REFUSED = [pair for pair in itertools.product(ESTIMATORS, BUDGETS) if not honours(*pair)]


def smallest(estimator: Estimator) -> int:
    """The fewest records that an estimator takes."""
    if isinstance(estimator, KSU20Mean):
        return 2 * estimator.groups
    if isinstance(estimator, SubsampleAggregate | SubsampleTest):
        return estimator.buckets
    if isinstance(estimator, FriendlyCoreMean):
        return 3
    return 2 if isinstance(estimator, LearnedGaussian) and estimator.sigma is None else 1


def may_fail(estimator: Estimator, budget: Budget) -> bool:
    """Whether nothing may be released, of a stability-based histogram or of a core."""
    if isinstance(estimator, CoordinateWise):
        return may_fail(estimator.base, budget)
    by_histogram = isinstance(estimator, KSU20Mean | KSU20Range | KarwaVadhanMean | LearnedGaussian)
    chosen = getattr(estimator, "aggregate", "") in {"mode", "histogram"}
    return isinstance(budget, ApproxDP) and (by_histogram or chosen or filters(estimator))


def name(value: object) -> str:
    return value.label if isinstance(value, Budget) else type(value).__name__


each_honoured = pytest.mark.parametrize(("estimator", "budget"), HONOURED, ids=name)
each_direct = pytest.mark.parametrize(
    ("estimator", "budget"), pairs(ONE_STEP + WITHOUT_PRIVACY, BUDGETS), ids=name
)
each_one_step = pytest.mark.parametrize(("estimator", "budget"), pairs(ONE_STEP, BUDGETS), ids=name)
each_at_large = pytest.mark.parametrize(
    ("estimator", "budget"), pairs(IN_STEPS, LARGE) + pairs(WITHOUT_PRIVACY, BUDGETS), ids=name
)
each_notion = pytest.mark.parametrize("budget", THREE, ids=name)


def run(estimator: Estimator, values: Floats, budget: Budget, seed: int = 0) -> Estimate:
    return estimator.run(DenseSample(values), Ledger(budget, np.random.default_rng(seed)))


def test_no_estimator_is_left_out() -> None:
    known = {c for c in Estimator._kinds().values() if c.__module__.startswith("dpbench.")}
    assert {type(estimator) for estimator in ESTIMATORS + OF_VECTORS} == known


def spends(estimator: Estimator, sample: Sample, budget: Budget) -> tuple[float, ...]:
    ledger = Ledger(budget, np.random.default_rng(0))
    estimator.run(sample, ledger)
    return ledger.spent


@each_honoured
def test_the_whole_budget_is_spent(estimator: Estimator, budget: Budget) -> None:
    fewest = smallest(estimator)
    for n in (fewest, fewest + 1, fewest + 6):
        spent = spends(estimator, DenseSample(np.zeros((4, n))), budget)
        # Shares and conversions round; Ledger.SLACK is 1e-9.
        assert spent == pytest.approx(budget.amounts, rel=1e-9, abs=0)
    assert spends(estimator, CountedSample([0.0, 1.0], [[n, 2 * n]]), budget) == spent


@pytest.mark.parametrize("budget", BUDGETS[:-1], ids=name)
@pytest.mark.parametrize("bounds", [(None, 1.0), (0.0, None), (None, None)])
@pytest.mark.parametrize("shape", [(4, 5), (4, 5, 3)])
def test_a_clipped_mean_without_a_bound_releases_nothing(
    bounds: tuple[float | None, float | None], budget: Budget, shape: tuple[int, ...]
) -> None:
    ledger = Ledger(budget, np.random.default_rng(0))
    found = ClippedMean(lower=bounds[0], upper=bounds[1]).run(DenseSample(np.ones(shape)), ledger)
    assert not any(ledger.spent)
    for part in (found.value, found.before_noise):
        assert part.shape == (shape[0], *shape[2:])
        assert np.all(np.isnan(part))


@pytest.mark.parametrize(("estimator", "budget"), REFUSED, ids=name)
def test_other_notions_are_refused(estimator: Estimator, budget: Budget) -> None:
    assert not estimator.supports(budget)
    ledger = Ledger(budget, np.random.default_rng(0))
    with pytest.raises(ValueError, match=f"cannot honour a budget of notion '{budget.notion}'"):
        estimator.run(DenseSample(np.zeros((1, 300))), ledger)
    assert not any(ledger.spent)


TOO_FEW = r"cannot (be cut|fill)|one record makes no pair|at least 3 records"
FEW = [
    (estimator, budget) for estimator, budget in pairs(IN_STEPS, LARGE) if smallest(estimator) > 1
]


@pytest.mark.parametrize(("estimator", "budget"), FEW, ids=name)
def test_too_few_records_are_refused(estimator: Estimator, budget: Budget) -> None:
    for n in {1, 2, smallest(estimator) - 1} & set(range(1, smallest(estimator))):
        for sample in (DenseSample(np.zeros((2, n))), CountedSample([0.0, 1.0], [[0, n], [n, 0]])):
            ledger = Ledger(budget, np.random.default_rng(0))
            with pytest.raises(ValueError, match=TOO_FEW):
                estimator.run(sample, ledger)
            assert not any(ledger.spent)


@each_direct
def test_a_batch_is_many_single_runs(estimator: Estimator, budget: Budget) -> None:
    rows = np.random.default_rng(1).standard_t(3, (5, 12))
    before = rows.copy()
    batch = run(estimator, rows, budget).before_noise
    single = [run(estimator, row[None], budget).before_noise[0] for row in rows]
    np.testing.assert_allclose(batch, single, rtol=1e-12, atol=1e-14)
    np.testing.assert_array_equal(rows, before)


@each_direct
def test_noise_of_a_batch_and_of_single_runs(estimator: Estimator, budget: Budget) -> None:
    row = np.random.default_rng(2).standard_t(3, (1, 12))
    batch = run(estimator, np.repeat(row, 4000, axis=0), budget, seed=3).value
    ledgers = (Ledger(budget, np.random.default_rng([4, i])) for i in range(200))
    sample = DenseSample(row)
    single = [estimator.run(sample, ledger).value[0] for ledger in ledgers]
    assert batch.shape == (4000,)
    # Two-sample Kolmogorov-Smirnov test with false-alarm probability 1e-6.
    found = np.round(np.concatenate([batch, single]), 12)  # ties of estimators without noise
    assert stats.ks_2samp(found[:4000], found[4000:], method="asymp").pvalue > FALSE_ALARM


def same_law(one: Floats, two: Floats) -> bool:
    """Two-sample Kolmogorov-Smirnov test with false-alarm probability 1e-6."""
    found = np.nan_to_num(np.concatenate([one, two]), nan=1e9)  # stands for a failure
    near = np.abs(found) < 1e6
    found[near] = np.round(found[near], 9)  # ties outputs that differ in their last digits
    return bool(
        stats.ks_2samp(found[: len(one)], found[len(one) :], method="asymp").pvalue > FALSE_ALARM
    )


@each_at_large
def test_steps_of_a_batch_and_of_single_runs(estimator: Estimator, budget: Budget) -> None:
    n = max(12, smallest(estimator))
    row = np.random.default_rng(2).standard_t(3, (1, n))
    batch = run(estimator, np.repeat(row, 1000, axis=0), budget, seed=3).value
    ledger = Ledger(budget, np.random.default_rng(4))
    sample = DenseSample(row)
    single = []
    for _ in range(100):
        alone = Ledger(budget, ledger.rng)  # the stream moves on from run to run
        single.append(estimator.run(sample, alone).value[0])
    assert same_law(batch, np.array(single))


@each_at_large
def test_other_trials_do_not_matter(estimator: Estimator, budget: Budget) -> None:
    n = max(12, smallest(estimator))
    rows = np.random.default_rng(6).standard_t(3, (5, n))
    # Equal records fill one bin wherever they are: the stream of the noise stays the same.
    one, other = rows.copy(), rows.copy()
    one[2], other[2] = 0.25, 1e6
    found, again = run(estimator, one, budget), run(estimator, other, budget)
    rest = [0, 1, 3, 4]
    for a, b in zip(parts(found), parts(again), strict=True):
        # Sums of a batch round alike up to their last digits.
        np.testing.assert_allclose(a[rest], b[rest], rtol=1e-11, atol=1e-13)
    np.testing.assert_array_equal(other[rest], rows[rest])
    np.testing.assert_array_equal(other[2], 1e6)


@each_at_large
def test_dense_and_counted_data_agree(estimator: Estimator, budget: Budget) -> None:
    atoms, counts = np.array([-1.5, 0.25, 0.5, 2.0]), np.array([3, 9, 8, 5])
    counts = counts * -(-smallest(estimator) // counts.sum())
    rows = np.tile(np.repeat(atoms, counts), (800, 1))
    # Records have an index in dense data, which counted data leave to chance.
    shuffled = np.random.default_rng(7).permuted(rows, axis=1)
    dense = run(estimator, shuffled, budget, seed=8).value
    ledger = Ledger(budget, np.random.default_rng(9))
    counted = estimator.run(CountedSample(atoms, np.tile(counts, (800, 1))), ledger).value
    assert same_law(dense, counted)


@each_at_large
def test_integers_are_numbers(estimator: Estimator, budget: Budget) -> None:
    whole = np.random.default_rng(10).integers(-3, 4, (3, max(9, smallest(estimator))))
    before = whole.copy()
    ledgers = (Ledger(budget, np.random.default_rng(11)) for _ in range(2))
    found = estimator.run(DenseSample(whole), next(ledgers)).value
    floats = estimator.run(DenseSample(whole.astype(float)), next(ledgers)).value
    np.testing.assert_array_equal(found, floats)
    np.testing.assert_array_equal(whole, before)


def parts(found: Estimate) -> list[Floats]:
    """All arrays of an estimate."""
    optional = [*(found.interval or ()), *(() if found.scale is None else (found.scale,))]
    return [found.value, found.before_noise, *optional]


def is_sound(estimator: Estimator, sample: Sample, budget: Budget) -> bool:
    """Whether there is a number per trial, or a failure where that may happen."""
    found = estimator.run(sample, Ledger(budget, np.random.default_rng(0)))
    shapes = all(part.shape == (sample.trials,) for part in parts(found))
    numbers = np.isfinite(parts(found)).all(axis=0)
    failed = np.isnan(found.value) & may_fail(estimator, budget)
    endless = np.isinf(parts(found)).any()
    return bool(shapes and np.all(numbers | failed) and not endless)


@pytest.mark.parametrize(
    ("estimator", "budget"),
    pairs(ONE_STEP + WITHOUT_PRIVACY, BUDGETS) + pairs(IN_STEPS, BUDGETS[:3]),
    ids=name,
)
def test_adversarial_data(estimator: Estimator, budget: Budget) -> None:
    fewest = smallest(estimator)
    sizes = {fewest, fewest + 1} | {n for n in (2, 3, 50) if n > fewest}
    for n, far in itertools.product(sizes, [0.0, 1e12, 1e150, -1e300, 1e300]):
        one, both = np.full((6, n), 0.25), np.full((6, n), -far)
        one[:, 0], both[:, 1:] = far, far
        before = one.copy()
        for values in (one, both, np.full((6, n), far)):
            assert is_sound(estimator, DenseSample(values), budget), (n, far)
        np.testing.assert_array_equal(one, before)
        for atoms in ([far], [far - 1.0, far + 1.0]) if abs(far) < 1e13 else ([0.25, abs(far)],):
            counts = np.full((6, len(atoms)), n)
            assert is_sound(estimator, CountedSample(atoms, counts), budget), (n, far)


@each_direct
def test_vectors(estimator: Estimator, budget: Budget) -> None:
    values = np.random.default_rng(5).normal(size=(4, 9, 3))
    if not estimator.multivariate:
        takes_scalars_only(estimator, budget)
        return
    found = run(estimator, values, budget)
    assert found.value.shape == found.before_noise.shape == (4, 3)
    if isinstance(estimator, BoundedMean):
        return  # a ball is no box
    for j in range(3):
        alone = run(estimator, values[..., j], budget).before_noise
        np.testing.assert_allclose(found.before_noise[:, j], alone, rtol=1e-12, atol=1e-14)


@each_at_large
def test_steps_with_vectors(estimator: Estimator, budget: Budget) -> None:
    if not estimator.multivariate or isinstance(getattr(estimator, "base", None), Median):
        takes_scalars_only(estimator, budget)
        return
    values = np.random.default_rng(5).normal(size=(4, max(12, smallest(estimator)), 3))
    found = run(estimator, values, budget)
    assert found.value.shape == found.before_noise.shape == (4, 3)


@pytest.mark.parametrize("estimator", OF_VECTORS, ids=name)
def test_numbers_are_refused_by_estimators_of_vectors(estimator: Estimator) -> None:
    budget = next(b for b in BUDGETS if estimator.supports(b))
    with pytest.raises(ValueError, match="vectors"):
        run(estimator, np.zeros((2, 300)), budget)


def takes_scalars_only(estimator: Estimator, budget: Budget) -> None:
    with pytest.raises(ValueError, match="takes scalar records, got vectors of 3"):
        run(estimator, np.zeros((2, 300, 3)), budget)


@pytest.mark.parametrize("budget", BUDGETS[:-1], ids=name)
@pytest.mark.parametrize("d", [1, 5])
def test_the_noise_of_clipped_vectors(budget: Budget, d: int) -> None:
    n, trials, width = 3, 6000, 5.0
    found = run(ClippedMean(lower=-2.0, upper=3.0), np.zeros((trials, n, d)), budget).value
    assert found.shape == (trials, d)
    law: Any
    if isinstance(budget, PureDP) or "laplace" in budget.label:
        law = stats.laplace(scale=d * width / (n * 0.5))
    else:  # the noise quantile at sensitivity 1, tested with the budgets, gives the sd
        sd = budget.noise_quantile(2 * float(stats.norm.sf(1)))
        law = stats.norm(scale=sd * math.sqrt(d) * width / n)
    # Kolmogorov-Smirnov test with false-alarm probability 1e-6.
    assert stats.kstest(found.ravel(), law.cdf).pvalue > FALSE_ALARM


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


@each_one_step
@pytest.mark.parametrize("n", [1, 2, 3])
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
    sample = LAW.sample(rng, 50_000, n)
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
@pytest.mark.parametrize("policy", ["minimax", "rate"])
def test_clipping_bias_against_quadrature(law: Any, oracle: Any, policy: Any) -> None:
    estimator = HeavyTailedMean(k=2, policy=policy, radius=0.8)
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
@pytest.mark.parametrize("k", [2, 2.5, 4, 6])
@pytest.mark.parametrize("n", [1000, 10**12])
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


@pytest.mark.parametrize("k", [2, 2.5, 3, 6])
@pytest.mark.parametrize("threshold", [0.9, 1.0, 5.0, 1e4])
def test_the_worst_bias_is_attained_and_never_exceeded(threshold: float, k: float) -> None:
    worst = worst_clipping_bias(threshold, k)

    def bias(x: float) -> float:
        """E(|X| - T)_+ with |X| = x with the largest probability of moment 1, else 0."""
        return min(1.0, math.pow(x, -k)) * max(0.0, x - threshold)

    at = k * threshold / (k - 1)
    assert at >= 1
    assert bias(at) == pytest.approx(worst, rel=1e-12, abs=0)
    assert max(bias(at * f) for f in np.geomspace(0.1, 10, 2001)) <= worst * (1 + 1e-12)


@pytest.mark.parametrize("k", [2, 3, 6])
@pytest.mark.parametrize("threshold", [0.2, 1.0, 5.0, 100.0])
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
