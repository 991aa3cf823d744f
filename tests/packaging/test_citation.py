"""The citation is of this version."""

from __future__ import annotations

from pathlib import Path

import yaml

import dpbench

ROOT = Path(__file__).parents[2]


def test_versions_agree() -> None:
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert cited["version"] == dpbench.__version__
    assert cited["license"] == "MIT"
    assert (
        f"\n## {cited['version']} ({cited['date-released']})\n"
        in (ROOT / "CHANGELOG.md").read_text()
    )
