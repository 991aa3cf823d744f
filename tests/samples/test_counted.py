"""Datasets cut into parts, groups and pairs: by index, or exchangeably where there is none."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from dpbench.samples import CountedSample, DenseSample
from dpbench.samples.base import part_sizes
from tests.support import BIG, FALSE_ALARM, LARGEST, assert_law, rng


def enumerated(
    counts: Sequence[int], outcome: Callable[[tuple[int, ...]], Hashable]
) -> dict[Hashable, Fraction]:
    """The law of `outcome` when the records, atom numbers, come in a uniform order."""
    records = [atom for atom, count in enumerate(counts) for _ in range(count)]
    orders = Counter(outcome(order) for order in itertools.permutations(records))
    return {key: Fraction(c, math.factorial(len(records))) for key, c in orders.items()}


def table(order: tuple[int, ...], sizes: Sequence[int], atoms: int) -> Hashable:
    """Counts of every atom in each of consecutive parts."""
    rest = iter(order)
    parts = [list(itertools.islice(rest, size)) for size in sizes]
    return tuple(tuple(part.count(atom) for atom in range(atoms)) for part in parts)


def of_trials(groups: list[CountedSample], trials: int) -> list[NDArray[np.int64]]:
    """The (trials, m) counts of each group."""
    parts = [g.counts.reshape(trials, -1, g.atoms.size) for g in groups]
    return list(np.moveaxis(np.concatenate(parts, axis=1), 1, 0))


@pytest.mark.parametrize("parts", [1, 2, 4, 11])
@pytest.mark.parametrize("shape", [(3, 11), (1, 11), (3, 11, 2)])
def test_dense_groups_are_cut_by_index(shape: tuple[int, ...], parts: int) -> None:
    """In any memory order; by index, so that a record has a home group."""
    values = rng(1).normal(size=shape)
    cut = np.array_split(values, parts, axis=1)
    for memory in (values, np.asfortranarray(values)):
        shaped = [
            g.values.reshape(shape[0], -1, g.n, *shape[2:])
            for g in DenseSample(memory).groups(parts, rng())
        ]
        found = [group for rows in shaped for group in np.moveaxis(rows, 1, 0)]
        for one, other in zip(found, cut, strict=True):
            np.testing.assert_array_equal(one, other)
        means = DenseSample(memory).by_group(parts, rng(), lambda rows: rows.mean())
        np.testing.assert_allclose(means, np.stack([rows.mean(axis=1) for rows in cut], axis=1))


@pytest.mark.parametrize(
    ("counts", "sizes"), [((2, 2, 1), [2, 2, 1]), ((1, 2, 0, 2), [1, 3, 1]), ((2, 3), [1, 1, 2, 1])]
)
def test_counted_parts_and_groups_are_exchangeable(
    counts: tuple[int, ...], sizes: list[int]
) -> None:
    """Trials of two datasets in turn: none may take from another."""
    trials, m, many = 10_000, len(counts), len(sizes)
    sample = CountedSample(np.arange(m), np.tile([counts, counts[::-1]], (trials // 2, 1)))
    parts = [part.counts for part in sample.split(sizes, rng(6))]
    groups = of_trials(sample.groups(many, rng(5)), trials)
    for found, cut in ((parts, sizes), (groups, part_sizes(sum(counts), many))):
        seen = [tuple(map(tuple, trial)) for trial in np.stack(found, axis=1).tolist()]
        for which, own in enumerate((counts, counts[::-1])):
            law = enumerated(own, lambda order, cut=cut: table(order, cut, m))  # type: ignore[misc]
            assert_law(seen[which::2], law)


def test_six_hundred_groups_of_a_large_dataset() -> None:
    counts = np.array([[BIG // 2, BIG // 2 - BIG // 10 - 3, BIG // 10, 3], [0, BIG, 0, 0]])
    groups = CountedSample([0.0, 1.0, 2.0, 1e6], counts).groups(600, rng(10))
    parts = np.stack(of_trials(groups, 2), axis=1)
    sizes = np.array(part_sizes(BIG, 600))
    assert [rows.n for rows in groups] == [sizes[0], sizes[-1]]
    np.testing.assert_array_equal(parts.sum(axis=1), counts)
    np.testing.assert_array_equal(parts.sum(axis=2), [sizes, sizes])
    # With X the count of an atom of share p in a group of size s, sum (X - sp)^2 / (s p q)
    # is Pearson's statistic of the 2 x 600 table with fixed margins, chi-square with 599
    # degrees of freedom. Two-sided, false-alarm probability 1e-6 for each of three atoms.
    for atom in range(3):
        p = counts[0, atom] / BIG
        statistic = float(((parts[0, :, atom] - sizes * p) ** 2 / (sizes * p * (1 - p))).sum())
        low, high = stats.chi2(599).ppf([FALSE_ALARM / 2, 1 - FALSE_ALARM / 2])
        assert low <= statistic <= high


def test_dense_pairs_are_fixed_by_index() -> None:
    for shape in ((3, 2), (3, 11), (1, 12)):
        values = rng(11).normal(size=shape)
        found = DenseSample(values).half_squared_differences(rng()).values
        pairs = values[:, : shape[1] // 2 * 2].reshape(shape[0], -1, 2)
        np.testing.assert_allclose(found, np.diff(pairs)[..., 0] ** 2 / 2, rtol=1e-14)


# Differences 1 and -1 give the same value, as do the two zeros of equal records.
@pytest.mark.parametrize("counts", [(2, 2, 1), (3, 2, 2), (1, 1, 1, 1)])
def test_counted_pairs_are_a_uniform_matching(counts: tuple[int, ...]) -> None:
    atoms = np.array([0.0, 1.0, 3.0, 4.0])[: len(counts)]
    # Every second trial is of equal records: none may take from another.
    other = [sum(counts), *[0] * (len(counts) - 1)]
    sample = CountedSample(atoms, np.tile([counts, other], (10_000, 1)))
    squares = sample.half_squared_differences(rng(13))
    assert squares.n == sum(counts) // 2
    assert np.all(squares.mean()[1::2] == 0)

    def outcome(order: tuple[int, ...]) -> Hashable:
        pairs = zip(order[::2], order[1::2], strict=False)  # the last of an odd n is left out
        return tuple(sorted((atoms[a] - atoms[b]) ** 2 / 2 for a, b in pairs))

    seen = [tuple(np.repeat(squares.atoms, row).tolist()) for row in squares.counts[::2]]
    assert_law(seen, enumerated(counts, outcome))


def test_pairs_that_overflow_are_the_largest_number() -> None:
    values = [[1e200, -1e200, 0.0, 1.0, 0.0, 0.0], [1e308, -1e308, 5.0, 1.0, 0.0, 1e153]]
    found = DenseSample(values).half_squared_differences(rng())
    np.testing.assert_allclose(found.values, [[LARGEST, 0.5, 0.0], [LARGEST, 8.0, 5e305]])
    squares = CountedSample([0.0, 1e200], [[1, 1]]).half_squared_differences(rng())
    assert squares.atoms[squares.counts[0] > 0].tolist() == [LARGEST]
    many = CountedSample([0.0, 1e200], [[20, 20]]).half_squared_differences(rng())
    assert np.all(np.isfinite(many.mean()))


def test_too_few_records_are_refused() -> None:
    for sample in (DenseSample(np.zeros((2, 5))), CountedSample([0.0, 1.0], [[2, 3]])):
        for parts in (0, 6, -1):
            with pytest.raises(ValueError, match="5 records cannot be cut"):
                sample.groups(parts, rng())
    for sample in (DenseSample([[1.0], [2.0]]), CountedSample([0.0, 1.0], [[0, 1]])):
        with pytest.raises(ValueError, match="no pair"):
            sample.half_squared_differences(rng())
