"""Follow imports: list the modules that a computation needs, with digests of their sources."""

from __future__ import annotations

import ast
import hashlib
import re
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata, util
from importlib.machinery import PathFinder
from pathlib import Path

from dpbench.package import PACKAGE

__all__ = ["OWN", "PACKAGE", "digest_of", "imported_by", "in_this_process", "place", "reached"]

OWN = "dpbench"
INSTALLED = {"site-packages", "dist-packages"}
# Matches ``import a, b`` and ``from a import (b, c)`` as dpbench's formatter writes them, at the
# start of a line. It is a hundred times faster than the parser, which reads all other modules.
IMPORT = re.compile(
    r"(?:^|[;:])[^\S\n]*(?:from\s+(\.*[\w.]*)\s+)?import[\s\\]+(\([^)]*\)|(?:[^\n\\;]|\\\n)*)",
    re.MULTILINE,
)


def reached(modules: Iterable[str]) -> set[str]:
    """Return a line for each of these modules and each module that they import, also indirectly.

    A line is a name and a digest of the source. Modules of dpbench are found in the package
    folder, other modules as Python finds them. An installed distribution has a line with its
    version instead. The standard library is left out.
    """
    own = _own_files()
    found, seen, pending = set[str](), {"", OWN}, list(modules)
    while pending:
        name = pending.pop()
        top = name.partition(".")[0]
        if name in seen or top in sys.stdlib_module_names:
            continue
        seen.add(name)
        file = own.get(name) if top == OWN else _file_of(name)
        if top != OWN:
            found |= {f"{one} {metadata.version(one)}" for one in _distributions().get(top, ())}
        if file is None or file.suffix != ".py" or (top != OWN and INSTALLED & set(file.parts)):
            continue
        source = file.read_bytes()
        found.add(f"{name} {_digest(source)}")
        pending.append(name.rpartition(".")[0])
        text = source.decode("utf-8", "replace")
        imports = _statements(text) if top == OWN else _parsed(text)
        imported = _names(name, file, imports)
        pending += [one for one in imported if top != OWN or one in own]
        if b"iter_modules(__path__)" in source:  # the package imports all its modules
            pending += [one for one in own if one.rpartition(".")[0] == name]
    return found


def _own_files() -> dict[str, Path]:
    """Return the files of dpbench by module name, packages included."""
    files = ((path, path.relative_to(PACKAGE).with_suffix("")) for path in PACKAGE.rglob("*.py"))
    dotted = {".".join((OWN, *at.parts)): path for path, at in files}
    return {name.removesuffix(".__init__"): path for name, path in dotted.items()}


def place(name: str) -> Path | None:
    """Return the file of ``module``, or for ``module/file`` the file beside it; None if missing."""
    module, slash, beside = name.partition("/")
    top, *below = module.split(".")
    at = PACKAGE.joinpath(*below)
    own = (one for one in (at.with_suffix(".py"), at / "__init__.py") if one.is_file())
    file = next(own, None) if top == OWN else _file_of(module)
    return file.parent / beside if file is not None and slash else file


def _file_of(module: str) -> Path | None:
    """Return the file of a module outside dpbench, even if it is not loaded yet."""
    if module in sys.modules:
        return Path(getattr(sys.modules[module], "__file__", None) or "")
    package = _file_of(parent) if (parent := module.rpartition(".")[0]) else None
    spec = PathFinder.find_spec(module, [str(package.parent)] if package else None)
    return Path(spec.origin) if spec is not None and spec.origin else None


Import = tuple[str | None, list[str]]  # the module after ``from``, if any, and the imported names


def _names(name: str, file: Path, imports: Iterable[Import]) -> Iterator[str]:
    """Yield names that may be modules: ``from a import b`` gives a and a.b, and their packages."""
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    for base, listed in imports:
        words = listed
        if base is not None:
            level = len(base) - len(base.lstrip("."))
            above = package[: len(package) - level + 1] if level else []
            whole = ".".join([*above, *filter(None, [base.lstrip(".")])])
            words = [whole, *(f"{whole}.{one}" for one in words)]
        for word in words:
            parts = word.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def imported_by(file: Path) -> Iterator[str]:
    """Yield the modules that a file imports, and imported names that may be modules."""
    yield from _names(file.stem, file, _parsed(file.read_text("utf-8", "replace")))


def _statements(source: str) -> Iterator[Import]:
    """Yield the imports of a module of dpbench; see `IMPORT`."""
    for match in IMPORT.finditer(source):
        listed = re.sub(r"#[^\n]*|[()\\]", " ", match[2])
        yield match[1], [one.split()[0] for one in listed.split(",") if one.strip()]


def _parsed(source: str) -> Iterator[Import]:
    """Yield the imports of any module; nothing if this version of Python cannot parse it."""
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
    """Return the distributions that contain each top-level module."""
    return {name: sorted(set(of)) for name, of in metadata.packages_distributions().items()}


def digest_of(file: Path | None) -> str:
    """Return a digest of a file's bytes, or "" if there is no file."""
    return _digest(file.read_bytes()) if file is not None and file.is_file() else ""


def _digest(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:16]


def in_this_process(line: str) -> str:
    """Return the line of `Origin.modules` for the same module in this process."""
    name, _, wanted = line.partition(" ")
    if name == "__main__" or _loaded(name) == wanted:  # __main__ is sent with the task
        return line
    try:
        found = metadata.version(name)
    except metadata.PackageNotFoundError:
        found = _loaded(name) or "missing"
    return f"{name} {found}"


@cache
def _own(name: str) -> str:
    return digest_of(place(name))


def _loaded(name: str) -> str:
    """Return the digest that the source had on first use, because a file may change in a run."""
    if name.startswith(f"{OWN}.") or "/" in name:
        return _own(name)
    try:
        spec = util.find_spec(name)
        file = Path((spec and spec.origin) or "")
        if spec is None or file.suffix != ".py":
            return ""
        return str(vars(spec).setdefault("dpbench", digest_of(file)))
    except (ImportError, ValueError, OSError):
        return ""
