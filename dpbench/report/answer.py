"""Say in a few lines what the claims of a sweep found: an answer, and a line for each claim.

The answer follows from the verdicts of `dpbench.analysis.claims` on all numbers of theorems and
targets. The first rule that applies decides:

1. NO: a number is inconsistent.
2. UNDECIDED: a number is inconclusive.
3. YES: all others, which agree with the number that theory states, or with the exact number at the
   n that were run.

YES and NO answer a question that begins with "Do" or "Does"; such a question of a sweep asks
whether theory holds. Under another question the line says that theory and measurement agree or
disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import MIN_TRIALS, shown_verdicts
from dpbench.output.terminal import fill, table
from dpbench.output.verdicts import CLAIMS, EARLY
from dpbench.report.study import Study
from dpbench.theory.theorems import CODE

__all__ = ["format_answer", "format_digits"]

AGREE = ("consistent", EARLY)


def format_answer(claims: pd.DataFrame, summary: pd.DataFrame, study: Study) -> Iterator[str]:
    """Yield the answer to the sweep's question, and the table with a line for each claim.

    `claims` and `summary` are tables of a `dpbench.report.result.Result`.
    """
    rows = claims.to_dict("records")
    words = [shown_verdicts(row)[0] for row in rows]
    lines = [_first_line(study), *_answer(rows, words, summary, study)]
    yield "\n".join(fill(line) for line in lines if line)
    yield table("Theory against measurement", [*_claim_lines(claims, words, study)])
    seen = claims.loc[claims["checks"] != CODE, "visible"].dropna()
    notes = ["agree: the 95% interval lies within the tolerance (+-) of the number"]
    if len(seen):
        lowest, highest = (f"{number:.2g}" for number in (seen.min(), seen.max()))
        far = lowest if lowest == highest else f"{lowest} to {highest}, row by row,"
        notes.append(f"A truth off by {far} would be noticed in half of all runs.")
    yield "\n".join(map(fill, notes))


def _first_line(study: Study) -> str:
    return f"{study.name}: {study.question}" if study.question else ""


def _answer(
    rows: list[dict[Any, Any]], words: list[str], summary: pd.DataFrame, study: Study
) -> Iterator[str]:
    """Yield the lines of the answer: on theorems and targets, then on checks of the code."""
    own = [(row, word) for row, word in zip(rows, words, strict=True) if row["checks"] != CODE]
    checks = [word for row, word in zip(rows, words, strict=True) if row["checks"] == CODE]
    counts = {verdict: sum(word == verdict for _, word in own) for verdict in CLAIMS}
    asks = study.question.startswith(("Do ", "Does "))
    if counts["inconsistent"]:
        lead = "NO. " if asks else "DISAGREE. "
        yield f"{lead}{counts['inconsistent']} of {len(own)} numbers disagree with theory."
    elif counts["inconclusive"]:
        yield f"UNDECIDED: {counts['inconclusive']} of {len(own)} intervals are too wide."
        yield _advise(rows, words, summary, study)
    elif own:
        lead = "YES. " if asks else "AGREE. "
        yield f"{lead}{_count_sources(own)}"
    if counts[EARLY]:
        here = "agree with the exact number at these n, and not yet with the theorem's limit"
        yield f"{counts[EARLY]} of these {here}."
    if checks:
        passed = sum(word == "consistent" for word in checks)
        yield f"{passed} of {len(checks)} checks of the code against exact values pass."


def _count_sources(own: list[tuple[dict[Any, Any], str]]) -> str:
    """Return "All 8 numbers of theorems and 4 targets agree with measurement"."""
    if len(own) == 1:
        what = "target" if own[0][0]["checks"] == "target" else "number of the theorem"
        return f"The {what} agrees with the measurement."
    subjects = [row["checks"] for row, _ in own]
    names = {"theorem": "numbers of theorems", "target": "targets"}
    counts = [f"{subjects.count(key)} {name}" for key, name in names.items() if key in subjects]
    return f"All {' and '.join(counts)} agree with the measurement."


def _advise(
    rows: list[dict[Any, Any]], words: list[str], summary: pd.DataFrame, study: Study
) -> str:
    """Return how many trials decide, computed from the intervals and the tolerances.

    The width of an interval falls like 1/sqrt(trials). An interval around its prediction lies
    within the tolerance once its half-width is below the tolerance.
    """
    most = max((part.trials for part in study.parts.values()), default=0)
    trials = int(summary["trials"].max())
    if trials < most:
        cost = f" ({study.cost.partition(',')[0]} on two idle cores)" if study.cost else ""
        return f"The sweep's own {most:,} trials decide{cost}: leave out trials={trials}."
    halves = [
        (row["high"] - row["low"]) / 2 / row["tolerance"]
        for row, word in zip(rows, words, strict=True)
        if word == "inconclusive" and row["checks"] != CODE
    ]
    if np.isnan(halves).any():
        return f"A claim needs {MIN_TRIALS} trials or more, and finite errors."
    times = max(2, int(np.ceil(np.max(halves) ** 2)))
    return f"About {times} times as many trials decide, if theory holds."


def _claim_lines(
    claims: pd.DataFrame, words: list[str], study: Study
) -> Iterator[Mapping[str, str] | str]:
    """Yield a line for each claim: its numbers, the largest distance, and how many agree."""
    shown = claims.assign(word=words)
    for label, group in shown.groupby("claim", sort=False):
        off = (group["measured"] - group["predicted"]).abs()
        worst = group.to_dict("records")[int(np.nanargmax(off))] if off.notna().any() else None
        half = "" if worst is None else f" +-{_digits((worst['high'] - worst['low']) / 2)}"
        limit = "<= " if study.all_claims[str(label)].statement.at_most else ""
        agree = group["word"].isin(AGREE).sum()
        counted = f"{agree} of {len(group)} agree" if len(group) > 1 else "agree" * bool(agree)
        bad = [word for word in ("inconsistent", "inconclusive") if (group["word"] == word).any()]
        yield {
            "claim": str(label),
            "theory": limit + _format_range(group["predicted"]),
            "+-": f"{group['tolerance'].iloc[0]:g}",
            "measured": _format_range(group["measured"]),
            "farthest": "-" if worst is None else format_digits(worst["measured"]) + half,
            "verdict": ", ".join(filter(None, [counted, *bad])),
        }


def _format_range(numbers: pd.Series) -> str:
    numbers = numbers.dropna()
    if numbers.empty:
        return "-"
    first, last = format_digits(numbers.min()), format_digits(numbers.max())
    return first if first == last else f"{first}..{last}"


def _digits(value: float) -> str:
    return f"{value:.3f}" if value >= 5e-4 else f"{value:.0e}"


def format_digits(value: float) -> str:
    """Format a number with three decimals, a small one with one digit, a large one with four."""
    if abs(value) >= 1e4:
        return f"{value:.4g}"
    return f"{value:.3f}" if abs(value) >= 5e-3 or value == 0 or np.isnan(value) else f"{value:.0e}"
