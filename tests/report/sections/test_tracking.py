"""What is worse than a baseline, in a page."""

from __future__ import annotations

import json
from pathlib import Path

from tests.report.conftest import page_of
from tests.report.page_folders import write_table


def test_what_is_worse_comes_first_in_tracking_and_is_open(example: Path) -> None:
    def opened() -> list[bool]:
        return ["open" in at for at, text in page.all("details") if "of the baseline" in text]

    page = page_of(example)
    assert page.columns("run1-tracking")["verdict"] == ["worse", "same"]
    assert opened() == [True]
    # a table may lack what only some runs have
    write_table(example / "tracking.csv", [{"estimator": "rate", "verdict": "new"}])
    page = page_of(example)
    assert page.columns("run1-tracking")["verdict"] == ["new"]
    assert opened() == [False]


def test_the_power_on_another_processor_begins_the_section(example: Path) -> None:
    assert not any("Another processor" in text for text in page_of(example).texts("p"))
    shares = {"loss": 0.05, "seen": 0.914, "seen_independent": 0.01, "compared": 49, "rows": 296}
    write_table(example / "tracking_power.csv", [shares])
    manifest = json.loads((example / "manifest.json").read_text())
    manifest["tracked"].append("tracking_power.csv")
    (example / "manifest.json").write_text(json.dumps(manifest))
    said = "49 of 296 rows have other bits and are compared statistically. Power: a loss of 5%"
    assert any(said in text for text in page_of(example).texts("p"))
