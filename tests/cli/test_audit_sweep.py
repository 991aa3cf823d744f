"""The sweep ``audit`` from the command line: its tables, its verdicts, what it refuses."""

from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import yaml

from dpbench.audit import cases, controls
from dpbench.audit.cases import AuditSweep
from dpbench.audit.pairs import catalogue
from dpbench.audit.releases import COLUMNS
from dpbench.audit.report import render, strongest
from dpbench.audit.run import Audit
from dpbench.config import conf_folder
from dpbench.estimators import Estimate, Estimator
from dpbench.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from dpbench.registry import ConfigError, from_mapping

from .conftest import Bench, unusable

TINY_AUDIT = """
name: tiny
estimators: {clipped: {kind: clipped_mean, lower: -1, upper: 1}, binary: {kind: binary_mean}}
budgets: {pure: {kind: pure_dp, epsilon: 1}, zcdp: {kind: zcdp, rho: 0.5}}
audit: {runs: 300, error: 1.0e-5, cases: {numbers: {n: 20}}}
"""

PLUGIN = """
import numpy as np
from dpbench import Estimate, Estimator, validated
from dpbench.privacy.neighbours import Pair


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
MINE = ["plugins=[mine]", "+sweep.estimators.mine={_target_: mine.Mine}"]


def _plugin(bench: Bench, pairs: str = "return []") -> None:
    (bench.conf / "mine.py").write_text(PLUGIN.format(pairs=pairs))


@pytest.fixture
def audits(bench: Bench, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Bench:
    """The tiny audit on three pairs, with one control that is refuted in a moment."""
    monkeypatch.setattr(cases, "catalogue", lambda n, d: catalogue(n, d)[:3])
    monkeypatch.setattr(cases, "CONTROLS", (controls.NoClipping(),))
    if "tables" not in request.node.name:  # a figure takes longer than the audit
        monkeypatch.setattr(Audit, "_draw", lambda *_: None)
    bench.text(TINY_AUDIT)
    return bench


def _table(bench: Bench, name: str = "audit.csv") -> pd.DataFrame:
    return pd.read_csv(bench.folder / "out" / name).drop(columns="seconds")


def test_the_tables_of_an_audit(audits: Bench) -> None:
    result = audits.run()
    assert result.code == 0, result
    assert tuple(pd.read_csv(audits.folder / "out" / "audit.csv").columns) == COLUMNS
    for name, estimators, runs in (
        ("audit.csv", {"clipped", "binary"}, 300),
        ("controls.csv", {"no_clipping"}, 1000),
    ):
        table = _table(audits, name)
        assert set(table["estimator"]) == estimators
        assert set(table["notion"]) == {"pure", "zcdp"}
        assert (table.groupby(["estimator", "notion"])["pair"].nunique() == 3).all()
        assert (table["claimed"] == table["notion"].map({"pure": 1.0, "zcdp": 0.5})).all()
        assert (table["lower_bound"] >= 0).all()
        refuted = table["lower_bound"] > table["claimed"]
        assert ((table["verdict"] == "refuted") == refuted).all()
        assert refuted.any() == (name == "controls.csv")
        assert (table["runs"] == runs).all()
    assert audits.manifest()["exit_code"] == 0
    assert "refutes" in result.out
    assert "proves nothing" in audits.read("scoreboard.txt")
    found = {path.name for path in (audits.folder / "out").rglob("*")}
    assert found >= {"report.html", "manifest.json", "estimators.pdf", "controls.svg"}


def test_what_is_printed_is_the_strongest_of_each() -> None:
    rows = [("a", 0.5), ("a", 0.9), ("a", np.nan), ("b", np.nan), ("b", 0.0)]
    table = pd.DataFrame(rows, columns=["estimator", "lower_bound"])
    table = table.assign(notion="pure", claimed=1.0, runs=9, pair=list("vwxyz"), verdict="failed")
    assert strongest(table)["pair"].tolist() == ["w", "z"]
    printed = render(table, table).splitlines()
    assert "5 pairs: 0 refuted, 5 failed" in printed
    assert "0 of 2 controls refuted" in printed
    (line,) = {one for one in printed if " w " in one}
    assert [cell.strip() for cell in line.strip("│").split("│")] == [
        "a", "pure", "w", "3", "9", "1", "0.900", "failed",
    ]  # fmt: skip


def test_half_of_the_noise_is_refuted_and_one_that_raises_has_failed(audits: Bench) -> None:
    _plugin(audits)
    words = [*MINE, "sweep.audit.runs=1000"]
    assert audits.run(*words).code == 0
    assert set(_table(audits)["verdict"]) == {"not refuted"}
    for change, verdict in (("share=0.5", "refuted"), ("raises=true", "failed")):
        result = audits.run(*words, f"+sweep.estimators.mine.{change}")
        assert result.code == audits.manifest()["exit_code"] == 1
        assert "Traceback" not in result.err
        table = _table(audits).set_index("estimator")
        assert verdict in set(table["verdict"].loc["mine"])
        assert set(table.drop("mine")["verdict"]) == {"not refuted"}
    assert table["lower_bound"].loc["mine"].isna().all()


def test_a_control_that_is_not_refuted_fails_the_audit(
    audits: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls.Control, "_registry", dict(controls.Control._registry))

    class Correct(controls.HalvedSensitivity):
        def estimate(self, sample: Any, ledger: Any) -> Any:
            clipped = sample.clipped_mean(-1.0, 1.0)
            return Estimate(ledger.add_noise(clipped, 2 / sample.n), clipped)

    monkeypatch.setattr(cases, "CONTROLS", (controls.NoClipping(), Correct()))
    result = audits.run()
    assert result.code == 1
    assert (_table(audits)["verdict"] == "not refuted").all()
    assert "2 of 4 controls refuted" in result.out


def test_a_second_run_reads_what_is_there(audits: Bench) -> None:
    audits.run()
    names = ("audit.csv", "controls.csv", "scoreboard.txt")
    before, table = [audits.read(name) for name in names], _table(audits)
    shards = sorted((audits.folder / "out" / "blocks").iterdir())
    times = [path.stat().st_mtime_ns for path in shards]
    assert "0 audits done, 6 reused" in audits.run().out
    assert [audits.read(name) for name in names] == before
    assert [path.stat().st_mtime_ns for path in shards] == times
    # Half a shard is made again.
    for text in ("", '[{"estimator": "cl', "[]", "null", '[{"pair": "x"}]'):
        shards[0].write_text(text)
        shards[0].with_suffix(".tmp").write_text("{")
        assert "1 audits done, 5 reused" in audits.run().out
        pd.testing.assert_frame_equal(_table(audits), table)
    assert "6 audits done, 0 reused" in audits.run("resume=false", "n_jobs=2").out
    pd.testing.assert_frame_equal(_table(audits), table)


def test_runs_seed_and_data_make_other_shards(audits: Bench) -> None:
    audits.run()
    before = _table(audits)
    for word, made in (("seed=1", 6), ("trials=301", 4), ("sweep.audit.cases.numbers.n=21", 4)):
        assert f"{made} audits done" in audits.run(word).out
        assert (_table(audits)["lower_bound"] != before["lower_bound"]).any()
    assert "0 audits done" in audits.run().out
    pd.testing.assert_frame_equal(_table(audits), before)
    # Another estimator changes no release, but each pair's share of the error, and so the bounds.
    _plugin(audits)
    audits.run(*MINE, f"sweep.audit.error={1e-5 * 18 / 12!r}")
    after = _table(audits).query("estimator != 'mine'")["lower_bound"]
    np.testing.assert_allclose(after, before["lower_bound"], rtol=1e-9)


NUMBERS = "sweep.audit.cases.numbers"
BAD: list[tuple[str, list[str]]] = [
    (f"+{NUMBERS}.estimators=[nope]", ["numbers.estimators", "'nope'", "clipped"]),
    (f"+{NUMBERS}.budgets=[nope]", ["numbers.budgets", "'nope'", "pure, zcdp"]),
    ("sweep.audit.runs=50", ["sweep.audit.runs: 50", "100"]),
    ("sweep.audit.runs=abc", ["sweep.audit.runs: 'abc'"]),
    ("sweep.audit.error=2", ["sweep.audit.error: 2", "1"]),
    ("sweep.audit.error=0", ["sweep.audit.error: 0"]),
    (f"{NUMBERS}.n=2", [f"{NUMBERS}.n: 2", "4"]),
    (f"+{NUMBERS}.d=0", [f"{NUMBERS}.d: 0", "1"]),
    (f"+{NUMBERS}.m=3", [f"{NUMBERS}.m", "choose from", "budgets"]),
    (f"~{NUMBERS}", ["sweep.audit.cases"]),
    (f"+{NUMBERS}.estimators=[clipped]", ["sweep.estimators.binary", "no case"]),
    ("+sweep.estimators.free={kind: empirical_mean}", ["sweep.estimators.free", "no case"]),
    ("+sweep.families={}", ["sweep.families", "choose from"]),
    ("sweep.budgets.pure.epsilon=0", ["sweep.budgets.pure.epsilon: 0"]),
    ("~sweep.estimators.clipped ~sweep.estimators.binary", ["sweep.estimators"]),
    ("trials=99", ["trials: 99", "100"]),
    ("track=check", ["track"]),
]
BAD_PAIRS = [
    ("raise ValueError('too few')", "too few"),
    ("raise RuntimeError('two\\nlines')", "two"),
    ("return [1]", "audit_pairs"),
    ("return None", "audit_pairs"),
    ("return [Pair('mine', np.zeros(n), np.ones(n))]", "20 records differ"),
    ("return [Pair.replacing('mine', np.zeros(n + 1), 0, 1.0)]", "audit_pairs"),
]


@pytest.mark.parametrize(("given", "named"), BAD, ids=[given for given, _ in BAD])
def test_an_audit_that_cannot_be_run(audits: Bench, given: str, named: list[str]) -> None:
    before = audits.files()
    words = [given] if "{" in given else given.split()
    unusable(audits.run(*words), *named)
    assert audits.files() == before


@pytest.mark.parametrize(("pairs", "named"), BAD_PAIRS)
def test_pairs_that_cannot_be_used(audits: Bench, pairs: str, named: str) -> None:
    _plugin(audits, pairs)
    before = audits.files()
    unusable(audits.run(*MINE), "sweep.estimators.mine", named)
    assert audits.files() == before


@pytest.fixture(scope="module")
def shipped() -> dict[str, Any]:
    found: dict[str, Any] = yaml.safe_load((Path(conf_folder()) / "sweep/audit.yaml").read_text())
    return found


def test_the_shipped_audit_has_every_private_estimator_under_every_notion(
    shipped: dict[str, Any],
) -> None:
    found = from_mapping(AuditSweep, shipped, "sweep").tasks(0)
    # All pairs share the error.
    assert sum(task.error * len(task.pairs) for task in found) == pytest.approx(1e-5)
    assert len({task.name for task in found}) == len(found)
    audited: dict[str, set[str]] = {}
    for task in found:
        audited.setdefault(type(task.estimator).__name__, set()).add(task.budget.notion)
    budgets = (PureDP(1.0), ZCDP(0.5), ApproxDP(1.0, 1e-6))
    for name, kind in Estimator.kinds().items():
        if not kind.__module__.startswith("dpbench.estimators"):
            continue
        notions = {b.notion for b in budgets if isinstance(b, kind.notions)}
        assert audited.get(kind.__name__, set()) == notions, name
        assert notions or NonPrivate in kind.notions


def test_two_cases_of_one_estimator(shipped: dict[str, Any]) -> None:
    spec = copy.deepcopy(shipped)
    spec["audit"]["cases"]["again"] = {"estimators": ["clipped"], "budgets": ["pure"], "n": 60}
    sweep = from_mapping(AuditSweep, spec, "sweep")
    with pytest.raises(ConfigError, match="clipped under pure"):  # not the last one silently
        sweep.tasks(0)
