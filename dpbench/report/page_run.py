"""What the page shows of a run, read from the run's folder."""

from __future__ import annotations

import base64
import csv
import inspect
import json
import math
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from dpbench.analysis.claims import UNKNOWN
from dpbench.analysis.study import SELECTED, Figure, gathered
from dpbench.audit.report import strongest
from dpbench.libraries.report import CAPTIONS
from dpbench.output.verdicts import (
    AUDIT,
    CLAIMS,
    CONTROLS,
    FACTORS,
    HOSTILE,
    SEVERITY,
    TRACKING,
    page_tones,
)
from dpbench.registry import ConfigError
from dpbench.report.figures import DrawnFigure
from dpbench.report.page_answer import answer, question
from dpbench.report.page_tables import (
    Row,
    as_number,
    bound_mark,
    claim_mark,
    digits,
    factor_table,
    group_mark,
    library_tables,
    make_table,
    region,
    row_budget,
)
from dpbench.report.words import exponent_text, metric_text
from dpbench.sweep.metrics import VARIABLES
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["read_manifest", "read_run"]

# What is measured where it is no exponent.
MEASURED = {
    "level": "measured over the exact value",
    "factor": "error over the lower bound",
    "ratio": "error over another estimator's",
    "limit": "worst value",
}
SUPERSCRIPTS = {"c": "ᶜ", "s": "ˢ"}
CLAIM_TONES, AUDIT_TONES, CONTROL_TONES = map(page_tones, (CLAIMS, AUDIT, CONTROLS))
TRACKING_TONES, OUTCOMES = map(page_tones, (TRACKING, HOSTILE))
# Of sweeps that configure none, the main one first.
OWN_FIGURES = {
    "estimators": {
        "caption": "The largest lower bound on the privacy that each estimator loses, over what it "
        "claims: a mark beyond 1 refutes the claim, none proves it"
    },
    "controls": {"caption": "The same of estimators broken on purpose: each must be beyond 1"},
    **{label: {"caption": text} for label, text in CAPTIONS.items()},
}
# The tables that can be sorted and filtered, by file.
TABLES: dict[str, dict[str, Any]] = {
    "factors": {
        "caption": "The best estimator's worst 0.9 quantile over what no private estimator beats",
        "tones": page_tones(FACTORS),
    },
    "sample_complexity": {"caption": "The smallest n with P(error ≤ α) ≥ 1 - β"},  # noqa: RUF001
    "summary": {
        "caption": "Errors, a row per distribution, estimator, budget and n",
        "columns": ("distribution", "k", "estimator", "privacy", "epsilon", "delta", "rho", "mu",
                    "n", "failure_rate", "spent", "trimmed_mean", "q90", "q90_low", "q90_high",
                    "lower_bound"),
    },
    "libraries": {
        "caption": "Errors in units of width/(n ε), a row per distribution, estimator, ε and n",
        "columns": ("estimator", "distribution", "neighbours", "epsilon", "n", "trials",
                    "failure_rate", "error", "expected_error", "lower_bound", "bias",
                    "expected_bias", "ms"),
    },
    "hostile": {"caption": "What was said of columns that nobody expects", "tones": OUTCOMES},
    "audit": {"caption": "The most promising pairs of each", "tones": AUDIT_TONES},
    "controls": {"caption": "The most promising pairs of each control", "tones": CONTROL_TONES},
    "tracking": {
        "caption": "Errors of this run over those of the baseline",
        "columns": ("estimator", "distribution", "privacy", "epsilon", "delta", "rho", "mu", "n",
                    "comparison", "trimmed_mean", "trimmed_mean_low", "trimmed_mean_high",
                    "smallest_visible", "verdict"),
        "tones": TRACKING_TONES,
    },
}  # fmt: skip
# Of a manifest's keys, those that no rerun changes which computes nothing.
ORIGIN = ("seed", "trials", "commit", "platform", "exit_code")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none that can be read."""
    try:
        return _mapping(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def read_run(folder: Path, name: str, most: int) -> dict[str, Any]:
    """What the template shows of a run, with `most` rows of a table; `name` begins its ids."""
    manifest = read_manifest(folder)
    configuration = _mapping(manifest.get("configuration"))
    sweep = _mapping(configuration.get("sweep"))
    telling = ("sweep", "seed", "trials", "plugins")  # what numbers depend on
    shown = {key: configuration[key] for key in telling if configuration.get(key)}
    # Not what else lies there.
    written = [*_mapping(manifest.get("outputs")), *(manifest.get("tracked") or ())]
    tables = {
        table: _rows(folder / f"{table}.csv") if f"{table}.csv" in written else []
        for table in (*TABLES, "overview", "claims")
    }
    tables["tracking"].sort(key=lambda row: [*TRACKING_TONES, row["verdict"]].index(row["verdict"]))
    specs = {label: _mapping(one) for label, one in gathered(sweep, "claims").items()}
    claims = [_claim(row, specs.get(row["claim"], {})) for row in tables["claims"]]
    verdicts = Counter(claim["verdict"] for claim in claims)
    run: dict[str, Any] = {
        "id": name,
        "name": str(manifest.get("sweep", folder.resolve().name)),
        "folder": folder.resolve().name,
        "command": manifest.get("command") or "",
        "origin": _origin(manifest),
        "versions": _mapping(manifest.get("versions")),
        "configuration": yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100),
        "groups": _groups(claims),
        "unknown": UNKNOWN if any(claim["measured"] == "-" for claim in claims) else "",
        "counts": {verdict: verdicts[verdict] for verdict in CLAIM_TONES},
        "pictures": _pictures(folder, written, gathered(sweep, "figures") or _own(tables)),
        "factors": factor_table(tables["factors"]),
        "tables": {table: make_table(tables[table], most, **TABLES[table]) for table in TABLES},
        "libraries": library_tables(tables["overview"], OUTCOMES, AUDIT_TONES),
        "audit": _bounds(tables["audit"], AUDIT_TONES),
        "controls": _bounds(tables["controls"], CONTROL_TONES),
        "tracked": Counter(row["verdict"] for row in tables["tracking"]),
        "failures": [f for f in manifest.get("failures") or [] if {*f} >= {"failure", "replay"}],
    }
    failed = bool(run["failures"] or manifest.get("exit_code"))
    tone = "bad" if failed else _tone(claims, run)
    return run | {"asked": question(tables), "found": answer(tables, run), "tone": tone}


def _tone(claims: Sequence[Mapping[str, Any]], run: Mapping[str, Any]) -> str:
    """That of the worst finding; what is known of others' code is none."""
    tones = [one["tone"] for one in (*claims, *run["controls"])]
    tones += [one["tone"] for one in run["audit"] if one["verdict"] != one.get("expected")]
    return _worst(tones + [TRACKING_TONES.get(verdict, "") for verdict in run["tracked"]])


