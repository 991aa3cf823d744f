"""Compose a configuration from files and overrides with Hydra's composition functions.

Hydra's own configuration (loggers, launchers, folders) is left out. dpbench does not use that
configuration, and composing it takes longer than composing a sweep.
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
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from hydra.types import RunMode
from omegaconf import DictConfig, OmegaConf, _utils
from omegaconf.basecontainer import BaseContainer
from omegaconf.errors import OmegaConfBaseException
from yaml import MappingNode, Node, ScalarNode, YAMLError

from dpbench.errors import MAX_ENTRIES, ConfigError, ErrorCollector, choose_from
from dpbench.package import conf_folder

__all__ = ["compose", "expand_multirun"]

SHIPPED_DATA = Path(__file__).parents[1] / "data"
# Sections of a sweep to which the files of a group add an entry.
SECTIONS = {"estimator": "estimators", "distribution": "families"}
# Types that YAML gives to texts without quotes: no, 1e3, null.
TEXT, BOOLEAN = "tag:yaml.org,2002:str", "tag:yaml.org,2002:bool"
PLAIN = {BOOLEAN, *(f"tag:yaml.org,2002:{name}" for name in ("float", "int", "null"))}
MAX_RUNS = 1000  # largest number of runs of a command with --multirun


def expand_multirun(overrides: Sequence[str]) -> list[list[str]]:
    """Expand overrides with several values, such as ``seed=1,2``, into runs with one value each.

    An override is a text ``key=value``. The result holds one list of overrides for each combination
    of values. Raise ConfigError if an override cannot be parsed, or if there are more than 1000
    (`MAX_RUNS`) combinations.
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
            values = list(itertools.islice(override.sweep_string_iterator(), MAX_RUNS + 1))
        except (HydraException, ValueError, TypeError) as error:
            raise ConfigError(f"{line}: list the values, as in seed=1,2,3") from error
        if len(runs) * len(values) > MAX_RUNS:
            raise ConfigError(f"{line}: more than {MAX_RUNS} runs; list fewer values")
        key = override.get_key_element()
        runs = [[*run, f"{key}={value}"] for run in runs for value in values]
    return runs


def compose(
    overrides: Sequence[str],
    config_dir: Path | None = None,
    errors: ErrorCollector | None = None,
) -> dict[str, Any]:
    """Compose a configuration from dpbench's files, the user's files and overrides.

    Overrides have Hydra's grammar: ``sweep=audit``, ``sweep.budgets.pure.epsilon=1``. Without a
    folder `config_dir` of the user's configurations, only shipped files are used. If dpbench and
    the user have files of one name, dpbench's file is used. No function that the configuration
    names is run, and no module is imported. Files set only keys below ``sweep`` and ``runner``. All
    other keys come from dpbench's ``config.yaml`` and from the overrides. The values of the
    configuration are such that JSON can represent them.

    Raise ConfigError if files or overrides cannot be read or composed, or if JSON cannot represent
    a value. With `errors`, errors of single overrides are collected there, and the other overrides
    are composed. A file that cannot be read hides the errors of keys.
    """
    collector = ErrorCollector() if errors is None else errors
    usable = []
    for override in overrides:
        with collector.step(), _as_config_errors(override):
            _check_grammar(override)
            usable.append(override)
    folders = [conf_folder(), *([config_dir] if config_dir else [])]
    try:
        with _as_config_errors(" ".join(overrides)), _restrict_omegaconf():
            config = _merge_files(usable, folders, collector)
            container = OmegaConf.to_container(config, resolve=True, throw_on_missing=True)
            values = _to_json_values(container, "")
    except ConfigError as error:  # without these files nothing else can be checked
        with collector.step():
            raise error
        collector.raise_all()
    if errors is None:
        collector.raise_all()
    assert isinstance(values, dict)
    return values


@contextmanager
def _as_config_errors(words: str) -> Iterator[None]:
    """Turn the exceptions of Hydra and OmegaConf in a ``with`` block into a ConfigError.

    If an exception names no key, the message names `words`, the overrides.
    """
    try:
        yield
    except (ConfigError, MemoryError):
        raise
    except (HydraException, OmegaConfBaseException, YAMLError) as error:
        raise ConfigError(_composition_error(error)) from error
    except Exception as error:  # Hydra also raises plain exceptions, which name no key
        raise ConfigError(f"{words}: {_composition_error(error)}") from error


