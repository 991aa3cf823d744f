"""What the command does, as functions."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from dpbench.errors import no_others
from dpbench.jobs.prepare import prepared
from dpbench.registry import ConfigError, from_mapping

if TYPE_CHECKING:  # slow to load
    from dpbench.analysis.result import Result

__all__ = ["load", "run"]


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
        A shipped sweep, or one of `config_dir`, by name; or the keys of a
        `dpbench.analysis.study.Study`, in which families, estimators and budgets may be objects.
    out : str or Path, optional
        A folder to write to and to resume from; by default everything is kept in memory.
    seed, trials, n_jobs, resume, plugins
        As on the command line; see `dpbench.runner.settings.Settings`.
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
    from dpbench.runner.settings import Settings

    folder = None if config_dir is None else Path(config_dir)
    config = _configured(sweep, overrides, folder)
    config |= {"seed": seed, "trials": trials, "n_jobs": n_jobs, "resume": resume}
    config |= {"plugins": [*config.get("plugins", []), *plugins]}
    named = os.fspath(out) if isinstance(out, os.PathLike) else out
    settings = from_mapping(Settings, {**config, "out": named}, "")
    place = None if settings.out is None else Path(settings.out)
    return prepared(settings, config, folder, place).result()


def _configured(
    sweep: str | Mapping[str, Any], overrides: Sequence[str], folder: Path | None
) -> dict[str, Any]:
    """The configuration of a sweep by name, with overrides, or of one that is given whole."""
    from dpbench.jobs.composition import composed

    if not isinstance(sweep, str):
        if overrides:
            raise ConfigError("overrides: they are for a sweep with a name; change the mapping")
        return {"sweep": sweep}
    for one in overrides:
        if not re.match(r"[+~]*(sweep\.|estimator@sweep\.|distribution@sweep\.|runner)", one):
            raise ConfigError(f"overrides: {one!r}: only keys of the sweep and of the runner")
    return composed([f"sweep={sweep}", *overrides], folder)


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
    from dpbench.analysis.result import read_result
    from dpbench.analysis.study import Study
    from dpbench.output.folder import read_manifest
    from dpbench.runner.settings import Settings, load_plugins

    path = Path(folder).expanduser()
    manifest = read_manifest(path)
    if not (path / "summary.csv").exists():
        tables = ", ".join(sorted(one.name for one in path.glob("*.csv")))
        raise ConfigError(f"'{path}': holds an audit, or libraries; its tables are {tables}")
    settings = from_mapping(Settings, {**manifest["configuration"], "out": None}, "")
    load_plugins(settings.plugins, None if config_dir is None else Path(config_dir))
    return read_result(from_mapping(Study, settings.sweep, "sweep"), path, manifest)
