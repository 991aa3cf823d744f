"""Records of a data file, as a population to draw from."""

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
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample
from dpbench.samples.rows import norms

if TYPE_CHECKING:
    import pandas as pd

    # The names of all columns of a file, and the values of the wanted columns among them.
    _Read = tuple[list[str], dict[str, pd.Series[Any]]]

__all__ = ["Empirical"]

# The data sets that come with the package.
SHIPPED = Path(__file__).parents[1] / "data"
FORMATS = (".csv", ".csv.gz", ".parquet")
# Largest number of distinct values for which samples are counts: pairing records takes its square.
MOST_ATOMS = 64
# Limits of a file: columns, bytes of unpacked text, records.
MOST_COLUMNS, MOST_BYTES, MOST_RECORDS = 10_000, 1 << 30, 10_000_000
# Columns that a message names, and characters of a value that it quotes.
MOST_NAMES, LONGEST = 8, 40


@validated
class Empirical(Distribution):
    """Bootstrap from a data file: records drawn uniformly, with replacement, from its columns.

    The file is read once, when the instance is made. Integers become float64.

    Parameters
    ----------
    path : str
        File that ends in .csv, .csv.gz or .parquet. A relative path is looked up in the folder of
        the configuration that names it, or, from the command line and Python, in the working
        folder; then among the data sets that come with the package.
    column : str, optional
        Name of a column of finite numbers without missing values.
    columns : list of str, optional
        Names of the columns that are the coordinates of vectors, instead of `column`.
    """

    path: str
    column: str | None = None
    columns: Annotated[list[str], Field(min_length=1)] | None = None
    added_parameters: ClassVar[dict[str, Any]] = {"columns": None}

    @model_validator(mode="after")
    def _finite_variance(self) -> Self:
        if (self.column is None) == (self.columns is None):
            raise ValueError("give column, or columns: [NAME, NAME] for vectors")
        with np.errstate(over="ignore", invalid="ignore"):
            if not math.isfinite(self.variance):
                key, value = ("columns", self.columns) if self.columns else ("column", self.column)
                raise _refused(key, value, "the variance of its values overflows")
        return self

    @property
    def content(self) -> str:
        """Digest of the values in their order, by which `canonical` names the distribution."""
        return hashlib.sha256(self._values.astype("<f8").tobytes()).hexdigest()[:16]

    @property
    def d(self) -> int:  # type: ignore[override]
        return len(self.columns or [""])

    @property
    def counted(self) -> bool:  # type: ignore[override]
        return self.columns is None and self._table[0].size <= MOST_ATOMS

    @property
    def mean(self) -> float | Floats:
        if self.columns is None:
            return sum(self._middle)
        return np.array([sum(_middle(*_atoms(column))) for column in self._values.T])

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
            atoms, weights = self._table
            centre, shift = self._middle  # keep the digits that rounding the mean would cost
            return math.fsum(np.abs(atoms - centre - shift) ** k * weights)
        if k == 2:
            return float(np.linalg.eigvalsh(self.covariance)[-1])
        return float((norms(self._centred) ** k).mean())  # |<v, x>| <= |x|

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample | DenseSample:
        if self.counted:
            atoms, weights = self._table
            return CountedSample(atoms, rng.multinomial(n, weights, size=trials))
        return DenseSample(self._values[rng.integers(len(self._values), size=(trials, n))])

    @cached_property
    def _values(self) -> Floats:
        """Numbers, (size,), or vectors, (size, d), of the file."""
        if self.columns is not None:
            values = np.stack(_read(self.path, self.columns, "columns"), axis=1)
        else:
            (values,) = _read(self.path, [self.column or ""], "column")
        values.flags.writeable = False
        return values

    @cached_property
    def _centred(self) -> Floats:
        """Vectors minus their mean, (size, d)."""
        middles = np.array([_middle(*_atoms(column)) for column in self._values.T])
        centred: Floats = self._values - middles[:, 0] - middles[:, 1]
        return centred

    @cached_property
    def _table(self) -> tuple[Floats, Floats]:
        """Distinct values, increasing, and their probabilities."""
        return _atoms(self._values)

    @cached_property
    def _middle(self) -> tuple[float, float]:
        return _middle(*self._table)


def _atoms(values: Floats) -> tuple[Floats, Floats]:
    """Return the distinct values, increasing, and their shares."""
    atoms, counts = np.unique(values, return_counts=True)
    return atoms, counts / values.size


