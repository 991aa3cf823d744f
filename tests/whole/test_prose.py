"""Docstrings begin with a verb or a noun, and stand without their module."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
# A relative clause without its noun has to be read twice.
OPENERS = re.compile(
    r"(What|Of|That|Those|Which|Whose|How|Where|Whether|Its|With|By|As|From|The same)\b"
)
DEFERS = re.compile(r"\bthe module\b", re.IGNORECASE)


def faults(source: str) -> Iterator[str]:
    """Yield the first line of each docstring that opens with a clause or defers to its module."""
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            text = ast.get_docstring(node) or ""
            if OPENERS.match(text) or DEFERS.search(text):
                yield text.partition("\n")[0]


@pytest.mark.parametrize("folder", ["dpbench", "docs", "experiments"])
def test_docstrings_open_with_a_verb_or_a_noun(folder: str) -> None:
    found = [
        f"{path.relative_to(ROOT)}: {line}"
        for path in sorted((ROOT / folder).rglob("*.py"))
        for line in faults(path.read_text("utf-8"))
    ]
    assert found == []


@pytest.mark.parametrize(
    "text", ["What it is.", "Of each row its sum.", "The same, by rows.", "Return t of the module."]
)
def test_a_clause_without_a_noun_is_a_fault(text: str) -> None:
    assert list(faults(f'def f():\n    """{text}"""')) == [text]
    assert not list(faults('def f():\n    """Return the sum of each row."""'))
