"""All errors of a study, and the smallest n that an accuracy takes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from markupsafe import Markup

from dpbench.output.style import NOTIONS
from dpbench.privacy import AMOUNTS
from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import (
    Row,
    as_number,
    distinct,
    ends,
    how_many,
    listed,
    without_release,
)
from dpbench.report.sections.base import Section, section

COLUMNS = (
    "distribution", "k", "estimator", "privacy", "epsilon", "delta", "rho", "mu", "n",
    "failure_rate", "spent", "trimmed_mean", "q90", "q90_low", "q90_high", "lower_bound",
)  # fmt: skip
NOTE = Markup(
    "Errors are absolute, or l2 norms of vectors; q90 is the 0.9 quantile, low and high the ends "
    "of its 95% interval. More columns, and all digits, are in <code>summary.csv</code>."
)


@section("samples", "Sample complexity")
def build_samples(run: RunFolder) -> Section | None:
    """Build the table of sample complexities."""
    caption = "The smallest n with P(error ≤ α) ≥ 1 - β"  # noqa: RUF001
    return Section(
        note="Read off the curves of errors, and sought directly where the method says so.",
        tables=[run.table("sample_complexity", caption)],
    )


@section("errors", "All errors")
def build_errors(run: RunFolder) -> Section | None:
    """Build the table of errors, with the question of a study, whose setting it is."""
    rows = run.rows("summary")
    if not rows:
        return None
    known = [row for row in rows if math.isfinite(as_number(row.get("q90")))]
    caption = "Errors, a row per distribution, estimator, budget and n"
    return Section(
        note=NOTE,
        tables=[run.table("summary", caption, columns=COLUMNS)],
        asked=_question(run, rows),
        found=without_release(rows),
        alone=_errors(known) if known else "",
        rank=3,
    )


def _question(run: RunFolder, rows: Sequence[Row]) -> str:
    notions = [NOTIONS.get(row["privacy"].split("_")[0]) for row in rows]
    budgets = listed(filter(None, notions)) or "no privacy"
    setting = (
        f"{distinct(rows, 'estimator')} on {distinct(rows, 'distribution')} under {budgets}, "
        f"with n = {ends(rows, 'n')} and {ends(rows, 'trials')} trials of each"
    )
    if claims := run.rows("claims"):
        tested = [row["source"] for row in claims if row.get("checks") != "code"]
        if not tested:
            return f"Does the code agree with its own formulas for {setting}?"
        return f"Is what theory says ({'; '.join(dict.fromkeys(tested))}) true of {setting}?"
    baseline = ", and are they those of the baseline" if run.rows("tracking") else ""
    return f"How large are the errors of {setting}{baseline}?"


def _errors(rows: Sequence[Row]) -> str:
    """How large errors are, and which private estimator's is the smallest most often."""
    told = f"the 0.9 quantile of the error is {ends(rows, 'q90', 3)}"
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
    times = f"{counts[best[0]]} of {how_many(len(several), 'setting')}"
    return f"{told}; {listed(best)} {have} the smallest in {times}"


def _smallest(rows: Sequence[Row]) -> str:
    """Whose 0.9 quantile is below all others'; blank where that is a tie."""
    first, second = sorted(rows, key=lambda row: as_number(row["q90"]))[:2]
    return first["estimator"] if as_number(first["q90"]) < as_number(second["q90"]) else ""
