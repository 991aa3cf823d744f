"""Datasets of people who have different numbers of records."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from dpbench.arrays import Floats, Ints
from dpbench.samples.base import Sample, part_sizes
from dpbench.samples.dense import DenseSample
from dpbench.samples.labels import index_labels, sort_labels
from dpbench.samples.records import cast_numbers, read_numbers

__all__ = ["PeopleSample", "people_in", "person_rows"]


class PeopleSample(DenseSample):
    """Datasets of n people, with one record or more for each person.

    An estimator of numbers gets the mean of each person's records: one number for each person.

    Parameters
    ----------
    records : array_like of shape (total,)
        Finite records of all people of all trials, in any order of people.
    sizes : array_like of int, shape (trials, n)
        Number of records of each person, at least 1.
    starts : array_like of int, shape (trials, n), optional
        Index of each person's first record; all records of a person are in succession. By default
        the records of a person follow those of the person before. Means of one dataset that numpy
        broadcasts to all trials, as `sizes` and `starts`, are computed and stored once.
    """

    def __init__(
        self, records: ArrayLike, sizes: ArrayLike, starts: ArrayLike | None = None
    ) -> None:
        self.sizes: Ints = _whole_numbers(sizes, "sizes")
        if self.sizes.ndim != 2 or not self.sizes.size or self.sizes.min() < 1:
            raise ValueError("sizes: expected (trials, n) numbers of records, each at least 1")
        if starts is None:
            starts = np.cumsum(self.sizes).reshape(self.sizes.shape) - self.sizes
        self.starts: Ints = _whole_numbers(starts, "starts")
        if self.starts.shape != self.sizes.shape or self.starts.min() < 0:
            raise ValueError("starts: expected an index, at least 0, for each number in sizes")
        self.flat: Floats = cast_numbers(records, "records")
        one_dataset = self.sizes.strides[0] == self.starts.strides[0] == 0
        self._distinct = slice(1) if one_dataset else slice(None)  # trials to compute
        if self.flat.size < (self.starts[self._distinct] + self.sizes[self._distinct]).max():
            raise ValueError("sizes: they add up to more than the records; give all records")
        super().__init__(self._means())

    def kept_means(self, cap: int) -> Floats:
        """Return the mean of the first `cap` records of each person, or of all if there are fewer.

        Parameters
        ----------
        cap : int
            Largest number of records to keep, at least 1.

        Returns
        -------
        ndarray of shape (trials, n)
        """
        if cap >= self.sizes.max():
            return self.values
        return self._cache_answer(lambda: self._means(cap), "kept", cap)

    def _means(self, cap: int | None = None) -> Floats:
        """Return the mean of the first `cap` records of each person, or of all, (trials, n)."""
        starts, kept = self.starts[self._distinct], self.sizes[self._distinct]
        if cap is not None:
            kept = np.minimum(kept, cap)
        # reduceat adds from each start to the end after it; the sums in between are not used.
        edges = np.stack([starts, starts + kept], axis=-1).ravel()
        padded = np.append(self.flat, 0.0)
        with np.errstate(over="ignore", invalid="ignore"):
            means = np.add.reduceat(padded, edges)[::2].reshape(kept.shape) / kept
            if not np.all(np.isfinite(means)) and np.all(np.isfinite(self.flat)):
                scaled = padded / kept.max()  # so that no sum overflows
                means = np.add.reduceat(scaled, edges)[::2].reshape(kept.shape) / kept * kept.max()
                largest = np.finfo(float).max
                means = np.clip(means, -largest, largest)
        return np.broadcast_to(means, self.sizes.shape)

    def _split(self, sizes: Sequence[int], rng: np.random.Generator) -> list[Self]:
        cuts = np.cumsum(sizes)[:-1]
        parts = (np.split(array, cuts, axis=1) for array in (self.sizes, self.starts))
        return [type(self)(self.flat, *part) for part in zip(*parts, strict=True)]

    def groups(self, parts: int, rng: np.random.Generator) -> list[Self]:
        sizes = part_sizes(self.n, parts)
        cut = sizes.count(sizes[0]) * sizes[0]
        groups = []
        for people, size in ((slice(cut), sizes[0]), (slice(cut, None), sizes[-1])):
            chosen = [array[:, people].reshape(-1, size) for array in (self.sizes, self.starts)]
            groups += [type(self)(self.flat, *chosen)] if chosen[0].size else []
        return groups

    def half_squared_differences(self, rng: np.random.Generator) -> Any:
        return DenseSample(self.values).half_squared_differences(rng)


def _whole_numbers(values: ArrayLike, key: str) -> Ints:
    """Return an array of integers as int64; raise ValueError if its type is another."""
    array = np.asarray(values)
    if array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{key}: of type {array.dtype}: not whole numbers; give integers")
    return array.astype(np.int64, copy=False)


def person_rows(values: ArrayLike, persons: Iterable[Hashable], rng: np.random.Generator) -> Floats:
    """Arrange a table with one row per record as a table with one row per person.

    The row of a person holds the number m of the person's records, then the m records in a random
    order, then zeros. Estimators that limit the records of a person take such rows.

    Parameters
    ----------
    values : array_like of shape (records,)
        Finite records, of a type that `dpbench.samples.records` lists.
    persons : sequence of shape (records,)
        Identifier of the person to whom each record belongs: text, numbers, or tuples of them.
        Identifiers are one person if they are equal in value and type; `dpbench.samples.labels`
        states the rule.
    rng : Generator
        Source of the random order. Estimators may keep only the first records of a row, so the
        order must not depend on the values.

    Returns
    -------
    ndarray of shape (n, 1 + M)
        Rows of the n people, in the order of their identifiers. M is the largest number of records.

    Raises
    ------
    ValueError
        If a record is missing, infinite or no number, if a person is unknown, or if there are no
        records or another number of them than of `persons`. Nothing is drawn.

    Examples
    --------
    >>> rows = person_rows([5.0, 7.0, 7.0], ["eva", "tom", "tom"], np.random.default_rng(0))
    >>> rows.tolist()
    [[1.0, 5.0, 0.0], [2.0, 7.0, 7.0]]
    """
    numbers = read_numbers(values, "values", show_counts=False)
    person = index_persons(persons)
    if person.shape != numbers.shape:
        raise ValueError("persons: there are more or fewer than records; give one for each record")
    sizes = np.bincount(person)
    rows = np.zeros((sizes.size, 1 + sizes.max()))
    rows[:, 0] = sizes
    rows[:, 1:][np.arange(sizes.max()) < sizes[:, None]] = numbers[keep_records(person, rng)]
    return rows


def index_persons(persons: Iterable[Hashable], key: str = "persons") -> Ints:
    """Return for each record the index of its person, from 0, in the order of identifiers."""
    identifiers, index = index_labels(persons, key)
    rank = {one: i for i, one in enumerate(sort_labels(identifiers, key))}
    return np.array([rank[one] for one in identifiers], dtype=np.int64)[index]


def keep_records(person: Ints, rng: np.random.Generator, cap: int | None = None) -> Ints:
    """Return indices of records, person by person, in a random order of each person's records.

    Of each person the first `cap` are kept, or all (the default). `person` is the index of the
    person of each record, from 0.
    """
    shuffled = rng.permutation(person.size)
    order = shuffled[np.argsort(person[shuffled], kind="stable")]
    if cap is None:
        return order
    sizes = np.bincount(person)
    place = np.arange(person.size) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return order[place < cap]


def people_in(sample: Sample) -> PeopleSample | None:
    """Return the people of a sample whose rows are people; None if its records are numbers.

    The sample is a `PeopleSample`, or has vectors as `person_rows` arranges them, of two
    coordinates or more. The first coordinate is rounded down, and clipped from 1 to the number of
    the others. A number, or a vector of one coordinate, is the only record of a person. A
    ValueError is raised if the vectors are not held in a `DenseSample`.
    """
    if isinstance(sample, PeopleSample):
        return sample
    if not sample.vectors or sample.d == 1:
        return None
    if not isinstance(sample, DenseSample):
        raise ValueError("people need rows that are all held, in a DenseSample")
    rows = sample.values
    if rows.strides[0] == 0:  # one dataset for all trials
        rows = rows[:1]
    sizes = np.clip(np.floor(rows[..., 0]), 1, sample.d - 1).astype(np.int64)
    records = rows[..., 1:][np.arange(sample.d - 1) < sizes[..., None]]  # without the padding
    starts = np.cumsum(sizes).reshape(sizes.shape) - sizes
    shape = (sample.trials, sample.n)
    return PeopleSample(records, np.broadcast_to(sizes, shape), np.broadcast_to(starts, shape))
