"""Help texts for a terminal: wrapped at its width, with the command that the user types."""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Sequence

from dpbench.package import as_typed, command_in_use

__all__ = ["help_page"]

HELP_WIDTHS = 60, 100  # smallest and largest number of characters per line of a help text


def help_page(text: str) -> str:
    """Return a help text for this terminal: wrapped, and with the command in use.

    The source `text` writes the command as ``python -m dpbench``; see `dpbench.package.as_typed`.
    Lines are as long as the terminal is wide, but at least 60 and at most 100 characters
    (`HELP_WIDTHS`). The rest of a wrapped line is indented like the last column of the line. A
    column begins after two or more spaces. Lines that show a command stay whole, to be copied.
    Lines that the source broke at 100 characters are joined first.
    """
    least, most = HELP_WIDTHS
    width = min(max(shutil.get_terminal_size().columns, least), most)
    return "\n".join(_wrap(line, width) for line in _join_lines(as_typed(text).split("\n")))


def _join_lines(lines: Sequence[str]) -> list[str]:
    """Join each line with the line before if the two are parts of one paragraph or column."""
    joined: list[str] = []
    _, most = HELP_WIDTHS
    last = ""  # the line before, as it was
    for line in lines:
        indent, text_column = len(line) - len(line.lstrip()), _last_column(last)
        word, *_ = line.split(maxsplit=1) or [""]
        is_broken = len(last) <= most < len(last) + len(word) + 3  # 3: a space and "# "
        if text_column > len(last) - len(last.lstrip()):
            continues = indent == text_column
        else:
            starts_anew = re.match(r"==|[a-z][a-z0-9 ]*: ", line) or _last_column(line)
            continues = bool(word) and not indent and is_broken and not starts_anew
        if continues:
            joined[-1] += f" {line.strip()}"
        else:
            joined.append(line)
        last = line if not (continues and indent) else last  # further lines of a column join too
    return joined


def _last_column(line: str) -> int:
    """Return the place at which the last column of a line begins, from 0."""
    columns = re.match(r" *(\S+( \S+)*  +)*", line)
    assert columns is not None
    return columns.end()


def _wrap(line: str, width: int) -> str:
    """Return a line of a help text, broken into lines of at most `width` characters."""
    if len(line) <= width or re.match(rf"(usage:)? +{re.escape(command_in_use())} ", line):
        return line
    indent = _last_column(line)
    if indent > 2 * width // 3:
        indent = len(line) - len(line.lstrip()) + 4
    return textwrap.fill(
        line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False
    )
