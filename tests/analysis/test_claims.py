"""Claims of all kinds on errors that follow a law, and what no claim can be tested on."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest
from scipy import stats

from dpbench.analysis.claims import COLUMNS, verdict
from dpbench.analysis.kinds import build_claim
from dpbench.analysis.resample import Measured
from dpbench.registry import ConfigError
from dpbench.theory.theorems import THEOREMS, Theorem
from tests.sweeps import CLIP, COIN, Made


@pytest.mark.parametrize(
    ("low", "high", "floor", "expected"),
    [
        (1.97, 2.03, None, "consistent"),
        (1.9375, 2.0625, None, "consistent"),  # all of the region
        (2.0625, 2.09, None, "inconclusive"),  # at its edge
        (1.91, 1.9375, None, "inconclusive"),
        (2.0, 2.07, None, "inconclusive"),
        (1.93, 2.0, None, "inconclusive"),
        (2.07, 2.09, None, "inconclusive"),
        (2.0725, 2.09, None, "inconsistent"),  # half of its width further
        (1.80, 1.89, None, "inconsistent"),
        (1.84375, 1.90625, None, "inconclusive"),  # twice as wide it touches the region
        (1.90625, 2.03125, None, "inconclusive"),
        (2.0, np.inf, None, "inconclusive"),
        # An upper limit.
        (1.0, 1.8, 0.0, "consistent"),  # wide, but all of it is allowed
        (2.08, 2.10, 0.0, "inconsistent"),
        (2.07, 2.10, 0.0, "inconclusive"),
        (1.9, 2.2, 0.0, "inconclusive"),
        (0.9375, 1.2, 1.0, "consistent"),  # the floor has the tolerance, too
        (0.8, 0.9, 1.0, "inconclusive"),
        (0.8, 0.87, 1.0, "inconsistent"),
    ],
)
def test_verdict(low: float, high: float, floor: float | None, expected: str) -> None:
    measured = Measured((low + high) / 2, low, high)
    assert verdict(measured, 2.0, 0.0625, floor=floor) == expected
    assert verdict(measured, np.nan, 0.0625, floor=floor) == "inconclusive"


# Each kind of claim, on errors that follow a law exactly, follow another, or hardly say.


def _sizes(low: float, high: float, points: int) -> list[int]:
    return [round(n) for n in np.geomspace(low, high, points)]


def _pure(*epsilon: float) -> dict[str, Any]:
    return {"pure": {"kind": "pure_dp", "epsilon": list(epsilon)}}


def _radii(*radius: float) -> dict[str, Any]:
    return {"naive": {"kind": "naive_gaussian_mean", "radius": list(radius)}}


LOCAL = {"pair": {"kind": "two_point_family", "k": 2, "c": [1, 2, 3, 4], "scaling": "local"}}
LARGE = _sizes(1e5, 1e12, 8)
GRID = _sizes(100, 1e6, 33)
RADII = _radii(1e3, 1e30, 1e100, 1e300)
VECTORS = {"families": {"g": {"kind": "multivariate_gaussian", "d": [4, 16, 64]}},
           "estimators": {"ball": {"kind": "bounded_mean", "radius": 1}}}  # fmt: skip
DELTAS = {"approx": {"kind": "approx_dp", "epsilon": 1, "delta": [1e-6, 1e-25, 1e-200]}}
TWO = {"clip": CLIP, "over": {**CLIP, "upper": 2}}
TRIALS = 80


# What is run, and an error such that the number is s, as a function of the row of a key.
LAWS: dict[str, tuple[dict[str, Any], Callable[[Any, float], float], dict[str, Any]]] = {
    # The worst member changes with n; each alone would give another slope.
    "heavy_tail_alpha": (
        {"families": LOCAL, "n": LARGE},
        lambda row, s: row.n ** (-1 / s)
        * (1 if int(row.distribution[-1]) == LARGE.index(row.n) % 4 + 1 else 0.2),
        {},
    ),
    "clipping_bias": ({"n": GRID[::8]}, lambda row, s: 0.3 * row.n**s, {}),
    "no_radius": (
        {"n": [1000, 3000], "estimators": RADII},
        lambda row, s: row.n**-0.7 * row.radius**s, {"tolerance": 1e-3},
    ),
    "ball_dimension": (
        {**VECTORS, "n": [4000, 8000]}, lambda row, s: (row.d**s / row.n) ** 0.5, {},
    ),
    "coarse_delta": (
        {"n": GRID, "budgets": DELTAS},
        lambda row, s: 30 * math.log(1 / row.delta) ** s / row.n, {"alpha": 0.2},
    ),
    "near_optimal": (
        {"families": LOCAL, "n": LARGE[::2], "bounds": True},
        lambda row, s: s * row.lower_bound, {},
    ),
    "noise_ratio": (
        {"estimators": TWO, "n": GRID[::8]},
        lambda row, s: (s if row.estimator == "clip" else 1.0) / row.n,
        {"over": "over", "predicted": 1.4},
    ),
    "heavy_tail_guarantee": (
        {"estimators": TWO}, lambda row, s: s if (row.n, row.estimator) == (1000, "clip") else 0.1,
        {},
    ),
    "core_weight": (
        {"estimators": TWO}, lambda row, s: s if (row.n, row.estimator) == (100, "over") else 0.1,
        {"predicted": 0.5},
    ),
}  # fmt: skip


@pytest.fixture(scope="module")
def made() -> Callable[[str], Made]:
    """The sweep of a claim, made once."""
    return cache(lambda name: Made(trials=TRIALS, **LAWS[name][0]))


@pytest.mark.parametrize("theorem", LAWS)
def test_claims_of_all_kinds(theorem: str, made: Callable[[str], Made]) -> None:
    _, error, options = LAWS[theorem]
    predicted = options.get("predicted", THEOREMS[theorem].predicted(2.0))
    tolerance = options.get("tolerance", 0.05)
    for power, expected in (
        (predicted, "consistent"),
        (predicted + 0.8 * tolerance, "consistent"),
        (predicted + 1.2 * tolerance, "inconsistent"),
    ):
        row = made(theorem).judge(theorem, lambda at, s=power: error(at, s), **options)  # type: ignore[misc]
        assert list(row) == COLUMNS
        (one,) = row.to_dict("records")
        assert one["measured"] == pytest.approx(power, abs=1e-9)
        assert one["low"] - 1e-9 <= one["measured"] <= one["high"] + 1e-9
        assert one["verdict"] == expected
        assert (one["claim"], one["predicted"]) == ("c", predicted)
    rng = np.random.default_rng(4)
    if theorem not in {"heavy_tail_guarantee", "core_weight", "near_optimal"}:  # noise raises these
        row = made(theorem).judge(
            theorem, lambda at: error(at, predicted) * np.exp(3 * rng.standard_normal(TRIALS)),
            **options,
        )  # fmt: skip
        assert row["verdict"].tolist() == ["inconclusive"]


# Those of a smallest n live with failures; means are of what is released.
@pytest.mark.parametrize(
    "theorem", ["heavy_tail_alpha", "no_radius", "near_optimal", "core_weight"]
)
def test_failures_leave_claims_inconclusive(theorem: str, made: Callable[[str], Made]) -> None:
    """Three of five trials at one n release nothing."""
    _, error, options = LAWS[theorem]
    last = made(theorem).keys["n"].max()

    def fails(at: Any) -> Any:
        return np.where((np.arange(TRIALS) % 5 < 3) & (at.n == last), np.inf, error(at, 1.0))

    (one,) = made(theorem).judge(theorem, fails, **options).to_dict("records")
    assert one["verdict"] == "inconclusive"
    assert np.isnan([one["measured"], one["low"], one["high"]]).all()


def test_lower_bounds_are_no_errors(made: Callable[[str], Made]) -> None:
    """What is below one has too little noise."""
    found = made("near_optimal").judge("near_optimal", lambda row: 0.9 * row.lower_bound)
    assert found["verdict"].tolist() == ["inconsistent"]


def test_a_smallest_n_at_a_threshold_between_points() -> None:
    one = Made(n=_sizes(100, 1e5, 65), estimators=RADII, trials=40)
    starts = {
        radius: 200 * math.log(radius) / math.log(1e3) for radius in (1e3, 1e30, 1e100, 1e300)
    }

    def error(at: Any) -> float:
        return math.inf if at.n < starts[at.radius] else 1e-6

    row = one.judge("coarse_log_radius", error, alpha=3.0).iloc[0]
    assert row["measured"] == pytest.approx(1.0, abs=0.04)
    assert row["low"] <= 1.0 <= row["high"]
    # From the smallest to the largest of the n found, not of the grid.
    assert (row["metric"], row["variable"]) == ("samples", "log_radius")
    assert row[["n_low", "n_high"]].tolist() == pytest.approx([200, 20_000], rel=0.08)
    # One radius that the grid does not reach: nothing is said, not of the rest.
    starts[1e100] = 1e9
    row = one.judge("coarse_log_radius", error, alpha=3.0).iloc[0]
    assert row["verdict"] == "inconclusive"


def test_the_alpha_of_a_claim_is_where_n_is_read_off() -> None:
    """An error R/n + 1/sqrt(n): for large alpha nearly all is R, for small hardly any."""
    radii = np.array([1.0, 3.0, 9.0])
    one = Made(n=GRID, estimators=_radii(*radii), trials=40)
    for alpha in (0.05, 0.0045):
        row = one.judge("naive_radius", lambda at: at.radius / at.n + at.n**-0.5, alpha=alpha)
        # alpha n - sqrt(n) - R = 0
        n = ((1 + np.sqrt(1 + 4 * alpha * radii)) / (2 * alpha)) ** 2
        slope = np.polyfit(np.log(radii), np.log(n), 1)[0]
        assert row["measured"].iloc[0] == pytest.approx(slope, abs=2e-3)


def test_curves_are_told_apart() -> None:
    """By law, estimator and budget; what a curve spans is not its own."""
    slopes = {at: 0.2 * i for i, at in enumerate(itertools.product("ab", "xy", (0.5, 1.0)), 1)}
    ball = {"kind": "bounded_mean", "radius": [1, 10]}
    law = {"kind": "multivariate_gaussian", "d": [2, 5, 50], "norm": [1, 100]}
    one = Made(n=[100], families={"a": law, "b": {**law, "scale": 2}},
               estimators={"x": ball, "y": ball}, budgets=_pure(0.5, 1.0))  # fmt: skip
    found = one.judge(
        "pure_dimension",
        lambda at: at.d ** slopes[at.family[0], at.estimator[0], at.epsilon] * at.radius * at.norm,
    )
    # Each at two norms and with two radii, neither of which changes the slope.
    assert len(found) == 8 * 4
    assert set(found["distribution"]) == {f"{a}_norm{r}" for a in "ab" for r in ("1", "100")}
    assert set(found["estimator"]) == {f"{a}_radius{r}" for a in "xy" for r in ("1", "10")}
    for row in found.to_dict("records"):
        at = row["distribution"][0], row["estimator"][0], row["epsilon"]
        assert row["measured"] == pytest.approx(slopes[at], abs=1e-9)
    # A limit is at its worst over all, under each budget.
    found = one.judge("coverage", lambda at: 0.0)
    assert found["epsilon"].tolist() == [0.5, 1.0]


def test_only_what_a_claim_is_about_counts() -> None:
    one = Made(families={"coin": COIN, "other": {**COIN, "p": 0.4}}, estimators=TWO, n=GRID[::4],
               budgets=_pure(0.5, 1.0), trials=40)  # fmt: skip

    def error(at: Any) -> float:
        odd = at.family == "other" or at.estimator == "over" or at.epsilon == 0.5 or at.n < 1000
        return math.inf if odd or at.n > 1e5 else at.n**-0.5

    about = {"families": "coin", "estimators": ["!over"], "budgets": {"pure": {"epsilon": 1}}}
    (row,) = one.judge("sampling_regime", error, n_min=1000, n_max=10**5, **about).to_dict(
        "records"
    )
    assert row["measured"] == pytest.approx(2.0, abs=1e-9)
    assert (row["n_low"], row["n_high"]) == (1000, 100_000)
    assert (row["distribution"], row["estimator"], row["epsilon"]) == ("coin", "clip", 1.0)


# Levels, and exponents at finite n.


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact values 1/n + 10/n^2 for every law and estimator but those with upper = 2."""

    def exact(metric: str, estimator: Any, law: Any, n: int, budget: Any) -> float:
        assert (metric, type(law).__name__, budget.epsilon) == ("q90", "Bernoulli", 1.0)
        return math.nan if estimator.upper == 2 else 1 / n + 10 / n**2

    monkeypatch.setattr("dpbench.analysis.kinds.exact", exact)


