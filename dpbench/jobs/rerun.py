"""Job of ``rerun=NAME``: run one failure of a study again, for its traceback."""

from __future__ import annotations

import traceback
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self

import numpy as np

from dpbench.jobs.base import Job
from dpbench.jobs.study import StudyJob
from dpbench.registry import ConfigError
from dpbench.report.study import SweepPlan
from dpbench.runner.run import RunOptions
from dpbench.runner.settings import Settings
from dpbench.sweep.block import rerun
from dpbench.sweep.plan import cell_at

__all__ = ["RerunJob"]


@dataclass(frozen=True)
class RerunJob(Job):
    """Job that runs the estimator of one failure again, and writes nothing.

    The options have the seed and folder of the run that had the failure `name`.
    """

    plan: SweepPlan
    name: str

    @classmethod
    def prepare(cls, settings: Settings, options: RunOptions, config: Mapping[str, Any]) -> Self:
        plan = StudyJob.prepare(settings, options, config).plan
        return cls(options, config, plan, str(settings.rerun))

    def run(self, argv: Sequence[str]) -> int:
        """Run the failure again, print the traceback and return 1.

        If the estimator does not fail again, print the share of trials with a release and return 0.
        """
        # n may be outside the grid, because a search for the smallest n chooses its own n.
        n = int(self.name.partition("n")[2])
        requests = self.plan.study.sample_complexity.values()
        for planned in self.plan.cells:
            trials = max([planned.trials, *(request.trials for request in requests)])
            cell = cell_at(planned.family_label, planned.family, n, planned.settings, trials)
            for task in cell.tasks(self.options.seed):
                try:
                    estimate = rerun(task, self.name)
                except Exception:  # noqa: BLE001, plug-ins may raise any exception
                    traceback.print_exc()
                    return 1
                if estimate is not None:
                    share = np.isfinite(estimate.value).mean()
                    print(f"released {share:.0%} of {len(estimate.value)} trials")
                    return 0
        raise ConfigError(
            f"rerun: {self.name!r}: no block of this sweep has a failure of that name"
        )
