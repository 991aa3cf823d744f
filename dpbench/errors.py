"""One-line error messages.

This file imports nothing slow, because an error must appear at once.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = [
    "MAX_ENTRIES", "ArgumentError", "AssumptionWarning", "ConfigError", "ErrorCollector",
    "check_instance", "check_list", "check_whole_number", "choose_from",
    "describe_value", "reject_unknown_keywords", "to_one_line",
]  # fmt: skip

MAX_QUOTED_CHARACTERS = 200  # characters of a value in a message
MAX_ENTRIES = 2000  # of a mapping in a configuration, such as the families of a sweep


def to_one_line(text: str) -> str:
    """Return `text` in one line, with unprintable characters replaced by question marks."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


class ConfigError(ValueError):
    """Errors in a configuration, a command line or an argument, each with a message of one line.

    Parameters
    ----------
    *texts : str
        Message of each error; nearly always one.

    Attributes
    ----------
    lines : tuple of str
        Messages of one line each.
    """

    def __init__(self, *texts: str) -> None:
        self.lines = tuple(to_one_line(text) for text in texts)
        super().__init__("\n".join(self.lines))

    def __reduce__(self) -> tuple[type[ConfigError], tuple[str, ...]]:
        return type(self), self.lines


class ArgumentError(ConfigError, TypeError):
    """Error in the type of an argument."""


class ErrorCollector:
    """Collect errors of several steps, to raise all of them as one `ConfigError`."""

    def __init__(self) -> None:
        self._lines: dict[str, None] = {}  # a set that keeps the order

    @contextmanager
    def step(self) -> Iterator[None]:
        """Collect the error of a ``with`` block, and go on after the block."""
        try:
            yield
        except ConfigError as error:
            self._lines |= dict.fromkeys(error.lines)

    def raise_all(self) -> None:
        """Raise a `ConfigError` with all collected errors, each once, if there are any."""
        if self._lines:
            raise ConfigError(*self._lines)


class AssumptionWarning(UserWarning):
    """Warning about data that contradict the assumptions of an estimator.

    The warning looks at the data, so it is not private: it is for simulations only.
    """


def describe_value(value: object) -> str:
    """Return a value for a message: a text, a number or a class; of all others only their type.

    Other values may hold records, which no message may print.
    """
    if isinstance(value, type):
        return f"the class {value.__name__}"
    if value is None or isinstance(value, str | int | float) or getattr(value, "shape", 0) == ():
        text = repr(value) if isinstance(value, str) else str(value)
        is_short = len(text) <= MAX_QUOTED_CHARACTERS
        return text if is_short else f"{text[:MAX_QUOTED_CHARACTERS]}..."
    name = getattr(value, "__name__", None)
    if callable(value) and isinstance(name, str):
        return f"the function {name}"
    return f"of type {type(value).__name__}"


def check_instance(name: str, value: object, kinds: Any, what: str, example: str) -> None:
    """Raise ArgumentError unless an argument is an instance of one of the classes `kinds`.

    In the message, `what` names the expected kind of value, and `example` is a value to write.
    """
    if isinstance(value, kinds):
        return
    if isinstance(value, type) and issubclass(value, kinds):
        raise ArgumentError(
            f"{name}: {value.__name__}: a class; write an instance, {value.__name__}(...)"
        )
    raise ArgumentError(f"{name}: {describe_value(value)}: not {what}; write {example}")


def check_list(name: str, values: Any, kinds: Any, what: str, example: str) -> list[Any]:
    """Return an argument as a list; raise ArgumentError unless all entries are of `kinds`."""
    if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
        example = f"[{values!r}]" if isinstance(values, str) else f"[{example}]"
        raise ArgumentError(f"{name}: {describe_value(values)}: not a list; write {example}")
    entries = list(values)
    for place, entry in enumerate(entries):
        check_instance(f"{name}[{place}]", entry, kinds, what, example)
    return entries


def check_whole_number(name: str, value: Any, least: int) -> None:
    """Raise ConfigError unless an argument is a whole number, at least `least`."""
    try:
        number = None if isinstance(value, bool) else operator.index(value)
    except TypeError:
        number = None
    if number is None:
        is_whole = isinstance(value, float) and value.is_integer() and value >= least
        example = int(value) if is_whole else max(least, 1)
        raise ArgumentError(
            f"{name}: {describe_value(value)}: not a whole number; write {name}={example}"
        )
    if number < least:
        raise ConfigError(f"{name}: {number}: too small; write at least {least}")


def choose_from(name: object, choices: Iterable[str]) -> str:
    """Return "did you mean X? choose from A, B, C" for an unknown name.

    The text is the second half of an error message. The suggestion is left out if no choice is
    similar.
    """
    from difflib import get_close_matches

    names = list(choices)
    similar = get_close_matches(str(name), names, n=1) or [
        choice for choice in names if str(name) and choice.startswith(str(name))
    ]
    return f"{f'did you mean {similar[0]!r}? ' if similar else ''}choose from {', '.join(names)}"


def reject_unknown_keywords(unknown: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Raise a ConfigError that names unknown keyword arguments of a function, and its known ones.

    The last parameter of the function is ``**unknown``, which collected them.
    """
    for name in unknown:
        from inspect import signature

        *parameters, _ = signature(function).parameters
        raise ConfigError(f"{name}: no such argument; {choose_from(name, parameters)}")