@pytest.mark.usefixtures("known")
def test_levels_are_over_exact_values() -> None:
    one = Made(families={"a": COIN, "b": {**COIN, "p": 0.4}}, n=[10, 100, 1000])
    for off, expected in ((1.0, "consistent"), (1.04, "consistent"), (2.0, "inconsistent")):
        (row,) = one.judge(
            "exact_error",
            lambda at, off=off: off * (1 / at.n + 10 / at.n**2),  # type: ignore[misc]
        ).to_dict("records")
        assert row["distribution"] == "a, b"
        assert row["measured"] == pytest.approx(off, rel=1e-9)
        assert row["verdict"] == expected
    # Half of the trials release nothing, where an error is known.
    fails = np.resize([np.inf, 0.01], 50)
    assert one.judge("exact_error", lambda _: fails)["verdict"].tolist() == ["inconsistent"]
    # Nine of ten have no error at all: their noise was forgotten.
    assert one.judge("exact_error", lambda _: 0.0)["verdict"].tolist() == ["inconsistent"]
    # At one n of three: a geometric mean.
    found = one.judge("exact_error", lambda at: (1 + (at.n == 10)) * (1 / at.n + 10 / at.n**2))
    assert found["measured"].tolist() == pytest.approx([2 ** (1 / 3)], rel=1e-9)


