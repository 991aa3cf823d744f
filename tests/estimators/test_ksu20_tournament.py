"""Tests of the tournament of KSU20: scores, their sensitivity, the choice and its promise."""

from __future__ import annotations

import dataclasses
import itertools
import math
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions.sparse import ProductTwoPoint
from dpbench.estimators import Estimate, ksu20, ksu20_tournament, moment_bins
from dpbench.estimators.ksu20_tournament import Cover, KSU20TournamentMean, Records, scores
from dpbench.privacy import Ledger, PureDP
from dpbench.privacy.histogram import private_mode_bin
from dpbench.samples import DenseSample, Sample, SparseSample
from dpbench.samples.base import part_sizes
from tests.support import FALSE_ALARM, Floats, assert_frequencies, run

EPS = PureDP(1.0)


def of(values: Floats, groups: int = 1) -> Records:
    """Return the records of a (trials, n, d) array."""
    return Records.from_sample(DenseSample(values), groups, np.random.default_rng(0))


def axis(d: int, box: float) -> Floats:
    """Return the points of an axis in units of alpha: steps of 1/sqrt(d) that reach +-box."""
    steps = 1
    while steps / math.sqrt(d) < 2 * box * (1 - 1e-9):
        steps += 1
    return np.asarray((np.arange(steps + 1) - steps / 2) / math.sqrt(d))


def points(cover: Cover) -> Floats:
    return np.array(list(itertools.product(axis(cover.d, cover.box), repeat=cover.d)))


