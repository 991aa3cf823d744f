"""Generate the pages of the benchmark: a front page, and a page for each entry and problem."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from docs.docstring_to_rst import escape, table
from docs.figures import interactive
from docs.generate import contents, facts, link_sources, page, section, write
from docs.leaderboard import (
    OWN_ROLE,
    entry_table,
    format_score,
    front_table,
    leaderboard,
    link_entry,
    link_page,
    milliseconds,
)
from dpbench.analysis.factors import profile
from dpbench.benchmark.compare import NOTES, WITHIN, profile_band, profile_figure
from dpbench.benchmark.leaderboard import Standing, group_by_class, standings
from dpbench.benchmark.problems import (
    MEAN_BENCHMARK,
    REAL_BENCHMARK,
    Benchmark,
    Problem,
    read_benchmark,
)
from dpbench.benchmark.table import Scores, archive_path
from dpbench.estimators import Estimator
from dpbench.report.drawing.interactive import describe
from dpbench.report.drawing.style import style

__all__ = ["write_archive"]

COLOURED_ENTRIES = 6  # in the figure of the front page
# Matches a point of an SVG path, so that digits beyond hundredths of a pixel can be cut.
POINT = re.compile(r"^([ML] -?\d+\.\d\d)\d*( -?\d+\.\d\d)\d*", re.MULTILINE)
# File in dpbench/theory/bounds/ with the proof, by the value of `bound_name`.
PROOFS = {
    "two-point": "numbers",
    "Bernoulli chain": "bernoulli",
    "multi-hypothesis": "multi_hypothesis",
    "Fisher information": "information",
    "sampling": "class_bound",
    "packing": "vectors",
    "fingerprinting": "fingerprinting",
    "local two-point": "local",
    "Bernoulli two-point": "class_bound",
}


def write_archive(folder: Path, archive: Path | None = None) -> None:
    """Write the pages of the benchmark.

    Parameters
    ----------
    folder : Path
        Pages are written to ``benchmark/`` below this folder.
    archive : Path, optional
        Parquet file of scores. Its entries are marked as the reader's own beside those of the
        checkout's archive, and replace entries of equal name.
    """
    benchmark, home = read_benchmark(), archive_path(MEAN_BENCHMARK)
    scores = Scores.read(home, benchmark)
    own, remarks = list[str](), list[str]()
    if archive and archive.resolve() != home.resolve():
        mine = Scores.read(archive, benchmark)
        scores, own = scores.add(mine), sorted(mine.cards)
        remarks = [text for text, applies in NOTES.items() if applies(mine)]
    benchmark = benchmark.at_places(scores.about["seed"])
    scores = _divide_by_bounds(scores, benchmark)
    problems = {problem.id: problem for problem in benchmark.problems}
    divisions = {name: card.division for name, card in scores.cards.items()}
    classes = standings(scores.ranked, benchmark.problems, divisions)
    groups = {"entries": sorted(scores.cards), "problems": list(problems)}
    pages = {"index": _front(scores, benchmark, classes, own, remarks)}
    real = read_benchmark(REAL_BENCHMARK)
    real_scores = Scores.read(archive_path(REAL_BENCHMARK), real)
    real = real.at_places(real_scores.about["seed"])
    classes |= standings(
        real_scores.ranked, real.problems, dict.fromkeys(real_scores.cards, "declared")
    )
    groups["problems"] += [problem.id for problem in real.problems]
    every_problem = (*benchmark.problems, *real.problems)
    pages["leaderboard"] = leaderboard(classes, group_by_class(every_problem), scores.cards, own)
    pages |= {f"{g}/index": page(g.title(), contents(names)) for g, names in groups.items()}
    pages |= {
        f"entries/{name}": _entry(name, scores, problems, classes, remarks if name in own else ())
        for name in sorted(scores.cards)
    }
    pages |= {
        f"problems/{problem.id}": _problem(problem, scores, own) for problem in benchmark.problems
    }
    pages |= {
        f"problems/{problem.id}": _problem(problem, real_scores, ()) for problem in real.problems
    }
    write(folder / "benchmark", pages)


def _divide_by_bounds(scores: Scores, benchmark: Benchmark) -> Scores:
    """Rescale scores to the current bounds, which may be higher than the bounds of the archive."""
    bounds = {problem.id: problem.bound.value for problem in benchmark.problems}
    rows = scores.rows.assign(bound=scores.rows["problem"].map(bounds))
    fall = scores.rows["bound"] / rows["bound"]
    scaled = {name: rows[name] * fall for name in ("score", "score_low", "score_high", "draws")}
    return replace(scores, rows=rows.assign(**scaled))


def _front(
    scores: Scores,
    benchmark: Benchmark,
    classes: Mapping[str, Sequence[Standing]],
    own: Sequence[str],
    remarks: Sequence[str],
) -> str:
    """Return the front page: leaders, the profile, the table of entries and that of problems."""
    rows = [_summary(name, scores, len(benchmark.problems)) for name in scores.cards]
    rows.sort(key=lambda row: [-share for share in row[1]])
    best = list(dict.fromkeys([*own, *(name for name, _, _ in rows)]))[:COLOURED_ENTRIES]
    yours = f"Beside the archive: {', '.join(link_entry(name, own) for name in own)}."
    first = "your entries, then " if own else ""
    return ":hide-toc:\n\n" + page(  # a table needs the room
        "Benchmark",
        OWN_ROLE,
        f"``{benchmark.name}`` asks for the means of {len(benchmark.problems)} frozen problems. A "
        "score is the worst 0.9 quantile of the error over a proven lower bound: a score of 1 "
        "equals the bound. Scores do not depend on other entries. Each run draws the locations of "
        "the distributions. :doc:`How to enter </howto/benchmark>`.",
        " ".join([yours, *(f"{text}." for text in remarks)]) if own else "",
        section(
            "Leaders",
            "The first entry of each class of problems; the :doc:`leaderboard </benchmark/"
            "leaderboard>` has all entries. A rank counts only entries that answered the whole "
            "class.",
            front_table(classes, own),
        ),
        section(
            "Profiles",
            _profile(scores, benchmark.problems, best),
            "*Share of the problems (y) that an entry solves within a factor of the bound (x). "
            f"Coloured: {first}the entries with most problems within {WITHIN[0]:g}, "
            f"{COLOURED_ENTRIES} in all, with 95% bands. Grey: all {len(rows)} entries. Dashed: "
            "the best entry of each problem.*",
        ),
        section(
            "Entries",
            f"Shares of all {len(benchmark.problems)} problems; a problem without an answer counts "
            "as not solved.",
            _entry_table({name: cells for name, _, cells in rows}, own),
        ),
        section("Problems", _problem_table(scores, benchmark, own)),
        *_notes(scores),
        contents(("leaderboard", "entries/index", "problems/index"), caption="Pages"),
    )


def _entry_table(cells: Mapping[str, Sequence[str]], own: Sequence[str]) -> str:
    """Return the table of entries, with the cells of each."""
    heads = ["entry", "division", "answers", *(f"within {x:g}" for x in WITHIN)]
    heads += ["95% band of 2", "failures", "CPU of a release, ms", "over drawing", "source"]
    rows = [[link_entry(name, own), *others] for name, others in cells.items()]
    return table(heads, rows, sortable=True)


def _problem_table(scores: Scores, benchmark: Benchmark, own: Sequence[str]) -> str:
    """Return the table of problems, with the best entry of each."""
    heads = ["problem", "n", "d", "privacy", "bound", "bound by", "best", "entry"]
    rows = [
        [link_page("problems", p.id), f"{p.n:,}", str(p.d), escape(_privacy(p)),
         f"{p.bound.value:.3g}", _proof(p.bound.by), *_leader(scores.ranked, p.id, own)]
        for p in benchmark.problems
    ]  # fmt: skip
    return table(heads, rows, sortable=True)


def _notes(scores: Scores) -> Iterator[str]:
    """Yield a sentence on the scores that are left out, if there are any, and one on the origin."""
    rows = scores.rows[scores.is_below]
    if len(rows):
        excluded = (f"{row.entry} on {row.problem} ({row.score:.3g})" for row in rows.itertuples())
        yield (
            f"Left out (below the bound by prior knowledge, or not private): {', '.join(excluded)}."
        )
    versions = scores.about["versions"]
    yield (
        f"``python -m dpbench site`` wrote this page from scores of seed {scores.about['seed']}, "
        f"dpbench {versions['dpbench']} and numpy {versions['numpy']}."
    )


def _summary(name: str, scores: Scores, problems: int) -> tuple[str, list[float], list[str]]:
    """Return an entry's name, the shares of problems that it solves, and its row of the table."""
    rows = scores.ranked[scores.ranked["entry"] == name]
    shares, ends = profile(rows["score"], problems, WITHIN), profile_band(rows, problems, [2.0])
    over = (rows["seconds"] / rows["drawing_seconds"]).median()
    return name, list(shares), [
        scores.cards[name].division, str(len(rows)), *(f"{share:.0%}" for share in shares),
        _range(*(f"{end[0]:.0%}" for end in ends)), f"{rows['failure_rate'].mean():.1%}",
        milliseconds(rows["seconds"].mean()),
        f"{over:.2g}" if math.isfinite(over) else "—", link_sources(scores.cards[name].paper),
    ]  # fmt: skip


