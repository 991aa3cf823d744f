"""Which job a configuration asks for."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # slow to load
    from dpbench.jobs.base import Job
    from dpbench.jobs.finished import FinishedRun
    from dpbench.runner.settings import Settings

__all__ = ["KINDS", "job_of", "kind_at", "plain", "prepared"]

# The kinds of jobs by the key that a sweep asks for them with; a sweep without one is a study.
KINDS = {
    "": "dpbench.jobs.study.StudyJob",
    "audit": "dpbench.jobs.audit.AuditJob",
    "libraries": "dpbench.jobs.libraries.LibrariesJob",
}
REPORT = "dpbench.jobs.report_all.ReportJob"


def kind_at(path: str) -> type[Job]:
    """Import a kind of job, which is slow."""
    module, _, name = path.rpartition(".")
    kind: type[Job] = getattr(importlib.import_module(module), name)
    return kind


def job_of(config: Mapping[str, Any], config_dir: Path | None) -> Job | FinishedRun:
    """Read and check everything that a composed configuration needs.

    A finished run is recognised before anything slow is loaded. ConfigError at the first key that
    cannot be used; nothing is run or written.
    """
    from dpbench.jobs.finished import FinishedRun

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
    """Build everything that a configuration names, to be run in a folder or in memory (None).

    ConfigError at the first key that cannot be used; nothing is run or written.
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
    return kind.prepare(settings, options, plain({**config, "sweep": settings.sweep}))


def plain(spec: Any) -> Any:
    """Return a configuration with objects as one that JSON can hold and `load` can read."""
    from dpbench.registry import Registered

    if isinstance(spec, Mapping):
        return {str(key): plain(value) for key, value in spec.items()}
    if isinstance(spec, list | tuple):
        return [plain(value) for value in spec]
    if getattr(spec, "shape", None) == ():  # a number of an array
        return spec.item()
    if is_dataclass(spec) and not isinstance(spec, type):
        kind = type(spec)
        found = {field.name: plain(getattr(spec, field.name)) for field in fields(spec)}
        if isinstance(spec, Registered):
            found["_target_"] = f"{kind.__module__}.{kind.__name__}"
        return found
    return spec


def _own_kinds(spec: Any) -> Iterator[type[Any]]:
    """Yield classes of objects in place of configuration, and bases, that are not dpbench's."""
    from dpbench.registry import Registered

    if isinstance(spec, Mapping):
        for value in spec.values():
            yield from _own_kinds(value)
    elif isinstance(spec, Registered) and is_dataclass(spec):
        known = {"dpbench", *sys.stdlib_module_names}
        yield from (k for k in type(spec).__mro__ if k.__module__.partition(".")[0] not in known)
        yield from _own_kinds({field.name: getattr(spec, field.name) for field in fields(spec)})
