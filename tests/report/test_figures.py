from __future__ import annotations

import dataclasses
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas

import dpbench.study  # noqa: F401  (its figures enter the registry)
from dpbench.cli import run
from dpbench.complexity import SampleComplexity, measure
from dpbench.config import composed
from dpbench.drawing import save, style
from dpbench.registry import ConfigError, from_mapping
from dpbench.report.figures import Asked, Figure, Results
from dpbench.runner.block import run_block
from dpbench.runner.collect import Collected, collect, join
from dpbench.runner.plan import Cell, Sweep, make_cells


def test_figures_are_byte_identical_when_drawn_again(quick: Path, tmp_path: Path) -> None:
    """One of each format."""
    before = {path.name: path.read_bytes() for path in (quick / "figures").iterdir()}
    kinds = ("pdf", "svg", "png")
    names = ("worst_case", "exponents", "thresholds")
    assert set(before) == {f"{name}.{kind}" for name in names for kind in kinds}
    shutil.copytree(quick / "blocks", tmp_path / "blocks")
    words = ["~sweep.figures.exponents", "~sweep.figures.thresholds"]
    assert run([f"out={tmp_path}", "trials=40", "n_jobs=1", *words]) == 0
    for kind in kinds:
        name = f"worst_case.{kind}"
        assert (tmp_path / "figures" / name).read_bytes() == before[name]


def test_pdf_embeds_its_fonts_and_no_date(quick: Path) -> None:
    pdf = (quick / "figures" / "worst_case.pdf").read_bytes()
    assert b"/FontFile2" in pdf
    assert b"CreationDate" not in pdf


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "error_against_n", "families": ["x"], "budget": "pure"}, r"at\.families: 'x'"),
        (
            {"kind": "error_against_n", "families": ["pareto_k2"], "budget": "x"},
            r"at\.budget: 'x'",
        ),
        ({"kind": "exponents", "claims": ["x"]}, r"at\.claims: 'x'"),
        (
            {
                "kind": "decomposition",
                "families": ["pareto_k2"],
                "estimators": ["mean"],
                "chosen": ["minimax"],
                "budget": "tails",
                "n": 100,
            },
            r"at\.estimators: 'mean': it has no clip_at",
        ),
    ],
)
def test_unknown_labels_are_refused(spec: dict[str, Any], message: str) -> None:
    config = composed([])
    sweep = Sweep.build(config["sweep"])
    with pytest.raises(ConfigError, match=message):
        Figure.build(spec, "at").check(sweep, Asked(claims=list(config["sweep"]["claims"])), "at")


# The other kinds of figures, from a tiny sweep.

