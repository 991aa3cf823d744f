"""Page of a plan that opens from disk: sliders for n, budget and clip, and the printed plan.

The script ``plan.js`` computes the errors by the formulas of `dpbench.planner.prediction`.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from dpbench.distributions import Distribution
from dpbench.estimators.estimands import MEAN
from dpbench.output.files import atomic
from dpbench.planner.answer import PlanNumbers
from dpbench.planner.page import NEIGHBOURS
from dpbench.planner.prediction import BoundedMoment, BoundedRecords, Problem
from dpbench.report.page import embed, read_file, template
from dpbench.theory.exact.noise import standard_normal

__all__ = ["write"]

SPAN = 100.0  # sliders for n and the budget reach from 1/SPAN to SPAN of the planned value
# Parameters of distributions that have sliders, and numbers between which they and delta may be.
PARAMETERS = ("location", "scale", "p", "k", "sigma", "tail_index")
LIMITS = {
    "delta": (0.0, 1.0),
    "location": (-1e300, 1e300),
    "scale": (0.0, 1e300),
    "p": (0.0, 1.0),
    "k": (1.99, 100.0),
    "sigma": (0.0, 5.0),
    "tail_index": (1.0, 1e4),
}
# Distributions whose points the script ``plan.js`` computes.
FORMULAS = ("bernoulli", "gaussian", "log_normal", "pareto", "student_t", "two_point")


class Slider(NamedTuple):
    """Slider of the page: its label, its first value, where it reaches, and its scale."""

    label: str
    value: float
    reach: tuple[float, float]
    logarithmic: bool = False


def write(plan: PlanNumbers, text: str, folder: Path) -> Path:
    """Write the page ``plan.html`` of a plan, and return its path.

    `text` is the printed plan, which the page repeats. If the number of records is private, or a
    variance is planned, the page has no sliders. The folder must exist.
    """
    is_mean = plan.problem.estimand is MEAN
    public = plan.budget.neighbours == "replace" and is_mean
    own = {
        file: read_file(file, "dpbench.planner") for file in ("plan.html", "plan.css", "plan.js")
    }
    sliders = _sliders(plan)
    numbers = _numbers(plan, sliders) if public else None
    alpha = plan.alpha or float(f"{plan.expected.q90:.3g}")
    parts = embed(read_file("page.css") + own["plan.css"], [own["plan.js"]] if public else [])
    page = template(own["plan.html"]).render(
        target=plan.problem.estimand,
        limits="a public number of records" if is_mean else "means",
        known=plan.known.replace("\n", "; "),
        neighbours=NEIGHBOURS[plan.budget.neighbours],
        inputs={**sliders, "alpha": Slider("wanted error", alpha, (0.0, 0.0))},
        points=len(numbers.get("values", ())) if numbers else 0,
        **{"numbers": numbers, "text": text, **parts},
    )
    target = folder / "plan.html"
    with atomic(target) as path:
        path.write_text(page, encoding="utf-8")
    return target


def _numbers(plan: PlanNumbers, sliders: dict[str, Slider]) -> dict[str, Any]:
    """Return what ``plan.js`` needs: the problem, and the ranges of sliders and values."""
    problem = plan.problem
    ends = [float(np.clip(end, -1e300, 1e300)) for end in (problem.low, problem.high)]
    z, weights = standard_normal()
    order = np.argsort(np.abs(z), kind="stable")
    level = np.searchsorted(np.cumsum(weights[order]), 0.9)
    return {
        "key": next(iter(plan.budget.named_amounts)),
        "ends": ends if _is_known(problem) else [-1e300, 1e300],
        "normal_quantile": float(np.abs(z)[order][level]),
        "sliders": {key: slider.reach for key, slider in sliders.items()},
        "logarithmic": [key for key, slider in sliders.items() if slider.logarithmic],
        "limits": {key: LIMITS[key] for key in sliders if key in LIMITS},
        "parameters": _parameters(plan.law) if _is_known(problem) else {},
        **_class(plan),
    }


def _is_known(problem: Problem) -> bool:
    return not isinstance(problem, BoundedMoment | BoundedRecords)


def _class(plan: PlanNumbers) -> dict[str, Any]:
    """Return the kind of a problem, and its distribution or parameters for ``plan.js``.

    The script has formulas for the points of some distributions. It gets the points of others.
    """
    problem = plan.problem
    if isinstance(problem, BoundedMoment):
        return {"kind": "moment", **vars(problem)}
    if isinstance(problem, BoundedRecords):
        return {"kind": "records"}
    law = plan.law.kind_name() if plan.law is not None and _parameters(plan.law) else ""
    known = {"kind": "known", "law": law, "sign": getattr(plan.law, "sign", 1)}
    if law in FORMULAS:
        return known
    atoms = {"values": problem.values.tolist(), "weights": problem.weights.tolist()}
    return {**known, "target": problem.target, **atoms}


def _parameters(law: Distribution | None) -> dict[str, float]:
    """Return the parameters of a distribution that sliders may change; none if its scale follows.

    The scale follows from other parameters if ``standardised_moment`` is given. The shapes of a
    beta distribution have no sliders, because the script does not invert its distribution function.
    """
    if law is None or getattr(law, "standardised_moment", None) is not None:
        return {}
    return {name: float(getattr(law, name)) for name in PARAMETERS if hasattr(law, name)}


def _sliders(plan: PlanNumbers) -> dict[str, Slider]:
    """Return the sliders of a plan: those of all plans, and of delta and the distribution."""
    clip, problem = plan.clip, plan.problem
    (name, amount), *others = plan.budget.named_amounts.items()
    ends = "bound" if isinstance(problem, BoundedRecords) else "end of the clip"
    width = clip[1] - clip[0]
    sides = (clip[0] - width, clip[1] + width)
    if _is_known(problem):
        sides = max(problem.low, sides[0]), min(problem.high, sides[1])
    sliders = {
        "n": Slider("records n", plan.n, (max(1, plan.n // int(SPAN)), plan.n * SPAN), True),
        "amount": Slider(name, amount, (amount / SPAN, amount * SPAN), True),
        **{key: Slider(key, x, (x / 1000, min(1000 * x, 0.5)), True) for key, x in others},
        "lower": Slider(f"lower {ends}", clip[0], sides),
        "upper": Slider(f"upper {ends}", clip[1], sides),
    }
    for key, x in (_parameters(plan.law) if _is_known(problem) else {}).items():
        log = key != "location"
        reach = (x / 10, 10 * x) if log else (x - width, x + width)
        low, high = LIMITS[key]
        # A little inside the limits, which are excluded.
        reach = max(reach[0], low * (1 + 0.01 * (low > 0))), min(reach[1], high * 0.99)
        sliders[key] = Slider(f"{key} of the distribution", x, reach, log)
    return sliders
