"""Figures against the dimension, a budget, a norm, a share of outliers: lines, guides, slopes."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

import dpbench.study  # noqa: F401  (its figures enter the registry)
from dpbench.analysis.claims import Claim, evaluate
from dpbench.drawing import style
from dpbench.registry import ConfigError
from dpbench.report.figures import Asked, Figure, Results
from dpbench.runner.block import run_block
from dpbench.runner.collect import collect, join
from dpbench.runner.plan import Sweep, make_cells
from dpbench.selection import rows_about, with_parameters
from dpbench.theory.guides import GUIDES

DELTAS = [1e-4, 1e-6, 1e-9]
SPEC: dict[str, Any] = {
    "families": {
        "cube": {"kind": "hypercube", "d": [4, 16, 64]},
        "gaussian": {"kind": "multivariate_gaussian", "d": 3, "norm": [1, 1e3, 1e6]},
        "cluster": {
            "kind": "multivariate_contaminated_gaussian",
            "d": [2, 3],
            "gap": 1e3,
            "eta": [0, 0.1, 0.2, 0.6],
        },
    },
    "estimators": {
        "additive": {"kind": "bounded_mean", "radius": 1},
        "scaled": {"kind": "bounded_mean", "radius": [1, 10, 100]},
        "l2": {"kind": "bounded_mean", "radius": 1, "mechanism": "l2"},
        "friendly": {"kind": "friendly_core_mean"},
        "friendly_low": {"kind": "friendly_core_mean", "threshold": 0.05},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {
        "pure": {"kind": "pure_dp", "epsilon": [0.5, 1]},
        "zcdp": {"kind": "zcdp", "rho": 0.5},
        "approx": {"kind": "approx_dp", "epsilon": 1, "delta": DELTAS},
        "classical": {
            "kind": "approx_dp",
            "epsilon": 1,
            "delta": DELTAS,
            "noise_by": "classical",
        },
    },
    "parts": {
        "cube": {
            "families": ["cube_*"],
            "estimators": ["!friendly*"],
            "n": [100, 300],
            "trials": 40,
        },
        "friends": {
            "families": ["!cube_*"],
            "estimators": ["friendly*", "mean"],
            "budgets": ["approx_*"],
            "n": [300],
            "trials": 40,
        },
    },
}
CUBE: dict[str, Any] = {
    "kind": "against_parameter",
    "parameter": "d",
    "families": ["cube_*"],
    "estimators": ["additive"],
    "budget": "pure_epsilon1",
    "n": 300,
}
FAR: dict[str, Any] = {
    **CUBE,
    "parameter": "eta",
    "families": ["cluster_d3_*"],
    "estimators": ["friendly"],
    "budget": "approx_delta1e-06",
    "logarithmic": False,
}
CLAIMS: dict[str, dict[str, Any]] = {
    "pure": {"theorem": "pure_dimension", "estimators": ["additive"], "budgets": ["pure_*"]},
    "approx": {"theorem": "gaussian_dimension", "estimators": ["additive"], "budgets": ["zcdp"]},
    "private": {"theorem": "ball_dimension", "estimators": ["additive"], "budgets": ["pure_*"]},
    "radius": {"theorem": "ball_radius", "estimators": ["scaled_*"], "budgets": ["zcdp"]},
    "delta": {
        "theorem": "classical_delta",
        "estimators": ["additive"],
        "budgets": ["classical_*"],
    },
    "norm": {
        "theorem": "core_norm",
        "estimators": ["friendly"],
        "families": ["gaussian_*"],
        "budgets": ["approx_delta1e-06"],
    },
}


@pytest.fixture(scope="module")
def results() -> Results:
    sweep = Sweep.build(SPEC)
    cells = make_cells(sweep)
    metrics = {metric: set(sweep.families) for metric in ("q90", "private_q90")}
    collected = join(
        [collect(cell, [run_block(task) for task in cell.tasks(0)], metrics) for cell in cells]
    )
    assert not collected.failures
    tables = []
    for label, one in CLAIMS.items():
        claim = Claim(**{"families": ["cube_*"], "tolerance": 0.1, "reason": "test", **one})
        chosen = np.flatnonzero(rows_about(collected.summary, claim, sweep))
        rows = with_parameters(collected.summary.iloc[chosen].reset_index(drop=True), sweep)
        known = collected.errors[claim.replicated] if claim.replicated else None
        errors = [known[i] for i in chosen] if known else None
        tables.append(evaluate(label, claim, rows, errors, shared=True))
    claims = pd.concat(tables, ignore_index=True)
    return Results(sweep, collected.summary, claims, pd.DataFrame())


@pytest.fixture(autouse=True)
def _styled() -> Iterator[None]:
    with style():
        yield


def drawn(spec: dict[str, Any], results: Results) -> list[Axes]:
    """The panels of a figure, after it was laid out: warnings are errors here."""
    figure = Figure.build(spec, "at")
    figure.check(results.sweep, Asked(), "at")
    canvas: Canvas = figure.draw(results)
    canvas.canvas.draw()
    return [ax for ax in canvas.axes if ax.get_visible()]


def lines(ax: Axes, label: str | None = None) -> list[tuple[str, list[float], list[float]]]:
    """Label and points of every line; of those with a label, if one is given."""
    found = []
    for line in ax.get_lines():
        x, y = (np.asarray(data, dtype=float).tolist() for data in line.get_data())
        found.append((str(line.get_label()), x, y))
    return [one for one in found if label in {None, one[0]}]


def curves(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """What is measured: all but guides and slopes."""
    others = {"slope by theory", *(guide.label for guide in GUIDES.values())}
    measured = [one for one in lines(ax) if one[0] not in others]
    assert len({label for label, _, _ in measured}) == len(measured)  # one label, one line
    return {label: (x, y) for label, x, y in measured}


def rows_of(results: Results, **about: Any) -> pd.DataFrame:
    rows = results.summary
    for name, value in about.items():
        rows = rows[rows[name] == value]
    return rows


# Lines.


@pytest.mark.parametrize("metric", ["q90", "mean_error", "private_q90"])
def test_errors_against_the_dimension(results: Results, metric: str) -> None:
    (ax,) = drawn({**CUBE, "metrics": [metric]}, results)
    ((label, (x, y)),) = curves(ax).items()
    assert label == "additive"
    assert x == [4, 16, 64]
    about = {"estimator": "additive", "epsilon": 1, "privacy": "pure", "n": 300}
    at = rows_of(results, **about).set_index("family")[metric]
    assert y == [at[f"cube_d{d}"] for d in (4, 16, 64)]
    assert ax.get_xlabel() == "dimension $d$"
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_title() == ""


def test_several_budgets_and_sizes_have_a_line_each(results: Results) -> None:
    """Their labels tell them apart, and say nothing that they share."""
    budgets = ["pure_*", "zcdp", "approx_delta1e-06", "classical_delta1e-06"]
    spec = {**CUBE, "budget": budgets, "n": [100, 300], "estimators": ["additive", "mean"]}
    (ax,) = drawn({**spec, "metrics": ["mean_error"]}, results)
    found = curves(ax)
    assert len(found) == 5 * 2 + 2
    assert {label for label in found if label.startswith("mean")} == {
        "mean, n = 100",
        "mean, n = 300",
    }
    cases: list[tuple[list[str], dict[str, Any]]] = [
        (["pure", "0.5"], {"privacy": "pure", "epsilon": 0.5}),
        (["pure", "1"], {"privacy": "pure", "epsilon": 1.0}),
        (["zcdp"], {"privacy": "zcdp"}),
        (["approx", "1"], {"privacy": "approx", "delta": 1e-6}),
        (["approx_classical", "1"], {"privacy": "approx_classical", "delta": 1e-6}),
    ]
    for n in (100, 300):
        for words, about in cases:
            x, y = found[", ".join(["additive", *words, f"n = {n}"])]
            rows = rows_of(results, estimator="additive", n=n, **about).sort_values("d")
            assert (x, y) == (rows["d"].tolist(), rows["mean_error"].tolist())
    # One n and one budget: the estimator's name will do.
    (ax,) = drawn({**CUBE, "budget": ["zcdp"], "n": [100]}, results)
    assert set(curves(ax)) == {"additive"}


def test_errors_against_delta(results: Results) -> None:
    budgets = ["approx_*", "classical_*"]
    spec = {**CUBE, "parameter": "delta", "families": ["cube_d16"], "budget": budgets}
    (ax,) = drawn({**spec, "estimators": ["additive", "mean"]}, results)
    assert ax.get_xlabel() == r"$\ln(1/\delta)$"
    found = curves(ax)
    assert set(found) == {"additive, approx", "additive, approx_classical"}  # the mean has no delta
    for privacy in ("approx", "approx_classical"):
        about = {"family": "cube_d16", "estimator": "additive", "privacy": privacy, "n": 300}
        at = rows_of(results, **about).set_index("delta")["q90"]
        x, y = found[f"additive, {privacy}"]
        assert x == pytest.approx([-np.log(delta) for delta in DELTAS])
        assert y == [at[delta] for delta in DELTAS]


def test_errors_against_the_radius(results: Results) -> None:
    """An estimator's parameter, a panel for each family."""
    spec = {**CUBE, "parameter": "radius", "estimators": ["scaled_*"], "budget": "zcdp"}
    axes = drawn({**spec, "families": ["cube_d4", "cube_d64"]}, results)
    assert [ax.get_title() for ax in axes] == ["cube d4", "cube d64"]
    for ax, family in zip(axes, ("cube_d4", "cube_d64"), strict=True):
        assert ax.get_xlabel() == "$R$"
        rows = rows_of(results, family=family, privacy="zcdp", n=300).set_index("estimator")
        wanted = [rows.loc[f"scaled_radius{r}", "q90"] for r in (1, 10, 100)]
        assert curves(ax) == {"scaled": ([1, 10, 100], wanted)}


