"""Tests of sample and aggregate against loops, and of its hypothesis test against exact laws."""

from __future__ import annotations

import itertools
import math
from typing import Any, Literal

import numpy as np
import pytest
from scipy import stats

import dpbench.estimators as est
from dpbench.estimators.friendly_core import friendly_mean
from dpbench.privacy import ZCDP, ApproxDP, Ledger, PureDP
from dpbench.registry import ConfigError
from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from tests.conftest import Step
from tests.support import (
    FALSE_ALARM,
    Floats,
    buckets_of,
    middle,
    name,
    noise_law,
    rng,
    run,
    spreads,
)

Vote = Literal["count", "exponential", "histogram"]
OUTPUTS: dict[str, Any] = {"buckets": 3, "lower": -4.0, "upper": 5.0}
FRIENDLY: dict[str, Any] = {"aggregate": "friendly_core", "friends_within": 5.0}


def trimmed(values: Floats) -> float:
    """Return the mean without three tenths of the values at each end."""
    cut = int(0.3 * len(values))
    kept: list[float] = sorted(values.tolist())[cut : len(values) - cut]
    return sum(kept) / len(kept)


BASES: list[tuple[Any, Any]] = [
    ("empirical_mean", np.mean),
    ({"kind": "trimmed_mean", "fraction": 0.3}, trimmed),
    (est.MedianOfMeans(groups=1), np.mean),
    (spreads, np.ptp),
]


