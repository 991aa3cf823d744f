"""The pages of modules: what they derive, the tests that check it, and the library's names."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

from docs.generate import ROOT, contents, page, section, write
from docs.plain import escaped, table
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.jobs import describe
from dpbench.privacy import Ledger
from dpbench.theory.families import Family

__all__ = ["write_modules"]

# Parts of the package, public names of which are the reference of the library.
PARTS = (
    "dpbench", "dpbench.estimators", "dpbench.distributions", "dpbench.privacy", "dpbench.samples",
    "dpbench.analysis.result", "dpbench.audit", "dpbench.tracking", "dpbench.testing",
)  # fmt: skip
# Modules whose docstrings derive something, beside those of dpbench/theory.
DERIVED = (
    "dpbench.estimators.binary_risk", "dpbench.privacy.conversions", "dpbench.privacy.histogram",
    "dpbench.privacy.neighbours", "dpbench.privacy.noisy_search", "dpbench.privacy.quantile",
    "dpbench.privacy.smooth", "dpbench.privacy.staircase", "dpbench.audit.bounds",
)  # fmt: skip


def write_modules(folder: Path) -> None:
    """Write ``theory/`` and ``api/`` below a folder."""
    write(folder / "theory", dict(_theory()))
    write(folder / "api", dict(_api()))


@cache
def _tests() -> list[tuple[set[tuple[str, str]], str, str, set[str]]]:
    """Of each test what its file imports, where it is, what it says and the names that it uses."""
    found = []
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
                names = {one.id for one in ast.walk(node) if isinstance(one, ast.Name)}
                at = f"{path.relative_to(ROOT)}::{node.name}"
                about = (ast.get_docstring(node) or "").partition("\n\n")[0]
                found.append((imported, at, " ".join(about.split()), names))
    return found


def _oracles(module: str) -> list[tuple[str, str]]:
    """The tests that use what a module defines, and what each says that it shows."""
    return [
        (at, about)
        for imported, at, about, names in _tests()
        if names & {name for where, name in imported if where == module}
    ]


def _theory() -> Iterator[tuple[str, str]]:
    here = sorted((ROOT / "dpbench" / "theory").rglob("*.py"))
    names = (path.relative_to(ROOT).with_suffix("").as_posix() for path in here)
    modules = [name.replace("/", ".") for name in names if not name.endswith("__init__")]
    rows, shorts = [], []
    for name in [*modules, *DERIVED]:
        title = (importlib.import_module(name).__doc__ or "").partition("\n")[0].rstrip(".")
        short = name.removeprefix("dpbench.")
        rows.append((f":doc:`{short} <{short}>`", escaped(title)))
        shorts.append(short)
        tests = [(f"``{at}``", escaped(about)) for at, about in _oracles(name)]
        checked = section("Checked by", table(["test", "what it shows"], tests)) if tests else ""
        yield short, page(short, f".. automodule:: {name}\n   :members:", checked)
    about = (
        "Every bound and every exact value with its derivation, as the module that computes it "
        "has it, its functions, and the tests that check it by another route."
    )
    heads = ["module", "what it derives"]
    yield "index", page("Theory", about, table(heads, rows), contents(shorts, "Modules"))


def _api() -> Iterator[tuple[str, str]]:
    documented = {name for part in PARTS[1:] for name in importlib.import_module(part).__all__}
    for part in PARTS:
        module = importlib.import_module(part)
        own = [name for name in module.__all__ if part != "dpbench" or name not in documented]
        others = sorted(set(module.__all__) - set(own))
        entries = (_documented(part, name, getattr(module, name)) for name in own)
        links = ", ".join(f":py:obj:`{name} <{_home(name)}>`" for name in others)
        also = f"Also here: {links}." if links else ""
        yield part, page(part, f".. automodule:: {part}\n   :no-members:", also, *entries)
    text = "The public names of the library."
    yield "index", page("Library", text, contents(PARTS))


def _home(name: str) -> str:
    return next(
        f"{part}.{name}" for part in PARTS[1:] if name in importlib.import_module(part).__all__
    )


def _documented(part: str, name: str, thing: Any) -> str:
    if not inspect.isclass(thing):
        known = f".. py:data:: {part}.{name}\n   :value: {thing!r}"
        return f".. autofunction:: {part}.{name}" if callable(thing) else known
    made = any(thing in describe.kinds(one).values() for one in (Estimator, Distribution, Family))
    options = "" if made else "\n   :members:"
    if thing is Ledger:  # its methods are in part those of a class that is not public
        options += "\n   :inherited-members:"
    return f".. autoclass:: {part}.{name}{options}"
