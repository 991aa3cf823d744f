"""Helper for the tests of exact values."""

from __future__ import annotations


def name(value: object) -> str:
    """Return the identifier of a parameter of a test: a string, or the name of a class."""
    return value if isinstance(value, str) else type(value).__name__
