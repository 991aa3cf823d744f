"""From the command line to checked settings."""

from __future__ import annotations

import argparse
import importlib
import itertools
import os
import re
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields
from pathlib import Path
from typing import Annotated, Any, Literal

from hydra import compose, initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException
from pydantic import AfterValidator, Field, field_validator
from yaml import YAMLError

from dpbench.registry import ConfigError, Trials, keyed, validated
from dpbench.runner.execute import Runner

__all__ = [
    "Settings", "arguments", "command_line", "composed", "conf_folder", "load_plugins", "multirun",
]  # fmt: skip


MOST_PROCESSES = 1024
MOST_RUNS = 1000  # of --multirun


def _usable_path(text: str) -> str:
    """A path with the user's folder in the place of ~, which a file can have."""
    try:
        os.fsencode(text)
        if "\0" not in text:
            return str(Path(text).expanduser())
    except (RuntimeError, UnicodeError):
        pass
    raise ValueError("no file can have this name")


PathText = Annotated[str, Field(min_length=1), AfterValidator(_usable_path)]


@validated
class Settings:
    """The top level of the configuration.

    Parameters
    ----------
    sweep : mapping
        What to run: a `dpbench.study.Study`, or a `dpbench.audit.AuditSweep`.
    seed : int
        Names all random streams.
    trials : int, optional
        Instead of every part's own.
    n_jobs : int
        Processes, at most as many as there are blocks; -1 for all cores. Changes no number.
    out : str, optional
        The run's folder; by default ``results/<sweep>`` below the working folder.
    resume : bool
        Reuse finished blocks in `out`.
    plugins : list of str
        Modules with estimators or distributions of the user's own.
    replay : str, optional
        Run only the failure of this name again, for its traceback.
    track : {'check', 'update'}, optional
        Compare the errors of all trials with the stored baseline, or store them as the new one.
    baseline : str, optional
        The baseline's file; by default ``results/baselines/<sweep>.parquet`` of the checkout.
    report : {'all'}, optional
        Instead of running a sweep, put all finished runs on one page.
    """

    sweep: Mapping[str, Any]
    seed: Annotated[int, Field(ge=0, lt=2**63)] = 0
    trials: Trials | None = None
    n_jobs: Annotated[int, Field(ge=-1, le=MOST_PROCESSES)] = -1
    out: PathText | None = None
    resume: bool = True
    runner: Annotated[Runner, keyed(Runner)] = Runner()
    plugins: tuple[Annotated[str, Field(pattern=r"^[A-Za-z_][\w.]*$")], ...] = ()
    replay: Annotated[str, Field(pattern=r"^f[0-9a-f]{10}n[1-9][0-9]{0,17}$")] | None = None
    track: Literal["check", "update"] | None = None
    baseline: PathText | None = None
    report: Literal["all"] | None = None

    @field_validator("n_jobs")
    @classmethod
    def _some_jobs(cls, n_jobs: int) -> int:
        if n_jobs == 0:
            raise ValueError("give a number of processes, or -1 for all cores")
        return n_jobs


def conf_folder() -> Path:
    """The folder of configurations: beside this module in a wheel, else in the checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags, which are a few of Hydra's; the rest are overrides."""
    parser = argparse.ArgumentParser(prog="dpbench", add_help=False, exit_on_error=False)
    parser.add_argument("--help", "-h", nargs="*")
    parser.add_argument("--schema", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job"])
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("overrides", nargs="*")
    try:
        found, unknown = parser.parse_known_intermixed_args(argv)
    except argparse.ArgumentError as error:
        raise ConfigError(str(error)) from error
    if unknown:
        raise ConfigError(
            f"{unknown[0]}: no such flag; choose from --help, --schema, --cfg job, --multirun, "
            "--config-dir DIR, or write key=value"
        )
    if found.help is not None:  # it takes all words; overrides are none of its own
        found.overrides += [word for word in found.help if "=" in word]
        found.help = [word for word in found.help if "=" not in word]
    if found.config_dir is not None and not found.config_dir.is_dir():
        raise ConfigError(f"--config-dir: '{found.config_dir}': no such folder")
    return found


def multirun(overrides: Sequence[str]) -> list[list[str]]:
    """Expand ``seed=1,2`` and the like into one list of overrides per combination."""
    try:
        parsed = OverridesParser.create().parse_overrides(list(overrides))
    except HydraException as error:
        raise ConfigError(_composition_error(error)) from error
    runs = [list[str]()]
    for override in parsed:
        line = str(override.input_line)
        if not override.is_sweep_override():
            runs = [[*run, line] for run in runs]
            continue
        try:
            values = list(itertools.islice(override.sweep_string_iterator(), MOST_RUNS + 1))
        except (HydraException, ValueError, TypeError) as error:
            raise ConfigError(f"{line}: list the values, as in seed=1,2,3") from error
        if len(runs) * len(values) > MOST_RUNS:
            raise ConfigError(f"{line}: more than {MOST_RUNS} runs")
        key = override.get_key_element()
        runs = [[*run, f"{key}={value}"] for run in runs for value in values]
    return runs


def composed(overrides: Sequence[str], config_dir: Path | None = None) -> dict[str, Any]:
    """Compose the configuration with Hydra, from our folder, then the user's; ConfigError if wrong.

    Nothing that it names is run or imported. Files say what the sweep and the runner are; the other
    keys of the top level come from our ``config.yaml`` and from `overrides` alone.
    """
    for override in overrides:
        if override.lstrip("+~").startswith("hydra"):
            raise ConfigError(
                f"{override}: Hydra's own settings are fixed; use out=DIR, or --config-dir DIR"
            )
    extra = []
    if config_dir is not None:
        path = str(config_dir.resolve()).replace("\\", "\\\\").replace("'", "\\'")
        extra = [f"hydra.searchpath=['file://{path}']"]
    start = initialize_config_dir(str(conf_folder()), version_base="1.3", job_name="dpbench")
    try:
        with start, _resolvers_off():
            if extra:
                _check_packages([*overrides, *extra])
            config = compose("config", overrides=[*overrides, *extra])
            container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
    except (ConfigError, MemoryError):
        raise
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(_composition_error(error)) from error
    except Exception as error:  # Hydra's plain ones, of whatever type, name no key
        raise ConfigError(f"{' '.join(overrides)}: {_composition_error(error)}") from error
    found = _plain(container, "")
    assert isinstance(found, dict)
    return found


def _plain(value: Any, at: str) -> Any:
    """A value as JSON has it, with names as keys; ConfigError if it is none, or no text."""
    if isinstance(value, dict):
        return {str(key): _plain(one, f"{at}.{key}".lstrip(".")) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, at) for one in value]
    if isinstance(value, str):
        if not re.search("[\ud800-\udfff]", value):
            return value
        raise ConfigError(f"{at}: {value!r}: half of a character is no text")
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ConfigError(f"{at}: an integer of {len(str(abs(value)))} digits is too large")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ConfigError(f"{at}: {value!r}: expected text, a number, a list or a mapping")


