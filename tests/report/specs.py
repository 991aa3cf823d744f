"""Figures that several tests draw."""

from __future__ import annotations

PAID = {"pure": {"epsilon": 1}}
ERROR = {"kind": "error_against_n", "families": ["gaussian", "student"], "budgets": PAID}
ACCURACY = {"kind": "sample_complexity_curves", "request": "accuracy"}
THRESHOLD = {"kind": "thresholds", "request": "threshold"}
CLIP = {
    "kind": "decomposition", "families": "pair", "estimators": "clip", "chosen": "minimax",
    "budgets": PAID, "n": 1e6,
}  # fmt: skip
