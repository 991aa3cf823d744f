"""Counts: parts and pairs by enumeration, exact means."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction

import numpy as np
import pytest
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from dpbench.samples import CountedSample, DenseSample, SparseSample
from dpbench.samples.base import part_sizes
from dpbench.samples.counted import MAX_PAIRED_ATOMS
from tests.samples.counts import counted, expanded
from tests.support import BIG, FALSE_ALARM, LARGEST, assert_law, assert_standard, rng


def enumerated(
    counts: Sequence[int], outcome: Callable[[tuple[int, ...]], Hashable]
) -> dict[Hashable, Fraction]:
    """Return the distribution of `outcome` over uniform orders of the records."""
    records = [atom for atom, count in enumerate(counts) for _ in range(count)]
    orders = Counter(outcome(order) for order in itertools.permutations(records))
    return {key: Fraction(c, math.factorial(len(records))) for key, c in orders.items()}


def table(order: tuple[int, ...], sizes: Sequence[int], atoms: int) -> Hashable:
    """Return the count of every atom in each of consecutive parts."""
    rest = iter(order)
    parts = [list(itertools.islice(rest, size)) for size in sizes]
    return tuple(tuple(part.count(atom) for atom in range(atoms)) for part in parts)


def of_trials(groups: list[CountedSample], trials: int) -> list[NDArray[np.int64]]:
    """Return the counts of each group, (trials, m)."""
    parts = [g.counts.reshape(trials, -1, g.atoms.size) for g in groups]
    return list(np.moveaxis(np.concatenate(parts, axis=1), 1, 0))


@pytest.mark.parametrize(
    ("counts", "sizes"), [((2, 2, 1), [2, 2, 1]), ((1, 2, 0, 2), [1, 3, 1]), ((2, 3), [1, 1, 2, 1])]
)
def test_counted_parts_and_groups_are_exchangeable(
    counts: tuple[int, ...], sizes: list[int]
) -> None:
    """Alternate two datasets over the trials, so that records of another trial would show."""
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


# Differences 1 and -1 give the same value, as do the two zeros of equal records.
@pytest.mark.parametrize("counts", [(2, 2, 1), (3, 2, 2), (1, 1, 1, 1)])
def test_counted_pairs_are_a_uniform_matching(counts: tuple[int, ...]) -> None:
    atoms = np.array([0.0, 1.0, 3.0, 4.0])[: len(counts)]
    # Every second trial is of equal records: none may take from another.
    other = [sum(counts), *[0] * (len(counts) - 1)]
    sample = CountedSample(atoms, np.tile([counts, other], (10_000, 1)))
    squares = sample.half_squared_differences(rng(13))
    assert isinstance(squares, CountedSample)
    assert squares.n == sum(counts) // 2
    assert np.all(squares.mean()[1::2] == 0)

    def outcome(order: tuple[int, ...]) -> Hashable:
        pairs = zip(order[::2], order[1::2], strict=False)  # the last of an odd n is left out
        return tuple(sorted((atoms[a] - atoms[b]) ** 2 / 2 for a, b in pairs))

    seen = [tuple(np.repeat(squares.atoms, row).tolist()) for row in squares.counts[::2]]
    assert_law(seen, enumerated(counts, outcome))


@pytest.mark.parametrize("seed", range(5))
def test_counts_answer_as_their_records(seed: int) -> None:
    """Bounds are at atoms, between atoms and beyond all."""
    generator = np.random.default_rng(seed)
    counts = generator.multinomial(12, [0.2, 0.0, 0.3, 0.1, 0.4], 4)
    sample = CountedSample([-2.0, -1.0, 0.5, 3.0, 4.0], counts)
    other = DenseSample([sample.records(i, rng()) for i in range(4)])
    ends = [-5.0, -2.0, -1.0, 0.0, 0.5, 3.0, 3.5, 4.0, 9.0]
    for low, high in itertools.combinations(ends, 2):
        np.testing.assert_array_equal(sample.count(low, high), other.count(low, high))
        for query, last in (("clipped_mean", high), ("centred_mean", high - low)):
            here, there = (getattr(one, query)(low, last) for one in (sample, other))
            np.testing.assert_allclose(here, there, atol=1e-12)
    for first, last in itertools.combinations_with_replacement(range(12), 2):
        values, number = (np.asarray(part) for part in sample.ranked(first, last))
        listed = [np.repeat(*row) for row in zip(values, number.astype(int), strict=True)]
        np.testing.assert_array_equal(listed, other.ranked(first, last)[0])


def test_pairs_that_overflow_are_the_largest_number() -> None:
    values = [[1e200, -1e200, 0.0, 1.0, 0.0, 0.0], [1e308, -1e308, 5.0, 1.0, 0.0, 1e153]]
    found = DenseSample(values).half_squared_differences(rng())
    np.testing.assert_allclose(found.values, [[LARGEST, 0.5, 0.0], [LARGEST, 8.0, 5e305]])
    squares = CountedSample([0.0, 1e200], [[1, 1]]).half_squared_differences(rng())
    assert isinstance(squares, CountedSample)
    assert squares.atoms[squares.counts[0] > 0].tolist() == [LARGEST]
    many = CountedSample([0.0, 1e200], [[20, 20]]).half_squared_differences(rng())
    assert np.all(np.isfinite(many.mean()))


def test_pairs_of_many_values_are_listed() -> None:
    """Compare the mean square of 40,000 matchings with the variance of the records."""
    atoms = np.arange(MAX_PAIRED_ATOMS + 1.0) ** 2
    counts = np.ones((40_000, atoms.size), dtype=int)
    found = CountedSample(atoms, counts).half_squared_differences(rng(4)).mean()
    assert_standard((found - atoms.var(ddof=1)) / found.std())


@pytest.mark.parametrize(
    ("atoms", "counts"),
    [([*atoms], [[1, 1]]) for atoms in ((0.0, 0.0), (1.0, 0.0), (0.0, np.nan))]
    + [([0.0, 1.0], counts) for counts in ([[1, 1], [1, 2]], [[-1, 2]], [[0, 0]], [[0.5, 0.5]])]
    + [([0.0, 1.0], counts) for counts in ([1, 1], [[1, 1, 1]])],
)
def test_counts_that_are_no_dataset_are_refused(atoms: ArrayLike, counts: ArrayLike) -> None:
    with pytest.raises(ValueError, match=r"atoms|counts"):
        CountedSample(atoms, counts)


@pytest.mark.parametrize("sizes", [[100, 99], [200, 0], [201, -1]])
def test_parts_of_other_totals_are_refused(sizes: list[int]) -> None:
    sparse = SparseSample(np.ones((1, 2)), np.array([1]), 200)
    for sample in (counted(), expanded(counted()), sparse):
        with pytest.raises(ValueError, match="add up to n = 200"):
            sample.split(sizes, rng(0))


@pytest.mark.parametrize("ones", [0, 1, BIG // 3, BIG])
def test_a_counted_mean_is_exact_at_large_n(ones: int) -> None:
    sample = CountedSample([0.0, 1.0], [[BIG - ones, ones]])
    assert sample.mean()[0] == float(Fraction(ones, BIG))
    assert sample.count(0.5, 2.0)[0] == ones
    tau = 1234.5678
    clipped = CountedSample([0.0, tau], [[BIG - ones, ones]]).clipped_mean(-10.25, 10.25)
    assert clipped[0] == pytest.approx(float(Fraction(10.25) * ones / BIG), rel=4e-16, abs=0)
