"""Compose a configuration: Hydra merges its files, and overrides of keys are applied here.

Hydra stops at the first override that it cannot apply. Here all of them are told at once.
"""

from __future__ import annotations

import itertools
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override
from hydra.errors import HydraException, MissingConfigException, OverrideParseException
from omegaconf import DictConfig, OmegaConf, open_dict
from omegaconf.errors import ConfigKeyError, MissingMandatoryValue, OmegaConfBaseException
from yaml import YAMLError

from dpbench.errors import ConfigError, ErrorCollector, choose_from
from dpbench.jobs.conf_files import (
    check_package,
    compose_files,
    describe_missing_file,
    refuse_functions,
)
from dpbench.package import conf_folder

__all__ = ["compose", "expand_multirun"]

# Sections of a sweep to which the files of a group add an entry.
SECTIONS = {"estimator": "estimators", "distribution": "families"}
# Sections of a sweep by the words that users write for one entry.
_PLURALS = {**SECTIONS, "family": "families", "budget": "budgets"}
MAX_RUNS = 1000  # largest number of runs of a command with --multirun


def expand_multirun(overrides: Sequence[str]) -> list[list[str]]:
    """Return a list of overrides for each combination of values, such as those of ``seed=1,2``.

    More than `MAX_RUNS` combinations are refused.
    """
    parsed, errors = list[Override](), ErrorCollector()
    for word in overrides:
        with errors.step(), _as_config_errors(word):
            parsed += OverridesParser.create().parse_overrides([word])
    errors.raise_all()
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
    """Return the configuration of dpbench's files, the user's files and overrides.

    If dpbench and the user have files of one name, dpbench's file is used. No function that the
    configuration names is run, and no module is imported. Files set only keys below ``sweep`` and
    ``runner``. All other keys come from dpbench's ``config.yaml`` and from the overrides. All
    values are such that JSON can represent them.

    Errors of single overrides enter `errors`, and the other overrides are composed. Without
    `errors`, all errors are raised at once. A file that cannot be read hides the errors of keys.
    """
    collector = ErrorCollector() if errors is None else errors
    usable = []
    for override in overrides:
        with collector.step(), _as_config_errors(override):
            usable.append(_parse(override))
    folders = [conf_folder(), *([config_dir] if config_dir else [])]
    try:
        with _as_config_errors(" ".join(overrides)):
            config = _merge_files(usable, folders, collector)
            _check_references(config, collector)
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


def _parse(override: str) -> Override:
    """Parse an override; refuse several values, functions, and Hydra's own settings."""
    if override.lstrip("+~").startswith("hydra"):
        raise ConfigError(
            f"{override}: Hydra's own settings are fixed; use out=DIR, or --config-dir DIR"
        )
    key, equals, value = override.partition("=")
    if equals and (key != key.strip() or not key or value != value.lstrip()):
        spaced = f"{key.strip() or 'KEY'}={value.strip()}"
        raise ConfigError(f"{override}: write a key and a value without spaces around =: {spaced}")
    refuse_functions(key, value)
    parsed = OverridesParser.create().parse_overrides([override])[0]
    if parsed.is_sweep_override():
        raise ConfigError(
            f"{override}: several values; a list has brackets: KEY=[1,2]; --multirun runs each "
            "value, with an out= of its own: 'out=results/run-${seed}'"
        )
    return parsed


def _merge_files(
    overrides: Sequence[Override], folders: Sequence[Path], errors: ErrorCollector
) -> DictConfig:
    """Merge the files that ``config.yaml`` and the overrides choose, and apply the overrides.

    If several folders have a file of one name, the file in the first of these folders is used.
    Collect the errors of single overrides of keys, and go on with the others. If files cannot be
    merged, raise all errors.
    """
    files, keys = list[Override](), list[Override]()
    for override in overrides:
        with errors.step():
            (files if _chooses_file(override, folders) else keys).append(override)
    words = [str(one.input_line) for one in files]
    wrong = list[Override]()  # choices of files that cannot be merged
    try:
        with _as_config_errors(" ".join(words)):
            config = compose_files(words, folders)
    except ConfigError:
        wrong = _find_wrong_choices(files, folders, errors)
        if not wrong:
            raise
        config = compose_files([str(one.input_line) for one in files if one not in wrong], folders)
    hidden = tuple(f"{one.package or one.key_or_group}.".replace("/", ".") for one in wrong)
    for override in keys:
        if not override.key_or_group.startswith(hidden):
            with errors.step(), _as_config_errors(str(override.input_line)):
                _apply(override, config)
    if wrong:
        errors.raise_all()
    return config


