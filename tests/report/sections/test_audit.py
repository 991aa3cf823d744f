"""Audits in a page."""

from __future__ import annotations

from pathlib import Path

from tests.report.conftest import page_of
from tests.report.page_folders import PAIR, write_table


def test_audits_say_what_they_cannot_and_show_the_strongest_pair(example: Path) -> None:
    page = page_of(example)
    assert any("can falsify a claim of privacy, never prove one" in p for p in page.texts("p"))
    rows = [row for row in page.texts("tr") if " 9 1000 " in row and row[0] in "rnf"]
    assert rows[0] == "refuted clipped approx 0.01 edge 9 1000 1 1.500 2 add_noise moves by 2"
    assert rows[1] == "failed clipped approx 10⁻⁶ edge 9 1000 1"
    assert rows[2] == "not refuted clipped pure far 9 1000 1 0.900 x 0.5"
    assert any("must refute: 1 of 2 are" in p for p in page.texts("p"))
    assert rows[3].startswith("not refuted no_noise pure")  # the control that stood comes first
    assert rows[4:] == rows[:1]  # a control that was caught is listed, too
    assert list(page.columns("run1-audit")) == [
        "verdict", *(name for name in PAIR if name not in ("seconds", "verdict"))
    ]  # fmt: skip


def test_rows_that_halved_noise_does_not_refute_are_named(example: Path) -> None:
    """With the kind of reason in a note, and the whole reason in the table of pairs."""
    why = "other steps: all 2 would show it in 400 runs, the release not"
    write_table(example / "audit.csv", [{**PAIR, "blind": why, "blind_additive": why}])
    page = page_of(example)
    note = "Half of all noise: not refuted in 1 of 1 rows. other steps: clipped pure."
    assert any(note in text for text in page.texts("p"))
    assert page.columns("run1-audit")["blind"] == [why]
