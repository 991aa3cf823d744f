"""Two runs beside each other."""

from __future__ import annotations

import dataclasses
import json
import shutil
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import dpbench
from dpbench.cli.main import run
from dpbench.registry import ConfigError
from dpbench.report.run_result import Result
from dpbench.tracking.command_compare import _draw_ratios, read_errors
from tests.tracking.baselines import errors


@pytest.fixture(scope="module")
def result() -> Result:
    return dpbench.run(
        {
            "name": "accuracy",
            "families": {"gaussian": {"kind": "gaussian"}},
            "estimators": {
                name: {"kind": "clipped_mean", "lower": -width, "upper": width}
                for name, width in (("narrow", 3), ("wide", 4))
            },
            "budgets": {"pure": {"kind": "pure_dp", "epsilon": [0.1, 1]}},
            "parts": {"all": {"n": [100], "trials": 200}},
        },
        n_jobs=1,
    )


def test_two_runs_beside_each_other(
    finished: Path,
    result: Result,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A run with itself, with another seed, and with a baseline whose errors are others."""
    monkeypatch.chdir(tmp_path)
    assert set(dpbench.compare(result, result)["verdict"]) == {"same"}
    with pytest.raises(ConfigError, match="no such folder of a finished run, nor file of a base"):
        dpbench.compare(finished / "out", "nothing")
    base = read_errors(finished / "out")
    assert base.seed == 3
    base.write(Path("few.parquet"))
    with pytest.raises(ConfigError, match="damaged"):  # 40 trials are too few for a baseline
        dpbench.compare("few.parquet", result)
    errors().write(Path("a.parquet"))
    errors(1.5).write(Path("b.parquet"))
    assert run(["compare", "a.parquet", "b.parquet", "out=two"]) == 0
    told = capsys.readouterr().out
    assert " ".join(told.split()).startswith(
        "b.parquet (B) against a.parquet (A), 2 rows: 1 worse, 0 better, 0 not decided, "
        "1 unchanged in every bit. "
        "Worst change: mine on inside, pure eps=1 n=100: error 50.0% (50.0 .. 50.0%) above A. "
        "Ratios B/A, with 95% intervals of trimmed means; 1 of 1 changed rows"
    )
    assert max(map(len, told.splitlines())) <= 80
    assert "mine on inside, pure eps=1 n=100  1.500 (1.500 .. 1.500)" in told
    assert "mine on at_a_bound" not in told
    assert pd.read_csv("two/compare.csv")["verdict"].tolist() == ["worse", "same"]
    assert Path("two/compare.svg").exists()
    # As another seed would have it: independent, and what changed most first.
    many = {
        f: errors(f, "", seed=int(100 * f)).rows[:1].assign(n=int(100 * f)) for f in (1, 3, 0.2)
    }
    new = pd.concat([*many.values(), errors().rows[1:]])
    old = pd.concat([errors(1, "").rows[:1].assign(n=rows["n"]) for rows in many.values()])
    for name, rows in (("old", old), ("new", new)):
        dataclasses.replace(errors(), rows=rows).write(Path(f"{name}.parquet"))
    table = dpbench.compare("old.parquet", Path("new.parquet"))
    assert table["n"].tolist()[:2] == [20, 300]
    assert table["verdict"].tolist() == ["better", "worse", "new", "not decided"]
    assert set(table["comparison"].dropna()) == {"unpaired"}
    capsys.readouterr()
    assert run(["compare", "old.parquet", "new.parquet"]) == 0
    told = capsys.readouterr().out
    assert "1 worse, 1 better, 1 not decided, 0 unchanged, 1 only in new.parquet." in " ".join(
        told.split()
    )
    assert "Rows are compared if" in " ".join(told.split())
    assert run(["compare", "old.parquet", "old.parquet"]) == 0
    told = " ".join(capsys.readouterr().out.split())
    assert "3 rows: 0 worse, 0 better, 3 not decided, 0 unchanged" in told  # unpaired
    assert "Ratios" not in told


@pytest.mark.parametrize(
    ("factor", "spread", "verdict"),
    [
        (1.019, 0, "unchanged"),
        (1.03, 0, "worse"),
        (0.99, 0, "unchanged"),
        (0.96, 0.3, "not decided"),
        (1.04, 0.3, "not decided"),
    ],
)
def test_unchanged_means_that_the_whole_interval_is_small(
    factor: float, spread: float, verdict: str, tmp_path: Path
) -> None:
    """Paired errors in a constant ratio have an interval of length 0; noise makes it long."""
    old = errors().rows[:1]
    noise = np.random.default_rng(0).lognormal(0, spread, 200)
    new = old.assign(errors=[factor * noise * old["errors"].iloc[0]])
    paths = [tmp_path / "old.parquet", tmp_path / "new.parquet"]
    for path, rows in zip(paths, (old, new), strict=True):
        dataclasses.replace(errors(), rows=rows).write(path)
    table = dpbench.compare(*paths)
    assert table["verdict"].tolist() == [verdict]
    legend = _draw_ratios(table).figure.axes[0].get_legend()
    assert legend is not None
    assert legend.get_texts()[-1].get_text() == verdict


def test_output_begins_with_the_keys_that_differ(
    finished: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copytree(finished / "out", "b")
    assert run(["compare", f"{finished}/out", "b"]) == 0
    assert capsys.readouterr().out.startswith("Equal configurations.\n")
    manifest = json.loads(Path("b/manifest.json").read_text())
    manifest["configuration"] |= {"trials": 50}
    Path("b/manifest.json").write_text(json.dumps(manifest))
    assert run(["compare", f"{finished}/out", "b"]) == 0
    expected = "The configurations differ in\n  trials: null (A), 50 (B)\nb (B) against"
    assert capsys.readouterr().out.startswith(expected)
