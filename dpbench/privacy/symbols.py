"""Symbols of privacy parameters, and budgets in words.

`SYMBOLS` is the only table of these letters, and `budget_text` the only function that writes the
amounts of a budget: tables on a terminal, the page, figures and LaTeX differ in its parameters.
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
    """A Greek letter by its name, in a few ASCII characters, in Unicode and in TeX."""

    name: str
    ascii: str
    unicode: str
    tex: str


SYMBOLS = {
    one.name: one
    for one in (
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
# How an amount is written, and what stands between amounts.
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
    """Write a budget: its label and its amounts.

    Parameters
    ----------
    budget : Budget or mapping
        A mapping is a row of results: it has the amounts in columns of these names, None or NaN
        where they do not apply.
    alphabet : {'ascii', 'name', 'unicode', 'tex'}
        ``ascii`` is the shortest one, for tables of 80 columns: ``eps=0.5 delta=1e-06``.
    label : str
        Text in front of the amounts, such as the notion; blank for none.
    number : callable
        Writes an amount.
    columns : collection of str
        The amounts to write; all by default.

    Returns
    -------
    str
        Blank without a label and amounts.
    """
    row = budget.named_amounts if isinstance(budget, Budget) else budget
    form, between = FORMS[alphabet]
    known = ((name, row.get(name)) for name in AMOUNTS if name in columns)
    amounts = [
        form.format(getattr(SYMBOLS[name], alphabet), number(amount))
        for name, amount in known
        if amount is not None and not math.isnan(amount)
    ]
    return between.join(filter(None, [label, *amounts]))
