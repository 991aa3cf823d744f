"""Verdicts, and what no claim can be tested on."""

from __future__ import annotations

import functools
import math
from typing import Any

import numpy as np
import pytest

from dpbench.analysis.claim_kinds import build_claim
from dpbench.analysis.claims import (
    OwnTheorem,
    count_claim_verdicts,
    theorem_verdict,
    verdict,
)
from dpbench.analysis.resample import Measurement
from dpbench.arrays import Floats
from dpbench.registry import ConfigError
from dpbench.theory.theorems import THEOREMS, Theorem
from tests.analysis.claimed import DELTAS, GRID, LAWS, TWO, pure_budgets
from tests.sweeps import COIN, Made


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
    measured = Measurement((low + high) / 2, low, high)
    assert verdict(measured, 2.0, 0.0625, floor=floor) == expected
    assert verdict(measured, np.nan, 0.0625, floor=floor) == "inconclusive"


EARLY = "pre-asymptotic"


@pytest.mark.parametrize(
    ("low", "high", "exact", "floor", "expected"),
    [
        # no exact number: the rule of `verdict`
        (0.97, 1.03, math.nan, None, "consistent"),
        (1.0, 1.07, math.nan, None, "inconclusive"),
        (0.80, 0.83, math.nan, None, "inconsistent"),
        # the exact number is not the theorem's, and the measurement agrees with it
        (0.79, 0.82, 0.8125, None, EARLY),
        # the measurement disagrees with it: the theorem is judged alone
        (0.60, 0.63, 0.8125, None, "inconsistent"),
        (0.97, 1.03, 0.8125, None, "consistent"),
        (0.92, 0.96, 0.8125, None, "inconclusive"),
        # too few trials to say so of the exact number: not of the theorem either
        (0.74, 0.83, 0.8125, None, "inconclusive"),
        # the interval, widened by the tolerance, holds the theorem's number
        (0.86, 0.9375, 0.875, None, "consistent"),
        (0.86, 0.9374, 0.875, None, EARLY),
        (0.92, 0.96, 0.9375, None, "consistent"),
        # the exact number lies in the theorem's region: no reason to be off
        (0.89, 0.93, 0.9375, None, "inconclusive"),
        (0.875, 0.90, 0.9375, None, "inconsistent"),
        # an upper limit: below it nothing is early
        (0.79, 0.82, 0.8125, 0.0, "consistent"),
        (1.19, 1.22, 1.2, 0.0, EARLY),
        (0.97, np.inf, 0.8125, None, "inconclusive"),
    ],
)
def test_a_theorem_has_a_verdict_of_its_own(
    low: float, high: float, exact: float, floor: float | None, expected: str
) -> None:
    measured = Measurement((low + high) / 2, low, high)
    assert theorem_verdict(measured, 1.0, exact, 0.0625, floor=floor) == expected
    if math.isnan(exact):
        assert verdict(measured, 1.0, 0.0625, floor=floor) == expected


def _words(found: Floats, half: float, exact: float) -> list[str]:
    intervals = [Measurement(x, x - half, x + half) for x in found.tolist()]
    return [theorem_verdict(one, 1.0, exact, 0.1) for one in intervals]


def test_false_alarms_about_theorems_are_as_rare_as_stated() -> None:
    """On 5,000 normal intervals, with exact numbers at several distances from the theorem's.

    Of these, a rate of 1/40 is seen above 0.038 with probability 2e-8.
    """
    rng = np.random.default_rng(7)
    for off, sd in ((0.05, 0.02), (0.15, 0.02), (0.15, 0.06), (0.3, 0.04)):
        noise, half = sd * rng.standard_normal(5_000), 1.96 * sd

        # the exact number is the truth: an interval of twice the width has to miss it
        far = (np.abs(noise) > 2 * half).sum()
        assert _words(1 + off + noise, half, 1 + off).count("inconsistent") <= far
        # the theorem's number is the truth, or one at the other end of the exact one's region
        for truth, word in ((1.0, EARLY), (1.1 + off, EARLY), (1.3, "consistent")):
            assert _words(truth + noise, half, 1 + off).count(word) <= 0.038 * len(noise)


