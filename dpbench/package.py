"""Version of the package, its files, and the command with which a user starts it."""

from __future__ import annotations

import importlib
import importlib.util
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError, check_instance

__version__ = "1.0.0.dev0"
PACKAGE = Path(__file__).parent
MODULE_COMMAND = "python -m dpbench"  # command that usage texts in the source contain


def lazy_names(package: str, homes: Mapping[str, Sequence[str]]) -> Callable[[str], Any]:
    """Return a `__getattr__` that imports the public names of a package on first use.

    The names are listed by the file that defines them. Otherwise ``--help`` and refusals would wait
    for scipy.
    """

    def load(name: str) -> Any:
        home = next((home for home, names in homes.items() if name in names), None)
        if home is not None:
            return getattr(importlib.import_module(home), name)
        if not name.startswith("__") and importlib.util.find_spec(f"{package}.{name}"):
            return importlib.import_module(f"{package}.{name}")
        raise AttributeError(f"module {package!r} has no attribute {name!r}")

    return load


def conf_folder() -> Path:
    """Return the folder of configurations.

    It lies in the package's folder if dpbench is installed, else next to the package's folder.
    """
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def user_folder(path: str | os.PathLike[str], key: str) -> Path:
    """Return the folder that a user names, with ~ expanded; raise ConfigError if there is none.

    The message begins with `key`, the name of the argument or flag.
    """
    check_instance(key, path, str | os.PathLike, "a folder", "its path, a text")
    try:
        folder = Path(path).expanduser()
        if folder.is_dir():
            return folder
    except RuntimeError:  # the home of an unknown user
        pass
    raise ConfigError(f"{key}: {str(path)!r}: no such folder; give the path of an existing one")


def checkout() -> Path | None:
    """Return the folder of the checkout from which dpbench runs; None if dpbench is installed."""
    root = conf_folder().parent
    return root if (root / "pyproject.toml").is_file() else None


def cache_folder() -> Path:
    """Return the folder in which dpbench keeps what it downloads for this user.

    The folder is ``dpbench`` below XDG_CACHE_HOME. If this environment variable is not set, it is
    below the platform's folder for caches: ``~/Library/Caches`` on macOS, else ``~/.cache``.
    """
    caches = "~/Library/Caches" if sys.platform == "darwin" else "~/.cache"
    return Path(os.environ.get("XDG_CACHE_HOME") or caches).expanduser() / "dpbench"


def note_script(word: str) -> None:
    """Set the environment variable DPBENCH_COMMAND if the script ``dpbench`` was started.

    `word` is the first word of the command line, ``sys.argv[0]``. A variable that is set already,
    as by ``dev.sh``, is kept. Processes that this one starts inherit the variable.
    """
    if Path(word).name == "dpbench":
        on_path = shutil.which("dpbench")
        is_found = on_path is not None and os.path.realpath(on_path) == os.path.realpath(word)
        os.environ.setdefault("DPBENCH_COMMAND", "dpbench" if is_found else shlex.quote(word))


def command_in_use() -> str:
    """Return the shell command that starts dpbench.

    It is the value of the environment variable DPBENCH_COMMAND, which ``dev.sh`` and the script
    ``dpbench`` set. If the variable is not set, it is ``python -m dpbench``.
    """
    return os.environ.get("DPBENCH_COMMAND", MODULE_COMMAND)


def as_typed(text: str) -> str:
    """Return a help text with the command in use, and with pages of the docs where they lie.

    The text has ``python -m dpbench`` as the command, and paths such as ``docs/howto/run.md`` of
    the checkout. An installed dpbench has these pages in its own folder.
    """
    pages = "docs/howto/"
    if checkout() is None:
        text = text.replace(pages, f"{PACKAGE / pages}{os.sep}")
    return text.replace(MODULE_COMMAND, command_in_use())
