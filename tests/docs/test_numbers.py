"""Numbers that pages quote, compared with tables of full runs, with formulas and with sweeps.

`results/tables/SWEEP_TABLE.csv` is the table that a full run of the sweep wrote.
"""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml
from scipy.optimize import brentq
from scipy.special import gammaincc
from scipy.stats import binom, chi, norm

from docs import generate
from dpbench.analysis import claims, factors, smallest_n
from dpbench.benchmark.measure import RUNS
from dpbench.benchmark.problems import read_benchmark
from dpbench.distributions import BoundedZipf, Gaussian, MultivariateGaussian, UserLevelData
from dpbench.distributions.real_column import FOLDER
from dpbench.estimators import BoundedContributionMean, CoinPressMean
from dpbench.package import PACKAGE
from dpbench.planner import needed_records, ranking
from dpbench.privacy import ZCDP, PureDP
from dpbench.privacy.conversions import analytic_sd
from dpbench.report.latex import MAX_TABULAR_ROWS
from dpbench.report.panel_split import MAX_CURVES
from dpbench.samples.binned import MAX_WHOLE_RECORDS
from dpbench.samples.quantile_grid import quantile_grid
from dpbench.theory.exact.ratio import Hourglass
from dpbench.theory.exact.value import exact
from dpbench.theory.families import TwoPointFamily
from dpbench.tracking.check import SUSPICIOUS_GAIN
from dpbench.tracking.comparison import SMALLEST_CHANGE
from experiments.cluster_model import Costs
from tests.support import rng, run

DOCS = Path(generate.__file__).parent
ROOT = DOCS.parent
ONE = PureDP(1.0)
SUPERSCRIPTS = "⁰¹²³⁴⁵⁶⁷⁸⁹"
WORDS = {6: "six", 10: "ten", 11: "eleven"}


def page(name: str) -> str:
    """The text of a page, on one line."""
    return " ".join((DOCS / f"{name}.md").read_text("utf-8").split())


def table(name: str) -> Any:  # mypy takes a minute for types of cells
    return pd.read_csv(ROOT / "results" / "tables" / f"{name}.csv")


def sweep(name: str) -> Any:
    text = (ROOT / "conf" / "sweep" / f"{name}.yaml").read_text("utf-8")
    return yaml.safe_load(text)


def up(number: float, digits: int = 2) -> str:
    """A bound, rounded up, without zeros at its end."""
    return f"{math.ceil(number * 10**digits - 1e-9) / 10**digits:g}"


def assert_states(name: str, *statements: str) -> None:
    text = page(name)
    assert [statement for statement in statements if statement not in text] == []


def test_the_tables_are_those_of_the_present_sweeps() -> None:
    """Columns, claims and requests; the numbers are those of the seed in the sweep's runs."""
    assert list(table("near_optimal_factors")) == list(factors.COLUMNS)
    found = table("real_data_claims")
    assert list(found) == list(claims.COLUMNS)
    assert set(found["claim"]) == set(sweep("real_data")["claims"])
    found = table("heavy_tail_location_sample_complexity")
    assert list(found) == list(smallest_n.COLUMNS)
    assert set(found["request"]) == set(sweep("heavy_tail_location")["sample_complexity"])


def test_results_state_the_largest_factors() -> None:
    rows = table("near_optimal_factors")
    rows["row"] = rows["distribution"].str.replace(r"_k\d+$", "", regex=True)
    optimal = (rows["verdict"] == "optimal").sum()
    assert (rows["error_over_bound_high"] <= 1.1).sum() == optimal
    most = rows.groupby(["row", "privacy"])["error_over_bound_high"].max().unstack()
    vectors, local = most.loc["rare_vectors"], most.loc["rare_local"]
    numbers = most.drop(["rare_vectors", "rare_local"]).max(axis=None)
    gaussian = rows[(rows["row"] == "gaussian") & rows["privacy"].isin(["pure", "approx"])]
    slow, fast = (gaussian[gaussian["epsilon"] == e].groupby("n") for e in (0.01, 1.0))
    first, second = slow["error_over_bound"].max()
    by_n = rows[(rows["row"] == "rare_local") & (rows["privacy"] == "gdp") & (rows["n"] > 1e4)]
    coins = rows[(rows["row"] == "all") & (rows["privacy"] == "zcdp")]["error_over_bound"]
    assert 0.45 < optimal / len(rows) < 0.55
    parts = sweep("near_optimal")["parts"]
    assert_states(
        "results",
        f"In half of the settings below ({optimal} of {len(rows)}), ",
        f"never more than {up(numbers)} times the bound for numbers, {up(local.max())} times in "
        f"the local model, and {up(vectors.max(), 1)} times for vectors",
        f"within a factor of {up(vectors[['pure', 'approx']].max(), 1)} under pure and approximate "
        f"DP, and {up(vectors[['zcdp', 'gdp']].max(), 1)} under zCDP",
        f"within {up(local['zcdp'])} under zCDP and {up(local.drop('zcdp').max())} otherwise",
        f"falls from {first:.2f} at n = 10⁴ to {second:.2f} at n = 10⁵. At ε = 1 it is "
        f"{fast['error_over_bound'].max().iloc[0]:.2f}",
        f"the factor is at most {up(by_n['error_over_bound_high'].max(), 1)}.",
        f"{parts['local']['trials']:,} per distribution for votes in the local model, and "
        f"{parts['vectors']['trials']} for vectors",
        f"the best listed clip has {coins.max():.2f} times the bound there",
    )


