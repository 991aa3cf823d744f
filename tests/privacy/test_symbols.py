"""Text of budgets and of rows of results, in every alphabet."""

from __future__ import annotations

import unicodedata
from functools import partial

import pandas as pd
import pytest

from dpbench.output.names import number_text
from dpbench.privacy import AMOUNTS, GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.privacy.symbols import SYMBOLS, Alphabet, budget_text


def test_every_amount_of_a_budget_has_a_symbol() -> None:
    assert set(AMOUNTS) <= set(SYMBOLS)
    assert all(name == one.name for name, one in SYMBOLS.items())


@pytest.mark.parametrize(
    ("alphabet", "text"),
    [
        ("ascii", "eps=0.5 delta=1e-06"),
        ("name", "epsilon = 0.5, delta = 1e-06"),
        ("unicode", "\N{GREEK SMALL LETTER EPSILON} = 0.5, \N{GREEK SMALL LETTER DELTA} = 1e-06"),
        ("tex", r"$\varepsilon = 0.5$, $\delta = 1e-06$"),
    ],
)
def test_alphabets(alphabet: Alphabet, text: str) -> None:
    assert budget_text(ApproxDP(0.5, 1e-6), alphabet) == text


@pytest.mark.parametrize(
    "budget", [PureDP(2.0), ZCDP(0.1), GDP(3.0), ApproxDP(1.0, 0.1), NonPrivate()]
)
def test_a_row_reads_as_its_budget_does(budget: Budget) -> None:
    (row,) = pd.DataFrame([budget.columns]).to_dict("records")
    for text in (partial(budget_text, label="x"), budget_text):
        assert text(row) == text(budget) == text(budget.named_amounts)
    assert budget_text(dict.fromkeys(AMOUNTS)) == ""


def test_numbers_and_columns_are_parameters() -> None:
    budget = ApproxDP(0.5, 1e-6)
    text = budget_text(budget, "tex", label="x", number=number_text, columns=["delta"])
    assert text == r"x, $\delta = 10^{-6}$"


def test_a_letter_is_its_own_in_every_alphabet() -> None:
    for name, one in SYMBOLS.items():
        assert unicodedata.name(one.unicode) == f"GREEK SMALL LETTER {name.upper()}"
        assert one.tex in (rf"\{name}", rf"\var{name}")
        assert name.startswith(one.ascii)
