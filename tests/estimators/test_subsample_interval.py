"""Intervals from disjoint parts: ranks, coverage at a median bias, privacy of parts, and errors."""

from __future__ import annotations

import dataclasses
import math
from functools import lru_cache
from typing import Any
from unittest import mock

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import Gaussian, LogNormal
from dpbench.estimators import SubsampleInterval
from dpbench.privacy import ZCDP, Budget, Ledger, NonPrivate, PureDP
from dpbench.samples import DenseSample, Sample
from dpbench.theory.exact.value import exact
from tests.support import run

LAW = Gaussian(location=0.3)
RNG = np.random.default_rng(0)  # of releases whose noise does not matter
WIDE: dict[str, Any] = {"kind": "clipped_mean", "lower": -6, "upper": 6}
TIGHT: dict[str, Any] = {"kind": "clipped_mean", "lower": -1, "upper": 6}
HULL = SubsampleInterval(parts=5, base=WIDE)
SKEWED = SubsampleInterval(parts=12, base=TIGHT, median_bias=0.3)
OUTPUTS = SubsampleInterval(parts=300, base="empirical_mean", lower=-6, upper=6)


def _g(k: int, j: int, p: float) -> float:
    """Probability that fewer than j of k outputs, or more than k - j, are below the mean."""
    return float(stats.binom.cdf(j - 1, k, p) + stats.binom.sf(k - j, k, p))


@pytest.mark.parametrize(("k", "bias"), [(5, 0.0), (12, 0.3), (40, 0.1), (41, 0.0)])
def test_the_rank_is_the_largest_that_misses_rarely(k: int, bias: float) -> None:
    j = SubsampleInterval(parts=k, base=WIDE, median_bias=bias)._rank(0.1)
    assert 1 <= j <= k // 2
    assert _g(k, j, 0.5 + bias) <= 0.1
    assert j == k // 2 or _g(k, j + 1, 0.5 + bias) > 0.1


@pytest.mark.parametrize(("k", "bias"), [(5, 0.1), (9, 0.3), (12, 0.05)])
def test_no_mixture_of_median_biases_misses_more_often(k: int, bias: float) -> None:
    """Enumerate the proof's extreme points: a outputs at 1/2 + D, and the others at 1/2 - D."""
    for j in range(1, k // 2 + 1):
        missed = []
        for a in range(k + 1):
            lows = np.convolve(
                stats.binom.pmf(np.arange(a + 1), a, 0.5 + bias),
                stats.binom.pmf(np.arange(k - a + 1), k - a, 0.5 - bias),
            )
            missed.append(lows[:j].sum() + lows[k - j + 1 :].sum())
        assert max(missed) == pytest.approx(_g(k, j, 0.5 + bias))


@lru_cache(maxsize=1)
def _sample(law: Any, n: int, trials: int) -> Sample:
    return law.sample(np.random.default_rng(0), trials, n)  # type: ignore[no-any-return]


def _missed(
    e: SubsampleInterval, law: Any, budget: Budget, n: int, trials: int = 4000
) -> tuple[float, float]:
    """Return the share of intervals that miss, and the median width over the usual width."""
    ledger = Ledger(budget, np.random.default_rng(1))
    low, high = e.run(_sample(law, n, trials), ledger).interval or ((), ())
    usual = 2 * stats.norm.isf(e.beta / 2) * math.sqrt(law.variance / n)
    missed = np.mean((low > law.mean) | (high < law.mean))
    return float(missed), float(np.median(np.subtract(high, low)) / usual)


CASES = [
    (HULL, PureDP(1.0), 500),
    (SubsampleInterval(parts=20, base=WIDE), ZCDP(0.5), 400),
    (SKEWED, PureDP(1.0), 3600),  # the bias of the clip doubles the miss rate
]


def _as_exact(e: SubsampleInterval, budget: Budget, n: int) -> bool:
    """Return True if 4000 intervals have the exact miss rate and width.

    Five standard deviations: false-alarm probability 1e-6. Median widths vary by 1 per cent.
    """
    missed, width = _missed(e, LAW, budget, n)
    p, ratio = (exact(m, e, LAW, n, budget) for m in ("miss_rate", "width_ratio_q50"))
    return abs(missed - p) < 5 * math.sqrt(p * (1 - p) / 4000) and abs(width / ratio - 1) < 0.03


@pytest.mark.parametrize(("e", "budget", "n"), CASES)
def test_intervals_miss_as_often_as_computed(e: SubsampleInterval, budget: Budget, n: int) -> None:
    assert _as_exact(e, budget, n)
    add = Ledger.add_noise

    def halve(self: Ledger, values: Any, *args: Any, **options: Any) -> Any:
        return values + (add(self, values, *args, **options) - values) / 2

    with mock.patch.object(Ledger, "add_noise", halve):
        assert not _as_exact(e, budget, n)
    rank = SubsampleInterval._rank
    with mock.patch.object(SubsampleInterval, "_rank", lambda self, beta: rank(self, beta) + 1):
        assert not _as_exact(e, budget, n)


def test_the_hull_of_five_symmetric_outputs_misses_in_a_sixteenth() -> None:
    assert exact("miss_rate", HULL, LAW, 500, PureDP(0.1)) == pytest.approx(2 * 0.5**5)
    assert exact("miss_rate", SKEWED, LAW, 120, PureDP(0.1)) < 0.01
    assert exact("miss_rate", SKEWED, LAW, 120_000, PureDP(1.0)) > 0.99
    assert math.isnan(exact("miss_rate", HULL, LAW, 501, PureDP(1.0)))
    assert math.isnan(exact("miss_rate", OUTPUTS, LAW, 600, PureDP(1.0)))


def test_private_ends_of_outputs_without_privacy() -> None:
    """Both ends reach beyond their rank, so fewer than 1 in 100 intervals of skewed records miss.

    Without the rank error (of 50), 5 per cent would miss: those that the ranks alone allow.
    """
    law = LogNormal(sigma=1.0, standardised_moment=2)
    e = SubsampleInterval(parts=300, base="empirical_mean", lower=-6, upper=6, median_bias=0.1)
    missed, width = _missed(e, law, PureDP(1.0), 600, 1000)
    assert missed < 0.01
    assert 3 < width < 15
    ranks = SubsampleInterval._rank
    with mock.patch.object(SubsampleInterval, "_target_rank", lambda self, _: ranks(self, 0.4)):
        assert _missed(e, law, PureDP(1.0), 600, 1000)[0] > 0.02


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5)])
def test_the_rank_error_holds(budget: Budget) -> None:
    """Count how far private ends are off their rank, with outputs that are equally spaced.

    The stated error may be exceeded in beta/4 = 12.5 per cent of releases. It is a union bound, and
    an end is off on the wrong side in less than half of them.
    """
    e = SubsampleInterval(parts=300, base="empirical_mean", lower=-6, upper=6, beta=0.5)
    part = budget.fraction(0.5)
    rows = np.broadcast_to(np.linspace(-5, 5, 300), (2000, 300))
    released = e._quantile(rows, 100, Ledger(part, np.random.default_rng(0)))
    outside = (rows < (released - e.resolution)[:, None]).sum(axis=1)
    error = e._rank(e.beta / 2) - e._target_rank(part)
    assert np.mean(outside > 100 + error - 1) < 0.125
    assert np.mean(outside > 100 + error / 8) > 0.01  # an eighth of the error is exceeded


