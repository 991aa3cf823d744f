"""Generate the reference from classes and configurations; helpers for all generated pages."""

from __future__ import annotations

import inspect
import itertools
import math
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any

import yaml

from docs.docstring_to_rst import docstring_to_rst, escaped, table
from dpbench import cli
from dpbench.analysis.study import Figure
from dpbench.bibliography import bibliography
from dpbench.commands import commands
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.estimators.base import NeedsRadius
from dpbench.estimators.catalogue import catalogue
from dpbench.jobs import describe
from dpbench.privacy import Budget
from dpbench.theory.families import Family
from dpbench.theory.theorems import THEOREMS

__all__ = ["contents", "facts", "page", "section", "write", "write_reference"]

HERE = Path(__file__).parent
ROOT = HERE.parent
LETTERS = {"pure": "p", "zcdp": "z", "gdp": "g", "approx": "a"}


def write_reference(folder: Path) -> None:
    """Write the pages of the reference to ``reference/`` below a folder."""
    write(folder / "reference", dict(_reference()))


def write(folder: Path, pages: Mapping[str, str]) -> None:
    """Write pages, leave unchanged files alone, and remove other reST files of the folder.

    Parameters
    ----------
    folder : Path
    pages : mapping of str to str
        Text of each page by its name, a path without suffix below the folder.
    """
    wanted = {folder / f"{name}.rst": text for name, text in pages.items()}
    for path in folder.rglob("*.rst"):
        if path not in wanted:
            path.unlink()
    for path, text in wanted.items():
        if not path.exists() or path.read_text("utf-8") != text:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, "utf-8")


def page(title: str, *parts: str) -> str:
    """Return a page with a title.

    Parameters
    ----------
    title : str
    *parts : str
        Paragraphs, tables and sections in reST; empty parts are left out.

    Returns
    -------
    str
    """
    return "\n\n".join([f"{title}\n{'=' * len(title)}", *filter(None, parts)]) + "\n"


def contents(names: Iterable[str], caption: str = "") -> str:
    """Return a table of contents.

    Parameters
    ----------
    names : iterable of str
        Pages, relative to the page of the table.
    caption : str, default ""
        With a caption the table is in the side bar only; else the page lists it.

    Returns
    -------
    str
    """
    options = ["   :hidden:", f"   :caption: {caption}"] if caption else ["   :maxdepth: 1"]
    return "\n".join([".. toctree::", *options, "", *(f"   {name}" for name in names)])


def facts(told: Mapping[str, str]) -> str:
    """Return a field list of the facts that are not empty."""
    found = (f":{name}: {escaped(text)}" for name, text in told.items() if text)
    return "\n".join([".. rst-class:: facts", "", *found])


def section(title: str, *parts: str, label: str = "") -> str:
    """Return a section with a title.

    Parameters
    ----------
    title : str
    *parts : str
        Paragraphs and tables in reST; empty parts are left out.
    label : str, default ""
        Target of links to the section.

    Returns
    -------
    str
    """
    anchor = [f".. _{label}:"] if label else []
    return "\n\n".join([*anchor, f"{title}\n{'-' * len(title)}", *filter(None, parts)])


def _prose(kind: type[Any]) -> str:
    """Return the docstring of a class up to its first heading."""
    doc = inspect.cleandoc(vars(kind).get("__doc__") or inspect.getdoc(kind) or "")
    return "\n".join(docstring_to_rst(re.split(r"\n\w[^\n]*\n-{3,}\n", doc)[0].splitlines()))


def _keys(kind: type[Any]) -> str:
    """Return a table of the parameters of a class."""
    rows = [
        (
            f"``{name}``",
            escaped(text),
            "required" if default is None else f"``{default}``" if default else "",
            escaped(about),
        )
        for name, text, default, about in describe.parameters(kind)
    ]
    return table(["key", "type", "default", "meaning"], rows) if rows else ""


