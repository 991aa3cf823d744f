from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.claims import COLUMNS, Claim, axis, evaluate, verdict
from dpbench.analysis.exponents import Measured
from dpbench.analysis.worst_case import under, worst_case
from dpbench.privacy import ApproxDP, NonPrivate, PureDP
from dpbench.theory.theorems import THEOREMS


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.97, 2.03, "consistent"),
        (2.03, 2.09, "consistent"),  # meets the region and is narrow
        (2.06, 2.09, "inconsistent"),
        (1.80, 1.94, "inconsistent"),
        (1.90, 2.10, "inconclusive"),  # too wide to tell
        (1.0, 3.0, "inconclusive"),
        (np.nan, np.nan, "inconclusive"),
    ],
)
def test_verdict(low: float, high: float, expected: str) -> None:
    assert verdict(Measured((low + high) / 2, low, high), 2.0, 0.05) == expected


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (1.0, 1.8, "consistent"),  # wide, but all of it is allowed
        (2.06, 2.10, "inconsistent"),
        (1.9, 2.2, "inconclusive"),
        (-5.1, -4.9, "inconsistent"),  # an error that grows
    ],
)
def test_verdict_on_an_upper_limit(low: float, high: float, expected: str) -> None:
    assert verdict(Measured((low + high) / 2, low, high), 2.0, 0.05, floor=0.0) == expected


def _summary(errors: dict[tuple[str, float, float], float], bound: float = 1.0) -> pd.DataFrame:
    """A summary of one family, from q90 by (member, n, epsilon)."""
    rows = [
        {
            "distribution": f"f/{member}",
            "family": "f",
            "k": 2.0,
            "estimator": "e",
            "privacy": "pure",
            "epsilon": epsilon,
            "delta": np.nan,
            "rho": np.nan,
            "n": n,
            "d": 1,
            "q90": q90,
            "lower_bound": bound * (n * epsilon) ** -0.5,
        }
        for (member, n, epsilon), q90 in errors.items()
    ]
    return pd.DataFrame(rows)


def _trials(summary: pd.DataFrame, trials: int = 500) -> list[np.ndarray]:
    """Errors whose 0.9 quantile is each row's q90, nearly without spread."""
    rng = np.random.default_rng(0)
    return [q * (1 + 1e-3 * rng.standard_normal(trials)) for q in summary["q90"]]


def test_no_verdict_without_a_prediction() -> None:
    assert verdict(Measured(5, 4.99, 5.01), np.nan, 0.05) == "inconclusive"


def test_worst_case_is_taken_anew_in_every_replicate() -> None:
    summary = _summary({("a", 10, 1.0): 1.0, ("b", 10, 1.0): 2.0, ("a", 100, 1.0): 3.0})
    replicates = np.array([[1.0, 5.0], [2.0, 0.0], [3.0, 3.0]])
    curves, draws = worst_case(summary, "q90", replicates)
    assert curves["value"].tolist() == [2.0, 3.0]
    assert draws.tolist() == [[2.0, 5.0], [3.0, 3.0]]


def _claim(theorem: str) -> Claim:
    return Claim(theorem=theorem, families=["f"], tolerance=0.05, reason="test")


@pytest.mark.parametrize(("slope", "expected"), [(0.5, "consistent"), (0.45, "inconsistent")])
def test_alpha_claim(slope: float, expected: str) -> None:
    # The worst member changes with n; each alone would give another slope.
    grid = [10.0**i for i in range(5, 13)]
    members = {("a", n, 0.1): n**-slope * (0.2 if i % 2 else 1) for i, n in enumerate(grid)}
    members |= {("b", n, 0.1): n**-slope * (1 if i % 2 else 0.2) for i, n in enumerate(grid)}
    summary = _summary(members)
    table = evaluate("c", _claim("heavy_tail_alpha"), summary, _trials(summary), shared=False)
    assert table["verdict"].tolist() == [expected]
    assert table["measured"].iloc[0] == pytest.approx(1 / slope, rel=1e-2)
    assert set(COLUMNS) <= set(table.columns)


