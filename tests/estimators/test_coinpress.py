"""CoinPress in one dimension: the authors' schedule, cumulative clipping, the last ball."""

from __future__ import annotations

import itertools
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbench.estimators import CoinPressMean, Estimate
from dpbench.estimators.coinpress import schedule
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.samples import CountedSample, DenseSample

Floats = NDArray[np.float64]
FALSE_ALARM = 1e-6
# Every round that the authors' code runs for these settings.
TABLES = Path(__file__).parents[1] / "data"


class Step:
    """One noisy mean: what was paid, stated and released."""

    def __init__(self, ledger: Ledger, values: Floats, sensitivity: Any, released: Floats) -> None:
        self.budget, self.values = ledger.budget, values
        self.sensitivity, self.released = sensitivity, released


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> list[Step]:
    """The noisy means of a run, one by one."""
    found: list[Step] = []
    real = Ledger.add_noise

    def spy(self: Ledger, values: Floats, sensitivity: Any, **options: Any) -> Floats:
        released = real(self, values, sensitivity, **options)
        found.append(Step(self, values, sensitivity, released))
        return released

    monkeypatch.setattr(Ledger, "add_noise", spy)
    return found


def run(estimator: CoinPressMean, values: Floats, budget: Budget, seed: int = 0) -> Estimate:
    return estimator.run(DenseSample(values), Ledger(budget, np.random.default_rng(seed)))


@pytest.mark.parametrize("d", [1, 50])
def test_the_schedule_is_that_of_the_authors(d: int) -> None:
    reference = pd.read_csv(TABLES / f"coinpress_schedule_{d}d.csv").to_dict("records")
    assert {row["d"] for row in reference} == {d}
    for row in reference:
        plan = schedule(int(row["n"]), int(row["d"]), row["R"], row["rho"], int(row["t"]), b=0.01)
        assert len(plan) == row["t"]
        wanted = [row[key] for key in ("rho_step", "clip_radius", "noise_sd", "r_out")]
        assert list(plan[int(row["step"]) - 1]) == pytest.approx(wanted, rel=1e-12, abs=0)


def exact_schedule(n: int, d: int, radius: float, rho: float, rounds: int, b: float) -> list[Any]:
    """The same in 60 digits, as algorithms.md states it; no ball grows beyond 1e300."""
    with localcontext() as context:
        context.prec, context.Emax, context.Emin = 60, 10**6, -(10**6)
        log = -Decimal(b).ln()
        gamma = (d + 2 * (d * log).sqrt() + 2 * log).sqrt()
        r, found = Decimal(radius), []
        for j in range(rounds):
            share = Decimal(rho)
            if rounds > 1:
                share *= Decimal(3) / 4 if j == rounds - 1 else 1 / (Decimal(4) * (rounds - 1))
            s = min((r * r + 6 * r + gamma * gamma).sqrt(), r + gamma)
            sd = 2 * s / n / (2 * share).sqrt()
            r = min(gamma * (1 / Decimal(n) + sd * sd).sqrt(), Decimal("1e300"))
            found.append(tuple(float(x) for x in (share, s, sd, r)))
        return found


@pytest.mark.parametrize("radius", [0.0, 1e-200, 0.3, 4.0, 1e8, 1e160, 1e300])
@pytest.mark.parametrize(("n", "d", "rho"), [(1, 1, 0.5), (1000, 1, 1e-3), (10**12, 50, 2.0)])
@pytest.mark.parametrize("b", [0.01, 0.3])
def test_the_schedule_in_sixty_digits(radius: float, n: int, d: int, rho: float, b: float) -> None:
    for rounds in (1, 2, 5):
        plan = schedule(n, d, radius, rho, rounds, b)
        for step, wanted in zip(plan, exact_schedule(n, d, radius, rho, rounds, b), strict=True):
            assert tuple(step) == pytest.approx(wanted, rel=1e-12, abs=0)


