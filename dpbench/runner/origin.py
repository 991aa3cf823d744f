"""What computes numbers: source, versions and machine. Nothing else decides what is reused.

A stored block, an audit's rows, a baseline and the suite's archive are the same bits wherever an
`Origin` is the same. The files of a finished run stand as long as its `fingerprint` does.
"""

from __future__ import annotations

import hashlib
import inspect
import os
import platform
import re
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata, util
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.files import stamp
from dpbench.output.folder import stamps_of
from dpbench.package import PACKAGE, __version__
from dpbench.seeds import digest

__all__ = ["BLOCKS", "PACKAGE", "Origin", "fingerprint", "git", "machine", "surroundings"]

OWN = "dpbench"
BLOCKS = "dpbench.sweep.block"  # the module whose imports compute a block
NUMERICAL = ("numpy", "scipy")  # libraries whose versions change bits
INSTALLED = {"site-packages", "dist-packages"}
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "joblib", "hydra-core", "matplotlib", "seaborn")
# Environment variables with these prefixes choose how arithmetic is done.
ARITHMETIC = ("BLIS", "MKL", "NPY", "OMP", "OPENBLAS")
# Keys of a configuration that change the files of a run.
SHOWN = ("sweep", "seed", "trials", "paper", "font")
# ``import a, b`` and ``from a import (b, c)`` where a statement may begin. A hundred times faster
# than a parser; a line of a string adds a module too many, and none is missed.
IMPORT = re.compile(
    r"(?:^|[;:])[^\S\n]*(?:from\s+(\.*[\w.]*)\s+)?import[\s\\]+(\([^)]*\)|(?:[^\n\\;]|\\\n)*)",
    re.MULTILINE,
)


@dataclass(frozen=True)
class Origin:
    """What a process computes by; made once per run.

    Attributes
    ----------
    source : str
        A digest of `modules` and of the text of plug-ins.
    machine : str
        The processor and the libraries that arithmetic depends on; see `machine`.
    modules : tuple of str
        A line for each module that the work reaches by imports and each file that an estimator
        names (a name with a digest of the text), and for each distribution behind the numbers,
        numpy and scipy at least (a name with a version).
    plugins : tuple of Path
        The plug-ins' source files, which workers on other machines need.
    stored : mapping, optional
        Versions and commits, of an origin that was read from a file.
    """

    source: str
    machine: str
    modules: tuple[str, ...] = ()
    plugins: tuple[Path, ...] = ()
    stored: Mapping[str, Any] | None = None

    @classmethod
    def of(
        cls,
        work: str = BLOCKS,
        *,
        names: Sequence[str] = (),
        plugins: Sequence[Path] = (),
        kinds: Iterable[type[Any]] = (),
    ) -> Origin:
        """Return the origin of what this process computes.

        Parameters
        ----------
        work : str
            The module that computes, by default that of blocks.
        names : sequence of str
            Modules that are listed as plug-ins.
        plugins : sequence of Path
            The plug-ins' source files.
        kinds : iterable of type
            Classes of objects that stand in a configuration, with bases, from outside of dpbench.
        """
        classes = list(kinds)
        outside = {*names, *(kind.__module__ for kind in classes)}
        reached = _reached(sorted(outside))
        modules = tuple(sorted({*_package(work), *reached, *_named_files(reached)}))
        texts = [path.read_text("utf-8") for path in plugins] + [*map(_text_of, classes)]
        return cls(digest(modules, texts), machine(), modules, tuple(plugins))

    @property
    def bits(self) -> str:
        """A digest of what the bits of a number depend on."""
        return digest(self.source, self.machine)

    @property
    def outside(self) -> dict[str, str]:
        """What plug-ins are and import: digests and versions by name."""
        lines = dict(line.split(" ", 1) for line in self.modules)
        return {name: one for name, one in lines.items() if not name.startswith(f"{OWN}.")}

    @property
    def known(self) -> bool:
        """Whether nothing but dpbench computes, so that no file is read that it does not know."""
        return not self.plugins and set(self.outside) == set(NUMERICAL)

    def without_plugins(self) -> Origin:
        """Return the part of this origin that workers have before they get plug-ins."""
        own = tuple(line for line in self.modules if line.startswith((f"{OWN}.", *NUMERICAL)))
        return Origin(digest(own), self.machine, own)

    def here(self) -> Origin:
        """Return what this process computes by where this origin is asked for; see `check`."""
        modules = tuple(map(_found, self.modules))
        source = self.source if modules == self.modules else digest(modules)
        return Origin(source, machine(), modules)

    def check(self, wanted: Origin, where: str, remedy: str) -> None:
        """Raise ConfigError, in a line about the process `where`, if its bits may differ."""
        if self.source != wanted.source:
            what = "other source, or other versions of numpy, scipy or what plug-ins import"
        elif self.machine != wanted.machine:
            what = "another kind of processor or C library, whose bits may be others"
        else:
            return
        raise ConfigError(f"runner: {where} computes by {what}; {remedy}")

    def same_bits(self, other: Origin) -> bool:
        """Whether equal streams must give equal bits."""
        return self.source == other.source and self.machine == other.machine

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """Versions, platform and commits of dpbench and of plug-ins in a repository, for people.

        Asks git once for each.
        """
        if self.stored is not None:
            return self.stored
        root = PACKAGE.parent
        own = _commit(root) if (root / ".git").exists() else None
        folders = sorted({path.parent for path in self.plugins})
        theirs = {folder.name: _commit(folder, "*.py") for folder in folders}  # no cached imports
        known = {name: found for name, found in theirs.items() if found is not None}
        return {
            "versions": versions() | self.outside,
            "platform": f"{sys.platform} {platform.machine()}",
            **(own or {"commit": None, "dirty": False}),
            **({"plugin_commits": known} if known else {}),
        }