@pytest.mark.parametrize(("theorem", "right", "given"), [
    ("exact_noise", 0.25, {}), ("exact_samples", 500.0, {"alpha": 0.5}),
])  # fmt: skip
def test_levels_may_be_over_a_number_that_is_given(
    theorem: str, right: float, given: dict[str, float]
) -> None:
    """Where none is known, here of a median: of its noise, or the smallest n for alpha."""
    median = {"kind": "subsample_aggregate", "buckets": 10, "lower": 0, "upper": 1}
    one = Made(n=_sizes(50, 5000, 100), trials=40, estimators={"median": median})
    error = lambda at: 0.25 if not given or at.n >= 500 else 9.0  # noqa: E731
    for off, expected in ((1, "consistent"), (2, "inconsistent")):
        (row,) = one.judge(theorem, error, exact=right / off, **given).to_dict("records")
        assert (row["predicted"], row["verdict"]) == (1, expected)
        assert row["measured"] == pytest.approx(off, rel=0.03)
    with pytest.raises(ConfigError, match=r"^claims\.c: no exact \w+ is known for median on coin"):
        one.judge(theorem, error, **given)


def test_no_level_of_what_is_not_private_is_known() -> None:
    one = Made(n=[100], estimators={"mean": {"kind": "empirical_mean"}})
    with pytest.raises(ConfigError, match=r"^claims\.c: no exact noise_q90 is known for mean on"):
        one.judge("exact_noise", lambda _: 1.0)


