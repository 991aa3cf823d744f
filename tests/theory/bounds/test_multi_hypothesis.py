"""The bound by several laws against programs over all mechanisms, and its numbers again."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.stats import binom, norm

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, PureDP
from dpbench.theory.bounds.multi_hypothesis import (
    ARC_STEPS,
    LARGEST_ARC,
    LARGEST_L,
    STEPS,
    multi_hypothesis_lower_bound,
)
from dpbench.theory.bounds.numbers import two_point_lower_bound


def _fails(steps: int, width: int) -> Floats:
    """Return F of the module's derivation, of laws and cells."""
    first = np.arange(steps + 1)[:, None] - np.arange(steps + 2 - width)
    return np.asarray((first < 0) | (first >= width), dtype=float)


def least_failure(steps: int, width: int, told: float) -> float:
    """Return a certified lower bound on the largest probability of failure, with J, W and L."""
    laws, cells = steps + 1, steps + 2 - width
    up, down = np.eye(laws)[:-1], np.eye(laws)[1:]
    ratios = np.vstack([up - np.exp(told / steps) * down, down - np.exp(told / steps) * up])
    fails = _fails(steps, width)
    failure = (np.eye(laws)[:, :, None] * fails).reshape(laws, -1)
    limits = np.vstack([
        np.pad(np.kron(ratios, np.eye(cells)), [(0, 0), (0, 1)]),
        np.hstack([failure, -np.ones((laws, 1))]),
    ])  # fmt: skip
    found = linprog(
        np.append(np.zeros(fails.size), 1), A_ub=limits, b_ub=np.zeros(len(limits)), method="highs",
        A_eq=np.pad(np.kron(np.eye(laws), np.ones(cells)), [(0, 0), (0, 1)]), b_eq=np.ones(laws),
    )  # fmt: skip
    multipliers = np.maximum(-found.ineqlin.marginals, 0)
    weights, y = multipliers[-laws:], multipliers[:-laws].reshape(2 * steps, cells)
    return float((weights[:, None] / weights.sum() * fails + ratios.T @ y).min(axis=1).sum())


def least_failure_on_an_arc(steps: int, width: int, arc: float) -> float:
    """Certify with J, W and A, by Newton's method with a barrier: all its points are certificates.

    The w, m and v maximise `weight` times the bound plus the logarithms of all determinants.
    """
    numbers = [steps + 1, steps + 1, steps]
    parts = _certified(steps, width)
    bound = np.repeat([0.0, -1.0, np.cos(arc / steps)], numbers)
    fixed = np.repeat([1.0, 0.0, 0.0], numbers)  # w has the sum 1
    at = np.repeat([1 / numbers[0], 1.0, 0.5], numbers)

    def height(at: Floats, weight: float) -> float:
        values = np.linalg.eigvalsh(np.tensordot(at, parts, 1))
        inside = values.min() > 0
        return float(weight * bound @ at + np.log(values).sum()) if inside else -np.inf

    for weight in 10.0 ** np.arange(1, 8):
        rise = np.inf
        while rise > 0.01:
            moved = np.linalg.inv(np.tensordot(at, parts, 1)) @ parts
            slope = weight * bound + np.trace(moved, axis1=2, axis2=3).sum(axis=1)
            flat, turned = (one.reshape(len(at), -1) for one in (moved, moved.swapaxes(2, 3)))
            system = np.block([[flat @ turned.T, fixed[:, None]], [fixed, 0.0]])
            step = np.linalg.solve(system, np.append(slope, 0))[:-1]
            rise, length = slope @ step, 1.0
            least = height(at, weight)
            while height(at + length * step, weight) < least + 0.1 * length * rise:
                length /= 2
            at = at + length * step
    return float(bound @ at)


def _certified(steps: int, width: int) -> Floats:
    """Return what w, m and v each add to matrices, none of which may have a negative eigenvalue.

    The matrices are those of the cells, and diagonal ones: of w, and of v and a w again.
    """
    j, cells = np.arange(steps + 1), steps + 2 - width
    parts = np.zeros((3, steps + 1, cells + 2, steps + 1, steps + 1))
    w, m, v = parts
    w[j, :cells, j, j] = _fails(steps, width)
    m[j, :cells, j, j] = 1
    v[j[1:], :cells, j[1:], j[:-1]] = v[j[1:], :cells, j[:-1], j[1:]] = -0.5
    w[j, cells, j, j] = v[j, cells + 1, j, j] = 1
    w[0, cells + 1, 0, 0] = 1
    return np.delete(parts.reshape(-1, *parts.shape[2:]), 2 * steps + 2, axis=0)


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


