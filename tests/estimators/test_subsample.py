"""Subsample and aggregate: against loops, and the test of hypotheses against exact laws."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np
import pytest
from scipy import integrate, stats
from support import (
    FALSE_ALARM,
    Floats,
    assert_frequencies,
    buckets_of,
    middle,
    name,
    noise_law,
    run,
    spreads,
)

from dpbench.estimators import (
    ClippedMean,
    EmpiricalMean,
    Estimator,
    Median,
    MedianOfMeans,
    SubsampleAggregate,
    SubsampleTest,
)
from dpbench.privacy import ZCDP, ApproxDP, Budget, PureDP
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample

Vote = Literal["count", "exponential", "histogram"]
VOTES: tuple[Vote, ...] = ("count", "exponential", "histogram")
BUDGETS: list[Budget] = [
    PureDP(0.9),
    ZCDP(0.3),
    ApproxDP(0.9, 0.02, "classical"),
    ApproxDP(0.9, 0.02, "laplace"),
]
each_budget = pytest.mark.parametrize("budget", BUDGETS, ids=name)
each_vote = pytest.mark.parametrize("vote", VOTES)


def spread(values: Floats) -> float:
    """What `spreads` is for one bucket."""
    ordered: list[float] = sorted(values.tolist())
    return ordered[-1] - ordered[0]


def trimmed(values: Floats) -> float:
    """The mean without three tenths from each end."""
    cut = int(0.3 * len(values))
    kept: list[float] = sorted(values.tolist())[cut : len(values) - cut]
    return sum(kept) / len(kept)


BASES: list[tuple[Any, Any]] = [
    ("empirical_mean", np.mean),
    ({"kind": "trimmed_mean", "fraction": 0.3}, trimmed),
    (Median(), middle),
    (MedianOfMeans(groups=1), np.mean),
    (spreads, spread),
]


@pytest.mark.parametrize(("base", "alone"), BASES)
@pytest.mark.parametrize(("n", "k"), [(14, 4), (5, 5), (9, 1)])
def test_the_clipped_mean_of_outputs_against_a_loop(base: Any, alone: Any, n: int, k: int) -> None:
    values = np.random.default_rng(1).standard_t(2, (6, n))
    estimator = SubsampleAggregate(buckets=k, lower=-0.5, upper=0.75, base=base, aggregate="mean")
    found = run(estimator, DenseSample(values), PureDP(1.0)).before_noise
    wanted = [
        sum(min(max(alone(bucket), -0.5), 0.75) for bucket in buckets_of(row, k)) / k
        for row in values
    ]
    np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


@pytest.mark.parametrize(("base", "alone"), BASES)
@pytest.mark.parametrize(("n", "k"), [(14, 4), (23, 7)])
def test_median_and_mode_against_a_loop(base: Any, alone: Any, n: int, k: int) -> None:
    """Before the noise; and with hardly any, after it too."""
    values, budget = np.random.default_rng(2).standard_t(2, (6, n)), PureDP(1e6)
    for row in values:
        outputs = [float(alone(bucket)) for bucket in buckets_of(row, k)]
        options: dict[str, Any] = {"buckets": k, "lower": -100.0, "upper": 100.0, "base": base}
        found = run(SubsampleAggregate(**options, resolution=1e-3), DenseSample([row]), budget)
        assert found.before_noise[0] == pytest.approx(middle(np.array(outputs)), abs=1e-12)
        # Within the resolution of a median: between the middle two.
        ordered = sorted(outputs)
        assert ordered[(k - 1) // 2] - 1e-3 <= found.value[0] <= ordered[k // 2] + 1e-3

        # Bins of width 2 * 0.25 from -1 to 3; those beyond count in the nearest.
        options.update(lower=-1.0, upper=3.0)
        bins = [min(max(math.floor((x + 1.0) / 0.5), 0), 7) for x in outputs]
        modes = [i for i in set(bins) if bins.count(i) == max(map(bins.count, bins))]
        mode = SubsampleAggregate(**options, resolution=0.25, aggregate="mode")
        found = run(mode, DenseSample([row]), budget)
        centres = [-1.0 + 0.5 * i + 0.25 for i in modes]
        for value in (found.value[0], found.before_noise[0]):
            assert min(abs(value - centre) for centre in centres) < 1e-12


def test_the_private_median_of_means() -> None:
    """The exponential mechanism over pieces of constant score, by hand."""
    means, h, epsilon, k = np.array([0.2, 0.5, 0.55, 0.9, 3.0]), 0.05, 1.2, 5
    estimator = SubsampleAggregate(buckets=k, lower=-1.0, upper=2.0, resolution=h)
    row = np.stack([means - 1, means + 1], axis=1).ravel()
    found = run(estimator, DenseSample(np.tile(row, (20_000, 1))), PureDP(epsilon)).value
    assert -1 <= found.min() <= found.max() <= 2
    capped = np.clip(means, -1.0, 2.0)
    edges = np.unique(np.clip([-1.0, 2.0, *(capped - h), *(capped + h)], -1.0, 2.0))
    weights = []
    for left, right in itertools.pairwise(edges):
        t = (left + right) / 2
        below, upto = np.sum(capped < t - h), np.sum(capped <= t + h)
        score = -max(0.0, below - k / 2, k / 2 - upto)
        weights.append((right - left) * math.exp(epsilon * score / 2))
    assert_frequencies(np.histogram(found, edges)[0], np.array(weights) / sum(weights))


def test_a_function_needs_records_and_returns_a_number_per_bucket() -> None:
    options: dict[str, Any] = {"buckets": 2, "lower": 0.0, "upper": 1.0}
    with pytest.raises(ValueError, match="needs records"):
        run(SubsampleAggregate(base=np.max, **options), CountedSample([0.5], [[9]]), PureDP(1.0))
    for wrong in (lambda rows: rows, lambda rows: rows.mean(), lambda rows: rows[0]):
        with pytest.raises(ValueError, match="the base function returned"):
            run(SubsampleAggregate(base=wrong, **options), DenseSample(np.ones((3, 9))), PureDP(1))


@pytest.mark.parametrize("outside", [5.0, -math.inf, math.nan])
def test_outputs_outside_of_the_bounds_count_at_the_ends(outside: float) -> None:
    """Half of the outputs and one more are outside: median and mode are at an end."""
    base = lambda rows: np.where(rows[:, 0] > 0, outside, 0.0)  # noqa: E731
    row = np.repeat([1.0, 1.0, 1.0, -1.0, -1.0], 2)
    end, lower, upper = (2.0 if outside > 0 else -1.0), -1.0, 2.0
    for aggregate in ("median", "mode"):
        estimator = SubsampleAggregate(
            buckets=5, lower=lower, upper=upper, base=base, aggregate=aggregate, resolution=0.4
        )
        found = run(estimator, DenseSample(np.tile(row, (200, 1))), PureDP(50.0))
        # Bins of width 0.8 from -1; the middle of the last, 1.8, is within the bounds.
        at = {"median": end, "mode": 1.8 if outside > 0 else -0.6}[aggregate]
        np.testing.assert_allclose(found.before_noise, at, rtol=1e-12)
        assert np.mean(np.abs(found.value - at) <= 0.4 + 1e-12) > 0.9
        assert lower <= found.value.min() <= found.value.max() <= upper


def test_the_mode_is_within_the_bounds() -> None:
    """Bins of width 2 from 0 to 2.5: the middle of the second, 3, is beyond the bounds."""
    for bound, output in ((2.5, 2.2), (2.5, 99.0)):
        estimator = SubsampleAggregate(
            buckets=3, lower=0.0, upper=bound, aggregate="mode", resolution=1.0
        )
        found = run(estimator, DenseSample(np.full((100, 6), output)), PureDP(1e3))
        assert np.all(found.value == bound)
        assert np.all(found.before_noise == bound)


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (ClippedMean(lower=0.0, upper=1.0), "take an estimator without privacy, not ClippedMean"),
        (
            {"kind": "clipped_mean", "lower": 0.0, "upper": 1.0},
            "take an estimator without privacy, not ClippedMean",
        ),
        ("binary_mean", "take an estimator without privacy, not BinaryMean"),
        ("no_such_mean", "choose from .*empirical_mean"),
        ({"kind": "trimmed_mean", "fraction": 0.7}, "fraction: 0.7"),
        (3, "give an estimator without privacy or a function"),
        (None, "give an estimator without privacy or a function"),
        (EmpiricalMean, "give an estimator without privacy or a function"),  # a class
        (float, "give an estimator without privacy or a function"),
    ],
)
def test_other_bases_are_refused_in_one_line(base: Any, reason: str) -> None:
    options: dict[str, Any] = {"buckets": 3, "lower": 0.0, "upper": 1.0, "base": base}
    with pytest.raises(ValueError, match=reason):
        SubsampleAggregate(**options)
    with pytest.raises(ConfigError, match=rf"^estimator\.sub\.base.*{reason}") as caught:
        Estimator.build({"kind": "subsample_aggregate", **options}, "estimator.sub")
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("bounds", [(1.0, 1.0), (2.0, 1.0)])
def test_bounds_are_checked(bounds: tuple[float, float]) -> None:
    with pytest.raises(ValueError, match="upper must exceed lower"):
        SubsampleAggregate(buckets=3, lower=bounds[0], upper=bounds[1])


@pytest.mark.parametrize(("n", "k"), [(14, 4)])
def test_a_replaced_record_changes_one_output(n: int, k: int) -> None:
    seen: list[Floats] = []

    def spy(rows: Floats) -> Floats:
        seen.append(rows.copy())
        return spreads(rows)

    estimator = SubsampleAggregate(buckets=k, lower=-9.0, upper=9.0, base=spy, aggregate="mean")
    values = np.random.default_rng(3).normal(size=(1, n))

    def outputs(row: Floats) -> tuple[list[tuple[float, ...]], float]:
        seen.clear()
        before = run(estimator, DenseSample(row), PureDP(1.0)).before_noise[0]
        return [tuple(bucket) for rows in seen for bucket in rows], float(before)

    buckets, mean = outputs(values)
    assert sorted(itertools.chain(*buckets)) == sorted(values[0])  # disjoint, and all of them
    for i in range(n):
        other = values.copy()
        other[0, i] = 1e300
        changed, moved = outputs(other)
        assert sum(a != b for a, b in zip(buckets, changed, strict=True)) == 1
        assert abs(moved - mean) <= 18.0 / k


# The test of hypotheses.


def output_law(votes: int, k: int, vote: Vote, budget: Budget) -> tuple[float, float, float]:
    """Probabilities of the outputs 0, 1 and 'nothing released', given the votes for 1."""
    lead = 2 * votes - k
    if vote == "count":  # votes + noise > k/2
        one = float(noise_law(budget, 1.0, 1.0).sf(-lead / 2))
    elif vote == "exponential":  # weights exp(eps/2 votes)
        assert isinstance(budget, PureDP | ZCDP | ApproxDP)
        eps = math.sqrt(8 * budget.rho) if isinstance(budget, ZCDP) else budget.epsilon
        one = 1 / (1 + math.exp(-eps * lead / 2))
    elif isinstance(budget, ZCDP):  # the noises of two bins differ by N(0, 2/rho)
        one = float(stats.norm.cdf(lead / math.sqrt(2 / budget.rho)))
    elif isinstance(budget, PureDP):  # two Laplace noises of scale b: tail e^(-x/b) (2 + x/b)/4
        x = abs(lead) * budget.epsilon / 2
        tail = math.exp(-x) * (2 + x) / 4
        one = 1 - tail if lead > 0 else tail
    else:
        assert isinstance(budget, ApproxDP)
        return stable_law(votes, k, budget)
    return 1 - one, one, 0.0


def stable_law(votes: int, k: int, budget: ApproxDP) -> tuple[float, float, float]:
    """The stability-based histogram: occupied bins only, above the threshold."""
    b = 2 / budget.epsilon
    threshold = 1 + b * math.log(1 / (2 * budget.delta))
    laws: list[Any] = [stats.laplace(loc=count, scale=b) for count in (k - votes, votes)]
    none = [float(law.cdf(threshold)) for law in laws]
    if votes in {0, k}:  # the other bin is empty
        alone = 1 - none[votes == k]
        return (alone, 0.0, 1 - alone) if votes == 0 else (0.0, alone, 1 - alone)

    def wins(i: int) -> float:
        """Noisy count i is above the threshold and above the other."""
        top = max(threshold, k) + 60 * b
        kinks = sorted({min(max(float(c), threshold), top) for c in (votes, k - votes)})
        return float(
            integrate.quad(
                lambda x: laws[i].pdf(x) * laws[1 - i].cdf(x), threshold, top, points=kinks
            )[0]
        )

    return wins(0), wins(1), none[0] * none[1]


def frequencies(found: Floats) -> list[int]:
    return [int(np.sum(found == 0)), int(np.sum(found == 1)), int(np.sum(np.isnan(found)))]


def agrees(found: Floats, law: tuple[float, float, float]) -> bool:
    """Binomial tests of three frequencies with false-alarm probability 1e-6 in all."""
    assert sum(frequencies(found)) == len(found)
    pairs = zip(frequencies(found), law, strict=True)
    return all(
        stats.binomtest(seen, len(found), min(max(p, 0.0), 1.0)).pvalue > FALSE_ALARM / 3
        for seen, p in pairs
    )


@each_vote
@each_budget
@pytest.mark.parametrize("k", [1, 4])
def test_outputs_given_the_votes(vote: Vote, budget: Budget, k: int) -> None:
    for votes in range(k + 1):
        # Buckets of two records, of mean 1 or 0; 1/2 itself is no vote for 1.
        row = np.repeat([1.0] * votes + [0.5] * (k - votes), 2)
        sample = DenseSample(np.tile(row, (4000, 1)))
        found = run(SubsampleTest(buckets=k, aggregate=vote), sample, budget, seed=votes)
        assert agrees(found.value, output_law(votes, k, vote, budget))
        assert np.all(found.before_noise == float(2 * votes > k))