@pytest.mark.parametrize("budget", [ZCDP(0.02), ApproxDP(0.5, 1e-6)])
@pytest.mark.parametrize("rounds", [1, 2, 3, 6])
def test_rounds_against_a_loop_that_clips_the_records(
    steps: list[Step], budget: Budget, rounds: int
) -> None:
    n, sigma = 9, 1.7
    values = np.random.default_rng(1).normal(2.0, 20.0, (50, n))
    found = run(CoinPressMean(radius=6.0, rounds=rounds, sigma=sigma), values, budget)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(0.5, 1e-6)).rho
    plan = exact_schedule(n, 1, 6.0 / sigma, rho, rounds, 0.01)
    assert len(steps) == rounds
    differ = 0.0
    for trial, row in enumerate(values):
        records, centre = row.copy(), 0.0
        for step, (_, clip, sd, _) in zip(steps, plan, strict=True):
            low, high = centre - clip * sigma, centre + clip * sigma
            differ += abs(np.clip(row, low, high).mean() - np.clip(records, low, high).mean())
            records = np.array([min(max(x, low), high) for x in records])
            assert step.values[trial] == pytest.approx(records.mean(), rel=1e-12, abs=1e-12)
            assert isinstance(step.budget, ZCDP)
            noise = step.sensitivity / np.sqrt(2 * step.budget.rho)
            assert noise == pytest.approx(sd * sigma, rel=1e-9, abs=0)
            centre = step.released[trial]
        assert found.value[trial] == centre
        assert found.before_noise[trial] == steps[-1].values[trial]
    assert (differ > 1.0) == (rounds > 1)  # rounds do clip what earlier ones have clipped


def test_the_interval_is_the_ball_of_the_round_reported(steps: list[Step]) -> None:
    values = np.random.default_rng(2).normal(1.0, 2.0, (7, 40))
    options: dict[str, Any] = {"radius": 5.0, "rounds": 4, "sigma": 2.0, "b": 0.05}
    plan = exact_schedule(40, 1, 2.5, 0.1, 4, 0.05)
    for report in (1, 2, 3, 4, None):
        before = [step.released for step in steps]
        steps.clear()
        found = run(CoinPressMean(**options, report=report), values, ZCDP(0.1))
        j = 3 if report is None else report - 1
        assert len(steps) == 4  # the later rounds are paid for all the same
        np.testing.assert_array_equal(found.value, steps[j].released)
        np.testing.assert_array_equal(found.before_noise, steps[j].values)
        assert found.interval is not None
        low, high = found.interval
        np.testing.assert_allclose(high - found.value, 2.0 * plan[j][3], rtol=1e-12)
        np.testing.assert_allclose(found.value - low, 2.0 * plan[j][3], rtol=1e-12)
        assert sum(s.budget.amounts[0] for s in steps) == pytest.approx(0.1)
        for one, step in zip(before, steps, strict=bool(before)):  # `report` changes no round
            np.testing.assert_array_equal(one, step.released)


@pytest.mark.parametrize("report", [0, 5])
def test_rounds_that_are_not_run_cannot_be_reported(report: int) -> None:
    with pytest.raises(ValueError, match="report"):
        CoinPressMean(radius=1.0, rounds=4, report=report)


@pytest.mark.parametrize("epsilon", [0.01, 0.5, 5.0])
@pytest.mark.parametrize("delta", [1e-9, 1e-3])
def test_approximate_dp_is_by_the_largest_rho(
    steps: list[Step], epsilon: float, delta: float
) -> None:
    run(CoinPressMean(radius=1.0), np.zeros((1, 10)), ApproxDP(epsilon, delta))
    rho = sum(step.budget.amounts[0] for step in steps)
    assert all(isinstance(step.budget, ZCDP) for step in steps)
    assert ZCDP(rho).to_approx(delta).epsilon <= epsilon * (1 + 1e-9)
    assert ZCDP(rho * (1 + 1e-6)).to_approx(delta).epsilon > epsilon


@pytest.mark.parametrize("epsilon", [1e-3, 1e-5])
def test_a_small_budget_is_enough(epsilon: float) -> None:
    budget = ApproxDP(epsilon, 1e-6)
    assert np.all(np.isfinite(run(CoinPressMean(radius=1.0), np.zeros((2, 10)), budget).value))


