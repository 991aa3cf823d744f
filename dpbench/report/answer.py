"""Say in a few lines what the claims of a sweep found: an answer, and a line for each claim.

The answer follows from the verdicts of `dpbench.analysis.claims` on all numbers of theorems and
targets. The first rule that applies decides:

1. IN DOUBT: a check of the code is inconsistent, so that no measurement is to be trusted.
2. NO: a number is inconsistent.
3. UNDECIDED: a number is inconclusive.
4. YES: all others, which agree with the number that theory states, or with the exact number at the
   n that were run.

YES and NO answer a question that begins with "Do" or "Does"; such a question of a sweep asks
whether theory holds. Under another question the line says that theory and measurement agree or
disagree.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import MIN_TRIALS, shown_verdicts
from dpbench.output.names import format_digits
from dpbench.output.terminal import fill, table
from dpbench.output.verdicts import EARLY
from dpbench.report.study import Study
from dpbench.theory.theorems import CODE

__all__ = ["answer_sentences", "asks_whether", "format_answer", "trials_to_decide"]

AGREE = ("consistent", EARLY)
# Tolerance over the half-width of a 95% interval at which an interval around a true prediction lies
# within the tolerance with probability 0.95, on both sides and below an upper limit.
BOTH_SIDES, ONE_SIDE = 2.0, 1.84


def format_answer(claims: pd.DataFrame, summary: pd.DataFrame, study: Study) -> Iterator[str]:
    """Yield the answer to the sweep's question, and the table with a line for each claim.

    `claims` and `summary` are tables of a `dpbench.report.run_result.Result`.
    """
    rows = claims.to_dict("records")
    words = [shown_verdicts(row)[0] for row in rows]
    lines = [_first_line(study), *answer_sentences(rows, study.question)]
    if lines[1:] and lines[1].startswith("UNDECIDED"):
        lines.insert(2, _advise(trials_to_decide(claims, summary, study), summary, study))
    yield "\n".join(fill(line) for line in lines if line)
    yield table("Theory against measurement", [*_claim_lines(claims, words, study)])
    seen = claims.loc[claims["checks"] != CODE, "detectable_deviation"].dropna()
    notes = ["agree: the 95% interval lies within the tolerance (+-) of the number"]
    if len(seen):
        lowest, highest = (f"{number:.2g}" for number in (seen.min(), seen.max()))
        far = lowest if lowest == highest else f"{lowest} to {highest}, row by row,"
        notes.append(f"A truth off by {far} would be noticed in half of all runs.")
    yield "\n".join(map(fill, notes))


def asks_whether(question: str) -> bool:
    """Return True if a question can be answered by yes or no, because it begins with Do or Does."""
    return question.startswith(("Do ", "Does "))


def _first_line(study: Study) -> str:
    return f"{study.name}: {study.question}" if study.question else ""


def answer_sentences(rows: Sequence[Mapping[Any, Any]], question: str) -> Iterator[str]:
    """Yield the sentences of the answer: on theorems and targets, then on checks of the code.

    `rows` are those of a table of claims, and `question` is that of the sweep.
    """
    judged = [(row, shown_verdicts(row)[0]) for row in rows]
    own = [(row, word) for row, word in judged if row["checks"] != CODE]
    checks = [word for row, word in judged if row["checks"] == CODE]
    found = {word for _, word in own}
    if "inconsistent" in checks:
        failed = f"{checks.count('inconsistent')} of {len(checks)} checks of the code"
        yield f"IN DOUBT. {failed} disagree with exact values, so that the code may be wrong."
    elif "inconsistent" in found:
        lead = "NO." if asks_whether(question) else "DISAGREE."
        yield f"{lead} {_count(own, 'inconsistent')} disagree with the measurement."
    elif "inconclusive" in found:
        yield f"UNDECIDED: the intervals of {_count(own, 'inconclusive')} are too wide."
    elif own:
        lead = "YES." if asks_whether(question) else "AGREE."
        yield f"{lead} {_count(own, 'consistent')} agree with the measurement."
    if EARLY in found:
        here = "agree with the exact number at these n, and not yet with the theorem's limit"
        yield f"{_count(own, EARLY)} {here}."
    if checks:
        undecided = checks.count("inconclusive")
        rest = f", {undecided} undecided" if undecided else ""
        passed = f"{checks.count('consistent')} of {len(checks)} checks of the code"
        yield f"{passed} against exact values pass{rest}."


def _count(own: list[tuple[Mapping[Any, Any], str]], counted: str) -> str:
    """Return how many numbers have a verdict, as in "3 of 8 numbers of theorems, 1 of 4 targets".

    Subjects without such a number are left out.
    """
    parts = []
    for subject, name in (("theorem", "numbers of theorems"), ("target", "targets")):
        words = [word for row, word in own if row["checks"] == subject]
        if counted in words:
            parts.append(f"{words.count(counted)} of {len(words)} {name}")
    return ", ".join(parts)


def trials_to_decide(claims: pd.DataFrame, summary: pd.DataFrame, study: Study) -> float:
    """Return how many trials decide each undecided number with probability 0.95, if theory holds.

    Checks of the code do not count. The result is 0 if all numbers are decided or a number is
    inconsistent, and NaN if the width of an interval is unknown.

    Let h be the half-width of a 95% interval, and t the distance from the prediction to the edge of
    the tolerance. The estimate has the standard deviation h/1.96. If the prediction is true, the
    interval lies within the tolerance with probability P(|Z| <= 1.96 (t/h - 1)), which is 0.95 at
    h = t/2. The width falls like 1/sqrt(trials).

    A prediction "at most" is decided by the upper end alone: h is the distance from the estimate to
    that end. A true number at the limit, the worst case, passes with probability
    P(Z <= 1.96 (t/h - 1)), which is 0.95 at h = t/1.84.
    """
    rows = claims[claims["checks"] != CODE]
    words = np.array([shown_verdicts(row)[0] for row in rows.to_dict("records")])
    rows = rows[words == "inconclusive"]
    if rows.empty or "inconsistent" in words:
        return 0.0
    at_most = [study.all_claims[label].statement.at_most for label in rows["claim"]]
    both, above = BOTH_SIDES * (rows["high"] - rows["low"]) / 2, rows["high"] - rows["measured"]
    ratios = both.where(~np.array(at_most), ONE_SIDE * above) / rows["tolerance"]
    times = np.maximum(2.0, ratios.max(skipna=False) ** 2)  # NaN stays NaN
    return float(f"{int(summary['trials'].max()) * times:.1g}")


def _advise(needed: float, summary: pd.DataFrame, study: Study) -> str:
    """Return a sentence on the trials that decide, and on those of the sweep if they are more."""
    if np.isnan(needed):
        return f"A claim needs {MIN_TRIALS} trials or more, and finite errors."
    trials = int(summary["trials"].max())
    text = f"About {needed:,.0f} trials would decide each of them, if theory holds."
    most = max((part.trials for part in study.parts.values()), default=0)
    if most <= trials:
        return text
    cost = f" ({study.cost.partition(',')[0]} on two idle cores)" if study.cost else ""
    return f"{text} The sweep's own are {most:,}{cost}: leave out trials={trials}."


def _claim_lines(
    claims: pd.DataFrame, words: list[str], study: Study
) -> Iterator[Mapping[str, str] | str]:
    """Yield a line for each claim: its numbers, the largest distance, and how many agree."""
    shown = claims.assign(word=words)
    for label, group in shown.groupby("claim", sort=False):
        at_most = study.all_claims[str(label)].statement.at_most
        off = group["measured"] - group["predicted"]
        off = off if at_most else off.abs()
        worst = group.to_dict("records")[int(np.nanargmax(off))] if off.notna().any() else None
        half = "" if worst is None else f" +-{_digits((worst['high'] - worst['low']) / 2)}"
        limit = "<= " if at_most else ""
        agree = group["word"].isin(AGREE).sum()
        counted = f"{agree}/{len(group)} agree" if len(group) > 1 else "agree" * bool(agree)
        bad = [word for word in ("inconsistent", "inconclusive") if (group["word"] == word).any()]
        yield {
            "claim": str(label),
            "theory": limit + _format_range(group["predicted"]),
            "+-": f"{group['tolerance'].iloc[0]:g}",
            "measured": _format_range(group["measured"]),
            "farthest": "-" if worst is None else format_digits(worst["measured"]) + half,
            "verdict": " ".join(filter(None, [counted, ", ".join(bad)])),
        }


def _format_range(numbers: pd.Series) -> str:
    numbers = numbers.dropna()
    if numbers.empty:
        return "-"
    first, last = format_digits(numbers.min()), format_digits(numbers.max())
    return first if first == last else f"{first}..{last}"


def _digits(value: float) -> str:
    return f"{value:.3f}" if value >= 1e-3 else f"{value:.1g}"
