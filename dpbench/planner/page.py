"""Printed page of a plan: errors, needed records, ranked estimators and code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from dpbench.estimators.estimands import MEAN
from dpbench.output.names import as_text
from dpbench.output.terminal import fill
from dpbench.planner.answer import PlanNumbers
from dpbench.planner.explanations import format_records
from dpbench.planner.prediction import BoundedMoment, BoundedRecords, Error
from dpbench.planner.variance import KnownVariance
from dpbench.privacy.symbols import budget_text
from dpbench.registry import ConfigError

__all__ = ["NEIGHBOURS", "ReleasePlan", "page_lines"]

PARTS = ("sampling", "bias", "noise")
# Reasons for an error below the lower bound, by whether the plan is for a class of distributions.
BELOW = {
    False: "Errors below it are possible here: this one law is easier than the worst of them.",
    True: "Errors below it are possible here: a simulation tries only a few of them.",
}
MIN_BIAS_RATIO = 1e-6  # a smaller ratio of bias to error is rounding
NEIGHBOURS = {
    "replace": "neighbours: one record is replaced",
    "add_remove": "neighbours: one record is added or removed",
}


@dataclass(frozen=True)
class ReleasePlan(PlanNumbers):
    """Plan of a clipped mean with noise for one problem, as returned by `plan`.

    `problem` is the public knowledge about the `n` records. `law` is their distribution, if it is
    known. `alpha` is the largest acceptable absolute error of a release, in the unit of the
    records.
    """

    def __str__(self) -> str:
        """Return the page that the command ``plan`` prints."""
        return "\n".join(page_lines(self))


def page_lines(plan: PlanNumbers, data: str | None = None) -> Iterator[str]:
    """Yield the lines of a printed plan: errors, needed records, estimators and Python code.

    `data` is the file whose values are the distribution of the records, if there is one. The page
    then warns that a plan from the protected records is not private.
    """
    budget = budget_text(plan.budget, "name")
    yield f"{format_records(plan.n)}, {budget}; {NEIGHBOURS[plan.budget.neighbours]}"
    yield plan.known
    if data is not None:
        yield f"Not private if the values of {data} are the records to be protected."
    yield ""
    yield from _errors(plan)
    yield ""
    yield from _needs(plan)
    yield from _limit(plan)
    yield ""
    yield from _ranking(plan)
    yield f"\nPython, for {plan.rows[0].estimator}:\n\n{plan.code}"
    if plan.opendp:
        yield f"\nOpenDP 0.16 (pure DP, n public), clipped_mean at the best clip:\n\n{plan.opendp}"


def _errors(plan: PlanNumbers) -> Iterator[str]:
    """Yield the lines of a table with the predicted errors of each clip, and the table's legend."""
    errors = {name: plan.error(*clip) for name, clip in plan.clips.items()}
    guarded = plan.law is not None and plan.problem.estimand is MEAN
    quantiles = ("q90", "guarded") if guarded else ("q50", "q90")
    yield f"{'clip':35}" + "".join(f"{name:>9}" for name in (*quantiles, *PARTS))
    for name, clip in plan.clips.items():
        error, digits = errors[name], 3 - math.floor(math.log10(clip[1] - clip[0]))
        ends = "[{:.12g}, {:.12g}]".format(*(round(end, digits) for end in clip))
        bias = error.bias if abs(error.bias) > MIN_BIAS_RATIO * error.q90 else 0.0
        shown = {"guarded": error.q90_without_cancellation, "q50": error.q50, "q90": error.q90}
        numbers = "".join(f"{as_text(shown[column]):>9}" for column in quantiles)
        parts = (error.sampling, 3), (bias, 2), (error.noise, 3)
        numbers += "".join(f"{as_text(*part):>9}" for part in parts)
        yield f"{name:14}{ends:>21}{numbers}"
    listed = "q90: the 0.9 quantile" if guarded else "q50, q90: quantiles"
    yield f"{listed} of the absolute error, {plan.problem.estimand.unit}."
    yield "Parts of it: 0.9 quantiles of sampling error and noise; bias due to clipping."
    if isinstance(plan.problem, KnownVariance):
        root = plan.problem.root_q90(plan.clip, plan.n, plan.budget)
        bound = "" if plan.law is not None else "at most "
        yield f"Its root, the standard deviation, has a q90 of {bound}{as_text(root)} (best clip)."
    if guarded:
        yield "guarded: q90 if the biases at the two ends of the clip add up, not cancel."
        yield "best: smallest guarded q90, so that it does not rely on a symmetric law."
        yield from _explain_smaller(errors)