def _entry(
    name: str,
    scores: Scores,
    problems: Mapping[str, Problem],
    classes: Mapping[str, Sequence[Standing]],
    remarks: Sequence[str],
) -> str:
    card, own = scores.cards[name], scores.ranked[scores.ranked["entry"] == name]
    kind = f" The estimator: :ref:`{name} <kind-{name}>`." if name in Estimator.kinds() else ""
    card_facts = {
        "Source": card.paper,
        "Notions": ", ".join(card.notions),
        "Neighbours": " or ".join(card.relations),
        "Assumes": card.assumptions,
        "Proof of privacy": card.proof,
        "Division": card.division,
    }
    rows = [
        [link_page("problems", row["problem"]), f"{problems[row['problem']].n:,}",
         escape(_privacy(problems[row["problem"]])), *_score(row), f"{row['failure_rate']:.1%}",
         milliseconds(row["seconds"])]
        for row in own.to_dict("records")
    ]  # fmt: skip
    heads = ["problem", "n", "privacy", "score", "95% interval", "failures", "CPU of a release, ms"]
    share = ", ".join(f"{(own['score'] <= x).sum()} within {x:g}" for x in WITHIN)
    return page(
        name,
        facts(card_facts),
        f"Answers {len(own)} of {len(problems)} problems: {share} times the bound.{kind}",
        " ".join(f"{text}." for text in remarks),
        section("Classes", entry_table(name, classes)) if rows else "",
        section("Problems", table(heads, rows, sortable=True)) if rows else "",
    )