@pytest.mark.parametrize("arc", [0.3, 0.927295, 1.4])
def test_two_ends_of_an_arc_in_closed_form(arc: float) -> None:
    """W = J: Bernoulli(x) and Bernoulli(1 - x) are at the angle arccos 2 sqrt(x (1-x))."""
    for steps in (1, 4):
        found = least_failure_on_an_arc(steps, steps, arc)
        assert found == pytest.approx((1 - math.sin(arc)) / 2, abs=1e-5)


def _least(laws: int, cells: int, rows: Floats, fails: Floats, limit: Any) -> float:
    """The least t of tables x of probabilities with rows @ x failing by t, and limit(x) >= 0."""
    first: Any = np.eye(laws * cells + 1)[-1]

    def table(x: Floats) -> Floats:
        return x[:-1].reshape(laws, cells)

    how: Any = {
        "fun": lambda x: x[-1], "x0": first + (1 - first) / cells, "method": "SLSQP",
        "jac": lambda _: first, "bounds": [(1e-7, 1)] * len(first), "options": {"maxiter": 500},
        "tol": 1e-9, "constraints": [
            {"type": "eq", "fun": lambda x: table(x).sum(axis=1) - 1},
            {"type": "ineq", "fun": lambda x: limit(table(x))},
            {"type": "ineq", "fun": lambda x: x[-1] - ((rows @ table(x)) * fails).sum(axis=1)},
        ],
    }  # fmt: skip
    found = minimize(**how)
    assert found.success
    return float(found.fun)


@pytest.mark.parametrize(("steps", "width", "arc"), [(4, 2, 2.0)])
def test_the_certificate_on_an_arc_by_a_table(steps: int, width: int, arc: float) -> None:
    """The program from the other side: tables whose neighbours are at that angle."""

    def near(x: Floats) -> Floats:
        return np.asarray(np.sqrt(x[1:] * x[:-1]).sum(axis=1) - math.cos(arc / steps))

    laws, cells = steps + 1, steps + 2 - width
    fails = np.array([[not c <= j < c + width for c in range(cells)] for j in range(laws)])
    found = _least(laws, cells, np.eye(laws), fails, near)
    assert least_failure_on_an_arc(steps, width, arc) == pytest.approx(found, abs=2e-5)


@pytest.mark.parametrize(("n", "p", "rho"), [(2, 1.0, 0.1), (3, 0.6, 0.2)])
def test_no_concentrated_mechanism_fails_less(n: int, p: float, rho: float) -> None:
    """Of all releases from n records in {-1, 0, 1} whose divergences of order 2 are at most 2 rho.

    Every one under rho-zCDP is among them.
    """
    steps, width, cells = 4, 2, 4
    datasets = list(itertools.combinations_with_replacement((-1, 0, 1), n))
    pairs = np.array([
        (i, j) for i, one in enumerate(datasets) for j, other in enumerate(datasets)
        if sum((Counter(one) - Counter(other)).values()) == 1
    ])  # fmt: skip
    rows = np.zeros((steps + 1, len(datasets)))
    for j, u in enumerate(np.linspace(-1, 1, steps + 1)):
        law = {-1: p * (1 - u) / 2, 0: 1 - p, 1: p * (1 + u) / 2}
        for records in itertools.product((-1, 0, 1), repeat=n):
            rows[j, datasets.index(tuple(sorted(records)))] += math.prod(law[x] for x in records)

    def private(x: Floats) -> Floats:
        one, other = x[pairs[:, 0]], x[pairs[:, 1]]
        return np.asarray(math.exp(2 * rho) - (one**2 / other).sum(axis=1))

    fails = np.array([[not c <= j < c + width for c in range(cells)] for j in range(steps + 1)])
    found = _least(len(datasets), cells, rows, fails, private)
    arc = math.sqrt(math.expm1(2 * rho) * n * p * (n * p + 1 - p)) / 2
    assert 0 < least_failure_on_an_arc(steps, width, arc) <= found


