"""Identity of the source, versions and machine behind stored numbers.

Processes with equal `Origin` objects compute equal bits. Therefore stored blocks, rows of an audit,
baselines and the benchmark's archive are reused if their origin is equal. All files of a finished
run, tables and figures included, are reused as long as the `fingerprint` of the run does not
change.
"""

from __future__ import annotations

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
from importlib import metadata
from pathlib import Path
from typing import Any

from dpbench.app import load_kinds
from dpbench.errors import ConfigError
from dpbench.output.files import stamp
from dpbench.package import PACKAGE, __version__
from dpbench.runner.imports import (
    CORE,
    PACKAGE_NAME,
    digest_of,
    find_source,
    follow_imports,
    line_here,
    list_package,
)  # fmt: skip
from dpbench.seeds import digest

__all__ = ["PACKAGE", "Origin", "environment_digest", "fingerprint", "git", "machine"]

NUMERICAL = ("numpy", "scipy")  # libraries whose versions change bits
LIBRARIES = tuple(f"{name} " for name in NUMERICAL)  # first characters of their lines
PACKAGES = ("numpy", "scipy", "pandas", "pyarrow", "joblib", "hydra-core", "matplotlib", "seaborn")
# Prefixes of environment variables that select arithmetic kernels or folders of libraries.
ENVIRONMENT = ("BLIS", "DPBENCH_LIBRARIES", "MKL", "NPY", "OMP", "OPENBLAS")
# Configuration keys that change the files of a run.
OUTPUT_KEYS = ("sweep", "seed", "trials", "paper", "size", "font")


