"""The card of an entry, and the knowledge that it receives."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

import pytest

from dpbench.benchmark.entries import Entry, catalogue_entries, check_path
from dpbench.benchmark.problems import read_benchmark
from dpbench.benchmark.remote import read_entry
from dpbench.estimators import AdaSSP, BinaryMean, ClippedMean, Estimator, OneRecord
from dpbench.registry import ConfigError, validated
from tests.conftest import entry_text

CHOICE = "    if public.local or"


def test_the_open_division_is_told_the_law(tmp_path: Path) -> None:
    """And the declared one is not."""
    (problem,) = read_benchmark().select("gauss-n100-pure1").problems
    asks = f"    assert public.law == WANTED, public.law\n{CHOICE}"
    text = entry_text().replace(CHOICE, asks)
    (tmp_path / "mine.py").write_text(f"{text}\n\nWANTED = None\n")
    law = {"kind": "gaussian"}
    text = text.replace('"declared"', '"open"')
    (tmp_path / "open_clip.py").write_text(f"{text}\n\nWANTED = {law}\n")
    for name in ("mine", "open_clip"):
        entry = read_entry(tmp_path / f"{name}.py", [problem])
        assert entry.estimator(problem) is not None
    (tmp_path / "wrong.py").write_text(f"{text}\n\nWANTED = None\n")
    with pytest.raises(ConfigError, match=r"AssertionError: \{'kind': 'gaussian'\}"):
        read_entry(tmp_path / "wrong.py", [problem])


def test_a_path_is_a_module(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no such file; give a Python file"):
        check_path(tmp_path / "no.py")
    (tmp_path / "a-b.py").write_text("")
    with pytest.raises(
        ConfigError, match="not the name of a module; use only letters, digits and _"
    ):
        check_path(tmp_path / "a-b.py")


def test_entries_of_the_catalogue_answer_what_they_say() -> None:
    """Only problems of their notions and relations, in their own process."""
    for entry in catalogue_entries():
        for problem in read_benchmark().problems:
            if entry.estimator(problem) is not None:
                assert problem.budget.notion in entry.card.notions
                assert problem.budget.neighbours in entry.card.relations


@validated
class Sums(OneRecord):
    """An estimator of the local model that sees all records at once after all."""

    def report(self, *arguments: Any) -> Any: ...

    def combine(self, *arguments: Any) -> Any: ...

    def estimate(self, sample: Any, ledger: Any) -> Any:
        return super().estimate(sample, ledger)


@pytest.mark.parametrize(
    ("known", "chosen", "told"),
    [
        ({"d": 2}, BinaryMean(), "takes no vectors"),
        ({"d": 3}, AdaSSP(feature_bound=1, response_bound=1), "does not estimate a mean"),
        ({"local": True}, ClippedMean(lower=-1, upper=1), "is not of the local model"),
        ({"local": True}, Sums(), "is not of the local model"),
    ],
)
def test_an_answer_suits_its_problem(known: dict[str, Any], chosen: Estimator, told: str) -> None:
    (problem,) = read_benchmark().select("gauss-n100-pure1").problems
    public = dataclasses.replace(problem.public_knowledge(open_division=False), **known)
    card = next(iter(catalogue_entries())).card
    with pytest.raises(ConfigError, match=told):
        Entry(card, lambda _: chosen).answer(public, "it")
