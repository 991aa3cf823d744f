"""Means, moments and samples of every law against quadrature and scipy.stats."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats
from support import BIG, assert_follows, assert_frequencies, assert_standard

from dpbench.distributions import (
    Bernoulli,
    ContaminatedGaussian,
    Distribution,
    Gaussian,
    Pareto,
    StudentT,
    TwoPoint,
)
from dpbench.samples import CountedSample, DenseSample


@dataclass(frozen=True)
class Oracle:
    """A law, its parts as frozen scipy laws with weights, and where its density bends."""

    law: Distribution
    parts: list[tuple[float, Any]]
    bends: list[float]

    def cdf(self, x: Any) -> Any:
        return sum(w * part.cdf(x) for w, part in self.parts)

    def expect(self, f: Callable[[float], float]) -> float:
        ends = sorted(self.bends)
        return sum(
            w * integrate.quad(lambda x, p=part: f(x) * p.pdf(x), a, b, epsrel=1e-11, limit=400)[0]
            for w, part in self.parts
            for a, b in itertools.pairwise(ends)
        )


def pareto(a: float, mean: float, scale: float) -> Any:
    return stats.pareto(a, loc=mean - scale * a / (a - 1), scale=scale)


INF = math.inf
CONTINUOUS = [
    Oracle(Gaussian(location=1.5, scale=2.0), [(1.0, stats.norm(1.5, 2))], [-INF, 1.5, INF]),
    Oracle(
        StudentT(tail_index=5.5, location=-2.0, scale=0.5),
        [(1.0, stats.t(5.5, loc=-2, scale=0.5))],
        [-INF, -2.0, INF],
    ),
    Oracle(
        Pareto(tail_index=4.5, location=3.0, scale=2.0),
        [(1.0, pareto(4.5, 3.0, 2.0))],
        [3 - 2 / 3.5, 3.0, 10.0, INF],
    ),
    Oracle(
        ContaminatedGaussian(eta=0.1, gap=8.0, spread=0.5, location=2.0, scale=3.0),
        [(0.9, stats.norm(2, 3)), (0.1, stats.norm(26, 1.5))],
        [-40.0, 2.0, 4.4, 20.0, 26.0, 45.0],
    ),
    Oracle(
        StudentT(tail_index=3.5, unit_moment=2.0),
        [(1.0, stats.t(3.5, scale=math.sqrt(1.5 / 3.5)))],
        [-INF, 0.0, INF],
    ),
    Oracle(
        Pareto(tail_index=3.2, unit_moment=2.0),
        [(1.0, pareto(3.2, 0.0, 1 / stats.pareto(3.2).std()))],
        [-stats.pareto(3.2).mean() / stats.pareto(3.2).std() * (1 - 2.2 / 3.2), 0.0, 10.0, INF],
    ),
]
each = pytest.mark.parametrize("oracle", CONTINUOUS, ids=lambda o: type(o.law).__name__)
LOCATED: list[Callable[[float], Distribution]] = [
    lambda at: Gaussian(location=at, scale=2.0),
    lambda at: StudentT(tail_index=4.5, location=at),
    lambda at: Pareto(tail_index=4.5, location=at),
    lambda at: ContaminatedGaussian(eta=0.2, gap=5.0, location=at),
    lambda at: TwoPoint(p=0.1, k=3, location=at),
    lambda at: TwoPoint(p=0.1, k=3, sign=-1, location=at),
]
UNIT: list[Callable[[float], Distribution]] = [
    lambda k: Gaussian(unit_moment=k),
    lambda k: StudentT(tail_index=k + 0.3, unit_moment=k),
    lambda k: Pareto(tail_index=k + 0.3, unit_moment=k),
    lambda k: Pareto(tail_index=1000.0, unit_moment=k),
    lambda k: ContaminatedGaussian(eta=0.01, gap=100.0, unit_moment=k),
    lambda k: TwoPoint(p=1e-11, k=k),
    lambda k: TwoPoint(p=0.6, k=k, sign=-1),
]


@each
def test_mean_against_quadrature(oracle: Oracle) -> None:
    # sums of signed parts: the tolerance is on the scale of E|X|
    size = oracle.expect(abs)
    assert abs(oracle.expect(lambda x: x) - float(oracle.law.mean)) <= 1e-9 * size


@each
@pytest.mark.parametrize("k", [2, 2.5, 4])
def test_moments_against_quadrature(oracle: Oracle, k: float) -> None:
    found = oracle.law.moment(k)
    tail = getattr(oracle.law, "tail_index", INF)
    if k >= tail:
        assert found == INF
        return
    if tail - k < 0.6:  # the integrand is too close to x^-1 for the quadrature
        return
    mean = float(oracle.law.mean)
    wanted = oracle.expect(lambda x: abs(x - mean) ** k)
    assert found == pytest.approx(wanted, rel=1e-8, abs=0)
    if k == 2:
        assert oracle.law.variance == found


@each
def test_samples_follow_the_cdf(oracle: Oracle) -> None:
    for rng in (np.random.default_rng(1), np.random.Generator(np.random.SFC64(2))):
        sample = oracle.law.sample(rng, 4, 25_000)
        assert isinstance(sample, DenseSample)
        assert (sample.trials, sample.n, sample.d) == (4, 25_000, oracle.law.d)
        assert_follows(sample.values, oracle)


@pytest.mark.parametrize("p", [0.0, 1e-9, 0.3, 1.0])
@pytest.mark.parametrize("k", [2, 3.7])
def test_bernoulli_moments(p: float, k: float) -> None:
    law = Bernoulli(p=p)
    assert law.mean == p
    assert law.moment(k) == pytest.approx(p * (1 - p) ** k + (1 - p) * p**k, rel=1e-13, abs=0)
    assert law.variance == pytest.approx(p * (1 - p), rel=1e-13, abs=0)


@pytest.mark.parametrize("p", [1e-12, 0.3, 0.97])
@pytest.mark.parametrize(("k", "sign"), [(2, 1), (2.5, -1), (6, 1)])
def test_two_point_moments(p: float, k: float, sign: Any) -> None:
    law = TwoPoint(p=p, k=k, sign=sign, location=0.25)
    tau = law.tau
    assert law.moment(k) == pytest.approx(1.0, rel=1e-12, abs=0)
    assert p * (1 - p) * tau**k * ((1 - p) ** (k - 1) + p ** (k - 1)) == pytest.approx(1.0)
    assert law.mean == pytest.approx(0.25 + sign * p * tau, rel=1e-14, abs=0)
    for order in (2, 3.3):
        wanted = p * ((1 - p) * tau) ** order + (1 - p) * (p * tau) ** order
        assert law.moment(order) == pytest.approx(wanted, rel=1e-12, abs=0)


def test_a_two_point_law_that_is_a_point() -> None:
    law = TwoPoint(p=0.0, k=2, location=3.0)
    assert (law.tau, law.mean, law.moment(2), law.variance) == (0.0, 3.0, 0.0, 0.0)
    sample = law.sample(np.random.default_rng(0), 4, BIG)
    assert sample.mean().tolist() == [3.0] * 4


@pytest.mark.parametrize("sign", [-1, 1])
def test_the_rare_point_lies_on_the_side_of_the_sign(sign: Any) -> None:
    law = TwoPoint(p=0.01, k=2, sign=sign, location=1.0)
    sample = law.sample(np.random.default_rng(0), 3, 1000)
    common, rare = (0, 1) if sign == 1 else (1, 0)
    assert sample.atoms[common] == 1.0
    assert sample.atoms[rare] == 1.0 + sign * law.tau
    assert np.all(sample.counts[:, common] > sample.counts[:, rare])
    mirrored = TwoPoint(p=0.01, k=2, sign=1).sample(np.random.default_rng(0), 3, 1000)
    np.testing.assert_array_equal(sample.counts[:, rare], mirrored.counts[:, 1])


@pytest.mark.parametrize("make", UNIT)
@pytest.mark.parametrize("k", [2.0, 3.0, 6.0])
def test_the_moment_asked_for_is_one(make: Callable[[float], Distribution], k: float) -> None:
    assert make(k).moment(k) == pytest.approx(1.0, rel=1e-12, abs=0)


@pytest.mark.parametrize("make", LOCATED)
def test_location_moves_the_mean_and_nothing_else(make: Callable[[float], Distribution]) -> None:
    here, there = make(0.0), make(10.0)
    assert there.mean - here.mean == pytest.approx(10.0)
    assert there.target - here.target == pytest.approx(10.0)
    assert [there.moment(k) for k in (2, 3.3)] == [here.moment(k) for k in (2, 3.3)]
    one, two = (law.sample(np.random.default_rng(5), 3, 40) for law in (here, there))
    np.testing.assert_allclose(two.mean() - one.mean(), 10.0)
    np.testing.assert_allclose(two.quantile(0.3) - one.quantile(0.3), 10.0)


def test_infinite_moments() -> None:
    for law in (StudentT(tail_index=2.5), Pareto(tail_index=2.5)):
        assert law.moment(2.5) == INF
        assert law.moment(3) == INF
        assert math.isfinite(law.moment(2.49))
    for law in (StudentT(tail_index=2.0), Pareto(tail_index=1.5)):
        assert law.variance == INF
        assert math.isfinite(law.mean)


def test_moments_of_light_tails_tend_to_their_limits() -> None:
    assert StudentT(tail_index=1e5).moment(4) == pytest.approx(3.0, rel=1e-3, abs=0)
    # (Pareto(a) - 1) a tends to an exponential law, of variance 1.
    assert Pareto(tail_index=1e4).variance * 1e8 == pytest.approx(1.0, rel=1e-3, abs=0)


@pytest.mark.parametrize(("gap", "spread"), [(100.0, 1.0), (1e4, 1e-3), (-30.0, 5.0)])
def test_the_target_of_contaminated_data_is_the_clean_mean(gap: float, spread: float) -> None:
    law = ContaminatedGaussian(eta=0.1, gap=gap, spread=spread, location=2.0, scale=3.0)
    assert law.target == 2.0
    assert law.mean == pytest.approx(2 + 0.1 * 3 * gap)
    wanted = 9 * (0.9 + 0.1 * spread**2 + 0.09 * gap**2)
    assert law.variance == pytest.approx(wanted, rel=1e-12, abs=0)


def test_counts_are_binomial() -> None:
    for law, p in ((Bernoulli(p=0.03), 0.03), (TwoPoint(p=0.03, k=2), 0.03)):
        sample = law.sample(np.random.default_rng(3), 50_000, 40)
        assert isinstance(sample, CountedSample)
        assert np.all(sample.counts.sum(axis=1) == 40)
        found = np.bincount(sample.counts[:, 1], minlength=41)
        assert_frequencies(found, stats.binom.pmf(np.arange(41), 40, p))


@pytest.mark.parametrize("law", [Bernoulli(p=0.3), TwoPoint(p=0.3, k=2), Bernoulli(p=1e-5)])
def test_counted_laws_at_large_n(law: Distribution) -> None:
    trials = 5000
    sample = law.sample(np.random.default_rng(9), trials, BIG)
    assert isinstance(sample, CountedSample)
    assert np.all(sample.counts.sum(axis=1) == BIG)
    assert_standard((sample.mean() - law.mean) / math.sqrt(law.variance / BIG))


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        (Gaussian, {"scale": 0.0}),
        (Gaussian, {"location": math.nan}),
        (Gaussian, {"scale": 2.0, "unit_moment": 2.0}),
        (Gaussian, {"unit_moment": 1.5}),
        (Gaussian, {"sigma": 1.0}),
        (StudentT, {"tail_index": 1.0}),
        (StudentT, {"tail_index": 3.0, "unit_moment": 3.0}),
        (Pareto, {"tail_index": 2.0, "unit_moment": 2.0}),
        (Pareto, {"tail_index": 1e6}),  # beyond its closed form
        (ContaminatedGaussian, {"eta": 1.1, "gap": 3.0}),
        (ContaminatedGaussian, {"eta": 0.1, "gap": 3.0, "spread": 0.0}),
        (Bernoulli, {"p": 1.01}),
        (TwoPoint, {"p": 1.0, "k": 2.0}),
        (TwoPoint, {"p": 0.5, "k": 1.9}),
        (TwoPoint, {"p": 0.5, "k": 2.0, "sign": 0}),
    ],
)
def test_invalid_parameters_are_refused(law: Any, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        law(**parameters)


# Gaussians, standard deviations apart and wider or narrower: far, near, and nearly the same.
PAIRS = [
    (delta, ratio)
    for delta in (0.0, 1e-3, -1.0, 2.5, 30.0)
    for ratio in (1.0, 1 + 1e-12, 1 - 1e-9, 1.01, 0.02, 3.0)
]


def distance(delta: float, ratio: float) -> float:
    """Half of the integral of |phi - density of N(delta, ratio^2)|, on both laws' quantiles."""
    u = np.linspace(-9, 9, 60_001)
    z = np.sort(np.concatenate([u, delta + ratio * u]))
    gap = np.abs(stats.norm.pdf(z) - stats.norm.pdf(z, delta, ratio))
    return float(np.trapezoid(gap, z) / 2)


