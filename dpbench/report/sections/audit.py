"""Section on audits of privacy, of estimators and of controls that are broken on purpose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd
from markupsafe import Markup

from dpbench.audit.report import blind_rows, strongest
from dpbench.output.verdicts import AUDIT, CONTROLS, page_tones
from dpbench.report.page_run import RunFolder, worst
from dpbench.report.page_tables import (
    Row,
    as_number,
    bound_mark,
    digits,
    distinct,
    ends,
    how_many,
    listed,
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
    "mechanism could be compared."
)
ABOUT_CONTROLS = Markup(
    "<strong>Controls</strong> are estimators broken on purpose, which the audit must refute: "
    "{} of {} are."
)
Bounds = list[dict[str, Any]]


@section("privacy", "Audit", "Audit of privacy")
def build_audit(run: RunFolder) -> Section | None:
    """Build tables of the strongest pairs, of estimators and of controls, with all pairs below."""
    rows = run.rows("audit")
    audit = _bounds(rows, page_tones(AUDIT))
    controls = _bounds(run.rows("controls"), page_tones(CONTROLS))
    if not (audit or controls):
        return None
    caught = sum(one["tone"] == "good" for one in controls)
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
    new = [one for one in audit if one["verdict"] != one.get("expected")]
    return Section(
        text=TEXT,
        note=_blind(rows),
        look="bounds",
        data=[part for part in parts if part["rows"]],
        asked=_question(rows),
        found=_found(audit, controls, caught),
        tone=worst([one["tone"] for one in (*new, *controls)]),
        captions=CAPTIONS,
    )


def _question(rows: Sequence[Row]) -> str:
    if not rows:
        return ""
    return (
        f"Do the claims of privacy of {distinct(rows, 'estimator')} hold on pairs of neighbouring "
        f"datasets, with {ends(rows, 'runs')} runs on each dataset?"
    )


def _blind(rows: Sequence[Row]) -> str:
    """List the rows in which halved noise would not be refuted; the tables have the reasons."""
    if not rows or "blind" not in rows[0]:
        return ""
    known = pd.DataFrame([{**row, "lower_bound": as_number(row["lower_bound"])} for row in rows])
    return " ".join(f"{line.strip()}." for line in blind_rows(known))


def _found(audit: Bounds, controls: Bounds, caught: int) -> list[str]:
    bad = [one for one in audit if one["tone"] == "bad"]
    as_known = [str(one["estimator"]) for one in bad if one["verdict"] == one.get("expected")]
    aside = f", as is known of {listed(as_known)}" if as_known else ""
    claims = f"{len(bad)} of {how_many(len(audit), 'claim')} of privacy refuted or failed{aside}"
    told = f"{caught} of {how_many(len(controls), 'broken control')} caught"
    return [*[claims] * bool(audit), *[told] * bool(controls)]


def _bounds(rows: Sequence[Row], tones: Mapping[str, str]) -> Bounds:
    """Format the strongest pair of every estimator and budget, the worst first."""
    known = [{**row, "lower_bound": as_number(row["lower_bound"])} for row in rows]
    best: Any = strongest(pd.DataFrame(known)).to_dict("records") if known else []
    found = []
    for row in best:
        bound, claimed = row["lower_bound"], as_number(row["claimed"])
        lost = bound / claimed if bound >= 0 and claimed > 0 else -1.0
        move = digits(as_number(row.get("move_over_sensitivity")), trailing=False)
        more = {"lower_bound": digits(bound), "mark": bound_mark(claimed, bound), "lost": lost}
        more |= {"move": move, "by_replay": row.get("refuted_by_replay") or ""}
        found.append({**row, **more, "tone": tones.get(row["verdict"], "")})
    return sorted(found, key=lambda one: (one["tone"] != "bad", -one["lost"]))
