"""Convert docstrings, which are plain text, to reStructuredText of equal appearance."""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import partial

__all__ = ["docstring_to_rst", "escape", "table"]

HEADING = re.compile(r"^(Parameters|Returns|Yields|Raises|Examples|Attributes|References|Notes)$")
ITEM = re.compile(r"^(\s*)([-*] |\d+[.)] )")
# Matches a name in backticks, or a character that would be markup.
MARKED = re.compile(r"``[^`]+``|`[^`]+`|[*|\\`]|(?<=\w)_(?!\w)")


def escape(text: str) -> str:
    """Escape markup in a text, and turn names in backticks into code."""

    def replace(match: re.Match[str]) -> str:
        matched = match[0]
        if len(matched) == 1:
            return f"\\{matched}"
        return matched if matched.startswith("``") or "\\" in matched else f"`{matched.strip('`')}`"

    return MARKED.sub(replace, re.sub(r"(\[\w+\])_(?!\w)", r"\1", text))  # no links to footnotes


def docstring_to_rst(lines: Iterable[str]) -> list[str]:
    """Convert the lines of a docstring to reST.

    Text and lists stay as they are, and more deeply indented lines become literal blocks. Sections
    of numpydoc and examples are not changed.
    """
    result: list[str] = []
    depth, sections = 0, False  # depth: indentation of the text or list item
    for block in _blocks(lines):
        sections = sections or any(HEADING.match(line.strip()) for line in block)
        item, indent = ITEM.match(block[0]), _indent(block[0])
        if any(line.lstrip().startswith(">>>") for line in block):
            result += [*block, ""]
        elif item or sections:
            depth = len(item[0]) if item else indent
            result += [*_paragraph(block), ""]
        else:
            depth = min(depth, indent)
            for deeper, some_lines in itertools.groupby(block, partial(_is_deeper, depth)):
                part = list(some_lines)
                result += [f"{' ' * depth}::", "", *part] if deeper else _paragraph(part)
                result.append("")
    return result


def _blocks(lines: Iterable[str]) -> Iterator[list[str]]:
    """Yield groups of consecutive lines that are not empty."""
    for has_text, block in itertools.groupby((line.rstrip() for line in lines), bool):
        if has_text:
            yield list(block)


def _paragraph(block: Sequence[str]) -> list[str]:
    """Escape a paragraph; turn citations into a list, because Sphinx warns of unused citations."""
    cited = any(line.startswith(".. [") for line in block)
    lines = [re.sub(r"^   (?=\S)", "  ", line) for line in block] if cited else block
    return re.sub(r"(?m)^\.\. \[", "* [", escape("\n".join(lines))).split("\n")


def _is_deeper(depth: int, line: str) -> bool:
    return _indent(line) > depth


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def table(
    heads: Sequence[str],
    rows: Iterable[Sequence[str]],
    *,
    wide: bool = False,
    sortable: bool = False,
) -> str:
    """Return a table in reST.

    Parameters
    ----------
    heads : sequence of str
        Titles of the columns.
    rows : iterable of sequences of str
        Cells, each one line of reST.
    wide : bool, default False
        Style of a table with much text.
    sortable : bool, default False
        Whether a click on a title sorts the rows, by the script ``dpbench/report/sort.js``.

    Returns
    -------
    str
    """
    classes = " ".join(["wide"] * wide + ["sortable"] * sortable)
    lines = [".. list-table::", "   :header-rows: 1", "   :widths: auto"]
    lines += [f"   :class: {classes}", ""] if classes else [""]
    for row in [heads, *rows]:
        for column, cell in enumerate(row):
            lines.append(f"   {'*' if column == 0 else ' '} - {cell}".rstrip())
    return "\n".join(lines) + "\n"
