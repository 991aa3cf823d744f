"""Exponents, sample complexities and thresholds, as drawn."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.output.names import display_name
from dpbench.report.labels import exponent_text
from dpbench.report.run_result import Result
from dpbench.theory.theorems import THEOREMS
from tests.report.conftest import drawn, lines
from tests.report.specs import ACCURACY, THRESHOLD


def test_exponents_of_several_budgets(numbers: Result) -> None:
    """Those of claims.csv, with intervals, beside the curve of theory and without it."""
    above, below = drawn(numbers, "exponents")
    assert above.get_ylabel() == r"$s$ in $\mathit{n} \sim (1/α)^s$"  # noqa: RUF001
    ((_, k, theory),) = lines(above, "theory")
    np.testing.assert_allclose(theory, np.array(k) / (np.array(k) - 1))
    claims = numbers.claims[numbers.claims["claim"] == "rate"]
    assert (min(k) < 2, max(k) > 3) == (True, True)  # beyond the orders of the sweep
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


def test_differences_lie_in_the_widest_band_around_their_orders(numbers: Result) -> None:
    """Series are moved sideways by steps of equal length, which add up to 0."""
    tolerances = 0.1 + 0.01 * np.arange(len(numbers.claims))
    wider = dataclasses.replace(numbers, claims=numbers.claims.assign(tolerance=tolerances))
    _, below = drawn(wider, "exponents")
    shown = wider.claims.loc[wider.claims["claim"] == "rate", "tolerance"]
    assert shown.min() < shown.max()
    (band,) = below.patches
    path = band.get_path().transformed(band.get_patch_transform())
    heights = np.asarray(path.vertices, dtype=float)[:, 1]
    assert (heights.min(), heights.max()) == pytest.approx((-shown.max(), shown.max()))
    moved = [
        line.get_transform().transform((2, 0))[0] - below.transData.transform((2, 0))[0]
        for line, _, _ in below.containers
    ]
    assert len(moved) == 3
    assert np.diff(moved)[0] == pytest.approx(np.diff(moved)[1])
    assert np.diff(moved)[0] > 0
    assert sum(moved) == pytest.approx(0, abs=1e-9)


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
    inverse = (1 / curve["alpha"].sort_values()).tolist()
    np.testing.assert_allclose(found["theory, all terms"][1], terms.sum(axis=1), rtol=1e-12)
    for name in ("sampling", "privacy", "range"):
        assert found[f"{name} term"] == (inverse, terms[f"{name}_term"].tolist())
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


def test_thresholds_are_those_of_the_smallest_error(numbers: Result) -> None:
    coarser = numbers.samples.assign(
        alpha=2 * numbers.samples["alpha"], samples=numbers.samples["samples"] / 4
    )
    both = dataclasses.replace(numbers, samples=pd.concat([coarser, numbers.samples]))
    for one, two in zip(drawn(numbers, THRESHOLD), drawn(both, THRESHOLD), strict=True):
        np.testing.assert_equal(lines(two), lines(one))  # NaN are equal
        assert one.get_ylabel() == two.get_ylabel()


def test_thresholds_against_delta(numbers: Result) -> None:
    (ax,) = drawn(numbers, {"kind": "thresholds", "request": "deltas", "against": "delta"})
    assert ax.get_xlabel() == r"$\ln(1/\delta)$"
    table = numbers.samples[numbers.samples["request"] == "deltas"]
    for (label, x, y), family in zip(lines(ax), ("gaussian", "student"), strict=True):
        assert label == f"free, {display_name(family)}"
        at = table[table["distribution"] == family].sort_values("delta", ascending=False)
        assert x == pytest.approx([6 * np.log(10), 100 * np.log(10)])
        assert y == at["samples"].tolist()


@pytest.mark.parametrize(
    ("theorem", "words"),
    [
        ("heavy_tail_alpha", ("n", "(1/α)", "s")),  # noqa: RUF001
        ("core_epsilon", ("n", "(1/ε)", "s")),
        ("bounded_n", ("error", "n", "c")),
        ("ball_radius", ("error", "R", "c")),
    ],
)
def test_an_exponent_is_of_n_at_a_fixed_error_or_of_the_error(
    theorem: str, words: tuple[str, str, str]
) -> None:
    assert exponent_text(THEOREMS[theorem]) == words
