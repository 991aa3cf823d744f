"""The sweep ``audit`` from the command line: its tables, its verdicts, what it refuses."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

import dpbench.estimators  # noqa: F401, which registers them
from dpbench.audit import cases as auditing
from dpbench.audit import controls
from dpbench.audit import run as audit_run
from dpbench.audit.cases import AuditSettings
from dpbench.audit.cases import tasks as _tasks
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import COLUMNS
from dpbench.config import conf_folder
from dpbench.estimators import Estimate, Estimator
from dpbench.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from dpbench.registry import ConfigError, from_mapping

from .conftest import Bench, unusable

TINY_AUDIT: dict[str, Any] = {
    "name": "tiny",
    "estimators": {
        "clipped": {"kind": "clipped_mean", "lower": -1, "upper": 1},
        "binary": {"kind": "binary_mean"},
    },
    "budgets": {
        "pure": {"kind": "pure_dp", "epsilon": 1},
        "zcdp": {"kind": "zcdp", "rho": 0.5},
    },
    "audit": {"runs": 300, "error": 1e-5, "cases": {"numbers": {"n": 20}}},
}

PLUGIN = """
import numpy as np
from typing import ClassVar
from dpbench import Estimate, Estimator, validated


@validated
class Mine(Estimator):
    share: float = 1.0
    raises: bool = False

    def estimate(self, sample, ledger):
        if self.raises:
            raise RuntimeError("no")
        clipped = sample.clipped_mean(-1, 1)
        return Estimate(ledger.add_noise(clipped, self.share * 2 / sample.n), clipped)

    def audit_pairs(self, n, d, budget):
        {pairs}
