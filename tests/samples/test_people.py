"""Tests of datasets of people with different numbers of records."""

from __future__ import annotations

import tracemalloc
from typing import Any

import numpy as np
import pytest

from dpbench.samples import DenseSample, PeopleSample, person_rows
from dpbench.samples.people import keep_records, people_in

SIZES = np.array([[1, 3, 2], [4, 1, 1]])
RECORDS = np.array([5.0, 1, 2, 6, 3, 4, 8, 6, 4, 2, 7, -1])
LISTS: list[list[list[float]]] = [[[5.0], [1, 2, 6], [3, 4]], [[8, 6, 4, 2], [7], [-1]]]


def test_means_of_the_first_records() -> None:
    sample = PeopleSample(RECORDS, SIZES)
    for cap in (1, 2, 3, 4, 100):
        expected = [[np.mean(person[:cap]) for person in trial] for trial in LISTS]
        assert sample.kept_means(cap) == pytest.approx(np.array(expected))
    assert sample.values == pytest.approx(sample.kept_means(4))
    assert sample.mean() == pytest.approx([13 / 3 - 0.5, 11 / 3])


def test_parts_and_groups_keep_the_records_of_people() -> None:
    sample, rng = PeopleSample(RECORDS, SIZES), np.random.default_rng(0)
    first, last = sample.split([2, 1], rng)
    assert first.kept_means(2) == pytest.approx(np.array([[5.0, 1.5], [7, 7]]))
    assert last.kept_means(1) == pytest.approx(np.array([[3.0], [-1]]))
    large, small = sample.groups(2, rng)
    assert large.kept_means(1) == pytest.approx(np.array([[5.0, 1], [8, 7]]))
    assert small.sizes.tolist() == [[2], [1]]
    assert sample.half_squared_differences(rng).n == 1


def test_sums_that_overflow_have_finite_means() -> None:
    sample = PeopleSample([1e308, 1e308, 1e308, -1e308], [[2, 2]])
    assert sample.values == pytest.approx(np.array([[1e308, 0.0]]))
    sample = PeopleSample([3e307, 1e308, 1e308, 1e308], [[1, 3]])
    assert sample.values == pytest.approx(np.array([[3e307, 1e308]]))


def test_rows_of_people_and_back() -> None:
    rng = np.random.default_rng(0)
    persons, values = [f"p{i}" for i in rng.integers(40, size=300)], rng.normal(size=300)
    rows = person_rows(values, persons, rng)
    for name, row in zip(sorted(set(persons)), rows, strict=True):
        own = [v for v, p in zip(values, persons, strict=True) if p == name]
        assert row[0] == len(own)
        assert sorted(row[1 : len(own) + 1]) == sorted(own)
        assert not row[len(own) + 1 :].any()
    people = people_in(DenseSample(rows[None]))
    assert people is not None
    assert people.sizes[0].tolist() == rows[:, 0].tolist()
    assert people.kept_means(1)[0] == pytest.approx(rows[:, 1])


def test_the_order_of_a_row_does_not_depend_on_the_values() -> None:
    firsts = [
        person_rows([1.0, 2, 3], list("aaa"), np.random.default_rng(i))[0, 1] for i in range(300)
    ]
    assert np.bincount(np.array(firsts, int))[1:].min() > 60  # below in 1 of 10^6 runs


def test_numbers_of_records_are_moved_into_their_range() -> None:
    rows = np.array([[[-3.0, 1, 2], [9, 1, 2], [1.9, 1, 2]]])
    people = people_in(DenseSample(rows))
    assert people is not None
    assert people.sizes.tolist() == [[1, 2, 1]]
    assert people_in(DenseSample(rows[..., 0])) is None
    assert people_in(DenseSample(rows[..., :1])) is None


@pytest.mark.parametrize(
    ("records", "sizes"), [([1.0], [[2]]), ([1.0], [[0]]), ([1.0], [1]), ([1.0], [[]])]
)
def test_what_is_no_dataset_of_people_is_refused(records: list[float], sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="sizes"):
        PeopleSample(records, sizes)
    with pytest.raises(ValueError, match="persons: there are more or fewer than records"):
        person_rows([1.0, 2.0], ["a"], np.random.default_rng(0))


