"""What ``--help`` and ``--version`` print, and what a misspelt command may have meant."""

from __future__ import annotations

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench import __version__, cli
from tests.bench import Bench


def test_help_has_a_line_for_each_sweep_and_the_version(bench: Bench) -> None:
    shown = bench.raw("--help", "--config-dir", "conf").out.splitlines()
    (quick,) = [line for line in shown if line.startswith("  quick ")]
    assert quick.endswith("The shape of heavy_tail in some seconds: the default")
    assert "  tiny" in [line.rstrip() for line in shown]
    assert max(len(line) for line in shown if line.startswith("  ")) <= 100
    assert bench.raw("--version") == (0, f"dpbench {__version__}\n", "")


def test_a_misspelt_command(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(["plann", "n=3"]) == 2
    assert capsys.readouterr().err.startswith(
        "dpbench: plann: no such command; did you mean 'plan'?"
    )
    assert cli.run(["heavy_tail"]) == 2
    assert capsys.readouterr().err == "dpbench: heavy_tail: is a sweep; write sweep=heavy_tail\n"
    assert cli.run(["heavy_tial"]) == 2
    assert capsys.readouterr().err.endswith("no such command, nor sweep; write sweep=heavy_tail\n")
