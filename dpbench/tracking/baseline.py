"""Stored errors of a sweep, the baseline that later runs are compared with."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq

from dpbench.output.files import atomic
from dpbench.package import checkout
from dpbench.registry import ConfigError
from dpbench.runner.origin import Origin
from dpbench.runner.store import Memory, Store
from dpbench.seeds import canonical, digest
from dpbench.sweep.plan import Cell
from dpbench.tracking.comparison import KEY, MIN_BOOTSTRAP_TRIALS, trimmed_mean

__all__ = ["Baseline", "baseline_path", "check_replaceable", "collect_errors"]

FORMAT = 1


@dataclass(frozen=True)
class Baseline:
    """Errors of every trial of a sweep, and their origin.

    Attributes
    ----------
    rows : DataFrame
        Columns of the tables for `dpbench.tracking.compare`, and ``first``: the trimmed mean of the
        row's errors in the first baseline that had the row.
    sweep : str
        Name of the sweep.
    seed : int
        Seed of the run.
    origin : Origin
        Source, versions and machine of the run.
    """

    rows: pd.DataFrame
    sweep: str
    seed: int
    origin: Origin

    @classmethod
    def read(cls, path: Path, sweep: str | None) -> Baseline:
        """Read a baseline from its file, and check that it belongs to `sweep`, if that is given.

        A ConfigError says that the file does not exist, is damaged, is not a baseline, has another
        format, or belongs to another sweep.
        """
        remedy = "make one with track=update"
        if not path.exists():
            raise ConfigError(f"baseline: '{path}': no such file; {remedy}")
        metadata = _read_metadata(path)
        if metadata.pop("format") != FORMAT:
            raise ConfigError(f"baseline: '{path}': written by another version; {remedy}")
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                rows = file.read().to_pandas()
            stored_sweep, seed = str(metadata["sweep"]), int(metadata["seed"])
            origin = Origin(
                metadata["source"], metadata["machine"], stored=_unflatten_about(metadata["about"])
            )
            rows = rows[[*KEY, "stream", "errors", "first"]]
            if rows.empty or min(map(len, rows["errors"])) < MIN_BOOTSTRAP_TRIALS:
                raise ValueError("no errors to compare with")
        except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"baseline: '{path}': damaged; {remedy}") from error
        if sweep is not None and stored_sweep != sweep:
            raise ConfigError(
                f"baseline: '{path}': it is of the sweep {stored_sweep!r}, not {sweep!r}"
            )
        return cls(rows, stored_sweep, seed, origin)

    @classmethod
    def with_first_errors(cls, before: Baseline | None, new: Baseline) -> Baseline:
        """Return the `new` baseline with the column ``first`` taken from `before` where possible.

        The column holds the trimmed mean of a row's errors in the first baseline that had the row.
        Rows that `before` lacks have the trimmed mean of their new errors.
        """
        rows = _add_first(new.rows)
        if before is not None:  # a row with another stream has other parameters: it is new
            keys = [*KEY, "stream"]
            first_errors = rows[keys].merge(before.rows[[*keys, "first"]], "left", keys)["first"]
            rows["first"] = first_errors.fillna(rows["first"]).to_numpy()
        return replace(new, rows=rows)

    @property
    def drift(self) -> pd.Series[float]:
        """Ratio of each row's trimmed mean error to its value in the row's first baseline."""
        now = self.rows["errors"].map(trimmed_mean)
        return (now / self.rows["first"]).where(now != self.rows["first"], 1.0)

    def write(self, path: Path) -> None:
        """Write the baseline to a file, atomically."""
        rows = _add_first(self.rows)
        errors = pa.array(list(rows["errors"]), pa.list_(pa.float64()))
        table = pa.table({name: pa.array(rows[name]) for name in (*KEY, "stream", "first")})
        fields = {name: getattr(self.origin, name) for name in ("source", "machine")}
        fields |= {
            "sweep": self.sweep,
            "seed": self.seed,
            "about": _flatten_about(self.origin.about),
        }
        metadata = json.dumps({"format": FORMAT, **fields}, sort_keys=True)
        table = table.append_column("errors", errors).replace_schema_metadata({"dpbench": metadata})
        with atomic(path) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _flatten_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the commits and versions in a run's origin as one flat mapping, to be stored."""
    commits = {key: about[key] for key in about if _is_commit_key(key)}
    return {**commits, **about.get("versions", {})}


def _unflatten_about(about: Mapping[str, Any]) -> dict[str, Any]:
    """Convert a flat mapping of stored commits and versions to the form of `Origin.about`."""
    commits = {key: about[key] for key in about if _is_commit_key(key)}
    return commits | {"versions": {key: about[key] for key in about if key not in commits}}


def _is_commit_key(key: str) -> bool:
    """Return True if a key in the description of a run's origin is about a commit."""
    return "commit" in key or key == "dirty"


def check_replaceable(path: Path) -> None:
    """Raise ConfigError if a file exists that is not a baseline and must not be overwritten.

    A baseline of any format version and of any sweep may be overwritten.
    """
    if path.exists():
        _read_metadata(path)


def _read_metadata(path: Path) -> dict[str, Any]:
    """Return the metadata of a baseline's file; raise ConfigError if it is not a baseline."""
    try:
        metadata = json.loads((pq.read_schema(path).metadata or {})[b"dpbench"])
        return {**metadata, "format": metadata["format"]}
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        hint = "name another file, or move it away"
        raise ConfigError(f"baseline: '{path}': not a baseline of dpbench; {hint}") from error


def _add_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows with a column ``first``, the trimmed mean error in their first baseline.

    If the column is missing, it is filled with the trimmed means of the rows' own errors.
    """
    return rows if "first" in rows else rows.assign(first=rows["errors"].map(trimmed_mean))


def baseline_path(path: str | None, sweep: str) -> Path:
    """Return the file of a sweep's baseline: `path`, if the user set one.

    By default it is results/baselines/SWEEP.parquet below the checkout, or below the working folder
    if the package is installed.
    """
    if path is not None:
        return Path(path)
    root = checkout() or Path()
    return root / "results" / "baselines" / f"{sweep}.parquet"


def collect_errors(cells: Iterable[Cell], store: Store | Memory, seed: int) -> pd.DataFrame:
    """Return a table of the errors of a finished run, with the names of their random streams.

    The columns are those of the tables for `dpbench.tracking.compare`. ``stream`` names the random
    stream of data and noise; it is empty if the estimator has its own source of randomness.
    """
    rows = list[dict[str, Any]]()
    for cell in cells:
        tasks = cell.tasks(seed)
        errors = np.concatenate([store.read(task).values["error"] for task in tasks], axis=1)
        first_task = tasks[0]
        for i, (label, law, setting) in enumerate(first_task.keys):
            data = (seed, canonical(law), first_task.followed, cell.n, first_task.trials)
            stream = digest(*data, *setting.stream_name)
            rows.append(
                {
                    "estimator": setting.label,
                    "distribution": label,
                    **setting.budget.columns,
                    "n": cell.n,
                    "stream": stream if setting.estimator.seeded else "",
                    "errors": errors[i, : cell.trials],
                }
            )
    return pd.DataFrame(rows).sort_values(list(KEY), kind="stable", ignore_index=True)
