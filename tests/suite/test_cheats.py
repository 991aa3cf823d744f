"""Entries that cheat are refused, and honest ones are not."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dpbench.cli.main import run
from dpbench.registry import ConfigError
from dpbench.runner.origin import Origin
from dpbench.suite import checks, command, measure
from dpbench.suite.measure import SCORING_MODULE, AuditResult, score_entry
from dpbench.suite.problems import REAL_SUITE, SUITE, Problem, Suite, read_suite
from dpbench.suite.remote import read_entry
from dpbench.suite.table import Scores
from tests.conftest import entry_text
from tests.suite.entry import HAS_SECCOMP
from tests.support import rng

CHEATS = Path(__file__).parent / "cheats"
BINARY, GAUSSIAN, NOISY = "binary-n300-pure0.1", "gauss-n300-pure0.1", "binary-n3000-pure0.01"
REAL = "body-weight-n1000-pure1"
SEED = 20261123

# An estimator of the catalogue as the entry of a file.
HONEST = """
from dpbench.estimators.catalogue import uses

CARD = {{
    "name": "{name}", "paper": "see the catalogue", "notions": {notions},
    "relations": ["replace"], "assumptions": "none", "proof": "see the catalogue",
    "division": "declared",
}}


def entry(public):
    kind, use = next((kind, use) for name, kind, use in uses() if name == "{name}")
    return use.estimator(kind, public)
"""
HONEST_ENTRIES = {
    "wide_clip": "gauss-n100-pure1",
    "binary_mean": "binary-n1000-zcdp0.0005",
    "gaussian_score_mean": "gauss-n300-pure0.1",
    "ksu20_mean": "moments2-n300-pure1",
    "coinpress_mean": "gauss16-n1000-zcdp0.5",
    "shrinking_intervals": REAL,
}


def problem(name: str, *, seed: int, trials: int = 4) -> Problem:
    """That problem at the places of a seed, with few trials: the audit has as many releases."""
    suite = REAL_SUITE if name == REAL else SUITE
    (one,) = read_suite(suite).select(name).at_places(seed).problems
    return replace(one, trials=(trials, trials))


def run_on(path: Path, one: Problem) -> tuple[Scores, list[AuditResult]]:
    """The scores of an entry's file on a problem, and the audits on its data."""
    entry = read_entry(path, [one])
    rows, audits, failures = score_entry(
        entry, [one], n_jobs=1, origin=Origin.of(SCORING_MODULE), quick=True
    )
    assert not failures
    return Scores(rows, {entry.card.name: entry.card}, {}), audits