def test_few_parts_release_the_public_bounds() -> None:
    estimate = run(OUTPUTS, np.zeros((3, 600)), PureDP(0.01))
    assert estimate.interval is not None
    np.testing.assert_array_equal(estimate.interval, [[-6] * 3, [6] * 3])


@pytest.mark.parametrize(("e", "n"), [(HULL, 23), (OUTPUTS, 700)])
def test_a_record_changes_one_output(e: SubsampleInterval, n: int) -> None:
    """Replace each of some records: exactly one output of the base moves, and all records count."""
    records = np.random.default_rng(0).uniform(-1, 1, (1, n))

    def outputs(rows: Any) -> Any:
        rng = np.random.default_rng(0)
        ledgers = iter(Ledger(PureDP(1.0) if e is HULL else NonPrivate(), rng) for _ in range(2))
        return e._outputs(DenseSample(rows), lambda: next(ledgers), rng)[0, :, 1]

    for place in range(0, n, 7):
        moved = records.copy()
        moved[0, place] += 0.5
        assert np.count_nonzero(outputs(moved) != outputs(records)) == 1


def test_each_part_has_the_whole_budget_once() -> None:
    """Parts of two sizes are paid in parallel, each with the sensitivity of its size."""
    ledger = Ledger(PureDP(1.0), np.random.default_rng(0))
    HULL.run(DenseSample(np.zeros((2, 23))), ledger)
    assert ledger.spent == (1.0,)
    assert "in parallel: pure epsilon 1: additive noise, sensitivity 3\n" in ledger.receipt()
    assert "in parallel: pure epsilon 1: additive noise, sensitivity 2.4\n" in ledger.receipt()


