"""Sections on claims and their verdicts, and on the distance to lower bounds."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from markupsafe import Markup

from dpbench.analysis.claims import UNKNOWN, completed_row, headline, region
from dpbench.analysis.factors import EXACT
from dpbench.analysis.oracle import MAX_N
from dpbench.analysis.study import gathered
from dpbench.output.verdicts import CLAIMS, EARLY, FACTORS, SEVERITY, page_tones
from dpbench.report.labels import exponent_text, metric_text
from dpbench.report.page_run import RunFolder, mapping, worst
from dpbench.report.page_tables import (
    Row,
    as_number,
    claim_mark,
    digits,
    group_mark,
    row_budget,
    short,
)
from dpbench.report.sections.base import Section, section
from dpbench.sweep.metrics import VARIABLES
from dpbench.theory.theorems import THEOREMS, Theorem

# The measured number of claims that are about no exponent, by the theorem's variable.
MEASURED = {
    "level": "measured over the exact value",
    "factor": "error over the lower bound",
    "ratio": "error over another estimator's",
    "limit": "worst value",
}
SUPERSCRIPTS = {"c": "ᶜ", "s": "ˢ"}
# Columns with the names of the best estimators and of the bounds.
NAMED = ("estimator", "bound_name")
CLAIMS_NOTE = (
    "Each line compares the number that a theorem states with the measured number. “At these n” is "
    "the exact number at the n that were run; it is empty if the claim does not compute it. In the "
    "plots, the grey band is the predicted number (at these n, else the theorem's) with its "
    "tolerance, a dot is the measured number, the line its 95% interval by bootstrap over trials, "
    "and an arrow points to values beyond the axis. Verdicts: consistent if the interval lies in "
    "the band; inconsistent if the interval stretched to twice its width lies outside; else "
    "inconclusive; not yet asymptotic if the measurement agrees with the exact number at these n, "
    "which is not yet the theorem's. A check of the code compares measurements with the formula "
    "that the code computes; it tests no theorem. A true number that is off by the distance "
    "“visible” would be called inconsistent in half of all runs."
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


@section("claims", "Claims", "Theory against measurement")
def build_claims(run: RunFolder) -> Section | None:
    """Build the claims in groups, the worst group first."""
    specs = {label: mapping(one) for label, one in gathered(run.sweep, "claims").items()}
    rows = [_completed(row, specs.get(row["claim"], {})) for row in run.rows("claims")]
    claims = [_claim(row, specs.get(row["claim"], {})) for row in rows]
    if not claims:
        return None
    unknown = any(claim["measured"] == "-" for claim in claims)
    return Section(
        note=CLAIMS_NOTE + (f" Not measured (-): {UNKNOWN}." if unknown else ""),
        look="claims",
        data=_groups(claims),
        found=headline(rows),
        tone=worst([claim["tone"] for claim in claims]),
    )


def _completed(row: Row, spec: Mapping[str, Any]) -> Row:
    """Add the columns on theorems that a row of an older run lacks, from the claim's settings."""
    theorem = THEOREMS.get(str(spec.get("theorem")))
    checks = spec.get("checks") or (theorem.subject if theorem else "theorem")
    finite = spec.get("finite", False) is not False
    return completed_row(row, finite=finite, subject="code" if checks == "code" else "theorem")


@section("limit", "Distance to the limit")
def build_factors(run: RunFolder) -> Section | None:
    """Build the best factors over lower bounds, a column per moment order."""
    rows = run.rows("factors")
    if not rows:
        return None
    caption = "The best estimator's worst 0.9 quantile of the error over the lower bound"
    known = [row for row in rows if row["verdict"] in {"optimal", "open"}]
    found = "the best private estimators' worst errors {} times their lower bounds"
    return Section(
        note=LIMIT_NOTE,
        look="factors",
        data=_factor_table(rows),
        tables=[run.table("factors", caption, tones=page_tones(FACTORS))],
        found=[found.format(_range(known, " to "))] if known else [],
    )


def _claim(row: Row, spec: Mapping[str, Any]) -> dict[str, Any]:
    """Format a row of claims.csv, with settings of the claim and its theorem."""
    theorem = THEOREMS.get(str(spec.get("theorem")))
    names = ("predicted", "tolerance", "measured", "low", "high")
    predicted, tolerance, measured, low, high = (as_number(row[name]) for name in names)
    floor = theorem.floor if theorem else None
    limit = "" if floor is None else "≤ "
    low_end, high_end = region(predicted, tolerance, floor)
    wide = high_end - low_end
    word = row["theorem_verdict"] if row["theorem_verdict"] in CLAIMS else row["verdict"]
    return {
        **row,
        "budget": row_budget(row),
        "what": _what(row["variable"], theorem),
        "metric": metric_text(row["metric"]),
        "subject": "check of the code" if row["checks"] == "code" else "theorem",
        **{name: _stated(row[name], limit, tolerance) for name in ("theorem", "at_these_n")},
        "measured": digits(measured) or "-",
        "interval": " … ".join(filter(None, (digits(low), digits(high)))),
        "visible": digits(as_number(row.get("visible"))),
        "reason": spec.get("reason", ""),
        "mark": claim_mark(predicted, tolerance, measured, (low, high), floor),
        "place": 2 * (measured - low_end) / wide - 1 if wide > 0 else math.nan,
        "word": word,
        "also": _also(row, word),
        "tone": page_tones(CLAIMS).get(word, ""),
    }


