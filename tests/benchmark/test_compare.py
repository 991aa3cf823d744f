"""Scores side by side, by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from dpbench.analysis.factors import profile
from dpbench.benchmark.compare import (
    BELOW_MARK,
    PANELS,
    _draw_profiles,
    describe_infinite,
    describe_quick_audits,
    overview,
    problem_list,
    profile_band,
    profile_figure,
    tabulate_problems,
)
from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.table import Scores, archive_path
from dpbench.report.drawing.style import line_styles, style


def test_profiles_by_hand() -> None:
    """Of four problems three are answered, one of them in vain; two replicates of each score."""
    draws = [[1.0, 3.0], [2.0, 2.0], [np.inf, 9.0]]
    rows = pd.DataFrame({"score": [1.2, 2.0, np.inf], "draws": [np.array(one) for one in draws]})
    at = [1.0, 2.0, 100.0]
    assert profile(rows["score"], 4, at).tolist() == [0, 0.5, 0.5]
    low, high = profile_band(rows, 4, at)
    # of the replicates the shares are 1/4, 2/4, 2/4 and 0, 1/4, 3/4
    assert np.allclose(low, [0.025 / 4, 1 / 4 + 0.025 / 4, 2 / 4 + 0.025 / 4])
    assert np.allclose(high, [1 / 4 - 0.025 / 4, 2 / 4 - 0.025 / 4, 3 / 4 - 0.025 / 4])
    told = rows.assign(entry="one", failure_rate=[0, 0, 1.0], seconds=2.0, drawing_seconds=4.0)
    (line,) = overview(told, 4, {"one": "open"})
    assert line["estimator"] == "one (open)"
    assert line["<=1.5"] == "25%"
    assert line["<=2"] == line["<=10"] == "50%"
    assert "mean" not in line  # entries answer different problems
    assert line["fails"] == "33.3%"
    assert line["CPU"] == "0.5"


def test_infinite_scores_are_told_in_one_line() -> None:
    benchmark = read_benchmark()
    rows = Scores.read(archive_path(benchmark.name), benchmark).rows
    assert describe_infinite(rows[rows["entry"] == "approximate_bounds_mean"]) == [
        "approximate_bounds_mean: 3 of 33 scores are infinite, because over a tenth of the "
        "releases are NaN or fail: 100% on gauss-n100-pure1"
    ]
    assert describe_infinite(rows[rows["entry"] == "ksu20_mean"]) == []


def test_a_quick_run_says_on_how_many_runs_it_rests() -> None:
    about: dict[str, Any] = {"quick": True, "audited": ["a", "c"]}
    made_quickly = Scores(rows=pd.DataFrame({"entry": ["one"] * 5}), cards={}, about=about)
    said = describe_quick_audits(made_quickly)
    assert said.startswith("quick=true: 2 of 5 scores rest on audits of 100 runs a dataset: a, c;")
    assert said.endswith("with up to 750 runs")
    about["quick"] = False
    assert describe_quick_audits(made_quickly) == ""


FEW = read_benchmark().select("binary-n300-pure0.1,moments2-n300-pure1,local-binary-n3000-pure1")
IDS = [problem.id for problem in FEW.problems]


def made(**entries: list[float]) -> pd.DataFrame:
    """Scores of entries on the three problems, NaN where an entry does not answer."""
    rows = [
        {"entry": name, "problem": IDS[i], "score": s, "score_low": s / 2, "score_high": 3 * s,
         "draws": np.array([s / 2, 3 * s]), "failure_rate": 0.0, "seconds": 6.0 * (i + 1) ** 2,
         "drawing_seconds": 2.0}
        for name, scores in entries.items() for i, s in enumerate(scores) if s > 0
    ]  # fmt: skip
    return pd.DataFrame(rows)


def test_entries_that_solve_more_come_first() -> None:
    """By the share within 1.5, then 2, 5 and 10 times the bound; times by the median."""
    rows = made(few=[4, 4, 9], many=[1.4, 1.4, 7], some=[1.4, 1.9, 7])
    lines = overview(rows, 3, dict.fromkeys(("few", "many", "some"), "declared"))
    assert [line["estimator"] for line in lines] == ["many", "some", "few"]
    assert lines[1] == {
        "estimator": "some", "answers": "3", "<=1.5": "33%", "<=2": "67%", "<=5": "67%",
        "<=10": "100%", "fails": "0.0%", "CPU": "12",
    }  # fmt: skip


def test_the_table_of_problems_by_hand() -> None:
    archive = made(good=[3, 2, np.nan], better=[2, 4, np.nan])
    two = made(mine=[1.5, 30, 7], other=[np.nan, 0.5, 2])
    below = (two["score"] < 1).tolist()
    table = tabulate_problems(two, archive, FEW.problems, below)
    assert [row["problem"] for row in table] == IDS
    assert [(row["best"], row["estimator"]) for row in table] == [
        ("2", "better"), ("2", "good"), ("-", "-"),
    ]  # fmt: skip
    assert [row["mine"] for row in table] == ["1.5", "30", "7"]
    assert [row["other"] for row in table] == ["-", f"0.5{BELOW_MARK}", "2"]
    assert [row["bound"] for row in table] == [f"{p.bound.value:.3g}" for p in FEW.problems]
    (first, *_) = tabulate_problems(made(mine=[4, 5, 6]), archive, FEW.problems, [False] * 3)
    assert first["mine"] == "4 2..12"


def test_the_figure_of_profiles_by_hand() -> None:
    """Shares are of all three problems, also for the best line, which answers two."""
    archive, ax = made(good=[3, 2, np.nan], better=[2, 4, np.nan]), Figure().gca()
    _draw_profiles(ax, made(mine=[1.2, 30, np.nan]), archive, IDS, line_styles(["mine"]))
    shares: dict[str, list[float]] = {}
    for line in ax.get_lines():
        x, y = (np.asarray(data, dtype=float) for data in line.get_data())
        if len(x) > 2:
            shares.setdefault(str(line.get_label()), []).extend(
                np.round(3 * y[np.searchsorted(x, [1.1, 1.3, 2.1, 2.9, 3.5, 5, 40])]).tolist()
            )
    assert shares["archive"] == [0, 0, 1, 1, 1, 2, 2, 0, 0, 1, 1, 2, 2, 2]  # better, good
    assert shares["best of the archive"] == [0, 0, 2, 2, 2, 2, 2]
    assert shares["mine"] == [0, 1, 1, 1, 1, 1, 2]


def test_a_class_that_was_not_entered_is_not_drawn_as_unsolved() -> None:
    archive, ax = made(good=[3, 2, 1]), Figure().gca()
    looks = line_styles(["mine", "absent"])
    _draw_profiles(ax, made(mine=[1.2, 30, 2]), archive, IDS, looks)
    names = {str(line.get_label()) for line in ax.get_lines()}
    assert ("mine" in names, "absent" in names) == (True, False)
    one = made(mine=[1.2, 30, 2])[:1]  # of a single problem
    with style():
        titles = [ax.get_title() for ax in profile_figure(one, archive, FEW.problems).axes]
    assert titles[0] == "all problems (3)"
    entered = [p for p in FEW.problems if p.id == IDS[0]]
    assert len(titles) == 1 + sum(
        any(map(belongs, entered)) for belongs in list(PANELS.values())[1:]
    )


def test_public_knowledge_in_a_few_words() -> None:
    benchmark = read_benchmark().select("binary-n300-pure0.1,gauss-n100-pure1,moments2-n300-pure1")
    told = {row["problem"]: row["known"] for row in problem_list(benchmark.problems)}
    assert told["binary-n300-pure0.1"] == "binary"
    assert told["gauss-n100-pure1"] == "gauss sd=1 R=10"
    assert told["moments2-n300-pure1"] == "moments k=2 R=10"
