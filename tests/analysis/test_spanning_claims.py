"""Claims about the dimension, the norm and ratios, about means and about medians."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.claims import Claim, curve_columns, evaluate
from dpbench.analysis.summary import level, mean_replicates
from dpbench.theory.theorems import THEOREMS

Errors = list[np.ndarray]
DEPTHS = [4, 16, 64, 256]


def _rows(
    error: Callable[..., Any], trials: int = 50, spread: float = 0.0, **grid: Sequence[Any]
) -> tuple[pd.DataFrame, Errors]:
    """Rows over a grid of `n` and any of `d`, `norm`, `law`, `estimator`, `epsilon`, `member`.

    `error` gets the point of the grid and returns an error or one for each trial; `spread` is
    the standard error of the mean over the mean.
    """
    points: list[dict[str, Any]] = [{}]
    for name, values in grid.items():
        points = [{**point, name: value} for point in points for value in values]
    rows, errors = [], []
    for point in points:
        found = np.broadcast_to(np.asarray(error(**point), dtype=float), (trials,)).copy()
        ordered = np.sort(found)
        law = point.get("law", "g")
        family = f"{law}_d{point.get('d', 1)}_norm{point.get('norm', 1):g}"
        rows.append(
            {
                "distribution": f"{family}/{point.get('member', 0)}",
                "family": family,
                "k": 2.0,
                "estimator": "e",
                "privacy": "pure",
                "epsilon": 1.0,
                "delta": np.nan,
                "rho": np.nan,
                "d": 1,
                "norm": np.nan,
                "radius": np.nan,
                "lower_bound": np.nan,
                "law": law,
                **{name: value for name, value in point.items() if name != "member"},
                "series": point.get("estimator", "e"),
                "trials": trials,
                "mean_error": found.mean(),
                "mean_error_se": spread * found[0],
                "core_q50": ordered[math.ceil(0.5 * trials) - 1],
                **dict.fromkeys(
                    ("q90", "private_q90", "sampling_q90"), ordered[math.ceil(0.9 * trials) - 1]
                ),
            }
        )
        errors.append(found)
    return pd.DataFrame(rows), errors


def _judge(
    theorem: str, table: tuple[pd.DataFrame, Errors], shared: bool = True, **options: Any
) -> pd.DataFrame:
    about: dict[str, Any] = {"families": ["*"], "tolerance": 0.05, "reason": "test", **options}
    claim = Claim(theorem=theorem, **about)
    return evaluate("c", claim, table[0], table[1] if claim.replicated else None, shared=shared)


# The dimension and the norm.


@pytest.mark.parametrize("sizes", [[1000], [1000, 3000]])
@pytest.mark.parametrize("theorem", ["pure_dimension", "gaussian_dimension"])
def test_a_claim_about_the_dimension_at_fixed_n(theorem: str, sizes: list[int]) -> None:
    """error ~ d^s exactly, in two laws that have different constants."""
    predicted = THEOREMS[theorem].predicted(2.0)
    for power, expected in ((predicted, "consistent"), (predicted + 0.2, "inconsistent")):
        table = _rows(
            lambda n, d, law, power=power: (3 if law == "a" else 0.1) * d**power / n,
            n=sizes, d=DEPTHS, law=["a", "b"],
        )  # fmt: skip
        found = _judge(theorem, table)
        assert found["distribution"].tolist() == ["a", "b"]
        assert found["verdict"].tolist() == [expected] * 2
        assert found["measured"].tolist() == pytest.approx([power] * 2, abs=1e-9)
        assert found["variable"].tolist() == ["d"] * 2
        assert found["metric"].tolist() == ["mean_error"] * 2
        assert found["n_low"].tolist() == [sizes[0]] * 2


@pytest.mark.parametrize("theorem", ["ball_dimension", "sampling_dimension"])
def test_a_claim_about_the_dimension_at_fixed_alpha(theorem: str) -> None:
    """n ~ d^s is an error (d^s/n)^b, whatever b is."""
    for power, expected in ((1.0, "consistent"), (1.2, "inconsistent")):
        for falls in (0.5, 1.0):
            table = _rows(
                lambda n, d, power=power, falls=falls: (d**power / n) ** falls,
                n=[4000, 8000, 16000], d=DEPTHS,
            )  # fmt: skip
            for shared in (True, False):
                found = _judge(theorem, table, shared=shared)
                assert found["verdict"].tolist() == [expected]
                assert found["measured"].tolist() == pytest.approx([power], abs=1e-9)


@pytest.mark.parametrize(("power", "expected"), [(0.0, "consistent"), (0.02, "inconsistent")])
def test_a_claim_about_the_norm(power: float, expected: str) -> None:
    table = _rows(lambda n, norm: 0.3 * norm**power, n=[1000], norm=[1.0, 1e3, 1e6, 1e9, 1e12])
    found = _judge("core_norm", table, tolerance=0.01)
    assert found["verdict"].tolist() == [expected]
    assert found["measured"].tolist() == pytest.approx([power], abs=1e-9)


def test_a_curve_spans_families_of_one_law_estimator_and_budget() -> None:
    """Each has a slope of its own, which no other curve may change."""
    slopes = {("a", "x", 0.5): 0.2, ("a", "x", 1.0): 0.4, ("a", "y", 0.5): 0.6,
              ("a", "y", 1.0): 0.8, ("b", "x", 0.5): 1.0, ("b", "x", 1.0): 1.2,
              ("b", "y", 0.5): 1.4, ("b", "y", 1.0): 1.6}  # fmt: skip
    table = _rows(
        lambda n, d, law, estimator, epsilon: d ** slopes[law, estimator, epsilon],
        n=[100], d=DEPTHS, law=["a", "b"], estimator=["x", "y"], epsilon=[0.5, 1.0],
    )  # fmt: skip
    found = _judge("pure_dimension", table)
    at = zip(found["distribution"], found["estimator"], found["epsilon"], strict=True)
    measured = dict(zip(at, found["measured"], strict=True))
    assert measured == pytest.approx(slopes, abs=1e-9)


def test_the_dimension_is_read_from_its_column() -> None:
    """Two dimensions with the same error at every n, and a third: no grid of other numbers."""
    table = _rows(lambda n, d: {2: 1.0, 5: 1.0, 50: 10.0}[d] / n, n=[100], d=[2, 5, 50])
    found = _judge("pure_dimension", table)
    slope = np.polyfit(np.log([2, 5, 50]), [0, 0, np.log(10)], 1)[0]
    assert found["measured"].tolist() == pytest.approx([slope], abs=1e-9)


def test_the_worst_member_counts_at_every_dimension() -> None:
    table = _rows(
        lambda n, d, member: d if (d > 20) == (member == 1) else 0.1,
        n=[100], d=DEPTHS, member=[0, 1],
    )  # fmt: skip
    assert _judge("pure_dimension", table)["measured"].tolist() == pytest.approx([1.0], abs=1e-9)


def test_a_curve_about_the_dimension_has_one_radius() -> None:
    """Radius 10 at the larger dimensions only: the slope in d is 1, of either radius."""
    summary, errors = _rows(
        lambda n, d, estimator: d * (10 if estimator.endswith("10") else 1) / n,
        n=[100], d=DEPTHS, estimator=["e_radius1", "e_radius10"],
    )  # fmt: skip
    summary["series"] = "e"
    summary["radius"] = np.where(summary["estimator"] == "e_radius10", 10.0, 1.0)
    some = np.flatnonzero((summary["radius"] == 1) | (summary["d"] > 20))
    table = summary.iloc[some].reset_index(drop=True), [errors[i] for i in some]
    found = _judge("pure_dimension", table)
    assert found["measured"].tolist() == pytest.approx([1.0] * len(found), abs=1e-9)


def test_a_curve_about_the_dimension_has_one_norm() -> None:
    """Norm 10 at the larger dimensions only: the slope in d is 1, at either norm."""
    summary, errors = _rows(lambda n, d, norm: d * norm / n, n=[100], d=DEPTHS, norm=[1.0, 10.0])
    some = np.flatnonzero((summary["norm"] == 1) | (summary["d"] > 20))
    table = summary.iloc[some].reset_index(drop=True), [errors[i] for i in some]
    found = _judge("pure_dimension", table)
    assert found["measured"].tolist() == pytest.approx([1.0] * len(found), abs=1e-9)


def test_the_columns_that_curves_are_told_apart_by() -> None:
    """What a curve spans is none of them, and the rest of what a cell is, is."""
    for theorem in THEOREMS.values():
        columns = set(curve_columns(theorem))
        assert {"privacy", "epsilon", "delta", "rho"} - columns <= {theorem.variable}
        if theorem.variable in {"d", "norm"}:
            assert {"law", "estimator", *({"d", "norm"} - {theorem.variable})} <= columns
            assert not columns & {"family", theorem.variable, "n"}


# Ratios.


def test_a_ratio_is_of_the_estimator_over_the_denominator() -> None:
    """Of power laws: a geometric mean over n, for each estimator, family and budget."""
    sizes = [100, 1000, 10_000]
    scale = {"top": 6.0, "other": 1.5, "below": 2.0}

    def error(n: int, law: str, estimator: str, epsilon: float) -> float:
        slope = -0.9 if estimator == "top" and law == "a" else -1.0
        return float(scale[estimator] * n**slope / epsilon)

    table = _rows(
        error, n=sizes, law=["a", "b"], estimator=["top", "other", "below"], epsilon=[0.5, 1.0]
    )
    found = _judge("noise_ratio", table, over="below", limit=3.0)
    assert len(found) == 8
    assert "below" not in set(found["estimator"])
    for row in found.to_dict("records"):
        wanted = scale[row["estimator"]] / 2.0
        if row["estimator"] == "top" and row["distribution"].startswith("a"):
            wanted *= 1000**0.1  # the middle of three sizes
        assert row["measured"] == pytest.approx(wanted, rel=1e-9)
        assert row["verdict"] == ("consistent" if abs(wanted - 3) < 0.05 else "inconsistent")
        assert (row["n_low"], row["n_high"]) == (100, 10_000)
        assert row["predicted"] == 3.0
    # The other way round.
    found = _judge("noise_ratio", table, over="top", limit=1 / 3)
    below = found[found["estimator"] == "below"]
    flat = below["distribution"].str.startswith("b")
    assert below.loc[flat, "measured"].tolist() == pytest.approx([1 / 3] * 2)
    assert below.loc[flat, "verdict"].tolist() == ["consistent"] * 2


def test_a_ratio_is_taken_where_both_are() -> None:
    """The denominator is missing at one n, and the estimator at another."""
    summary, _ = _rows(
        lambda n, estimator: (2.0 if estimator == "top" else 1.0) * n,
        n=[10, 20, 30, 40], estimator=["top", "below"],
    )  # fmt: skip
    top = summary["estimator"] == "top"
    left = summary[(top & (summary["n"] != 10)) | (~top & (summary["n"] != 40))]
    table: tuple[pd.DataFrame, Errors] = left.reset_index(drop=True), []
    row = _judge("noise_ratio", table, over="below", limit=2.0).iloc[0]
    assert row["measured"] == pytest.approx(2.0, rel=1e-12)
    assert (row["n_low"], row["n_high"]) == (20, 30)


@pytest.mark.parametrize("sizes", [[100], [100, 200, 300, 400]])
def test_the_interval_of_a_ratio_has_the_errors_of_both(sizes: list[int]) -> None:
    """ln of a ratio has variance 2 s^2 at each n, s the relative standard error of a mean."""
    table = _rows(
        lambda n, estimator: 2.0 if estimator == "top" else 1.0,
        spread=0.01, n=sizes, estimator=["top", "below"],
    )  # fmt: skip
    row = _judge("noise_ratio", table, over="below", limit=2.0).iloc[0]
    half = 1.96 * 0.01 * math.sqrt(2 / len(sizes))
    # A quantile of 1000 replicates has a standard error of 0.055 half: 6 of these, each with
    # probability 1e-9; the streams are fixed.
    assert math.log(row["high"] / 2) == pytest.approx(half, rel=0.33)
    assert math.log(2 / row["low"]) == pytest.approx(half, rel=0.33)


@pytest.mark.parametrize(
    "odd",
    [
        np.nan,
        np.inf,
        0.0,
    ],
)
def test_a_ratio_over_nothing_known_is_inconclusive(odd: float) -> None:
    table = _rows(lambda n, estimator: 1.0, n=[10, 20], estimator=["top", "below"])
    table[0].loc[3, "mean_error"] = odd
    row = _judge("noise_ratio", table, over="below", limit=1.0).iloc[0]
    assert row["verdict"] == "inconclusive"


# Means and medians.


def test_replicates_of_means_have_the_summarys_error() -> None:
    summary, _ = _rows(lambda n, d: float(n + d), spread=0.03, n=[10, 20], d=[2, 5])
    draws = 40_000
    found = mean_replicates(summary, draws=draws)
    assert found.shape == (4, draws)
    mean, error = summary["mean_error"].to_numpy(), summary["mean_error_se"].to_numpy()
    z = (found - mean[:, None]) / error[:, None]
    # Four tests each of mean, variance and law, six of independence: all with 1e-7.
    limit = stats.norm.isf(1e-7 / 2)
    assert np.all(np.abs(z.mean(axis=1)) < limit / math.sqrt(draws))
    squares = (z**2).sum(axis=1)
    assert np.all(stats.chi2.ppf(5e-8, draws) < squares)
    assert np.all(squares < stats.chi2.isf(5e-8, draws))
    assert all(stats.kstest(row, "norm").pvalue > 1e-7 for row in z)
    correlation = np.corrcoef(z)[np.triu_indices(4, 1)]
    assert np.all(np.abs(correlation) < limit / math.sqrt(draws))


def test_replicates_of_a_mean_do_not_depend_on_other_cells() -> None:
    summary, _ = _rows(lambda n, d: float(n + d), spread=0.03, n=[10, 20], d=[2, 5])
    whole = mean_replicates(summary, draws=50)
    for i in range(4):
        alone = mean_replicates(summary.iloc[[i]], draws=50)
        np.testing.assert_array_equal(alone[0], whole[i])
    np.testing.assert_array_equal(mean_replicates(summary[::-1], draws=50), whole[::-1])


def test_one_trial_says_nothing_of_a_mean() -> None:
    table = _rows(lambda n, d: d / n, spread=np.nan, n=[100], d=DEPTHS)
    row = _judge("pure_dimension", table).iloc[0]
    assert row["verdict"] == "inconclusive"


def test_two_trials_say_hardly_more() -> None:
    """Means of two errors that differ by a twentieth, d times as large: the slope is 1.

    At a coverage of 95%, of 200 at most 169 with probability 7e-8; the seed is fixed.
    """
    rng = np.random.default_rng(7)
    hits = 0
    for run in range(200):
        summary, _ = _rows(lambda n, d: 1.0, n=[100], d=[2, 200])
        errors = summary["d"].to_numpy()[:, None] * rng.normal(1, 0.05, size=(2, 2))
        summary["estimator"] = f"e{run}"
        summary["trials"] = 2
        summary["mean_error"] = errors.mean(axis=1)
        summary["mean_error_se"] = stats.sem(errors, axis=1)
        row = _judge("pure_dimension", (summary, [])).iloc[0]
        hits += row["verdict"] == "inconclusive" or row["low"] <= 1 <= row["high"]
    assert hits > 169, hits


@pytest.mark.parametrize(
    ("metric", "q"),
    [("core_q50", 0.5), ("q90", 0.9), ("private_q90", 0.9), ("tv_q50", 0.5), ("x_q05", 0.05)],
)
def test_the_level_of_a_column(metric: str, q: float) -> None:
    assert level(metric) == q


def test_a_claim_about_the_core_is_about_its_median() -> None:
    """Shares whose median is 0.5 and whose 0.9 quantile is 0.9; half of the trials measure."""
    trials = 1000
    values = np.random.default_rng(8).permutation((np.arange(trials) + 0.5) / trials)
    table = _rows(lambda n: values, trials, n=[100])
    row = _judge("core_weight", table, limit=0.5, tolerance=0.1).iloc[0]
    kept = np.sort(np.array_split(values, 2)[1])
    assert row["measured"] == kept[math.ceil(0.5 * len(kept)) - 1]
    assert row["metric"] == "core_q50"
    assert row["verdict"] == "consistent"
    # The interval of a median of 500: order statistics at 250 +- 1.96 sqrt(500)/2. Ranks of
    # the 1000 replicates' quantiles have a standard error of 0.6 ranks: 5 are 8 of these.
    for end, rank in (("low", 250 - 21.9), ("high", 250 + 21.9)):
        assert abs(np.searchsorted(kept, row[end]) + 1 - rank) < 5
    assert _judge("core_weight", table, limit=0.9, tolerance=0.1)["verdict"].tolist() == [
        "inconsistent"
    ]


def test_the_largest_core_is_what_a_claim_is_about() -> None:
    table = _rows(
        lambda n, norm: 0.7 if (n, norm) == (200, 10.0) else 0.4,
        400, n=[100, 200], norm=[1.0, 10.0],
    )  # fmt: skip
    row = _judge("core_weight", table, limit=0.7, tolerance=0.05).iloc[0]
    assert row["measured"] == 0.7
    assert row["verdict"] == "consistent"
    assert not row["at_most"]
    # It is a value: less is as wrong as more.
    found = _judge("core_weight", table, limit=0.9, tolerance=0.05)
    assert found["verdict"].tolist() == ["inconsistent"]


def test_medians_need_as_many_trials_as_before() -> None:
    for trials, expected in ((71, "inconclusive"), (72, "consistent")):  # halves of 35 and 36
        table = _rows(lambda n: 0.5, trials, n=[100])
        found = _judge("core_weight", table, limit=0.5)
        assert found["verdict"].tolist() == [expected], trials
