"""Texts that the flags ``--help`` and ``--schema`` print."""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterable, Mapping

from dpbench.app import Command
from dpbench.errors import ConfigError, choose_from
from dpbench.jobs.sweep_files import find_sweeps, read_texts
from dpbench.package import conf_folder

__all__ = ["help_text", "unknown_command"]

HELP = """\
dpbench: benchmarks of differentially private mean estimation.

usage: python -m dpbench [sweep=NAME] [key=value ...]
       python -m dpbench COMMAND [...]

  sweep=NAME        what to run, see below
  seed=0            names every random stream
  trials=N          instead of the sweep's own number of trials
  trials=auto       more and more trials, until the claims are decided
  n_jobs=-1         processes; -1 for all cores; changes no number
  out=DIR           the run's folder; by default results/<sweep>
  resume=false      compute finished blocks again
  track=check       compare the errors with the stored baseline; track=update stores a new one
  baseline=FILE     by default results/baselines/<sweep>.parquet
  rerun=NAME        run one failure again, for its traceback
  paper=true        figures as wide as a column, LaTeX of figures, errors and claims
  size=slide        figures for a slide, 16:9 with large type; or page, or column
  font=serif        of figures; by default sans
  report=all        put all finished runs below out=DIR (results) on one page, and run nothing
  runner=NAME       where to run: {runners}
  plugins=[MODULE]  modules with your own estimators and distributions
  sweep.KEY=VALUE   any key of the sweep, in Hydra's override grammar

commands, each with a --help:
{commands}

flags:
  --help TOPIC [NAME]  keys, types and defaults; TOPIC is sweep, kind, figure or theorem
  --version            the version
  --schema             all keys as a JSON schema, for editors
  --cfg job            print the configuration, and run nothing
  --multirun           one run for each value: --multirun seed=1,2 'out=results/run-${{seed}}'
  --config-dir DIR     your own folder of configurations; DIR/sweep/NAME.yaml is sweep=NAME
  --completion SHELL   print a script that completes words with Tab, in bash, zsh or fish

sweeps, with run time on two cores and disk space (more of one: --help sweep NAME):
{sweeps}

estimators to add with +estimator@sweep.estimators.LABEL=NAME:
  {estimators}

distributions to add with +distribution@sweep.families.LABEL=NAME:
  {distributions}
"""


def help_text(flags: argparse.Namespace, commands: Mapping[str, Command]) -> str:
    """Return the text that ``--help [TOPIC [NAME]]`` or ``--schema`` prints.

    The text lists the commands. An unknown topic or name is a `ConfigError`.
    """
    folders = [conf_folder(), *([flags.config_dir] if flags.config_dir else [])]
    if not flags.schema and not flags.help:
        lines = (f"  {command.words:17} {command.summary}" for command in commands.values())
        lists = {"commands": "\n".join(lines)}
        for group in ("runner", "estimator", "distribution"):
            names = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
            lists[f"{group}s"] = ", ".join(sorted(names))
        texts = {name: read_texts(path) for name, path in find_sweeps(folders).items()}
        lists["sweeps"] = "\n".join(
            f"  {name:23}  {text.cost:13}  {text.title}".rstrip() for name, text in texts.items()
        )
        return HELP.format(**lists)
    if flags.overrides:
        from dpbench.jobs.composition import compose
        from dpbench.registry import from_mapping
        from dpbench.runner.settings import Settings, load_plugins

        config = compose(flags.overrides, flags.config_dir)
        settings = from_mapping(Settings, config, "")
        load_plugins(settings.plugins, flags.config_dir)
    from dpbench.jobs.describe import describe_topic, schema

    if flags.schema:
        return json.dumps(schema(), separators=(",", ":"))
    topic, *names = flags.help
    if len(names) > 1 and topic != "kind":  # search words of kinds may have spaces
        raise ConfigError(f"--help: {names[1]!r}: give a topic and one name")
    return describe_topic(topic, " ".join(names) or None, folders)


def unknown_command(word: str, commands: Iterable[str]) -> ConfigError:
    """Return the error for a word that is no command; it suggests a similar sweep or command."""
    sweeps = find_sweeps([conf_folder()])
    more = "; write sweep=NAME to run a sweep, or --help for all"
    for names, problem, remedy in (
        (sweeps, "a sweep", "write sweep={}"),
        (_kinds(), "a kind", "write --help kind {}"),
        (top_keys(), "a key", "write {}=VALUE"),
    ):
        if word in names:
            return ConfigError(f"{word}: is {problem}; {remedy.format(word)}")
    from difflib import get_close_matches  # imported here, because no run needs it

    for name in get_close_matches(word, sweeps, n=1, cutoff=0.8):
        return ConfigError(f"{word}: no such command, nor sweep; write sweep={name}")
    return ConfigError(f"{word}: no such command; {choose_from(word, commands)}{more}")


def top_keys() -> list[str]:
    """Return the top-level keys of a configuration, such as ``seed``."""
    lines = (conf_folder() / "config.yaml").read_text("utf-8").splitlines()
    keys = [line.partition(":")[0] for line in lines if line[:1].isalpha() and ":" in line]
    return ["sweep", "runner", *keys[1:]]


def _kinds() -> set[str]:
    """Return the names of the files of estimators and distributions that dpbench comes with."""
    folders = (conf_folder() / group for group in ("estimator", "distribution"))
    return {path.stem for folder in folders for path in folder.glob("*.yaml")}