def _find_wrong_choices(
    choices: Sequence[Override], folders: Sequence[Path], errors: ErrorCollector
) -> list[Override]:
    """Return the choices of files that fail alone, because Hydra stops at the first; collect them.

    A choice is an override ``group=name``.
    """
    wrong = []
    for choice in choices:
        try:
            with _as_config_errors(str(choice.input_line)):
                compose_files([str(choice.input_line)], folders)
        except ConfigError as error:
            wrong.append(choice)
            with errors.step():
                raise error
    return wrong


def _check_references(node: Any, errors: ErrorCollector) -> None:
    """Collect the errors of all values in a configuration that name other keys, as ${sweep.name}.

    Values ``???``, which a file demands from the command line, are errors, too.
    """
    for key in range(len(node)) if OmegaConf.is_list(node) else list(node):
        with errors.step(), _as_config_errors(str(key)):
            value = node[key]
            if OmegaConf.is_config(value) and not OmegaConf.is_interpolation(node, key):
                _check_references(value, errors)


def _chooses_file(override: Override, folders: Sequence[Path]) -> bool:
    """Return whether an override is ``group=name`` for a group, a folder of configurations."""
    group, name, package = override.key_or_group, override.value(), override.package
    if isinstance(name, dict) or not any((folder / group).is_dir() for folder in folders):
        return False
    if package is not None:
        check_package(f"{group}={name}", package)
    elif group in SECTIONS and not override.is_delete():
        raise ConfigError(
            f"{group}: an entry needs a label; write +{group}@sweep.{SECTIONS[group]}.LABEL={name}"
        )
    return True


def _apply(override: Override, config: DictConfig) -> None:
    """Apply an override of a key to a configuration, as Hydra does.

    But a list may replace a mapping, except where entries need names: at sweep.families, for one.
    """
    key, value, line = override.key_or_group, override.value(), override.input_line
    if override.package is not None:
        raise ConfigError(f"{line}: no folder {key!r} of configurations; write KEY=VALUE")
    is_new = override.is_add() or override.is_force_add()
    if not (is_new or override.is_delete()):
        is_new = _is_unset(key, config)
    present = OmegaConf.select(config, key)
    if override.is_delete():
        if present is None or value not in (None, present):
            raise ConfigError(f"{line}: the configuration has no such entry, so it cannot go")
        parent, _, last = key.rpartition(".")
        with open_dict(config):
            del (OmegaConf.select(config, parent) if parent else config)[last]
        return
    _check_labels(key, value)
    if override.is_add() and not (present is None or isinstance(value, dict | list)):
        raise ConfigError(f"{line}: the key has a value; write {key}=...")
    if OmegaConf.is_config(present) and OmegaConf.is_list(present) != isinstance(value, list):
        if key.count(".") > 1 or key == "sweep.budgets":
            OmegaConf.update(config, key, None, merge=False, force_add=True)
        elif isinstance(value, list):
            choice = "; a part chooses by ++sweep.parts.NAME.KEY=[NAME]"
            is_section = key.removeprefix("sweep.") in {"families", "estimators", "budgets"}
            raise ConfigError(f"{line}: expected a mapping{choice if is_section else ''}")
    try:
        OmegaConf.update(config, key, value, merge=True, force_add=is_new)
    except ConfigKeyError as error:
        add = f"to add one write +{key}=..."
        raise ConfigError(f"{key}: it has no key {error.key!r}; {add}") from error


def _check_labels(key: str, value: Any) -> None:
    """Raise ConfigError if a mapping in the value of an override has a key that is no text."""
    for label, entry in value.items() if isinstance(value, dict) else ():
        if label is None or isinstance(label, bool):
            word = "null" if label is None else str(label).lower()
            raise ConfigError(f"{key}: {word}: a label is text; write ++{key}.{word}=...")
        _check_labels(f"{key}.{label}", entry)


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


