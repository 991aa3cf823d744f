"""Claims of all kinds, on errors that follow a law exactly, follow another, or hardly say."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from dpbench.analysis.claim_kinds import build_claim, slopes
from dpbench.analysis.claims import COLUMNS
from dpbench.arrays import Floats
from dpbench.registry import ConfigError
from dpbench.theory.theorems import THEOREMS
from tests.analysis.claimed import (
    GRID,
    LARGE,
    LAWS,
    LOCAL,
    RADII,
    TWO,
    pure_budgets,
    radii_of,
    sizes_of,
)
from tests.sweeps import CLIP, COIN, Made


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


TRIALS = 80


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
    one = Made(n=sizes_of(100, 1e5, 65), estimators=RADII, trials=40)
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
    one = Made(n=GRID, estimators=radii_of(*radii), trials=40)
    for alpha in (0.05, 0.0045):
        row = one.judge("naive_radius", lambda at: at.radius / at.n + at.n**-0.5, alpha=alpha)
        # alpha n - sqrt(n) - R = 0
        n = ((1 + np.sqrt(1 + 4 * alpha * radii)) / (2 * alpha)) ** 2
        slope = np.polyfit(np.log(radii), np.log(n), 1)[0]
        assert row["measured"].iloc[0] == pytest.approx(slope, abs=2e-3)


def test_curves_are_told_apart() -> None:
    """By law, estimator and budget; what a curve spans is not its own."""
    slopes = {at: 0.2 * i for i, at in enumerate(itertools.product("ab", "xy", (0.5, 1.0)), 1)}
    ball = {"kind": "l2_clipped_mean", "radius": [1, 10]}
    law = {"kind": "multivariate_gaussian", "d": [2, 5, 50], "norm": [1, 100]}
    one = Made(n=[100], families={"a": law, "b": {**law, "scale": 2}},
               estimators={"x": ball, "y": ball}, budgets=pure_budgets(0.5, 1.0))  # fmt: skip
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


# Levels, and exponents at finite n.


@pytest.fixture
def known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Exact values 1/n + 10/n^2 for every law and estimator but those with upper = 2."""

    def exact(metric: str, estimator: Any, law: Any, n: int, budget: Any) -> float:
        assert (metric, type(law).__name__, budget.epsilon) == ("q90", "Bernoulli", 1.0)
        return math.nan if estimator.upper == 2 else 1 / n + 10 / n**2

    monkeypatch.setattr("dpbench.analysis.exact_of_sweep.exact", exact)


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
    one = Made(n=sizes_of(50, 5000, 100), trials=40, estimators={"median": median})
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
    monkeypatch.setattr("dpbench.analysis.exact_of_sweep.exact", lambda *_: math.log(10))
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

    monkeypatch.setattr("dpbench.analysis.exact_of_sweep.exact_miss", missed)
    one = Made(n=sizes_of(500, 1.2e5, 100), estimators=RADII, trials=40)
    for late, expected in ((1.0, "consistent"), (1.5, "inconsistent")):

        def error(at: Any, late: float = late) -> float:
            return math.inf if at.n < late * 100 * math.log(at.radius) else 1e-6

        (row,) = one.judge("exact_samples", error, alpha=3.0).to_dict("records")
        assert (row["metric"], row["verdict"]) == ("samples", expected)
        assert row["measured"] == pytest.approx(late, rel=0.03)
    # The exponent of 100 ln R, rounded up.
    (row,) = one.judge(
        "coarse_log_radius", lambda at: math.inf if at.n < 100 * math.log(at.radius) else 1e-6,
        alpha=3.0, exact_at_run_n=True,
    ).to_dict("records")  # fmt: skip
    assert row["predicted"] == pytest.approx(1.0, abs=2e-3)
    with pytest.raises(
        ConfigError, match=r"^claims\.c: naive_radius1000 runs at one n on coin; two"
    ):
        Made(n=[100], estimators=RADII).judge("exact_samples", lambda _: 1.0, alpha=3.0)


