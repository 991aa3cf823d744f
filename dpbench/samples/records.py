"""Reader of records: the one place that decides which values are numbers.

`release`, `release_table`, `check_estimator`, `person_rows`, `Empirical` and `plan data=` read
records with this module. The type decides, not the value:

- Numbers are integers, floats of every width, booleans, ``Decimal`` and ``Fraction``, of Python,
  numpy, pandas, polars or pyarrow. They become float64, rounded to nearest: integers above 2^53
  lose digits, True is 1.
- All other types are refused, with the type and how to convert it: complex numbers, text (also
  digits), bytes, dates, durations, periods, intervals, categories, sparse and structured arrays.
- None, NaN of every width, ``pandas.NA``, NaT, null and masked entries are missing, and refused. So
  are infinite numbers, and numbers above the largest float64.

The container may be an array (masked, or of objects), a column, a sequence or another iterable of
numbers. Lists of rows, and tables, are vectors. Sets and mappings are refused, because their values
have no order or have keys. A CSV file has no types: its fields are numbers if they are decimal
numbers in ASCII. ``docs/howto/library.md`` has a table for users.

Messages never contain a value. They contain numbers of records only if n is public.
"""

from __future__ import annotations

import contextlib
import itertools
import math
import sys
from collections.abc import Hashable, Iterable, Iterator, Mapping, Reversible, Set, Sized
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from dpbench.arrays import Floats

__all__ = [
    "arrow_column", "cast_numbers", "is_missing", "is_pandas", "is_unordered", "read_numbers",
    "table_of",
]  # fmt: skip

NUMBERS = (int, float, np.bool_, np.integer, np.floating, Decimal, Fraction)
# What to do instead, by the first of these words that the name of a refused type contains.
ADVICE = {
    "complex": "release the real and the imaginary part on their own",
    "struct": "give one field at a time",
    "void": "give one field at a time",
    "record": "give one field at a time",
    "dictionary": "convert it, such as by astype(float), if its categories are numbers",
    "categor": "convert it, such as by astype(float), if its categories are numbers",
    "enum": "convert it, such as by cast(float), if its categories are numbers",
    "run_end": "decode it, such as by pyarrow.compute.run_end_decode",
    "sparse": "make it dense, such as by .sparse.to_dense() or .toarray()",
    "timedelta": "divide it by a unit, such as one day",
    "duration": "divide it by a unit, such as one day",
    "date": "subtract a public date, and divide by a unit, such as one day",
    "time": "subtract a public time, and divide by a unit, such as one hour",
    "period": "subtract a public period, and give the number of periods",
    "interval": "give one number for each interval, such as its middle",
    "str": "give numbers such as 1.5, or convert it, such as by pandas.to_numeric",
    "byte": "decode it, and convert it to numbers, such as by pandas.to_numeric",
    "binary": "decode it, and convert it to numbers, such as by pandas.to_numeric",
    "list": "give rows of equal length, or one number for each record",
    "array": "give rows of equal length, or one number for each record",
    "memoryview": "convert it, such as by numpy.asarray",
    "lazyframe": "call its collect()",
    "mapping": "give a list of numbers, in the order of the records",
    "set": "give a list of numbers, in the order of the records",
}


class _RefusedError(Exception):
    """Reason why values are refused: a predicate of "values", advice, and how many values of all.

    Without `counts` the reason concerns the container.
    """

    def __init__(self, what: str, advice: str, counts: tuple[int, int] | None = None) -> None:
        super().__init__(what, advice)
        self.what, self.advice, self.counts = what, advice, counts

    def text(self, show_counts: bool) -> str:
        if self.counts is None:
            return f"{self.what}; {self.advice}"
        subject = f"{self.counts[0]} of {self.counts[1]}" if show_counts else "some"
        return f"{subject} values are {self.what}; {self.advice}"


def read_numbers(data: Any, key: str, *, vectors: bool = False, show_counts: bool = True) -> Floats:
    """Return records as a float64 array; an array of float64 is returned without a copy.

    Records have the types in the table of `dpbench.samples.records`. Their shape is (n,), or (n, d)
    if `vectors` is True. Error messages begin with `key`, the name of the argument or column. If
    `show_counts` is False, because n is private, they contain no number of records. A ValueError is
    raised if a value is no number, missing or infinite, there are no values, or the shape is wrong.
    """
    with _refusals(key, show_counts):
        array = _as_floats(data)
        shape = "(n,) or (n, d)" if vectors else "(n,)"
        if array.ndim not in (1, 1 + vectors):
            raise _RefusedError(f"{array.ndim} dimensions", f"give data of shape {shape}")
        if not array.size:
            raise _RefusedError("no records", f"give non-empty data of shape {shape}")
        if not (finite := np.isfinite(array)).all():
            nan = int(np.count_nonzero(np.isnan(array)))
            what = "missing" if nan else "infinite or above the largest float64"
            advice = "fill them with a public constant (a dropped record changes n)"
            raise _RefusedError(what, advice, (nan or int(np.count_nonzero(~finite)), array.size))
    return array


