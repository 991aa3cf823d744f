"""The rule of types: what six functions read as numbers, and what all of them refuse."""

from __future__ import annotations

import datetime as dt
import re
import subprocess
import sys
import tempfile
import traceback
from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import sparse

from dpbench import PureDP, release, release_table, testing
from dpbench.distributions import Empirical
from dpbench.estimators import (
    ClippedMean,
    EmpiricalMean,
    TransformedNoiseMean,
    releases,
    table_release,
)
from dpbench.planner.question import Question, build_law
from dpbench.samples import DenseSample, PeopleSample, person_rows
from dpbench.samples.records import read_numbers
from tests.support import rng

Maker = Callable[[list[Any]], Any]
CLIP = ClippedMean(lower=0, upper=9)


def each(convert: Callable[[Any], Any]) -> Maker:
    """Return a maker of lists, whose missing values are None."""
    return lambda values: [None if value is None else convert(value) for value in values]


def floats(dtype: Any) -> Maker:
    """Return a maker of arrays, whose missing values are NaN."""
    return lambda values: np.array([np.nan if v is None else v for v in values], dtype=dtype)


def masked(dtype: Any) -> Maker:
    def make(values: list[Any]) -> Any:
        filled = np.array([7 if v is None else v for v in values], dtype=dtype)
        return np.ma.array(filled, mask=[v is None for v in values])

    return make


def series(dtype: Any) -> Maker:
    return lambda values: pd.Series(values, dtype=dtype)


def missing_as(form: Any) -> Maker:
    """Return a maker of lists of numbers in which `form` stands for a missing value."""
    return lambda values: [form if value is None else value for value in values]


def polars(values: list[Any], dtype: Any) -> Any:
    return pl.Series(values, dtype=dtype)


# Containers of numbers: how each is made of small whole numbers, None of which stays missing.
NUMBERS: dict[str, Maker] = {
    "list of int": each(int),
    "list of float": each(float),
    "tuple": tuple,
    "list of Decimal": each(Decimal),
    "list of Fraction": each(Fraction),
    "scalars of numpy": each(np.float32),
    "small scalars of numpy": each(np.uint8),
    "array of objects": lambda values: np.array(values, dtype=object),
    "generator": lambda values: (value for value in values),
    **{f"numpy {dtype}": floats(dtype) for dtype in ("f2", "f4", "f8", ">f8", np.longdouble)},
    **{f"masked {dtype}": masked(dtype) for dtype in ("i1", "u8", "f4", "?", "O")},
    **{f"pandas {name}": series(name) for name in ("Int64", "UInt8", "Float32", "boolean")},
    **{f"pandas {name}": series(name) for name in ("int64[pyarrow]", "double[pyarrow]", "object")},
    "pandas decimal": series(pd.ArrowDtype(pa.decimal128(9, 2))),
    "pandas Index": lambda values: pd.Index(pd.array(values, dtype="Int64")),
    "pandas array": lambda values: pd.array(values, dtype="Float64"),
    **{
        f"polars {kind}": partial(polars, dtype=kind)
        for kind in (pl.Int8, pl.UInt64, pl.Int128, pl.Float32, pl.Float64, pl.Decimal(9, 2))
    },
    "polars Object": partial(polars, dtype=pl.Object),
    "polars Boolean": lambda values: pl.Series([None if v is None else v > 0 for v in values]),
    **{
        f"pyarrow {kind}": partial(pa.array, type=kind)
        for kind in (pa.int16(), pa.uint64(), pa.float32(), pa.decimal256(40, 3))
    },
    "pyarrow bool": lambda values: pa.array([None if v is None else v > 0 for v in values]),
    "chunks of pyarrow": lambda values: pa.chunked_array([values[:1], values[1:]], pa.int64()),
    "scalars of pyarrow": lambda values: list(pa.array(values, type=pa.int64())),
    "NaN": missing_as(float("nan")),
    "NaN of Decimal": missing_as(Decimal("NaN")),
    "signalling NaN": missing_as(Decimal("sNaN")),
    "NA": missing_as(pd.NA),
    "NaT": missing_as(pd.NaT),
    "NaT of numpy": missing_as(np.datetime64("NaT", "ns")),
    "no time of numpy": missing_as(np.timedelta64("NaT")),
    "masked": missing_as(np.ma.masked),
}
DAY = dt.date(2020, 1, 1)
# Containers of what is no number, of two records or more.
OTHERS: dict[str, Maker] = {
    "complex": lambda values: np.array(values, dtype=complex),
    "list of complex": each(complex),
    "text": each(str),
    "array of text": lambda values: np.array(values, dtype=str),
    "text of numpy": lambda values: np.array(values, dtype=np.dtypes.StringDType()),
    "text of pandas": lambda values: pd.Series(map(str, values)),
    "string": series("string"),
    "text of polars": lambda values: pl.Series(map(str, values)),
    "text of pyarrow": lambda values: pa.array(list(map(str, values))),
    "bytes": lambda values: np.array(values, dtype=bytes),
    "dates": lambda values: [DAY + dt.timedelta(value) for value in values],
    "dates of numpy": lambda values: np.array(values, dtype="M8[D]"),
    "dates of pandas": lambda values: pd.to_datetime(values, unit="D").to_series(),
    "dates with a zone": lambda values: pd.to_datetime(values, unit="D", utc=True),
    "dates of polars": lambda values: pl.Series([DAY for _ in values]),
    "missing dates": lambda values: np.array(["NaT" for _ in values], dtype="M8[D]"),
    "durations": lambda values: np.array(values, dtype="m8[s]"),
    "durations of pandas": lambda values: pd.to_timedelta(values, unit="s"),
    "durations in a list": lambda values: [np.timedelta64(value, "s") for value in values],
    "periods": lambda values: pd.period_range("2020", periods=len(values), freq="M"),
    "intervals": lambda values: pd.interval_range(0, periods=len(values)),
    "categories": series("category"),
    "categories of polars": lambda values: pl.Series(map(str, values), dtype=pl.Categorical),
    "categories of pyarrow": lambda values: pa.array(values).dictionary_encode(),
    "sparse": lambda values: pd.arrays.SparseArray(np.array(values, float)),
    "run ends": lambda values: pa.RunEndEncodedArray.from_arrays(
        pa.array(range(1, len(values) + 1), pa.int32()), pa.array(values)
    ),
    "fields": lambda values: np.array([(value,) for value in values], dtype=[("a", float)]),
    "lists": lambda values: pl.Series([[value] for value in values]),
    "objects": each(lambda value: object()),
    "nothing": lambda values: [None for _ in values],
    "nulls": lambda values: pa.nulls(len(values)),
    "too large": each(lambda value: 10**400),
    "large decimals": each(lambda value: Decimal("1e400")),
    "large fractions": each(lambda value: Fraction(10**400)),
    "wide floats": lambda values: np.full(len(values), np.longdouble("1e400")),
    "infinite": each(lambda value: -np.inf),
}
# Collections that are no columns.
COLLECTIONS: dict[str, Maker] = {
    "set": set,
    "frozenset": frozenset,
    "dict": dict.fromkeys,
    "Counter": Counter,
    "memory": lambda values: memoryview(bytes(values)),
    "function": lambda values: len,
    "text alone": lambda values: "12",
    "sparse of scipy": lambda values: sparse.coo_array(np.array([values, values])),
}


