"""What figures, captions and pages write for a sweep's entries, parameters and budgets."""

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

__all__ = ["Words", "axis", "exponent_text", "metric_text", "plain", "variant_text"]

# In mathematical text; a parameter that is not here goes by its name.
LETTERS = {
    **{name: SYMBOLS[name].tex for name in (*AMOUNTS, "eta")},
    "d": "d", "k": "k", "m": "m", "n": "n", "norm": r"\|\mu\|", "p": "p", "power": "a",
    "radius": "R", "rounds": "t",
}  # fmt: skip
# On an axis, where it is none of `VARIABLES`, and in plain text.
AXES = {
    "clip": "clipping threshold", "eta": r"share of outliers $\eta$", "p": "probability $p$",
    "power": "power $a$ of the variances", "report": "round", "upper": "upper bound $T$",
}  # fmt: skip
PLAIN = {
    "delta": "ln(1/delta)", "eta": "the share eta of outliers", "norm": "the norm of the mean",
    "radius": "R", "report": "the round", "rounds": "the number of rounds",
    "buckets": "the number of buckets",
}  # fmt: skip


def parameter_text(name: str, value: Any) -> str:
    """A parameter with its value, in mathematical text."""
    if not isinstance(value, int | float):
        return spaced(str(value))
    number = number_text(value)
    return f"${LETTERS[name]} = {number}$" if name in LETTERS else f"{spaced(name)} = ${number}$"


def variant_text(one: Variant[Any], names: Mapping[str, str], *without: str) -> str:
    """An entry with the values of what is swept, but for some parameters."""
    shown = [name for name in one.swept if name not in without]
    name = names.get(one.name, spaced(one.name))
    return ", ".join([name, *(parameter_text(p, one.parameters[p]) for p in shown)])


def axis(parameter: str) -> str:
    """What the axis of a parameter says, in mathematical text."""
    if parameter in VARIABLES:
        return VARIABLES[parameter].axis
    return AXES.get(parameter, spaced(parameter))


def metric_text(column: str) -> str:
    """A column of a summary in words, on one line."""
    words = METRICS[column].words if column in METRICS else spaced(column)
    return words.replace("\n", " ")


def plain(text: str) -> str:
    """A parameter, or words of a metric, without a character that means anything to LaTeX."""
    return PLAIN.get(text, spaced(text)).replace("%", " per cent")


def exponent_text(theorem: Theorem) -> tuple[str, str, str]:
    """The formula that a theorem's exponent stands in: what grows, in what, the exponent."""
    base = VARIABLES[theorem.variable].base
    error = theorem.of == "fixed_n" or base == "n"
    return ("error", base, "c") if error else ("n", base, "s")


@dataclass(frozen=True)
class Words:
    """What is written for a study's entries: their `names` in print, by default with spaces."""

    study: Study
    names: Mapping[str, str] = field(default_factory=dict)

    def family(self, label: str, *without: str) -> str:
        """See `variant_text`."""
        return variant_text(self.study.families[label], self.names, *without)

    def estimator(self, label: str, *without: str) -> str:
        """See `variant_text`."""
        return variant_text(self.study.estimators[label], self.names, *without)

    def claim(self, row: Mapping[Any, Any]) -> tuple[str, str]:
        """The estimator and the law of a claim, which may span a parameter of theirs."""
        variable, told = VARIABLES.get(row["variable"]), []
        spanned = variable.column if variable else ""
        for column, entries in (
            ("estimator", self.study.estimators),
            ("distribution", self.study.families),
        ):
            known = {one.label(spanned): one for one in entries.values()}
            one = known.get(row[column])  # none of a lower bound, or of several laws
            text = (
                variant_text(one, self.names, spanned) if one else spaced(row[column].strip("()"))
            )
            told.append(text)
        return told[0], told[1]

    def notion(self, privacy: str) -> str:
        """What a budget promises; its entry's name in print if it has one."""
        entries = [one for one in self.study.budgets.values() if one.value.label == privacy]
        if named := [self.names[one.name] for one in entries if one.name in self.names]:
            return named[0]
        notion = entries[0].value.notion
        mechanism = spaced(privacy.removeprefix(notion)).strip()
        return ", ".join(filter(None, [NOTIONS[notion], mechanism]))

    def budget(self, about: Mapping[Any, Any], columns: list[str] = BUDGET) -> str:
        """These columns of a row's budget; blank without privacy."""
        if about["privacy"] == "none" or pd.isna(about["privacy"]):
            return ""
        label = self.notion(about["privacy"]) if "privacy" in columns else ""
        return budget_text(about, "tex", label=label, number=number_text, columns=columns)

    def budgets(self, rows: pd.DataFrame, *without: str) -> list[str]:
        """What of every row's budget tells it from other rows', but for some columns."""
        paid = rows[rows["privacy"] != "none"]
        apart = [name for name in BUDGET if name not in without and paid[name].nunique() > 1]
        return [self.budget(row, apart) for row in rows[BUDGET].to_dict("records")]
