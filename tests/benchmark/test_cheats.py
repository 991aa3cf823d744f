"""Entries that cheat are refused, and honest ones are not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import docs
from dpbench.arrays import Floats
from dpbench.benchmark import checks, command, measure, random_locations
from dpbench.benchmark.measure import SCORING_ROOMS, AuditResult, score_entry
from dpbench.benchmark.problems import (
    MEAN_BENCHMARK,
    REAL_BENCHMARK,
    Benchmark,
    Problem,
    read_benchmark,
)
from dpbench.benchmark.remote import read_entry
from dpbench.benchmark.scoring import ScoreTask, score
from dpbench.benchmark.table import Scores
from dpbench.cli.main import run
from dpbench.estimators import Estimator
from dpbench.privacy import Budget
from dpbench.registry import ConfigError
from dpbench.runner.origin import Origin
from tests.benchmark.cheats import CENTRAL, CHEATS, write_cheat
from tests.conftest import entry_text
from tests.support import rng

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
    benchmark = REAL_BENCHMARK if name == REAL else MEAN_BENCHMARK
    (one,) = read_benchmark(benchmark).select(name).at_places(seed).problems
    return replace(one, trials=(trials, trials))


def run_on(path: Path, one: Problem) -> tuple[Scores, list[AuditResult]]:
    """The scores of an entry's file on a problem, and the audits on its data."""
    entry = read_entry(path, [one])
    rows, audits, failures = score_entry(
        entry, [one], n_jobs=1, origin=Origin.of(rooms=SCORING_ROOMS), quick=True
    )
    assert not failures
    return Scores(rows, {entry.card.name: entry.card}, {}), audits


@pytest.fixture
def few_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Audits of 16 releases a side, at an error of 1 in 50, which these cheats need no better."""
    monkeypatch.setattr(measure, "RUNS", {True: 16})
    monkeypatch.setattr(measure, "ERROR", 2e-2)
    monkeypatch.setattr(checks, "RUNS", 60)


class Here:
    """The estimator of an entry's file in this process, where calls are fast."""

    text = "here"

    def __init__(self, path: Path, one: Problem) -> None:
        code: dict[str, Any] = {"__name__": path.stem}
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(Estimator, "_registry", dict(Estimator._registry))
            exec(compile(path.read_text(), path, "exec", dont_inherit=True), code)
        self.one = code["entry"](one.public_knowledge(open_division=False)).one

    def released(self, x: Floats, budget: Budget, rng: np.random.Generator) -> tuple[Floats, float]:
        return np.array([self.one(records, budget, rng) for records in x]), 0.0


@pytest.mark.parametrize(
    ("name", "where", "pairs"),
    [
        ("quiet_on_ordinary_data", BINARY, {"typical"}),
        ("quiet_on_ordinary_data", REAL, {"typical"}),
        ("rounds_its_median", GAUSSIAN, {"typical"}),
        ("remembers_places", GAUSSIAN, {"typical"}),
        ("subtracts_its_noise", GAUSSIAN, {"typical"}),
        ("hashes_the_data", GAUSSIAN, {"typical"}),
        ("median_with_typical_noise", "gauss-anywhere-n3000-approx0.1", {"clusters", "one-sided"}),
        pytest.param(
            "clips_at_its_quantile",
            "gauss16-anywhere-n8000-approx1",
            {"one-sided"},
            marks=pytest.mark.slow,
        ),
        ("uses_a_private_n", "private-n-n1000-zcdp0.0005", {"equal"}),
    ],
)
def test_the_audit_among_scored_calls_refutes(
    name: str, where: str, pairs: set[str], tmp_path: Path
) -> None:
    """By one of the pairs at the problem's own n."""
    one = problem(where, seed=SEED)
    asked: Any = Here(write_cheat(tmp_path, name), one)
    audits = score(ScoreTask(asked, one, 4, measure.RUNS[False], measure.ERROR / 65)).audits
    refuted = {pair.partition(" ")[2] for pair, bound in audits if bound.verdict == "refuted"}
    assert pairs <= refuted, audits


