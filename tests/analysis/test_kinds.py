"""Power laws are recovered, and intervals of exponents hold what they should."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.analysis.kinds import slopes
from dpbench.analysis.resample import interval
from dpbench.arrays import Floats
from tests.sweeps import Made


def test_exact_power_laws_are_recovered() -> None:
    n, x = (grid.ravel() for grid in np.meshgrid(np.logspace(5, 12, 8), [10.0, 100.0, 1000.0]))
    errors = 7 * n**-0.5 * x
    # Each draw has its own exponents, and n is held fixed wherever it is not the same at all x.
    found = np.stack(slopes(np.stack([errors, errors**2], axis=1), n, x))
    np.testing.assert_allclose(found, np.array([[-0.5, -1], [1, 2]]))
    some = n < 1e8 * x
    found = np.stack(slopes(errors[some, None], n[some], x[some]))
    np.testing.assert_allclose(found, np.array([[-0.5], [1]]))
    for columns in ([n, np.full_like(n, 3)], [np.full_like(n, 3)], [x, x**2]):
        with pytest.raises(ValueError, match="at least two distinct values"):
            slopes(errors[:, None], *columns)


def test_the_interval_is_of_percentiles() -> None:
    draws = np.random.default_rng(0).permutation(np.arange(1001.0))
    assert interval(np.array([3.0, *draws])) == pytest.approx((3.0, 25.0, 975.0))


RUNS = 60


def _runs(*radius: float) -> dict[str, Any]:
    """Estimators, one for each run."""
    sigma = list(range(1, RUNS + 1))
    return {"run": {"kind": "naive_gaussian_mean", "sigma": sigma, "radius": list(radius)}}


class Data:
    """Records' errors, the same ones wherever run and n are."""

    def __init__(self, seed: int, law: str) -> None:
        self.rng, self.law = np.random.default_rng(seed), law
        self._known: dict[tuple[int, int], Floats] = {}

    def own(self) -> Floats:
        """A row's own."""
        return np.asarray(getattr(self.rng, self.law)(size=200))

    def mixed(self, at: Any, own: float) -> Floats:
        """Mostly those of its run and n."""
        key = at.sigma, at.n
        if key not in self._known:
            self._known[key] = self.own()
        return np.abs(self._known[key] + own * self.own())


SIZES = [round(n) for n in np.geomspace(30, 3e4, 7)]
PURE = {"pure": {"kind": "pure_dp", "epsilon": [0.5, 0.7, 1]}}
Case = tuple[dict[str, Any], tuple[int, str], Callable[[Any, Data], Floats], float]
# What is run, the seed and law of its data, the errors, and the exponent.
CASES: dict[str, Case] = {
    "heavy_tail_alpha": (
        {"n": [10**i for i in range(5, 13)], "estimators": _runs(1)},
        (7, "standard_exponential"), lambda at, data: at.n ** (-2 / 3) * data.own(), 1.5),
    # Most is the data's, which all epsilon share: n ~ epsilon^-2.
    "heavy_tail_epsilon": (
        {"n": [10**4, 10**8, 10**12], "estimators": _runs(1), "budgets": PURE},
        (8, "normal"), lambda at, data: data.mixed(at, 0.2) / (at.epsilon * at.n**0.5), 2.0),
    "no_radius": (
        {"n": [1000, 10_000], "estimators": _runs(10, 1e6, 1e100)},
        (9, "normal"), lambda at, data: data.mixed(at, 0.1) * at.radius**0.02 / at.n, 0.02),
    "naive_radius": (
        {"n": SIZES, "estimators": _runs(100, 600, 3000)},
        (10, "laplace"), lambda at, data: data.mixed(at, 0.3) * at.radius / at.n, 1.0),
}  # fmt: skip
PAIR = {"kind": "two_point", "k": 2, "p": 0.1}


@pytest.mark.parametrize(
    "theorem", [*list(CASES)[:-1], pytest.param("naive_radius", marks=pytest.mark.slow)]
)
def test_intervals_of_exponents_cover(theorem: str) -> None:
    """Also where settings share their data, which their replicates keep in common."""
    sections, drawn, error, truth = CASES[theorem]
    options = {"alpha": 1.0} if theorem == "naive_radius" else {}
    made = Made(trials=200, families={"pair": PAIR}, **sections)
    data = Data(*drawn)
    found = made.judge(theorem, lambda at: error(at, data), **options)
    assert len(found) == RUNS
    # At a true coverage of 0.94 fewer than 45 of 60 have probability 4e-7.
    covers = (found["low"] <= truth) & (truth <= found["high"])
    assert covers.sum() >= 45, covers.sum()
    # Of a length that fits the spread, known to 9 per cent: far from what it would be if the data
    # were independent, or had more in common than they do.
    needed = 2 * stats.norm.isf(0.025) * found["measured"].std()
    assert 0.75 <= (found["high"] - found["low"]).mean() / needed <= 1.35


def test_budgets_with_data_of_their_own_have_nothing_in_common() -> None:
    """The same errors on a family that follows its budget: intervals are far wider."""
    follows = {"kind": "two_point_family", "k": 2, "c": [1], "scaling": "local"}
    sections, drawn, error, _ = CASES["heavy_tail_epsilon"]
    few = {"run": {**_runs(1)["run"], "sigma": list(range(1, 13))}}
    widths = []
    for family in (PAIR, follows):
        made = Made(families={"pair": family}, trials=200, **{**sections, "estimators": few})
        data = Data(*drawn)
        found = made.judge("heavy_tail_epsilon", lambda at, data=data: error(at, data))  # type: ignore[misc]
        widths.append((found["high"] - found["low"]).mean())
    assert widths[1] > 1.5 * widths[0], widths