@cache
def _package(work: str) -> tuple[str, ...]:
    """Return a line for each module of dpbench behind `work`, and each file an estimator names.

    Once per process: code is loaded once, too.
    """
    reached = _reached([work])
    libraries = {f"{name} {_version(name)}" for name in NUMERICAL}
    return tuple(reached | _named_files(reached) | libraries)


def _named_files(lines: Iterable[str]) -> set[str]:
    """Return a line for each file that an estimator of one of these modules names."""
    from dpbench.estimators import Estimator  # slow to load

    modules = {line.partition(" ")[0] for line in lines}
    kinds = [one for one in Estimator.kinds().values() if one.__module__ in modules]
    named = {f"{kind.__module__}/{name}" for kind in kinds for name in vars(kind).get("files", ())}
    return {f"{name} {_hash(_place(name))}" for name in named}


def _reached(modules: Iterable[str]) -> set[str]:
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
        file = _place(name)
        if top != OWN:
            found |= {f"{one} {metadata.version(one)}" for one in _distributions().get(top, ())}
        if file is None or file.suffix != ".py" or INSTALLED & set(file.parts):
            continue
        source = file.read_text("utf-8", errors="replace")
        found.add(f"{name} {_hash(file)}")
        pending.append(name.rpartition(".")[0])
        imported = _imported(name, file, source)
        pending += [one for one in imported if top != OWN or one.startswith(f"{OWN}.")]
        if "iter_modules(__path__)" in source:  # a package that imports all that lies in it
            pending += [f"{name}.{one.stem}" for one in file.parent.glob("*.py")]
    return found


def _place(name: str) -> Path | None:
    """Return a module's file, or of ``module/file`` the file beside it; None if there is none."""
    module, slash, beside = name.partition("/")
    top, *below = module.split(".")
    if top != OWN:
        file: Path | None = Path(getattr(sys.modules.get(module), "__file__", None) or "")
    else:
        at = PACKAGE.joinpath(*below)
        places = (at.with_suffix(".py"), at / "__init__.py")
        file = next((one for one in places if one.is_file()), None)
    return file.parent / beside if file is not None and slash else file


def _imported(name: str, file: Path, source: str) -> Iterator[str]:
    """Yield names that may be modules: of ``from a import b`` a and a.b, with their packages."""
    package = name.split(".") if file.stem == "__init__" else name.split(".")[:-1]
    for match in IMPORT.finditer(source):
        base, listed = match[1], re.sub(r"#[^\n]*|[()\\]", " ", match[2])
        words = [one.split()[0] for one in listed.split(",") if one.strip()]
        if base is not None:
            level = len(base) - len(base.lstrip("."))
            above = package[: len(package) - level + 1] if level else []
            whole = ".".join([*above, *filter(None, [base.lstrip(".")])])
            words = [whole, *(f"{whole}.{one}" for one in words)]
        for word in words:
            parts = word.split(".")
            yield from (".".join(parts[:end]) for end in range(1, len(parts) + 1))


@cache
def _distributions() -> dict[str, list[str]]:
    """Return by top-level module the distributions that have it."""
    return {name: sorted(set(of)) for name, of in metadata.packages_distributions().items()}


