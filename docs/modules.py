"""Generate the pages of derivations, with the tests that check them, and of the Python API."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docs.docstring_to_rst import escape, table
from docs.generate import ROOT, contents, page, section, write
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.jobs import describe
from dpbench.privacy import Ledger
from dpbench.theory.families import Family

__all__ = ["write_modules"]

# Packages whose public names form the Python API.
PARTS = (
    "dpbench", "dpbench.estimators", "dpbench.distributions", "dpbench.privacy", "dpbench.samples",
    "dpbench.report.run_result", "dpbench.audit", "dpbench.libraries", "dpbench.tracking",
    "dpbench.testing", "dpbench.app",
)  # fmt: skip
# Modules outside of dpbench/theory whose docstrings contain derivations.
DERIVATION_MODULES = (
    "dpbench.estimators.binary_risk", "dpbench.privacy.conversions", "dpbench.privacy.histogram",
    "dpbench.privacy.hourglass", "dpbench.privacy.neighbours", "dpbench.privacy.noisy_search",
    "dpbench.privacy.polyplace", "dpbench.privacy.quantile", "dpbench.privacy.smooth",
    "dpbench.privacy.staircase", "dpbench.privacy.tulap", "dpbench.audit.bounds",
)  # fmt: skip


def write_modules(folder: Path) -> None:
    """Write ``derivations/`` and ``api/`` below a folder."""
    write(folder / "derivations", dict(_theory()))
    write(folder / "api", dict(_api()))


@cache
def _tests() -> list[tuple[set[tuple[str, str]], str, str, set[str]]]:
    """Return for each test the imports of its file, its path, its summary and its names."""
    tests = []
    for path in sorted((ROOT / "tests").rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        imported = {
            (where, alias.asname or alias.name)
            for node in tree.body
            if isinstance(node, ast.ImportFrom)
            for alias in node.names
            for where in (node.module or "", f"{node.module}.{alias.name}")
        }
        for node in tree.body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                names = {name.id for name in ast.walk(node) if isinstance(name, ast.Name)}
                test_path = f"{path.relative_to(ROOT)}::{node.name}"
                summary = (ast.get_docstring(node) or "").partition("\n\n")[0]
                tests.append((imported, test_path, " ".join(summary.split()), names))
    return tests


def _oracles(module: str) -> list[tuple[str, str]]:
    """Return the paths and summaries of the tests that use names of a Python module."""
    return [
        (test_path, summary)
        for imported, test_path, summary, names in _tests()
        if names & {name for where, name in imported if where == module}
    ]


def _theory() -> Iterator[tuple[str, str]]:
    paths = sorted((ROOT / "dpbench" / "theory").rglob("*.py"))
    names = (path.relative_to(ROOT).with_suffix("").as_posix() for path in paths)
    modules = [name.replace("/", ".") for name in names if not name.endswith("__init__")]
    rows, short_names = [], []
    for name in [*modules, *DERIVATION_MODULES]:
        title = (importlib.import_module(name).__doc__ or "").partition("\n")[0].rstrip(".")
        short = name.removeprefix("dpbench.")
        rows.append((f":doc:`{short} <{short}>`", escape(title)))
        short_names.append(short)
        tests = [(f"``{test_path}``", escape(summary)) for test_path, summary in _oracles(name)]
        checked = section("Checked by", table(["test", "summary"], tests)) if tests else ""
        yield short, page(short, f".. automodule:: {name}\n   :members:", checked)
    summary = (
        "Each page shows a module that computes bounds or exact values: the derivation, the "
        "functions, and the tests that check them by an independent route."
    )
    heads = ["module", "subject"]
    yield (
        "index",
        page("Derivations", summary, table(heads, rows), contents(short_names, "Modules")),
    )


def _api() -> Iterator[tuple[str, str]]:
    documented = {name for part in PARTS[1:] for name in importlib.import_module(part).__all__}
    for part in PARTS:
        module = importlib.import_module(part)
        own = [name for name in module.__all__ if part != "dpbench" or name not in documented]
        others = sorted(set(module.__all__) - set(own))
        entries = (_document(part, name, getattr(module, name)) for name in own)
        links = ", ".join(f":py:obj:`{name} <{_home(name)}>`" for name in others)
        also = f"Also here: {links}." if links else ""
        yield part, page(part, f".. automodule:: {part}\n   :no-members:", also, *entries)
    text = "Public names of the package."
    yield "index", page("Library", text, contents(PARTS))


def _home(name: str) -> str:
    return next(
        f"{part}.{name}" for part in PARTS[1:] if name in importlib.import_module(part).__all__
    )


def _document(part: str, name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        data_entry = f".. py:data:: {part}.{name}\n   :value: {thing!r}"
        return f".. autofunction:: {part}.{name}" if callable(thing) else data_entry
    is_kind = any(
        thing in describe.kinds(base).values() for base in (Estimator, Distribution, Family)
    )
    options = "" if is_kind else "\n   :members:"
    if thing is Ledger:  # some of its methods belong to a base class that is not public
        options += "\n   :inherited-members:"
    return f".. autoclass:: {part}.{name}{options}"
