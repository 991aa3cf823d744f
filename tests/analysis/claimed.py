"""What tests of claims share."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.sweeps import CLIP

# Each kind of claim, on errors that follow a law exactly, follow another, or hardly say.


def sizes_of(low: float, high: float, points: int) -> list[int]:
    return [round(n) for n in np.geomspace(low, high, points)]


def pure_budgets(*epsilon: float) -> dict[str, Any]:
    return {"pure": {"kind": "pure_dp", "epsilon": list(epsilon)}}


def radii_of(*radius: float) -> dict[str, Any]:
    return {"naive": {"kind": "naive_gaussian_mean", "sigma": 1, "radius": list(radius)}}


LOCAL = {"pair": {"kind": "two_point_family", "k": 2, "c": [1, 2, 3, 4], "scaling": "local"}}
LARGE = sizes_of(1e5, 1e12, 8)
GRID = sizes_of(100, 1e6, 33)
RADII = radii_of(1e3, 1e30, 1e100, 1e300)
VECTORS = {"families": {"g": {"kind": "multivariate_gaussian", "d": [4, 16, 64]}},
           "estimators": {"ball": {"kind": "l2_clipped_mean", "radius": 1}}}  # fmt: skip
DELTAS = {"approx": {"kind": "approx_dp", "epsilon": 1, "delta": [1e-6, 1e-25, 1e-200]}}
TWO = {"clip": CLIP, "over": {**CLIP, "upper": 2}}


# What is run, and an error such that the number is s, as a function of the row of a key.
LAWS: dict[str, tuple[dict[str, Any], Callable[[Any, float], float], dict[str, Any]]] = {
    # The worst member changes with n; each alone would give another slope.
    "heavy_tail_alpha": (
        {"families": LOCAL, "n": LARGE},
        lambda row, s: row.n ** (-1 / s)
        * (1 if int(row.distribution[-1]) == LARGE.index(row.n) % 4 + 1 else 0.2),
        {},
    ),
    "clipping_bias": ({"n": GRID[::8]}, lambda row, s: 0.3 * row.n**s, {}),
    "no_radius": (
        {"n": [1000, 3000], "estimators": RADII},
        lambda row, s: row.n**-0.7 * row.radius**s, {"tolerance": 1e-3},
    ),
    "ball_dimension": (
        {**VECTORS, "n": [4000, 8000]}, lambda row, s: (row.d**s / row.n) ** 0.5, {},
    ),
    "coarse_delta": (
        {"n": GRID, "budgets": DELTAS},
        lambda row, s: 30 * math.log(1 / row.delta) ** s / row.n, {"alpha": 0.2},
    ),
    "near_optimal": (
        {"families": LOCAL, "n": LARGE[::2], "bounds": True},
        lambda row, s: s * row.lower_bound, {},
    ),
    "noise_ratio": (
        {"estimators": TWO, "n": GRID[::8]},
        lambda row, s: (s if row.estimator == "clip" else 1.0) / row.n,
        {"denominator": "over", "predicted": 1.4},
    ),
    "heavy_tail_guarantee": (
        {"estimators": TWO}, lambda row, s: s if (row.n, row.estimator) == (1000, "clip") else 0.1,
        {},
    ),
    "core_weight": (
        {"estimators": TWO}, lambda row, s: s if (row.n, row.estimator) == (100, "over") else 0.1,
        {"predicted": 0.5},
    ),
}  # fmt: skip