@pytest.mark.parametrize(
    ("sizes", "starts", "text"),
    [
        ([[1.7, 1.2]], None, "sizes: of type float64: not whole numbers"),
        ([[True, True]], None, "sizes: of type bool: not whole numbers"),
        ([["1", "1"]], None, "sizes: of type <U1: not whole numbers"),
        ([[1, 1]], [[0.5, 1.5]], "starts: of type float64: not whole numbers"),
        ([[1, 1]], [[-1, 0]], "starts: expected an index, at least 0"),
        ([[1, 1]], [[0]], "starts: expected an index, at least 0, for each number"),
    ],
)
def test_sizes_and_starts_are_whole_numbers(sizes: Any, starts: Any, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        PeopleSample([1.0, 2.0, 3.0], sizes, starts)


def test_one_dataset_is_held_once_and_without_padding() -> None:
    """Releases repeated on one table share its records, so that memory is that of the means."""
    rng, trials = np.random.default_rng(0), 300
    persons = np.repeat(np.arange(200), [500, *[3] * 199])
    rows = person_rows(rng.normal(size=persons.size), persons.tolist(), rng)  # 99% are padding
    repeated = np.broadcast_to(rows, (trials, *rows.shape))
    tracemalloc.start()
    people = people_in(DenseSample(repeated))
    assert people is not None
    kept = people.kept_means(2)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * rows.nbytes + 2 * trials * 200 * 8  # one copy for each trial is 300 rows
    assert people.flat.size == persons.size
    for array in (people.values, people.sizes, people.starts, kept):
        assert (array.shape, array.strides[0]) == ((trials, 200), 0)
    once = people_in(DenseSample(rows[None]))
    assert once is not None
    expected = np.array([row[1 : 1 + int(row[0])].mean() for row in rows])
    assert people.values[7] == pytest.approx(expected)
    np.testing.assert_array_equal(people.values[7], once.values[0])
    np.testing.assert_array_equal(kept[7], once.kept_means(2)[0])
    first, last = people.split([150, 50], rng)
    np.testing.assert_array_equal(last.values[3], once.values[0, 150:])
    assert first.kept_means(1)[5] == pytest.approx(rows[:150, 1])


def test_trials_of_ragged_people_keep_their_own_records() -> None:
    rows = np.array([[[2.0, 1, 3, 9], [3, 4, 5, 6]], [[1, 7, 8, 8], [2, 5, 6, 8]]])
    people = people_in(DenseSample(rows))
    assert people is not None
    assert people.flat.tolist() == [1, 3, 4, 5, 6, 7, 5, 6]
    assert people.values.tolist() == [[2, 5], [7, 5.5]]
    assert people.kept_means(1).tolist() == [[1, 4], [7, 5]]


@pytest.mark.parametrize(("n", "parts"), [(7, 3), (8, 3), (9, 3), (11, 4)])
def test_groups_hold_each_person_once(n: int, parts: int) -> None:
    """Person i has the records i, so that means name people; the first groups are larger by one."""
    sizes = np.arange(n) % 3 + 1
    sample = PeopleSample(np.repeat(np.arange(n), sizes), sizes[None])
    groups = sample.groups(parts, np.random.default_rng(0))
    people = [row.tolist() for group in groups for row in group.values]
    assert people == [part.tolist() for part in np.array_split(np.arange(n), parts)]


@pytest.mark.parametrize("cap", [1, 2, 5])
def test_a_cap_keeps_some_of_each_persons_records(cap: int) -> None:
    """Person i mod 3 has at most 4 of the records i = 1, ..., 10."""
    person = np.arange(1, 11) % 3
    kept = keep_records(person, np.random.default_rng(0), cap)
    assert (np.diff(person[kept]) >= 0).all()  # person by person
    assert len(set(kept)) == kept.size
    assert np.bincount(person[kept]).tolist() == [min(own, cap) for own in (3, 4, 3)]


def test_rows_of_two_coordinates_hold_one_record() -> None:
    people = people_in(DenseSample(np.array([[[1.0, 7.0], [5.0, 8.0], [0.0, 9.0]]])))
    assert people is not None
    assert people.sizes.tolist() == [[1, 1, 1]]
    assert people.values.tolist() == [[7.0, 8.0, 9.0]]
    assert people_in(DenseSample(np.array([[[1.0], [5.0]]]))) is None
