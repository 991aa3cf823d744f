"""Claims against what was measured, and the distance to lower bounds."""

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
from dpbench.report.words import exponent_text, metric_text
from dpbench.sweep.metrics import VARIABLES
from dpbench.theory.theorems import THEOREMS, Theorem

# What is measured where it is no exponent.
MEASURED = {
    "level": "measured over the exact value",
    "factor": "error over the lower bound",
    "ratio": "error over another estimator's",
    "limit": "worst value",
}
SUPERSCRIPTS = {"c": "ᶜ", "s": "ˢ"}
# What the best estimators and the bounds are named by.
NAMED = ("estimator", "bound_by")
CLAIMS_NOTE = (
    "“Theorem” is the theorem's own number, “at these n” the exact one at the claim's n, where the "
    "claim has it computed. Grey is the number at these n, else the theorem's, with its "
    "tolerance; a dot is a measurement, the line its 95% interval; an arrow points to what lies "
    "beyond the axis. Not yet asymptotic: the measurement agrees with the exact number at these n, "
    "which is not the theorem's. A check of the code compares it with the formula that it "
    "computes, and tests no theorem. Half of all runs would call a truth inconsistent that is as "
    "far off as is “visible”."
)
LIMIT_NOTE = Markup(
    "The best estimator's worst error over what no private estimator beats, from the least to the "
    "largest over n. Numbers are exact, computed without trials. Before “(95%)” stand the least "
    "lower and the largest upper end of 95% intervals by trials, which allow for the choice of the "
    "worst law and of the best estimator. Optimal (✓) over the listed laws: at most 1.1, by the "
    "exact number or the upper end. Open (?): a better estimator or a better bound may exist. Of "
    "one law (○), others of its class, whose bound it is, may be worse. Below 1 (○): the listed "
    "laws are easier than the worst of their class."
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
    """Return a row with the columns on theorems, by the claim's specification where it is older."""
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
    caption = "The best estimator's worst 0.9 quantile over what no private estimator beats"
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
    """Return a row of claims.csv in print, with what the claim and its theorem say."""
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
    """Return a number of a claim with its tolerance in print; blank where there is none."""
    known = digits(as_number(text))
    return f"{limit}{known} ± {digits(tolerance, trailing=False)}" if known else ""


def _also(row: Row, word: str) -> list[str]:
    """Return what a row says beside the word of its verdict: from which n on, and at these n."""
    since = as_number(row["asymptotic_from"])
    known = f"from n = {short(since, 2)} on" if since > 0 else f"at no known n up to {MAX_N:.0e}"
    here = f"at these n: {row['verdict']}"
    return [*([known] if word == EARLY else []), *([here] if word != row["verdict"] else [])]


def _groups(claims: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Group the claims that say the same, by subject and source, the worst group first."""
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
    """Why tolerances are what they are: the claims that have the same reason, by it."""
    found: dict[str, dict[str, None]] = {}
    for claim in claims:
        found.setdefault(claim["reason"], {})[claim["claim"]] = None
    return {reason: ", ".join(labels) for reason, labels in found.items() if reason}


def _what(variable: str, theorem: Theorem | None) -> str:
    """The number that a claim is about."""
    if theorem is None or variable not in VARIABLES:
        return MEASURED.get(variable, variable)
    what, base, sign = exponent_text(theorem)
    return f"{sign} in {what} ~ {base}{SUPERSCRIPTS[sign]}"


def _factor_table(rows: Sequence[Row]) -> dict[str, Any]:
    """Best factors over the lower bound, from least to largest over n.

    A row per law and budget, a column per moment order, 0 for none. A law goes by its name
    without its k, and a cell is as good as the worst of its verdicts.
    """
    found: dict[tuple[str, str], dict[float, list[Row]]] = {}
    for row in rows:
        k = as_number(row["k"])
        k = 0.0 if math.isnan(k) else k  # equal to itself
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
    """Return the range of some factors, and the tone of the worst verdict."""
    if not rows:
        return "", ""
    known = [FACTORS[row["verdict"]] for row in rows if row["verdict"] in FACTORS]
    worst = min(known, key=lambda one: one.rank, default=None)
    by_trials = " (95%)" if any(row["factor_by"] != EXACT for row in rows) else ""
    return _range(rows, " … ") + by_trials, worst.tone.page if worst else ""


def _range(rows: Sequence[Row], between: str) -> str:
    """Write the least lower and the largest upper end of factors, which exact ones are both of."""
    least = min(as_number(row["factor_low"]) for row in rows)
    largest = max(as_number(row["factor_high"]) for row in rows)
    return between.join(dict.fromkeys(short(end, 3) for end in (least, largest)))
