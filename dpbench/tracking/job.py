"""Job of ``track=check`` and ``track=update``: a study whose errors meet a stored baseline."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, ClassVar, Self

from dpbench.jobs.study import StudyJob
from dpbench.output.terminal import command_line
from dpbench.runner.run import RunOptions, Say
from dpbench.runner.settings import Settings
from dpbench.tracking.check import FILES, Tracking

__all__ = ["TrackingJob"]


@dataclass(frozen=True)
class TrackingJob(StudyJob):
    """Study whose errors are compared with a baseline, or stored as a new baseline."""

    sections: ClassVar[tuple[str, ...]] = (StudyJob.sections[0], "baseline", *StudyJob.sections[1:])
    tracking: Tracking = field(kw_only=True)

    @classmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Self:
        job = StudyJob.prepare(settings, options, config)
        study, trials = job.plan.study, min(job.trials)
        tracking = Tracking.prepare(settings, study.name, trials, study.fail_on_inconsistent)
        values = {item.name: getattr(job, item.name) for item in fields(job)}
        return cls(**values, tracking=tracking)

    @property
    def stores(self) -> Path | None:
        return self.tracking.path if self.tracking.update else None

    def track(self, argv: Sequence[str], failed: bool, say: Say) -> tuple[int, list[str]]:
        for name in FILES:  # an interrupted run may have left some
            (self.folder / name).unlink(missing_ok=True)
        words = [word for word in argv if not word.startswith("track=")]
        update = command_line([*words, "track=update"])
        code = self.tracking.run(self.plan.cells, self.options, failed, say, update)
        return code, [name for name in FILES if (self.folder / name).exists()]
