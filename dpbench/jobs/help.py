"""Texts that the flags ``--help`` and ``--schema`` print."""

from __future__ import annotations

import argparse
import itertools
import json
import textwrap
from collections.abc import Iterable, Sequence
from pathlib import Path

from dpbench.errors import ConfigError, choose_from
from dpbench.package import conf_folder

__all__ = ["help_text", "unknown_command"]

HELP = """\
dpbench: benchmarks of differentially private mean estimation.

usage: python -m dpbench [sweep=NAME] [key=value ...]
       python -m dpbench COMMAND [...]

  sweep=NAME        what to run, see below
  seed=0            names every random stream
  trials=N          instead of the sweep's own number of trials
  n_jobs=-1         processes; -1 for all cores; changes no number
  out=DIR           the run's folder; by default results/<sweep>
  resume=false      compute finished blocks again
  track=check       compare the errors with the stored baseline; track=update stores a new one
  baseline=FILE     by default results/baselines/<sweep>.parquet
  replay=NAME       run one failure again, for its traceback
  paper=true        figures as wide as a column, figures/*.tex that include them, claims.tex
  size=slide        figures for a slide, 16:9 with large type; or page, or column
  font=serif        of figures; by default sans
  report=all        put all finished runs below out=DIR (results) on one page, and run nothing
  runner=NAME       where to run: {runners}
  plugins=[MODULE]  modules with your own estimators and distributions
  sweep.KEY=VALUE   any key of the sweep, in Hydra's override grammar

commands, each with a --help:
{commands}

flags: --help, --help sweep|kind|figure [NAME] (keys, types, defaults), --version,
--schema (the same for editors), --cfg job (print the configuration), --multirun
(seed=1,2,3 runs three), --config-dir DIR (your own folder of configurations)

sweeps (more of one: --help sweep NAME):
{sweeps}

estimators to add with +estimator@sweep.estimators.LABEL=NAME: {estimators}
distributions to add with +distribution@sweep.families.LABEL=NAME: {distributions}
"""


def help_text(flags: argparse.Namespace, commands: Iterable[str]) -> str:
    """Return the text that ``--help [TOPIC [NAME]]`` or ``--schema`` prints.

    Parameters
    ----------
    flags : argparse.Namespace
        Parsed command line; see `dpbench.commands.command_line.parse_flags`.
    commands : iterable of str
        Lines of the help text that list the commands, one line for each.

    Returns
    -------
    str

    Raises
    ------
    ConfigError
        If there is no such topic or name.
    """
    folders = [conf_folder(), *([flags.config_dir] if flags.config_dir else [])]
    if not flags.schema and not flags.help:
        lists = {"commands": "\n".join(commands)}
        for group in ("sweep", "runner", "estimator", "distribution"):
            names = {path.stem for folder in folders for path in (folder / group).glob("*.yaml")}
            lists[f"{group}s"] = ", ".join(sorted(names))
        listed = (
            f"  {name:23} {_describe_sweep(folders, name)}" for name in lists["sweeps"].split(", ")
        )
        return HELP.format(**{**lists, "sweeps": "\n".join(listed)})
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


def _describe_sweep(folders: Sequence[Path], sweep: str) -> str:
    """Return the first sentence of the comment in a sweep's file, cut to 54 characters."""
    path = next(
        candidate
        for folder in folders
        if (candidate := folder / "sweep" / f"{sweep}.yaml").exists()
    )
    lines = path.read_text("utf-8", errors="replace").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    words = " ".join(line[1:].strip() for line in comment if "yaml-language-server" not in line)
    return textwrap.shorten(words.split(". ")[0].rstrip("."), 54, placeholder=" ...")


def unknown_command(word: str, commands: Iterable[str]) -> ConfigError:
    """Return the error for a word that is no command; it suggests a similar sweep or command.

    Parameters
    ----------
    word : str
        First word of the command line.
    commands : iterable of str
        Names of all commands.

    Returns
    -------
    ConfigError
    """
    from difflib import get_close_matches  # imported here, because no run needs it

    sweeps = [path.stem for path in (conf_folder() / "sweep").glob("*.yaml")]
    for name in get_close_matches(word, sweeps, n=1, cutoff=0.8):
        problem = "is a sweep" if name == word else "no such command, nor sweep"
        return ConfigError(f"{word}: {problem}; write sweep={name}")
    return ConfigError(f"{word}: no such command; {choose_from(word, commands)}")
