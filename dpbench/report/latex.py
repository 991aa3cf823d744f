"""Write LaTeX: figures with captions, and tables of claims."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.claims import shown_verdicts
from dpbench.analysis.fallback import FALLBACK_NOTE
from dpbench.output.files import Checksums, atomic
from dpbench.output.names import display_name, number_text
from dpbench.output.verdicts import EARLY
from dpbench.privacy import AMOUNTS
from dpbench.privacy.symbols import SYMBOLS
from dpbench.report.drawing.style import Canvas
from dpbench.report.error_curves import ABOVE, BELOW, FALLBACK
from dpbench.report.error_figures import BOUND_LABEL
from dpbench.report.figures import DrawnFigure
from dpbench.report.labels import Labels, parameter_text
from dpbench.report.run_result import Result
from dpbench.report.study import Figure
from dpbench.sweep.metrics import VARIABLES
from dpbench.sweep.selection import Variant

__all__ = [
    "TEXT_COLUMN", "caption", "claim_rows", "claims_table", "escape_latex", "tabular",
    "to_latex", "write_snippet",
]  # fmt: skip

# Explanations in captions, by the entries of a legend that are no measurements.
LINES = {
    "slope by theory": "dotted: the slope of theory, through the geometric mean of the points",
    "exact slope at these n": "dashes and dots: the slope of exact errors at these n, through the "
    "geometric mean of the points",
    "slowest slope by theory": "dotted: the slowest decrease that theory allows, through the "
    "geometric mean of the points",
    "limit by theory": "horizontal, dotted: the limit that theory states",
    "theory": "dotted: theory",
    "exact noise": "dotted: the exact noise",
    "largest bias of the class": "dashes and dots: the largest bias of the class",
    "theory, all terms": "dotted: the sum of the theorem's terms, which are grey",
    "direct search": "diamonds: found by direct search",
    "sampling overtakes privacy": "vertical: the n at which sampling overtakes privacy in the "
    "lower bound",
    BOUND_LABEL: "solid black: the lower bound, below which (shaded) no private estimator can be "
    "on all distributions of the class; on an easy distribution it can",
    ABOVE: "triangles at the upper edge: errors far above those of the other curves",
    BELOW: "triangles at the lower edge: values of 0, or of the size of a rounding error",
    FALLBACK: f"triangles at the lower edge: errors near 0, because {FALLBACK_NOTE}; they say "
    "nothing about other means",
}
HEADER = (
    "Estimator", "Law", "Budget", "Theorem", "At these $n$", r"Measured (95\%)", "Verdict",
)  # fmt: skip
# Columns whose words break into lines, and intervals below their numbers, fit into 12 cm.
BREAKING = r">{\raggedright\arraybackslash\hspace{0pt}}"
TEXT_COLUMN, MEASURED_COLUMN = (rf"{BREAKING}p{{{share}\linewidth}}" for share in (0.13, 0.17))
COLUMNS = rf"@{{}}*{{3}}{{{TEXT_COLUMN}}}rr{MEASURED_COLUMN}{TEXT_COLUMN}@{{}}"
CODE = ", a check of the code"
# Number of rows, of three or four lines each, that fit on a page; more rows become a longtable.
MAX_TABULAR_ROWS = 15
# The width of a column in the style, at most the column of the document.
WIDTH = r"\ifdim\columnwidth<3.4in \columnwidth\else 3.4in\fi"
SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}
# A formula in plain text: symbols and numbers, brackets, and operators or spaces between them.
SYMBOL = rf"(?:{'|'.join(SYMBOLS)}|[TRdkmnp])(?![\w'])"
NUMBER = r"\d+(?:\.\d+)?(?:e[+-]?\d+)?(?!\w|\.\d)"
ATOM = rf"\(*-?(?:ln ?)?\(*(?:{SYMBOL}|{NUMBER})\)*"
BETWEEN = rf"(?:[/^*+-]| [=<>+] |(?<=\w) (?={SYMBOL})|(?<=\))(?=\())"
FORMULA = re.compile(rf"(?<![\w.-]){ATOM}(?:{BETWEEN}{ATOM})*")
# Replaces the Unicode symbols in the base of an exponent.
UNICODE = str.maketrans(
    {"\N{DOUBLE VERTICAL LINE}": r"\|"} | {s.unicode: f"{s.tex} " for s in SYMBOLS.values()}
)


def escape_latex(text: str) -> str:
    """Escape the special characters of LaTeX, except in mathematics between dollar signs."""
    parts = text.split("$")
    return "$".join(
        part if i % 2 else "".join(SPECIAL.get(character, character) for character in part)
        for i, part in enumerate(parts)
    )


def to_latex(text: str) -> str:
    r"""Turn plain text into LaTeX: ``1/(alpha epsilon)`` becomes $1/(\alpha \varepsilon)$."""
    parts = text.split("$")
    return escape_latex(
        "$".join(p if i % 2 else FORMULA.sub(_format_formula, p) for i, p in enumerate(parts))
    )


def _format_formula(match: re.Match[str]) -> str:
    """Turn a formula in plain text into mathematical text, for `to_latex`.

    Plain numbers, and formulas with unmatched brackets, stay as they are.
    """
    text, after = match[0], ""
    while text.count(")") > text.count("("):
        text, _, tail = text.rpartition(")")
        after = f"){tail}{after}"
    if not re.search(rf"{SYMBOL}|\^|\de[+-]?\d", text) or text.count("(") != text.count(")"):
        return match[0]
    text = re.sub(r"\d+(?:\.\d+)?e[+-]?\d+", lambda number: number_text(float(number[0])), text)
    text = re.sub(r"\b(?:" + "|".join(SYMBOLS) + r")\b", lambda name: SYMBOLS[name[0]].tex, text)
    text = re.sub(r"\bln\b", r"\\ln", text)
    text = re.sub(r"\^\(([^()]*)\)|\^(\d+)", lambda power: f"^{{{power[1] or power[2]}}}", text)
    return f"${text}${after}"


def write_snippet(
    figure: Figure,
    result: Result,
    canvas: Canvas,
    folder: Path,
    name: str,
    *,
    names: Mapping[str, str] | None = None,
    checksums: Checksums | None = None,
) -> None:
    """Write ``<name>.tex``, which includes the figure ``<name>.pdf`` with a caption.

    Comments above the figure say what it shows, and explain the entries of the legend of `canvas`.
    `names` has printed names of entries, keyed by their names in the configuration. The checksum
    of the written file is added to `checksums`, keyed by path.
    """
    assert isinstance(figure, DrawnFigure)
    text, details = caption(figure, result, canvas, names or {})
    lines = [
        "% needs the package graphicx; \\graphicspath says where the figure lies",
        *(f"% {sentence}" for sentence in details),
        r"\begin{figure}",
        r"  \centering",
        rf"  \includegraphics[width={WIDTH}]{{{name}.pdf}}",
        rf"  \caption{{{text}}}",
        rf"  \label{{fig:{name}}}",
        r"\end{figure}",
    ]
    with atomic(folder / f"{name}.tex", checksums) as path:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def caption(
    figure: DrawnFigure, result: Result, canvas: Canvas, names: Mapping[str, str]
) -> tuple[str, list[str]]:
    """Return the caption of a figure as a paragraph of LaTeX, and further sentences.

    The caption has the configured caption, the range of n, trials and seed, and the kind of
    intervals. The further sentences name the axes, the data, estimators and budgets, and explain
    the lines in the legend of `canvas`. `names` has printed names of entries, keyed by their names
    in the configuration.
    """
    rows, study = figure.summary_rows(result), result.study
    words = Labels(study, names)
    shown, intervals = figure.describe()
    entries = {text.get_text() for legend in canvas.legends for text in legend.get_texts()}
    lines = [text for label, text in LINES.items() if label in entries]
    families = [study.families[label] for label in rows["family"].unique()]
    estimators = [study.estimators[label] for label in rows["estimator"].unique()]
    sentences = [
        figure.caption.rstrip("."),
        f"{_format_range('$n$', rows['n'])}; {_format_range('trials per point', rows['trials'])}; "
        f"seed {result.seed}",
        intervals[0].upper() + intervals.partition(";")[0][1:],
    ]
    details = [
        f"Shown: {shown}",
        f"Data: {_describe_entries(families, words.names)}",
        f"Estimators: {_describe_entries(estimators, words.names)}",
        f"Budgets: {_format_budgets(rows, words)}",
        "; ".join([*intervals.split("; ")[1:], *lines]),
    ]
    text = ". ".join(filter(None, sentences))
    return to_latex(f"{text}."), [to_latex(f"{one}.") for one in details if one]


def _describe_entries(variants: Iterable[Variant[Any]], names: Mapping[str, str]) -> str:
    """Format families or estimators, each with its kind and parameters in brackets.

    Only parameters that are numbers or words are printed.
    """
    entries: dict[str, list[Variant[Any]]] = {}
    for variant in variants:
        entries.setdefault(variant.name, []).append(variant)
    texts = []
    for name, same_kind in entries.items():
        details = [display_name(_kind_name(same_kind[0].value))]
        value = same_kind[0].value
        for parameter in value if isinstance(value, Mapping) else same_kind[0].parameters:
            values = {
                variant.parameters[parameter]
                for variant in same_kind
                if _is_printed(variant, parameter)
            }
            if values:
                details.append(_format_parameter(parameter, sorted(values)))
        texts.append(f"{names.get(name, display_name(name))} ({'; '.join(details)})")
    return ", ".join(texts)


def _format_parameter(parameter: str, values: Sequence[Any]) -> str:
    """Format a parameter with one or several values, with mathematics between dollar signs."""
    if isinstance(values[0], bool):
        values = ["yes" if value else "no" for value in values]
    if isinstance(values[0], str):
        return f"{display_name(parameter)} = {', '.join(map(display_name, values))}"
    others = [f"${number_text(value)}$" for value in values[1:]]
    first = parameter_text(parameter, values[0])
    return ", ".join([first, *others])


def _is_printed(variant: Variant[Any], parameter: str) -> bool:
    is_text_or_number = isinstance(variant.parameters[parameter], int | float | str)
    return is_text_or_number and parameter not in {"kind", "_target_"}


def _kind_name(entry: Any) -> str:
    """Return the kind of a family or estimator, from its configuration or from its class."""
    if isinstance(entry, Mapping):
        return str(entry.get("kind") or entry["_target_"])
    # A family of a single distribution has its kind.
    return str(getattr(entry, "distribution", entry).kind_name())


def _format_budgets(rows: pd.DataFrame, words: Labels) -> str:
    """Format the budgets of some rows: each notion of privacy with its amounts."""
    texts = []
    for label, paid in rows[rows["privacy"] != "none"].groupby("privacy"):
        amount_names = [name for name in AMOUNTS if paid[name].notna().all()]
        amounts = [_format_parameter(name, sorted(paid[name].unique())) for name in amount_names]
        texts.append(", ".join([words.notion(str(label)), *amounts]))
    return "; ".join(texts) or "none"


def _format_range(name: str, values: pd.Series[float]) -> str:
    low, high = (f"${number_text(value)}$" for value in (values.min(), values.max()))
    return f"{name} from {low} to {high}" if low != high else f"{name}: {low}"


def claim_rows(
    result: Result, labels: Sequence[str], names: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Format the measured claims with these labels as rows of a LaTeX table, for `claims_table`.

    The first cell of a row is the heading of its claim, equal in all rows of the claim. `names` has
    printed names of entries, keyed by their names in the configuration.
    """
    words = Labels(result.study, names or {})
    rows = []
    for row in result.claims[result.claims["claim"].isin(labels)].to_dict("records"):
        at_most = result.study.all_claims[row["claim"]].statement.at_most
        limit = r"\leq " if at_most else ""
        numbers = [row["measured"], row["low"], row["high"]]
        is_known = bool(np.all(np.isfinite(numbers)))
        title = f"{escape_latex(row['claim'])}: {_describe_subject(row['variable'])}"
        rows.append(
            [
                rf"{title}, $\pm {row['tolerance']:g}${CODE if row['checks'] == 'code' else ''}",
                *map(escape_latex, (*words.claim(row), words.budget(row))),
                *(_format_stated(row[name], limit) for name in ("theorem", "exact_at_run_n")),
                "${}$ $[{}, {}]$".format(*map(_format_digits, numbers)) if is_known else "--",
                _format_verdict(row),
            ]
        )
    return rows