def test_levels_on_the_same_data_are_resampled_together(monkeypatch: pytest.MonkeyPatch) -> None:
    """Errors of 16 budgets that are all sampling say no more than those of one."""
    monkeypatch.setattr("dpbench.analysis.exact_of_sweep.exact", lambda *_: math.log(10))
    errors = np.random.default_rng(3).exponential(size=400)
    widths = []
    for budgets in (pure_budgets(1.0), pure_budgets(*range(1, 17))):
        row = Made(n=[100], trials=400, budgets=budgets).judge("exact_error", lambda _: errors)
        widths.append(float((row["high"] - row["low"]).iloc[0]))
    # Of 1000 and of 400 replicates: ends of an interval differ by a few per cent; apart they
    # would be a fourth.
    assert widths[1] == pytest.approx(widths[0], rel=0.25)


@pytest.mark.usefixtures("known")
def test_a_finite_exponent_is_that_of_exact_values() -> None:
    one = Made(n=[10, 100, 1000])
    for finite, expected in ((True, "consistent"), (False, "inconsistent")):
        row = one.judge(
            "private_regime", lambda at: 1 / at.n + 10 / at.n**2, exact_at_run_n=finite
        ).iloc[0]
        slope = np.polyfit(np.log([10, 100, 1000]), np.log([0.2, 0.011, 0.00101]), 1)[0]
        assert row["measured"] == pytest.approx(-1 / slope, abs=1e-9)
        assert row["predicted"] == pytest.approx(-1 / slope if finite else 1.0, abs=1e-9)
        assert row["verdict"] == expected
        assert row["detectable_deviation"] == pytest.approx(0.05 + row["high"] - row["low"])
        assert (row["theorem"], row["checks"]) == (1.0, "theorem")
        assert math.isnan(row["exact_at_run_n"]) != finite
        early = "pre-asymptotic" if finite else "inconsistent"
        assert row["theorem_verdict"] == early
        # -1/slope of 1/n + 10/n^2 at n, 10 n, 100 n is 0.920 at n = 20, 0.954 at 40
        assert row["asymptotic_from"] == pytest.approx(40 if finite else math.nan, nan_ok=True)
    given = one.judge("private_regime", lambda at: 1 / at.n + 10 / at.n**2, exact_at_run_n=0.87)
    assert given["exact_at_run_n"].tolist() == given["predicted"].tolist() == [0.87]
    # against the oracle's number alone nothing is early
    off = one.judge("private_regime", lambda at: at.n**-1.6, exact_at_run_n=True).iloc[0]
    assert (off["verdict"], off["theorem_verdict"]) == ("inconsistent", "inconsistent")


@pytest.mark.usefixtures("known")
def test_what_has_no_exact_value_is_refused() -> None:
    for theorem, options, at in (
        ("exact_error", {}, "claims.c"),
        ("private_regime", {"exact_at_run_n": True}, "claims.c.exact_at_run_n"),
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
               n=[100, 1000, 10_000], budgets=pure_budgets(0.5, 1.0))  # fmt: skip

    def error(at: Any) -> float:
        slope = -0.9 if (at.estimator, at.family) == ("clip", "a") else -1.0
        return float(scale[at.estimator] * at.n**slope / at.epsilon)

    found = one.judge("noise_ratio", error, denominator="below", predicted=3.0)
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
    about = {"denominator": "over", "predicted": 2.0}
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
               budgets=pure_budgets(*(1 + i / 100 for i in range(runs))))  # fmt: skip
    found = one.judge("coverage", lambda at: rng.random(400) < 0.1, tolerance=0.01)
    # Broken is what lies above the limit with twice of what its interval has below it.
    assert found["detectable_deviation"].tolist() == pytest.approx(
        (0.01 + 2 * (found["measured"] - found["low"])).tolist()
    )
    broken = int((found["verdict"] == "inconsistent").sum())
    assert len(found) == runs
    # Twice as wide as of 95%, and skewed: binomial test with false-alarm probability 1e-6.
    assert stats.binom.sf(broken - 1, runs, 1e-3) > 1e-6, broken