@pytest.fixture
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits of 16 releases a side, at an error of 1 in 50, which these cheats need no better."""
    monkeypatch.setattr(measure, "RUNS", {True: 16})
    monkeypatch.setattr(measure, "ERROR", 2e-2)
    monkeypatch.setattr(checks, "RUNS", 200)


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize(
    ("name", "where"),
    [
        ("quiet_on_ordinary_data", BINARY),
        ("rounds_its_median", GAUSSIAN),
        ("remembers_places", GAUSSIAN),
        ("subtracts_its_noise", GAUSSIAN),
        ("hashes_the_data", GAUSSIAN),
    ],
)
def test_the_audit_of_scored_data_refutes(name: str, where: str) -> None:
    """Each passes the checks and the audit on other data: by 16 releases of the same dataset."""
    _, audits = run_on(CHEATS / f"{name}.py", problem(where, seed=SEED))
    assert [one.pair for one in audits] == ["10 typical", "1 extreme"]
    assert "refuted" in {one.bound.verdict for one in audits}


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("looks_at_frames", "audit: looks_at_frames-LooksAtFrames under pure: refuted"),
        ("patches_the_package", "audit: patches_the_package-PatchesThePackage under pure: refuted"),
        ("quiet_on_ordinary_data", "no score is stored"),
    ],
)
def test_the_command_refuses(
    name: str,
    said: str,
    entry_folder: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    one = problem(BINARY, seed=0)
    monkeypatch.setattr(command, "read_suite", lambda _: Suite(SUITE, (one,)))
    shutil.copy(CHEATS / f"{name}.py", entry_folder)
    assert run(["suite", "run", f"{name}.py", "quick=true", "n_jobs=1"]) == 1
    assert said in capsys.readouterr().out
    assert not (entry_folder / f"{name}.parquet").exists()


@pytest.mark.skipif(not HAS_SECCOMP, reason="needs seccomp of x86-64")
@pytest.mark.parametrize("name", ["counts_its_calls", "maps_its_own_file", "reads_the_pipe_early"])
def test_a_file_that_leaves_traces_is_refused(name: str, tmp_path: Path) -> None:
    """Each adds noise only to datasets that it has seen before, and no audit would refute it."""
    shutil.copy(CHEATS / f"{name}.py", tmp_path)
    with pytest.raises(ConfigError, match="cannot be imported: PermissionError"):
        read_entry(tmp_path / f"{name}.py", [problem(BINARY, seed=SEED)])


def batch_scores(path: Path, one: Problem) -> Scores:
    """Scores by 100 trials of each member, in one call for each member: fewer show no row below."""
    entry = read_entry(path, [one])
    errors = []
    for law in one.members.values():
        sample = law.sample(rng(one.seed), 100, one.n)
        records = np.stack([sample.records(trial, rng(2)) for trial in range(100)])
        values, _ = entry.answers[one.id].released(records, one.budget, rng(3))
        off = values - law.target
        errors.append(np.abs(off) if off.ndim == 1 else np.linalg.norm(off, axis=1))
    rows = pd.DataFrame(
        [{"entry": entry.card.name, **measure._summarise_errors(one, "x", np.stack(errors))}]
    )
    return Scores(rows, {entry.card.name: entry.card}, {})


def test_a_third_of_the_noise_is_below_the_bound() -> None:
    """Its release on ordinary data has some noise, which few releases do not refute."""
    scores = batch_scores(CHEATS / "a_third_of_the_noise.py", problem(NOISY, seed=SEED))
    assert scores.is_below.all()
    assert scores.ranked.empty
    opened = {name: replace(card, division="open") for name, card in scores.cards.items()}
    assert not Scores(scores.rows, opened, {}).is_below.any()  # it may know the law


def test_every_cheat_is_tried() -> None:
    """Eleven of them, in the tests above."""
    text = Path(__file__).read_text("utf-8")
    names = [path.stem for path in CHEATS.glob("*.py")]
    assert len(names) == 11
    assert [name for name in names if name not in text] == []


def honest(folder: Path, name: str) -> Path:
    path = folder / f"{name}.py"
    notions = ["zcdp"] if "zcdp" in HONEST_ENTRIES[name] else ["pure"]
    path.write_text(
        entry_text() if name == "wide_clip" else HONEST.format(name=name, notions=notions)
    )
    return path


@pytest.mark.parametrize("name", ["ksu20_mean"])
def test_an_honest_entry_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RUNS", {True: 10})
    scores, audits = run_on(honest(tmp_path, name), problem(HONEST_ENTRIES[name], seed=SEED))
    assert len(audits) == 2
    assert {one.bound.verdict for one in audits} == {"not refuted"}
    assert np.isfinite(scores.rows["score"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST_ENTRIES)
def test_honest_entries_pass_with_forty_seeds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarms have probability 1e-5 a run by the audit, 1e-4 a problem by the bound."""
    monkeypatch.setattr(measure, "RUNS", {True: 40})
    path = honest(tmp_path, name)
    for seed in range(40):
        one = problem(HONEST_ENTRIES[name], seed=seed)
        _, audits = run_on(path, one)
        assert {one.bound.verdict for one in audits} == {"not refuted"}, seed
        assert not batch_scores(path, one).is_below.any(), seed


@pytest.mark.usefixtures("few_calls")
def test_real_columns_are_audited_too() -> None:
    """Noise is missing on the scored data, which are 1000 records of a real column."""
    scores, audits = run_on(CHEATS / "quiet_on_ordinary_data.py", problem(REAL, seed=SEED))
    assert [one.pair for one in audits] == ["1 typical", "1 extreme"]
    assert "refuted" in {one.bound.verdict for one in audits}
    assert not scores.is_below.any()