@pytest.mark.parametrize(("power", "expected"), [(0.5, "consistent"), (1.0, "inconsistent")])
def test_epsilon_claim(power: float, expected: str) -> None:
    summary = _summary(
        {("a", n, e): n**-0.5 * e**-power for n in (1e8, 1e10, 1e12) for e in (1e-3, 1e-2, 1e-1)}
    )
    table = evaluate("c", _claim("heavy_tail_epsilon"), summary, _trials(summary), shared=False)
    assert table["verdict"].tolist() == [expected]
    assert table["measured"].iloc[0] == pytest.approx(2 * power, rel=1e-2)


def test_lower_bound_claim_needs_no_trials() -> None:
    summary = _summary({("a", n, 0.1): 1.0 for n in (1e5, 1e8, 1e12)})
    table = evaluate("c", _claim("heavy_tail_lower_bound"), summary, None, shared=False)
    assert table["estimator"].tolist() == ["(lower bound)"]
    assert table[["measured", "low", "high"]].iloc[0].tolist() == pytest.approx([2.0] * 3)


@pytest.mark.parametrize(
    ("factor", "expected"),
    [(1.1, "consistent"), (1.4, "inconsistent"), (0.8, "inconsistent")],
)
def test_factor_claim(factor: float, expected: str) -> None:
    # Below 1 an estimator beats what no private one can: its noise is too small.
    sizes = (1e5, 1e8, 1e12)
    summary = _summary({("a", n, 0.1): factor * (n * 0.1) ** -0.5 for n in sizes})
    table = evaluate("c", _claim("near_optimal"), summary, _trials(summary), shared=False)
    assert table["measured"].iloc[0] == pytest.approx(factor, rel=1e-2)
    assert table["verdict"].tolist() == [expected]


def _factor_covered(run: int, members: int) -> bool:
    """Whether the interval of a factor holds 1.2, the same for all of a family's members."""
    rng = np.random.default_rng([11, run])
    sizes = np.logspace(5, 12, 8)
    summary = _summary(
        {(f"m{i}", n, 0.1): 1.0 for n in sizes for i in range(members)}, bound=1 / 1.2
    )
    summary["estimator"] = f"e{run}"
    # The 0.9 quantile of an exponential is ln 10.
    scale = 1.2 * summary["lower_bound"] / np.log(10)
    errors = [s * rng.exponential(size=600) for s in scale]
    summary["q90"] = [np.quantile(e, 0.9, method="inverted_cdf") for e in errors]
    row = evaluate("c", _claim("near_optimal"), summary, errors, shared=False).iloc[0]
    return bool(row["low"] <= 1.2 <= row["high"])


@pytest.mark.parametrize("members", [1, 4])
def test_intervals_of_factors_cover_when_members_tie(members: int) -> None:
    # At a true coverage of 95%, below 84 of 100 has probability 5e-5; the seeds are fixed. A
    # bootstrap of the maximum over four tied members covers none of them.
    hits = sum(_factor_covered(run, members) for run in range(100))
    assert hits >= 84, hits


def test_failed_cells_leave_a_claim_inconclusive() -> None:
    summary = _summary({("a", n, 0.1): n**-0.5 for n in (1e5, 1e8, 1e12)})
    summary.loc[1, "q90"] = np.inf
    table = evaluate("c", _claim("heavy_tail_alpha"), summary, _trials(summary), shared=False)
    assert table["verdict"].tolist() == ["inconclusive"]


def test_rows_under_a_budget() -> None:
    summary = pd.DataFrame(
        {
            "privacy": ["pure", "pure", "approx", "approx_classical", "none"],
            "epsilon": [1.0, 0.1, 1.0, 1.0, np.nan],
            "delta": [np.nan, np.nan, 1e-6, 1e-6, np.nan],
            "rho": np.nan,
        }
    )
    assert under(summary, PureDP(1.0)).tolist() == [True, False, False, False, False]
    assert under(summary, ApproxDP(1.0, 1e-6)).tolist() == [False, False, True, False, False]
    assert under(summary, ApproxDP(1.0, 1e-6, "classical")).tolist().index(True) == 3
    assert under(summary, NonPrivate()).tolist()[-1] is True


