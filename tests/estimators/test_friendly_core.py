"""FriendlyCore: bounds on the filter by brute force, distribution and cost of the release."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

from dpbench.estimators import FriendlyCoreMean, friendly_core
from dpbench.estimators.base import Estimate
from dpbench.estimators.friendly_core import core_weights, count_within, gaussian_diameter
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.samples import CountedSample, Sample
from tests import support
from tests.conftest import Step
from tests.support import FALSE_ALARM, Floats, assert_follows, noise_law

Composition = Literal["basic", "zcdp"]
BUDGET = ApproxDP(1.0, 1e-6)


def run(estimator: FriendlyCoreMean, data: Floats | Sample, budget: Budget = BUDGET) -> Estimate:
    return support.run(estimator, data, budget)


# Friends: counts against exact fractions, at all scales.


def exact_counts(rows: Floats, radius: float) -> list[int]:
    """Count friends in exact arithmetic."""
    exact = [[Fraction(float(x)) for x in row] for row in rows]
    bound = Fraction(radius) ** 2
    return [
        sum(sum((a - b) ** 2 for a, b in zip(x, y, strict=True)) <= bound for y in exact)
        for x in exact
    ]


def adversarial() -> dict[str, tuple[Floats, float]]:
    """Return hard rows and a radius, by name."""
    rng = np.random.default_rng(0)
    lattice = rng.integers(-6, 7, (40, 2)).astype(float)  # many pairs at distance 5 exactly
    close = lattice[:12].copy()
    close[::2, 1] += 2.0**-12
    far = np.concatenate([lattice[:20], 1e12 + close, -(2.0**50) + lattice[:4]])
    huge = np.zeros((20, 3))
    huge[3:9] = 1e150
    huge[6:9] *= 1 + 2.0**-50 * np.arange(3)[:, None]
    huge[9:12] = -1e300
    huge[12:15] = 1.7e308 * np.array([[1], [-1], [1]])
    near = 2.0**500 * (2.0**40 + lattice[:16])
    # Squares are finite, products are not.
    brink = 1.2e154 * np.array([0.0] * 9 + [1.0, 1 + 2.0**-20, -1.0, 1.0])[:, None]
    half = 0.5 + np.array([0.0, 2.0**-40, -(2.0**-40)])  # near half the radius off the bulk
    opposite = np.concatenate([np.zeros(20), half, -half])[:, None]
    return {
        "lattice": (lattice, 5.0),
        "lattice, scaled": (lattice * 2.0**-700, 5 * 2.0**-700),
        "lattice at 2^540": (near, 5 * 2.0**500),
        "clusters at 1e12": (far, 5.0),
        "rows at 1e150 and 1e300": (huge, 1.0),
        "squares that nearly overflow": (brink, 1.0),
        "opposite": (opposite, 1.0),
        "a huge radius": (huge, 1e300),
        "a tiny radius": (huge, 1e-310),
        "duplicates": (np.repeat(lattice[:5], 6, axis=0), 1e-9),
        "shells": (4.0 ** np.arange(40)[:, None] * [1.0, 0.0], 3.0),
        "d = 1": (np.concatenate([lattice[:, :1], 1e9 + lattice[:, :1]]), 2.0),
        "d > n": (rng.integers(-1, 2, (9, 64)).astype(float) + 1e8 * np.eye(9, 64), 9.0),
        "few": (lattice[:2], 5.0),
    }


@pytest.mark.parametrize("name", adversarial())
def test_counts_against_exact_fractions(name: str) -> None:
    rows, radius = adversarial()[name]
    expected = np.array(exact_counts(rows, radius))
    assert (
        count_within(rows[None], radius)[0].tolist() == expected.tolist()
    )  # one trial may be split
    orders = np.array([np.random.default_rng(i).permutation(len(rows)) for i in range(5)])
    np.testing.assert_array_equal(count_within(rows[orders], radius), expected[orders])


def test_whether_two_are_friends_does_not_depend_on_the_others() -> None:
    """Counts are sums of counts of pairs; otherwise the filter would not be stable.

    Many pairs are at distance r up to rounding, so that both answers occur.
    """
    rng = np.random.default_rng(3)
    calls = set()
    for scale in (0.0, 1.0, 1e3, 1e8, 1e14, 1e200):
        lattice = 0.1 * rng.integers(-5, 6, (60, 2))  # (0.3, 0.4) is at distance 0.5 up to rounding
        outliers = scale * rng.standard_normal((25, 2))
        rows = np.concatenate([outliers, lattice])
        i, j = np.triu_indices(len(rows), 1)
        alone = count_within(np.stack([rows[i], rows[j]], axis=1), 0.5)
        expected = np.ones(len(rows))
        np.add.at(expected, i, alone[:, 0] - 1)
        np.add.at(expected, j, alone[:, 1] - 1)
        for extra in (1, 2):  # one trial, and several
            counts = count_within(np.repeat(rows[None], extra, axis=0), 0.5)
            np.testing.assert_array_equal(counts, np.tile(expected, (extra, 1)))
        exact = np.abs(np.hypot(*(rows[i] - rows[j]).T) - 0.5) < 1e-12
        calls |= set(alone[exact, 0])
    assert calls == {1, 2}  # rounding goes both ways


@pytest.mark.parametrize("chunk", [1, 333, 10**7])
def test_chunks_do_not_change_counts(monkeypatch: pytest.MonkeyPatch, chunk: int) -> None:
    rng = np.random.default_rng(4)
    rows = rng.standard_normal((6, 37, 3))
    rows[1:3, ::4] += 1e13
    rows[4, 5] = 1e300
    counts = rng.integers(0, 4, (6, 37)).astype(float)
    radius = 2.0
    plain, held = count_within(rows, radius), count_within(rows, radius, counts)
    monkeypatch.setattr(friendly_core, "CHUNK", chunk)
    np.testing.assert_array_equal(count_within(rows, radius), plain)
    np.testing.assert_array_equal(count_within(rows, radius, counts), held)


# The filter.


class Change:
    """Distances between the filter's results on neighbours that differ in their last record."""

    def __init__(self, left: Floats, right: Floats, radius: float) -> None:
        datasets = [left, right]
        w, v = (core_weights(count_within(x, radius), x.shape[1]) for x in datasets)
        moved = np.abs(w - v)
        self.l1, self.shared = moved.sum(axis=1), moved[:, :-1].sum(axis=1)
        total, total_ = w.sum(axis=1), v.sum(axis=1)
        self.sums = np.abs(total - total_)

        points = np.concatenate([left, right[:, -1:]], axis=1)
        core = np.concatenate([np.maximum(w, v)[:, :-1], w[:, -1:], v[:, -1:]], axis=1) > 0
        distance = np.linalg.norm(points[:, :, None] - points[:, None], axis=3)
        pairs = core[:, :, None] & core[:, None]
        self.diameter = np.where(pairs, distance, 0).max(axis=(1, 2)) / radius
        near = (distance <= radius).astype(float)
        self.apart = (pairs & (near @ near == 0)).any(axis=(1, 2))  # no common friend

        with np.errstate(invalid="ignore", divide="ignore"):
            means = [np.einsum("tn,tnd->td", a, x) for a, x in zip((w, v), datasets, strict=True)]
            shift = means[0] / total[:, None] - means[1] / total_[:, None]
            shift = np.linalg.norm(shift, axis=1) * np.maximum(total, total_) / radius
        self.shift = np.where((total > 0) & (total_ > 0), shift, 0.0)

    def check(self) -> None:
        tiny = 1e-12
        assert self.l1.max() <= 3 + tiny
        assert self.shared.max() <= 2 + tiny
        assert self.sums.max() <= 3 + tiny
        assert self.diameter.max() <= 2 + tiny
        assert not self.apart.any()
        assert self.shift.max() <= friendly_core.MEAN_STEP + tiny


