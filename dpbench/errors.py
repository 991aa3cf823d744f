"""What a user is told in one line; it needs nothing else, so that a refusal waits for nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

__all__ = ["ConfigError", "choose_from", "no_others", "one_line"]


def one_line(text: str) -> str:
    """The text without line breaks, and with a question mark for what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


class ConfigError(ValueError):
    """A configuration that cannot be run; its text is one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))


def choose_from(name: object, choices: Iterable[str]) -> str:
    """What a message says where a name is none of the choices; first the one it is like, if any."""
    from difflib import get_close_matches

    known = list(choices)
    near = get_close_matches(str(name), known, n=1) or [
        one for one in known if str(name) and one.startswith(str(name))
    ]
    return f"{f'did you mean {near[0]!r}? ' if near else ''}choose from {', '.join(known)}"


def no_others(unknown: Mapping[str, Any], function: Callable[..., Any]) -> None:
    """Refuse keyword arguments that a function has not, by the names of those that it has."""
    for name in unknown:
        from inspect import signature

        *known, _ = signature(function).parameters
        raise ConfigError(f"{name}: no such argument; {choose_from(name, known)}")