def test_unknown_theorem_is_named() -> None:
    with pytest.raises(ValueError, match="no such theorem 'x'; choose from heavy_tail_alpha"):
        _claim("x")


# Claims about the radius, delta, rho, n and limits.

SIZES = [round(n) for n in np.geomspace(100, 1e6, 33)]


def _rows(
    error: Callable[..., Any],
    sizes: Sequence[int] = SIZES,
    trials: int = 50,
    **grid: Sequence[Any],
) -> tuple[pd.DataFrame, list[np.ndarray]]:
    """Rows over a grid of `radius`, `epsilon`, `rho`, `delta`, `series` or `family`, and errors.

    `error` gets these and n, and returns an error or one for each trial.
    """
    points: list[dict[str, Any]] = [{}]
    for name, values in grid.items():
        points = [{**point, name: value} for point in points for value in values]
    rows, errors = [], []
    for point in points:
        privacy = next((p for a, p in NOTIONS.items() if a in point), "pure")
        series = point.get("series", "e")
        known = {"epsilon": 1.0 if privacy == "pure" else np.nan, "delta": np.nan, "rho": np.nan}
        for n in sizes:
            found = np.broadcast_to(np.asarray(error(n=n, **point), dtype=float), (trials,))
            rows.append(
                {
                    "distribution": point.get("family", "f"),
                    "family": "f",
                    "k": 2.0,
                    "privacy": privacy,
                    **known,
                    "n": n,
                    "d": 1,
                    "lower_bound": np.nan,
                    **point,
                    "series": series,
                    "radius": point.get("radius", np.nan),
                    "estimator": f"{series}_radius{point.get('radius')}",
                }
            )
            errors.append(found.copy())
    summary = pd.DataFrame(rows)
    ordered = [np.sort(np.where(np.isfinite(e), e, np.inf)) for e in errors]
    q90 = [e[math.ceil(0.9 * len(e)) - 1] for e in ordered]
    for metric in ("q90", "private_q90", "promise_q90", "outside_q90", "tv_q90"):
        summary[metric] = q90
    summary["miss_rate"] = [np.minimum(e, 1.0).mean() for e in ordered]
    return summary, errors


NOTIONS = {"delta": "approx", "rho": "zcdp", "epsilon": "pure"}


def _judge(
    theorem: str, table: tuple[pd.DataFrame, list[np.ndarray]], shared: bool = True, **options: Any
) -> pd.DataFrame:
    about: dict[str, Any] = {"families": ["f"], "tolerance": 0.05, "reason": "test", **options}
    return evaluate("c", Claim(theorem=theorem, **about), *table, shared=shared)


RADII = [1e3, 1e10, 1e30, 1e100, 1e300]