class _SeenError(Exception):
    """Ends a release as soon as its records are read."""


def seen(module: Any, call: Callable[[], object]) -> Any:
    """Return the records that `call` hands to its estimators, before they draw anything."""

    def stop(values: Any) -> None:
        raise _SeenError(values[0])

    with mock.patch.object(module, "DenseSample", stop), pytest.raises(_SeenError) as caught:
        call()
    return caught.value.args[0]


def frame_of(column: Any) -> Any:
    """Return a table of the library to which the container belongs."""
    if isinstance(column, pl.Series):
        return pl.DataFrame({"x": column})
    if isinstance(column, pa.Array | pa.ChunkedArray):
        return pa.table({"x": column})
    if not hasattr(column, "dtype"):
        items = list(column)
        column = pd.Series(index=range(len(items)), dtype=object)
        column[:] = items
    return pd.DataFrame({"x": column})


def read_by_all(make: Callable[[], Any], folder: Path) -> dict[str, Any]:
    """Return what each function reads of a container: its numbers, or its ValueError."""
    mean, path = EmpiricalMean(), folder / "p.parquet"
    file: Any = {"data": str(path), "column": "x"}
    calls: dict[str, Callable[[], Any]] = {
        "release": lambda: seen(releases, lambda: release(mean, make(), None, rng=rng())),
        "check_estimator": lambda: testing._datasets(mean, make(), None)[0],
        "person_rows": lambda: person_rows(make(), range(3), rng())[:, 1],
        "release_table": lambda: seen(
            table_release,
            lambda: release_table(frame_of(make()), {"x": CLIP}, PureDP(1.0), rng=rng()),
        )[:, 0],
        "Empirical": lambda: Empirical(path=str(path), column="x")._values,
        "plan": lambda: build_law(Question(**file))._values,  # type: ignore[union-attr]
    }
    if not store(make(), path):
        del calls["Empirical"], calls["plan"]
    found: dict[str, Any] = {}
    for name, call in calls.items():
        try:
            found[name] = call()
        except ValueError as error:
            found[name] = error
    return found