def test_intervals_of_factors_cover_when_members_tie() -> None:
    """Four members at four n, all equally bad: the largest of 16 measurements is too high."""
    rng, runs = np.random.default_rng(11), 60
    many = {"clip": {**CLIP, "upper": list(range(1, runs + 1))}}
    # The 0.9 quantile of an exponential is ln 10.
    made = Made(bounds=True, families=LOCAL, estimators=many, n=LARGE[::2], trials=400)
    found = made.judge(
        "near_optimal", lambda at: rng.exponential(1.2 * at.lower_bound / math.log(10), size=400)
    )
    hits = int(((found["low"] <= 1.2) & (found["high"] >= 1.2)).sum())
    assert len(found) == runs
    # At a true coverage of 95%, below 46 of 60 has probability 3e-7. The largest of 16 lower ends
    # without allowance covers two times in three, a bootstrap of the maximum hardly ever.
    assert hits >= 46, hits
    above = int((found["measured"] > 1.2).sum())
    # It is too high half of the time, or less: 49 of 60 are by chance with probability 4e-7.
    assert above < 49, above


def test_a_factor_is_the_largest_over_n(made: Callable[[str], Made]) -> None:
    """One n at 1.4 is not made good by others at the bound."""
    last = made("near_optimal").keys["n"].max()
    row = made("near_optimal").judge(
        "near_optimal", lambda at: (1.4 if at.n == last else 1.0) * at.lower_bound
    )
    assert row["measured"].tolist() == pytest.approx([1.4])
    assert row["verdict"].tolist() == ["inconsistent"]


# Best values of a parameter.
PEOPLE: dict[str, Any] = {
    "kind": "user_level_data",
    "of": {"kind": "gaussian", "location": 0.4, "scale": 0.1},
    "m": {"kind": "bounded_zipf", "exponent": 1.5, "largest": 128},
}
CAPS = {"caps": {"kind": "bounded_contribution_mean", "lower": 0, "upper": 1,
                 "cap": [1, 4, 16, 64]}}  # fmt: skip


@pytest.mark.parametrize(
    ("best", "noise", "verdict"),
    [(4, 0.0, "consistent"), (16, 0.0, "inconsistent"), (4, 20.0, "inconclusive")],
)
def test_the_best_value_is_over_the_predicted_one(best: int, noise: float, verdict: str) -> None:
    """At n = 3000 and epsilon = 1 the cap 4 of these has the smallest exact error."""
    made = Made(families={"people": PEOPLE}, estimators=CAPS, n=[3000], trials=60)
    rng = np.random.default_rng(0)

    def error(row: Any) -> Floats:
        away = 1 + np.log(row.cap / best) ** 2
        return np.asarray(away + noise * rng.standard_normal(60) ** 2)

    (row,) = made.judge("best_rmse", error, parameter="cap").to_dict("records")
    assert row["verdict"] == verdict
    assert row["checks"] == "code"
    if not noise:
        assert row["measured"] == pytest.approx(best / 4)
    with pytest.raises(ConfigError, match="parameter: 'clip'"):
        made.judge("best_rmse", error, parameter="clip")


@pytest.mark.parametrize(("events", "trials"), [(0, 40), (3, 40), (39, 40), (40, 40), (90, 1000)])
def test_the_interval_of_a_rate_is_that_of_clopper_and_pearson(events: int, trials: int) -> None:
    claim = build_claim({"theorem": "coverage", "tolerance": 0.1, "reason": "Made up."}, "c")
    curve = pd.DataFrame({"trials": [trials]})
    found = claim._interval(curve, np.array([[events / trials, 0.0]]))
    exact = stats.binomtest(events, trials).proportion_ci(0.95, method="exact")
    assert tuple(found) == pytest.approx((events / trials, exact.low, exact.high))
