"""Docstrings begin with a verb or a noun, stand without their module, and are short inside."""

from __future__ import annotations

import ast
import importlib
import re
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import Any

import pytest

from docs.modules import DERIVATION_MODULES, PARTS
from dpbench.jobs.describe import KEYS, SWEEPS
from dpbench.planner.one_estimator import EntryWords
from dpbench.registry import Registered
from dpbench.runner.settings import Settings

ROOT = Path(__file__).parents[2]
# A relative clause without its noun has to be read twice.
OPENERS = re.compile(
    r"(What|Of|That|Those|Which|Whose|How|Where|Whether|Its|With|By|As|From|The same)\b"
)
DEFERS = re.compile(r"\bthe module\b", re.IGNORECASE)
# A section of numpydoc, from its heading to the next one.
SECTION = re.compile(
    r"^(?:Parameters|Returns|Yields|Raises)\n-{3,}\n.*?(?=^\w[\w ]*\n-{3,}$|\Z)",
    re.MULTILINE | re.DOTALL,
)


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


def section_lines(
    tree: ast.AST, name: str, own: Collection[str], whole: Collection[str], inside: bool = False
) -> int:
    """Count the lines of sections in the docstrings of functions and classes of a Python module.

    Exempt are the names in `own`, and the names in `whole` with their public members.
    """
    total = 0
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            path = f"{name}.{node.name}"
            shown = path in whole or (inside and not node.name.startswith("_"))
            if not shown and path not in own:
                sections = SECTION.findall(ast.get_docstring(node) or "")
                total += sum(bool(line) for text in sections for line in text.splitlines())
            total += section_lines(node, path, own, whole, shown)
    return total


def names(things: Collection[Any]) -> set[str]:
    """Return the paths of functions, and of classes with their base classes."""
    classes = (base for thing in things for base in getattr(thing, "__mro__", [thing]))
    return {f"{cls.__module__}.{cls.__qualname__}" for cls in classes}


def test_sections_stand_where_users_read_them() -> None:
    """Pages show names with members, but kinds without; the docstrings of kinds feed the help."""
    paths = (path.relative_to(ROOT) for path in (ROOT / "dpbench").rglob("*.py"))
    modules = {
        ".".join(path.with_suffix("").parts).removesuffix(".__init__"): path for path in paths
    }
    theory = [name for name in modules if name.startswith("dpbench.theory.")]
    pages = map(importlib.import_module, [*PARTS, *DERIVATION_MODULES, *theory])
    shown = [getattr(page, name) for page in pages for name in getattr(page, "__all__", ())]
    kinds = {kind for base in Registered.__subclasses__() for kind in base.kinds().values()}
    own = names([*kinds, *KEYS.values(), *SWEEPS.values(), Settings, EntryWords])
    whole = names([thing for thing in shown if callable(thing) and thing not in kinds])
    counts = {
        name: section_lines(ast.parse((ROOT / path).read_text("utf-8")), name, own, whole)
        for name, path in modules.items()
    }
    assert sum(counts.values()) < 300, sorted(counts.items(), key=lambda item: -item[1])[:20]


def test_sections_are_counted_outside_of_exempt_names() -> None:
    text = "Sum.\n\nReturns\n-------\nfloat\n    Sum of x.\n\nReferences\n----------\nA."
    tree = ast.parse(f"class A:\n  def f(x):\n    {text!r}\n  def _g(x):\n    {text!r}")
    assert section_lines(tree, "m", [], []) == section_lines(tree, "m", ["m.A"], []) == 8
    assert section_lines(tree, "m", [], ["m.A"]) == section_lines(tree, "m", ["m.A.f"], []) == 4