@dataclass(frozen=True)
class Origin:
    """Identity of the source files, library versions and machine behind computed numbers.

    A run creates one `Origin`.

    Attributes
    ----------
    source : str
        Digest of `modules` and of the text of plug-ins.
    machine : str
        Names of the processor extensions and libraries that determine arithmetic; see the function
        `machine`.
    modules : tuple of str
        One line for each module, and for each file that an estimator names: a name and a
        digest. One line for each Python distribution on which the numbers depend: a name and a
        version. Distributions (installed packages) are at least numpy and scipy.
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
        *,
        rooms: tuple[str, ...] = (),
        names: Sequence[str] = (),
        plugins: Sequence[Path] = (),
        kinds: Iterable[type[Any]] = (),
    ) -> Origin:
        """Return the origin of the numbers that this process computes.

        `rooms` are rooms of dpbench whose code computes the numbers, besides those that compute
        blocks of trials (`CORE`). `names` are the modules that the configuration lists as plug-ins,
        and `plugins` their source files. `kinds` are classes outside dpbench: classes of the
        configuration's objects, and their base classes. The context `noise_times` multiplies all
        noise by a factor. Inside it the origin depends on the factor.
        """
        classes = list(kinds)
        outside = {*names, *(kind.__module__ for kind in classes)}
        lines = follow_imports(sorted(outside))
        modules = tuple(sorted({*_package(rooms), *lines, *_named_files(lines)}))
        texts = [path.read_text("utf-8") for path in plugins] + [*map(_text_of, classes)]
        from dpbench.privacy.noise_factor import current_noise_factor

        factor = current_noise_factor()  # never reuse numbers with a wrong noise
        source = digest(modules, texts, *([] if factor == 1 else [factor]))
        return cls(source, machine(), modules, tuple(plugins))

    @property
    def bits(self) -> str:
        """Digest of source and machine, which together determine every bit of a number."""
        return digest(self.source, self.machine)

    @property
    def outside(self) -> dict[str, str]:
        """Mapping of each module outside dpbench to its digest, and each library to its version."""
        lines = dict(line.split(" ", 1) for line in self.modules)
        return {
            name: value for name, value in lines.items() if not name.startswith(f"{PACKAGE_NAME}.")
        }

    @property
    def only_dpbench(self) -> bool:
        """True if no plug-in takes part, so all source files are in the package dpbench."""
        return not self.plugins and set(self.outside) == set(NUMERICAL)

    def without_plugins(self) -> Origin:
        """Return the part of this origin that a worker must have before it receives plug-ins."""
        own = tuple(
            line for line in self.modules if line.startswith((f"{PACKAGE_NAME}.", *LIBRARIES))
        )
        return Origin(digest(own), self.machine, own)

    def here(self) -> Origin:
        """Return the origin of the current process, for the modules that `self` lists.

        A worker calls this method on the origin that it received from the main process. The method
        `check` then compares the result with the received origin.
        """
        modules = tuple(map(line_here, self.modules))
        source = self.source if modules == self.modules else digest(modules)
        return Origin(source, machine(), modules)

    def check(self, expected: Origin, where: str, remedy: str) -> None:
        """Raise ConfigError if this origin and `expected` may give numbers that differ in a bit.

        `expected` is the origin of the process that hands out tasks. For the message, `where` names
        the process with this origin, and `remedy` is advice to the user.
        """
        if self.source != expected.source:
            difference = "other source, or other versions of numpy, scipy or what plug-ins import"
        elif self.machine != expected.machine:
            difference = "another kind of processor or C library, whose bits may be others"
        else:
            return
        raise ConfigError(f"runner: {where} computes by {difference}; {remedy}")

    def same_bits(self, other: Origin) -> bool:
        """Return whether equal random streams give equal bits under this origin and `other`."""
        return self.source == other.source and self.machine == other.machine

    @cached_property
    def about(self) -> Mapping[str, Any]:
        """Versions, platform and git commits of dpbench and plug-ins, for readers of the results.

        The first access runs git for each repository.
        """
        if self.stored is not None:
            return self.stored
        root = PACKAGE.parent
        own = _commit(root) if (root / ".git").exists() else None
        folders = sorted({path.parent for path in self.plugins})
        without = {"commit": None, "dirty": False}  # a folder in no repository, or without a commit
        plugin_commits = {folder.name: _commit(folder, "*.py") or without for folder in folders}
        return {
            "versions": versions() | self.outside,
            "platform": f"{sys.platform} {platform.machine()}",
            **(own or without),
            **({"plugin_commits": plugin_commits} if plugin_commits else {}),
        }


@cache
def _package(rooms: tuple[str, ...]) -> tuple[str, ...]:
    """Return lines (name and digest) for all modules in `CORE` and in other rooms.

    Kinds of applications are included, because any block may have an object of them.

    The lines are part of `Origin.modules`, and include the versions of numpy and scipy. The result
    is cached, because a process loads code only once.
    """
    kinds = {kind.__module__.split(".")[1] for kind in load_kinds()}
    lines = list_package((*CORE, *rooms, *kinds))
    libraries = {f"{name} {_version(name)}" for name in NUMERICAL}
    return tuple(lines | _named_files(lines) | libraries)


def _named_files(lines: Iterable[str]) -> set[str]:
    """Return a line (name and digest) for each extra file on which an estimator depends.

    An estimator lists these files in its class attribute ``files``. Only estimators that are
    defined in the modules of `lines` are considered.
    """
    from dpbench.estimators import Estimator

    modules = {line.partition(" ")[0] for line in lines}
    kinds = [cls for cls in Estimator.kinds().values() if cls.__module__ in modules]
    files = {f"{kind.__module__}/{name}" for kind in kinds for name in vars(kind).get("files", ())}
    return {f"{name} {digest_of(find_source(name))}" for name in files}


def _text_of(kind: type[Any]) -> str:
    """Return the source text of a class's module, or a random text if no source can be read.

    A random text makes the origin differ from all stored origins. So no stored number is reused.
    """
    try:
        module = inspect.getmodule(kind)
        has_file = module is not None and getattr(module, "__file__", None) is not None
        return inspect.getsource(module if has_file and module else kind)
    except (OSError, TypeError):
        return secrets.token_hex(16)


@cache
def machine() -> str:
    """Return the names of the system, processor extensions, linear algebra kernels and C library.

    If two machines differ in these names, the last bits of a result may differ.
    """
    import numpy as np
    import scipy.linalg  # noqa: F401 (it brings its own library)
    from threadpoolctl import threadpool_info

    config: Any = np.show_config(mode="dicts")
    pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
    kernels = {f"{pool['internal_api']} {pool.get('architecture')}" for pool in pools}
    system = (platform.system(), platform.machine(), *platform.libc_ver())
    extensions = config.get("SIMD Extensions", {}).get("found", [])
    return " ".join([*system, *extensions, *sorted(kernels)])


@cache
def versions() -> dict[str, str]:
    """Return the versions of Python, dpbench and the packages behind results and figures."""
    packages = {name: _version(name) for name in PACKAGES}
    return {"python": platform.python_version(), "dpbench": __version__, **packages}


def _version(name: str) -> str:
    """Return an installed Python package's version, faster than `importlib.metadata.version`."""
    distribution = metadata.distribution(name)
    lines = (distribution.read_text("METADATA") or "").splitlines()
    stated = (line.removeprefix("Version: ") for line in lines if line.startswith("Version: "))
    return next(stated, None) or distribution.version


