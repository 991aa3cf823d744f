"""What ``--help`` and ``--version`` print, and what a misspelt command may have meant."""

from __future__ import annotations

from pathlib import Path

import pytest

import dpbench.report  # noqa: F401 (the figures enter the registry)
from dpbench import __version__
from dpbench.cli import main as cli
from dpbench.jobs import prepare
from tests.bench import Bench


def test_help_has_a_line_for_each_sweep_and_the_version(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    shown = bench.raw("--help", "--config-dir", "conf").out.splitlines()
    (quick,) = [line for line in shown if line.startswith("  quick ")]
    assert quick.split(maxsplit=1)[1] == (
        "8 s, 120 MB    The shape of heavy_tail in some seconds: the default"
    )
    assert "  tiny" in [line.rstrip() for line in shown]
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
    assert cli.run(["clipped_mean"]) == 2
    assert capsys.readouterr().err.endswith(": is a kind; write --help kind clipped_mean\n")
    assert cli.run(["nonsense"]) == 2
    assert capsys.readouterr().err.endswith(
        "site; write sweep=NAME to run a sweep, or --help for all\n"
    )


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("help", "dpbench: benchmarks of differentially private mean estimation."),
        ("-h", "dpbench: benchmarks of differentially private mean estimation."),
        ("help plan", "Plan a private mean or variance: print the error to expect, "),
        ("--help plan", "Plan a private mean or variance: print the error to expect, "),
        ("-h plan", "Plan a private mean or variance: print the error to expect, "),
        ("help heavy_tail", "The privacy exponent k/(k-1), with lower bounds\n"),
        ("help sweep heavy_tail", "The privacy exponent k/(k-1), with lower bounds\n"),
        ("--help clipped_mean", "kind: clipped_mean"),
        ("help error_against_n", "kind: error_against_n"),
    ],
)
def test_ways_to_ask_for_help(words: str, first: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.run(words.split()) == 0
    assert capsys.readouterr().out.startswith(first)


def test_no_word_runs_the_default_sweep_and_names_help(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Nothing:
        folder, stores = Path("results/quick"), None

        def run(self, words: list[str]) -> int:
            assert words == []
            return 0

    monkeypatch.setattr(prepare, "make_job", lambda config, _: Nothing())
    assert cli.run([]) == 0
    told = "dpbench: runs sweep=quick; for all else: python -m dpbench --help\n"
    assert capsys.readouterr() == ("", told)
