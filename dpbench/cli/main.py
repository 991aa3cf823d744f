"""Command line of dpbench: ``python -m dpbench sweep=heavy_tail``."""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path

from dpbench import signals
from dpbench.app import commands
from dpbench.cli.help import help_text, unknown_command
from dpbench.errors import ConfigError, ErrorCollector
from dpbench.output.command_line import parse_flags
from dpbench.output.help_page import help_page
from dpbench.output.run_folder import read_manifest
from dpbench.output.terminal import TO_DECIDE, command_line, line_width, screen_width
from dpbench.package import __version__

__all__ = ["run"]

DONE, FAILED, UNUSABLE = 0, 1, 2
AUTO, AUTO_SECONDS = "trials=auto", 600.0
# Messages of exceptions without a text.
NO_REASON: dict[type[BaseException], str] = {
    MemoryError: "use fewer processes (n_jobs=1), or raise the memory limit (ulimit -v)"
}
HELP_FLAGS = {"--help", "-h"}


def run(argv: Sequence[str]) -> int:
    """Run the command line with the words `argv`, and return its exit code.

    The code is 0 if everything succeeded, 2 if the configuration cannot be used, else 1. After a
    signal it is 128 + the signal's number: 130 for Ctrl-C, 143 for SIGTERM, 129 for SIGHUP.

    A run fails with 1 if an estimator failed, errors are worse than the stored errors of the
    baseline, or a privacy claim is refuted. An inconsistent claim fails a run unless the sweep sets
    ``fail_on_inconsistent`` to false.
    """
    is_command = bool(set(argv[:1]) & set(commands()))
    advice = (
        ""
        if is_command or HELP_FLAGS & set(argv)
        else f"; finished blocks are kept, to go on: {command_line(argv)}"
    )
    signals.advice = advice
    try:
        with line_width(screen_width()):
            return _run(argv)
    except (ConfigError, OSError, BrokenExecutor, MemoryError) as error:
        if os.environ.get("HYDRA_FULL_ERROR") == "1":
            raise
        if isinstance(error, ConfigError):
            print(*(f"dpbench: {line}" for line in error.lines), sep="\n", file=sys.stderr)
            return UNUSABLE
        first, *_ = str(error).splitlines() or [NO_REASON.get(type(error), "")]
        message, code = f"{type(error).__name__}: {first}", FAILED
    except KeyboardInterrupt as error:
        print(file=sys.stderr)
        message, code = "interrupted", signals.exit_code_of(error)
    print(f"dpbench: {message}{advice}", file=sys.stderr)
    return code


def _run(argv: Sequence[str]) -> int:
    """Run a command, print a text that a flag asks for, or run sweeps; return the exit code."""
    if argv[:1] == ["help"]:
        argv = ["--help", *argv[1:]]
    name = next((word for word in argv[:2] if word not in HELP_FLAGS), "")
    if name in commands() and (argv[0] == name or len(argv) == 2):
        command = commands()[name]
        if HELP_FLAGS & set(argv):
            print(help_page(command.usage))
            return DONE
        signals.install_interrupt_handlers()
        return command.main(argv[1:])
    if argv and argv[0].replace("-", "").replace("_", "").isalnum() and argv[0][0] != "-":
        raise unknown_command(argv[0], commands())
    text = _completion(argv)
    if text is None:
        flags = parse_flags(argv)
        text = _text_of_flags(flags)
        if text is None:
            run_all = _run_until_decided if AUTO in flags.overrides else _run_sweeps
            return run_all(argv, flags)
    if text:  # a shell completes files if nothing is printed
        print(text)
    return DONE


def _completion(argv: Sequence[str]) -> str | None:
    """Return what ``--completion SHELL`` or ``--complete WORD ...`` prints; None without these."""
    if argv[:1] not in (["--completion"], ["--complete"]):
        return None
    from dpbench.cli.completion import complete, completion_script

    flag, *words = argv
    return (
        completion_script(" ".join(words)) if flag == "--completion" else "\n".join(complete(words))
    )


