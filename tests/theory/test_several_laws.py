"""The bound by several laws against programs over all mechanisms, and its numbers again."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog

from dpbench.privacy import ZCDP, PureDP
from dpbench.theory.lower_bounds import two_point_lower_bound
from dpbench.theory.several_laws import LAWS, STEPS, least_failure, several_laws_lower_bound


@pytest.mark.parametrize("told", [0.5, 3.0, 6.0])
def test_two_ends_in_closed_form(told: float) -> None:
    """W = J: the failure at the ends is e^(-L/2)/2, as for two points."""
    for steps in (4, 12):
        assert least_failure(steps, steps, told) == pytest.approx(math.exp(-told / 2) / 2, rel=1e-7)


@pytest.mark.parametrize(("steps", "width", "told"), [(6, 2, 8.0), (8, 4, 5.0)])
def test_the_certificate_by_a_mechanism_that_has_it(steps: int, width: int, told: float) -> None:
    """The program again, by variables that are tables of its own, from the other side."""
    laws, cells = steps + 1, steps + 2 - width
    size, grown = laws * cells, math.exp(told / steps)
    place = np.arange(size).reshape(laws, cells)
    rows, units = [], np.eye(size + 1)
    for j, c in itertools.product(range(steps), range(cells)):
        here, there = units[place[j, c]], units[place[j + 1, c]]
        rows += [here - grown * there, there - grown * here]
    for j in range(laws):
        far = [c for c in range(cells) if not c <= j < c + width]
        rows.append(units[place[j, far]].sum(axis=0) - units[-1])
    found = linprog(
        units[-1], A_ub=np.array(rows), b_ub=np.zeros(len(rows)),
        A_eq=[units[row].sum(axis=0) for row in place], b_eq=np.ones(laws), method="highs",
    )  # fmt: skip
    assert least_failure(steps, width, told) == pytest.approx(found.fun, rel=1e-7)


@pytest.mark.parametrize(("n", "p", "epsilon"), [(2, 0.5, 1.0), (3, 0.4, 1.5)])
@pytest.mark.parametrize("width", [2, 4])
def test_no_mechanism_on_datasets_fails_less(n: int, p: float, epsilon: float, width: int) -> None:
    """By linear programming over all epsilon-DP releases of a cell from n records in {-1, 0, 1}."""
    steps = 4
    cells = steps + 2 - width
    datasets = list(itertools.combinations_with_replacement((-1, 0, 1), n))
    index = {data: i for i, data in enumerate(datasets)}
    units, rows = np.eye(len(datasets) * cells + 1), []
    for data, i, letter, c in itertools.product(datasets, range(n), (-1, 0, 1), range(cells)):
        other = index[tuple(sorted((*data[:i], *data[i + 1 :], letter)))]
        mine = units[index[data] * cells + c]
        if other != index[data]:
            rows.append(mine - math.exp(epsilon) * units[other * cells + c])
    for j, u in enumerate(np.linspace(-1, 1, steps + 1)):
        law = {-1: p * (1 - u) / 2, 0: 1 - p, 1: p * (1 + u) / 2}
        row = -units[-1].copy()
        for records in itertools.product((-1, 0, 1), repeat=n):
            at = index[tuple(sorted(records))] * cells
            far = [at + c for c in range(cells) if not c <= j < c + width]
            row += math.prod(law[x] for x in records) * units[far].sum(axis=0)
        rows.append(row)
    ones = np.kron(np.eye(len(datasets)), np.ones(cells))
    found = linprog(
        units[-1], A_ub=np.array(rows), b_ub=np.zeros(len(rows)), method="highs",
        A_eq=np.pad(ones, [(0, 0), (0, 1)]), b_eq=np.ones(len(datasets)),
    )  # fmt: skip
    bound = least_failure(steps, width, n * p * math.expm1(epsilon))
    assert found.fun is not None
    assert 0 < bound <= found.fun


@pytest.mark.parametrize("width", LAWS)
def test_the_table(width: int) -> None:
    """Each L leaves failures of at least 0.1, and a little more leaves fewer."""
    assert least_failure(STEPS, width, LAWS[width]) >= 0.1
    assert least_failure(STEPS, width, LAWS[width] * 1.001) < 0.1


@pytest.mark.parametrize(("k", "ratio"), [(6, 1.038), (8, 1.085), (12, 1.148)])
def test_against_the_two_point_bound(k: float, ratio: float) -> None:
    """Two programs of their own found these, at n = 1e5 and epsilon = 0.01."""
    found = several_laws_lower_bound(10**5, k, PureDP(0.01))
    assert found / two_point_lower_bound(10**5, k, PureDP(0.01)).alpha == pytest.approx(
        ratio, abs=1e-3
    )


@pytest.mark.parametrize("k", [3, 3.5, 5, 12])
def test_the_laws_are_in_the_class(k: float) -> None:
    for p in np.array([1e-3, 0.3, 1.0]) / k:
        means = np.linspace(-p, p, 41)
        chances = np.array([(p - means) / 2, 0 * means + 1 - p, (p + means) / 2])
        points = np.array([[-1.0], [0.0], [1.0]])
        moments = (chances * np.abs(points - means) ** k).sum(axis=0) / p  # tau^k = 1/p
        assert np.all(moments <= 1 + 1e-12)


def test_where_it_is_not_known() -> None:
    assert several_laws_lower_bound(10**5, 6, PureDP(0.01)) == pytest.approx(0.008743, abs=1e-6)
    for k, n, budget in ((2.5, 10**5, PureDP(0.1)), (6, 10, PureDP(0.1)), (6, 10**5, ZCDP(0.1))):
        assert math.isnan(several_laws_lower_bound(n, k, budget))
    assert math.isnan(several_laws_lower_bound(10**5, 6, PureDP(0.1), beta=0.2))
    assert several_laws_lower_bound(10**5, 6, PureDP(1e6)) == 0