@pytest.mark.parametrize("n", [3, 4, 5])
def test_stability_by_exhaustive_search(n: int) -> None:
    grid = range(10)
    shared = np.array(list(itertools.combinations_with_replacement(grid, n - 1)), dtype=float)
    last = np.array(list(itertools.combinations(grid, 2)), dtype=float)
    left, right = (
        np.concatenate(
            [np.repeat(shared, len(last), 0), np.tile(last[:, k], len(shared))[:, None]], 1
        )
        for k in (0, 1)
    )
    largest = 0.0
    for radius in (1.0, 2.0, 3.0):
        change = Change(left[..., None], right[..., None], radius)
        change.check()
        largest = max(largest, change.l1.max())
    assert largest == pytest.approx(3, abs=1e-12)  # 3 is attained


# With n = 7 all pairs are counted at once, with n = 20 from an origin.
@pytest.mark.parametrize(("n", "climbers"), [(7, 100), (20, 8)])
def test_stability_by_hill_climbing(n: int, climbers: int) -> None:
    """Climb by small changes of vectors, kept if the weighted means differ by no less."""
    rng = np.random.default_rng(n)
    points, best = 0.5 * rng.standard_normal((climbers, n + 1, 2)), np.full(climbers, -1.0)
    for _ in range(150):
        moved = rng.random((climbers, n + 1, 1)) < 2 / n
        candidates = points + 0.3 * moved * rng.standard_normal(points.shape)
        change = Change(candidates[:, :-1], np.delete(candidates, n - 1, axis=1), 1.0)
        change.check()
        better = change.shift >= best
        points[better], best[better] = candidates[better], change.shift[better]
    assert best.max() >= 1.0  # the climb is not idle


