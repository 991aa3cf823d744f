"""The command as functions: run, load and results."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import dpbench
from dpbench import ConfigError, Estimate, Estimator, Ledger, PureDP, validated
from dpbench.analysis.claim_kinds import build_claim
from dpbench.distributions import Gaussian
from dpbench.estimators import ClippedMean, CoordinateWise, EmpiricalMean
from dpbench.report.run_result import Result
from dpbench.samples import Sample
from tests.own import KNOWN, OWN, PART, SAMPLING, Shifted, spec_of

MEAN = EmpiricalMean()


@pytest.fixture(scope="module")
def result() -> Result:
    """Run in memory, for tests that only read."""
    return dpbench.run(OWN, n_jobs=1)


def assert_same(one: Result, two: Result) -> None:
    """Check that tables, errors and texts of two results are equal bit for bit."""
    for name in ("summary", "claims", "samples"):
        tables = getattr(one, name), getattr(two, name)
        pd.testing.assert_frame_equal(*tables, check_dtype=False, check_exact=True)
    pd.testing.assert_frame_equal(one.errors(), two.errors(), check_exact=True)
    assert str(one) == str(two)


SCRIPT = """
import dpbench
from dpbench.distributions import Gaussian
from dpbench.estimators import ClippedMean


@dpbench.validated
class Mine(ClippedMean):
    pass


if __name__ == "__main__":
    found = dpbench.run({
        "families": {"gaussian": Gaussian()}, "estimators": {"mine": Mine(lower=-4, upper=4)},
        "budgets": {"pure": dpbench.PureDP(1.0)}, "parts": {"all": {"n": [10, 20], "trials": 4}},
    }, n_jobs=2)
    assert not found.failures, found.failures
"""


@pytest.mark.slow
def test_a_class_of_main_on_two_processes_writes_nothing(tmp_path: Path) -> None:
    (tmp_path / "script.py").write_text(SCRIPT)
    command = [sys.executable, "-B", "script.py"]
    told = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert told.returncode == 0, told
    assert [path.name for path in tmp_path.iterdir()] == ["script.py"]


def test_a_sweep_by_name_is_the_commands(finished: Path, tmp_path: Path) -> None:
    """Check equal bits and files, and that a second run in the folder computes no block."""
    conf, out = finished / "conf", tmp_path / "out"
    inside = dpbench.run("tiny", config_dir=conf, seed=3, n_jobs=1)
    assert inside.seed == 3
    assert str(inside) == (finished / "out" / "scoreboard.txt").read_text()
    for done, reused in ((5, 0), (0, 5)):
        outside = dpbench.run("tiny", config_dir=conf, seed=3, n_jobs=1, out=out)
        manifest = json.loads((out / "manifest.json").read_text())
        assert (manifest["blocks_done"], manifest["blocks_reused"]) == (done, reused)
        for path in sorted((finished / "out").rglob("*")):
            there = out / path.relative_to(finished / "out")
            assert there.exists(), path.name
            if path.is_file() and path.name not in {"manifest.json", "report.html"}:
                assert there.read_bytes() == path.read_bytes()
    assert_same(inside, outside)
    assert_same(inside, dpbench.load(finished / "out"))
    overrides = ["sweep.budgets.pure.epsilon=0.5", "sweep.parts.worst.n=[1e5,1e6]"]
    found = dpbench.run("tiny", config_dir=conf, trials=4, n_jobs=1, overrides=overrides).summary
    assert set(found["epsilon"].dropna()) == {0.5}
    assert set(found["n"]) == {1000, 10**5, 10**6}
    assert set(found["trials"]) == {4}


@pytest.mark.parametrize(
    ("sweep", "more", "line"),
    [
        ("zzz", {}, "sweep: 'zzz': no such configuration; choose from add_remove,"),
        ("quick", {"trials": 0}, "trials: 0: "),
        ("quick", {"trails": 3}, "trails: no such argument; did you mean 'trials'? choose from "),
        ("quick", {"overrides": ["seed=3"]}, "overrides: 'seed=3': only keys of the sweep"),
        ("audit", {}, "sweep: an audit is run by the command"),
        (OWN, {"overrides": ["seed=1"]}, "overrides: only for a sweep given by name"),
        (OWN, {"plugins": ["no_such"]}, "plugins: 'no_such': ModuleNotFoundError"),
        (OWN, {"out": ""}, "out: '': string should have at least 1 character"),
        (OWN, {"out": 5}, "out: 5: input should be a valid string"),
        (OWN, {"out": "/proc/1/x"}, "out: '/proc/1/x': cannot be written to"),
        ({**OWN, "budgets": {"pure": 1.0}}, {}, "sweep.budgets.pure: 1.0: "),
        ({**OWN, "estimators": {"a": ClippedMean}}, {}, "sweep.estimators.a: "),
    ],
)
def test_what_cannot_be_run_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, sweep: Any, more: dict[str, Any], line: str
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(ConfigError) as error:
        dpbench.run(sweep, **{"out": "out", **more})
    assert str(error.value).startswith(line)
    assert "\n" not in str(error.value)
    assert list(tmp_path.iterdir()) == []


def test_own_objects_in_a_folder(
    result: Result, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimator, "_registry", {**KNOWN, "shifted": Shifted})
    written = dpbench.run(OWN, n_jobs=2, out=tmp_path / "out")  # on two processes, too
    assert str(written) == written.scoreboard
    assert_same(written, result)
    loaded = dpbench.load(tmp_path / "out")
    assert_same(loaded, result)
    monkeypatch.setattr(Estimator, "_registry", KNOWN)  # hide the imported class
    line = rf"mine\._target_: '{Shifted.__module__}.Shifted': refused"
    with pytest.raises(ConfigError, match=line):
        dpbench.load(tmp_path / "out")


def test_whole_numbers_of_numpy_and_a_class_of_a_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Estimator, "_registry", dict(KNOWN))

    @validated
    class Local(Estimator):
        def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
            clipped = sample.clipped_mean(-1, 1)
            return Estimate(ledger.add_noise(clipped, 2 / sample.n), clipped)

    part = {"n": list(np.array([10, 20])), "trials": np.int64(4)}
    spec = spec_of({"local": Local()}, budgets={"pure": PureDP(np.float64(1.0))}, parts={"a": part})
    written = dpbench.run(spec, n_jobs=1, out=tmp_path / "out")
    assert_same(written, dpbench.load(tmp_path / "out"))


SOURCE = """
import importlib  # no statement tells which module it is