def cast_numbers(data: Any, key: str) -> Floats:
    """Return numbers of any shape as float64, with NaN for missing values; see `read_numbers`."""
    if type(data) is np.ndarray and data.dtype == np.float64:
        return data
    with _refusals(key, show_counts=True):
        return _as_floats(data)


@contextlib.contextmanager
def _refusals(key: str, show_counts: bool) -> Iterator[None]:
    """Raise ValueError with a key if values are refused inside this context."""
    try:
        yield
    except _RefusedError as refusal:
        # Without `from None` a traceback might print the values of another library's error.
        raise ValueError(f"{key}: {refusal.text(show_counts)}") from None


def _as_floats(data: Any, depth: int = 0) -> Floats:
    """Return `data` as float64, with NaN for missing values; raise _RefusedError for other types.

    `depth` counts the lists around `data`.
    """
    if isinstance(data, np.ma.MaskedArray):
        values = _as_floats(data.data).copy()
        values[np.ma.getmaskarray(data)] = np.nan
        return values
    if is_pandas(data, "Series", "Index", "api.extensions.ExtensionArray"):
        return _read_pandas(data)
    if (table := table_of(data)) is not None:
        columns = [_as_floats(column) for column in table[1]]
        return np.stack(columns, axis=1) if columns else np.empty((0, 0))
    if (column := arrow_column(data)) is not None:
        return _read_arrow(column)
    if isinstance(data, Mapping):
        raise _refuse_type(f"mapping {type(data).__name__}")
    if isinstance(data, str | bytes | bytearray | memoryview) or is_unordered(data):
        raise _refuse_type(type(data).__name__)
    if hasattr(data, "toarray"):
        raise _refuse_type(f"sparse {type(data).__name__}")
    if hasattr(data, "__array__") and not hasattr(data, "__arrow_c_stream__"):
        return _read_array(np.asarray(data))
    items = list(data) if isinstance(data, Iterable) else None
    return np.asarray(_read_list([data], depth)[0] if items is None else _read_list(items, depth))


def _refuse_type(name: str, counts: tuple[int, int] | None = None) -> _RefusedError:
    """Return the refusal of a type, with the advice for it."""
    found = (advice for word, advice in ADVICE.items() if word in name.lower())
    what = f"of type {name}"
    what = what if counts else f"its values are {what}"
    return _RefusedError(what, next(found, "give numbers"), counts)


def _read_array(array: np.ndarray[Any, Any]) -> Floats:
    if array.dtype.kind == "O":
        return _read_scalars(array.ravel().tolist()).reshape(array.shape)
    if array.dtype.kind not in "biuf":
        raise _refuse_type(array.dtype.name)
    with np.errstate(over="ignore"):  # of a wider float
        return np.asarray(array, dtype=np.float64)


def _read_pandas(values: Any) -> Floats:
    """Return the values of a Series, an Index or an extension array."""
    dtype = values.dtype
    if isinstance(dtype, np.dtype):
        return _read_array(values.to_numpy())
    if (arrow := getattr(dtype, "pyarrow_dtype", None)) is not None:
        import pyarrow as pa

        return _read_arrow(pa.array(getattr(values, "array", values), type=arrow))
    if dtype.kind not in "biuf" or "sparse" in str(dtype).lower():
        raise _refuse_type(str(dtype))
    return np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))


def _read_arrow(column: Any) -> Floats:
    """Return the values of a pyarrow Array or ChunkedArray."""
    import pyarrow.types as is_type

    kind = column.type
    known = (is_type.is_integer, is_type.is_floating, is_type.is_boolean, is_type.is_decimal)
    if not any(test(kind) for test in (*known, is_type.is_null)):
        raise _refuse_type(str(kind))
    return _read_array(np.asarray(column.to_numpy(zero_copy_only=False)))


