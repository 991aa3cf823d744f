"""Tell that a run replaces the report of a run with another configuration."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from dpbench.errors import ConfigError
from dpbench.output.run_folder import read_manifest
from dpbench.output.terminal import WIDTH, shorten
from dpbench.runner.origin import OUTPUT_KEYS

__all__ = ["differences"]

MAX_KEYS = 5  # keys to list


def differences(folder: Path, config: Mapping[str, Any]) -> list[str]:
    """Return lines that tell how a configuration differs from that of the run in a folder.

    The number of trials is not compared, because a run with more trials continues the run before.
    Keys that change no file, such as ``n_jobs``, are not compared either. There are no lines if the
    folder has no finished run, or nothing differs.
    """
    try:
        before = _flatten(read_manifest(folder)["configuration"])
    except (ConfigError, AttributeError):
        return []
    now = _flatten(config)
    keys = [key for key in {**before, **now} if before.get(key) != now.get(key)]
    if not keys:
        return []
    lines = [
        shorten(f"  {key}: {before.get(key, 'not set')}, now {now.get(key, 'not set')}", WIDTH)
        for key in keys[:MAX_KEYS]
    ]
    more = len(keys) - MAX_KEYS
    return [
        f"'{folder}': replaces the report of another configuration; out=DIR keeps both",
        *lines,
        *([f"  and {more} more keys"] if more > 0 else []),
    ]


def _flatten(config: Mapping[str, Any]) -> dict[str, str]:
    """Return the compared values of a configuration as texts, keyed by their full path."""
    compared = {key: config.get(key) for key in OUTPUT_KEYS if key != "trials"}
    # A run from Python may hold tuples; a manifest holds lists.
    return dict(_leaves(json.loads(json.dumps(compared)), ""))


def _leaves(value: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict) and value:
        for key, item in value.items():
            yield from _leaves(item, f"{path}.{key}".removeprefix("."))
    else:
        yield path, json.dumps(value, ensure_ascii=False)
