"""What the page shows of a run, read from the run's folder."""

from __future__ import annotations

import base64
import csv
import inspect
import json
import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd
import yaml

from dpbench.audit.report import strongest
from dpbench.drawing import spaced
from dpbench.metrics import VARIABLES
from dpbench.report.page_tables import Row, as_number, bound_mark, claim_mark, digits, make_grid
from dpbench.report.words import exponent_text, metric_text
from dpbench.study import Figure, gathered
from dpbench.theory.theorems import THEOREMS, Theorem

__all__ = ["CLAIM_TONES", "read_manifest", "read_run"]

# What is measured where it is no exponent.
MEASURED = {
    "level": "measured over the exact value",
    "factor": "error over the lower bound",
    "ratio": "error over another estimator's",
    "limit": "worst value",
}
SUPERSCRIPTS = {"c": "ᶜ", "s": "ˢ"}
AMOUNTS = {"epsilon": "ε", "delta": "δ", "rho": "ρ", "mu": "μ"}  # noqa: RUF001
CLAIM_TONES = {"consistent": "good", "inconsistent": "bad", "inconclusive": "unsure"}
# not refuted is no proof, so it is not good
AUDIT_TONES = {"not refuted": "calm", "refuted": "bad", "failed": "bad"}
# A control is broken: here it is bad news that no pair shows it.
CONTROL_TONES = {"refuted": "good", "not refuted": "bad", "failed": "bad"}
# The worst first.
TRACKING_TONES = {
    "worse": "bad", "gone": "bad", "better": "good", "new": "unsure",
    "changed-within-noise": "calm", "same": "calm",
}  # fmt: skip
# The tables that can be sorted and filtered, by file.
GRIDS: dict[str, dict[str, Any]] = {
    "factors": {
        "caption": "The best estimator's worst 0.9 quantile over what no private estimator beats",
        "tones": {"optimal": "good", "open": "unsure", "below": "calm", "one law": "calm"},
    },
    "sample_complexity": {"caption": "The smallest n with P(error ≤ α) ≥ 1 - β"},  # noqa: RUF001
    "summary": {
        "caption": "Errors, a row per distribution, estimator, budget and n",
        "main": ("distribution", "k", "estimator", "privacy", "epsilon", "delta", "rho", "mu", "n",
                 "failure_rate", "spent", "trimmed_mean", "q90", "q90_low", "q90_high",
                 "lower_bound"),
    },
    "audit": {"caption": "The most promising pairs of each", "tones": AUDIT_TONES},
    "controls": {"caption": "The most promising pairs of each control", "tones": CONTROL_TONES},
    "tracking": {
        "caption": "Errors of this run over those of the baseline",
        "main": ("estimator", "distribution", "privacy", "epsilon", "delta", "rho", "mu", "n",
                 "comparison", "trimmed_mean", "trimmed_mean_low", "trimmed_mean_high",
                 "smallest_visible", "verdict"),
        "tones": TRACKING_TONES,
    },
}  # fmt: skip
# Of a manifest's keys, those that no rerun changes.
ORIGIN = ("seed", "trials", "commit", "platform", "exit_code")


def read_manifest(folder: Path) -> dict[str, Any]:
    """The manifest of a folder; empty if there is none that can be read."""
    try:
        return _mapping(json.loads((folder / "manifest.json").read_text(encoding="utf-8")))
    except (OSError, ValueError, RecursionError):
        return {}