from dpbench import Estimate, Estimator, validated


@validated
class Mine(importlib.import_module("{base}").Base):
    def estimate(self, sample, ledger):
        clipped = sample.clipped_mean(-4, 4)
        return Estimate(ledger.add_noise(clipped, 8 / sample.n) + self.moved + {shift}, clipped)
"""
BASE = "from dpbench import Estimator\n\n\nclass Base(Estimator):\n    moved = {moved}\n"


@pytest.mark.parametrize("inside", [False, True])
def test_blocks_of_another_source_are_not_reused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, inside: bool
) -> None:
    """Check changes of the class, of an object inside another, and of a base class."""
    monkeypatch.setattr(Estimator, "_registry", dict(KNOWN))
    monkeypatch.setattr(sys, "path", [*sys.path, str(tmp_path)])
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    own, base = f"own_{inside}", f"base_{inside}"
    done, medians = [], []
    for shift, moved in ((0, 0), (0, 0), (9, 0), (9, 90)):
        (tmp_path / f"{own}.py").write_text(SOURCE.format(base=base, shift=shift))
        (tmp_path / f"{base}.py").write_text(BASE.format(moved=moved))
        importlib.invalidate_caches()
        for name in (base, own):
            sys.modules.pop(name, None)
        mine = importlib.import_module(own).Mine()
        spec = spec_of({"mine": CoordinateWise(base=mine) if inside else mine})
        found = dpbench.run(spec, n_jobs=1, out=tmp_path / "out")
        manifest = json.loads((tmp_path / "out" / "manifest.json").read_text())
        done.append(manifest["blocks_done"])
        medians.append(round(found.summary["q50"].iloc[0]))
    assert done == [1, 0, 1, 1]
    assert medians == [0, 0, 9, 99]


def test_a_folder_is_loaded_where_nothing_ran(tmp_path: Path) -> None:
    """Check figures, labels that look like numbers, and that old tables are gone."""
    spec = spec_of({2: ClippedMean(lower=-4, upper=4)}, families={1: Gaussian()}, parts={3: PART})
    asked = {"sample_complexity": {4: {"low": 1, "high": 1, "points": 1}}}
    undrawn = {**spec, **asked, "parts": {3: {**PART, "figures": {}}}}
    dpbench.run(undrawn, n_jobs=1, out=tmp_path)
    assert (tmp_path / "sample_complexity.csv").exists()
    found = dpbench.run(spec, n_jobs=1, out=tmp_path)
    code = (
        f"import dpbench; r = dpbench.load({str(tmp_path)!r}); print(r)\n"
        "print(len(r.samples), len(r.figure('errors').axes[0].lines))"
    )
    command = [sys.executable, "-c", code]
    loaded = subprocess.run(command, capture_output=True, text=True, check=True)
    assert loaded.stdout == f"{found}\n0 2\n"


def test_what_stands_under_a_part_is_about_it() -> None:
    """Check mappings and objects; a figure of claims selects nothing."""
    made = build_claim(SAMPLING, "")
    tails = {"kind": "two_point", "k": 2, "p": 0.1}
    exponents = {"f": {"kind": "exponents", "claims": "c"}}
    part = {"n": [10, 100], "trials": 40}
    parts = {
        "one": {**part, "families": ["gaussian"], "claims": {"a": SAMPLING, "b": made}},
        "two": {**part, "families": ["coin"], "claims": {"c": SAMPLING}, "figures": exponents},
    }
    spec = {**OWN, "families": {"gaussian": Gaussian(), "coin": tails}, "parts": parts}
    claims = dpbench.run(spec, n_jobs=1).claims
    assert list(claims["claim"]) == ["a", "b", "c"]
    assert list(claims["distribution"]) == ["gaussian", "gaussian", "coin"]


def test_folders_that_cannot_be_loaded(tmp_path: Path) -> None:
    (tmp_path / "audit").mkdir()
    manifest = {"sweep": "a", "configuration": {}, "computer": "", "seed": 0, "failures": []}
    (tmp_path / "audit" / "manifest.json").write_text(json.dumps(manifest))
    for name, line in (("nowhere", "holds no finished run"), ("audit", "holds an audit")):
        with pytest.raises(ConfigError) as error:
            dpbench.load(tmp_path / name)
        assert str(error.value).startswith(f"'{tmp_path / name}': {line}")
        assert "\n" not in str(error.value)


def test_a_folder_of_configurations_exists(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything is composed or read; with ~ for the user's folder."""
    (tmp_path / "file").touch()
    monkeypatch.setenv("HOME", str(tmp_path))
    for folder in ("nowhere", "file", "~/nowhere", "~nobody_of_this_name", "a\0b"):
        for call in (dpbench.run, dpbench.load):
            with pytest.raises(ConfigError) as error:
                call("quick", config_dir=folder)
            assert str(error.value).startswith(f"config_dir: {folder!r}: no such folder")


