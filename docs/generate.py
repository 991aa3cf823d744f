"""Generate the reference from classes and configurations, and format all generated pages."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

import yaml

from docs.docstring_to_rst import docstring_to_rst, escape, table
from dpbench.app import commands
from dpbench.bibliography import bibliography, split_links
from dpbench.cli import main as cli
from dpbench.distributions import Distribution
from dpbench.estimators import Estimator
from dpbench.estimators.base import NeedsRadius
from dpbench.estimators.catalogue import catalogue, keywords
from dpbench.estimators.estimands import MEAN
from dpbench.jobs import describe
from dpbench.jobs.sweep_files import read_texts
from dpbench.privacy import Budget
from dpbench.report.study import Figure
from dpbench.theory.families import Family
from dpbench.theory.theorems import THEOREMS

__all__ = ["contents", "facts", "link_sources", "page", "section", "write", "write_reference"]

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
        Folder that holds generated pages only.
    pages : mapping of str to str
        Text of each page by its name, a path without suffix below the folder.
    """
    text_of_file = {folder / f"{name}.rst": text for name, text in pages.items()}
    for path in folder.rglob("*.rst"):
        if path not in text_of_file:
            path.unlink()
    for path, text in text_of_file.items():
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
        Caption in the side bar. With a caption the table is in the side bar only, without one it
        is in the page too.

    Returns
    -------
    str
    """
    options = ["   :hidden:", f"   :caption: {caption}"] if caption else ["   :maxdepth: 1"]
    return "\n".join([".. toctree::", *options, "", *(f"   {name}" for name in names)])


def facts(values: Mapping[str, str]) -> str:
    """Return a field list of the facts that are not empty; the fact ``Source`` gets links."""
    fields = (
        f":{name}: {(link_sources if name == 'Source' else escape)(text)}"
        for name, text in values.items()
        if text
    )
    return "\n".join([".. rst-class:: facts", "", *fields])


def link_sources(text: str) -> str:
    """Return a text in reST whose sources are links.

    Parameters
    ----------
    text : str
        Text that names sources by keys of the bibliography, or by identifiers such as a DOI. A key
        without an identifier links to the page of sources.

    Returns
    -------
    str
    """
    links = []
    for part, url in split_links(text):
        if url:
            links.append(f"\\ `{part} <{url}>`__\\ ")
        elif part in bibliography():
            links.append(f"\\ :doc:`{part} </reference/sources>`\\ ")
        else:
            links.append(escape(part))
    return "\\ " + "".join(links)  # the space keeps "A. Author" from being a list


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
            escape(text),
            "required" if default is None else f"``{default}``" if default else "",
            escape(meaning),
        )
        for name, text, default, meaning in describe.parameters(kind)
    ]
    return table(["key", "type", "default", "meaning"], rows) if rows else ""


def _kind(name: str, kind: type[Any], *parts: str) -> str:
    home = ".".join(kind.__module__.split(".")[:2])
    python = f"In Python :py:class:`{home}.{kind.__name__}`."
    texts = (_index_entries(name), _prose(kind), *parts, _keys(kind), python)
    return section(name, *texts, label=f"kind-{name}")


def _index_entries(name: str) -> str:
    """Return the directive that lists a kind in the index, under its search words and authors."""
    if name not in keywords():
        return ""
    entry = keywords()[name]
    authors = [who for source in entry.sources.values() for who in source.authors.split(", ")]
    terms = dict.fromkeys([*entry.words, *authors])
    return "\n".join([".. index::", *(f"   single: {term}; {name}" for term in terms)])


def _link(name: str) -> str:
    return f":ref:`{name} <kind-{name}>`"


def _escape_catalogue(text: str) -> str:
    """Return text of the catalogue as reST, with names in backticks as literals."""
    return re.sub(r"`([^`]+)`", r"``\1``", text).replace("|", "\\|")


def _list_notions(name: str, kind: type[Estimator]) -> str:
    """Return the letters of an estimator's privacy notions, with remarks."""
    letters = " ".join(
        LETTERS[notion.notion] for notion in kind.notions if notion.notion in LETTERS
    )
    remarks = ["R = ∞ under a"] if issubclass(kind, NeedsRadius) else []
    remarks += ["local"] if kind.bounded_in == "local" else []
    remarks += ["n private"] if _relations(kind) == ("add_remove",) else []
    remarks += [_escape_catalogue(row.also) for row in catalogue()[name].rows if row.also]
    return "; ".join([letters or "none", *dict.fromkeys(remarks)])


def _relations(kind: type[Estimator]) -> tuple[str, ...]:
    """Return the neighbour relations that an estimator supports; both if parameters decide."""
    both_relations = ("replace", "add_remove")
    return kind.relations if isinstance(kind.relations, tuple) else both_relations


def _records(kind: type[Estimator]) -> str:
    records = "numbers or vectors" if kind.multivariate else "numbers"
    return records if kind.estimand is MEAN else f"vectors ({kind.estimand})"


