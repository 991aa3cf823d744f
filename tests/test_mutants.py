"""The list of mutants fits the source; what kills them takes longer: see mutants.py."""

from __future__ import annotations

import pytest
from mutants import MUTANTS, ROOT


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_one_line_that_is_there(name: str) -> None:
    one = MUTANTS[name]
    assert (ROOT / "dpbench" / one["file"]).read_text().count(one["old"]) == 1
    assert one["new"] != one["old"]
    assert one["tests"]
    assert all((ROOT / "tests" / path).exists() for path in one["tests"].split())