@pytest.mark.parametrize(
    ("keys", "number", "variable", "at_most"),
    [
        ({"variable": "epsilon", "exponent": -1}, 1, "epsilon", False),
        ({"variable": "m", "exponent": -0.5}, 0.5, "m", False),
        ({"variable": "d", "exponent": 0.5}, 0.5, "d", False),
        ({"variable": "n", "exponent": -1}, -1, "n", False),
        ({"constant": 1.2}, 1.2, "limit", False),
        ({"limit": 1.2}, 1.2, "limit", True),
    ],
)
def test_a_theorem_of_ones_own(
    keys: dict[str, Any], number: float, variable: str, at_most: bool
) -> None:
    statement = OwnTheorem(source="mine", metric="rmse", **keys).statement
    assert statement.predicted(2.0) == number
    assert (statement.source, statement.metric) == ("mine", "rmse")
    assert (statement.variable, statement.at_most) == (variable, at_most)
    assert statement.subject == "theorem"


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "give one of exponent, constant and limit"),
        ({"constant": 1, "limit": 1}, "give one of exponent, constant and limit"),
        ({"exponent": 1}, "an exponent needs a variable"),
        ({"limit": 1, "variable": "d"}, "an exponent needs a variable"),
        ({"exponent": 1, "variable": "epsilo"}, "did you mean 'epsilon'"),
        ({"exponent": 1, "variable": "alpha"}, "choose from n,"),
        ({"limit": 1, "metric": "q9"}, "did you mean 'q90'"),
        ({"limit": 1, "variables": "d"}, "variables: no such key"),
    ],
)
def test_a_theorem_of_ones_own_is_checked(keys: dict[str, Any], message: str) -> None:
    spec = {"theorem": {"source": "mine", **keys}, "tolerance": 0.1, "reason": "none"}
    with pytest.raises(ConfigError, match=message) as error:
        build_claim(spec, "sweep.claims.mine")
    assert str(error.value).startswith("sweep.claims.mine.theorem")


def test_a_headline_counts_theorems_numbers_at_their_n_and_code_apart() -> None:
    def row(of_theorem: Any, here: str, exact: float, checks: str = "theorem") -> dict[str, Any]:
        names = ("theorem_verdict", "verdict", "exact_at_run_n", "checks")
        return dict(zip(names, (of_theorem, here, exact, checks), strict=True))

    good, alone = "consistent", row("inconclusive", "inconclusive", math.nan)
    code = row(math.nan, "inconsistent", math.nan, "code")
    rows = [row(EARLY, good, 0.8), row(EARLY, good, 0.8), row(good, good, 0.99), alone, code]
    assert count_claim_verdicts(rows) == [
        "theorems: 1 consistent, 2 pre-asymptotic, 1 inconclusive",
        "of these, at these n: 3 consistent",
        "checks of the code: 1 inconsistent",
    ]
    assert count_claim_verdicts([alone]) == ["theorems: 1 inconclusive"]
    assert count_claim_verdicts([code]) == ["checks of the code: 1 inconsistent"]
    assert count_claim_verdicts([]) == []


def test_only_what_a_claim_is_about_counts() -> None:
    one = Made(families={"coin": COIN, "other": {**COIN, "p": 0.4}}, estimators=TWO, n=GRID[::4],
               budgets=pure_budgets(0.5, 1.0), trials=40)  # fmt: skip

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


@pytest.mark.parametrize(
    ("theorem", "least"),
    [
        ("clipping_bias", 36),
        ("noise_ratio", 36),
        ("near_optimal", 36),
        ("heavy_tail_guarantee", 72),
    ],
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
    "additive": {"kind": "l2_clipped_mean", "radius": 1},
    "scaled": {"kind": "l2_clipped_mean", "radius": [0.5, 2, 1e6]},
    "l2": {"kind": "l2_clipped_mean", "radius": 1, "mechanism": "l2"},
    "mean": {"kind": "empirical_mean"},
}
BOTH = {"pure": {"kind": "pure_dp", "epsilon": 1}, "zcdp": {"kind": "zcdp", "rho": 0.5}}
CUBES: dict[str, Any] = {"theorem": "pure_dimension", "families": "cube", "estimators": "additive",
                         "budgets": "pure", "tolerance": 0.1, "reason": "test"}  # fmt: skip
RATIO: dict[str, Any] = {"theorem": "noise_ratio", "predicted": 1.4,
                         "estimators": ["additive", "l2"]}  # fmt: skip
FREE = {"theorem": "naive_radius", "alpha": 1.0, "families": None, "budgets": None}
SCALED = {**RATIO, "estimators": None, "denominator": "scaled"}


