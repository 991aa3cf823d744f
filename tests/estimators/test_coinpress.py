"""CoinPress: the authors' schedule, cumulative clipping, the last ball, and their errors."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Step
from scipy import stats
from support import Floats, assert_follows, row_norms, run

from dpbench.estimators import CoinPressMean
from dpbench.estimators.coinpress import schedule
from dpbench.privacy import ZCDP, ApproxDP, Budget, Ledger
from dpbench.samples import CountedSample

# Every round that the authors' code runs for these settings.
TABLES = Path(__file__).parents[1] / "data"


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


@pytest.mark.parametrize("radius", [0.0, 0.3, 1e8, 1e300])
@pytest.mark.parametrize(("n", "d", "rho", "b"), [(1, 1, 0.5, 0.3), (10**12, 50, 2.0, 0.01)])
def test_the_schedule_in_sixty_digits(radius: float, n: int, d: int, rho: float, b: float) -> None:
    for rounds in (1, 2, 5):
        plan = schedule(n, d, radius, rho, rounds, b)
        for step, wanted in zip(plan, exact_schedule(n, d, radius, rho, rounds, b), strict=True):
            assert tuple(step) == pytest.approx(wanted, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("budget", "rounds"), [(ZCDP(0.02), 1), (ZCDP(0.02), 6), (ApproxDP(0.5, 1e-6), 3)]
)
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


def test_counted_data() -> None:
    sample = CountedSample([0.0, 1.0], [[3 * 10**11, 7 * 10**11]])
    ledger = Ledger(ZCDP(0.1), np.random.default_rng(5))
    found = CoinPressMean(radius=100.0).run(sample, ledger).value
    sd = exact_schedule(10**12, 1, 100.0, 0.1, 4, 0.01)[-1][2]
    assert abs(found[0] - 0.7) < 6 * sd  # false-alarm probability 2e-9


# Vectors.


def in_ball(row: Floats, centre: Floats, radius: float) -> Floats:
    """The point of a ball that is nearest to a row."""
    length = float(row_norms(row - centre))
    return row if length <= radius else centre + (row - centre) / length * radius


def hard_vectors(rng: np.random.Generator, n: int, d: int) -> Floats:
    """Datasets of n rows: ordinary, wide, far off, equal, collinear, and with one wild row."""
    x = rng.normal(1.0, 2.0, (12, n, d))
    x[1] *= 30
    x[2] += 1e3
    x[3] = x[3, 0]
    x[4] = x[4, :, :1] * np.arange(1, d + 1)
    x[5] = 0.0
    for trial, far in zip(range(6, 10), (1e12, 1e150, -1e300, 1e300), strict=True):
        x[trial, trial % n] = far
    x[10, ::2] = 1e150  # half of the rows
    x[11, ::2, 0] = -1e300
    return np.asarray(x)


@pytest.mark.parametrize(
    ("budget", "n", "d", "rounds"),
    [
        (ZCDP(0.02), 1, 2, 3),
        (ApproxDP(0.5, 1e-6), 3, 1, 5),
        (ZCDP(50.0), 9, 2, 1),
        (ZCDP(50.0), 60, 5, 5),
        (ZCDP(0.02), 4, 30, 3),
    ],
)
def test_balls_against_a_loop_over_rows(
    steps: list[Step], budget: Budget, n: int, d: int, rounds: int
) -> None:
    sigma = 1.7
    values = hard_vectors(np.random.default_rng(7), n, d)
    before = values.copy()
    found = run(CoinPressMean(radius=6.0, rounds=rounds, sigma=sigma), values, budget)
    np.testing.assert_array_equal(values, before)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(0.5, 1e-6)).rho
    plan = exact_schedule(n, d, 6.0 / sigma, rho, rounds, 0.01)
    assert len(steps) == rounds
    assert found.interval is None
    differ = 0.0
    for trial, rows in enumerate(values):
        moved, centre = rows.copy(), np.zeros(d)
        for step, (_, clip, sd, _) in zip(steps, plan, strict=True):
            anew = np.array([in_ball(row, centre, clip * sigma) for row in rows])
            moved = np.array([in_ball(row, centre, clip * sigma) for row in moved])
            differ += float(row_norms(anew.mean(axis=0) - moved.mean(axis=0)))
            scale = 1 + clip * sigma
            np.testing.assert_allclose(step.values[trial], moved.mean(axis=0), atol=1e-12 * scale)
            assert isinstance(step.budget, ZCDP)
            noise = step.sensitivity / np.sqrt(2 * step.budget.rho)
            assert noise == pytest.approx(sd * sigma, rel=1e-9, abs=0)
            centre = step.released[trial]
        np.testing.assert_array_equal(found.value[trial], centre)
        np.testing.assert_array_equal(found.before_noise[trial], steps[-1].values[trial])
    assert (differ > 1.0) == (rounds > 1)  # rounds do move what earlier ones have moved


@pytest.mark.parametrize(("n", "d"), [(1, 2), (3, 5), (100, 2)])
def test_sensitivities_of_balls_by_brute_force(
    monkeypatch: pytest.MonkeyPatch, n: int, d: int
) -> None:
    """Whatever balls were released before, one row moves a round by 2s/n in norm at most."""
    rng = np.random.default_rng(9)
    ends = np.concatenate([np.eye(d), -np.eye(d), np.ones((1, d)), np.zeros((1, d))])
    sizes = (0.3, 3.0, 1e6, 1e150, 1e300)
    wild = np.concatenate([size * ends for size in sizes] + [rng.normal(0, 5, (20, d))])
    pole = np.tile(1e300 * ends[0], (1, n, 1))
    bases = np.concatenate([hard_vectors(rng, n, d), pole])
    for centres in ((0.0, 0.0, 0.0), (50.0, -3.0, 1.0), (1e100, 0.0, 7.0)):
        sharp = []
        for base in bases:
            others = np.tile(base, (len(wild) + 1, 1, 1))
            index = rng.integers(n, size=len(wild)) if n > 1 else np.zeros(len(wild), dtype=int)
            others[np.arange(len(wild)) + 1, index] = wild
            ratios: list[float] = []
            found = iter(centres)

            def freeze(self: Ledger, values: Floats, sensitivity: Any, **_: Any) -> Floats:
                self.pay()
                moves = row_norms(values[1:] - values[0])
                ratios.append(float(moves.max()) / float(sensitivity))  # noqa: B023
                return np.full(values.shape, next(found))  # noqa: B023

            with monkeypatch.context() as patch:
                patch.setattr(Ledger, "add_noise", freeze)
                run(CoinPressMean(radius=5.0, rounds=3), others, ZCDP(0.1))
            assert len(ratios) == 3
            assert max(ratios) <= 1 + 1e-9
            sharp.append(ratios[0])
        # Attained in the first round, where a row at one pole goes to the other.
        assert max(sharp) == pytest.approx(1, rel=1e-9)


def norms_of_errors(rounds: int) -> Floats:
    """400 errors in the authors' setting: d = 50, n = 1000, rho = 0.5, R = 10 sqrt(50)."""
    found = []
    for part in range(4):
        values = np.random.default_rng([10, part]).standard_normal((100, 1000, 50))
        estimator = CoinPressMean(radius=10 * math.sqrt(50), rounds=rounds)
        found.append(np.linalg.norm(run(estimator, values, ZCDP(0.5), seed=part).value, axis=1))
    return np.concatenate(found)


@pytest.mark.parametrize(("rounds", "theirs", "error"), [(2, 0.2814, 0.0025), (4, 0.2724, 0.0021)])
def test_errors_are_those_of_the_authors(rounds: int, theirs: float, error: float) -> None:
    """Their code's mean error without the tenth at each end, and its standard error."""
    errors = norms_of_errors(rounds)
    ours = float(stats.trim_mean(errors, 0.1))
    both = math.hypot(error, float(errors.std(ddof=1)) / math.sqrt(len(errors)))
    # z-test with false-alarm probability 5.8e-7 (5 standard errors); trimming makes the
    # standard error of a nearly normal sample larger by 3 per cent at most.
    assert abs(ours - theirs) <= 5 * both
    # A hundredth of the rows is projected, and that hardly: the error is N(0, v I).
    sd = exact_schedule(1000, 50, 10 * math.sqrt(50), 0.5, rounds, 0.01)[-1][2]
    law = stats.chi2(50, scale=1 / 1000 + sd**2)
    assert_follows(errors**2, law)
