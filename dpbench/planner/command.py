"""``plan [key=value]``: plan a private mean: error, clip, records needed, Python code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dpbench.errors import ConfigError
from dpbench.output.command_line import parse_flags, read_words
from dpbench.output.help_page import help_page
from dpbench.output.names import Width
from dpbench.output.terminal import command_line
from dpbench.planner.page import page_lines
from dpbench.planner.question import Question, answer_question, build_budget, build_law
from dpbench.registry import Count, validated
from dpbench.runner.settings import PathText, Seed

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
  k=, scale=        plan for the worst distribution with E|X - mu|^k <= scale^k
  alpha=ERROR       also print the number of records and the budget with which q90 <= ERROR
  out=DIR           folder of the figure; default results/plan
  size=SIZE         size of the figure: page (the default), column or slide

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
ENTRY_KEYS = ("estimator", "law")
SIMULATION_KEYS = ("trials", "n_max", "seed")
CLIP_KEYS = ("lower", "upper", "k", "scale")


@validated
class Options(Question):
    """Keys of the command ``plan``: those of `Question`, the figure's, and the simulation's."""

    out: PathText = "results/plan"
    size: Width = "page"
    trials: Annotated[int, Field(ge=100, le=1_000_000)] | None = None
    n_max: Count | None = None
    seed: Seed | None = None
    estimator: str | None = None
    plugins: str | None = None


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
    keys = [word.partition("=")[0].partition(".")[0] for word in words]
    if "estimator" in keys:
        return _plan_estimator(words)
    if given := {"plugins", "--config-dir", "-cd"}.intersection(keys):
        raise ConfigError(f"{given.pop()}: goes with estimator=NAME; add it, or omit this word")
    _, options = read_words("plan", words, "", Options, kind="law")
    _refuse(options, SIMULATION_KEYS, "goes with estimator=NAME; add it, or omit this key")
    out, answer = Path(options.out), answer_question(options)
    print("\n".join(page_lines(answer, options.data)), flush=True)
    from dpbench.planner.figure import write  # slow to load

    try:
        out.mkdir(parents=True, exist_ok=True)
        paths = write(answer.problem, answer.n, answer.budget, answer.clip, out, options.size)
    except OSError as error:
        raise ConfigError(f"out: '{out}': {error.strerror or error}") from error
    print(f"\nfigure: {' '.join(map(str, paths))}")
    return 0


def _refuse(options: Options, keys: Sequence[str], remedy: str) -> None:
    """Raise ConfigError if one of some keys, whose default is None, is given."""
    for key in keys:
        if (value := getattr(options, key)) is not None:
            raise ConfigError(f"{key}: {value}: {remedy}")


def _plan_estimator(words: Sequence[str]) -> int:
    """Print the number of records that one estimator needs, or its error at n, and return 0."""
    from dpbench.planner import needed_records
    from dpbench.planner.one_estimator import EntryWords, prepare_estimator_plan

    flags = parse_flags(words)
    texts, parameters, rest = _read_entries(flags.overrides)
    _, options = read_words("plan", rest, "", Options)
    _refuse(options, CLIP_KEYS, "not used with estimator=; write estimator.KEY=VALUE")
    if options.alpha is None and options.n is None:
        raise ConfigError("alpha: this key is required, the error to reach; or give n=RECORDS")
    law = texts.get("law") or build_law(options)
    if law is None or (options.data is not None and "law" in texts):
        raise ConfigError("law: give one of law=NAME, and data=FILE with column=NAME")
    plugins = [f"plugins={texts['plugins']}"] if "plugins" in texts else []
    entries = EntryWords(texts["estimator"], law, parameters, plugins, flags.config_dir)
    plan = prepare_estimator_plan(
        entries,
        build_budget(options),
        seed=options.seed or 0,
        trials=options.trials,
        n_max=options.n_max,
        report=lambda line: print(f"plan: {line}", file=sys.stderr, flush=True),
    )
    size = None
    if options.alpha is not None:
        found = plan.find_records(options.alpha)
        print("\n".join(needed_records.records_lines(plan, options.alpha, found)), flush=True)
        size = needed_records.round_records(found.n) if found.n == found.n else None
    if options.n is not None:
        print("\n".join(needed_records.error_lines(plan.error_at(options.n), plan.working)))
    print("\n" + "\n".join(plan.assumptions()))
    if size is not None:
        kept = [word for word in words if not word.startswith(("alpha=", "n=", "seed="))]
        check = ["plan", *kept, f"n={size}", f"seed={(options.seed or 0) + 1}"]
        print(f"\nCheck it with other random numbers:\n{command_line(check)}")
    return 0


def _read_entries(words: Sequence[str]) -> tuple[dict[str, str], dict[str, list[str]], list[str]]:
    """Split words into names of entries, parameters of entries, and all other words.

    An entry is the estimator or the distribution. The first result has its name, and the value of
    ``plugins``, by key. The second has its parameters as texts ``KEY=VALUE``.
    """
    texts, parameters, rest = dict[str, str](), {key: list[str]() for key in ENTRY_KEYS}, []
    for word in words:
        key, _, value = word.partition("=")
        entry, dot, parameter = key.partition(".")
        if key not in (*ENTRY_KEYS, "plugins") and not (dot and entry in ENTRY_KEYS):
            rest.append(word)
        elif not value or (dot and not parameter):
            raise ConfigError(f"{key}: {value!r}: an empty value; write {key}=VALUE, or omit it")
        elif dot:
            parameters[entry].append(f"{parameter}={value}")
        elif key in texts:
            raise ConfigError(f"{key}: given twice, {texts[key]} and {value}")
        else:
            texts[key] = value
    for key in ENTRY_KEYS:
        if parameters[key] and key not in texts:
            raise ConfigError(f"{key}.{parameters[key][0].partition('=')[0]}: give {key}=NAME, too")
    return texts, parameters, rest
