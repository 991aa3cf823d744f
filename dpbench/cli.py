"""The command line: ``python -m dpbench sweep=heavy_tail``."""

from __future__ import annotations

import gc
import os
import sys
import warnings
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import TextIO

from dpbench import signals
from dpbench.commands import command, commands
from dpbench.commands.command_line import arguments
from dpbench.errors import ConfigError, RenamedWarning
from dpbench.jobs.help import help_text, unknown_command
from dpbench.output.terminal import command_line
from dpbench.package import __version__

__all__ = ["run"]

DONE, FAILED, UNUSABLE = 0, 1, 2


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
        with warnings.catch_warnings():
            warnings.showwarning = _show_warning
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


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    """Print a name of an earlier release in one line, and other warnings in Python's format."""
    if issubclass(category, RenamedWarning):
        print(f"dpbench: {message}", file=sys.stderr)
    else:
        print(
            warnings.formatwarning(message, category, filename, lineno, line),
            file=file or sys.stderr,
            end="",
        )


def _run(argv: Sequence[str]) -> int:
    if argv and argv[0] in commands():
        module = command(argv[0])
        if {"--help", "-h"} & set(argv):
            print(module.USAGE)
            return DONE
        signals.install_interrupt_handlers()
        code: int = module.main(argv[1:])
        return code
    if argv and argv[0].replace("-", "").replace("_", "").isalnum() and argv[0][0] != "-":
        raise unknown_command(argv[0], commands())
    flags = arguments(argv)
    if flags.version:
        print(f"dpbench {__version__}")
        return DONE
    if flags.help is not None or flags.schema:
        print(help_text(flags, commands().values()))
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
    signals.install_interrupt_handlers()
    return max(job.run(own) for job, own in zip(jobs, words, strict=True))


def _check_apart(key: str, paths: Sequence[Path]) -> None:
    for path in paths:
        if paths.count(path) > 1:
            raise ConfigError(
                f"{key}: '{path}': two of the runs share it; give each its own, such as "
                f"'{key}=results/run-${{seed}}'"
            )
