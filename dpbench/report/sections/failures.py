"""Section on failed settings, with the commands that reproduce them."""

from __future__ import annotations

from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import how_many
from dpbench.report.sections.base import Section, section


@section("failures", "Failures")
def build_failures(run: RunFolder) -> Section | None:
    """Build a list of the failures, in the manifest's order."""
    known = run.manifest.get("failures") or []
    shown = [one for one in known if {*one} >= {"failure", "replay"}]
    if not shown:
        return None
    return Section(
        text="Each command runs a failed setting again and shows the traceback.",
        look="commands",
        data=shown,
        found=[f"{how_many(len(shown), 'setting')} that raised an error"],
        rank=4,
        tone="bad",
    )
