"""What tests of exact values share."""

from __future__ import annotations


def name(value: object) -> str:
    return value if isinstance(value, str) else type(value).__name__
