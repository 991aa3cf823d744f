"""Applications of the core: a study of errors, and the rerun of a failure in one."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dpbench.app import App

__all__ = ["CORE", "STUDY"]


class _Replay(App):
    key = "rerun"
    noun = "a rerun"
    always_runs = True

    def job(self) -> type[Any]:
        from dpbench.jobs.rerun import RerunJob

        return RerunJob


class _Study(App):
    noun = "a study"

    def accepts(self, config: Mapping[str, Any]) -> bool:
        return True

    def job(self) -> type[Any]:
        from dpbench.jobs.study import StudyJob

        return StudyJob


STUDY = _Study()
CORE: tuple[App, ...] = (_Replay(), STUDY)  # asked after all other applications