def _check_grammar(override: str) -> None:
    """Raise an error if an override cannot be parsed, has several values, or is Hydra's own."""
    if override.lstrip("+~").startswith("hydra"):
        raise ConfigError(
            f"{override}: Hydra's own settings are fixed; use out=DIR, or --config-dir DIR"
        )
    key, equals, value = override.partition("=")
    if equals and (key != key.strip() or not key or value != value.lstrip()):
        spaced = f"{key.strip() or 'KEY'}={value.strip()}"
        raise ConfigError(f"{override}: write a key and a value without spaces around =: {spaced}")
    parsed = OverridesParser.create().parse_overrides([override])
    ConfigLoaderImpl.validate_sweep_overrides_legal(parsed, RunMode.RUN, from_shell=False)


def _merge_files(
    overrides: Sequence[str], folders: Sequence[Path], errors: ErrorCollector
) -> DictConfig:
    """Merge the files that ``config.yaml`` and the overrides choose, and apply the overrides.

    If several folders have a file of one name, the file in the first of these folders is used.
    Collect the errors of single overrides of keys, and go on with the others.
    """
    version.setbase("1.3")
    search = ConfigSearchPathImpl()
    for source in (FileConfigSource, StructuredConfigSource):
        SourcesRegistry.instance().register(source)
    for folder in folders:
        search.append("dpbench", f"file://{folder.resolve()}")
    search.append("schema", "structured://")  # Hydra requires this entry, which is empty
    loader = ConfigLoaderImpl(search)
    parsed, files = loader._parse_overrides_and_create_caching_repo("config", list(overrides))
    defaults = create_defaults_list(
        files, "config", parsed, prepend_hydra=False, skip_missing=False
    )
    _check_packages(defaults.defaults)
    for entry in defaults.defaults:  # edits of a file stay, because `files` caches it
        file = None if entry.config_path is None else files.load_config(entry.config_path)
        if file is not None and file.path.startswith("file://"):
            root = Path(file.path.removeprefix("file://"))
            _resolve_paths(file.config, (root / str(entry.config_path)).parent)
    config = loader._compose_config_from_defaults_list(defaults.defaults, files)
    OmegaConf.set_struct(config, True)
    for override in defaults.config_overrides:
        with errors.step(), _as_config_errors(str(override.input_line)):
            _prepare_key(override, config)
            loader._apply_overrides_to_config([override], config)
    return config


def _prepare_key(override: Override, config: DictConfig) -> None:
    """Check that the key of an override exists, and clear a value of another type."""
    if override.is_delete():
        return
    key, value = override.key_or_group, override.value()
    _check_labels(key, value)
    if not (override.is_add() or override.is_force_add()):
        _check_key(key, config)
    present = OmegaConf.select(config, key)
    changes_type = OmegaConf.is_list(present) != isinstance(value, list)
    # A list may replace a mapping, except at sweep.KEY, whose entries have names.
    if changes_type and OmegaConf.is_config(present) and key.count(".") > 1:
        OmegaConf.update(config, key, None, merge=False, force_add=True)


def _check_labels(key: str, value: Any) -> None:
    """Raise ConfigError if a mapping in the value of an override has a key that is no text."""
    for label, entry in value.items() if isinstance(value, dict) else ():
        if label is None or isinstance(label, bool):
            word = "null" if label is None else str(label).lower()
            raise ConfigError(f"{key}: {word}: a label is text; write ++{key}.{word}=...")
        _check_labels(f"{key}.{label}", entry)


def _resolve_paths(config: Any, folder: Path) -> None:
    """Make each relative ``path`` in a configuration file absolute, in place.

    Relative paths begin at `folder`, the folder of the file. A path that names only a file shipped
    with dpbench stays as it is.
    """
    plain: Any = OmegaConf.to_container(config)
    for key, value in plain.items() if isinstance(plain, dict) else ():
        if isinstance(value, dict):
            _resolve_paths(config[key], folder)
        elif key == "path" and isinstance(value, list):
            config[key] = [_resolve_path(item, folder) for item in value]
        elif key == "path":
            config[key] = _resolve_path(value, folder)