def _origin(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """When numbers were computed, and what they depend on beside the configuration."""
    known = {key: manifest[key] for key in ORIGIN if manifest.get(key) is not None}
    if "commit" in known and manifest.get("dirty"):
        known["commit"] = f"{known['commit']} with uncommitted changes"
    if when := _mapping(manifest.get("computed")):
        known = {"computed": f"{when['at']}, in {when['seconds']} s"} | known
    return known


def _worst(tones: Collection[str]) -> str:
    return next((tone for tone in SEVERITY if tone in tones), "calm")


def _rows(path: Path) -> list[Row]:
    """The rows of a CSV file; none if it is missing or empty."""
    try:
        with path.open(newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file, restval=""))
    except FileNotFoundError:
        return []


def _mapping(found: object) -> dict[str, Any]:
    return found if isinstance(found, dict) else {}


def _claim(row: Row, spec: Mapping[str, Any]) -> dict[str, Any]:
    """A row of claims.csv, its numbers in print, with what the claim and its theorem say."""
    theorem = THEOREMS.get(str(spec.get("theorem")))
    names = ("predicted", "tolerance", "measured", "low", "high")
    predicted, tolerance, measured, low, high = (as_number(row[name]) for name in names)
    floor = theorem.floor if theorem else None
    limit = "" if floor is None else "≤ "
    low_end, high_end = region(predicted, tolerance, floor)
    wide = high_end - low_end
    return {
        **row,
        "budget": row_budget(row),
        "what": _what(row["variable"], theorem),
        "metric": metric_text(row["metric"]),
        "predicted": f"{limit}{digits(predicted)} ± {digits(tolerance, trailing=False)}",
        "measured": digits(measured) or "-",
        "interval": " … ".join(filter(None, (digits(low), digits(high)))),
        "visible": digits(as_number(row.get("visible"))),
        "reason": spec.get("reason", ""),
        "mark": claim_mark(predicted, tolerance, measured, (low, high), floor),
        "place": 2 * (measured - low_end) / wide - 1 if wide > 0 else math.nan,
        "tone": CLAIM_TONES.get(row["verdict"], ""),
    }