def naive_scores(
    rows: Floats, groups: int, centre: Floats, cover: Cover, alpha: float, xi: float
) -> Floats:
    """Return the scores by their definition, from all subsets of records and pairs of points."""
    n = len(rows)
    ends = np.cumsum([0, *part_sizes(n, groups)])
    subsets = np.array(list(itertools.product([False, True], repeat=n)))
    grid = centre + alpha * points(cover)
    results = []
    for p in grid:
        fewest = n * alpha
        for q in grid:
            distance = np.linalg.norm(q - p)
            if distance <= cover.tie * alpha * (1 + 1e-9):
                continue
            y = np.clip(np.clip(rows - p, -1e200, 1e200) @ ((q - p) / distance), -xi, xi)
            sums = np.add.reduceat(np.where(subsets, xi, y), ends[:-1], axis=1)
            medians = np.sort(sums / np.diff(ends), axis=1)[:, groups // 2]
            lost = medians >= distance / 2
            if lost.any():
                fewest = min(fewest, subsets[lost].sum(axis=1).min())
        results.append(fewest)
    return np.array(results)


# (cover, alpha, xi). In the third and the last some D/2 exceed xi, so no point loses there.
SETTINGS = [
    (Cover(1, 3.0, 2.0), 1.0, 3.0),
    (Cover(2, 1.0, 0.8), 1.0, 2.0),
    (Cover(2, 1.0, 0.8), 1.0, 0.8),
    (Cover(2, 1.5, 1.5), 0.3, 5.0),
    (Cover(3, 0.5, 0.5), 0.9, 1.1),
    (Cover(3, 0.5, 0.5), 0.9, 0.4),
]
SHAPES = [(7, 1), (7, 3), (1, 1), (5, 5), (5, 1), (5, 3)]


@pytest.mark.parametrize(
    ("setting", "n", "groups"), [(s, *shape) for s, shape in zip(SETTINGS, SHAPES, strict=True)]
)
def test_the_score_by_its_definition(
    monkeypatch: pytest.MonkeyPatch, setting: tuple[Cover, float, float], n: int, groups: int
) -> None:
    cover, alpha, xi = setting
    rng = np.random.default_rng(1)
    values = alpha * rng.standard_normal((7, n, cover.d))
    values[1] = alpha * rng.standard_t(1.5, (n, cover.d))
    values[2, 0] = [1e6, -2e6, 3e5][: cover.d]
    values[3, -1] = [-1e150, 3e149, 1e100][: cover.d]
    values[4] = values[4, 0]  # all rows equal
    values[5] = values[5, :1] * np.linspace(0.1, 2, n)[:, None]  # collinear
    values[6, 0] = values[2, 0]  # in every direction one is beyond the clip
    values[6, 1:2] = -values[2, 0]
    values[6, 2:] *= 0.05
    centre = alpha * rng.standard_normal((7, cover.d))
    centre[6] = 0.01 * alpha
    cap = scores(of(values, groups), centre, cover, alpha, xi)
    expected = [
        naive_scores(v, groups, c, cover, alpha, xi) for v, c in zip(values, centre, strict=True)
    ]
    np.testing.assert_array_equal(cap, expected)
    assert cap.max() <= n * alpha
    # Small arrays, which make the code split the work, have equal scores.
    monkeypatch.setattr(ksu20_tournament, "MAX_ARRAY_SIZE", 5)
    np.testing.assert_array_equal(scores(of(values, groups), centre, cover, alpha, xi), expected)


LINE = np.array([[-1e150], [-3.0], [-1.5], [0.0], [0.1], [1.5], [3.0], [1e6]])
ROOT = math.sqrt(2)
DIAGONAL = 0.1 * np.array([(0, 0), (1, 1), (3, 0), (-1, 2), (2, 2), (7, 5)])
SQUARE = 0.1 + np.array([*itertools.product([-2.0, 0.0, 1.0], repeat=2), [1e6, -3e6], [-1e150, 1]])


@pytest.mark.parametrize(
    ("values", "n", "groups", "cover", "alpha", "xi"),
    [
        (LINE, 3, 1, Cover(1, 3.0, 2.0), 1.0, 3.0),
        (LINE[1:-1], 5, 3, Cover(1, 2.0, 1.0), 2.0, 4.0),
        (SQUARE[1:8], 4, 3, Cover(2, 1.0, 0.9), 1.0, 1.6),
        # Exact sums along diagonals tie, but rounding errors could break the ties.
        (DIAGONAL, 5, 3, Cover(2, 1.0, 0.9), 0.2 * ROOT, 0.6 * ROOT),
    ],
)
def test_replacing_a_record_moves_every_score_by_at_most_one(
    values: Floats, n: int, groups: int, cover: Cover, alpha: float, xi: float
) -> None:
    """Try all datasets over a few values, whose sums tie exactly, and all their neighbours."""
    index = np.indices((len(values),) * n).reshape(n, -1).T
    centre = np.zeros((len(index), cover.d))
    all_scores = scores(of(values[index], groups), centre, cover, alpha, xi)
    table = all_scores.reshape(*[len(values)] * n, -1)
    assert max(float(np.ptp(table, axis=i).max()) for i in range(n)) == 1


def sparse_and_dense(d: int, n: int, held: list[int]) -> tuple[SparseSample, DenseSample]:
    rng = np.random.default_rng(3)
    rows = np.round(rng.standard_normal((sum(held), d)), 1)
    dense = np.zeros((len(held), n, d))
    for i, part in enumerate(np.split(rows, np.cumsum(held)[:-1])):
        dense[i, : len(part)] = part
    return SparseSample(rows, np.array(held), n), DenseSample(dense)


@pytest.mark.parametrize(("d", "groups"), [(1, 1), (2, 3)])
def test_the_scores_of_many_equal_records(d: int, groups: int) -> None:
    """If each record is 1e8 equal records, the score is 1e8 times as large, up to rounding up.

    The last change of each group may be partial, so up to 1e8 fewer changes suffice there.
    """
    rng, copies, cover = np.random.default_rng(3), 1e8, Cover(d, 1.5, 1.2)
    few = of(rng.standard_t(3, (6, 12, d)), groups)
    many = Records(few.rows, np.full(few.rows.shape[:-1], copies), copies * few.sizes)
    centre = 0.3 * rng.standard_normal((6, d))
    one, other = (scores(records, centre, cover, 1.0, 2.0) for records in (few, many))
    assert np.all(other <= copies * one)
    assert np.all(other > copies * (one - (groups + 1) // 2))
    assert 0.1 < np.mean((one > 0) & (one < 12)) < 1  # neither all lost nor all capped


@pytest.mark.parametrize("d", [1, 3])
def test_sparse_and_dense_samples_have_the_same_scores(d: int) -> None:
    cover, alpha, xi = Cover(d, 1.0, 0.7), 1.0, 1.3
    centre = 0.1 * np.random.default_rng(4).standard_normal((4, d))
    both = [
        scores(Records.from_sample(sample, 1, np.random.default_rng(0)), centre, cover, alpha, xi)
        for sample in sparse_and_dense(d, 40, [30, 0, 7, 39])
    ]
    np.testing.assert_array_equal(both[0], both[1])
    assert len(np.unique(both[0])) > 3


@pytest.mark.parametrize(("epsilon", "d", "groups"), [(0.6, 1, 1), (2.5, 2, 3)])
def test_the_choice(monkeypatch: pytest.MonkeyPatch, epsilon: float, d: int, groups: int) -> None:
    """The probabilities of the points are proportional to exp(epsilon score/2)."""
    trials, alpha, rng = 10_000, 1.0, np.random.default_rng(7)
    centre = rng.uniform(-0.2, 0.2, d)

    def given(self: ksu20.KSU20Mean, sample: Sample, ledger: Ledger) -> Estimate:
        ledger.pay()
        value = np.tile(centre, sample.trials // d)
        return Estimate(value, value)

    monkeypatch.setattr(ksu20.KSU20Mean, "estimate", given)
    values = 0.4 * rng.standard_normal((16, d))
    box, tie = (3.0, 2.0) if d == 1 else (1.0, 0.8)
    estimator = KSU20TournamentMean(
        k=2, scale=1, radius=1.0, alpha=alpha, groups=groups, box=box, tie=tie, xi=2.0
    )
    sample = DenseSample(np.broadcast_to(values, (trials, 16, d)))
    ledger = Ledger(PureDP(epsilon), rng)
    estimate = estimator.run(sample, ledger)
    cover = estimator.cover(d)
    score = naive_scores(values[8:], groups, centre, cover, alpha, 2.0)
    assert len(np.unique(score)) >= 3
    weight = np.exp(epsilon * score / 2)
    grid = centre + alpha * points(cover)
    hit = np.linalg.norm(estimate.value[:, None] - grid, axis=2).argmin(axis=1)
    np.testing.assert_allclose(estimate.value, grid[hit], atol=1e-12)
    counts = np.bincount(hit, minlength=len(grid))
    assert_frequencies(counts, weight / weight.sum())
    # The value before noise is the first point of the highest score.
    np.testing.assert_allclose(estimate.before_noise, np.tile(grid[score.argmax()], (trials, 1)))
    assert ledger.spent == pytest.approx((epsilon,), rel=1e-12)


@pytest.mark.parametrize(("n", "d"), [(600, 1), (1201, 2)])
def test_the_steps_and_what_they_pay(monkeypatch: pytest.MonkeyPatch, d: int, n: int) -> None:
    coarse = mock.Mock(wraps=private_mode_bin)
    fine = mock.Mock(wraps=scores)
    monkeypatch.setattr(moment_bins, "private_mode_bin", coarse)
    monkeypatch.setattr(ksu20_tournament, "scores", fine)
    values = np.random.default_rng(8).standard_normal((2, n, d))
    estimator = KSU20TournamentMean(k=3, scale=1, radius=5.0, alpha=0.5, groups=3)
    estimate = run(estimator, values, PureDP(0.8), seed=9)
    assert estimate.accuracy is None

    # One half gives the centre: each coordinate has 1/d of the budget, and bins for alpha = 1.
    sample, bins, paid = coarse.call_args.args
    first = n - n // 2
    quarter = first - first // 2
    expected = values[:, :quarter].transpose(0, 2, 1).reshape(2 * d, quarter)
    np.testing.assert_array_equal(sample.values, expected)
    assert bins.width == 4
    assert paid.budget.epsilon == pytest.approx(0.8 / d, rel=1e-12)
    # The other half plays the matches, in groups by index.
    records, centre, cover, alpha, xi = fine.call_args.args
    assert alpha == 0.5
    assert xi == pytest.approx(2 / 0.5**0.5 + 0.5 * cover.half_diagonal, rel=1e-12)
    assert (cover.box, cover.tie) == (3.0, 2.0)
    second = np.concatenate(
        [r[: int(s)] for r, s in zip(records.rows[0], records.sizes, strict=True)]
    )
    np.testing.assert_array_equal(second, values[0, first:])
    assert records.sizes.tolist() == part_sizes(n // 2, 3)
    assert np.abs(estimate.value - centre).max() <= alpha * cover.offsets.max() * (1 + 1e-12)


@pytest.mark.parametrize("d", [1, 3])
def test_as_printed_all_points_tie(d: int) -> None:
    """All scores of ``paper`` constants are at the cap, so the choice is uniform on the grid."""
    estimator = KSU20TournamentMean(
        k=2, scale=1, radius=1.0, alpha=0.05, constants="paper", groups=3
    )
    cover = estimator.cover(d)
    assert (cover.box, cover.tie) == (1.0, 20.0)
    assert estimator.half_clip(0.05, d) == pytest.approx(60 / 0.05, rel=1e-12)
    records = of(np.random.default_rng(11).standard_cauchy((2, 12, d)), 3)
    all_scores = scores(records, np.zeros((2, d)), cover, 0.05, 60 / 0.05)
    np.testing.assert_allclose(all_scores, 12 * 0.05)


def test_the_groups_of_a_match() -> None:
    paper = KSU20TournamentMean(k=2, scale=1, radius=1.0, constants="paper", beta=0.5).match_groups(
        4
    )
    assert paper % 2 == 1
    assert 0 <= paper - 1600 * math.log(32) < 2
    with pytest.raises(ValueError, match="groups is 4"):
        KSU20TournamentMean(k=2, scale=1, radius=1.0, groups=4)


def test_the_promise_of_the_paper() -> None:
    """The error is at most 20 alpha with probability 0.9 if n suffices: binomial test at 1e-6."""
    d, trials = 2, 100
    estimator = KSU20TournamentMean(
        k=2, scale=1, radius=50.0, alpha=0.06, constants="paper", groups=1
    )
    n = math.ceil(estimator.terms(0.06, 1e9, d, EPS).sum())
    assert n <= 10**12
    assert estimator.promise(n, d, EPS) == pytest.approx(1.2)
    assert estimator.promise(int(0.99 * n), d, EPS) is None
    assert KSU20TournamentMean(k=2, scale=1, radius=50.0, alpha=0.06).promise(n, d, EPS) is None
    law = ProductTwoPoint(d=d, p=10 / n)
    estimate = run(estimator, law.sample(np.random.default_rng(13), trials, n), EPS)
    assert estimate.accuracy == pytest.approx(1.2)
    misses = int(np.sum(np.linalg.norm(estimate.value - law.mean, axis=1) > 1.2))
    assert stats.binom.sf(misses - 1, trials, 0.1) > FALSE_ALARM


@pytest.mark.parametrize(("k", "d", "alpha"), [(2.0, 1, 0.8), (3.5, 2, 0.01), (2.0, 3, 0.01)])
def test_the_records_that_an_error_asks_for(k: float, d: int, alpha: float) -> None:
    """Two terms hold with failure probability beta/3; the third is the bound of the centre."""
    eps, beta, radius = 0.3, 0.2, 30.0
    estimator = KSU20TournamentMean(k=k, scale=1, radius=radius, beta=beta)
    cover = estimator.cover(d)
    sampling, privacy, reach = estimator.terms(alpha, 1e6, d, PureDP(eps))
    norm = math.sqrt(d) + math.sqrt(2 * math.log(3 / beta))
    assert norm / math.sqrt(sampling / 2) == pytest.approx(alpha, rel=1e-12)
    # At N = privacy/2 the score of a good point is 2 ln(3 points/beta)/eps.
    xi = estimator.half_clip(alpha, d)
    assert xi == pytest.approx(2 * alpha ** (-1 / (k - 1)) + alpha * cover.half_diagonal, rel=1e-12)
    bias = (k - 1) ** (k - 1) / k**k / 2 ** (k - 1)
    least = privacy / 2 * (0.5 - bias) * alpha / (2 * xi)
    assert least == pytest.approx(2 / eps * math.log(3 * len(cover.places) / beta), rel=1e-9)
    # A quarter of the records fills the histograms, each with budget eps/d and miss beta/d.
    one = ksu20.KSU20Mean(k=k, scale=1, radius=radius, beta=beta / d)
    assert reach == 4 * math.ceil(one.histogram_needs(1.0, PureDP(eps / d))) - 2
    n = int(reach)
    for records, released in ((n, True), (int(0.9 * n), False)):
        rows = np.zeros((1, records, d))  # public numbers alone decide
        estimate = run(dataclasses.replace(estimator, alpha=0.5), rows, PureDP(eps))
        assert np.isfinite(estimate.value).all() == released

    paper = KSU20TournamentMean(k=k, scale=1, radius=radius, beta=beta, constants="paper")
    one = ksu20.KSU20Mean(k=k, scale=1, radius=radius, beta=beta / d, constants="paper")
    asked = sum(one.terms(alpha, 1e6, PureDP(eps / d)))
    assert paper.centre_estimator(alpha, d).groups == one.groups
    total = paper.terms(alpha, 1e6, d, PureDP(eps)).sum()
    assert total == pytest.approx(4 * one.groups * asked, rel=1e-9)


def test_too_many_points_or_too_few_records_are_refused() -> None:
    few = KSU20TournamentMean(k=2, scale=1, radius=1.0, groups=3)
    for sample, text in (
        (np.zeros((1, 9, 4)), "d = 4 with 13 points per axis makes 28561 points .* limit of 5000"),
        (np.zeros((1, 9, 50)), r"44\^50 points .* above the limit of 5000"),
        (np.zeros((1, 5, 2)), "5 records cannot fill two halves of 3"),
        (np.zeros((1, 9)), "takes vectors"),
    ):
        with pytest.raises(ValueError, match=text):
            run(few, sample, EPS)
    with pytest.raises(ValueError, match=r"tie = 1\.0 .* is too small: give alpha"):
        KSU20TournamentMean(k=2, scale=1, radius=1.0, tie=1.0).accuracy(9, 3, EPS)
    for d, box in ((1, 2499.5), (4, 1.75), (12, 0.14)):
        assert len(Cover(d, box, 2.0).places) <= 5000
    for d, box in ((1, 2500.0), (4, 1.76), (13, 0.1)):
        with pytest.raises(ValueError, match="above the limit"):
            Cover(d, box, 2.0)
