"""Bootstrap from a data file."""

from __future__ import annotations

import gzip
import hashlib
import math
import re
import warnings
import zlib
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.distributions.value_table import ValueTable
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample
from dpbench.samples.records import read_numbers
from dpbench.samples.rows import norms

if TYPE_CHECKING:
    # Names of all columns of a file, and values of the requested columns that exist once.
    _ReadColumns = tuple[list[str], dict[str, Any]]

__all__ = ["Empirical"]

# Folder of the data sets that come with the package.
SHIPPED = Path(__file__).parents[1] / "data"
FORMATS = (".csv", ".csv.gz", ".parquet")
# Largest number of distinct values to store samples as counts, because pairing takes its square.
MAX_COUNTED_ATOMS = 64
# Limits of a file: columns, bytes of unpacked text, records.
MAX_FILE_COLUMNS, MAX_FILE_BYTES, MAX_FILE_RECORDS = 10_000, 1 << 30, 10_000_000
MAX_NAMED_COLUMNS = 8  # columns that a message names
LFS_POINTER = b"version https://git-lfs"
SEPARATORS = {";": "semicolons", "\t": "tabs", "|": "bars"}
# Parts of messages of pandas, and what we say instead.
EXPLANATIONS = {
    "Length of header": "rows have more fields than the header; quote fields with commas",
    "EOF inside string": "a quotation mark is not closed",
    "No columns to parse": "the file is empty; it needs a header with names of columns",
    "codec can't decode": "it is not UTF-8 text; save it as UTF-8",
}


@validated
class Empirical(Distribution):
    """Bootstrap from a data file: records drawn uniformly and with replacement from its rows.

    A record consists of the values of a row in the chosen columns. The file is read once, when the
    instance is made. Integers become float64.

    Parameters
    ----------
    path : str
        Data file that ends in .csv, .csv.gz or .parquet; ``~`` is the home folder. A relative path
        in a configuration file starts at the folder of the configuration file. A relative path from
        the command line or Python starts at the working folder. If there is no such data file, the
        package's data sets are searched.
    column : str, optional
        Name of a column of finite numbers without missing values; `dpbench.samples.records` lists
        the types of numbers. No other column may have this name.
    columns : list of str, optional
        Names of the columns that are the coordinates of vectors; instead of `column`.
    """

    path: str
    column: str | None = None
    columns: Annotated[list[str], Field(min_length=1)] | None = None

    @model_validator(mode="after")
    def _check_columns(self) -> Self:
        if (self.column is None) == (self.columns is None):
            raise ValueError("give column, or columns: [NAME, NAME] for vectors")
        with np.errstate(over="ignore", invalid="ignore"):
            if not math.isfinite(self.variance):
                key, value = ("columns", self.columns) if self.columns else ("column", self.column)
                raise _invalid(key, value, "the variance of its values overflows")
        return self

    @property
    def content(self) -> str:
        """Digest of the values in the data file, in their order.

        The name of a random stream contains this digest in place of `path`. So two files with equal
        values give equal draws.
        """
        return hashlib.sha256(self._values.astype("<f8").tobytes()).hexdigest()[:16]

    @property
    def d(self) -> int:  # type: ignore[override]
        return len(self.columns or [""])

    @property
    def counted(self) -> bool:  # type: ignore[override]
        return self.columns is None and self._table.values.size <= MAX_COUNTED_ATOMS

    @property
    def mean(self) -> float | Floats:
        if self.columns is None:
            return self._table.mean
        return np.array([ValueTable.of(column).mean for column in self._values.T])

    @property
    def variance(self) -> float:
        return self.moment(2) if self.columns is None else float(np.trace(self.covariance))

    @property
    def covariance(self) -> Floats:
        if self.columns is None:
            return super().covariance
        return np.asarray(self._centred.T @ self._centred / len(self._centred))

    def moment(self, k: float) -> float:
        if self.columns is None:
            return self._table.moment(k)
        if k == 2:
            return float(np.linalg.eigvalsh(self.covariance)[-1])
        return float((norms(self._centred) ** k).mean())  # |<v, x>| <= |x|

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample | DenseSample:
        if self.counted:
            counts = rng.multinomial(n, self._table.weights, size=trials)
            return CountedSample(self._table.values, counts)
        return DenseSample(self._values[rng.integers(len(self._values), size=(trials, n))])

    @cached_property
    def _values(self) -> Floats:
        """Records of the file: shape (records,) if they are numbers, (records, d) if vectors."""
        if self.columns is not None:
            values = np.stack(_read_columns(self.path, self.columns, "columns"), axis=1)
        else:
            (values,) = _read_columns(self.path, [self.column or ""], "column")
        values.flags.writeable = False
        return values

    @cached_property
    def _centred(self) -> Floats:
        """Vectors of the file minus their mean, (records, d)."""
        middles = np.array([ValueTable.of(column).middle for column in self._values.T])
        centred: Floats = self._values - middles[:, 0] - middles[:, 1]
        return centred

    @cached_property
    def _table(self) -> ValueTable:
        """Distinct values of the file with their counts."""
        return ValueTable.of(self._values)


