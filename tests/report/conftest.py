"""Two studies that are run once, and what looks at their figures."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure as Canvas
from matplotlib.lines import Line2D

import dpbench
from dpbench.report.parameter_figures import GUIDES
from dpbench.result import Result
from dpbench.runner.store import Store

Line = tuple[str, list[float], list[float]]

TRIALS = 40
# Every kind of figure has something to show of it.
NUMBERS: dict[str, Any] = {
    "name": "numbers",
    "families": {
        "gaussian": {"kind": "gaussian", "location": 0.3},
        "student": {"kind": "student_t", "tail_index": 5},
        "pair": {"kind": "two_point_family", "k": [2, 3], "c": [0, 1]},
    },
    "estimators": {
        "naive": {"kind": "naive_gaussian_mean", "radius": [10, 1000]},
        "free": {"kind": "karwa_vadhan_mean", "radius": None},
        "histogram": {"kind": "karwa_vadhan_mean", "radius": [10, 1e6, 1e300]},
        "shrinking": {"kind": "shrinking_intervals", "radius": 100, "rounds": [1, 2, 4]},
        "minimax": {"kind": "heavy_tailed_mean"},
        "clip": {"kind": "heavy_tailed_mean", "clip_at": [3, 30, 300]},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {
        "pure": {"kind": "pure_dp", "epsilon": [0.5, 1]},
        "zcdp": {"kind": "zcdp", "rho": 0.5},
        "approx": {"kind": "approx_dp", "epsilon": 1, "delta": [1e-6, 1e-100]},
    },
    "parts": {
        "normal": {
            "families": ["gaussian", "student"],
            "estimators": ["!minimax", "!clip"],
            "n": [30, 100, 300, 1000, 3000],
            "trials": TRIALS,
        },
        "heavy": {
            "families": "pair",
            "estimators": ["minimax", "clip"],
            "budgets": ["pure", "zcdp"],
            "n": [1e4, 1e6, 1e8],
            "trials": TRIALS,
            "claims": {
                "rate": {
                    "theorem": "heavy_tail_alpha", "estimators": "minimax", "n_min": 1e6,
                    "tolerance": 0.5, "reason": "few trials",
                },
                "near": {
                    "theorem": "near_optimal", "estimators": "minimax",
                    "budgets": {"pure": {"epsilon": 0.5}}, "tolerance": 0.5,
                    "reason": "two <members>",
                },
            },
            "figures": {
                "worst": {
                    "kind": "error_against_n", "estimators": "minimax", "by": "budget",
                    "caption": "The worst of <two>",
                },
            },
        },
    },
    "claims": {
        "limit": {  # of an exponent, from above
            "theorem": "covariance_alpha", "families": "gaussian",
            "estimators": {"naive": {"radius": 10}}, "budgets": "zcdp", "n_min": 300,
            "tolerance": 1.0, "reason": "few trials",
        },
    },
    "sample_complexity": {
        "accuracy": {
            "families": "gaussian",
            "estimators": {"naive": {}, "histogram": {"radius": 1e6}},
            "budgets": {"pure": {"epsilon": 1}, "zcdp": {}},
            "low": 0.05, "high": 3, "points": 5, "search": 1.0, "trials": TRIALS,
        },
        "threshold": {
            "families": "gaussian", "estimators": ["naive", "histogram"],
            "budgets": ["pure", "zcdp"], "low": 2, "high": 2, "points": 1,
        },
        "deltas": {
            "families": ["gaussian", "student"], "estimators": "free", "budgets": "approx",
            "low": 2, "high": 2, "points": 1,
        },
    },
    "figures": {
        "exponents": {"kind": "exponents", "claims": "rate", "caption": "Exponents against k"},
    },
}  # fmt: skip
DELTAS = [1e-4, 1e-6, 1e-9]
CUBE: dict[str, Any] = {"families": "cube", "estimators": "additive", "tolerance": 0.1}
CUBE |= {"reason": "few trials"}
VECTORS: dict[str, Any] = {
    "name": "vectors",
    "families": {
        "cube": {"kind": "hypercube", "d": [4, 16, 64]},
        "gaussian": {"kind": "multivariate_gaussian", "d": 3, "norm": [1, 1e3, 1e6]},
        "cluster": {
            "kind": "multivariate_contaminated_gaussian",
            "d": [2, 3], "gap": 1e3, "eta": [0, 0.1, 0.2, 0.6],
        },
    },
    "estimators": {
        "additive": {"kind": "bounded_mean", "radius": 1},
        "scaled": {"kind": "bounded_mean", "radius": [1, 10, 100]},
        "friendly": {"kind": "friendly_core_mean"},
        "friendly_low": {"kind": "friendly_core_mean", "threshold": 0.05},
        "mean": {"kind": "empirical_mean"},
    },
    "budgets": {
        "pure": {"kind": "pure_dp", "epsilon": [0.5, 1]},
        "zcdp": {"kind": "zcdp", "rho": 0.5},
        "approx": {"kind": "approx_dp", "epsilon": 1, "delta": DELTAS},
        "classical": {
            "kind": "approx_dp", "epsilon": 1, "delta": DELTAS, "noise_by": "classical",
        },
    },
    "parts": {
        "cube": {
            "families": "cube", "estimators": "!friendly*", "n": [100, 300], "trials": TRIALS,
        },
        "friends": {
            "families": "!cube", "estimators": ["friendly*", "mean"], "budgets": "approx",
            "n": [300], "trials": TRIALS,
        },
    },
    "claims": {
        "pure": {**CUBE, "theorem": "pure_dimension", "budgets": "pure"},
        "gaussian": {**CUBE, "theorem": "gaussian_dimension", "budgets": "zcdp"},
        "private": {**CUBE, "theorem": "ball_dimension", "budgets": "pure"},
        "radius": {**CUBE, "theorem": "ball_radius", "estimators": "scaled", "budgets": "zcdp"},
        "delta": {**CUBE, "theorem": "classical_delta", "budgets": "classical"},
        "norm": {
            **CUBE, "theorem": "core_norm", "estimators": "friendly", "families": "gaussian",
            "budgets": {"approx": {"delta": 1e-6}},
        },
    },
}  # fmt: skip


@pytest.fixture(scope="session")
def numbers(tmp_path_factory: pytest.TempPathFactory) -> Result:
    return dpbench.run(NUMBERS, out=tmp_path_factory.mktemp("run") / "numbers", n_jobs=1)


@pytest.fixture(scope="session")
def folder(numbers: Result) -> Path:
    """Where the run of `NUMBERS` was written, for tests to read."""
    assert isinstance(numbers.blocks, Store)
    return numbers.blocks.folder.parent


@pytest.fixture(scope="session")
def vectors() -> Result:
    return dpbench.run(VECTORS, n_jobs=1)


def drawn(result: Result, spec: Mapping[str, Any] | str) -> list[Axes]:
    """The panels of a figure, after it was laid out: warnings are errors here."""
    canvas: Canvas = result.figure(spec)
    canvas.canvas.draw()
    return [ax for ax in canvas.axes if ax.get_visible()]


def lines(ax: Axes, label: str | None = None) -> list[Line]:
    """Label and points of every line that has a label; of those with one, if it is given."""
    found = []
    for handle, name in zip(*ax.get_legend_handles_labels(), strict=True):
        line = handle[0] if isinstance(handle, tuple) else handle  # of an errorbar
        if isinstance(line, Line2D) and label in {None, name}:
            x, y = (np.asarray(data, dtype=float).tolist() for data in line.get_data())
            found.append((name, x, y))
    return found


def curves(ax: Axes) -> dict[str, tuple[list[float], list[float]]]:
    """The points of what is measured, by label: of all but theory, guides and bounds."""
    others = {"slope by theory", "slowest slope by theory", "theory", "lower bound"}
    others |= {guide.label for guide in GUIDES.values()}
    measured = [one for one in lines(ax) if one[0] not in others]
    assert len({label for label, _, _ in measured}) == len(measured)  # one label, one line
    return {label: (x, y) for label, x, y in measured}


def rows(result: Result, **about: Any) -> pd.DataFrame:
    """The rows of the summary with these values."""
    table = result.summary
    for name, value in about.items():
        table = table[table[name] == value]
    assert not table.empty
    return table
