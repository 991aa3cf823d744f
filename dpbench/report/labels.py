"""Format the names of families, estimators, claims and budgets for figures, captions and pages."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from dpbench.output.names import NOTIONS, display_name, number_text
from dpbench.privacy import AMOUNTS
from dpbench.privacy.symbols import SYMBOLS, budget_text
from dpbench.report.study import Study
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.sweep.selection import BUDGET, Variant
from dpbench.theory.theorems import Theorem

__all__ = [
    "Labels",
    "axis_label",
    "describe_number",
    "exponent_text",
    "metric_text",
    "plain_text",
    "variant_text",
]

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
    """Format a parameter with its value, as in ``$d = 10$``.

    If the value is not a number, the text is only the value.
    """
    if not isinstance(value, int | float):
        return display_name(str(value))
    number = number_text(value)
    return (
        f"${LETTERS[name]} = {number}$" if name in LETTERS else f"{display_name(name)} = ${number}$"
    )


def variant_text(variant: Variant[Any], names: Mapping[str, str], *without: str) -> str:
    """Format the name of an entry with its swept parameters, except those in `without`.

    `names` has printed names, keyed by names in the configuration. An entry without a printed name
    is printed under its own name, with spaces for underscores. Mathematics stands between dollar
    signs.
    """
    shown = [name for name in variant.swept if name not in without]
    name = names.get(variant.name, display_name(variant.name))
    return ", ".join([name, *(parameter_text(p, variant.parameters[p]) for p in shown)])


def axis_label(parameter: str) -> str:
    """Return the label of an axis that shows a parameter, with mathematics between dollar signs."""
    if parameter in VARIABLES:
        return VARIABLES[parameter].axis
    return AXES.get(parameter, display_name(parameter))


def metric_text(column: str) -> str:
    """Return the words for a column of a summary, for example ``interval width (median)``.

    The words are on a single line.
    """
    words = METRICS[column].words if column in METRICS else display_name(column)
    return words.replace("\n", " ")


# Descriptions of the measured number, by the theorem's variable, for claims without an exponent.
MEASURED = {
    "level": "measured ÷ exact, should be 1",
    "best_value": "best parameter over the predicted one",
    "error_over_bound": "error over the lower bound",
    "ratio": "error over another estimator's",
    "limit": "worst value",
    "order": "rank correlation of errors",
    "loss": "error over the smallest error",
}
SUPERSCRIPTS = {"c": "ᶜ", "s": "ˢ"}


def plain_text(text: str) -> str:
    """Return the words for a parameter or a metric, without LaTeX's special characters."""
    return PLAIN.get(text, display_name(text)).replace("%", " per cent")


def exponent_text(theorem: Theorem) -> tuple[str, str, str]:
    """Return the left side, base and exponent of the power law that a theorem states, as texts.

    For example, n ~ (1/α)^s has the left side ``n``, the base ``(1/α)`` and the exponent ``s``. A
    power law for the error has the left side ``error`` and the exponent ``c``.
    """
    base = VARIABLES[theorem.variable].base
    error = theorem.of == "fixed_n" or base == "n"
    return ("error", base, "c") if error else ("n", base, "s")


def describe_number(variable: str, theorem: Theorem | None) -> str:
    """Describe the number that a claim predicts: by a power law for exponents, else in words."""
    if theorem is None or variable not in VARIABLES:
        return MEASURED.get(variable, variable)
    quantity, base, sign = exponent_text(theorem)
    return f"{sign} in {quantity} ~ {base}{SUPERSCRIPTS[sign]}"


@dataclass(frozen=True)
class Labels:
    """Formatter of the names of a study's families, estimators, claims and budgets.

    `names` has printed names of entries, keyed by their names in the configuration. They replace
    those of the study. An entry without a printed name is printed under its own name, with spaces
    for underscores. In all texts, mathematics stands between dollar signs.
    """

    study: Study
    names: Mapping[str, str] = field(default_factory=dict)

    def __post_init__(self) -> None:
        object.__setattr__(self, "names", {**self.study.names, **self.names})

    def family(self, label: str, *without: str) -> str:
        """Format a family's name with its swept parameters, except those in `without`."""
        return variant_text(self.study.families[label], self.names, *without)

    def estimator(self, label: str, *without: str) -> str:
        """Format an estimator's name with its swept parameters, except those in `without`."""
        return variant_text(self.study.estimators[label], self.names, *without)

    def claim(self, row: Mapping[Any, Any]) -> tuple[str, str]:
        """Format the names of the estimator and of the distribution in a row of ``claims.csv``.

        If the claim predicts an exponent in a variable, the two texts leave this variable out. The
        reason is that the row covers several values of the variable.
        """
        variable, texts = VARIABLES.get(row["variable"]), []
        spanned = variable.column if variable else ""
        for column, entries in (
            ("estimator", self.study.estimators),
            ("distribution", self.study.families),
        ):
            variants = {variant.label(spanned): variant for variant in entries.values()}
            variant = variants.get(row[column])  # None if the cell names several entries
            text = (
                variant_text(variant, self.names, spanned)
                if variant
                else display_name(row[column].strip("()"))
            )
            texts.append(text)
        return texts[0], texts[1]

    def notion(self, privacy: str) -> str:
        """Format the notion of privacy of a budget, for example pure DP.

        `privacy` is the label of the budget. If a name to print is given for the budget's entry,
        return this name.
        """
        entries = [
            variant for variant in self.study.budgets.values() if variant.value.label == privacy
        ]
        if named := [self.names[variant.name] for variant in entries if variant.name in self.names]:
            return named[0]
        notion = entries[0].value.notion
        mechanism = display_name(privacy.removeprefix(notion)).strip()
        return ", ".join(filter(None, [NOTIONS[notion], mechanism]))

    def budget(self, row: Mapping[Any, Any], columns: list[str] = BUDGET) -> str:
        """Format those parts of a row's budget that `columns` names; blank without privacy.

        The column ``privacy`` is the notion, and the other columns are amounts.
        """
        if row["privacy"] == "none" or pd.isna(row["privacy"]):
            return ""
        label = self.notion(row["privacy"]) if "privacy" in columns else ""
        return budget_text(row, "tex", label=label, number=number_text, columns=columns)

    def budgets(self, rows: pd.DataFrame, *without: str) -> list[str]:
        """Format the budgets of all rows, with only those columns in which the budgets differ.

        Columns named in `without` are left out. Only rows with privacy are compared.
        """
        paid = rows[rows["privacy"] != "none"]
        differing = [name for name in BUDGET if name not in without and paid[name].nunique() > 1]
        return [self.budget(row, differing) for row in rows[BUDGET].to_dict("records")]
