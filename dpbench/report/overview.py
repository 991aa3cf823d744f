"""Describe a result in a few words, for the prompt of Python and for a notebook."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd
from markupsafe import escape

from dpbench.analysis.claims import count_claim_verdicts
from dpbench.errors import choose_from
from dpbench.output.names import natural_sort_key
from dpbench.runner.store import Memory, Store

__all__ = ["check_values", "describe", "describe_as_html", "overview"]

MAX_LABELS = 6  # labels of a column in a notebook
MAX_VALUES = 20  # values of a column in a message


def overview(
    name: str, summary: pd.DataFrame, claims: pd.DataFrame, failures: int, blocks: Store | Memory
) -> dict[str, str]:
    """Return what a result holds: a text for each of sweep, rows, labels, verdicts and folder."""
    texts = {"sweep": name, "rows": f"{len(summary):,}"}
    for column, title in (("family", "families"), ("estimator", "estimators")):
        labels = [str(label) for label in summary.get(column, pd.Series(dtype=str)).unique()]
        more = f", and {len(labels) - MAX_LABELS} more" if len(labels) > MAX_LABELS else ""
        texts[title] = f"{len(labels)}: {', '.join(labels[:MAX_LABELS])}{more}"
    texts["claims"] = "; ".join(count_claim_verdicts(claims.to_dict("records"))) or "none"
    if failures:
        texts["failures"] = str(failures)
    texts["folder"] = str(blocks.folder.parent) if isinstance(blocks, Store) else "none, in memory"
    return texts


def describe(texts: Mapping[str, str]) -> str:
    """Return one line with the texts of `overview`, as Python's prompt shows a result."""
    sizes = (f"{texts[key].partition(':')[0]} {key}" for key in ("rows", "families", "estimators"))
    rest = (f"{key}: {texts[key]}" for key in ("claims", "failures", "folder") if key in texts)
    return f"<Result of sweep {texts['sweep']!r}: {', '.join(sizes)}; {'; '.join(rest)}>"


def describe_as_html(texts: Mapping[str, str]) -> str:
    """Return a table in HTML with the texts of `overview`, as a notebook shows a result."""
    rows = (
        f"<tr><th style='text-align: left'>{escape(key)}</th>"
        f"<td style='text-align: left'>{escape(text)}</td></tr>"
        for key, text in texts.items()
    )
    return f"<table>{''.join(rows)}</table>"


def check_values(keys: pd.DataFrame, selected: Mapping[str, Iterable[Any]]) -> None:
    """Check that every selected value is in its column, and that some row has all of them.

    `selected` maps columns of `keys` to values. A KeyError is raised if a column lacks a value, or
    no row has one of the values in every column. The message names the values that there are.
    """
    for name, values in selected.items():
        column = keys[name]
        for value in values:
            if not column.isin([value]).any():
                raise KeyError(f"{name}={value!r}: no such row; {_list_values(column, value)}")
    rows = pd.Series(data=True, index=keys.index)
    for name, values in selected.items():
        chosen = rows & keys[name].isin(list(values))
        if not chosen.any():
            others = ", ".join(f"{key}={list(selected[key])}" for key in selected if key != name)
            there = _list_values(keys[name][rows], None)
            raise KeyError(f"{name}={list(values)}: no such row together with {others}; {there}")
        rows = chosen


def _list_values(column: pd.Series, value: Any) -> str:
    """Return "choose from ..." with the values of a column, in natural order."""
    if pd.api.types.is_numeric_dtype(column):
        texts = [f"{number:g}" if number % 1 else f"{number:.0f}" for number in
                 sorted(column.dropna().unique())]  # fmt: skip
        texts += ["None"] if column.isna().any() else []
    else:
        texts = sorted(map(str, column.unique()), key=natural_sort_key)
    if len(texts) > MAX_VALUES:
        texts = [*texts[:MAX_VALUES], f"... ({len(texts)} values)"]
    return choose_from(value, texts) if isinstance(value, str) else f"there are {', '.join(texts)}"
