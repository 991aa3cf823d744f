"""Lower bounds against linear programs over all private tests, and against sums."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import brentq, linprog
from scipy.stats import binom, norm

from dpbench.distributions import TwoPoint
from dpbench.privacy import ZCDP, ApproxDP, NonPrivate, PureDP
from dpbench.theory.lower_bounds import (
    NORMAL_FROM,
    _expected_miss,
    _miss,
    sampling_lower_bound,
    two_point_lower_bound,
)

Data = tuple[int, ...]


def _best_power(
    null: dict[Data, float], alternative: dict[Data, float], epsilon: float, delta: float,
    beta: float,
) -> float:  # fmt: skip
    """The largest power of an (epsilon, delta)-DP test of size beta, by linear programming.

    A dataset is its sorted records; by symmetry a test may depend on that alone.
    """
    datasets = list(itertools.combinations_with_replacement((-1, 0, 1), len(next(iter(null)))))
    index = {d: i for i, d in enumerate(datasets)}
    rows, right = [np.array([null.get(d, 0.0) for d in datasets])], [beta]
    for d, position, value in itertools.product(datasets, range(len(datasets[0])), (-1, 0, 1)):
        other = tuple(sorted((*d[:position], *d[position + 1 :], value)))
        if other == d:
            continue
        grows, falls = np.zeros(len(datasets)), np.zeros(len(datasets))
        grows[index[d]], grows[index[other]] = 1, -math.exp(epsilon)
        falls[index[d]], falls[index[other]] = math.exp(epsilon), -1
        rows += [grows, falls]  # phi(d) and 1 - phi(d) against a neighbour's
        right += [delta, math.exp(epsilon) - 1 + delta]
    goal = -np.array([alternative.get(d, 0.0) for d in datasets])
    found = linprog(goal, A_ub=np.array(rows), b_ub=right, bounds=(0, 1), method="highs")
    assert found.fun is not None
    return -float(found.fun)


def _law(n: int, p: float, rare: int) -> dict[Data, float]:
    """Probability of each sorted dataset of n records that are `rare` w.p. p, else 0."""
    return {
        tuple(sorted([0] * (n - s) + [rare] * s)): math.comb(n, s) * p**s * (1 - p) ** (n - s)
        for s in range(n + 1)
    }


@pytest.mark.parametrize(
    ("n", "p", "epsilon", "delta"),
    [(1, 0.5, 0.3, 0.0), (2, 0.8, 0.5, 0.01), (3, 0.2, 1.0, 0.05), (3, 0.6, 2.0, 0.0),
     (4, 0.5, 0.2, 0.1), (4, 0.3, 1.0, 0.0)],
)  # fmt: skip
def test_two_signs_is_the_best_of_all_private_tests(
    n: int, p: float, epsilon: float, delta: float
) -> None:
    # At the size beta = E x_S the best power is 1 - beta, no more and no less.
    beta = _expected_miss(p, n, epsilon, delta)
    best = _best_power(_law(n, p, -1), _law(n, p, 1), epsilon, delta, beta)
    assert best == pytest.approx(1 - beta, abs=1e-8)


@pytest.mark.parametrize(("n", "epsilon", "beta"), [(1000, 0.5, 0.1), (10**12, 1e-6, 0.01)])
def test_two_signs_in_closed_form(n: int, epsilon: float, beta: float) -> None:
    # E e^(-eps S/2) over even and odd S, by the binomial theorem at +-e^(-eps/2).
    p = two_point_lower_bound(n, 2, PureDP(epsilon), beta=beta).p_star
    plus = math.exp(n * math.log1p(p * math.expm1(-epsilon / 2)))
    minus = (1 - p - p * math.exp(-epsilon / 2)) ** n
    miss = ((plus + minus) / 2 + (plus - minus) / 2 / math.cosh(epsilon / 2)) / 2
    assert miss == pytest.approx(beta, rel=1e-8)


def test_weaker_notions_have_weaker_bounds() -> None:
    def bound(budget: PureDP | ApproxDP | ZCDP) -> float:
        return two_point_lower_bound(10**6, 2, budget).alpha

    pure = bound(PureDP(0.1))
    assert bound(ApproxDP(0.1, 1e-12)) == pytest.approx(pure, rel=1e-6)
    assert pure > bound(ApproxDP(0.1, 1e-3)) > bound(ApproxDP(0.1, 1e-2))
    assert pure > bound(ZCDP(0.1**2 / 2)) > 0


def test_where_there_is_no_bound_and_where_it_ends() -> None:
    assert math.isnan(two_point_lower_bound(100, 2, NonPrivate()).alpha)
    for budget in (PureDP(0.01), ApproxDP(0.01, 1e-6), ZCDP(1e-4)):
        assert two_point_lower_bound(3, 2, budget) == (math.inf, 1.0)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta"), [(1, 0.3, 0.0), (4, 0.5, 0.0), (5, 0.4, 0.0), (4, 0.2, 0.1)]
)
def test_equal_records_are_told_from_others_no_better(n: int, epsilon: float, delta: float) -> None:
    """The end p = 1, where the distance of the means has no limit."""
    beta = float(_miss(n, epsilon, delta))
    best = _best_power(_law(n, 1.0, -1), _law(n, 1.0, 1), epsilon, delta, beta)
    assert best == pytest.approx(1 - beta, abs=1e-8)


@pytest.mark.parametrize(
    ("budget", "impossible"),
    [
        # n = 6: e^(-1.5)/2 = 0.112; n = 7: e^(-1.5)/(1 + e^0.5) = 0.084; 2 ln(5)/0.5 = 6.4
        (PureDP(0.5), 6),
        # n = 320: e^(-1.6)/2 = 0.1009; n = 321: 0.1004; n = 322: 0.09994
        (PureDP(0.01), 321),
        # D = 0.01541: n = 5: (0.3738 + D) e^-1 - D = 0.128; n = 6: (1/2 + D) e^-1.5 - D = 0.0996
        (ApproxDP(0.5, 0.01), 5),
    ],
)
def test_no_error_is_impossible_with_few_records(
    budget: PureDP | ApproxDP, impossible: int
) -> None:
    assert two_point_lower_bound(impossible, 3, budget).alpha == math.inf
    delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
    bounds = [two_point_lower_bound(n, 3, budget) for n in range(impossible + 1, impossible + 9)]
    for n, bound in enumerate(bounds, impossible + 1):
        assert bound.p_star < 1
        counts = np.arange(n + 1)
        miss = binom.pmf(counts, n, bound.p_star) @ _miss(counts, budget.epsilon, delta)
        assert miss == pytest.approx(0.1, rel=1e-8)
        law = TwoPoint(p=bound.p_star, k=3)
        assert bound.alpha == pytest.approx(law.mean)
    assert all(np.diff([bound.alpha for bound in bounds]) < 0)


def test_the_error_of_a_pair_grows_with_the_distance_of_its_laws() -> None:
    """So that the largest p, and the largest h, that no test tells are the best ones."""
    for k in (2, 3, 4.5, 6, 20, 60):
        p = np.arange(1, 1000) / 1000
        tau = np.array([TwoPoint(p=x, k=k).tau for x in p])
        assert all(np.diff(p * tau) > 0)
        assert all(np.diff(((p - 0.5) * tau)[p > 0.5]) > 0)


@pytest.mark.parametrize("n", [1, 2, 3, 10, 101, 5000])
@pytest.mark.parametrize("k", [2, 6])
def test_sampling_by_the_total_variation_of_binomial_laws(n: int, k: float) -> None:
    def excess(h: float) -> float:
        s = np.arange(n + 1)
        apart = np.abs(binom.pmf(s, n, 0.5 + h) - binom.pmf(s, n, 0.5 - h)).sum() / 2
        return float((1 - apart) / 2 - 0.1)

    h = brentq(excess, 1e-6, 0.499, xtol=1e-14)
    up, down = 0.5 + h, 0.5 - h
    moment = up * down * (down ** (k - 1) + up ** (k - 1))  # E|X - mean|^k of a Bernoulli
    assert sampling_lower_bound(n, k) == pytest.approx(h * moment ** (-1 / k), rel=1e-9)


def test_sampling_is_normal_in_the_end() -> None:
    z = norm.ppf(0.9)
    for n in (NORMAL_FROM - 1, NORMAL_FROM, 10**12, 10**15):
        assert sampling_lower_bound(n, 3) == pytest.approx(z / math.sqrt(n), rel=5e-8)
        assert sampling_lower_bound(n, 3, beta=0.01) == pytest.approx(
            norm.ppf(0.99) / math.sqrt(n), rel=5e-8
        )


def test_its_exponent_in_n_is_that_of_the_theorem() -> None:
    """KSU20, Theorem 3.8: n ~ 1/(epsilon alpha^(k/(k-1)))."""
    for k in (2.0, 3.0, 6.0):
        alpha = [two_point_lower_bound(n, k, PureDP(0.01)).alpha for n in (10**8, 10**11)]
        assert -np.log(1000) / np.log(alpha[1] / alpha[0]) == pytest.approx(k / (k - 1), abs=1e-4)