@pytest.mark.parametrize("p", [0.1, 1.0])
def test_how_fast_releases_move(p: float) -> None:
    """The Fisher information of a sum with Gaussian noise, by cells, against the module's I."""
    n, rho = 200, 5e-5
    cells = np.diff(norm.cdf(np.linspace(-800, 800, 801)[:, None], np.arange(-n, n + 1),
                             math.sqrt(2 / rho)), axis=0)  # fmt: skip

    def chances(u: float) -> Floats:
        law = np.zeros(2 * n + 1)  # of the sum
        for m, weight in enumerate(binom.pmf(np.arange(n + 1), n, p)):
            law[n - m : n + m + 1 : 2] += weight * binom.pmf(np.arange(m + 1), m, (1 + u) / 2)
        return np.asarray(cells @ law)

    most = math.expm1(2 * rho) * n * p * (n * p + 1 - p) / 4
    for u in (0.0, 0.7):
        slope = (chances(u + 1e-4) - chances(u - 1e-4)) / 2e-4
        information = float((slope**2 / chances(u)).sum())
        assert 0.93 * most < information <= most


@pytest.mark.parametrize("width", LARGEST_ARC)
def test_the_table_of_arcs(width: int) -> None:
    assert 0.1 <= least_failure_on_an_arc(ARC_STEPS, width, LARGEST_ARC[width]) < 0.1003


@pytest.mark.parametrize(("n", "rho"), [(10**5, 5e-5), (500, 0.1)])
def test_what_every_arc_is_of(n: int, rho: float) -> None:
    """P is where the arc of n records is what the table has."""
    p = (multi_hypothesis_lower_bound(n, 4, ZCDP(rho)) * ARC_STEPS / 6) ** (4 / 3)
    arc = math.sqrt(math.expm1(2 * rho) * n * p * (n * p + 1 - p)) / 2
    assert arc == pytest.approx(LARGEST_ARC[6], rel=1e-9)


def test_records_as_arrays_count_them() -> None:
    """Of 64 bits, which the square of n does not fit."""
    n, budget = 10**12, ZCDP(5e-5)
    of_array: Any = np.int64(n)
    assert multi_hypothesis_lower_bound(of_array, 6, budget) == multi_hypothesis_lower_bound(
        n, 6, budget
    )


@pytest.mark.parametrize("width", LARGEST_L)
def test_the_table(width: int) -> None:
    """Each L leaves failures of at least 0.1, and a little more leaves fewer."""
    assert least_failure(STEPS, width, LARGEST_L[width]) >= 0.1
    assert least_failure(STEPS, width, LARGEST_L[width] * 1.001) < 0.1


@pytest.mark.parametrize(("k", "ratio"), [(6, 1.038), (8, 1.085), (12, 1.148)])
def test_against_the_two_point_bound(k: float, ratio: float) -> None:
    """Two programs of their own found these, at n = 1e5 and epsilon = 0.01."""
    found = multi_hypothesis_lower_bound(10**5, k, PureDP(0.01))
    assert found / two_point_lower_bound(10**5, k, PureDP(0.01)).alpha == pytest.approx(
        ratio, abs=1e-3
    )


@pytest.mark.parametrize(("k", "ratio"), [(4, 0.946), (5, 1.007), (6, 1.050), (8, 1.116)])
def test_against_the_two_point_bound_under_zcdp(k: float, ratio: float) -> None:
    found = multi_hypothesis_lower_bound(10**8, k, ZCDP(5e-5))
    assert found / two_point_lower_bound(10**8, k, ZCDP(5e-5)).alpha == pytest.approx(
        ratio, abs=2e-3
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
    assert multi_hypothesis_lower_bound(10**5, 6, PureDP(0.01)) == pytest.approx(0.008743, abs=1e-6)
    for k, n, budget in (
        (2.5, 10**5, PureDP(0.1)),
        (6, 10, PureDP(0.1)),
        (6, 100, PureDP(0.1)),  # points that are rare, but not rare enough
        (6, 15, ZCDP(0.1)),
        (6, 10, ZCDP(0.1)),
        (6, 10**5, GDP(0.1)),
    ):
        assert math.isnan(multi_hypothesis_lower_bound(n, k, budget))
    assert math.isnan(multi_hypothesis_lower_bound(10**5, 6, PureDP(0.1), beta=0.2))
    assert multi_hypothesis_lower_bound(10**5, 6, PureDP(1e6)) == 0