def invalid_key(cls: type, key: str, value: Any, reason: str) -> ValidationError:
    """Return a validation error for the invalid value of a configuration key, `key`, of a class.

    Callers raise it in place of a ValueError, because a ValueError does not name the key.
    """
    problem = PydanticCustomError("refused", "{line}", {"line": " ".join(reason.split())})
    details = InitErrorDetails(type=problem, loc=(key,), input=value)
    return ValidationError.from_exception_data(cls.__name__, [details])


def _invalid(key: str, value: Any, reason: str) -> ValidationError:
    return invalid_key(Empirical, key, value, reason)


def _read_columns(path: str, columns: list[str], key: str) -> list[Floats]:
    """Return the values of the named columns of the file `path`.

    Raise an error if a column is missing or invalid; the error names the configuration's `key`.
    """
    from pyarrow import ArrowException

    file = _find_file(path)
    try:
        _check_pointer(file)
        names, found = (_read_parquet if path.lower().endswith(FORMATS[-1]) else _read_csv)(
            file, columns
        )
    except (OSError, EOFError, ValueError, ArrowException, Warning, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _invalid("path", path, f"cannot be read: {_explain(reason)}") from error
    values = []
    for column in columns:
        if (count := names.count(column)) != 1:
            told = (
                _list_names(names) if not count else f"{count} columns have this name; rename them"
            )
            raise _invalid(
                key, column, f"{'no such column in ' if not count else ''}{path}; {told}"
            )
        try:
            values.append(read_numbers(found[column], path))
        except ValueError as error:
            raise _invalid(key, column, str(error)) from error
    return values


def _find_file(path: str) -> Path:
    if not path.lower().endswith(FORMATS):
        raise _invalid("path", path, f"expected a file that ends in one of {', '.join(FORMATS)}")
    try:
        # Joining an absolute path to a folder returns the absolute path.
        candidates = (Path(path).expanduser(), SHIPPED / path)
        file = next((candidate for candidate in candidates if candidate.exists()), None)
    except (OSError, RuntimeError, ValueError):  # not a valid file name, or no such home folder
        file = None
    if file is None:
        elsewhere = path.startswith("~") or Path(path).is_absolute()
        where = "" if elsewhere else " in the working folder, nor in dpbench/data"
        raise _invalid("path", path, f"no such file{where}")
    if not file.is_file():
        raise _invalid("path", path, "not a file")
    return file


def _list_names(names: list[str]) -> str:
    """Return "choose from A, B" for the names of columns, quoted where spaces surround them."""
    shown = [name if name == name.strip() else repr(name) for name in names[:MAX_NAMED_COLUMNS]]
    rest = f", ... ({len(names)} in all)" if len(names) > MAX_NAMED_COLUMNS else ""
    return f"choose from {', '.join(shown)}{rest}"


def _check_pointer(file: Path) -> None:
    """Raise ValueError if the file is what Git stores in place of a large file."""
    with file.open("rb") as opened:
        if opened.read(len(LFS_POINTER)) == LFS_POINTER:
            raise ValueError("it is a pointer of Git LFS, not the data; run git lfs pull")


def _explain(reason: str) -> str:
    """Return the reason why a file cannot be read, in our words for errors of pandas."""
    if found := re.search(r"Expected (\d+) fields in line (\d+), saw (\d+)", reason):
        fields, line, more = found.groups()
        return f"line {line} has {more} fields, and the header {fields}; quote fields with commas"
    return next((ours for theirs, ours in EXPLANATIONS.items() if theirs in reason), reason)


def _check_text(file: Path) -> None:
    """Raise ValueError if a text file has too many columns or bytes, unpacked if it ends in .gz."""
    packed = file.name.lower().endswith(".gz")
    with gzip.open(file) if packed else file.open("rb") as text:
        columns = text.readline(MAX_FILE_BYTES >> 8).count(b",") + 1
        if columns > MAX_FILE_COLUMNS:
            raise ValueError(f"{columns} columns, more than {MAX_FILE_COLUMNS}")
        while text.read(1 << 20):
            if text.tell() > MAX_FILE_BYTES:
                raise ValueError(f"more than {MAX_FILE_BYTES} bytes of text")


def _check_records(size: int) -> None:
    if size > MAX_FILE_RECORDS:
        raise ValueError(f"more than {MAX_FILE_RECORDS} records")


def _read_csv(file: Path, columns: list[str]) -> _ReadColumns:
    import pandas as pd

    _check_text(file)
    # Read text, because versions of pandas round numbers differently. Keep blank lines, because
    # they are missing values in a file with one column.
    options: Any = {"dtype": str, "index_col": False, "skip_blank_lines": False}
    # Without this line, pandas renames the second of two columns of one name.
    header = pd.read_csv(file, header=None, nrows=1, keep_default_na=False, **options)
    names = [str(name) for name in header.iloc[0]]
    if len(names) == 1 and names[0] not in columns:
        for separator, word in SEPARATORS.items():
            if separator in names[0]:
                raise ValueError(f"its fields are separated by {word}; save it with commas")
    with warnings.catch_warnings():
        # Without this, pandas only warns if a row has too many fields, and drops the last fields.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        frame = pd.read_csv(file, nrows=MAX_FILE_RECORDS + 1, **options)
    _check_records(len(frame))
    names = [name or str(made) for name, made in zip(names, frame.columns, strict=True)]
    present = [name for name in columns if names.count(name) == 1]
    read = {name: frame.iloc[:, names.index(name)] for name in present}
    return names, {
        name: [
            _parse_number(text) if present else None
            for text, present in zip(texts, texts.notna(), strict=True)
        ]
        for name, texts in read.items()
    }


def _parse_number(text: str) -> float | str:
    """Return the number that a field of a CSV file contains, or the field if it is no number."""
    try:
        # `float` also reads digits of other scripts, and 1_0.
        return float(text) if text.isascii() and "_" not in text else text
    except ValueError:
        return text


def _read_parquet(file: Path, columns: list[str]) -> _ReadColumns:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        names = list(opened.schema_arrow.names)
        present = [name for name in dict.fromkeys(columns) if names.count(name) == 1]
        for name in present:
            groups = (opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups))
            chunks = (group.column(i) for group in groups for i in range(group.num_columns))
            # The leaves of a nested column have paths that begin with its name.
            leaves = (
                chunk for chunk in chunks if f"{chunk.path_in_schema}.".startswith(f"{name}.")
            )
            _check_records(sum(chunk.num_values for chunk in leaves))
        table = opened.read(columns=present)
        return names, {name: table.column(name) for name in present}