SPEC: dict[str, Any] = {
    "families": {
        "gaussian": {"kind": "gaussian", "location": 0.3},
        "student": {"kind": "student_t", "tail_index": 5},
        "pair": {"kind": "two_point_family", "k": 2, "c": [0, 1]},
    },
    "estimators": {
        "naive": {"kind": "naive_gaussian_mean", "radius": [10, 1000]},
        "free": {"kind": "karwa_vadhan_mean", "radius": None},
        "histogram": {"kind": "karwa_vadhan_mean", "radius": [10, 1e6, 1e300]},
        "shrinking": {"kind": "shrinking_intervals", "radius": 100, "rounds": [1, 2, 4]},
        "minimax": {"kind": "heavy_tailed_mean"},
        "clip": {"kind": "heavy_tailed_mean", "clip_at": [3, 30, 300]},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {
        "pure": {"kind": "pure_dp", "epsilon": [0.5, 1]},
        "zcdp": {"kind": "zcdp", "rho": 0.5},
        "approx": {"kind": "approx_dp", "epsilon": 1, "delta": [1e-6, 1e-100]},
    },
    "parts": {
        "all": {
            "families": ["gaussian", "student"],
            "estimators": ["!minimax", "!clip_*"],
            "n": [30, 100, 300, 1000, 3000],
            "trials": 40,
        },
        "pair": {
            "families": ["pair"],
            "estimators": ["minimax", "clip_*"],
            "n": [1000, 10**6],
            "trials": 40,
        },
    },
}
REQUESTS: dict[str, dict[str, Any]] = {
    "accuracy": {
        "families": ["gaussian"],
        "estimators": ["naive_*", "histogram_radius1e+06"],
        "budgets": ["pure_epsilon1", "zcdp"],
        "low": 0.05,
        "high": 3,
        "points": 5,
        "search": 1.0,
        "trials": 40,
    },
    "threshold": {
        "families": ["gaussian"],
        "estimators": ["naive_*", "histogram_*"],
        "budgets": ["pure_*", "zcdp"],
        "low": 2,
        "high": 2,
        "points": 1,
    },
    "deltas": {
        "families": ["gaussian", "student"],
        "estimators": ["free"],
        "budgets": ["approx_*"],
        "low": 2,
        "high": 2,
        "points": 1,
    },
}
ERROR: dict[str, Any] = {
    "kind": "error_against_n",
    "families": ["gaussian", "student"],
    "budget": "pure_epsilon1",
}
PARAMETER: dict[str, Any] = {
    "kind": "against_parameter",
    "families": ["gaussian", "student"],
    "estimators": ["shrinking_*"],
    "parameter": "rounds",
    "budget": "zcdp",
    "n": [300, 1000],
    "metrics": ["q90", "width_q50", "miss_rate"],
}


def collected_of(cells: list[Cell]) -> Collected:
    metrics = {"q90": {"gaussian", "student", "pair"}}
    blocks = [[run_block(task) for task in cell.tasks(0)] for cell in cells]
    return join([collect(cell, found, metrics) for cell, found in zip(cells, blocks, strict=True)])


@pytest.fixture(scope="module")
def results() -> Results:
    sweep = Sweep.build(SPEC)
    cells = make_cells(sweep)
    collected = collected_of(cells)
    asked = {label: from_mapping(SampleComplexity, one, label) for label, one in REQUESTS.items()}
    samples = [
        measure(label, request, sweep, cells, collected, collected_of, lambda _: None)
        for label, request in asked.items()
    ]
    table = pd.concat(samples, ignore_index=True)
    return Results(sweep, collected.summary, pd.DataFrame(), table)


@pytest.fixture(autouse=True)
def _styled() -> Iterator[None]:
    with style():
        yield


def drawn(spec: dict[str, Any], results: Results) -> list[Axes]:
    """The panels of a figure, after it was laid out: warnings are errors here."""
    figure = Figure.build(spec, "at")
    requests = {name: from_mapping(SampleComplexity, one, name) for name, one in REQUESTS.items()}
    figure.check(results.sweep, Asked((), requests), "at")
    canvas: Canvas = figure.draw(results)
    canvas.canvas.draw()
    return [ax for ax in canvas.axes if ax.get_visible()]


def lines(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The points of every line with a label."""
    handles, labels = ax.get_legend_handles_labels()
    found = {}
    for handle, label in zip(handles, labels, strict=True):
        line: Any = handle[0] if isinstance(handle, tuple) else handle  # of an errorbar
        if label not in found:
            found[label] = (list(line.get_xdata()), list(line.get_ydata()))
    return found


def test_panels_for_budgets(results: Results) -> None:
    budgets = ["pure_*", "approx_delta1e-06"]
    axes = drawn({**ERROR, "families": ["gaussian"], "budget": budgets, "by": "budget"}, results)
    titles = [ax.get_title() for ax in axes]
    assert titles == [
        r"pure, $\varepsilon = 0.5$",
        r"pure, $\varepsilon = 1$",
        r"approx, $\varepsilon = 1$, $\delta = 10^{-6}$",
    ]
    summary = results.summary
    for ax, epsilon, privacy in zip(axes, (0.5, 1, 1), ("pure", "pure", "approx"), strict=True):
        curves = lines(ax)
        # Without privacy in all of them; what needs delta in one.
        assert ("free" in curves) == (privacy == "approx")
        assert "mean" in curves
        rows = summary[(summary["estimator"] == "naive_radius10") & (summary["n"] > 0)]
        rows = rows[(rows["family"] == "gaussian") & (rows["privacy"] == privacy)]
        rows = rows[(rows["epsilon"] == epsilon) & ~(rows["delta"] < 1e-6)]
        n, error = curves["naive_radius10"]
        assert n == rows["n"].tolist()
        assert error == rows["q90"].tolist()


@pytest.mark.parametrize("metric", ["q90", "private_q90", "mean_error", "width_q50", "miss_rate"])
def test_panels_for_families(results: Results, metric: str) -> None:
    axes = drawn({**ERROR, "by": "family", "metric": metric}, results)
    assert [ax.get_title() for ax in axes] == ["gaussian", "student"]
    with_interval = {f"shrinking_rounds{k}" for k in (1, 2, 4)}
    for ax, family in zip(axes, ("gaussian", "student"), strict=True):
        curves = lines(ax)
        if metric in {"width_q50", "miss_rate"}:  # the others have none
            assert set(curves) == with_interval
        else:
            assert with_interval < set(curves)
        rows = results.summary[results.summary["family"] == family]
        rows = rows[(rows["estimator"] == "shrinking_rounds2") & (rows["epsilon"] == 1)]
        rows = rows[rows["privacy"] == "pure"]
        found = lines(ax)["shrinking_rounds2"][1]
        np.testing.assert_array_equal(found, rows[metric].replace(np.inf, np.nan))


def test_panels_for_moment_orders_with_a_bound(results: Results) -> None:
    (ax,) = drawn({**ERROR, "families": ["pair"], "estimators": ["minimax"]}, results)
    assert ax.get_title() == "$k = 2$"
    rows = results.summary[results.summary["family"] == "pair"]
    rows = rows[rows["estimator"] == "minimax"]
    rows = rows[(rows["privacy"] == "pure") & (rows["epsilon"] == 1)]
    assert lines(ax)["lower bound"][1] == rows.groupby("n")["lower_bound"].max().tolist()
    # The worst of the members.
    assert lines(ax)["minimax"][1] == rows.groupby("n")["q90"].max().tolist()


@pytest.mark.parametrize(
    ("by", "metric"), [("k", "q90"), ("family", "private_q90"), ("budget", "q90")]
)
@pytest.mark.parametrize("families", [["gaussian", "student"], ["pair"]])
def test_errors_up_to_1e300_leave_the_frame(
    results: Results, by: str, metric: str, families: list[str], tmp_path: Path
) -> None:
    """A search that went astray, failures, and an exact answer beside them."""
    summary = results.summary.copy()
    for estimator in ("histogram_radius1e+300", "minimax"):
        rows = summary.index[summary["estimator"] == estimator]
        for column in ("q90", "q90_high", "mean_error", "private_q90"):
            summary.loc[rows[::2], column] = 1e300
        summary.loc[rows[1::4], ["q90", "q90_high"]] = np.inf
    summary.loc[summary.index[summary["estimator"] == "mean"][0], ["q90", "q90_low"]] = 0.0
    wild = dataclasses.replace(results, summary=summary)
    spec = {**ERROR, "families": families, "by": by, "metric": metric}
    for ax in drawn(spec, wild):
        low, high = ax.get_ylim()
        assert 0 < low < high < 1e30
        heights = np.concatenate([y for _, y in lines(ax).values()])
        assert high < np.nanmax(heights) < 1e40
    if by == "k" and families == ["pair"]:  # neither does writing it overflow
        for path in save(Figure.build(spec, "at").draw(wild), tmp_path, "wild"):
            assert path.stat().st_size > 1000


def test_sample_complexity_curves(results: Results) -> None:
    axes = drawn({"kind": "sample_complexity_curves", "request": "accuracy"}, results)
    assert len(axes) == 6  # three estimators under two budgets
    titles = [ax.get_title() for ax in axes]
    assert sum("\n" in title for title in titles) == 6
    assert sum(r"$R = 10^{6}$" in title for title in titles) == 2
    table = results.samples
    table = table[(table["request"] == "accuracy") & (table["estimator"] == "naive_radius10")]
    table = table[table["privacy"] == "pure"]
    ax = next(ax for ax in axes if "$R = 10$" in ax.get_title() and "varepsilon" in ax.get_title())
    curves = lines(ax)
    curve = table[table["method"] == "curve"].sort_values("alpha")
    known = curve.dropna(subset="samples")
    assert sorted(curves["measured"][1]) == sorted(known["samples"])
    np.testing.assert_allclose(sorted(curves["measured"][0]), sorted(1 / known["alpha"]))
    search = table[table["method"] == "search"]
    assert curves["direct search"][1] == search["samples"].tolist()
    total = curve[["sampling_term", "privacy_term", "range_term"]].sum(axis=1)
    np.testing.assert_allclose(curves["theory, all terms"][1], total)
    low, high = ax.get_ylim()
    assert low < min(known["samples"].min(), total.min())
    assert high > max(known["samples"].max(), total.max())
    one = {
        "kind": "sample_complexity_curves", "request": "accuracy", "estimators": ["naive_radius10"],
        "families": ["gaussian"],
    }  # fmt: skip
    assert len(drawn(one, results)) == 2


def test_curves_that_the_grid_does_not_reach(results: Results) -> None:
    """No n found at all: the theory alone is drawn."""
    samples = results.samples.copy()
    samples[["samples", "low", "high"]] = np.nan
    empty = dataclasses.replace(results, samples=samples)
    for ax in drawn({"kind": "sample_complexity_curves", "request": "accuracy"}, empty):
        assert "theory, all terms" in lines(ax)


def test_thresholds_against_the_radius(results: Results) -> None:
    axes = drawn({"kind": "thresholds", "request": "threshold"}, results)
    assert len(axes) == 3  # epsilon = 0.5 and 1, and rho
    table = results.samples[results.samples["request"] == "threshold"]
    for ax in axes:
        assert ax.get_xlabel() == "$R$"
        assert set(lines(ax)) == {"histogram", "naive"}
        assert lines(ax)["histogram"][0] == pytest.approx([1, 6, 300])  # log10 R
    rows = table[(table["privacy"] == "zcdp") & table["estimator"].str.startswith("histogram")]
    wanted = rows.sort_values("radius")["samples"].tolist()
    found = [lines(ax)["histogram"][1] for ax in axes]
    assert any(np.array_equal(one, wanted, equal_nan=True) for one in found)
    # What may leave the frame does not set it.
    free = drawn({"kind": "thresholds", "request": "threshold", "leave": ["naive_*"]}, results)
    for ax, group in zip(free, ("pure", "pure", "zcdp"), strict=True):
        rows = table[(table["privacy"] == group) & table["estimator"].str.startswith("histogram")]
        assert ax.get_ylim()[1] <= 1.15 * rows["high"].max()


def test_thresholds_against_delta(results: Results) -> None:
    spec = {"kind": "thresholds", "request": "deltas", "against": "delta"}
    (ax,) = drawn(spec, results)
    assert ax.get_xlabel() == r"$\ln(1/\delta)$"
    assert sorted(lines(ax)["free"][0]) == pytest.approx([6 * np.log(10), 100 * np.log(10)])


@pytest.mark.parametrize("logarithmic", [True, False])
def test_columns_against_a_parameter(results: Results, logarithmic: bool) -> None:
    axes = drawn({**PARAMETER, "logarithmic": logarithmic}, results)
    assert len(axes) == 6  # three metrics on two families
    summary = results.summary
    cases = [(m, f) for m in PARAMETER["metrics"] for f in PARAMETER["families"]]
    for ax, (metric, family) in zip(axes, cases, strict=True):
        assert ax.get_title() == family
        assert ax.get_xscale() == ("log" if logarithmic else "linear")
        assert ax.get_yscale() == ("linear" if metric == "miss_rate" else "log")
        curves = lines(ax)
        assert set(curves) == {"shrinking, n = 300", "shrinking, n = 1000"}
        rows = summary[(summary["privacy"] == "zcdp") & (summary["family"] == family)]
        for n in (300, 1000):
            at = rows[rows["n"] == n].set_index("estimator")[metric]
            wanted = [at[f"shrinking_rounds{k}"] for k in (1, 2, 4)]
            assert curves[f"shrinking, n = {n}"] == ([1, 2, 4], wanted)
    (ax,) = drawn({**PARAMETER, "families": ["student"], "n": 300, "metrics": ["q90"]}, results)
    assert set(lines(ax)) == {"shrinking"}


def test_the_worst_member_against_a_parameter(results: Results) -> None:
    spec = {"estimators": ["clip_*"], "parameter": "clip_at", "n": 1000, "metrics": ["q90"]}
    (ax,) = drawn({**PARAMETER, **spec, "families": ["pair"]}, results)
    rows = results.summary[(results.summary["n"] == 1000) & (results.summary["privacy"] == "zcdp")]
    worst = rows[rows["family"] == "pair"].groupby("estimator")["q90"].agg(["max", "min"])
    assert (worst["max"] > worst["min"]).all()
    wanted = [worst.loc[f"clip_clip_at{t}", "max"] for t in (3, 30, 300)]
    assert lines(ax)["clip"] == ([3, 30, 300], wanted)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ({**ERROR, "families": ["x"]}, ["at.families", "'x'", "gaussian, student"]),
        ({**ERROR, "estimators": ["x"]}, ["at.estimators", "'x'"]),
        ({**ERROR, "budget": ["pure_*"]}, ["at.budget", "one budget", "by: budget"]),
        ({**ERROR, "budget": ["x"], "by": "budget"}, ["at.budget", "'x'", "zcdp"]),
        ({**ERROR, "by": "x"}, ["at.by", "'x'", "family"]),
        ({**ERROR, "metric": "x"}, ["at.metric", "'x'", "q90"]),
        ({"kind": "sample_complexity_curves"}, ["at.request", "required"]),
        ({"kind": "sample_complexity_curves", "request": "x"}, ["at.request", "'x'", "accuracy"]),
        (
            {"kind": "sample_complexity_curves", "request": "accuracy", "estimators": ["x"]},
            ["at.estimators", "'x'"],
        ),
        (
            {"kind": "sample_complexity_curves", "request": "accuracy", "families": ["x"]},
            ["at.families", "'x'"],
        ),
        ({"kind": "thresholds", "request": "x"}, ["at.request", "'x'", "threshold"]),
        ({"kind": "thresholds", "request": "threshold", "leave": ["x"]}, ["at.leave", "'x'"]),
        ({"kind": "thresholds", "request": "threshold", "against": "x"}, ["at.against", "'x'"]),
        ({**PARAMETER, "families": ["x"]}, ["at.families", "'x'"]),
        ({**PARAMETER, "estimators": ["x"]}, ["at.estimators", "'x'"]),
        ({**PARAMETER, "estimators": ["naive_*"]}, ["at.estimators", "naive_radius10", "rounds"]),
        ({**PARAMETER, "budget": "x"}, ["at.budget", "'x'"]),
        ({**PARAMETER, "budget": ["zcdp", "x"]}, ["at.budget", "'x'"]),
        ({**PARAMETER, "budget": []}, ["at.budget"]),
        ({**PARAMETER, "n": 0}, ["at.n", "0"]),
        ({**PARAMETER, "metrics": ["x"]}, ["at.metrics", "'x'"]),
        ({**PARAMETER, "parameter": "x"}, ["at.estimators", "x"]),
    ],
)
def test_unknown_labels_of_the_other_kinds_are_refused(
    spec: dict[str, Any], words: list[str]
) -> None:
    sweep = Sweep.build(SPEC)
    requests = {name: from_mapping(SampleComplexity, one, name) for name, one in REQUESTS.items()}
    with pytest.raises(ConfigError) as caught:
        Figure.build(spec, "at").check(sweep, Asked((), requests), "at")
    assert len(str(caught.value).splitlines()) == 1
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("kind", ["sample_complexity_curves", "thresholds"])
def test_a_pattern_for_a_request_is_refused(kind: str) -> None:
    sweep = Sweep.build(SPEC)
    requests = {name: from_mapping(SampleComplexity, one, name) for name, one in REQUESTS.items()}
    with pytest.raises(ConfigError, match=r"^at\.request"):
        Figure.build({"kind": kind, "request": "*"}, "at").check(sweep, Asked((), requests), "at")
