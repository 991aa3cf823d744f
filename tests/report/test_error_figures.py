"""Figures against n, the dimension, a budget, a norm, rounds: lines, guides, slopes of theory."""

from __future__ import annotations

import dataclasses
import itertools
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.figure import Figure
from matplotlib.text import Text
from scipy.stats import beta

import dpbench
from dpbench.estimators import Estimator
from dpbench.output.names import display_name
from dpbench.privacy import PureDP
from dpbench.report import parameter_figures
from dpbench.report.drawing.style import save, style
from dpbench.report.error_curves import ABOVE, BELOW, axis_scale
from dpbench.report.error_figures import BOUND_LABEL, OVER, ErrorAgainstN
from dpbench.report.parameter_figures import GUIDES
from dpbench.report.run_result import Result
from dpbench.theory.families import TwoPointFamily
from tests.report.conftest import TRIALS, assert_refused, curves, drawn, lines, rows
from tests.report.specs import ACCURACY, ERROR, PAID, THRESHOLD

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
              "mean, without privacy":
                  "family.str.startswith('cube') and estimator == 'mean' and n == 300"}},
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
        {display_name(family): {f"shrinking, $n = {n}$": f"family == '{family}' and n == {n} and "
                                                   "privacy == 'zcdp' and rounds > 0"
                          for n in (300, 1000)}
         for family in ("gaussian", "student")},
    ),
    (  # what has no privacy is in all panels
        "numbers",
        {**ERROR, "families": "gaussian", "estimators": {"naive": {"radius": 10}, "mean": {}},
         "budgets": {"pure": {}, "approx": {"delta": 1e-6}}, "columns": "budget"},
        ("$n$", "log", "log"),
        {words: {"mean, without privacy": "family == 'gaussian' and estimator == 'mean'",
                 "naive, $R = 10$":
                     f"family == 'gaussian' and estimator == 'naive_radius10' and {which}"}
         for words, which in {
             r"pure DP, $\varepsilon = 0.5$": "privacy == 'pure' and epsilon == 0.5",
             r"pure DP, $\varepsilon = 1$": "privacy == 'pure' and epsilon == 1",
             r"approximate DP, $\varepsilon = 1$, $\delta = 10^{-6}$": "delta == 1e-6"}.items()},
    ),
    (
        "numbers", {**ERROR, "columns": "family", "metric": "miss_rate"}, ("$n$", "log", "linear"),
        {display_name(family): {f"shrinking, $t = {t}$": f"family == '{family}' and rounds == {t} "
                                                         "and privacy == 'pure' and epsilon == 1"
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
            if axes[2] == "log":  # zero lies below the frame
                points[metric] = points[metric].replace(0.0, np.nan)
            x = -np.log(points["delta"]) if across == "delta" else points[across]
            points = points.assign(x=x).sort_values("x")
            wanted[label] = (points["x"].tolist(), points[metric].tolist())
            assert len(points) > 1
        np.testing.assert_equal(curves(ax), wanted)
        legend = {text.get_text() for text in ax.figure.legends[0].get_texts()}
        assert legend - {"slope by theory", "limit by theory", BOUND_LABEL, BELOW} == set(wanted)


def test_an_estimator_without_the_parameter_is_a_level_line(vectors: Result) -> None:
    spec = {**RADIUS, "families": {"cube": {"d": 4}}, "estimators": ["scaled", "additive"]}
    (ax,) = drawn(vectors, {**spec, "level": ["additive"]})
    about = {"estimator": "additive", "family": "cube_d4", "privacy": "zcdp", "n": 300}
    (height,) = rows(vectors, **about)["q90"]
    x, y = curves(ax)["additive"]
    radii = curves(ax)["scaled"][0]
    assert len(radii) > 1
    assert (x, y) == ([min(radii), max(radii)], [height, height])
    spec["estimators"] = ["scaled", "mean"]
    assert_refused(vectors, spec, ["figure.estimators", "'mean'", "radius"])
    assert_refused(vectors, {**spec, "level": ["x"]}, ["figure.level", "'x'", "scaled"])


# Guides.


def test_guides_follow_their_formulas(vectors: Result) -> None:
    """A line for each epsilon, delta and n that is shown, and each once."""
    spec = {**CUBE, "budgets": ["pure", "approx", "classical"], "n": [100, 300]}
    spec |= {"columns": "estimator"}  # a panel for all curves
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


def test_guides_by_hand() -> None:
    """At d = 4, n = 10, epsilon = 2 and ln(1/delta) = 9; half of the records may not be far."""
    about: dict[str, Any] = {"d": np.array([4.0]), "n": 10, "epsilon": 2.0}
    assert GUIDES["pure"].formula(**about) == pytest.approx(4 / 20)
    assert GUIDES["approx"].formula(**about, delta=np.exp(-9)) == pytest.approx(6 / 20)
    assert GUIDES["core"].formula(eta=np.array([0.1, 0.6])) == pytest.approx([0.9 * 0.8, 0.0])


def test_a_guide_for_the_core(vectors: Result) -> None:
    """Of 300 records, at most 120 outliers: what is measured is near, and no guide is."""
    (ax,) = drawn(vectors, {**FAR, "metrics": ["core_fraction_q50"], "guides": ["core"]})
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
        {**CUBE, "metrics": ["privacy_cost_q90"]},  # this claim's exponent is n's, not the error's
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


def bands(ax: Axes) -> dict[tuple[float, ...], tuple[list[float], list[float]]]:
    """The lower and upper ends of every band, by its colour."""
    found = {}
    for band in ax.collections:
        points = np.asarray(band.get_paths()[0].vertices)
        x = np.unique(points[:, 0])
        ends = [[f(points[points[:, 0] == one, 1]) for one in x] for f in (np.min, np.max)]
        found[tuple(np.ravel(band.get_facecolor())[:3].tolist())] = (ends[0], ends[1])
    return found


# Errors against n.


def test_a_panel_for_each_moment_order_with_its_bound(numbers: Result) -> None:
    """What is measured is the worst member's, with its band and the slope of theory."""
    axes = drawn(numbers, {**ERROR, "families": "pair", "estimators": "minimax"})
    for ax, k in zip(axes, (2, 3), strict=True):
        assert ax.get_title() == f"$k = {k}$"
        about = {"family": f"pair_k{k}", "estimator": "minimax", "privacy": "pure", "epsilon": 1}
        at = rows(numbers, **about)
        worst = at.loc[at.groupby("n")["q90"].idxmax()]
        assert len(worst) == 3 < len(at)
        assert curves(ax) == {"minimax": (worst["n"].tolist(), worst["q90"].tolist())}
        ((_, x, bound),) = lines(ax, BOUND_LABEL)
        assert (x, bound) == (worst["n"].tolist(), at.groupby("n")["lower_bound"].max().tolist())
        (line,) = (one for one in ax.get_lines() if one.get_label() == "minimax")
        ends = (worst["q90_low"].tolist(), worst["q90_high"].tolist())
        assert bands(ax)[to_rgb(line.get_color())] == ends
        # The claim is about n >= 1e6: n ~ (1/alpha)^(k/(k-1)).
        ((_, x, theory),) = lines(ax, "slope by theory")
        assert x == [1e6, 1e8]
        assert np.log(theory[1] / theory[0]) == pytest.approx(-np.log(100) * (k - 1) / k)
        inside = np.log(worst["q90"][worst["n"] >= 1e6])
        assert np.mean(np.log(theory)) == pytest.approx(inside.mean())
        low, high = ax.get_ylim()
        assert low < min(bound)
        assert high > worst["q90"].max()


MINE = """
from dpbench import Estimate, Estimator, validated

@validated
class Mine(Estimator):
    def estimate(self, sample, ledger):
        clipped = sample.clipped_mean(-4, 4)
        return Estimate(ledger.add_noise(clipped, 8 / sample.n), clipped)
"""


def test_an_added_plug_in_is_drawn_under_its_own_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "plug_in_of_mine.py").write_text(MINE)
    monkeypatch.setattr(Estimator, "_registry", dict(Estimator._registry))
    small = ["worst_case.n=[1e5,1e6]", "two_regimes.n=[1e5,1e6]", "real_tails.n=[1e3]"]
    claims = [f"~sweep.parts.{part}.claims" for part in ("worst_case", "two_regimes", "real_tails")]
    words = ["+sweep.estimators.mine={kind: mine}", "~sweep.figures", *claims]
    words += ["sweep.parts.real_tails.figures.thresholds.n=1e3"]
    words += [f"sweep.parts.{word}" for word in small]
    result = dpbench.run("quick", trials=4, n_jobs=1, plugins=["plug_in_of_mine"],
                         config_dir=tmp_path, overrides=words)  # fmt: skip
    for label in ("ratio", "worst_case", "two_regimes"):
        for ax in drawn(result, label):
            assert lines(ax, "mine"), label


RATIO = {"kind": "error_against_n", "relative": True, "budgets": PAID}


def test_errors_over_the_bound(numbers: Result) -> None:
    """The bound is the line at 1, and every curve and band is that of the errors, divided by it."""
    axes = drawn(numbers, {**RATIO, "families": "pair", "estimators": "minimax"})
    for ax, k in zip(axes, (2, 3), strict=True):
        at = rows(numbers, family=f"pair_k{k}", estimator="minimax", privacy="pure", epsilon=1)
        worst = at.loc[at.groupby("n")["q90"].idxmax()]
        assert ax.get_ylabel().replace("\n", " ") == f"error over {OVER[True]}"
        found = {label: (x, y) for label, x, y in lines(ax)}
        bound = worst["lower_bound"].to_numpy()
        assert found["lower bound"] == (worst["n"].tolist(), [1, 1, 1])
        np.testing.assert_allclose(found["minimax"][1], worst["q90"] / bound, rtol=1e-12)
        (line,) = (one for one in ax.get_lines() if one.get_label() == "minimax")
        low, high = bands(ax)[to_rgb(line.get_color())]
        np.testing.assert_allclose(low, worst["q90_low"] / bound, rtol=1e-12)
        np.testing.assert_allclose(high, worst["q90_high"] / bound, rtol=1e-12)
        assert not lines(ax, "slope by theory")


def test_errors_over_the_smallest_where_a_single_law_has_no_bound(numbers: Result) -> None:
    """A lower bound for a class says nothing of one of its laws; `mean` is not private."""
    estimators = {"naive": {}, "histogram": {"radius": 10}, "mean": {}}
    spec = {**RATIO, "families": "student", "estimators": estimators, "metric": "mean_error"}
    (ax,) = drawn(numbers, spec)
    assert ax.get_ylabel() == f"error over {OVER[False]}"
    smallest: dict[float, float] = {}
    for sizes, heights in curves(ax).values():
        for n, height in zip(sizes, heights, strict=True):
            smallest[n] = min(height, smallest.get(n, np.inf))
    assert (len(curves(ax)), smallest) == (3, dict.fromkeys((30, 100, 300, 1000, 3000), 1))
    errors: Any = rows(numbers, family="student", privacy="pure", epsilon=1).pivot_table(
        index="estimator", columns="n", values="mean_error"
    )
    naive = errors.loc["naive_radius1000"] / errors.loc[
        ["naive_radius10", "naive_radius1000", "histogram_radius10"]
    ].min()  # fmt: skip
    np.testing.assert_allclose(curves(ax)["naive, $R = 1000$"][1], naive, rtol=1e-12)


@pytest.mark.parametrize(
    ("changes", "word"),
    [({"metric": "miss_rate"}, "'miss_rate'"), ({"estimators": "mean"}, "no selected estimator")],
)
def test_what_has_no_ratio_is_refused(numbers: Result, changes: dict[str, Any], word: str) -> None:
    assert_refused(numbers, {**RATIO, **changes}, ["figure.relative", word])


def test_names_at_the_ends_do_not_overlap(numbers: Result) -> None:
    """Every name stands once a row, beside its last panel, in the colour of its line."""
    spec = {**RATIO, "families": ["gaussian", "student"], "estimators": "histogram"}
    with style():
        canvas = numbers.figure(spec | {"columns": "family"})
        canvas.draw_without_rendering()
        assert [text.get_text() for text in canvas.legends[0].get_texts()] == ["lower bound"]
        names = [text for ax in canvas.axes for text in ax.texts]
        last = canvas.axes[-1]
        assert {text.get_text().replace("\n", " ") for text in names} == {*curves(last)}
        colours = {one.get_label(): one.get_color() for one in last.get_lines()}
        assert all(
            colours[text.get_text().replace("\n", " ")] == text.get_color() for text in names
        )
        boxes = [Text.get_window_extent(text) for text in names]  # without the line to the name
        assert not any(a.overlaps(b) for a, b in itertools.combinations(boxes, 2))
        assert all(
            box.x0 > last.get_window_extent().x1 and box.x1 <= canvas.bbox.x1 for box in boxes
        )
    assert numbers.figure(spec | {"columns": "family"}, width="column").legends  # no room
    both = {**RATIO, "families": ["gaussian", "pair"], "columns": "family"}
    assert numbers.figure(both | {"estimators": ["minimax", "naive"]}).legends


def test_intervals_are_those_of_the_statistic(numbers: Result) -> None:
    spec = {**ERROR, "families": "gaussian", "estimators": {"shrinking": {"rounds": 1}}}
    at = rows(numbers, family="gaussian", estimator="shrinking_rounds1", privacy="pure", epsilon=1)
    (ax,) = drawn(numbers, {**spec, "metric": "mean_error"})
    ((low, high),) = bands(ax).values()
    half = 1.96 * at["mean_error_se"]
    np.testing.assert_allclose(low, at["mean_error"] - half, rtol=1e-12)
    np.testing.assert_allclose(high, at["mean_error"] + half, rtol=1e-12)
    (ax,) = drawn(numbers, {**spec, "metric": "miss_rate"})
    ((low, high),) = bands(ax).values()
    missed = at["miss_rate"] * TRIALS
    for found, share in ((low, 0.025), (high, 0.975)):  # Jeffreys: Beta(hits + 1/2, misses + 1/2)
        wanted = beta.ppf(share, missed + 0.5, TRIALS - missed + 0.5)
        np.testing.assert_allclose(found, wanted, rtol=1e-12)
    (ax,) = drawn(numbers, {**spec, "metric": "privacy_cost_q90"})
    assert not bands(ax)


def test_an_upper_limit_is_called_one_and_other_budgets_have_no_slope(numbers: Result) -> None:
    spec = {**ERROR, "families": "gaussian", "estimators": {"naive": {"radius": 10}}}
    pure, zcdp = drawn(numbers, {**spec, "budgets": {**PAID, "zcdp": {}}, "columns": "budget"})
    assert {label for label, _, _ in lines(pure)} == {"naive, $R = 10$", BOUND_LABEL}
    ((_, n, theory),) = lines(zcdp, "slowest slope by theory")
    assert n == [300, 1000, 3000]
    assert np.diff(np.log(theory)) == pytest.approx(-np.diff(np.log(n)) / 2)


def test_a_limit_that_claims_state_is_drawn(numbers: Result) -> None:
    (ax,) = drawn(numbers, {**ERROR, "families": "gaussian", "metric": "miss_rate"})
    ((_, _, heights),) = lines(ax, "limit by theory")
    assert heights == [0.1, 0.1]
    (ax,) = drawn(numbers, {**ERROR, "families": "gaussian", "metric": "width_q50"})
    assert not lines(ax, "limit by theory")


@pytest.mark.parametrize(("by", "metric"), [("k", "q90"), ("family", "privacy_cost_q90")])
def test_errors_up_to_1e300_leave_the_frame(
    numbers: Result, by: str, metric: str, tmp_path: Path
) -> None:
    """A search that went astray, failures, and an exact answer beside them."""
    summary = numbers.summary.copy()
    at = summary.index[summary["estimator"].isin(["histogram_radius1e+30", "minimax"])]
    summary.loc[at[::2], ["q90", "q90_high", "privacy_cost_q90"]] = 1e300
    failed = summary.index[summary["estimator"] == "histogram_radius1e+30"][1::4]
    summary.loc[failed, ["q90", "q90_high"]] = np.inf
    summary.loc[summary.index[summary["estimator"] == "mean"][0], ["q90", "q90_low"]] = 0.0
    wild = dataclasses.replace(numbers, summary=summary)
    wilder = {"families": ["gaussian", "pair"], "estimators": ["histogram", "minimax", "mean"]}
    spec = {**ERROR, **wilder, "columns": by, "metric": metric}
    for ax in drawn(wild, spec):
        low, high = ax.get_ylim()
        assert 0 < low < high < 1e30
        heights = np.concatenate([y for _, _, y in lines(ax)])
        assert high < np.nanmax(heights) < 1e40
    if by == "k":  # neither does writing it overflow
        with style():
            save(wild.figure(spec), tmp_path, "wild", ["png"])


def test_a_curve_far_above_the_others_leaves_the_frame(numbers: Result) -> None:
    """The frame is that of the other curves, and a triangle marks every n at its upper edge."""
    spec = {**ERROR, "families": "gaussian", "estimators": ["naive", "shrinking"]}
    (usual,) = drawn(numbers, spec)
    assert not lines(usual, ABOVE)
    summary: Any = numbers.summary.copy()
    summary.loc[summary["estimator"] == "naive_radius1000", ["q90", "q90_high"]] *= 1e6
    (ax,) = drawn(dataclasses.replace(numbers, summary=summary), spec)
    others = [y for label, (_, y) in curves(usual).items() if label != "naive, $R = 1000$"]
    assert ax.get_ylim()[1] == pytest.approx(2 * max(map(max, others)))
    assert lines(ax, ABOVE)
    marks = [one for one in ax.get_lines() if one.get_marker() == "^" and one.get_zorder() == 3]
    assert [np.asarray(one.get_xdata()).tolist() for one in marks] == [[30, 100, 300, 1000, 3000]]


def test_where_sampling_overtakes_privacy(regimes: Result) -> None:
    rare, coin = drawn(regimes, {"kind": "error_against_n", "columns": "family"})[::-1]
    assert not lines(rare, "sampling overtakes privacy")
    ((_, n, _),) = lines(coin, "sampling overtakes privacy")
    crossing = TwoPointFamily(k=6, c=[1], with_fair_coin=True).crossing(PureDP(0.01))
    assert n == [crossing, crossing] == pytest.approx([500_761] * 2, rel=1e-3)
    assert coin.get_xlim() == rare.get_xlim()
    early = dataclasses.replace(regimes, summary=regimes.summary.query("n < 1e6"))
    assert not lines(drawn(early, {"kind": "error_against_n"})[0], "sampling overtakes privacy")
    few = {"budgets": "pure", "metric": "privacy_cost_q90"}  # of which the bound says nothing
    assert not lines(drawn(regimes, {"kind": "error_against_n", **few})[0], BOUND_LABEL)


def test_an_infinite_bound_leaves_the_frame(regimes: Result, tmp_path: Path) -> None:
    for ax in drawn(regimes, {"kind": "error_against_n", "columns": "family"}):
        ((_, n, bound),) = lines(ax, BOUND_LABEL)
        low, high = ax.get_ylim()
        assert n == [100, 1e5, 1e7]
        assert low < bound[2] < bound[1] < high < bound[0] < np.inf
        assert high < 1e3
    infinite = regimes.summary.assign(lower_bound=np.inf)
    nowhere = dataclasses.replace(regimes, summary=infinite)
    for one in (regimes, nowhere):
        with style():
            save(one.figure({"kind": "error_against_n"}), tmp_path, "bounds", ["png"])
    assert not lines(drawn(nowhere, {"kind": "error_against_n"})[0], BOUND_LABEL)


def test_alpha_counts_standard_deviations_where_these_are_one(numbers: Result) -> None:
    assert {ax.get_xlabel() for ax in drawn(numbers, ACCURACY)} == {r"$\sigma/\alpha$"}
    (ax, *_) = drawn(numbers, THRESHOLD)
    assert ax.get_ylabel().replace("\n", " ") == r"smallest $n$ for $\alpha = 2\,\sigma$"
    (ax,) = drawn(numbers, {"kind": "thresholds", "request": "deltas", "against": "delta"})
    assert "sigma" not in ax.get_ylabel()  # one of the laws has another


def test_only_rates_and_shares_have_a_linear_axis() -> None:
    """The mean of errors that are 0 or 1 is one, small errors are none."""
    rates = pd.DataFrame({"mean_error": [0.25, 0.0], "rmse": [0.5, 0.0]})
    errors = pd.DataFrame({"mean_error": [0.25e-10, 0.0], "rmse": [0.3e-10, 0.0]})
    cases = ((rates, "mean_error"), (errors, "mean_error"), (errors, "miss_rate"), (rates, "q90"))
    scales = [axis_scale(table, metric) for table, metric in cases]
    assert scales == ["linear", "log", "linear", "log"]


def test_the_bound_of_a_panel_is_the_least_of_those_that_hold() -> None:
    """Where families of a panel have bounds of their own, each line may be down to its own."""
    table = pd.DataFrame({"n": [10, 10, 100, 100], "lower_bound": [2.0, 1.0, 0.5, 0.7]})
    table = table.assign(privacy="pure", bound_name="two-point")
    free = pd.DataFrame({"n": [10], "lower_bound": [0.1], "privacy": ["none"], "bound_name": [""]})
    canvas, ax = plt.subplots()
    ErrorAgainstN()._draw_bound(ax, pd.concat([table, free]), pd.Series([3.0]))
    plt.close(canvas)
    (line,) = ax.get_lines()
    assert np.asarray(line.get_xydata()).tolist() == [[10, 1.0], [100, 0.5]]
    assert ax.get_ylim() == (0.25, 6.0)


def test_estimators_with_one_printed_name_are_two_curves(numbers: Result) -> None:
    study = dataclasses.replace(numbers.study, names={"histogram": "mean", "naive": "mean"})
    estimators: dict[str, Any] = {"naive": {"radius": 10}, "histogram": {"radius": 10}}
    spec = {**ERROR, "families": "gaussian", "estimators": estimators}
    (ax,) = drawn(dataclasses.replace(numbers, study=study), spec)
    same = "mean, $R = 10$"
    assert {f"{same} (naive radius10)", f"{same} (histogram radius10)"} <= {*curves(ax)}


@pytest.mark.parametrize(
    ("exact", "place"),
    [([3, 1, 2], 20), ([2, 3, 4], 10), ([3, 2, 2.01], None), ([np.nan, 4, 5], 20),
     ([2, 1, np.nan], 20), ([np.nan] * 3, None)],
)  # fmt: skip
def test_the_smallest_exact_value_is_marked(
    monkeypatch: pytest.MonkeyPatch, exact: list[float], place: float | None
) -> None:
    """A star is at the measured value; a line that does not rise at its end has none."""
    monkeypatch.setattr(parameter_figures, "exact_values", lambda *_: np.array(exact, float))
    points, ax = pd.DataFrame({"x": [10, 20, 30], "rmse": [7.0, 8.0, 9.0]}), Figure().subplots()
    parameter_figures._mark_best(ax, points, "rmse", SimpleNamespace(study=None))  # type: ignore[arg-type]
    stars = [tuple(np.asarray(line.get_xydata())[0].tolist()) for line in ax.lines]
    measured = {10: 7.0, 20: 8.0}
    assert stars == ([] if place is None else [(place, measured[int(place)])])
