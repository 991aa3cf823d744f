"""Identity of the source, versions and machine behind stored numbers.

Equal `Origin` objects give equal bits, so a stored block, the rows of an audit, a baseline and the
suite's archive are reused if their origin is equal. All files of a finished run, tables and
figures included, are reused as long as its `fingerprint` does not change.
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
from dpbench.output.run_folder import stamps_of
from dpbench.package import PACKAGE, __version__
from dpbench.runner.imports import OWN, digest_of, in_this_process, place, reached
from dpbench.seeds import digest

__all__ = ["BLOCKS", "PACKAGE", "Origin", "environment_digest", "fingerprint", "git", "machine"]

BLOCKS = "dpbench.sweep.block"  # the module whose imports compute a block
NUMERICAL = ("numpy", "scipy")  # libraries whose versions change bits
LIBRARIES = tuple(f"{name} " for name in NUMERICAL)  # first characters of their lines
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "joblib", "hydra-core", "matplotlib", "seaborn")
# Prefixes of environment variables that select arithmetic kernels or folders of libraries.
ENVIRONMENT = ("BLIS", "DPBENCH_LIBRARIES", "MKL", "NPY", "OMP", "OPENBLAS")
# Configuration keys that change the files of a run.
SHOWN = ("sweep", "seed", "trials", "paper", "font")


@dataclass(frozen=True)
class Origin:
    """Source, versions and machine by which a process computes; created once per run.

    Attributes
    ----------
    source : str
        Digest of `modules` and of the text of plug-ins.
    machine : str
        Processor and libraries that determine arithmetic, see `machine`.
    modules : tuple of str
        A line for each imported module and each file that an estimator names (the name with a
        digest of the text), and for each distribution that the numbers depend on, at least numpy
        and scipy (the name with a version).
    plugins : tuple of Path
        The plug-ins' source files, which workers on other machines need.
    stored : mapping, optional
        Versions and commits, if the origin was read from a file.
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
        """Return the origin of the numbers that this process computes.

        Inside `noise_times` the origin depends on the noise factor.

        Parameters
        ----------
        work : str
            Name of the module that computes, by default `BLOCKS`.
        names : sequence of str
            Modules that the configuration lists as plug-ins.
        plugins : sequence of Path
            Source files of the plug-ins.
        kinds : iterable of type
            Classes outside dpbench, with their bases, of objects in the configuration.

        Returns
        -------
        Origin
        """
        classes = list(kinds)
        outside = {*names, *(kind.__module__ for kind in classes)}
        found = reached(sorted(outside))
        modules = tuple(sorted({*_package(work), *found, *_named_files(found)}))
        texts = [path.read_text("utf-8") for path in plugins] + [*map(_text_of, classes)]
        from dpbench.privacy.noise_factor import current_noise_factor  # slow to load

        factor = current_noise_factor()  # never reuse numbers with a wrong noise
        source = digest(modules, texts, *([] if factor == 1 else [factor]))
        return cls(source, machine(), modules, tuple(plugins))

    @property
    def bits(self) -> str:
        """Digest of source and machine, which determine the bits of a number."""
        return digest(self.source, self.machine)

    @property
    def outside(self) -> dict[str, str]:
        """Digests and versions, by name, of plug-ins and of everything that they import."""
        lines = dict(line.split(" ", 1) for line in self.modules)
        return {name: one for name, one in lines.items() if not name.startswith(f"{OWN}.")}

    @property
    def known(self) -> bool:
        """True if only dpbench computes, so that all files that it reads are known."""
        return not self.plugins and set(self.outside) == set(NUMERICAL)

    def without_plugins(self) -> Origin:
        """Return the origin that workers must have before they receive plug-ins."""
        own = tuple(line for line in self.modules if line.startswith((f"{OWN}.", *LIBRARIES)))
        return Origin(digest(own), self.machine, own)

    def here(self) -> Origin:
        """Return the origin that this process has for the same modules, to `check` it."""
        modules = tuple(map(in_this_process, self.modules))
        source = self.source if modules == self.modules else digest(modules)
        return Origin(source, machine(), modules)

    def check(self, wanted: Origin, where: str, remedy: str) -> None:
        """Raise ConfigError if another process, which has this origin, may give other bits.

        Parameters
        ----------
        wanted : Origin
            Origin of the process that hands out tasks.
        where : str
            Name of the other process, for the message.
        remedy : str
            Advice to the user, for the message.

        Raises
        ------
        ConfigError
            If source or machine differ.
        """
        if self.source != wanted.source:
            what = "other source, or other versions of numpy, scipy or what plug-ins import"
        elif self.machine != wanted.machine:
            what = "another kind of processor or C library, whose bits may be others"
        else:
            return
        raise ConfigError(f"runner: {where} computes by {what}; {remedy}")

    def same_bits(self, other: Origin) -> bool:
        """Return whether equal random streams give equal bits under both origins."""
        return self.source == other.source and self.machine == other.machine

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """Versions, platform and commits of dpbench and of plug-ins in a repository, for readers.

        The property runs git once for each repository.
        """
        if self.stored is not None:
            return self.stored
        root = PACKAGE.parent
        own = _commit(root) if (root / ".git").exists() else None
        folders = sorted({path.parent for path in self.plugins})
        theirs = {folder.name: _commit(folder, "*.py") for folder in folders}  # not caches
        known = {name: found for name, found in theirs.items() if found is not None}
        return {
            "versions": versions() | self.outside,
            "platform": f"{sys.platform} {platform.machine()}",
            **(own or {"commit": None, "dirty": False}),
            **({"plugin_commits": known} if known else {}),
        }


