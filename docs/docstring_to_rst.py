"""Convert docstrings, which are plain text, to reStructuredText with the same appearance."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

__all__ = ["docstring_to_rst", "escaped", "table"]

HEADING = re.compile(r"^(Parameters|Returns|Yields|Raises|Examples|Attributes|References|Notes)$")
ITEM = re.compile(r"^(\s*)([-*] |\d+[.)] )")
# A name in backticks, or a character that would be markup.
MARKED = re.compile(r"``[^`]+``|`[^`]+`|[*|\\`]|(?<=\w)_(?!\w)")


def escaped(text: str) -> str:
    """Escape markup; names in backticks become code."""

    def one(match: re.Match[str]) -> str:
        found = match[0]
        if len(found) == 1:
            return f"\\{found}"
        return found if found.startswith("``") or "\\" in found else f"`{found.strip('`')}`"

    return MARKED.sub(one, re.sub(r"(\[\w+\])_(?!\w)", r"\1", text))  # no links to footnotes


def docstring_to_rst(lines: Iterable[str]) -> list[str]:
    """Return the lines of a docstring as reST.

    Text and lists stay as they are, and deeper indented lines become literal blocks. Sections of
    numpydoc and examples are not changed.
    """
    found: list[str] = []
    depth, sections = 0, False  # depth: indentation of the text or list item
    for block in _blocks(lines):
        sections = sections or any(HEADING.match(one.strip()) for one in block)
        item, indent = ITEM.match(block[0]), _indent(block[0])
        if any(one.lstrip().startswith(">>>") for one in block):
            found += [*block, ""]
        elif item or sections:
            depth = len(item[0]) if item else indent
            found += [*_paragraph(block), ""]
        else:
            depth = min(depth, indent)
            for deeper, some in itertools.groupby(block, partial(_beyond, depth)):
                part = list(some)
                found += [f"{' ' * depth}::", "", *part] if deeper else _paragraph(part)
                found.append("")
    return found


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield runs of lines without an empty line."""
    for some, block in itertools.groupby((line.rstrip() for line in lines), bool):
        if some:
            yield list(block)


def _paragraph(block: Sequence[str]) -> list[str]:
    """Escape a paragraph, and turn citations into a list: Sphinx warns of unused citations."""
    cited = any(line.startswith(".. [") for line in block)
    found = [re.sub(r"^   (?=\S)", "  ", line) for line in block] if cited else block
    return re.sub(r"(?m)^\.\. \[", "* [", escaped("\n".join(found))).split("\n")


def _beyond(depth: int, line: str) -> bool:
    return _indent(line) > depth


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def table(heads: Sequence[str], rows: Iterable[Sequence[str]], *, wide: bool = False) -> str:
    """Return a table in reST.

    Parameters
    ----------
    heads : sequence of str
    rows : iterable of sequences of str
        Cells, each one line of reST.
    wide : bool, default False
        Style of a table with much text.

    Returns
    -------
    str
    """
    found = [".. list-table::", "   :header-rows: 1", "   :widths: auto"]
    found += ["   :class: wide", ""] if wide else [""]
    for row in [heads, *rows]:
        for at, cell in enumerate(row):
            found.append(f"   {'*' if at == 0 else ' '} - {cell}".rstrip())
    return "\n".join(found) + "\n"