def test_results_state_what_printed_constants_cost() -> None:
    rows = table("heavy_tail_location_sample_complexity")
    terms = rows[["sampling_term", "privacy_term", "range_term"]].sum(axis=1)
    needed = rows.pivot_table(index="alpha", columns="estimator", values="samples")
    stated = rows.assign(terms=terms).pivot_table(
        index="alpha", columns="estimator", values="terms"
    )
    large, small = needed.loc[0.06], needed.loc[0.001]
    for name in ("paper", "practical"):
        cells = (float(f"{one[name] / one['tuned']:.2g}") for one in (large, small))
        assert_states("results", " | ".join([f"| `{name}`", *(f"{cell:g}" for cell in cells)]))
    times = [stated.loc[a, "paper"] / needed.loc[a, "paper"] for a in (0.06, 0.001)]
    assert_states(
        "results",
        f"it is {times[0]:.0f} times as large at",
        f"and {float(f'{times[1]:.2g}'):,.0f} times as large at",
    )


def test_results_state_exact_numbers() -> None:
    """Where two bounds are equal, the ratio of two bounds, the error of a mean of vectors."""
    kinds = sweep("heavy_tail")["families"]["two_regimes"]
    crossings = [
        TwoPointFamily(k=k, c=kinds["c"], with_fair_coin=True).crossing(PureDP(0.01))
        for k in (3, 4, 6)
    ]
    first, second, third = (
        f"{n / 10 ** int(math.log10(n)):.1f}·10{SUPERSCRIPTS[int(math.log10(n))]}"
        for n in crossings
    )
    claim = sweep("heavy_tail_multivariate")["parts"]["ratio"]["claims"]["discard_over_project"]
    predicted = math.sqrt(8 / 3) / math.sqrt(2 / 4)
    assert claim["predicted"] == pytest.approx(predicted, abs=0.005)
    trimmed = chi(50).ppf(np.linspace(0.1, 0.9, 1001)).mean() / math.sqrt(1000)
    assert_states(
        "results",
        f"from n = {first} on for k = 3, from {second} on for k = 4, and from {third} on for k = 6",
        f"a factor of {predicted:.2f} at",
        f"within {claim['tolerance']} of this one",
        f"The empirical mean has {trimmed:.3f}",
    )


def test_results_state_the_errors_of_coinpress() -> None:
    """False alarm below 1e-6: both numbers are within 6 standard errors of 400 trials."""
    words = re.search(r"of (0\.\d+) after two rounds and (0\.\d+) after four", page("results"))
    assert words
    data = MultivariateGaussian(d=50, norm=0).sample(rng(), 400, 1000)
    for rounds, stated in zip((2, 4), words.groups(), strict=True):
        estimator = CoinPressMean(radius=70.71, sigma=1, rounds=rounds)
        errors = np.linalg.norm(run(estimator, data, ZCDP(0.5)).value, axis=1)
        errors = np.sort(errors)[40:-40]
        assert float(stated) == pytest.approx(errors.mean(), abs=6 * errors.std() / 16)


