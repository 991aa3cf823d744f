"""What the command does, as functions."""

from __future__ import annotations

import inspect
import os
import re
import secrets
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from dpbench.errors import no_others
from dpbench.registry import ConfigError, Registered, from_mapping

if TYPE_CHECKING:  # slow to load
    from dpbench.audit.run import Audit
    from dpbench.config import Settings
    from dpbench.job import Job
    from dpbench.libraries.run import Libraries
    from dpbench.result import Result

__all__ = ["load", "plain", "prepared", "run"]


def run(
    sweep: str | Mapping[str, Any],
    *,
    out: str | Path | None = None,
    seed: int = 0,
    trials: int | None = None,
    n_jobs: int = -1,
    resume: bool = True,
    plugins: Sequence[str] = (),
    config_dir: str | Path | None = None,
    overrides: Sequence[str] = (),
    **unknown: Never,
) -> Result:
    """Run a sweep.

    Parameters
    ----------
    sweep : str or mapping
        A shipped sweep, or one of `config_dir`, by name; or the keys of a `dpbench.study.Study`,
        in which families, estimators and budgets may be objects.
    out : str or Path, optional
        A folder to write to and to resume from; by default everything is kept in memory.
    seed, trials, n_jobs, resume, plugins
        As on the command line; see `dpbench.config.Settings`.
    config_dir : str or Path, optional
        A folder of your own configurations.
    overrides : sequence of str
        Of keys of a sweep with a name, as on the command line: ``sweep.budgets.pure.epsilon=1``.

    Raises
    ------
    ConfigError
        If anything cannot be used; nothing is run then.

    Examples
    --------
    >>> import dpbench
    >>> from dpbench.distributions import Gaussian
    >>> from dpbench.estimators import ClippedMean
    >>> result = dpbench.run({
    ...     "families": {"gaussian": Gaussian()},
    ...     "estimators": {"clipped": ClippedMean(lower=-4, upper=4)},
    ...     "budgets": {"pure": dpbench.PureDP(1.0)},
    ...     "parts": {"all": {"n": [100, 1000], "trials": 50}},
    ... }, n_jobs=1)
    >>> list(result.summary["n"])
    [100, 1000]
    """
    no_others(unknown, run)
    from dpbench.config import Settings
    from dpbench.job import Job

    folder = None if config_dir is None else Path(config_dir)
    config = _configured(sweep, overrides, folder)
    config |= {"seed": seed, "trials": trials, "n_jobs": n_jobs, "resume": resume}
    config |= {"plugins": [*config.get("plugins", []), *plugins]}
    place = os.fspath(out) if isinstance(out, os.PathLike) else out
    settings = from_mapping(Settings, {**config, "out": place}, "")
    if "audit" in settings.sweep:
        raise ConfigError("sweep: an audit is run by the command, or pair by pair by audit_pair")
    if "libraries" in settings.sweep:
        raise ConfigError("sweep: libraries are measured by the command; `library_mean` needs none")
    job = prepared(settings, config, folder, None if settings.out is None else Path(settings.out))
    assert isinstance(job, Job)
    return job.result()


def _configured(
    sweep: str | Mapping[str, Any], overrides: Sequence[str], folder: Path | None
) -> dict[str, Any]:
    """The configuration of a sweep by name, with overrides, or of one that is given whole."""
    from dpbench.composition import composed

    if not isinstance(sweep, str):
        if overrides:
            raise ConfigError("overrides: they are for a sweep with a name; change the mapping")
        return {"sweep": sweep}
    for one in overrides:
        if not re.match(r"[+~]*(sweep\.|estimator@sweep\.|distribution@sweep\.|runner)", one):
            raise ConfigError(f"overrides: {one!r}: only keys of the sweep and of the runner")
    return composed([f"sweep={sweep}", *overrides], folder)


def prepared(
    settings: Settings, config: Mapping[str, Any], config_dir: Path | None, out: Path | None
) -> Job | Audit | Libraries:
    """Build everything that a configuration names, to be run in a folder or in memory (None).

    ConfigError at the first key that cannot be used; nothing is run or written.
    """
    from dpbench.config import load_plugins

    plugins = load_plugins(settings.plugins, config_dir)
    from dpbench.runner.run import RunOptions  # heavy imports wait for a readable configuration
    from dpbench.runner.sources import used_by

    kinds = list(_own_kinds(settings.sweep))
    depends = used_by([*settings.plugins, *(kind.__module__ for kind in kinds)])
    own = tuple(map(_source, kinds))
    shared = {key: getattr(settings, key) for key in ("seed", "n_jobs", "runner", "resume")}
    options = RunOptions(**shared, out=out, plugins=plugins, own=own, depends=depends)
    whole = plain({**config, "sweep": settings.sweep})
    if "audit" in settings.sweep:
        from dpbench.audit.run import Audit

        return Audit.prepare(settings, options, whole)
    if "libraries" in settings.sweep:
        from dpbench.libraries.run import Libraries

        return Libraries.prepare(settings, options, whole)
    from dpbench.job import Job

    return Job.prepare(settings, options, whole)


def load(folder: str | Path, *, config_dir: str | Path | None = None) -> Result:
    """Read the result of a finished run, of ``results/<sweep>`` by default.

    Parameters
    ----------
    folder : str or Path
    config_dir : str or Path, optional
        The folder that the run's plug-ins were found in, if that was not the working folder.

    Raises
    ------
    ConfigError
        If there is no finished run, or it names a class that was not imported yet.
    """
    import dpbench.report  # noqa: F401 (the figures enter the registry)
    from dpbench.config import Settings, load_plugins
    from dpbench.folder import read_manifest
    from dpbench.result import read_result
    from dpbench.study import Study

    path = Path(folder).expanduser()
    manifest = read_manifest(path)
    if not (path / "summary.csv").exists():
        tables = ", ".join(sorted(one.name for one in path.glob("*.csv")))
        raise ConfigError(f"'{path}': holds an audit, or libraries; its tables are {tables}")
    settings = from_mapping(Settings, {**manifest["configuration"], "out": None}, "")
    load_plugins(settings.plugins, None if config_dir is None else Path(config_dir))
    return read_result(from_mapping(Study, settings.sweep, "sweep"), path, manifest)


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