def test_the_filter_of_lecture_17_is_not_enough() -> None:
    left, right = np.array([1.5, 2.5, 4.0]), np.array([4.0, 2.5, 4.0])
    counts = count_within(np.stack([left, right])[..., None], 1.0)
    assert counts.tolist() == [[2, 2, 1], [2, 1, 2]]
    lecture = np.clip((counts - 3 / 2) / (3 / 2), 0, 1) > 0
    assert lecture.tolist() == [
        [True, True, False],
        [True, False, True],
    ]  # 1.5 and 4 are both in a core, without a common friend
    assert not core_weights(counts, 3).any()


@pytest.mark.parametrize(("n", "eta"), [(50, 0.0), (51, 0.1), (1000, 0.3), (51, 0.49), (50, 0.5)])
def test_weights_of_contaminated_data(n: int, eta: float) -> None:
    """A share eta of the records is far from the others and from each other."""
    m = round((1 - eta) * n)
    data = np.zeros((2, n, 3))
    data[:, m:, 1] = 100.0 * (1 + np.arange(n - m))
    estimate = run(FriendlyCoreMean(radius=1.0, sigma=1), data)
    share = m / n * max(0.0, (2 * m - n - 1) / (n - 1))
    assert estimate.core == pytest.approx(share, abs=1e-12)
    assert share == pytest.approx(max(0.0, (1 - eta) * (1 - 2 * eta)), abs=2 / n)
    np.testing.assert_array_equal(estimate.before_noise[np.isfinite(estimate.value)], 0)
    if eta >= 0.5:
        assert np.isnan([estimate.value, estimate.before_noise]).all()


# The release.


@pytest.mark.parametrize(
    ("composition", "noise_by"), [("basic", "analytic"), ("basic", "laplace"), ("zcdp", "analytic")]
)
def test_the_laws_of_both_noises(
    steps: list[Step], composition: Composition, noise_by: Any
) -> None:
    """Kolmogorov-Smirnov tests, each with false-alarm probability 1e-6."""
    data = np.random.default_rng(7).standard_normal((200, 3))
    data[:20] += 1e6
    budget = ApproxDP(1.0, 1e-6, noise_by=noise_by)
    estimator = FriendlyCoreMean(radius=6.0, sigma=1, threshold=0.3, composition=composition)
    estimate = run(estimator, np.broadcast_to(data, (20_000, 200, 3)), budget)
    first, last = steps
    if composition == "basic":
        assert first.budget == PureDP(0.5)
        assert last.budget == ApproxDP(0.5, 5e-7, noise_by=noise_by)
    else:
        assert isinstance(first.budget, ZCDP)
        assert first.budget == last.budget
        assert ZCDP(2 * first.budget.rho).to_approx(5e-7).epsilon == pytest.approx(1.0, rel=1e-6)
    friends = (np.linalg.norm(data[:, None] - data, axis=2) <= 6).sum(axis=1)
    weights = np.clip((friends - 100.5) / 99.5, 0, 1)
    np.testing.assert_allclose(first.values, weights.sum(), rtol=1e-12)
    np.testing.assert_allclose(estimate.core, weights.sum() / 200, rtol=1e-12)  # type: ignore[arg-type]
    assert_follows(first.released - first.values, noise_law(first.budget, 3.0, 3.0))

    # The bound that the noise of W exceeds with probability delta/2 is subtracted.
    least = first.released - noise_law(first.budget, 3.0, 3.0).isf(5e-7)
    released = least > 60
    np.testing.assert_array_equal(np.isnan(estimate.value), np.tile(~released[:, None], (1, 3)))
    assert 500 < released.sum() < 19_990
    before = estimate.before_noise[released]
    mean = weights @ data / weights.sum()
    np.testing.assert_allclose(before, np.tile(mean, (len(before), 1)), atol=1e-12)
    unit = (estimate.value[released] - before) / (6 * 6.0 / least[released, None])
    assert_follows(unit, noise_law(last.budget, np.sqrt(3), 1.0))