def _read_list(items: list[Any], depth: int) -> Floats:
    """Return the numbers of a list, or the rows of a list of sequences."""
    kinds = set(map(type, items))
    nested = {kind for kind in kinds if _holds_values(kind)}
    if not nested:
        return _read_scalars(items)
    ragged = _RefusedError("rows of different lengths", "give rows of equal length")
    if nested != kinds:
        raise ragged
    if depth > 1:
        raise _RefusedError("more than two dimensions", "give data of shape (n,) or (n, d)")
    if kinds <= {list, tuple}:  # one list of all values is read fast
        width = len(items[0])
        if any(len(item) != width for item in items):
            raise ragged
        flat = _read_list(list(itertools.chain.from_iterable(items)), depth + 1)
        return flat.reshape(len(items), width, *flat.shape[1:])
    rows = [_as_floats(item, depth + 1) for item in items]
    if len({row.shape for row in rows}) > 1:
        raise ragged
    return np.stack(rows)


def _holds_values(kind: type) -> bool:
    """Return whether the instances of a type are sequences, arrays or columns."""
    scalar = (str, bytes, bytearray, Mapping, Set, np.generic, np.ma.core.MaskedConstant)
    return issubclass(kind, Sized) and not issubclass(kind, scalar)


def _read_scalars(items: list[Any]) -> Floats:
    """Return Python or numpy scalars as float64; None and its like become NaN."""
    kinds = set(map(type, items))
    if other := {kind for kind in kinds if not _is_number(kind)}:
        if any(hasattr(kind, "as_py") for kind in other):  # pyarrow's scalars
            return _read_scalars(
                [getattr(item, "as_py", lambda item=item: item)() for item in items]
            )
        bad = [item for item in items if type(item) in other and not is_missing(item)]
        if bad:
            raise _refuse_type(type(bad[0]).__name__, (len(bad), len(items)))
        items = [math.nan if type(item) in other else item for item in items]
    try:
        with np.errstate(over="ignore"):
            return np.array(items, dtype=np.float64)
    except (OverflowError, ValueError):
        return np.array([_to_float(item) for item in items])


def _is_number(kind: type) -> bool:
    return issubclass(kind, NUMBERS) and not issubclass(kind, np.timedelta64)  # an np.integer


def _to_float(number: Any) -> float:
    try:
        return float(number)
    except OverflowError:
        return math.inf
    except ValueError:  # the signalling NaN of Decimal
        return math.nan


def is_missing(value: Any) -> bool:
    """Return whether a scalar stands for a missing value, in any of its forms."""
    if value is None or value is np.ma.masked:
        return True
    if isinstance(value, np.datetime64 | np.timedelta64):
        return bool(np.isnat(value))
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, float | np.floating):
        return bool(np.isnan(value))
    return type(value).__name__ in {"NAType", "NaTType"}  # of pandas, which may not be loaded


def is_unordered(values: Any) -> bool:
    """Return whether a collection has no order, as a set has none; the keys of a dict have one."""
    return isinstance(values, Set | Mapping) and not isinstance(values, Reversible)


def is_pandas(data: Any, *names: str) -> bool:
    """Return whether `data` is an instance of one of pandas' classes, without loading pandas."""
    pandas = sys.modules.get("pandas")
    if pandas is None:
        return False
    classes = []
    for name in names:
        found: Any = pandas
        for part in name.split("."):
            found = getattr(found, part)
        classes.append(found)
    return isinstance(data, tuple(classes))


def arrow_column(data: Any) -> Any:
    """Return a column of pyarrow, polars or another Arrow library as pyarrow's; None if it is none.

    Tables are not columns. The addresses in a column of Python objects of polars are none either.
    """
    if str(getattr(data, "dtype", "")) == "Object":
        return None
    streams, arrays = (hasattr(data, f"__arrow_c_{name}__") for name in ("stream", "array"))
    if not (streams or arrays):
        return None
    import pyarrow as pa

    try:
        return pa.chunked_array(data) if streams else pa.array(data)
    except pa.ArrowException:  # a type that pyarrow lacks, such as Int128 of polars
        return None


def table_of(data: Any) -> tuple[list[Hashable], list[Any]] | None:
    """Return names and columns of a table of pandas, polars or pyarrow; None if it is no table."""
    if is_pandas(data, "DataFrame"):
        return list(data.columns), [data.iloc[:, i] for i in range(data.shape[1])]
    if not hasattr(data, "__arrow_c_stream__") or not hasattr(data, "columns"):
        return None
    if hasattr(data, "get_columns"):  # polars
        return list(data.columns), list(data.get_columns())
    import pyarrow as pa

    table = pa.table(data)
    return list(table.column_names), list(table.columns)
