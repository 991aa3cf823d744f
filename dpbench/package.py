"""The version, and where the package and its configurations lie."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
PACKAGE = Path(__file__).parent


def conf_folder() -> Path:
    """The folder of configurations: beside this module in a wheel, else in the checkout."""
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
