"""One noisy mean: the right noise, the right sensitivity, the right bias; kinds of data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

import dpbench.estimators as est
from dpbench.estimators.heavy_tailed import three_values, worst_clipping_bias
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from tests.support import (
    FALSE_ALARM,
    Floats,
    assert_follows,
    name,
    noise_law,
    off_by,
    rng,
    run,
    same_law,
    spreads,
)

# Budgets at which choices are neither certain nor noise.
NONE, PURE, GAUSS, APPROX = NonPrivate(), PureDP(6.0), ZCDP(4.0), ApproxDP(6.0, 0.01)
CLIPPED = est.ClippedMean(lower=-2.0, upper=3.0)
OUTPUTS: dict[str, Any] = {"buckets": 3, "lower": -4.0, "upper": 5.0}
PAPER = est.KSU20Mean(k=2.5, radius=1e300, constants="paper", beta=0.99)


# Kinds of data, whatever they are asked.


def test_a_clipped_mean_without_a_bound_releases_nothing() -> None:
    for lower, upper, shape in ((None, 1.0, (4, 5)), (0.0, None, (4, 5, 3))):
        ledger = Ledger(PureDP(0.5), rng())
        found = est.ClippedMean(lower=lower, upper=upper).run(DenseSample(np.ones(shape)), ledger)
        assert not any(ledger.spent)
        assert found.value.shape == (4, *shape[2:])
        assert np.isnan([found.value, found.before_noise]).all()


@pytest.mark.parametrize(
    ("estimator", "budget", "fewest"),
    [
        (est.FriendlyCoreMean(radius=3.0), APPROX, 3),
        (est.KSU20Mean(k=2, radius=1.5), PURE, 2),
        (PAPER, PURE, 282),
        (est.LearnedGaussian(radius=2.0), GAUSS, 2),
        (est.SubsampleAggregate(**OUTPUTS), PURE, 3),
        (est.SubsampleTest(buckets=4), PURE, 4),
    ],
    ids=name,
)
def test_too_few_records_are_refused(estimator: est.Estimator, budget: Budget, fewest: int) -> None:
    few = r"cannot (be cut|fill)|one record makes no pair|at least 3 records"
    for n in {1, fewest - 1}:
        for sample in (DenseSample(np.zeros((2, n))), CountedSample([0.0, 1.0], [[0, n], [n, 0]])):
            ledger = Ledger(budget, rng())
            with pytest.raises(ValueError, match=few):
                estimator.run(sample, ledger)
            assert not any(ledger.spent)
    assert run(estimator, np.zeros((2, fewest)), budget).value.shape == (2,)


NUMBERS, SPARSE = (
    DenseSample(np.zeros((2, 50))),
    SparseSample(np.ones((2, 3)), np.array([1, 1]), 50),
)


@pytest.mark.parametrize(
    ("estimator", "sample", "text"),
    [
        (est.CoinPressCovariance(bound=4.0), NUMBERS, "vectors"),
        (est.CoinPressCovariance(bound=4.0), SPARSE, "record by record"),
        (est.WhitenedCoinPressMean(radius=3.0, bound=4.0), SPARSE, "record by record"),
        (
            est.WhitenedCoinPressMean(radius=3.0, bound=4.0),
            DenseSample([[[1.0, 2.0]]]),
            "one record",
        ),
        (est.KSU20BallMean(k=2, radius=3.0), NUMBERS, "vectors"),
        (est.KSU20BallMean(k=2, radius=3.0), DenseSample([[[1.0, 2.0]]]), "one record"),
    ],
    ids=name,
)
def test_data_of_another_kind_are_refused(
    estimator: est.Estimator, sample: Sample, text: str
) -> None:
    ledger = Ledger(ZCDP(0.1), rng())
    with pytest.raises(ValueError, match=text):
        estimator.run(sample, ledger)
    assert not any(ledger.spent)


@pytest.mark.parametrize(
    ("estimator", "budget"),
    [
        (est.EmpiricalMean(), NONE),
        (est.Median(), NONE),
        (est.MedianOfMeans(groups=3), NONE),
        (est.TrimmedMean(fraction=0.2), NONE),
        (est.FriendlyCoreMean(radius=3.0), APPROX),
        (PAPER, PURE),
        (est.LearnedGaussian(radius=1e300, sigma_low=0.5, sigma_high=2.0), GAUSS),
        (est.LocalMean(k=2), PURE),
        (est.SubsampleAggregate(**OUTPUTS), PURE),
        (est.SubsampleAggregate(**OUTPUTS, aggregate="mean", base="median"), GAUSS),
        (est.SubsampleAggregate(**OUTPUTS, aggregate="mode", resolution=0.5), APPROX),
        (est.SubsampleTest(buckets=4, aggregate="exponential"), GAUSS),
    ],
    ids=name,
)
def test_dense_and_counted_data_agree(estimator: est.Estimator, budget: Budget) -> None:
    atoms, counts = np.array([-1.5, 0.25, 0.5, 2.0]), np.array([3, 9, 8, 5])
    counts = counts * (12 if isinstance(estimator, est.KSU20Mean) else 1)
    rows = np.tile(np.repeat(atoms, counts), (800, 1))
    # Records have an index in dense data, which counted data leave to chance.
    dense = run(estimator, rng(7).permuted(rows, axis=1), budget, seed=8).value
    ledger = Ledger(budget, rng(9))
    counted = estimator.run(CountedSample(atoms, np.tile(counts, (800, 1))), ledger)
    assert same_law(dense, counted.value)
    assert ledger.spent == pytest.approx(budget.amounts, rel=1e-9, abs=0)
    for far in (1e12, 1e300):
        sample = CountedSample([0.25, far], np.full((6, 2), counts.sum()))
        assert not np.isinf(run(estimator, sample, budget).value).any()


def test_the_median_of_an_even_number_is_between_the_middle_two() -> None:
    for sample in (DenseSample([[3.0, 1.0, 2.0, 10.0]]), CountedSample([2.0, 3.0], [[2, 2]])):
        assert run(est.Median(), sample, NONE).value.tolist() == [2.5]


@pytest.mark.parametrize(
    ("estimator", "budget"),
    [
        (est.BoundedMean(radius=2.0), PureDP(0.5)),
        (est.CoinPressMean(radius=3.0), ZCDP(0.1)),
        (est.CoordinateWise(base=CLIPPED), ApproxDP(0.5, 1e-5)),
        (est.FriendlyCoreMean(radius=3.0), ApproxDP(9.0, 1e-2)),
    ],
    ids=name,
)
def test_sparse_rows_are_records(estimator: est.Estimator, budget: Budget) -> None:
    rows = rng(14).choice([-2.0, 0.5, 0.0, 3.0, 1e150], (44, 3))
    dense = np.zeros((3, 40, 3))
    dense[0, :4], dense[2] = rows[:4], rows[4:]
    sparse = SparseSample(rows, np.array([4, 0, 40]), 40)
    one, two = (run(estimator, x, budget, seed=1) for x in (sparse, dense))
    np.testing.assert_allclose(one.before_noise, two.before_noise, rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(one.value, two.value, rtol=1e-9, atol=1e-12)


# Coordinate by coordinate.


@pytest.mark.parametrize(
    ("base", "budget", "share"),
    [
        (CLIPPED, PureDP(0.6), PureDP(0.12)),
        (CLIPPED, ApproxDP(0.6, 1e-4, "classical"), ApproxDP(0.12, 2e-5, "classical")),
        (est.CoinPressMean(radius=3.0), ZCDP(0.2), ZCDP(0.04)),
        (est.CoinPressMean(radius=3.0), ApproxDP(2.0, 1e-4), ApproxDP(0.4, 2e-5)),
        (est.KarwaVadhanMean(radius=9.0), PureDP(30.0), PureDP(6.0)),
    ],
    ids=name,
)
def test_coordinates_against_the_base_alone(
    base: est.Estimator, budget: Budget, share: Budget
) -> None:
    """The same stream, for all coordinates of the first trial, then of the second, and so on."""
    values = rng(8).normal(1, 2, (7, 30, 5))
    found = run(est.CoordinateWise(base=base), values, budget)
    alone = run(base, np.array([row[:, j] for row in values for j in range(5)]), share)
    np.testing.assert_allclose(found.value.ravel(), alone.value, rtol=1e-12)
    np.testing.assert_allclose(found.before_noise.ravel(), alone.before_noise, rtol=1e-12)


@pytest.mark.parametrize(
    "base", [est.EmpiricalMean(), "no_such_mean", 3, None, spreads, est.ClippedMean]
)
def test_other_bases_of_coordinates_are_refused(base: Any) -> None:
    with pytest.raises(ValueError, match=r"private estimator of scalars|choose from"):
        est.CoordinateWise(base=base)
    with pytest.raises(ConfigError, match=r"^estimator\.one\.base") as caught:
        est.Estimator.build({"kind": "coordinate_wise", "base": base}, "estimator.one")
    assert len(str(caught.value).splitlines()) == 1


# Noise, and the sensitivity that it is stated for.


@pytest.mark.parametrize("budget", [PureDP(0.5), ZCDP(0.1), ApproxDP(0.5, 1e-5, "ksu20")], ids=name)
@pytest.mark.parametrize("estimator", [CLIPPED, est.BoundedMean(radius=3.0)], ids=name)
def test_the_noise_of_vectors(estimator: est.Estimator, budget: Budget) -> None:
    """Delta_1 and Delta_2: d and sqrt(d) times 5/n; 2L sqrt(d)/n and 2L/n."""
    n, d = 3, 4
    l1, l2 = (5 * d, 5 * math.sqrt(d)) if estimator == CLIPPED else (6 * math.sqrt(d), 6.0)
    values = np.tile(np.linspace(-1, 1, n * d).reshape(n, d), (4000, 1, 1))
    found = run(estimator, values, budget)
    noise, law = found.value - found.before_noise, noise_law(budget, l1 / n, l2 / n)
    assert_follows(noise, law)
    # z-test with false-alarm probability 1e-6: coordinates are independent
    z = noise / law.std()
    limit = stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(len(z))
    assert abs(float((z[:, 0] * z[:, 1]).mean())) <= limit


HEAVY = est.HeavyTailedMean(k=3, policy="rate", radius=1.5)
LOCAL = est.LocalMean(k=3, radius=1.5, beta=0.01)
# And how wide the clip is, with n records.
ONE_STEP: list[tuple[Any, Callable[[int, Budget], float]]] = [
    (est.BinaryMean(), lambda n, b: 1.0),
    (est.BoundedMean(radius=2.5), lambda n, b: 5.0),
    (CLIPPED, lambda n, b: 5.0),
    (est.CoordinateWise(base=CLIPPED), lambda n, b: 5.0),
    (est.NaiveGaussianMean(radius=1.5), lambda n, b: 2 * (1.5 + math.sqrt(2 * math.log(20 * n)))),
    (HEAVY, lambda n, b: 2 * (1.5 + HEAVY.clipping_threshold(n, b))),
    (est.HeavyTailedMean(k=4, clip_at=0.7, radius=0.2), lambda n, b: 2 * (0.2 + 0.7)),
    (LOCAL, lambda n, b: 2 * (1.5 + LOCAL.clipping_threshold(n, b))),
]


def moves(estimator: est.Estimator, budget: Budget, points: Floats, n: int) -> Floats:
    """What the answer moves by between all neighbouring datasets of n of `points`."""
    index = np.array(list(itertools.product(range(len(points)), repeat=n)))
    found = run(estimator, points[index], budget).before_noise
    one, two = np.nonzero((index[:, None] != index[None]).sum(axis=2) == 1)
    return np.asarray(found[one] - found[two])


@pytest.mark.parametrize(("estimator", "width"), ONE_STEP, ids=name)
@pytest.mark.parametrize(("budget", "n"), [(PureDP(0.5), 1), (ZCDP(0.1), 3)], ids=["1", "3"])
def test_sensitivities_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, estimator: est.Estimator, width: Any, budget: Budget, n: int
) -> None:
    """No neighbours differ by more than is stated, and some by that much."""
    stated: list[float] = []
    real = Ledger.add_noise

    def spy(self: Ledger, values: Floats, sensitivity: float, **how: Any) -> Floats:
        l1 = how.get("l1")
        # An average of `draws` releases: each is of one record, and moves by draws times this.
        stated.extend(s / how.get("draws", 1) for s in (sensitivity, l1) if s is not None)
        return real(self, values, sensitivity, **how)

    monkeypatch.setattr(Ledger, "add_noise", spy)
    largest = np.abs(moves(estimator, budget, np.array([-1e6, -1.0, 0.0, 0.3, 1e6]), n)).max()
    assert stated == pytest.approx([largest] * len(stated), rel=1e-12, abs=0)
    assert largest == pytest.approx(width(n, budget) / n, rel=1e-12)


def test_the_l2_sensitivity_of_the_bounded_mean() -> None:
    ledger = Ledger(PureDP(0.5), rng())
    est.BoundedMean(radius=2.5, mechanism="l2").run(DenseSample(np.zeros((2, 4, 3))), ledger)
    assert "noise in l2, sensitivity 1.25" in ledger.receipt()


# The bias of clipping, and where to clip.


@pytest.mark.parametrize("budget", [PureDP(0.01), ZCDP(1e-4), ApproxDP(0.01, 1e-6)], ids=name)
@pytest.mark.parametrize(
    ("k", "n", "radius"), [(2, 10**12, 0.0), (2.5, 1000, 3.0), (6, 10**6, 40.0)]
)
@pytest.mark.parametrize("beta", [0.05, 0.7])
def test_the_minimax_threshold_is_the_minimiser(
    budget: Budget, k: float, n: int, radius: float, beta: float
) -> None:
    estimator = est.HeavyTailedMean(k=k, beta=beta, radius=radius)
    found = estimator.clipping_threshold(n, budget)

    def worst(t: float) -> float:
        return off_by(worst_clipping_bias(t, k), radius + t, n, beta, budget)

    assert worst(found) < min(worst(f * found) for f in (0.5, 0.999, 1.001, 2.0))
    if not radius:
        (needed,) = estimator.private_terms(worst(found), beta, 1e9, budget).values()
        assert needed == pytest.approx(n, rel=1e-6)


def test_thresholds_of_the_other_policies() -> None:
    n, eps = 10_000, 0.02
    for estimator, wanted in (
        (est.HeavyTailedMean(k=3, policy="rate", beta=0.01, c=0.4), 0.4 * (n * eps) ** (1 / 3)),
        (est.HeavyTailedMean(k=2, policy="all", beta=0.04), math.sqrt(n / 0.04)),
        (est.HeavyTailedMean(k=2, clip_at=7.5), 7.5),
        (est.LocalMean(k=2, beta=0.01, policy="rate"), (n * eps**2) ** 0.25),
    ):
        found = estimator.clipping_threshold(n, PureDP(eps))
        assert found == pytest.approx(wanted)


@pytest.mark.parametrize(("k", "threshold"), [(2, 0.9), (3, 5.0), (6, 1e4), (200.0, 1.1)])
def test_the_worst_bias_is_attained_and_never_exceeded(threshold: float, k: float) -> None:
    worst = worst_clipping_bias(threshold, k)

    def bias(x: float) -> float:
        """E(|X| - T)_+ with |X| = x with the largest probability of moment 1, else 0."""
        return min(1.0, math.pow(x, -k)) * max(0.0, x - threshold)

    at = k * threshold / (k - 1)
    assert bias(at) == pytest.approx(worst, rel=1e-12, abs=0)
    assert max(bias(at * f) for f in np.geomspace(0.1, 10, 2001)) <= worst * (1 + 1e-12)


@pytest.mark.parametrize("budget", [PureDP(0.01), ZCDP(1e-4)], ids=name)
def test_the_noise_of_the_local_mean(budget: Budget) -> None:
    n, trials = 500, 40_000
    estimator = est.LocalMean(k=3, radius=0.5)
    width = 2 * (0.5 + estimator.clipping_threshold(n, budget))
    sd = budget.noise_quantile(2 * float(stats.norm.sf(1)))
    one = 2 / 0.01**2 if isinstance(budget, PureDP) else sd**2
    z = run(estimator, np.zeros((trials, n)), budget).value / math.sqrt(one * width**2 / n)
    # z-tests with false-alarm probability 1e-6; excess kurtosis is 3/n or 0.
    limit = stats.norm.isf(FALSE_ALARM / 2)
    assert abs(z.mean()) <= limit / math.sqrt(trials)
    assert abs((z**2).mean() - 1) <= limit * math.sqrt((2 + 3 / n) / trials)


RESPONSE = est.LocalMean(k=3, radius=0.5, mechanism="randomised_response")


@pytest.mark.parametrize(
    ("estimator", "budget", "sd"),
    [
        (est.LocalMean(k=3, radius=0.5), PureDP(0.3), 2 * math.sqrt(2) / 0.3),
        (est.LocalMean(k=3, radius=0.5), ZCDP(0.02), 2 / 0.2),
        (RESPONSE, PureDP(0.3), (math.exp(0.3) + 1) / math.expm1(0.3)),
    ],
    ids=["laplace", "gaussian", "response"],
)
def test_the_local_threshold_is_the_minimiser(
    estimator: est.LocalMean, budget: Budget, sd: float
) -> None:
    n = 10**6
    found = estimator.clipping_threshold(n, budget)

    def worst(t: float) -> float:
        one = sd * (0.5 + t) / math.sqrt(n)
        centre = worst_clipping_bias(t, 3) / one
        return one * float(np.sqrt(stats.ncx2.isf(0.1, 1, centre**2)))

    assert worst(found) < min(worst(f * found) for f in (0.5, 0.999, 1.001, 2.0))


@pytest.mark.parametrize("epsilon", [0.2, 2.0])
def test_a_randomised_response_is_private_and_unbiased(epsilon: float) -> None:
    """A record's two answers have chances that differ by e^epsilon at most, and by that much."""
    budget, trials = PureDP(epsilon), 20_000
    bound = 0.5 + RESPONSE.clipping_threshold(1, budget)
    away = bound * (math.exp(epsilon) + 1) / math.expm1(epsilon)
    # z-tests with false-alarm probability 1e-6
    limit = stats.norm.isf(FALSE_ALARM / 2) / 2 / math.sqrt(trials)
    for x in (-1e9, 0.3, bound, 1e9):
        value = run(RESPONSE, np.full((trials, 1), x), budget).value
        assert np.abs(value) == pytest.approx(away)
        chance = (1 + max(-bound, min(x, bound)) / away) / 2
        assert abs(float(np.mean(value > 0)) - chance) <= limit
        odds = chance / (1 - chance)
        assert odds <= math.exp(epsilon) * (1 + 1e-12)
        assert abs(x) < 1e9 or odds ** math.copysign(1, x) == pytest.approx(math.exp(epsilon))