def _format_stated(number: float, limit: str) -> str:
    """Format the number that a theorem states; blank if there is none.

    `limit` is text before the number, for example a sign for at most.
    """
    return f"${limit}{number:.3f}$" if np.isfinite(number) else ""


def _format_verdict(row: Mapping[Any, Any]) -> str:
    """Return the verdict on a theorem; if it differs, also the verdict at the n that were run.

    The second verdict compares the measurement with the exact number at these sample sizes n. It is
    left out if the first verdict is that the measurement is pre-asymptotic. Without a verdict
    on the theorem, only the second verdict is returned.
    """
    word, here = shown_verdicts(row)
    return f"{word}, at these $n$ {here}" if here and word != EARLY else word


def _describe_subject(name: str) -> str:
    """Return words for the number that a claim measures, for example ``exponent of $n$``.

    If `name` is the name of a variable, the number is the exponent of this variable. Any other
    `name`, such as ``ratio``, is returned unchanged.
    """
    if name not in VARIABLES:
        return name
    text = VARIABLES[name].base.translate(UNICODE)
    return "exponent of $" + text.replace("ln", r"\ln") + "$"


def claims_table(rows: Sequence[Sequence[str]]) -> str:
    """Format the rows of `claim_rows` as a LaTeX table, each heading once above its rows."""
    lines: list[Sequence[str]] = []
    for heading, group in groupby(rows, itemgetter(0)):
        above = rf"\addlinespace\multicolumn{{{len(HEADER)}}}{{@{{}}l@{{}}}}{{{heading}}} \\*"
        first, *others = (row[1:] for row in group)
        lines += [[f"{above}\n{first[0]}", *first[1:]], *others]
    return tabular(COLUMNS, HEADER, lines)


