"""Reader of labels: identifiers of people, and names of groups.

- Two labels are one label if they are equal in value and in type: 1 and "1" differ.
- Labels that are equal in value only, such as 1, 1.0 and True, are refused. They may be one person
  or several, and the privacy of a person needs to know.
- A label is text, bytes, a boolean, a number, a date, a duration, another value with a hash, or a
  tuple of labels. Numbers of numpy, pandas, polars and pyarrow have the type of Python's number.
- A missing label (`dpbench.samples.records.is_missing`) is unknown: refused.
- Labels have an order. A set is refused, because its order differs from process to process.
"""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from datetime import datetime, timedelta
from typing import Any

import numpy as np

from dpbench.arrays import Ints
from dpbench.errors import ArgumentError
from dpbench.samples.records import arrow_column, is_missing, is_pandas, is_unordered, table_of

__all__ = ["index_labels", "match_labels", "read_labels", "sort_labels", "type_names"]

# Labels of one of these types, or of its subclasses, have equal types; the first match counts.
KINDS: tuple[type, ...] = (bool, int, float, str, bytes, datetime, timedelta, tuple)


def read_labels(labels: Any, key: str) -> list[Hashable]:
    """Return labels as Python values, in their order; a missing label becomes None.

    Labels come in a sequence, a one-dimensional array, or a column. Error messages begin with
    `key`, the name of the argument. A ValueError is raised if the labels have no order, or one of
    them has no hash.
    """
    text = str | bytes | bytearray | memoryview
    if isinstance(labels, text | Mapping) or not isinstance(labels, Iterable):
        raise ArgumentError(f"{key}: of type {type(labels).__name__}: not a list; give a list")
    if table_of(labels) is not None:
        raise ValueError(f"{key}: a table; give one column")
    if is_unordered(labels):
        raise ValueError(f"{key}: a {type(labels).__name__} has no order; give a list")
    values = _list_values(labels)
    if set(map(type, values)) <= {str, int, bool, bytes}:  # Python values with a hash
        return values
    read = [_normalise(label) for label in values]
    # A frozenset has a hash, but its text has no order.
    if bad := [label for label in read if not _has_hash(label) or isinstance(label, Set)]:
        types = type_names(bad)
        raise ValueError(f"{key}: some labels are {types}; give text, numbers, or tuples of them")
    return read


def _has_hash(label: Any) -> bool:
    try:
        hash(label)
    except TypeError:
        return False
    return True


def _list_values(labels: Any) -> list[Any]:
    """Return the values of a column, an array or another iterable as a list."""
    if isinstance(labels, np.ma.MaskedArray):
        return [None if value is np.ma.masked else value for value in labels]
    if isinstance(labels, np.ndarray) and labels.dtype.kind in "biufUSO":
        return list(np.atleast_1d(labels).tolist())
    if is_pandas(labels, "Series", "Index", "api.extensions.ExtensionArray"):
        return list(labels.tolist())
    if (column := arrow_column(labels)) is not None:
        return list(column.to_pylist())
    return list(labels)


def _normalise(label: Any) -> Any:
    """Return a label as a Python value, and None if it is missing."""
    if isinstance(label, tuple):
        return tuple(map(_normalise, label))
    if is_missing(label):
        return None
    if isinstance(label, np.datetime64 | np.timedelta64):
        import pandas as pd

        with contextlib.suppress(ValueError):  # a date that pandas cannot hold stays as it is
            return pd.Timestamp(label) if isinstance(label, np.datetime64) else pd.Timedelta(label)
        return label
    if isinstance(label, np.generic):
        return label.item()
    return _normalise(label.as_py()) if hasattr(label, "as_py") else label  # a pyarrow scalar


def _is_unknown(label: Hashable) -> bool:
    return label is None or (isinstance(label, tuple) and any(map(_is_unknown, label)))


def _kind(label: Hashable) -> Any:
    """Return the type by which a label is compared; for a tuple, the types of its elements."""
    if isinstance(label, tuple):
        return tuple(map(_kind, label))
    return next((kind for kind in KINDS if isinstance(label, kind)), type(label))


def type_names(labels: Iterable[Hashable]) -> str:
    """Return the names of the types of some labels, for messages."""
    return " and ".join(sorted({type(label).__name__ for label in labels}))


def index_labels(labels: Any, key: str) -> tuple[list[Hashable], Ints]:
    """Return the distinct labels, and the index of each label among them.

    The arguments are those of `read_labels`. A ValueError is raised if a label is unknown, or
    labels are equal in value but not in type.
    """
    if type(labels) is np.ndarray and labels.ndim == 1 and labels.dtype.kind in "biufUSMm":
        values, places = np.unique(labels, return_inverse=True)  # faster, if labels repeat
        distinct, indices = index_labels(list(values), key)
        return distinct, indices[places]
    read = read_labels(labels, key)
    if any(map(_is_unknown, read)):
        raise ValueError(
            f"{key}: some labels are missing; give each unknown one a label of its own"
        )
    index: dict[Hashable, int] = {}
    indices = np.array([index.setdefault(label, len(index)) for label in read], dtype=np.int64)
    distinct = list(index)
    _check_types(read, [distinct[i] for i in indices.tolist()], key)
    return distinct, indices


def match_labels(labels: Any, names: Sequence[Hashable], key: str) -> Ints:
    """Return the index of each label in a list of distinct, known names; -1 if it is not there.

    A ValueError is raised if a label equals a name in value but not in type.
    """
    index = {name: i for i, name in enumerate(names)}
    read = read_labels(labels, key)
    found = [index.get(label, -1) for label in read]
    pairs = [(label, names[i]) for label, i in zip(read, found, strict=True) if i >= 0]
    _check_types([label for label, _ in pairs], [name for _, name in pairs], key)
    return np.array(found, dtype=np.int64)


def _check_types(labels: list[Hashable], equals: list[Hashable], key: str) -> None:
    """Raise ValueError if a label and the label that equals it in value differ in type."""
    kinds = set(map(type, itertools.chain(labels, equals)))
    if len(kinds) == 1 and kinds != {tuple}:
        return
    for label, equal in zip(labels, equals, strict=True):
        if label is not equal and _kind(label) != _kind(equal):
            types = f"{type(label).__name__} and {type(equal).__name__}"
            raise ValueError(
                f"{key}: labels of the types {types} are equal in value; give all one type"
            )


def sort_labels(labels: Iterable[Hashable], key: str) -> list[Hashable]:
    """Return distinct labels in increasing order, the types in the order of their names.

    A ValueError is raised if labels of one type have no order.
    """
    distinct = list(labels)
    try:
        return sorted(distinct, key=_sort_key)
    except TypeError:
        raise ValueError(
            f"{key}: labels of type {type_names(distinct)} have no order; give text or numbers"
        ) from None


def _sort_key(label: Hashable) -> tuple[str, Any]:
    kind = _kind(label)
    if isinstance(label, tuple):
        return "tuple", tuple(map(_sort_key, label))
    return kind.__name__, label
