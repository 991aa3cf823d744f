"""Find the files of sweeps, and read what each says of itself without checking the rest."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

import yaml

__all__ = ["SweepTexts", "find_sweeps", "read_texts"]


class SweepTexts(NamedTuple):
    """Texts of a sweep's file, each "" if the file lacks it; `dpbench.sweep.plan.Described`."""

    title: str = ""
    question: str = ""
    about: str = ""
    cost: str = ""


def read_texts(path: Path) -> SweepTexts:
    """Read the texts of a sweep's file; all are "" if the file is no mapping in YAML."""
    loader = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
    try:
        content = yaml.load(path.read_text("utf-8", errors="replace"), loader)  # noqa: S506
    except yaml.YAMLError:
        content = None
    keys = content if isinstance(content, dict) else {}
    return SweepTexts(*(str(keys.get(name) or "").strip() for name in SweepTexts._fields))


def find_sweeps(folders: Iterable[Path]) -> dict[str, Path]:
    """Return the file of each sweep in folders of configurations, keyed and sorted by name.

    If several folders have a sweep of one name, the first of these folders is used, as in a run.
    """
    paths = [path for folder in folders for path in (folder / "sweep").glob("*.yaml")]
    return dict(sorted({path.stem: path for path in reversed(paths)}.items()))
