"""Help texts as a terminal shows them."""

from __future__ import annotations

import pytest

from dpbench.app import commands
from dpbench.cli.help import HELP
from dpbench.output.help_page import help_page

USAGE = """\
usage: python -m dpbench plan n=5000 epsilon=1 lower=0 upper=300 law=log_normal law.scale=50 alpha=1

A paragraph whose lines the source breaks near 100 characters, as this one, which is the first and
goes on here, before a line that ends early.
key: a line of its own.

  n=N        the number of records, in a column whose text goes on in the next line of the source
             as here
  bounds=    two, which are public"""


def test_text_is_wrapped_at_the_width_of_the_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DPBENCH_COMMAND", raising=False)
    monkeypatch.setenv("COLUMNS", "70")
    assert help_page(USAGE).splitlines() == [
        USAGE.splitlines()[0],  # commands stay whole
        "",
        "A paragraph whose lines the source breaks near 100 characters, as this",
        "one, which is the first and goes on here, before a line that ends",
        "early.",
        "key: a line of its own.",
        "",
        "  n=N        the number of records, in a column whose text goes on in",
        "             the next line of the source as here",
        "  bounds=    two, which are public",
    ]


@pytest.mark.parametrize(("columns", "width"), [("1", 60), ("60", 60), ("80", 80), ("999", 100)])
def test_no_line_of_help_is_longer(
    columns: str, width: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Lines have at least 60 and at most 100 characters, and no word is lost."""
    monkeypatch.setenv("COLUMNS", columns)
    for text in (HELP, *(command.usage for command in commands().values())):
        page = help_page(text)
        assert page.split() == text.split()
        prose = [line for line in page.splitlines() if "python -m dpbench" not in line]
        assert max(map(len, prose)) <= width
        assert columns != "999" or max(map(len, prose)) > 80


def test_help_names_the_command_in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DPBENCH_COMMAND", "bash dev.sh bench")
    assert help_page(USAGE).startswith("usage: bash dev.sh bench plan n=5000 epsilon=1 ")
