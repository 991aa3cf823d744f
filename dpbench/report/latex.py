"""Write figures with captions, and tables of claims, for LaTeX."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from dpbench.analysis.result import Result
from dpbench.analysis.study import Figure
from dpbench.output.files import Stamps, atomic
from dpbench.output.style import Canvas, number_text, spaced
from dpbench.output.verdicts import CLAIMS, EARLY
from dpbench.privacy import AMOUNTS
from dpbench.privacy.symbols import SYMBOLS
from dpbench.report.figures import DrawnFigure
from dpbench.report.labels import Labels, parameter_text
from dpbench.sweep.metrics import VARIABLES
from dpbench.sweep.selection import Variant

__all__ = ["TEXT", "caption", "claim_rows", "claims_table", "escaped", "latex", "tabular"]
__all__ += ["write_snippet"]

# Explanations in captions for the lines of a legend that are no measurements.
LINES = {
    "slope by theory": "dotted: the slope of theory, through the geometric mean of the points",
    "exact slope at these n": "dotted: the slope of exact errors at these n, through the "
    "geometric mean of the points",
    "slowest slope by theory": "dotted: the slowest decrease that theory allows, through the "
    "geometric mean of the points",
    "theory": "dotted: theory",
    "theory, all terms": "dotted: the sum of the theorem's terms, which are grey",
    "direct search": "diamonds: found by direct search",
    "sampling overtakes privacy": "vertical: the n at which sampling overtakes privacy in the "
    "lower bound",
    "lower bound": "solid black: the lower bound, below which (shaded) no private "
    "estimator can be on all distributions of the class",
}
HEADER = (
    "Estimator", "Law", "Budget", "Theorem", "At these $n$", r"Measured (95\%)", "Verdict",
)  # fmt: skip
# Lets all words break into lines, and intervals stand below their numbers, to fit into 12 cm.
BREAKING = r">{\raggedright\arraybackslash\hspace{0pt}}"
TEXT, MEASURED = (rf"{BREAKING}p{{{share}\linewidth}}" for share in (0.13, 0.17))
COLUMNS = rf"@{{}}*{{3}}{{{TEXT}}}rr{MEASURED}{TEXT}@{{}}"
CODE = ", a check of the code"
# Rows of three or four lines that fit on a page; a longer table becomes a longtable.
MOST_ROWS = 15
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


def escaped(text: str) -> str:
    """Escape the special characters of LaTeX, except in mathematics between dollar signs."""
    parts = text.split("$")
    return "$".join(
        part if i % 2 else "".join(SPECIAL.get(character, character) for character in part)
        for i, part in enumerate(parts)
    )


def latex(text: str) -> str:
    r"""Turn plain text into LaTeX: ``1/(alpha epsilon)`` becomes $1/(\alpha \varepsilon)$."""
    parts = text.split("$")
    return escaped("$".join(p if i % 2 else FORMULA.sub(_formula, p) for i, p in enumerate(parts)))


def _formula(found: re.Match[str]) -> str:
    """Turn a formula into mathematical text; keep plain numbers and unmatched brackets."""
    text, after = found[0], ""
    while text.count(")") > text.count("("):
        text, _, tail = text.rpartition(")")
        after = f"){tail}{after}"
    if not re.search(rf"{SYMBOL}|\^|\de[+-]?\d", text) or text.count("(") != text.count(")"):
        return found[0]
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
    stamps: Stamps | None = None,
) -> None:
    """Write ``<name>.tex``, which includes the figure ``<name>.pdf`` with a caption.

    Parameters
    ----------
    figure : Figure
    result : Result
        The result that the figure shows.
    canvas : matplotlib Figure
        The drawn figure.
    folder : Path
        Folder of both files.
    name : str
        Name of both files, without ending.
    names : mapping of str to str, optional
        Printed names of entries.
    stamps : dict, optional
        Receives the stamp of the written file.
    """
    assert isinstance(figure, DrawnFigure)
    text = caption(figure, result, canvas, names or {})
    lines = [
        "% needs the package graphicx; \\graphicspath says where the figure lies",
        r"\begin{figure}",
        r"  \centering",
        rf"  \includegraphics[width={WIDTH}]{{{name}.pdf}}",
        rf"  \caption{{{text}}}",
        rf"  \label{{fig:{name}}}",
        r"\end{figure}",
    ]
    with atomic(folder / f"{name}.tex", stamps) as path:
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")


def caption(figure: DrawnFigure, result: Result, canvas: Canvas, names: Mapping[str, str]) -> str:
    """Return a paragraph: the figure's caption, its axes, the setting, trials, seed and intervals.

    Parameters
    ----------
    figure : Figure
    result : Result
        The result that the figure shows.
    canvas : matplotlib Figure
        The drawn figure.
    names : mapping of str to str
        Printed names of entries.

    Returns
    -------
    str
        LaTeX.
    """
    rows, study = figure.rows(result), result.study
    shown, intervals = figure.describe()
    entries = {text.get_text() for legend in canvas.legends for text in legend.get_texts()}
    lines = [text for label, text in LINES.items() if label in entries]
    families = [study.families[label] for label in rows["family"].unique()]
    estimators = [study.estimators[label] for label in rows["estimator"].unique()]
    sentences = [
        figure.caption.rstrip("."),
        f"Shown: {shown}",
        f"Data: {_described(families, names)}",
        f"Estimators: {_described(estimators, names)}",
        f"Budgets: {_budgets(rows, Labels(study, names))}",
        f"{_range('$n$', rows['n'])}; {_range('trials per point', rows['trials'])}; "
        f"seed {result.seed}",
        "; ".join([intervals[0].upper() + intervals[1:], *lines]),
    ]
    return latex(". ".join(filter(None, sentences)) + ".")


def _described(variants: Iterable[Variant[Any]], names: Mapping[str, str]) -> str:
    """Format entries with their kinds, and with parameters that are numbers or words."""
    entries: dict[str, list[Variant[Any]]] = {}
    for one in variants:
        entries.setdefault(one.name, []).append(one)
    texts = []
    for name, ones in entries.items():
        told = [spaced(_kind(ones[0].value))]
        value = ones[0].value
        for parameter in value if isinstance(value, Mapping) else ones[0].parameters:
            values = {one.parameters[parameter] for one in ones if _plain(one, parameter)}
            if values:
                told.append(_listed(parameter, sorted(values)))
        texts.append(f"{names.get(name, spaced(name))} ({'; '.join(told)})")
    return ", ".join(texts)


def _listed(parameter: str, values: Sequence[Any]) -> str:
    """Format a parameter with its values, as mathematical text."""
    if isinstance(values[0], bool):
        values = ["yes" if value else "no" for value in values]
    if isinstance(values[0], str):
        return f"{spaced(parameter)} = {', '.join(map(spaced, values))}"
    more = [f"${number_text(value)}$" for value in values[1:]]
    first = parameter_text(parameter, values[0])
    return ", ".join([first, *more])


def _plain(one: Variant[Any], parameter: str) -> bool:
    known = isinstance(one.parameters[parameter], int | float | str)
    return known and parameter not in {"kind", "_target_"}


def _kind(made: Any) -> str:
    """Return the kind of an entry, from its configuration or from the class of its value."""
    if isinstance(made, Mapping):
        return str(made.get("kind") or made["_target_"])
    return str(
        getattr(made, "distribution", made).kind_name()
    )  # a family of one has its law's kind


def _budgets(rows: pd.DataFrame, words: Labels) -> str:
    """Format the notions of privacy in some rows, each with its amounts."""
    texts = []
    for label, paid in rows[rows["privacy"] != "none"].groupby("privacy"):
        known = [name for name in AMOUNTS if paid[name].notna().all()]
        amounts = [_listed(name, sorted(paid[name].unique())) for name in known]
        texts.append(", ".join([words.notion(str(label)), *amounts]))
    return "; ".join(texts) or "none"


def _range(name: str, values: pd.Series[float]) -> str:
    low, high = (f"${number_text(value)}$" for value in (values.min(), values.max()))
    return f"{name} from {low} to {high}" if low != high else f"{name}: {low}"


def claim_rows(
    result: Result, labels: Sequence[str], names: Mapping[str, str] | None = None
) -> list[list[str]]:
    """Format claims as rows of LaTeX, for `claims_table`.

    Parameters
    ----------
    result : Result
        Result with the claims.
    labels : sequence of str
        Labels of the claims to print.
    names : mapping of str to str, optional
        Printed names of entries.

    Returns
    -------
    list of list of str
        Cells of each row. The first cell is the heading of the claim, equal in all of its rows.
    """
    words = Labels(result.study, names or {})
    rows = []
    for row in result.claims[result.claims["claim"].isin(labels)].to_dict("records"):
        at_most = result.study.all_claims[row["claim"]].statement.at_most
        limit = r"\leq " if at_most else ""
        numbers = [row["measured"], row["low"], row["high"]]
        known = bool(np.all(np.isfinite(numbers)))
        about = f"{escaped(row['claim'])}: {_base(row['variable'])}"
        rows.append(
            [
                rf"{about}, $\pm {row['tolerance']:g}${CODE if row['checks'] == 'code' else ''}",
                *map(escaped, (*words.claim(row), words.budget(row))),
                *(_stated(row[name], limit) for name in ("theorem", "at_these_n")),
                "${}$ $[{}, {}]$".format(*map(_digits, numbers)) if known else "--",
                _verdict(row),
            ]
        )
    return rows


def _stated(number: float, limit: str) -> str:
    """Format a number of a theorem; blank if there is none."""
    return f"${limit}{number:.3f}$" if np.isfinite(number) else ""


def _verdict(row: Mapping[Any, Any]) -> str:
    """Return the verdict on the theorem, and the verdict at these n if it differs."""
    known, here = row["theorem_verdict"], row["verdict"]
    if known not in CLAIMS or known == here:
        return str(here)
    return str(known) if known == EARLY else f"{known}, at these $n$ {here}"


def _base(name: str) -> str:
    """Return the subject of a claim: the base of its exponent in mathematical text, or a word."""
    if name not in VARIABLES:
        return name
    text = VARIABLES[name].base.translate(UNICODE)
    return "exponent of $" + text.replace("ln", r"\ln") + "$"


def claims_table(rows: Sequence[Sequence[str]]) -> str:
    """Format rows of `claim_rows` with `tabular`, each heading once above its rows."""
    lines: list[Sequence[str]] = []
    for heading, group in groupby(rows, itemgetter(0)):
        above = rf"\addlinespace\multicolumn{{{len(HEADER)}}}{{@{{}}l@{{}}}}{{{heading}}} \\*"
        first, *others = (row[1:] for row in group)
        lines += [[f"{above}\n{first[0]}", *first[1:]], *others]
    return tabular(COLUMNS, HEADER, lines)


def tabular(columns: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Format a table for LaTeX with the rules of booktabs.

    Parameters
    ----------
    columns : str
        Column specification of LaTeX, for example ``llr``.
    header : sequence of str
        Escaped cells of the head.
    rows : sequence of sequences of str
        Escaped cells of the rows.

    Returns
    -------
    str
        A tabular; a longtable if the table is longer than a page.
    """
    kind = "longtable" if len(rows) > MOST_ROWS else "tabular"
    needed = "array, booktabs and longtable, and one column to a page"
    packages = needed if kind == "longtable" else "array and booktabs"
    head = [r"\toprule", _line(header), r"\midrule"]
    head += [r"\endhead", r"\bottomrule", r"\endfoot"] if kind == "longtable" else []
    foot = [] if kind == "longtable" else [r"\bottomrule"]
    lines = [
        f"% needs the packages {packages}",
        r"{\footnotesize\setlength{\tabcolsep}{2pt}",
        rf"\begin{{{kind}}}{{{columns}}}",
        *head,
        *map(_line, rows),
        *foot,
        rf"\end{{{kind}}}}}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _digits(value: float) -> str:
    """Format a number with three decimals, or with two digits if it is below 0.005."""
    if abs(value) >= 5e-3 or value == 0:
        return f"{value:.3f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"
