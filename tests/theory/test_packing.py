"""The packing lower bound against linear programs over all private procedures."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import linprog

from dpbench.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from dpbench.theory.packing import code_size, packing_lower_bound

Law = tuple[float, ...]


def best_naming(laws: Sequence[Law], n: int, epsilon: float) -> float:
    """The largest t with which an epsilon-DP procedure names every law from n records.

    By linear programming: the probability of each answer on each dataset. Laws are on a finite
    alphabet; by symmetry an answer may depend on the sorted records alone.
    """
    letters, many = range(len(laws[0])), len(laws)
    datasets = list(itertools.combinations_with_replacement(letters, n))
    index = {data: i for i, data in enumerate(datasets)}
    size = len(datasets) * many + 1  # the last variable is t
    units, rows = np.eye(size), []
    for data in datasets:
        changes = itertools.product(range(n), letters)
        near = {tuple(sorted((*data[:i], *data[i + 1 :], letter))) for i, letter in changes}
        for other, answer in itertools.product(near - {data}, range(many)):
            mine, theirs = index[data] * many + answer, index[other] * many + answer
            rows.append(units[mine] - math.exp(epsilon) * units[theirs])
    for j, law in enumerate(laws):
        row = units[-1].copy()
        for data in datasets:
            orders = math.factorial(n)
            for count in Counter(data).values():
                orders //= math.factorial(count)
            row[index[data] * many + j] = -orders * math.prod(law[x] for x in data)
        rows.append(row)
    one = np.hstack([np.kron(np.eye(len(datasets)), np.ones(many)), np.zeros((len(datasets), 1))])
    found = linprog(
        -units[-1], A_ub=np.array(rows), b_ub=np.zeros(len(rows)), A_eq=one,
        b_eq=np.ones(len(datasets)), bounds=(0, 1), method="highs",
    )  # fmt: skip
    assert found.fun is not None
    return -float(found.fun)


def test_disjoint_laws_are_named_by_randomised_response() -> None:
    success = best_naming([(1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)], 1, 0.5)
    assert success == pytest.approx(math.exp(0.5) / (math.exp(0.5) + 2), rel=1e-7)
    # Two records of two laws: the mixed dataset answers by a coin, each step is e^epsilon.
    two = best_naming([(1.0, 0.0), (0.0, 1.0)], 2, 0.5)
    assert two == pytest.approx(1 - math.exp(-0.5) / 2, rel=1e-7)


def words_law(word: Sequence[int], p: float) -> Law:
    """The law of a record of a code word, over which coordinates are not zero."""
    return tuple(
        math.prod(
            (p if bit else 1 - p) if one else 1.0 - bit for one, bit in zip(word, bits, strict=True)
        )
        for bits in itertools.product((0, 1), repeat=len(word))
    )


@pytest.mark.parametrize(("d", "n", "epsilon"), [(1, 5, 5.0), (2, 2, 0.5), (3, 1, 5.0)])
def test_the_laws_of_the_theorem_cannot_be_named(d: int, n: int, epsilon: float) -> None:
    """All words of d <= 3 letters are d/4 apart: there the bound speaks of 2^d laws."""
    words = list(itertools.product((0, 1), repeat=d))
    assert math.exp(code_size(d)) == pytest.approx(len(words))
    for p in (1e-4, 0.05, 0.3, 0.9):
        laws = [words_law(word, p) for word in words]
        success = best_naming(laws, n, epsilon)
        odds = math.log((len(words) - 1) * success / (1 - success))
        assert odds <= n * math.log(1 + (1 - (1 - p) ** d) * (math.exp(epsilon) - 1)) + 1e-6
        if 16 * packing_lower_bound(n, d, PureDP(epsilon)) ** 2 > p * d:
            assert success < 0.9


def test_code_sizes_against_whole_numbers() -> None:
    for d in (*range(1, 18), 129, 1001, 4096):
        ball = sum(math.comb(d, i) for i in range(d) if 4 * i < d)
        assert code_size(d) == pytest.approx(math.log(2**d) - math.log(ball), rel=1e-9, abs=1e-12)


@pytest.mark.parametrize(
    ("d", "epsilon"), [(1, 10.0), (30, 1e-3), (1000, 1e-3), (20_000, 1.0), (20_000, 600.0)]
)
def test_the_bound_is_where_the_lemma_needs_n_records(d: int, epsilon: float) -> None:
    """Unless p would be above 1/2: then p is 1/2, and more records are needed than there are."""
    size = code_size(d)  # 3777 for the largest d: no number of words holds it
    odds = (math.log(math.floor(math.exp(size) + 1e-9) - 1) if d < 50 else size) + math.log(9)
    for n in (1, 10, 1000, 10**12):
        p = 16 * packing_lower_bound(n, d, PureDP(epsilon)) ** 2 / d
        tau = -math.expm1(d * math.log1p(-p))
        needed = odds / math.log1p(tau * math.expm1(epsilon))
        assert p > 0
        if p < 0.5 * (1 - 1e-9):
            assert needed == pytest.approx(n, rel=1e-6)
        else:
            assert p == pytest.approx(0.5)
            assert needed >= n * (1 - 1e-9)


def test_other_notions_have_no_such_bound() -> None:
    for budget in (ZCDP(0.1), ApproxDP(1.0, 1e-6), NonPrivate()):
        assert math.isnan(packing_lower_bound(1000, 50, budget))
