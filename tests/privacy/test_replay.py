"""Moves and control flow of two runs, given equal releases."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ApproxDP, Budget, Ledger, PureDP
from dpbench.privacy.histogram import private_mode_bin
from dpbench.privacy.quantile import private_quantile
from dpbench.privacy.replay import Comparison, compare_steps
from dpbench.privacy.tape import Step, Tape
from dpbench.samples import Bins, DenseSample
from tests.support import rng

PURE = PureDP(1.0)
Run = Callable[[Floats, Ledger], object]


def replayed(run: Run, left: Any, right: Any, budget: Budget = PURE) -> Comparison:
    """Compare a run on one array of values with its replay on the other."""
    tapes: list[Tape] = []
    for values in (left, right):
        tapes.append(Tape(tapes[0].steps if tapes else ()))
        run(np.array(values, dtype=float), Ledger(budget, rng(), tape=tapes[-1]))
    return compare_steps(tapes[0].steps, tapes[1].steps)


def noise(sensitivity: Any, l1: Any = None) -> Run:
    return lambda values, ledger: ledger.add_noise(values, sensitivity, l1=l1)


GAPS = np.array([[0.0, 0.0], [3.0, 4.0]])
RATIOS: list[tuple[Run, Any, float, str]] = [
    (noise(5.0, 7.0), GAPS, 1.0, "l2"),
    (noise(5.0, 6.0), GAPS, 7 / 6, "l1"),
    (noise(4.0, 8.0), GAPS, 5 / 4, "l2"),
    # Ratios by coordinate: 3/1 and 4/40.
    (noise(np.array([1.0, 40.0]), np.array([9.0, 90.0])), GAPS, np.hypot(3, 0.1), "l2"),
    (lambda v, a: a.add_l2_noise(v, 10.0), GAPS, 0.5, "l2"),
    (lambda v, a: a.add_joint_noise(v, 2.0, base="box"), GAPS, 2.0, "box"),
    (lambda v, a: a.add_joint_noise(v, 2.0, base="ball"), [[3.0, 4.0, 2.0]], 2.5, "ball"),
    (lambda v, a: a.add_joint_noise(v, 2.0, base="ball"), [[3.0, 4.0, 8.0]], 4.0, "ball"),
    (lambda v, a: a.exponential(v, 2.0), GAPS, 2.0, "max"),
    (lambda v, a: a.above_threshold(v, 2.0, 9.0), GAPS, 2.0, "max"),
    (lambda v, a: a.add_geometric_noise(v, 8.0), [3.0], 3 / 8, "l1"),
    (lambda v, a: a.add_geometric_noise(v, 8.0), GAPS, 7 / 8, "l1"),
    (lambda v, a: a.add_canonical_noise(v, 2.0), [3.0], 3 / 2, "l2"),
    (noise(2.0), [1.0, -3.0, 2.0], 1.5, "l2"),
    (noise(0.0), [0.0], 0.0, "l2"),
    (noise(0.0), [1e-10], np.inf, "l2"),
    (noise(1.0), [np.nan], np.inf, "l2"),
    (lambda v, a: a.add_noise(v, 1.0, draws=3), [2.0], 6.0, "l2"),
]


@pytest.mark.parametrize(("run", "gaps", "ratio", "norm"), RATIOS)
def test_a_move_over_its_stated_sensitivity(run: Run, gaps: Any, ratio: float, norm: str) -> None:
    """Compare with ratios computed by hand from the gaps between the values of both runs."""
    gaps = np.array(gaps)
    found = replayed(run, np.zeros_like(gaps), gaps)
    assert found.ratio == pytest.approx(ratio, rel=1e-9)
    assert found.largest is not None
    assert found.largest.norm == norm or ratio == 0
    assert found.largest.too_far == (ratio > 1)
    assert (found.same_flow, found.compared, found.skipped) == (True, 1, 0)


def test_rounding_is_no_move() -> None:
    for base, gap, ratio in ((1e6, 0.0, 0.0), (1e6, 1e-3, 1e-3), (1.0, 1e-9, 1e-9)):
        found = replayed(noise(1.0), [base], [base + gap])
        assert found.ratio == pytest.approx(ratio, rel=1e-3, abs=0)
    edge = replayed(noise(1.0), [0.0], [1 + 1e-10]).largest
    assert edge is not None
    assert not edge.too_far


def test_rounding_counts_in_each_coordinate() -> None:
    """A constant hides no move beside it; a move within rounding, above its bound, is unknown."""
    for constant in (1e20, -1e300, np.inf):
        found = replayed(noise(1.0), [[constant, 0.0]], [[constant, 3.0]])
        assert (found.ratio, found.compared, found.skipped) == (3.0, 1, 0)
    for left, right in (([1e20], [1e20 + 1e5]), ([[1e9, 0.0]], [[1e9 + 1e-6, 0.0]])):
        found = replayed(noise(1e-9), left, right)
        assert (found.compared, found.skipped, found.complete) == (0, 1, True)
        assert np.isnan(found.ratio)


@pytest.mark.parametrize(
    ("move", "steps"),
    [((0.0, 0.0), 0), ((1.0, 1.0), 1), ((-0.3, 1.0), 1), ((0.5, 0.0), 2), ((2.0, 0.0), 2),
     ((1.0 + 1e-12, 1.0), 1), ((1.5, 1.0), 3), ((0.0, 2.0), 2), ((2.5, 2.0), 4)],
)  # fmt: skip
def test_hourglass_noise_hides_records_that_are_added_or_removed(
    move: tuple[float, float], steps: int
) -> None:
    """Compare with the least number of steps (+-c, +-1), |c| <= 1, by trying all signs."""
    z, k = abs(move[0]) - 1e-9, move[1]
    tried = (m for m in range(9) if z <= m and k in range(-m, m + 1, 2))
    assert next(tried) == steps
    budget = PureDP(1.0, neighbours="add_remove")
    found = replayed(
        lambda v, a: a.add_hourglass_noise(v), [[3.0, 9.0]], [np.add((3, 9), move)], budget
    )
    assert found.ratio == steps


def test_code_may_change_a_release_in_place() -> None:
    """Else the replay would repeat the changed release, and its later steps would be refuted."""

    def run(values: Floats, ledger: Ledger) -> None:
        parts = ledger.split(0.25, 0.25, 0.5)
        centre = parts[0].add_noise(values, 1.0)
        centre -= 100.0
        parts[1].pay()
        other = parts[1].record_output(np.ones(1))
        other += centre
        parts[2].add_noise(values + other, 1.0)

    found = replayed(run, [0.0], [1.0])
    assert found.ratio == pytest.approx(1.0)


def adaptive(values: Floats, ledger: Ledger) -> Floats:
    """Run two steps; the first release decides centre and sensitivity of the second step."""
    first, second = ledger.split(0.5, 0.5)
    centre = first.add_noise(values, 1.0)
    return second.add_noise(values + 100 * centre, 1 + centre**2)


def test_later_steps_rest_on_the_releases_of_the_first_run() -> None:
    found = replayed(adaptive, [0.0], [1.0])
    assert found.ratio == pytest.approx(1.0)
    assert (found.same_flow, found.compared, found.complete) == (True, 2, True)


def test_control_flow_is_compared() -> None:
    def branches(values: Floats, ledger: Ledger) -> None:
        parts = ledger.split(0.5, 0.5) if values[0] > 0 else [ledger]
        for part in parts:
            part.add_noise(np.clip(values, 0, 1), 1.0)

    def branches_on_a_release(values: Floats, ledger: Ledger) -> None:
        first, second = ledger.split(0.5, 0.5)
        if first.add_noise(values, 1.0)[0] > 0.5:
            second.add_noise(values, 1.0)

    def scales(values: Floats, ledger: Ledger) -> None:
        ledger.add_noise(values, 1.0 + values)

    found = replayed(branches, [0.0], [1.0])
    assert (found.difference, found.same_flow) == ("which mechanisms it runs", False)
    found = replayed(scales, [0.0], [1.0])
    assert (found.difference, found.ratio) == ("the sensitivity of add_noise", 1.0)
    for left in (-50.0, 50.0):  # an output that the second run would not have had
        assert replayed(branches_on_a_release, [left], [-left]).same_flow


def test_chance_after_a_mechanism_is_that_of_the_first_run() -> None:
    """Check a public offset drawn after a histogram, whose noises depend on the occupied bins."""

    def run(values: Floats, ledger: Ledger) -> None:
        coarse, fine = ledger.split(0.5, 0.5)
        left = private_mode_bin(DenseSample(values[None]), Bins(1.0, -9.0, 9.0), coarse)
        offset = 1000 * ledger.rng.random()
        fine.add_noise(values[-1:] + left + offset, 7.0)

    values = np.arange(8.0)
    found = replayed(run, values, np.append(values[:-1], 0.0))
    assert found.ratio == pytest.approx(1.0)
    assert (found.skipped, found.compared) == (1, 1)
    assert found.complete


def quantile(values: Floats, ledger: Ledger) -> None:
    """Clip between a private quantile, whose pieces the records cut, and a public bound."""
    coarse, fine = ledger.split(0.5, 0.5)
    low = private_quantile(DenseSample(values[None]), 0.5, -1.0, 1.0, 0.01, coarse)
    fine.add_noise(np.clip(values, low, 2.0).mean(keepdims=True), (2.0 - low) / values.size)


def smooth(values: Floats, ledger: Ledger) -> None:
    coarse, fine = ledger.split(0.5, 0.5)
    centre = coarse.add_smooth_noise(values[:1], 1.0, 0.05)
    fine.add_noise(values[1:] - centre, 1.0)


def event(values: Floats, ledger: Ledger) -> None:
    ledger.allow_failure(1e-6)
    (part,) = ledger.split(0.5)
    part.add_noise(values, 1.0)


def own(values: Floats, ledger: Ledger) -> None:
    """Run a mechanism with its own randomness, off the tape, and a later step."""
    first, second = ledger.split(0.5, 0.5)
    first.pay()
    second.add_noise(values + 10 * values, 1.0)


APPROX = ApproxDP(1.0, 1e-5)
FROZEN: list[tuple[Run, Budget, tuple[int, int, bool]]] = [
    (quantile, PURE, (1, 1, True)),
    (smooth, GDP(1.0), (1, 1, True)),
    (event, APPROX, (1, 0, True)),
    (own, PURE, (0, 2, False)),
]


@pytest.mark.parametrize(("run", "budget", "counts"), FROZEN)
def test_releases_that_the_tape_is_told_are_frozen(
    run: Run, budget: Budget, counts: tuple[int, int, bool]
) -> None:
    found = replayed(run, [0.0, 0.25, 0.5, 0.75], [0.0, 0.25, 0.5, -0.25], budget)
    assert (found.compared, found.skipped, found.complete) == counts
    assert found.same_flow
    assert np.isnan(found.ratio) if found.compared == 0 else found.ratio <= 1 + 1e-9


def test_steps_without_a_ledger_can_be_compared() -> None:
    """Compare steps of another library's mechanisms; unequal releases end the comparison."""

    def steps(value: float, released: float) -> list[Step]:
        kinds = [("laplace", value, released), ("laplace", 9 * value, 0.0)]
        return [Step(kind, np.array([v]), {"l1": 2.0}, r) for kind, v, r in kinds]

    found = compare_steps(steps(0.0, 5.0), steps(1.0, 5.0))
    assert (found.ratio, found.mechanism, found.compared) == (4.5, "laplace", 2)
    found = compare_steps(steps(0.0, 5.0), steps(1.0, 6.0))
    assert (found.ratio, found.compared, found.skipped, found.complete) == (0.5, 1, 1, False)
    assert np.isnan(compare_steps([], []).ratio)


def test_small_moves_of_large_values_are_seen_above_the_rounding() -> None:
    """The gap is 1e-9 of the values, of which rounding hides 1e-14."""
    found = replayed(noise(1e-3), [1e6], [1e6 + 1e-3 * 1.5])
    assert found.ratio == pytest.approx(1.5, rel=1e-4)
    assert (found.compared, found.skipped) == (1, 0)
    hidden = replayed(noise(1e-10), [1e6], [1e6 * (1 + 4e-16)])
    assert (hidden.compared, hidden.skipped) == (0, 1)
