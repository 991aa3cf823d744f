"""What was asked of a run and what it found, in two sentences."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from dpbench.output.style import NOTIONS
from dpbench.output.verdicts import BAD, HOSTILE, TRACKING, failing
from dpbench.privacy import AMOUNTS
from dpbench.report.page_tables import Row, as_number, short

__all__ = ["answer", "question"]


def question(tables: Mapping[str, Sequence[Row]]) -> str:
    """The question with its setting; blank where nothing was run."""
    summary, claims, audit = tables["summary"], tables["claims"], tables["audit"]
    if rows := tables["libraries"]:
        asked = [
            f"How far are private means of {_distinct(rows, 'estimator')} from those of columns of "
            f"{_distinct(rows, 'distribution')} with n = {_ends(rows, 'n')} and ε = "
            f"{_ends(rows, 'epsilon')}",
            "is it what their noise explains" if claims else "",
            "do they lose no more privacy than they claim" if audit else "",
        ]
        return f"{'; '.join(filter(None, asked))}?"
    if audit:
        return (
            f"Do {_distinct(audit, 'estimator')} lose no more privacy than they claim, on pairs of "
            f"neighbouring datasets with {_ends(audit, 'runs')} runs on each?"
        )
    if not summary:
        return ""
    notions = [NOTIONS.get(row["privacy"].split("_")[0]) for row in summary]
    budgets = _listed(filter(None, notions)) or "no privacy"
    setting = (
        f"{_distinct(summary, 'estimator')} on {_distinct(summary, 'distribution')} under "
        f"{budgets}, with n = {_ends(summary, 'n')} and {_ends(summary, 'trials')} trials of each"
    )
    if claims:
        sources = "; ".join(dict.fromkeys(row["source"] for row in claims))
        return f"Is what theory says ({sources}) true of {setting}?"
    baseline = ", and are they those of the baseline" if tables["tracking"] else ""
    return f"How large are the errors of {setting}{baseline}?"


def answer(tables: Mapping[str, Sequence[Row]], run: Mapping[str, Any]) -> str:
    """The answer; `run` is what `read_run` has made of the tables."""
    told = []
    if count := sum(run["counts"].values()):
        yes, *others = (f"{n} {verdict}" for verdict, n in run["counts"].items())
        yes = yes.replace(" ", f" of {count} tests of theory ", 1)
        told.append(", ".join([yes, *others]))
    if known := [row for row in tables["factors"] if row["verdict"] in {"optimal", "open"}]:
        times = _ends(known, "factor", 3)
        told.append(f"the best private estimators' worst errors {times} times their lower bounds")
    if audit := run["audit"]:
        bad = [one for one in audit if one["tone"] == "bad"]
        as_known = [str(one["estimator"]) for one in bad if one["verdict"] == one.get("expected")]
        aside = f", as is known of {_listed(as_known)}" if as_known else ""
        told.append(
            f"{len(bad)} of {_many(len(audit), 'claim')} of privacy refuted or failed{aside}"
        )
    if rows := tables["hostile"]:
        said = [row["outcome"] for row in rows if row["outcome"]]
        wrong = sum(one in HOSTILE and HOSTILE[one].tone is BAD for one in said)
        told.append(
            f"NaN or a wrong mean in {wrong} of {_many(len(said), 'answer')} about odd columns"
        )
    if controls := run["controls"]:
        caught = sum(one["tone"] == "good" for one in controls)
        told.append(f"{caught} of {_many(len(controls), 'broken control')} caught")
    if rows := tables["tracking"]:
        worse = sum(run["tracked"][word] for word in failing(TRACKING))
        told.append(f"{worse} of {_many(len(rows), 'error')} worse than the baseline's or gone")
    known = [row for row in tables["summary"] if math.isfinite(as_number(row.get("q90")))]
    if known and not told:
        told.append(_errors(known))
    if missing := [row["estimator"] for row in tables["overview"] if not row["n"]]:
        told.append(f"{_listed(missing)} did not run")
    summary = tables["summary"] or tables["libraries"]
    if silent := sum(as_number(row.get("failures")) > 0 for row in summary):
        told.append(f"trials without a release in {silent} of {_many(len(summary), 'setting')}")
    if failures := run["failures"]:
        told.append(f"{_many(len(failures), 'setting')} that raised an error")
    return "; ".join(told)


def _errors(rows: Sequence[Row]) -> str:
    """How large errors are, and which private estimator's is the smallest most often."""
    told = f"the 0.9 quantile of the error is {_ends(rows, 'q90', 3)}"
    settings: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["privacy"].split("_")[0] in NOTIONS:
            about = ("distribution", "privacy", *AMOUNTS, "n")
            settings.setdefault(tuple(row.get(key, "") for key in about), []).append(row)
    several = [same for same in settings.values() if len(same) > 1]
    counts = Counter(name for same in several if (name := _smallest(same)))
    best = [name for name, times in counts.items() if times == max(counts.values())]
    if not best:
        return told
    have = "has" if len(best) == 1 else "each have"
    times = f"{counts[best[0]]} of {_many(len(several), 'setting')}"
    return f"{told}; {_listed(best)} {have} the smallest in {times}"


def _smallest(rows: Sequence[Row]) -> str:
    """Whose 0.9 quantile is below all others'; blank where that is a tie."""
    first, second = sorted(rows, key=lambda row: as_number(row["q90"]))[:2]
    return first["estimator"] if as_number(first["q90"]) < as_number(second["q90"]) else ""


def _distinct(rows: Sequence[Row], column: str) -> str:
    return _many(len({row[column] for row in rows}), column)


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _ends(rows: Sequence[Row], column: str, places: int = 4) -> str:
    """The least and the largest number of a column."""
    numbers = [as_number(row[column]) for row in rows]
    return " to ".join(dict.fromkeys(short(end, places) for end in (min(numbers), max(numbers))))


def _listed(words: Iterable[str]) -> str:
    *first, last = dict.fromkeys(words) or [""]
    return f"{', '.join(first)} and {last}" if first else last
