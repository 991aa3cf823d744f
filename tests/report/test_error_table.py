"""Tables of errors: their numbers, bold marks, captions and syntax."""

from __future__ import annotations

import dataclasses
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from dpbench.analysis.fallback import FALLBACK_NOTE
from dpbench.registry import ConfigError
from dpbench.report.error_table import _bounds
from dpbench.report.error_table_text import MAX_COLUMNS, _digits
from dpbench.report.run_result import Result
from tests.report.conftest import rows
from tests.report.test_latex import assert_latex

HALF = {"pure": {"epsilon": 0.5}}


def assert_latex_table(text: str) -> None:
    """What LaTeX would refuse, in text and in the cells of each line."""
    body = re.sub(r"(?m)^\\begin\{(tabular|longtable)\}\{.*\}$", r"\\begin{\1}{}", text)
    assert_latex(re.sub(r"\{@\{\}p\{[\d.]+\\linewidth\}@\{\}\}", "{l}", body))
    (columns,) = re.findall(r"\\begin\{(?:tabular|longtable)\}\{(.*)\}", text)
    lines = [line for line in text.splitlines() if " & " in line]
    assert {line.count(" & ") for line in lines} == {columns.count("p{") - 1}


def test_the_numbers_are_those_of_the_worst_distribution(numbers: Result) -> None:
    """Of estimators with a budget, of those without in each block, and of the lower bound."""
    table = numbers.table()
    assert list(table["q90"]) == sorted(numbers.summary["n"].unique())
    at = ("pair_k2", "pure eps=0.5", "private", "minimax")
    mine = rows(numbers, family="pair_k2", epsilon=0.5, estimator="minimax", n=10**6)
    worst = mine.iloc[int(mine["q90"].argmax())]
    assert len(mine) > 1
    names = {"q90": "q90", "low": "q90_low", "high": "q90_high"}
    for name, column in names.items():
        assert table.loc[at, (name, 10**6)] == worst[column]
    bound = table.loc[("pair_k2", "pure eps=0.5", "lower bound", "lower bound"), ("q90", 10**6)]
    assert bound == worst["lower_bound"]
    free = table["q90"].xs("not private", level="role")
    blocks = pd.DataFrame(free.xs("gaussian", level="family")).dropna(axis=1)
    assert len(blocks) == 5
    assert (blocks == blocks.iloc[0]).all(axis=None)
    assert not table["best"].xs("not private", level="role").to_numpy().any()
    assert table["best"].to_numpy().dtype == bool


def test_bold_is_the_best_and_what_overlaps_its_interval(numbers: Result) -> None:
    wide = numbers.table(families="gaussian", budgets=HALF, n=[1000])
    private = wide.xs("private", level="role")
    best = private["q90"][1000].idxmin()
    ties = private["low"][1000] <= private["high"][1000][best]
    assert (private["best"][1000] == ties).all()
    assert 1 < ties.sum() < len(ties)
    text = numbers.table(families="gaussian", budgets=HALF, n=[1000], format="markdown")
    bold = {line.split("`")[1] for line in text.splitlines() if "| **" in line}
    assert bold == set(private.index.get_level_values("estimator")[ties])
    tex = numbers.table(families="gaussian", budgets=HALF, n=[1000], format="latex")
    assert tex.count(r"\mathbf") == len(bold)
    # A single private estimator is not the best of any.
    alone = numbers.table(families="pair", estimators="minimax", format="markdown")
    assert "| **" not in alone
    assert "Bold" not in alone


def test_columns_are_n_or_budgets(numbers: Result) -> None:
    """By default what was run in several values; chosen by the caller, and then all of them."""
    heads = r"\| estimator \| (.*) \|"
    text = numbers.table(families="gaussian", format="markdown")
    shown = ["n = 30", "n = 100", "n = 1000", "n = 3000"]
    assert {tuple(head.split(" | ")) for head in re.findall(heads, text)} == {tuple(shown)}
    assert len(shown) == MAX_COLUMNS
    assert "The table shows 4 values of n at most." in text
    every = numbers.table(families="gaussian", n=[30, 100, 300, 1000, 3000], format="markdown")
    assert {len(head.split(" | ")) for head in re.findall(heads, every)} == {5}
    one = numbers.table(families="pair", n=[10**6], format="markdown")
    head = "pure DP, ε = 0.5 | pure DP, ε = 1 | zCDP, \N{GREEK SMALL LETTER RHO} = 0.5"
    assert set(re.findall(heads, one)) == {head}
    assert "**`pair_k2` (worst of 6 distributions), n = 10⁶**" in one
    assert one == numbers.table(families="pair", n=[10**6], columns="budget", format="markdown")
    other = numbers.table(families="pair", n=[10**6], columns="n", format="markdown")
    assert set(re.findall(heads, other)) == {"n = 10⁶"}
    frame = numbers.table(families="pair", columns="budget")
    assert list(frame["q90"]) == ["pure eps=0.5", "pure eps=1", "zcdp rho=0.5"]