@pytest.mark.parametrize(
    ("theorem", "name", "values", "x"),
    [
        ("naive_radius", "radius", [10.0, 100.0, 1000.0], lambda r: r),
        ("coarse_log_radius", "radius", RADII, math.log),
        ("coarse_log_radius_zcdp", "radius", RADII, math.log),
        ("shrinking_log_radius", "radius", RADII, math.log),
        ("range_log_radius", "radius", RADII, math.log),
        ("range_log_radius_zcdp", "radius", RADII, math.log),
        ("coarse_delta", "delta", [1e-6, 1e-25, 1e-200], lambda d: math.log(1 / d)),
        ("range_delta", "delta", [1e-6, 1e-25, 1e-200], lambda d: math.log(1 / d)),
        ("coarse_epsilon", "epsilon", [0.01, 0.1, 1.0], lambda e: 1 / e),
        ("range_epsilon", "epsilon", [0.01, 0.1, 1.0], lambda e: 1 / e),
    ],
)
@pytest.mark.parametrize("at_threshold", [False, True])
def test_claims_about_the_smallest_n(
    theorem: str, name: str, values: list[float], x: Callable[[float], float], at_threshold: bool
) -> None:
    """n ~ x^s, of a smooth error or of a threshold between two points of the grid."""
    predicted = THEOREMS[theorem].predicted(2.0)
    for power, expected in ((predicted, "consistent"), (predicted + 0.2, "inconsistent")):

        def error(n: int, *, power: float = power, **point: float) -> float:
            start = float(200 * (x(point[name]) / min(map(x, values))) ** power)
            if at_threshold:
                return math.inf if n < start else 1e-6
            return 3.0 * start / n

        grid: dict[str, Any] = {name: values}
        table = _rows(error, [round(n) for n in np.geomspace(100, 1e5, 65)], 40, **grid)
        found = _judge(theorem, table, alpha=3.0)
        assert found["verdict"].tolist() == [expected]
        row = found.iloc[0]
        if at_threshold:
            assert row["low"] <= power <= row["high"]
            assert row["high"] - row["low"] < 0.1
        assert row["measured"] == pytest.approx(power, abs=0.04 if at_threshold else 1e-9)
        assert row["metric"] == "samples"
        assert row["variable"] == THEOREMS[theorem].variable
        # From the smallest to the largest of the n found, not of the grid.
        assert row["n_low"] == pytest.approx(200, rel=0.08 if at_threshold else 1e-9)


def test_the_alpha_of_a_claim_is_where_n_is_read_off() -> None:
    """An error R/n + 1/sqrt(n): for alpha = 10 all is R, for 0.01 hardly any."""
    table = _rows(lambda n, radius: radius / n + n**-0.5, radius=[1.0, 3.0, 9.0])
    for alpha in (0.05, 0.0045):
        found = _judge("naive_radius", table, alpha=alpha).iloc[0]
        n = [
            ((1 + math.sqrt(1 + 4 * alpha * r)) / (2 * alpha)) ** 2 for r in (1.0, 3.0, 9.0)
        ]  # alpha n - sqrt(n) - R = 0
        slope = np.polyfit(np.log([1.0, 3.0, 9.0]), np.log(n), 1)[0]
        assert found["measured"] == pytest.approx(slope, abs=2e-3)
    assert _judge("naive_radius", table, alpha=1e-4)["verdict"].tolist() == ["inconclusive"]


@pytest.mark.parametrize(("power", "expected"), [(0.25, "consistent"), (0.5, "inconsistent")])
def test_rho_claim(power: float, expected: str) -> None:
    """n ~ rho^(-1/2) at k = 2: the error is (n sqrt(rho))^(-1/2)."""
    table = _rows(lambda n, rho: n**-0.5 * rho**-power, rho=[1e-6, 1e-4, 1e-2])
    for shared in (True, False):
        found = _judge("heavy_tail_rho", table, shared=shared)
        assert found["verdict"].tolist() == [expected]
        assert found["measured"].iloc[0] == pytest.approx(2 * power, abs=1e-9)
        assert np.isnan(found["rho"].iloc[0])  # what a curve spans is not its own
        assert found["privacy"].tolist() == ["zcdp"]


@pytest.mark.parametrize(("slope", "expected"), [(0.0, "consistent"), (-0.5, "inconsistent")])
def test_a_claim_about_n_is_about_the_error_itself(slope: float, expected: str) -> None:
    table = _rows(lambda n, epsilon: 0.3 * n**slope, epsilon=[1.0])
    found = _judge("clipping_bias", table)
    assert found["verdict"].tolist() == [expected]
    assert found["measured"].iloc[0] == pytest.approx(slope, abs=1e-9)


