"""``history add|show``: errors over commits, and where they change."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpbench.analysis.summary import NORMAL, statistics
from dpbench.commands.command_line import Task, run_task
from dpbench.commands.compare import errors_at
from dpbench.output.files import atomic, check_writable
from dpbench.output.terminal import say
from dpbench.registry import ConfigError, validated
from dpbench.runner.origin import git
from dpbench.runner.settings import PathText
from dpbench.sweep.selection import BUDGET
from dpbench.tracking.baseline import Baseline
from dpbench.tracking.changes import BATCHES, batch_means, change_points, gaps
from dpbench.tracking.comparison import KEY, LEVEL
from dpbench.tracking.report import row_name

__all__ = ["SERIES", "added", "changes", "main"]

USAGE = """\
usage: python -m dpbench history add RUN [to=FILE] [commit=NAME] [date=DATE] [config_dir=DIR]
       python -m dpbench history show FILE [out=DIR]

add: append the errors of a run's folder, or of a baseline, to FILE (history.parquet), under the
commit that they are of, by default of the repository of its plug-ins, else dpbench's; the same
again changes nothing. show: print every row with the commits at which its error changes by more
than 2%, and draw it, to out=DIR (results/history). Of one history in a hundred, at most, any change
is a false one."""

SERIES = ["sweep", *KEY]
TEXTS = ("commit", "date", "sweep", "estimator", "distribution", "privacy")
NUMBERS = ("trimmed_mean", "trimmed_mean_low", "trimmed_mean_high", "q90", "q90_low", "q90_high")
SCHEMA = pa.schema(
    [*((name, pa.string()) for name in TEXTS), *((name, pa.float64()) for name in BUDGET[1:])]
    + [(name, pa.int64()) for name in ("n", "trials", "failures")]
    + [*((name, pa.float64()) for name in NUMBERS), ("batches", pa.list_(pa.float64(), BATCHES))],
    metadata={"dpbench_history": "1"},
)


@validated
class Adding:
    """The keys of ``add``; see `USAGE`."""

    to: PathText = "history.parquet"
    commit: str | None = None
    date: str | None = None
    config_dir: PathText | None = None


@validated
class Showing:
    """The keys of ``show``; see `USAGE`."""

    out: PathText = "results/history"


def added(history: pd.DataFrame | None, errors: Baseline, commit: str, date: str) -> pd.DataFrame:
    """Add the errors of a commit to a history.

    Rows of the same commit and series that the history already has are replaced.

    Parameters
    ----------
    history : DataFrame or None
        Stored history with the columns of `SCHEMA`; None to begin one.
    errors : Baseline
        Errors of every row of one run.
    commit : str
        Name of the commit that was run.
    date : str
        Date in ISO format, in one time zone for the whole history. Points are sorted by it; points
        of equal dates stay in the order in which they were added.

    Returns
    -------
    DataFrame
        History with the columns of `SCHEMA`, one row per commit and series.
    """
    found = []
    for row in errors.rows.to_dict("records"):
        told = {k: v[0] for k, v in statistics({"error": row["errors"][None]}).items()}
        half = NORMAL * told["trimmed_mean_se"]
        told |= {"trimmed_mean_low": told["trimmed_mean"] - half}
        told |= {"trimmed_mean_high": told["trimmed_mean"] + half}
        kept = {name: told[name] for name in (*NUMBERS, "trials", "failures")}
        about = {"commit": commit, "date": date, "sweep": errors.sweep}
        about |= {name: row[name] for name in KEY}
        found.append(about | kept | {"batches": batch_means(row["errors"])})
    new = pd.DataFrame(found)
    if history is None:
        return new
    both = pd.concat([history, new], ignore_index=True)
    last = ~both.duplicated(["commit", *SERIES], keep="last")
    return both[last].sort_values("date", kind="stable", ignore_index=True)


def changes(history: pd.DataFrame) -> pd.DataFrame:
    """Find the commits at which the error of a series changes.

    If no error changes, the probability that any change is reported, over all series of the
    history, is at most `LEVEL`. This holds for one look at the history.

    Returns
    -------
    DataFrame
        One row per segment between changes: the columns of `SERIES`, ``commit`` and ``date`` of the
        first point, ``points`` (their number), ``level`` (mean of their trimmed means) and
        ``ratio`` (``level`` over that of the segment before; NaN for the first segment).
    """
    groups = [group for _, group in history.groupby(SERIES, dropna=False, sort=False)]
    alpha = LEVEL / max(1, sum(gaps(len(group)) for group in groups))
    found: list[dict[str, Any]] = []
    for group in groups:
        cuts = change_points(np.stack(list(group["batches"])), alpha)
        before = np.nan
        for first, last in zip([0, *cuts], [*cuts, len(group)], strict=True):
            part = group.iloc[first:last]
            level = float(part["trimmed_mean"].mean())
            about = {name: part.iloc[0][name] for name in (*SERIES, "commit", "date")}
            found.append(about | {"points": len(part), "level": level, "ratio": level / before})
            before = level
    return pd.DataFrame(found)


def read(path: Path) -> pd.DataFrame:
    """Read a stored history.

    Raises
    ------
    ConfigError
        If the file cannot be read or is not a history.
    """
    try:
        table = pq.read_table(path)
        if table.schema.metadata.get(b"dpbench_history") != b"1":
            raise ValueError("another file")
        found: pd.DataFrame = table.cast(SCHEMA).to_pandas()
    except (OSError, pa.ArrowException, AttributeError, ValueError) as error:
        raise ConfigError(f"history: '{path}': not a history of dpbench") from error
    return found


def _commit(errors: Baseline) -> str:
    """Return the commit that was run: of the plug-ins' repository, else of dpbench's.

    ConfigError if the plug-ins come from several repositories or the commit was not stored.
    """
    about = errors.origin.about
    known = list((about.get("plugin_commits") or {}).values()) or [about]
    names = {f"{one.get('commit') or ''}{'-dirty' if one.get('dirty') else ''}" for one in known}
    name = names.pop()
    if names or name in {"", "-dirty"}:
        raise ConfigError("history: the commit of these errors is not known; give commit=NAME")
    return name


def _date(given: str | None, commit: str, path: Path) -> str:
    """Return the date of a commit in UTC.

    This is the given date, else the commit date in the working folder's git repository, else the
    time at which the errors were stored.
    """
    file = path / "manifest.json" if path.is_dir() else path
    stored = datetime.fromtimestamp(file.stat().st_mtime, UTC).isoformat()
    known = git(Path(), "show", "-s", "--format=%cI", commit.removesuffix("-dirty"), "--")
    try:
        date = datetime.fromisoformat(given or known or stored)
    except ValueError as error:
        raise ConfigError(f"date: {given!r}: write it as 2026-11-22 or 2026-11-22T12:00") from error
    zoned = date if date.tzinfo else date.replace(tzinfo=UTC)
    return zoned.astimezone(UTC).isoformat(" ", "minutes")


def _add(words: Sequence[str], options: Adding) -> int:
    """Append the errors of a run or baseline to the history file."""
    source, target = Path(words[0]).expanduser(), Path(options.to)
    history = read(target) if target.exists() else None
    errors = errors_at(source, options.config_dir)
    commit = options.commit or _commit(errors)
    table = added(history, errors, commit, _date(options.date, commit, source))
    with atomic(target) as path:
        pq.write_table(pa.Table.from_pandas(table, SCHEMA, preserve_index=False), path)
    say(f"{target}: {len(errors.rows)} rows of {commit[:12]}; {table['commit'].nunique()} commits")
    return 0


def _show(words: Sequence[str], options: Showing) -> int:
    """Print, draw and write the changes in a history."""
    out = Path(options.out)
    check_writable(out)
    history = read(Path(words[0]).expanduser())
    found = changes(history)
    for row in history.groupby(SERIES, dropna=False, sort=False).tail(1).to_dict("records"):
        low, high = row["trimmed_mean_low"], row["trimmed_mean_high"]
        say(f"{row_name(row)}: {row['trimmed_mean']:.4g} ({low:.4g} .. {high:.4g})")
        same = found[SERIES].isna() | (found[SERIES] == [row[name] for name in SERIES])
        for one in found[same.all(axis=1) & found["ratio"].notna()].to_dict("records"):
            say(f"    {one['ratio']:.3f} from {one['commit'][:12]} on ({one['date'][:10]})")
    with atomic(out / "changes.csv") as path:
        found.to_csv(path, index=False)
    from dpbench.tracking.history_figure import draw  # slow to load

    draw(history, found, out)
    say(f"{found['ratio'].notna().sum()} changes; written to {out}")
    return 0


def main(words: Sequence[str]) -> int:
    """Run ``history add`` or ``history show``; return the exit code."""
    return run_task("history", words, TASKS)


TASKS = {"add": Task(_add, "RUN", Adding), "show": Task(_show, "FILE", Showing)}
