"""Run a sweep in memory and compare it with its baseline, for the pytest plug-in."""

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

__all__ = ["BaselineCheck", "measured", "visible"]


class BaselineCheck(NamedTuple):
    """Comparison of a sweep with its baseline.

    Parameters
    ----------
    rows : dict of str to str
        Reason why each row fails, by the name of the row; empty if the row passes.
    lines : list of str
        Lines of the summary.
    """

    rows: dict[str, str]
    lines: list[str]


def measured(
    baseline: Path, sweep: str, config_dir: Path, plugins: Sequence[str], *, update: bool
) -> BaselineCheck:
    """Run a sweep and compare its errors with a baseline, or store them as the new baseline.

    Parameters
    ----------
    baseline : Path
        File of the baseline.
    sweep : str
        Name of the sweep.
    config_dir : Path
        Folder of the user's configurations and plug-ins.
    plugins : sequence of str
        Modules to import.
    update : bool
        Store the errors as the new baseline instead of comparing.

    Returns
    -------
    Measured

    Raises
    ------
    ConfigError
        If a name, key or file cannot be used, or an estimator failed while `update` is set.
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
            raise ConfigError(
                f"baseline: '{baseline}': not stored, because an estimator failed: {why}"
            )
        lines = list[str]()
        job.tracking.store(found, lines.append)
        lines.append(f"With other seeds: {visible(compare(rows, rows.assign(stream='')))}")
        lines.append(f"With the same seeds, if only `rng` draws: any loss above {SMALLEST:.0%}.")
        return BaselineCheck(dict.fromkeys(map(row_name, rows.to_dict("records")), ""), lines)
    table, notes, reasons, _ = job.tracking.judge(found)
    told = {
        row_name(row): failure(reasons[place], row) if place in reasons else ""
        for place, row in enumerate(table.to_dict("records"))
    }
    lines = [*notes, f"{len(table)} rows: {visible(table)}"]
    return BaselineCheck(told, [line.replace("*", "") for line in lines])


def visible(table: pd.DataFrame) -> str:
    """Describe the smallest loss of accuracy that every row of a comparison would show."""
    known = table["smallest_visible"].dropna()
    if known.empty:
        return "rows were compared for identical bits only."
    return f"every row shows a loss of {known.max():.1%}, with probability {POWER:g}."