@pytest.mark.parametrize(("power", "expected"), [(0.0, "consistent"), (0.01, "inconsistent")])
@pytest.mark.parametrize("sizes", [[1000], [1000, 3000, 10000]])
def test_a_claim_at_fixed_n(power: float, expected: str, sizes: list[int]) -> None:
    """error ~ R^c at the same n, whatever the error does in n."""
    radii = [1e2, 1e4, 1e30, 1e100]
    table = _rows(lambda n, radius: n**-0.7 * radius**power, sizes=sizes, radius=radii)
    found = _judge("no_radius", table, tolerance=1e-3)
    assert found["verdict"].tolist() == [expected]
    assert found["measured"].iloc[0] == pytest.approx(power, abs=1e-9)
    # Not every R at every n: what n does is still none of R's.
    summary, errors = table
    some = np.flatnonzero((summary["radius"] <= summary["n"]) | (summary["radius"] > 1e31))
    part = summary.iloc[some].reset_index(drop=True), [errors[i] for i in some]
    found = _judge("no_radius", part, tolerance=1e-3)
    assert found["measured"].iloc[0] == pytest.approx(power, abs=1e-9)


LIMITS = [
    ("coverage", 0.1, None),
    ("range_containment", 0.1, None),
    ("range_margin", 1.0, None),
    ("heavy_tail_guarantee", 1.0, None),
    ("range_outside", 0.05, 0.05),
    ("range_outside", 0.01, 0.01),
]


@pytest.mark.parametrize(("theorem", "predicted", "limit"), LIMITS)
def test_claims_about_limits(theorem: str, predicted: float, limit: float | None) -> None:
    """The largest of all: estimators, families and n."""
    metric = THEOREMS[theorem].metric

    def error(n: int, series: str, worst: float) -> Any:
        level = worst if (series, n) == ("b", 300) else 0.2 * worst
        if metric == "miss_rate":  # of 0 and 1, that many ones
            return np.diff(np.floor(np.arange(4001) * level + 1e-9))  # evenly spread
        return level

    for worst, expected in (
        (0.8 * predicted, "consistent"),
        (predicted, "consistent"),
        (1.5 * predicted, "inconsistent"),
    ):
        table = _rows(
            lambda n, series, worst=worst: error(n, series, worst),
            sizes=[100, 300, 1000],
            trials=4000,
            series=["a", "b"],
        )
        options: dict[str, Any] = {} if limit is None else {"limit": limit}
        found = _judge(theorem, table, tolerance=0.25 * predicted, **options)
        assert found["verdict"].tolist() == [expected]
        row = found.iloc[0]
        assert row["predicted"] == predicted
        assert row["measured"] == pytest.approx(worst, rel=1e-9)
        assert row["low"] <= row["measured"] <= row["high"]
        assert row["estimator"].startswith("b")
        assert row["n_low"] == row["n_high"]  # of the worst cell
        if metric == "miss_rate":  # the interval of a binomial rate on half of the 4000 trials
            sd = math.sqrt(worst * (1 - worst) / 2000)
            assert row["high"] - row["low"] == pytest.approx(2 * 1.96 * sd, rel=0.15)


@pytest.mark.parametrize(
    ("failures", "mark", "expected"),
    [
        (160, np.inf, "inconclusive"),  # more than a tenth: the 0.9 quantile is infinite
        (8, np.inf, "consistent"),
        (8, np.nan, "inconclusive"),  # a block that raised
        (400, np.nan, "inconclusive"),
    ],
)
def test_limits_that_failures_leave_open(failures: int, mark: float, expected: str) -> None:
    broken = np.random.default_rng(3).permutation(400) < failures
    table = _rows(lambda n, radius: np.where(broken, mark, 0.5), trials=400, radius=[1.0])
    assert _judge("range_margin", table)["verdict"].tolist() == [expected]


def test_a_rate_that_is_not_known_leaves_a_claim_inconclusive() -> None:
    """A block that raised, or an estimator without an interval, has NaN for `missed`."""
    broken = np.random.default_rng(4).permutation(400) < 8
    for values in (np.full(400, np.nan), np.where(broken, np.nan, 0.0)):
        table = _rows(lambda n, radius, values=values: values, [100], 400, radius=[1.0])
        row = _judge("coverage", table).iloc[0]
        assert row["verdict"] == "inconclusive"
        assert np.isnan([row["measured"], row["low"], row["high"]]).all()
    # It is not overlooked beside others that are known to be good.
    table = _rows(
        lambda n, series: np.where(broken, np.nan, 0.0) if series == "b" else np.zeros(400),
        [100, 200],
        400,
        series=["a", "b", "c"],
    )
    assert _judge("coverage", table)["verdict"].tolist() == ["inconclusive"]


