"""List the modules that a computation needs: rooms of dpbench, and what plug-ins import."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata, util
from importlib.machinery import PathFinder
from pathlib import Path

from dpbench.package import PACKAGE

__all__ = [
    "CORE", "PACKAGE", "PACKAGE_NAME", "digest_of", "find_source", "follow_imports", "line_here",
    "list_imports", "list_package",
]  # fmt: skip

PACKAGE_NAME = "dpbench"
INSTALLED = {"site-packages", "dist-packages"}
# Rooms and modules of dpbench whose code computes a block of trials.
CORE = (
    "app", "arrays", "bibliography", "errors", "package", "registry", "seeds", "samples",
    "distributions", "privacy", "estimators", "sweep",
)  # fmt: skip


def list_package(rooms: Iterable[str] | None = None) -> set[str]:
    """Return a line, name and digest, for each module in some rooms of dpbench; by default all."""
    names = None if rooms is None else set(rooms)
    files = ((path, path.relative_to(PACKAGE).with_suffix("")) for path in PACKAGE.rglob("*.py"))
    return {
        f"{'.'.join((PACKAGE_NAME, *file.parts)).removesuffix('.__init__')} {digest_of(path)}"
        for path, file in files
        if file.parts != ("__init__",) and (names is None or file.parts[0] in names)
    }


def follow_imports(modules: Iterable[str]) -> set[str]:
    """Return a line for each given module and each module that it imports, even indirectly.

    A line is the name of a module and a digest of its source. Modules are searched on Python's
    search path. A module of an installed Python distribution gives a line with the distribution's
    name and version instead. The standard library and the rooms in `CORE` are left out. If another
    room of dpbench is imported, all modules of dpbench are listed, because the room imports more.
    """
    lines, seen, pending = set[str](), {""}, list(modules)
    while pending:
        name = pending.pop()
        top, _, below = name.partition(".")
        if name in seen or top in sys.stdlib_module_names:
            continue
        seen.add(name)
        if top == PACKAGE_NAME:
            outside = below.partition(".")[0] not in CORE and find_source(name) is not None
            lines |= list_package() if below and outside else set()
            continue
        file = _file_of(name)
        lines |= {f"{item} {metadata.version(item)}" for item in _distributions().get(top, ())}
        if file is None or file.suffix != ".py" or INSTALLED & set(file.parts):
            continue
        lines.add(f"{name} {digest_of(file)}")
        pending.append(name.rpartition(".")[0])
        pending += _module_names(name, file, _parse_imports(file.read_text("utf-8", "replace")))
    return lines


def find_source(name: str) -> Path | None:
    """Return the path of a Python module's source file, or of another file in its folder.

    The name ``module`` stands for the source file, and ``module/file`` for the file named ``file``
    in the same folder. Return None if the source file is not found.
    """
    module, slash, beside = name.partition("/")
    top, *below = module.split(".")
    stem = PACKAGE.joinpath(*below)
    candidates = (
        path for path in (stem.with_suffix(".py"), stem / "__init__.py") if path.is_file()
    )
    file = next(candidates, None) if top == PACKAGE_NAME else _file_of(module)
    return file.parent / beside if file is not None and slash else file


def _file_of(module: str) -> Path | None:
    """Return the file of a module outside dpbench, loaded or not; None if it is not found."""
    if module in sys.modules:
        return Path(getattr(sys.modules[module], "__file__", None) or "")
    package = _file_of(parent) if (parent := module.rpartition(".")[0]) else None
    spec = PathFinder.find_spec(module, [str(package.parent)] if package else None)
    return Path(spec.origin) if spec is not None and spec.origin else None


Import = tuple[str | None, list[str]]  # the module after ``from``, if any, and the imported names


def _module_names(name: str, file: Path, imports: Iterable[Import]) -> Iterator[str]:
    """Yield the dotted names in import statements that may be modules, and all their packages.

    For example, ``from a.b import c`` gives a, a.b and a.b.c, because c may be a module.
    """
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    for base, listed in imports:
        words = listed
        if base is not None:
            level = len(base) - len(base.lstrip("."))
            above = package[: len(package) - level + 1] if level else []
            full_name = ".".join([*above, *filter(None, [base.lstrip(".")])])
            words = [full_name, *(f"{full_name}.{member}" for member in words)]
        for word in words:
            parts = word.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def list_imports(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and other imported names that may be modules."""
    yield from _module_names(file.stem, file, _parse_imports(file.read_text("utf-8", "replace")))


def _parse_imports(source: str) -> Iterator[Import]:
    """Yield the imports in any Python source text, found with Python's parser.

    An import is a pair: the name after ``from`` (None without ``from``) and the list of imported
    names. Nothing is yielded if this Python version cannot parse the text.
    """
    try:
        nodes = [*ast.walk(ast.parse(source))]
    except (SyntaxError, ValueError):
        return
    for node in nodes:
        if isinstance(node, ast.Import):
            yield None, [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield base, [alias.name for alias in node.names]


@cache
def _distributions() -> dict[str, list[str]]:
    """Map each top-level Python module to the installed distributions that contain it."""
    return {
        name: sorted(set(distributions))
        for name, distributions in metadata.packages_distributions().items()
    }


def digest_of(file: Path | None) -> str:
    """Return a digest of a file's bytes; "" if there is no file."""
    if file is None or not file.is_file():
        return ""
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16]


def line_here(line: str) -> str:
    """Return this process's line for the Python module or distribution that `line` names.

    A line of `Origin.modules` consists of the name of a Python module and a digest of its source.
    For a Python distribution it consists of the name and the version.
    """
    name, _, expected = line.partition(" ")
    if name == "__main__" or _loaded_digest(name) == expected:  # __main__ is sent with the task
        return line
    return f"{name} {_installed_version(name) or _loaded_digest(name) or 'missing'}"


@cache
def _installed_version(name: str) -> str:
    """Return the version of an installed package, read once per process; "" if there is none."""
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""


@cache
def _own_digest(name: str) -> str:
    """Return the digest of a source file of dpbench, read once per process."""
    return digest_of(find_source(name))


def _loaded_digest(name: str) -> str:
    """Return the digest that a module's source had on first use; "" if there is no source.

    Later changes of the file do not count, because this process has loaded the earlier source.
    """
    if name.startswith(f"{PACKAGE_NAME}.") or "/" in name:
        return _own_digest(name)
    try:
        spec = util.find_spec(name)
        file = Path((spec and spec.origin) or "")
        if spec is None or file.suffix != ".py":
            return ""
        return str(vars(spec).setdefault("dpbench", digest_of(file)))
    except (ImportError, ValueError, OSError):
        return ""
