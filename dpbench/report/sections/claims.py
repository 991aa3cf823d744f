"""Sections on claims and their verdicts, and on the best errors compared with lower bounds."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpbench.analysis.claims import UNKNOWN, OwnTheorem, region, shown_verdicts
from dpbench.analysis.exact_of_sweep import MAX_N
from dpbench.analysis.factors import EXACT
from dpbench.output.verdicts import CLAIMS, EARLY, FACTORS, SEVERITY, page_tones
from dpbench.registry import from_mapping
from dpbench.report.answer import answer_sentences
from dpbench.report.labels import describe_number, metric_text
from dpbench.report.page_run import RunFolder, as_mapping, worst_tone
from dpbench.report.page_tables import (
    Row,
    as_number,
    claim_mark,
    format_digits,
    format_short,
    group_mark,
    row_budget,
)
from dpbench.report.sections.base import Section, section
from dpbench.report.study import gather_entries
from dpbench.theory.theorems import THEOREMS

SUBJECTS = {"code": "check of the code"}  # words of the page for the column `checks`
# Columns with the names of the best estimators and of the bounds.
NAMED = ("estimator", "bound_name")
CLAIMS_NOTE = (
    "Each line compares the number that a theorem states with the measured number. “At these n” is "
    "the exact number at the n that were run; it is empty if the claim does not compute it. In the "
    "plots, the grey band is the predicted number (at these n, else the theorem's) with its "
    "tolerance, a dot is the measured number, the line its 95% interval by bootstrap over trials, "
    "and an arrow points to values beyond the axis. Verdicts: consistent if the interval lies in "
    "the band; inconsistent if the interval stretched to twice its width lies outside; else "
    "inconclusive; pre-asymptotic if the measurement agrees with the exact number at these n, "
    "which is not yet the theorem's. A check of the code compares measurements with the formula "
    "that the code computes; it tests no theorem. A true number that is off by the distance "
    "“detectable” would be called inconsistent in half of all runs."
)
LIMIT_NOTE = Markup(
    "A factor is the error of the best estimator (the 0.9 quantile, on the worst distribution of "
    "the family) divided by a lower bound for all private estimators. Each cell has the least and "
    "the largest factor over n. An empty cell was not run, or has no known bound. Numbers are "
    "exact, computed without trials, except those marked “(95%)”: they are the least lower and "
    "the largest upper end of 95% intervals from trials, which allow for the choice of the worst "
    "distribution and of the best estimator. Optimal (✓): the exact factor or the upper end is at "
    "most 1.1, over the listed distributions. Open (?): a better estimator or a better bound may "
    "exist. One distribution (○): others of its class, to which the bound applies, may be worse. "
    "Below 1 (○): the listed distributions are easier than the worst of their class."
)


@section("claims", "Claims")
def build_claims(run: RunFolder) -> Section | None:
    """Build the section on claims, the predictions that a study tests.

    Claims are shown in groups, with the worst verdicts first.
    """
    specs = {label: as_mapping(spec) for label, spec in gather_entries(run.sweep, "claims").items()}
    rows = run.rows("claims")
    claims = [_format_claim(row, specs.get(row["claim"], {})) for row in rows]
    if not claims:
        return None
    answer = answer_sentences(rows, str(run.sweep.get("question") or ""))
    unknown = any(claim["measured"] == "-" for claim in claims)
    return Section(
        note=CLAIMS_NOTE + (f" Not measured (-): {UNKNOWN}." if unknown else ""),
        look="claims",
        data=_group_claims(claims),
        findings=[sentence.removesuffix(".") for sentence in answer],
        tone=worst_tone([claim["tone"] for claim in claims]),
    )


@section("limit", "Lower bounds")
def build_factors(run: RunFolder) -> Section | None:
    """Build the section that compares the errors of the best estimators with lower bounds.

    Its table shows the best estimator's error divided by the lower bound. There is a column for
    each order of the bounded moment.
    """
    rows = run.rows("factors")
    if not rows:
        return None
    caption = "The best estimator's worst 0.9 quantile of the error over the lower bound"
    judged = [row for row in rows if row["verdict"] in {"optimal", "open"}]
    text = "the best private estimators' worst errors {} times their lower bounds"
    return Section(
        note=LIMIT_NOTE,
        look="factors",
        data=_factor_table(rows),
        tables=[run.table("factors", caption, tones=page_tones(FACTORS))],
        findings=[text.format(_format_range(judged, " to "))] if judged else [],
    )


def _format_claim(row: Row, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Format a row of ``claims.csv`` for the page.

    The configuration of the claim, `spec`, adds the reason for the tolerance and the theorem.
    """
    name = spec.get("theorem")
    own = from_mapping(OwnTheorem, name, "theorem").statement if isinstance(name, dict) else None
    theorem = own or THEOREMS.get(str(name))
    names = ("predicted", "tolerance", "measured", "low", "high")
    predicted, tolerance, measured, low, high = (as_number(row[name]) for name in names)
    floor = theorem.floor if theorem else None
    limit = "" if floor is None else "≤ "
    low_end, high_end = region(predicted, tolerance, floor)
    wide = high_end - low_end
    word, here = shown_verdicts(row)
    remarks = [f"at these n: {here}"] if here else []
    if word == EARLY:
        start = as_number(row["asymptotic_from"])
        known = f"from n = {format_short(start, 2)} on"
        remarks.insert(
            0, known if start > 0 else f"at no known n up to {format_short(float(MAX_N))}"
        )
    return {
        **row,
        "budget": row_budget(row),
        "what": describe_number(row["variable"], theorem),
        "metric": metric_text(row["metric"]),
        "subject": SUBJECTS.get(row["checks"], row["checks"]),
        **{
            name: _format_stated(row[name], limit, tolerance)
            for name in ("theorem", "exact_at_run_n")
        },
        "measured": format_digits(measured) or "-",
        "interval": " … ".join(filter(None, (format_digits(low), format_digits(high)))),
        "detectable": format_short(as_number(row.get("detectable_deviation")), 2),
        "value": measured,
        "off": abs(measured - predicted) if floor is None else math.nan,
        "reason": spec.get("reason", ""),
        "mark": claim_mark(predicted, tolerance, measured, (low, high), floor),
        "place": 2 * (measured - low_end) / wide - 1 if wide > 0 else math.nan,
        "word": word,
        "also": remarks,
        "tone": page_tones(CLAIMS).get(word, ""),
    }