def test_markdown_is_a_table_on_github(numbers: Result) -> None:
    """Each table after a blank line, with rules, and as many cells in each line."""
    caption, *parts = numbers.table(format="markdown").strip("\n").split("\n\n")
    for sentence in (
        "Error (0.9 quantile) in the sweep `numbers`, on the worst distribution of each family, "
        "over 40 trials.",
        "Brackets: 95 per cent intervals of the quantile from order statistics.",
        "Bold: the smallest error of several private estimators in a column, and each error whose "
        "interval overlaps the interval of the smallest.",
        "Italic: estimators without privacy and the lower bound. No private estimator has errors "
        "below the bound on all distributions of the class.",
    ):
        assert sentence in caption
    titles, tables = parts[::2], parts[1::2]
    assert len(titles) == len(tables) > 10
    for title, table in zip(titles, tables, strict=True):
        assert re.fullmatch(r"\*\*`\w+`.*\*\*", title)
        lines = table.splitlines()
        assert re.fullmatch(r"\| --- \|( ---: \|)+", lines[1])
        assert {line.count(" | ") for line in lines} == {lines[0].count(" | ")}
        names = [line.split(" | ")[0] for line in lines[2:]]
        italic = [name.startswith("| *") for name in names]
        assert italic == sorted(italic)  # apart, at the end
        assert names[-1] in ("| *lower bound*", "| *`mean`*")


def test_latex_has_what_latex_takes(numbers: Result, tmp_path: Path) -> None:
    """A float, and a long table; compiled, if the machine has LaTeX."""
    long = numbers.table(format="latex")
    short = numbers.table(families="pair", budgets=HALF, format="latex")
    budgets = numbers.table(families="gaussian", n=[100], estimators="mean", format="latex")
    for text, kind in ((long, "longtable"), (short, "tabular"), (budgets, "tabular")):
        assert_latex_table(text)
        assert rf"\begin{{{kind}}}" in text
        assert text.count(r"\caption{") == 1 == text.count(r"\label{tab:numbers-errors}")
    assert r"\emph{mean} & $0.164$ $[0.131, 0.231]$" in budgets
    assert r"{pair, $k = 2$ (worst of 6 distributions), pure DP, $\varepsilon = 0.5$}" in short
    assert r"\begin{table}" in short
    assert r"\begin{table}" not in long
    if shutil.which("pdflatex") is None:
        return
    head = r"\documentclass{article}\usepackage{array,booktabs,longtable}\begin{document}"
    (tmp_path / "all.tex").write_text(f"{head}\n{long}{short}{budgets}\\end{{document}}\n")
    command = ["pdflatex", "-interaction=nonstopmode", "-halt-on-error", "-draftmode", "all.tex"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout
    assert "Overfull" not in done.stdout


def test_names_are_escaped(numbers: Result) -> None:
    study = dataclasses.replace(numbers.study, name="a_b")
    changed = dataclasses.replace(numbers, study=study)
    tex = changed.table(families="pair", budgets=HALF, format="latex")
    assert_latex_table(tex)
    assert r"\texttt{a\_b}" in tex
    assert "`a_b`" in changed.table(families="pair", budgets=HALF, format="markdown")


def test_failures_and_what_was_not_run(numbers: Result) -> None:
    summary = numbers.summary.copy()
    mine = (summary["estimator"] == "minimax") & (summary["n"] == 10**6)
    summary.loc[mine, ["q90", "q90_high"]] = np.inf
    gone = (summary["estimator"] == "clip_threshold3") & (summary["n"] == 10**8)
    changed = dataclasses.replace(numbers, summary=summary[~gone])
    text = changed.table(families="pair", budgets=HALF, format="markdown")
    assert re.search(r"`minimax` \| \S+ \[.*?\] \| ∞ \[\S+, ∞\] \| ", text)
    assert re.search(r"`clip_threshold3` .* \| -- \|", text)
    assert text.splitlines()[0].endswith("∞: too many trials released nothing. --: not run.")
    tex = changed.table(families="pair", budgets=HALF, format="latex")
    assert_latex_table(tex)
    assert r"$\infty$ $[2" in tex


def test_other_metrics_have_no_lower_bound(numbers: Result) -> None:
    text = numbers.table("mean_error", families="pair", format="markdown")
    assert text.startswith("Mean error in the sweep `numbers`")
    assert "lower bound" not in text
    without = numbers.table("rmse", families="pair", format="markdown")
    assert "[" not in without
    assert "Brackets" not in without


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        ({"metric": "q91"}, "metric: 'q91': choose from mean_error"),
        ({"metric": "bias"}, "metric: 'bias': choose from mean_error"),
        ({"columns": "m"}, "columns: 'm'"),
        ({"format": "html"}, "format: 'html': choose from 'latex', 'markdown', None"),
        ({"families": "nope"}, "families: 'nope': no such name; choose from gaussian"),
        ({"n": [31]}, "n: 31: not run; choose from 30, 100, 300"),
        ({"n": []}, "n: "),
        ({"family": "pair"}, "family: no such argument; did you mean 'families'?"),
        ({"families": "gaussian", "estimators": "minimax"}, "nothing that was run is selected"),
    ],
)
def test_arguments_that_cannot_be_used(
    numbers: Result, arguments: dict[str, Any], told: str
) -> None:
    with pytest.raises(ConfigError, match=re.escape(told)):
        numbers.table(**arguments)


