"""Pairs of datasets that differ in a record or in a group."""

from __future__ import annotations

import numpy as np
import pytest

from dpbench.benchmark.neighbours import draw_local_pairs, draw_pairs, group_size
from dpbench.privacy import GDP, ZCDP, ApproxDP, PureDP
from dpbench.privacy.budgets import Relation
from tests.support import rng


def test_a_group_is_as_large_as_its_promise_allows() -> None:
    """The loss of the group is 1 at most."""
    for budget, many in (
        (PureDP(1.0), 1), (PureDP(0.1), 10), (PureDP(0.03), 33), (PureDP(3.0), 1),
        (GDP(0.1), 10), (ZCDP(0.005), 14), (ZCDP(0.5), 1), (ApproxDP(0.03, 1e-6), 33),
    ):  # fmt: skip
        assert group_size(budget) == many


@pytest.mark.parametrize("relation", ["replace", "add_remove"])
@pytest.mark.parametrize("shape", [(30,), (31,), (30, 3)])
@pytest.mark.parametrize("flat", [False, True])
def test_pairs_of_neighbours(relation: Relation, shape: tuple[int, ...], flat: bool) -> None:
    """All have the problem's n, and differ in as many records as they say."""
    x, y = (np.zeros(shape) if flat else rng(seed).normal(5, 1, shape) for seed in (1, 2))
    budget = PureDP(0.2, neighbours=relation)
    found = {pair.name: pair for pair in draw_pairs(x, y, budget, rng())}
    assert list(found) == ["5 typical", "1 extreme", "5 equal", "1 clusters", "5 one-sided"]
    n = len(x)
    for name, pair in found.items():
        assert len(pair.left) == n + (name == "1 extreme" and relation == "add_remove")
        if relation == "replace":
            assert (pair.left != pair.right).reshape(n, -1).any(axis=1).sum() == pair.changed, name
        else:
            assert len(pair.left) - len(pair.right) == pair.changed, name
    clusters = found["1 clusters"]
    jump = np.linalg.norm(np.median(clusters.left, axis=0) - np.median(clusters.right, axis=0))
    spread = np.linalg.norm(np.ptp(clusters.left, axis=0))
    assert jump >= 0.49 * spread
    assert len(np.unique(found["5 equal"].right, axis=0)) == 1


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99, 0.999, 1.0])
def test_one_sided_data_move_every_quantile(q: float) -> None:
    """A mean that is clipped at it moves by at least 20 times clip/n, for one changed record."""
    x = rng().normal(size=2000)
    pair = list(draw_pairs(x, x[::-1] + 1, PureDP(1.0), rng()))[-1]
    below = np.sort(np.abs(pair.left))
    clip = below[int(np.ceil(q * len(below))) - 1]
    moved = [np.minimum(np.abs(side), np.sort(np.abs(side))[int(np.ceil(q * 2000)) - 1]).mean()
             for side in pair[1:3]]  # fmt: skip
    assert abs(moved[1] - moved[0]) > 20 * clip / 2000


def test_local_pairs_differ_at_one_index() -> None:
    x = rng().normal(size=9)
    for pair in draw_local_pairs(x, 4):
        assert np.flatnonzero(pair.left != pair.right).tolist() == [4]
        assert pair.left[4] == x.min()
        assert (pair.right[4] == x.max()) == (pair.name == "1 equal")


@pytest.mark.parametrize("size", [1e-3, 5.0])
def test_extreme_records_are_far_beyond_all_others(size: float) -> None:
    x, y = (size * rng(seed).normal(size=30) for seed in (1, 2))
    pair = {pair.name: pair for pair in draw_pairs(x, y, PureDP(1.0), rng())}["1 extreme"]
    far = np.abs(pair.right).max()
    assert far > 1e5 * max(1.0, np.abs(x).max())
    _, extreme = draw_local_pairs(x, 4)
    assert extreme.right[4] - x.min() > 1e5 * np.ptp(x)


def test_typical_records_are_the_lowest_of_one_and_the_highest_of_another_dataset() -> None:
    """Along a random direction, which is up or down for numbers."""
    x, y = np.sort([rng(seed).normal(size=30) for seed in (1, 2)])
    for seed in range(4):
        pair, *_ = draw_pairs(x, y, PureDP(0.2), rng(seed))
        moved = pair.left != pair.right
        found = np.sort(pair.left[moved]).tolist(), np.sort(pair.right[moved]).tolist()
        assert found in [(x[:5].tolist(), y[-5:].tolist()), (x[-5:].tolist(), y[:5].tolist())]


def test_one_sided_records_by_their_ranks() -> None:
    """The record of rank t is R^(1 - ln t/ln n) widths from the lowest: the last is one width."""
    x, t = rng().normal(size=50), np.arange(1, 51)
    pair = list(draw_pairs(x, x, PureDP(0.5), rng()))[-1]
    start = x.min() if pair.right.max() > 1e100 else x.max()
    found = np.sort(np.abs(pair.right - start))[::-1] / np.ptp(x)
    np.testing.assert_allclose(found, 1e120 ** (1 - np.log(t) / np.log(50)), rtol=1e-9)
    assert np.sum(pair.left != pair.right) == pair.changed == 2