def _estimators() -> str:
    kinds = sorted(Estimator.kinds().items())
    own_kinds = {name: kind for name, kind in kinds if kind.__module__.startswith("dpbench.")}
    rows = []
    for name, listing in catalogue().items():
        for index, row in enumerate(listing.rows):
            label = "…" if index else _link(name)
            label += f" ``{row.variant}``" if row.variant else ""
            cells = (row.source, listing.assumes, row.n, row.measured)
            source, *other_cells = (_escape_catalogue(text) or "—" for text in cells)
            notions, records = _list_notions(name, own_kinds[name]), _records(own_kinds[name])
            rows.append((label, source, notions, records, *other_cells))
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
        *(_kind(name, cls, _facts(name, cls)) for name, cls in own_kinds.items()),
    )


def _facts(name: str, kind: type[Estimator]) -> str:
    return facts(
        {
            "Notions": _list_notions(name, kind),
            "Neighbours": " or ".join(_relations(kind)),
            "Records": _records(kind),
            "Model": kind.bounded_in or "",
            "Assumes": _escape_catalogue(catalogue()[name].assumes),
            "Words": ", ".join(catalogue()[name].words),
        }
    )


def _sweeps() -> str:
    rows, sections = [], []
    for path in sorted((ROOT / "conf" / "sweep").glob("*.yaml")):
        texts = read_texts(path)
        config = yaml.safe_load(path.read_text("utf-8"))
        kinds_of_sections = [
            f"{title}: {', '.join(_link(kind) for kind in _used_kinds(config.get(key, {})))}."
            for title, key in (("Families", "families"), ("Estimators", "estimators"))
            if config.get(key)
        ]
        link = f":ref:`{path.stem} <sweep-{path.stem}>`"
        rows.append((link, escape(texts.question), texts.cost))
        about = "\n".join(docstring_to_rst([texts.about]))
        parts = (escape(texts.question), about, *kinds_of_sections)
        command = f"``python -m dpbench sweep={path.stem}``"
        sections.append(section(path.stem, *parts, command, label=f"sweep-{path.stem}"))
    return page(
        "Sweeps",
        "The shipped sweeps are in ``conf/sweep/``.",
        table(["sweep", "question", "on two cores"], rows),
        *sections,
    )


def _used_kinds(entries: Mapping[str, Any]) -> list[str]:
    """Return the kinds in a section of a sweep, without repetitions."""
    kinds = {**describe.kinds(Family, Distribution), **describe.kinds(Estimator)}
    names = (str(entry.get("kind")) for entry in entries.values())
    return [name for name in dict.fromkeys(names) if name in kinds]


def _claims() -> str:
    rows = []
    for name, theorem in THEOREMS.items():
        cells = (
            f"``{theorem.variable}``",
            describe.predicted_number(theorem),
            f"``{theorem.metric}``",
            theorem.kind.replace("_", " "),
        )
        rows.append((f"``{name}``", escape(theorem.source), *cells))
    return page(
        "Claims",
        "A claim of a sweep names a theorem; :doc:`keys` lists its keys. Numbers that depend on "
        "the order k of the bounded moment are shown at k = 2, 3 and 4. Claims of the kinds level "
        "and level of n check the code, unless their key ``checks`` is ``theorem``.",
        table(["theorem", "source", "variable", "number", "column", "kind"], rows),
    )


def _sources() -> str:
    """Return a page with all cited sources."""
    rows = [(f"``{key}``", link_sources(str(source))) for key, source in bibliography().items()]
    text = "Estimators, theorems and bounds cite their sources by these keys."
    return page("Sources", text, table(["key", "source"], rows))


def _commands() -> str:
    """Return a page with the help texts of all commands."""
    texts = {"dpbench": _capture_output("--help").partition("sweeps (more")[0]}
    texts |= {name: _capture_output(name, "--help") for name in commands()}
    sections = (
        section(name, "::", "\n".join(f"   {line}".rstrip() for line in text.splitlines()))
        for name, text in texts.items()
    )
    return page("Commands", "The output of ``--help`` for every command.", *sections)


def _capture_output(*words: str) -> str:
    with redirect_stdout(StringIO()) as page, patch.dict("os.environ", COLUMNS="80"):
        cli.run(words)
    return page.getvalue()


def _reference() -> Iterator[tuple[str, str]]:
    yield "estimators", _estimators()
    for name, title, summary, kind in (
        ("distributions", "Distributions", "Records are drawn from these.", Distribution),
        ("families", "Families", "Sets of distributions for worst cases.", Family),
        ("budgets", "Budgets", "A list of values makes one budget per value.", Budget),
        ("figures", "Figures", "A sweep can draw these.", Figure),
    ):
        classes = describe.kinds(kind)
        rows = [
            (_link(label), " ".join(_prose(cls).partition("\n\n")[0].split()))
            for label, cls in classes.items()
        ]
        sections = (_kind(label, cls) for label, cls in classes.items())
        yield name, page(title, summary, table(["kind", "meaning"], rows), *sections)
    yield "claims", _claims()
    yield "sweeps", _sweeps()
    sections = (
        section(title[0].upper() + title[1:], _prose(cls), _keys(cls))
        for title, cls in describe.KEYS.items()
    )
    summary = "All keys of a sweep's file; ``python -m dpbench --help sweep`` prints them too."
    yield "keys", page("Keys", summary, *sections)
    yield "commands", _commands()
    yield "sources", _sources()
    names = ["commands", "sweeps", "estimators", "distributions", "families", "budgets", "claims"]
    summary = "Generated from the classes and the configurations."
    yield "index", page("Reference", summary, contents([*names, "figures", "keys", "sources"]))
