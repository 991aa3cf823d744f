"""Sections on all errors of a study, and on the smallest n that reaches an error."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import pandas as pd
from markupsafe import Markup

from dpbench.analysis.fallback import FALLBACK_NOTE, answers_without_data
from dpbench.analysis.smallest_n import TERMS
from dpbench.output.names import NOTIONS
from dpbench.privacy import AMOUNTS
from dpbench.report.page_run import RunFolder
from dpbench.report.page_tables import (
    Row,
    as_number,
    count_distinct,
    count_noun,
    describe_failures,
    format_range,
    join_words,
)
from dpbench.report.sections.base import Section, section

# Columns of the page: whose error, the error, and where it was measured.
COLUMNS = (
    "estimator", "q90", "q90_low", "q90_high", "lower_bound", "distribution", "k", "n", "privacy",
    *AMOUNTS, "trimmed_mean_error", "failure_rate", "budget_fraction_spent",
)  # fmt: skip
SAMPLE_COLUMNS = (
    "estimator", "alpha", "samples", "low", "high", "distribution", "k", "privacy", *AMOUNTS,
    "request", "radius", "beta", "method", *(f"{name}_term" for name in TERMS),
)  # fmt: skip
MAX_NAMED = 3  # estimators that answer a mean without data, by name
NOTE = Markup(
    "Errors are absolute errors, or l2 norms for vectors. q90 is their 0.9 quantile over trials; "
    "q90_low and q90_high are the ends of its 95% interval. trimmed_mean_error leaves out the "
    "least and the largest tenth of the errors. k is the order of the bounded moment of the "
    "distribution, spent the share of the budget that is spent. An empty cell is unknown or does "
    "not apply. <code>summary.csv</code> has more columns and all digits."
)


@section("samples", "Sample complexity")
def build_samples(run: RunFolder) -> Section | None:
    """Build the section on the smallest n that reaches each error alpha, with its table."""
    caption = "The smallest n with P(error ≤ α) ≥ 1 - β"  # noqa: RUF001
    return Section(
        note="samples is the smallest n, low and high the ends of its 95% interval. By the method "
        "curve it is read off the curve of errors; by the method search it is found by running "
        "further n. Terms are parts of the n that the theorem states. An empty cell: not known, "
        "or beyond the n that were run.",
        tables=[run.table("sample_complexity", caption, columns=SAMPLE_COLUMNS)],
    )


@section("errors", "All errors")
def build_errors(run: RunFolder) -> Section | None:
    """Build the section with the table of errors, and the sizes of the study."""
    rows = run.rows("summary")
    if not rows:
        return None
    finite = [row for row in rows if math.isfinite(as_number(row.get("q90")))]
    caption = "Errors, a row for each distribution, estimator, budget and n"
    return Section(
        note=NOTE,
        tables=[run.table("summary", caption, columns=COLUMNS)],
        setup=_describe_setup(rows),
        findings=[*describe_failures(rows), *_describe_fallbacks(rows)],
        fallback=_describe_errors(finite) if finite else "",
        rank=3,
    )


def _describe_fallbacks(rows: Sequence[Row]) -> list[str]:
    """Describe the rows in which an estimator answers the mean of the distribution without data."""
    columns = ("q50", "sampling_q90")
    table = pd.DataFrame({name: [as_number(row.get(name)) for row in rows] for name in columns})
    found = answers_without_data(table.assign(privacy=[row["privacy"] for row in rows]))
    hits = [row for row, hit in zip(rows, found, strict=True) if hit]
    pairs = list(dict.fromkeys(f"{row['estimator']} on {row['distribution']}" for row in hits))
    more = f" and {len(pairs) - MAX_NAMED} more" if len(pairs) > MAX_NAMED else ""
    return [f"{', '.join(pairs[:MAX_NAMED])}{more}: {FALLBACK_NOTE}"] if pairs else []


def _describe_setup(rows: Sequence[Row]) -> str:
    notions = [NOTIONS.get(row["privacy"].split("_")[0]) for row in rows]
    budgets = join_words(filter(None, notions)) or "no privacy"
    return (
        f"{count_distinct(rows, 'estimator')} on {count_distinct(rows, 'distribution')} under "
        f"{budgets}, with n = {format_range(rows, 'n')} and {format_range(rows, 'trials')} trials "
        f"of each"
    )


def _describe_errors(rows: Sequence[Row]) -> str:
    """Describe the range of the errors, and the private estimators that are most often the best.

    The best estimator has the smallest 0.9 quantile of the error.
    """
    text = f"the 0.9 quantile of the error is {format_range(rows, 'q90', 3)}"
    settings: dict[tuple[str, ...], list[Row]] = {}
    for row in rows:
        if row["privacy"].split("_")[0] in NOTIONS:
            setting_columns = ("distribution", "privacy", *AMOUNTS, "n")
            settings.setdefault(tuple(row.get(key, "") for key in setting_columns), []).append(row)
    several = [group for group in settings.values() if len(group) > 1]
    counts = Counter(name for group in several if (name := _most_accurate(group)))
    best = [name for name, count in counts.items() if count == max(counts.values())]
    if not best:
        return text
    verb = "has" if len(best) == 1 else "each have"
    count = f"{counts[best[0]]} of {count_noun(len(several), 'setting')}"
    return f"{text}; {join_words(best)} {verb} the smallest in {count}"


def _most_accurate(rows: Sequence[Row]) -> str:
    """Return the estimator with the smallest 0.9 quantile of the error; blank if several tie."""
    first, second = sorted(rows, key=lambda row: as_number(row["q90"]))[:2]
    return first["estimator"] if as_number(first["q90"]) < as_number(second["q90"]) else ""