def test_a_release_needs_more_than_three(monkeypatch: pytest.MonkeyPatch) -> None:
    """At a lower bound of 3 or less a neighbour's core may be empty, for every threshold."""
    noise = np.array([2.9, 3.0, 3.0 + 1e-9, 3.1, -7.0])

    def fixed(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
        self.pay()
        bound = float(stats.laplace(scale=6).isf(5e-7))
        return noise + bound if values.ndim == 1 else values

    monkeypatch.setattr(Ledger, "add_noise", fixed)
    value = run(FriendlyCoreMean(radius=1.0, sigma=1, threshold=0.0), np.zeros((5, 40, 2))).value
    assert np.isfinite(value[:, 0]).tolist() == [False, False, True, True, False]


def test_the_default_radius_covers_gaussian_data() -> None:
    n, d, beta = 40, 5, 0.1
    t = np.log(n**2 / beta)
    expected = np.sqrt(2 * d + 4 * np.sqrt(d * t) + 4 * t)
    assert gaussian_diameter(n, d, beta) == pytest.approx(expected, rel=1e-12)
    estimator = FriendlyCoreMean(sigma=3.0, beta=beta)
    assert estimator.friend_radius(n, d) == pytest.approx(3 * expected, rel=1e-12)
    data = 100 + 3 * np.random.default_rng(9).standard_normal((3000, n, d))
    estimate = run(estimator, data)
    assert estimate.core is not None
    # Binomial test with false-alarm probability 1e-6.
    assert stats.binom.sf(int(np.sum(estimate.core < 1)) - 1, 3000, beta) > FALSE_ALARM


def test_far_outliers_take_no_digits() -> None:
    data = 1e12 + np.arange(400.0).reshape(2, 200, 1) % 3 - 1
    expected = data[:, :150].mean(axis=1)
    data[:, 150:] = 1e300
    data[1, 160:] = -1.7e308
    estimate = run(FriendlyCoreMean(radius=4.0, sigma=1), data, ApproxDP(10.0, 1e-3))
    np.testing.assert_allclose(estimate.before_noise, expected, rtol=1e-16)
    assert np.all(np.abs(estimate.value - 1e12) < 10)
    data[:, :150], data[:, 150:] = 1e308, -1e308  # farther apart than the largest number
    estimate = run(FriendlyCoreMean(radius=4.0, sigma=1), data, ApproxDP(10.0, 1e-3))
    np.testing.assert_array_equal(estimate.before_noise, 1e308)


def test_counted_data_are_records_one_by_one() -> None:
    counted = CountedSample([0.0, 1.5, 3.0, 50.0], [[90, 60, 40, 10], [150, 0, 0, 50]])
    dense = np.array([np.repeat(counted.atoms, c) for c in counted.counts])
    budget = ApproxDP(5.0, 1e-3)
    from_counts, from_records = (
        run(FriendlyCoreMean(radius=2.0, sigma=1), x, budget) for x in (counted, dense)
    )
    assert np.isfinite(from_counts.value).any()
    np.testing.assert_allclose(from_counts.core, from_records.core, rtol=1e-12)  # type: ignore[arg-type]
    np.testing.assert_allclose(
        from_counts.before_noise, from_records.before_noise, rtol=1e-12, atol=1e-15
    )
    np.testing.assert_allclose(from_counts.value, from_records.value, rtol=1e-9)
    many = CountedSample([0.0, 1.0, 1e6], [[6 * 10**11, 3 * 10**11, 10**11]])
    estimate = run(FriendlyCoreMean(radius=2.0, sigma=1), many)
    assert estimate.core == pytest.approx([0.9 * 0.8], rel=1e-9)
    assert estimate.before_noise == pytest.approx([1 / 3], rel=1e-12)
