"""Print the names of a sweep's entries, parameters and budgets in figures, captions and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dpbench.analysis.study import Study
from dpbench.output.style import NOTIONS, number_text, spaced
from dpbench.privacy import AMOUNTS
from dpbench.privacy.symbols import SYMBOLS, budget_text
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.selection import BUDGET, Variant
from dpbench.theory.theorems import Theorem

__all__ = ["Labels", "axis", "exponent_text", "metric_text", "plain_text", "variant_text"]

# Symbols of parameters in mathematical text; others are printed by name.
LETTERS = {
    **{name: SYMBOLS[name].tex for name in (*AMOUNTS, "eta")},
    "d": "d", "k": "k", "m": "m", "n": "n", "norm": r"\|\mu\|", "p": "p", "power": "a",
    "radius": "R", "rounds": "t",
}  # fmt: skip
# Labels of axes for parameters that are not in `VARIABLES`.
AXES = {
    "clip": "clipping threshold", "eta": r"share of outliers $\eta$", "p": "probability $p$",
    "power": "power $a$ of the variances", "report": "round", "upper": "upper bound $T$",
}  # fmt: skip
# Names of parameters in plain text.
PLAIN = {
    "delta": "ln(1/delta)", "eta": "the share eta of outliers", "norm": "the norm of the mean",
    "radius": "R", "report": "the round", "rounds": "the number of rounds",
    "buckets": "the number of buckets",
}  # fmt: skip


def parameter_text(name: str, value: Any) -> str:
    """Format a parameter with its value, in mathematical text.

    Parameters
    ----------
    name : str
        Name of the parameter.
    value : object
        Its value; only numbers are printed with the name.

    Returns
    -------
    str
    """
    if not isinstance(value, int | float):
        return spaced(str(value))
    number = number_text(value)
    return f"${LETTERS[name]} = {number}$" if name in LETTERS else f"{spaced(name)} = ${number}$"


def variant_text(one: Variant[Any], names: Mapping[str, str], *without: str) -> str:
    """Format an entry with the values of its swept parameters.

    Parameters
    ----------
    one : Variant
        The entry.
    names : mapping of str to str
        Printed names of entries, by default each name with spaces for underscores.
    *without : str
        Parameters to leave out.

    Returns
    -------
    str
        Mathematical text.
    """
    shown = [name for name in one.swept if name not in without]
    name = names.get(one.name, spaced(one.name))
    return ", ".join([name, *(parameter_text(p, one.parameters[p]) for p in shown)])


def axis(parameter: str) -> str:
    """Return the axis label of a parameter, in mathematical text."""
    if parameter in VARIABLES:
        return VARIABLES[parameter].axis
    return AXES.get(parameter, spaced(parameter))


def metric_text(column: str) -> str:
    """Return the words for a column of a summary, on a single line."""
    words = METRICS[column].words if column in METRICS else spaced(column)
    return words.replace("\n", " ")


def plain_text(text: str) -> str:
    """Return a parameter or the words of a metric without special characters of LaTeX."""
    return PLAIN.get(text, spaced(text)).replace("%", " per cent")


def exponent_text(theorem: Theorem) -> tuple[str, str, str]:
    """Return the parts of the formula of a theorem's exponent, as in n ~ (1/alpha)^s.

    These are the left side (``n`` or ``error``), the base, and the letter of the exponent.
    """
    base = VARIABLES[theorem.variable].base
    error = theorem.of == "fixed_n" or base == "n"
    return ("error", base, "c") if error else ("n", base, "s")


@dataclass(frozen=True)
class Labels:
    """Printed names for the entries of a study.

    Parameters
    ----------
    study : Study
    names : mapping of str to str
        Printed names by entry, by default each name with spaces for underscores.
    """

    study: Study
    names: Mapping[str, str] = field(default_factory=dict)

    def family(self, label: str, *without: str) -> str:
        """Format a family by its label, see `variant_text`."""
        return variant_text(self.study.families[label], self.names, *without)

    def estimator(self, label: str, *without: str) -> str:
        """Format an estimator by its label, see `variant_text`."""
        return variant_text(self.study.estimators[label], self.names, *without)

    def claim(self, row: Mapping[Any, Any]) -> tuple[str, str]:
        """Format the estimator and the distribution of a claim, without the claim's variable."""
        variable, told = VARIABLES.get(row["variable"]), []
        spanned = variable.column if variable else ""
        for column, entries in (
            ("estimator", self.study.estimators),
            ("distribution", self.study.families),
        ):
            known = {one.label(spanned): one for one in entries.values()}
            one = known.get(row[column])  # None if the cell names several entries
            text = (
                variant_text(one, self.names, spanned) if one else spaced(row[column].strip("()"))
            )
            told.append(text)
        return told[0], told[1]

    def notion(self, privacy: str) -> str:
        """Format the notion of a budget, by the printed name of its entry if there is one."""
        entries = [one for one in self.study.budgets.values() if one.value.label == privacy]
        if named := [self.names[one.name] for one in entries if one.name in self.names]:
            return named[0]
        notion = entries[0].value.notion
        mechanism = spaced(privacy.removeprefix(notion)).strip()
        return ", ".join(filter(None, [NOTIONS[notion], mechanism]))

    def budget(self, about: Mapping[Any, Any], columns: list[str] = BUDGET) -> str:
        """Format the budget of a row.

        Parameters
        ----------
        about : mapping
            The row by column.
        columns : list of str, optional
            Columns of the budget to print, by default all.

        Returns
        -------
        str
            Mathematical text; blank without privacy.
        """
        if about["privacy"] == "none" or pd.isna(about["privacy"]):
            return ""
        label = self.notion(about["privacy"]) if "privacy" in columns else ""
        return budget_text(about, "tex", label=label, number=number_text, columns=columns)

    def budgets(self, rows: pd.DataFrame, *without: str) -> list[str]:
        """Format every row's budget by the columns in which budgets differ.

        Parameters
        ----------
        rows : DataFrame
            Rows with the columns of a budget.
        *without : str
            Columns to leave out.

        Returns
        -------
        list of str
            Mathematical text for each row.
        """
        paid = rows[rows["privacy"] != "none"]
        apart = [name for name in BUDGET if name not in without and paid[name].nunique() > 1]
        return [self.budget(row, apart) for row in rows[BUDGET].to_dict("records")]