def store(column: Any, path: Path) -> bool:
    """Write a file of the container, and return whether Parquet has its type."""
    try:
        frame = frame_of(column)
        if isinstance(frame, pl.DataFrame):
            if frame["x"].dtype in (pl.Int128, pl.Object):  # no file has them
                return False
            frame.write_parquet(path)
        elif isinstance(frame, pa.Table):
            pq.write_table(frame, path)
        else:
            frame.to_parquet(path)
    except (pa.ArrowException, OverflowError, TypeError, ValueError, NotImplementedError):
        return False
    return True


@settings(max_examples=150)
@given(
    name=st.sampled_from(sorted(NUMBERS)),
    values=st.lists(st.sampled_from([0, 1, 1, None]), min_size=3, max_size=3),
)
def test_all_read_the_same_numbers(name: str, values: list[Any]) -> None:
    """A missing value, in any form, is refused by all."""
    with tempfile.TemporaryDirectory() as folder:
        found = read_by_all(lambda: NUMBERS[name](values), Path(folder))
    for reader, read in found.items():
        if None in values:
            assert isinstance(read, ValueError), reader
            assert re.search("missing|object", str(read)), (reader, str(read))
        else:
            assert not isinstance(read, ValueError), (reader, str(read))
            assert read.dtype == np.float64
            # A person's row holds the records in a random order.
            assert read.tolist() == values, reader


# Files of Parquet have neither categories of numbers nor sparse columns.
STORED_AS_NUMBERS = {"categories", "categories of pyarrow", "sparse"}


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_all_refuse_other_types(name: str, tmp_path: Path) -> None:
    keys = {
        "release": "data: ", "check_estimator": "records: ", "person_rows": "values: ",
        "release_table": "columns: 'x': ", "Empirical": "column: 'x': ", "plan": "column: 'x': ",
    }  # fmt: skip
    for reader, read in read_by_all(lambda: OTHERS[name]([3, 5, 3]), tmp_path).items():
        if name in STORED_AS_NUMBERS and reader in {"Empirical", "plan"}:
            continue
        assert isinstance(read, ValueError), reader
        assert str(read).startswith(keys[reader]), (reader, str(read))
        assert "; " in str(read)


@pytest.mark.parametrize("name", sorted(COLLECTIONS))
def test_collections_that_are_no_columns_are_refused(name: str) -> None:
    make = partial(COLLECTIONS[name], [3, 5, 3])
    with pytest.raises(ValueError, match=r"^data: "):
        release(CLIP, make(), PureDP(1.0), rng=rng())
    with pytest.raises(ValueError, match=r"^records: "):
        testing.check_estimator(CLIP, records=make())
    with pytest.raises(ValueError, match=r"^values: "):
        person_rows(make(), range(3), rng())


