"""Figures of errors against n, of their parts and exponents, and of sample complexities."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.colors import to_rgb
from matplotlib.lines import Line2D
from scipy.stats import beta

import dpbench
from dpbench.analysis.factors import factors
from dpbench.analysis.result import Result
from dpbench.estimators import HeavyTailedMean
from dpbench.output.style import THEORY, save, spaced, style
from dpbench.privacy import PureDP
from dpbench.report.error_figures import ErrorAgainstN, axis_scale
from dpbench.report.words import Words
from dpbench.sweep.selection import BUDGET
from dpbench.theory.bounds.of_class import OF_VIEWS
from dpbench.theory.families import TwoPointFamily
from tests.report.conftest import TRIALS, assert_refused, curves, drawn, lines, rows

PAID = {"pure": {"epsilon": 1}}
ERROR = {"kind": "error_against_n", "families": ["gaussian", "student"], "budgets": PAID}
ACCURACY = {"kind": "sample_complexity_curves", "request": "accuracy"}
THRESHOLD = {"kind": "thresholds", "request": "threshold"}
CLIP = {
    "kind": "decomposition", "families": "pair", "estimators": "clip", "chosen": "minimax",
    "budgets": PAID, "n": 1e6,
}  # fmt: skip


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
        ((_, x, bound),) = lines(ax, "lower bound")
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
    (ax,) = drawn(numbers, {**spec, "metric": "private_q90"})
    assert not bands(ax)


def test_an_upper_limit_is_called_one_and_other_budgets_have_no_slope(numbers: Result) -> None:
    spec = {**ERROR, "families": "gaussian", "estimators": {"naive": {"radius": 10}}}
    pure, zcdp = drawn(numbers, {**spec, "budgets": {**PAID, "zcdp": {}}, "by": "budget"})
    assert {label for label, _, _ in lines(pure)} == {"naive, $R = 10$", "lower bound"}
    ((_, n, theory),) = lines(zcdp, "slowest slope by theory")
    assert n == [300, 1000, 3000]
    assert np.diff(np.log(theory)) == pytest.approx(-np.diff(np.log(n)) / 2)


@pytest.mark.parametrize(("by", "metric"), [("k", "q90"), ("family", "private_q90")])
def test_errors_up_to_1e300_leave_the_frame(
    numbers: Result, by: str, metric: str, tmp_path: Path
) -> None:
    """A search that went astray, failures, and an exact answer beside them."""
    summary = numbers.summary.copy()
    at = summary.index[summary["estimator"].isin(["histogram_radius1e+300", "minimax"])]
    summary.loc[at[::2], ["q90", "q90_high", "private_q90"]] = 1e300
    summary.loc[at[1::4], ["q90", "q90_high"]] = np.inf
    summary.loc[summary.index[summary["estimator"] == "mean"][0], ["q90", "q90_low"]] = 0.0
    wild = dataclasses.replace(numbers, summary=summary)
    wilder = {"families": ["gaussian", "pair"], "estimators": ["histogram", "minimax", "mean"]}
    spec = {**ERROR, **wilder, "by": by, "metric": metric}
    for ax in drawn(wild, spec):
        low, high = ax.get_ylim()
        assert 0 < low < high < 1e30
        heights = np.concatenate([y for _, _, y in lines(ax)])
        assert high < np.nanmax(heights) < 1e40
    if by == "k":  # neither does writing it overflow
        with style():
            save(wild.figure(spec), tmp_path, "wild", ["png"])


@pytest.fixture(scope="module")
def regimes() -> Result:
    """With all errors possible at n = 100, and sampling overtaking privacy in between."""
    family = TwoPointFamily(k=6, c=[1], sampling=True)
    spec = {
        "families": {"rare": TwoPointFamily(k=6, c=[1]), "coin": family},
        "estimators": {"minimax": HeavyTailedMean(k=6)},
        "budgets": {"pure": PureDP(0.01)},
        "parts": {"all": {"n": [100, 10**5, 10**7], "trials": 40}},
        "claims": {
            "near_optimal": {"theorem": "near_optimal", "tolerance": 1, "reason": "no number"}
        },
    }
    return dpbench.run(spec)


def test_where_sampling_overtakes_privacy(regimes: Result) -> None:
    rare, coin = drawn(regimes, {"kind": "error_against_n", "by": "family"})[::-1]
    assert not lines(rare, "sampling overtakes privacy")
    ((_, n, _),) = lines(coin, "sampling overtakes privacy")
    crossing = TwoPointFamily(k=6, c=[1], sampling=True).crossing(PureDP(0.01))
    assert n == [crossing, crossing] == pytest.approx([500_761] * 2, rel=1e-3)
    assert coin.get_xlim() == rare.get_xlim()
    early = dataclasses.replace(regimes, summary=regimes.summary.query("n < 1e6"))
    assert not lines(drawn(early, {"kind": "error_against_n"})[0], "sampling overtakes privacy")
    few = {"budgets": "pure", "metric": "private_q90"}  # of which the bound says nothing
    assert not lines(drawn(regimes, {"kind": "error_against_n", **few})[0], "lower bound")


def test_panels_are_in_the_order_of_the_numbers_in_their_names(regimes: Result) -> None:
    tables = [regimes.summary.assign(family=f"people_m{m}") for m in (1, 16, 4)]
    figure = ErrorAgainstN(by="family")
    labels = SimpleNamespace(family=str)
    titles = [title for title, _ in figure._parts(pd.concat(tables), cast("Words", labels))]
    assert titles == ["people_m1", "people_m4", "people_m16"]


def test_an_infinite_bound_leaves_the_frame(regimes: Result, tmp_path: Path) -> None:
    for ax in drawn(regimes, {"kind": "error_against_n", "by": "family"}):
        ((_, n, bound),) = lines(ax, "lower bound")
        low, high = ax.get_ylim()
        assert n == [100, 1e5, 1e7]
        assert low < bound[2] < bound[1] < high < bound[0] < np.inf
        assert high < 1e3
    infinite = regimes.summary.assign(lower_bound=np.inf)
    nowhere = dataclasses.replace(regimes, summary=infinite)
    for one in (regimes, nowhere):
        with style():
            save(one.figure({"kind": "error_against_n"}), tmp_path, "bounds", ["png"])
    assert not lines(drawn(nowhere, {"kind": "error_against_n"})[0], "lower bound")


def test_factors_are_of_the_best_estimator_and_of_finite_bounds(regimes: Result) -> None:
    assert regimes.claims["measured"].isna().all()  # over all n, the infinite bound among them
    assert set(regimes.claims["verdict"]) == {"inconclusive"}
    summary = regimes.summary
    assert set(regimes.factors["n"]) == set(summary["n"]) - {100}
    better = summary.assign(estimator="better", q90=summary["q90"] / 2, q90_high=0.0)
    found = factors(pd.concat([summary, better[better["n"] == 1e5]]))
    for one in found.to_dict("records"):
        at = summary.query(f"family == '{one['distribution']}' and n == {one['n']}")
        worst = at[["q90", "q90_high"]].max() / at["lower_bound"].max()
        halved = one["n"] == 1e5
        assert one["estimator"] == ("better" if halved else "minimax")
        assert one["factor"] == worst["q90"] / (2 if halved else 1)
        assert one["factor_high"] == (0 if halved else worst["q90_high"])
        verdict = "optimal" if worst["q90_high"] <= 1.1 else "open"
        assert one["verdict"] == ("below" if halved else verdict)
    one = summary[summary["distribution"] == summary["distribution"].iloc[0]]
    assert factors(one).empty  # of its class one law of bounded moments says nothing
    local = summary.assign(
        estimator="local", bound_by=OF_VIEWS, lower_bound=99 * summary["lower_bound"]
    )
    pd.testing.assert_frame_equal(factors(pd.concat([summary, local])), factors(summary))
    assert set(factors(local)["bound_by"]) == {OF_VIEWS}
    alone = summary.assign(k=np.nan).query(f"distribution == '{summary['distribution'].iloc[0]}'")
    assert set(factors(alone.assign(q90_high=1e9))["verdict"]) == {"one law"}
    assert np.isinf(factors(summary.assign(q90=np.nan))["factor"]).all()
    for high, verdict in ((0.99, "below"), (1.09, "optimal"), (1.11, "open")):
        bound = summary["lower_bound"]
        near = summary.assign(q90=0.98 * bound, q90_high=high * bound)
        assert set(factors(near)["verdict"]) == {verdict}
    for family, at in regimes.factors.groupby("distribution"):
        (printed,) = [
            row
            for row in regimes.scoreboard.splitlines()
            if row.startswith(f"{family} ") and " eps=" in row
        ]
        assert f" {at['factor'].max():.3g} " in printed


def test_a_cell_for_each_family_budget_and_n(numbers: Result) -> None:
    axes = drawn(numbers, {"kind": "factors"})
    families = list(numbers.factors["distribution"].unique())
    labels = [t.get_text() for t in axes[0].get_yticklabels()]
    assert labels == [Words(numbers.study).family(one) for one in families]
    for ax, (_, found) in zip(axes, numbers.factors.groupby("privacy", sort=False), strict=True):
        columns = found[[*BUDGET, "n"]].drop_duplicates()
        mesh = np.ma.filled(np.asarray(ax.collections[0].get_array(), dtype=float), np.nan)
        assert mesh.shape == (len(families), len(columns))
        drawn_factors = mesh[~np.isnan(mesh)]
        assert sorted(drawn_factors) == sorted(found["factor"])
        for family, row in zip(families, mesh, strict=True):
            own = found.loc[found["distribution"] == family, "factor"]
            assert sorted(row[~np.isnan(row)]) == sorted(own)
        bold = [text.get_text() for text in ax.texts if "bf" in text.get_text()]
        assert len(bold) == (found["verdict"] == "optimal").sum()


# The parts of the error, and exponents.


def test_parts_of_the_error_against_the_threshold(numbers: Result) -> None:
    axes = drawn(numbers, CLIP)
    for ax, k in zip(axes, (2, 3), strict=True):
        assert ax.get_title() == f"pair, $k = {k}$"
        about = {"family": f"pair_k{k}", "n": 10**6, "privacy": "pure", "epsilon": 1}
        at = rows(numbers, **about)
        worst = at[at["clip_at"].notna()].groupby("clip_at").max(numeric_only=True)
        parts = {"error": "q90", "clipping bias": "bias_q90", "noise": "noise_q90",
                 "sampling": "sampling_q90"}  # fmt: skip
        wanted = {label: ([3, 30, 300], worst[column].tolist()) for label, column in parts.items()}
        assert curves(ax) == wanted
        # Of a law with E|X|^k <= 1 at most (k-1)^(k-1)/k^k T^(1-k) is clipped away, and
        # Laplace noise exceeds (2 T/(epsilon n)) ln(10) with probability 0.1.
        t = np.array([3, 30, 300])
        dotted = [one for one in ax.get_lines() if one.get_zorder() == THEORY["zorder"]]
        bias, noise = (np.asarray(one.get_ydata(), float) for one in dotted)
        np.testing.assert_allclose(bias, (k - 1) ** (k - 1) / k**k * t ** (1.0 - k), rtol=1e-9)
        np.testing.assert_allclose(noise, 2 * t / 1e6 * np.log(10), rtol=1e-9)
        (chosen,) = ax.texts
        assert chosen.get_text() == "minimax"
        threshold = numbers.study.estimator("minimax", f"pair_k{k}").clipping_threshold(  # type: ignore[attr-defined]
            10**6, numbers.study.budgets["pure_epsilon1"].value
        )
        assert list(ax.get_lines()[-1].get_xdata()) == [threshold, threshold]  # type: ignore[arg-type]


def test_exponents_of_several_budgets(numbers: Result) -> None:
    """Those of claims.csv, with intervals, beside the curve of theory and without it."""
    above, below = drawn(numbers, "exponents")
    assert above.get_ylabel() == r"$s$ in $\mathit{n} \sim (1/α)^s$"  # noqa: RUF001
    ((_, k, theory),) = lines(above, "theory")
    np.testing.assert_allclose(theory, np.array(k) / (np.array(k) - 1))
    claims = numbers.claims[numbers.claims["claim"] == "rate"]
    budgets = {
        r"pure DP, $\varepsilon = 0.5$": 0.5,
        r"pure DP, $\varepsilon = 1$": 1.0,
        "zCDP": None,
    }
    for ax, taken in ((above, 0), (below, claims["predicted"])):
        table = claims.assign(height=claims["measured"] - taken)
        found = {label: (x, y) for label, x, y in lines(ax) if label != "theory"}
        assert list(found) == [f"minimax, {words}" for words in budgets]
        for (x, y), epsilon, bars in zip(
            found.values(), budgets.values(), ax.containers, strict=True
        ):
            at = table[table["epsilon"].isna() if epsilon is None else table["epsilon"] == epsilon]
            assert (np.round(x).tolist(), y) == ([2, 3], at["height"].tolist())
            ends = [bar[:, 1] for bar in bars[2][0].get_segments()]
            moved = at["height"] - at["measured"]
            np.testing.assert_allclose(ends, at[["low", "high"]].add(moved, axis=0), atol=1e-12)


# Sample complexities.


def test_sample_complexity_beside_its_terms(numbers: Result) -> None:
    axes = drawn(numbers, ACCURACY)
    titles = [ax.get_title() for ax in axes]
    assert titles[0] == "histogram, $R = 10^{6}$\npure DP, $\\varepsilon = 1$"
    assert len(set(titles)) == len(titles) == 6  # three estimators under two budgets
    ax = axes[titles.index("naive, $R = 10$\nzCDP, $\\rho = 0.5$")]
    table = numbers.samples[numbers.samples["request"] == "accuracy"]
    table = table[(table["estimator"] == "naive_radius10") & (table["privacy"] == "zcdp")]
    curve, search = (table[table["method"] == method] for method in ("curve", "search"))
    found = {label: (x, y) for label, x, y in lines(ax)}
    for label, points in (("measured", curve.dropna(subset="samples")), ("direct search", search)):
        assert found[label] == ((1 / points["alpha"]).tolist(), points["samples"].tolist())
    terms = curve.sort_values("alpha")[["sampling_term", "privacy_term", "range_term"]]
    np.testing.assert_allclose(found["theory, all terms"][1], terms.sum(axis=1), rtol=1e-12)
    for name in ("sampling", "privacy", "range"):
        assert found[f"{name} term"][1] == terms[f"{name}_term"].tolist()
    low, high = ax.get_ylim()
    shown = [*curve["samples"].dropna(), *terms.sum(axis=1)]
    assert low < min(shown) < max(shown) < high
    # theory alone where no n was found
    none = numbers.samples.assign(samples=np.nan, low=np.nan, high=np.nan)
    for ax in drawn(dataclasses.replace(numbers, samples=none), ACCURACY):
        assert {label for label, _, _ in lines(ax)} >= {"theory, all terms"}
        assert not lines(ax, "measured")


@pytest.mark.parametrize(
    ("leave", "away"), [(None, []), ({"naive": {"radius": 1000}}, ["naive_radius1000"])]
)
def test_thresholds_against_the_radius(numbers: Result, leave: Any, away: list[str]) -> None:
    axes = drawn(numbers, {**THRESHOLD, "leave": leave})
    table = numbers.samples[numbers.samples["request"] == "threshold"]
    pure = table["privacy"] == "pure"
    chosen = [pure & (table["epsilon"] == 0.5), pure & (table["epsilon"] == 1), ~pure]
    for ax, at in zip(axes, (table[mask] for mask in chosen), strict=True):
        assert ax.get_xlabel() == "$R$"
        found = {label: (x, y) for label, x, y in lines(ax)}
        assert set(found) == {"histogram", "naive"}
        for label, (x, y) in found.items():
            points = at[at["estimator"].str.startswith(label)].sort_values("radius")
            assert x == pytest.approx(np.log10(points["radius"]))
            np.testing.assert_array_equal(y, points["samples"])
        kept = table[~table["estimator"].isin(away)]  # what may leave the frame does not set it
        assert ax.get_ylim() == pytest.approx((0, 1.15 * kept[["samples", "high"]].max().max()))


def test_thresholds_against_delta(numbers: Result) -> None:
    (ax,) = drawn(numbers, {"kind": "thresholds", "request": "deltas", "against": "delta"})
    assert ax.get_xlabel() == r"$\ln(1/\delta)$"
    table = numbers.samples[numbers.samples["request"] == "deltas"]
    for (label, x, y), family in zip(lines(ax), ("gaussian", "student"), strict=True):
        assert label == f"free, {spaced(family)}"
        at = table[table["distribution"] == family].sort_values("delta", ascending=False)
        assert x == pytest.approx([6 * np.log(10), 100 * np.log(10)])
        assert y == at["samples"].tolist()


def looks(ax: Axes) -> dict[str, tuple[Any, ...]]:
    """Colour, marker and dash of every line of a legend."""
    return {
        label: (to_rgb(line.get_color()), line.get_marker(), line.get_linestyle())
        for line, label in zip(*ax.get_legend_handles_labels(), strict=True)
        if isinstance(line, Line2D)
    }


@pytest.mark.parametrize("by", ["k", "budget"])
def test_two_laws_never_look_alike(numbers: Result, by: str) -> None:
    """Of one estimator in one panel; where every panel has one law it is not written."""
    spec = {**ERROR, "estimators": {"naive": {"radius": 10}}, "metric": "mean_error"}
    (ax,) = drawn(numbers, {**spec, "by": by})
    name = "naive, $R = 10$"
    assert set(curves(ax)) == {f"{name}, Gaussian", f"{name}, student"}
    assert len(set(looks(ax).values())) == 2
    one, other = drawn(numbers, {**spec, "by": "family"})
    assert set(curves(one)) == set(curves(other)) == {name}
    (ax,) = drawn(numbers, {"kind": "thresholds", "request": "deltas", "against": "delta"})
    assert {label for label, _, _ in lines(ax)} == {"free, Gaussian", "free, student"}


def test_alpha_counts_standard_deviations_where_these_are_one(numbers: Result) -> None:
    assert {ax.get_xlabel() for ax in drawn(numbers, ACCURACY)} == {r"$\sigma/\alpha$"}
    (ax, *_) = drawn(numbers, THRESHOLD)
    assert ax.get_ylabel().replace("\n", " ") == r"smallest $n$ for $\alpha = 2\,\sigma$"
    (ax,) = drawn(numbers, {"kind": "thresholds", "request": "deltas", "against": "delta"})
    assert "sigma" not in ax.get_ylabel()  # one of the laws has another


def test_no_hyphen_stands_for_a_minus(numbers: Result) -> None:
    above, below = drawn(numbers, "exponents")
    assert below.get_ylabel().replace("\n", " ") == "measured $-$ theory"
    # points are where their k is, unless the curve of theory is level
    assert {x for label, xs, _ in lines(above) if label != "theory" for x in xs} == {2, 3}
    assert {x for label, xs, _ in lines(below) if label != "theory" for x in xs} > {2, 3}
    assert "-" not in "".join(text.get_text() for text in below.get_yticklabels())


def test_only_rates_and_shares_have_a_linear_axis() -> None:
    """The mean of errors that are 0 or 1 is one, small errors are none."""
    rates = pd.DataFrame({"mean_error": [0.25, 0.0], "rmse": [0.5, 0.0]})
    errors = pd.DataFrame({"mean_error": [0.25e-10, 0.0], "rmse": [0.3e-10, 0.0]})
    cases = ((rates, "mean_error"), (errors, "mean_error"), (errors, "miss_rate"), (rates, "q90"))
    scales = [axis_scale(table, metric) for table, metric in cases]
    assert scales == ["linear", "log", "linear", "log"]


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({**ERROR, "budgets": "pure"}, ["figure.budgets", "2 budgets", "by: budget"]),
        ({**ERROR, "budgets": {"pure": {"epsilon": 7}}}, ["figure.budgets.pure.epsilon", "0.5, 1"]),
        ({**ERROR, "families": "student", "estimators": "minimax"}, ["figure: the sweep runs no"]),
        ({**ERROR, "by": "x"}, ["figure.by", "'x'", "family"]),
        ({**ERROR, "metric": "x"}, ["figure.metric", "'x'", "q90"]),
        ({**CLIP, "n": 7}, ["figure.n", "7"]),
        ({**CLIP, "budgets": "pure"}, ["figure.budgets", "2 budgets"]),
        ({**CLIP, "estimators": "minimax"}, ["figure.estimators", "no list of clip_at"]),
        ({**CLIP, "chosen": "mean"}, ["figure.chosen", "'mean'", "no threshold"]),
        ({"kind": "exponents", "claims": "x"}, ["figure.claims", "'x'", "rate, near, limit"]),
        ({"kind": "exponents", "claims": "near"}, ["figure.claims", "'near'", "no exponent"]),
        ({"kind": "exponents", "claims": "limit"}, ["figure.claims", "'limit'", "moment order"]),
        ({**ACCURACY, "request": "*"}, ["figure.request", "'*'", "accuracy, threshold, deltas"]),
        ({**ACCURACY, "estimators": "free"}, ["figure: the sweep runs nothing"]),
        ({**THRESHOLD, "leave": "x"}, ["figure.leave", "'x'"]),
    ],
)
def test_what_cannot_be_drawn_is_refused(
    numbers: Result, spec: dict[str, Any], words: list[str]
) -> None:
    assert_refused(numbers, spec, words)