def test_errors_against_a_parameter_of_the_families(results: Results) -> None:
    spec = {**FAR, "parameter": "norm", "families": ["gaussian_*"], "logarithmic": True}
    (ax,) = drawn({**spec, "estimators": ["friendly", "mean"]}, results)
    assert ax.get_xlabel() == r"$\|\mu\|$"
    found = curves(ax)
    assert set(found) == {"friendly", "mean"}
    for estimator, privacy in (("friendly", "approx"), ("mean", "none")):
        rows = rows_of(results, estimator=estimator, privacy=privacy)
        rows = rows[(rows["delta"] == 1e-6) | (privacy == "none")].set_index("family")
        names = ["gaussian_norm1", "gaussian_norm1000", "gaussian_norm1e+06"]
        assert found[estimator] == ([1, 1e3, 1e6], [rows.loc[name, "q90"] for name in names])


def test_families_that_differ_otherwise_have_panels(results: Results) -> None:
    axes = drawn({**FAR, "families": ["cluster_*"]}, results)
    assert [ax.get_title() for ax in axes] == ["cluster d2", "cluster d3"]
    axes = drawn({**FAR, "parameter": "d", "families": ["cluster_*"]}, results)
    assert [ax.get_title() for ax in axes] == [f"cluster eta{eta}" for eta in (0, 0.1, 0.2, 0.6)]
    for ax in axes:
        assert curves(ax)["friendly"][0] == [2, 3]


