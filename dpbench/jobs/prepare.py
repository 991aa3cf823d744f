"""which job a configuration is."""

from __future__ import annotations

import inspect
import secrets
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dpbench.registry import Registered

if TYPE_CHECKING:  # slow to load
    from dpbench.jobs.audit import Audit
    from dpbench.jobs.libraries import Libraries
    from dpbench.jobs.study import Job
    from dpbench.runner.settings import Settings


def prepared(
    settings: Settings, config: Mapping[str, Any], config_dir: Path | None, out: Path | None
) -> Job | Audit | Libraries:
    """Build everything that a configuration names, to be run in a folder or in memory (None).

    ConfigError at the first key that cannot be used; nothing is run or written.
    """
    from dpbench.runner.settings import load_plugins

    plugins = load_plugins(settings.plugins, config_dir)
    from dpbench.runner.origin import used_by
    from dpbench.runner.run import RunOptions  # heavy imports wait for a readable configuration

    kinds = list(_own_kinds(settings.sweep))
    depends = used_by([*settings.plugins, *(kind.__module__ for kind in kinds)])
    own = tuple(map(_source, kinds))
    shared = {key: getattr(settings, key) for key in ("seed", "n_jobs", "runner", "resume")}
    options = RunOptions(**shared, out=out, plugins=plugins, own=own, depends=depends)
    whole = plain({**config, "sweep": settings.sweep})
    if "audit" in settings.sweep:
        from dpbench.jobs.audit import Audit

        return Audit.prepare(settings, options, whole)
    if "libraries" in settings.sweep:
        from dpbench.jobs.libraries import Libraries

        return Libraries.prepare(settings, options, whole)
    from dpbench.jobs.study import Job

    return Job.prepare(settings, options, whole)


def plain(spec: Any) -> Any:
    """A configuration with objects, as one that JSON can hold and `load` can read."""
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
    """The classes of objects in place of configuration, and their bases, that are not dpbench's."""
    if isinstance(spec, Mapping):
        for value in spec.values():
            yield from _own_kinds(value)
    elif isinstance(spec, Registered) and is_dataclass(spec):
        known = {"dpbench", *sys.stdlib_module_names}
        yield from (k for k in type(spec).__mro__ if k.__module__.partition(".")[0] not in known)
        yield from _own_kinds({field.name: getattr(spec, field.name) for field in fields(spec)})


def _source(kind: type[Any]) -> str:
    """The source of a class's module; what nobody can read may be another at any time."""
    try:
        module = inspect.getmodule(kind)
        whole = module is not None and getattr(module, "__file__", None) is not None
        return inspect.getsource(module if whole and module else kind)
    except (OSError, TypeError):
        return secrets.token_hex(16)