def _text_of_flags(flags: argparse.Namespace) -> str | None:
    """Return the text that flags such as ``--version`` ask for; None if sweeps are to be run."""
    if flags.version:
        return f"dpbench {__version__}"
    if flags.help is not None or flags.schema:
        text = help_text(flags, commands())
        return text if flags.schema else help_page(text)
    return None


def _run_until_decided(argv: Sequence[str], flags: argparse.Namespace) -> int:
    """Run a sweep with more and more trials, until its claims are decided; return the exit code.

    The first run has the sweep's own trials. A run that would take longer than `AUTO_SECONDS` is
    not started, but its command is the last line.
    """
    if flags.multirun:
        raise ConfigError(f"{AUTO}: runs one sweep; leave out --multirun")
    words = [word for word in argv if word != AUTO]
    while True:
        flags = parse_flags(words)
        code = _run_sweeps(words, flags)
        if flags.cfg is not None:
            return code
        from dpbench.jobs.composition import compose
        from dpbench.jobs.prepare import make_job

        record = read_manifest(
            make_job(compose(flags.overrides, flags.config_dir), flags.config_dir).folder
        )
        description, added, _ = record["next"] or ("", [], None)
        if description != TO_DECIDE:
            return code
        trials = int(added[0].partition("=")[2])
        seconds = record["computed"]["seconds"] * trials / record["most_trials"]
        if seconds > AUTO_SECONDS:
            print(f"dpbench: {AUTO}: that would take about {seconds / 60:.0f} min", file=sys.stderr)
            return code
        words = [*(word for word in words if not word.startswith("trials=")), *added]


def _run_sweeps(argv: Sequence[str], flags: argparse.Namespace) -> int:
    """Run sweeps, or print their configurations; return the exit code."""
    if misplaced := [word for word in flags.overrides if word in commands()]:
        raise ConfigError(f"{misplaced[0]}: a command comes first: dpbench {misplaced[0]} ...")
    from dpbench.jobs.composition import compose, expand_multirun

    runs = expand_multirun(flags.overrides) if flags.multirun else [flags.overrides]
    if len(runs) > 1:
        gc.enable()  # because each run leaves 2 MB of garbage, and there may be a thousand
    if flags.cfg is not None:
        from omegaconf import OmegaConf

        for overrides in runs:
            print(OmegaConf.to_yaml(compose(overrides, flags.config_dir)), end="")
        return DONE
    from dpbench.jobs.base import FolderJob
    from dpbench.jobs.finished_run import FinishedRun, print_next
    from dpbench.jobs.prepare import make_job

    if not argv:
        advice = f"for all else: {command_line(['--help'])}"
        print(f"dpbench: runs sweep=quick; {advice}", file=sys.stderr)
    errors, jobs = ErrorCollector(), []
    for overrides in runs:
        with errors.step():
            config = compose(overrides, flags.config_dir, errors)
            jobs.append(make_job(config, flags.config_dir))
    errors.raise_all()
    folder = [] if flags.config_dir is None else ["--config-dir", str(flags.config_dir)]
    words = (
        [[*folder, *overrides_of_run] for overrides_of_run in runs] if flags.multirun else [argv]
    )
    _check_apart("out", [job.folder for job in jobs])
    _check_apart("baseline", [job.stores for job in jobs if job.stores is not None])
    signals.install_interrupt_handlers()
    codes = []
    for job, run_words in zip(jobs, words, strict=True):
        codes.append(job.run(run_words))
        if isinstance(job, FolderJob | FinishedRun):
            print_next(job.folder, run_words)
    return max(codes)


def _check_apart(key: str, paths: Sequence[Path]) -> None:
    """Raise ConfigError if two of `paths` are equal; there is one path for each run.

    The message names `key`, the key of a configuration that sets the path.
    """
    for path in paths:
        if paths.count(path) > 1:
            raise ConfigError(
                f"{key}: '{path}': two of the runs share it; give each its own, such as "
                f"'{key}=results/run-${{seed}}'"
            )
