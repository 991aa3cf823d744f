"""Run a sweep in memory and compare it with its baseline, for the pytest plug-in."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dpbench.jobs.composition import compose
from dpbench.jobs.prepare import prepare_job
from dpbench.output.terminal import fill
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.settings import Settings
from dpbench.tracking.baseline import Baseline, collect_errors
from dpbench.tracking.comparison import POWER, SMALLEST_CHANGE, compare
from dpbench.tracking.report import failure_text, row_name, worst_sentence

__all__ = ["BaselineCheck", "baseline_rows", "check_baseline", "describe_visible_loss"]


class BaselineCheck(NamedTuple):
    """Comparison of a sweep's errors with its stored baseline."""

    # Reason for which a row fails, by name of the row; empty if it passes. A row is an estimator
    # with a budget, on one distribution at one n.
    rows: dict[str, str]
    lines: list[str]  # for pytest's summary


def baseline_rows(path: Path) -> list[str]:
    """Return the names of the rows of a baseline.

    A ConfigError says that the file does not exist, is damaged or is not a baseline.
    """
    return [row_name(row) for row in Baseline.read(path, None).rows.to_dict("records")]


def check_baseline(
    path: Path, sweep: str, config_dir: Path, plugins: Sequence[str], command: str, *, update: bool
) -> BaselineCheck:
    """Run a sweep and compare its errors with a baseline, or store them as the new baseline.

    `config_dir` is the folder of the user's configurations and plug-ins. `command` stores the
    errors as the new baseline; messages contain it. A ConfigError says that a name, key or file
    cannot be used, or that an estimator failed while `update` is set.
    """
    baseline = path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path
    config = compose([f"sweep={sweep}"], config_dir) | {"plugins": [*plugins]}
    config |= {"track": "update" if update else "check", "baseline": str(baseline)}
    settings = from_mapping(Settings, config, "")
    from dpbench.tracking.job import TrackingJob

    job = prepare_job(settings, config, config_dir, None)
    assert isinstance(job, TrackingJob)
    result, seed = job.result(), job.options.seed
    rows = collect_errors(result.cells, result.blocks, seed)
    current = Baseline(rows, job.tracking.sweep, seed, job.options.origin)
    if update:
        if result.failures:
            reason = result.failures[0].text
            raise ConfigError(
                f"baseline: '{baseline}': not stored, because an estimator failed: {reason}"
            )
        lines = list[str]()
        job.tracking.store(current, lines.append)
        lines.append(
            f"With other seeds: {describe_visible_loss(compare(rows, rows.assign(stream='')))}"
        )
        lines.append(
            f"With the same seeds, if only `rng` draws: any loss above {SMALLEST_CHANGE:.0%}."
        )
        return BaselineCheck(dict.fromkeys(map(row_name, rows.to_dict("records")), ""), lines)
    table, notes, reasons, _ = job.tracking.judge(current)
    failures = {
        row_name(row): failure_text(reasons[place], row, command) if place in reasons else ""
        for place, row in enumerate(table.to_dict("records"))
    }
    lines = [f"{len(reasons)} of {len(table)} rows fail. {worst_sentence(table, 'the baseline')}"]
    raised = [f"An estimator raised an exception: {one.text}" for one in result.failures[:1]]
    lines = [*raised, *(lines if reasons else []), *notes]
    lines.append(f"{len(table)} rows: {describe_visible_loss(table)}")
    lines = [x for line in lines for x in fill(line.replace("*", ""), "").splitlines()]
    lines += ["If these changes are meant, run:", f"  {command}"] if reasons and not raised else []
    return BaselineCheck(failures, lines)


def describe_visible_loss(table: pd.DataFrame) -> str:
    """Return a sentence with the loss of accuracy that would be noticed in every row of `table`.

    In each row a loss of this size is noticed with probability 0.9 (`POWER`) or more. The argument
    `table` is the comparison of errors with a baseline. A row is an estimator with a budget, on one
    distribution at one n.
    """
    losses = table["smallest_detectable"].dropna()
    if losses.empty:
        return "rows were compared for identical bits only."
    return f"every row shows a loss of {losses.max():.1%}, with probability {POWER:g}."
