"""Files that are no baseline of a sweep."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from dpbench.runner.origin import Origin
from dpbench.tracking.baseline import Baseline
from dpbench.tracking.comparison import KEY, trimmed_mean
from tests.bench import Bench
from tests.tracking.baselines import errors

FILE = "base.parquet"


def of_another_format(path: Path) -> None:
    found = pq.read_table(path)
    about = json.loads(found.schema.metadata[b"dpbench"]) | {"format": 0}
    pq.write_table(found.replace_schema_metadata({"dpbench": json.dumps(about)}), path)


def zeros(path: Path) -> None:
    """Over the first column; what the file says of itself stands at its end."""
    path.write_bytes(path.read_bytes()[:4] + bytes(50) + path.read_bytes()[54:])


def without_errors(path: Path) -> None:
    found = pq.read_table(path)
    empty = pa.array([[]] * len(found), pa.list_(pa.float64()))
    at = found.schema.get_field_index("errors")
    pq.write_table(found.set_column(at, "errors", empty), path)


# What is done to a file that would be a baseline, and what is told.
DAMAGES: list[tuple[Any, list[str]]] = [
    (Path.unlink, ["no such file", "track=update"]),
    (lambda path: pd.DataFrame({"a": [1]}).to_parquet(path), ["not a baseline"]),
    (lambda path: path.write_bytes(path.read_bytes()[:-100]), ["not a baseline"]),
    (lambda path: path.write_text("somebody's notes"), ["not a baseline"]),
    (zeros, ["damaged"]),
    (without_errors, ["damaged"]),
    (of_another_format, ["another version", "track=update"]),
    (lambda path: (path.unlink(), path.mkdir()), ["is a folder"]),
    (None, ["'heavy_tail'", "'tiny'"]),
]


@pytest.mark.parametrize(("damage", "told"), DAMAGES)
def test_what_is_no_baseline_of_this_sweep(bench: Bench, damage: Any, told: list[str]) -> None:
    row = dict(zip(KEY, ("a", "b", "pure", 1.0, np.nan, np.nan, np.nan, 10), strict=True))
    rows = pd.DataFrame([{**row, "stream": "s", "errors": np.ones(100)}])
    sweep = "tiny" if damage else "heavy_tail"
    Baseline(rows, sweep, 0, Origin.of()).write(bench.folder / FILE)
    if damage:
        damage(bench.folder / FILE)
    words = [f"baseline={FILE}", "trials=100"]
    bench.refuses("track=check", *words, named=["baseline: ", FILE, *told])
    if "is a folder" in told or "not a baseline" in told:  # what is no baseline is not replaced
        bench.refuses("track=update", *words, named=["baseline: ", FILE, *told])
    else:
        assert bench.run("track=update", *words).code == 0


def test_the_first_errors_are_those_of_the_same_parameters() -> None:
    """A stream has their names: another one begins anew, under the same label."""
    before = errors(2.0)
    before = dataclasses.replace(before, rows=before.rows.assign(first=7.0))
    kept, anew = (
        Baseline.with_first_errors(before, errors(3.0, stream)).rows for stream in ("s", "t")
    )
    assert kept["first"].tolist() == [7.0, 7.0]
    assert anew["first"].tolist() == [trimmed_mean(one) for one in anew["errors"]]
    assert Baseline.with_first_errors(None, errors()).drift.tolist() == [1.0, 1.0]
