"""Page of a plan that opens from disk: sliders for n, budget and clip, and the printed plan.

The script ``plan.js`` computes the errors by the formulas of `dpbench.planner.prediction`.
"""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from dpbench.estimators.estimands import MEAN
from dpbench.output.files import atomic
from dpbench.planner.answer import PlanNumbers
from dpbench.planner.page import NEIGHBOURS
from dpbench.planner.prediction import BoundedMoment, BoundedRecords, Problem
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.report.page import embed, read_file, template
from dpbench.theory.exact.noise import additive, standard_normal

__all__ = ["write"]

SPAN = 100.0  # sliders for n and the budget reach from 1/SPAN to SPAN of the planned value
BUDGET_SPAN, BUDGET_POINTS = 1e5, 2001  # amounts at which the noise is tabulated


def write(plan: PlanNumbers, text: str, folder: Path) -> Path:
    """Write the page ``plan.html`` of a plan, and return its path.

    `text` is the printed plan, which the page repeats. If the number of records is private, or a
    variance is planned, the page has no sliders. The folder must exist.
    """
    name, *_ = plan.budget.named_amounts
    is_mean = plan.problem.estimand is MEAN
    public = plan.budget.neighbours == "replace" and is_mean
    own = {
        file: read_file(file, "dpbench.planner") for file in ("plan.html", "plan.css", "plan.js")
    }
    numbers = _numbers(plan) if public else None
    values = {
        "n": plan.n,
        "amount": plan.budget.named_amounts[name],
        "lower": plan.clip[0],
        "upper": plan.clip[1],
        "alpha": plan.alpha or float(f"{plan.expected.q90:.3g}"),
    }
    ends = "bound" if isinstance(plan.problem, BoundedRecords) else "end of the clip"
    labels = {"n": "records n", "amount": name, "lower": f"lower {ends}", "upper": f"upper {ends}"}
    parts = embed(read_file("page.css") + own["plan.css"], [own["plan.js"]] if public else [])
    page = template(own["plan.html"]).render(
        target=plan.problem.estimand,
        limits="a public number of records" if is_mean else "means",
        known=plan.known.replace("\n", "; "),
        neighbours=NEIGHBOURS[plan.budget.neighbours],
        labels={**labels, "alpha": "wanted error"},
        points=len(numbers.get("values", ())) if numbers else 0,
        **{"numbers": numbers, "values": values, "text": text, **parts},
    )
    target = folder / "plan.html"
    with atomic(target) as path:
        path.write_text(page, encoding="utf-8")
    return target


def _numbers(plan: PlanNumbers) -> dict[str, Any]:
    """Return what ``plan.js`` needs: the problem, the noise of each amount, the sliders' ranges."""
    problem, (name, amount), clip = (
        plan.problem,
        next(iter(plan.budget.named_amounts.items())),
        plan.clip,
    )
    ends = [float(np.clip(end, -1e300, 1e300)) for end in (problem.low, problem.high)]
    known = not isinstance(problem, BoundedMoment | BoundedRecords)
    sides = [max(ends[0], 2 * clip[0] - clip[1]), min(ends[1], 2 * clip[1] - clip[0])]
    if not known:
        width = clip[1] - clip[0]
        sides = [clip[0] - width, clip[1] + width]
    z, weights = standard_normal()
    order = np.argsort(np.abs(z), kind="stable")
    level = np.searchsorted(np.cumsum(weights[order]), 0.9)
    return {
        "key": name,
        "ends": ends if known else [-1e300, 1e300],
        "laplace": isinstance(plan.budget, PureDP | ApproxDP),
        "gaussian": _gaussian_noise(plan.budget, name, amount),
        "normal_quantile": float(np.abs(z)[order][level]),
        "sliders": {
            "n": [max(1, plan.n // int(SPAN)), int(plan.n * SPAN)],
            "amount": [amount / SPAN, amount * SPAN],
            "lower": sides,
            "upper": sides,
        },
        **_class(problem),
    }


def _class(problem: Problem) -> dict[str, Any]:
    """Return the kind of a problem, and its parameters for ``plan.js``."""
    if isinstance(problem, BoundedMoment):
        return {"kind": "moment", **vars(problem)}
    if isinstance(problem, BoundedRecords):
        return {"kind": "records"}
    atoms = {"values": problem.values.tolist(), "weights": problem.weights.tolist()}
    return {"kind": "known", "target": problem.target, **atoms}


def _gaussian_noise(budget: Budget, name: str, amount: float) -> list[list[float]] | None:
    """Return ln(amount) and ln(standard deviation) of Gaussian noise; None if there is none.

    The script interpolates linearly between the logarithms, which is exact for zCDP and GDP.
    """
    if isinstance(budget, PureDP):
        return None
    if isinstance(budget, ApproxDP):
        budget = replace(budget, noise_by="analytic")
    amounts = amount * np.geomspace(1 / BUDGET_SPAN, BUDGET_SPAN, BUDGET_POINTS)
    budgets = [replace(budget, **{name: float(x)}) for x in amounts]  # type: ignore[type-var]
    sds = [float(np.sqrt(additive(one, 1.0, 1.0).variance)) for one in budgets]
    return [np.log(amounts).tolist(), np.log(sds).tolist()]
