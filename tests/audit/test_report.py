"""What an audit prints of several pairs."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from dpbench.audit.report import bounds_figure, list_blind_rows, render, select_strongest


def test_what_is_printed_is_the_strongest_of_each() -> None:
    rows = [("a", 0.5), ("a", 0.9), ("a", np.nan), ("b", np.nan), ("b", 0.0)]
    table = pd.DataFrame(rows, columns=["estimator", "lower_bound"])
    table = table.assign(notion="pure", delta=np.nan, claimed=1.0, runs=9, pair=list("vwxyz"))
    table = table.assign(
        pairs=3, detectable_noise=[0.5, 0.5, 0.5, np.nan, np.nan], verdict="failed"
    )
    table = table.assign(move_over_sensitivity=[np.nan, 2.0, 2.0, np.inf, np.inf])
    table = table.assign(refuted_by_replay=["", "it moves", "", "", ""])
    assert select_strongest(table)["pair"].tolist() == ["w", "z"]
    printed = render(table, table)
    replayed = "replay refutes a under pure: it moves"
    assert (
        f"5 pairs: 0 refuted, 5 failed\n0 of 2 controls caught\n{replayed}\n9 runs a side miss"
        in printed
    )
    printed_too = render(table, table, ["a", "b"])
    assert "a replay misses a, b" in printed_too
    assert "runs a side miss" not in printed_too
    assert "controls, broken on purpose; 9 runs a side\n" in printed
    lines = [one.split() for one in printed.splitlines() if " w " in one]
    found = ["a", "pure", "w", "1", "0.900", "x", "0.5", "2"]
    assert lines == [[*found, "failed"], [*found, "missed"]]
    assert max(map(len, printed.splitlines())) <= 80


def test_only_missed_controls_are_listed() -> None:
    rows = [("a", 0.5, "refuted"), ("b", 0.9, "refuted"), ("c", 0.1, "not refuted")]
    table = pd.DataFrame(rows, columns=["estimator", "lower_bound", "verdict"])
    table = table.assign(notion="pure", delta=np.nan, claimed=1.0, runs=9, pair="p", pairs=1)
    table = table.assign(
        detectable_noise=np.nan, move_over_sensitivity=np.nan, refuted_by_replay=""
    )
    for missed, found in (([], "c"), (["a"], "ac")):
        printed = render(table, table, missed)
        assert "2 of 3 controls caught" in printed
        _, _, controls = printed.partition("Missed controls, broken on purpose")
        lines = controls.split("\n\n")[0].splitlines()[2:]
        assert "".join(line[0] for line in lines) == found
    printed = render(table, table[:2])
    assert "2 of 2 controls caught" in printed
    assert "Missed controls" not in printed


def test_blind_rows_are_named_by_their_reason() -> None:
    """The strongest pair of each counts; an old table has no such columns."""
    rows = [("a", 0.5, "x: one"), ("a", 0.9, "x: two"), ("b", 0.1, ""), ("c", 0.2, "x: more")]
    table = pd.DataFrame(rows, columns=["estimator", "lower_bound", "blind"])
    table = table.assign(notion="pure", delta=np.nan, claimed=1.0, runs=9, pair="p", pairs=3)
    table = table.assign(detectable_noise=np.nan, verdict="not refuted")
    table = table.assign(move_over_sensitivity=np.nan, refuted_by_replay="")
    table = table.assign(blind_additive=pd.Series(["", "", np.nan, "y: z"]))
    wanted = [
        "Half of all noise: not refuted in 2 of 3 rows", "  x: a pure, c pure",
        "Half of additive noise alone: not refuted in 1 of 3 rows", "  y: c pure",
    ]  # fmt: skip
    assert list_blind_rows(table) == wanted
    assert all(line in render(table, table.assign(verdict="refuted")) for line in wanted)
    assert list_blind_rows(table.drop(columns=["blind", "blind_additive"])) == []
    many = pd.concat(
        [table.assign(estimator=f"estimator_{i}") for i in range(30)], ignore_index=True
    )
    assert max(map(len, render(many, many).splitlines())) <= 80
    assert list_blind_rows(many)[1].endswith(
        "estimator_11 pure, and 18 more: see blind in audit.csv"
    )


def test_the_figure_shows_the_largest_bound_over_the_claim() -> None:
    """Budgets of one notion share a mark; the estimator with the largest share stands on top."""
    rows = [
        ("a", "approx", 0.5, 1.0), ("a", "approx_laplace", 0.75, 1.0), ("a", "approx", 0.2, 1.0),
        ("a", "zcdp", 0.1, 0.5), ("b", "zcdp", 1.5, 0.5),
    ]  # fmt: skip
    table = pd.DataFrame(rows, columns=["estimator", "notion", "lower_bound", "claimed"])
    (ax,) = bounds_figure(table.assign(delta=np.nan)).axes
    assert [text.get_text() for text in ax.get_yticklabels()] == ["a", "b"]
    marks = {
        str(line.get_label()): sorted(zip(*np.asarray(line.get_data(), dtype=float), strict=True))
        for line in ax.get_lines() if line.get_linestyle() == "None"
    }  # fmt: skip
    assert sorted(marks.values()) == [[(0.2, 0), (3.0, 1)], [(0.75, 0)]]
    assert ax.get_xlim() == pytest.approx((0, 3.15))
