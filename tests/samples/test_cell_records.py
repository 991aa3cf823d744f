"""Records inside cells: halves, lists, counts and ranks agree, and records are uniform."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from dpbench.distributions import Gaussian
from dpbench.samples import cell_records
from dpbench.samples.cell_records import CellPart, CellRecords
from dpbench.samples.quantile_grid import quantile_grid
from tests.support import FALSE_ALARM, Floats, rng

GRID = quantile_grid(Gaussian(), 1000)
CELL = GRID.lower_cells - 1


def records(in_cell: list[int], key: tuple[int, int] = (1, 2)) -> CellRecords:
    counts = np.zeros((len(in_cell), GRID.means.size), dtype=np.int64)
    counts[:, CELL] = in_cell
    return CellRecords(GRID, counts, key)


def listed(inside: CellRecords, part: CellPart, trial: int) -> Floats:
    size = int(inside.sizes(part)[trial])
    pieces = inside.between_ranks(part, trial, 0, size - 1, keep_whole=0)
    return np.concatenate([t for _, t in pieces if t is not None])


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cell_records, "LEAF", 8)


def test_halves_have_the_records_of_the_whole() -> None:
    inside = records([1000, 37])
    whole = inside.whole(CELL)
    for trial in range(2):
        left, right = (listed(inside, half, trial) for half in whole.halves())
        np.testing.assert_array_equal(np.r_[left, right], listed(inside, whole, trial))
        assert np.all(np.diff(np.r_[left, right]) >= 0)
        assert left.max() <= whole.halves()[1].low <= right.min()


def test_counts_and_ranks_are_those_of_the_list() -> None:
    inside = records([500, 500])
    whole = inside.whole(CELL)
    lists = [listed(inside, whole, trial) for trial in range(2)]
    for bound in (whole.low, whole.high, float(lists[0][77]), (whole.low + whole.high) / 2):
        found = inside.count_less(whole, np.array([0, 1]), np.array([bound, bound]))
        assert found.tolist() == [int((one < bound).sum()) for one in lists]
    for first, last in ((0, 0), (10, 11), (100, 400), (-5, 600), (1, 499), (0, 498)):
        size = 0
        for part, t in inside.between_ranks(whole, 1, first, last, keep_whole=1000):
            kept = listed(inside, part, 1) if t is None else t
            assert set(kept) <= set(lists[1][max(first, 0) : last + 1])
            size += kept.size
        assert size == min(last, 499) - max(first, 0) + 1


def test_tail_probabilities_are_uniform() -> None:
    """The test alarms falsely with probability 1e-6."""
    whole = records([1]).whole(CELL)
    t = np.concatenate(
        [listed(records([300], tuple(rng(i).integers(2**60, size=2))), whole, 0) for i in range(20)]
    )
    uniform = (t - whole.low) / (whole.high - whole.low)
    assert stats.kstest(uniform, "uniform").pvalue > FALSE_ALARM


def test_each_part_of_each_dataset_has_its_own_random_numbers() -> None:
    inside = records([1000, 1000])
    parts = [inside.whole(CELL), inside.whole(CELL + 1)]
    for _ in range(2):
        parts += [half for part in parts for half in part.halves()]
    drawn = [inside._generator(part, trial).random() for part in set(parts) for trial in (-1, 0, 1)]
    assert len(set(drawn)) == len(drawn) == 3 * 2 * 7
