"""Page of scores beside the archive, which ``benchmark compare`` writes, and its sections."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import pandas as pd

from dpbench.benchmark.compare import LEGENDS, OWN
from dpbench.output.files import atomic
from dpbench.output.run_folder import write_manifest
from dpbench.report.page import write_page
from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import Row, count_noun, join_words, make_table
from dpbench.report.sections.base import Section, section

__all__ = ["SECTIONS", "build_problems", "build_shares", "build_standings", "write_leaderboard"]

SECTIONS = ("standings", "figures", "shares", "problems")
TONES = {OWN: "good"}
STANDINGS = (
    "A score is the 0.9 quantile of the error on the worst distribution of a problem, over the "
    "problem's bound. mean: geometric mean of the scores in the class, with a 95% interval from "
    "low to high. best: smallest mean of a ranked entry over the problems that the entry answered. "
    "rank: among entries of the declared division that answered the whole class."
)
PICTURES = ("figures/profile.svg", "figures/profile.json")
PROFILE = (
    "Share of the problems (y) that an entry solves within a factor of the bound (x). Grey: "
    "entries of the archive. Dashed: the best of them for each problem. Bands: 95%."
)


def write_leaderboard(
    folder: Path,
    benchmark: str,
    names: Sequence[str],
    tables: Mapping[str, pd.DataFrame],
    remarks: Sequence[str],
) -> Path:
    """Write the page ``leaderboard.html`` on the entries `names`, and return its path.

    The page is one file without external resources. The tables are ``standings``, ``shares`` and
    ``problems``; the folder already holds the figure and its numbers. The page begins with
    the remarks.
    """
    for name, table in tables.items():
        with atomic(folder / f"{name}.csv") as path:
            table.to_csv(path, index=False)
    figures = {"profile": {"caption": PROFILE}}
    question = f"How good is {join_words(names)} on {benchmark}, beside the archive?"
    record = {
        "sweep": benchmark,
        "noun": "Benchmark",
        "configuration": {"sweep": {"question": question, "figures": figures}},
        "sections": SECTIONS,
        "outputs": dict.fromkeys([*(f"{name}.csv" for name in tables), *PICTURES]),
        "remarks": remarks,
    }
    write_manifest(folder, record)
    return write_page([folder], folder / "leaderboard.html")


@section("standings", "Ranks in each class of problems")
def build_standings(run: RunFolder) -> Section | None:
    """Build the section on the ranks of entries in each class of problems."""
    rows = run.rows("standings")
    if not rows:
        return None
    own = [row for row in rows if row[OWN]]
    shown = [name for name in rows[0] if name != "class"]
    tables = [
        make_table(
            [row for row in rows if row["class"] == title],
            len(rows), f"all entries, {title}", shown, TONES, name=f"standings{i}",
        )
        for i, title in enumerate(dict.fromkeys(row["class"] for row in rows), 1)
    ]  # fmt: skip
    return Section(
        text=" ".join(f"{text}." for text in run.manifest.get("remarks", ())),
        note=STANDINGS,
        data=[table] if (table := make_table(own, len(own), "Your entries", name=OWN)) else (),
        tables=tables,
        findings=[
            _describe_ranks(name, own, rows) for name in dict.fromkeys(r["estimator"] for r in own)
        ],
    )


def _describe_ranks(name: str, own: Sequence[Row], rows: Sequence[Row]) -> str:
    """Return in how many classes an entry has a rank, and its best rank."""
    ranked = [row for row in own if row["estimator"] == name and row["rank"]]
    if not ranked:
        return f"{name} has no rank, because it answers no class of problems in full"
    best = min(ranked, key=lambda row: float(row["rank"]))
    rivals = sum(row["class"] == best["class"] and bool(row["rank"]) for row in rows)
    classes = count_noun(len(ranked), "class").replace("classs", "classes")
    place = f"{float(best['rank']):.0f} of {rivals}"
    return f"{name} has a rank in {classes}; the best is {place}, {best['class']}"


@section("shares", "Shares of all problems")
def build_shares(run: RunFolder) -> Section | None:
    """Build the section on the share of problems that each entry solves."""
    rows = run.rows("shares")
    table = make_table(rows, len(rows), "All entries", tones=TONES, name="shares")
    return Section(note=LEGENDS["overview"], data=[table]) if table else None


@section("problems", "Scores on each problem")
def build_problems(run: RunFolder) -> Section | None:
    """Build the section with the scores of the given entries on each problem."""
    rows = run.rows("problems")
    table = make_table(rows, len(rows), "All problems", name="problems")
    return Section(note=LEGENDS["by_problem"], data=[table]) if table else None