def read_run(folder: Path, name: str) -> dict[str, Any]:
    """What the template shows of a run's folder; `name` begins the ids of its elements."""
    manifest = read_manifest(folder)
    configuration = _mapping(manifest.get("configuration"))
    sweep = _mapping(configuration.get("sweep"))
    telling = ("sweep", "seed", "trials", "plugins")  # what numbers depend on
    shown = {key: configuration[key] for key in telling if configuration.get(key)}
    origin = {key: manifest[key] for key in ORIGIN if manifest.get(key) is not None}
    if "commit" in origin and manifest.get("dirty"):
        origin["commit"] = f"{origin['commit']} with uncommitted changes"
    # Not what else lies there.
    written = {*_mapping(manifest.get("outputs")), *(manifest.get("tracked") or ())}
    tables = {
        table: _rows(folder / f"{table}.csv") if f"{table}.csv" in written else []
        for table in (*GRIDS, "claims")
    }
    tables["tracking"].sort(key=lambda row: [*TRACKING_TONES, row["verdict"]].index(row["verdict"]))
    specs = {label: _mapping(one) for label, one in gathered(sweep, "claims").items()}
    claims = [_claim(row, specs.get(row["claim"], {})) for row in tables["claims"]]
    verdicts = Counter(claim["verdict"] for claim in claims)
    return {
        "id": name,
        "name": str(manifest.get("sweep", folder.resolve().name)),
        "folder": folder.resolve().name,
        "origin": origin,
        "versions": _mapping(manifest.get("versions")),
        "configuration": yaml.safe_dump(shown, sort_keys=False, allow_unicode=True, width=100),
        "claims": claims,
        "counts": {verdict: verdicts[verdict] for verdict in CLAIM_TONES},
        "specs": specs,
        "pictures": _pictures(folder, written, gathered(sweep, "figures")),
        "grids": {table: make_grid(tables[table], **GRIDS[table]) for table in GRIDS},
        "audit": _bounds(tables["audit"], AUDIT_TONES),
        "controls": _bounds(tables["controls"], CONTROL_TONES),
        "tracked": Counter(row["verdict"] for row in tables["tracking"]),
        "failures": [f for f in manifest.get("failures") or [] if {*f} >= {"failure", "replay"}],
    }


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
    amounts = {sign: as_number(row.get(name)) for name, sign in AMOUNTS.items()}
    known = [f"{sign} = {value:g}" for sign, value in amounts.items() if not math.isnan(value)]
    return {
        **row,
        "budget": ", ".join(filter(None, [spaced(row.get("privacy", "")), *known])),
        "what": _what(row["variable"], theorem),
        "metric": metric_text(row["metric"]),
        "predicted": f"{limit}{digits(predicted)} ± {digits(tolerance, trailing=False)}",
        "measured": digits(measured),
        "interval": " … ".join(filter(None, (digits(low), digits(high)))),
        "visible": digits(as_number(row.get("visible"))),
        "reason": spec.get("reason", ""),
        "mark": claim_mark(predicted, tolerance, measured, (low, high), floor),
        "tone": CLAIM_TONES.get(row["verdict"], ""),
    }


def _what(variable: str, theorem: Theorem | None) -> str:
    """The number that a claim is about."""
    if theorem is None or variable not in VARIABLES:
        return MEASURED.get(variable, variable)
    what, base, sign = exponent_text(theorem)
    return f"{sign} in {what} ~ {base}{SUPERSCRIPTS[sign]}"


def _pictures(folder: Path, written: set[str], specs: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The figures that the run has written, in the configuration's order."""
    labels = [path.stem for path in map(Path, sorted(written)) if path.suffix == ".svg"]
    found = []
    for label in sorted(labels, key=[*specs, *labels].index):
        path, spec = folder / "figures" / f"{label}.svg", _mapping(specs.get(label))
        if not path.is_file():
            continue
        known = Figure.find(spec)
        about = (inspect.getdoc(known) or "").partition("\n")[0] if known else ""
        told = {"kind", "_target_", "caption", "ylabel"}
        settings = {k: v for k, v in spec.items() if k not in told and v is not None}
        picture = {
            "label": label,
            "kind": spaced(str(spec.get("kind") or spec.get("_target_") or "")),
            "caption": str(spec.get("caption") or about).rstrip("."),
            "settings": {spaced(str(key)): _listed(value) for key, value in settings.items()},
            "data": base64.b64encode(path.read_bytes()).decode("ascii"),
        }
        found.append(picture)
    return found


def _listed(value: object) -> str:
    if isinstance(value, float):
        return f"{value:g}"
    if isinstance(value, dict):
        return ", ".join(f"{key} {_listed(one)}".strip() for key, one in value.items())
    if isinstance(value, list):
        return ", ".join(map(_listed, value))
    return "" if value is None else str(value)


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
