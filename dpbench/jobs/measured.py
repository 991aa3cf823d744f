"""Run a sweep in memory against its baseline, as test suites do."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import pandas as pd

from dpbench.jobs.composition import composed
from dpbench.jobs.prepare import prepared
from dpbench.registry import ConfigError, from_mapping
from dpbench.runner.settings import Settings
from dpbench.tracking.baseline import Baseline, errors_of
from dpbench.tracking.comparison import POWER, SMALLEST, compare
from dpbench.tracking.report import failure, row_name

__all__ = ["Measured", "measured", "visible"]


class Measured(NamedTuple):
    """By row, why it fails, empty where it does not; and lines about all of it."""

    rows: dict[str, str]
    lines: list[str]


def measured(
    baseline: Path, sweep: str, config_dir: Path, plugins: Sequence[str], *, update: bool
) -> Measured:
    """Run a sweep and compare its errors with a baseline, or store them as the new one.

    Raises
    ------
    ConfigError
        If anything cannot be used, or estimators failed where errors were to be stored.
    """
    config = composed([f"sweep={sweep}"], config_dir) | {"plugins": [*plugins]}
    config |= {"track": "update" if update else "check", "baseline": str(baseline)}
    settings = from_mapping(Settings, config, "")
    from dpbench.jobs.study import StudyJob

    job = prepared(settings, config, config_dir, None)
    if not isinstance(job, StudyJob):
        raise ConfigError(f"sweep: {sweep!r}: only a study of errors has a baseline")
    assert job.tracking is not None
    result, seed = job.result(), job.options.seed
    rows = errors_of(result.cells, result.blocks, seed)
    found = Baseline(rows, job.tracking.sweep, seed, job.options.origin)
    if update:
        if result.failures:
            why = result.failures[0].text
            raise ConfigError(f"baseline: '{baseline}': not stored, as an estimator failed: {why}")
        lines = list[str]()
        job.tracking.store(found, lines.append)
        lines.append(f"Of independent trials: {visible(compare(rows, rows.assign(stream='')))}")
        lines.append(f"Of the same ones, by `rng` alone: every loss of more than {SMALLEST:.0%}.")
        return Measured(dict.fromkeys(map(row_name, rows.to_dict("records")), ""), lines)
    table, notes, reasons, _ = job.tracking.judge(found)
    told = {
        row_name(row): failure(reasons[place], row) if place in reasons else ""
        for place, row in enumerate(table.to_dict("records"))
    }
    lines = [*notes, f"{len(table)} rows: {visible(table)}"]
    return Measured(told, [line.replace("*", "") for line in lines])


def visible(table: pd.DataFrame) -> str:
    """What loss every row of a comparison would show, in words."""
    known = table["smallest_visible"].dropna()
    if known.empty:
        return "no row was compared but by its bits."
    return f"every row shows a loss of {known.max():.1%}, with probability {POWER:g}."
