"""What computed a run's numbers, when, and with which configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from dpbench.report.page_run import RunFolder, mapping
from dpbench.report.sections.base import Section, section

# Keys of a manifest that a rerun which computes nothing leaves as they are.
KEPT = ("seed", "trials", "commit", "platform", "exit_code")
# Keys of a configuration that numbers depend on.
TELLING = ("sweep", "seed", "trials", "plugins")
YAML: Mapping[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 100}


@section("origin", "How this was made")
def build_origin(run: RunFolder) -> Section | None:
    """Build the run's command, what the manifest says of its origin, and its configuration."""
    origin = _origin(run.manifest)
    shown = {key: run.configuration[key] for key in TELLING if run.configuration.get(key)}
    if not (origin or shown):
        return None
    data = {
        "command": run.manifest.get("command") or "",
        "origin": origin,
        "versions": mapping(run.manifest.get("versions")),
        "configuration": shown and yaml.safe_dump(shown, **YAML),
    }
    return Section(look="origin", data=data)


def _origin(manifest: Mapping[str, Any]) -> dict[str, Any]:
    """When numbers were computed, and what they depend on beside the configuration."""
    known = {key: manifest[key] for key in KEPT if manifest.get(key) is not None}
    if "commit" in known and manifest.get("dirty"):
        known["commit"] = f"{known['commit']} with uncommitted changes"
    if when := mapping(manifest.get("computed")):
        known = {"computed": f"{when['at']}, in {when['seconds']} s"} | known
    return known
