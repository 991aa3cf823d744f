"""Top level of a configuration, and the import of plug-ins."""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dpbench.output.style import Font
from dpbench.registry import ConfigError, Trials, keyed, validated
from dpbench.runner.execute import Runner

__all__ = ["PathText", "Processes", "Seed", "Settings", "import_plugins", "load_plugins"]

MOST_PROCESSES = 1024


def _usable_path(text: str) -> str:
    """Return the path with ~ expanded; raise ValueError if no file can have it."""
    try:
        os.fsencode(text)
        if "\0" not in text:
            return str(Path(text).expanduser())
    except (RuntimeError, UnicodeError):
        pass
    raise ValueError("no file can have this name")


def _some(processes: int) -> int:
    if processes == 0:
        raise ValueError("give a number of processes, or -1 for all cores")
    return processes


Seed = Annotated[int, Field(ge=0, lt=2**63)]
Processes = Annotated[int, Field(ge=-1, le=MOST_PROCESSES), AfterValidator(_some)]
PathText = Annotated[str, Field(min_length=1), AfterValidator(_usable_path)]


@validated
class Settings:
    """Top level of the configuration.

    Parameters
    ----------
    sweep : mapping
        The experiment: a `dpbench.analysis.study.Study`, a `dpbench.audit.cases.AuditSweep`, or a
        `dpbench.libraries.sweep.LibrarySweep`.
    seed : int
        Seed of all random streams, from 0 to 2^63 - 1.
    trials : int, optional
        Number of trials of every part; by default each part sets its own.
    n_jobs : int
        Number of processes, at most one for each block; -1 for all cores. No result depends on it.
    out : str, optional
        Folder of the run; by default ``results/<sweep>`` below the working folder.
    resume : bool
        Whether to reuse finished blocks in `out`.
    runner : Runner
        Processes that run blocks: of this machine, or of a dask cluster.
    plugins : list of str
        Modules with the user's estimators or distributions.
    replay : str, optional
        Name of a failure; only this failure is run again, to show its traceback.
    track : {'check', 'update'}, optional
        Compare the errors of all trials with the stored baseline, or store them as a new baseline.
    baseline : str, optional
        File of the baseline; by default ``results/baselines/<sweep>.parquet`` of the checkout.
    report : {'all'}, optional
        Put all finished runs on one page, and run no sweep.
    paper : bool
        Draw figures for a column of a paper, each with a LaTeX file that includes it with a
        caption, and write the claims as a table, ``claims.tex``.
    font : {'sans', 'serif'}
        Typeface of figures.
    """

    sweep: Mapping[str, Any]
    seed: Seed = 0
    trials: Trials | None = None
    n_jobs: Processes = -1
    out: PathText | None = None
    resume: bool = True
    runner: Annotated[Runner, keyed(Runner)] = Runner()
    plugins: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*$")], ...] = ()
    replay: Annotated[str, Field(pattern=r"^f[0-9a-f]{10}n[1-9][0-9]{0,17}$")] | None = None
    track: Literal["check", "update"] | None = None
    baseline: PathText | None = None
    report: Literal["all"] | None = None
    paper: bool = False
    font: Font = "sans"


_real = cache(os.path.realpath)  # called for thousands of paths, and again for every run


def import_plugins(names: Sequence[str], config_dir: Path | None) -> set[Path]:
    """Import the plug-in modules, see `load_plugins`; return the folders that contain them.

    Parameters
    ----------
    names : sequence of str
        Names of modules.
    config_dir : Path or None
        Folder of the configuration, which is searched first.

    Returns
    -------
    set of Path

    Raises
    ------
    ConfigError
        If an import fails, or a name is a folder without ``__init__.py``.
    """
    for folder in (config_dir, Path.cwd()):
        if folder is not None and str(folder.resolve()) not in sys.path:
            sys.path.append(str(folder.resolve()))
    roots: set[Path] = set()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            first, *_ = str(error).splitlines() or [""]
            raise ConfigError(f"plugins: {name!r}: {type(error).__name__}: {first}") from error
        source = getattr(sys.modules[name.partition(".")[0]], "__file__", None)
        if source is None:
            raise ConfigError(f"plugins: {name!r}: a folder without __init__.py is no module")
        roots.add(Path(source).resolve().parent)
    return roots


def load_plugins(names: Sequence[str], config_dir: Path | None) -> tuple[Path, ...]:
    """Import the plug-in modules; return their source files and those that they import.

    Python searches installed packages first, then `config_dir`, then the working folder. Only
    files in the folders of the plug-ins are returned, without installed packages and dpbench.

    Parameters
    ----------
    names : sequence of str
        Names of modules.
    config_dir : Path or None
        Folder of the configuration.

    Returns
    -------
    tuple of Path

    Raises
    ------
    ConfigError
        If an import fails, or a name is a folder without ``__init__.py``.
    """
    if not names:
        return ()
    roots = import_plugins(names, config_dir)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    # Thousands of paths: as strings they take a tenth of the time of Path objects.
    loaded = {_real(file) for file in files if file and file.endswith(".py")}
    below = tuple(os.path.join(root, "") for root in roots)  # noqa: PTH118
    theirs = (Path(path) for path in loaded if path.startswith(below))
    own = Path(__file__).resolve().parent
    return tuple(
        sorted(p for p in theirs if own not in p.parents and "site-packages" not in p.parts)
    )
