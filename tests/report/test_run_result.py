"""Errors of every trial and figures of a run."""

from __future__ import annotations

import re
from pathlib import Path

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import dpbench
from dpbench import ConfigError
from dpbench.analysis.trial_statistics import quantile
from dpbench.report.overview import overview
from dpbench.report.run_result import Result, _read_table
from dpbench.runner.store import Memory
from tests.own import OWN, SAMPLING, spec_of


@pytest.fixture(scope="module")
def result() -> Result:
    """A run in memory, to be read only."""
    return dpbench.run(OWN, n_jobs=1)


def test_the_errors_of_every_trial(result: Result) -> None:
    """Cut to what was asked; the summary's quantiles are theirs."""
    found = result.errors(estimator="clipped", n=[100, 400], family="gaussian", privacy="pure")
    assert len(found) == 2 * 40
    assert set(found["trial"]) == set(range(40))
    assert {"error", "sampling", "bias", "noise", "private", "distribution", "k"} <= set(found)
    assert np.all(found["error"] <= found["sampling"] + found["private"] + 1e-12)
    whole = result.errors()
    keys = ["distribution", "estimator", "privacy", "epsilon", "rho", "n"]
    grouped = whole.groupby(keys, dropna=False)["error"]
    assert set(grouped.size()) == {40}
    assert len(whole) == 40 * len(result.summary)
    for _, row in result.summary.iterrows():
        one = grouped.get_group(tuple(row[key] for key in keys)).to_numpy()
        for q, column in ((0.5, "q50"), (0.9, "q90")):
            assert row[column] == quantile(one[None], q)[0] == np.sort(one)[int(q * 40) - 1]
    assert result.errors(rho=[0.1, 1])["privacy"].eq("zcdp").all()
    pd.testing.assert_frame_equal(result.errors(n=np.array([100, 400])), whole)
    with pytest.raises(KeyError, match="'nope': no such column; choose from distribution, family"):
        result.errors(nope=1)


def test_figures_on_a_callers_axes(result: Result) -> None:
    plt.close("all")
    before = dict(mpl.rcParams)
    canvas = plt.figure()
    ax = canvas.add_subplot()
    try:
        assert result.plot("errors", ax=ax, panel=0) is ax
        described = {"kind": "error_against_n", "families": "gaussian", "budgets": "pure"}
        assert result.figure(described, width="column") is not result.figure("errors")
        assert plt.get_fignums() == [canvas.number]
        assert dict(mpl.rcParams) == before
        assert result.plot("errors") is plt.gca() is ax
        for name, line in (
            ("nope", "figure: 'nope': no such figure; choose from errors"),
            ({"kind": "nope"}, "figure.kind: 'nope': choose from"),
            ({**described, "families": "nope"}, "figure.families: 'nope': no such"),
        ):
            with pytest.raises(ConfigError, match=line):
                result.plot(name, ax=ax)
        with pytest.raises(ConfigError, match="panel: 9: "):
            result.plot("errors", ax=ax, panel=9)
    finally:
        plt.close(canvas)


def test_labels_of_a_table_are_no_missing_values(tmp_path: Path) -> None:
    """Only an empty cell is: a label may look like what pandas takes for none, or for a number."""
    labels = ["null", "NA", "nan", "none", "1e3"]
    frame = pd.DataFrame({"estimator": labels, "privacy": "none", "q90": [1.0, np.nan, 2, 3, 4]})
    frame.to_csv(tmp_path / "summary.csv", index=False)
    found = _read_table(tmp_path / "summary.csv")
    assert found["estimator"].tolist() == labels
    assert found["q90"].isna().tolist() == [False, True, False, False, False]


