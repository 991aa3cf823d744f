"""Stored errors of a sweep, and what a run shows against them."""

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
    """The errors of every trial, and where they come from.

    Attributes
    ----------
    rows : DataFrame
        See `dpbench.tracking.compare`; and ``first``, the trimmed mean of a row's errors in the
        first baseline that had it.
    sweep : str
    seed : int
    origin : Origin
    """

    rows: pd.DataFrame
    sweep: str
    seed: int
    origin: Origin

    @classmethod
    def read(cls, path: Path, sweep: str | None) -> Baseline:
        """Read the baseline of a sweep, or of any (None).

        Raises
        ------
        ConfigError
            If there is no such file, or it is damaged, no baseline, of another format or of
            another sweep.
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
        """Return the `new` one, which knows the first errors of those before."""
        rows = _with_first(new.rows)
        if before is not None:  # what draws from another stream has other parameters
            same = [*KEY, "stream"]
            known = rows[same].merge(before.rows[[*same, "first"]], "left", same)["first"]
            rows["first"] = known.fillna(rows["first"]).to_numpy()
        return replace(new, rows=rows)

    @property
    def drift(self) -> pd.Series[float]:
        """The trimmed mean of every row over that of the row's first baseline."""
        now = self.rows["errors"].map(trimmed_mean)
        return (now / self.rows["first"]).where(now != self.rows["first"], 1.0)

    def write(self, path: Path) -> None:
        """Store it, whole or not at all."""
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
    """Return the commits and the versions of `Origin.about`, as a baseline's file has them."""
    kept = {key: about[key] for key in about if _of_commit(key)}
    return {**kept, **about.get("versions", {})}


def _unfolded(about: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a baseline's file has as `Origin.about` has it."""
    kept = {key: about[key] for key in about if _of_commit(key)}
    return kept | {"versions": {key: about[key] for key in about if key not in kept}}


def _of_commit(key: str) -> bool:
    return "commit" in key or key == "dirty"


def check_replaceable(path: Path) -> None:
    """ConfigError if something is there that is no baseline of any sweep, version or state."""
    if path.exists():
        _about(path)


def _about(path: Path) -> dict[str, Any]:
    """What a baseline says of itself; ConfigError if the file is none."""
    try:
        about = json.loads((pq.read_schema(path).metadata or {})[b"dpbench"])
        return {**about, "format": about["format"]}
    except (OSError, pa.ArrowException, KeyError, ValueError, TypeError) as error:
        hint = "name another file, or move it away"
        raise ConfigError(f"baseline: '{path}': not a baseline of dpbench; {hint}") from error


def _with_first(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows that have no first errors are the first."""
    return rows if "first" in rows else rows.assign(first=rows["errors"].map(trimmed_mean))


def baseline_path(given: str | None, sweep: str) -> Path:
    """The file of a sweep's baseline: the one given, else the checkout's.

    In an installed package there is none: then below the working folder.
    """
    if given is not None:
        return Path(given)
    checkout = conf_folder().parent
    root = checkout if (checkout / "pyproject.toml").exists() else Path()
    return root / "results" / "baselines" / f"{sweep}.parquet"


def errors_of(cells: Iterable[Cell], store: Store | Memory, seed: int) -> pd.DataFrame:
    """The errors of a finished run, read from its blocks, with the names of their streams.

    A stream without a name is one that the estimator draws by its own entropy.
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
