"""Vectors most of which are zero, against the same data held record by record."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from support import BIG, Floats, assert_law, assert_standard, rng

from dpbench.samples import CountedSample, DenseSample, Sample, SparseSample
from dpbench.samples.base import part_sizes
from dpbench.samples.bins import Bins

N, D = 12, 3
# No row but zeros; some; a row that is zero but held; all n.
HELD = [0, 4, 1, N, 5]


def sample() -> SparseSample:
    rows = rng(1).choice([-2.0, -0.5, 0.0, 0.25, 3.0], (sum(HELD), D))
    rows[4] = 0.0
    return SparseSample(rows, np.array(HELD), N)


def expanded(given: SparseSample) -> DenseSample:
    rows = np.zeros((given.trials, given.n, given.d))
    start = 0
    for trial, held in enumerate(given.held.tolist()):
        rows[trial, :held] = given.rows_held[start : start + held]
        start += held
    return DenseSample(rows)


def by_trial(given: SparseSample) -> list[list[tuple[float, ...]]]:
    """The rows held of every trial."""
    cuts = np.cumsum(given.held)[:-1]
    return [[tuple(row) for row in part.tolist()] for part in np.split(given.rows_held, cuts)]


def close(found: Floats, wanted: Floats) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


def test_the_mean_agrees_and_is_of_n_records() -> None:
    close(sample().mean(), expanded(sample()).mean())
    exact = [[sum(map(Fraction, c)) / N for c in zip(*t, strict=True)] for t in by_trial(sample())]
    for found, wanted in zip(sample().mean(), exact, strict=True):
        np.testing.assert_allclose(found, [float(x) for x in wanted] or [0.0] * D, rtol=1e-14)


@pytest.mark.parametrize("low", [-1.0, 0.1, np.linspace(-1, 0.5, 5)])
@pytest.mark.parametrize("high", [2.0, np.linspace(0.6, 4.0, 5)])
def test_clipped_means_agree(low: Any, high: Any) -> None:
    """With bounds on one side of 0, too: then zeros move."""
    found = sample().clipped_mean(low, high)
    close(found, expanded(sample()).clipped_mean(low, high))
    per_trial = (np.broadcast_to(b, 5)[:, None, None] for b in (low, high))
    close(found, np.clip(expanded(sample()).values, *per_trial).mean(axis=1))


def test_columns_are_exact() -> None:
    columns, wanted = sample().columns(), expanded(sample()).columns()
    assert isinstance(columns, CountedSample)
    assert (columns.trials, columns.n, columns.d) == (len(HELD) * D, N, 1)
    assert isinstance(wanted, DenseSample)
    for row, column in enumerate(wanted.values):  # coordinate j of trial i is row i d + j
        trial, j = divmod(row, D)
        np.testing.assert_array_equal(column, expanded(sample()).values[trial, :, j])
        counted = {a: c for a, c in zip(columns.atoms, columns.counts[row], strict=True) if c}
        assert counted == Counter(column.tolist())
    close(columns.mean(), sample().mean().ravel())
    for q in (0.01, 0.5, 0.9, 1.0):
        np.testing.assert_array_equal(columns.quantile(q), wanted.quantile(q))


@pytest.mark.parametrize("negative_zero", [0.0, -0.0])
def test_both_zeros_are_one_atom(negative_zero: float) -> None:
    given = SparseSample(np.array([[negative_zero, 1.0]]), np.array([1]), 3)
    columns = given.columns()
    assert columns.atoms.tolist() == [0.0, 1.0]
    assert columns.counts.tolist() == [[3, 0], [2, 1]]


def test_columns_of_many_values_are_refused() -> None:
    values = np.arange(1.0, 64.0)[:, None]
    columns = SparseSample(values, np.array([63]), 100).columns()
    assert columns.counts.tolist() == [[37] + [1] * 63]
    more = SparseSample(np.arange(1.0, 65.0)[:, None], np.array([64]), 100)
    with pytest.raises(ValueError, match="65 distinct values, above 64"):
        more.columns()


@pytest.mark.parametrize("late", [1.0, -3.0, 9.0])
def test_columns_of_many_rows(late: float) -> None:
    """A value that comes late, known or not, below, between or above the others."""
    rows = rng(18).choice([-1.0, 0.0, 1.0, 2.0], (3000, 4))
    rows[-1, 2] = late
    columns = SparseSample(rows, np.array([1000, 2000]), 2500).columns()
    for row, (part, j) in enumerate(itertools.product((rows[:1000], rows[1000:]), range(4))):
        wanted = Counter(part[:, j].tolist())
        wanted[0.0] += 2500 - len(part)
        counted = {a: c for a, c in zip(columns.atoms, columns.counts[row], strict=True) if c}
        assert counted == wanted


def test_listed_rows_are_exact() -> None:
    rows, counts = sample().listed()
    assert rows.shape == (*counts.shape, D)
    assert counts.sum(axis=1).tolist() == [N] * len(HELD)
    for t, trial in enumerate(expanded(sample()).values):
        found: Counter[tuple[float, ...]] = Counter()
        for row, count in zip(rows[t].tolist(), counts[t].tolist(), strict=True):
            found[tuple(row)] += int(count)
        assert +found == Counter(tuple(row) for row in trial.tolist())


SCALAR: list[Callable[[Sample], object]] = [
    lambda given: given.count(0.0, 1.0),
    lambda given: given.quantile(0.5),
    lambda given: given.trimmed_mean(0.1),
    lambda given: given.occupied(Bins(1.0, -5.0, 5.0)),
    lambda given: given.ranked(0, 2),
    lambda given: given.half_squared_differences(rng()),
]


@pytest.mark.parametrize("question", SCALAR)
def test_questions_about_numbers_are_refused(question: Callable[[Sample], object]) -> None:
    with pytest.raises(ValueError, match=r"takes scalar records, got d = 3; see columns\(\)"):
        question(sample())
    question(sample().columns())


def test_second_moments_need_records_one_by_one() -> None:
    for given in (sample(), CountedSample([0.0, 1.0], [[1, 2]])):
        with pytest.raises(ValueError, match="takes vectors, record by record"):
            given.second_moment()


VECTORS: list[Callable[[Sample], object]] = [
    lambda given: given.columns(),
    lambda given: given.rows(),
    lambda given: given.listed(),
]


@pytest.mark.parametrize("question", VECTORS)
def test_questions_about_vectors_are_refused(question: Callable[[Sample], object]) -> None:
    for given in (DenseSample(np.zeros((2, 3))), CountedSample([0.0, 1.0], [[1, 2]])):
        with pytest.raises(ValueError, match="takes vectors, got scalar records"):
            question(given)
    question(sample())
    question(DenseSample(np.zeros((2, 3, 1))))


@pytest.mark.parametrize(
    ("rows", "held", "message"),
    [
        (np.zeros(3), [3], r"finite \(m, d\) array"),
        (np.zeros((1, 3, 2)), [3], r"finite \(m, d\) array"),
        (np.array([[1.0, np.nan]]), [1], r"finite \(m, d\) array"),
        (np.array([[1.0, np.inf]]), [1], r"finite \(m, d\) array"),
        (np.ones((3, 2)), [1, 1], "3 rows in all, of at most 5 a trial, expected"),
        (np.ones((3, 2)), [4, -1], "3 rows in all, of at most 5 a trial, expected"),
        (np.ones((6, 2)), [6, 0], "6 rows in all, of at most 5 a trial, expected"),
    ],
)
def test_data_that_do_not_add_up_are_refused(rows: Floats, held: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseSample(rows, np.array(held), 5)


@pytest.mark.parametrize("sizes", [[6, 7], [12, 0], [13, -1], [11]])
def test_parts_that_do_not_make_up_the_whole_are_refused(sizes: list[int]) -> None:
    with pytest.raises(ValueError, match="do not make up 12"):
        sample().split(sizes, rng())


@pytest.mark.parametrize("parts", [0, 13, -1])
def test_more_groups_than_records_are_refused(parts: int) -> None:
    with pytest.raises(ValueError, match="12 records cannot be cut"):
        sample().groups(parts, rng())


def labelled(held: Sequence[int], n: int) -> SparseSample:
    """Rows that say where they are from: (trial + 1, place + 1)."""
    rows = [(float(t + 1), float(i + 1)) for t, m in enumerate(held) for i in range(m)]
    return SparseSample(np.array(rows).reshape(-1, 2), np.array(held), n)


@pytest.mark.parametrize("sizes", [[12], [5, 7], [1] * 12, [3, 3, 3, 3]])
def test_parts_are_disjoint_and_make_up_the_whole(sizes: list[int]) -> None:
    given = labelled(HELD, N)
    parts = given.split(sizes, rng(1))
    assert [part.n for part in parts] == sizes
    assert [part.trials for part in parts] == [len(HELD)] * len(sizes)
    found = [sorted(itertools.chain(*rows)) for rows in zip(*map(by_trial, parts), strict=True)]
    assert found == [sorted(rows) for rows in by_trial(given)]


@pytest.mark.parametrize("parts", [1, 5, 6, 12])
def test_groups_are_disjoint_and_make_up_the_whole(parts: int) -> None:
    given = labelled(HELD, N)
    groups = given.groups(parts, rng(1))
    sizes = [g.n for g in groups for _ in range(g.trials // len(HELD))]
    assert sizes == part_sizes(N, parts)
    assert len(groups) == len(set(sizes))
    found: list[list[tuple[float, ...]]] = [[] for _ in HELD]
    for group in groups:
        rows, many = by_trial(group), group.trials // len(HELD)
        for t in range(len(HELD)):  # those of the first trial come first
            found[t] += itertools.chain(*rows[t * many : (t + 1) * many])
    assert [sorted(rows) for rows in found] == [sorted(rows) for rows in by_trial(given)]
    means = given.by_group(parts, rng(1), lambda rows: rows.mean())
    assert means.shape == (len(HELD), parts, 2)
    np.testing.assert_allclose(
        (means * np.array(sizes)[:, None]).mean(axis=1) * parts / N, given.mean(), rtol=1e-12
    )


def table_law(held: int, sizes: Sequence[int]) -> dict[Hashable, Fraction]:
    """How many of `held` records fall in each of the parts: multivariate hypergeometric."""
    total = math.comb(sum(sizes), held)
    return {
        table: Fraction(math.prod(map(math.comb, sizes, table)), total)
        for table in itertools.product(*(range(min(s, held) + 1) for s in sizes))
        if sum(table) == held
    }


@pytest.mark.parametrize(("sizes", "held"), [([3, 4], 6), ([1, 3, 3], 3), ([2, 2, 2, 1], 3)])
def test_parts_are_hypergeometric(sizes: list[int], held: int) -> None:
    # Every second trial is of another size: none may take from another.
    trials = 20_000
    given = SparseSample(np.ones((trials // 2 * (held + 2), 1)), np.tile([held, 2], trials // 2), 7)
    parts = np.stack([part.held for part in given.split(sizes, rng(3))], axis=1).tolist()
    assert_law([tuple(p) for p in parts[::2]], table_law(held, sizes))
    assert_law([tuple(p) for p in parts[1::2]], table_law(2, sizes))


@pytest.mark.parametrize("parts", [2, 5])
def test_groups_are_hypergeometric(parts: int) -> None:
    trials, n = 20_000, 8
    given = SparseSample(np.ones((3 * trials, 2)), np.full(trials, 3), n)
    groups = [g.held.reshape(trials, -1) for g in given.groups(parts, rng(4))]
    seen = [tuple(row) for row in np.concatenate(groups, axis=1).tolist()]
    assert_law(seen, table_law(3, part_sizes(n, parts)))


@pytest.mark.parametrize("sizes", [[1, 2, 3]])
def test_parts_are_exchangeable(sizes: list[int]) -> None:
    """Rows in a uniform order, as laws draw them: which falls where is uniform, too."""
    trials, held, n = 20_000, 3, 6
    order = rng(5).permuted(np.tile(np.arange(1.0, held + 1), (trials, 1)), axis=1)
    given = SparseSample(order.reshape(-1, 1), np.full(trials, held), n)
    found = np.zeros((trials, held), dtype=int)  # the part of each label
    for which, part in enumerate(given.split(sizes, rng(6))):
        trial = np.repeat(np.arange(trials), part.held)
        found[trial, part.rows_held[:, 0].astype(int) - 1] = which
    home = [which for which, size in enumerate(sizes) for _ in range(size)]
    places = list(itertools.permutations(range(n), held))
    law = Counter(tuple(home[p] for p in place) for place in places)
    assert_law(
        [tuple(row) for row in found.tolist()],
        {key: Fraction(count, len(places)) for key, count in law.items()},
    )


@pytest.mark.parametrize("share", [0.25, 0.9])
def test_parts_of_a_trillion_records_are_hypergeometric(share: float) -> None:
    trials, held, first = 2000, 400, int(share * BIG)
    given = SparseSample(np.ones((trials * held, 1)), np.full(trials, held), BIG)
    one, two = given.split([first, BIG - first], rng(9))
    assert np.all(one.held + two.held == held)
    # To 1e-9 binomial; kurtosis changes the variance of the square by less than 1%.
    z = (one.held - held * share) / math.sqrt(held * share * (1 - share))
    assert_standard(z, 0.01)


# What dense data were given for vectors.


def test_second_moments_against_a_loop() -> None:
    values = rng(12).normal(size=(3, 20, 4))
    found = DenseSample(values).second_moment()
    wanted = [sum(np.outer(row, row) for row in trial) / 20 for trial in values]
    np.testing.assert_allclose(found, np.array(wanted), rtol=1e-12, atol=1e-14)


def test_dense_columns_against_a_loop() -> None:
    values = rng(13).normal(size=(3, 20, 4))
    for memory in (values, np.asfortranarray(values), np.broadcast_to(values[:1], (3, 20, 4))):
        columns = DenseSample(memory).columns()
        assert (columns.trials, columns.n, columns.d) == (12, 20, 1)
        for t, j in itertools.product(range(3), range(4)):
            np.testing.assert_array_equal(columns.values[4 * t + j], memory[t, :, j])


def test_broadcast_data_are_held_once() -> None:
    once = rng(14).normal(size=(1, 30, 2))
    alike, copies = np.broadcast_to(once, (1000, 30, 2)), np.tile(once, (1000, 1, 1))
    one, other = DenseSample(alike), DenseSample(copies)
    assert one.values.strides[0] == 0
    np.testing.assert_array_equal(one.mean(), other.mean())
    assert one.mean().shape == (1000, 2)
    for a, b in zip(one.split([10, 20], rng()), other.split([10, 20], rng()), strict=True):
        np.testing.assert_array_equal(a.mean(), b.mean())
        np.testing.assert_array_equal(a.rows().mean(), b.rows().mean())
    for a, b in zip(one.groups(4, rng()), other.groups(4, rng()), strict=True):
        np.testing.assert_array_equal(a.values, b.values)
    np.testing.assert_array_equal(one.columns().values, other.columns().values)
    np.testing.assert_array_equal(one.second_moment(), other.second_moment())
    np.testing.assert_array_equal(one.clipped_mean(-1, 0.5), other.clipped_mean(-1, 0.5))


def test_broadcast_data_that_are_no_numbers_are_refused() -> None:
    once = np.ones((1, 30, 2))
    once[0, 3, 1], once[0, 4, 0] = np.nan, np.inf
    with pytest.raises(ValueError, match="2 of 60 values are NaN or infinite"):
        DenseSample(np.broadcast_to(once, (5, 30, 2)))
    with pytest.raises(ValueError, match="10 of 300 values are NaN or infinite"):
        DenseSample(np.tile(once, (5, 1, 1)))
