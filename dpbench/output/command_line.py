"""Parsers of the command line: `parse_flags` for sweeps, `read_words` for all other commands."""

from __future__ import annotations

import argparse
import os
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeVar, get_args, get_type_hints

from dpbench.errors import ConfigError, choose_from
from dpbench.package import user_folder

__all__ = ["NoKeys", "Task", "parse_flags", "read_words", "run_task"]

T = TypeVar("T")


def parse_flags(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the command line of a sweep into flags such as ``--help`` and overrides.

    An override is a word without a leading hyphen, such as ``seed=1``. A ConfigError is raised if
    a flag is unknown or incomplete, or the folder of ``--config-dir`` does not exist.
    """
    parser = argparse.ArgumentParser(prog="dpbench", add_help=False, exit_on_error=False)
    parser.add_argument("--help", "-h", nargs="*")
    parser.add_argument("--version", action="store_true")
    parser.add_argument("--schema", action="store_true")
    parser.add_argument("--cfg", "-c", choices=["job"])
    parser.add_argument("--multirun", "-m", action="store_true")
    parser.add_argument("--config-dir", "-cd", type=Path)
    parser.add_argument("overrides", nargs="*")
    try:
        flags, unknown = parser.parse_known_intermixed_args(argv)
    except argparse.ArgumentError as error:
        flag = str(error.argument_name).partition("/")[0]
        raise ConfigError(f"{flag}: {error.message}") from error
    if unknown:
        word = unknown[0].lstrip("-")
        if "=" in word:
            raise ConfigError(f"{unknown[0]}: no such flag; keys have no hyphen: {word}")
        raise ConfigError(
            f"{unknown[0]}: no such flag; choose from --help, --version, --schema, --cfg job, "
            "--multirun, --config-dir DIR, --completion SHELL; keys have no hyphen: "
            f"{word}=VALUE"
        )
    if flags.help is not None:  # --help takes all words that follow, overrides included
        flags.overrides += [word for word in flags.help if "=" in word]
        flags.help = [word for word in flags.help if "=" not in word]
    if flags.config_dir is not None:
        flags.config_dir = user_folder(flags.config_dir, "--config-dir")
    return flags


@dataclass(frozen=True)
class NoKeys:
    """Options of a command that takes no keys ``key=value``."""


class Task(NamedTuple):
    """Task of a command, such as ``run`` of the command ``benchmark``.

    The function `run` performs the task on words without a key and on options, and returns the
    exit code. The text `places` names the words without a key; see `read_words`. The fields of the
    dataclass `options` are the allowed keys.
    """

    run: Callable[[list[str], Any], int]
    places: str
    options: type[Any]


def run_task(command: str, words: Sequence[str], tasks: Mapping[str, Task]) -> int:
    """Run the task of a command that the first word names, and return its exit code.

    A ConfigError is raised if there is no task of that name, or `read_words` refuses a word.
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
    """Parse the words after a command: words without a key, and options ``key=value``.

    The usage text in messages has the command, followed by the task if any (``benchmark run``), and
    `places`: the names of the words without a key, as in ``A B``, ``[DIR]`` or ``FILE ...``. The
    fields of the dataclass `options`, made by `dpbench.registry.validated`, are the allowed keys.
    The key `kind`, if given, names a class with parameters. If it is ``law``, the words are
    ``law=NAME`` and ``law.KEY=VALUE``, and the field ``law`` receives a mapping of name and
    parameters.

    Return the words without a key, and an instance of `options`. A ConfigError is raised if a flag
    or a key is unknown, a key is given twice, or a value is empty or invalid. It is also raised if
    there are too few or too many words without a key.
    """
    from dpbench.registry import from_mapping

    names = [field.name for field in fields(options)]  # type: ignore[arg-type]
    keys = " ".join(f"[{name}=]" for name in [*names, *([f"{kind}.KEY"] if kind else [])])
    expected = f"expected: {' '.join(filter(None, [command, places, keys]))}"
    positional, texts = list[str](), dict[str, str]()
    for word in words:
        key, equals, value = word.partition("=")
        parameter = kind and key.startswith(f"{kind}.") and key != f"{kind}.kind"
        is_key = key in names or parameter
        if word.startswith("-"):
            raise ConfigError(f"{command}: {word!r}: no such flag; {expected}, or --help")
        if not equals or (not is_key and _is_path(word)):
            positional.append(word)
        elif not is_key:
            allowed = choose_from(key, names) if names else "it takes no keys"
            raise ConfigError(f"{key}: no such key of {command}; {allowed}")
        elif not value:
            raise ConfigError(f"{key}: '': an empty value; write {key}=VALUE, or omit it")
        elif key in texts:
            raise ConfigError(f"{key}: given twice, {texts[key]} and {value}")
        else:
            texts[key] = value
    _check_word_count(command, positional, places, expected)
    return positional, from_mapping(options, _parse_values(options, texts, kind), "")


def _is_path(word: str) -> bool:
    """Return whether a word that contains "=" is a path, not an option.

    It is a path if a slash precedes the first "=", or if a file of this name exists.
    """
    return "/" in word.partition("=")[0] or os.path.exists(word)  # noqa: PTH110 (False for a long word)


def _check_word_count(command: str, positional: Sequence[str], places: str, expected: str) -> None:
    """Raise ConfigError if there are too few or too many words without a key, or an empty one."""
    expected_names = re.findall(r"\[?\w+", places)
    required_count = sum(not name.startswith("[") for name in expected_names)
    if "" in positional:
        raise ConfigError(f"{command}: '': an empty word; {expected}")
    if len(positional) < required_count:
        missing = expected_names[len(positional)]
        raise ConfigError(f"{command}: {missing}: this word is required; {expected}")
    if len(positional) > len(expected_names) and "..." not in places:
        raise ConfigError(
            f"{command}: {positional[len(expected_names)]!r}: one word too many; {expected}"
        )


def _parse_values(options: Any, texts: Mapping[str, str], kind: str) -> dict[str, Any]:
    """Convert the texts of options to values for the fields of the dataclass `options`.

    Values are texts or numbers, keyed by field. If `texts` has parameters of the key `kind`, such
    as ``law.scale``, the value of this key is a mapping with the name and the parameters.
    """
    types, values = get_type_hints(options), dict[str, Any]()
    parameters: dict[str, Any] = {}
    for key, text in texts.items():
        if key.startswith(f"{kind}."):
            parameters[key.removeprefix(f"{kind}.")] = _parse_number(text)
        else:
            field_types = {types[key], *get_args(types[key])}
            values[key] = text if str in field_types else _parse_number(text)
    if parameters:
        if kind not in values:
            raise ConfigError(f"{kind}.{next(iter(parameters))}: give {kind}=NAME, too")
        values[kind] = {"kind": values[kind], **parameters}
    return values


def _parse_number(text: str) -> int | float | str:
    """Return the number that a text stands for, or the text itself if it is no number."""
    for number in (int, float):
        try:
            return number(text)
        except ValueError:
            continue
    return text
