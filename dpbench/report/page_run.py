"""What the page shows of a run, read from the run's folder."""

from __future__ import annotations

import base64
import inspect
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from dpbench.metrics import VARIABLES
from dpbench.report.figures import Figure
from dpbench.report.page_marks import Mark, bound_mark, claim_mark
from dpbench.report.page_tables import Grid, Row, as_number, digits, make_grid, read_rows
from dpbench.report.words import exponent_text, metric_text, spaced
from dpbench.study import gathered
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["Bound", "Claimed", "Picture", "Run", "read_manifest", "read_run"]

# What is measured where it is no exponent.
MEASURED = {
    "factor": "error over the lower bound",
    "ratio": "error over another estimator's",
    "limit": "worst value",
}
SUPERSCRIPTS = {"c": "ᶜ", "s": "ˢ"}
AMOUNTS = {"epsilon": "ε", "delta": "δ", "rho": "ρ"}  # noqa: RUF001
SUMMARY = (
    "distribution", "k", "estimator", "privacy", "epsilon", "delta", "rho", "n", "failure_rate",
    "trimmed_mean", "q90", "q90_low", "q90_high", "lower_bound",
)  # fmt: skip
TRACKING = (
    "estimator", "distribution", "privacy", "epsilon", "delta", "rho", "n", "comparison",
    "trimmed_mean", "trimmed_mean_low", "trimmed_mean_high", "smallest_visible", "verdict",
)  # fmt: skip
CLAIM_TONES = {"consistent": "good", "inconsistent": "bad", "inconclusive": "unsure"}
# not refuted is no proof, so it is not good
AUDIT_TONES = {"not refuted": "calm", "refuted": "bad", "failed": "bad"}
# A control is broken: here it is bad news that no pair shows it.
CONTROL_TONES = {"refuted": "good", "not refuted": "bad", "failed": "bad"}
TRACKING_TONES = {
    "worse": "bad", "gone": "bad", "better": "good", "new": "unsure",
    "changed-within-noise": "calm", "same": "calm",
}  # fmt: skip
# Of a manifest's keys, those that no rerun changes.
ORIGIN = ("seed", "trials", "commit", "platform", "exit_code")


@dataclass(frozen=True)
class Claimed:
    """A row of the scoreboard."""

    row: Row
    budget: str
    what: str
    metric: str
    predicted: str
    measured: str
    interval: str
    reason: str
    mark: Mark | None
    tone: str


@dataclass(frozen=True)
class Picture:
    """A figure."""

    label: str
    kind: str
    caption: str
    settings: list[tuple[str, str]]
    data: str


@dataclass(frozen=True)
class Bound:
    """The strongest pair of an estimator and notion."""

    row: Row
    pairs: int
    lower_bound: str
    mark: Mark | None
    tone: str


@dataclass(frozen=True)
class Run:
    """A run; empty where it has nothing of a kind."""

    id: str
    name: str
    folder: str
    origin: dict[str, Any]
    versions: dict[str, Any]
    configuration: str
    claims: list[Claimed]
    reasons: list[tuple[str, str, str]]
    pictures: list[Picture]
    samples: Grid | None
    summary: Grid | None
    audit: list[Bound]
    pairs: Grid | None
    controls: list[Bound]
    control_pairs: Grid | None
    tracking: Grid | None
    tracked: dict[str, int]
    failures: list[Mapping[str, str]]

    @property
    def counts(self) -> dict[str, int]:
        """How many claims have each verdict."""
        found = Counter(claim.row["verdict"] for claim in self.claims)
        return {verdict: found.get(verdict, 0) for verdict in CLAIM_TONES}


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none that can be read."""
    try:
        found = json.loads((folder / "manifest.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def read_run(folder: Path, name: str) -> Run:
    """Read a run's folder; `name` begins the ids of its elements."""
    manifest = read_manifest(folder)
    sweep = _mapping(_mapping(manifest.get("configuration")).get("sweep"))
    audit, controls = read_rows(folder / "audit.csv"), read_rows(folder / "controls.csv")
    tracking = _worst_first(read_rows(folder / "tracking.csv"))
    claims = _gathered(sweep, "claims")
    return Run(
        id=name,
        name=str(manifest.get("sweep", folder.resolve().name)),
        folder=folder.resolve().name,
        origin=_origin(manifest),
        versions=_mapping(manifest.get("versions")),
        configuration=_as_yaml(manifest.get("configuration")),
        claims=[_claimed(row, claims) for row in read_rows(folder / "claims.csv")],
        reasons=[
            (label, str(claim.get("theorem", "")), str(claim.get("reason", "")))
            for label, claim in claims.items()
        ],
        pictures=_pictures(folder / "figures", _gathered(sweep, "figures")),
        audit=_strongest(audit, AUDIT_TONES),
        controls=_strongest(controls, CONTROL_TONES),
        tracked=dict(Counter(row.get("verdict", "") for row in tracking)),
        failures=[one for one in manifest.get("failures") or [] if {*one} >= {"failure", "replay"}],
        **_grids(folder, name, audit, controls, tracking),
    )


