"""Promises that an entry does not keep."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from dpbench.audit.task import AuditTask
from dpbench.benchmark import checks
from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.remote import read_entry
from dpbench.cli.main import run
from dpbench.runner.origin import Origin
from tests.conftest import entry_text

FEW = "problems=binary-n300-pure0.1,binary-n1000-gdp0.03,gauss-n100-pure1"
VECTORS = """
from dpbench.estimators import L2ClippedMean

CARD = {
    "name": "ball", "paper": "none", "notions": ["pure"], "relations": ["replace"],
    "assumptions": "none", "proof": "none", "division": "declared",
}


def entry(public):
    if public.records == "gaussian" and public.radius and not public.local:
        return L2ClippedMean(radius=public.radius, mechanism="l2" if public.d > 1 else "additive")
"""


def test_an_estimator_is_checked_once_in_each_dimension() -> None:
    """On its smallest problem."""
    problems: list[Any] = [SimpleNamespace(n=n, d=d) for n, d in ((50, 1), (5, 4), (20, 1), (5, 8))]
    entry: Any = SimpleNamespace(estimator=lambda _: SimpleNamespace(name="clip"))
    chosen = [(one.n, one.d) for one, _ in checks._distinct_estimators(entry, problems)]
    assert chosen == [(5, 4), (20, 1), (5, 8)]


def test_one_that_spends_too_much_is_refuted_and_named(
    entry_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A tenth of the noise: the audit finds it, and nothing is scored."""
    (entry_folder / "mine.py").write_text(
        entry_text().replace("(budget.epsilon *", "(10 * budget.epsilon *")
    )
    assert run(["benchmark", "run", "mine.py", "quick=true", "n_jobs=1", FEW]) == 1
    assert "WideClip under pure: refuted: claimed 1, at least" in capsys.readouterr().out
    assert not (entry_folder / "mine.parquet").exists()


def test_a_promise_that_is_not_kept_is_named(
    entry_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (entry_folder / "mine.py").write_text(entry_text().replace("rng.laplace", "np.random.laplace"))
    text = (entry_folder / "mine.py").read_text()
    (entry_folder / "mine.py").write_text(f"import numpy as np\n{text}")
    assert run(["benchmark", "run", "mine.py", "n_jobs=1", FEW]) == 1
    assert "a promise is not kept: WideClip under pure on numbers" in capsys.readouterr().out


def test_a_class_is_audited_on_numbers_and_on_vectors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each has mechanisms of its own: an error in one may not show in the other."""
    monkeypatch.setattr(checks, "RUNS", 100)
    (tmp_path / "ball.py").write_text(VECTORS)
    problems = read_benchmark().select("gauss-n100-pure1,gauss-n300-pure0.1,gauss16-n8000-pure1")
    entry = read_entry(tmp_path / "ball.py", problems.problems)
    rows = checks.audit_entry(entry, problems.problems, origin=Origin.of(rooms=checks.AUDIT_ROOMS))
    assert {row["estimator"] for row in rows} == {"ball-L2ClippedMean", "ball-L2ClippedMean-16d"}


def test_the_audits_of_an_entry_share_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """One audit for each class and dimension, notion and relation of the card: 2 times 2."""
    problems = read_benchmark().select("gauss-n100-pure1,gauss-n300-pure0.1,gauss16-n8000-pure1")
    one: Any = SimpleNamespace(name="Ball", least=2, supports=lambda budget: True)
    card = SimpleNamespace(name="ball", notions=("pure", "zcdp"), relations=("replace",))
    entry: Any = SimpleNamespace(card=card, estimator=lambda problem: one)
    tasks: list[AuditTask] = []

    def keep(_: object, found: list[AuditTask], *__: object) -> list[Any]:
        tasks.extend(found)
        return []

    monkeypatch.setattr(checks, "compute", keep)
    monkeypatch.setattr(checks, "_list_entry_pairs", lambda *_: ())
    nothing: Any = None
    with pytest.raises(TypeError):  # the names of tasks need an estimator with parameters
        checks.audit_entry(entry, problems.problems, origin=nothing)
    assert [(task.label, task.budget.notion) for task in tasks] == [
        ("ball-Ball", "pure"), ("ball-Ball", "zcdp"), ("ball-Ball-16d", "pure"),
        ("ball-Ball-16d", "zcdp"),
    ]  # fmt: skip
    assert {task.budget.neighbours for task in tasks} == {"replace"}
    assert sum(task.error for task in tasks) == pytest.approx(1e-5)
    assert {task.runs for task in tasks} == {1000}


@pytest.mark.parametrize(("failed", "told"), [(7, ""), (8, "Ball on gauss-n100-pure1: all of 8")])
def test_an_entry_may_fail_at_times_but_not_always(failed: int, told: str) -> None:
    """Of 8 releases; a dataset has 60 records, or as many as the estimator needs."""
    sizes: list[tuple[int, ...]] = []

    def released(records: Any, *_: Any) -> Any:
        sizes.append(records.shape)
        return np.where(np.arange(len(records)) < failed, np.nan, 1.0), 0.0

    one: Any = SimpleNamespace(name="Ball", least=70, released=released)

    def broken_promise(records: Any) -> str:
        sizes.append(records.shape)
        return ""

    one.broken_promise = broken_promise
    entry: Any = SimpleNamespace(estimator=lambda problem: one)
    problems = read_benchmark().select("gauss-n100-pure1,gauss-n300-pure0.1").problems
    found = checks.find_broken_promise(entry, problems)
    assert found.startswith(told)
    assert bool(found) == bool(told)
    assert sizes == [(70,), (8, 70)]  # one problem of a class and dimension