def _problem(problem: Problem, scores: Scores, own: Sequence[str]) -> str:
    rows = scores.ranked.query("problem == @problem.id").sort_values("score", kind="stable")
    public = {name: value for name, value in vars(problem.known).items() if value is not None}
    unit = {"Unit": "of the law; a run multiplies records by a power of two"}
    problem_facts = {
        "Distribution": ", ".join(f"{key}: {value}" for key, value in problem.law.items()),
        "n": f"{problem.n:,}",
        "Coordinates": str(problem.d),
        "Privacy": _privacy(problem),
        "Public": ", ".join(f"{key}: {value}" for key, value in public.items()),
        "Model": "local" if problem.local else "central",
        "Trials": str(problem.trials[0]),
        "Digest": problem.digest,
        **(unit if problem.relative else {}),
    }
    several = len(problem.members) > 1
    ranked = [
        [str(index + 1), link_entry(row["entry"], own), *_score(row),
         *([escape(row["member"].removeprefix(f"{problem.id}/"))] if several else []),
         f"{row['mean_error']:.3g}",
         f"{row['failure_rate']:.1%}", milliseconds(row["seconds"])]
        for index, row in enumerate(rows.to_dict("records"))
    ]  # fmt: skip
    heads = ["rank", "entry", "score", "95% interval", *(["worst distribution"] if several else [])]
    heads += ["mean error", "failures", "CPU of a release, ms"]
    bound = (
        "Smallest 0.9 quantile of the error in the archive"
        if problem.relative
        else "Bound on the 0.9 quantile of the error"
    )
    return page(
        problem.id,
        OWN_ROLE,
        facts(problem_facts),
        f"{bound}: **{problem.bound.value:.4g}**, by {_proof(problem.bound.by)}. "
        f"Kind of distribution: :ref:`{problem.law['kind']} <kind-{problem.law['kind']}>`.",
        table(heads, ranked, sortable=True) if ranked else "No entry answers it.",
    )


def _proof(by: str) -> str:
    return f":doc:`{by} </derivations/theory.bounds.{PROOFS[by]}>`" if by in PROOFS else by


def _privacy(problem: Problem) -> str:
    """Return the notion, its parameters, and a note if n is private."""
    amounts = ", ".join(f"{name} {value:g}" for name, value in problem.budget.named_amounts.items())
    note = "" if problem.budget.neighbours == "replace" else ", n private"
    return f"{problem.budget.notion}, {amounts}{note}"


def _score(row: Mapping[Any, Any]) -> tuple[str, str]:
    score, low, high = (format_score(row[name]) for name in ("score", "score_low", "score_high"))
    return score, _range(low, high)


def _range(low: str, high: str) -> str:
    return f"{low}\N{NO-BREAK SPACE}..\N{NO-BREAK SPACE}{high}"


def _leader(rows: pd.DataFrame, problem: str, own: Sequence[str]) -> tuple[str, str]:
    scores = rows[rows["problem"] == problem].sort_values("score", kind="stable")
    if scores.empty:
        return "—", "—"
    return format_score(scores["score"].iloc[0]), link_entry(scores["entry"].iloc[0], own)


def _profile(scores: Scores, problems: Sequence[Problem], names: Sequence[str]) -> str:
    """Return an inline SVG with coloured profiles of some entries above grey profiles of all."""
    rows = scores.ranked
    drawn = pd.concat([rows[rows["entry"] == name] for name in names], ignore_index=True)
    text = io.StringIO()
    with style():
        canvas = profile_figure(drawn, rows, problems)
        canvas.savefig(text, format="svg", metadata={"Date": None})
    label = f"Profiles: {', '.join(names)}"
    _, _, svg = text.getvalue().partition("<svg ")
    svg = f'<svg role="img" aria-label="{label}" ' + POINT.sub(r"\1\2", svg)
    figure = interactive(f'<div class="figure">{svg}</div>', describe(canvas))
    return "\n".join([".. raw:: html", "", *(f"   {line}" for line in figure.splitlines())])