def test_the_gallery_states_the_order_of_estimators() -> None:
    rows = table("real_data_claims").set_index(["claim", "distribution"])
    order, loss, rmse = (rows.loc[name] for name in ("order", "loss", "loss_rmse"))
    skewed = ["two_point", "log_normal", "pareto", "hyperexponential"]
    ranks = order.loc[skewed, "measured"].sort_values()
    assert [ranks.index[0], ranks.index[-1]] == ["two_point", "pareto"]
    assert (order["high"] < 0.9).all()
    own, low, high = order.loc["gaussian", ["measured", "low", "high"]]
    losses, squares = loss["measured"], rmse["measured"]
    assert f"{squares['pareto']:.1f}" == f"{squares['log_normal']:.1f}"
    assert_states(
        "gallery",
        f"a rank correlation of {own:.2f} with the order on real columns (95% interval "
        f"{low:.2f} to {high:.2f})",
        f"is {ranks.iloc[0]:.2f} (two-point) to {ranks.iloc[-1]:.2f} (Pareto), and for Student's t "
        f"{order.loc['student', 'measured']:.2f}. For none of the six",
        f"has {losses['gaussian']:.1f} times the smallest error on real data",
        f"is {losses['pareto']:.2f} for Pareto data, and {losses['student']:.1f} for Student's t",
        f"is {squares['gaussian']:.1f} for Gaussian data, and {squares['pareto']:.1f} for Pareto",
    )


def test_captions_of_the_gallery_state_the_sweeps() -> None:
    real, quick, heavy = (sweep(name) for name in ("real_data", "quick", "heavy_tail"))
    parts = [part["trials"] for name, part in heavy["parts"].items() if name != "thresholds"]
    private = len(real["estimators"]) - 1
    drawn = [name for name in real["families"] if not name.endswith("_fixed")]
    columns = [name for name in drawn if real["families"][name]["kind"] == "real_column"]
    assert_states(
        "gallery",
        f"over {quick['parts']['worst_case']['trials']:,} trials",
        f"the {min(parts):,} to {max(parts):,} trials of each point",
        f"over {heavy['parts']['thresholds']['trials']} trials, of the error and of its parts",
        f"over {real['parts']['all']['trials']} trials. A cell",
        f"Ranks of {private} private estimators on {WORDS[len(drawn) - len(columns)]} simulated "
        f"distributions and on {WORDS[len(columns)]} real columns",
    )


def test_the_table_of_contributions_is_computed() -> None:
    law = UserLevelData(
        of=Gaussian(location=0.4, scale=0.1), m=BoundedZipf(exponent=1.5, largest=128)
    )
    kinds = sweep("contributions")["families"]["zipf"]
    assert (kinds["of"]["scale"], kinds["m"]["exponent"], kinds["m"]["largest"]) == (0.1, 1.5, 128)
    shown = page("howto/contributions").replace("*", "")
    for weights in ("records", "capped", "equal"):
        errors = [
            exact(
                "rmse",
                BoundedContributionMean(lower=0, upper=1, cap=cap, weights=weights),
                law,
                3000,
                ONE,
            )
            for cap in (1, 4, 16, 128)
        ]
        row = re.search(rf"\| `{weights}`: [^|]* \| ([\d. |]*\d) \|", shown)
        assert row
        assert row[1].split(" | ") == [f"{error:.4f}" for error in errors]
    mass = np.cumsum(np.arange(1.0, 129) ** -1.5)
    median, most = 1 + np.searchsorted(mass / mass[-1], [0.5, 0.9995])
    assert_states("howto/contributions", f"with median {median} and 0.9995 quantile {most}.")


def test_intervals_state_exact_shares() -> None:
    """Datasets without a rare event, and clipped records of the example."""
    waits = np.random.default_rng(0).normal(8, 10, 20000)
    clipped = np.mean((waits < 0) | (waits > 15))
    assert clipped == pytest.approx(norm.cdf(-0.8) + norm.sf(0.7), abs=0.02)
    assert_states(
        "howto/intervals",
        f"if 1 in 50 records is a one, {binom.pmf(0, 50, 1 / 50):.0%}".replace("%", " of 100"),
        f"the bounds clip {clipped:.0%}".replace("%", " of 100 records"),
    )


