"""Tell how two configurations differ, and that a run replaces the report of another."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.run_folder import read_manifest
from dpbench.output.terminal import shorten
from dpbench.runner.origin import OUTPUT_KEYS

__all__ = ["differences", "replaced_report"]

MAX_KEYS = 5  # keys to list


def replaced_report(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """Return lines that tell how a configuration differs from that of the run in a folder.

    The number of trials is not compared, because a run with more trials continues the run before.
    There are no lines if the folder has no finished run, or nothing differs.
    """
    try:
        before = read_manifest(folder)["configuration"]
        lines = differences(before, config, "{}, now {}", omitted=("trials",))
    except (ConfigError, AttributeError):
        return []
    replaced = f"'{folder}': replaces the report of another configuration; out=DIR keeps both"
    return [replaced, *lines] if lines else []


def differences(
    before: Mapping[str, Any], after: Mapping[str, Any], form: str, omitted: Collection[str] = ()
) -> list[str]:
    """Return a line for each key, at most five, that has different values in two configurations.

    Keys that change no file, such as ``n_jobs``, and the keys `omitted` are not compared. `form`
    has a place for the earlier and a place for the later value.
    """
    old, new = (
        _flatten({key: config.get(key) for key in OUTPUT_KEYS if key not in omitted})
        for config in (before, after)
    )
    keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    lines = [
        shorten(f"  {key}: {form.format(*(c.get(key, 'not set') for c in (old, new)))}")
        for key in keys[:MAX_KEYS]
    ]
    more = len(keys) - MAX_KEYS
    return [*lines, *([f"  and {more} more key{'s' * (more > 1)}"] if more > 0 else [])]


def _flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of a configuration as texts, keyed by their full path."""
    # A run from Python may hold tuples; a manifest holds lists.
    return dict(_leaves(json.loads(json.dumps(config)), ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".removeprefix("."))
    else:
        yield path, json.dumps(value, ensure_ascii=False)