@pytest.mark.parametrize("name", ["doctor-visits", "medical-spending"])
@pytest.mark.parametrize("seed", [1, 2])
def test_a_memorised_column_gains_nothing(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry has no noise, and errs by more than the archive's best; without a tilt, by nothing.

    The name of the column is told in no division.
    """
    path = write_cheat(tmp_path, "remembers_columns")
    for problem in read_benchmark(REAL_BENCHMARK).select(f"{name}-*").problems:
        one = replace(problem, seed=seed, trials=(40, 40))
        asked: Any = Here(path, one)
        errors = score(ScoreTask(asked, one, 40, 0, 1e-5)).errors
        assert np.quantile(errors, 0.9, axis=1).max() > 1.5 * one.unit * one.bound.value
        monkeypatch.setattr(random_locations, "TILTS", (0.0, 0.0))
        still = replace(problem, seed=seed, trials=(40, 40))
        assert score(ScoreTask(asked, still, 40, 0, 1e-5)).errors.max() < 1e-3 * one.unit
        monkeypatch.undo()
        told = one.public_knowledge(open_division=True).law
        assert told == {"kind": "real_column"}


@pytest.mark.parametrize(("honest", "verdict"), [(True, "not refuted"), (False, "refuted")])
def test_reports_of_the_local_model_are_audited(
    honest: bool, verdict: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The entry of the page, and central noise behind them. False alarms: below 1e-5.

    A report is one of 100 of a record that is 0 or 1: e^1 is exceeded by none.
    """
    monkeypatch.setattr(measure, "RUNS", {True: 100})
    page = (Path(docs.__file__).parent / "howto" / "benchmark.md").read_text("utf-8")
    code = page.partition("```python\n# coin.py\n")[2].partition("```")[0]
    path = tmp_path / "local_entry.py"
    path.write_text(code if honest else CENTRAL)
    scores, audits = run_on(path, problem("local-binary-n3000-pure1", seed=SEED, trials=60))
    assert {one.bound.verdict for one in audits} == {verdict}
    assert scores.rows["score"][0] < (1.9 if honest else 1.44)


def test_a_local_entry_handles_records_as_its_base_does(tmp_path: Path) -> None:
    """One that overrides how reports are collected is not of the local model."""
    text = CENTRAL.replace(
        "    def report", "    def transcript(self, x, *_):\n        pass\n\n    def report"
    )
    (tmp_path / "local_entry.py").write_text(text)
    with pytest.raises(ConfigError, match="not of the local model; derive it from OneRecord"):
        read_entry(tmp_path / "local_entry.py", [problem("local-binary-n3000-pure1", seed=SEED)])


@pytest.mark.usefixtures("few_calls")
@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("looks_at_frames", "audit: looks_at_frames-Cheat under pure: refuted"),
        ("patches_the_package", "a promise is not kept: Cheat under pure"),
        pytest.param("quiet_on_ordinary_data", "no score is stored", marks=pytest.mark.slow),
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
    monkeypatch.setattr(command, "read_benchmark", lambda _: Benchmark(MEAN_BENCHMARK, (one,)))
    text = write_cheat(entry_folder, name).read_text()
    (entry_folder / f"{name}.py").write_text(text.replace(', "zcdp", "gdp", "approx"]', "]", 1))
    assert run(["benchmark", "run", f"{name}.py", "quick=true", "n_jobs=1"]) == 1
    assert said in capsys.readouterr().out
    assert not (entry_folder / f"{name}.parquet").exists()


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


def test_a_third_of_the_noise_is_below_the_bound(tmp_path: Path) -> None:
    """Its release on ordinary data has some noise, which few releases do not refute."""
    scores = batch_scores(write_cheat(tmp_path, "a_third_of_the_noise"), problem(NOISY, seed=SEED))
    assert scores.is_below.all()
    assert scores.ranked.empty
    opened = {name: replace(card, division="open") for name, card in scores.cards.items()}
    assert not Scores(scores.rows, opened, {}).is_below.any()  # it may know the law


def test_every_cheat_is_tried() -> None:
    text = Path(__file__).read_text("utf-8")
    assert [name for name in CHEATS if name not in text] == []


def honest(folder: Path, name: str) -> Path:
    path = folder / f"{name}.py"
    notions = ["zcdp"] if "zcdp" in HONEST_ENTRIES[name] else ["pure"]
    path.write_text(
        entry_text() if name == "wide_clip" else HONEST.format(name=name, notions=notions)
    )
    return path


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ksu20_mean"])
def test_an_honest_entry_passes(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(measure, "RUNS", {True: 10})
    scores, audits = run_on(honest(tmp_path, name), problem(HONEST_ENTRIES[name], seed=SEED))
    assert len(audits) == 5
    assert {one.bound.verdict for one in audits} == {"not refuted"}
    assert np.isfinite(scores.rows["score"]).all()


@pytest.mark.slow
@pytest.mark.parametrize("name", HONEST_ENTRIES)
def test_honest_entries_pass_with_eight_seeds(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """False alarms have probability 1e-5 a run by the audit, 1e-4 a problem by the bound.

    The 48 runs of all entries see an alarm in a tenth of all runs with probability 0.99.
    """
    monkeypatch.setattr(measure, "RUNS", {True: 40})
    path = honest(tmp_path, name)
    for seed in range(8):
        one = problem(HONEST_ENTRIES[name], seed=seed)
        _, audits = run_on(path, one)
        assert {one.bound.verdict for one in audits} == {"not refuted"}, seed
        assert not batch_scores(path, one).is_below.any(), seed