def test_levels_of_few_trials_are_not_too_low(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exponential errors of 60: the 54th has a mean logarithm 4.6 per cent below ln ln 10."""
    monkeypatch.setattr("dpbench.analysis.kinds.exact", lambda *_: math.log(10))
    rng, one = np.random.default_rng(8), Made(n=range(100, 1100), trials=60)
    (row,) = one.judge("exact_error", lambda _: rng.exponential(size=60)).to_dict("records")
    # A logarithm has a standard deviation of 0.165, the mean of 1000 one of 0.0052: 5 of these,
    # beside a bias of 0.001, are exceeded with probability 6e-7.
    assert row["measured"] == pytest.approx(1, abs=0.028)
    assert row["verdict"] == "consistent"


def test_thresholds_are_over_exact_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    """A coarse step that is right from n = 100 ln(R) on."""

    def missed(estimator: Any, law: Any, n: int, budget: Any) -> float:
        return 0.5 if n < 100 * math.log(estimator.radius) else 0.05

    monkeypatch.setattr("dpbench.analysis.kinds.exact_miss", missed)
    one = Made(n=_sizes(500, 1.2e5, 100), estimators=RADII, trials=40)
    for late, expected in ((1.0, "consistent"), (1.5, "inconsistent")):

        def error(at: Any, late: float = late) -> float:
            return math.inf if at.n < late * 100 * math.log(at.radius) else 1e-6

        (row,) = one.judge("exact_samples", error, alpha=3.0).to_dict("records")
        assert (row["metric"], row["verdict"]) == ("samples", expected)
        assert row["measured"] == pytest.approx(late, rel=0.03)
    # The exponent of 100 ln R, rounded up.
    (row,) = one.judge(
        "coarse_log_radius", lambda at: math.inf if at.n < 100 * math.log(at.radius) else 1e-6,
        alpha=3.0, finite=True,
    ).to_dict("records")  # fmt: skip
    assert row["predicted"] == pytest.approx(1.0, abs=2e-3)
    with pytest.raises(
        ConfigError, match=r"^claims\.c: naive_radius1000 runs at one n on coin; two"
    ):
        Made(n=[100], estimators=RADII).judge("exact_samples", lambda _: 1.0, alpha=3.0)


def test_levels_on_the_same_data_are_resampled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of 16 budgets that are all sampling say no more than those of one."""
    monkeypatch.setattr("dpbench.analysis.kinds.exact", lambda *_: math.log(10))
    errors = np.random.default_rng(3).exponential(size=400)
    widths = []
    for budgets in (_pure(1.0), _pure(*range(1, 17))):
        row = Made(n=[100], trials=400, budgets=budgets).judge("exact_error", lambda _: errors)
        widths.append(float((row["high"] - row["low"]).iloc[0]))
    # Of 1000 and of 400 replicates: ends of an interval differ by a few per cent; apart they
    # would be a fourth.
    assert widths[1] == pytest.approx(widths[0], rel=0.25)


@pytest.mark.usefixtures("known")
def test_a_finite_exponent_is_that_of_exact_values() -> None:
    one = Made(n=[10, 100, 1000])
    for finite, expected in ((True, "consistent"), (False, "inconsistent")):
        row = one.judge("private_regime", lambda at: 1 / at.n + 10 / at.n**2, finite=finite).iloc[0]
        slope = np.polyfit(np.log([10, 100, 1000]), np.log([0.2, 0.011, 0.00101]), 1)[0]
        assert row["measured"] == pytest.approx(-1 / slope, abs=1e-9)
        assert row["predicted"] == pytest.approx(-1 / slope if finite else 1.0, abs=1e-9)
        assert row["verdict"] == expected
        assert row["visible"] == pytest.approx(0.05 + row["high"] - row["low"])


@pytest.mark.usefixtures("known")
def test_what_has_no_exact_value_is_refused() -> None:
    for theorem, options, at in (
        ("exact_error", {}, "claims.c"), ("private_regime", {"finite": True}, "claims.c.finite")
    ):  # fmt: skip
        with pytest.raises(
            ConfigError, match=f"^{at}: no exact q90 is known for over on coin under pure$"
        ):
            Made(estimators=TWO).judge(theorem, lambda row: 1 / row.n, **options)


# Ratios.


def test_ratios_are_of_each_estimator_at_the_same_family_n_and_budget() -> None:
    three = {**TWO, "below": {**CLIP, "upper": 3}}
    scale = {"clip": 6.0, "over": 1.5, "below": 2.0}
    one = Made(families={"a": COIN, "b": {**COIN, "p": 0.4}}, estimators=three,
               n=[100, 1000, 10_000], budgets=_pure(0.5, 1.0))  # fmt: skip

    def error(at: Any) -> float:
        slope = -0.9 if (at.estimator, at.family) == ("clip", "a") else -1.0
        return float(scale[at.estimator] * at.n**slope / at.epsilon)

    found = one.judge("noise_ratio", error, over="below", predicted=3.0)
    assert len(found) == 8
    for row in found.to_dict("records"):
        wanted = scale[row["estimator"]] / 2.0
        if (row["estimator"], row["distribution"]) == ("clip", "a"):
            wanted *= 1000**0.1  # the middle of three sizes
        assert row["measured"] == pytest.approx(wanted, rel=1e-9)
        assert row["verdict"] == ("consistent" if wanted == 3 else "inconsistent")


def test_the_interval_of_a_ratio_has_the_errors_of_both() -> None:
    """ln of a ratio has variance 2 s^2 at each n, s the relative standard error of a mean."""
    one = Made(n=[100, 200, 300, 400], estimators=TWO, trials=50)
    values = 1 + 0.01 * math.sqrt(49) * np.resize([-1.0, 1.0], 50)  # a standard error of 0.01
    about = {"over": "over", "predicted": 2.0}
    row = one.judge("noise_ratio", lambda at: values * (2 - (at.estimator == "over")), **about)
    # A quantile of 1000 replicates has a standard error of 0.055 half: 6 of these, each with
    # probability 1e-9; the streams are fixed.
    half = 1.96 * 0.01 * math.sqrt(2 / 4)
    assert math.log(row["high"].iloc[0] / 2) == pytest.approx(half, rel=0.33)
    assert math.log(2 / row["low"].iloc[0]) == pytest.approx(half, rel=0.33)
    zero = one.judge("noise_ratio", lambda at: float(at.estimator == "clip"), **about)
    assert zero["verdict"].tolist() == ["inconclusive"]


# Limits.


def test_a_limit_that_is_not_known_is_inconclusive() -> None:
    """A block that raised, or an estimator without an interval, has NaN for `missed`."""
    broken = np.random.default_rng(4).permutation(400) < 8
    one = Made(estimators=TWO, trials=400)
    for theorem in ("coverage", "range_margin"):
        for odd in (np.full(400, np.nan), np.where(broken, np.nan, 0.0)):
            # It is not overlooked beside others that are known to be good.
            values = {"over": odd, "clip": np.zeros(400)}
            row = one.judge(theorem, lambda at, v=values: v[at.estimator]).iloc[0]  # type: ignore[misc]
            assert row["verdict"] == "inconclusive"
    few = one.judge("range_margin", lambda at: np.where(broken, np.inf, 0.5))
    assert few["verdict"].tolist() == ["consistent"]  # a fiftieth releases nothing


def test_a_limit_that_is_just_kept_is_not_found_broken() -> None:
    """Intervals that miss with probability 0.1 exactly, in 20 settings of 400 trials."""
    rng, runs = np.random.default_rng(21), 40
    one = Made(n=range(100, 110), estimators=TWO, trials=400,
               budgets=_pure(*(1 + i / 100 for i in range(runs))))  # fmt: skip
    found = one.judge("coverage", lambda at: rng.random(400) < 0.1, tolerance=0.01)
    # Broken is what lies above the limit with twice of what its interval has below it.
    assert found["visible"].tolist() == pytest.approx(
        (0.01 + 2 * (found["measured"] - found["low"])).tolist()
    )
    broken = int((found["verdict"] == "inconsistent").sum())
    assert len(found) == runs
    # Twice as wide as of 95%, and skewed: binomial test with false-alarm probability 1e-6.
    assert stats.binom.sf(broken - 1, runs, 1e-3) > 1e-6, broken


def test_intervals_of_factors_cover_when_members_tie() -> None:
    rng, runs = np.random.default_rng(11), 60
    many = {"clip": {**CLIP, "upper": list(range(1, runs + 1))}}
    # The 0.9 quantile of an exponential is ln 10.
    made = Made(bounds=True, families=LOCAL, estimators=many, n=LARGE[::2], trials=400)
    found = made.judge(
        "near_optimal", lambda at: rng.exponential(1.2 * at.lower_bound / math.log(10), size=400)
    )
    hits = int(((found["low"] <= 1.2) & (found["high"] >= 1.2)).sum())
    assert len(found) == runs
    # At a true coverage of 94%, below 45 of 60 has probability 4e-7. A bootstrap of the maximum
    # over four tied members covers hardly any.
    assert hits >= 45, hits


@pytest.mark.parametrize(
    ("theorem", "least"), [("clipping_bias", 36), ("noise_ratio", 36), ("near_optimal", 72)]
)
def test_too_few_trials_say_nothing(theorem: str, least: int) -> None:
    """Of 35 trials the largest is below the 0.9 quantile with probability 0.9^35 > 2.5%.

    What is held out is measured on half of them, the smaller one.
    """
    sections, error, options = LAWS[theorem]
    predicted = options.get("predicted", THEOREMS[theorem].predicted(2.0))
    for trials, expected in ((least - 1, "inconclusive"), (least, "consistent")):
        found = Made(trials=trials, **sections).judge(
            theorem, lambda at: error(at, predicted), **options
        )
        assert found["verdict"].tolist() == [expected], trials


# What is refused.

FAMILIES: dict[str, Any] = {
    "cube": {"kind": "hypercube", "d": [4, 16]},
    "gaussian": {"kind": "multivariate_gaussian", "d": [2, 20], "norm": [0.5, 1e6]},
    "zero": {"kind": "multivariate_gaussian", "d": 7},
}
ESTIMATORS: dict[str, Any] = {
    "additive": {"kind": "bounded_mean", "radius": 1},
    "scaled": {"kind": "bounded_mean", "radius": [0.5, 2, 1e6]},
    "l2": {"kind": "bounded_mean", "radius": 1, "mechanism": "l2"},
    "mean": {"kind": "empirical_mean"},
}
BOTH = {"pure": {"kind": "pure_dp", "epsilon": 1}, "zcdp": {"kind": "zcdp", "rho": 0.5}}
ALL = Made(bounds=True, families=FAMILIES, estimators=ESTIMATORS, budgets=BOTH)
NUMBERS = Made(
    families={"numbers": {"kind": "gaussian", "location": 1}}, budgets=DELTAS,
    estimators={"free": {"kind": "karwa_vadhan_mean", "radius": [None, 10, 1000]}},
)  # fmt: skip
CUBES: dict[str, Any] = {"theorem": "pure_dimension", "families": "cube", "estimators": "additive",
                         "budgets": "pure", "tolerance": 0.1, "reason": "test"}  # fmt: skip
RATIO: dict[str, Any] = {"theorem": "noise_ratio", "predicted": 1.4,
                         "estimators": ["additive", "l2"]}  # fmt: skip
FREE = {"theorem": "naive_radius", "alpha": 1.0, "families": None, "budgets": None}
SCALED = {**RATIO, "estimators": None, "over": "scaled"}


def _check(made: Made, **changes: Any) -> None:
    claim = build_claim({**CUBES, **changes}, "sweep.claims.c")
    claim.check(made.sweep, made.keys, "sweep.claims.c")


def test_claims_that_can_be_tested_are_let_pass() -> None:
    _check(ALL)
    _check(ALL, theorem="core_norm", families="gaussian")
    _check(ALL, theorem="ball_radius", estimators=["scaled"])
    _check(ALL, **RATIO, over="l2")
    _check(ALL, **RATIO, over="additive", families="zero", n_min=1000)
    _check(ALL, **{**SCALED, "estimators": {"additive": {}, "scaled": {"radius": 2}}})
    _check(NUMBERS, **FREE, estimators={"free": {"radius": {"low": 1}}})


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({"families": {"cube": {"d": 4}}},
         ": additive has fewer than two values of d on cube_d4; an exponent needs two or more"),
        ({"theorem": "core_norm", "families": ["zero"]},
         ": additive has a norm that is not above 0"),
        ({"theorem": "coarse_log_radius", "estimators": "scaled", "alpha": 1},
         ": scaled_radius0.5 has a log_radius that is not above 0"),
        ({"theorem": "ball_dimension", "n_min": 500},
         ": one n in the claim's regime; an exponent needs two or more"),
        ({"n_min": 1001}, ".n_min: 1001: the sweep runs no n in the claim's regime"),
        ({"estimators": "l2", "budgets": "zcdp"},
         ": the sweep runs nothing of what the claim is about"),
        ({"theorem": "cover_alpha"}, ".families: 'cube_d4': the theorem needs its moment order"),
        ({"theorem": "near_optimal"}, ".families: 'cube_d4': no lower bound is known for it"),
        ({**RATIO, "over": "nope"}, ".over: 'nope': not among the claim's estimators"),
        ({**RATIO, "over": "l2", "estimators": "l2"},
         ".over: 'l2': no other estimator to put over it"),
        ({**RATIO, "over": "l2", "budgets": None},
         ".over: 'l2': it does not run on cube_d4 at n = 100 under zcdp, as additive does"),
        (SCALED, ".over: 'scaled': scaled_radius0.5, scaled_radius1e+06, scaled_radius2: choose "
                 "one of these by its values"),
        ({"theorem": "ball_radius", "estimators": "free", "families": None, "budgets": None},
         ": free_radius_None has no radius; leave it out"),
        ({"theorem": "core_norm", "estimators": "free", "families": None, "budgets": None},
         ": the sweep gives no list of values for norm"),
    ],
)  # fmt: skip
def test_claims_that_nothing_speaks_about_are_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _check(NUMBERS if changes.get("estimators") == "free" else ALL, **changes)
    assert str(caught.value).replace("d16", "d4") == f"sweep.claims.c{line}"


