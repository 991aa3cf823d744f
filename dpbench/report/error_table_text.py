"""Text of a table of errors: its caption and its blocks of rows, in LaTeX and in Markdown."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.fallback import FALLBACK_NOTE
from dpbench.output.names import number_text
from dpbench.privacy.symbols import budget_text
from dpbench.report.labels import Labels, metric_text, plain_text
from dpbench.report.latex import BREAKING, escape_latex, tabular
from dpbench.report.page_tables import format_short
from dpbench.report.study import Study
from dpbench.sweep.metrics import METRICS

__all__ = ["BOUND", "FREE", "MAX_COLUMNS", "PRIVATE", "LatexWriter", "MarkdownWriter", "TableBlock"]

# Sets of rows, in the order in which a table shows them.
PRIVATE, FREE, BOUND = "private", "not private", "lower bound"
MAX_COLUMNS = 4  # a page has room for four numbers with intervals beside each other
# Widths in LaTeX, as shares of the width of the text: all columns, and a number at most.
TABLE_WIDTH, NUMBER_WIDTH = 0.95, 0.23


@dataclass(frozen=True)
class TableBlock:
    """Part of a table: one family under one budget, or at one n.

    `family` is a label of the study. `fixed` is the n, or the budget as text, that is equal in all
    rows. `columns` are the budgets, or the n, of the columns. `rows` has numbers with their
    ``role``, ``estimator``, ``budget``, ``n``, ``value``, ``low``, ``high``, ``best``, ``trials``
    and ``distributions``.
    """

    family: str
    fixed: Hashable
    columns: list[Any]
    rows: pd.DataFrame


class _Writer(ABC):
    """Writer of a table of errors in some language.

    The metric is a column of the summary. One of `across` and `fixed` is ``n``, and the other is
    ``budget``. `across` varies over columns, and `fixed` is fixed in a block.
    """

    infinity: str
    missing: str
    mark: str  # beside an error that an estimator reaches without data

    def __init__(self, study: Study, metric: str, across: str, fixed: str) -> None:
        self.study, self.metric, self.across, self.fixed = study, metric, across, fixed
        self.labels = Labels(study)
        self.budgets = {
            budget_text(v.value, label=v.value.label): v.value.columns
            for v in study.budgets.values()
        }

    @abstractmethod
    def document(self, blocks: Sequence[TableBlock]) -> str:
        """Return the whole text: the caption, and the rows of each block."""

    @abstractmethod
    def _code(self, text: str) -> str:
        """Return a name of the configuration, in the font of code."""

    @abstractmethod
    def _value(self, quantity: str, value: Any) -> str:
        """Return an n, or a budget; blank without privacy."""

    @abstractmethod
    def _name(self, label: str, role: str) -> str:
        """Return the name of a row."""

    @abstractmethod
    def _number(self, row: Mapping[Hashable, Any]) -> str:
        """Return a number with its interval."""

    def _heading(self, block: TableBlock, family: str) -> str:
        """Return the family of a block, and its budget or n."""
        several = int(block.rows["distributions"].max())
        worst = f" (worst of {several} distributions)" if several > 1 else ""
        return ", ".join(filter(None, [f"{family}{worst}", self._value(self.fixed, block.fixed)]))

    def _body(self, block: TableBlock) -> list[tuple[str, list[str]]]:
        """Return the role and the cells of each row of a block: its name, then its numbers."""
        lines = []
        for (role, label), row in block.rows.groupby(["role", "estimator"], sort=False):
            cells = {cell[self.across]: self._number(cell) for cell in row.to_dict("records")}
            numbers = [cells.get(column, self.missing) for column in block.columns]
            lines.append((str(role), [self._name(str(label), str(role)), *numbers]))
        return lines

    def _caption(self, blocks: Sequence[TableBlock]) -> str:
        """Return the sentences that explain the table."""
        shown = pd.concat([b.rows[b.rows[self.across].isin(b.columns)] for b in blocks])
        measured = shown[shown["role"] != BOUND]
        trials = sorted({measured["trials"].min(), measured["trials"].max()})
        words = plain_text(metric_text(self.metric))
        worst = (
            " on the worst distribution of each family,"
            if measured["distributions"].max() > 1
            else ""
        )
        interval = METRICS[self.metric].interval
        hidden = any(len(b.columns) < b.rows[self.across].nunique() for b in blocks)
        gap = any(self.missing in cells for b in blocks for _, cells in self._body(b))
        sentences = [
            f"{words[0].upper()}{words[1:]} in the sweep {self._code(self.study.name)},{worst} "
            f"over {' to '.join(f'{count:,.0f}' for count in trials)} trials.",
            f"Brackets: {interval}." if interval else "",
            _bold_sentence(shown, interval),
            _italic_sentence({*shown["role"]}),
            f"{self.mark}: {FALLBACK_NOTE}, so the error says nothing about other means."
            if shown["without_data"].any()
            else "",
            f"The table shows {MAX_COLUMNS} values of {self._value_name} at most."
            if hidden
            else "",
            f"{self.infinity}: too many trials released nothing."
            if np.isinf(measured["value"]).any()
            else "",
            f"{self.missing}: not run." if gap else "",
        ]
        return " ".join(filter(None, sentences))

    @property
    def _value_name(self) -> str:
        return "n" if self.across == "n" else "the budget"


def _bold_sentence(shown: pd.DataFrame, interval: str | None) -> str:
    """Return a sentence that explains bold numbers; "" if there are none."""
    if not shown["best"].any():
        return ""
    ties = ", and each error whose interval overlaps the interval of the smallest"
    return (
        "Bold: the smallest error of several private estimators in a column"
        f"{ties if interval else ''}."
    )


def _italic_sentence(roles: set[str]) -> str:
    """Return a sentence that explains rows in italics; "" if there are none."""
    meanings = {FREE: "estimators without privacy", BOUND: "the lower bound"}
    texts = [text for role, text in meanings.items() if role in roles]
    no_smaller = (
        " No private estimator has errors below the bound on all distributions of the class."
        if BOUND in roles
        else ""
    )
    return f"Italic: {' and '.join(texts)}.{no_smaller}" if texts else ""


class LatexWriter(_Writer):
    """Writer of LaTeX, with the rules of booktabs."""

    infinity, missing, mark = r"$\infty$", "--", "$^*$"

    def document(self, blocks: Sequence[TableBlock]) -> str:
        width = max(len(block.columns) for block in blocks)
        shared = blocks[0].columns if all(b.columns == blocks[0].columns for b in blocks) else []
        lines: list[list[str]] = []
        for block in blocks:
            title = self._heading(block, escape_latex(self.labels.family(block.family)))
            span = rf"\multicolumn{{{width + 1}}}{{@{{}}p{{0.98\linewidth}}@{{}}}}"
            gap = r"\addlinespace" if lines else ""
            above, last = [rf"{gap}{span}{{{title}}} \\*"], PRIVATE
            if not shared:
                blank = [""] * (width - len(block.columns))
                above.append(" & ".join(["", *self._header(block), *blank]) + r" \\*")
            for role, cells in self._body(block):
                above += [r"\addlinespace"] * (role != last and not above)
                cells[0] = "\n".join([*above, cells[0]])
                above, last = [], role
                lines.append([*cells, *[""] * (width + 1 - len(cells))])
        header = ["Estimator", *self._header(blocks[0])] if shared else []
        share = min(NUMBER_WIDTH, TABLE_WIDTH / (width + 1))
        shares = [min(TABLE_WIDTH - width * share, 2 * NUMBER_WIDTH), *[share] * width]
        columns = "".join(f"{BREAKING}p{{{share:.3f}\\linewidth}}" for share in shares)
        label = rf"\label{{tab:{self.study.name}-errors}}"
        title = rf"\caption{{{self._caption(blocks)}}}{label}"
        return tabular(f"@{{}}{columns}@{{}}", header, lines, title)

    def _header(self, block: TableBlock) -> list[str]:
        return [self._value(self.across, column) for column in block.columns]

    @property
    def _value_name(self) -> str:
        return "$n$" if self.across == "n" else "the budget"

    def _code(self, text: str) -> str:
        return rf"\texttt{{{escape_latex(text)}}}"

    def _value(self, quantity: str, value: Any) -> str:
        if quantity == "n":
            return f"$n = {number_text(value)}$"
        return (
            escape_latex(self.labels.budget(self.budgets[value])) if value in self.budgets else ""
        )

    def _name(self, label: str, role: str) -> str:
        name = label if role == BOUND else escape_latex(self.labels.estimator(label))
        return name if role == PRIVATE else rf"\emph{{{name}}}"

    def _number(self, row: Mapping[Hashable, Any]) -> str:
        texts, power = _digits(row)
        times = "" if power is None else rf"{{\cdot}}10^{{{power}}}"  # LaTeX does not break it
        number, *ends = (text.replace("∞", r"\infty") for text in texts)
        number += "" if np.isinf(row["value"]) else times
        number = rf"\mathbf{{{number}}}" if row["best"] else number
        number += "^*" if row["without_data"] else ""
        return f"${number}$" + (f" $[{', '.join(ends)}]{times}$" if ends else "")


class MarkdownWriter(_Writer):
    """Writer of Markdown, with the tables of GitHub."""

    infinity, missing, mark = "∞", "--", r"\*"

    def document(self, blocks: Sequence[TableBlock]) -> str:
        parts = [self._caption(blocks)]
        for block in blocks:
            header = ["estimator", *(self._value(self.across, column) for column in block.columns)]
            rules = ["---", *["---:"] * len(block.columns)]
            lines = [header, rules, *(cells for _, cells in self._body(block))]
            parts.append(f"**{self._heading(block, self._code(block.family))}**")
            parts.append("\n".join(f"| {' | '.join(cells)} |" for cells in lines))
        return "\n\n".join(parts) + "\n"

    def _code(self, text: str) -> str:
        return f"`{text}`".replace("|", r"\|")

    def _value(self, quantity: str, value: Any) -> str:
        if quantity == "n":
            return f"n = {format_short(float(value))}"
        if value not in self.budgets:
            return ""
        row = self.budgets[value]
        return budget_text(row, "unicode", label=self.labels.notion(str(row["privacy"])))

    def _name(self, label: str, role: str) -> str:
        name = label if role == BOUND else self._code(label)
        return name if role == PRIVATE else f"*{name}*"

    def _number(self, row: Mapping[Hashable, Any]) -> str:
        texts, power = _digits(row)
        times = "" if power is None else f"e{power}"
        number, *ends = (text if text == "∞" else f"{text}{times}" for text in texts)
        number = f"**{number}**" if row["best"] else number
        number += self.mark if row["without_data"] else ""
        return number + (f" [{', '.join(ends)}]" if ends else "")


def _digits(row: Mapping[Hashable, Any]) -> tuple[list[str], int | None]:
    """Return a number and the ends of its interval as texts, with a common power of ten.

    The number has three significant digits, and the ends as many decimals as the number. The power
    is None for numbers from 0.01 to 10,000. The list has only the number if no interval is known.
    """
    value, ends = row["value"], [row["low"], row["high"]]
    numbers = [value] if np.isnan(ends).any() else [value, *ends]
    shown = next((x for x in numbers if np.isfinite(x) and x != 0), 0.0)
    exponent = int(f"{shown:.2e}".partition("e")[2])
    is_plain = -2 <= exponent <= 3
    decimals = max(0, 2 - exponent) if is_plain else 2
    scale = 1.0 if is_plain else 10.0**exponent
    texts = ["∞" if np.isinf(x) else f"{x / scale:.{decimals}f}" for x in numbers]
    return texts, None if is_plain else exponent
