"""``plan [key=value]``: plan a private mean: error, clip, records needed, Python code."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpbench.commands.command_line import read_words
from dpbench.errors import ConfigError
from dpbench.output.help_page import help_page
from dpbench.planner.answer import ReleasePlan
from dpbench.planner.explanations import format_records
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
MIN_BIAS_RATIO = 1e-6  # a smaller ratio of bias to error is rounding
NEIGHBOURS = {
    "replace": "neighbours: one record is replaced",
    "add_remove": "neighbours: one record is added or removed",
}


@validated
class Options(Question):
    """Keys of the command ``plan``: the keys of `Question`, and ``out``, the figure's folder."""

    out: PathText = "results/plan"


def main(words: Sequence[str]) -> int:
    """Print how to release a private mean, write the figure of errors, and return 0.

    Raises
    ------
    ConfigError
        If a key or value cannot be used, or the figure cannot be written.
    """
    if not words:
        print(help_page(USAGE))
        return 0
    _, options = read_words("plan", words, "", Options, kind="law")
    out, answer = Path(options.out), answer_question(options)
    print("\n".join(_page(answer, options)), flush=True)
    from dpbench.planner.figure import write  # slow to load

    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = write(answer.problem, answer.n, answer.budget, answer.clip, out)
    except OSError as error:
        raise ConfigError(f"out: '{out}': {error.strerror or error}") from error
    print(f"\nfigure: {' '.join(map(str, paths))}")
    return 0


def _page(plan: ReleasePlan, question: Question) -> Iterator[str]:
    """Yield the lines of a printed plan: errors, needed records, estimators and Python code."""
    budget = budget_text(plan.budget, "name")
    yield f"{format_records(plan.n)}, {budget}; {NEIGHBOURS[plan.budget.neighbours]}"
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
    """Yield the lines of a table with the predicted errors of each clip, and the table's legend."""
    errors = {name: plan.error(*clip) for name, clip in plan.clips.items()}
    yield f"{'clip':35}{'q50':>9}{'q90':>9}{'sampling':>9}{'bias':>9}{'noise':>9}"
    for name, clip in plan.clips.items():
        error, digits = errors[name], 3 - math.floor(math.log10(clip[1] - clip[0]))
        ends = "[{:.12g}, {:.12g}]".format(*(round(end, digits) for end in clip))
        bias = error.bias if abs(error.bias) > MIN_BIAS_RATIO * error.q90 else 0.0
        yield (
            f"{name:14}{ends:>21}{error.q50:9.3g}{error.q90:9.3g}{error.sampling:9.3g}"
            f"{bias:9.2g}{error.noise:9.3g}"
        )
    yield "q50, q90: quantiles of the absolute error, in the unit of the records."
    yield "Parts of it: 0.9 quantiles of sampling error and noise; bias due to clipping."
    if plan.law is not None:
        yield "best: smallest q90 when the biases of the two sides are added, not subtracted."
        if min(error_of_clip.q90 for error_of_clip in errors.values()) < errors["best"].q90:
            yield "A clip with a smaller q90 relies on biases that cancel for this law only."


def _needs(plan: ReleasePlan) -> Iterator[str]:
    """Yield lines with the number of records, and the budget, that an accuracy requires.

    The required accuracy is alpha, the largest 0.9 quantile (q90) of the error that the user
    accepts.
    """
    alpha = plan.alpha
    if alpha is None:
        yield "Add alpha=ERROR to see the number of records and the budget for q90 = ERROR."
        return

    name, *_ = plan.budget.named_amounts
    try:
        yield f"A q90 of {alpha:.4g} needs {format_records(plan.records(alpha))} at this budget;"
    except ConfigError:
        yield f"A q90 of {alpha:.4g} is not reached with any number of records at this budget;"
    try:
        smallest = plan.privacy(alpha).named_amounts[name]
        yield f"with {format_records(plan.n)} it needs {name} = {smallest:.4g}."
    except ConfigError:
        yield f"with {format_records(plan.n)} it is not reached with any {name}."


def _ranking(plan: ReleasePlan) -> Iterator[str]:
    """Yield the lines of a table of estimators with their computed or simulated errors."""
    yield "Estimators that apply (fallback v: v is released if the data are inconclusive):"
    width = max((len(row.estimator) for row in plan.rows), default=0) + 1
    yield f"{'estimator':{width}}{'assumes':29}{'q90':>6} {'95% interval':>12}"
    for row in plan.rows:
        ends = "computed" if row.how == "exact" else f"{row.low:.3g} .. {row.high:.3g}"
        yield f"{row.estimator:{width}}{row.assumes:29}{row.q90:6.3g} {ends:>12}"
    largest = max((row.trials for row in plan.rows), default=0)
    for row in plan.rows:
        if 0 < row.trials < largest:
            yield f"{row.estimator}: {row.trials} simulated releases (slow); others: {largest:,}."
