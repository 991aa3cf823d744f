"""Power laws are recovered, and intervals of exponents hold what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats
from sweeps import Made

from dpbench.analysis.exponents import (
    Measured,
    alpha_exponent,
    cost_exponent,
    direct_exponent,
    interval,
)
from dpbench.arrays import Floats

N, EPSILON = (
    grid.ravel() for grid in np.meshgrid(np.logspace(5, 12, 8), np.array([1e-3, 1e-2, 1e-1]))
)


def test_exact_power_laws_are_recovered() -> None:
    one = 3 * N[:8] ** -0.4
    twice = np.stack([one, one**2])  # the second replicate has another exponent
    wanted = interval(2.5, np.array([2.5, 1.25]))
    assert alpha_exponent(N[:8], one, twice) == pytest.approx(wanted)
    errors = 7 * N**-0.5 / EPSILON
    found = cost_exponent(N, 1 / EPSILON, errors, np.stack([errors, errors]))
    assert found == pytest.approx((2.0, 2.0, 2.0))
    found = direct_exponent(errors, np.stack([errors, errors]), N, 1 / EPSILON)
    assert found == pytest.approx((1.0, 1.0, 1.0))
    # n is held fixed wherever it is not the same at all x.
    some = N * EPSILON < 1e8
    found = direct_exponent(errors[some], errors[None, some], N[some], 1 / EPSILON[some])
    assert found == pytest.approx((1.0, 1.0, 1.0))


def test_the_interval_is_of_percentiles() -> None:
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert interval(3.0, draws) == pytest.approx((3.0, 25.0, 975.0))


@pytest.mark.parametrize(
    "fit",
    [
        lambda: alpha_exponent([10, 10], [1, 2], [[1, 2]]),
        lambda: cost_exponent([10, 20], [3, 3], [1, 2], [[1, 2]]),
        lambda: direct_exponent([1, 2], [[1, 2]], [3, 3]),
    ],
)
def test_one_value_is_refused(fit: Callable[[], Measured]) -> None:
    with pytest.raises(ValueError, match="at least two distinct values"):
        fit()


def _quality(found: list[Any], truth: float) -> tuple[int, float]:
    """How many intervals hold the truth, and their length over what it should be."""
    value, low, high = np.array([[row["measured"], row["low"], row["high"]] for row in found]).T
    needed = 2 * stats.norm.isf(0.025) * value.std()
    return int(np.sum((low <= truth) & (truth <= high))), float(np.mean(high - low) / needed)


Draw = Callable[[np.random.Generator], Callable[[Any], Floats]]


def _in_alpha(rng: np.random.Generator) -> Callable[[Any], Floats]:
    """Errors of their own at every n, as n^(-2/3)."""
    return lambda at: at.n ** (-2 / 3) * rng.exponential(size=200)


def _in_epsilon(rng: np.random.Generator) -> Callable[[Any], Floats]:
    """|z|/(epsilon sqrt(n)); most of z is the data's, which all epsilon share: n ~ epsilon^-2."""
    data = {n: rng.normal(size=200) for n in (10**4, 10**8, 10**12)}
    return lambda at: (
        np.abs(data[at.n] + 0.2 * rng.normal(size=200)) / (at.epsilon * float(at.n) ** 0.5)
    )


def _in_radius(rng: np.random.Generator) -> Callable[[Any], Floats]:
    """The error of the same records at the same n, times R^0.02."""
    data = {n: rng.normal(size=200) for n in (1000, 10_000)}
    return lambda at: np.abs(data[at.n] + 0.1 * rng.normal(size=200)) * at.radius**0.02 / at.n


def _smallest_n(rng: np.random.Generator) -> Callable[[Any], Floats]:
    """Errors R |z|/n on the same records for every R: n ~ R."""
    data = {n: rng.laplace(size=200) for n in SIZES}
    return lambda at: at.radius / at.n * np.abs(data[at.n] + 0.3 * rng.laplace(size=200))


SIZES = [round(n) for n in np.geomspace(30, 3e4, 12)]
RADII = {"naive": {"kind": "naive_gaussian_mean", "radius": [10, 1e6, 1e100]}}
NEAR = {"naive": {"kind": "naive_gaussian_mean", "radius": [100, 300, 1000, 3000]}}
PURE = {"pure": {"kind": "pure_dp", "epsilon": [0.5, 0.7, 1]}}
TAILS = {"t": {"kind": "two_point", "k": 2, "p": 0.1}}
CASES: dict[str, tuple[dict[str, Any], Draw, float, int, int, dict[str, Any]]] = {
    # Runs, and how many intervals at least hold the truth: at a true coverage of 0.94 fewer do so
    # with probability below 1e-6. A standard deviation of 60 is known to 9 per cent.
    "heavy_tail_alpha": (
        {"n": [10**i for i in range(5, 13)], "families": TAILS}, _in_alpha, 1.5, 60, 45, {}),
    "heavy_tail_epsilon": (
        {"n": [10**4, 10**8, 10**12], "budgets": PURE, "families": TAILS},
        _in_epsilon, 2.0, 60, 45, {}),
    "no_radius": ({"n": [1000, 10_000], "estimators": RADII}, _in_radius, 0.02, 60, 45, {}),
    "naive_radius": ({"n": SIZES, "estimators": NEAR}, _smallest_n, 1.0, 30, 20, {"alpha": 1.0}),
}  # fmt: skip


@pytest.mark.parametrize("theorem", CASES)
def test_intervals_of_exponents_cover(theorem: str) -> None:
    """Also where settings share their data, which their replicates keep in common."""
    sections, draw, truth, runs, least, options = CASES[theorem]
    made, found = Made(trials=200, **sections), []
    for run in range(runs):
        errors = draw(np.random.default_rng([7, run]))
        found.append(made.judge(theorem, errors, **options).iloc[0])
    covers, length = _quality(found, truth)
    assert covers >= least, covers
    # Far from what it would be if the data were independent, or had more in common than they do.
    assert 0.75 <= length <= 1.35, length


def test_budgets_with_data_of_their_own_have_nothing_in_common() -> None:
    """The same errors on families that follow their budget: intervals are far wider."""
    pair = {"pair": {"kind": "two_point_family", "k": 2, "c": [1], "scaling": "local"}}
    widths = []
    for families in (TAILS, pair):
        made = Made(n=[10**4, 10**8, 10**12], budgets=PURE, families=families, trials=200)
        rows = [made.judge("heavy_tail_epsilon", _in_epsilon(np.random.default_rng([23, run])))
                for run in range(10)]  # fmt: skip
        widths.append(np.mean([row["high"].iloc[0] - row["low"].iloc[0] for row in rows]))
    assert widths[1] > 1.5 * widths[0], widths