def test_sensitivities_by_brute_force(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever balls were released before, one record moves a round by 2s/n at most."""
    points, n = [-1e300, -3.0, 0.0, 0.4, 1e6], 3
    grid = np.array(list(itertools.product(points, repeat=n)))
    one, two = np.nonzero((grid[:, None] != grid[None]).sum(axis=2) == 1)
    for centres in ((0.0, 0.0, 0.0), (50.0, -3.0, 1.0), (1e200, 0.0, 7.0)):
        ratios: list[float] = []
        steps = iter(centres)

        def freeze(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
            self.pay()
            ratios.append(float(np.abs(values[one] - values[two]).max() / sensitivity))  # noqa: B023
            return np.full(len(values), next(steps))  # noqa: B023

        monkeypatch.setattr(Ledger, "add_noise", freeze)
        run(CoinPressMean(radius=5.0, rounds=3), grid, ZCDP(0.1))
        assert ratios[0] == pytest.approx(1, rel=1e-12)  # attained, where nothing was clipped yet
        assert max(ratios) <= 1 + 1e-12
        assert len(ratios) == 3


@pytest.mark.parametrize("budget", [ZCDP(0.05), ApproxDP(1.0, 1e-6)])
def test_far_away_radii(budget: Budget) -> None:
    estimator = CoinPressMean(radius=1e300, rounds=3)
    values = np.full((20, 1000), 3.0)
    values[:, 0] = -1e300
    found = run(estimator, values, budget)
    assert np.all(np.isfinite(found.value))
    assert found.interval is not None
    assert np.all(np.isfinite(found.interval))
    # Balls shrink by the order of n in a round: these reach the data, all of them but with
    # probability 20 trials * 100 rounds * b = 2e-9.
    sample = CountedSample([3.0, 4.0], np.tile([10**10, 0], (20, 1)))
    ledger = Ledger(budget, np.random.default_rng(6))
    near = CoinPressMean(radius=1e300, rounds=100, b=1e-12).run(sample, ledger).value
    assert np.all(np.abs(near - 3.0) < 0.01)


MEAN, N = 2.5, 2000


def gaussian_errors(budget: ZCDP, report: int | None) -> tuple[Estimate, Floats]:
    values = np.random.default_rng(3).normal(MEAN, 2.0, (2000, N))
    estimator = CoinPressMean(radius=6.0, rounds=3, sigma=2.0, report=report)
    found = run(estimator, values, budget, seed=4)
    return found, found.value - MEAN


def test_errors_on_gaussian_data() -> None:
    budget = ZCDP(0.01)
    _, errors = gaussian_errors(budget, None)
    sd = exact_schedule(N, 1, 3.0, 0.01, 3, 0.01)[-1][2]
    # Records beyond s > 3.8 standard deviations move the mean by less than 1e-4 of these.
    law = stats.norm(scale=2.0 * np.hypot(1 / np.sqrt(N), sd))
    # Kolmogorov-Smirnov test with false-alarm probability 1e-6.
    assert stats.kstest(errors, law.cdf).pvalue > FALSE_ALARM


def test_coverage_of_every_ball() -> None:
    for report in (1, 2, 3):
        found, _ = gaussian_errors(ZCDP(0.01), report)
        assert found.interval is not None
        missed = int(np.sum((found.interval[0] > MEAN) | (found.interval[1] < MEAN)))
        # Each ball misses with probability b = 0.01 at most, and so may those before it;
        # binomial test with false-alarm probability 1e-6.
        assert stats.binom.sf(missed - 1, 2000, 0.01 * report) > FALSE_ALARM


def test_counted_data() -> None:
    sample = CountedSample([0.0, 1.0], [[3 * 10**11, 7 * 10**11]])
    ledger = Ledger(ZCDP(0.1), np.random.default_rng(5))
    found = CoinPressMean(radius=100.0).run(sample, ledger).value
    sd = exact_schedule(10**12, 1, 100.0, 0.1, 4, 0.01)[-1][2]
    assert abs(found[0] - 0.7) < 6 * sd  # false-alarm probability 2e-9
