"""One verdict and one sentence for each library, computed from the rows of a sweep of libraries.

The first rule that applies gives the verdict; estimators that are wrong on purpose do not count.

1. ``refuted``: an audit or a replay refutes a row of the library.
2. ``less accurate than its formula``: a claim is inconsistent, and the measured number is farther
   from 0 than the predicted number.
3. ``honest as tested``: an estimator of the library was audited and not refuted, each audit shows
   at least `MIN_SHOWN` of the claimed parameter, there is a claim, and all claims are consistent.
4. ``inconclusive``: none of these, for example without an audit or with too few trials.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pandas as pd

from dpbench.audit.report import select_strongest
from dpbench.libraries.replay import CONTROL
from dpbench.libraries.verdicts import HONEST, INCONCLUSIVE, LESS_ACCURATE, REFUTED
from dpbench.output.names import as_text

__all__ = ["COLUMNS", "MIN_SHOWN", "judge_libraries"]

COLUMNS = ("library", "version", "verdict", "sentence")
# Share of the claimed parameter that an audit must show. With fewer runs an audit would not see a
# violation either.
MIN_SHOWN = 0.1
MEAN_QUERIES = ("mean", "nanmean")  # replayed queries that are named before all others

Row = Mapping[Any, Any]


def judge_libraries(
    libraries: Mapping[str, str], tables: Mapping[str, pd.DataFrame], controls: Collection[str]
) -> pd.DataFrame:
    """Return the verdict on each library, and a sentence with the row that decides it.

    `libraries` has the library of each estimator that ran, by the estimator's label, without the
    estimators of dpbench. `tables` has ``overview``, ``audit`` and ``claims`` of the run, and
    ``replay`` if there is one. `controls` has the labels of estimators that are wrong on purpose.
    The result has one row for each library, with the columns `COLUMNS`.
    """
    versions = tables["overview"].set_index("estimator")["version"]
    audits = select_strongest(tables["audit"]) if len(tables["audit"]) else tables["audit"]
    replays = tables.get("replay", pd.DataFrame(columns=["library", "query", "verdict"]))
    rows = []
    for name in dict.fromkeys(libraries.values()):
        labels = [key for key, library in libraries.items() if library == name]
        judged = [label for label in labels if label not in controls]
        own_replays = replays[(replays["library"] == name) & (replays["query"] != CONTROL[1])]
        verdict, reason = _judge(
            judged,
            audits[audits["estimator"].isin(judged)].to_dict("records"),
            own_replays.to_dict("records"),
            tables["claims"][tables["claims"]["estimator"].isin(judged)].to_dict("records"),
        )
        sentence = f"{name} {versions[labels[0]]} is {verdict}: {reason}."
        rows.append((name, versions[labels[0]], verdict, sentence))
    return pd.DataFrame(rows, columns=list(COLUMNS))


def _judge(
    labels: Collection[str], audits: Sequence[Row], replays: Sequence[Row], claims: Sequence[Row]
) -> tuple[str, str]:
    """Return the verdict on a library and its reason, from the rows of its estimators."""
    refuting = [_describe_audit(row) for row in audits if row["verdict"] == "refuted"]
    moves = [row for row in replays if row["verdict"] == "refuted"]
    if refuting or moves:
        return REFUTED, _describe_refutation(refuting, moves, audits)
    inconsistent = [row for row in claims if row["verdict"] == "inconsistent"]
    for row in inconsistent:
        if abs(row["measured"]) > abs(row["predicted"]):
            return LESS_ACCURATE, _describe_claim(row)
    if inconsistent:
        return INCONCLUSIVE, (
            f"{_describe_claim(inconsistent[0])}, so it has less noise than expected, and no audit "
            "refutes it"
        )
    reason = _find_gap(labels, audits, claims)
    if reason:
        return INCONCLUSIVE, reason
    untested = [label for label in labels if label not in {row["estimator"] for row in audits}]
    aside = f"; not audited: {', '.join(untested)}" if untested else ""
    replayed = f", {len(replays)} replayed mechanisms are not refuted" if replays else ""
    weakest = min(audits, key=lambda row: row["lower_bound"] / row["claimed"])
    return HONEST, (
        f"{_describe_audit(weakest)}, {len(claims)} of {len(claims)} claims are consistent"
        f"{replayed}{aside}"
    )


def _find_gap(labels: Collection[str], audits: Sequence[Row], claims: Sequence[Row]) -> str:
    """Return the first reason why nothing was decided; empty if all was tested."""
    if not labels:
        return "all its estimators are wrong on purpose"
    if not audits:
        return f"no audit of {', '.join(labels)}"
    for row in audits:
        if row["verdict"] != "not refuted":
            return f"the audit of {row['estimator']} {row['verdict']}"
        if not row["lower_bound"] >= MIN_SHOWN * row["claimed"]:
            return f"{_describe_audit(row)}, too little to decide; use more runs"
    if not claims:
        return "there is no formula for its error"
    undecided = [row for row in claims if row["verdict"] != "consistent"]
    return f"{_describe_claim(undecided[0])}; use more trials" if undecided else ""


def _describe_audit(row: Row) -> str:
    return (
        f"the audit of {row['estimator']} shows at least {row['lower_bound']:.2f} of the claimed "
        f"epsilon {row['claimed']:g} ({row['pair']})"
    )


def _describe_refutation(
    refuting: Sequence[str], moves: Sequence[Row], audits: Sequence[Row]
) -> str:
    """Return the row that refutes a library; a row on its mean is preferred."""
    if refuting:
        return refuting[0]
    row = min(
        moves,
        key=lambda move: (move["query"] not in MEAN_QUERIES, -_ratio(move)),
    )
    ratio, within = _ratio(row), float(row["move_over_sensitivity_within"])
    how = f"moves by {as_text(ratio)} times its stated sensitivity"
    if math.isinf(ratio):
        how = "moves by more than any multiple of its stated sensitivity"
    elif ratio <= 1:
        how = "runs or not depending on one record"
    inside = f", by {as_text(within)} times with records within the bounds" if within > 1 else ""
    beyond = inside or ", only with records that are missing or beyond the bounds"
    beyond = beyond if ratio > max(1, within) else ""
    others = len(moves) - 1
    also = f"; {others} other replayed mechanism{'s are' if others > 1 else ' is'} refuted, too"
    spared = "; the audit of its mean refutes nothing" if audits else ""
    return (
        f"in the replay of {row['query']}, {row['mechanism']} {how}{beyond} ({row['pair']})"
        f"{also if others else ''}{spared}"
    )


def _ratio(row: Row) -> float:
    ratio = float(row["move_over_sensitivity"])
    return 0.0 if math.isnan(ratio) else ratio  # NaN if the control flow differs


def _describe_claim(row: Row) -> str:
    if math.isnan(row["measured"]):
        return f"too few releases of {row['estimator']} on {row['distribution']} for its formula"
    return (
        f"the {row['claim']} of {row['estimator']} on {row['distribution']} is "
        f"{row['measured']:.2f} ({row['low']:.2f} .. {row['high']:.2f}), by its formula "
        f"{row['predicted']:.2f}"
    )
