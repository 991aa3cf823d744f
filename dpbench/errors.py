"""What a user is told in one line; it needs nothing else, so that a refusal waits for nothing."""

from __future__ import annotations

__all__ = ["ConfigError", "one_line"]


def one_line(text: str) -> str:
    """The text without line breaks, and with a question mark for what a terminal would obey."""
    return "".join(c if c.isprintable() else "?" for c in " ".join(text.split()))


class ConfigError(ValueError):
    """A configuration that cannot be run; its text is one line for the user."""

    def __init__(self, text: str) -> None:
        super().__init__(one_line(text))