def _composition_error(error: Exception) -> str:
    """Return the text of an error of Hydra or OmegaConf: key, value and choices in one line."""
    if isinstance(error, MissingConfigException) and error.missing_cfg_file:
        group, _, name = error.missing_cfg_file.partition("/")
        if not name:
            group, name = "defaults", group
        return describe_missing_file(group, name, sorted(error.options or ()))
    message_lines = f"{error}\n{error.__cause__ or ''}".splitlines()
    lines = [line.strip() for line in message_lines if line.strip()]
    if isinstance(error, OverrideParseException):
        quotes = "put the value in quotes of its own, \"KEY='VALUE'\""
        problem = "not in Hydra's grammar" if lines[0].startswith("Lexer") else lines[0]
        key, colon, value = str(error.override).partition(":")
        pair = f"{key}={value}" if colon and value and "=" not in key else "KEY=VALUE"
        advice = quotes if "=" in str(error.override) else f"write {pair}"
        return f"{error.override}: {problem}; {advice}"
    text, key = " ".join(lines[:4]), getattr(error, "full_key", "")
    if isinstance(error, RecursionError):
        text = "defaults: a file includes itself, directly or through others; remove that entry"
    elif unknown := re.match(r"Could not override '([^']+)'", lines[0]):
        text = f"{unknown[1]}: no file is chosen there; to add one write +{unknown[1]}=..."
    elif isinstance(error, MissingMandatoryValue):
        text = f"{key}: ???: a value is required; write {key}=VALUE"
    elif key and isinstance(error, OmegaConfBaseException):
        text = f"{key}: {lines[0][:1].lower()}{lines[0][1:]}"
    return text


def _is_unset(key: str, config: DictConfig) -> bool:
    """Return whether the key of an override is a parameter that the configuration does not set.

    Raise ConfigError if the key does not exist; the message suggests keys.
    """
    values: Any = OmegaConf.to_container(config)
    value, steps, place = values, key.split("."), 0
    while place < len(steps) and isinstance(value, dict) and steps[place] in value:
        value, place = value[steps[place]], place + 1
    if place == len(steps) or not isinstance(value, dict):
        return False
    from dpbench.jobs.describe import keys_at

    step = steps[place]
    keys = keys_at(values, steps[:place])
    add = f"to add one write +{key}=..."
    if keys is None:
        raise ConfigError(f"{key}: no such key here; {choose_from(step, map(str, value))}; {add}")
    if step not in keys:
        parent = "".join(f"{one}." for one in steps[:place])
        meant = _find_key(steps[place:], keys, values, parent) if place < 2 else None
        choices = f"did you mean {meant}? {choose_from('', keys)}" if meant else None
        raise ConfigError(f"{key}: no such key; {choices or choose_from(step, keys)}")
    if place:
        return True
    raise ConfigError(
        f"{key}: a folder of this name in --config-dir hides the key; give one another name"
    )


def _find_key(steps: Sequence[str], keys: Sequence[str], values: Any, parent: str) -> str | None:
    """Return the full path of a key that is not where its `steps` begin, but elsewhere.

    The first step is none of the allowed `keys` of `parent`, a path that ends with a dot. The
    returned path ends with these steps, or their first leads to the entry that the second names.
    If no allowed key is similar, the path has the last step, and begins with `parent` if possible.
    """
    from difflib import get_close_matches  # imported here, because no run needs it

    names = [_PLURALS.get(steps[0], steps[0]), *steps[1:]]
    paths = [f".{path}" for path in sorted(_key_paths(values), key=len)]
    paths.sort(key=lambda path: not path.startswith(f".{parent}"))
    for lead in range(len(names), 1, -1):
        for path in paths:
            if path.endswith(f".{'.'.join(names[:lead])}"):
                return ".".join([path, *names[lead:]])[1:]
    if len(names) > 1 and get_close_matches(steps[0], keys):
        return None
    found = (path for path in paths if path.endswith(f".{names[-1]}"))
    return next(found, "")[1:] or None


def _key_paths(values: Any, parent: str = "") -> Iterator[str]:
    """Yield the full path of every key in nested mappings, for example ``sweep.parts.main``."""
    for key, value in values.items() if isinstance(values, dict) else ():
        yield f"{parent}{key}"
        yield from _key_paths(value, f"{parent}{key}.")
