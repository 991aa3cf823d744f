"""What computes numbers: source, versions of what it imports, and what the machine is."""

from __future__ import annotations

import ast
import contextlib
import hashlib
import os
import platform
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import metadata, util
from importlib.metadata import distribution
from pathlib import Path
from types import ModuleType
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.files import stamp
from dpbench.output.folder import stamps_of
from dpbench.package import PACKAGE, __version__
from dpbench.seeds import digest

__all__ = [
    "PACKAGE", "Computer", "fingerprint", "git", "machine", "package_source", "provenance",
    "source_digest", "surroundings", "used_by", "versions",
]  # fmt: skip

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


@cache
def source_digest(plugins: tuple[Path, ...] = (), own: tuple[str, ...] = ()) -> str:
    """A digest of all that numbers depend on but parameters: source, versions of numpy and scipy.

    A stored block of another digest is not reused; `own` is source, too.
    """
    files = [f for name in NUMERICAL for f in sorted((PACKAGE / name).rglob("*.py"))]
    files += [PACKAGE / name for name in NUMERICAL if name.endswith(".py")]
    texts = [(f.relative_to(PACKAGE).as_posix(), f.read_text("utf-8")) for f in files]
    texts += [(f.name, f.read_text("utf-8")) for f in plugins]
    texts += [("", text) for text in own]
    return digest(sorted(texts), _version("numpy"), _version("scipy"))


NUMERICAL = (
    "samples", "distributions", "privacy", "estimators", "seeds.py", "registry.py",
    "sweep/block.py",
)  # fmt: skip


PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "joblib", "hydra-core", "matplotlib", "seaborn")


@cache
def versions() -> dict[str, str]:
    """Versions of Python and of everything that results or figures depend on."""
    known = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "dpbench": __version__, **known}


def _version(name: str) -> str:
    """Of an installed distribution; `importlib.metadata.version` parses all else, slowly."""
    found = distribution(name)
    lines = (found.read_text("METADATA") or "").splitlines()
    said = (line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    return next(said, None) or found.version


def provenance(depends: Sequence[str] = (), plugins: Sequence[Path] = ()) -> dict[str, Any]:
    """Versions, machine and commits: of dpbench, and of folders of plug-ins in a repository.

    Asks git once for each. For `depends` and `plugins`, source files, see `RunOptions`.
    """
    root = Path(__file__).parents[2]
    own = _commit(root) if (root / ".git").exists() else None
    folders = sorted({path.parent for path in plugins})
    theirs = {folder.name: _commit(folder, "*.py") for folder in folders}  # no cache of imports
    known = {name: found for name, found in theirs.items() if found is not None}
    return {
        "versions": versions() | dict(line.split(" ", 1) for line in depends),
        "platform": f"{sys.platform} {platform.machine()}",
        **(own or {"commit": None, "dirty": False}),
        **({"plugin_commits": known} if known else {}),
    }


def _commit(folder: Path, *of: str) -> dict[str, Any] | None:
    """The commit of a folder, and whether files differ from it, `of` these patterns if any."""
    commit = git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(git(folder, "status", "--porcelain", "--", *of))}


def git(folder: Path, *arguments: str) -> str | None:
    """What git says in a folder; None if it says nothing, or cannot."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


# Of variables that choose how arithmetic is done.
ARITHMETIC = ("BLIS", "MKL", "NPY", "OMP", "OPENBLAS")


def fingerprint(folder: Path, config: Mapping[str, Any]) -> str:
    """A digest of all that the files of a run without plug-ins depend on, blocks included."""
    blocks = stamps_of(folder, sorted((folder / "blocks").glob("*.parquet")))
    return digest(surroundings(config), blocks)


def package_source() -> list[tuple[str, str]]:
    """The text of all files that results, tables and pages depend on, by path."""
    files = (f for f in sorted(PACKAGE.rglob("*")) if f.suffix in {".py", ".html", ".css", ".js"})
    return [(path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")) for path in files]


def surroundings(config: Mapping[str, Any]) -> str:
    """Of source, versions, configuration, the machine, stamps of files of data."""
    shown = {key: config.get(key) for key in ("sweep", "seed", "trials", "paper", "font")}
    data = {str(path): stamp(path) for path in _data_files(config["sweep"].get("families"))}
    return digest(package_source(), versions(), shown, data, _machine())


def _data_files(spec: Any) -> Iterator[Path]:
    """Files that values of a configuration name, in the working folder and shipped."""
    if isinstance(spec, Mapping | list | tuple):
        for one in spec.values() if isinstance(spec, Mapping) else spec:
            yield from _data_files(one)
    elif isinstance(spec, str):
        for path in (Path(spec), PACKAGE / "data" / spec):
            if os.path.isfile(path):  # noqa: PTH113, which minds no text that no file can have
                yield path


def _machine() -> list[str]:
    """What tells that arithmetic is done as before, if it is the same; read in no time."""
    try:
        processor = Path("/proc/cpuinfo").read_text("utf-8")
        about = {line for line in processor.splitlines() if line.startswith(("model", "flags"))}
    except OSError:
        about = set()
    chosen = {f"{k}={v}" for k, v in os.environ.items() if k.startswith(ARITHMETIC)}
    return [platform.node(), platform.platform(), *sorted(about | chosen)]
