"""The command line: ``python -m dpbench sweep=heavy_tail``."""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from omegaconf import OmegaConf

from dpbench.config import (
    Settings,
    arguments,
    command_line,
    composed,
    conf_folder,
    load_plugins,
    multirun,
)
from dpbench.registry import ConfigError, from_mapping

if TYPE_CHECKING:
    from dpbench.audit.run import Audit
    from dpbench.job import Job

__all__ = ["run"]

DONE, FAILED, UNUSABLE, INTERRUPTED = 0, 1, 2, 130

HELP = """\
dpbench: benchmarks of differentially private mean estimation.

usage: python -m dpbench [sweep=NAME] [key=value ...]

  sweep=NAME        what to run: {sweeps}
  seed=0            names every random stream
  trials=N          instead of the sweep's own number of trials
  n_jobs=-1         processes; -1 for all cores; changes no number
  out=DIR           the run's folder; by default results/<sweep>
  resume=false      compute finished blocks again
  track=check       compare the errors with the stored baseline; track=update stores a new one
  baseline=FILE     by default results/baselines/<sweep>.parquet
  replay=NAME       run one failure again, for its traceback
  report=all        put all finished runs below out=DIR (results) on one page, and run nothing
  runner=NAME       where to run: {runners}
  plugins=[MODULE]  modules with your own estimators and distributions
  sweep.KEY=VALUE   any key of the sweep, in Hydra's override grammar

flags: --help, --help sweep|kind|figure [NAME] (keys, types, defaults), --schema (the same for
editors), --cfg job (print the configuration), --multirun (seed=1,2,3 runs three), --config-dir DIR
(your own folder of configurations)

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
    command = command_line(argv)
    try:
        return _run(argv)
    except ConfigError as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        print(f"dpbench: {error}", file=sys.stderr)
        return UNUSABLE
    except (OSError, BrokenExecutor, MemoryError) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        told = _first_line(error)
        print(f"dpbench: {told}; finished blocks are kept, to go on: {command}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(
            f"\ndpbench: interrupted; finished blocks are kept, to go on: {command}",
            file=sys.stderr,
        )
        return INTERRUPTED


def _first_line(error: BaseException) -> str:
    lines = str(error).splitlines() or [""]
    return f"{type(error).__name__}: {lines[0]}"


def _run(argv: Sequence[str]) -> int:
    flags = arguments(argv)
    if flags.help is not None or flags.schema:
        print(_told(flags))
        return DONE
    runs = multirun(flags.overrides) if flags.multirun else [flags.overrides]
    if flags.cfg is not None:
        for overrides in runs:
            print(OmegaConf.to_yaml(composed(overrides, flags.config_dir)), end="")
        return DONE
    prepared = [_prepare(overrides, flags.config_dir) for overrides in runs]
    folders = [str(one.folder) for one in prepared]
    stored = [str(one.stores) for one in prepared if one.stores is not None]
    for key, paths in (("out", folders), ("baseline", stored)):
        for path in paths:
            if paths.count(path) > 1:
                raise ConfigError(
                    f"{key}: {path!r}: two of the runs share it; give each its own, such as "
                    f"'{key}=results/run-${{seed}}'"
                )
    return max(_finished(one, argv) for one in prepared)


def _finished(job: Job | Audit | _Report, argv: Sequence[str]) -> int:
    """Run it; an audit knows no page, which is written here."""
    from dpbench.audit.run import Audit

    code = job.run(argv)
    if isinstance(job, Audit):
        from dpbench.report.page import PAGE, write_page

        write_page([job.folder], job.folder / PAGE)
    return code


def _told(flags: argparse.Namespace) -> str:
    """What is asked for by ``--help [TOPIC [NAME]]`` or ``--schema``."""
    if not flags.schema and not flags.help:
        return _help(flags.config_dir)
    if flags.overrides:
        settings = from_mapping(Settings, composed(flags.overrides, flags.config_dir), "")
        load_plugins(settings.plugins, flags.config_dir)
    from dpbench.describe import help_on, schema  # slow to load

    if flags.schema:
        return json.dumps(schema(), separators=(",", ":"))
    words: list[str] = flags.help
    if len(words) > 2:
        raise ConfigError(f"--help: {words[2]!r}: give a topic and one name")
    folders = [conf_folder(), *([flags.config_dir] if flags.config_dir else [])]
    return help_on(words[0], words[1] if len(words) > 1 else None, folders)


def _help(config_dir: Path | None) -> str:
    def options(group: str) -> str:
        folders = [conf_folder(), *([config_dir] if config_dir else [])]
        return ", ".join(sorted({f.stem for d in folders for f in (d / group).glob("*.yaml")}))

    return HELP.format(
        sweeps=options("sweep"),
        runners=options("runner"),
        estimators=options("estimator"),
        distributions=options("distribution"),
    )


def _prepare(overrides: Sequence[str], config_dir: Path | None) -> Job | Audit | _Report:
    """Read and check everything that a run needs."""
    config = composed(overrides, config_dir)
    settings = from_mapping(Settings, config, "")
    if settings.report is not None:
        for key in ("track", "replay", "trials"):
            if getattr(settings, key) is not None:
                raise ConfigError(f"{key}: {getattr(settings, key)!r}: report=all runs nothing")
        return _Report(Path(settings.out or "results").expanduser())
    plugins = load_plugins(settings.plugins, config_dir)
    from dpbench.audit.run import Audit  # heavy imports wait for a readable command
    from dpbench.job import Job
    from dpbench.runner.run import RunOptions

    name = settings.sweep.get("name", "sweep")
    options = RunOptions(
        seed=settings.seed,
        n_jobs=settings.n_jobs,
        runner=settings.runner,
        out=Path(settings.out or f"results/{name}").expanduser(),
        resume=settings.resume,
        plugins=plugins,
    )
    kind = Audit if "audit" in settings.sweep else Job
    return kind.prepare(settings, options, config)


class _Report:
    """All finished runs below a folder, on one page."""

    stores = None

    def __init__(self, folder: Path) -> None:
        from dpbench.report.page import finished_runs

        self.folder, self.runs = folder, finished_runs(folder)
        if not self.runs:
            raise ConfigError(
                f"report: 'all': there is no finished run in '{folder}'; out=DIR says where"
            )

    def run(self, argv: Sequence[str]) -> int:
        from dpbench.report.page import PAGE, write_page

        page = write_page(self.runs, self.folder / PAGE)
        print(f"{len(self.runs)} runs on one page: {page}")
        return DONE