def _resolve_path(path: Any, folder: Path) -> Any:
    """Return the absolute form of a relative path that begins at `folder`.

    All other values are returned unchanged, for example the name of a file shipped with dpbench.
    """
    if not isinstance(path, str) or "${" in path or path.startswith("~"):
        return path
    absolute = folder / path
    return (
        path
        if (SHIPPED_DATA / path).is_file() and not absolute.exists()
        else str(absolute.resolve())
    )


def _to_json_values(value: Any, key_path: str) -> Any:
    """Convert a value to one that JSON can represent, with texts as the keys of mappings.

    Raise a ConfigError if that is impossible, or a text is not valid Unicode. The message names
    `key_path`, the place of the value in the configuration.
    """
    if isinstance(value, dict):
        return {
            str(key): _to_json_values(item, f"{key_path}.{key}".lstrip("."))
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [_to_json_values(item, key_path) for item in value]
    if isinstance(value, str):
        if not re.search("[\ud800-\udfff]", value):
            return value
        raise ConfigError(
            f"{key_path}: {value!r}: not valid Unicode (a lone surrogate); remove that character"
        )
    if isinstance(value, int) and abs(value) > sys.float_info.max:
        raise ConfigError(f"{key_path}: an integer of {len(str(abs(value)))} digits is too large")
    if value is None or isinstance(value, bool | int | float):
        return value
    raise ConfigError(f"{key_path}: {value!r}: expected text, a number, a list or a mapping")


@contextmanager
def _restrict_omegaconf() -> Iterator[None]:
    """Let OmegaConf read files by `_Loader`, and disable its resolvers, inside this context.

    A configuration can then name other keys with ``${...}``, but call no functions such as oc.env.
    """
    resolvers, BaseContainer._resolvers = BaseContainer._resolvers, {}
    get_loader, _utils.get_yaml_loader = _utils.get_yaml_loader, lambda: _Loader
    try:
        yield
    finally:
        BaseContainer._resolvers = resolvers
        _utils.get_yaml_loader = get_loader


class _Loader(_utils.get_yaml_loader()):  # type: ignore[misc]
    """Reader of YAML files in which every key is text, and only true and false are booleans.

    A label may be ``no`` or ``null``, and a part may name it without quotes.
    """

    def resolve(self, kind: type[Node], value: str | None, implicit: tuple[bool, bool]) -> str:
        tag: str = super().resolve(kind, value, implicit)
        is_word = tag == BOOLEAN and str(value).lower() not in {"true", "false"}
        return TEXT if is_word else tag

    def compose_node(self, parent: Node | None, index: Any) -> Any:
        """Refuse a mapping with too many entries at once, because OmegaConf would take minutes."""
        if isinstance(parent, MappingNode) and len(parent.value) >= MAX_ENTRIES:
            place = f"{self.name}, line {parent.start_mark.line + 1}"
            raise ConfigError(f"{place}: more than {MAX_ENTRIES} entries in a mapping; write fewer")
        node = super().compose_node(parent, index)
        if isinstance(parent, MappingNode) and index is None and isinstance(node, ScalarNode):
            node.tag = TEXT if node.tag in PLAIN else node.tag  # the key of an entry
        return node


def _check_packages(files: Sequence[ResultDefault]) -> None:
    """Raise ConfigError if a file sets keys that are not below ``sweep`` or ``runner``."""
    for entry in files:
        package = entry.package or ""
        if not entry.primary and package in SECTIONS:
            group, _, name = str(entry.config_path).rpartition("/")
            raise ConfigError(f"{group}: {_label_advice(group, name)}")
        if not entry.primary and package.partition(".")[0] not in {"sweep", "runner"}:
            raise ConfigError(
                f"{entry.config_path}: its package is {package or '_global_'!r}: a file can set "
                "keys of sweep and runner only; set the others on the command line"
            )


def _composition_error(error: Exception) -> str:
    """Return the text of an error of Hydra or OmegaConf: key, value and choices in one line."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.partition("/")
        if not name:
            group, name = "defaults", group
        advice = _find_file(group, name, sorted(error.options or ()))
        return f"{group}: {name!r}: no such configuration{advice}"
    message_lines = f"{error}\n{error.__cause__ or ''}".splitlines()
    lines = [line.strip() for line in message_lines if line.strip()]
    if isinstance(error, OverrideParseException):
        quotes = "put the value in quotes of its own, \"KEY='VALUE'\""
        problem = "not in Hydra's grammar" if lines[0].startswith("Lexer") else lines[0]
        advice = quotes if "=" in str(error.override) else "write KEY=VALUE"
        return f"{error.override}: {problem}; {advice}"
    if isinstance(error, RecursionError):
        return "defaults: a file includes itself, directly or through others; remove that entry"
    return _known_problem(lines) or " ".join(lines[:4])


def _known_problem(lines: Sequence[str]) -> str:
    """Return a message with advice for a known text of Hydra, or blank text."""
    unknown = re.match(r"Could not override '([^']+)'", lines[0])
    if unknown and unknown[1] in SECTIONS:
        return f"{unknown[1]}: {_label_advice(unknown[1], 'NAME')}"
    missing = re.search(r"Key '([^']+)' is not in struct", " ".join(lines))
    if unknown and missing:
        return f"{unknown[1]}: it has no key {missing[1]!r}; to add one write +{unknown[1]}=..."
    if unknown:
        return f"{unknown[1]}: no file is chosen there; to add one write +{unknown[1]}=..."
    several = re.match(r"Ambiguous value for argument '(.*)'$", lines[0])
    if several:
        return (
            f"{several[1]}: several values; a list has brackets: KEY=[1,2]; --multirun runs each "
            "value, with an out= of its own: 'out=results/run-${seed}'"
        )
    merged = re.match(r"Error merging override (\S+) Cannot merge DictConfig", " ".join(lines))
    if merged:
        section = re.match(r"\+*sweep\.(families|estimators|budgets)=", merged[1])
        choice = "; a part chooses by ++sweep.parts.NAME.KEY=[NAME]" if section else ""
        return f"{merged[1]}: expected a mapping{choice}"
    return ""


def _find_file(group: str, name: str, options: Sequence[str]) -> str:
    """Return advice for a configuration that was not found: the file that it may mean, or a list.

    A file in the working folder is not read, because its folder is no folder of configurations.
    """
    stem = Path(name).name.removesuffix(".yaml")
    if stem != name and stem in options:
        return f"; write {group}={stem}"
    if (Path(group) / f"{stem}.yaml").is_file():
        return f"; for ./{group}/{stem}.yaml write {group}={stem} --config-dir ."
    found = next(filter(Path.is_file, (Path(name), Path(f"{name}.yaml"))), None)
    if found is not None:
        return f"; move {found} to {group}/{stem}.yaml, then write {group}={stem} --config-dir ."
    return f"; {choose_from(name, options)}" if options else ""


def _label_advice(group: str, name: str) -> str:
    """Return advice how to add an entry from a file of the group ``estimator`` or similar."""
    return f"an entry needs a label; write +{group}@sweep.{SECTIONS[group]}.LABEL={name}"


def _check_key(key: str, config: DictConfig) -> None:
    """Raise ConfigError if the key of an override does not exist; the message suggests keys."""
    values: Any = OmegaConf.to_container(config)
    value, steps, place = values, key.split("."), 0
    while place < len(steps) and isinstance(value, dict) and steps[place] in value:
        value, place = value[steps[place]], place + 1
    if place == len(steps) or not isinstance(value, dict):
        return
    from dpbench.jobs.describe import keys_at

    step = steps[place]
    keys = keys_at(values, steps[:place])
    add = f"to add one write +{key}=..."
    similar = (
        [] if place else sorted((p for p in _key_paths(values) if p.endswith(f".{step}")), key=len)
    )
    if similar:
        suggestion = f"did you mean {'.'.join([similar[0], *steps[1:]])}?"
        raise ConfigError(f"{key}: no such key; {suggestion} {choose_from('', keys or ())}")
    if keys is None:
        raise ConfigError(f"{key}: no such key here; {choose_from(step, map(str, value))}; {add}")
    if step not in keys:
        raise ConfigError(f"{key}: no such key; {choose_from(step, keys)}")
    if place:
        raise ConfigError(f"{key}: not set in this sweep; {add}")
    raise ConfigError(
        f"{key}: a folder of this name in --config-dir hides the key; give one another name"
    )


def _key_paths(values: Any, parent: str = "") -> Iterator[str]:
    """Yield the full path of every key in nested mappings, for example ``sweep.parts.main``."""
    for key, value in values.items() if isinstance(values, dict) else ():
        yield f"{parent}{key}"
        yield from _key_paths(value, f"{parent}{key}.")