def test_failures_are_gaps(results: Results) -> None:
    """Without outliers all is released, with a share 0.6 hardly anything."""
    rows = rows_of(results, estimator="friendly", delta=1e-6).set_index("family")["q90"]
    broken = [bool(np.isinf(rows[f"cluster_d3_eta{eta}"])) for eta in (0, 0.1, 0.2, 0.6)]
    assert not broken[0]
    assert broken[3]
    (ax,) = drawn(FAR, results)
    x, y = curves(ax)["friendly"]
    assert x == [0, 0.1, 0.2, 0.6]
    assert np.isnan(y).tolist() == broken


@pytest.mark.parametrize("metric", ["core_q50", "failure_rate"])
@pytest.mark.parametrize("logarithmic", [True, False])
def test_rates_have_a_linear_axis(results: Results, metric: str, logarithmic: bool) -> None:
    (ax,) = drawn({**FAR, "metrics": [metric], "logarithmic": logarithmic}, results)
    assert ax.get_yscale() == "linear"
    assert ax.get_xscale() == ("log" if logarithmic else "linear")


def test_means_of_zero_have_a_linear_axis(results: Results) -> None:
    """The empirical mean of fixed data is exact."""
    spec = {**CUBE, "metrics": ["mean_error"]}
    (ax,) = drawn({**spec, "estimators": ["additive", "mean"]}, results)
    assert ax.get_yscale() == "linear"
    assert curves(ax)["mean"][1] == [0, 0, 0]
    (ax,) = drawn(spec, results)
    assert ax.get_yscale() == "log"