def test_pages_state_bounds_and_noises() -> None:
    """Quantiles and second moments by quadrature; ratios that claims of sweeps predict."""
    rows = table("near_optimal_factors")
    small = rows[(rows["rho"] < 0.01) & (rows["n"] >= 1e5)]
    rare = small[small["distribution"].str.match(r"rare_k\d$")]["error_over_bound"].max()
    assert_states("bounds", f"Gaussian noise is within {up(rare)} of the bound over `rare`")
    cube = brentq(lambda x: gammaincc(5, x) - x / 4 * gammaincc(4, x) - 0.1, 0.1, 50)
    gauss = 2 * analytic_sd(1.0, 1e-6) * norm.isf(0.05)
    ratios, x = [], np.linspace(0, 60, 600_001)
    for epsilon in (1.0, 3.0, 10.0):
        square = np.trapezoid(4 * x * Hourglass(epsilon).cdf(-x), x)
        ratios.append(2**0.5 / epsilon / square**0.5)
    smooth = sweep("smooth_sensitivity")["parts"]
    predicted = {
        name: claim["predicted"]
        for part in smooth.values()
        for name, claim in part.get("claims", {}).items()
        if "predicted" in claim
    }
    assert_states(
        "howto/noise",
        f"they are {cube:.1f} (cube), {4 * math.log(10):.1f} (Laplace) and {gauss:.0f} (Gaussian)",
        f"has {ratios[0]:.2f} times its root mean square error at ε = 1, {ratios[1]:.2f} times at "
        f"ε = 3 and {ratios[2]:.1f} times at ε = 10",
        f"has {1 / predicted['polyplace_ratio']:.2f} times the 0.9 quantile of Student's t",
        f"has {predicted['depth_ratio']:.2f} times its error in d = 2",
    )


def test_pages_state_the_limits_of_the_code() -> None:
    grids = [len(quantile_grid(Gaussian(), n).means) for n in (10**6, 10**12)]
    costs = Costs()
    accuracy = yaml.safe_load(
        (PACKAGE / "tracking" / "templates" / "accuracy.yaml").read_text("utf-8")
    )
    (needed,) = {part["trials"] for part in accuracy["parts"].values()}
    change, gain = f"more than {SMALLEST_CHANGE:.0%}", f"more than {SUSPICIOUS_GAIN:.0%}"
    strikes = pd.read_csv(FOLDER / "strike_cost.csv")
    zeros = strikes["count"][strikes["value"] == 0].sum() / strikes["count"].sum()
    mean, real = read_benchmark(), read_benchmark("dpbench-real-v2")
    columns = {problem.id.partition("-n")[0] for problem in real.problems}
    audit = sweep("audit")["audit"]
    order = round(math.log10(float(audit["failure_probability"])))
    stated = {
        "limits": [
            f"Up to n = {MAX_WHOLE_RECORDS:,}, records of",
            f"on about {round(grids[0], -2):,} to {round(grids[1], -2):,} cells",
            "at most 7·10⁻⁵ without a clip",
        ],
        "howto/accuracy": [
            f"its error grew by {change}",
            f"A gain of {gain} also fails",
            f"each row needs {needed:,} trials",
            f"lies within 1/{1 + SMALLEST_CHANGE} .. {1 + SMALLEST_CHANGE}.",
        ],
        "tutorial": [f"an error grew by {change}. A fall by {gain} fails"],
        "howto/plan": [
            f"simulated releases ({ranking.TRIALS}, or {ranking.SLOW_TRIALS} for a slow estimator)",
            f"A search with {needed_records.FIRST_TRIALS} releases at each n",
            f"{needed_records.MIN_TRIALS:,} to {needed_records.MAX_TRIALS:,} releases at both ends",
        ],
        "howto/audit": [
            f"these get {audit['runs']:,} runs per dataset",
            f"probability 1 - 10⁻{SUPERSCRIPTS[-order]}.",
        ],
        "howto/benchmark": [
            f"asks for the means of {len(mean.problems)} frozen problems",
            f"has {len(real.problems)} problems: {WORDS[len(columns)]} {{doc}}`real columns",
            f"up to {RUNS[False]} releases a dataset",
            f"with {RUNS[True]} releases a dataset",
            f"{zeros:.0%} of its values are 0",
        ],
        "howto/reproducibility": [
            f"about {costs.block * 1e3:g} ms of CPU time",
            f"and {costs.share * 1e3:g} ms for a share",
        ],
        "gallery": [
            f"none has more than {WORDS[MAX_CURVES]} curves",
            f"A table of more than {MAX_TABULAR_ROWS} rows is a `longtable`",
        ],
        "vocabulary": ["at most about 1 in 10,000 correct predictions"],
        "howto/read_a_verdict": ["at most about 1 in 10,000 correct predictions"],
    }
    assert 2 * norm.sf(2 * norm.isf(0.025)) <= 1e-4
    for name, statements in stated.items():
        assert_states(name, *statements)
