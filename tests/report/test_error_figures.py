"""Figures against n, the dimension, a budget, a norm, rounds: lines, guides, slopes of theory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from dpbench.analysis.result import Result
from dpbench.output.style import spaced
from dpbench.report.error_figures import GUIDES
from tests.report.conftest import assert_refused, curves, drawn, lines
from tests.report.test_figures import ERROR

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
ADDED = "family.str.startswith('cube') and estimator == 'additive'"
FRIENDS = "estimator == 'friendly' and delta == 1e-6"
# A sweep, a figure, what its axes are, and by panel and line the rows of the summary.
CASES: list[tuple[str, dict[str, Any], tuple[str, ...], dict[str, dict[str, str]]]] = [
    (  # budgets and sizes have a line each, whose labels say nothing that they share
        "vectors",
        {**CUBE, "budgets": {"pure": {}, "zcdp": {}}, "n": [100, 300]},
        ("dimension $d$", "log", "log"),
        {"": {f"additive, {words}, $n = {n}$": f"{ADDED} and n == {n} and {which}"
              for n in (100, 300)
              for words, which in {
                  r"pure DP, $\varepsilon = 0.5$": "privacy == 'pure' and epsilon == 0.5",
                  r"pure DP, $\varepsilon = 1$": "privacy == 'pure' and epsilon == 1",
                  "zCDP": "privacy == 'zcdp'"}.items()}},
    ),
    (  # the mean has no delta
        "vectors",
        {**DELTA, "budgets": ["approx", "classical"], "estimators": ["additive", "mean"]},
        (r"$\ln(1/\delta)$", "log", "log"),
        {"": {f"additive, approximate DP{words}": f"{ADDED} and d == 16 and n == 300 and {which}"
              for words, which in {"": "privacy == 'approx'",
                                   ", classical": "privacy == 'approx_classical'"}.items()}},
    ),
    (  # the mean is exact, and the axis logarithmic all the same
        "vectors", {**CUBE, "estimators": ["additive", "mean"], "metrics": ["mean_error"]},
        ("dimension $d$", "log", "log"),
        {"": {"additive": f"{ADDED} and n == 300 and privacy == 'pure' and epsilon == 1",
              "mean": "family.str.startswith('cube') and estimator == 'mean' and n == 300"}},
    ),
    (  # a panel for each family that differs otherwise
        "vectors", {**RADIUS, "families": {"cube": {"d": [4, 64]}}}, ("$R$", "log", "log"),
        {f"cube, $d = {d}$": {"scaled": f"d == {d} and privacy == 'zcdp' and n == 300 and "
                                        "estimator.str.startswith('scaled')"} for d in (4, 64)},
    ),
    (
        "vectors", NORM, (r"$\|\mu\|$", "log", "log"),
        {"": {"friendly": f"{FRIENDS} and family.str.startswith('gaussian')"}},
    ),
    (  # failures are gaps
        "vectors", FAR, (r"share of outliers $\eta$", "linear", "log"),
        {"": {"friendly": f"{FRIENDS} and d == 3 and eta >= 0"}},
    ),
    (
        "vectors", {**FAR, "metrics": ["failure_rate"]},
        (r"share of outliers $\eta$", "linear", "linear"),
        {"": {"friendly": f"{FRIENDS} and d == 3 and eta >= 0"}},
    ),
    (  # a column that only some estimators have
        "numbers", {**ROUNDS, "metrics": ["width_q50"], "logarithmic": False},
        ("rounds", "linear", "log"),
        {spaced(family): {f"shrinking, $n = {n}$": f"family == '{family}' and n == {n} and "
                                                   "privacy == 'zcdp' and rounds > 0"
                          for n in (300, 1000)}
         for family in ("gaussian", "student")},
    ),
    (  # what has no privacy is in all panels
        "numbers",
        {**ERROR, "families": "gaussian", "estimators": {"naive": {"radius": 10}, "mean": {}},
         "budgets": {"pure": {}, "approx": {"delta": 1e-6}}, "by": "budget"},
        ("$n$", "log", "log"),
        {words: {"mean": "family == 'gaussian' and estimator == 'mean'",
                 "naive, $R = 10$":
                     f"family == 'gaussian' and estimator == 'naive_radius10' and {which}"}
         for words, which in {
             r"pure DP, $\varepsilon = 0.5$": "privacy == 'pure' and epsilon == 0.5",
             r"pure DP, $\varepsilon = 1$": "privacy == 'pure' and epsilon == 1",
             r"approximate DP, $\varepsilon = 1$, $\delta = 10^{-6}$": "delta == 1e-6"}.items()},
    ),
    (
        "numbers", {**ERROR, "by": "family", "metric": "miss_rate"}, ("$n$", "log", "linear"),
        {spaced(family): {f"shrinking, $t = {t}$": f"family == '{family}' and rounds == {t} and "
                                                   "privacy == 'pure' and epsilon == 1"
                          for t in (1, 2, 4)}
         for family in ("gaussian", "student")},
    ),
]  # fmt: skip


@pytest.mark.parametrize(("sweep", "spec", "axes", "panels"), CASES)
def test_lines_are_what_the_summary_says(
    request: pytest.FixtureRequest, sweep: str, spec: Any, axes: Any, panels: Any
) -> None:
    result: Result = request.getfixturevalue(sweep)
    across, metric = spec.get("parameter", "n"), spec.get("metric", "q90")
    (metric,) = spec.get("metrics", [metric])
    shown = drawn(result, spec)
    assert [ax.get_title() for ax in shown] == list(panels)
    for ax, queries in zip(shown, panels.values(), strict=True):
        assert (ax.get_xlabel(), ax.get_xscale(), ax.get_yscale()) == axes
        wanted = {}
        for label, query in queries.items():
            points = result.summary.query(query, engine="python").replace(np.inf, np.nan)
            x = -np.log(points["delta"]) if across == "delta" else points[across]
            points = points.assign(x=x).sort_values("x")
            wanted[label] = (points["x"].tolist(), points[metric].tolist())
            assert len(points) > 1
        np.testing.assert_equal(curves(ax), wanted)
        legend = {text.get_text() for text in ax.figure.legends[0].get_texts()}
        assert legend - {"slope by theory", "lower bound"} == set(wanted)


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
        ({"guides": ["x"]}, ["figure.guides", "'x'", "'approx'"]),
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
