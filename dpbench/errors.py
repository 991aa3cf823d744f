"""One-line error messages.

This file imports nothing slow, because an error must appear at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

__all__ = [
    "MAX_ENTRIES", "AssumptionWarning", "ConfigError", "ErrorCollector", "RenamedWarning",
    "choose_from", "reject_unknown_keywords", "to_one_line",
]  # fmt: skip

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


class RenamedWarning(FutureWarning):
    """Warning about a name of an earlier release; its text says which name to write instead."""


def choose_from(name: object, choices: Iterable[str]) -> str:
    """Return "did you mean X? choose from A, B, C" for an unknown name.

    Parameters
    ----------
    name : object
        Unknown name.
    choices : iterable of str
        Known names.

    Returns
    -------
    str
        Second half of an error message. The suggestion is left out if no choice is similar.
    """
    from difflib import get_close_matches

    names = list(choices)
    similar = get_close_matches(str(name), names, n=1) or [
        choice for choice in names if str(name) and choice.startswith(str(name))
    ]
    return f"{f'did you mean {similar[0]!r}? ' if similar else ''}choose from {', '.join(names)}"


def reject_unknown_keywords(unknown: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse unknown keyword arguments of a function, and name the known ones.

    Parameters
    ----------
    unknown : mapping of str
        Keyword arguments that the function's ``**unknown`` collected.
    function : callable
        Function that was called; its last parameter is ``**unknown``.

    Raises
    ------
    ConfigError
        If `unknown` is not empty.
    """
    for name in unknown:
        from inspect import signature

        *parameters, _ = signature(function).parameters
        raise ConfigError(f"{name}: no such argument; {choose_from(name, parameters)}")
