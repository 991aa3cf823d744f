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
from dpbench.package import conf_folder
from dpbench.registry import ConfigError
from dpbench.runner.origin import Origin
from dpbench.runner.store import Memory, Store
from dpbench.seeds import canonical, digest
from dpbench.sweep.plan import Cell
from dpbench.sweep.selection import completed
from dpbench.tracking.comparison import KEY, LEAST_TRIALS, trimmed_mean

__all__ = ["Baseline", "baseline_path", "check_replaceable", "errors_of"]

FORMAT = 1


@dataclass(frozen=True)
class Baseline:
    """The errors of every trial of a sweep, and their origin.

    Attributes
    ----------
    rows : DataFrame
        The columns of `dpbench.tracking.compare`, and ``first``: the trimmed mean of the row's
        errors in the first baseline that had the row.
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
        """Read the baseline of a sweep, or of any sweep.

        Parameters
        ----------
        path : Path
            The baseline's file.
        sweep : str or None
            Name that the baseline's sweep must have; None for any.

        Returns
        -------
        Baseline

        Raises
        ------
        ConfigError
            If the file does not exist, is damaged, is not a baseline, has another format, or
            belongs to another sweep.
        """
        again = "make one with track=update"
        if not path.exists():
            raise ConfigError(f"baseline: '{path}': no such file; {again}")
        about = _about(path)
        if about.pop("format") != FORMAT:
            raise ConfigError(f"baseline: '{path}': written by another version; {again}")
        try:
            with pq.ParquetFile(path, page_checksum_verification=True) as file:
                rows = file.read().to_pandas()
            of, seed = str(about["sweep"]), int(about["seed"])
            origin = Origin(about["source"], about["machine"], stored=_unfolded(about["about"]))
            rows = _with_first(completed(rows))[[*KEY, "stream", "errors", "first"]]
            if rows.empty or min(map(len, rows["errors"])) < LEAST_TRIALS:
                raise ValueError("no errors to compare with")
        except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
            raise ConfigError(f"baseline: '{path}': damaged; {again}") from error
        if sweep is not None and of != sweep:
            raise ConfigError(f"baseline: '{path}': it is of the sweep {of!r}, not {sweep!r}")
        return cls(rows, of, seed, origin)

    @classmethod
    def after(cls, before: Baseline | None, new: Baseline) -> Baseline:
        """Return the `new` baseline, with the first errors of rows that the baseline before it has.

        Parameters
        ----------
        before : Baseline or None
            The baseline to be replaced.
        new : Baseline
            The baseline of the finished run.

        Returns
        -------
        Baseline
        """
        rows = _with_first(new.rows)
        if before is not None:  # a row with another stream has other parameters: it is new
            same = [*KEY, "stream"]
            known = rows[same].merge(before.rows[[*same, "first"]], "left", same)["first"]
            rows["first"] = known.fillna(rows["first"]).to_numpy()
        return replace(new, rows=rows)

    @property
    def drift(self) -> pd.Series[float]:
        """Trimmed mean of every row over that of the row's first baseline."""
        now = self.rows["errors"].map(trimmed_mean)
        return (now / self.rows["first"]).where(now != self.rows["first"], 1.0)

    def write(self, path: Path) -> None:
        """Write the baseline to a file, atomically."""
        rows = _with_first(self.rows)
        errors = pa.array(list(rows["errors"]), pa.list_(pa.float64()))
        table = pa.table({name: pa.array(rows[name]) for name in (*KEY, "stream", "first")})
        found = {name: getattr(self.origin, name) for name in ("source", "machine")}
        found |= {"sweep": self.sweep, "seed": self.seed, "about": _folded(self.origin.about)}
        about = json.dumps({"format": FORMAT, **found}, sort_keys=True)
        table = table.append_column("errors", errors).replace_schema_metadata({"dpbench": about})
        with atomic(path) as temporary:
            pq.write_table(table, temporary, compression="zstd", write_page_checksum=True)


def _folded(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the commits and versions of `Origin.about`, flat, as stored in a baseline."""
    kept = {key: about[key] for key in about if _of_commit(key)}
    return {**kept, **about.get("versions", {})}


def _unfolded(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return the metadata of a baseline's file in the form of `Origin.about`."""
    kept = {key: about[key] for key in about if _of_commit(key)}
    return kept | {"versions": {key: about[key] for key in about if key not in kept}}


def _of_commit(key: str) -> bool:
    """Return True if a key of `Origin.about` describes a commit."""
    return "commit" in key or key == "dirty"


def check_replaceable(path: Path) -> None:
    """Raise ConfigError if the file exists and is not a baseline; any version or sweep passes."""
    if path.exists():
        _about(path)


def _about(path: Path) -> dict[str, Any]:
    """Return the metadata of a baseline's file; raise ConfigError if it is not a baseline."""
    try:
        about = json.loads((pq.read_schema(path).metadata or {})[b"dpbench"])
        return {**about, "format": about["format"]}
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        hint = "name another file, or move it away"
        raise ConfigError(f"baseline: '{path}': not a baseline of dpbench; {hint}") from error


def _with_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows with the column ``first``; if it is missing, these rows are the first."""
    return rows if "first" in rows else rows.assign(first=rows["errors"].map(trimmed_mean))


def baseline_path(given: str | None, sweep: str) -> Path:
    """Return the file of a sweep's baseline.

    Parameters
    ----------
    given : str or None
        Path set by the user, which is returned.
    sweep : str
        Name of the sweep. Without `given` the file is results/baselines/SWEEP.parquet below the
        checkout, or below the working folder if the package is installed.

    Returns
    -------
    Path
    """
    if given is not None:
        return Path(given)
    checkout = conf_folder().parent
    root = checkout if (checkout / "pyproject.toml").exists() else Path()
    return root / "results" / "baselines" / f"{sweep}.parquet"


def errors_of(cells: Iterable[Cell], store: Store | Memory, seed: int) -> pd.DataFrame:
    """Return the errors of a finished run, read from its blocks, with the names of their streams.

    Parameters
    ----------
    cells : iterable of Cell
        Cells of the run.
    store : Store or Memory
        Store of the run's blocks.
    seed : int
        Seed of the run.

    Returns
    -------
    DataFrame
        The columns of `dpbench.tracking.compare`. ``stream`` is empty if the estimator has its
        own source of randomness.
    """
    found = []
    for cell in cells:
        tasks = cell.tasks(seed)
        errors = np.concatenate([store.read(task).values["error"] for task in tasks], axis=1)
        one = tasks[0]
        for i, (label, law, setting) in enumerate(one.keys):
            data = (seed, canonical(law), one.followed, cell.n, one.trials)
            stream = digest(*data, *setting.stream_name)
            found.append(
                {
                    "estimator": setting.label,
                    "distribution": label,
                    **setting.budget.columns,
                    "n": cell.n,
                    "stream": stream if setting.estimator.seeded else "",
                    "errors": errors[i, : cell.trials],
                }
            )
    return pd.DataFrame(found).sort_values(list(KEY), kind="stable", ignore_index=True)