def test_labels_are_in_the_legend_once(results: Results) -> None:
    spec = {**CUBE, "budget": ["pure_*", "zcdp"], "n": [100, 300], "guides": ["pure"]}
    figure = Figure.build({**spec, "metrics": ["mean_error", "private_q90", "q90"]}, "at")
    canvas = figure.draw(results)
    (legend,) = canvas.legends
    texts = [text.get_text() for text in legend.get_texts()]
    assert len(set(texts)) == len(texts) == 3 * 2 + 1 + 1
    assert {"slope by theory", GUIDES["pure"].label} < set(texts)


# Guides.


def test_the_guides_formulas() -> None:
    d, n, epsilon, delta = (np.array([x]) for x in (64.0, 1000.0, 0.5, 1e-6))
    assert GUIDES["pure"].formula(d, n, epsilon) == pytest.approx(64 / 500)
    wanted = 8 * np.sqrt(6 * np.log(10)) / 500
    assert GUIDES["approx"].formula(d, n, epsilon, delta) == pytest.approx(wanted)
    # Of n records (1-eta) n are friends, with weight 2 (1-eta) - 1 each, if more than half.
    eta = np.array([0.0, 0.25, 0.5, 0.75])
    np.testing.assert_allclose(GUIDES["core"].formula(eta), [1, 0.75 * 0.5, 0, 0], atol=1e-15)


def test_guides_follow_their_formulas(results: Results) -> None:
    """A line for each epsilon and n that is shown, and each once."""
    spec = {**CUBE, "budget": ["pure_*"], "n": [100, 300], "guides": ["pure", "approx"]}
    (ax,) = drawn(spec, results)
    found = lines(ax, GUIDES["pure"].label)
    wanted = {
        (n, epsilon): [d / (n * epsilon) for d in (4, 16, 64)]
        for n in (100, 300)
        for epsilon in (0.5, 1)
    }
    np.testing.assert_allclose(sorted(y for _, _, y in found), sorted(wanted.values()), rtol=1e-12)
    assert all(x == [4, 16, 64] for _, x, _ in found)
    assert lines(ax, GUIDES["approx"].label) == []  # no delta here

    (ax,) = drawn({**spec, "budget": ["approx_*", "classical_*"], "n": 100}, results)
    found = lines(ax, GUIDES["approx"].label)
    wanted_d = [[np.sqrt(-d * np.log(x)) / 100 for d in (4, 16, 64)] for x in DELTAS]
    np.testing.assert_allclose(sorted(y for _, _, y in found), sorted(wanted_d), rtol=1e-12)


def test_a_guide_against_delta(results: Results) -> None:
    spec = {**CUBE, "parameter": "delta", "families": ["cube_d16"], "guides": ["approx"]}
    (ax,) = drawn({**spec, "budget": ["approx_*"]}, results)
    ((_, x, y),) = lines(ax, GUIDES["approx"].label)
    assert x == pytest.approx([-np.log(delta) for delta in DELTAS])
    assert y == pytest.approx([4 * np.sqrt(value) / 300 for value in x])


def test_a_guide_for_the_core(results: Results) -> None:
    """Of 300 records, at most 120 outliers: what is measured is near, and no guide is."""
    (ax,) = drawn({**FAR, "metrics": ["core_q50"], "guides": ["core"]}, results)
    ((_, x, y),) = lines(ax, GUIDES["core"].label)
    assert x == [0, 0.1, 0.2, 0.6]
    assert y == pytest.approx([1, 0.9 * 0.8, 0.8 * 0.6, 0])
    # The median of 40 shares of outliers has a standard error of 0.005, and the core 3.4 times
    # as much: 0.12 are 7 of these, a false alarm of 1e-11.
    measured = curves(ax)["friendly"][1]
    assert measured[:3] == pytest.approx(y[:3], abs=0.12)
    assert measured[0] == 1


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"guides": ["x"]}, ["at.guides", "'x'", "pure, approx, core"]),
        ({"guides": ["pure", "Pure"]}, ["at.guides", "'Pure'"]),
        ({"parameter": "norm"}, ["at.estimators", "'additive'", "cube_d4", "norm"]),
        (
            {"parameter": "norm", "families": ["gaussian_*", "cube_d4"]},
            ["at.estimators", "cube_d4"],
        ),
        ({"parameter": "sample"}, ["at.estimators", "'additive'", "sample"]),
        ({"budget": ["pure_*", "nope"]}, ["at.budget", "'nope'"]),
        ({"n": [100, 200]}, ["at.n", "200"]),
    ],
)
def test_what_cannot_be_drawn_is_refused(changes: dict[str, Any], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        Figure.build({**CUBE, **changes}, "at").check(Sweep.build(SPEC), Asked(), "at")
    assert len(str(caught.value).splitlines()) == 1
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "key"),
    [
        ({"guides": ["core"]}, "at.guides"),  # there is no eta: KeyError
        ({"parameter": "rho"}, "at.budget"),  # no budget has one: an empty figure
        ({"parameter": "radius", "estimators": ["scaled_*"], "guides": ["pure"]}, "at.guides"),
    ],
)
def test_what_is_not_in_the_summary_is_refused(changes: dict[str, Any], key: str) -> None:
    with pytest.raises(ConfigError, match=key):
        Figure.build({**CUBE, **changes}, "at").check(Sweep.build(SPEC), Asked(), "at")


