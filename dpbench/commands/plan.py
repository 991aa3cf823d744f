"""``plan [key=value]``: plan a private mean: error, clip, records needed, Python code."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from dpbench.commands.command_line import read_words
from dpbench.errors import ConfigError
from dpbench.output.style import Width
from dpbench.planner.page import page_lines
from dpbench.planner.question import Question, answer_question
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
  width=WIDTH       width of the figure, page (the default) or column
"""


@validated
class Options(Question):
    """Keys of the command ``plan``: the keys of `Question`, and the figure's folder and width."""

    out: PathText = "results/plan"
    width: Width = "page"


def main(words: Sequence[str]) -> int:
    """Print how to release a private mean, write the figure of errors, and return 0.

    Raises
    ------
    ConfigError
        If a key or value cannot be used, or the figure cannot be written.
    """
    if not words:
        print(USAGE)
        return 0
    _, options = read_words("plan", words, "", Options, kind="law")
    out, answer = Path(options.out), answer_question(options)
    print("\n".join(page_lines(answer, options.data)), flush=True)
    from dpbench.planner.figure import write  # slow to load

    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = write(answer.problem, answer.n, answer.budget, answer.clip, out, options.width)
    except OSError as error:
        raise ConfigError(f"out: '{out}': {error.strerror or error}") from error
    print(f"\nfigure: {' '.join(map(str, paths))}")
    return 0
