"""The smallest n: exact on exact curves, and with intervals that hold it on random ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import special, stats

from dpbench.analysis.smallest_n import SampleComplexity, crossing, measure, smallest_n
from dpbench.analysis.summary_table import Results
from dpbench.arrays import Floats
from dpbench.registry import ConfigError, from_mapping
from dpbench.sweep.plan import Cell
from tests.sweeps import CLIP, Made

BETA = 0.1
GRID = np.geomspace(10, 1e7, 13)


def read_off(n: Any, quantiles: Any, alpha: float = 1.0, between: Any = 0.5) -> list[float]:
    """`crossing` of one curve, or of the columns of several."""
    q = np.asarray(quantiles, dtype=float).reshape(len(n), -1)
    where = np.broadcast_to(np.asarray(between, dtype=float), q.shape[1:])
    return [float(x) for x in crossing(np.asarray(n, float), q, alpha, where)]


@pytest.mark.parametrize(("slope", "unit"), [(0.05, 1e-200), (3.9, 1.0)])
def test_power_laws_are_read_off_exactly(slope: float, unit: float) -> None:
    """error = (n/n*)^-slope reaches 1 at n*, wherever that is between points of the grid."""
    truth = np.geomspace(10.001, 0.999e7, 57)
    found = read_off(GRID, unit * (GRID[:, None] / truth) ** -slope, alpha=unit)
    np.testing.assert_allclose(found, truth, rtol=1e-9)


@pytest.mark.parametrize(
    ("curve", "between", "wanted"),
    [
        # From 100 to 1000 the error falls from 4 to 1/4: it is 1 half-way, whatever is around.
        ([1e9, 4.0, 0.25, 0.0], 0.1, 10**2.5),
        ([np.inf, 4.0, 0.25, 1e-300], 0.1, 10**2.5),
        ([9.0, 4.0, 1.0, 0.5], 0.1, 1000.0),  # an error of alpha is good
        # Too steep, failing or zero: a threshold, which is anywhere between.
        ([np.inf, 1e4, 0.999, 0.5], 0.1, 10**2.1),
        ([np.inf, np.inf, 0.5, 0.5], 0.7, 10**2.7),
        ([np.inf, 3.0, 0.0, 0.0], 0.7, 10**2.7),
        # The answer is where the last bad point ends, not where the first good one begins.
        ([2.0, 0.5, 2.0, 0.5], 0.1, 10**3.5),
        ([2.0, 0.5, np.inf, 0.5], 0.7, 10**3.7),
        # Outside of the grid.
        ([0.5, 0.5, 0.5, 1.0001], 0.5, np.nan),
        ([np.inf] * 4, 0.5, np.nan),
        ([1.0, 0.9, 0.1, 0.0], 0.5, np.nan),
    ],
)
def test_where_a_curve_falls_to_alpha(curve: list[float], between: float, wanted: float) -> None:
    found = read_off([10.0, 100.0, 1000.0, 10000.0], curve, between=between)
    assert found == pytest.approx([wanted], nan_ok=True)


def test_replicates_between_the_same_points_are_read_off_as_the_curve_is() -> None:
    """Lest an interval mix two ways of reading that differ."""
    n, where = np.array([10.0, 20.0, 40.0]), np.array([0.5, 0.1, 0.9])
    gentle, steep = (n / 30) ** -3.9, (n / 30) ** -4.1
    found = read_off(n, np.stack([gentle, steep, gentle], axis=1), between=where)
    assert found == pytest.approx([30.0] * 3)
    found = read_off(n, np.stack([steep, gentle, steep], axis=1), between=where)
    np.testing.assert_allclose(found, 20 * 2**where)
    # Between other points they speak for themselves, and failures follow no power law anywhere.
    other, failing = (n / 15) ** -4.1, np.array([np.inf, np.inf, 0.5])
    found = read_off(n, np.stack([gentle, other, failing], axis=1), between=where)
    assert found == pytest.approx([30.0, 10 * 2**0.1, 20 * 2**0.9])


# What data give.


def _smallest(
    made: Made, error: Any, alphas: Sequence[float], beta: float = BETA
) -> tuple[pd.DataFrame, Floats]:
    return smallest_n(made.results(error, "error"), made.sweep, alphas, beta)


def test_the_table_of_exact_curves() -> None:
    """Errors without spread: the answer is exact for every alpha and so is its interval."""
    two = {"one": CLIP, "two": {**CLIP, "upper": 2}}
    made = Made(n=[round(n) for n in GRID], estimators=two, trials=20)
    alphas, scale = [0.3, 0.03, 1e-9], {"one": 1.0, "two": 5.0}
    table, draws = _smallest(made, lambda at: scale[at.estimator] * at.n**-0.5, alphas)
    assert len(table) == len(draws) == 6
    for row, replicates in zip(table.to_dict("records"), draws, strict=True):
        truth = (scale[row["estimator"]] / row["alpha"]) ** 2
        assert (row["family"], row["privacy"], row["beta"]) == ("coin", "pure", BETA)
        if row["alpha"] < 1e-6:  # beyond the grid
            assert np.isnan([row["samples"], row["low"], row["high"], *replicates]).all()
        else:
            for found in (row["samples"], row["low"], row["high"], *replicates):
                assert found == pytest.approx(truth, rel=1e-9)
    assert table["alpha"].tolist() == alphas * 2


@pytest.mark.parametrize(("beta", "rank"), [(0.5, 100), (0.02, 196)])
def test_the_quantile_is_that_of_beta(beta: float, rank: int) -> None:
    """Errors (i + 1/2)/trials / n: the smallest n has at most a share beta above alpha.

    Of two members the one with the larger error counts.
    """
    pair = {"kind": "two_point_family", "k": 2, "c": [1, 2], "scaling": "local"}
    made = Made(
        families={"pair": pair}, n=[round(n) for n in np.geomspace(10, 10000, 7)], trials=200
    )
    errors = (np.arange(200) + 0.5) / 200
    table, _ = _smallest(made, lambda at: errors / at.n / int(at.distribution[-1]), [1e-3], beta)
    assert table["samples"].tolist() == pytest.approx([(rank - 0.5) / 200 / 1e-3], rel=1e-9)


def test_other_curves_change_no_number() -> None:
    def error(at: Any) -> Floats:
        rng = np.random.default_rng([at.n, at.upper == 2])
        return rng.exponential(size=50) * 9 / math.sqrt(at.n)

    made = [Made(n=[10, 100, 1000], estimators={"e": {**CLIP, "upper": values}})
            for values in ([1], [2, 1])]  # fmt: skip
    (alone, draws), (beside, more) = (_smallest(one, error, [1.0]) for one in made)
    rows = beside["estimator"] == "e_upper1"
    pd.testing.assert_frame_equal(beside[rows].reset_index(drop=True), alone)
    np.testing.assert_array_equal(more[rows], draws)


# An estimator for each run.
RUNS = 60
MANY = {"run": {**CLIP, "upper": list(range(1, RUNS + 1))}}


def _over_truth(table: pd.DataFrame, truth: dict[str, float]) -> Floats:
    """Estimates and intervals, as logarithms of what they are over the truth."""
    found = table[["samples", "low", "high"]].div(table["estimator"].map(truth), axis=0)
    assert len(found) == RUNS
    return np.asarray(np.log(found.to_numpy()).T)


def _covered(value: Floats, low: Floats, high: Floats, width: float = 1.0) -> int:
    """How many intervals, times `width`, hold the truth."""
    return int(((value + width * (low - value) <= 0) & (value + width * (high - value) >= 0)).sum())


def test_intervals_on_a_smooth_curve_cover() -> None:
    """An exponential error of scale n^(-1/2), whose 0.9 quantile is 1 at the truth."""
    rng = np.random.default_rng(13)
    made = Made(estimators=MANY, n=[100, 300, 1000, 3000, 10_000], trials=300)
    truth = {label: rng.uniform(500, 2000) for label in made.sweep.estimators}

    def error(at: Any) -> Floats:
        scale = math.sqrt(truth[at.estimator] / at.n) / math.log(10)
        return rng.exponential(scale, size=300)

    value, low, high = _over_truth(_smallest(made, error, [1.0])[0], truth)
    # At a true coverage of 0.94, fewer than 45 of 60 has probability 4e-7; intervals half as
    # long, which hold the truth with probability 0.67, are told apart by the fixed seed.
    assert _covered(value, low, high) >= 45
    assert _covered(value, low, high, width=0.5) < 45
    # The rank 270 of 300 is the quantile at 270/301 on average: 1 per cent low, twice that in
    # n. A z-test with false-alarm probability 1e-6 of a bias beyond another 2 per cent.
    assert abs(value.mean()) <= 0.04 + stats.norm.isf(1e-6) * value.std() / math.sqrt(RUNS)


@pytest.mark.parametrize(("power", "step"), [(12.0, 1.1), (2000.0, 1.5)])
def test_intervals_at_a_threshold_cover(power: float, step: float) -> None:
    """P(failure) is 1/(1 + 9 (n/n*)^power): over several points of the grid, or between two."""
    rng = np.random.default_rng(17)
    sizes = sorted({round(1000 * step**i) for i in range(-4, 5)})
    made = Made(estimators=MANY, n=sizes, trials=150)
    truth = {label: rng.uniform(1000 / step, 1000 * step) for label in made.sweep.estimators}

    def error(at: Any) -> Floats:
        fails = special.expit(-math.log(9) - power * math.log(at.n / truth[at.estimator]))
        return np.where(rng.random(150) < fails, 1e9, 0.01)

    value, low, high = _over_truth(_smallest(made, error, [1.0])[0], truth)
    # At a true coverage of 0.94, fewer than 45 of 60 has probability 4e-7.
    assert _covered(value, low, high) >= 45
    # No wider than the steps of the grid on both sides, or than what the trials leave open: at
    # beta the share of failures falls by beta (1 - beta) power per unit of ln n, and is known
    # to within +-2 sqrt(beta (1 - beta)/trials).
    unknown = 4 / math.sqrt(BETA * (1 - BETA) * 150) / power
    assert np.median(high - low) <= 2 * math.log(step) + unknown


# Requests.


def _request(**options: Any) -> SampleComplexity:
    return from_mapping(SampleComplexity, {"low": 0.01, "high": 0.1, **options}, "r")


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"low": 0.2}, r"r: low is 0\.2, above high 0\.1"),
        ({"search": 0.05, "trials": 35},
         r"r: trials is 35; a search at beta = 0\.1 needs 36 to end"),
        ({"alpha": 3}, r"r\.alpha: no such key; choose from families, .*"),
        ({"beta": 1.0}, r"r\.beta: 1\.0: .*"),
    ],
)  # fmt: skip
def test_requests_that_cannot_be_met_are_refused(options: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        _request(**options)
    made = Made(n=[100])
    with pytest.raises(ConfigError, match=r"^r: clip runs at one n on coin; two are needed$"):
        _request(trials=1).check(made.sweep, made.keys, "r")
    assert _request(points=3).alphas == pytest.approx([0.01, math.sqrt(1e-3), 0.1])
    assert _request(points=2, search=0.05, trials=36).alphas == pytest.approx([0.01, 0.05, 0.1])
    assert _request(points=2, search=0.01).alphas == pytest.approx([0.01, 0.1])


def test_a_request_is_met_by_curve_and_by_search() -> None:
    """P(error > alpha) falls as 1/n: the search starts from half of what the curves say."""
    naive = {"naive": {"kind": "naive_gaussian_mean", "sigma": 1, "radius": [10, 1000]},
             "mean": {"kind": "empirical_mean"}}  # fmt: skip
    made = Made(n=[100, 400, 1600, 6400], estimators=naive, trials=1000)
    truth = {"naive_radius10": 777.0, "naive_radius1000": 1444.0, "mean": 3000.0}

    spread = 0.05 / 0.9 * (np.arange(1000) + 0.5) / 1000

    def error(at: Any) -> Floats:
        """Uniform in the trials; its 0.9 quantile is 0.05 at the truth."""
        return spread * float(truth[at.estimator] / at.n)

    asked = _request(low=0.05, high=0.1, points=2, search=0.05, estimators=["naive"])
    rounds: list[list[Cell]] = []

    def run(cells: list[Cell]) -> Results:
        rounds.append(cells)
        return Made.of(made.sweep, cells).results(error, "error")

    table = measure("r", asked, made.sweep, made.cells, made.results(error, "error"), run, print)
    assert set(table["request"]) == {"r"}
    assert len(table) == 2 * 2 + 2
    for row in table.to_dict("records"):
        wanted = truth[row["estimator"]] * 0.05 / row["alpha"]
        assert row["radius"] == float(row["estimator"].removeprefix("naive_radius"))
        near = 1e-3 if row["method"] == "curve" else 0.1
        assert row["samples"] == pytest.approx(wanted, rel=near)
        assert row["low"] <= row["samples"] <= row["high"]
    searched = table[table["method"] == "search"]
    assert searched["alpha"].tolist() == [0.05, 0.05]
    curves = table[(table["method"] == "curve") & (table["alpha"] == 0.05)]
    assert [cell.n for cell in rounds[0]] == [round(n / 2) for n in curves["samples"]]


PAIR = {"kind": "two_point_family", "k": 2, "c": [0, 1], "scaling": "local"}


@pytest.mark.parametrize(
    ("family", "d", "variance", "beta"),
    [
        ({"kind": "gaussian", "scale": 2.0}, 1, 4.0, 0.01),
        (PAIR, 1, 1.0, 0.1),  # the largest of a family: with c = 0 there is none
        ({"kind": "multivariate_student_t", "d": 5, "tail_index": 4}, 5, 10.0, 0.1),
    ],
)
def test_the_terms_of_a_theorem(
    family: dict[str, Any], d: int, variance: float, beta: float
) -> None:
    """From n on the 1 - beta quantile of |N(0, variance/(d n) I)| is at most alpha."""
    mean = {} if family is PAIR else {"mean": {"kind": "empirical_mean"}}
    made = Made(families={"f": family}, n=[100, 1000], estimators={**mean, "clip": CLIP})
    results = made.results(lambda at: 1 / at.n, "error")
    asked = _request(low=0.002, high=0.006, points=2, beta=beta)
    table = measure("r", asked, made.sweep, made.cells, results, lambda _: results, print)
    for row in table.to_dict("records"):
        sd = math.sqrt(variance / d / row["sampling_term"])
        assert stats.chi.sf(row["alpha"] / sd, d) == pytest.approx(beta, rel=1e-9)
        # By Laplace noise of scale 1/(n epsilon); stated for numbers, and with privacy.
        stated = d == 1 and row["estimator"] == "clip"
        private = math.log(1 / beta) / row["alpha"] if stated else np.nan
        assert row["privacy_term"] == pytest.approx(private, nan_ok=True)
        assert np.isnan(row["range_term"])
        assert math.isnan(row["radius"])