@pytest.mark.parametrize(
    ("value", "low", "high", "texts", "power"),
    [
        (0.012345, 0.01, 0.0234, ["0.0123", "0.0100", "0.0234"], None),
        (0.0099999, 0.009, 0.011, ["0.0100", "0.0090", "0.0110"], None),
        (0.0012345, 0.001, 0.0112, ["1.23", "1.00", "11.20"], -3),
        (1234.5, 1200, 1300, ["1234", "1200", "1300"], None),
        (12345.0, 0, np.inf, ["1.23", "0.00", "∞"], 4),
        (np.inf, 2.5, np.inf, ["∞", "2.50", "∞"], None),
        (0.0, 0.0, 0.0, ["0.00", "0.00", "0.00"], None),
        (1.0, np.nan, np.nan, ["1.00"], None),
        (1.0, np.nan, 2.0, ["1.00"], None),
    ],
)
def test_three_digits(
    value: float, low: float, high: float, texts: list[str], power: int | None
) -> None:
    row = pd.Series({"value": value, "low": low, "high": high})
    assert _digits(row.to_dict()) == (texts, power)


def test_an_answer_without_data_is_marked_and_never_best(numbers: Result) -> None:
    summary = numbers.summary.copy()
    at = (summary["estimator"] == "naive_radius10") & (summary["n"] == 300)
    summary.loc[at, ["q50", "q90", "q90_low", "q90_high"]] = 1e-298
    lucky = dataclasses.replace(numbers, summary=summary)
    table: Any = lucky.table(families="gaussian")
    rows = table["best"][300].xs("naive_radius10", level="estimator")
    assert not rows.any()
    assert table["best"][300].any()
    markdown = lucky.table(families="gaussian", n=[300], format="markdown")
    assert r"1.00e-298\* [" in markdown
    assert FALLBACK_NOTE in markdown
    assert r"10^{-298}^*$" in lucky.table(families="gaussian", n=[300], format="latex")
    assert FALLBACK_NOTE not in numbers.table(families="gaussian", format="markdown")


def test_the_bound_for_a_family_is_the_smallest_of_its_estimators() -> None:
    """Every estimator of a family must be above the number that stands in the table."""
    row = {"family": "f", "budget": "b", "n": 100, "role": "private", "bound_name": "two-point"}
    frame = pd.DataFrame([row | {"lower_bound": bound} for bound in (0.3, 0.1, np.nan, 0.2)])
    assert _bounds(frame)["value"].tolist() == [0.1]
