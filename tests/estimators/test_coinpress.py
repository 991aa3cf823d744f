"""CoinPress: the authors' schedule, cumulative clipping, and the last ball."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from conftest import Step
from support import Floats, rng, round_shares, row_norms, run

from dpbench.estimators import CoinPressMean
from dpbench.estimators.coinpress import schedule
from dpbench.privacy import ZCDP, ApproxDP, Budget
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


def by_hand(n: int, d: int, radius: float, rho: float, rounds: int, b: float) -> list[Floats]:
    """What a round spends, where it clips, its noise and its ball, as algorithms.md states it."""
    log, r, found = math.log(1 / b), radius, []
    gamma = math.sqrt(d + 2 * math.sqrt(d * log) + 2 * log)
    for share in round_shares(rounds):
        s = min(math.sqrt(r * r + 6 * r + gamma**2), r + gamma)
        sd = 2 * s / n / math.sqrt(2 * rho * share)
        r = gamma * math.sqrt(1 / n + sd**2)
        found.append(np.array([rho * share, s, sd, r]))
    return found


def in_ball(row: Floats, centre: Floats, radius: float) -> Floats:
    """The point of a ball that is nearest to a row."""
    length = float(row_norms(row - centre))
    return row if length <= radius else centre + (row - centre) / length * radius


def hard_vectors(n: int, d: int) -> Floats:
    """Datasets of n rows: ordinary, wide, far off, equal, collinear, and with one wild row."""
    x = rng(7).normal(1.0, 2.0, (12, n, d))
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
        (ZCDP(0.02), 9, None, 6),
        (ApproxDP(0.5, 1e-6), 9, None, 1),
        (ApproxDP(0.5, 1e-6), 3, 1, 5),
        (ZCDP(50.0), 60, 5, 1),
        (ZCDP(0.02), 4, 30, 3),
    ],
)
def test_rounds_against_a_loop_that_moves_the_records(
    steps: list[Step], budget: Budget, n: int, d: int | None, rounds: int
) -> None:
    """Of numbers (None) and of vectors."""
    sigma, tail = 1.7, () if d is None else (d,)
    values = hard_vectors(n, d or 1).reshape(12, n, *tail)
    found = run(CoinPressMean(radius=6.0, rounds=rounds, sigma=sigma), values, budget)
    rho = budget.rho if isinstance(budget, ZCDP) else ZCDP.within(ApproxDP(0.5, 1e-6)).rho
    plan = by_hand(n, d or 1, 6.0 / sigma, rho, rounds, 0.01)
    assert len(steps) == rounds
    assert (found.interval is None) == (d is not None)
    differ = 0.0
    for trial, rows in enumerate(values.reshape(12, n, d or 1)):
        moved, centre = rows.copy(), np.zeros(d or 1)
        for step, (_, clip, sd, _) in zip(steps, plan, strict=True):
            anew = np.array([in_ball(row, centre, clip * sigma) for row in rows])
            moved = np.array([in_ball(row, centre, clip * sigma) for row in moved])
            differ += float(row_norms(anew.mean(axis=0) - moved.mean(axis=0)))
            scale = 1 + clip * sigma
            wanted = moved.mean(axis=0).reshape(tail)
            np.testing.assert_allclose(step.values[trial], wanted, atol=1e-12 * scale)
            assert isinstance(step.budget, ZCDP)
            noise = step.sensitivity / np.sqrt(2 * step.budget.rho)
            assert noise == pytest.approx(sd * sigma, rel=1e-9, abs=0)
            centre = np.atleast_1d(step.released[trial])
        np.testing.assert_array_equal(found.value[trial], centre.reshape(tail))
        np.testing.assert_array_equal(found.before_noise[trial], steps[-1].values[trial])
    assert (differ > 1.0) == (rounds > 1)  # rounds do move what earlier ones have moved


def test_the_interval_is_the_ball_of_the_round_reported(steps: list[Step]) -> None:
    values = rng(2).normal(1.0, 2.0, (7, 40))
    options: dict[str, Any] = {"radius": 5.0, "rounds": 4, "sigma": 2.0, "b": 0.05}
    plan = by_hand(40, 1, 2.5, 0.1, 4, 0.05)
    for report in (1, 3, 4, None):
        before = [step.released for step in steps]
        steps.clear()
        found = run(CoinPressMean(**options, report=report), values, ZCDP(0.1))
        j = 3 if report is None else report - 1
        np.testing.assert_array_equal(found.value, steps[j].released)
        np.testing.assert_array_equal(found.before_noise, steps[j].values)
        assert found.interval is not None
        low, high = found.interval
        np.testing.assert_allclose(high - found.value, 2.0 * plan[j][3], rtol=1e-12)
        np.testing.assert_allclose(found.value - low, 2.0 * plan[j][3], rtol=1e-12)
        # `report` changes no round, and the later ones are paid for all the same.
        assert sum(s.budget.amounts[0] for s in steps) == pytest.approx(0.1)
        for one, step in zip(before, steps, strict=bool(before)):
            np.testing.assert_array_equal(one, step.released)
    for report in (0, 5):
        with pytest.raises(ValueError, match="report"):
            CoinPressMean(**options, report=report)


def test_far_away_radii() -> None:
    # Balls shrink by the order of n in a round: these reach the data, all of them but with
    # probability 20 trials * 100 rounds * b = 2e-9.
    sample = CountedSample([3.0, 4.0], np.tile([10**10, 0], (20, 1)))
    near = run(CoinPressMean(radius=1e300, rounds=100, b=1e-12), sample, ZCDP(0.05), seed=6).value
    assert np.all(np.abs(near - 3.0) < 0.01)
