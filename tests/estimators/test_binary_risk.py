"""The minimax risk of a binary mean against linear programs over all private mechanisms."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.sparse import csr_array
from scipy.special import ndtr, ndtri
from scipy.stats import binom

from dpbench.estimators.binary_risk import GAP, LARGEST_N, binary_minimax, minimax_for_noise
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, PureDP
from dpbench.privacy.canonical import trade_off_noise
from dpbench.privacy.conversions import pure_of_rho
from dpbench.theory.bounds.bernoulli import binary_risk_lower_bound
from dpbench.theory.exact.binary import tulap_or_gaussian
from tests.support import Floats, hockey_stick

ORACLES = [  # bounds on the minimax risk, computed by two independent programs
    (20, 1.0, 0.011310, 0.011323), (1000, 0.03, 0.002278, 0.002281),
]  # fmt: skip


SWEPT: list[tuple[int, Budget, float]] = [  # roots of minimax risks in binary_mean.yaml
    (20, PureDP(1.0), 0.10638), (1000, PureDP(0.01), 0.12275), (1000, PureDP(0.1), 0.020565),
    (20, ApproxDP(1.0, 0.1), 0.09828), (1000, ApproxDP(0.01, 1e-3), 0.076885),
    (20, GDP(1.0), 0.10007), (1000, GDP(0.03), 0.035726),
]  # fmt: skip


def test_the_page_has_these_roots_beside_those_of_noisy_counts() -> None:
    """A count with canonical noise errs most at p = 1/2."""
    page = (Path(__file__).parents[2] / "docs" / "bounds.md").read_text("utf-8")
    _, _, *lines = page.partition("| n | budget | smallest")[2].partition("\n\n")[0].splitlines()
    shown = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    budgets: list[Budget] = [PureDP(1.0), ApproxDP(1.0, 0.1), GDP(1.0), PureDP(0.01)]
    budgets += [ApproxDP(0.01, 1e-6), ApproxDP(0.01, 1e-3), GDP(0.01)]
    for (size, *_, root, count), budget in zip(shown, budgets, strict=True):
        n, rule = int(size), binary_minimax(int(size), budget)
        assert math.sqrt(rule.lower) - 5e-5 <= float(root) <= math.sqrt(rule.upper) + 5e-5
        risk = 0.25 / n + tulap_or_gaussian(budget).variance / n**2
        assert count == f"{math.sqrt(risk):.4f}"


def best_mechanism(n: int, budget: Budget, p: list[float], weights: list[float] | None) -> float:
    """Return the least squared risk at these p, weighted or worst, of all private mechanisms.

    A linear program chooses the probability q_s(o) of every release o for each number s of ones.
    Releases are on a grid with values of the rule. (epsilon, delta)-DP says that the sum over o of
    max(0, q_s(o) - e^epsilon q_t(o)) is at most delta for neighbours s and t. The program has a
    variable above each of these maxima. GDP is (epsilon, delta)-DP for many pairs, and the program
    takes a few of them. So its optimum may be too small, but not too large.
    """
    pairs = [(1.0, 0.0)]
    if isinstance(budget, GDP):
        pairs = [(e, hockey_stick(1 / budget.mu, e)) for e in np.linspace(0, 2, 11)]
    elif isinstance(budget, PureDP | ApproxDP):
        pairs = [(budget.epsilon, getattr(budget, "delta", 0.0))]
    rule = binary_minimax(n, budget).rule
    grid = np.union1d(np.linspace(0, 1, 31), rule if len(rule) < 40 else rule[::30])
    cost = np.array([
        np.outer(binom.pmf(np.arange(n + 1), n, mean), (grid - mean) ** 2).ravel() for mean in p
    ])  # fmt: skip
    size = (n + 1) * len(grid)
    private, limits = privacy_constraints(n, len(grid), pairs)
    pad = [(0, 0), (0, private.shape[1] - size)]
    totals = np.pad(np.kron(np.eye(n + 1), np.ones(len(grid))), pad)
    if weights is None:  # the last variable is above every risk
        risks = np.pad(cost, pad)
        risks[:, -1] = -1
        private, limits = np.vstack([private, risks]), np.append(limits, np.zeros(len(p)))
        goal = np.eye(private.shape[1])[-1]
    else:
        goal = np.pad(np.array(weights) @ cost, pad[1])
    solved = linprog(  # type: ignore[call-overload]  # sparse matrices are allowed
        goal, A_ub=csr_array(private), b_ub=limits, A_eq=csr_array(totals), b_eq=np.ones(n + 1),
        bounds=(0, None), method="highs",
    )  # fmt: skip
    return float(solved.fun)


def privacy_constraints(
    n: int, releases: int, pairs: list[tuple[float, float]]
) -> tuple[Floats, Floats]:
    """Return A and b such that A x <= b states (epsilon, delta)-DP for every pair.

    The first variables are q_s(o), by s and then o. A block of maxima follows for each pair, and
    one variable without constraints.
    """
    steps, every = np.eye(n + 1), np.eye(releases)
    size, moves = (n + 1) * releases, 2 * n * releases
    rows, limits = [], []
    for k, (epsilon, delta) in enumerate(pairs):
        up = steps[:-1] - math.exp(epsilon) * steps[1:]
        down = steps[1:] - math.exp(epsilon) * steps[:-1]
        block = slice(size + k * moves, size + (k + 1) * moves)
        above = np.zeros((moves, size + len(pairs) * moves + 1))
        above[:, :size], above[:, block] = np.kron(np.vstack([up, down]), every), -np.eye(moves)
        sums = np.zeros((2 * n, above.shape[1]))
        sums[:, block] = np.kron(np.eye(2 * n), np.ones(releases))
        rows += [above, sums]
        limits += [np.zeros(moves), np.full(2 * n, delta)]
    return np.vstack(rows), np.concatenate(limits)


EXACT = [
    (1, PureDP(0.5)), (5, PureDP(1.5)), (4, ApproxDP(0.3, 0.02)), (5, ApproxDP(1.0, 0.1)),
    (3, ApproxDP(0.1, 0.4)),
]  # fmt: skip


@pytest.mark.parametrize(("n", "budget"), EXACT)
def test_no_mechanism_has_a_smaller_average_risk(n: int, budget: Budget) -> None:
    """Under the prior of the rule, canonical noise has the least Bayes risk (theorem)."""
    minimax = binary_minimax(n, budget)
    best = best_mechanism(n, budget, list(minimax.points), list(minimax.weights))
    assert best == pytest.approx(minimax.lower, rel=1e-6)


def test_no_gaussian_mechanism_has_a_much_smaller_average_risk() -> None:
    """The program asks for less than GDP and has coarse releases; both matter little."""
    minimax = binary_minimax(4, GDP(0.8))
    best = best_mechanism(4, GDP(0.8), list(minimax.points), list(minimax.weights))
    assert best == pytest.approx(minimax.lower, rel=0.004)


@pytest.mark.parametrize(("n", "budget"), [(4, PureDP(0.5)), (5, ApproxDP(0.5, 0.05))])
def test_no_mechanism_has_a_smaller_worst_risk(n: int, budget: Budget) -> None:
    minimax = binary_minimax(n, budget)
    best = best_mechanism(n, budget, list(minimax.points), None)
    assert minimax.lower * (1 - 1e-6) <= best <= minimax.upper


@pytest.mark.parametrize("mu", [0.3, 1.5])
def test_all_canonical_noises_have_one_minimax_risk(mu: float) -> None:
    """Gaussian noise and the noise of the general construction are canonical for GDP."""
    gaussian = binary_minimax(15, GDP(mu))
    other = minimax_for_noise(15, trade_off_noise(lambda a: ndtr(ndtri(1 - a) - mu)))
    assert gaussian.lower <= other.upper
    assert other.lower <= gaussian.upper
    assert gaussian.upper <= 1.003 * gaussian.lower
    assert other.upper <= 1.003 * other.lower


@pytest.mark.parametrize(("n", "rho"), [(5, 0.02), (20, 0.5), (60, 0.005)])
def test_the_bound_for_concentrated_dp(n: int, rho: float) -> None:
    """It is below the risks of Gaussian and of geometric noise, and not by much."""
    bound = binary_risk_lower_bound(n, ZCDP(rho))
    upper = min(binary_minimax(n, budget).upper for budget in (ZCDP(rho), PureDP(pure_of_rho(rho))))
    assert bound <= upper <= 1.5 * bound
    assert binary_risk_lower_bound(n, GDP(1.0)) == binary_minimax(n, GDP(1.0)).lower


@pytest.mark.parametrize(("n", "epsilon", "low", "high"), ORACLES)
def test_oracles(n: int, epsilon: float, low: float, high: float) -> None:
    minimax = binary_minimax(n, PureDP(epsilon))
    assert low <= minimax.lower < minimax.upper <= high


@pytest.mark.parametrize("n", [1, 2, 20, 400])
def test_without_privacy_it_is_the_textbooks(n: int) -> None:
    """The risk is 1/(4 (1 + sqrt(n))^2) (Hodges and Lehmann 1950); without information, 1/4."""
    minimax = binary_minimax(n, PureDP(50.0))
    assert minimax.lower <= 1 / (4 * (1 + math.sqrt(n)) ** 2) <= minimax.upper
    none = binary_minimax(n, PureDP(1e-9))
    assert none.lower <= 0.25 <= none.upper * (1 + 1e-9)


@pytest.mark.parametrize(
    ("n", "budget"),
    [
        (1, PureDP(3.0)), (3, PureDP(0.01)), (150, PureDP(0.1)), (20, ApproxDP(0.5, 0.01)),
        (20, GDP(0.7)), (3, ZCDP(2.0)),
    ],
)  # fmt: skip
def test_the_upper_bound_is_above_every_risk(n: int, budget: Budget) -> None:
    """Compare with the sum over S and the cells, at p that are not on the grid of the code."""
    minimax, noise = binary_minimax(n, budget), tulap_or_gaussian(budget)
    assert minimax.upper <= minimax.lower * (1 + 3 * GAP)
    s = np.arange(n + 1)[:, None]
    below = np.pad(noise.cdf(minimax.edges - s), [(0, 0), (1, 1)], constant_values=(0.0, 1.0))
    for p in np.append(np.linspace(0, 1, 399), 0.5):
        risk = binom.pmf(s[:, 0], n, p) @ (np.diff(below) @ (minimax.rule - p) ** 2)
        assert risk <= minimax.upper
    np.testing.assert_allclose(minimax.rule + minimax.rule[::-1], 1, atol=1e-9)
    assert np.all(np.diff(minimax.rule) >= -1e-9)


def test_what_the_sweep_compares_with() -> None:
    """The sweep claims the root of the minimax risk, which the risk at 1/2 nearly attains."""
    for n, budget, exact in SWEPT:
        minimax = binary_minimax(n, budget)
        middle = (minimax.lower + minimax.upper) / 2
        assert math.sqrt(middle) == pytest.approx(exact, rel=1e-4)
        assert minimax.upper < 1.003 * minimax.lower


def test_too_many_records_are_refused() -> None:
    with pytest.raises(ValueError, match="up to 1000 records, got 1001"):
        binary_minimax(LARGEST_N + 1, PureDP(1.0))


def test_geometric_noise_is_rounded_tulap_noise() -> None:
    """Pure DP has formulas of its own, which lose no digits."""
    one = binary_minimax(30, PureDP(0.3))
    other = minimax_for_noise(30, PureDP(0.3).canonical_noise)
    np.testing.assert_allclose(one.rule, other.rule, atol=1e-14)
    np.testing.assert_array_equal(one.edges, other.edges)
