"""Lower bounds against linear programs over all private tests, and against sums."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import linprog, minimize
from scipy.stats import binom, norm

from dpbench.arrays import Floats
from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds import numbers as lower_bounds
from dpbench.theory.bounds.numbers import (
    BETA,
    NORMAL_PAIRS_FROM,
    _sampling_chains,
    _testing_error,
    bernoulli_chain_half_step,
    bernoulli_lower_bound,
    bernoulli_sampling_lower_bound,
    binomial_weights,
    gaussian_lower_bound,
    largest_untestable_tv,
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


def _epsilon_delta(epsilon: float, delta: float) -> Budget:
    return ApproxDP(epsilon, delta) if delta else PureDP(epsilon)


def _expected_miss(p: float, n: int, budget: Budget) -> float:
    s, weights = binomial_weights(p, n)
    return float(weights @ _testing_error(s, budget))


@pytest.mark.parametrize(
    ("n", "p", "epsilon", "delta"),
    [(1, 0.5, 0.3, 0.0), (2, 0.8, 0.5, 0.01), (3, 0.2, 1.0, 0.05), (3, 0.6, 2.0, 0.0),
     (4, 0.5, 0.2, 0.1), (4, 0.3, 1.0, 0.0)],
)  # fmt: skip
def test_two_signs_is_the_best_of_all_private_tests(
    n: int, p: float, epsilon: float, delta: float
) -> None:
    # At the size beta = E x_S the best power is 1 - beta, no more and no less.
    beta = _expected_miss(p, n, _epsilon_delta(epsilon, delta))
    best = _best_power(_law(n, p, -1), _law(n, p, 1), epsilon, delta, beta)
    assert best == pytest.approx(1 - beta, abs=1e-8)


def _divergences(a: Floats, b: Floats) -> Floats:
    """D_q/q of Bernoulli(a) from Bernoulli(b), at the worst of many orders q."""
    q = 1 + np.geomspace(1e-3, 1e3, 400)[:, None]
    with np.errstate(over="ignore"):
        both = [q * np.log(x) + (1 - q) * np.log(y) for x, y in ((a, b), (1 - a, 1 - b))]
    return np.asarray((np.logaddexp(*both) / (q - 1) / q).max(axis=0))


@pytest.mark.parametrize(
    ("n", "p", "budget"),
    [(2, 0.6, ZCDP(0.1)), (3, 0.5, ZCDP(0.02)), (4, 0.4, ZCDP(0.4)), (3, 0.7, GDP(0.3))],
)
def test_two_signs_is_the_best_of_all_concentrated_tests(n: int, p: float, budget: Budget) -> None:
    """As above, by convex programming: no private test of that size has more power, and one has."""
    datasets = list(itertools.combinations_with_replacement((-1, 0, 1), n))
    index = {d: i for i, d in enumerate(datasets)}
    null, power = (np.array([_law(n, p, s).get(d, 0.0) for d in datasets]) for s in (-1, 1))
    pairs = {
        (index[d], index[tuple(sorted((*d[:i], *d[i + 1 :], v)))])
        for d in datasets
        for i in range(n)
        for v in (-1, 0, 1)
    }
    one, other = np.array([pair for pair in pairs if pair[0] != pair[1]]).T
    beta = _expected_miss(p, n, budget)

    def room(phi: Floats) -> Floats:
        a, b = np.clip(phi[one], 1e-9, 1 - 1e-9), np.clip(phi[other], 1e-9, 1 - 1e-9)
        if isinstance(budget, GDP):
            return np.asarray(norm.ppf(a) + budget.mu - norm.ppf(b))
        assert isinstance(budget, ZCDP)
        return np.asarray(budget.rho - _divergences(a, b))

    limits: Any = [
        {"type": "ineq", "fun": lambda phi: beta - null @ phi, "jac": lambda _: -null},
        {"type": "ineq", "fun": room},
    ]
    goal: Any = lambda phi: -power @ phi  # noqa: E731
    found = minimize(
        goal,
        np.full(len(datasets), 0.5) + 0.02 * np.array([sum(d) for d in datasets]) / n,
        bounds=[(1e-6, 1 - 1e-6)] * len(datasets),
        constraints=limits,
        method="SLSQP",
        options={"maxiter": 300, "ftol": 1e-12},
    )
    assert -found.fun == pytest.approx(1 - beta, abs=2e-5)


def test_chains_under_zcdp() -> None:
    """Every order holds along a chain, to what the module says; and between two other notions."""
    for rho, room in ((1e-3, 1e-6), (0.5, 5e-4), (2.0, 7e-3)):
        for chain in lower_bounds._zcdp_logits(rho):
            x = 1 / (1 + np.exp(chain[chain < 15]))
            worst = np.maximum(_divergences(x[1:], x[:-1]), _divergences(x[:-1], x[1:]))
            assert all(worst / rho - 1 < room)
            assert all(worst / rho - 1 > -1e-3)  # the orders above are a grid
        s = np.arange(1, 40)
        miss = _testing_error(s, ZCDP(rho))
        # A Gaussian mechanism is a test; the relative entropy of a group is at most s^2 rho.
        assert all(miss <= _testing_error(s, GDP(math.sqrt(2 * rho))) + 1e-16)
        s, miss = s[miss > 0], miss[miss > 0]
        logit = np.log(1 / miss - 1)
        assert all(logit * np.tanh(logit / 2) <= s**2 * rho * (1 + 1e-9))


def test_a_small_rho_in_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    length = 2 * quad(lambda x: math.sqrt(math.tanh(x / 2) / (2 * x)), 0, math.log(9))[0]
    n, rho = 10**13, 1e-10
    assert largest_untestable_tv(n, ZCDP(rho)) * n * math.sqrt(2 * rho) == pytest.approx(
        length, 1e-5
    )
    mu = 1e-5
    assert largest_untestable_tv(n, GDP(mu)) * n * mu == pytest.approx(2 * norm.ppf(0.9), 1e-5)
    s, rough = np.arange(600), _testing_error(np.arange(600), ZCDP(1e-5))
    monkeypatch.setattr(lower_bounds, "MAX_GROUPED_RHO", 1e-9)  # a record at a time
    fine = _testing_error(s, ZCDP(1e-5))
    kept = fine > 1e-3
    assert all(rough[kept] <= fine[kept])
    assert rough[kept] == pytest.approx(fine[kept], rel=2e-5)


@pytest.mark.parametrize("budget", [PureDP(0.7), PureDP(2.0), ApproxDP(0.5, 0.05)])
@pytest.mark.parametrize("n", [2, 4])
def test_any_two_laws_at_a_distance(n: int, budget: PureDP | ApproxDP) -> None:
    """No private test of Bernoulli laws t apart has size beta and power 1 - beta, all t below."""
    beta = 0.3
    t = largest_untestable_tv(n, budget, beta)
    assert 0 < t < 1
    delta = getattr(budget, "delta", 0.0)
    for low in (0.0, (1 - t) / 2):
        laws = [
            {
                tuple([0] * (n - s) + [1] * s): math.comb(n, s) * p**s * (1 - p) ** (n - s)
                for s in range(n + 1)
            }
            for p in (low, low + t)
        ]
        assert _best_power(laws[0], laws[1], budget.epsilon, delta, beta) <= 1 - beta + 1e-9


@pytest.mark.parametrize(("n", "epsilon", "beta"), [(1000, 0.5, 0.1), (10**12, 1e-6, 0.01)])
def test_two_signs_in_closed_form(n: int, epsilon: float, beta: float) -> None:
    # E e^(-eps S/2) over even and odd S, by the binomial theorem at +-e^(-eps/2).
    p = two_point_lower_bound(n, 2, PureDP(epsilon), beta=beta).p_star
    plus = math.exp(n * math.log1p(p * math.expm1(-epsilon / 2)))
    minus = (1 - p - p * math.exp(-epsilon / 2)) ** n
    miss = ((plus + minus) / 2 + (plus - minus) / 2 / math.cosh(epsilon / 2)) / 2
    assert miss == pytest.approx(beta, rel=1e-8)


def test_weaker_notions_have_weaker_bounds() -> None:
    def bound(budget: Budget) -> float:
        return two_point_lower_bound(10**6, 2, budget).alpha

    pure = bound(PureDP(0.1))
    assert bound(ApproxDP(0.1, 1e-12)) == pytest.approx(pure, rel=1e-6)
    assert pure > bound(ApproxDP(0.1, 1e-3)) > bound(ApproxDP(0.1, 1e-2))
    assert pure > bound(GDP(0.1)) > bound(ZCDP(0.1**2 / 2)) > bound(ApproxDP(0.1, 0.1)) > 0


def test_where_there_is_no_bound_and_where_it_ends() -> None:
    assert math.isnan(two_point_lower_bound(100, 2, NonPrivate()).alpha)
    for budget in (PureDP(0.01), ApproxDP(0.01, 1e-6), ZCDP(1e-4), GDP(0.01)):
        assert two_point_lower_bound(3, 2, budget) == (math.inf, 1.0)


@pytest.mark.parametrize(
    ("n", "epsilon", "delta"), [(1, 0.3, 0.0), (4, 0.5, 0.0), (5, 0.4, 0.0), (4, 0.2, 0.1)]
)
def test_equal_records_are_told_from_others_no_better(n: int, epsilon: float, delta: float) -> None:
    """The end p = 1, where the distance of the means has no limit."""
    beta = float(_testing_error(n, _epsilon_delta(epsilon, delta)))
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
    bounds = [two_point_lower_bound(n, 3, budget) for n in range(impossible + 1, impossible + 9)]
    for n, bound in enumerate(bounds, impossible + 1):
        assert bound.p_star < 1
        counts = np.arange(n + 1)
        miss = binom.pmf(counts, n, bound.p_star) @ _testing_error(counts, budget)
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
def test_the_best_guess_of_a_law_of_a_chain(n: int) -> None:
    """Of all estimators: the likeliest law is wrong with probability beta, on average."""
    k, s = 6, np.arange(n + 1)
    chains = _sampling_chains(n, BETA)
    assert [laws for laws, _ in chains] == [2, 4, 8, 16][: len(chains)]
    errors = []
    for laws, h in chains:
        p = 0.5 + h * np.arange(1 - laws, laws, 2)
        best = np.array(binom.pmf(s, n, p[:, None])).max(axis=0).sum() / laws
        assert best == pytest.approx(1 - BETA, rel=1e-6)
        moments = p * (1 - p) * (p ** (k - 1) + (1 - p) ** (k - 1))  # E|X - mean|^k of Bernoullis
        errors.append(h * moments.max() ** (-1 / k))
    assert sampling_lower_bound(n, k) == pytest.approx(max(errors), rel=1e-9)
    assert bernoulli_sampling_lower_bound(n) == max(h for _, h in chains)


def test_sampling_is_normal_in_the_end() -> None:
    """From below: the best errs by the 1 - beta/2 quantile, of the average."""
    for beta in (0.1, 0.01):
        z = norm.ppf(1 - beta / 2)
        shares = [
            sampling_lower_bound(n, 3, beta=beta) * math.sqrt(n) / z
            for n in (10**4, NORMAL_PAIRS_FROM - 1, NORMAL_PAIRS_FROM, 10**12, 10**15)
        ]
        assert 0.96 < shares[0] < shares[1] - 0.01
        assert shares[1] == pytest.approx(shares[2], rel=2e-6)
        assert 0.9995 < shares[3] < shares[4] < 1


def test_laplace_noise_reaches_the_chain() -> None:
    """n equal records or s others: its error has the 0.9 quantile ln(10)/(n epsilon)."""
    n, epsilon = 10**12, 1e-3
    found = bernoulli_lower_bound(n, PureDP(epsilon))
    assert found == pytest.approx(math.log(10) / (n * epsilon), rel=1e-5)
    assert bernoulli_lower_bound(n, GDP(epsilon)) == pytest.approx(
        norm.ppf(0.95) / (n * epsilon), rel=1e-5
    )
    assert gaussian_lower_bound(n, PureDP(epsilon)) == pytest.approx(
        found * math.sqrt(2 * math.pi), rel=1e-5
    )
    assert bernoulli_lower_bound(7, PureDP(0.01)) == 0.5
    # Of steps of 0.45 three laws fit; they need an error of 3/4 beta.
    assert bernoulli_chain_half_step(lambda error: 0.5 - error) == pytest.approx((0.5 - 0.075) / 2)
    assert math.isnan(bernoulli_lower_bound(7, NonPrivate()))


def test_its_exponent_in_n_is_that_of_the_theorem() -> None:
    """KSU20, Theorem 3.8: n ~ 1/(epsilon alpha^(k/(k-1)))."""
    for k in (2.0, 3.0, 6.0):
        alpha = [two_point_lower_bound(n, k, PureDP(0.01)).alpha for n in (10**8, 10**11)]
        assert -np.log(1000) / np.log(alpha[1] / alpha[0]) == pytest.approx(k / (k - 1), abs=1e-4)
