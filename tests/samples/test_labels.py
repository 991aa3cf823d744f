"""Labels of people and groups: equal in value and type, known, and in an order."""

from __future__ import annotations

import datetime as dt
import os
import re
import subprocess
import sys
from collections.abc import Callable
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpbench.samples import person_rows
from dpbench.samples.labels import index_labels, match_labels, read_labels
from tests.support import rng

DAYS = [dt.date(2020, 1, 2), dt.date(2020, 1, 1)]


@given(
    st.lists(
        st.one_of(
            st.text(max_size=2),
            st.binary(max_size=1),
            st.integers(2**53 - 2, 2**53 + 2),
            st.tuples(st.sampled_from("ab"), st.integers(0, 2)),
        ),
        min_size=1,
    )
)
def test_a_person_is_a_value_and_its_type(people: list[Any]) -> None:
    """Compare with texts, which are equal if and only if type and value are."""
    rows = person_rows(np.arange(len(people)), people, rng())
    texts = [repr(person) for person in people]
    expected = {
        tuple(i for i, other in enumerate(texts) if other == text) for text in dict.fromkeys(texts)
    }
    assert {tuple(sorted(row[1 : 1 + int(row[0])].astype(int))) for row in rows} == expected


COLUMNS: dict[str, Callable[[list[Any]], Any]] = {
    "list": list,
    "tuple": tuple,
    "generator": iter,
    "objects": lambda values: np.array([*values, None], dtype=object)[:-1],
    "Series": lambda values: pd.Series(values, dtype=object),
    "Index": lambda values: pd.Index(values, dtype=object, tupleize_cols=False),
}
TYPED: dict[str, Callable[[list[Any]], Any]] = {
    "numpy": np.array,
    "masked": np.ma.array,
    "scalars": lambda values: list(np.array(values)),
    "inferred": pd.Series,
    "categories": lambda values: pd.Series(values, dtype="category"),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "scalars of pyarrow": lambda values: list(pa.array(values)),
}
VALUES: dict[str, list[Any]] = {
    "int": [2**53 + 1, 2**53, 2**53 + 1],
    "float": [0.5, 2.0**53, 0.5],
    "text": ["b", "a", "b"],
    "bool": [True, False, True],
}


@pytest.mark.parametrize("column", [*COLUMNS, *TYPED])
@pytest.mark.parametrize("kind", VALUES)
def test_all_columns_give_python_values(column: str, kind: str) -> None:
    values = VALUES[kind]
    make = {**COLUMNS, **TYPED}[column]
    read = read_labels(make(values), "x")
    assert [(type(label), label) for label in read] == [(type(v), v) for v in values]
    distinct, index = index_labels(make(values), "x")
    assert [distinct[i] for i in index] == values
    assert len(distinct) == 2
    assert match_labels(make(values), values[:2], "x").tolist() == [0, 1, 0]


def test_other_labels() -> None:
    for labels in (
        np.array(DAYS, dtype="M8[D]"), pd.Series(pd.to_datetime(DAYS)),
        pl.Series([dt.datetime(2020, 1, 2), dt.datetime(2020, 1, 1)]),
    ):  # fmt: skip
        rows = person_rows([7.0, 8.0], labels, rng())
        assert rows.tolist() == [[1.0, 8.0], [1.0, 7.0]]  # in the order of the dates
        names = [dt.datetime(2020, 1, 1), dt.datetime(2020, 1, 2)]
        assert match_labels(labels, names, "x").tolist() == [1, 0]
    bands = pd.cut(pd.Series([15, 25, 35]), [10, 20, 40])
    assert match_labels(bands, list(bands.cat.categories), "x").tolist() == [0, 1, 1]
    mixed = [1, "1", ("a", 1), ("a", "1"), b"1", 0.5]
    assert len(person_rows(np.ones(6), mixed, rng())) == 6


def test_objects_of_polars_are_not_their_addresses() -> None:
    """Two texts are one person although they are two objects."""
    column = pl.Series(["secret", "".join(["sec", "ret"])], dtype=pl.Object)
    assert person_rows([7.0, 8.0], column, rng())[:, 0].tolist() == [2]
    with pytest.raises(ValueError, match="persons: some labels are missing"):
        person_rows([7.0, 8.0], pl.Series([None, "a"], dtype=pl.Object), rng())


