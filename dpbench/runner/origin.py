"""What computes numbers: source, versions and machine.

A stored block, an audit's rows, a baseline and the suite's archive are the same bits wherever an
`Origin` is the same; it decides which of them are reused. The files of a finished run, tables and
figures included, stand as long as its `fingerprint` does.
"""

from __future__ import annotations

import inspect
import os
import platform
import secrets
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from importlib import metadata
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.files import stamp
from dpbench.output.folder import stamps_of
from dpbench.package import PACKAGE, __version__
from dpbench.runner.imports import OWN, digest_of, in_this_process, place, reached
from dpbench.seeds import digest

__all__ = ["BLOCKS", "PACKAGE", "Origin", "fingerprint", "git", "machine", "surroundings"]

BLOCKS = "dpbench.sweep.block"  # the module whose imports compute a block
NUMERICAL = ("numpy", "scipy")  # libraries whose versions change bits
LIBRARIES = tuple(f"{name} " for name in NUMERICAL)  # how their lines begin
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "joblib", "hydra-core", "matplotlib", "seaborn")
# Environment variables with these prefixes choose how arithmetic is done, and where libraries lie.
ENVIRONMENT = ("BLIS", "DPBENCH_LIBRARIES", "MKL", "NPY", "OMP", "OPENBLAS")
# Keys of a configuration that change the files of a run.
SHOWN = ("sweep", "seed", "trials", "paper", "font")


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
        """Return the origin of what this process computes, inside `noise_times` of that noise.

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
        found = reached(sorted(outside))
        modules = tuple(sorted({*_package(work), *found, *_named_files(found)}))
        texts = [path.read_text("utf-8") for path in plugins] + [*map(_text_of, classes)]
        from dpbench.privacy.noise_factor import current_noise_factor  # slow to load

        factor = current_noise_factor()  # numbers with a wrong noise are no numbers of this source
        source = digest(modules, texts, *([] if factor == 1 else [factor]))
        return cls(source, machine(), modules, tuple(plugins))

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
        own = tuple(line for line in self.modules if line.startswith((f"{OWN}.", *LIBRARIES)))
        return Origin(digest(own), self.machine, own)

    def here(self) -> Origin:
        """Return what this process computes by where this origin is asked for; see `check`."""
        modules = tuple(map(in_this_process, self.modules))
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
    found = reached([work])
    libraries = {f"{name} {_version(name)}" for name in NUMERICAL}
    return tuple(found | _named_files(found) | libraries)


def _named_files(lines: Iterable[str]) -> set[str]:
    """Return a line for each file that an estimator of one of these modules names."""
    from dpbench.estimators import Estimator  # slow to load

    modules = {line.partition(" ")[0] for line in lines}
    kinds = [one for one in Estimator.kinds().values() if one.__module__ in modules]
    named = {f"{kind.__module__}/{name}" for kind in kinds for name in vars(kind).get("files", ())}
    return {f"{name} {digest_of(place(name))}" for name in named}


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
    chosen = {f"{k}={v}" for k, v in os.environ.items() if k.startswith(ENVIRONMENT)}
    return [platform.platform(), *sorted(about | chosen)]
