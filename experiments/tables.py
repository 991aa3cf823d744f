"""The scoreboard as a LaTeX table."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from dpbench.result import Result
from dpbench.scoreboard import short_budget

__all__ = ["claim_rows", "escaped", "scoreboard", "tabular"]

HEADER = ("Claim", "Estimator", "Law", "Predicted", "Measured", r"95\% interval", "Verdict")
COLUMNS = "lllrrll"
# A longer table would not fit on a page and has to break.
MOST_ROWS = 45
SPECIAL = {
    "\\": r"\textbackslash{}",
    **{character: f"\\{character}" for character in "&%#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def escaped(text: str) -> str:
    """Text as LaTeX prints it, but for its mathematics, which stands between dollar signs."""
    parts = text.split("$")
    return "$".join(
        part if i % 2 else "".join(SPECIAL.get(character, character) for character in part)
        for i, part in enumerate(parts)
    )


def claim_rows(result: Result, labels: Sequence[str]) -> list[list[str]]:
    """The claims of these labels, a row each; with the budget where it tells two apart."""
    chosen = result.claims[result.claims["claim"].isin(labels)]
    several = chosen.duplicated(["claim", "estimator", "distribution"], keep=False)
    rows = []
    for row, more in zip(chosen.to_dict("records"), several, strict=True):
        at_most = result.study.all_claims[row["claim"]].statement.at_most
        limit = r"\leq " if at_most else ""
        known = bool(np.all(np.isfinite([row["measured"], row["low"], row["high"]])))
        rows.append(
            [
                escaped(f"{row['claim']} {short_budget(row)}" if more else row["claim"]),
                escaped(row["estimator"]),
                escaped(row["distribution"]),
                rf"${limit}{row['predicted']:.3f} \pm {row['tolerance']:g}$",
                f"${_digits(row['measured'])}$" if known else "--",
                rf"$[{_digits(row['low'])}, {_digits(row['high'])}]$" if known else "--",
                row["verdict"],
            ]
        )
    return rows


def scoreboard(rows: Sequence[Sequence[str]]) -> str:
    """Claims as a table, see `tabular`."""
    return tabular(COLUMNS, HEADER, rows)


def tabular(columns: str, header: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table with the rules of booktabs.

    Parameters
    ----------
    columns : str
        As LaTeX takes them, such as ``llr``.
    header, rows : sequences of str
        Cells, escaped.

    Returns
    -------
    str
        A tabular, or a longtable where one page does not hold it.
    """
    kind = "longtable" if len(rows) > MOST_ROWS else "tabular"
    packages = "booktabs and longtable" if kind == "longtable" else "booktabs"
    head = [r"\toprule", _line(header), r"\midrule"]
    head += [r"\endhead", r"\bottomrule", r"\endfoot"] if kind == "longtable" else []
    foot = [] if kind == "longtable" else [r"\bottomrule"]
    lines = [
        f"% needs the packages {packages}",
        rf"\begin{{{kind}}}{{{columns}}}",
        *head,
        *map(_line, rows),
        *foot,
        rf"\end{{{kind}}}",
    ]
    return "\n".join(lines) + "\n"


def _line(cells: Sequence[str]) -> str:
    return " & ".join(cells) + r" \\"


def _digits(value: float) -> str:
    """Three decimals, or two digits of what they would hide."""
    if abs(value) >= 5e-3 or value == 0:
        return f"{value:.3f}"
    mantissa, _, exponent = f"{value:.1e}".partition("e")
    return rf"{mantissa} \times 10^{{{int(exponent)}}}"