def test_a_limit_that_is_just_kept_is_not_found_broken() -> None:
    """Intervals that miss with probability 0.1 exactly, in 20 settings of 400 trials."""
    rng = np.random.default_rng(21)
    broken = 0
    for _ in range(30):
        table = _rows(
            lambda n, series: rng.random(400) < 0.1,
            sizes=SIZES[:5],
            trials=400,
            series=["a", "b", "c", "d"],
        )
        broken += _judge("coverage", table, tolerance=0.01)["verdict"].tolist() == ["inconsistent"]
    # 95% intervals: binomial test with false-alarm probability 1e-6.
    assert stats.binom.sf(broken - 1, 30, 0.05) > 1e-6, broken


def test_curves_are_told_apart() -> None:
    """By series and budget for the radius, by estimator for other variables, by budget alone."""
    table = _rows(
        lambda n, series, epsilon, radius: radius ** (1.0 if series == "a" else 1.5) / epsilon / n,
        sizes=[round(n) for n in np.geomspace(1, 1e8, 33)],
        series=["a", "b"],
        epsilon=[0.1, 1.0],
        radius=[10.0, 100.0, 1000.0],
    )
    found = _judge("naive_radius", table, alpha=1.0)
    assert found["estimator"].tolist() == ["a", "a", "b", "b"]
    assert found["epsilon"].tolist() == [0.1, 1.0] * 2
    assert found["measured"].tolist() == pytest.approx([1.0, 1.0, 1.5, 1.5], abs=1e-4)
    assert found["verdict"].tolist() == ["consistent"] * 2 + ["inconsistent"] * 2

    found = _judge("coarse_epsilon", table, alpha=1.0)
    assert len(found) == 6  # of each estimator, which has one radius
    assert sorted(found["estimator"]) == sorted(set(table[0]["estimator"]))
    assert found["epsilon"].isna().all()
    assert found["measured"].tolist() == pytest.approx([1.0] * 6, abs=1e-4)

    found = _judge("range_margin", table)
    assert found["epsilon"].tolist() == [0.1, 1.0]
    assert found["distribution"].tolist() == ["f", "f"]


def test_a_curve_with_an_unknown_n_has_no_exponent() -> None:
    """One radius whose threshold the grid does not reach: nothing is said, not of the rest."""
    for start in (1e9, 1.0):
        table = _rows(
            lambda n, radius, start=start: (start if radius == 100.0 else radius * 30) / n,
            radius=[10.0, 100.0, 1000.0],
        )
        row = _judge("naive_radius", table, alpha=1.0).iloc[0]
        assert row["verdict"] == "inconclusive"
        assert np.isnan([row["measured"], row["low"], row["high"]]).all()


