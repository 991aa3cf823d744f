"""The multi-hypothesis bound against programs over all mechanisms, and its numbers again."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pytest
from scipy.optimize import linprog, minimize
from scipy.stats import binom, norm

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, PureDP
from dpbench.theory.bounds.multi_hypothesis import (
    ARC_CHAINS,
    PURE_CHAINS,
    Chain,
    Stage,
    _largest_error,
    _stage_probabilities,
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


class Certificate(NamedTuple):
    """Dual solution for zCDP: the bound, and w, m and v of the proof (omega, m and v)."""

    bound: float
    w: Floats
    m: Floats
    v: Floats

    def matrices(self, width: int) -> Floats:
        """Return the matrix of every cell, none of which may have a negative eigenvalue."""
        j, fails = np.arange(len(self.m)), _fails(len(self.v), width).T
        found = np.zeros((len(fails), len(j), len(j)))
        found[:, j, j] = fails * self.w + self.m
        found[:, j[1:], j[:-1]] = found[:, j[:-1], j[1:]] = -self.v / 2
        return found


def _derivatives(at: Floats, width: int, steps: int) -> tuple[Floats, Floats]:
    """Return the slope of all logarithms in w, m and v, and minus their second derivatives."""
    fails = _fails(steps, width).T
    inverse = np.linalg.inv(_split(at, steps).matrices(width))
    diagonal, beside = (np.diagonal(inverse, i, axis1=1, axis2=2) for i in (0, 1))
    sums = [(fails * diagonal).sum(axis=0), diagonal.sum(axis=0), -beside.sum(axis=0)]
    m = np.repeat([False, True, False], [steps + 1, steps + 1, steps])  # may be negative
    own = np.where(m, 0, 1 / at)
    crossed = -inverse[:, :, 1:] * inverse[:, :, :-1]
    twice = inverse[:, 1:, 1:] * inverse[:, :-1, :-1] + inverse[:, 1:, :-1] * inverse[:, :-1, 1:]
    kinds = fails[:, :, None], np.ones_like(fails)[:, :, None]  # how w and m enter the diagonal
    squares = [[(a * inverse**2 * b.swapaxes(1, 2)).sum(axis=0) for b in kinds] for a in kinds]
    sides = [(a * crossed).sum(axis=0) for a in kinds]
    rows = [[*square, side] for square, side in zip(squares, sides, strict=True)]
    bend = np.block([*rows, [*(side.T for side in sides), twice.sum(axis=0) / 2]])
    return np.concatenate(sums) + own, bend + np.diag(own**2)


def _split(at: Floats, steps: int) -> Certificate:
    """Return w, m and v from a vector of all of them."""
    return Certificate(math.nan, *np.split(at, [steps + 1, 2 * steps + 2]))


def certify_arcs(width: int, angles: Floats) -> Certificate:
    """Certify with W and the angle of each step, by Newton's method with a barrier.

    All its points are certificates. The w, m and v maximise `weight` times the bound plus the
    logarithms of all determinants, of all w and of all v.
    """
    steps = len(angles)
    bound = np.concatenate([np.zeros(steps + 1), -np.ones(steps + 1), np.cos(angles)])
    numbers = [steps + 1, steps + 1, steps]
    fixed = np.repeat([1.0, 0.0, 0.0], numbers)  # w has the sum 1
    at = np.repeat([1 / numbers[0], 1.0, 0.5], numbers)

    def height(at: Floats, weight: float) -> float:
        _, w, _, v = found = _split(at, steps)
        try:
            roots = np.linalg.cholesky(found.matrices(width))
        except np.linalg.LinAlgError:  # a negative eigenvalue
            return -np.inf
        if min(w.min(), v.min()) <= 0:
            return -np.inf
        logs = np.log(w).sum() + np.log(v).sum()
        return float(
            weight * bound @ at + logs + 2 * np.log(np.diagonal(roots, axis1=1, axis2=2)).sum()
        )

    for weight in 10.0 ** np.arange(1, 8):
        rise = np.inf
        while rise > 0.01:
            slope, bend = _derivatives(at, width, steps)
            slope = slope + weight * bound
            system = np.block([[bend, fixed[:, None]], [fixed, 0.0]])
            step = np.linalg.solve(system, np.append(slope, 0))[:-1]
            rise, length = float(slope @ step), 1.0
            least = height(at, weight)
            while height(at + length * step, weight) < least + 0.1 * length * rise:
                length /= 2
            at = at + length * step
    return _split(at, steps)._replace(bound=float(bound @ at))


def least_failure_on_an_arc(steps: int, width: int, arc: float) -> float:
    """Return the certified bound for J steps of one stage."""
    return certify_arcs(width, np.full(steps, arc / steps)).bound


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


@pytest.mark.parametrize(
    ("n", "rho", "stages"),
    [(2, 0.1, [(4, 1.0)]), (3, 0.2, [(4, 0.6)]), (2, 0.2, [(1, 0.4), (2, 0.5)])],
)
def test_no_concentrated_mechanism_fails_less(
    n: int, rho: float, stages: list[tuple[int, float]]
) -> None:
    """Of all releases from n records whose divergences of order 2 are at most 2 rho.

    Every one under rho-zCDP is among them. A stage is its steps and its P_s; record s or -s is of
    stage s.
    """
    steps, width = sum(own for own, _ in stages), 2
    cells = steps + 2 - width
    letters = range(-len(stages), len(stages) + 1)
    datasets = list(itertools.combinations_with_replacement(letters, n))
    pairs = np.array([
        (i, j) for i, one in enumerate(datasets) for j, other in enumerate(datasets)
        if sum((Counter(one) - Counter(other)).values()) == 1
    ])  # fmt: skip
    rows, angles = np.zeros((steps + 1, len(datasets))), []
    for own, p in stages:
        arc = math.sqrt(math.expm1(2 * rho) * n * p * (n * p + 1 - p)) / 2
        angles += [arc / own] * own
        assert _stage_probabilities(Chain(width, (Stage(own, arc),)), n, ZCDP(rho)) == (
            pytest.approx([p])
        )
    for j in range(steps + 1):
        law, done = {0: 1 - sum(p for _, p in stages)}, 0
        for s, (own, p) in enumerate(stages, 1):
            turned = min(max(j - done, 0), own) / own
            law |= {s: p * turned, -s: p * (1 - turned)}
            done += own
        for records in itertools.product(letters, repeat=n):
            rows[j, datasets.index(tuple(sorted(records)))] += math.prod(law[x] for x in records)

    def private(x: Floats) -> Floats:
        one, other = x[pairs[:, 0]], x[pairs[:, 1]]
        return np.asarray(math.exp(2 * rho) - (one**2 / other).sum(axis=1))

    fails = np.array([[not c <= j < c + width for c in range(cells)] for j in range(steps + 1)])
    found = _least(len(datasets), cells, rows, fails, private)
    assert 0 < certify_arcs(width, np.array(angles)).bound <= found


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


def _cosine(angle: Fraction) -> Fraction:
    """Return a rational number below the cosine, by a series that ends with a negative term."""
    return sum(((-(angle**2)) ** i / math.factorial(2 * i) for i in range(8)), Fraction(0))


@pytest.mark.parametrize("chain", ARC_CHAINS)
def test_the_chains_in_rational_arithmetic(chain: Chain) -> None:
    """No cell has a negative pivot, and the bound is 0.1 or more; arcs are nearly the longest."""
    exact = [Fraction(str(stage.length)) / stage.steps for stage in chain.stages
             for _ in range(stage.steps)]  # fmt: skip
    found = certify_arcs(chain.width, np.array(exact, dtype=float))
    w, m, v = ([Fraction(x) for x in part] for part in found[1:])
    for fails in _fails(len(exact), chain.width).T.astype(int).tolist():
        pivot = w[0] * fails[0] + m[0]
        for j, beside in enumerate(v, 1):
            assert pivot > 0
            pivot = w[j] * fails[j] + m[j] - (beside / 2) ** 2 / pivot
        assert pivot > 0
    assert min(w) >= 0 <= min(v)
    least = sum(a * _cosine(b) for a, b in zip(v, exact, strict=True)) - sum(m)
    assert Fraction(1, 10) <= least / sum(w) < Fraction(10003, 100000)


@pytest.mark.parametrize("chain", ARC_CHAINS)
def test_chains_are_symmetric(chain: Chain) -> None:
    assert chain.stages == chain.stages[::-1]


@pytest.mark.parametrize(("n", "rho"), [(10**5, 5e-5), (500, 0.1)])
def test_what_every_arc_is_of(n: int, rho: float) -> None:
    """P_s is where the information of M_s records of a stage is what the table has."""
    for chain in ARC_CHAINS:
        for p, stage in zip(_stage_probabilities(chain, n, ZCDP(rho)), chain.stages, strict=True):
            information = math.expm1(2 * rho) * binom(n, p).moment(2) / 4
            assert math.sqrt(information) == pytest.approx(stage.length, rel=1e-9)


def test_records_as_arrays_count_them() -> None:
    """Of 64 bits, which the square of n does not fit."""
    n, budget = 10**12, ZCDP(5e-5)
    of_array: Any = np.int64(n)
    assert multi_hypothesis_lower_bound(of_array, 6, budget) == multi_hypothesis_lower_bound(
        n, 6, budget
    )


@pytest.mark.parametrize("chain", PURE_CHAINS)
def test_the_pure_chains(chain: Chain) -> None:
    """Each L leaves failures of at least 0.1, and a little more leaves fewer."""
    (stage,) = chain.stages
    assert least_failure(stage.steps, chain.width, stage.length) >= 0.1
    assert least_failure(stage.steps, chain.width, stage.length * 1.001) < 0.1


@pytest.mark.parametrize(("k", "ratio"), [(6, 1.038), (8, 1.085), (12, 1.148)])
def test_against_the_two_point_bound(k: float, ratio: float) -> None:
    """Two programs of their own found these, at n = 1e5 and epsilon = 0.01."""
    found = multi_hypothesis_lower_bound(10**5, k, PureDP(0.01))
    assert found / two_point_lower_bound(10**5, k, PureDP(0.01)).alpha == pytest.approx(
        ratio, abs=1e-3
    )


@pytest.mark.parametrize(
    ("k", "ratio"), [(4, 0.980), (5, 1.050), (6, 1.096), (8, 1.162), (12, 1.237)]
)
def test_against_the_two_point_bound_under_zcdp(k: float, ratio: float) -> None:
    found = multi_hypothesis_lower_bound(10**8, k, ZCDP(5e-5))
    assert found / two_point_lower_bound(10**8, k, ZCDP(5e-5)).alpha == pytest.approx(
        ratio, abs=2e-3
    )


@pytest.mark.parametrize("k", [2, 3.5, 6, 40, 1e4])
@pytest.mark.parametrize(
    "chain", [*ARC_CHAINS, PURE_CHAINS[0], Chain(2, (Stage(1, 1), Stage(4, 2)))]
)
def test_the_laws_are_in_the_class(k: float, chain: Chain) -> None:
    """Each law as a list of values, with means in steps of D and moments of at most 1."""
    for total in (1e-9, 0.05, 0.999):
        p = np.array([total * stage.length for stage in chain.stages])
        p /= p.sum() / total
        gap = 2 * _largest_error(chain, p, k) / chain.width
        means, moments, done = [], [], [0] * len(p)
        for s in [None, *(s for s, stage in enumerate(chain.stages) for _ in range(stage.steps))]:
            if s is not None:
                done[s] += 1
            law = [(0.0, 1 - total)]
            for one, stage, turned in zip(p, chain.stages, done, strict=True):
                tau, share = gap * stage.steps / (2 * one), turned / stage.steps
                law += [(tau, one * share), (-tau, one * (1 - share))]
            means.append(math.fsum(x * weight for x, weight in law))
            moments.append(math.fsum(
                math.exp(k * math.log(abs(x - means[-1])) + math.log(weight))
                for x, weight in law if weight > 1e-15 and x != means[-1]
            ))  # fmt: skip
        assert np.diff(means) == pytest.approx(np.full(len(means) - 1, gap), rel=1e-6)
        assert max(moments) == pytest.approx(1, rel=1e-9 * k)


def test_one_stage_in_closed_form() -> None:
    """The bound is w P^(1 - 1/k) where no moment exceeds that of the middle distribution."""
    chain, k = PURE_CHAINS[1], 5
    for p in (1e-6, 0.2):
        expected = chain.width / 24 * p ** (1 - 1 / k)
        assert _largest_error(chain, np.array([p]), k) == pytest.approx(expected, rel=1e-12)


def test_where_it_is_not_known() -> None:
    assert multi_hypothesis_lower_bound(10**5, 6, PureDP(0.01)) == pytest.approx(0.008743, abs=1e-6)
    for k, n, budget in (
        (6, 70, PureDP(0.1)),  # the chains need more records that are not 0
        (6, 9, ZCDP(0.1)),
        (6, 10**5, GDP(0.1)),
    ):
        assert math.isnan(multi_hypothesis_lower_bound(n, k, budget))
    assert math.isnan(multi_hypothesis_lower_bound(10**5, 6, PureDP(0.1), beta=0.2))
    for budget in (PureDP(1e6), ZCDP(1e6)):
        assert multi_hypothesis_lower_bound(10**5, 6, budget) == 0
