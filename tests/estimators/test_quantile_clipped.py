"""The mean clipped at private quantiles against its definition and its guarantees."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats
from scipy.optimize import brentq

from dpbench.distributions import FixedDataset, Gaussian, LogNormal
from dpbench.estimators import QuantileClippedMean
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.tape import Tape
from dpbench.samples import BinnedSample, CountedSample, DenseSample, Sample
from dpbench.samples.quantile_grid import quantile_grid
from dpbench.theory.bounds.subsets import subset_lower_bound
from tests.support import FALSE_ALARM, rng, run

Floats = NDArray[np.float64]
BOUNDED: dict[str, Any] = {"search": "exponential", "lower": 0.0, "upper": 400.0}
HUGE = PureDP(1e6)


def payments(ledger: Ledger) -> list[str]:
    """Return the epsilon of each mechanism on the receipt of a pure budget."""
    return re.findall(r"epsilon ([\d.]+): (?:sparse|expo|add)", ledger.receipt())


@pytest.mark.parametrize("how", [{}, BOUNDED], ids=["sparse vector", "exponential"])
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_without_noise_it_is_the_winsorised_mean(how: dict[str, Any], level: float) -> None:
    """The bounds are the quantiles up to a step of the grid, or up to the resolution."""
    x = rng(1).normal(170, 10, 2000)
    estimate = run(QuantileClippedMean(level=level, **how), x[None], HUGE)
    low, high = np.quantile(x, [level, 1 - level])
    wanted = np.clip(x, low, high).mean()
    assert estimate.value == pytest.approx(wanted, abs=0.4)
    assert estimate.before_noise == pytest.approx(estimate.value, abs=1e-3)


def test_the_bounds_clip_the_mean_and_scale_its_noise() -> None:
    """The last step states the width of the clip over n, and clips to the bounds before it."""
    x, tape = rng(2).normal(50, 5, 500), Tape()
    ledger = Ledger(PureDP(4.0), rng(3), tape=tape)
    QuantileClippedMean(level=0.1, share=0.25).run(DenseSample(x[None]), ledger)
    search, mean = (step for step in tape.steps if step.mechanism != "pay")
    assert (search.mechanism, mean.mechanism) == ("above_threshold", "add_noise")
    low, high = np.quantile(x, [0.1, 0.9])
    assert float(np.max(mean.sensitivity["l2"])) * 500 == pytest.approx(high - low, rel=0.25)
    assert payments(ledger) == ["1", "3"]


def test_the_exponential_mechanism_pays_half_of_the_share_for_each_bound() -> None:
    ledger = Ledger(PureDP(4.0), rng())
    QuantileClippedMean(**BOUNDED).run(DenseSample(rng().normal(50, 5, (1, 500))), ledger)
    assert payments(ledger) == ["1", "1", "2"]


def test_crossed_bounds_are_swapped_and_moved_into_the_public_bounds() -> None:
    """At a tiny budget noise crosses the bounds; the release stays a number."""
    x = rng().normal(0, 1, (300, 20))
    estimate = run(QuantileClippedMean(lower=-2, upper=3), x, PureDP(0.05))
    assert np.isfinite(estimate.value).all()
    assert (np.abs(estimate.before_noise) <= 3).all()
    wide = run(QuantileClippedMean(lower=-1e12, upper=1e12), x, PureDP(0.05))
    # Crossed bounds without a swap would clip every record to one of them, far from the data.
    assert np.quantile(np.abs(wide.before_noise), 0.5) < 3


def rule(estimator: QuantileClippedMean, n: int, budget: Budget) -> float:
    half = budget.fraction(0.5)
    return estimator.count_clipped(n, half, half)


def test_how_many_records_the_rule_clips() -> None:
    """A + c with A = ln(10)/e and c = (3/e) ln 5, or c = (2/(e/2)) ln(1e4), for e = epsilon/2."""
    found = rule(QuantileClippedMean(), 10**6, PureDP(1.0))
    assert found == pytest.approx((np.log(10) + 3 * np.log(5)) / 0.5)
    found = rule(QuantileClippedMean(**BOUNDED), 10**6, PureDP(1.0))
    assert found == pytest.approx((np.log(10) + 4 * np.log(1e4)) / 0.5)
    found = rule(QuantileClippedMean(), 10**6, ZCDP(0.5))
    epsilon = brentq(lambda e: e * np.tanh(e / 2) - 0.25, 0.1, 2)  # pure DP that rho = 1/4 pays for
    assert found == pytest.approx(stats.norm.isf(0.05) / np.sqrt(0.5) + 3 * np.log(5) / epsilon)
    assert rule(QuantileClippedMean(), 40, PureDP(1.0)) == 10  # a quarter
    assert rule(QuantileClippedMean(level=0.05), 40, PureDP(1.0)) == 2


@pytest.mark.parametrize(("noise", "beta"), [("exponential", 0.1), ("laplace", 0.1805)])
def test_the_search_goes_past_an_edge_as_often_as_proved(noise: Any, beta: float) -> None:
    """The edge with A records beyond is passed over with probability beta.

    A grid of two edges has A records beyond the first, and none beyond the second.
    """
    n, trials, budget = 3000, 20_000, PureDP(1.0)
    beyond = PureDP(0.5).noise_quantile(0.1)
    m = rule(QuantileClippedMean(noise=noise), n, budget)
    counts = np.tile([n - beyond, n], (trials, 1))
    ledger = Ledger(budget.fraction(0.5), rng(5))
    chosen = ledger.above_opposite_thresholds((counts, counts), 1.0, n - m, noise=noise)
    # 40,000 choices: five standard deviations are at most 0.0097.
    assert np.mean(chosen == 1) == pytest.approx(beta, abs=0.01)


def test_the_exponential_mechanism_goes_past_the_records_as_seldom_as_proved() -> None:
    """Of a range of 1000 resolutions, 999 lie beyond all records: the worst case of the rule."""
    n, trials, budget = 1000, 2000, PureDP(1.0)
    estimator = QuantileClippedMean(search="exponential", lower=0.0, upper=1.0)
    x = np.where(np.arange(n) < n - 5, 0.0, 0.0005)
    upper = estimator._search_bounds(
        DenseSample(np.broadcast_to(x, (trials, n))),
        rule(estimator, n, budget), Ledger(budget.fraction(0.5), rng(6)),
    )[1]  # fmt: skip
    # Five standard deviations of a share of 0.1 are 0.034.
    assert np.mean(upper > 0.0005 + 0.001) < 0.1 + 0.034


LAW = LogNormal(sigma=1.0)


def test_a_level_keeps_its_bias_and_the_rule_loses_it() -> None:
    """The bias of five per cent at each end is that of the winsorised law, by integration."""
    quantile = stats.lognorm(1.0).ppf
    inner = stats.lognorm(1.0).expect(lambda v: v, lb=quantile(0.05), ub=quantile(0.95))
    bias = inner + 0.05 * (quantile(0.05) + quantile(0.95)) - np.exp(0.5)
    biases = {}
    for level in (0.05, None):
        for n in (10_000, 100_000):
            sample = LAW.sample(rng(7), 20, n)
            estimate = run(QuantileClippedMean(level=level), sample, PureDP(1.0))
            biases[level, n] = np.mean(estimate.before_noise - LAW.mean)
    for n in (10_000, 100_000):
        assert biases[0.05, n] == pytest.approx(bias, abs=0.03)  # five standard deviations
    assert abs(biases[None, 100_000]) < abs(biases[None, 10_000]) < abs(bias) / 2


@pytest.mark.parametrize("budget", [PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6)])
def test_every_kind_of_sample_and_notion(budget: Budget) -> None:
    """Counts of 10^12 records, and counts on cells, have the errors of held records."""
    atoms = np.array([-1.0, 0.0, 2.0, 50.0])
    shares = np.array([0.2, 0.5, 0.2, 0.1])
    n = 10**12
    counted = CountedSample(atoms, np.tile((shares * n).astype(np.int64), (3, 1)))
    settings: list[dict[str, Any]] = [{}, {**BOUNDED, "lower": -100.0, "upper": 100.0}]
    for how in settings:
        estimate = run(QuantileClippedMean(**how), counted, budget)
        # The exponential mechanism finds the atom 50 up to the resolution 0.2: 0.1 of 0.2 is 0.02.
        assert estimate.value == pytest.approx(np.full(3, shares @ atoms), abs=0.05)
    binned: Sample = BinnedSample.draw(quantile_grid(Gaussian(location=5), 10**5), rng(1), 1, 10**5)
    held = DenseSample(binned.records(0, rng())[None])
    found = [run(QuantileClippedMean(), sample, budget, 4).value for sample in (binned, held)]
    assert found[0] == pytest.approx(
        found[1], abs=1e-4
    )  # records stand at the means of their cells


@pytest.mark.parametrize(("far", "measured"), [(0, 12.0), (1, 12.0), (40, np.inf)])
def test_the_error_is_within_the_proved_factor_of_the_bound_for_a_dataset(
    far: int, measured: float
) -> None:
    """The error is at most (2 M + 4 A)/K times the bound, for any number of far records.

    M = m + b ln(J/(2 beta)) at beta = 0.01 and J = 7000 edges. About 40 far records are the worst:
    all are clipped, and a test can tell K of them.
    """
    n, epsilon = 4000, 1.0
    x = rng(11).normal(100, 10, n)
    x[:far] = 1e5
    bound, estimator = subset_lower_bound(x, PureDP(epsilon)), QuantileClippedMean()
    m, noise = rule(estimator, n, PureDP(epsilon)), PureDP(epsilon / 2).noise_quantile(0.1)
    most = m + 6 / epsilon * np.log(7000 / 0.02)
    factor = (2 * most + 4 * noise) / np.floor(2 * np.log(5) / epsilon)
    error = abs(run(estimator, np.tile(x, (300, 1)), PureDP(epsilon)).value - x.mean())
    assert bound < np.quantile(error, 0.9) < min(factor, measured) * bound


def test_a_fixed_dataset_compares_errors_with_its_own_bound() -> None:
    law = FixedDataset(of=LAW)
    sample = law.sample(rng(), 50, 2000)
    estimate = run(QuantileClippedMean(), sample, PureDP(1.0))
    error = np.abs(estimate.value - law.target_of(sample))
    assert 1 < np.quantile(error, 0.9) / subset_lower_bound(law.records(2000), PureDP(1.0)) < 12


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"lower": 1.0, "upper": 0.0}, "upper must exceed lower"),
        ({"search": "exponential", "lower": 0.0}, "needs lower and upper"),
        ({"resolution": 0.1}, "resolution is for search=exponential only"),
        ({"base": 2.0}, "the last edge unit base"),
    ],
)
def test_what_is_refused(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        QuantileClippedMean(**wrong)


@pytest.mark.parametrize("noise", ["exponential", "laplace"])
def test_a_search_that_may_end_anywhere_declares_failure(noise: Any) -> None:
    """Without public bounds, far misses have probability at most 0.1 at every n."""
    estimator, trials = QuantileClippedMean(noise=noise), 200
    for budget in (PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6)):
        least = estimator.working_records(1, budget)
        for n in (10, least // 2, least - 1, least, 2 * least):
            source = np.random.default_rng(n)
            values = 5 + source.standard_normal((trials, n))
            value = estimator.run(DenseSample(values), Ledger(budget, source)).value
            assert np.isnan(value).all() if n < least else np.isfinite(value).all()
            far = int(np.sum(np.abs(value - 5) > 50))
            assert stats.binom.sf(far - 1, trials, 0.1) > FALSE_ALARM
    bounded = QuantileClippedMean(lower=0, upper=10, noise=noise)
    assert bounded.working_records(1, PureDP(1.0)) == 1


@pytest.mark.parametrize("level", [0.15, 0.25])
def test_the_exponential_mechanism_leaves_as_many_records_on_each_side(level: float) -> None:
    """Records at whole tens, so that nearly no noise finds the gap after level n records."""
    x = 10.0 * np.arange(1, 21)
    estimator = QuantileClippedMean(
        search="exponential", lower=0.0, upper=1000.0, resolution=0.1, level=level
    )
    low, high = estimator._search_bounds(DenseSample(x[None]), level * 20, Ledger(HUGE, rng(2)))
    assert np.sum(x < low) == np.sum(x > high) == round(level * 20)