def _kind(name: str, kind: type[Any], *parts: str) -> str:
    home = ".".join(kind.__module__.split(".")[:2])
    python = f"In Python :py:class:`{home}.{kind.__name__}`."
    return section(name, _prose(kind), *parts, _keys(kind), python, label=f"kind-{name}")


def _link(name: str) -> str:
    return f":ref:`{name} <kind-{name}>`"


def _marked(text: str) -> str:
    """Return text of the catalogue as reST, with names in backticks as literals."""
    return re.sub(r"`([^`]+)`", r"``\1``", text).replace("|", "\\|")


def _honoured(name: str, kind: type[Estimator]) -> str:
    """Return the letters of an estimator's notions, with remarks."""
    letters = " ".join(LETTERS[one.notion] for one in kind.notions if one.notion in LETTERS)
    beyond = ["R = ∞ under a"] if issubclass(kind, NeedsRadius) else []
    beyond += ["local"] if kind.bounded_in == "local" else []
    beyond += ["n private"] if _relations(kind) == ("add_remove",) else []
    beyond += [_marked(row.also) for row in catalogue()[name].rows if row.also]
    return "; ".join([letters or "none", *dict.fromkeys(beyond)])


def _relations(kind: type[Estimator]) -> tuple[str, ...]:
    """Return the relations of neighbours an estimator supports; both if parameters decide."""
    either = ("replace", "add_remove")
    return kind.relations if isinstance(kind.relations, tuple) else either


def _records(kind: type[Estimator]) -> str:
    what = "numbers or vectors" if kind.multivariate else "numbers"
    return what if kind.estimand == "mean" else f"vectors ({kind.estimand})"


def _estimators() -> str:
    kinds = sorted(Estimator.kinds().items())  # but those of plug-ins
    known = {name: kind for name, kind in kinds if kind.__module__.startswith("dpbench.")}
    rows = []
    for name, listing in catalogue().items():
        for at, row in enumerate(listing.rows):
            label = "…" if at else _link(name)
            label += f" ``{row.variant}``" if row.variant else ""
            cells = (row.source, row.assumes, row.n, row.measured)
            source, *others = (_marked(text) or "—" for text in cells)
            honoured, records = _honoured(name, known[name]), _records(known[name])
            rows.append((label, source, honoured, records, *others))
    heads = ("kind", "source", "notions", "records", "assumes", "n", "measured")
    return page(
        "Estimators",
        "A configuration names an estimator by its kind (``kind:``). It runs under every notion "
        "that it can honour (p pure, z zCDP, g Gaussian, a approximate) and refuses the others. "
        "The column *n* gives the records needed for an error alpha, up to logarithms. *Measured* "
        "is the exponent of the factor in bold, from the sweep in brackets. "
        ":doc:`sources` resolves the keys of sources. ``python -m dpbench --help kind WORD`` "
        "searches the words of each kind.",
        table(heads, rows, wide=True),
        *(_kind(name, one, _facts(name, one)) for name, one in known.items()),
    )


def _facts(name: str, kind: type[Estimator]) -> str:
    return facts(
        {
            "Notions": _honoured(name, kind),
            "Neighbours": " or ".join(_relations(kind)),
            "Records": _records(kind),
            "Model": kind.bounded_in or "",
            "Words": ", ".join(catalogue()[name].words),
        }
    )


def _sweeps() -> str:
    rows, sections = [], []
    for path in sorted((ROOT / "conf" / "sweep").glob("*.yaml")):
        text = path.read_text("utf-8")
        comment = itertools.takewhile(lambda line: line.startswith("#"), text.splitlines())
        _, headline, *about = [
            line.removeprefix("#")[1:] for line in comment
        ]  # the first line names the schema
        found = yaml.safe_load(text)
        used = [
            f"{title}: {', '.join(_link(kind) for kind in _used(found.get(key, {})))}."
            for title, key in (("Families", "families"), ("Estimators", "estimators"))
            if found.get(key)
        ]
        rows.append((f":ref:`{path.stem} <sweep-{path.stem}>`", escaped(headline)))
        parts = (escaped(headline), "\n".join(docstring_to_rst(about)), *used)
        command = f"``python -m dpbench sweep={path.stem}``"
        sections.append(section(path.stem, *parts, command, label=f"sweep-{path.stem}"))
    return page(
        "Sweeps",
        "The shipped sweeps are in ``conf/sweep/``.",
        table(["sweep", "subject"], rows),
        *sections,
    )