# Slopes.


@pytest.mark.parametrize(
    ("changes", "slope"),
    [
        ({"metrics": ["mean_error"], "budget": ["pure_epsilon0.5"]}, 1.0),
        ({"metrics": ["mean_error"], "budget": ["zcdp"]}, 0.5),
        ({"parameter": "radius", "estimators": ["scaled_*"], "families": ["cube_d4"],
          "budget": ["zcdp"]}, 1.0),
        ({"parameter": "delta", "families": ["cube_d16"], "budget": ["classical_*"]}, 0.5),
        ({"parameter": "norm", "families": ["gaussian_*"], "estimators": ["friendly"],
          "budget": ["approx_delta1e-06"]}, 0.0),
    ],
)  # fmt: skip
def test_slopes_go_through_the_geometric_mean(
    results: Results, changes: dict[str, Any], slope: float
) -> None:
    (ax,) = drawn({**CUBE, **changes}, results)
    ((_, (x, y)),) = curves(ax).items()
    ((_, at, theory),) = lines(ax, "slope by theory")
    assert at == x
    steps = np.diff(np.log(theory)) / np.diff(np.log(x))
    np.testing.assert_allclose(steps, slope, atol=1e-9)
    assert np.mean(np.log(theory)) == pytest.approx(np.mean(np.log(y)), abs=1e-9)


def test_every_line_has_a_slope_of_its_own(results: Results) -> None:
    spec = {**CUBE, "metrics": ["mean_error"], "n": [100, 300]}
    (ax,) = drawn({**spec, "budget": ["pure_*", "zcdp"]}, results)
    found = lines(ax, "slope by theory")
    assert len(found) == len(curves(ax)) == 6
    ends = sorted(round(np.log(y[-1] / y[0]) / np.log(16), 9) for _, _, y in found)
    assert ends == [0.5] * 2 + [1.0] * 4


@pytest.mark.parametrize(
    "changes",
    [
        {"metrics": ["q90"]},  # the claim is about the mean error
        {"metrics": ["private_q90"]},  # this claim's exponent is n's, not the error's
        {"metrics": ["mean_error"], "estimators": ["l2"]},
        {"metrics": ["mean_error"], "budget": ["approx_delta1e-06"]},
        {"parameter": "radius", "estimators": ["scaled_*"], "metrics": ["mean_error"],
         "budget": ["zcdp"]},
    ],
)  # fmt: skip
def test_no_slope_is_drawn_that_no_claim_predicts(
    results: Results, changes: dict[str, Any]
) -> None:
    for ax in drawn({**CUBE, **changes}, results):
        assert curves(ax)
        assert lines(ax, "slope by theory") == []


def test_a_claim_is_about_estimators_of_its_name(results: Results) -> None:
    """`friendly` is not `friendly_low`."""
    spec = {**FAR, "parameter": "norm", "families": ["gaussian_*"], "logarithmic": True}
    (ax,) = drawn({**spec, "estimators": ["friendly_low"]}, results)
    assert lines(ax, "slope by theory") == []


def test_a_slope_passes_over_failures(results: Results) -> None:
    summary = results.summary.copy()
    rows = summary["family"].eq("gaussian_norm1000") & summary["estimator"].eq("friendly")
    summary.loc[rows, "q90"] = np.inf
    spec = {**FAR, "parameter": "norm", "families": ["gaussian_*"], "logarithmic": True}
    (ax,) = drawn(spec, dataclasses.replace(results, summary=summary))
    _, y = curves(ax)["friendly"]
    assert np.isnan(y).tolist() == [False, True, False]
    ((_, _, theory),) = lines(ax, "slope by theory")
    assert theory == pytest.approx([np.sqrt(y[0] * y[2])] * 3)
