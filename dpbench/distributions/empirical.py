"""Bootstrap from a data file."""

from __future__ import annotations

import gzip
import hashlib
import math
import warnings
import zlib
from decimal import Decimal
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import numpy as np
from pydantic import Field, ValidationError, model_validator
from pydantic_core import InitErrorDetails, PydanticCustomError

from dpbench.arrays import Floats
from dpbench.distributions.base import Distribution
from dpbench.distributions.value_table import ValueTable
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample
from dpbench.samples.rows import norms

if TYPE_CHECKING:
    import pandas as pd

    # Names of all columns of a file, and values of the requested columns that exist.
    _ReadColumns = tuple[list[str], dict[str, pd.Series[Any]]]

__all__ = ["Empirical"]

# Folder of the data sets that come with the package.
SHIPPED = Path(__file__).parents[1] / "data"
FORMATS = (".csv", ".csv.gz", ".parquet")
# Largest number of distinct values to store samples as counts, because pairing takes its square.
MAX_COUNTED_ATOMS = 64
# Limits of a file: columns, bytes of unpacked text, records.
MAX_FILE_COLUMNS, MAX_FILE_BYTES, MAX_FILE_RECORDS = 10_000, 1 << 30, 10_000_000
# Columns that a message names, and characters of a value that it quotes.
MAX_NAMED_COLUMNS, MAX_QUOTED_LENGTH = 8, 40


@validated
class Empirical(Distribution):
    """Bootstrap from a data file: records drawn uniformly and with replacement from its rows.

    A record consists of the values of a row in the chosen columns. The file is read once, when the
    instance is made. Integers become float64.

    Parameters
    ----------
    path : str
        Data file that ends in .csv, .csv.gz or .parquet. A relative path in a configuration file
        starts at the folder of the configuration file. A relative path from the command line or
        Python starts at the working folder. If there is no such data file, the package's data sets
        are searched.
    column : str, optional
        Name of a column of finite numbers without missing values.
    columns : list of str, optional
        Names of the columns that are the coordinates of vectors; instead of `column`.
    """

    path: str
    column: str | None = None
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    added_parameters: ClassVar[dict[str, Any]] = {"columns": None}

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


def _invalid(key: str, value: Any, reason: str) -> ValidationError:
    """Return a validation error for the invalid value of a configuration key, `key`.

    Callers raise it in place of a ValueError, because a ValueError does not name the key.
    """
    problem = PydanticCustomError("refused", "{line}", {"line": " ".join(reason.split())})
    details = InitErrorDetails(type=problem, loc=(key,), input=value)
    return ValidationError.from_exception_data(Empirical.__name__, [details])


def _read_columns(path: str, columns: list[str], key: str) -> list[Floats]:
    """Return the values of the named columns of the file `path`.

    Raise an error if a column is missing or invalid; the error names the configuration's `key`.
    """
    from pyarrow import ArrowException

    file = _find_file(path)
    try:
        names, series = (_read_parquet if path.lower().endswith(FORMATS[-1]) else _read_csv)(
            file, columns
        )
    except (OSError, EOFError, ValueError, ArrowException, Warning, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _invalid("path", path, f"cannot be read: {reason}") from error
    values = []
    for column in columns:
        if column not in series:
            listed = ", ".join(names[:MAX_NAMED_COLUMNS])
            rest = f", ... ({len(names)} in all)" if len(names) > MAX_NAMED_COLUMNS else ""
            reason = f"no such column in {path}; choose from {listed}{rest}"
            raise _invalid(key, column, reason)
        try:
            values.append(_as_float64(series[column]))
        except ValueError as error:
            raise _invalid(key, column, f"{error} in {path}") from error
    return values


def _find_file(path: str) -> Path:
    if not path.lower().endswith(FORMATS):
        raise _invalid("path", path, f"expected a file that ends in one of {', '.join(FORMATS)}")
    try:
        # Joining an absolute path to a folder returns the absolute path.
        file = next(
            (candidate for candidate in (Path(path), SHIPPED / path) if candidate.exists()), None
        )
    except (OSError, ValueError):  # not a valid file name
        file = None
    if file is None:
        where = "" if Path(path).is_absolute() else " in the working folder, nor in dpbench/data"
        raise _invalid("path", path, f"no such file{where}")
    if not file.is_file():
        raise _invalid("path", path, "not a file")
    return file


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
    with warnings.catch_warnings():
        # Without this, pandas only warns if a row has too many fields, and drops the last fields.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        # Read text, because versions of pandas round numbers differently. Keep blank lines, because
        # they are missing values in a file with one column.
        frame = pd.read_csv(
            file, dtype=str, index_col=False, skip_blank_lines=False, nrows=MAX_FILE_RECORDS + 1
        )
    _check_records(len(frame))
    names = [str(name) for name in frame.columns]
    present = [name for name in columns if name in names]
    return names, {name: frame[name].map(_parse_number, na_action="ignore") for name in present}


def _parse_number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _read_parquet(file: Path, columns: list[str]) -> _ReadColumns:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        names = list(opened.schema_arrow.names)
        present = [name for name in columns if name in names]
        for name in present:
            groups = (opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups))
            chunks = (group.column(i) for group in groups for i in range(group.num_columns))
            # The leaves of a nested column have paths that begin with its name.
            leaves = (
                chunk for chunk in chunks if f"{chunk.path_in_schema}.".startswith(f"{name}.")
            )
            _check_records(sum(chunk.num_values for chunk in leaves))
        table = opened.read(columns=present)
        return names, {name: table.column(name).to_pandas() for name in present}


def _as_float64(values: pd.Series[Any]) -> Floats:
    """Return `values` as float64; raise ValueError unless all are finite numbers."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not (size := len(values)):
        raise ValueError("no records")
    if is_bool_dtype(values) or not is_numeric_dtype(values):
        present = values[values.notna()].tolist()
        numeric = (int, float, Decimal)
        # Booleans are integers in Python: without this test True would count as 1.
        not_numbers = [v for v in present if isinstance(v, bool) or not isinstance(v, numeric)]
        if not_numbers:
            shown = repr(not_numbers[0])
            shown = shown[:MAX_QUOTED_LENGTH] + "..." * (len(shown) > MAX_QUOTED_LENGTH)
            raise ValueError(
                f"{len(not_numbers)} of {size} values are no numbers, such as {shown},"
            )
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    for problem, bad in (("missing", np.isnan(numbers)), ("infinite", np.isinf(numbers))):
        if np.any(bad):
            raise ValueError(f"{np.count_nonzero(bad)} of {size} values are {problem}")
    return numbers
