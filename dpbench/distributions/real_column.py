"""Columns of real data that come with dpbench."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from functools import cache, cached_property
from typing import Annotated, Any, Self

import numpy as np
from pydantic import AfterValidator, Field, field_validator, model_validator

from dpbench.arrays import Floats, Ints
from dpbench.distributions.base import Distribution
from dpbench.distributions.empirical import MAX_COUNTED_ATOMS, SHIPPED, invalid_key
from dpbench.distributions.value_table import ValueTable
from dpbench.errors import choose_from
from dpbench.registry import validated
from dpbench.samples import CountedSample, DenseSample, Sample
from dpbench.seeds import stream

__all__ = ["RealColumn", "column_names"]

OWN_FILE = "take kind: empirical, with path and column, for a file of your own"
FOLDER = SHIPPED / "columns"
# Smallest n, per distinct value, from which on samples store counts. With fewer records a list is
# cheaper, because splitting counts into buckets costs time per distinct value and bucket.
MIN_RECORDS_PER_VALUE = 64
# Records of a sample stored as counts that take the room of one number, as `held` states. Pairs of
# records are listed, so a smaller value would hold too many trials in memory at once.
RECORDS_PER_NUMBER = 8


def column_names() -> list[str]:
    """Return the names of the columns that come with dpbench, in alphabetical order."""
    return sorted(path.stem for path in FOLDER.glob("*.csv"))


def _check_name(name: str) -> str:
    if name not in (names := column_names()):
        raise ValueError(f"no such column; {choose_from(name, names)}, or {OWN_FILE}")
    return name


@cache
def _read(name: str) -> ValueTable:
    """Read the values and counts of a column."""
    lines = (FOLDER / f"{name}.csv").read_text("utf-8").split()[1:]
    pairs = [line.split(",") for line in lines]
    values = np.array([float(value) for value, _ in pairs])
    return ValueTable(values, np.array([int(count) for _, count in pairs]))


@validated
class RealColumn(Distribution):
    """Records of a real column, such as medical spending or flight delays.

    A record is location + scale x, where x is a value of the column. By default records are drawn
    uniformly and with replacement, so the mean of the distribution is the mean of the column. The
    page of the columns gives their sources, licences and moments.

    Parameters
    ----------
    column : str
        Name of a column in ``dpbench/data/columns``.
    location : float
        Number added to every record, in the unit of the data.
    scale : float, not 0
        Factor of the values, such as 0.001 to count in thousands; negative for a mirror image.
    fixed : bool
        False (the default): every trial draws its records. True: all trials have one dataset, and
        the value to estimate is its mean. For n = N, the number of rows, the dataset is the column.
        For smaller n it is a part of the column that a fixed seed draws without replacement. For
        larger n every row occurs floor(n/N) times, and such a part once more. The order of the
        records is drawn in every trial.
    tilt : float
        Exponent theta of the tilt, 0 by default: a value of rank r has exp(theta r) times its
        weight in the column, up to a factor. The rank is the share of rows with smaller records,
        plus half of the share of rows with an equal record. Ranks have the mean 1/2, so that the
        mean of exp(theta r) is at least exp(theta/2), by Jensen's inequality. Hence no weight grows
        by a larger factor than exp(abs(theta)/2), and the variance does not either.
    """

    column: Annotated[str, AfterValidator(_check_name)]
    location: float = 0.0
    scale: Annotated[float, Field(allow_inf_nan=False)] = 1.0
    fixed: bool = False
    tilt: Annotated[float, Field(ge=-50, le=50)] = 0.0

    @model_validator(mode="after")
    def _check_tilt(self) -> Self:
        if self.fixed and self.tilt:
            raise ValueError("a fixed dataset has no tilt; give fixed: false, or no tilt")
        return self

    @model_validator(mode="before")
    @classmethod
    def _refuse_path(cls, given: Any) -> Any:
        keys = getattr(given, "kwargs", given) or {}
        if "path" in keys:
            raise invalid_key(cls, "path", keys["path"], f"no such key; {OWN_FILE}")
        return given

    @field_validator("scale")
    @classmethod
    def _check_scale(cls, scale: float) -> float:
        if not scale:
            raise ValueError("a factor of 0 makes all records equal; give another number")
        return scale

    @property
    def content(self) -> str:
        """Digest of the column's values and counts, for the names of random streams."""
        table = _read(self.column)
        parts = table.values.astype("<f8").tobytes() + table.counts.astype("<i8").tobytes()
        return hashlib.sha256(parts).hexdigest()[:16]

    @property
    def rows(self) -> int:
        """Number of rows of the column."""
        return int(_read(self.column).counts.sum())

    @property
    def counted(self) -> bool:  # type: ignore[override]
        return self._table.values.size <= MAX_COUNTED_ATOMS

    def _counts_records(self, n: int) -> bool:
        """Return True if samples of n records store counts instead of records."""
        return self.counted or n >= MIN_RECORDS_PER_VALUE * self._table.values.size

    def held(self, n: int) -> float:
        if self.counted:
            return 1.0
        return n / RECORDS_PER_NUMBER if self._counts_records(n) else float(n)

    @property
    def mean(self) -> float:
        return self._table.mean

    def target_of(self, sample: Sample) -> float | Floats:
        return self._dataset(sample.n).mean if self.fixed else self.mean

    def moment(self, k: float) -> float:
        return self._table.moment(k)

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample | DenseSample:
        if self.fixed:
            return self._repeat(rng, trials, n)
        table = self._table
        if self._counts_records(n):
            return CountedSample(table.values, rng.multinomial(n, table.weights, size=trials))
        if self.tilt:
            edges = np.cumsum(table.weights)
            places = np.searchsorted(edges, rng.random((trials, n)) * edges[-1], side="right")
            return DenseSample(table.values[np.minimum(places, edges.size - 1)])
        # Drawing a row number and looking it up is faster than drawing by probabilities.
        rows = np.repeat(table.values, table.counts)
        return DenseSample(rows[rng.integers(rows.size, size=(trials, n))])

    def _repeat(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample | DenseSample:
        """Return the fixed dataset in every trial, each time in another order."""
        data = self._dataset(n)
        if self._counts_records(n):
            return CountedSample(data.values, np.tile(data.counts, (trials, 1)))
        rows = np.tile(np.repeat(data.values, data.counts), (trials, 1))
        return DenseSample(rng.permuted(rows, axis=1))

    def _dataset(self, n: int) -> ValueTable:
        """Return the fixed dataset of n records."""
        counts = _count_fixed(self.column, n)
        return self._move(_read(self.column).values[counts > 0], counts[counts > 0])

    @cached_property
    def _table(self) -> ValueTable:
        """Values of records with their counts in the column."""
        table = _read(self.column)
        return replace(self._move(table.values, table.counts), tilt=self.tilt)

    def _move(self, values: Floats, counts: Ints) -> ValueTable:
        """Return the table of the records location + scale x for the values x of a column."""
        return ValueTable.of(self.location + self.scale * values, counts)


@cache
def _count_fixed(column: str, n: int) -> Ints:
    """Return how often each distinct value of a column occurs in its fixed dataset of n records.

    The counts have the order of the column's table of values, and their sum is n.
    """
    counts = _read(column).counts
    copies, rest = divmod(n, int(counts.sum()))
    part = stream("fixed records", column, n).multivariate_hypergeometric(counts, rest)
    return np.asarray(copies * counts + part)