@pytest.mark.parametrize(
    ("data", "advice"),
    [
        (Counter([1.0]), "give a list of numbers, in the order of the records"),
        (np.array([(1, 2.0)], "i8,f8").view(np.recarray), "give one field at a time"),
        (np.array([np.zeros(2), np.zeros(3), None], dtype=object), "give rows of equal length"),
        (memoryview(b"ab"), "convert it, such as by numpy.asarray"),
        (OTHERS["run ends"]([1.0, 2.0]), "decode it, such as by pyarrow.compute.run_end_decode"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_each_type_has_its_advice(data: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=f"^data: .*; {re.escape(advice)}"):
        read_numbers(data, "data")


@pytest.mark.parametrize("name", sorted(OTHERS))
def test_samples_refuse_other_types(name: str) -> None:
    """A sample that is built by hand reads records by the same rule."""
    with pytest.raises(ValueError, match=r"^records: |are NaN or infinite$"):
        PeopleSample(OTHERS[name]([3, 5, 3]), [[3]])
    with pytest.raises(ValueError, match=r"^values: |are NaN or infinite$"):
        DenseSample([OTHERS[name]([3, 5, 3])])


@settings(max_examples=50)
@given(name=st.sampled_from(sorted(NUMBERS)), missing=st.booleans())
def test_samples_read_the_same_numbers(name: str, missing: bool) -> None:
    values = [1, None if missing else 0, 1]
    if missing:
        with pytest.raises(ValueError, match="are NaN or infinite"):
            PeopleSample(NUMBERS[name](values), [[3]])
    else:
        assert PeopleSample(NUMBERS[name](values), [[3]]).flat.tolist() == values
        if name != "generator":
            assert DenseSample([NUMBERS[name](values)]).values.tolist() == [values]


def test_numbers_are_rounded_to_nearest() -> None:
    whole, third = 2**53 + 1, Fraction(1, 3)
    assert read_numbers([whole, True, Decimal("0.1"), third], "x").tolist() == [
        2**53,
        1,
        0.1,
        1 / 3,
    ]
    assert read_numbers(pl.Series([whole]), "x").tolist() == [2**53]
    assert read_numbers(np.array([65504], "f2"), "x").tolist() == [65504]


def test_rows_are_vectors() -> None:
    rows = [[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]]
    tables: list[Any] = [
        rows, [tuple(row) for row in rows], [np.array(row) for row in rows], np.array(rows, object),
        pd.DataFrame(rows, dtype="Float64"), pl.DataFrame(rows, orient="row"),
        pa.table({"a": [1, 3, 5], "b": [2, 4, 6]}), [pd.Series(row) for row in rows],
        [pl.Series(row) for row in rows], iter(rows),
    ]  # fmt: skip
    for table in tables:
        assert read_numbers(table, "x", vectors=True).tolist() == rows
    hidden = [np.ma.array([1.0, 2.0], mask=[False, True]), [1.0, 2.0]]
    for data, text in (
        (hidden, "1 of 4 values are missing"),
        ([[1.0], [1.0, 2.0]], "rows of different lengths"),
        ([1.0, [2.0]], "rows of different lengths"),
        (np.zeros((2, 2, 2)), "3 dimensions; give data of shape"),
        ([[[[1.0]]]], "more than two dimensions"),
        (rows, None),
    ):
        with pytest.raises(ValueError, match=text or "2 dimensions"):
            read_numbers(data, "x", vectors=text is not None)


def test_an_array_of_floats_is_not_copied() -> None:
    array = np.arange(4.0)
    assert read_numbers(array, "x") is array
    column = pd.Series(array)
    assert np.shares_memory(read_numbers(column, "x"), column.to_numpy())


SECRET = "secret-name"


@pytest.mark.parametrize("data", [[SECRET], [1.0, SECRET], pd.Series([SECRET]), [b"secret-name"]])
def test_messages_have_no_record(data: Any) -> None:
    with pytest.raises(ValueError, match="data: ") as caught:
        release(CLIP, data, PureDP(1.0), rng=rng())
    assert SECRET not in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    "data",
    [[1.0] * 52 + [np.nan], [1.0] * 52 + [np.inf], [1.0] * 52 + ["a"], np.zeros((53, 2, 2))],
    ids=str,
)
def test_messages_have_no_n_where_it_is_private(data: Any) -> None:
    budget = PureDP(1.0, neighbours="add_remove")
    mean = TransformedNoiseMean(lower=0, upper=9)
    with pytest.raises(ValueError, match="data: ") as caught:
        release(mean, data, budget, rng=rng())
    assert "53" not in str(caught.value)
    if np.ndim(data) == 1:
        with pytest.raises(ValueError, match="'x': some values") as caught:
            release_table(pd.DataFrame({"x": data}), {"x": mean}, budget, rng=rng())
        assert "53" not in str(caught.value)


def test_a_refused_dataset_draws_nothing() -> None:
    state = rng()
    before = state.bit_generator.state
    missing: Any = [1.0, None]
    calls: list[Callable[[], object]] = [
        lambda: release(CLIP, [1j], PureDP(1.0), rng=state),
        lambda: person_rows([1.0, 2.0], ["a", None], state),
        lambda: person_rows(missing, ["a", "b"], state),
    ]
    for call in calls:
        with pytest.raises(ValueError, match=": "):
            call()
    assert state.bit_generator.state == before


def test_other_libraries_are_not_loaded() -> None:
    program = (
        "import sys, numpy, dpbench; from dpbench.estimators import ClippedMean\n"
        "dpbench.release(ClippedMean(lower=0, upper=9), [1.0, 2], dpbench.PureDP(1.0),"
        " rng=numpy.random.default_rng(0))\n"
        "print({'pandas', 'polars', 'pyarrow'} & set(sys.modules))"
    )
    printed = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert printed.stdout == "set()\n"


def test_messages_count_the_values_that_are_refused() -> None:
    for values, text in (([1.0, np.inf, 2, -np.inf, 3], "2 of 5"), ([np.nan, np.inf, 1], "1 of 3")):
        with pytest.raises(ValueError, match=f"^data: {text} values are (infinite|missing)"):
            read_numbers(values, "data")