def test_distances_between_gaussians_against_quadrature() -> None:
    location, scale = 170.0, 8.0
    delta, ratio = np.array(PAIRS).T
    law = Gaussian(location=location, scale=scale)
    found = law.distance_to_gaussian(location + scale * delta, scale * ratio)
    wanted = [distance(*pair) for pair in PAIRS]
    # 170 + 8e-6 has lost 4e-9 of its delta.
    np.testing.assert_allclose(found, wanted, rtol=1e-6, atol=1e-9)
    assert np.all((found >= 0) & (found <= 1))
    # It is a distance: from N(0, 1) to N(d, r^2) as back, and the same for -d.
    unit = Gaussian().distance_to_gaussian(delta, ratio)
    np.testing.assert_allclose(Gaussian().distance_to_gaussian(-delta, ratio), unit, atol=1e-12)
    back = [
        float(Gaussian(location=d, scale=r).distance_to_gaussian(np.zeros(1), np.ones(1))[0])
        for d, r in PAIRS
    ]
    np.testing.assert_allclose(back, unit, rtol=1e-9, atol=1e-9)


def test_distances_at_their_ends() -> None:
    law = Gaussian(location=2.0, scale=3.0)
    same = law.distance_to_gaussian(np.array([2.0]), np.array([3.0]))
    assert same.tolist() == [0.0]
    far = law.distance_to_gaussian(np.array([1e9, -1e150, 2.0]), np.array([3.0, 3.0, 1e-12]))
    np.testing.assert_allclose(far, 1.0, rtol=1e-9)
    # Nothing was released.
    nothing = law.distance_to_gaussian(np.array([np.nan, 2.0]), np.array([3.0, np.nan]))
    assert np.all(np.isnan(nothing))


def test_distances_beyond_the_range_of_squares() -> None:
    law = Gaussian()
    for mean, sd in ((1e200, 1.0), (0.0, 1e-200), (0.0, 0.0), (1.0, 0.0)):
        with np.errstate(all="ignore"):
            assert law.distance_to_gaussian(np.array([mean]), np.array([sd])).tolist() == [1.0]
