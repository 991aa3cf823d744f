"""What numbers depend on outside of dpbench: the source and the versions that plug-ins import."""

from __future__ import annotations

import ast
import hashlib
import sys
from collections.abc import Iterable, Iterator
from functools import cache
from importlib import metadata
from pathlib import Path
from types import ModuleType

__all__ = ["used_by"]

INSTALLED = {"site-packages", "dist-packages"}


def used_by(modules: Iterable[str]) -> tuple[str, ...]:
    """What these loaded modules are and import, directly or not, a line for each.

    The name of a module and a digest of its source file, wherever that lies; the name and the
    version of a distribution that is installed. Not the standard library, nor dpbench, whose
    numerical source has a digest of its own.
    """
    found, seen, pending = set[str](), set[str](), list(modules)
    while pending:
        name = pending.pop()
        top, module = name.partition(".")[0], sys.modules.get(name)
        if name in seen or module is None or top in {"dpbench", *sys.stdlib_module_names}:
            continue
        seen.add(name)
        file = Path(getattr(module, "__file__", None) or "")
        found |= {f"{one} {metadata.version(one)}" for one in _distributions().get(top, ())}
        if file.suffix == ".py" and not INSTALLED & set(file.parts):
            source = file.read_bytes()
            found.add(f"{name} {hashlib.sha256(source).hexdigest()[:16]}")
            pending += [name.rpartition(".")[0], *_imported(module, ast.parse(source))]
    return tuple(sorted(found))


@cache
def _distributions() -> dict[str, list[str]]:
    """Those that have a top-level module of this name."""
    return {name: sorted(set(of)) for name, of in metadata.packages_distributions().items()}


def _imported(module: ModuleType, source: ast.Module) -> Iterator[str]:
    """Names that may be modules: of ``from a import b``, a and a.b."""
    package = (module.__package__ or "").split(".")
    for node in ast.walk(source):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            above = package[: len(package) - node.level + 1] if node.level else []
            base = ".".join([*above, *([node.module] if node.module else [])])
            names = [base, *(f"{base}.{alias.name}" for alias in node.names)]
        else:
            continue
        for name in names:
            parts = name.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))
