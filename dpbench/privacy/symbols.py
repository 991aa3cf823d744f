"""Symbols of privacy parameters, and the text form of budgets.

`SYMBOLS` is the only table of the symbols, and `budget_text` is the only function that writes the
privacy parameters of a budget. Terminal tables, pages, figures and LaTeX all call this function.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from dpbench.privacy.budgets import AMOUNTS, Budget

__all__ = ["SYMBOLS", "Alphabet", "Symbol", "budget_text"]

Alphabet = Literal["name", "ascii", "unicode", "tex"]


@dataclass(frozen=True)
class Symbol:
    """Greek letter in several alphabets: name, short ASCII form, Unicode character, TeX command."""

    name: str
    ascii: str
    unicode: str
    tex: str


SYMBOLS = {
    symbol.name: symbol
    for symbol in (
        Symbol("alpha", "alpha", "\N{GREEK SMALL LETTER ALPHA}", r"\alpha"),
        Symbol("delta", "delta", "\N{GREEK SMALL LETTER DELTA}", r"\delta"),
        Symbol("epsilon", "eps", "\N{GREEK SMALL LETTER EPSILON}", r"\varepsilon"),
        Symbol("eta", "eta", "\N{GREEK SMALL LETTER ETA}", r"\eta"),
        Symbol("kappa", "kappa", "\N{GREEK SMALL LETTER KAPPA}", r"\kappa"),
        Symbol("mu", "mu", "\N{GREEK SMALL LETTER MU}", r"\mu"),
        Symbol("rho", "rho", "\N{GREEK SMALL LETTER RHO}", r"\rho"),
        Symbol("sigma", "sigma", "\N{GREEK SMALL LETTER SIGMA}", r"\sigma"),
    )
}
# Format of an amount, and separator between amounts.
FORMS: dict[Alphabet, tuple[str, str]] = {
    "name": ("{} = {}", ", "),
    "ascii": ("{}={}", " "),
    "unicode": ("{} = {}", ", "),
    "tex": ("${} = {}$", ", "),
}


def budget_text(
    budget: Budget | Mapping[Any, Any],
    alphabet: Alphabet = "ascii",
    *,
    label: str = "",
    number: Callable[[float], str] = "{:g}".format,
    columns: Collection[str] = AMOUNTS,
) -> str:
    """Return a budget as text: `label`, then its privacy parameters.

    A mapping is a row of results, with a column for each privacy parameter; parameters that do not
    apply are None or NaN. The alphabet ``ascii`` is the shortest, for tables of 80 columns:
    ``eps=0.5 delta=1e-06``. `number` formats a parameter, by default with six digits. Only the
    parameters in `columns` are written. The text is empty if there is neither a label nor a
    parameter.
    """
    row = budget.named_amounts if isinstance(budget, Budget) else budget
    form, between = FORMS[alphabet]
    values = ((name, row.get(name)) for name in AMOUNTS if name in columns)
    amounts = [
        form.format(getattr(SYMBOLS[name], alphabet), number(amount))
        for name, amount in values
        if amount is not None and not math.isnan(amount)
    ]
    return between.join(filter(None, [label, *amounts]))
