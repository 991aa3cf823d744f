"""Section on the origin of a run: command, time, versions and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from dpbench.report.page_run import RunFolder, as_mapping
from dpbench.report.sections.base import Section, section

# Keys of a manifest that do not change if a finished run is started again.
MANIFEST_KEYS = ("seed", "trials", "commit", "platform", "exit_code")
# Keys of a configuration on which the numbers depend.
CONFIGURATION_KEYS = ("sweep", "seed", "trials", "plugins")
YAML: Mapping[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 100}


@section("origin", "How this was made")
def build_origin(run: RunFolder) -> Section | None:
    """Build the section on the origin of a run: its command, versions and configuration."""
    origin = _describe_origin(run.manifest)
    configuration = {
        key: run.configuration[key] for key in CONFIGURATION_KEYS if run.configuration.get(key)
    }
    if not (origin or configuration):
        return None
    data = {
        "command": run.manifest.get("command") or "",
        "origin": origin,
        "versions": as_mapping(run.manifest.get("versions")),
        "configuration": configuration and yaml.safe_dump(configuration, **YAML),
    }
    return Section(look="origin", data=data)


def _describe_origin(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """Return when and how long the run was computed, and some entries of its manifest.

    The entries are seed, trials, commit, platform and exit code.
    """
    origin = {key: manifest[key] for key in MANIFEST_KEYS if manifest.get(key) is not None}
    if "commit" in origin and manifest.get("dirty"):
        origin["commit"] = f"{origin['commit']} with uncommitted changes"
    if when := as_mapping(manifest.get("computed")):
        origin = {"computed": f"{when['at']}, in {when['seconds']} s"} | origin
    return origin
