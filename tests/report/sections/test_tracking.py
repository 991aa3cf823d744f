"""What is worse than a baseline, in a page."""

from __future__ import annotations

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
