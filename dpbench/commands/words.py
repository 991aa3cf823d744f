"""The words of the command line: of a sweep by `arguments`, of all commands by `read_words`."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from dpbench.errors import ConfigError, choose_from

__all__ = ["NoKeys", "Task", "arguments", "read_words", "run_task"]

T = TypeVar("T")


def arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Read the flags, which are a few of Hydra's; the rest are overrides."""
    parser = argparse.ArgumentParser(prog="dpbench", add_help=False, exit_on_error=False)
    parser.add_argument("--help", "-h", nargs="*")
    parser.add_argument("--version", action="store_true")
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
            f"{unknown[0]}: no such flag; choose from --help, --version, --schema, --cfg job, "
            "--multirun, --config-dir DIR, or write key=value"
        )
    if found.help is not None:  # it takes all words; overrides are none of its own
        found.overrides += [word for word in found.help if "=" in word]
        found.help = [word for word in found.help if "=" not in word]
    if found.config_dir is not None and not found.config_dir.is_dir():
        raise ConfigError(f"--config-dir: '{found.config_dir}': no such folder")
    return found


@dataclass(frozen=True)
class NoKeys:
    """The options of a command that takes no keys."""


class Task(NamedTuple):
    """A task of a command: what it runs, and the `places` and `options` of `read_words`."""

    run: Callable[[list[str], Any], int]
    places: str
    options: type[Any]


def run_task(command: str, words: Sequence[str], tasks: Mapping[str, Task]) -> int:
    """Run the task that the first word names with the other words; return its exit code.

    Raises
    ------
    ConfigError
        If there is no such task, or `read_words` refuses a word.
    """
    name, *rest = words or [""]
    if name not in tasks:
        problem = f"{name!r}: no such {'flag' if name.startswith('-') else 'task'}"
        raise ConfigError(
            f"{command}: {problem if words else 'no task given'}; {choose_from(name, tasks)}"
        )
    run, places, options = tasks[name]
    return run(*read_words(f"{command} {name}", rest, places, options))


def read_words(
    command: str, words: Sequence[str], places: str, options: type[T], kind: str = ""
) -> tuple[list[str], T]:
    """Read the words that follow a command, for every command alike.

    Parameters
    ----------
    command : str
        The command, and the task if it has tasks, as messages name it: ``suite run``.
    words : sequence of str
    places : str
        The words without a key, as the usage has them: ``A B``, ``[DIR]``, ``FILE ...``, or none.
    options : type
        A dataclass whose fields are the keys, such as `dpbench.registry.validated` makes.
    kind : str, optional
        The key that names a kind, whose parameters are given as ``KIND.KEY=VALUE``. The field of
        this name receives a mapping of all.

    Returns
    -------
    found : list of str
        The words without a key.
    given : options

    Raises
    ------
    ConfigError
        If a flag or a key is unknown, a key is given twice, a value is empty or invalid, or there
        are too few or too many words without a key.
    """
    from dpbench.registry import from_mapping  # slow to load, and --help needs none of it

    names = [field.name for field in fields(options)]  # type: ignore[arg-type]
    keys = " ".join(f"[{name}=]" for name in [*names, *([f"{kind}.KEY"] if kind else [])])
    expected = f"expected: {' '.join(filter(None, [command, places, keys]))}"
    found, given = list[str](), dict[str, str]()
    for word in words:
        key, equals, value = word.partition("=")
        parameter = kind and key.startswith(f"{kind}.") and key != f"{kind}.kind"
        known = key in names or parameter
        if word.startswith("-"):
            raise ConfigError(f"{command}: {word!r}: no such flag; {expected}, or --help")
        if not equals or (not known and _is_path(word)):
            found.append(word)
        elif not known:
            allowed = choose_from(key, names) if names else "it takes no keys"
            raise ConfigError(f"{key}: no such key of {command}; {allowed}")
        elif not value:
            raise ConfigError(f"{key}: '': an empty value; write {key}=VALUE, or omit it")
        elif key in given:
            raise ConfigError(f"{key}: given twice, {given[key]} and {value}")
        else:
            given[key] = value
    _check_number(command, found, places, expected)
    return found, from_mapping(options, _typed(options, given, kind), "")


def _is_path(word: str) -> bool:
    """Whether a word with = in it is a path: a slash precedes the =, or the file exists."""
    return "/" in word.partition("=")[0] or os.path.exists(word)  # noqa: PTH110 (False for a long word)


def _check_number(command: str, found: Sequence[str], places: str, expected: str) -> None:
    wanted = re.findall(r"\[?\w+", places)
    least = sum(not name.startswith("[") for name in wanted)
    if "" in found:
        raise ConfigError(f"{command}: '': an empty word; {expected}")
    if len(found) < least:
        missing = wanted[len(found)]
        raise ConfigError(f"{command}: {missing}: this word is required; {expected}")
    if len(found) > len(wanted) and "..." not in places:
        raise ConfigError(f"{command}: {found[len(wanted)]!r}: one word too many; {expected}")


def _typed(options: Any, given: Mapping[str, str], kind: str) -> dict[str, Any]:
    """Return values by key: text, numbers, or the mapping of a kind and its parameters."""
    types, plain = get_type_hints(options), dict[str, Any]()
    parameters: dict[str, Any] = {}
    for key, text in given.items():
        if key.startswith(f"{kind}."):
            parameters[key.removeprefix(f"{kind}.")] = _number(text)
        else:
            allowed = {types[key], *get_args(types[key])}
            plain[key] = text if str in allowed else _number(text)
    if parameters:
        if kind not in plain:
            raise ConfigError(f"{kind}.{next(iter(parameters))}: give {kind}=NAME, too")
        plain[kind] = {"kind": plain[kind], **parameters}
    return plain


def _number(text: str) -> int | float | str:
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
