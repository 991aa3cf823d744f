"""The command line: ``python -m dpbench sweep=heavy_tail``."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from dpbench.config import (
    Settings,
    SweepSettings,
    arguments,
    composed,
    conf_folder,
    load_plugins,
    multirun,
)
from dpbench.parameters import ConfigError, from_mapping

__all__ = ["main", "run"]

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
  runner=NAME       where to run: {runners}
  plugins=[MODULE]  modules with your own estimators and distributions
  sweep.KEY=VALUE   any key of the sweep, in Hydra's override grammar

flags: --help, --cfg job (print the configuration), --multirun (seed=1,2,3 runs three),
--config-dir DIR (your own folder of configurations)

estimators to add with +estimator@sweep.estimators.LABEL=NAME: {estimators}
distributions to add with +distribution@sweep.families.LABEL=NAME: {distributions}
"""


def main() -> None:
    """Run the command line and leave with its exit code."""
    sys.exit(run(sys.argv[1:]))


def run(argv: Sequence[str]) -> int:
    """Run the command line.

    Returns
    -------
    int
        0 if all is done; 1 if a cell failed, or a claim is inconsistent where the sweep
        gates on claims; 2 if the configuration cannot be used; 130 if interrupted.
    """
    command = shlex.join(["python", "-m", "dpbench", *argv])
    try:
        return _run(argv)
    except ConfigError as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        print(f"dpbench: {error}", file=sys.stderr)
        return UNUSABLE
    except OSError as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        print(f"dpbench: {error}; finished blocks are kept, to go on: {command}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print(
            f"\ndpbench: interrupted; finished blocks are kept, to go on: {command}",
            file=sys.stderr,
        )
        return INTERRUPTED


def _run(argv: Sequence[str]) -> int:
    flags = arguments(argv)
    if flags.help:
        print(_help(flags.config_dir))
        return DONE
    if not flags.multirun:
        return _run_one(flags.overrides, flags.config_dir, show=flags.cfg is not None)
    runs = multirun(flags.overrides)
    return max(_run_one(one, flags.config_dir, show=flags.cfg is not None) for one in runs)


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


def _run_one(overrides: Sequence[str], config_dir: Path | None, *, show: bool) -> int:
    config = composed(overrides, config_dir)
    if show:
        from omegaconf import OmegaConf  # used for this flag only

        print(OmegaConf.to_yaml(config), end="")
        return DONE
    settings = from_mapping(Settings, config, "")
    sweep = from_mapping(SweepSettings, settings.sweep, "sweep")
    plugins = load_plugins(settings.plugins, config_dir)
    from dpbench.study import Study  # heavy imports wait for a readable command

    return Study.prepare(settings, sweep, plugins, config).run(overrides)