def tabular(
    columns: str, header: Sequence[str], rows: Sequence[Sequence[str]], title: str = ""
) -> str:
    """Format a table for LaTeX with the rules of booktabs.

    In all cells, special characters of LaTeX are escaped already. An empty `header` gives no head.
    `title` is the LaTeX of a caption and label; with a title, a ``tabular`` floats. More than
    `MAX_TABULAR_ROWS` (15) rows become a ``longtable``.
    """
    long = len(rows) > MAX_TABULAR_ROWS
    kind = "longtable" if long else "tabular"
    packages = ", booktabs and longtable, and one column to a page" if long else " and booktabs"
    head = [r"\toprule", *([_format_line(header), r"\midrule"] if header else [])]
    head += [r"\endhead", r"\bottomrule", r"\endfoot"] if long else []
    lines = [
        r"{\footnotesize\setlength{\tabcolsep}{2pt}",
        rf"\begin{{{kind}}}{{{columns}}}",
        *([rf"{title} \\"] if title and long else []),
        *head,
        *map(_format_line, rows),
        *([] if long else [r"\bottomrule"]),
        rf"\end{{{kind}}}}}",
    ]
    if title and not long:
        lines = [r"\begin{table}", r"\centering", title, r"\smallskip", *lines, r"\end{table}"]
    return "\n".join([f"% needs the packages array{packages}", *lines]) + "\n"


def _format_line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _format_digits(value: float) -> str:
    """Format a number with three decimals, or with two digits if it is below 0.005."""
    if abs(value) >= 5e-3 or value == 0:
        return f"{value:.3f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"
