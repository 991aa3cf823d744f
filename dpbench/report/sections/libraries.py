"""Sections on libraries: measured means, answers to unexpected columns, and replays."""

from __future__ import annotations

from collections.abc import Sequence

from dpbench.libraries.hostile import CASES
from dpbench.libraries.replay import CONTROL
from dpbench.libraries.report import CAPTIONS
from dpbench.output.verdicts import AUDIT, BAD, HOSTILE, page_tones
from dpbench.report.page_run import RunFolder, worst
from dpbench.report.page_tables import (
    Row,
    Table,
    distinct,
    ends,
    how_many,
    listed,
    make_table,
    without_release,
)
from dpbench.report.sections.base import Section, section

COLUMNS = (
    "estimator", "distribution", "neighbours", "epsilon", "n", "trials", "failure_rate", "error",
    "expected_error", "lower_bound", "bias", "expected_bias", "ms",
)  # fmt: skip
NOTE = (
    "Each library ran in its own process. Errors are mean absolute errors. Errors and biases are "
    "in units of width/(n ε), at a single n and ε, with 95% intervals. “At least” is the lower "
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


@section("means", "Libraries")
def build_libraries(run: RunFolder) -> Section | None:
    """Build the overview of all libraries, with tables of all settings and unexpected columns."""
    overview, rows, hostile = (run.rows(name) for name in ("overview", "libraries", "hostile"))
    if not overview:
        return None
    found = []
    if said := [row["outcome"] for row in hostile if row["outcome"]]:
        wrong = sum(one in HOSTILE and HOSTILE[one].tone is BAD for one in said)
        answers = how_many(len(said), "answer")
        found.append(f"NaN or a wrong mean in {wrong} of {answers} about odd columns")
    missing = [row["estimator"] for row in overview if not row["n"]]
    if missing:
        found.append(f"{listed(missing)} did not run")
    absent = f"; {', '.join(missing)} did not run" if missing else ""
    caption = "Errors in units of width/(n ε), a row for each distribution, estimator, ε and n"
    odd = "Answers to unexpected columns"
    return Section(
        note=NOTE,
        data=_overviews(overview),
        tables=[
            run.table("libraries", caption, columns=COLUMNS),
            run.table("hostile", odd, tones=page_tones(HOSTILE)),
        ],
        asked=_question(run, rows) if rows else "",
        found=[*found, *without_release(rows)],
        rank=1,
        captions=CAPTIONS | {"libraries": CAPTIONS["libraries"] + absent},
    )


def _question(run: RunFolder, rows: Sequence[Row]) -> str:
    asked = [
        f"How far are private means of {distinct(rows, 'estimator')} from those of columns of "
        f"{distinct(rows, 'distribution')} with n = {ends(rows, 'n')} and ε = "
        f"{ends(rows, 'epsilon')}",
        "does their noise explain the distance" if run.rows("claims") else "",
        "do their claims of privacy hold" if run.rows("audit") else "",
    ]
    return f"{'; '.join(filter(None, asked))}?"


def _overviews(rows: Sequence[Row]) -> list[Table]:
    """Split the overview into measurements and answers to unexpected columns."""
    odd = [name for name in CASES if name in rows[0]]
    there = [name for name in rows[0] if name not in odd]
    made = (
        make_table(
            rows, len(rows), "Errors, biases, milliseconds for a release, audits", there,
            page_tones(AUDIT), name="means1",
        ),
        make_table(
            rows, len(rows), "Answers to unexpected columns", ["estimator", *odd],
            page_tones(HOSTILE), name="means2",
        ),
    )  # fmt: skip
    return [table for table in made if table]


@section("replay", "Replay", "Replay of libraries")
def build_replay(run: RunFolder) -> Section | None:
    """Build the table of how far mechanisms move on neighbouring datasets, at equal releases."""
    rows = [row for row in run.rows("replay") if row["query"]]
    if not rows:
        return None
    tones = page_tones(AUDIT)
    caption = "The largest move of each mechanism over the sensitivity that it states"
    new = [row for row in rows if row["verdict"] != row["expected"]]
    known = [row for row in rows if (row["library"], row["query"]) != CONTROL]
    bad = [row for row in known if tones[row["verdict"]] == "bad"]
    queries = dict.fromkeys(f"{row['library']} {row['query']}" for row in bad)
    aside = f": {listed([*queries])}" if queries else ""
    return Section(
        text=REPLAY,
        tables=[run.table("replay", caption, tones=tones)],
        found=[f"{len(bad)} of {how_many(len(known), 'replayed mechanism')} refuted{aside}"],
        tone=worst([tones[row["verdict"]] for row in new]),
    )