def test_dates_that_pandas_cannot_hold_are_labels() -> None:
    """The message of pandas would print a date."""
    for dates in (np.array(["9999999", "2020"], "M8[Y]"), np.array([2, 1], "m8[Y]")):
        for labels in (dates, list(dates)):
            assert person_rows([7.0, 8.0], labels, rng()).tolist() == [[1.0, 8.0], [1.0, 7.0]]


UNKNOWN = [
    None, np.nan, np.float32("nan"), Decimal("NaN"), Decimal("sNaN"), pd.NA, pd.NaT, np.ma.masked,
    np.datetime64("NaT", "ns"), ("a", None), ("a", np.nan),
]  # fmt: skip


@pytest.mark.parametrize("unknown", UNKNOWN, ids=repr)
def test_an_unknown_person_is_refused(unknown: Any) -> None:
    with pytest.raises(ValueError, match="persons: some labels are missing"):
        person_rows([1.0, 2.0], ["a", unknown], rng())
    assert match_labels(["a", unknown], ["a"], "by").tolist() == [0, -1]


@pytest.mark.parametrize(
    "column",
    [
        np.array([1.0, np.nan]), np.array(["2020-01-01", "NaT"], "M8[D]"),
        np.ma.array([1, 2], mask=[False, True]), np.ma.array(["a", "b"], mask=[False, True]),
        pd.Series([1, None], dtype="Int64"), pd.Series(["a", None]), pd.Categorical(["a", None]),
        pd.Series(["a", None], dtype="string"), pd.DatetimeIndex(["2020-01-01", "NaT"]),
        pl.Series(["a", None]), pl.Series([1, None]), pa.array(["a", None]), pa.nulls(2),
        pa.array(["a", None]).dictionary_encode(), pl.Series(["a", None], dtype=pl.Categorical),
    ],
    ids=lambda column: type(column).__name__,
)  # fmt: skip
def test_a_column_with_an_unknown_person_is_refused(column: Any) -> None:
    with pytest.raises(ValueError, match="persons: some labels are missing"):
        person_rows([1.0, 2.0], column, rng())


@pytest.mark.parametrize(
    ("people", "text"),
    [
        ([1, True], "types bool and int are equal in value|types int and bool are equal"),
        ([1, 1.0], "equal in value; give all one type"),
        ([Decimal(1), 1], "equal in value"),
        ([("a", 1), ("a", 1.0)], "equal in value"),
        ({"a", "b"}, "a set has no order"),
        (frozenset("ab"), "a frozenset has no order"),
        ([frozenset("ab"), frozenset("c")], "some labels are frozenset"),
        ([["a", 1], ["b", 2]], "some labels are list"),
        (np.array([["a", "b"], ["c", "d"]]), "some labels are list"),
        (pd.DataFrame({"a": [1, 2]}), "a table; give one column"),
        (pl.DataFrame({"a": [1, 2]}), "a table; give one column"),
        ("ab", "of type str: not a list; give a list"),
        (bytearray(b"ab"), "of type bytearray: not a list; give a list"),
        (memoryview(b"ab"), "of type memoryview: not a list; give a list"),
        (3, "of type int: not a list; give a list"),
        ([1j, 2j], "have no order"),
        (["a"], "there are more or fewer than records"),
        (["a", "b", "c"], "there are more or fewer than records"),
    ],
)
def test_people_that_are_refused(people: Any, text: str) -> None:
    state = rng()
    before = state.bit_generator.state
    with pytest.raises(ValueError, match=text) as caught:
        person_rows([1.0, 2.0], people, state)
    assert str(caught.value).startswith("persons: ")
    assert not re.search(r"\d", str(caught.value))
    assert state.bit_generator.state == before


def test_the_order_does_not_depend_on_the_process() -> None:
    """Sets of text have another order in each process; lists and keys of a dict do not."""
    program = (
        "from dpbench.samples.labels import sort_labels; from dpbench.samples.labels import *\n"
        "print(read_labels(dict.fromkeys('fghijk').keys(), 'x'), sort_labels({*'fghijk', 1}, 'x'))"
    )
    # With this seed both sets have another order.
    printed = subprocess.run(
        [sys.executable, "-c", program],
        env={**os.environ, "PYTHONHASHSEED": "2"},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    assert printed == "['f', 'g', 'h', 'i', 'j', 'k'] [1, 'f', 'g', 'h', 'i', 'j', 'k']\n"