@pytest.mark.parametrize(
    "budget", [PureDP(0.3), PureDP(2.0), GDP(0.2), GDP(1.0), ZCDP(3.0)], ids=name
)
def test_a_release_of_three_values_is_private(budget: Budget) -> None:
    """Every test of every two records, in fifths of the clip: its power at its size."""
    low, high = three_values(budget)
    x = np.linspace(-1, 1, 11)
    up, down = low + (high - low) * np.maximum(x, 0), low + (high - low) * np.maximum(-x, 0)
    laws = np.stack([up, 1 - up - down, down], axis=1)
    tests = np.array(list(itertools.product([0.0, 0.3, 1.0], repeat=3)))
    size, power = np.broadcast_arrays((laws @ tests.T)[:, None], (laws @ tests.T)[None])
    if isinstance(budget, PureDP):
        most = np.minimum(
            size * math.exp(budget.epsilon), 1 - (1 - size) / math.exp(budget.epsilon)
        )
    else:
        mu = budget.mu if isinstance(budget, GDP) else math.sqrt(2 * budget.named_amounts["rho"])
        most = stats.norm.cdf(stats.norm.ppf(np.clip(size, 0, 1)) + mu)
    assert np.all(power <= most + 1e-12)
    assert np.any(power[(size > 0) & (size < 1)] >= most[(size > 0) & (size < 1)] - 1e-12)


