"""The shipped sweeps can be run, and every kind has a configuration."""

from __future__ import annotations

from typing import Any

import pytest

from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.jobs.audit import AuditJob
from dpbench.jobs.composition import composed
from dpbench.jobs.libraries import LibrariesJob
from dpbench.jobs.prepare import job_of
from dpbench.jobs.study import StudyJob
from dpbench.package import conf_folder
from dpbench.sweep import plan
from dpbench.theory.bounds import numbers as lower_bounds
from dpbench.theory.bounds.of_class import Bound

SWEEPS = sorted(path.stem for path in (conf_folder() / "sweep").glob("*.yaml"))


@pytest.mark.parametrize("name", SWEEPS)
def test_a_shipped_sweep_is_usable(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # lower bounds, and where they put laws, are most of the time, and have tests of their own
    monkeypatch.setattr(plan, "_bound", lambda *_: Bound(1.0, "anything"))
    monkeypatch.setattr(lower_bounds, "indistinguishable", lambda n, *_: 0.7 / n)
    prepared = job_of(composed([f"sweep={name}"]), None)
    kinds = {"audit": AuditJob, "libraries": LibrariesJob}
    assert isinstance(prepared, kinds.get(name, StudyJob))
    if isinstance(prepared, StudyJob):
        study = prepared.plan.study
        assert study.name == name
        assert name == "ci" or (study.all_claims and study.all_figures)
        assert all(figure.caption for figure in study.all_figures.values())
        if name == "near_optimal":  # numbers of more than three n, for each of two amounts, overlap
            assert len({cell.n for cell in prepared.plan.cells}) <= 3  # in the column of a paper


@pytest.mark.parametrize("kind", [Estimator, Distribution])
def test_every_kind_has_a_configuration(kind: type[Any]) -> None:
    folder = conf_folder() / kind.__name__.lower()
    texts = "".join(path.read_text() for path in folder.glob("*.yaml"))
    own = [name for name, one in kind.kinds().items() if one.__module__.startswith("dpbench.")]
    assert [name for name in own if f"kind: {name}\n" not in texts] == []
