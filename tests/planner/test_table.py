"""Plans of tables: against releases of tables, and their code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from dpbench.cli.main import run
from dpbench.errors import ConfigError
from dpbench.planner.table import Table, TablePlan
from dpbench.privacy import ZCDP, Budget, Ledger, PureDP
from dpbench.registry import from_mapping
from dpbench.samples import DenseSample

SPEC: dict[str, Any] = {
    "columns": {
        "income": {"lower": 0, "upper": 9, "law": {"kind": "log_normal", "sigma": 0.7}, "alpha": 1},
        "coin": {"lower": 0, "upper": 1},
    },
    "groups": {"north": 70, "south": 180},
    "split": {"income": 2, "coin": 1},
}


@pytest.mark.parametrize(
    ("budget", "sizes"),
    [
        (PureDP(1.5, neighbours="add_remove"), "private"),
        (PureDP(3.0), "private"),
        (ZCDP(0.01), "public"),
    ],
)
def test_nine_in_ten_cells_are_within_the_printed_error(budget: Budget, sizes: str) -> None:
    """Shares of 4,000 tables; 5.7 standard errors, one of 12 exceeds them once in 7e6 tests."""
    table = from_mapping(Table, {**SPEC, "group_sizes": sizes}, "table")
    plan, trials, rng = TablePlan(table, budget), 4000, np.random.default_rng(3)
    estimator = plan.estimator
    assert estimator.shares(budget) == pytest.approx([2 / 3, 1 / 3])
    labels = np.repeat([0.0, 1.0], list(table.sizes.values()))
    income = rng.lognormal(0, 0.7, (trials, labels.size))
    coin = rng.integers(2, size=income.shape).astype(float)
    columns = [np.broadcast_to(labels, income.shape), income, coin]
    if sizes == "public":
        estimator = type(estimator)(
            columns=estimator.columns, groups=estimator.groups, split=estimator.split,
            labels=labels.astype(int).tolist(),
        )  # fmt: skip
        columns = columns[1:]
    released = estimator.run(DenseSample(np.stack(columns, axis=2)), Ledger(budget, rng)).value
    targets, cells = {"income": np.exp(0.7**2 / 2), "coin": 0.5}, iter(released.T)
    for n in table.sizes.values():
        for name, one in plan._plans(estimator, n).items():
            column: Any = estimator.columns[name]
            q90 = one.error(column.lower, column.upper).q90
            share = np.mean(np.abs(next(cells) - targets[name]) <= q90)
            assert abs(share - 0.9) < 5.7 * np.sqrt(0.09 / trials), (n, name)


def test_the_clip_is_the_best_of_the_smallest_group() -> None:
    plan = TablePlan(from_mapping(Table, SPEC, "table"), PureDP(4.0))
    income: Any = plan.estimator.columns["income"]
    assert (income.lower, income.upper) == plan._plans(plan.estimator, 70)["income"].clip
    assert (income.lower, income.upper) != plan._plans(plan.estimator, 180)["income"].clip


@pytest.mark.parametrize("words", ["epsilon=4", "epsilon=2 neighbours=add_remove", "rho=0.5"])
def test_the_printed_code_releases_the_table(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("table.yaml").write_text(yaml.safe_dump(SPEC))
    assert run(["plan", "table=table.yaml", *words.split()]) == 0
    printed, _, code = capsys.readouterr().out.partition("\nPython:\n")
    assert "income: a q90 of 1 needs " in printed
    assert all(len(line) <= 80 for line in printed.splitlines())
    rng = np.random.default_rng(0)
    group = rng.choice(["north", "south"], 550)
    people = pd.DataFrame(
        {"group": group, "income": rng.lognormal(0, 0.7, 550), "coin": rng.random(550)}
    )
    people.to_csv("my.csv", index=False)
    made: dict[str, Any] = {}
    exec(code, made)
    assert made["table"].estimates.shape == (2, 2)
    assert made["table"].spent == pytest.approx(made["table"].budget.amounts)


@pytest.mark.parametrize("word", ["k=2", "out=here", "size=slide", "target=variance", "n=3"])
def test_keys_that_do_not_go_with_a_table(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["plan", "table=table.yaml", "epsilon=1", word]) == 2
    assert capsys.readouterr().err.startswith(f"dpbench: {word.partition('=')[0]}")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("columns: {a: {lower: 3, upper: 1}}\nn: 9", "table.columns.a: upper: 1: must exceed"),
        ("columns: {a: {lower: 3}}\nn: 9", "table.columns.a.upper: this key is required"),
        ("columns: {a: {lower: 0, upper: 1, law: {kind: x}}}\nn: 9", "table.columns.a.law: 'x'"),
        ("columns: {a: {lower: 0, upper: 1}}", "table: groups: give groups and their expected"),
        ("columns: {a: {lower: 0, upper: 1}}\nn: 9\nsplit: {b: 1}", "table.split: give a weight"),
        (
            "columns: {a: {lower: 0, upper: 1}}\ngroups: {x: 3, y: 90}",
            "table.groups: 3: too few records for a and its share",
        ),
        ("columns: [", "table: 'bad.yaml': not a YAML file"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_line(
    text: str, told: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    monkeypatch.chdir(tmp_path)
    Path("bad.yaml").write_text(text)
    assert run(["plan", "table=bad.yaml", "epsilon=1"]) == 2
    found = capsys.readouterr()
    assert found.out == ""
    assert found.err.startswith(f"dpbench: {told}")
    assert found.err.count("\n") == 1


def test_without_groups_a_public_number_needs_less_noise() -> None:
    spec = {"columns": {"a": {"lower": 0, "upper": 1}}, "n": 100}
    public = TablePlan(from_mapping(Table, spec, "table"), PureDP(1.0))
    private = TablePlan(from_mapping(Table, spec, "table"), PureDP(1.0, neighbours="add_remove"))
    assert "ClippedMean" in public.code
    assert "TransformedNoiseMean" in private.code
    assert "group" not in public.code.replace("groups", "")
    few = TablePlan(from_mapping(Table, {**spec, "n": 3}, "table"), private.budget)
    with pytest.raises(ConfigError, match=r"table\.n: 3: too few records for a and its share"):
        list(few.lines())