def test_the_axes_of_claims() -> None:
    points = pd.DataFrame(
        {
            "epsilon": [0.1, 2.0],
            "rho": [0.5, 1e-4],
            "delta": [1e-6, 0.5],
            "radius": [10.0, 1e300],
            "d": [2, 1024],
            "norm": [1.0, 1e12],
        }
    )
    wanted = {
        "epsilon": [10.0, 0.5],
        "rho": [2.0, 1e4],
        "delta": [6 * math.log(10), math.log(2)],
        "radius": [10.0, 1e300],
        "log_radius": [math.log(10), 300 * math.log(10)],
        "d": [2.0, 1024.0],
        "norm": [1.0, 1e12],
    }
    for theorem in THEOREMS.values():
        if theorem.variable in wanted:
            found = axis(theorem, points)
            np.testing.assert_allclose(found, wanted[theorem.variable], rtol=1e-12)


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ({"theorem": "heavy_tail_alpha", "alpha": 1.0}, "alpha belongs to claims about the small"),
        ({"theorem": "no_radius", "alpha": 1.0}, "alpha belongs to claims about the smallest n"),
        ({"theorem": "coverage", "alpha": 1.0}, "alpha belongs to claims about the smallest n"),
        ({"theorem": "naive_radius"}, "alpha belongs to claims about the smallest n"),
        ({"theorem": "coarse_delta", "alpha": [1.0, 2.0]}, "several alpha belong"),
        ({"theorem": "coarse_delta", "alpha": [1.0]}, "alpha"),
        ({"theorem": "coarse_delta", "alpha": 0.0}, "alpha"),
        ({"theorem": "coarse_delta", "alpha": math.nan}, "alpha"),
        ({"theorem": "range_outside", "limit": math.nan}, "limit"),
        ({"theorem": "range_outside", "limit": math.inf}, "limit"),
        ({"theorem": "coverage", "tolerance": 0.0}, "tolerance"),
    ],
)
def test_claims_that_say_too_little_or_too_much_are_refused(
    options: dict[str, Any], reason: str
) -> None:
    about: dict[str, Any] = {"families": ["f"], "tolerance": 0.05, "reason": "test"}
    with pytest.raises(ValueError, match=reason):
        Claim(**{**about, **options})


@pytest.mark.parametrize("theorem", ["heavy_tail_alpha", "coarse_delta", "near_optimal"])
def test_a_limit_cannot_replace_what_a_theorem_says(theorem: str) -> None:
    about: dict[str, Any] = {"families": ["f"], "tolerance": 0.05, "reason": "test"}
    with pytest.raises(ValueError, match="limit"):
        Claim(theorem=theorem, limit=3.0, alpha=1.0 if theorem == "coarse_delta" else None, **about)


# What these say depends on the dimension, the share of outliers, or the range of delta.
OPEN = {"range_outside", "analytic_delta", "noise_ratio", "discard_ratio", "core_weight"}


@pytest.mark.parametrize("name", THEOREMS)
def test_some_theorems_leave_their_number_to_the_claim(name: str) -> None:
    theorem = THEOREMS[name]
    about: dict[str, Any] = {"families": ["f"], "tolerance": 0.05, "reason": "test"}
    about["over"] = "e" if theorem.variable == "ratio" else None
    about["alpha"] = 1.0 if theorem.of == "samples" else None
    if name in OPEN:
        with pytest.raises(ValueError, match="limit belongs to") as caught:
            Claim(theorem=name, **about)
        assert all(one in str(caught.value) for one in OPEN)
        assert Claim(theorem=name, limit=0.07, **about).predicted(np.nan) == 0.07
    else:
        assert np.isfinite(Claim(theorem=name, **about).predicted(3.0))
        with pytest.raises(ValueError, match="limit belongs to"):
            Claim(theorem=name, limit=0.07, **about)


@pytest.mark.parametrize("name", THEOREMS)
def test_a_denominator_belongs_to_ratios_alone(name: str) -> None:
    theorem = THEOREMS[name]
    about: dict[str, Any] = {"families": ["f"], "tolerance": 0.05, "reason": "test"}
    about["limit"] = 1.0 if name in OPEN else None
    about["alpha"] = 1.0 if theorem.of == "samples" else None
    over = None if theorem.variable == "ratio" else "e"
    with pytest.raises(ValueError, match="over belongs to claims about ratios"):
        Claim(theorem=name, over=over, **about)


def test_too_few_trials_say_nothing() -> None:
    """Of 35 trials the largest is below the 0.9 quantile with probability 0.9^35 > 2.5%."""
    for trials, expected in ((35, "inconclusive"), (36, "consistent")):
        table = _rows(lambda n, rho: n**-0.5 * rho**-0.25, trials=trials, rho=[1e-4, 1e-2])
        assert _judge("heavy_tail_rho", table)["verdict"].tolist() == [expected]