def _format_stated(text: str, limit: str, tolerance: float) -> str:
    """Format a predicted number with its tolerance; blank if the number is unknown.

    `limit` is text before the number, for example a sign for at most.
    """
    number = format_digits(as_number(text))
    return f"{limit}{number} ± {format_digits(tolerance, trailing=False)}" if number else ""


def _group_claims(claims: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group claims with equal subject (theorem or code), source, number, metric and tolerance.

    The source is the publication and theorem, for example ``L15, Theorem 2``. The groups with the
    worst verdicts come first. Groups that differ in the tolerance alone name their claims.
    """
    claims_by_key: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for claim in claims:
        key = tuple(claim[n] for n in ("subject", "source", "what", "metric", "tolerance"))
        claims_by_key.setdefault(key, []).append(claim)
    heads = Counter(key[:4] for key in claims_by_key)
    groups = [
        {
            **dict(zip(("subject", "source", "what", "metric"), key[:4], strict=True)),
            "labels": [*dict.fromkeys(claim["claim"] for claim in same)] * (heads[key[:4]] > 1),
            "numbers": _summarise_numbers(same),
            "claims": sorted(same, key=lambda claim: SEVERITY.index(claim["tone"] or "calm")),
            "consistent": sum(claim["word"] == "consistent" for claim in same),
            "reasons": _group_reasons(same),
            "mark": group_mark([claim["place"] for claim in same]),
            "tone": worst_tone([claim["tone"] for claim in same]),
        }
        for key, same in claims_by_key.items()
    ]
    return sorted(groups, key=lambda group: SEVERITY.index(group["tone"]))


def _summarise_numbers(claims: Sequence[dict[str, Any]]) -> str:
    """Return the range of the measured numbers, and how far the farthest is from its prediction."""
    values = [claim["value"] for claim in claims if math.isfinite(claim["value"])]
    offs = [claim["off"] for claim in claims if math.isfinite(claim["off"])]
    ends = dict.fromkeys(format_digits(end) for end in (min(values), max(values))) if values else ()
    off = f"off by at most {format_short(max(offs), 2)}" if offs else ""
    return ", ".join(filter(None, [" … ".join(ends), off]))


def _group_reasons(claims: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return each reason for a tolerance with the labels of the claims that give this reason."""
    labels_by_reason: dict[str, dict[str, None]] = {}
    for claim in claims:
        labels_by_reason.setdefault(claim["reason"], {})[claim["claim"]] = None
    return {reason: ", ".join(labels) for reason, labels in labels_by_reason.items() if reason}


def _factor_table(rows: Sequence[Row]) -> dict[str, Any]:
    """Arrange factors in a table of distribution and budget (rows) by moment order (columns).

    A factor is the best estimator's error over the lower bound. The order is 0 for distributions
    without a bounded moment. The names of distributions are printed without the order k. A cell has
    the range of the factors over n, and the colour of the worst verdict.
    """
    cells_by_line: dict[tuple[str, str], dict[float, list[Row]]] = {}
    for row in rows:
        k = as_number(row["k"])
        k = 0.0 if math.isnan(k) else k  # NaN cannot be a key, because it is unequal to itself
        law = row["distribution"].removesuffix(f"_k{k:g}")
        cells_by_line.setdefault((law, row_budget(row)), {}).setdefault(k, []).append(row)
    orders = sorted({k for cells in cells_by_line.values() for k in cells})
    lines = []
    for (law, budget), cells in cells_by_line.items():
        line_rows = [row for cell in cells.values() for row in cell]
        estimators, bounds = (
            ", ".join(dict.fromkeys(r[name] for r in line_rows)) for name in NAMED
        )
        line = {"law": law, "budget": budget, "estimators": estimators, "bounds": bounds}
        lines.append(line | {"cells": [_format_factors(cells.get(k, ())) for k in orders]})
    return {"orders": orders, "lines": lines}


def _format_factors(rows: Sequence[Row]) -> tuple[str, str]:
    """Return the range of some factors as text, and the colour of their worst verdict.

    A factor is the best estimator's error over the lower bound.
    """
    if not rows:
        return "", ""
    verdicts = [FACTORS[row["verdict"]] for row in rows if row["verdict"] in FACTORS]
    severest = min(verdicts, key=lambda verdict: verdict.rank, default=None)
    by_trials = " (95%)" if any(row["error_over_bound_from"] != EXACT for row in rows) else ""
    return _format_range(rows, " … ") + by_trials, severest.tone.page if severest else ""


def _format_range(rows: Sequence[Row], between: str) -> str:
    """Format the smallest lower end and the largest upper end of some factors' intervals.

    Both ends of an exact factor are the factor itself. A factor is an error over a lower bound.
    """
    least = min(as_number(row["error_over_bound_low"]) for row in rows)
    largest = max(as_number(row["error_over_bound_high"]) for row in rows)
    return between.join(dict.fromkeys(format_short(end, 3) for end in (least, largest)))