"""


def _plugin(bench: Bench, pairs: str = "return []") -> None:
    (bench.conf / "mine.py").write_text(PLUGIN.format(pairs=pairs))
    folder = bench.conf / "estimator"
    folder.mkdir(exist_ok=True)
    (folder / "mine.yaml").write_text("_target_: mine.Mine\n")


MINE = ["plugins=[mine]", "+estimator@sweep.estimators.mine=mine"]


def _write(bench: Bench, change: Callable[[dict[str, Any]], object] = lambda _: None) -> None:
    spec = json.loads(json.dumps(TINY_AUDIT))
    change(spec)
    bench.text(json.dumps(spec))


@pytest.fixture
def audits(bench: Bench, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Bench:
    """The tiny audit on three pairs, with one control that is refuted in a moment."""
    monkeypatch.setattr(auditing, "catalogue", lambda n, d: catalogue(n, d)[:3])
    monkeypatch.setattr(auditing, "CONTROLS", (controls.NoClipping(),))
    if "tables" not in request.node.name:  # a figure takes longer than the audit
        monkeypatch.setattr(audit_run.Audit, "_draw", lambda *_: None)
    _write(bench)
    return bench


def _table(bench: Bench, name: str = "audit.csv") -> pd.DataFrame:
    return pd.read_csv(bench.folder / "out" / name)


def _shards(bench: Bench) -> list[Path]:
    return sorted((bench.folder / "out" / "blocks").iterdir())


def test_the_tables_of_an_audit(audits: Bench) -> None:
    result = audits.run()
    assert result.code == 0, result
    for name, estimators in (
        ("audit.csv", {"clipped", "binary"}),
        ("controls.csv", {"no_clipping"}),
    ):
        table = _table(audits, name)
        assert tuple(table.columns) == COLUMNS
        assert set(table["estimator"]) == estimators
        assert set(table["notion"]) == {"pure", "zcdp"}
        assert (table.groupby(["estimator", "notion"])["pair"].nunique() == 3).all()
        assert (table["claimed"] == table["notion"].map({"pure": 1.0, "zcdp": 0.5})).all()
        assert (table["lower_bound"] >= 0).all()
        refuted = table["verdict"] == "refuted"
        pd.testing.assert_series_equal(
            refuted, table["lower_bound"] > table["claimed"], check_names=False
        )
        assert (table["seconds"] >= 0).all()
    assert (_table(audits)["verdict"] == "not refuted").all()
    assert (_table(audits)["runs"] == 300).all()
    assert (_table(audits, "controls.csv")["runs"] == 1000).all()
    assert audits.manifest()["exit_code"] == 0
    assert "refutes" in result.out
    assert "proves nothing" in audits.read("scoreboard.txt")
    assert {p.name for p in (audits.folder / "out").iterdir()} >= {"report.html", "manifest.json"}


def test_half_of_the_noise_is_refuted(audits: Bench) -> None:
    _plugin(audits)
    assert audits.run(*MINE, "sweep.audit.runs=1000").code == 0
    assert set(_table(audits)["estimator"]) == {"clipped", "binary", "mine"}
    half = audits.run(*MINE, "sweep.audit.runs=1000", "+sweep.estimators.mine.share=0.5")
    assert half.code == 1
    table = _table(audits).set_index("estimator")
    assert (table[table.index == "mine"]["verdict"] == "refuted").any()
    assert (table[table.index != "mine"]["verdict"] == "not refuted").all()
    assert audits.manifest()["exit_code"] == 1


def test_an_estimator_that_raises_has_failed(audits: Bench) -> None:
    _plugin(audits)
    result = audits.run(*MINE, "+sweep.estimators.mine.raises=true")
    assert result.code == 1
    mine = _table(audits).set_index("estimator").loc["mine"]
    assert set(mine["verdict"]) == {"failed"}
    assert mine["lower_bound"].isna().all()
    assert "Traceback" not in result.err


def test_a_control_that_is_not_refuted_fails_the_audit(
    audits: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Correct(controls.HalvedSensitivity):
        def estimate(self, sample: Any, ledger: Any) -> Any:
            clipped = sample.clipped_mean(-1.0, 1.0)
            return Estimate(ledger.add_noise(clipped, 2 / sample.n), clipped)

    try:
        monkeypatch.setattr(auditing, "CONTROLS", (Correct(),))
        result = audits.run()
    finally:
        del controls.Control._registry["correct"]
    assert result.code == 1
    assert (_table(audits)["verdict"] == "not refuted").all()
    assert "0 of 2 controls refuted" in result.out


def test_a_second_run_reads_what_is_there(audits: Bench) -> None:
    audits.run()
    names = ("audit.csv", "controls.csv", "scoreboard.txt")
    before = [audits.read(name) for name in names]
    shards = {path: path.stat().st_mtime_ns for path in _shards(audits)}
    assert len(shards) == 6
    again = audits.run()
    assert "0 audits done, 6 reused" in again.out
    assert [audits.read(name) for name in names] == before
    assert {path: path.stat().st_mtime_ns for path in _shards(audits)} == shards


@pytest.mark.parametrize("text", ["", '[{"estimator": "cl', "[]", "null", '[{"pair": "x"}]'])
def test_half_a_shard_is_made_again(audits: Bench, text: str) -> None:
    audits.run()
    before = _table(audits)
    shard = _shards(audits)[0]
    shard.write_bytes(text.encode("latin-1"))
    (shard.parent / f"{shard.name}.tmp").write_text("{")
    again = audits.run()
    assert again.code == 0
    assert "1 audits done, 5 reused" in again.out
    pd.testing.assert_frame_equal(
        _table(audits).drop(columns="seconds"), before.drop(columns="seconds")
    )


def test_runs_seed_and_data_make_other_shards(audits: Bench) -> None:
    audits.run()
    before = _table(audits)["lower_bound"]
    for word, made in (
        ("seed=1", 6),
        ("trials=301", 4),
        ("sweep.audit.cases.numbers.n=21", 4),
    ):
        assert f"{made} audits done" in audits.run(word).out
        assert (_table(audits)["lower_bound"] != before).any()
    assert "0 audits done" in audits.run().out
    pd.testing.assert_series_equal(_table(audits)["lower_bound"], before)


def test_resume_false_computes_the_same_again(audits: Bench) -> None:
    audits.run()
    before = _table(audits).drop(columns="seconds")
    assert "6 audits done, 0 reused" in audits.run("resume=false", "n_jobs=2").out
    pd.testing.assert_frame_equal(_table(audits).drop(columns="seconds"), before)


def test_another_estimator_changes_no_release(audits: Bench) -> None:
    # It changes each pair's share of the error, and so the bounds.
    audits.run()
    before = _table(audits)
    _plugin(audits)
    audits.run(*MINE, f"sweep.audit.error={1e-5 * 18 / 12!r}")
    after = _table(audits)
    after = after[after["estimator"] != "mine"].reset_index(drop=True)
    np.testing.assert_allclose(after["lower_bound"], before["lower_bound"], rtol=1e-9)


BAD: list[tuple[list[str], list[str]]] = [
    (["+sweep.audit.cases.numbers.estimators=[nope]"], ["numbers.estimators", "'nope'", "clipped"]),
    (["+sweep.audit.cases.numbers.budgets=[nope]"], ["numbers.budgets", "'nope'", "pure, zcdp"]),
    (["sweep.audit.runs=50"], ["sweep.audit.runs: 50", "100"]),
    (["sweep.audit.runs=abc"], ["sweep.audit.runs: 'abc'"]),
    (["sweep.audit.error=2"], ["sweep.audit.error: 2", "1"]),
    (["sweep.audit.error=0"], ["sweep.audit.error: 0"]),
    (["sweep.audit.cases.numbers.n=2"], ["sweep.audit.cases.numbers.n: 2", "4"]),
    (["+sweep.audit.cases.numbers.d=0"], ["sweep.audit.cases.numbers.d: 0", "1"]),
    (["+sweep.audit.cases.numbers.m=3"], ["sweep.audit.cases.numbers.m", "choose from", "budgets"]),
    (["~sweep.audit.cases.numbers"], ["sweep.audit.cases"]),
    (["+sweep.audit.cases.numbers.estimators=[clipped]"], ["sweep.estimators.binary", "no case"]),
    (["+sweep.estimators.free={kind: empirical_mean}"], ["sweep.estimators.free", "no case"]),
    (["+sweep.families={}"], ["sweep.families", "choose from"]),
    (["sweep.budgets.pure.epsilon=0"], ["sweep.budgets.pure.epsilon: 0"]),
    (["~sweep.estimators.clipped", "~sweep.estimators.binary"], ["sweep.estimators"]),
    (["trials=99"], ["trials: 99", "100"]),
    (["track=check"], ["track"]),
]


@pytest.mark.parametrize(("given", "named"), BAD, ids=[" ".join(b[0]) for b in BAD])
def test_an_audit_that_cannot_be_run(audits: Bench, given: list[str], named: list[str]) -> None:
    before = audits.files()
    unusable(audits.run(*given), *named)
    assert audits.files() == before


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        ("raise ValueError('too few')", "too few"),
        ("raise RuntimeError('two\\nlines')", "two"),
        ("return [1]", "audit_pairs"),
        ("return None", "audit_pairs"),
        (
            "from dpbench.privacy.neighbours import Pair; "
            "return [Pair('mine', np.zeros(n), np.ones(n))]",
            "20 records differ",
        ),
        (
            "from dpbench.privacy.neighbours import Pair; "
            "return [Pair.replacing('mine', np.zeros(n + 1), 0, 1.0)]",
            "audit_pairs",
        ),
    ],
)
def test_pairs_that_cannot_be_used(audits: Bench, pairs: str, named: str) -> None:
    _plugin(audits, pairs)
    before = audits.files()
    unusable(audits.run(*MINE), "sweep.estimators.mine", named)
    assert audits.files() == before


def _shipped() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((Path(conf_folder()) / "sweep/audit.yaml").read_text())
    return found


def test_the_shipped_audit_has_every_private_estimator_under_every_notion() -> None:
    spec = _shipped()
    how = from_mapping(AuditSettings, spec["audit"], "sweep.audit")
    audited: dict[str, set[str]] = {}
    for task in _tasks(spec, how, 0):
        kind = type(task.estimator)
        audited.setdefault(kind.__name__, set()).add(task.budget.notion)
    budgets = (PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6))
    for name, kind in Estimator._kinds().items():
        if not kind.__module__.startswith("dpbench.estimators"):
            continue
        notions = {b.notion for b in budgets if isinstance(b, kind.notions)}
        if notions:
            assert audited.get(kind.__name__) == notions, name
        else:
            assert NonPrivate in kind.notions


def test_the_error_is_shared_by_all_pairs() -> None:
    spec = _shipped()
    how = from_mapping(AuditSettings, spec["audit"], "sweep.audit")
    tasks = _tasks(spec, how, 0)
    spent = sum(task.error * len(task.pairs) for task in tasks)
    assert spent == pytest.approx(1e-5)
    assert len({task.name for task in tasks}) == len(tasks)
    spec["audit"]["cases"]["again"] = {"estimators": ["clipped"], "budgets": ["pure"], "n": 60}
    how = from_mapping(AuditSettings, spec["audit"], "sweep.audit")
    with pytest.raises(ConfigError, match="clipped under pure"):  # not the last one silently
        _tasks(spec, how, 0)