def _hash(file: Path | None) -> str:
    there = file is not None and file.is_file()
    return hashlib.sha256(file.read_bytes()).hexdigest()[:16] if file and there else ""


def _found(line: str) -> str:
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
    return _hash(_place(name))


def _loaded(name: str) -> str:
    """Return a digest of a module's source as it was loaded: a worker may be older than it."""
    if name.startswith(f"{OWN}.") or "/" in name:
        return _own(name)
    try:
        spec = util.find_spec(name)
        file = Path((spec and spec.origin) or "")
        if spec is None or file.suffix != ".py":
            return ""
        return str(vars(spec).setdefault("dpbench", _hash(file)))
    except (ImportError, ValueError, OSError):
        return ""


def _text_of(kind: type[Any]) -> str:
    """Return the source of a class's module; what nobody can read may differ at any time."""
    try:
        module = inspect.getmodule(kind)
        whole = module is not None and getattr(module, "__file__", None) is not None
        return inspect.getsource(module if whole and module else kind)
    except (OSError, TypeError):
        return secrets.token_hex(16)


@cache
def machine() -> str:
    """Return the names of what does arithmetic: processor extensions, linear algebra, libm.

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


@cache
def versions() -> dict[str, str]:
    """Return versions of Python and of everything that results or figures depend on."""
    known = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "dpbench": __version__, **known}


def _version(name: str) -> str:
    """Return that of a distribution; `importlib.metadata.version` parses all else, slowly."""
    found = metadata.distribution(name)
    lines = (found.read_text("METADATA") or "").splitlines()
    said = (line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    return next(said, None) or found.version


def _commit(folder: Path, *of: str) -> dict[str, Any] | None:
    """Return a folder's commit, and whether files (of these patterns, if any) differ from it."""
    commit = git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(git(folder, "status", "--porcelain", "--", *of))}


def git(folder: Path, *arguments: str) -> str | None:
    """Return what git prints in a folder; None if it prints nothing, or fails."""
    command = ["git", "-C", str(folder), *arguments]
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=True)  # noqa: S603
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.strip() or None


def fingerprint(
    folder: Path,
    config: Mapping[str, Any],
    origin: Origin | None = None,
    reads: Iterable[str] = (),
) -> str:
    """Return a digest of all that the files of a run depend on, stored blocks included.

    `origin` counts where plug-ins compute. Without plug-ins nothing needs to be loaded, so that a
    finished run is recognised at once. `reads` are paths of other files, there or not.
    """
    files = (f for f in sorted((folder / "blocks").glob("*")) if f.suffix in {".parquet", ".json"})
    there = {path: stamp(Path(path)) for path in reads if os.path.exists(path)}  # noqa: PTH110
    more = [] if origin is None or origin.known else [origin.source]
    return digest(surroundings(config), stamps_of(folder, files), there, *more)


def surroundings(config: Mapping[str, Any]) -> str:
    """Return a digest of source, versions, configuration, this host, and stamps of data files."""
    shown = {key: config.get(key) for key in SHOWN}
    data = {str(path): stamp(path) for path in _data_files(config["sweep"].get("families"))}
    return digest(package_source(), versions(), shown, data, _host())


def package_source() -> list[tuple[str, str]]:
    """Return the text of all files that results, tables and pages depend on, by path."""
    kinds = {".py", ".html", ".css", ".js", ".json", ".yaml"}
    files = (f for f in sorted(PACKAGE.rglob("*")) if f.suffix in kinds)
    return [(path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")) for path in files]


def _data_files(spec: Any) -> Iterator[Path]:
    """Yield files that values of a configuration name, in the working folder and shipped."""
    if isinstance(spec, Mapping | list | tuple):
        for one in spec.values() if isinstance(spec, Mapping) else spec:
            yield from _data_files(one)
    elif isinstance(spec, str):
        for path in (Path(spec), PACKAGE / "data" / spec):
            if os.path.isfile(path):  # noqa: PTH113, which minds no text that no file can have
                yield path


def _host() -> list[str]:
    """Return what tells that arithmetic is done as before, as `machine` does, in no time."""
    try:
        processor = Path("/proc/cpuinfo").read_text("utf-8")
        about = {line for line in processor.splitlines() if line.startswith(("model", "flags"))}
    except OSError:
        about = set()
    chosen = {f"{k}={v}" for k, v in os.environ.items() if k.startswith(ARITHMETIC)}
    return [platform.node(), platform.platform(), *sorted(about | chosen)]
