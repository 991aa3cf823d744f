"""Parse the command line: `arguments` for sweeps, `read_words` for all other commands."""

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
    """Parse the flags of a sweep; all other words are overrides. ConfigError at unknown flags."""
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
    if found.help is not None:  # --help takes all words that follow, overrides included
        found.overrides += [word for word in found.help if "=" in word]
        found.help = [word for word in found.help if "=" not in word]
    if found.config_dir is not None and not found.config_dir.is_dir():
        raise ConfigError(f"--config-dir: '{found.config_dir}': no such folder")
    return found


@dataclass(frozen=True)
class NoKeys:
    """The options of a command that takes no keys."""


class Task(NamedTuple):
    """A task of a command.

    Parameters
    ----------
    run : callable
        Function of the words without a key and the options; returns the exit code.
    places : str
        Names of the words without a key; see `read_words`.
    options : type
        Dataclass of the keys; see `read_words`.
    """

    run: Callable[[list[str], Any], int]
    places: str
    options: type[Any]


def run_task(command: str, words: Sequence[str], tasks: Mapping[str, Task]) -> int:
    """Run the task named by the first word.

    Parameters
    ----------
    command : str
        Name of the command, for messages.
    words : sequence of str
        Words of the command line after the command; the first names the task.
    tasks : mapping of str to Task
        Tasks of the command by name.

    Returns
    -------
    int
        Exit code of the task.

    Raises
    ------
    ConfigError
        If there is no task of that name, or `read_words` refuses a word.
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
    """Parse the words that follow a command into plain words and options.

    Parameters
    ----------
    command : str
        Name of the command, with its task if it has tasks, for messages: ``suite run``.
    words : sequence of str
        Words to parse.
    places : str
        Names of the words without a key, in the notation of the usage text: ``A B``, ``[DIR]``,
        ``FILE ...``, or empty.
    options : type
        Dataclass made by `dpbench.registry.validated`, whose fields are the keys.
    kind : str, optional
        Key that names a kind (``law``), whose parameters are given as ``law.KEY=VALUE``. The field
        of this name receives a mapping of the kind and its parameters.

    Returns
    -------
    found : list of str
        Words without a key.
    given : options
        Instance of `options` with the values of the keys.

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
    """Return whether a word with = in it is a path: a slash precedes =, or the file exists."""
    return "/" in word.partition("=")[0] or os.path.exists(word)  # noqa: PTH110 (False for a long word)


def _check_number(command: str, found: Sequence[str], places: str, expected: str) -> None:
    """Refuse too few, too many or empty words without a key."""
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
    """Return the number that a text spells, or the text if it spells none."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
