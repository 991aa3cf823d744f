"""Command ``history``: errors over commits, and where they change.

A history is a file with the errors of one or more sweeps at several commits.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpbench.analysis.trial_statistics import NORMAL, statistics
from dpbench.output.command_line import Task, run_task
from dpbench.output.files import atomic, check_writable
from dpbench.output.names import as_text
from dpbench.output.terminal import say
from dpbench.registry import ConfigError, validated
from dpbench.runner.origin import git
from dpbench.runner.settings import PathText
from dpbench.sweep.selection import BUDGET
from dpbench.tracking.baseline import Baseline
from dpbench.tracking.changes import BATCHES, batch_means, change_points, count_gaps
from dpbench.tracking.command_compare import read_errors
from dpbench.tracking.comparison import KEY, LEVEL
from dpbench.tracking.report import row_name

__all__ = ["SERIES", "add_errors", "find_changes", "main"]

SERIES = ["sweep", *KEY]
TEXTS = ("commit", "date", "sweep", "estimator", "distribution", "privacy")
NUMBERS = (
    "trimmed_mean_error",
    "trimmed_mean_error_low",
    "trimmed_mean_error_high",
    "q90",
    "q90_low",
    "q90_high",
)
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.float64()) for name in BUDGET[1:])]
    + [(name, pa.int64()) for name in ("n", "trials", "failures")]
    + [*((name, pa.float64()) for name in NUMBERS), ("batches", pa.list_(pa.float64(), BATCHES))],
    metadata={"dpbench_history": "1"},
)


NO_COMMIT = "no commit"  # name of the rows of plug-ins that lie in no commit


@validated
class AddOptions:
    """Keys of the command ``history add``."""

    to: PathText = "history.parquet"
    commit: str | None = None
    date: str | None = None
    config_dir: PathText | None = None


@validated
class ShowOptions:
    """Keys of the command ``history show``."""

    out: PathText = "results/history"


def add_errors(
    history: pd.DataFrame | None, errors: Baseline, commit: str, date: str
) -> pd.DataFrame:
    """Add the errors of one run, made at one commit, to a history of errors.

    A series is an estimator with a budget, on one distribution at one n, in one sweep. A new row
    replaces the history's row of the same commit and series. The date is in ISO format, in one time
    zone for the whole history. Rows are sorted by date; rows of equal dates keep the order in which
    they were added.
    """
    rows = []
    for row in errors.rows.to_dict("records"):
        summary = {k: v[0] for k, v in statistics({"error": row["errors"][None]}).items()}
        half = NORMAL * summary["trimmed_mean_error_se"]
        summary |= {"trimmed_mean_error_low": summary["trimmed_mean_error"] - half}
        summary |= {"trimmed_mean_error_high": summary["trimmed_mean_error"] + half}
        numbers = {name: summary[name] for name in (*NUMBERS, "trials", "failures")}
        names = {"commit": commit, "date": date, "sweep": errors.sweep}
        names |= {name: row[name] for name in KEY}
        rows.append(names | numbers | {"batches": batch_means(row["errors"])})
    new = pd.DataFrame(rows)
    if history is None:
        return new
    combined = pd.concat([history, new], ignore_index=True)
    is_latest = ~combined.duplicated(["commit", *SERIES], keep="last")
    return combined[is_latest].sort_values("date", kind="stable", ignore_index=True)


def find_changes(history: pd.DataFrame) -> pd.DataFrame:
    """Find the commits at which the error of a series changes, and split the series there.

    A series holds the errors of an estimator with a budget, on one distribution at one n, over the
    commits of a history.

    If no error changes, a change in any series is reported with probability at most 0.01 (`LEVEL`).
    This holds for one analysis of the history; repeated analyses may report more false changes.

    The table has a row for each segment of a series between changes. The columns of `SERIES`
    identify the series. ``commit`` and ``date`` belong to the segment's first commit, and
    ``points`` is its number of commits. Each commit has one error, the trimmed mean over its
    trials; ``level`` is the average of these errors over the segment. ``ratio`` is ``level``
    divided by the level of the previous segment, or NaN for the first segment.
    """
    groups = [group for _, group in history.groupby(SERIES, dropna=False, sort=False)]
    alpha = LEVEL / max(1, sum(count_gaps(len(group)) for group in groups))
    segments: list[dict[str, Any]] = []
    for group in groups:
        cuts = change_points(np.stack(list(group["batches"])), alpha)
        previous = np.nan
        for first, last in zip([0, *cuts], [*cuts, len(group)], strict=True):
            segment = group.iloc[first:last]
            level = float(segment["trimmed_mean_error"].mean())
            names = {name: segment.iloc[0][name] for name in (*SERIES, "commit", "date")}
            segments.append(
                names | {"points": len(segment), "level": level, "ratio": level / previous}
            )
            previous = level
    return pd.DataFrame(segments)


def read_history(path: Path) -> pd.DataFrame:
    """Read a history of errors over commits; a ConfigError says that the file holds none."""
    if not path.exists():
        raise ConfigError(f"history: '{path}': no such file; `history add RUN` makes it")
    try:
        table = pq.read_table(path)
        if table.schema.metadata.get(b"dpbench_history") != b"1":
            raise ValueError("another file")
        history: pd.DataFrame = table.cast(SCHEMA).to_pandas()
    except (OSError, pa.ArrowException, AttributeError, ValueError) as error:
        raise ConfigError(f"history: '{path}': not a history of dpbench") from error
    return history


def _commit(errors: Baseline) -> tuple[str, str]:
    """Return the commit at which errors were measured, and whose it is, in words.

    If there are plug-ins, the commit belongs to their repository, and otherwise to the repository
    of dpbench. Plug-ins without a commit give the name `NO_COMMIT`. Raise ConfigError if the
    plug-ins' commits differ or no commit of dpbench was stored.
    """
    metadata = errors.origin.about
    plugins = metadata.get("plugin_commits") or {}
    records = list(plugins.values()) or [metadata]
    owner = ", ".join(plugins) or "dpbench"
    if plugins and not any(record.get("commit") for record in records):
        return NO_COMMIT, f"{NO_COMMIT}, because {owner} has none (commit=NAME names one)"
    names = {
        f"{record.get('commit') or ''}{'-dirty' if record.get('dirty') else ''}"
        for record in records
    }
    name = names.pop()
    if names or name in {"", "-dirty"}:
        raise ConfigError("history: the commit of these errors is not known; give commit=NAME")
    return name, f"commit {name[:12]} of {owner}"


def _date(date_option: str | None, commit: str, path: Path) -> str:
    """Return the date of a commit as text, in UTC.

    The first of these dates that exists is used: `date_option`; the commit's date in the git
    repository of the working folder; the time at which the file with the errors was written.
    """
    file = path / "manifest.json" if path.is_dir() else path
    stored = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()
    commit_date = git(Path(), "show", "-s", "--format=%cI", commit.removesuffix("-dirty"), "--")
    try:
        date = datetime.fromisoformat(date_option or commit_date or stored)
    except ValueError as error:
        raise ConfigError(
            f"date: {date_option!r}: write it as 2026-11-22 or 2026-11-22T12:00"
        ) from error
    zoned = date if date.tzinfo else date.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(" ", "minutes")


def _add(words: Sequence[str], options: AddOptions) -> int:
    """Add the errors of a run or baseline to a history file; return the exit code 0.

    The first word is the run's folder or the baseline's file.
    """
    source, target = Path(words[0]).expanduser(), Path(options.to)
    history = read_history(target) if target.exists() else None
    errors = read_errors(source, options.config_dir)
    if options.commit:
        commit, owner = options.commit, f"commit {options.commit[:12]}"
    else:
        commit, owner = _commit(errors)
    table = add_errors(history, errors, commit, _date(options.date, commit, source))
    with atomic(target) as path:
        pq.write_table(pa.Table.from_pandas(table, SCHEMA, preserve_index=False), path)
    stored = table["commit"].nunique()
    commits = f"{stored} commit{'s' * (stored > 1)}"
    say(f"{target}: {len(errors.rows)} rows of {owner}; {commits} in all")
    if commit.endswith("-dirty"):
        say(
            "The files differed from this commit when the errors were stored. Commit them first, "
            "store the errors again, and add these, so that a commit names what was measured."
        )
    return 0


def _show(words: Sequence[str], options: ShowOptions) -> int:
    """Print and draw the errors of a history, with their changes, and write changes.csv."""
    out = Path(options.out)
    check_writable(out)
    history = read_history(Path(words[0]).expanduser())
    table = find_changes(history)
    for row in history.groupby(SERIES, dropna=False, sort=False).tail(1).to_dict("records"):
        error, low, high = (as_text(row[name], 4) for name in NUMBERS[:3])
        say(f"{row_name(row)}: {error} ({low} .. {high})")
        in_series = table[SERIES].isna() | (table[SERIES] == [row[name] for name in SERIES])
        for change in table[in_series.all(axis=1) & table["ratio"].notna()].to_dict("records"):
            say(
                f"    {change['ratio']:.3f} from {change['commit'][:12]} on ({change['date'][:10]})"
            )
    with atomic(out / "changes.csv") as path:
        table.to_csv(path, index=False)
    from dpbench.tracking.history_figure import draw

    draw(history, table, out)
    say(f"{table['ratio'].notna().sum()} changes; written to {out}")
    return 0


def main(words: Sequence[str]) -> int:
    """Run ``history add`` or ``history show``; return the exit code."""
    return run_task("history", words, TASKS)


TASKS = {"add": Task(_add, "RUN", AddOptions), "show": Task(_show, "FILE", ShowOptions)}
