"""The command line: ``python -m dpbench sweep=heavy_tail``."""

from __future__ import annotations

import argparse
import gc
import itertools
import json
import os
import sys
import textwrap
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path

from dpbench import signals
from dpbench.commands import command, commands
from dpbench.commands.words import arguments
from dpbench.errors import ConfigError, choose_from
from dpbench.output.terminal import command_line
from dpbench.package import __version__, conf_folder

__all__ = ["run"]

DONE, FAILED, UNUSABLE = 0, 1, 2

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


def run(argv: Sequence[str]) -> int:
    """Run the command line.

    Returns
    -------
    int
        0 if all is done; 1 if a cell failed, a claim is inconsistent where the sweep gates on
        claims, errors are worse than the baseline's, or a privacy claim is refuted; 2 if the
        configuration cannot be used; 130 if interrupted.
    """
    try:
        return _run(argv)
    except (ConfigError, OSError, BrokenExecutor, MemoryError) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        if isinstance(error, ConfigError):
            print(f"dpbench: {error}", file=sys.stderr)
            return UNUSABLE
        first, *_ = str(error).splitlines() or [""]
        told, code = f"{type(error).__name__}: {first}", FAILED
    except KeyboardInterrupt:
        print(file=sys.stderr)
        told, code = "interrupted", signals.INTERRUPTED
    kept = f"; finished blocks are kept, to go on: {command_line(argv)}"
    print(f"dpbench: {told}{'' if set(argv[:1]) & set(commands()) else kept}", file=sys.stderr)
    return code


def _run(argv: Sequence[str]) -> int:
    if argv and argv[0] in commands():
        module = command(argv[0])
        if {"--help", "-h"} & set(argv):
            print(module.USAGE)
            return DONE
        signals.in_order()
        code: int = module.main(argv[1:])
        return code
    if argv and argv[0].replace("-", "").replace("_", "").isalnum() and argv[0][0] != "-":
        raise _no_command(argv[0])
    flags = arguments(argv)
    if flags.version:
        print(f"dpbench {__version__}")
        return DONE
    if flags.help is not None or flags.schema:
        print(_told(flags))
        return DONE
    from dpbench.jobs.composition import composed, multirun

    runs = multirun(flags.overrides) if flags.multirun else [flags.overrides]
    if len(runs) > 1:
        gc.enable()  # of a thousand each leaves 2 MB of garbage
    if flags.cfg is not None:
        from omegaconf import OmegaConf

        for overrides in runs:
            print(OmegaConf.to_yaml(composed(overrides, flags.config_dir)), end="")
        return DONE
    from dpbench.jobs.prepare import job_of

    jobs = [job_of(composed(overrides, flags.config_dir), flags.config_dir) for overrides in runs]
    folder = [] if flags.config_dir is None else ["--config-dir", str(flags.config_dir)]
    words = [[*folder, *one] for one in runs] if flags.multirun else [argv]
    _check_apart("out", [job.folder for job in jobs])
    _check_apart("baseline", [job.stores for job in jobs if job.stores is not None])
    signals.in_order()
    return max(job.run(own) for job, own in zip(jobs, words, strict=True))


def _check_apart(key: str, paths: Sequence[Path]) -> None:
    for path in paths:
        if paths.count(path) > 1:
            raise ConfigError(
                f"{key}: '{path}': two of the runs share it; give each its own, such as "
                f"'{key}=results/run-${{seed}}'"
            )


def _no_command(word: str) -> ConfigError:
    """What is meant by a word that is none: a sweep, or the command that is near."""
    from difflib import get_close_matches  # as no run needs it

    sweeps = [path.stem for path in (conf_folder() / "sweep").glob("*.yaml")]
    for name in get_close_matches(word, sweeps, n=1, cutoff=0.8):
        said = "is a sweep" if name == word else "no such command, nor sweep"
        return ConfigError(f"{word}: {said}; write sweep={name}")
    return ConfigError(f"{word}: no such command; {choose_from(word, commands())}")


def _told(flags: argparse.Namespace) -> str:
    """What is asked for by ``--help [TOPIC [NAME]]`` or ``--schema``."""
    folders = [conf_folder(), *([flags.config_dir] if flags.config_dir else [])]
    if not flags.schema and not flags.help:
        known = {"commands": "\n".join(commands().values())}
        for group in ("sweep", "runner", "estimator", "distribution"):
            names = {path.stem for one in folders for path in (one / group).glob("*.yaml")}
            known[f"{group}s"] = ", ".join(sorted(names))
        listed = (f"  {name:23} {_about(folders, name)}" for name in known["sweeps"].split(", "))
        return HELP.format(**{**known, "sweeps": "\n".join(listed)})
    if flags.overrides:
        from dpbench.jobs.composition import composed
        from dpbench.registry import from_mapping
        from dpbench.runner.settings import Settings, load_plugins

        found = composed(flags.overrides, flags.config_dir)
        settings = from_mapping(Settings, found, "")
        load_plugins(settings.plugins, flags.config_dir)
    from dpbench.jobs.describe import help_on, schema

    if flags.schema:
        return json.dumps(schema(), separators=(",", ":"))
    topic, *names = flags.help
    if len(names) > 1:
        raise ConfigError(f"--help: {names[1]!r}: give a topic and one name")
    return help_on(topic, names[0] if names else None, folders)


def _about(folders: Sequence[Path], sweep: str) -> str:
    """A line about a sweep: the first sentence of the comment that begins its file."""
    path = next(at for one in folders if (at := one / "sweep" / f"{sweep}.yaml").exists())
    lines = path.read_text("utf-8", errors="replace").splitlines()
    comment = itertools.takewhile(lambda line: line.startswith("#"), lines)
    words = " ".join(line[1:].strip() for line in comment if "yaml-language-server" not in line)
    return textwrap.shorten(words.split(". ")[0].rstrip("."), 54, placeholder=" ...")