def _used(entries: Mapping[str, Any]) -> list[str]:
    """Return the kinds in a section of a sweep, without repetitions."""
    known = {**describe.kinds(Family, Distribution), **describe.kinds(Estimator)}
    found = (str(entry.get("kind")) for entry in entries.values())
    return [name for name in dict.fromkeys(found) if name in known]


def _claims() -> str:
    def number(value: float) -> str:
        return "the claim's" if math.isnan(value) else f"{value:.3g}"

    rows = []
    for name, one in THEOREMS.items():
        predicted = ", ".join(dict.fromkeys(number(one.predicted(k)) for k in (2, 3, 4)))
        predicted = f"≤ {predicted}" if one.at_most else predicted
        cells = (f"``{one.variable}``", predicted, f"``{one.metric}``", one.kind.replace("_", " "))
        rows.append((f"``{name}``", escaped(one.source), *cells))
    return page(
        "Claims",
        "A claim of a sweep names a theorem; :doc:`keys` lists its keys. Numbers that depend on "
        "the order k of the bounded moment are shown at k = 2, 3 and 4. Claims of the kinds level "
        "and level of n check the code, unless their key ``checks`` is ``theorem``.",
        table(["theorem", "source", "variable", "number", "column", "kind"], rows),
    )


def _sources() -> str:
    """Return a page with all cited sources."""
    rows = [(f"``{key}``", escaped(str(source))) for key, source in bibliography().items()]
    text = "Estimators, theorems and bounds cite their sources by these keys."
    return page("Sources", text, table(["key", "source"], rows))


def _commands() -> str:
    """Return a page with the help texts of all commands."""
    told = {"dpbench": _printed("--help").partition("sweeps (more")[0]}
    told |= {name: _printed(name, "--help") for name in commands()}
    sections = (
        section(name, "::", "\n".join(f"   {line}".rstrip() for line in text.splitlines()))
        for name, text in told.items()
    )
    return page("Commands", "The output of ``--help`` for every command.", *sections)


def _printed(*words: str) -> str:
    with redirect_stdout(StringIO()) as page:
        cli.run(words)
    return page.getvalue()


def _reference() -> Iterator[tuple[str, str]]:
    yield "estimators", _estimators()
    for name, title, about, kind in (
        ("distributions", "Distributions", "Records are drawn from these.", Distribution),
        ("families", "Families", "Sets of distributions for worst cases.", Family),
        ("budgets", "Budgets", "A list of values makes one budget per value.", Budget),
        ("figures", "Figures", "A sweep can draw these.", Figure),
    ):
        known = describe.kinds(kind)
        rows = [
            (_link(label), " ".join(_prose(one).partition("\n\n")[0].split()))
            for label, one in known.items()
        ]
        sections = (_kind(label, one) for label, one in known.items())
        yield name, page(title, about, table(["kind", "meaning"], rows), *sections)
    yield "claims", _claims()
    yield "sweeps", _sweeps()
    sections = (
        section(title[0].upper() + title[1:], _prose(one), _keys(one))
        for title, one in describe.KEYS.items()
    )
    about = "All keys of a sweep's file; ``python -m dpbench --help sweep`` prints them too."
    yield "keys", page("Keys", about, *sections)
    yield "commands", _commands()
    yield "sources", _sources()
    names = ["commands", "sweeps", "estimators", "distributions", "families", "budgets", "claims"]
    about = "Generated from the classes and the configurations."
    yield "index", page("Reference", about, contents([*names, "figures", "keys", "sources"]))