ENTRIES: dict[str, Any] = {
    "families": {"g": {"kind": "gaussian"}},
    "estimators": {"mean": {"kind": "empirical_mean"}},
    "budgets": {"pure": {"kind": "pure_dp", "epsilon": 1}},
    "parts": {"all": {"n": [10], "trials": 2}},
}


@pytest.mark.parametrize("section", ENTRIES)
@pytest.mark.parametrize("label", [False, True, None])
def test_a_label_is_text(section: str, label: Any) -> None:
    entries = {label: next(iter(ENTRIES[section].values()))}
    with pytest.raises(
        ConfigError, match=f"{str(label).lower()}: a label is text; put it in quotes"
    ):
        dpbench.run({**ENTRIES, section: entries})


@pytest.mark.parametrize("section", ENTRIES)
def test_a_section_has_a_limit(section: str) -> None:
    entry = next(iter(ENTRIES[section].values()))
    with pytest.raises(ConfigError, match="2,001 entries; write at most 2,000"):
        dpbench.run({**ENTRIES, section: {f"e{i}": entry for i in range(2001)}})


@pytest.mark.parametrize("section", ["families", "estimators", "budgets"])
def test_a_part_chooses_by_names(section: str) -> None:
    """A number or null without quotes, as a list or alone, is told with the remedy."""
    for choice, word in ((["g", None], "null"), (1.5, "1.5"), ([2], "2")):
        part = {"all": {"n": [10], "trials": 2, section: choice}}
        with pytest.raises(ConfigError, match=f"put a name in quotes: '{word}'"):
            dpbench.run({**ENTRIES, "parts": part})