@pytest.mark.parametrize(
    ("selected", "told"),
    [
        ({"n": 123}, "n=123: no such row; there are 100, 400"),
        ({"n": [100, 7]}, "n=7: no such row; there are 100, 400"),
        ({"epsilon": 3}, "epsilon=3: no such row; there are 1, None"),
        ({"estimator": "cliped"}, "estimator='cliped': no such row; did you mean "),
        (
            {"privacy": "zcdp", "epsilon": 1},
            r"epsilon=\[1\]: no such row together with privacy=\['zcdp'\]; there are None",
        ),
    ],
)
def test_errors_without_a_match_tell_what_there_is(
    result: Result, selected: dict[str, object], told: str
) -> None:
    with pytest.raises(KeyError, match=told):
        result.errors(**selected)


def test_a_result_describes_itself(tmp_path: Path) -> None:
    part = {"n": [100, 400], "trials": 40, "claims": {"rate": SAMPLING}}
    spec = spec_of({"m<b>": {"kind": "empirical_mean"}}, parts={"all": part})
    spec["estimators"] = {"mean": {"kind": "empirical_mean"}}
    in_memory = repr(dpbench.run(spec, n_jobs=1))
    assert re.fullmatch(
        r"<Result of sweep '\w+': \d+ rows, \d families, 1 estimators; claims: theorems: 1 \w+.*; "
        r"folder: none, in memory>",
        in_memory,
    )
    assert len(in_memory) < 200
    stored = dpbench.run(spec, n_jobs=1, out=tmp_path / "a<b")
    assert repr(stored).endswith(f"; folder: {tmp_path}/a<b>")
    page = stored._repr_html_()
    assert "<td style='text-align: left'>1: mean</td>" in page
    assert f"{tmp_path}/a&lt;b</td>" in page
    assert repr(dpbench.load(tmp_path / "a<b")) == repr(stored)


def test_variants_are_in_the_order_of_their_numbers() -> None:
    """In the summary, in the claims, and in what is printed."""
    uppers, epsilons = [10, 9, 100], [10, 0.1, 1]
    rate = {**SAMPLING, "estimators": "c"}
    result = dpbench.run(
        {
            "families": {"g": {"kind": "gaussian", "scale": [10, 9]}},
            "estimators": {"c": {"kind": "clipped_mean", "lower": -3, "upper": uppers}},
            "budgets": {"pure": {"kind": "pure_dp", "epsilon": epsilons}},
            "parts": {"all": {"n": [1000, 200], "trials": 10, "claims": {"rate": rate}}},
        },
        n_jobs=1,
    )
    for table in (result.summary, result.claims):
        assert list(table["estimator"].unique()) == ["c_upper9", "c_upper10", "c_upper100"]
        assert list(table["epsilon"].unique()) == [0.1, 1, 10]
    assert list(result.summary["distribution"].unique()) == ["g_scale9", "g_scale10"]
    assert list(result.summary["n"].unique()) == [200, 1000]
    text = result.scoreboard
    assert text.index("c_upper9 ") < text.index("c_upper10 ") < text.index("c_upper100 ")


def test_an_overview_has_six_labels_and_counts_the_rest() -> None:
    summary = pd.DataFrame({"family": [f"f{i}" for i in range(9)], "estimator": "e"})
    told = overview("s", summary, pd.DataFrame(), 0, Memory())
    assert told["families"] == "9: f0, f1, f2, f3, f4, f5, and 3 more"
    assert (told["estimators"], told["rows"], told["claims"]) == ("1: e", "9", "none")


def test_the_trials_of_several_blocks_are_numbered_on() -> None:
    part = {"n": [10], "trials": 450}
    spec = spec_of({}, parts={"all": part})
    spec |= {"estimators": {"mean": {"kind": "empirical_mean"}}}
    spec["families"] = {"g": {"kind": "gaussian"}}
    run = dpbench.run(spec, n_jobs=1)
    assert len(run.cells[0].tasks(0)) > 1
    found = run.errors()
    assert found["trial"].tolist() == list(range(450))
    assert len(set(found["error"])) == 450
    assert np.sort(found["error"])[404] == run.summary["q90"][0]
