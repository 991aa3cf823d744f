"""One-line error messages. Imports nothing heavy, so that errors appear at once."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["ConfigError", "RenamedWarning", "choose_from", "one_line", "reject_unknown_keywords"]


def one_line(text: str) -> str:
    """Return a text in one line, with unprintable characters replaced by question marks."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


class ConfigError(ValueError):
    """Error in a configuration, a command line or an argument, with a message of one line."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


class RenamedWarning(FutureWarning):
    """A name of an earlier release; its text is one line that says what to write."""


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

    known = list(choices)
    near = get_close_matches(str(name), known, n=1) or [
        one for one in known if str(name) and one.startswith(str(name))
    ]
    return f"{f'did you mean {near[0]!r}? ' if near else ''}choose from {', '.join(known)}"


def reject_unknown_keywords(unknown: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse unknown keyword arguments of a function, and name the known ones.

    Parameters
    ----------
    unknown : mapping of str
        Keyword arguments that the function's ``**unknown`` collected.
    function : callable
        Function, whose last parameter is ``**unknown``.

    Raises
    ------
    ConfigError
        If `unknown` is not empty.
    """
    for name in unknown:
        from inspect import signature

        *known, _ = signature(function).parameters
        raise ConfigError(f"{name}: no such argument; {choose_from(name, known)}")
