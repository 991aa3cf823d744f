"""Figures against the dimension, a budget, a norm, rounds: lines, guides, slopes of theory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.report.error_figures import GUIDES
from dpbench.result import Result

from .conftest import assert_refused, curves, drawn, lines, rows

CUBE: dict[str, Any] = {
    "kind": "against_parameter", "parameter": "d", "families": "cube", "estimators": "additive",
    "budgets": {"pure": {"epsilon": 1}}, "n": 300,
}  # fmt: skip
DELTAS = [1e-4, 1e-6, 1e-9]
D3 = {"cluster": {"d": 3}}
FAR = {**CUBE, "parameter": "eta", "families": D3, "estimators": "friendly", "logarithmic": False}
FAR |= {"budgets": {"approx": {"delta": 1e-6}}}
NORM = {**FAR, "parameter": "norm", "families": "gaussian", "logarithmic": True}
RADIUS = {**CUBE, "parameter": "radius", "estimators": "scaled", "budgets": "zcdp"}
DELTA = {**CUBE, "parameter": "delta", "families": {"cube": {"d": 16}}}
ROUNDS = {**CUBE, "parameter": "rounds", "families": ["gaussian", "student"]}
ROUNDS |= {"estimators": "shrinking", "budgets": "zcdp", "n": [300, 1000]}


def ordered(table: pd.DataFrame, by: str, metric: str = "q90") -> tuple[list[float], list[float]]:
    """What a line has to show: a column against a parameter, failures as gaps."""
    points = table.sort_values(by)
    return points[by].tolist(), points[metric].replace(np.inf, np.nan).tolist()


def test_several_budgets_and_sizes_have_a_line_each(vectors: Result) -> None:
    """Their labels tell them apart, and say nothing that they share."""
    budgets = {"pure": {}, "zcdp": {}, "approx": {"delta": 1e-6}, "classical": {"delta": 1e-6}}
    spec = {**CUBE, "budgets": budgets, "n": [100, 300], "estimators": ["additive", "mean"]}
    (ax,) = drawn(vectors, {**spec, "metrics": ["mean_error"], "guides": ["pure"]})
    assert (ax.get_title(), ax.get_xlabel(), ax.get_xscale()) == ("", "dimension $d$", "log")
    cases: dict[str, dict[str, Any]] = {
        r"additive, pure DP, $\varepsilon = 0.5$": {"privacy": "pure", "epsilon": 0.5},
        r"additive, pure DP, $\varepsilon = 1$": {"privacy": "pure", "epsilon": 1.0},
        "additive, zCDP": {"privacy": "zcdp"},
        r"additive, approximate DP, $\varepsilon = 1$": {"privacy": "approx", "delta": 1e-6},
        r"additive, approximate DP, classical, $\varepsilon = 1$":
            {"privacy": "approx_classical", "delta": 1e-6},
        "mean": {"privacy": "none"},
    }  # fmt: skip
    wanted = {}
    for words, about in cases.items():
        for n in (100, 300):
            at = rows(vectors, estimator=words.partition(",")[0], n=n, **about)
            at = at[at["family"].str.startswith("cube")]
            wanted[f"{words}, $n = {n}$"] = ordered(at, "d", "mean_error")
    assert curves(ax) == wanted
    assert ax.get_yscale() == "log"  # though the empirical mean of these data is exact
    assert curves(ax)["mean, $n = 100$"][1] == [0, 0, 0]
    (shown,) = ax.figure.legends
    texts = [text.get_text() for text in shown.get_texts()]
    assert sorted(texts) == sorted({*wanted, "slope by theory", GUIDES["pure"].label})


def test_errors_against_delta(vectors: Result) -> None:
    spec = {**DELTA, "budgets": ["approx", "classical"], "estimators": ["additive", "mean"]}
    (ax,) = drawn(vectors, spec)
    assert ax.get_xlabel() == r"$\ln(1/\delta)$"
    found = curves(ax)  # the mean has no delta
    labels = {"additive, approximate DP": "approx"}
    labels |= {"additive, approximate DP, classical": "approx_classical"}
    assert set(found) == set(labels)
    for label, privacy in labels.items():
        at = rows(vectors, family="cube_d16", estimator="additive", privacy=privacy, n=300)
        wanted = dict(zip(-np.log(at["delta"]), at["q90"], strict=True))
        assert dict(zip(*found[label], strict=True)) == wanted


def test_a_parameter_of_estimators_or_of_families(vectors: Result) -> None:
    """A panel for each family that differs otherwise."""
    axes = drawn(vectors, {**RADIUS, "families": {"cube": {"d": [4, 64]}}})
    for ax, d in zip(axes, (4, 64), strict=True):
        assert (ax.get_title(), ax.get_xlabel()) == (f"cube, $d = {d}$", "$R$")
        at = rows(vectors, d=d, privacy="zcdp", n=300).query("estimator != 'additive'")
        assert curves(ax) == {"scaled": ordered(at, "radius")}
    (ax,) = drawn(vectors, NORM)
    assert ax.get_xlabel() == r"$\|\mu\|$"
    at = rows(vectors, estimator="friendly", delta=1e-6)
    at = at[at["family"].str.startswith("gaussian")]
    assert curves(ax) == {"friendly": ordered(at, "norm")}
    axes = drawn(vectors, {**FAR, "parameter": "d", "families": "cluster"})
    titles = [rf"cluster, $\eta = {eta}$" for eta in (0, 0.1, 0.2, 0.6)]
    assert [ax.get_title() for ax in axes] == titles


def test_failures_are_gaps_and_shares_have_a_linear_axis(vectors: Result) -> None:
    """Without outliers all is released, with a share 0.6 of them hardly anything."""
    errors, core, failures = drawn(vectors, {**FAR, "metrics": ["q90", "core_q50", "failure_rate"]})
    at = rows(vectors, estimator="friendly", delta=1e-6, d=3).dropna(subset="eta")
    x, y = curves(errors)["friendly"]
    np.testing.assert_array_equal([x, y], ordered(at, "eta"))
    assert not np.isnan(y[0])
    assert np.isnan(y[3])
    assert errors.get_yscale() == "log"
    for ax, metric in ((core, "core_q50"), (failures, "failure_rate")):
        known = at.dropna(subset=metric)
        assert curves(ax) == {"friendly": ordered(known, "eta", metric)}
        assert (ax.get_xscale(), ax.get_yscale()) == ("linear", "linear")


def test_rounds_of_intervals(numbers: Result) -> None:
    """Columns that only some estimators have: three metrics on two families at two n."""
    metrics = ["q90", "width_q50", "miss_rate"]
    axes = drawn(numbers, {**ROUNDS, "metrics": metrics, "logarithmic": False})
    cases = [(metric, family) for metric in metrics for family in ("gaussian", "student")]
    for ax, (metric, family) in zip(axes, cases, strict=True):
        assert ax.get_title() == family
        assert ax.get_xticks().tolist() == [1, 2, 4]
        assert ax.get_yscale() == ("linear" if metric == "miss_rate" else "log")
        at = rows(numbers, family=family, privacy="zcdp").dropna(subset="rounds")
        wanted = {f"shrinking, $n = {n}$": ordered(at[at["n"] == n], "rounds", metric)
                  for n in (300, 1000)}  # fmt: skip
        assert curves(ax) == wanted


# Guides.


def test_guides_follow_their_formulas(vectors: Result) -> None:
    """A line for each epsilon, delta and n that is shown, and each once."""
    spec = {**CUBE, "budgets": ["pure", "approx", "classical"], "n": [100, 300]}
    (ax,) = drawn(vectors, {**spec, "guides": ["pure", "approx"]})
    sizes, ds = (100, 300), (4, 16, 64)
    pure = [[d / (n * epsilon) for d in ds] for n in sizes for epsilon in (0.5, 1)]
    approx = [[np.sqrt(-d * np.log(x)) / n for d in ds] for n in sizes for x in DELTAS]
    for name, wanted in (("pure", pure), ("approx", approx)):
        found = lines(ax, GUIDES[name].label)
        assert all(x == [4, 16, 64] for _, x, _ in found)
        np.testing.assert_allclose(sorted(y for *_, y in found), sorted(wanted), rtol=1e-12)
    (ax,) = drawn(vectors, {**DELTA, "budgets": "approx", "guides": ["approx"]})
    ((_, x, y),) = lines(ax, GUIDES["approx"].label)
    assert sorted(x) == pytest.approx(sorted(-np.log(DELTAS)))
    assert y == pytest.approx([4 * np.sqrt(value) / 300 for value in x])


def test_a_guide_for_the_core(vectors: Result) -> None:
    """Of 300 records, at most 120 outliers: what is measured is near, and no guide is."""
    (ax,) = drawn(vectors, {**FAR, "metrics": ["core_q50"], "guides": ["core"]})
    ((_, x, y),) = lines(ax, GUIDES["core"].label)
    assert x == [0, 0.1, 0.2, 0.6]
    # (1-eta) n friends, with weight 2 (1-eta) - 1 each, if they are more than half
    assert y == pytest.approx([1, 0.9 * 0.8, 0.8 * 0.6, 0])
    # The median of 40 shares of outliers has a standard error of 0.005, and the core 3.4 times
    # as much: 0.12 are 7 of these, a false alarm of 1e-11.
    measured = curves(ax)["friendly"][1]
    assert measured[:3] == pytest.approx(y[:3], abs=0.12)
    assert measured[0] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"guides": ["x"]}, ["figure.guides", "'x'", "pure, approx, core"]),
        ({**RADIUS, "guides": ["pure"]}, ["figure.guides", "'pure'", "d, n, epsilon"]),
        ({"parameter": "x"}, ["figure.parameter", "'x'", "norm"]),
        ({"parameter": "norm"}, ["figure.estimators", "'additive'", "norm"]),
        ({"parameter": "rho"}, ["figure", "rho"]),  # no budget has one: an empty figure
        ({"parameter": "delta", "budgets": ["pure", "approx"]}, ["figure.budgets", "'pure'"]),
        ({"n": [100, 200]}, ["figure.n", "200"]),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    vectors: Result, changes: dict[str, Any], words: list[str]
) -> None:
    assert_refused(vectors, {**CUBE, **changes}, words)


# Slopes.

MEAN = {"metrics": ["mean_error"]}


@pytest.mark.parametrize(
    ("spec", "slope"),
    [
        ({**CUBE, **MEAN, "budgets": {"pure": {"epsilon": 0.5}}}, 1.0),
        ({**CUBE, **MEAN, "budgets": "zcdp"}, 0.5),
        ({**RADIUS, "families": {"cube": {"d": 4}}}, 1.0),
        ({**DELTA, "budgets": "classical"}, 0.5),
        (NORM, 0.0),
    ],
)
def test_slopes_go_through_the_geometric_mean(
    vectors: Result, spec: dict[str, Any], slope: float
) -> None:
    (ax,) = drawn(vectors, spec)
    ((x, y),) = curves(ax).values()
    ((_, at, theory),) = lines(ax, "slope by theory")
    assert at == x
    steps = np.diff(np.log(theory)) / np.diff(np.log(x))
    np.testing.assert_allclose(steps, slope, atol=1e-9)
    assert np.mean(np.log(theory)) == pytest.approx(np.mean(np.log(y)), abs=1e-9)


@pytest.mark.parametrize(
    "spec",
    [
        CUBE,  # the claim is about the mean error
        {**CUBE, "metrics": ["private_q90"]},  # this claim's exponent is n's, not the error's
        {**CUBE, **MEAN, "budgets": {"approx": {"delta": 1e-6}}},
        {**NORM, "estimators": "friendly_low"},  # it is not `friendly`
    ],
)
def test_no_slope_is_drawn_that_no_claim_predicts(vectors: Result, spec: dict[str, Any]) -> None:
    for ax in drawn(vectors, spec):
        assert curves(ax)
        assert lines(ax, "slope by theory") == []


def test_a_slope_passes_over_failures(vectors: Result) -> None:
    summary = vectors.summary.copy()
    at = summary["family"].eq("gaussian_norm1000") & summary["estimator"].eq("friendly")
    summary.loc[at, "q90"] = np.inf
    (ax,) = drawn(dataclasses.replace(vectors, summary=summary), NORM)
    _, y = curves(ax)["friendly"]
    assert np.isnan(y).tolist() == [False, True, False]
    ((_, x, theory),) = lines(ax, "slope by theory")
    assert x == [1, 1e6]
    assert theory == pytest.approx([np.sqrt(y[0] * y[2])] * 2)
