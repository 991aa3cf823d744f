"""Bounds in many dimensions against linear programs, quadrature and what mechanisms reach."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import chdtri, gammaincinv, rel_entr, xlogy
from scipy.stats import binom, norm

from dpbench.arrays import Floats
from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds.numbers import BETA, two_point_lower_bound
from dpbench.theory.bounds.vectors import (
    ANGLES,
    VectorBound,
    _answer_shares,
    _larger_bound,
    _largest_hidden_distance,
    _needed_records,
    _power,
    gaussian_lower_bound,
    moments_lower_bound,
)


def best_named(laws: Floats, near: Floats, n: int, epsilon: float, delta: float) -> float:
    """How often an (epsilon, delta)-DP answer is near to what n records of any law are about.

    `laws` (laws, letters) are what a record is; `near` (laws, answers) which answers are near. By
    linear programming: a dataset is its sorted records, and answers are constrained in all sets.
    """
    letters, answers = laws.shape[1], near.shape[1]
    datasets = list(itertools.combinations_with_replacement(range(letters), n))
    index = {data: i for i, data in enumerate(datasets)}
    units, rows, right = np.eye(len(datasets) * answers + 1), [], []
    sets = [s for k in range(1, answers) for s in itertools.combinations(range(answers), k)]
    for data, i, letter in itertools.product(datasets, range(n), range(letters)):
        other = tuple(sorted((*data[:i], *data[i + 1 :], letter)))
        for some in sets if other != data else ():
            mine, theirs = ([index[d] * answers + a for a in some] for d in (data, other))
            rows.append(units[mine].sum(axis=0) - math.exp(epsilon) * units[theirs].sum(axis=0))
            right.append(delta)
    orders = [
        math.factorial(n) / math.prod(math.factorial(data.count(x)) for x in set(data))
        for data in datasets
    ]
    for law, answered in zip(laws, near, strict=True):
        chances = [
            many * math.prod(law[list(data)]) for many, data in zip(orders, datasets, strict=True)
        ]
        rows.append(units[-1] - np.append(np.kron(chances, answered), 0))
        right.append(0.0)
    one = np.hstack(
        [np.kron(np.eye(len(datasets)), np.ones(answers)), np.zeros((len(datasets), 1))]
    )
    found = linprog(
        -units[-1], A_ub=np.array(rows), b_ub=right, A_eq=one, b_eq=np.ones(len(datasets)),
        bounds=(0, 1), method="highs",
    )  # fmt: skip
    assert found.fun is not None
    return -float(found.fun)


@pytest.mark.parametrize("delta", [0.0, 0.05])
@pytest.mark.parametrize("one_dataset", [True, False])
@pytest.mark.parametrize(
    ("many", "width", "n", "epsilon"), [(2, 1, 3, 0.4), (4, 1, 2, 1.5), (5, 2, 2, 0.9)]
)
def test_what_no_private_answer_is_near_to(
    many: int, width: int, n: int, epsilon: float, delta: float, one_dataset: bool
) -> None:
    """Directions on a circle, answers near to `width` of them: c = width/many.

    Records of law j are j with probability t, else nothing, as all of Q are; or else any direction,
    as those of Q are with probability t, so that they are less far apart.
    """
    budget = ApproxDP(epsilon, delta) if delta else PureDP(epsilon)
    near = np.array([[(a - j) % many < width for a in range(many)] for j in range(many)]) * 1.0
    told = 0
    for beta in (0.1, 0.25, 0.4):
        share = math.log(width / many)
        t = min(_largest_hidden_distance(n, budget, share, beta, one_dataset), 1 - 1e-9)
        told += 0 < t < 0.9
        if one_dataset:
            laws = np.hstack([np.full((many, 1), 1 - t), t * np.eye(many)])
        else:  # of the distance t: from any direction with probability 1 - (1-p)/many
            p = min(t * many / (many - 1), 1.0)
            laws = (1 - p) / many + p * np.eye(many)
        assert best_named(laws, near, n, epsilon, delta) <= 1 - beta + 1e-7
    assert told


@pytest.mark.parametrize(
    "budget",
    [PureDP(0.3), PureDP(2.0), ApproxDP(0.3, 0.01), ApproxDP(1.0, 1e-6), GDP(0.4)],
    ids=str,
)
def test_the_power_of_s_steps(budget: Budget) -> None:
    """One step after the other; and where that is 1 - beta, nearly."""
    for share in (1e-9, 0.03, 0.2, 0.4):
        naive = [share]
        for _ in range(80):
            a = naive[-1]
            if isinstance(budget, GDP):
                naive.append(norm.cdf(norm.ppf(a) + budget.mu) if a < 1 - 1e-9 else a)
            else:
                epsilon, delta = (
                    budget.named_amounts["epsilon"],
                    budget.named_amounts.get("delta", 0),
                )
                other = 1 - math.exp(-epsilon) * (1 - delta - a)
                naive.append(min(math.exp(epsilon) * a + delta, other, 1.0))
        found = _power(np.linspace(0, 80, 81), math.log(share), budget)
        np.testing.assert_allclose(found, naive, rtol=1e-7, atol=2e-9)
        s = float(_needed_records(budget, np.array(math.log(share)), 0.1))
        ends = np.array([math.floor(s), math.ceil(s)], dtype=np.float64)
        below, above = _power(ends, math.log(share), budget)
        assert below - 0.02 <= 0.9 <= above + 0.02  # it is not quite exact, and but a choice


def test_which_t_is_the_largest() -> None:
    """E g^S(c) = 1 - beta, or P(S > s) + g^s(c) for the best s, by other sums."""
    n, share, s = 60, math.log(1e-4), np.linspace(0, 60, 61)
    for budget in (PureDP(0.7), ApproxDP(0.7, 1e-3), GDP(0.5)):
        power = _power(s, share, budget)
        t = _largest_hidden_distance(n, budget, share, 0.1, True)
        assert binom.pmf(s, n, t) @ power == pytest.approx(0.9, abs=1e-9)
        less = _largest_hidden_distance(n, budget, share, 0.1, False)
        assert min(binom.sf(s, n, less) + power) == pytest.approx(0.9, abs=1e-9)
        assert 0.5 * t < less < t
    assert _largest_hidden_distance(7, GDP(0.1), share, 0.1, True) == 1


@pytest.mark.parametrize("t", [0.05, 0.4])
def test_the_divergence_under_zcdp(t: float) -> None:
    """By quadrature: n records are 1 w.p. t, else 0, or all 0; their sum with Gaussian noise."""
    n, sd = 4, 3.0
    rho = 1 / (2 * sd**2)
    x = np.linspace(-40, 40, 20_001)
    p = binom.pmf(np.arange(n + 1), n, t) @ norm.pdf(x, np.arange(n + 1)[:, None], sd)
    divergence = np.trapezoid(xlogy(p, p / norm.pdf(x, 0, sd)), x)
    limit = rho * (n * t * (1 - t) + n**2 * t**2)
    assert 0.5 * limit * t < divergence <= limit
    # `_largest_hidden_distance` spends this divergence: at its t, that of events of those chances.
    for share in (1 / 64, 1e-9):
        hidden = _largest_hidden_distance(500, ZCDP(1e-3), math.log(share), 0.1, True)
        needed = rel_entr([0.9, 0.1], [share, 1 - share]).sum()
        spent = 1e-3 * (500 * hidden * (1 - hidden) + 500**2 * hidden**2)
        assert spent == pytest.approx(needed, rel=1e-9)


@pytest.mark.parametrize("d", [2, 3, 10, 200, 5000])
def test_the_share_of_a_cap(d: int) -> None:
    """By quadrature over the angle; the limit that stands in where that is tiny is above it."""
    log_share, radius = _answer_shares(d)
    assert (log_share[-1], radius[-1]) == (-math.log(2 * d), math.sqrt(0.5))
    np.testing.assert_allclose(radius[:-1], np.sin(ANGLES))

    def weight(angle: Floats, peak: float) -> Floats:
        return np.asarray(np.exp((d - 2) * (np.log(np.sin(angle)) - math.log(math.sin(peak)))))

    to_one = np.flip(1 - np.linspace(0, 1 - 1e-9, 20_001) ** 3)
    whole = 2 * np.trapezoid(weight(to_one * math.pi / 2, math.pi / 2), to_one * math.pi / 2)
    for i in (10, 50, 80, 98):
        angle = ANGLES[i]
        part = np.trapezoid(weight(to_one * angle, angle), to_one * angle)
        exact = math.log(part / whole) + (d - 2) * math.log(math.sin(angle))
        assert exact - 1e-6 <= log_share[i] <= exact + (1e-6 if exact > -600 else 0.05)
    # No ball of that radius cuts more from the sphere, wherever it is: angles from its axis below
    # arccos((1 + z^2 - r^2)/(2z)), for a centre at distance z.
    for angle in ANGLES[5::30]:
        z = np.linspace(1 - math.sin(angle), 1 + math.sin(angle), 1001)
        cut = np.arccos(np.clip((1 + z**2 - math.sin(angle) ** 2) / (2 * z), -1, 1))
        assert cut.max() == pytest.approx(angle, abs=1e-5)


@pytest.mark.parametrize("k", [2, 3.5])
def test_the_laws_are_in_the_class(k: float) -> None:
    budget, d, n = PureDP(0.5), 300, 2000
    found, gaussian = [], []
    for log_share, radius in zip(*(some[::5] for some in _answer_shares(d)), strict=True):
        t = _largest_hidden_distance(n, budget, float(log_share), 0.1, True)
        law = TwoPoint(p=min(t, 0.5), k=k)
        assert law.moment(k) == pytest.approx(1)  # along u; less elsewhere
        found.append(law.p * law.tau * radius)
        t = _largest_hidden_distance(n, budget, float(log_share), 0.1, False)
        far = 2 * norm.ppf((1 + t) / 2)  # of N(R u, I) from N(0, I)
        gaussian.append(min(far, 1) * radius)
    bound = moments_lower_bound(n, d, k, budget)
    assert bound.by == "packing"
    assert max(found) * 0.99 <= bound.alpha <= max(found) * 1.01
    bound = gaussian_lower_bound(n, d, budget)
    assert bound.by == "packing"
    assert max(gaussian) * 0.99 <= bound.alpha <= max(gaussian) * 1.01


BUDGETS: list[Budget] = [PureDP(0.1), PureDP(2.0), ZCDP(0.01), ApproxDP(0.5, 1e-6)]


def ball_lower_bound(n: int, d: int, budget: Budget) -> VectorBound:
    """Bound the error on laws on the unit ball: P_u = u with probability t, else 0, so R(t) = t."""
    return _larger_bound(n, d, budget, BETA, np.asarray, np.asarray, one_dataset=True)


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
@pytest.mark.parametrize("d", [1, 2, 30, 2000])
def test_no_bound_is_above_what_mechanisms_reach(budget: Budget, d: int) -> None:
    """The 0.9 quantile of noise in l2 or Gaussian noise, of records in the unit ball, one law."""
    n = 10**7
    quantile: float = 2 / n * math.sqrt(chdtri(d, 0.1)) * (budget._sd(1e9, 1.0) or 0)  # not Laplace
    if isinstance(budget, PureDP):
        quantile = 2 / (n * budget.epsilon) * float(gammaincinv(d, 0.9))
    sampled = math.sqrt(10 / n)  # Chebyshev: E|mean - mu|^2 <= 1/n
    bound = ball_lower_bound(n, d, budget)
    assert 0 < bound.alpha <= quantile + sampled
    if isinstance(budget, PureDP | ZCDP):
        assert bound.alpha >= quantile / 14
    pair = two_point_lower_bound(n, 2, budget)
    assert bound.alpha >= pair.p_star
    assert moments_lower_bound(n, d, 2, budget).alpha >= pair.alpha * (1 - 1e-12)


def test_where_nothing_can_be_told() -> None:
    few: dict[str, Any] = {"n": 3, "d": 10, "budget": PureDP(0.01)}
    assert moments_lower_bound(k=3, **few) == (1.0, "two-point")
    assert gaussian_lower_bound(**few) == (1.0, "two-point")
    assert ball_lower_bound(**few) == (1.0, "two-point")
    unknown = ball_lower_bound(100, 5, NonPrivate())
    assert math.isnan(unknown.alpha)
    assert unknown.by == ""
