"""Build the job that a configuration describes."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbench.app import App, applications
from dpbench.errors import ConfigError, ErrorCollector
from dpbench.jobs.app import CORE

if TYPE_CHECKING:
    from dpbench.jobs.base import Job
    from dpbench.jobs.finished_run import FinishedRun
    from dpbench.runner.settings import Settings

__all__ = ["find_app", "make_job", "plain_values", "prepare_job"]


def find_app(config: Mapping[str, Any]) -> App:
    """Return the application that runs a composed configuration: a study if no other accepts it."""
    return next(app for app in (*applications(), *CORE) if app.accepts(config))


def _refuse_keys_of_others(app: App, config: Mapping[str, Any]) -> None:
    """Raise a ConfigError if a key is set that chooses another application than `app`."""
    for key in (other.key for other in (*applications(), *CORE) if other is not app):
        if key and "." not in key and (value := config.get(key)) is not None:
            raise ConfigError(f"{key}: {value!r}: not for {app.noun}; omit {key}=")


def make_job(config: Mapping[str, Any], config_dir: Path | None) -> Job | FinishedRun:
    """Check a composed configuration and build its job, without running or writing anything.

    If a finished run has this configuration and unchanged files, return it instead of a job. This
    check comes first, because a job needs imports that are slow. `config_dir` is the folder of the
    user's configurations and plug-ins. If keys cannot be used, raise ConfigError with a line for
    each of them that was found.
    """
    from dpbench.jobs.finished_run import FinishedRun

    run = None if find_app(config).always_runs else FinishedRun.of(config)
    if run is not None and run.has_exactly(config):
        return run
    settings = _check_settings(config, config_dir)
    if run is not None:
        return run
    from dpbench.runner.workers import processes, start_server

    if settings.runner.backend == "local" and processes(settings.n_jobs) > 1:
        start_server(["dpbench.jobs.preload"])  # which imports while this process does
    # Runs of several sweeps lie side by side; an application that computes nothing has no sweep.
    default_folder = (
        settings.sweep.get("name", "sweep") if find_app(config).job().rooms is not None else ""
    )
    return prepare_job(
        settings, config, config_dir, Path(settings.out or f"results/{default_folder}")
    )


def _check_settings(config: Mapping[str, Any], config_dir: Path | None) -> Settings:
    """Return the checked top-level keys; if they are wrong, tell the errors of the sweep, too."""
    from dpbench.registry import from_mapping
    from dpbench.runner.settings import Settings

    errors = ErrorCollector()
    with errors.step():
        return from_mapping(Settings, config, "")
    if isinstance(config.get("sweep"), Mapping):
        others = {key: config[key] for key in ("sweep", "plugins") if key in config}
        with errors.step():
            prepare_job(from_mapping(Settings, others, ""), others, config_dir, None)
    errors.raise_all()
    raise AssertionError  # the first step has raised an error


def prepare_job(
    settings: Settings, config: Mapping[str, Any], config_dir: Path | None, out: Path | None
) -> Job:
    """Import the user's plug-ins and build the job that checked settings describe.

    `config_dir` is the folder of the plug-ins. Without a folder `out` of the run, results stay in
    memory. Raise ConfigError at the first key that cannot be used.
    """
    from dpbench.runner.origin import Origin
    from dpbench.runner.run import RunOptions
    from dpbench.runner.settings import load_plugins

    app = find_app(config)
    kind: type[Job] = app.job()
    _refuse_keys_of_others(app, config)
    if kind.rooms is None:
        return kind.prepare(settings, RunOptions(out=out), config)
    plugins = load_plugins(settings.plugins, config_dir)
    user_kinds = _user_kinds(settings.sweep)
    origin = Origin.of(rooms=kind.rooms, names=settings.plugins, plugins=plugins, kinds=user_kinds)
    shared = {key: getattr(settings, key) for key in ("seed", "n_jobs", "runner", "resume")}
    options = RunOptions(**shared, out=out, origin=origin)
    return kind.prepare(settings, options, plain_values({**config, "sweep": settings.sweep}))


def plain_values(spec: Any) -> Any:
    """Return a configuration with all objects replaced by values that JSON can represent.

    `dpbench.load` can build the objects again from the returned configuration.
    """
    from dpbench.registry import Registered

    if isinstance(spec, Mapping):
        return {str(key): plain_values(value) for key, value in spec.items()}
    if isinstance(spec, list | tuple):
        return [plain_values(value) for value in spec]
    if getattr(spec, "shape", None) == ():  # a numpy scalar
        return spec.item()
    if is_dataclass(spec) and not isinstance(spec, type):
        kind = type(spec)
        values = {field.name: plain_values(getattr(spec, field.name)) for field in fields(spec)}
        if isinstance(spec, Registered):
            values["_target_"] = f"{kind.__module__}.{kind.__name__}"
        return values
    return spec


def _user_kinds(spec: Any) -> Iterator[type[Any]]:
    """Yield the classes of the objects in a configuration, and their base classes.

    Classes of dpbench and of Python's standard library are left out.
    """
    from dpbench.registry import Registered

    if isinstance(spec, Mapping):
        for value in spec.values():
            yield from _user_kinds(value)
    elif isinstance(spec, Registered) and is_dataclass(spec):
        excluded = {"dpbench", *sys.stdlib_module_names}
        yield from (k for k in type(spec).__mro__ if k.__module__.partition(".")[0] not in excluded)
        yield from _user_kinds({field.name: getattr(spec, field.name) for field in fields(spec)})
