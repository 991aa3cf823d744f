"""Section on settings that raised an error, with the commands that run them again."""

from __future__ import annotations

from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import count_noun
from dpbench.report.sections.base import Section, section


@section("failures", "Failures")
def build_failures(run: RunFolder) -> Section | None:
    """Build the section on settings that raised an error, with a command to run each again."""
    failures = run.manifest.get("failures") or []
    rerunnable = [failure for failure in failures if {*failure} >= {"failure", "rerun"}]
    if not rerunnable:
        return None
    return Section(
        text="Each command runs a failed setting again and shows the traceback.",
        look="commands",
        data=rerunnable,
        findings=[f"{count_noun(len(rerunnable), 'setting')} that raised an error"],
        rank=4,
        tone="bad",
    )