@cache
def _package(work: str) -> tuple[str, ...]:
    """Return a line for each module that `work` imports, and each file that an estimator names.

    The result is cached for the whole process, because code is loaded only once.
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
    """Return the source of a class's module, or a random text if it cannot be read.

    The random text makes origins differ, so that nothing is reused.
    """
    try:
        module = inspect.getmodule(kind)
        whole = module is not None and getattr(module, "__file__", None) is not None
        return inspect.getsource(module if whole and module else kind)
    except (OSError, TypeError):
        return secrets.token_hex(16)


@cache
def machine() -> str:
    """Return the names of processor extensions, linear algebra kernels and C library.

    On machines with other names the last bits of a result may differ.
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
    """Return the versions of Python, dpbench and the packages behind results and figures."""
    known = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "dpbench": __version__, **known}


def _version(name: str) -> str:
    """Return the version of a distribution, faster than `importlib.metadata.version`."""
    found = metadata.distribution(name)
    lines = (found.read_text("METADATA") or "").splitlines()
    said = (line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    return next(said, None) or found.version


def _commit(folder: Path, *of: str) -> dict[str, Any] | None:
    """Return a folder's commit, and whether files (matching `of`, if given) differ from it."""
    commit = git(folder, "rev-parse", "HEAD")
    if commit is None:
        return None
    return {"commit": commit, "dirty": bool(git(folder, "status", "--porcelain", "--", *of))}


def git(folder: Path, *arguments: str) -> str | None:
    """Run git in a folder and return its output; None if it prints nothing, or fails.

    Parameters
    ----------
    folder : Path
        Working folder of git.
    *arguments : str
        Arguments of the command.

    Returns
    -------
    str or None
    """
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
    """Return a digest of everything that the files of a run depend on, stored blocks included.

    Parameters
    ----------
    folder : Path
        Folder of the run.
    config : mapping
        Configuration of the run.
    origin : Origin, optional
        Needed only for plug-ins; without them no module is loaded and a finished run is recognised
        at once.
    reads : iterable of str
        Paths of other files that the run reads; missing files are skipped.

    Returns
    -------
    str
    """
    files = (f for f in sorted((folder / "blocks").glob("*")) if f.suffix in {".parquet", ".json"})
    there = {path: stamp(Path(path)) for path in reads if os.path.exists(path)}  # noqa: PTH110
    more = [] if origin is None or origin.known else [origin.source]
    return digest(environment_digest(config), stamps_of(folder, files), there, *more)


def environment_digest(config: Mapping[str, Any]) -> str:
    """Return a digest of source, versions, configuration, this host and stamps of data files."""
    shown = {key: config.get(key) for key in SHOWN}
    data = {str(path): stamp(path) for path in _data_files(config["sweep"].get("families"))}
    return digest(package_source(), versions(), shown, data, _host())


def package_source() -> list[tuple[str, str]]:
    """Return (path, text) of all files of dpbench that results, tables and pages depend on."""
    kinds = {".py", ".html", ".css", ".js", ".json", ".yaml"}
    files = (f for f in sorted(PACKAGE.rglob("*")) if f.suffix in kinds)
    return [(path.relative_to(PACKAGE).as_posix(), path.read_text("utf-8")) for path in files]


def _data_files(spec: Any) -> Iterator[Path]:
    """Yield the files that a configuration names, in the working folder or in dpbench's data."""
    if isinstance(spec, Mapping | list | tuple):
        for one in spec.values() if isinstance(spec, Mapping) else spec:
            yield from _data_files(one)
    elif isinstance(spec, str):
        for path in (Path(spec), PACKAGE / "data" / spec):
            if os.path.isfile(path):  # noqa: PTH113 (accepts any text)
                yield path


def _host() -> list[str]:
    """Return facts that change whenever `machine` may change, without loading numpy."""
    try:
        processor = Path("/proc/cpuinfo").read_text("utf-8")
        about = {line for line in processor.splitlines() if line.startswith(("model", "flags"))}
    except OSError:
        about = set()
    chosen = {f"{k}={v}" for k, v in os.environ.items() if k.startswith(ENVIRONMENT)}
    return [platform.platform(), *sorted(about | chosen)]