@contextmanager
def _resolvers_off() -> Iterator[None]:
    """What stands for a value is another key's: no function, ``oc.env`` of secrets for one."""
    known, BaseContainer._resolvers = BaseContainer._resolvers, {}
    try:
        yield
    finally:
        BaseContainer._resolvers = known


def _check_packages(overrides: list[str]) -> None:
    """Refuse files that would set keys outside of the sweep and the runner."""
    loader = GlobalHydra.instance().config_loader()
    for one in loader.compute_defaults_list("config", overrides, RunMode.RUN).defaults:
        package = one.package or ""
        if not one.primary and package.partition(".")[0] not in {"sweep", "runner", "hydra"}:
            raise ConfigError(
                f"{one.config_path}: its package is {package or '_global_'!r}: a file sets keys of "
                "sweep or runner alone; all others are set on the command line"
            )


def _composition_error(error: Exception) -> str:
    """Hydra's and OmegaConf's messages as one line that names key, value and choices."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        options = f"; choose from {', '.join(sorted(error.options))}" if error.options else ""
        return f"{group or 'defaults'}: {name!r}: no such configuration{options}"
    told = f"{error}\n{error.__cause__ or ''}".splitlines()
    lines = [line.strip() for line in told if line.strip()]
    if isinstance(error, OverrideParseException):
        quoted = "not in Hydra's grammar; put the value in quotes of its own, \"KEY='VALUE'\""
        return f"{error.override}: {quoted if lines[0].startswith('Lexer') else lines[0]}"
    if isinstance(error, RecursionError):
        return "a file among its defaults leads back to itself"
    unknown = re.match(r"Could not override '([^']+)'", lines[0])
    return _unknown_key(unknown[1]) if unknown else " ".join(lines[:4])


def _unknown_key(key: str) -> str:
    if "." in key:
        return f"{key}: no such key in this configuration; to add one write +{key}=..."
    known = [field.name for field in fields(Settings)]
    if key in known:
        return f"{key}: a folder of this name in --config-dir hides the key; give one another name"
    return f"{key}: no such key; choose from {', '.join(known)}"


def load_plugins(names: Sequence[str], config_dir: Path | None) -> tuple[Path, ...]:
    """Import the plug-in modules; return their source files and their helpers'.

    They are looked for in `config_dir`, then in the working folder, after everything
    that is installed.
    """
    if not names:
        return ()
    for folder in (config_dir, Path.cwd()):
        if folder is not None and str(folder.resolve()) not in sys.path:
            sys.path.append(str(folder.resolve()))
    roots: set[Path] = set()
    for name in names:
        try:
            importlib.import_module(name)
        except Exception as error:
            first, *_ = str(error).splitlines() or [""]
            raise ConfigError(f"plugins: {name!r}: {type(error).__name__}: {first}") from error
        source = getattr(sys.modules[name.partition(".")[0]], "__file__", None)
        if source is None:
            raise ConfigError(f"plugins: {name!r}: a folder without __init__.py is no module")
        roots.add(Path(source).resolve().parent)
    files = {getattr(module, "__file__", None) for module in list(sys.modules.values())}
    loaded = {Path(file).resolve() for file in files if file and file.endswith(".py")}
    own = Path(__file__).resolve().parent
    theirs = (p for p in loaded if own not in p.parents and "site-packages" not in p.parts)
    return tuple(sorted(path for path in theirs if roots & set(path.parents)))


def command_line(words: Sequence[str]) -> str:
    """What a user types to run dpbench with these words; ``dev.sh`` has its own way."""
    return f"{os.environ.get('DPBENCH_COMMAND', 'python -m dpbench')} {shlex.join(words)}".strip()
