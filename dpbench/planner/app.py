"""Application ``planner``: the command ``plan``."""

from __future__ import annotations

from collections.abc import Sequence

from dpbench.app import App, Command
from dpbench.output.help_page import help_page

# Kinds of distributions of `dpbench.planner.question.LAW_NAMES`.
LAWS = ("bernoulli", "beta", "gaussian", "log_normal", "pareto", "student_t", "two_point")

USAGE = """\
Plan a private mean or variance: print the error to expect, the best clip, the number of records or
the budget that a given error needs, the estimators that apply, and the Python code of the release.

  python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300
  python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300 law=log_normal law.scale=50
  python -m dpbench plan n=5000 rho=0.1 lower=0 upper=300 k=2 scale=20 alpha=1
  python -m dpbench plan epsilon=1 lower=0 upper=300 data=my.csv column=age
  python -m dpbench plan target=variance n=5000 epsilon=1 lower=0 upper=300

  target=variance   plan a variance within lower= and upper=; mean is the default
  n=N               number of records; default with data=: the records of the file
  epsilon=, rho=, mu=   pure DP, zCDP, Gaussian DP; epsilon= with delta=: approximate DP
  neighbours=add_remove   n is private; replace is the default
  lower=, upper=    public bounds: with law= or data= on the clip, with k= on the mean, else on the
                    records
  law=NAME          distribution of the records:
                    bernoulli, beta, gaussian, log_normal, pareto, student_t, two_point
  law.KEY=VALUE     a parameter of the distribution; python -m dpbench --help kind NAME lists them
  data=, column=    a CSV or Parquet file whose values are the distribution. A plan made from the
                    data to be protected is not private
  k=, scale=        plan for the worst distribution with E|X - mu|^k <= scale^k
  alpha=ERROR       also print the number of records and the budget with which q90 <= ERROR
  out=DIR           folder of the figure and of plan.html, a page with sliders; default results/plan
  size=SIZE         size of the figure: page (the default), column or slide

With table=, plan a table of means: columns and groups are in a YAML file.

  python -m dpbench plan table=table.yaml epsilon=1 neighbours=add_remove

  columns: {NAME: {lower: LOWER, upper: UPPER, law: {kind: NAME}, alpha: ERROR}}
                    public bounds of each column; its distribution and a largest error if you like
  groups: {NAME: N} expected records of each group; without groups n: N
  group_sizes: public   if a replaced record keeps its group; private is the default
  split: {NAME: WEIGHT}   shares of the budget; equal is the default, sensitivity another

With estimator=, plan only this estimator, by simulation: print the number of records that the
error alpha needs, or the error at n.

  python -m dpbench plan estimator=clipped_mean estimator.lower=0 estimator.upper=300 alpha=2 \\
      epsilon=1 law=log_normal law.scale=50
  python -m dpbench plan --config-dir DIR 'plugins=[mine]' estimator=mine alpha=2 rho=1 law=pareto

  estimator=NAME    a file DIR/estimator/NAME.yaml or conf/estimator/NAME.yaml, or a kind
  estimator.KEY=VALUE   a parameter of the estimator
  law=NAME          a file DIR/distribution/NAME.yaml or conf/distribution/NAME.yaml, or a kind
  alpha=ERROR       error that 9 of 10 releases may not exceed; print the number of records
  n=N               print the error at N records
  trials=           simulated releases at each n; default 1,000 to 4,000, by their cost
  n_max=, seed=     largest n to try; seed of all random streams, default 0
  plugins=, --config-dir DIR   your modules and the folder of your files, as for a sweep
"""


def _main(words: Sequence[str]) -> int:
    if not words:
        print(help_page(USAGE))
        return 0
    from dpbench.planner.command import main

    return main(words)


class _Planner(App):
    def commands(self) -> Sequence[Command]:
        summary = "plan a private mean or variance: error, clip, records needed, Python code"
        return (Command("plan [key=value]", summary, USAGE, _main, {"law": LAWS}),)


APP = _Planner()