def _groups(claims: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """The claims that say the same, after whom it is by, the worst group first."""
    found: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for claim in claims:
        key = (claim["source"], claim["what"], claim["metric"])
        found.setdefault(key, []).append(claim)
    groups = [
        {
            **dict(zip(("source", "what", "metric"), key, strict=True)),
            "claims": sorted(same, key=lambda claim: SEVERITY.index(claim["tone"] or "calm")),
            "counts": Counter(claim["verdict"] for claim in same),
            "reasons": _reasons(same),
            "mark": group_mark([claim["place"] for claim in same]),
            "tone": _worst([claim["tone"] for claim in same]),
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


def _pictures(
    folder: Path, written: Sequence[str], specs: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """The figures that the run has written, in the configuration's order, then in its own."""
    labels = [path.stem for path in map(Path, written) if path.suffix == ".svg"]
    found = []
    for label in sorted(labels, key=[*specs, *labels].index):
        path, spec = folder / "figures" / f"{label}.svg", _mapping(specs.get(label))
        if not path.is_file():
            continue
        picture = {
            "label": label,
            "caption": str(spec.get("caption") or "").rstrip("."),
            "drawn": _drawn(spec),
            "data": base64.b64encode(path.read_bytes()).decode("ascii"),
        }
        found.append(picture)
    return found


def _drawn(spec: Mapping[str, Any]) -> str:
    """What a figure draws, and its intervals; of one's own kind of figure what it says itself."""
    try:
        # which rows it is about changes no word
        about = {key: value for key, value in spec.items() if key not in SELECTED}
        figure = Figure.build(about, "figure")
    except (ConfigError, KeyError):
        return ""
    if isinstance(figure, DrawnFigure):
        return "; ".join(figure.told())
    return (inspect.getdoc(type(figure)) or "").partition("\n")[0].rstrip(".")


def _own(tables: Mapping[str, Sequence[Row]]) -> dict[str, dict[str, str]]:
    """`OWN_FIGURES`, where that of libraries names those that did not run."""
    missing = ", ".join(row["estimator"] for row in tables["overview"] if not row["n"])
    caption = CAPTIONS["libraries"] + (f"; {missing} did not run" if missing else "")
    return {**OWN_FIGURES, "libraries": {"caption": caption}}


def _bounds(rows: Sequence[Row], tones: Mapping[str, str]) -> list[dict[str, Any]]:
    """The strongest pair of every estimator and budget, the worst first."""
    known = [{**row, "lower_bound": as_number(row["lower_bound"])} for row in rows]
    best: Any = strongest(pd.DataFrame(known)).to_dict("records") if known else []
    found = []
    for row in best:
        bound, claimed = row["lower_bound"], as_number(row["claimed"])
        lost = bound / claimed if bound >= 0 and claimed > 0 else -1.0
        more = {"lower_bound": digits(bound), "mark": bound_mark(claimed, bound), "lost": lost}
        found.append({**row, **more, "tone": tones.get(row["verdict"], "")})
    return sorted(found, key=lambda one: (one["tone"] != "bad", -one["lost"]))
