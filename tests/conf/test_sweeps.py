"""The shipped sweeps can be run, and every kind has a configuration."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dpbench.audit.job import AuditJob
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.jobs.prepare import make_job
from dpbench.jobs.study import StudyJob
from dpbench.libraries.job import LibrariesJob
from dpbench.package import conf_folder
from dpbench.report.study import gather_entries
from dpbench.sweep import plan
from dpbench.theory.bounds import numbers as lower_bounds
from dpbench.theory.bounds.class_bound import ErrorBound
from dpbench.theory.theorems import THEOREMS
from tests.bench import shipped

SWEEPS = sorted(path.stem for path in (conf_folder() / "sweep").glob("*.yaml"))


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_is_usable(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)  # a finished run in the checkout would be taken as it is
    # lower bounds, and where they put laws, are most of the time, and have tests of their own
    monkeypatch.setattr(plan, "_bound", lambda *_: ErrorBound(1.0, "anything"))
    monkeypatch.setattr(lower_bounds, "largest_untestable_tv", lambda n, *_: 0.7 / n)
    prepared = make_job(shipped(name), None)
    kinds = {"audit": AuditJob, "libraries": LibrariesJob}
    assert isinstance(prepared, kinds.get(name, StudyJob))
    if isinstance(prepared, StudyJob):
        study = prepared.plan.study
        assert study.name == name
        assert name == "ci" or (study.all_claims and study.all_figures)
        assert all(figure.caption for figure in study.all_figures.values())
        if name == "near_optimal":  # numbers of more than three n, for each of two amounts, overlap
            assert len({cell.n for cell in prepared.plan.cells}) <= 3  # in the column of a paper


# Figures of errors in which an estimator that is added to a sweep has to be drawn.
WITH_ADDED = {
    "quick": ("ratio", "worst_case", "two_regimes"),
    "heavy_tail": ("ratio", "worst_case", "two_regimes"),
    "heights": ("error", "price_of_privacy"),
}


@pytest.mark.parametrize("name", WITH_ADDED)
def test_an_added_estimator_is_selected_by_figures(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(plan, "_bound", lambda *_: ErrorBound(1.0, "anything"))
    spec = shipped(name)
    spec["sweep"]["estimators"]["mine"] = {"kind": "clipped_mean", "lower": -10, "upper": 10}
    prepared = make_job(spec, None)
    assert isinstance(prepared, StudyJob)
    study = prepared.plan.study
    keys = plan.key_table(study, prepared.plan.cells, bounds=False)
    for label in WITH_ADDED[name]:
        rows = keys[study.select_rows(study.all_figures[label], keys)]  # type: ignore[arg-type]
        assert "mine" in set(rows["estimator"]), label


# A miss rate that an error in the estimator gave, for each claim that misses are below a bound.
WRONG = {
    ("intervals", "few_records"): 0.57,  # wrong bins not counted: kv_known, n = 100, 0.1-DP
    ("intervals", "kv_coverage"): 0.72,  # no quantile of the noise of the mean
    ("intervals", "kv_coverage_1"): 0.27,
    ("intervals", "parts_coverage"): 0.37,  # ends of the next rank
    ("intervals", "parts_coverage_few"): 0.37,
    ("intervals", "parts_coverage_mean"): 0.31,  # no error of the ranks
    ("intervals", "inverted_coverage"): 1.0,  # no quantiles
    ("intervals", "few_inverted"): 1.0,  # likewise: a point misses
    ("intervals", "resampled_coverage"): 0.31,  # no variance of resamples
    ("shrinking_intervals", "coverage"): 0.14,  # tails that are not divided by the rounds
}


def idle(where: tuple[str, str], claim: dict[str, Any], orders: set[float]) -> str:
    """Return why a claim cannot fail or is not derived where it stands, or nothing.

    A rival exponent lies outside of what an exponent's claim takes, a wrong rate above a limit.
    Rivals are 0, 1/2, 1 and 2, and k/(k-1) of all k of the sweep.
    """
    theorem = THEOREMS[claim["theorem"]]
    if "tests/" in claim.get("reason", ""):
        return "its reason points at a test"
    if theorem.kind == "limit" and theorem.at_most:
        held = WRONG.get(where, 0.0) <= theorem.predicted(2.0) + claim["tolerance"]
        return "no wrong rate is known that it refuses" if held else ""
    if theorem.kind not in ("exponent", "smallest_n"):
        return ""
    rivals = {0.0, 0.5, 1.0, 2.0}
    rivals |= {k / (k - 1) for k in orders} if theorem.variable == "alpha" else set()
    given = [claim.get("predicted"), claim.get("exact_at_run_n")]
    stated = [one for one in given if isinstance(one, float)]
    for number in stated or {theorem.predicted(k) for k in orders or {2.0}}:
        away = [abs(number - one) for one in rivals if abs(number - one) > 0.05]
        if claim["tolerance"] >= min(away):
            return "it takes a rival exponent"
    return ""


def test_claims_can_fail() -> None:
    limits = set()
    for name in SWEEPS:
        sweep = shipped(name)["sweep"]
        orders = {k for one in sweep.get("families", {}).values() for k in _orders(one)}
        for label, claim in gather_entries(sweep, "claims").items():
            theorem = THEOREMS.get(str(claim.get("theorem")))  # not those of its own
            if theorem is None:
                continue
            assert not idle((name, label), claim, orders), (name, label)
            if theorem.kind == "limit" and theorem.at_most:
                limits.add((name, label))
    assert limits == set(WRONG)


COVERAGE = ("shrinking_intervals", "coverage")
EXPONENT, LIMIT = {"theorem": "heavy_tail_alpha"}, {"theorem": "coverage"}


@pytest.mark.parametrize(("where", "claim", "orders", "why"), [
    (COVERAGE, {**LIMIT, "tolerance": 0.01}, set(), ""),
    (COVERAGE, {**LIMIT, "tolerance": 0.04}, set(), "no wrong rate"),
    (("new", "coverage"), {**LIMIT, "tolerance": 0.01}, set(), "no wrong rate"),
    (("new", "alpha"), {**EXPONENT, "tolerance": 0.16}, {2.0, 3.0, 4.0}, ""),
    (("new", "alpha"), {**EXPONENT, "tolerance": 0.17}, {2.0, 3.0, 4.0}, "rival"),
    (("new", "alpha"), {**EXPONENT, "tolerance": 0.4}, {2.0}, ""),
    (("new", "alpha"), {**EXPONENT, "exact_at_run_n": 1.3, "tolerance": 0.31}, {2.0}, "rival"),
    (("new", "alpha"), {**EXPONENT, "tolerance": 0.1, "reason": "see tests/x.py"}, {2.0}, "test"),
])  # fmt: skip
def test_idle_claims_are_told(
    where: tuple[str, str], claim: dict[str, Any], orders: set[float], why: str
) -> None:
    found = idle(where, {"reason": "any", **claim}, orders)
    assert why in found
    assert bool(why) == bool(found)


def _orders(family: dict[str, Any]) -> list[float]:
    found = family.get("k", family.get("standardised_moment")) or []
    return found if isinstance(found, list) else [found]


@pytest.mark.parametrize("kind", [Estimator, Distribution])
def test_every_kind_has_a_configuration(kind: type[Any]) -> None:
    folder = conf_folder() / kind.__name__.lower()
    texts = "".join(path.read_text() for path in folder.glob("*.yaml"))
    own = [name for name, one in kind.kinds().items() if one.__module__.startswith("dpbench.")]
    assert [name for name in own if f"kind: {name}\n" not in texts] == []
