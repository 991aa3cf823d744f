"""Version of the package, and the folders of the package and of its configurations."""

from __future__ import annotations

from pathlib import Path

__version__ = "0.1.0"
PACKAGE = Path(__file__).parent


def conf_folder() -> Path:
    """Return the folder of configurations.

    It lies in the package's folder if dpbench is installed, else next to the package's folder.
    """
    package = Path(__file__).resolve().parent
    inside = package / "conf"
    return inside if inside.is_dir() else package.parent / "conf"
