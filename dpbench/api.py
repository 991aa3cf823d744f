"""Python functions that run a sweep and read the result of a finished run."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Never

from dpbench.errors import (
    check_instance,
    check_list,
    reject_unknown_keywords,
)
from dpbench.jobs.prepare import prepare_job
from dpbench.package import user_folder
from dpbench.registry import ConfigError, from_mapping

if TYPE_CHECKING:
    from dpbench.report.run_result import Result

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
    """Run a sweep and return its result.

    Parameters
    ----------
    sweep : str or mapping
        Name of a sweep that comes with the package or lies in `config_dir`; or a mapping with the
        keys of `dpbench.report.study.Study`, in which families, estimators and budgets may be
        objects.
    out : str or Path, optional
        Folder to write to and to resume from. By default results are kept in memory.
    seed : int
        Seed of all random streams. 0 by default.
    trials : int, optional
        Number of trials, in place of the numbers in the sweep.
    n_jobs : int
        Number of processes; -1 (default) uses all cores. No result depends on it.
    resume : bool
        If True (default), reuse finished blocks in `out`.
    plugins : sequence of str
        Modules to import, which define further estimators and distributions.
    config_dir : str or Path, optional
        Folder of your own configurations.
    overrides : sequence of str
        Changes to the keys of a sweep, if `sweep` is a name, as on the command line:
        ``sweep.budgets.pure.epsilon=1``.

    Returns
    -------
    Result
        Tables of errors and claims, and the figures.

    Raises
    ------
    ConfigError
        If an argument or a key of the sweep cannot be used; then nothing is run.

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
    reject_unknown_keywords(unknown, run)
    from dpbench.runner.settings import Settings

    check_instance(
        "sweep", sweep, str | Mapping, "the name of a sweep, or a mapping",
        "a name such as 'quick'; config_dir=FOLDER says where your own sweeps are",
    )  # fmt: skip
    plugins = check_list("plugins", plugins, str, "the name of a module", "'my_mean'")
    overrides = check_list("overrides", overrides, str, "a text", "'sweep.budgets.pure.epsilon=1'")
    check_instance("resume", resume, bool, "True or False", "True")
    folder = None if config_dir is None else user_folder(config_dir, "config_dir")
    config = _compose_sweep(sweep, overrides, folder)
    config |= {"seed": seed, "trials": trials, "n_jobs": n_jobs, "resume": resume}
    config |= {"plugins": [*config.get("plugins", []), *plugins]}
    folder_name = os.fspath(out) if isinstance(out, os.PathLike) else out
    settings = from_mapping(Settings, {**config, "out": folder_name}, "")
    place = None if settings.out is None else Path(settings.out)
    return prepare_job(settings, config, folder, place).result()


def _compose_sweep(
    sweep: str | Mapping[str, Any], overrides: Sequence[str], folder: Path | None
) -> dict[str, Any]:
    """Return the configuration of a sweep that is given by its name or as a mapping.

    Raise ConfigError if a mapping comes with overrides. Also raise it if an override changes a key
    that belongs neither to the sweep nor to the runner.
    """
    from dpbench.jobs.composition import compose

    if not isinstance(sweep, str):
        if overrides:
            raise ConfigError("overrides: only for a sweep given by name; change the mapping")
        return {"sweep": sweep}
    for override in overrides:
        if not re.match(r"[+~]*(sweep\.|estimator@sweep\.|distribution@sweep\.|runner)", override):
            raise ConfigError(
                f"overrides: {override!r}: only keys of the sweep and the runner can be set; "
                "others are arguments"
            )
    return compose([f"sweep={sweep}", *overrides], folder)


def load(folder: str | Path, *, config_dir: str | Path | None = None) -> Result:
    """Read the result of a finished run.

    Parameters
    ----------
    folder : str or Path
        Folder of the run; the command line writes to ``results/<sweep>`` by default.
    config_dir : str or Path, optional
        Folder of the run's plug-ins, if they are not in the working folder.

    Returns
    -------
    Result
        Tables of errors and claims, and the figures.

    Raises
    ------
    ConfigError
        If the folder holds no finished study, the run used a class that is not imported, or
        `config_dir` does not exist.
    """
    from dpbench.report.run_result import load_result

    check_instance("folder", folder, str | os.PathLike, "the folder of a run", "its path, a text")
    plugin_folder = None if config_dir is None else user_folder(config_dir, "config_dir")
    return load_result(Path(folder).expanduser(), plugin_folder)
