from __future__ import annotations

import csv
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from dpbench.report.drawing.curves import draw_bound, draw_curve
from dpbench.report.drawing.style import Axes, legend, line_styles, panels, save, style

HOSTILE = (
    "</script><script>window.hacked = 1</script><!--<img src=x onerror='window.hacked = 2'>"
    '" &lt;b&gt; \u202egnirts\u202c \u2028 🎲'
)
SVG = (
    '<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 70 40">'
    '<rect width="70" height="40" fill="#fff"/><circle cx="9" cy="9" r="5"/></svg>'
)
CLAIM = {
    "claim": "rate", "source": "KSU20", "estimator": "minimax", "distribution": "two_point",
    "variable": "alpha", "metric": "q90", "predicted": 2.0, "measured": 1.99, "low": 1.98,
    "high": 2.01, "tolerance": 0.02, "verdict": "consistent", "privacy": "pure",
    "epsilon": 0.01, "checks": "theorem", "theorem": 2.0, "exact_at_run_n": "",
    "theorem_verdict": "consistent", "asymptotic_from": "",
}  # fmt: skip
PAIR = {
    "estimator": "clipped", "notion": "pure", "delta": "", "claimed": 1.0, "pair": "edge",
    "pairs": 9, "runs": 1000, "lower_bound": 0.5, "detectable_noise": "",
    "move_over_sensitivity": "", "verdict": "not refuted", "refuted_by_replay": "", "seconds": 1.5,
}  # fmt: skip
MANIFEST: dict[str, Any] = {
    "sweep": "example",
    "command": "python -m dpbench sweep=example",
    "configuration": {
        "sweep": {
            "name": "example",
            "question": "Is the mean private?",
            "claims": {"rate": {"theorem": "heavy_tail_alpha", "reason": "n is finite"}},
            "parts": {
                "worst": {
                    "families": ["two_point*"],
                    "claims": {"near": {"theorem": "near_optimal", "reason": "few members"}},
                    "figures": {"curves": {"kind": "error_against_n", "caption": "The <worst>"}},
                }
            },
        },
        "seed": 7,
    },
    "seed": 7,
    "versions": {"python": "3.11.0", "numpy": "2.4.6"},
    "platform": "linux x86_64",
    "commit": "0123abc",
    "dirty": True,
    "sections": [
        "failures",
        "baseline",
        "verdicts",
        "means",
        "rerun",
        "claims",
        "limit",
        "privacy",
        "figures",
        "samples",
        "errors",
        "origin",
    ],
    "failures": [{"failure": "ValueError: too few", "rerun": "python -m dpbench rerun=ab"}],
    "exit_code": 1,
    "wall_seconds": 1.0,
    "computed": {"at": "2026-01-02 03:04 UTC", "seconds": 5.6},
    "outputs": {
        name: [0, 0]
        for name in (
            "summary.csv",
            "claims.csv",
            "factors.csv",
            "sample_complexity.csv",
            "audit.csv",
            "controls.csv",
            "figures/curves.svg",
            "figures/another.svg",
            "figures/another.pdf",
        )
    },
    "tracked": ["tracking.csv"],
}


def factor_row(
    law: str, k: object, n: int, factor: float, verdict: str, spread: float = 0.0
) -> dict[str, object]:
    return {
        "distribution": law, "k": k, "privacy": "pure", "epsilon": 1e-6, "n": n,
        "estimator": "minimax", "error_over_bound": factor, "error_over_bound_low": factor - spread,
        "error_over_bound_high": factor + spread,
        "error_over_bound_from": "trials" if spread else "exact value",
        "bound_name": "two-point", "verdict": verdict,
    }  # fmt: skip