@functools.cache
def vectors() -> Made:
    return Made(bounds=True, families=FAMILIES, estimators=ESTIMATORS, budgets=BOTH)


@functools.cache
def numbers() -> Made:
    mean = {"kind": "karwa_vadhan_mean", "sigma": 1, "radius": [None, 10, 1000]}
    families = {"numbers": {"kind": "gaussian", "location": 1}}
    return Made(families=families, budgets=DELTAS, estimators={"free": mean})


def _check(made: Made, **changes: Any) -> None:
    claim = build_claim({**CUBES, **changes}, "sweep.claims.c")
    claim.check(made.sweep, made.keys, "sweep.claims.c")


def test_claims_that_can_be_tested_are_let_pass() -> None:
    _check(vectors())
    _check(vectors(), theorem="core_norm", families="gaussian")
    _check(vectors(), theorem="ball_radius", estimators=["scaled"])
    _check(vectors(), **RATIO, denominator="l2")
    _check(vectors(), **RATIO, denominator="additive", families="zero", n_min=1000)
    _check(vectors(), **{**SCALED, "estimators": {"additive": {}, "scaled": {"radius": 2}}})
    _check(numbers(), **FREE, estimators={"free": {"radius": {"low": 1}}})


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
         ": the sweep runs nothing that the claim selects"),
        ({"theorem": "cover_alpha"}, ".families: 'cube_d4': the theorem needs its moment order"),
        ({"theorem": "near_optimal"}, ".families: 'cube_d4': no lower bound is known for it"),
        ({**RATIO, "denominator": "nope"},
         ".denominator: 'nope': not among the claim's estimators"),
        ({**RATIO, "denominator": "l2", "estimators": "l2"},
         ".denominator: 'l2': no other estimator to put over it"),
        ({**RATIO, "denominator": "l2", "budgets": None},
         ".denominator: 'l2': it does not run on cube_d4 at n = 100 under zcdp, as additive does"),
        (SCALED, ".denominator: 'scaled': scaled_radius0.5, scaled_radius1e+06, scaled_radius2: "
                 "choose one of these by its values"),
        ({"theorem": "ball_radius", "estimators": "free", "families": None, "budgets": None},
         ": free_radius_None has no radius; leave it out"),
        ({"theorem": "core_norm", "estimators": "free", "families": None, "budgets": None},
         ": the sweep gives no list of values for norm"),
    ],
)  # fmt: skip
def test_claims_that_nothing_speaks_about_are_refused(changes: dict[str, Any], line: str) -> None:
    with pytest.raises(ConfigError) as caught:
        _check(numbers() if changes.get("estimators") == "free" else vectors(), **changes)
    assert str(caught.value).replace("d16", "d4") == f"sweep.claims.c{line}"


@pytest.mark.parametrize("metric", ["failure_rate", "trimmed_mean_error"])
def test_what_cannot_be_resampled_is_no_claim(monkeypatch: pytest.MonkeyPatch, metric: str) -> None:
    theorem = Theorem("here", "limit", lambda k: 0.1, metric, at_most=True)
    monkeypatch.setitem(THEOREMS, "own", theorem)
    with pytest.raises(
        ConfigError, match=f"c.theorem: 'own': no claim can test the metric {metric}$"
    ):
        _check(vectors(), theorem="own")


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
        ({"theorem": "noise_ratio", "predicted": 1.0}, r"c\.denominator: this key is required"),
        ({"theorem": "naive_radius"}, r"c\.alpha: this key is required"),
        ({"theorem": "coarse_delta", "alpha": [1.0, 2.0]}, r"c\.alpha: .*"),
        ({"predicted": 3.0}, r"c: predicted is only for theorems without a number .*"),
        ({"theorem": "range_outside", "predicted": math.nan}, r"c\.predicted: nan: .*"),
        ({"theorem": "range_outside"},
         r"c: predicted is only for .*: within, range_outside, analytic_delta, noise_ratio, "
         r"discard_ratio, core_weight, bounds_share, inverse_ratio, polyplace_ratio, depth_ratio, "
         r"sum_and_count, hourglass_gain, column_shares, noise_for_vectors, entry_noise, "
         r"two_regimes"),
    ],
)  # fmt: skip
def test_claims_that_say_too_little_or_too_much_are_refused(
    options: dict[str, Any], line: str
) -> None:
    with pytest.raises(ConfigError, match=f"^{line}$"):
        build_claim({**CUBES, **options}, "c")
