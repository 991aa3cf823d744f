"""Application ``audit``: the sweep ``audit``, its section and its verdicts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbench.app import App


class _Audit(App):
    key = "sweep.audit"
    noun = "an audit"

    def job(self) -> type[Any]:
        from dpbench.audit.job import AuditJob

        return AuditJob

    def sections(self) -> Sequence[Any]:
        from dpbench.audit.section import build_audit

        return (build_audit,)

    def draw_paper(self, folder: Path, target: Path) -> Mapping[str, str]:
        from dpbench.audit.paper import draw_audit

        return draw_audit(folder, target)

    def verdicts(self) -> Sequence[Mapping[str, Any]]:
        from dpbench.audit.verdicts import AUDIT, CONTROLS

        return AUDIT, CONTROLS


APP = _Audit()