@pytest.mark.parametrize(("base", "alone"), [*BASES, (est.Median(), middle)])
@pytest.mark.parametrize(("n", "k", "d"), [(14, 4, None), (5, 5, None), (14, 4, 3), (23, 7, 1)])
def test_aggregates_against_a_loop(base: Any, alone: Any, n: int, k: int, d: int | None) -> None:
    """Values before noise equal those of a loop; with almost no noise the releases do, too."""
    if isinstance(base, est.Median) and d:
        return
    values, huge = rng(16).standard_t(2, (4, n, d or 1)), PureDP(1e6)
    data = values if d else values[..., 0]
    options: dict[str, Any] = {"buckets": k, "lower": -0.5, "upper": 1.25, "base": base}
    mean = run(est.SubsampleAggregate(**options, aggregate="mean"), data, PureDP(1.0))
    medians = run(est.SubsampleAggregate(**options, resolution=1e-3), data, huge)
    mode = run(est.SubsampleAggregate(**options, aggregate="mode", resolution=0.25), data, huge)
    for trial, j in itertools.product(range(4), range(d or 1)):
        at = (trial, j) if d else trial
        outputs = [float(alone(bucket)) for bucket in buckets_of(values[trial, :, j], k)]
        one = [min(max(x, -0.5), 1.25) for x in outputs]
        assert mean.before_noise[at] == pytest.approx(sum(one) / k, abs=1e-12)
        assert medians.before_noise[at] == pytest.approx(middle(np.array(one)), abs=1e-12)
        # The median is between the two middle outputs, up to the resolution.
        low, high = sorted(one)[(k - 1) // 2], sorted(one)[k // 2]
        assert low - 1e-3 <= medians.value[at] <= high + 1e-3
        # Bins of width 0.5 from -0.5; the last is cut at 1.25, and its middle is 1.25.
        bins = [min(math.floor((x + 0.5) / 0.5), 3) for x in one]
        fullest = [-0.25 + 0.5 * b for b in bins if bins.count(b) == max(map(bins.count, bins))]
        for value in (mode.value[at], mode.before_noise[at]):
            assert min(abs(value - centre) for centre in fullest) < 1e-12


@pytest.mark.parametrize(("base", "alone"), [BASES[0], BASES[3]])
def test_a_friendly_core_of_outputs(base: Any, alone: Any) -> None:
    values, budget = rng(17).standard_t(3, (50, 23, 2)), ApproxDP(30.0, 1e-2)
    estimate = run(est.SubsampleAggregate(buckets=7, base=base, **FRIENDLY), values, budget)
    outputs = np.array([[alone(b, axis=0) for b in buckets_of(rows, 7)] for rows in values])
    expected = friendly_mean(outputs, 5.0, Ledger(budget, rng(0)))
    np.testing.assert_allclose(estimate.value, expected.value, rtol=1e-9)
    np.testing.assert_allclose(estimate.before_noise, expected.before_noise, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(estimate.core, expected.core)  # type: ignore[arg-type]
    assert np.isfinite(estimate.value).any()


@pytest.mark.parametrize("aggregate", ["median", "mode", "friendly_core"])
def test_what_each_aggregate_pays(aggregate: Any) -> None:
    """Median and mode pay 1/d of the budget for each coordinate; the core pays once for all."""
    options = {**OUTPUTS, "aggregate": aggregate}
    options |= FRIENDLY if aggregate == "friendly_core" else {}
    ledger = Ledger(ApproxDP(0.6, 1e-4), rng())
    est.SubsampleAggregate(**options).run(DenseSample(np.zeros((2, 9, 3))), ledger)
    each = "  3 times: approx epsilon 0.2, delta 3.33333e-05: "
    assert ledger.receipt().count(each) == (aggregate != "friendly_core")
    assert ledger.spent == pytest.approx((0.6, 1e-4))


def test_the_noise_of_a_mean_of_outputs(steps: list[Step]) -> None:
    """Every coordinate moves by at most (upper - lower)/k: l2 sensitivity is sqrt(d) times that."""
    run(est.SubsampleAggregate(**OUTPUTS, aggregate="mean"), np.zeros((2, 10, 4)), ZCDP(0.3))
    (step,) = steps
    assert step.sensitivity == pytest.approx(2 * 9 / 3, rel=1e-12)
    assert step.budget == ZCDP(0.3)


# All outputs but one are 1/4. The extreme output is moved to a bound, and NaN to the lower bound.
NO_NUMBER = [
    ("median", math.nan, 0.25),
    ("median", -math.inf, 0.25),
    ("mean", math.nan, 1 / 9),
    ("mean", -math.inf, 1 / 9),
    ("mean", 1e308, 3 / 9),
    ("mode", math.nan, 0.3),
    ("friendly_core", 1e308, 0.25),
    ("friendly_core", math.nan, 2 / 9),  # without bounds NaN counts as 0, a friend of 1/4
]


@pytest.mark.parametrize(("aggregate", "extreme", "wanted"), NO_NUMBER)
def test_an_output_that_is_no_number_is_no_signal(
    aggregate: Any, extreme: float, wanted: float
) -> None:
    def wild(rows: Floats) -> Floats:
        means = np.asarray(rows.mean(axis=1))
        means[rows.max(axis=(1, 2)) > 100.0] = extreme
        return means

    friendly = {"friends_within": 1.0}
    limits = friendly if aggregate == "friendly_core" else {"lower": -1.0, "upper": 1.0}
    estimator = est.SubsampleAggregate(
        buckets=9, base=wild, aggregate=aggregate, resolution=0.1, **limits
    )
    values = np.full((50, 18, 3), 0.25)
    values[:, 3] = 1e3
    estimate = run(estimator, values, ApproxDP(40.0, 1e-2))
    assert np.all(np.isfinite(estimate.value))
    np.testing.assert_allclose(estimate.before_noise, wanted, rtol=1e-12)


@pytest.mark.parametrize(
    ("base", "reason"),
    [
        (
            est.ClippedMean(lower=0.0, upper=1.0),
            "take an estimator without privacy, not ClippedMean",
        ),
        ("binary_mean", "take an estimator without privacy, not BinaryMean"),
        ("no_such_mean", "choose from .*empirical_mean"),
        ({"kind": "trimmed_mean", "fraction": 0.7}, "fraction: 0.7"),
        (3, "give an estimator without privacy or a function"),
        (est.EmpiricalMean, "the class EmpiricalMean: write an instance"),
    ],
)
def test_other_bases_are_refused_in_one_line(base: Any, reason: str) -> None:
    options: dict[str, Any] = {"buckets": 3, "lower": 0.0, "upper": 1.0, "base": base}
    with pytest.raises(ValueError, match=reason):
        est.SubsampleAggregate(**options)
    with pytest.raises(ConfigError, match=rf"^estimator\.sub\.base.*{reason}") as caught:
        est.Estimator.build({"kind": "subsample_aggregate", **options}, "estimator.sub")
    assert len(str(caught.value).splitlines()) == 1


SPARSE: Sample = SparseSample(np.ones((1, 2)), np.array([1]), 9)
NEEDS = "needs lower and upper"


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"buckets": 3, "lower": 1.0, "upper": 1.0}, "upper must exceed lower"),
        ({**OUTPUTS, "friends_within": 1.0}, "median takes no friends_within"),
        ({**OUTPUTS, "aggregate": "friendly_core"}, "needs friends_within"),
        ({"buckets": 3}, f"the aggregate median {NEEDS}"),
        ({"buckets": 3, "aggregate": "mean", "lower": 0.0}, f"the aggregate mean {NEEDS}"),
        ({"buckets": 3, "aggregate": "mode", "upper": 1.0}, f"the aggregate mode {NEEDS}"),
    ],
)
def test_options_that_do_not_fit_are_refused(options: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        est.SubsampleAggregate(**options)


@pytest.mark.parametrize(
    ("base", "sample", "text"),
    [
        (np.max, CountedSample([0.5], [[9]]), "needs records"),
        (spreads, SPARSE, "needs records"),
        (lambda rows: rows, DenseSample(np.ones((3, 9))), "the base function returned"),
        (lambda rows: rows.mean(), DenseSample(np.ones((3, 9))), "the base function returned"),
        (lambda rows: rows[:, 0, :1], DenseSample(np.ones((3, 9, 2))), "the base function"),
        (est.Median(), DenseSample(np.ones((3, 9, 2))), "takes scalar records"),
    ],
)
def test_bases_that_do_not_fit_the_data_are_refused(base: Any, sample: Sample, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        run(est.SubsampleAggregate(**OUTPUTS, base=base), sample, PureDP(1.0))


# Tests of the hypothesis test.


def probability_of_one(votes: int, k: int, vote: Vote, budget: PureDP | ZCDP) -> float:
    """Return the probability of the output 1, given the number of votes for 1."""
    lead = 2 * votes - k
    if vote == "count":  # votes + noise > k/2
        return float(noise_law(budget, 1.0, 1.0).sf(-lead / 2))
    if vote == "exponential":  # weights exp(eps/2 votes)
        eps = math.sqrt(8 * budget.rho) if isinstance(budget, ZCDP) else budget.epsilon
        return 1 / (1 + math.exp(-eps * lead / 2))
    if isinstance(budget, ZCDP):  # the noises of two bins differ by N(0, 2/rho)
        return float(stats.norm.cdf(lead / math.sqrt(2 / budget.rho)))
    x = abs(lead) * budget.epsilon / 2  # two Laplace noises of scale b: tail e^(-x/b) (2 + x/b)/4
    tail = math.exp(-x) * (2 + x) / 4
    return 1 - tail if lead > 0 else tail


@pytest.mark.parametrize("vote", ["count", "exponential", "histogram"])
@pytest.mark.parametrize("budget", [PureDP(0.9), ZCDP(0.3)], ids=name)
@pytest.mark.parametrize("k", [1, 4])
def test_outputs_given_the_votes(vote: Vote, budget: PureDP | ZCDP, k: int) -> None:
    for votes in range(k + 1):
        # Buckets of two records have mean 1 or 1/2; a mean of 1/2 is no vote for 1.
        row = np.repeat([1.0] * votes + [0.5] * (k - votes), 2)
        estimator = est.SubsampleTest(buckets=k, aggregate=vote)
        estimate = run(estimator, np.tile(row, (4000, 1)), budget, seed=votes)
        ones = int(np.sum(estimate.value == 1))
        assert ones + np.sum(estimate.value == 0) == 4000
        # Binomial test with false-alarm probability 1e-6.
        p = probability_of_one(votes, k, vote, budget)
        assert stats.binomtest(ones, 4000, p).pvalue > FALSE_ALARM
        assert np.all(estimate.before_noise == float(2 * votes > k))
