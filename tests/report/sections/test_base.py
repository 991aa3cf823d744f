"""The sections of a page: which there are, and their order."""

from __future__ import annotations

import json
from pathlib import Path

from dpbench.app import applications
from dpbench.audit.job import AuditJob
from dpbench.benchmark.section import SECTIONS as LEADERBOARD
from dpbench.jobs.study import StudyJob
from dpbench.libraries.job import LibrariesJob
from dpbench.report.sections import CORE, find_builder
from dpbench.tracking.job import TrackingJob
from tests.report.conftest import page_of
from tests.report.page_folders import MANIFEST

PARTS = {
    "claims.csv": "claims", "factors.csv": "limit", "figures/another.svg": "figures",
    "sample_complexity.csv": "samples", "summary.csv": "errors", "tracking.csv": "baseline",
}  # fmt: skip


def test_sections_stand_in_their_order_and_a_missing_file_leaves_its_own_out(
    example: Path,
) -> None:
    """What went wrong stands before the tables."""
    (example / "figures" / "another.svg").write_text("<svg/>")
    page = page_of(example)
    order = [f"run1-{part}" for part in ("failures", "baseline", "claims", "limit", "privacy",
                                         "figures", "samples", "errors", "origin")]  # fmt: skip
    assert [name for name in page.ids() if name in order] == order
    for file, part in PARTS.items():
        before = set(page_of(example).ids())
        (example / file).unlink()
        gone = {f"run1-{part}", f"run1-{part}-heading", f"run1-{Path(file).stem}"}
        after = set(page_of(example).ids())
        assert f"run1-{part}" in before - after <= gone


def test_a_run_has_the_sections_that_it_names(example: Path) -> None:
    """In its order, with their parts of the answer."""
    for names in (("errors", "limit"), ("limit", "errors")):
        manifest = MANIFEST | {"sections": names, "exit_code": 0}
        (example / "manifest.json").write_text(json.dumps(manifest))
        page = page_of(example)
        assert [at["id"] for at, _ in page.all("section")] == [f"run1-{name}" for name in names]
        assert [at["href"] for at, _ in page.all("a")][1:] == [f"#run1-{name}" for name in names]
        assert page.texts("p")[1].startswith("Result: the best private estimators' worst errors")
        assert "answer calm" in [at.get("class") for at, _ in page.all("div")]
    later = MANIFEST | {"sections": ["errors", "odd"]}  # of a later version
    (example / "manifest.json").write_text(json.dumps(later))
    assert [at["id"] for at, _ in page_of(example).all("section")] == ["run1-errors"]


def test_every_section_is_of_a_kind_of_job_that_names_no_other() -> None:
    kinds = (StudyJob, TrackingJob, AuditJob, LibrariesJob)
    builders = [*CORE, *(build for app in applications() for build in app.sections())]
    named = {name for kind in kinds for name in kind.sections} | {*LEADERBOARD}
    assert named == {build.name for build in builders}
    assert len({build.name for build in builders}) == len(builders)
    assert find_builder("odd") is None
