"""Command ``plan``: plan a private mean or variance: error, clip, records needed, Python code."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from pydantic import Field

from dpbench.errors import ConfigError
from dpbench.output.command_line import parse_flags, read_words
from dpbench.output.names import Width
from dpbench.output.terminal import command_line
from dpbench.planner.page import page_lines
from dpbench.planner.question import Question, answer_question, build_budget, build_law
from dpbench.registry import Count, validated
from dpbench.runner.settings import PathText, Seed

__all__ = ["main"]

ENTRY_KEYS = ("estimator", "law")
SIMULATION_KEYS = ("trials", "n_max", "seed")
IN_TABLE = ("n", "lower", "upper", "law", "alpha")
NOT_IN_TABLE = ("data", "column", "k", "scale")
CLIP_KEYS = ("lower", "upper", "k", "scale")


@validated
class PlanOptions(Question):
    """Keys of the command ``plan``: those of `Question`, the figure's, and the simulation's."""

    out: PathText = "results/plan"
    size: Width = "page"
    trials: Annotated[int, Field(ge=100, le=1_000_000)] | None = None
    n_max: Count | None = None
    seed: Seed | None = None
    estimator: str | None = None
    plugins: str | None = None
    table: PathText | None = None


def main(words: Sequence[str]) -> int:
    """Print how to release a private mean, write a figure and a page with sliders, and return 0.

    If a key or value cannot be used, or a file cannot be written, a ConfigError is raised.
    """
    keys = [word.partition("=")[0].partition(".")[0] for word in words]
    if "estimator" in keys:
        return _plan_estimator(words)
    if "table" in keys:
        return _plan_table(words)
    if given := {"plugins", "--config-dir", "-cd"}.intersection(keys):
        raise ConfigError(f"{given.pop()}: goes with estimator=NAME; add it, or omit this word")
    _, options = read_words("plan", words, "", PlanOptions, kind="law")
    _refuse(options, SIMULATION_KEYS, "goes with estimator=NAME; add it, or omit this key")
    out, answer = Path(options.out), answer_question(options)
    text = "\n".join(page_lines(answer, options.data))
    print(text, flush=True)
    from dpbench.planner import figure, slider_page

    try:
        out.mkdir(parents=True, exist_ok=True)
        page = slider_page.write(answer, text, out)
        paths = figure.write(
            answer.problem, answer.n, answer.budget, answer.clip, out, options.size
        )
    except OSError as error:
        raise ConfigError(f"out: '{out}': {error.strerror or error}") from error
    print(f"\nfigure: {' '.join(map(str, paths))}\npage to open: {page}")
    return 0


def _plan_table(words: Sequence[str]) -> int:
    """Print the plan of a table of means, whose columns and groups are in a file, and return 0."""
    from dpbench.planner.table import TablePlan, read_table

    _, options = read_words("plan", words, "", PlanOptions)
    _refuse(options, IN_TABLE, "not used with table=; write it into the file")
    _refuse(options, NOT_IN_TABLE, "not used with table=; omit this key")
    for word in words:
        if word.partition("=")[0] in ("out", "size"):
            raise ConfigError(f"{word}: the plan of a table draws no figure; omit this key")
    _refuse(options, SIMULATION_KEYS, "goes with estimator=NAME; add it, or omit this key")
    if options.target != "mean":
        raise ConfigError(f"target: {options.target}: a table has means; omit this key")
    assert options.table is not None
    plan = TablePlan(read_table(options.table), build_budget(options))
    print("\n".join(plan.lines()))
    return 0


def _refuse(options: PlanOptions, keys: Sequence[str], remedy: str) -> None:
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
    _, options = read_words("plan", rest, "", PlanOptions)
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
