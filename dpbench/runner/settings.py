"""Top-level keys of a configuration, and the import of plug-ins."""

from __future__ import annotations

import importlib
import os
import re
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BeforeValidator, Field

from dpbench.errors import choose_from
from dpbench.output.names import Font, Width
from dpbench.registry import ConfigError, Trials, nested_entry, validated
from dpbench.runner.execute import Runner

__all__ = ["PathText", "Processes", "Seed", "Settings", "import_plugins", "load_plugins"]

MAX_PROCESSES = 1024


def _usable_path(text: str) -> str:
    """Return a path with ~ expanded; raise ValueError if no file can have this name."""
    try:
        os.fsencode(text)
        if "\0" not in text:
            return str(Path(text).expanduser())
    except (RuntimeError, UnicodeError):
        pass
    raise ValueError("no file can have this name")


def _check_processes(processes: int) -> int:
    """Return the number of processes; raise ValueError if it is 0."""
    if processes == 0:
        raise ValueError("give a number of processes, or -1 for all cores")
    return processes


def _check_plugins(names: Any) -> Any:
    """Return names of modules unchanged; raise ValueError with the right form of a file's name."""
    if isinstance(names, str):
        raise ValueError(f"expected a list: [{Path(names).name.removesuffix('.py')}]")
    for name in names if isinstance(names, list | tuple) else ():
        if (
            not isinstance(name, str)
            or re.fullmatch(r"[A-Za-z_][\w.]*", name) is None
            or (name.endswith(".py"))
        ):
            path = Path(str(name))
            module = re.sub(r"\W", "_", path.name.removesuffix(".py"))
            renamed = "" if module == path.name.removesuffix(".py") else ", after renaming the file"
            folder = "" if path.parent == Path() else f", and --config-dir {path.parent}"
            raise ValueError(f"expected names of modules: [{module}]{folder}{renamed}")
    return names


Seed = Annotated[int, Field(ge=0, lt=2**63)]
Processes = Annotated[int, Field(ge=-1, le=MAX_PROCESSES), AfterValidator(_check_processes)]
PathText = Annotated[str, Field(min_length=1), AfterValidator(_usable_path)]


@validated
class Settings:
    """Top-level keys of a configuration: the sweep, and the options of its run.

    Parameters
    ----------
    sweep : mapping
        The experiment: a `dpbench.report.study.Study`, a `dpbench.audit.cases.AuditSweep`, or a
        `dpbench.libraries.sweep.LibrarySweep`.
    seed : int
        Seed of all random streams, from 0 to 2^63 - 1.
    trials : int, optional
        Number of trials of every part of the sweep; by default each part sets its own.
    n_jobs : int
        Number of processes, at most one for each block; -1 uses all cores. It changes no result.
    out : str, optional
        Folder of the run; by default ``results/<sweep>`` below the working folder.
    resume : bool
        If True (the default), reuse finished blocks in `out`.
    runner : Runner
        Choice of the processes that run blocks: processes of this machine, or a dask cluster.
    plugins : list of str
        Names of Python modules with the user's estimators or distributions.
    rerun : str, optional
        Name of a failure in an earlier run. Only the estimator that failed is run again, to
        show the traceback.
    track : {'check', 'update'}, optional
        ``check`` compares the errors of all trials with the stored baseline. ``update`` stores them
        as a new baseline.
    baseline : str, optional
        File of the baseline; by default ``results/baselines/<sweep>.parquet`` of the checkout.
    report : {'all'}, optional
        If ``all``, put all finished runs on one page, and run no sweep.
    paper : bool
        If True, draw figures for a column of a paper, as PDF and PNG besides SVG, each with a LaTeX
        file that includes the PDF. Also
        write tables: the errors in ``errors.tex`` and ``errors.md``, and the claims, if any, in
        ``claims.tex``. False by default.
    size : {'page', 'column', 'slide'}, optional
        Size of figures: 7 inches wide, 3.4 inches wide, or 16:9 with large type. By default
        ``column`` if `paper` is True, else ``page``. Columns and slides are also drawn as PDF and
        PNG.
    font : {'sans', 'serif'}
        Typeface of figures. ``sans`` by default.
    """

    sweep: Mapping[str, Any]
    seed: Seed = 0
    trials: Trials | None = None
    n_jobs: Processes = -1
    out: PathText | None = None
    resume: bool = True
    runner: Annotated[Runner, nested_entry(Runner)] = Runner()
    plugins: Annotated[
        tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*$")], ...],
        BeforeValidator(_check_plugins),
    ] = ()
    rerun: Annotated[str, Field(pattern=r"^f[0-9a-f]{10}n[1-9][0-9]{0,17}$")] | None = None
    track: Literal["check", "update"] | None = None
    baseline: PathText | None = None
    report: Literal["all"] | None = None
    paper: bool = False
    size: Width | None = None
    font: Font = "sans"


# Cached, because it is called for thousands of paths in every run.
_real_path = cache(os.path.realpath)


def import_plugins(names: Sequence[str], config_dir: Path | None) -> set[Path]:
    """Import the plug-in modules and return the folders that contain them; see `load_plugins`."""
    for folder in (config_dir, Path.cwd()):
        if folder is not None and str(folder.resolve()) not in sys.path:
            sys.path.append(str(folder.resolve()))
    roots: set[Path] = set()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            first, *_ = str(error).splitlines() or [""]
            advice = _similar_modules(name, config_dir) if isinstance(error, ImportError) else ""
            message = f"plugins: {name!r}: {type(error).__name__}: {first}{advice}"
            raise ConfigError(message) from error
        source = getattr(sys.modules[name.partition(".")[0]], "__file__", None)
        if source is None:
            raise ConfigError(f"plugins: {name!r}: a folder without __init__.py is no module")
        roots.add(Path(source).resolve().parent)
    return roots


def _similar_modules(name: str, config_dir: Path | None) -> str:
    """Return advice on a missing module: the name of a similar file, or the searched folders.

    The advice is empty if a file has this name, because then an import in that file has failed.
    """
    folders = [folder for folder in (config_dir, Path.cwd()) if folder is not None]
    files = [path.stem for folder in folders for path in sorted(folder.glob("*.py"))]
    if name in files:
        return ""
    suggestion, is_similar, _ = choose_from(name, files).partition("? ")
    if is_similar:
        return f"; {suggestion}?"
    return "; it is searched in the working folder and in --config-dir DIR"


def load_plugins(names: Sequence[str], config_dir: Path | None) -> tuple[Path, ...]:
    """Import the plug-in modules; return the source files of them and of all they import.

    Python searches installed packages first, then `config_dir` (the folder of the configuration),
    then the working folder. Only files in or below the folders of the plug-ins are returned,
    without installed packages and dpbench. Raise ConfigError if an import fails, or if a name is a
    folder without ``__init__.py``.
    """
    if not names:
        return ()
    from dpbench.runner.opened_files import folders, note_opened

    folders.clear()
    folders.update(folder for folder in (config_dir, Path.cwd()) if folder is not None)
    with note_opened():
        roots = import_plugins(names, config_dir)
    folders.update(roots)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    # Strings, because thousands of Path objects would take ten times as long.
    loaded = {_real_path(file) for file in files if file and file.endswith(".py")}
    below = tuple(os.path.join(root, "") for root in roots)  # noqa: PTH118
    plugin_files = (Path(path) for path in loaded if path.startswith(below))
    own = Path(__file__).resolve().parent
    return tuple(
        sorted(p for p in plugin_files if own not in p.parents and "site-packages" not in p.parts)
    )