@pytest.mark.parametrize(("k", "expected"), [(5, (-np.inf, np.inf)), (20, (5.0, 15.0))])
def test_a_failed_output_could_be_on_either_side(k: int, expected: tuple[float, float]) -> None:
    """One failure widens the hull of five to infinity, and moves the ends of rank 6 of 20 by one.

    The outputs are 0, 1, ..., k - 1, and the output 3 failed.
    """
    values = np.stack([np.arange(k, dtype=float), np.zeros(k)], axis=1)[None]
    values[0, 3, 0] = np.nan
    with mock.patch.object(SubsampleInterval, "_outputs", return_value=values):
        estimate = run(SubsampleInterval(parts=k, base=WIDE), np.zeros((1, 40)), PureDP(1.0))
    assert estimate.interval is not None
    assert tuple(np.ravel(estimate.interval)) == expected


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"parts": 4, "base": WIDE}, "4 parts are too few .* take 5 or more"),
        ({"parts": 10, "base": WIDE, "median_bias": 0.3}, "take 11 or more"),
        ({"parts": 5, "base": WIDE, "lower": 0, "upper": 1}, "takes no lower and upper"),
        ({"parts": 5, "base": "empirical_mean"}, "needs lower and upper"),
        ({"parts": 5, "base": "empirical_mean", "lower": 1, "upper": 1}, "by the resolution"),
        ({"parts": 5, "base": {"kind": "adassp", "feature_bound": 1, "response_bound": 1}}, "mean"),
    ],
)
def test_wrong_parameters(parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SubsampleInterval(**parameters)


def test_the_audit_moves_the_median_by_the_sensitivity() -> None:
    """The pair makes the median equal to the output of one part."""
    (pair,) = HULL.audit_pairs(60, None, PureDP(2.0))
    medians = [
        np.median([rows[i : i + 12].clip(-6, 6).mean() for i in range(0, 60, 12)])
        for rows in (pair.left, pair.right)
    ]
    assert medians[1] - medians[0] == pytest.approx(12 / 12)
    assert OUTPUTS.audit_pairs(600, None, PureDP(2.0)) == []


@pytest.mark.parametrize("beta", [0.05, 0.5])
@pytest.mark.parametrize(("k", "bias", "width"), [(300, 0.1, 12.0), (1000, 0.0, 3.0)])
def test_the_target_rank_is_the_largest_whose_errors_add_up_to_beta(
    k: int, bias: float, width: float, beta: float
) -> None:
    """Try all ranks j and all errors r: g(j) may be beta/2, and each of two ends may err by beta/4.

    An end errs by r or more with probability at most (width/resolution) e^(-epsilon r/2).
    """
    e = SubsampleInterval(
        parts=k, base="empirical_mean", lower=0, upper=width, median_bias=bias, beta=beta
    )
    epsilon = 0.5
    low = stats.binom.cdf(np.arange(k // 2), k, 0.5 + bias)
    ranks = 1 + np.flatnonzero(low + stats.binom.cdf(np.arange(k // 2), k, 0.5 - bias) <= beta / 2)
    errors = [r for r in range(k) if width / 0.01 * math.exp(-epsilon * r / 2) <= beta / 4]
    assert e._target_rank(PureDP(epsilon)) == max(ranks) - min(errors)


def test_the_ends_lie_a_resolution_outside_the_released_quantiles() -> None:
    e, ends = dataclasses.replace(OUTPUTS, resolution=0.25), [np.array([2.0]), np.array([3.0])]
    with mock.patch.object(SubsampleInterval, "_quantile", side_effect=ends) as released:
        estimate = e.estimate(DenseSample(np.zeros((1, 600))), Ledger(PureDP(1.0), RNG))
    assert estimate.interval is not None
    np.testing.assert_array_equal(estimate.interval, [[1.75], [3.25]])
    low, high = (call.args[1] for call in released.call_args_list)
    assert low + high == 300  # as many outputs lie beyond each end


@pytest.mark.parametrize(("rank", "expected"), [(2, -6.0), (298, 6.0)])
def test_a_failed_output_counts_as_the_bound_that_widens_the_interval(
    rank: int, expected: float
) -> None:
    """Five of 300 outputs failed, and nearly no noise finds the rank among equal outputs."""
    outputs = np.where(np.arange(300) < 5, np.nan, 0.0)[None]
    found = OUTPUTS._quantile(outputs, rank, Ledger(PureDP(1e6), np.random.default_rng(0)))
    assert found == pytest.approx([expected], abs=OUTPUTS.resolution)


def test_the_value_before_noise_is_the_median_before_noise() -> None:
    values = np.stack([np.arange(5.0), np.array([3.0, 1, 4, 2, 1000])], axis=1)[None]
    with mock.patch.object(SubsampleInterval, "_outputs", return_value=values):
        estimate = HULL.estimate(DenseSample(np.zeros((1, 40))), Ledger(PureDP(1.0), RNG))
    assert estimate.value == [2.0]
    assert estimate.before_noise == [3.0]


def test_few_parts_release_the_median_of_the_outputs() -> None:
    """Twenty outputs from -5 to 5: 11 ranks of error at epsilon = 4 are too many for an interval.

    A median at epsilon = 4 is off by a rank or two, of 0.53 each. False alarm: below 1e-6.
    """
    e = dataclasses.replace(OUTPUTS, parts=20)
    estimate = run(e, np.tile(np.linspace(-5, 5, 20), (300, 1)), PureDP(4.0))
    assert estimate.interval is not None
    np.testing.assert_array_equal(estimate.interval, np.tile([[-6.0], [6.0]], 300))
    assert abs(np.mean(estimate.value)) < 0.5