def write_table(path: Path, rows: Sequence[Mapping[str, object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        table = csv.DictWriter(file, fieldnames=list(rows[0]))
        table.writeheader()
        table.writerows(rows)


def summary_rows(count: int) -> list[dict[str, object]]:
    return [
        {
            "distribution": f"two_point_c{i % 4}", "family": "two_point", "k": 2.0,
            "estimator": ("minimax", "rate", "all")[i % 3], "privacy": "pure", "epsilon": 0.01,
            "rho": "", "n": 10 ** (i % 13), "trials": 100, "q90": "" if i == 5 else (i + 1) / 3,
            "rmse": "inf" if i == 6 else i,
        }
        for i in range(count)
    ]  # fmt: skip


def write_run(
    folder: Path, *, rows: int = 250, manifest: Mapping[str, Any] = MANIFEST, label: str = ""
) -> Path:
    """A folder with something of every kind; `label` is put into all of its labels."""
    (folder / "figures").mkdir(parents=True)
    (folder / "figures" / "curves.svg").write_text(SVG)
    (folder / "manifest.json").write_text(json.dumps(manifest))
    limit = {
        **CLAIM,
        "claim": "near",
        "variable": "error_over_bound",
        "predicted": 1.25,
        "theorem": 1.25,
    }
    labelled = {"estimator": f"minimax{label}", "distribution": f"two_point{label}"}
    claims = [CLAIM | labelled, limit | {"measured": 1.0, "low": 0.99, "high": 1.02}]
    write_table(folder / "claims.csv", claims)
    summary = [row | {"estimator": f"{row['estimator']}{label}"} for row in summary_rows(rows)]
    write_table(folder / "summary.csv", summary)
    factors = [
        factor_row("rare_k2", 2.0, 100, 1.04, "optimal"),
        factor_row("rare_k2", 2.0, 1000, 1.01, "optimal"),
        factor_row("rare_k3", 3.0, 100, 1.05, "optimal"),
        factor_row("rare_k3", 3.0, 1000, 1.2, "open", spread=0.1),
        factor_row(f"coin{label}", "", 100, 0.9, "below"),
    ]
    write_table(folder / "factors.csv", factors)
    sample = {"request": f"accuracy{label}", "alpha": 0.1, "samples": 100.5, "low": 90, "high": 110}
    write_table(folder / "sample_complexity.csv", [sample])
    pair = PAIR | {"pair": f"edge{label}"}
    refuted = pair | {"lower_bound": 1.5, "verdict": "refuted", "notion": "approx", "delta": 0.01}
    strongest = pair | {"lower_bound": 0.9, "pair": f"far{label}", "detectable_noise": 0.5}
    weaker = refuted | {"lower_bound": "", "verdict": "failed", "delta": 1e-6}
    refuted |= {"move_over_sensitivity": 2.0, "refuted_by_replay": "add_noise moves by 2"}
    write_table(folder / "audit.csv", [pair, strongest, refuted, weaker])
    write_table(folder / "controls.csv", [refuted, pair | {"estimator": "no_noise"}])
    ratio = {"estimator": f"rate{label}", "trimmed_mean_error": 1.0, "verdict": "same"}
    worse = ratio | {"trimmed_mean_error": 1.3, "verdict": "worse"}
    write_table(folder / "tracking.csv", [ratio, worse])
    return folder


def write_interactive_run(folder: Path, errors: int = 2) -> Path:
    """A folder with two figures that have numbers, and one that has none.

    The first figure has `errors` panels.
    """
    names = [f"figures/{name}" for name in ("errors.svg", "errors.json", "side.svg", "side.json")]
    outputs = MANIFEST["outputs"] | {name: [0, 0] for name in names}
    write_run(folder, rows=3, manifest=MANIFEST | {"outputs": outputs})
    with style():
        for name, count in (("errors", errors), ("side", 1)):
            canvas, axes = panels(count)
            for i, ax in enumerate(axes):
                _draw_errors(ax, 10.0**i)
            legend(canvas)
            save(canvas, folder / "figures", name, ("svg", "json"))
    return folder


def _draw_errors(ax: Axes, scale: float) -> None:
    """Curves of known data: at n = 100 the `wide` clip has the error 0.5 * `scale`."""
    looks, n = line_styles(["wide <b>", "narrow"]), np.array([100.0, 1000.0, 1e4, 1e5])
    wide = scale * np.array([0.5, 0.05, np.nan, 1e-9])  # a gap, and a value below the frame
    draw_curve(ax, n, wide, wide / 2, wide * 1e9, label="wide <b>", look=looks["wide <b>"])
    narrow = scale * np.array([0.02, 0.012345, 0.009, 0.008])
    ends = narrow * 0.9, narrow * 1.1
    draw_curve(ax, n, narrow, *ends, label="narrow", look=looks["narrow"])
    draw_bound(ax, n, 0.1 * scale / n, label="lower bound")
    ax.set(xscale="log", yscale="log", ylim=(1e-5 * scale, scale), xlabel="$n$", ylabel="error")
    ax.text(0.9, 0.5, "a note at the edge", transform=ax.transAxes)
    ax.set_title(rf"$k = {scale:g}$")