def _grids(
    folder: Path,
    name: str,
    audit: Sequence[Row],
    controls: Sequence[Row],
    tracking: Sequence[Row],
) -> dict[str, Grid | None]:
    """The tables that can be sorted and filtered; None where a file has no rows."""

    def grid(file: str, rows: Sequence[Row], caption: str, **more: Any) -> Grid | None:
        path = folder / file
        return make_grid(f"{name}-{path.stem}", caption, path, rows, **more) if rows else None

    return {
        "samples": grid(
            "sample_complexity.csv",
            read_rows(folder / "sample_complexity.csv"),
            "The smallest n with P(error ≤ α) ≥ 1 - β",  # noqa: RUF001
        ),
        "summary": grid(
            "summary.csv",
            read_rows(folder / "summary.csv"),
            "Errors, a row per distribution, estimator, budget and n",
            main=SUMMARY,
        ),
        "pairs": grid("audit.csv", audit, "All pairs", tones=AUDIT_TONES),
        "control_pairs": grid(
            "controls.csv", controls, "All pairs of the controls", tones=CONTROL_TONES
        ),
        "tracking": grid(
            "tracking.csv",
            tracking,
            "Errors of this run over those of the baseline",
            main=TRACKING,
            tones=TRACKING_TONES,
        ),
    }


def _mapping(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _gathered(sweep: dict[str, Any], section: str) -> dict[str, dict[str, Any]]:
    """The claims or figures of a sweep, also those under its parts."""
    return {str(label): _mapping(one) for label, one in gathered(sweep, section).items()}


def _origin(manifest: Mapping[str, Any]) -> dict[str, Any]:
    found = {key: manifest[key] for key in ORIGIN if manifest.get(key) is not None}
    if "commit" in found and manifest.get("dirty"):
        found["commit"] = f"{found['commit']} with uncommitted changes"
    return found


def _as_yaml(configuration: object) -> str:
    """What of the configuration numbers depend on."""
    known = _mapping(configuration)
    shown = {key: known[key] for key in ("sweep", "seed", "trials", "plugins") if known.get(key)}
    return str(yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100))


def _claimed(row: Row, claims: Mapping[str, dict[str, Any]]) -> Claimed:
    """A row of claims.csv with what the configuration and the theorem say about it."""
    spec = claims.get(row["claim"], {})
    theorem = THEOREMS.get(str(spec.get("theorem")))
    names = ("predicted", "tolerance", "measured", "low", "high")
    predicted, tolerance, measured, low, high = (as_number(row[name]) for name in names)
    floor = theorem.floor if theorem else None
    limit = "≤ " if floor is not None else ""
    return Claimed(
        row=row,
        budget=_budget(row),
        what=_what(row["variable"], theorem),
        metric=metric_text(row["metric"]),
        predicted=f"{limit}{digits(predicted)} ± {digits(tolerance, trailing=False)}",
        measured=digits(measured),
        interval=" … ".join(filter(None, (digits(low), digits(high)))),
        reason=str(spec.get("reason", "")),
        mark=claim_mark(predicted, tolerance, measured, low, high, floor),
        tone=CLAIM_TONES.get(row["verdict"], ""),
    )


def _budget(row: Row) -> str:
    """A budget in a few characters."""
    amounts = {sign: as_number(row.get(name)) for name, sign in AMOUNTS.items()}
    known = [f"{sign} = {value:g}" for sign, value in amounts.items() if not math.isnan(value)]
    return ", ".join(filter(None, [spaced(row.get("privacy", "")), *known]))


def _what(variable: str, theorem: Theorem | None) -> str:
    """The number that a claim is about."""
    if theorem is None or variable not in VARIABLES:
        return MEASURED.get(variable, variable)
    what, base, sign = exponent_text(theorem)
    return f"{sign} in {what} ~ {base}{SUPERSCRIPTS[sign]}"


def _pictures(folder: Path, specs: Mapping[str, dict[str, Any]]) -> list[Picture]:
    """The figures in the configuration's order, then others that lie in the folder."""
    others = [path.stem for path in sorted(folder.glob("*.svg")) if path.stem not in specs]
    found = []
    for label in (*specs, *others):
        path = folder / f"{label}.svg"
        if not path.is_file():
            continue
        spec = specs.get(label, {})
        settings = [
            (spaced(str(key)), _listed(value))
            for key, value in spec.items()
            if key not in {"kind", "_target_", "caption", "ylabel"} and value is not None
        ]
        kind = spaced(str(spec.get("kind") or spec.get("_target_") or ""))
        known = Figure.find(spec)
        about = (inspect.getdoc(known) or "").partition("\n")[0] if known else ""
        caption = str(spec.get("caption") or about).rstrip(".")
        data = base64.b64encode(path.read_bytes()).decode("ascii")
        found.append(Picture(label, kind, caption, settings, data))
    return found


def _listed(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_listed(one)}".strip() for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_listed, value))
    return "" if value is None else str(value)


def _strongest(rows: Sequence[Row], tones: Mapping[str, str]) -> list[Bound]:
    """The pair with the largest lower bound of every estimator and notion, the worst first."""
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        groups.setdefault((row["estimator"], row["notion"]), []).append(row)
    found = []
    for pairs in groups.values():
        row = max(pairs, key=_shown)
        bound, claimed = as_number(row["lower_bound"]), as_number(row["claimed"])
        mark, tone = bound_mark(claimed, bound), tones.get(row["verdict"], "")
        found.append(Bound(row, len(pairs), digits(bound), mark, tone))
    return sorted(found, key=lambda one: (one.tone != "bad", -_share(one.row)))


def _shown(row: Row) -> float:
    """The lower bound of a pair, smallest where there is none."""
    bound = as_number(row["lower_bound"])
    return bound if bound >= 0 else -1.0


def _share(row: Row) -> float:
    """The part of what is claimed that a pair shows to be lost."""
    claimed = as_number(row["claimed"])
    return _shown(row) / claimed if claimed > 0 else -1.0


def _worst_first(rows: Sequence[Row]) -> list[Row]:
    order = list(TRACKING_TONES)
    return sorted(
        rows, key=lambda row: order.index(row["verdict"]) if row["verdict"] in order else -1
    )
