"""Section on audits of privacy, of estimators and of controls that are broken on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from dpbench.audit.report import list_blind_rows, select_strongest
from dpbench.audit.verdicts import AUDIT, CONTROLS
from dpbench.output.verdicts import page_tones
from dpbench.report.page_run import RunFolder, worst_tone
from dpbench.report.page_tables import (
    Row,
    as_number,
    bound_mark,
    count_distinct,
    count_noun,
    format_digits,
    format_range,
    format_short,
    join_words,
)
from dpbench.report.sections.base import Section, section

CAPTIONS = {
    "estimators": "The largest lower bound on the privacy loss of each estimator, divided by the "
    "loss that it claims: a mark beyond 1 refutes the claim, no mark proves it",
    "controls": "The largest lower bound on the privacy loss of estimators broken on purpose, "
    "divided by the loss that they claim: each mark must lie beyond 1, except for mistakes that "
    "only a replay shows",
}
TEXT = (
    "An audit runs an estimator many times on two neighbouring datasets and guesses from each "
    "release which dataset it came from. The success rate gives a lower bound on the privacy loss. "
    "An audit can falsify a claim of privacy, never prove one. In the plots, the bar is the lower "
    "bound, and the grey band is the claimed loss; a bar that leaves the band refutes the claim. "
    "Visible is the largest factor of noise that would have been refuted in 95% of audits. A "
    "replay runs on one dataset of each pair, and again on the other with equal releases. Move "
    "over sensitivity is the largest change of a mechanism's values, divided by its stated "
    "sensitivity: above 1 the noise is too small, and the claim is refuted. It is empty if no "
    "mechanism could be compared, and 0 if no pair moved one. Compared is the number of mechanisms "
    'that every replay compared; "output" means that the final outputs were compared, too, in '
    "every bit. A claim that is not refuted is not proved: other datasets, other releases and what "
    "was not compared may still refute it."
)
ABOUT_CONTROLS = Markup(
    "<strong>Controls</strong> are estimators broken on purpose, which the audit must refute: "
    "{} of {} are."
)
Bounds = list[dict[str, Any]]


@section("privacy", "Audit", "Audit of privacy")
def build_audit(run: RunFolder) -> Section | None:
    """Build the section on audits of privacy, with tables of estimators and of controls.

    An audit uses pairs of neighbouring datasets. Controls are estimators that are broken on
    purpose, so the audit must refute them. For each estimator, the first tables show only the pair
    with the largest lower bound on the privacy loss. The tables below show all pairs in
    ``audit.csv`` and ``controls.csv``.
    """
    rows = run.rows("audit")
    audit = _format_bounds(rows, page_tones(AUDIT))
    controls = _format_bounds(run.rows("controls"), page_tones(CONTROLS))
    if not (audit or controls):
        return None
    caught = sum(row["tone"] == "good" for row in controls)
    promising = "The most promising pairs of datasets"
    parts = [
        {
            "text": "", "caption": "The strongest pair of every estimator and budget",
            "rows": audit, "table": run.table("audit", promising, tones=page_tones(AUDIT)),
        },
        {
            "text": ABOUT_CONTROLS.format(caught, len(controls)),
            "caption": "Controls: each must be refuted", "rows": controls,
            "table": run.table("controls", f"{promising}, controls", tones=page_tones(CONTROLS)),
        },
    ]  # fmt: skip
    # a refutation that is known beforehand is no finding
    new = [row for row in audit if row["verdict"] != row.get("expected")]
    return Section(
        text=TEXT,
        note=_describe_blind_rows(rows),
        look="bounds",
        data=[part for part in parts if part["rows"]],
        setup=_describe_setup(rows),
        findings=_describe_findings(audit, controls, caught),
        tone=worst_tone([row["tone"] for row in (*new, *controls)]),
        captions=CAPTIONS,
    )


def _describe_setup(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    return (
        f"{count_distinct(rows, 'estimator')} on pairs of neighbouring datasets, with "
        f"{format_range(rows, 'runs')} runs on each dataset"
    )


def _describe_blind_rows(rows: Sequence[Row]) -> str:
    """Return a text that names the estimators whose noise could be halved unnoticed by the audit.

    The names come from `dpbench.audit.report.list_blind_rows`.
    """
    if not rows or "blind" not in rows[0]:
        return ""
    numeric = pd.DataFrame([{**row, "lower_bound": as_number(row["lower_bound"])} for row in rows])
    return " ".join(f"{line.strip()}." for line in list_blind_rows(numeric))


def _describe_findings(audit: Bounds, controls: Bounds, caught: int) -> list[str]:
    bad = [row for row in audit if row["tone"] == "bad"]
    expected = [str(row["estimator"]) for row in bad if row["verdict"] == row.get("expected")]
    aside = f", as is known of {join_words(expected)}" if expected else ""
    claims = f"{len(bad)} of {count_noun(len(audit), 'claim')} of privacy refuted or failed{aside}"
    caught_text = f"{caught} of {count_noun(len(controls), 'broken control')} caught"
    return [*[claims] * bool(audit), *[caught_text] * bool(controls)]


def _format_bounds(rows: Sequence[Row], tones: Mapping[str, str]) -> Bounds:
    """Format the largest lower bound on the privacy loss of every estimator and budget.

    Each of `rows` is the audit of an estimator and budget on one pair of neighbouring datasets. Bad
    verdicts come first: a claim of privacy that is refuted, or a control that is not refuted.
    """
    numeric = [{**row, "lower_bound": as_number(row["lower_bound"])} for row in rows]
    strongest: Any = select_strongest(pd.DataFrame(numeric)).to_dict("records") if numeric else []
    formatted = []
    for row in strongest:
        bound, claimed = row["lower_bound"], as_number(row["claimed"])
        ratio = bound / claimed if bound >= 0 and claimed > 0 else -1.0
        move = format_digits(as_number(row.get("move_over_sensitivity")), trailing=False)
        cells = {
            "lower_bound": format_digits(bound),
            "mark": bound_mark(claimed, bound),
            "lost": ratio,
        }
        cells |= {name: format_short(as_number(row[name])) for name in ("delta", "claimed")}
        cells |= {"move": move, "by_replay": row.get("refuted_by_replay") or ""}
        formatted.append({**row, **cells, "tone": tones.get(row["verdict"], "")})
    return sorted(formatted, key=lambda entry: (entry["tone"] != "bad", -entry["lost"]))
