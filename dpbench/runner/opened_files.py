"""Note the files that plug-ins open while they are imported or run.

The origin of a result covers the source of plug-ins and of their imports. A plug-in may also open a
data file, or import a module whose name it computes. No later run reuses a block of trials, the
rows of an audit or a measured library that depends on such a file.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from importlib.util import source_from_cache
from pathlib import Path
from typing import Any

from dpbench.package import PACKAGE
from dpbench.runner.imports import INSTALLED, find_source
from dpbench.runner.local import R, T
from dpbench.runner.origin import Origin

__all__ = ["explain_no_reuse", "folders", "note_opened", "noting"]

# Files that this process has opened inside `note_opened`. They stay noted until the process ends,
# because a plug-in may keep what it has read.
_opened: dict[str, None] = {}
_active: list[int] = []  # one item for each open context
_hooked: list[bool] = []  # not empty if the hook is installed; it cannot be removed
folders: set[Path] = set()  # folders in which plug-ins were searched


def _note(event: str, arguments: tuple[Any, ...]) -> None:
    """Note a file that is opened for reading; this is an audit hook, so it must not raise."""
    if event == "open" and _active and isinstance(arguments[0], str | bytes):
        flags = arguments[2] if isinstance(arguments[2], int) else 0
        if flags & os.O_ACCMODE != os.O_WRONLY:
            _opened[os.path.abspath(os.fsdecode(arguments[0]))] = None  # noqa: PTH100, for speed


@contextlib.contextmanager
def note_opened() -> Iterator[None]:
    """Note the files that this process opens for reading inside this context."""
    if not _hooked:
        sys.addaudithook(_note)
        _hooked.append(True)
    _active.append(1)
    try:
        yield
    finally:
        _active.pop()


def noting(run: Callable[[T], R], origin: Origin) -> Callable[[T], tuple[R, tuple[str, ...]]]:
    """Return a function of a task: the result of `run`, and the files that plug-ins have opened.

    Only files that the origin does not cover are listed. Without plug-ins there are none.
    """
    if origin.only_dpbench:
        return partial(_run_alone, run)
    places = {*folders, Path.cwd(), *(path.parent for path in origin.plugins)}
    known = {
        path.resolve() for path in (*origin.plugins, *map(find_source, origin.outside)) if path
    }
    return partial(
        _run_and_note, run, frozenset(map(_resolved, places)), frozenset(known), [*_opened]
    )


def explain_no_reuse(results: str, file: str) -> str:
    """Return the line that says why stored results that read a file are computed again."""
    return (
        f"{results} that read '{file}' are computed again, because nobody knows whether it has "
        "changed; to reuse them, list it in the attribute `files` of the estimator"
    )


def _run_alone(run: Callable[[T], R], task: T) -> tuple[R, tuple[str, ...]]:
    return run(task), ()


def _run_and_note(
    run: Callable[[T], R],
    places: frozenset[Path],
    known: frozenset[Path],
    earlier: Iterable[str],
    task: T,
) -> tuple[R, tuple[str, ...]]:
    """Run a task, and list the files outside its origin that this process has opened.

    The files are below `places` and not `known`. The main process has opened the files `earlier`,
    while it imported the plug-ins.
    """
    with note_opened():
        result = run(task)
    files = {_source_of(path) for path in {*earlier, *_opened}}
    return result, tuple(sorted(str(f) for f in files - known if _is_users(f, places)))


def _resolved(path: Path) -> Path:
    return path.resolve()


def _source_of(text: str) -> Path:
    """Return the resolved path of a file; for compiled bytecode, the path of its source."""
    path = Path(text).resolve()
    with contextlib.suppress(ValueError, NotImplementedError):
        return Path(source_from_cache(str(path)))
    return path


def _is_users(file: Path, places: Iterable[Path]) -> bool:
    """Return whether a file lies below `places`, and belongs to no installed package."""
    libraries = {PACKAGE, Path(sys.prefix) / "lib", Path(sys.base_prefix) / "lib"}
    return (
        file.is_file()
        and not INSTALLED & set(file.parts)
        and not libraries & set(file.parents)
        and any(place in file.parents for place in places)
    )
