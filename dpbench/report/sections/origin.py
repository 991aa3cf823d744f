"""Section on the origin of a run: command, time, versions and configuration."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import yaml

from dpbench.report.page_run import RunFolder, mapping
from dpbench.report.sections.base import Section, section

# Keys of a manifest that do not change if a finished run is started again.
KEPT = ("seed", "trials", "commit", "platform", "exit_code")
# Keys of a configuration on which the numbers depend.
TELLING = ("sweep", "seed", "trials", "plugins")
YAML: Mapping[str, Any] = {"sort_keys": False, "allow_unicode": True, "width": 100}


@section("origin", "How this was made")
def build_origin(run: RunFolder) -> Section | None:
    """Build the run's command, its origin from the manifest, and its configuration."""
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
    """Return when the numbers were computed, and their dependencies besides the configuration."""
    known = {key: manifest[key] for key in KEPT if manifest.get(key) is not None}
    if "commit" in known and manifest.get("dirty"):
        known["commit"] = f"{known['commit']} with uncommitted changes"
    if when := mapping(manifest.get("computed")):
        known = {"computed": f"{when['at']}, in {when['seconds']} s"} | known
    return known
