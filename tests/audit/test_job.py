"""The sweep ``audit`` from the command line: its tables, its verdicts, what it refuses."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar, cast

import numpy as np
import pandas as pd
import pytest

from dpbench.audit import cases, controls, job
from dpbench.audit.app import APP
from dpbench.audit.cases import AuditSweep
from dpbench.audit.job import AuditJob
from dpbench.audit.pairs import catalogue
from dpbench.audit.task import AUDITED_PAIRS, COLUMNS, Way
from dpbench.estimators import Estimate, Estimator
from dpbench.estimators.catalogue import catalogue as listings
from dpbench.jobs.composition import compose
from dpbench.privacy import GDP, ZCDP, ApproxDP, NonPrivate, PureDP
from dpbench.registry import ConfigError, from_mapping
from tests.bench import Bench

TINY_AUDIT = """
name: tiny
estimators: {clipped: {kind: clipped_mean, lower: -1, upper: 1}, binary: {kind: binary_mean}}
budgets: {pure: {kind: pure_dp, epsilon: 1}, zcdp: {kind: zcdp, rho: 0.5}}
audit: {runs: 300, failure_probability: 1.0e-5, cases: {numbers: {n: 20}}}
"""
READ = "float(np.loadtxt('data.txt'))"
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
        monkeypatch.setattr(AuditJob, "_draw", lambda *_: None)
    bench.text(TINY_AUDIT)
    return bench


def _table(bench: Bench) -> pd.DataFrame:
    return bench.table("audit.csv").drop(columns="seconds")


def test_rows_that_read_a_file_are_never_stale(audits: Bench) -> None:
    """A file that nothing declares decides on the noise; rows of other estimators are reused."""
    _plugin(audits)
    mine = audits.conf / "mine.py"
    mine.write_text(mine.read_text().replace("self.share * 2", f"{READ} * 2"))
    data, found = audits.folder / "data.txt", list[set[str]]()
    for share in ("1", "0.001"):
        data.write_text(share)
        audits.forget()
        result = audits.run(*MINE, "sweep.audit.runs=1000")
        table = audits.table("audit.csv")
        found.append(set(table[table["estimator"] == "mine"]["verdict"]))
        assert audits.manifest()["files_opened"] == [str(data)]
        assert (f"audits that read '{data}' are computed again" in result.out) == (share != "1")
    assert found == [{"not refuted"}, {"refuted"}]


def test_the_tables_of_an_audit(audits: Bench) -> None:
    result = audits.done()
    assert tuple(audits.table("audit.csv").columns) == COLUMNS
    for name, estimators in (
        ("audit.csv", {"clipped", "binary"}),
        ("controls.csv", {"no_clipping"}),
    ):
        table = audits.table(name)
        assert set(table["estimator"]) == estimators
        assert (table.groupby(["estimator", "notion"])["pair"].nunique() == AUDITED_PAIRS).all()
        assert (table["pairs"] == 3).all()
        assert (table["claimed"] == table["notion"].map({"pure": 1.0, "zcdp": 0.5})).all()
        refuted = table["lower_bound"] > table["claimed"]
        assert ((table["verdict"] == "refuted") == refuted).all()
        assert refuted.any() == (name == "controls.csv")
        assert (table["runs"] == 300).all()
    assert audits.manifest()["exit_code"] == 0
    assert "refutes" in result.out
    assert "proves nothing" in audits.read("scoreboard.txt")
    found = {path.name for path in (audits.folder / "out").rglob("*")}
    assert found >= {"report.html", "manifest.json", "estimators.svg", "controls.svg"}
    texts = APP.draw_paper(audits.folder / "out", audits.folder / "paper")
    assert {path.stem for path in (audits.folder / "paper").iterdir()} == {"estimators", "controls"}
    assert "; seed 0. All bounds" in texts["controls.txt"]
    assert "no clipping" in texts["controls.tex"]


def test_added_estimators_come_first(audits: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for shipped in ("binary", "clipped"):
        monkeypatch.setattr(job, "shipped_estimators", lambda _, names={shipped}: names)
        audits.done("resume=false")
        labels = list(dict.fromkeys(_table(audits)["estimator"]))
        assert labels[-1] == shipped
        assert len(labels) == 2


def test_half_of_the_noise_is_refuted_and_one_that_raises_has_failed(audits: Bench) -> None:
    _plugin(audits)
    words = [*MINE, "sweep.audit.runs=1000"]
    assert "\nmore runs: " in audits.done(*words).out
    assert set(_table(audits)["verdict"]) == {"not refuted"}
    for change, verdict in (("share=0.5", "refuted"), ("raises=true", "failed")):
        result = audits.run(*words, f"+sweep.estimators.mine.{change}")
        assert result.code == audits.manifest()["exit_code"] == 1
        assert "Traceback" not in result.err
        assert "more runs" not in result.out  # no further run undoes it
        table = _table(audits).set_index("estimator")
        assert verdict in set(table["verdict"].loc["mine"])
        assert set(table.drop("mine")["verdict"]) == {"not refuted"}
    assert table["lower_bound"].loc["mine"].isna().all()


def test_a_sensitivity_that_is_slightly_too_small_is_refuted_by_replay(audits: Bench) -> None:
    _plugin(audits)
    result = audits.run(*MINE, "+sweep.estimators.mine.share=0.99")
    assert result.code == 1
    table = _table(audits).set_index("estimator")
    mine, others = table.loc["mine"], table.drop("mine")
    assert set(mine["verdict"]) == {"refuted"}
    np.testing.assert_allclose(mine["move_over_sensitivity"], 1 / 0.99)
    assert (mine["lower_bound"] < mine["claimed"]).all()  # no run shows it
    assert (others["verdict"] == "not refuted").all()
    assert (others["move_over_sensitivity"] == 1).all()
    assert others["refuted_by_replay"].isna().all()
    wanted = "replay refutes mine under pure: add_noise moves by 1.0101 times its stated"
    assert wanted in result.out
    assert "1.01" in audits.read("report.html")


def test_a_control_that_is_not_refuted_fails_the_audit(
    audits: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls.Control, "_registry", dict(controls.Control._registry))

    class Correct(controls.HalvedSensitivity):
        seen_by: ClassVar[tuple[Way, ...]] = ("runs",)

        def estimate(self, sample: Any, ledger: Any) -> Any:
            clipped = sample.clipped_mean(-1.0, 1.0)
            return Estimate(ledger.add_noise(clipped, 2 / sample.n), clipped)

    monkeypatch.setattr(cases, "CONTROLS", (controls.NoClipping(), Correct()))
    result = audits.run("trials=1000")
    assert result.code == 1
    assert (_table(audits)["verdict"] == "not refuted").all()
    assert "2 of 5 controls caught" in result.out
    few = audits.done()  # 300 runs may miss one, and say so
    assert "300 runs a side miss broken estimators" in few.out
    both: list[tuple[Way, ...]] = [("replay",), ("runs", "replay")]
    for ways in both:  # a replay needs no runs
        Correct.seen_by = ways
        missed = audits.run("resume=false")
        assert missed.code == 1
        assert "a replay misses correct: its other results prove little" in missed.out
        assert "runs a side miss" not in missed.out


def _edited(whole: str) -> str:
    return whole.replace('"not refuted"', '"refuted"').replace('"refuted"', '"not refuted"', 1)


def _flipped(whole: str) -> str:
    at = next(at for at in range(len(whole) // 2, len(whole)) if whole[at] in "123456")
    return whole[:at] + chr(ord(whole[at]) ^ 1) + whole[at + 1 :]


DAMAGED: list[Callable[[str], str]] = [
    lambda _: "", lambda _: "null", lambda _: '[{"pair": "x"}]', lambda whole: whole[:18],
    _flipped, _edited,
]  # fmt: skip


def test_what_is_made_again(audits: Bench) -> None:
    """What is damaged, or of other runs, seeds and data; the rest is read, and equal."""
    audits.text(TINY_AUDIT.replace("runs: 300", "runs: 100"))
    audits.done()
    names = ("audit.csv", "controls.csv", "scoreboard.txt", "report.html")
    before, table = [audits.read(name) for name in names], _table(audits)
    assert "0 audits done, 6 reused" in audits.done().out
    assert [audits.read(name) for name in names] == before
    first, *others = sorted((audits.folder / "out" / "blocks").iterdir())
    for shards, ways, done in (([first], DAMAGED[:1], 1), (others, DAMAGED[1:], 5)):
        for shard, damaged in zip(shards, ways, strict=True):
            whole = shard.read_text()
            shard.write_text(damaged(whole))
            assert shard.read_text() != whole
        assert f"{done} audits done, {6 - done} reused" in audits.done().out
        pd.testing.assert_frame_equal(_table(audits), table)
    assert "6 audits done, 0 reused" in audits.done("resume=false").out
    pd.testing.assert_frame_equal(_table(audits), table)
    for word, made in (("seed=1", 6), ("trials=101", 6), ("sweep.audit.cases.numbers.n=21", 4)):
        assert f"{made} audits done" in audits.done(word).out
        assert (_table(audits)["lower_bound"] != table["lower_bound"]).any()
    # Another estimator changes no release, but each task's share of the error, and so the bounds.
    _plugin(audits)
    audits.done(*MINE, f"sweep.audit.failure_probability={1e-5 * 6 / 4!r}")
    after = _table(audits).query("estimator != 'mine'")["lower_bound"]
    np.testing.assert_allclose(after, table["lower_bound"], rtol=1e-9)


NUMBERS = "sweep.audit.cases.numbers"
BAD: list[tuple[str, list[str]]] = [
    (f"+{NUMBERS}.estimators=[nope]", ["numbers.estimators", "'nope'", "clipped"]),
    (f"+{NUMBERS}.budgets=[nope]", ["numbers.budgets", "'nope'", "pure, zcdp"]),
    ("sweep.audit.runs=50", ["sweep.audit.runs: 50", "100"]),
    ("sweep.audit.failure_probability=0", ["sweep.audit.failure_probability: 0"]),
    (f"{NUMBERS}.n=1", [f"{NUMBERS}.n: 1", "2"]),
    (f"+{NUMBERS}.m=3", [f"{NUMBERS}.m", "choose from", "budgets"]),
    (f"~{NUMBERS}", ["sweep.audit.cases"]),
    (f"+{NUMBERS}.estimators=[clipped]", ["sweep.estimators.binary", "no case"]),
    ("+sweep.families={}", ["sweep.families", "choose from"]),
    ("trials=99", ["trials: 99", "100"]),
    ("track=check", ["track"]),
]


def test_an_audit_that_cannot_be_run(audits: Bench) -> None:
    for word, named in BAD:
        audits.refuses(word, named=named)


@pytest.mark.parametrize(
    ("pairs", "named"),
    [
        ("raise RuntimeError('two\\nlines')", "two"),
        ("return [1]", "audit_pairs"),
        ("return [Pair('mine', np.zeros(n), np.ones(n))]", "20 records differ"),
        ("return [Pair.replacing('mine', np.zeros(n + 1), 0, 1.0)]", "audit_pairs"),
    ],
)
def test_pairs_that_cannot_be_used(audits: Bench, pairs: str, named: str) -> None:
    _plugin(audits, pairs)
    audits.refuses(*MINE, named=["sweep.estimators.mine", named])


def test_the_shipped_audit_has_every_private_estimator_under_every_notion() -> None:
    shipped = compose(["sweep=audit"])["sweep"]
    found = from_mapping(AuditSweep, shipped, "sweep").tasks(0)
    assert sum(task.error for task in found) == pytest.approx(1e-5)
    sent = pickle.loads(pickle.dumps(found))  # to another process
    assert len({task.name for task in sent}) == len(found)
    audited = {(type(task.estimator), task.budget.notion) for task in found}
    budgets = (PureDP(1.0), ZCDP(0.5), GDP(1.0), ApproxDP(1.0, 1e-6))
    for name, listing in listings().items():
        kind = Estimator.kinds()[name]
        notions = {b.notion for b in budgets if isinstance(b, kind.notions)}
        assert notions or NonPrivate in kind.notions
        wanted = set() if "audit" in listing.not_in else notions
        has = {notion for one, notion in audited if one is kind}
        advice = "add it to conf/sweep/audit.yaml, or say in the catalogue: not_in: {audit: why}"
        assert has == wanted, f"{name} is audited under {has}, not under {wanted}; {advice}"
    shipped["audit"]["cases"]["again"] = {"estimators": ["clipped"], "budgets": ["pure"], "n": 60}
    with pytest.raises(ConfigError, match="clipped under pure"):  # not the last one silently
        from_mapping(AuditSweep, shipped, "sweep").tasks(0)


def test_rows_of_an_audit_are_those_of_their_source() -> None:
    def key(bits: str, name: str) -> str:
        origin = SimpleNamespace(bits=bits)
        return AuditJob._key(
            cast("AuditJob", SimpleNamespace(options=SimpleNamespace(origin=origin))), name
        )

    assert len({key(bits, name) for bits in ("one", "other") for name in ("a", "b")}) == 4
