"""Vectors that are mostly zero, against samples that store every record."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from dpbench.samples import Bins, CountedSample, DenseSample, Sample, SparseSample
from tests.support import Floats, assert_law, rng

N, D = 12, 3
# No row but zeros; some; a row that is zero but held; all n.
HELD = [0, 4, 1, N, 5]


def sample() -> SparseSample:
    rows = rng(1).choice([-2.0, -0.5, 0.0, 0.25, 3.0], (sum(HELD), D))
    rows[4] = 0.0
    return SparseSample(rows, np.array(HELD), N)


def expanded(given: SparseSample) -> DenseSample:
    rows = np.zeros((given.trials, given.n, given.d))
    rows[np.arange(given.n) < given.held[:, None]] = given.rows_held
    return DenseSample(rows)


def by_trial(given: SparseSample) -> list[list[tuple[float, ...]]]:
    """Return the stored rows of every trial."""
    cuts = np.cumsum(given.held)[:-1]
    return [[tuple(row) for row in part.tolist()] for part in np.split(given.rows_held, cuts)]


def close(found: Floats, wanted: Floats) -> None:
    assert found.shape == wanted.shape
    np.testing.assert_allclose(found, wanted, rtol=1e-13, atol=1e-13)


@pytest.mark.parametrize(
    ("low", "high"), [(-1.0, 2.0), (0.1, np.linspace(0.6, 4.0, 5)), (np.linspace(-1, 0.5, 5), 2.0)]
)
def test_means_agree(low: Any, high: Any) -> None:
    """Check also bounds on one side of 0, which move zeros."""
    values = expanded(sample()).values
    close(sample().mean(), values.mean(axis=1))
    per_trial = (np.broadcast_to(b, 5)[:, None, None] for b in (low, high))
    close(sample().clipped_mean(low, high), np.clip(values, *per_trial).mean(axis=1))


def many(late: float) -> SparseSample:
    """Return a sample with a late value and with zeros of both signs."""
    rows = rng(18).choice([-1.0, 0.0, 1.0, 2.0], (3000, 4))
    rows[-1, 2], rows[0, 0] = late, -0.0
    return SparseSample(rows, np.array([1000, 2000]), 2500)


@pytest.mark.parametrize("given", [sample(), many(1.0), many(-3.0), many(9.0)])
def test_columns_are_exact(given: SparseSample) -> None:
    """Check that coordinate j of trial i is row i d + j."""
    columns, dense = given.columns(), expanded(given).columns()
    assert isinstance(columns, CountedSample)
    assert (columns.trials, columns.n, columns.d) == (given.trials * given.d, given.n, 1)
    assert isinstance(dense, DenseSample)
    wanted = expanded(given).values.transpose(0, 2, 1).reshape(-1, given.n)
    np.testing.assert_array_equal(dense.values, wanted)
    for counts, row in zip(columns.counts, wanted.tolist(), strict=True):
        assert {a: c for a, c in zip(columns.atoms, counts, strict=True) if c} == Counter(row)
    values = np.arange(1.0, 65.0)[:, None]
    assert SparseSample(values[:63], np.array([63]), 100).columns().counts[0, 0] == 37
    with pytest.raises(ValueError, match="65 distinct values, above 64"):
        SparseSample(values, np.array([64]), 100).columns().mean()


def test_listed_rows_are_exact() -> None:
    rows, counts = sample().listed()
    assert rows.shape == (*counts.shape, D)
    assert counts.sum(axis=1).tolist() == [N] * len(HELD)
    for listed, number, trial in zip(rows, counts, expanded(sample()).values, strict=True):
        found = np.repeat(listed, number.astype(int), axis=0)
        assert sorted(found.tolist()) == sorted(trial.tolist())


def test_questions_about_the_other_kind_of_records_are_refused() -> None:
    dense, counted = DenseSample(np.zeros((2, 3))), CountedSample([0.0, 1.0], [[1, 2]])
    by_coordinate: dict[str, list[Any]] = {
        "count": [0.0, 1.0],
        "quantile": [0.5],
        "trimmed_mean": [0.1],
    }
    of_numbers: dict[str, list[Any]] = {
        "occupied": [Bins(1.0)],
        "ranked": [0, 2],
        "half_squared_differences": [rng()],
    }
    for question, given in (by_coordinate | of_numbers).items():
        with pytest.raises(ValueError, match=r"takes scalar records, got d = 3; see columns\(\)"):
            getattr(sample(), question)(*given)
    for question, given in of_numbers.items():
        with pytest.raises(ValueError, match="takes scalar records, got d = 1"):
            getattr(DenseSample(np.zeros((2, 3, 1))), question)(*given)
    for question, one in itertools.product(("columns", "rows", "listed"), (dense, counted)):
        with pytest.raises(ValueError, match="takes vectors, got scalar records"):
            getattr(one, question)()
    for one in (sample(), counted):
        with pytest.raises(ValueError, match="vectors that are all held"):
            one.second_moment()


@pytest.mark.parametrize(
    ("rows", "held", "message"),
    [
        (np.zeros(3), [3], r"finite \(m, d\) array"),
        (np.array([[1.0, np.nan]]), [1], r"finite \(m, d\) array"),
        (np.ones((3, 2)), [1, 1], "0 to n = 5 and add up to 3"),
        (np.ones((3, 2)), [4, -1], "0 to n = 5 and add up to 3"),
        (np.ones((6, 2)), [6, 0], "0 to n = 5 and add up to 6"),
    ],
)
def test_data_that_do_not_add_up_are_refused(rows: Floats, held: list[int], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        SparseSample(rows, np.array(held), 5)


def labelled(held: Sequence[int], n: int) -> SparseSample:
    """Return rows that name their origin: (trial + 1, place + 1)."""
    rows = [(float(t + 1), float(i + 1)) for t, m in enumerate(held) for i in range(m)]
    return SparseSample(np.array(rows).reshape(-1, 2), np.array(held), n)


@pytest.mark.parametrize("sizes", [[5, 7], [1] * 12, [4, 4, 4]])
def test_parts_and_groups_are_disjoint_and_make_up_the_whole(sizes: list[int]) -> None:
    given = labelled(HELD, N)
    wanted = [sorted(rows) for rows in by_trial(given)]
    parts = given.split(sizes, rng(1))
    assert [part.n for part in parts] == sizes
    found = [sorted(itertools.chain(*rows)) for rows in zip(*map(by_trial, parts), strict=True)]
    assert found == wanted
    large, small = given.groups(5, rng(1))
    assert [(g.n, g.trials) for g in (large, small)] == [(3, 2 * len(HELD)), (2, 3 * len(HELD))]
    rows = by_trial(large), by_trial(small)
    for t, own in enumerate(wanted):  # those of the first trial come first
        groups = rows[0][2 * t : 2 * t + 2] + rows[1][3 * t : 3 * t + 3]
        assert sorted(itertools.chain(*groups)) == own
    means = given.by_group(5, rng(1), lambda rows: rows.mean())
    close((means * np.array([3, 3, 2, 2, 2])[:, None]).sum(axis=1) / N, given.mean())


@pytest.mark.parametrize(("sizes", "held"), [([3, 4], 6), ([1, 3, 3], 3), ([1, 2, 3], 4)])
def test_parts_are_exchangeable(sizes: list[int], held: int) -> None:
    """Check that rows in uniform order fall into parts uniformly."""
    # Every second trial is of two rows: none may take from another.
    pairs, n, order = 10_000, sum(sizes), rng(5)
    labels = [order.permuted(np.tile(np.arange(m), (pairs, 1)), axis=1) for m in (held, 2)]
    rows = np.concatenate(labels, axis=1).reshape(-1, 1) + 1.0
    found = np.full((2 * pairs, held), -1)  # the part of each label
    given = SparseSample(rows, np.tile([held, 2], pairs), n)
    for which, part in enumerate(given.split(sizes, rng(6))):
        trial = np.repeat(np.arange(2 * pairs), part.held)
        found[trial, part.rows_held[:, 0].astype(int) - 1] = which
    home = np.repeat(np.arange(len(sizes)), sizes).tolist()
    for own, m in ((found[::2], held), (found[1::2, :2], 2)):
        places = list(itertools.permutations(home, m))
        law: dict[Hashable, Fraction] = {
            key: Fraction(c, len(places)) for key, c in Counter(places).items()
        }
        assert_law([tuple(row) for row in own.tolist()], law)


def _pairs_and_groups(columns: Sample) -> list[Sample]:
    return columns.half_squared_differences(rng(7)).groups(2, rng(8))


def _groups_of_groups(columns: Sample) -> list[Sample]:
    (large,) = columns.groups(2, rng(7))
    return large.groups(2, rng(8))


@pytest.mark.parametrize(
    "cut", [lambda c: c.split([1, 3], rng(7)), _groups_of_groups, _pairs_and_groups]
)
def test_columns_cut_whole_vectors(cut: Callable[[Sample], list[Sample]]) -> None:
    """Compare the joint distribution of all coordinates of all parts with dense data."""
    records = np.array([[1.0, 1.0, 0.0], [1.0, 2.0, 2.0], [2.0, 1.0, -1.0], [0.0, 0.0, 0.0]])
    orders = np.array(list(itertools.permutations(range(4))))

    def outcomes(given: Sample) -> list[Hashable]:
        parts = [part.mean().reshape(given.trials, -1) for part in cut(given.columns())]
        return [tuple(row) for row in np.concatenate(parts, axis=1).round(9).tolist()]

    dense = Counter(outcomes(DenseSample(records[orders])))
    law = {key: Fraction(count, len(orders)) for key, count in dense.items()}
    held = rng(9).permuted(np.tile(np.arange(3), (20_000, 1)), axis=1)
    sparse = SparseSample(records[held.ravel()], np.full(20_000, 3), 4)
    assert_law(outcomes(sparse), law)


def test_records_of_columns_are_in_one_order() -> None:
    """Check one order for all coordinates of a trial, whichever generators are passed."""
    columns = sample().columns()
    found = np.stack([columns.records(i, rng(i)) for i in range(columns.trials)])
    rows = found.reshape(len(HELD), D, N).transpose(0, 2, 1)
    for trial, wanted in zip(rows, expanded(sample()).values, strict=True):
        assert sorted(trial.tolist()) == sorted(wanted.tolist())
    assert not np.array_equal(rows[1], expanded(sample()).values[1])


# Queries of dense data for vectors.


def test_second_moments_against_a_loop() -> None:
    values = rng(12).normal(size=(3, 20, 4))
    found = DenseSample(values).second_moment()
    wanted = [sum(np.outer(row, row) for row in trial) / 20 for trial in values]
    np.testing.assert_allclose(found, np.array(wanted), rtol=1e-12, atol=1e-14)
