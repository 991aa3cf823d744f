"""Sections on libraries of differential privacy: errors, odd columns of data, and replays.

A replay runs a library's query on a dataset and on its neighbours. The releases of its mechanisms
on the dataset are reused on the neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence

from dpbench.audit.verdicts import AUDIT, CONTROLS
from dpbench.libraries.hostile_columns import CASES
from dpbench.libraries.replay import CONTROL
from dpbench.libraries.report import CAPTIONS, ON_PURPOSE
from dpbench.libraries.verdicts import HOSTILE, LIBRARIES
from dpbench.output.verdicts import BAD, page_tones
from dpbench.report.page_run import RunFolder, worst_tone
from dpbench.report.page_tables import (
    Row,
    Table,
    count_distinct,
    count_noun,
    describe_failures,
    format_range,
    join_words,
    make_table,
)
from dpbench.report.sections.base import Section, section

COLUMNS = (
    "estimator", "error", "expected_error", "lower_bound", "bias", "expected_bias", "ms",
    "distribution", "neighbours", "epsilon", "n", "trials", "failure_rate",
)  # fmt: skip
VERDICTS = (
    "The first rule that applies gives the verdict on a library. Refuted: an audit or a replay "
    "refutes one of its rows. Less accurate than its formula: its error or bias is inconsistent "
    "with the formula and larger. Honest as tested: it was audited and not refuted, and all errors "
    "and biases agree with the formula. Inconclusive: it was not audited, or the trials do not "
    "decide. Estimators that are wrong on purpose do not count; they stand below, as controls."
)
NOTE = (
    "Each library ran in its own process. Errors are mean absolute errors. Errors and biases are "
    "in units of width/(n ε), or width²/(n ε) for variances, at a single n and ε, with 95% "
    "intervals. “At least” is the lower "
    "bound for these neighbours, on the worst of some columns close to the measured column. Under "
    "replacement n is public, under add_remove it is private."
)
REPLAY = (
    "A replay runs a query on a dataset, freezes the releases of its mechanisms, and runs the "
    "query on neighbouring datasets with these releases. A mechanism is refuted if its value moves "
    "by more than the sensitivity that it states, or if a single record changes which mechanisms "
    "run. Ratios in columns named “within” use only records within the bounds. Each mechanism is "
    "judged alone; the costs of several are not added up. The query halved_mean is a control, "
    "which must be refuted."
)


@section("verdicts", "Verdicts", "Which library can be trusted")
def build_verdicts(run: RunFolder) -> Section | None:
    """Build the section with a verdict and a sentence for each library."""
    rows = run.rows("verdicts")
    if not rows:
        return None
    tones = page_tones(LIBRARIES)
    return Section(
        note=VERDICTS,
        look="sentences",
        data=[{**row, "tone": tones[row["verdict"]]} for row in rows],
        findings=[f"{row['library']} is {row['verdict']}" for row in rows],
    )


@section("means", "Libraries")
def build_libraries(run: RunFolder) -> Section | None:
    """Build the section on the errors of libraries, and on their answers to unexpected data."""
    overview, rows, hostile = (run.rows(name) for name in ("overview", "libraries", "hostile"))
    if not overview:
        return None
    findings = []
    if outcomes := [row["outcome"] for row in hostile if row["outcome"]]:
        wrong = sum(outcome in HOSTILE and HOSTILE[outcome].tone is BAD for outcome in outcomes)
        answers = count_noun(len(outcomes), "answer")
        findings.append(f"NaN or a wrong mean in {wrong} of {answers} about odd columns")
    missing = [row["estimator"] for row in overview if not row["n"]]
    if missing:
        findings.append(f"{join_words(missing)} did not run")
    absent = f"; {', '.join(missing)} did not run" if missing else ""
    caption = "Errors in units of width/(n ε), a row for each distribution, estimator, ε and n"
    odd_caption = "Answers to unexpected columns"
    return Section(
        note=NOTE,
        data=[*_split_overview(overview), *_split_overview(overview, controls=True)],
        tables=[
            run.table("libraries", caption, columns=COLUMNS),
            run.table("hostile", odd_caption, tones=page_tones(HOSTILE)),
        ],
        setup=_describe_setup(rows) if rows else "",
        findings=[*findings, *describe_failures(rows)],
        rank=1,
        captions=CAPTIONS | {"libraries": CAPTIONS["libraries"] + absent},
    )


def _describe_setup(rows: Sequence[Row]) -> str:
    return (
        f"{count_distinct(rows, 'estimator')} on columns of {count_distinct(rows, 'distribution')} "
        f"with n = {format_range(rows, 'n')} and ε = {format_range(rows, 'epsilon')}"
    )


def _split_overview(rows: Sequence[Row], *, controls: bool = False) -> list[Table]:
    """Split the overview of libraries into two tables: errors, and answers to unexpected data.

    The tables have the estimators that are wrong on purpose if `controls` is True, else the others.
    """
    chosen = [row for row in rows if (row.get("control", "") == ON_PURPOSE) == controls]
    answers = [name for name in CASES if name in rows[0]]
    measurements = [name for name in rows[0] if name not in (*answers, "control")]
    whose = "Controls, wrong on purpose: " if controls else ""
    captions = (
        "errors, biases, milliseconds for a release, audits", "answers to unexpected columns",
    )  # fmt: skip
    errors, odd = (whose + text if controls else text.capitalize() for text in captions)
    place = 3 if controls else 1
    tables = (
        make_table(
            chosen, len(rows), errors, measurements,
            page_tones(CONTROLS if controls else AUDIT), name=f"means{place}",
        ),
        make_table(
            chosen, len(rows), odd, ["estimator", *answers], page_tones(HOSTILE),
            name=f"means{place + 1}",
        ),
    )  # fmt: skip
    return [table for table in tables if table]


@section("replay", "Replay", "Replay of libraries")
def build_replay(run: RunFolder) -> Section | None:
    """Build the section on replays of queries, which test the stated sensitivity of mechanisms.

    A replay runs a library's query on a dataset and on its neighbours. The releases of its
    mechanisms on the dataset are reused on the neighbours. The table has, for each mechanism, the
    largest change of its value before noise between the dataset and a neighbour.
    """
    rows = [row for row in run.rows("replay") if row["query"]]
    if not rows:
        return None
    tones = page_tones(AUDIT)
    caption = "The largest move of each mechanism over the sensitivity that it states"
    control_caption = "Control, wrong on purpose: it must be refuted"
    unexpected = [row for row in rows if row["verdict"] != row["expected"]]
    judged = [row for row in rows if (row["library"], row["query"]) != CONTROL]
    refuted = [row for row in judged if tones[row["verdict"]] == "bad"]
    queries = dict.fromkeys(f"{row['library']} {row['query']}" for row in refuted)
    aside = f": {join_words([*queries])}" if queries else ""
    return Section(
        text=REPLAY,
        tables=[
            make_table(judged, run.max_rows, caption, tones=tones, name="replay"),
            make_table(
                [row for row in rows if row not in judged],
                run.max_rows,
                control_caption,
                tones=page_tones(CONTROLS),
                name="replay_control",
            ),
        ],
        findings=[
            f"{len(refuted)} of {count_noun(len(judged), 'replayed mechanism')} refuted{aside}"
        ],
        tone=worst_tone([tones[row["verdict"]] for row in unexpected]),
    )
