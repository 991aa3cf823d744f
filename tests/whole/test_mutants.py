"""The list of mutants fits the source; what kills them takes longer: see mutants.py."""

from __future__ import annotations

from tests.mutants import MUTANTS, ROOT


def test_a_mutant_is_one_line_that_is_there() -> None:
    gone = []
    for name, one in MUTANTS.items():
        once = (ROOT / "dpbench" / one["file"]).read_text().count(one["old"]) == 1
        there = all((ROOT / "tests" / path).exists() for path in one["tests"].split())
        if not (once and there and one["tests"] and one["new"] != one["old"]):
            gone.append(name)
    assert gone == []