@pytest.mark.parametrize("metric", ["failure_rate", "trimmed_mean"])
def test_what_cannot_be_resampled_is_no_claim(monkeypatch: pytest.MonkeyPatch, metric: str) -> None:
    theorem = Theorem("here", "limit", lambda k: 0.1, metric, at_most=True)
    monkeypatch.setitem(THEOREMS, "own", theorem)
    with pytest.raises(ConfigError, match=f"c.theorem: 'own': no claim can be about {metric}$"):
        _check(ALL, theorem="own")


@pytest.mark.parametrize(
    ("last", "of", "options", "line"),
    [
        # d = 4 at n = 100 and d = 16 at n = 1000: no fit can tell one from the other.
        ([1000], "error", {}, "additive: n and d change together on its grid"),
        ([100, 1000], "samples", {"alpha": 1}, "additive runs at one n for a d; two are needed"),
    ],
)
def test_grids_that_do_not_vary_enough_are_refused(
    monkeypatch: pytest.MonkeyPatch, last: list[int], of: Any, options: dict[str, Any], line: str
) -> None:
    monkeypatch.setitem(THEOREMS, "own", Theorem("here", "d", lambda k: 1.0, of=of))
    parts = {f"d{d}": {"trials": 10, "families": {"cube": {"d": d}}, "n": n}
             for d, n in ((4, [100]), (16, last))}  # fmt: skip
    one = Made(families={"cube": FAMILIES["cube"]},
               estimators={"additive": ESTIMATORS["additive"]}, parts=parts)  # fmt: skip
    with pytest.raises(ConfigError, match=f"c: {line}$"):
        _check(one, theorem="own", **options)


@pytest.mark.parametrize(
    ("options", "line"),
    [
        ({"theorem": "x"}, r"c\.theorem: 'x': no such theorem; choose from heavy_tail_alpha, .*"),
        ({"alpha": 1.0}, r"c\.alpha: no such key; choose from .*tolerance.*"),
        ({"theorem": "noise_ratio", "predicted": 1.0}, r"c\.over: this key is required"),
        ({"theorem": "naive_radius"}, r"c\.alpha: this key is required"),
        ({"theorem": "coarse_delta", "alpha": [1.0, 2.0]}, r"c\.alpha: .*"),
        ({"predicted": 3.0}, r"c: predicted belongs to theorems that leave their number .*"),
        ({"theorem": "range_outside", "predicted": math.nan}, r"c\.predicted: nan: .*"),
        ({"theorem": "range_outside"},
         r"c: predicted belongs .*: within, range_outside, analytic_delta, noise_ratio, "
         r"discard_ratio, core_weight, inverse_ratio, sum_and_count, two_regimes"),
    ],
)  # fmt: skip
def test_claims_that_say_too_little_or_too_much_are_refused(
    options: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        build_claim({**CUBES, **options}, "c")