def _explain_smaller(errors: Mapping[str, Error]) -> Iterator[str]:
    """Yield lines that say why a clip has a smaller q90 than the best clip, if one has."""
    least = min(errors, key=lambda name: errors[name].q90)
    q90, guarded = errors[least].q90, errors[least].q90_without_cancellation
    if as_text(q90) == as_text(errors["best"].q90):
        return
    if guarded < errors["best"].q90_without_cancellation:  # the search ends at tails of 0.49
        yield f"{least}: so narrow that it releases its middle; n or the budget is too small."
        return
    yield f"{least}: q90 is {as_text(q90)} only because the two biases cancel for exactly this law."
    more = as_text(guarded)
    yield f"For a law that is less symmetric it may be {more}, so this clip is not best."


def _limit(plan: PlanNumbers) -> Iterator[str]:
    """Yield lines with the lower bound for all private estimators, and the class it holds for."""
    bound, words = plan.limit
    if math.isinf(bound.value):
        yield "Too few records at this budget: no private estimator beats a constant."
    elif bound.value > 0:
        below = min(row.q90 for row in plan.rows) < bound.value
        consequence = BELOW[plan.law is None] if below else "More assumptions may lower the bound."
        text = f"No private estimator has a q90 below {as_text(bound.value)} for all {words}."
        yield fill(f"{text} {consequence}", "")


def _needs(plan: PlanNumbers) -> Iterator[str]:
    """Yield lines with the number of records, and the budget, that an accuracy requires.

    The required accuracy is alpha, the largest 0.9 quantile (q90) of the error that the user
    accepts.
    """
    alpha = plan.alpha
    if alpha is None:
        yield "Add alpha=ERROR to see the number of records and the budget for q90 = ERROR."
        return

    wanted = f"A q90 of {as_text(alpha, 4)}"
    name, *_ = plan.budget.named_amounts
    try:
        records = format_records(plan.records(alpha))
        clip = "public bounds" if isinstance(plan.problem, BoundedRecords) else "best clip then"
        yield f"{wanted} needs {records} at this budget, with the {clip};"
    except ConfigError:
        yield f"{wanted} is not reached with any number of records at this budget;"
    try:
        smallest = plan.privacy(alpha).named_amounts[name]
        yield f"with {format_records(plan.n)} it needs {name} = {as_text(smallest, 4)}."
    except ConfigError:
        yield f"with {format_records(plan.n)} it is not reached with any {name}."


def _ranking(plan: PlanNumbers) -> Iterator[str]:
    """Yield the lines of a table of estimators with their computed or simulated errors."""
    if isinstance(plan.problem, BoundedMoment):
        yield "Simulated on a few of the laws, so that errors may be below the worst case above."
    yield "Estimators that apply (fallback v: v is released if the data are inconclusive):"
    width = max((len(row.estimator) for row in plan.rows), default=0) + 1
    yield f"{'estimator':{width}}{'assumes':29}{'q90':>6} {'95% interval':>12}"
    for row in plan.rows:
        ends = "computed" if row.how == "exact" else f"{as_text(row.low)} .. {as_text(row.high)}"
        yield f"{row.estimator:{width}}{row.assumes:29}{as_text(row.q90):>6} {ends:>12}"
    free = [row for row in plan.rows if row.assumes.startswith("nothing") and row.q90 < math.inf]
    if free:  # the rows are sorted by q90
        yield f"Without bounds or moments, take {free[0].estimator}: q90 {as_text(free[0].q90)}."
    largest = max((row.trials for row in plan.rows), default=0)
    for row in plan.rows:
        if 0 < row.trials < largest:
            yield f"{row.estimator}: {row.trials} simulated releases (slow); others: {largest:,}."
