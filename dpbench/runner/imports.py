"""Follow imports: which modules and files a computation reaches, each with a digest of its text."""

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

__all__ = ["OWN", "digest_of", "in_this_process", "place", "reached"]

OWN = "dpbench"
INSTALLED = {"site-packages", "dist-packages"}
# ``import a, b`` and ``from a import (b, c)`` as they stand in dpbench, whose formatter begins a
# line with them. It is a hundred times faster than a parser, which reads all other modules.
IMPORT = re.compile(
    r"(?:^|[;:])[^\S\n]*(?:from\s+(\.*[\w.]*)\s+)?import[\s\\]+(\([^)]*\)|(?:[^\n\\;]|\\\n)*)",
    re.MULTILINE,
)


def reached(modules: Iterable[str]) -> set[str]:
    """Return a line for each of these modules and for all that they import, directly or not.

    Modules of dpbench are followed by their place in the package, others if they are loaded. Of a
    distribution that is installed the version is enough, and only outside modules are asked for it.
    The standard library is left out.
    """
    found, seen, pending = set[str](), {"", OWN}, list(modules)
    while pending:
        name = pending.pop()
        top = name.partition(".")[0]
        if name in seen or top in sys.stdlib_module_names:
            continue
        seen.add(name)
        file = place(name)
        if top != OWN:
            found |= {f"{one} {metadata.version(one)}" for one in _distributions().get(top, ())}
        if file is None or file.suffix != ".py" or (top != OWN and INSTALLED & set(file.parts)):
            continue
        source = file.read_text("utf-8", errors="replace")
        found.add(f"{name} {digest_of(file)}")
        pending.append(name.rpartition(".")[0])
        imported = _imported(name, file, source)
        pending += [one for one in imported if top != OWN or one.startswith(f"{OWN}.")]
        if "iter_modules(__path__)" in source:  # a package that imports all that lies in it
            pending += [f"{name}.{one.stem}" for one in file.parent.glob("*.py")]
    return found


def place(name: str) -> Path | None:
    """Return a module's file, or of ``module/file`` the file beside it; None if there is none."""
    module, slash, beside = name.partition("/")
    top, *below = module.split(".")
    if top != OWN:
        file = _file_of(module)
    else:
        at = PACKAGE.joinpath(*below)
        places = (at.with_suffix(".py"), at / "__init__.py")
        file = next((one for one in places if one.is_file()), None)
    return file.parent / beside if file is not None and slash else file


def _file_of(module: str) -> Path | None:
    """Return the file of a module from outside, loaded or not yet, as in a function's import."""
    if module in sys.modules:
        return Path(getattr(sys.modules[module], "__file__", None) or "")
    package = _file_of(parent) if (parent := module.rpartition(".")[0]) else None
    spec = PathFinder.find_spec(module, [str(package.parent)] if package else None)
    return Path(spec.origin) if spec is not None and spec.origin else None


def _imported(name: str, file: Path, source: str) -> Iterator[str]:
    """Yield names that may be modules: of ``from a import b`` a and a.b, with their packages."""
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    for base, listed in _statements(source) if name.startswith(OWN) else _parsed(source):
        words = listed
        if base is not None:
            level = len(base) - len(base.lstrip("."))
            above = package[: len(package) - level + 1] if level else []
            whole = ".".join([*above, *filter(None, [base.lstrip(".")])])
            words = [whole, *(f"{whole}.{one}" for one in words)]
        for word in words:
            parts = word.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


def _statements(source: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield of each import the module that it is from, if any, and the names; see `IMPORT`."""
    for match in IMPORT.finditer(source):
        listed = re.sub(r"#[^\n]*|[()\\]", " ", match[2])
        yield match[1], [one.split()[0] for one in listed.split(",") if one.strip()]


def _parsed(source: str) -> Iterator[tuple[str | None, list[str]]]:
    """Yield the same of any source."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Import | ast.ImportFrom):
            names = [alias.name for alias in node.names]
            base = (
                "." * node.level + (node.module or "") if isinstance(node, ast.ImportFrom) else None
            )
            yield base, names


@cache
def _distributions() -> dict[str, list[str]]:
    """Return by top-level module the distributions that have it."""
    return {name: sorted(set(of)) for name, of in metadata.packages_distributions().items()}


def digest_of(file: Path | None) -> str:
    """Return a digest of a file's bytes; blank if there is none."""
    there = file is not None and file.is_file()
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file and there else ""


def in_this_process(line: str) -> str:
    """Return a line of `Origin.modules` as it is in this process."""
    name, _, wanted = line.partition(" ")
    if name == "__main__" or _loaded(name) == wanted:  # the first is sent with the task
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
    """Return a digest of a module's source as it was loaded: a worker may be older than it."""
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