def _commit(folder: Path, *patterns: str) -> dict[str, Any] | None:
    """Return a folder's git commit, and whether its files have changed since the commit.

    Only files that match `patterns` count; without patterns all files count. The result is None
    outside a repository.
    """
    status = git(folder, "status", "--porcelain=v2", "--branch", "--", *patterns) or ""
    found = re.match(r"# branch\.oid ([0-9a-f]+)\n", status)
    if found is None:  # outside a repository, or before its first commit
        return None
    return {"commit": found[1], "dirty": bool(re.search("^[^#]", status, re.MULTILINE))}


def git(folder: Path, *arguments: str) -> str | None:
    """Run git in a folder and return its output; None if git prints nothing or fails."""
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
    """Return a digest of everything on which the files of a run depend, stored blocks included.

    Only a run with plug-ins needs `origin`. It is optional because making an origin loads modules,
    which delays the recognition of a finished run. `reads` are paths of other files that the run
    reads; missing files are skipped.
    """
    files = (f for f in sorted((folder / "blocks").glob("*")) if f.suffix in {".parquet", ".json"})
    try:
        blocks = {path.name: stamp(path) for path in files}
    except OSError:  # another run writes there
        blocks = {}
    stamps = {path: stamp(Path(path)) for path in reads if os.path.exists(path)}  # noqa: PTH110
    plugin_source = [] if origin is None or origin.only_dpbench else [origin.source]
    return digest(environment_digest(config), blocks, stamps, *plugin_source)


def environment_digest(config: Mapping[str, Any]) -> str:
    """Return a digest of everything on which a run's files depend, except the run's folder.

    The digest covers dpbench's source, library versions, the configuration and the host. It also
    covers the size and the time of the last change of each data file.
    """
    keys = {key: config.get(key) for key in OUTPUT_KEYS}
    data = {str(path): stamp(path) for path in _data_files(config["sweep"].get("families"))}
    return digest(package_source(), versions(), keys, data, _host())


def package_source() -> list[tuple[str, str]]:
    """Return (path, digest) of all files of dpbench on which results, tables and pages depend."""
    kinds = {".py", ".html", ".css", ".js", ".json", ".yaml"}
    files = (f for f in sorted(PACKAGE.rglob("*")) if f.suffix in kinds)
    return [(path.relative_to(PACKAGE).as_posix(), digest_of(path)) for path in files]


def _data_files(spec: Any) -> Iterator[Path]:
    """Yield the files that the texts in a configuration name.

    They are searched in the working folder and in dpbench's folder ``data``.
    """
    if isinstance(spec, Mapping | list | tuple):
        for value in spec.values() if isinstance(spec, Mapping) else spec:
            yield from _data_files(value)
    elif isinstance(spec, str):
        for path in (Path(spec), PACKAGE / "data" / spec):
            if os.path.isfile(path):  # noqa: PTH113 (accepts any text)
                yield path


def _host() -> list[str]:
    """Return texts about this host, found without loading numpy.

    The texts change whenever the result of `machine` may change.
    """
    try:
        processor = Path("/proc/cpuinfo").read_text("utf-8")
        processor_lines = {
            line for line in processor.splitlines() if line.startswith(("model", "flags"))
        }
    except OSError:
        processor_lines = set()
    variables = {f"{k}={v}" for k, v in os.environ.items() if k.startswith(ENVIRONMENT)}
    return [platform.platform(), *sorted(processor_lines | variables)]
