"""The bound of two coins against linear programs, the majority, and the bounds it joins."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.stats import binom, multinomial, norm

from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds.bernoulli import (
    _private_chains,
    bernoulli_chain_error,
    bernoulli_chain_lower_bound,
    rare_bernoulli_chain_lower_bound,
)
from dpbench.theory.bounds.numbers import (
    BETA,
    _sampling_chains,
    bernoulli_lower_bound,
    bernoulli_sampling_lower_bound,
)


@pytest.mark.parametrize("n", [7, 30])
@pytest.mark.parametrize("h", [0.05, 0.2])
@pytest.mark.parametrize("budget", [PureDP(0.1), PureDP(1.0), ApproxDP(0.3, 0.05)])
def test_no_private_test_of_counts_is_better_and_the_best_is_near(
    budget: PureDP | ApproxDP, h: float, n: int
) -> None:
    """The best chances to say "leans to heads" at every number of heads, by linear programming."""
    grown, delta = math.exp(budget.epsilon), getattr(budget, "delta", 0.0)
    steps = np.vstack([np.eye(n + 1)[1:] - grown * np.eye(n + 1)[:-1]])
    steps = np.vstack([steps, np.eye(n + 1)[:-1] - grown * np.eye(n + 1)[1:]])
    limits = np.concatenate([np.full(2 * n, delta), np.full(2 * n, delta + grown - 1)])
    up, down = (binom.pmf(np.arange(n + 1), n, 0.5 + sign * h) for sign in (1, -1))
    found = linprog((down - up) / 2, A_ub=np.vstack([steps, -steps]), b_ub=limits, bounds=(0, 1))
    best = 0.5 + float(found.fun or 0.0)
    assert best * 0.999 <= bernoulli_chain_error(h, n, budget) * 1.001 <= best * 1.002


def _best(laws: Floats, neighbours: Sequence[tuple[int, int]], budget: PureDP) -> float:
    """The least mean probability of saying a wrong law, of all epsilon-DP answers to a dataset.

    `laws` has a row of probabilities for each; of `neighbours`, pairs of datasets, as rows.
    """
    count, datasets = laws.shape
    one = np.eye(datasets)
    ratio = np.array([one[i] - math.exp(budget.epsilon) * one[j] for i, j in neighbours])
    limits = np.kron(np.eye(count), ratio)
    found = linprog(
        -laws.ravel() / count, A_ub=limits, b_ub=np.zeros(len(limits)), bounds=(0, 1),
        A_eq=np.kron(np.ones((1, count)), one), b_eq=np.ones(datasets),
    )  # fmt: skip
    return 1 + float(found.fun or 0)


@pytest.mark.parametrize(("h", "q"), [(0.4999999, 0.3), (0.3, 0.6), (0.2, 1.0)])
def test_no_private_test_of_rare_coins_is_better(h: float, q: float) -> None:
    n, budget = 8, PureDP(0.7)
    counts = [(up, down) for up in range(n + 1) for down in range(n + 1 - up)]
    zero = [n - up - down for up, down in counts]
    at = np.column_stack([zero, counts])
    near = [
        (i, j) for i, one in enumerate(at) for j, two in enumerate(at) if abs(one - two).sum() == 2
    ]
    laws = [multinomial.pmf(at, n, [1 - q, q * (0.5 + s * h), q * (0.5 - s * h)]) for s in (1, -1)]
    best = _best(np.array(laws), near, budget)
    assert (
        bernoulli_chain_error(h, n, budget, q)
        <= best * (1 + 1e-9)
        <= 1.02 * bernoulli_chain_error(h, n, budget, q)
    )


@pytest.mark.parametrize("budget", [PureDP(0.5), PureDP(2.0)])
def test_no_private_answer_tells_the_laws_of_a_chain(budget: PureDP) -> None:
    n = 150
    near = [(k, k + s) for k in range(n + 1) for s in (1, -1) if 0 <= k + s <= n]
    chains = _private_chains(n, budget, 1.0, BETA)
    assert [laws for laws, _ in chains] == [2, 4]
    for laws, h in chains:
        heads = 0.5 + h * np.arange(1 - laws, laws, 2)
        best = _best(np.array([binom.pmf(np.arange(n + 1), n, p) for p in heads]), near, budget)
        assert BETA <= best * (1 + 1e-6) <= BETA * (1.01 if laws == 2 else 1.35)


@pytest.mark.parametrize(("n", "q"), [(10**4, 1.0), (10**6, 1e-5)])
def test_its_chains_have_unit_moments(n: int, q: float) -> None:
    budget, k, errors = PureDP(1.0), 6, []
    for laws, h in _private_chains(n, budget, q, BETA):
        lean = h * np.arange(1 - laws, laws, 2)
        weights = np.array([0 * lean + 1 - q, q * (0.5 + lean), q * (0.5 - lean)])
        points = np.array([0, 1, -1])[:, None]
        means = points.T @ weights
        moments = (weights * np.abs(points - means) ** k).sum(axis=0)
        errors.append(np.diff(means[0])[0] / 2 * moments.max() ** (-1 / k))
    assert rare_bernoulli_chain_lower_bound(n, k, budget, q) == pytest.approx(
        max(errors), rel=1e-12
    )


@pytest.mark.parametrize("budget", [GDP(0.3), ZCDP(0.045)])
def test_a_test_with_gaussian_noise_is_no_better(budget: Budget) -> None:
    n, h = 60, 0.1
    heads = np.arange(n + 1)
    wrong = binom.pmf(heads, n, 0.5 + h) @ norm.cdf((n / 2 - heads) * 0.3)
    assert 0.84 * wrong <= bernoulli_chain_error(h, n, budget) <= wrong + 1e-12


def test_it_joins_the_bounds_of_privacy_and_of_sampling() -> None:
    for n in (50, 51, 10**4):
        ((_, pair), *_), ((_, fair), *_) = (
            _private_chains(n, PureDP(100.0), 1.0, BETA),
            _sampling_chains(n, BETA),
        )
        assert pair == pytest.approx(fair, rel=1e-6)
    both = bernoulli_chain_lower_bound(10**5, PureDP(0.01))
    privacy, sampling = (
        bernoulli_lower_bound(10**5, PureDP(0.01)),
        bernoulli_sampling_lower_bound(10**5),
    )
    assert 1.25 * max(privacy, sampling) < both < privacy + sampling
    assert bernoulli_chain_lower_bound(10, PureDP(0.01)) == pytest.approx(0.5)
    assert math.isnan(bernoulli_chain_lower_bound(10**7, PureDP(0.01)))
    assert math.isnan(bernoulli_chain_lower_bound(10, NonPrivate()))
