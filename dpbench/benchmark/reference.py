"""Reference errors of benchmarks without lower bounds: the smallest errors of the archive."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd

from dpbench.package import conf_folder
from dpbench.theory.bounds.class_bound import ErrorBound

__all__ = ["archive_path", "divide_by_best", "reference"]

SCORE_COLUMNS = ["score", "score_low", "score_high", "draws"]


def archive_path(benchmark: str) -> Path:
    """Return the path of a benchmark's archive, the stored scores that dpbench comes with."""
    return conf_folder().parent / "results" / "archive" / f"{benchmark}.parquet"


@cache
def _read(path: Path) -> dict[str, ErrorBound]:
    """Return the smallest stored error on each problem of an archive; empty without an archive."""
    if not path.exists():
        return {}
    rows = pd.read_parquet(path, columns=["problem", "bound", "bound_name"])
    table = rows.drop_duplicates("problem")
    values = zip(table["problem"], table["bound"], table["bound_name"], strict=True)
    return {str(name): ErrorBound(float(bound), str(by)) for name, bound, by in values}


def reference(benchmark: str, problem: str) -> ErrorBound:
    """Return the smallest error of a benchmark's archive on a problem, and the entry that has it.

    The error is an 0.9 quantile in the unit of the problem. It is 1 without a name if the archive
    has no entry for the problem.
    """
    return _read(archive_path(benchmark)).get(problem, ErrorBound(1.0))


def divide_by_best(rows: pd.DataFrame) -> pd.DataFrame:
    """Rescale the scores of an archive, so that the smallest score on every problem is 1.

    The smallest error goes into ``bound``, and the name of its entry into ``bound_name``.
    """
    rows = rows.reset_index(drop=True)
    best = rows.loc[rows.groupby("problem")["score"].idxmin()].set_index("problem")
    bound = rows["problem"].map(best["score"] * best["bound"])
    fall = rows["bound"] / bound
    with np.errstate(invalid="ignore"):
        scaled = {name: rows[name] * fall for name in SCORE_COLUMNS}
    names = rows["problem"].map(best["entry"])
    return rows.assign(bound=bound, bound_name=names, **scaled)