def _stated(text: str, limit: str, tolerance: float) -> str:
    """Format a number of a claim with its tolerance; blank if it is unknown."""
    known = digits(as_number(text))
    return f"{limit}{known} ± {digits(tolerance, trailing=False)}" if known else ""


def _also(row: Row, word: str) -> list[str]:
    """Return remarks beside a verdict: the n from which it is asymptotic, the one at these n."""
    since = as_number(row["asymptotic_from"])
    known = f"from n = {short(since, 2)} on" if since > 0 else f"at no known n up to {MAX_N:.0e}"
    here = f"at these n: {row['verdict']}"
    return [*([known] if word == EARLY else []), *([here] if word != row["verdict"] else [])]


def _groups(claims: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group the claims with equal subject, source, number and metric, the worst group first."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for claim in claims:
        key = (claim["subject"], claim["source"], claim["what"], claim["metric"])
        found.setdefault(key, []).append(claim)
    groups = [
        {
            **dict(zip(("subject", "source", "what", "metric"), key, strict=True)),
            "claims": sorted(same, key=lambda claim: SEVERITY.index(claim["tone"] or "calm")),
            "consistent": sum(claim["word"] == "consistent" for claim in same),
            "reasons": _reasons(same),
            "mark": group_mark([claim["place"] for claim in same]),
            "tone": worst([claim["tone"] for claim in same]),
        }
        for key, same in found.items()
    ]
    return sorted(groups, key=lambda group: SEVERITY.index(group["tone"]))


def _reasons(claims: Sequence[dict[str, Any]]) -> dict[str, str]:
    """Return the labels of the claims that share each reason for a tolerance, by reason."""
    found: dict[str, dict[str, None]] = {}
    for claim in claims:
        found.setdefault(claim["reason"], {})[claim["claim"]] = None
    return {reason: ", ".join(labels) for reason, labels in found.items() if reason}


def _what(variable: str, theorem: Theorem | None) -> str:
    """Return the number that a claim is about, as a formula or in words."""
    if theorem is None or variable not in VARIABLES:
        return MEASURED.get(variable, variable)
    what, base, sign = exponent_text(theorem)
    return f"{sign} in {what} ~ {base}{SUPERSCRIPTS[sign]}"


def _factor_table(rows: Sequence[Row]) -> dict[str, Any]:
    """Arrange factors in a row for each distribution and budget, in columns by moment order.

    The order is 0 for distributions without a bounded moment. Names of distributions lose their k.
    A cell has the range of the factors over n, and the tone of the worst verdict.
    """
    found: dict[tuple[str, str], dict[float, list[Row]]] = {}
    for row in rows:
        k = as_number(row["k"])
        k = 0.0 if math.isnan(k) else k  # NaN is unequal to itself, and so no key
        law = row["distribution"].removesuffix(f"_k{k:g}")
        found.setdefault((law, row_budget(row)), {}).setdefault(k, []).append(row)
    orders = sorted({k for cells in found.values() for k in cells})
    lines = []
    for (law, budget), cells in found.items():
        about = [row for one in cells.values() for row in one]
        who, by = (", ".join(dict.fromkeys(r[name] for r in about)) for name in NAMED)
        line = {"law": law, "budget": budget, "estimators": who, "bounds": by}
        lines.append(line | {"cells": [_factors(cells.get(k, ())) for k in orders]})
    return {"orders": orders, "lines": lines}


def _factors(rows: Sequence[Row]) -> tuple[str, str]:
    """Format the range of some factors, and return it with the tone of the worst verdict."""
    if not rows:
        return "", ""
    known = [FACTORS[row["verdict"]] for row in rows if row["verdict"] in FACTORS]
    worst = min(known, key=lambda one: one.rank, default=None)
    by_trials = " (95%)" if any(row["factor_by"] != EXACT for row in rows) else ""
    return _range(rows, " … ") + by_trials, worst.tone.page if worst else ""


def _range(rows: Sequence[Row], between: str) -> str:
    """Format the least lower and the largest upper end of factors; an exact factor is both."""
    least = min(as_number(row["factor_low"]) for row in rows)
    largest = max(as_number(row["factor_high"]) for row in rows)
    return between.join(dict.fromkeys(short(end, 3) for end in (least, largest)))
