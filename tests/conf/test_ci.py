"""The sweep that CI runs covers all, and its stored baseline is of it."""

from __future__ import annotations

from pathlib import Path

import pytest

from dpbench.estimators import Estimator
from dpbench.estimators.catalogue import catalogue
from dpbench.jobs.composition import compose
from dpbench.registry import from_mapping
from dpbench.sweep.plan import Cell, Sweep, make_cells
from dpbench.tracking.baseline import Baseline


@pytest.fixture(scope="module")
def ci() -> list[Cell]:
    return make_cells(from_mapping(Sweep, compose(["sweep=ci"])["sweep"], "sweep"))


def test_ci_covers_every_estimator_and_notion(ci: list[Cell]) -> None:
    run = {(type(s.estimator), s.budget.notion) for cell in ci for s in cell.settings}
    for name, listing in catalogue().items():
        kind = Estimator.kinds()[name]
        notions = {(kind, notion.notion) for notion in kind.notions}
        assert notions.isdisjoint(run) if "ci" in listing.not_in else notions <= run, kind


def test_the_stored_baseline_is_of_this_sweep(ci: list[Cell]) -> None:
    path = Path(__file__).parents[2] / "results" / "baselines" / "ci.parquet"
    assert path.stat().st_size < 2_000_000
    expected = {
        (s.label, label, s.budget.label, cell.n)
        for cell in ci
        for label, _ in cell.members
        for s in cell.settings
    }
    rows = Baseline.read(path, "ci").rows[["estimator", "distribution", "privacy", "n"]]
    assert set(rows.itertuples(index=False, name=None)) == expected
