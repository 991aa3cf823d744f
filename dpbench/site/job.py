"""Job of ``report=all``: write one page with all finished runs below a folder."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dpbench.errors import ConfigError
from dpbench.jobs.base import Job
from dpbench.output.run_folder import PAGE
from dpbench.output.terminal import say
from dpbench.report.page import find_finished_runs, write_page
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import Settings

__all__ = ["ReportJob"]


@dataclass(frozen=True)
class ReportJob(Job):
    """Job that writes one report page of all finished runs below a folder, and computes nothing."""

    rooms = None

    @classmethod
    def prepare(
        cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]
    ) -> ReportJob:
        if settings.trials is not None:
            raise ConfigError(
                f"trials: {settings.trials}: not for report=all, which runs nothing; omit trials="
            )
        return cls(options, config)

    def run(self, argv: Sequence[str]) -> int:
        runs = find_finished_runs(self.folder)
        if not runs:
            raise ConfigError(
                f"report: 'all': no finished run in '{self.folder}'; give their folder as out=DIR"
            )
        say(f"{len(runs)} runs on one page: {write_page(runs, self.folder / PAGE)}")
        return 0
