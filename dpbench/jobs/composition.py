"""A configuration of files and overrides, by the parts of Hydra that compose one.

Hydra's own configuration, of loggers, launchers and folders, is left out: nothing reads it, and it
takes longer to compose than a sweep.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra import version
from hydra._internal.config_loader_impl import ConfigLoaderImpl
from hydra._internal.config_search_path_impl import ConfigSearchPathImpl
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from hydra._internal.core_plugins.structured_config_source import StructuredConfigSource
from hydra._internal.defaults_list import create_defaults_list
from hydra._internal.sources_registry import SourcesRegistry
from hydra.core.default_element import ResultDefault
from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException
from yaml import YAMLError

from dpbench.errors import ConfigError, choose_from
from dpbench.package import conf_folder

__all__ = ["composed", "multirun"]

SHIPPED = Path(__file__).parents[1] / "data"
MOST_RUNS = 1000  # of --multirun


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
    try:
        with _resolvers_off():
            config = _merged(overrides, [conf_folder(), *([config_dir] if config_dir else [])])
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


def _merged(overrides: Sequence[str], folders: Sequence[Path]) -> DictConfig:
    """The files that ``config.yaml`` and `overrides` choose, of the first folder that has them."""
    version.setbase("1.3")
    search = ConfigSearchPathImpl()
    for source in (FileConfigSource, StructuredConfigSource):
        SourcesRegistry.instance().register(source)
    for folder in folders:
        search.append("dpbench", f"file://{folder.resolve()}")
    search.append("schema", "structured://")  # Hydra wants it, and there is none
    loader = ConfigLoaderImpl(search)
    parsed, files = loader._parse_overrides_and_create_caching_repo("config", list(overrides))
    loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    found = create_defaults_list(files, "config", parsed, prepend_hydra=False, skip_missing=False)
    _check_packages(found.defaults)
    for one in found.defaults:  # which are kept as they are loaded here
        file = None if one.config_path is None else files.load_config(one.config_path)
        if file is not None and file.path.startswith("file://"):
            root = Path(file.path.removeprefix("file://"))
            _beside(file.config, (root / str(one.config_path)).parent)
    config = loader._compose_config_from_defaults_list(found.defaults, files)
    OmegaConf.set_struct(config, True)
    for override in found.config_overrides:
        if not override.is_delete():
            key, value = override.key_or_group, override.value()
            if not (override.is_add() or override.is_force_add()):
                _check_key(key, config)
            known = OmegaConf.select(config, key)
            turned = OmegaConf.is_list(known) != isinstance(value, list)
            if turned and OmegaConf.is_config(known) and key.count(".") > 1:  # sweep.KEY has names
                OmegaConf.update(config, key, None, merge=False, force_add=True)  # list for mapping
        loader._apply_overrides_to_config([override], config)
    return config


def _beside(config: Any, folder: Path) -> None:
    """Read a relative ``path`` from `folder`, the file's, unless it names shipped data."""
    plain: Any = OmegaConf.to_container(config)
    for key, value in plain.items() if isinstance(plain, dict) else ():
        if isinstance(value, dict):
            _beside(config[key], folder)
        elif key == "path" and isinstance(value, list):
            config[key] = [_resolved(one, folder) for one in value]
        elif key == "path":
            config[key] = _resolved(value, folder)


def _resolved(path: Any, folder: Path) -> Any:
    if not isinstance(path, str) or "${" in path or path.startswith("~"):
        return path
    there = folder / path
    return path if (SHIPPED / path).is_file() and not there.exists() else str(there.resolve())


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


def _check_packages(files: Sequence[ResultDefault]) -> None:
    """Refuse files that would set keys outside of the sweep and the runner."""
    for one in files:
        package = one.package or ""
        if not one.primary and package.partition(".")[0] not in {"sweep", "runner"}:
            raise ConfigError(
                f"{one.config_path}: its package is {package or '_global_'!r}: a file sets keys of "
                "sweep or runner alone; all others are set on the command line"
            )


def _composition_error(error: Exception) -> str:
    """Hydra's and OmegaConf's messages as one line that names key, value and choices."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.rpartition("/")
        options = f"; {choose_from(name, sorted(error.options))}" if error.options else ""
        return f"{group or 'defaults'}: {name!r}: no such configuration{options}"
    told = f"{error}\n{error.__cause__ or ''}".splitlines()
    lines = [line.strip() for line in told if line.strip()]
    if isinstance(error, OverrideParseException):
        quoted = "not in Hydra's grammar; put the value in quotes of its own, \"KEY='VALUE'\""
        return f"{error.override}: {quoted if lines[0].startswith('Lexer') else lines[0]}"
    if isinstance(error, RecursionError):
        return "a file among its defaults leads back to itself"
    unknown = re.match(r"Could not override '([^']+)'", lines[0])
    if unknown:
        return f"{unknown[1]}: no file is chosen there; to add one write +{unknown[1]}=..."
    merged = re.match(r"Error merging override (\S+) Cannot merge DictConfig", " ".join(lines))
    if merged:
        section = re.match(r"\+*sweep\.(families|estimators|budgets)=", merged[1])
        choice = "; a part chooses by ++sweep.parts.NAME.KEY=[NAME]" if section else ""
        return f"{merged[1]}: expected a mapping{choice}"
    return " ".join(lines[:4])


def _check_key(key: str, config: DictConfig) -> None:
    """Refuse to set a key that is not there, and say what is."""
    whole: Any = OmegaConf.to_container(config)
    found, steps, place = whole, key.split("."), 0
    while place < len(steps) and isinstance(found, dict) and steps[place] in found:
        found, place = found[steps[place]], place + 1
    if place == len(steps) or not isinstance(found, dict):
        return
    from dpbench.jobs.describe import keys_at

    step = steps[place]
    known = keys_at(whole, steps[:place])
    add = f"to add one write +{key}=..."
    deeper = [] if place else sorted((p for p in _paths(whole) if p.endswith(f".{step}")), key=len)
    if deeper:
        meant = f"did you mean {'.'.join([deeper[0], *steps[1:]])}?"
        raise ConfigError(f"{key}: no such key; {meant} {choose_from('', known or ())}")
    if known is None:
        raise ConfigError(f"{key}: no such key here; {choose_from(step, map(str, found))}; {add}")
    if step not in known:
        raise ConfigError(f"{key}: no such key; {choose_from(step, known)}")
    if place:
        raise ConfigError(f"{key}: not set in this sweep; {add}")
    raise ConfigError(
        f"{key}: a folder of this name in --config-dir hides the key; give one another name"
    )


def _paths(found: Any, at: str = "") -> Iterator[str]:
    """All keys with those that lead to them."""
    for key, value in found.items() if isinstance(found, dict) else ():
        yield f"{at}{key}"
        yield from _paths(value, f"{at}{key}.")
