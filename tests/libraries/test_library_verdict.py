"""Verdicts on libraries from made-up rows, one for each rule."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from dpbench.audit.task import COLUMNS as AUDIT_COLUMNS
from dpbench.libraries.library_verdict import judge_libraries
from dpbench.libraries.replay import COLUMNS as REPLAY_COLUMNS
from dpbench.libraries.verdicts import LIBRARIES

AUDIT = {
    "estimator": "lib", "notion": "pure", "delta": 0.0, "claimed": 1.0, "lower_bound": 0.6,
    "pair": "edge", "verdict": "not refuted",
}  # fmt: skip
CLAIM = {
    "claim": "error", "estimator": "lib", "distribution": "centre", "predicted": 1.0,
    "measured": 1.01, "low": 0.98, "high": 1.04, "verdict": "consistent",
}  # fmt: skip
REPLAY = {
    "library": "wonder", "query": "mean", "mechanism": "laplace", "move_over_sensitivity": 1.0,
    "move_over_sensitivity_within": 1.0, "pair": "[0, 1] low", "control_flow": "same",
    "verdict": "not refuted",
}  # fmt: skip
WRONG = {"claim": "bias", "measured": 0.5, "low": 0.4, "high": 0.6, "predicted": 0.0}


def judged(
    audits: list[dict[str, Any]],
    claims: list[dict[str, Any]],
    replays: list[dict[str, Any]] | None = None,
    labels: tuple[str, ...] = ("lib",),
    controls: tuple[str, ...] = (),
) -> tuple[str, str]:
    """The verdict and the sentence from these changes of the rows above."""
    tables = {
        "overview": pd.DataFrame({"estimator": [*labels], "version": "1.2"}),
        "audit": pd.DataFrame([AUDIT | one for one in audits], columns=list(AUDIT_COLUMNS)),
        "claims": pd.DataFrame([CLAIM | one for one in claims], columns=list(CLAIM)),
    }
    if replays is not None:
        rows = [REPLAY | one for one in replays]
        tables["replay"] = pd.DataFrame(rows, columns=list(REPLAY_COLUMNS))
    table = judge_libraries(dict.fromkeys(labels, "wonder"), tables, controls)
    ((verdict, sentence),) = table[["verdict", "sentence"]].itertuples(index=False)
    assert sentence.startswith(f"wonder 1.2 is {verdict}: ")
    assert sentence.endswith(".")
    return verdict, sentence


@pytest.mark.parametrize(
    ("audits", "claims", "replays", "verdict", "row"),
    [
        ([{}], [{}, {}], None, "honest as tested", "the audit of lib shows at least 0.60 of the "
         "claimed epsilon 1 (edge), 2 of 2 claims are consistent"),
        ([{}], [{}], [{}, {}], "honest as tested", ", 2 replayed mechanisms are not refuted"),
        ([{"verdict": "refuted", "lower_bound": 2.5}], [{}], None, "refuted",
         "the audit of lib shows at least 2.50 of the claimed epsilon 1 (edge)."),
        # a refutation counts more than an error as by its formula, and more than a wrong one
        ([{"verdict": "refuted"}], [{"verdict": "inconsistent"}], None, "refuted", "the audit of"),
        ([{}], [{}], [{}, {"verdict": "refuted", "move_over_sensitivity": 2.0,
                            "move_over_sensitivity_within": 2.0}], "refuted",
         "in the replay of mean, laplace moves by 2 times its stated sensitivity ([0, 1] low); the "
         "audit of its mean refutes nothing."),
        ([], [], [{"verdict": "refuted", "query": "sum", "move_over_sensitivity": 9.0},
                  {"verdict": "refuted", "move_over_sensitivity": float("nan")}], "refuted",
         "in the replay of mean, laplace runs or not depending on one record ([0, 1] low); "
         "1 other replayed mechanism is refuted, too."),
        ([], [], [{"verdict": "refuted", "move_over_sensitivity": float("inf")}], "refuted",
         "more than any multiple of its stated sensitivity, only with records that are missing or "
         "beyond the bounds ([0, 1] low)."),
        ([], [], [{"verdict": "refuted", "move_over_sensitivity": float("inf"),
                   "move_over_sensitivity_within": 12.0}], "refuted",
         "any multiple of its stated sensitivity, by 12 times with records within the bounds ("),
        ([{}], [{"measured": float("nan"), "verdict": "inconclusive"}], None, "inconclusive",
         "too few releases of lib on centre for its formula; use more trials."),
        ([{}], [{}, WRONG | {"verdict": "inconsistent"}], None, "less accurate than its formula",
         "the bias of lib on centre is 0.50 (0.40 .. 0.60), by its formula 0.00."),
        # without an audit, a larger error is told all the same
        ([], [WRONG | {"verdict": "inconsistent"}], None, "less accurate than its formula", "bias"),
        ([{}], [{"measured": 0.5, "verdict": "inconsistent"}], None, "inconclusive",
         "so it has less noise than expected, and no audit refutes it."),
        ([], [{}], None, "inconclusive", "no audit of lib."),
        ([{"verdict": "failed"}], [{}], None, "inconclusive", "the audit of lib failed."),
        ([{"lower_bound": 0.09}], [{}], None, "inconclusive", "too little to decide; use more ru"),
        ([{"lower_bound": float("nan")}], [{}], None, "inconclusive", "too little to decide"),
        ([{}], [], None, "inconclusive", "there is no formula for its error."),
        ([{}], [{}, {"verdict": "inconclusive"}], None, "inconclusive", "; use more trials."),
    ],
)  # fmt: skip
def test_each_rule_and_the_row_that_decides(
    audits: Any, claims: Any, replays: Any, verdict: str, row: str
) -> None:
    found, sentence = judged(audits, claims, replays)
    assert found == verdict
    assert found in LIBRARIES
    assert row in sentence


def test_controls_do_not_count() -> None:
    """What is wrong on purpose, or the replay's own control, refutes no library."""
    wrong = {"estimator": "typo", "verdict": "refuted"}
    labels = ("lib", "typo")
    assert judged([{}, wrong], [{}], labels=labels)[0] == "refuted"
    assert judged([{}, wrong], [{}], labels=labels, controls=("typo",))[0] == "honest as tested"
    told = judged([], [], labels=("typo",), controls=("typo",))
    assert told[0] == "inconclusive"
    assert "wrong on purpose" in told[1]
    halved = {"query": "halved_mean", "verdict": "refuted", "move_over_sensitivity": 2.0}
    assert judged([{}], [{}], [{}, halved])[0] == "honest as tested"


def test_an_estimator_without_an_audit_is_named() -> None:
    verdict, sentence = judged([{}], [{}], labels=("lib", "no_bounds"))
    assert verdict == "honest as tested"
    assert sentence.endswith("; not audited: no_bounds.")


@pytest.mark.parametrize(
    ("claimed", "shown", "honest"),
    [(5.0, 0.45, False), (5.0, 0.55, True), (0.4, 0.05, True), (0.4, 0.03, False)],
)
def test_an_audit_has_to_show_a_tenth_of_the_claim(
    claimed: float, shown: float, honest: bool
) -> None:
    verdict, sentence = judged([{"claimed": claimed, "lower_bound": shown}], [{}])
    assert (verdict == "honest as tested") == honest
    assert ("too little to decide; use more runs" in sentence) == (not honest)


def test_the_largest_move_is_told() -> None:
    moves = [
        {"verdict": "refuted", "move_over_sensitivity": ratio, "mechanism": f"m{ratio}"}
        for ratio in (2.0, 9.0, 4.0)
    ]
    _, sentence = judged([], [], moves)
    assert "in the replay of mean, m9.0 moves by 9 times" in sentence
    assert "2 other replayed mechanisms are refuted, too" in sentence
