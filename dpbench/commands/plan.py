"""``plan [key=value]``: a private mean: its error, clip, records, and the code for it."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from pathlib import Path

from dpbench.commands.words import read_words
from dpbench.errors import ConfigError
from dpbench.planner.answer import Plan
from dpbench.planner.question import Question, answer_question
from dpbench.planner.words import records
from dpbench.privacy.symbols import budget_text
from dpbench.registry import validated
from dpbench.runner.settings import PathText

__all__ = ["USAGE", "main"]

USAGE = """\
Plan a private mean: the error to expect, the best clip, the records or the privacy that an error
needs, the estimators that apply, and the Python that releases it.

  python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300
  python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300 law=log_normal law.scale=50
  python -m dpbench plan n=5000 rho=0.1 lower=0 upper=300 k=2 scale=20 alpha=1
  python -m dpbench plan epsilon=1 lower=0 upper=300 data=my.csv column=age

  n=N               how many records; those of data= by default
  epsilon=, rho=, mu=   pure DP, zCDP, Gaussian DP; epsilon= with delta=: approximate DP
  neighbours=add_remove   n is private; replace is the default
  lower=, upper=    public ends: of the records, of any clip (law, data), of the mean (k)
  law=NAME          bernoulli, gaussian, log_normal, pareto, student_t, two_point
  law.KEY=VALUE     a parameter of it; python -m dpbench --help kind NAME lists them
  data=, column=    a CSV or Parquet file whose values are the law. To plan by the very data that
                    are to be protected is not private
  k=, scale=        the worst law with E|X - mu|^k <= scale^k; scale=1
  alpha=ERROR       how many records, and which privacy, this error needs
  out=DIR           of the figure; results/plan by default
"""
LEAST = 1e-6  # of the error: a bias below it is rounding
NEIGHBOURS = {"replace": "one record is replaced", "add_remove": "a record is added or removed"}


@validated
class Options(Question):
    """The keys of the command: those of the question, and where the figure goes."""

    out: PathText = "results/plan"


def main(words: Sequence[str]) -> int:
    """Plan what the words ask for, print it, write the figure; the exit code, 0."""
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


def _page(plan: Plan, question: Question) -> Iterator[str]:
    budget = budget_text(plan.budget, "name")
    yield f"{records(plan.n)}, {budget}; {NEIGHBOURS[plan.budget.neighbours]}"
    yield plan.known
    if question.data is not None:
        yield f"Not private if the values of {question.data} are what is to be protected."
    yield ""
    yield from _errors(plan)
    yield ""
    yield from _needs(plan)
    bound, words = plan.limit
    if math.isinf(bound.value):
        yield "So few records at this privacy tell no two laws apart: a constant is as good."
    elif bound.value > 0:
        yield f"No private estimator errs by less than {bound.value:.3g} (q90)"
        yield f"on all {words}; one that knows more may."
    yield ""
    yield from _ranking(plan)
    yield f"\nPython, {plan.rows[0].estimator}:\n\n{plan.code}"
    if plan.opendp:
        yield f"\nOpenDP 0.16, pure DP, n public, clipped_mean at the best clip:\n\n{plan.opendp}"


def _errors(plan: Plan) -> Iterator[str]:
    """A row for each clip."""
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
    yield "Nine in ten releases err by less than q90, half by less than q50, in the unit of"
    yield "the records. Parts: sampling and noise (0.9 quantiles), and the clip's bias."
    if plan.law is not None:
        yield "best: the least q90 if what a clip cuts off on the two sides did not cancel."
        if min(one.q90 for one in errors.values()) < errors["best"].q90:
            yield "A clip that errs less does so as it cancels: not if the law is a little other."


def _needs(plan: Plan) -> Iterator[str]:
    """What an error of alpha takes."""
    alpha = plan.alpha
    if alpha is None:
        yield "alpha=ERROR: how many records, and which privacy, this error needs."
        return

    name, *_ = plan.budget.named_amounts
    try:
        yield f"A q90 of {alpha:.4g} needs {records(plan.records(alpha))} at this privacy;"
    except ConfigError:
        yield f"A q90 of {alpha:.4g} is reached by no number of records at this privacy;"
    try:
        least = plan.privacy(alpha).named_amounts[name]
        yield f"with {records(plan.n)} it needs {name} = {least:.4g}."
    except ConfigError:
        yield f"with {records(plan.n)} no {name} reaches it."


def _ranking(plan: Plan) -> Iterator[str]:
    yield f"{'estimator':25}{'assumes':32}{'q90':>8} {'95% interval':>14}"
    for row in plan.rows:
        ends = "computed" if row.how == "exact" else f"{row.low:.3g} .. {row.high:.3g}"
        yield f"{row.estimator:25}{row.assumes:32}{row.q90:8.3g} {ends:>14}"
    most = max((row.trials for row in plan.rows), default=0)
    for row in plan.rows:
        if 0 < row.trials < most:
            yield f"{row.estimator} is slow: {row.trials} simulated releases, of others {most:,}."
