"""What computes numbers: source, versions of what it imports, and what the machine is."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import platform
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from pathlib import Path
from types import ModuleType
from typing import Any

from dpbench.registry import ConfigError

__all__ = ["Computer", "machine", "used_by"]

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
            found.add(f"{name} {_hash(source)}")
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


def _hash(source: bytes) -> str:
    return hashlib.sha256(source).hexdigest()[:16]


@cache
def machine() -> str:
    """Names what arithmetic is done by: the processor's extensions, linear algebra, libm.

    Where they differ, so may the last bits of a result.
    """
    import numpy as np  # slow to load
    import scipy.linalg  # noqa: F401 (it brings its own library)
    from threadpoolctl import threadpool_info

    config: Any = np.show_config(mode="dicts")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    kernels = {f"{pool['internal_api']} {pool.get('architecture')}" for pool in pools}
    system = (platform.system(), platform.machine(), *platform.libc_ver())
    found = config.get("SIMD Extensions", {}).get("found", [])
    return " ".join([*system, *found, *sorted(kernels)])


@dataclass(frozen=True)
class Computer:
    """What a process computes by: a digest of source and versions, and the machine."""

    source: str
    machine: str

    @classmethod
    def of(cls, depends: tuple[str, ...]) -> Computer:
        """One that is this machine, where plug-ins depend on these; see `used_by`."""
        from dpbench.runner.store import PACKAGE, source_digest

        audit = tuple(sorted((PACKAGE / "audit").glob("*.py")))  # its tasks are computed, too
        return cls(source_digest(audit, depends), machine())

    @classmethod
    def here(cls, depends: tuple[str, ...]) -> Computer:
        """What this process is, in the place of one with these."""
        return cls.of(tuple(map(_found, depends)))

    def check(self, wanted: Computer, where: str, remedy: str) -> None:
        """ConfigError, in a line about the process `where`, if its bits may be other ones."""
        if self.source != wanted.source:
            what = "other source, or other versions of numpy, scipy or what plug-ins import"
        elif self.machine != wanted.machine:
            what = "another kind of processor or C library, whose bits may be others"
        else:
            return
        raise ConfigError(f"runner: {where} computes by {what}; {remedy}")


def _found(line: str) -> str:
    """A line of `used_by`, as it is in this process."""
    name, _, wanted = line.partition(" ")
    found = {_loaded(name)} if name != "__main__" else {wanted}  # which is sent with the task
    with contextlib.suppress(metadata.PackageNotFoundError):
        found.add(metadata.version(name))
    return line if wanted in found else f"{name} {sorted(found)}"


def _loaded(name: str) -> str:
    """A digest of a module's source as it was loaded: a worker may be older than the file."""
    try:
        spec = util.find_spec(name)
        file = Path((spec and spec.origin) or "")
        if spec is None or file.suffix != ".py":
            return ""
        return str(vars(spec).setdefault("dpbench", _hash(file.read_bytes())))
    except (ImportError, ValueError, OSError):
        return ""