def _middle(atoms: Floats, weights: Floats) -> tuple[float, float]:
    """Return a value near the middle, and the difference of the mean from it."""
    centre = float(atoms[atoms.size // 2])
    return centre, math.fsum((atoms - centre) * weights)


def _refused(key: str, value: Any, reason: str) -> ValidationError:
    """Return a validation error at `key`; a validator of the instance could not name it."""
    problem = PydanticCustomError("refused", "{line}", {"line": " ".join(reason.split())})
    details = InitErrorDetails(type=problem, loc=(key,), input=value)
    return ValidationError.from_exception_data(Empirical.__name__, [details])


def _read(path: str, columns: list[str], key: str) -> list[Floats]:
    """Return the values of columns; refuse missing columns and values that are not finite."""
    from pyarrow import ArrowException

    file = _find(path)
    try:
        names, found = (_parquet if path.lower().endswith(FORMATS[-1]) else _csv)(file, columns)
    except (OSError, EOFError, ValueError, ArrowException, Warning, zlib.error) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise _refused("path", path, f"cannot be read: {reason}") from error
    values = []
    for column in columns:
        if column not in found:
            listed = ", ".join(names[:MOST_NAMES])
            more = f", ... ({len(names)} in all)" if len(names) > MOST_NAMES else ""
            reason = f"no such column in {path}; choose from {listed}{more}"
            raise _refused(key, column, reason)
        try:
            values.append(_numbers(found[column]))
        except ValueError as error:
            raise _refused(key, column, f"{error} in {path}") from error
    return values


def _find(path: str) -> Path:
    if not path.lower().endswith(FORMATS):
        raise _refused("path", path, f"expected a file that ends in one of {', '.join(FORMATS)}")
    try:
        # Joining an absolute path to a folder returns the absolute path.
        found = next((at for at in (Path(path), SHIPPED / path) if at.exists()), None)
    except (OSError, ValueError):  # not a valid file name
        found = None
    if found is None:
        where = "" if Path(path).is_absolute() else " in the working folder, nor in dpbench/data"
        raise _refused("path", path, f"no such file{where}")
    if not found.is_file():
        raise _refused("path", path, "not a file")
    return found


def _check_text(file: Path) -> None:
    """Raise an error if the text of a file is too long, before it is unpacked into memory."""
    packed = file.name.lower().endswith(".gz")
    with gzip.open(file) if packed else file.open("rb") as text:
        columns = text.readline(MOST_BYTES >> 8).count(b",") + 1
        if columns > MOST_COLUMNS:
            raise ValueError(f"{columns} columns, more than {MOST_COLUMNS}")
        while text.read(1 << 20):
            if text.tell() > MOST_BYTES:
                raise ValueError(f"more than {MOST_BYTES} bytes of text")


def _check_records(size: int) -> None:
    if size > MOST_RECORDS:
        raise ValueError(f"more than {MOST_RECORDS} records")


def _csv(file: Path, columns: list[str]) -> _Read:
    import pandas as pd

    _check_text(file)
    with warnings.catch_warnings():
        # Rows with more fields than the header only warn, and pandas would drop the last fields.
        warnings.simplefilter("error", pd.errors.ParserWarning)
        # Read text, because how pandas rounds numbers depends on its version; and a blank
        # line of a file with one column is a missing value.
        frame = pd.read_csv(
            file, dtype=str, index_col=False, skip_blank_lines=False, nrows=MOST_RECORDS + 1
        )
    _check_records(len(frame))
    names = [str(name) for name in frame.columns]
    wanted = [name for name in columns if name in names]
    return names, {name: frame[name].map(_number, na_action="ignore") for name in wanted}


def _number(text: str) -> float | str:
    try:
        return float(text)
    except ValueError:
        return text


def _parquet(file: Path, columns: list[str]) -> _Read:
    import pyarrow.parquet as pq

    with pq.ParquetFile(file) as opened:
        names = list(opened.schema_arrow.names)
        wanted = [name for name in columns if name in names]
        for name in wanted:
            groups = (opened.metadata.row_group(i) for i in range(opened.metadata.num_row_groups))
            chunks = (group.column(i) for group in groups for i in range(group.num_columns))
            # A nested column counts with all of its leaves.
            own = (one for one in chunks if f"{one.path_in_schema}.".startswith(f"{name}."))
            _check_records(sum(one.num_values for one in own))
        table = opened.read(columns=wanted)
        return names, {name: table.column(name).to_pandas() for name in wanted}


def _numbers(values: pd.Series[Any]) -> Floats:
    """Return `values` as float64; a ValueError if one is missing, infinite or not a number."""
    from pandas.api.types import is_bool_dtype, is_numeric_dtype

    if not (size := len(values)):
        raise ValueError("no records")
    if is_bool_dtype(values) or not is_numeric_dtype(values):
        present = values[values.notna()].tolist()
        numeric = (int, float, Decimal)
        # Booleans are integers in Python: without this test True would count as 1.
        other = [v for v in present if isinstance(v, bool) or not isinstance(v, numeric)]
        if other:
            shown = repr(other[0])
            shown = shown[:LONGEST] + "..." * (len(shown) > LONGEST)
            raise ValueError(f"{len(other)} of {size} values are no numbers, such as {shown},")
    numbers = values.to_numpy(dtype=np.float64, na_value=np.nan)
    for what, bad in (("missing", np.isnan(numbers)), ("infinite", np.isinf(numbers))):
        if np.any(bad):
            raise ValueError(f"{np.count_nonzero(bad)} of {size} values are {what}")
    return numbers
