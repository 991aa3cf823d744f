"""``plan [key=value]``: a private mean: its error, clip, records, and the code for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpbench.commands.command_line import read_words
from dpbench.errors import ConfigError
from dpbench.planner.answer import ReleasePlan
from dpbench.planner.explanations import records
from dpbench.planner.question import Question, answer_question
from dpbench.privacy.symbols import budget_text
from dpbench.registry import validated
from dpbench.runner.settings import PathText

__all__ = ["USAGE", "main"]

USAGE = """\
Plan a private mean: print the error to expect, the best clip, the number of records or the budget
that a given error needs, the estimators that apply, and the Python code of the release.

  python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300
  python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300 law=log_normal law.scale=50
  python -m dpbench plan n=5000 rho=0.1 lower=0 upper=300 k=2 scale=20 alpha=1
  python -m dpbench plan epsilon=1 lower=0 upper=300 data=my.csv column=age

  n=N               number of records; default with data=: the records of the file
  epsilon=, rho=, mu=   pure DP, zCDP, Gaussian DP; epsilon= with delta=: approximate DP
  neighbours=add_remove   n is private; replace is the default
  lower=, upper=    public bounds: with law= or data= on the clip, with k= on the mean, else on the
                    records
  law=NAME          distribution of the records:
                    bernoulli, gaussian, log_normal, pareto, student_t, two_point
  law.KEY=VALUE     a parameter of the distribution; python -m dpbench --help kind NAME lists them
  data=, column=    a CSV or Parquet file whose values are the distribution. A plan made from the
                    data to be protected is not private
  k=, scale=        plan for the worst distribution with E|X - mu|^k <= scale^k; default scale=1
  alpha=ERROR       also print the number of records and the budget with which q90 <= ERROR
  out=DIR           folder of the figure; default results/plan
"""
LEAST = 1e-6  # of the error: a bias below it is rounding
NEIGHBOURS = {
    "replace": "neighbours: one record is replaced",
    "add_remove": "neighbours: one record is added or removed",
}


@validated
class Options(Question):
    """The keys of the command: those of `Question`, and the folder of the figure."""

    out: PathText = "results/plan"


def main(words: Sequence[str]) -> int:
    """Print a plan and write its figure; return the exit code 0.

    Raises
    ------
    ConfigError
        If a key or value cannot be used, or the figure cannot be written.
    """
    if not words:
        print(USAGE)
        return 0
    _, options = read_words("plan", words, "", Options, kind="law")
    out, made = Path(options.out), answer_question(options)
    print("\n".join(_page(made, options)), flush=True)
    from dpbench.planner.figure import write  # slow to load

    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = write(made.problem, made.n, made.budget, made.clip, out)
    except OSError as error:
        raise ConfigError(f"out: '{out}': {error.strerror or error}") from error
    print(f"\nfigure: {' '.join(map(str, paths))}")
    return 0


def _page(plan: ReleasePlan, question: Question) -> Iterator[str]:
    """Yield the lines of the printed plan."""
    budget = budget_text(plan.budget, "name")
    yield f"{records(plan.n)}, {budget}; {NEIGHBOURS[plan.budget.neighbours]}"
    yield plan.known
    if question.data is not None:
        yield f"Not private if the values of {question.data} are the records to be protected."
    yield ""
    yield from _errors(plan)
    yield ""
    yield from _needs(plan)
    bound, words = plan.limit
    if math.isinf(bound.value):
        yield "Too few records at this budget: no private estimator beats a constant."
    elif bound.value > 0:
        yield f"No private estimator has a q90 below {bound.value:.3g} for all"
        yield f"{words}; more assumptions may lower the bound."
    yield ""
    yield from _ranking(plan)
    yield f"\nPython, with `data` an array, for {plan.rows[0].estimator}:\n\n{plan.code}"
    if plan.opendp:
        yield f"\nOpenDP 0.16 (pure DP, n public), clipped_mean at the best clip:\n\n{plan.opendp}"


def _errors(plan: ReleasePlan) -> Iterator[str]:
    """Yield the table of errors with one row per clip, and its legend."""
    errors = {name: plan.error(*clip) for name, clip in plan.clips.items()}
    yield f"{'clip':35}{'q50':>9}{'q90':>9}{'sampling':>9}{'bias':>9}{'noise':>9}"
    for name, clip in plan.clips.items():
        found, digits = errors[name], 3 - math.floor(math.log10(clip[1] - clip[0]))
        ends = "[{:.12g}, {:.12g}]".format(*(round(end, digits) for end in clip))
        bias = found.bias if abs(found.bias) > LEAST * found.q90 else 0.0
        yield (
            f"{name:14}{ends:>21}{found.q50:9.3g}{found.q90:9.3g}{found.sampling:9.3g}"
            f"{bias:9.2g}{found.noise:9.3g}"
        )
    yield "q50, q90: quantiles of the absolute error, in the unit of the records."
    yield "Parts of it: 0.9 quantiles of sampling error and noise; bias due to clipping."
    if plan.law is not None:
        yield "best: smallest q90 when the biases of the two sides are added, not subtracted."
        if min(one.q90 for one in errors.values()) < errors["best"].q90:
            yield "A clip with a smaller q90 relies on biases that cancel for this law only."


def _needs(plan: ReleasePlan) -> Iterator[str]:
    """Yield the number of records, and the privacy parameter, that a q90 of alpha needs."""
    alpha = plan.alpha
    if alpha is None:
        yield "Add alpha=ERROR to see the number of records and the budget for q90 = ERROR."
        return

    name, *_ = plan.budget.named_amounts
    try:
        yield f"A q90 of {alpha:.4g} needs {records(plan.records(alpha))} at this budget;"
    except ConfigError:
        yield f"A q90 of {alpha:.4g} is not reached with any number of records at this budget;"
    try:
        least = plan.privacy(alpha).named_amounts[name]
        yield f"with {records(plan.n)} it needs {name} = {least:.4g}."
    except ConfigError:
        yield f"with {records(plan.n)} it is not reached with any {name}."


def _ranking(plan: ReleasePlan) -> Iterator[str]:
    yield "Estimators that apply (fallback v: v is released if the data are inconclusive):"
    yield f"{'estimator':25}{'assumes':32}{'q90':>8} {'95% interval':>14}"
    for row in plan.rows:
        ends = "computed" if row.how == "exact" else f"{row.low:.3g} .. {row.high:.3g}"
        yield f"{row.estimator:25}{row.assumes:32}{row.q90:8.3g} {ends:>14}"
    most = max((row.trials for row in plan.rows), default=0)
    for row in plan.rows:
        if 0 < row.trials < most:
            yield f"{row.estimator}: {row.trials} simulated releases (slow); others: {most:,}."