def test_votes_are_unbiased_and_vary_as_they_should() -> None:
    """By all laws of few records, dense and counted, and of more than can be listed."""
    few, low, high = np.array([-3.0, 0.2, 0.2, 0.0]), 0.1, 0.4
    dense = DenseSample(np.broadcast_to(few, (40_000, 4)))
    counted = CountedSample([-3, 0.0, 0.2], [[1, 1, 2]] * 40_000)
    law = np.ones(1)
    for x in np.clip(few, -1, 1):
        up, down = low + (high - low) * max(x, 0), low + (high - low) * max(-x, 0)
        law = np.convolve(law, [down, 1 - up - down, up])
    for sample in (dense, counted):
        found = np.bincount(sample.votes(1.0, low, high, rng()).astype(int) + 4, minlength=9)
        assert stats.chisquare(found, law * 40_000).pvalue > FALSE_ALARM
    many = CountedSample([0.0, 0.5], [[10**12 - 10**6, 10**6]] * 1000)
    # a z-test with false-alarm probability 1e-6
    z = (many.votes(1.0, low, high, rng()) - 0.15e6) / math.sqrt(0.2e12)
    assert abs(z.mean()) <= stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(1000)
    # Of votes up 1 is rounded to, those down are left no chance.
    low, high = three_values(PureDP(50.0))
    assert high == 1
    assert CountedSample([-9.0, 9.0], [[3, 5]]).votes(1.0, low, high, rng()) == 2


def test_as_many_coins_fall_heads_in_counted_data() -> None:
    """Of few records by all their laws, and of many more than can be listed."""
    few, counted = (
        np.array([-3.0, 0.2, 0.2, 0.9]),
        CountedSample([-3, 0.2, 0.9], [[1, 2, 1]] * 40_000),
    )
    dense = DenseSample(np.broadcast_to(few, (40_000, 4)))
    law = np.ones(1)
    for x in np.clip(few, -1, 1):
        law = np.convolve(law, [(1 - 0.4 * x) / 2, (1 + 0.4 * x) / 2])
    for sample in (dense, counted):
        found = np.bincount(sample.heads(1.0, 0.4, rng()).astype(int), minlength=5)
        assert stats.chisquare(found, law * 40_000).pvalue > FALSE_ALARM
    many = CountedSample([0.0, 0.5], [[10**12 - 10**6, 10**6]] * 1000).heads(1.0, 0.5, rng())
    # a z-test with false-alarm probability 1e-6
    z = (many - 0.5e12 - 0.125e6) / 0.5e6
    assert abs(z.mean()) <= stats.norm.isf(FALSE_ALARM / 2) / math.sqrt(1000)
