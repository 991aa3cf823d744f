"""Compose a configuration from files and overrides with Hydra's composition functions.

Hydra's own configuration (loggers, launchers, folders) is left out, because dpbench does not use it
and composing it takes longer than composing a sweep.
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
MOST_RUNS = 1000  # per command with --multirun


def multirun(overrides: Sequence[str]) -> list[list[str]]:
    """Expand lists of values such as ``seed=1,2`` into one list of overrides per combination.

    Raises
    ------
    ConfigError
        If an override cannot be parsed, or there are more than `MOST_RUNS` combinations.
    """
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
            raise ConfigError(f"{line}: more than {MOST_RUNS} runs; list fewer values")
        key = override.get_key_element()
        runs = [[*run, f"{key}={value}"] for run in runs for value in values]
    return runs


def composed(overrides: Sequence[str], config_dir: Path | None = None) -> dict[str, Any]:
    """Compose the configuration from the shipped folder, then the user's, then overrides.

    Nothing that the configuration names is run or imported. Files set only keys of the sweep and
    the runner; the other top-level keys come from the shipped ``config.yaml`` and the overrides.

    Parameters
    ----------
    overrides : sequence of str
        Overrides in Hydra's grammar: ``sweep=audit``, ``sweep.budgets.pure.epsilon=1``.
    config_dir : Path, optional
        Folder of the user's configurations.

    Returns
    -------
    dict
        Configuration of plain Python values, as JSON has them.

    Raises
    ------
    ConfigError
        If a file or override cannot be read or composed, or a value is not plain.
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
    except Exception as error:  # Hydra also raises plain exceptions, which name no key
        raise ConfigError(f"{' '.join(overrides)}: {_composition_error(error)}") from error
    found = _plain(container, "")
    assert isinstance(found, dict)
    return found


def _merged(overrides: Sequence[str], folders: Sequence[Path]) -> DictConfig:
    """Merge the files that ``config.yaml`` and the overrides choose; the first folder wins."""
    version.setbase("1.3")
    search = ConfigSearchPathImpl()
    for source in (FileConfigSource, StructuredConfigSource):
        SourcesRegistry.instance().register(source)
    for folder in folders:
        search.append("dpbench", f"file://{folder.resolve()}")
    search.append("schema", "structured://")  # Hydra requires this entry, which is empty
    loader = ConfigLoaderImpl(search)
    parsed, files = loader._parse_overrides_and_create_caching_repo("config", list(overrides))
    loader.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)
    found = create_defaults_list(files, "config", parsed, prepend_hydra=False, skip_missing=False)
    _check_packages(found.defaults)
    for one in found.defaults:  # `files` caches each file, so that edits here last
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
            # A list may replace a mapping, except at sweep.KEY, whose entries have names.
            if turned and OmegaConf.is_config(known) and key.count(".") > 1:
                OmegaConf.update(config, key, None, merge=False, force_add=True)
        loader._apply_overrides_to_config([override], config)
    return config


def _beside(config: Any, folder: Path) -> None:
    """Make each relative ``path`` in a file's keys absolute, unless it names shipped data.

    Relative paths begin at `folder`, the folder of that file.
    """
    plain: Any = OmegaConf.to_container(config)
    for key, value in plain.items() if isinstance(plain, dict) else ():
        if isinstance(value, dict):
            _beside(config[key], folder)
        elif key == "path" and isinstance(value, list):
            config[key] = [_resolved(one, folder) for one in value]
        elif key == "path":
            config[key] = _resolved(value, folder)


def _resolved(path: Any, folder: Path) -> Any:
    """Return a path that begins at `folder` as absolute; other values unchanged."""
    if not isinstance(path, str) or "${" in path or path.startswith("~"):
        return path
    there = folder / path
    return path if (SHIPPED / path).is_file() and not there.exists() else str(there.resolve())


def _plain(value: Any, at: str) -> Any:
    """Return a value as JSON has it, with text as keys.

    ConfigError names the key `at` if the value has no JSON form or its text is invalid Unicode.
    """
    if isinstance(value, dict):
        return {str(key): _plain(one, f"{at}.{key}".lstrip(".")) for key, one in value.items()}
    if isinstance(value, list):
        return [_plain(one, at) for one in value]
    if isinstance(value, str):
        if not re.search("[\ud800-\udfff]", value):
            return value
        raise ConfigError(
            f"{at}: {value!r}: not valid Unicode (a lone surrogate); remove that character"
        )
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ConfigError(f"{at}: an integer of {len(str(abs(value)))} digits is too large")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ConfigError(f"{at}: {value!r}: expected text, a number, a list or a mapping")


@contextmanager
def _resolvers_off() -> Iterator[None]:
    """Disable OmegaConf resolvers: ``${...}`` may name other keys, not functions as oc.env."""
    known, BaseContainer._resolvers = BaseContainer._resolvers, {}
    try:
        yield
    finally:
        BaseContainer._resolvers = known


def _check_packages(files: Sequence[ResultDefault]) -> None:
    """Refuse files that set keys outside of the sweep and the runner."""
    for one in files:
        package = one.package or ""
        if not one.primary and package.partition(".")[0] not in {"sweep", "runner"}:
            raise ConfigError(
                f"{one.config_path}: its package is {package or '_global_'!r}: a file can set keys "
                "of sweep and runner only; set the others on the command line"
            )


def _composition_error(error: Exception) -> str:
    """Rewrite a message of Hydra or OmegaConf as one line that names key, value and choices."""
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
        return "defaults: a file includes itself, directly or through others; remove that entry"
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
    """Refuse to set a key that does not exist, and name the keys that do."""
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
    """Yield every key of nested mappings, with its parents, separated by dots."""
    for key, value in found.items() if isinstance(found, dict) else ():
        yield f"{at}{key}"
        yield from _paths(value, f"{at}{key}.")
