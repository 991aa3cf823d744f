"""Build the job that a configuration describes."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # slow to load
    from dpbench.jobs.base import Job
    from dpbench.jobs.finished_run import FinishedRun
    from dpbench.runner.settings import Settings

__all__ = ["KINDS", "job_of", "kind_at", "plain_values", "prepared"]

# Classes of jobs by the sweep key that selects them; a sweep without such a key is a study.
KINDS = {
    "": "dpbench.jobs.study.StudyJob",
    "audit": "dpbench.jobs.audit.AuditJob",
    "libraries": "dpbench.jobs.libraries.LibrariesJob",
}
REPORT = "dpbench.jobs.report_all.ReportJob"


def kind_at(path: str) -> type[Job]:
    """Import the class of a job by its dotted path, which is slow."""
    module, _, name = path.rpartition(".")
    kind: type[Job] = getattr(importlib.import_module(module), name)
    return kind


def job_of(config: Mapping[str, Any], config_dir: Path | None) -> Job | FinishedRun:
    """Check a composed configuration and build its job; nothing is run or written.

    A finished run is recognised before slow libraries are imported.

    Parameters
    ----------
    config : mapping
        The whole configuration.
    config_dir : Path or None
        Folder of the user's configurations and plug-ins.

    Returns
    -------
    Job or FinishedRun

    Raises
    ------
    ConfigError
        At the first key that cannot be used.
    """
    from dpbench.jobs.finished_run import FinishedRun

    run = FinishedRun.of(config)
    if run is not None and run.has_exactly(config):
        return run
    from dpbench.registry import from_mapping  # slow to load
    from dpbench.runner.settings import Settings

    settings = from_mapping(Settings, config, "")
    if run is not None:
        return run
    usual = "" if settings.report else settings.sweep.get("name", "sweep")
    return prepared(settings, config, config_dir, Path(settings.out or f"results/{usual}"))


def prepared(
    settings: Settings, config: Mapping[str, Any], config_dir: Path | None, out: Path | None
) -> Job:
    """Import the plug-ins and build the job of checked settings; nothing is run or written.

    Parameters
    ----------
    settings : Settings
        Top-level keys of the configuration, checked.
    config : mapping
        The whole configuration.
    config_dir : Path or None
        Folder of the user's plug-ins.
    out : Path or None
        Folder of the run; None keeps results in memory.

    Returns
    -------
    Job

    Raises
    ------
    ConfigError
        At the first key that cannot be used.
    """
    from dpbench.runner.origin import Origin  # heavy imports wait for a readable configuration
    from dpbench.runner.run import RunOptions
    from dpbench.runner.settings import load_plugins

    if settings.report:
        return kind_at(REPORT).prepare(settings, RunOptions(out=out), config)
    plugins = load_plugins(settings.plugins, config_dir)
    kind = kind_at(KINDS[next((key for key in KINDS if key in settings.sweep), "")])
    own = _own_kinds(settings.sweep)
    origin = Origin.of(kind.work, names=settings.plugins, plugins=plugins, kinds=own)
    shared = {key: getattr(settings, key) for key in ("seed", "n_jobs", "runner", "resume")}
    options = RunOptions(**shared, out=out, origin=origin)
    return kind.prepare(settings, options, plain_values({**config, "sweep": settings.sweep}))


def plain_values(spec: Any) -> Any:
    """Convert a configuration that contains objects to one of plain values.

    JSON can store the returned configuration, and `dpbench.load` can build the objects again.
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
        found = {field.name: plain_values(getattr(spec, field.name)) for field in fields(spec)}
        if isinstance(spec, Registered):
            found["_target_"] = f"{kind.__module__}.{kind.__name__}"
        return found
    return spec


def _own_kinds(spec: Any) -> Iterator[type[Any]]:
    """Yield the classes, with their bases, of all objects of the user's in a configuration."""
    from dpbench.registry import Registered

    if isinstance(spec, Mapping):
        for value in spec.values():
            yield from _own_kinds(value)
    elif isinstance(spec, Registered) and is_dataclass(spec):
        known = {"dpbench", *sys.stdlib_module_names}
        yield from (k for k in type(spec).__mro__ if k.__module__.partition(".")[0] not in known)
        yield from _own_kinds({field.name: getattr(spec, field.name) for field in fields(spec)})
