"""Bounds in the local model against linear programs, enumeration, quadrature and mechanisms."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.special import gammaln
from scipy.stats import binom, norm

from dpbench.arrays import Floats
from dpbench.distributions import TwoPoint
from dpbench.estimators.local_votes import graded_votes, three_values
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds.local import (
    _gaussian_error,
    _least_error,
    local_distance,
    local_lower_bound,
)
from dpbench.theory.bounds.record_information import record_information


def the_view(t: float, epsilon: float, delta: float) -> tuple[Floats, Floats]:
    """The laws of the five values of the module, under P and under Q."""
    q, grown = (1 - delta) / (1 + math.exp(epsilon)), 1 + t * math.expm1(epsilon)
    p = np.array([t * delta, q * grown, q, 0, 0])
    p[4] = 1 - p.sum()
    assert p[4] == pytest.approx((1 - t) * (delta + (1 - delta) * math.tanh(epsilon / 2)))
    return p, p[[3, 2, 1, 0, 4]]


@pytest.mark.parametrize("delta", [0.0, 0.1])
@pytest.mark.parametrize(("t", "epsilon"), [(0.02, 0.5), (0.3, 2.0), (1.0, 1.0)])
def test_no_test_of_one_view_is_better_and_some_are_as_good(
    t: float, epsilon: float, delta: float
) -> None:
    """By linear programming over the chances (a, b, c) of a set of views, at every size."""
    p, q = the_view(t, epsilon, delta)
    order = [0, 1, 4, 2, 3]  # the best test takes values by their likelihood ratios
    sizes, powers = (np.cumsum([0, *law[order]]) for law in (q, p))
    pairs = np.array(list(itertools.permutations((1.0, -math.exp(epsilon), 0.0))))
    private = np.vstack([pairs, -pairs])  # of the views, and of the others
    right = np.repeat([delta, delta + math.expm1(epsilon)], 6)
    for size in np.linspace(0, 1, 21):
        found = linprog(
            [-t, 0, -(1 - t)], A_ub=private, b_ub=right, A_eq=[[0, t, 1 - t]], b_eq=[size],
            bounds=(0, 1), method="highs",
        )  # fmt: skip
        assert found.fun is not None
        assert -found.fun == pytest.approx(np.interp(size, sizes, powers), abs=1e-9)


@pytest.mark.parametrize("delta", [0.0, 0.02])
@pytest.mark.parametrize(("t", "epsilon"), [(0.05, 0.4), (0.6, 0.4), (0.5, 2.0), (1.0, 1.0)])
def test_the_least_error_by_enumeration(t: float, epsilon: float, delta: float) -> None:
    """All sequences of values; Jensen's inequality costs little, and never helps."""
    p, q = the_view(t, epsilon, delta)
    for n in (1, 2, 5):
        under_p, under_q = (
            np.prod(list(itertools.product(law, repeat=n)), axis=1) for law in (p, q)
        )
        best = np.minimum(under_p, under_q).sum() / 2
        found = _least_error(t, n, epsilon, delta)
        assert found <= best + 1e-12
        assert found >= 0.75 * best


def test_views_that_follow_each_other_tell_no_more() -> None:
    """Two people; what the second is asked depends on the first's answer."""
    t, epsilon, rng = 0.6, 1.2, np.random.default_rng(0)
    p, q = the_view(t, epsilon, 0.0)
    least = np.minimum(np.outer(p, p), np.outer(q, q)).sum() / 2
    rows = np.array(list(itertools.product((1.0, math.exp(epsilon)), repeat=3)))
    channels = []
    for _ in range(16):  # mixtures of extreme ones: likelihoods of each pattern that add up
        solved = linprog(
            rng.random(len(rows)), A_eq=rows.T, b_eq=np.ones(3), bounds=(0, None), method="highs"
        )
        views = rows * np.asarray(solved.x)[:, None]
        channels.append((views @ [t, 0, 1 - t], views @ [0, t, 1 - t]))
    found = []
    for _ in range(1000):
        (p1, q1), *later = (channels[i] for i in rng.integers(16, size=3))
        chosen = rng.integers(2, size=len(rows))
        pairs = ((p1[i] * later[j][0], q1[i] * later[j][1]) for i, j in enumerate(chosen))
        found.append(sum(np.minimum(x, y).sum() / 2 for x, y in pairs))
    assert least - 1e-12 <= min(found) <= 1.1 * least


@pytest.mark.parametrize("n", [20, 10**6, 10**12])
@pytest.mark.parametrize("epsilon", [0.01, 1.0])
def test_randomised_response_of_the_sign_is_near(n: int, epsilon: float) -> None:
    """It tells laws apart that are this much farther: in the limit sqrt((1 + e^epsilon)/2)."""
    t = local_distance(n, PureDP(epsilon))
    needed = -norm.ppf(0.1) / (math.sqrt(n) * math.tanh(epsilon / 2))  # up to terms of order t^2
    if needed < 0.1:
        assert needed / t == pytest.approx(math.sqrt((1 + math.exp(epsilon)) / 2), rel=0.01)
    else:
        assert t > 0.5 * min(needed, 1)


def test_the_bound_solves_its_equation() -> None:
    for budget in (PureDP(0.3), ApproxDP(0.3, 1e-4)):
        delta = budget.delta if isinstance(budget, ApproxDP) else 0.0
        for n in (500, 10**5, 10**9):
            p = local_distance(n, budget)
            assert _least_error(p, n, 0.3, delta) == pytest.approx(0.1, rel=0.02)
            assert _least_error(p, n, 0.3, delta) >= 0.1
            bound = local_lower_bound(n, 3, budget)
            assert bound.p_star == p
            assert bound.alpha == pytest.approx(TwoPoint(p=p, k=3).mean)
    weaker = [local_distance(10**6, one) for one in (PureDP(0.3), ApproxDP(0.3, 1e-7))]
    assert weaker[1] < weaker[0]


def test_many_people_and_few_that_tell_anything() -> None:
    """n q (1+G) is 4: all counts N of a Poisson law."""
    t, epsilon = 1e-9, 20.0
    n = int(2 * math.exp(epsilon))
    many, wrong = np.arange(60), 1 / (2 + t * math.expm1(epsilon))
    chances = np.exp(many * math.log(4) - 4 - gammaln(many + 1))
    errors = binom.cdf((many - 1) // 2, many, 1 - wrong) + (many % 2 == 0) / 2 * binom.pmf(
        many // 2, many, wrong
    )
    found = _least_error(t, n, epsilon, 0.0)
    assert 0.9 * chances @ errors <= found <= chances @ errors


def test_where_there_is_little_privacy_or_much() -> None:
    assert local_lower_bound(3, 2, PureDP(0.01)) == (math.inf, 1.0)
    for budget in (PureDP(1e6), ZCDP(1e6)):
        assert (1 - local_distance(50, budget)) ** 50 == pytest.approx(0.2)
    assert math.isnan(local_distance(10, NonPrivate()))


@pytest.mark.parametrize("budget", [GDP(1.0), ZCDP(0.5)])
def test_the_affinity_of_a_view_by_its_contrast(budget: Budget) -> None:
    low, high = three_values(budget)
    common, one = np.array([low, 1 - 2 * low, low]), np.array([high, 1 - high - low, low])
    contrast_of = float(np.sum((one - one[::-1]) ** 2 / common))
    for t in (0.001, 0.1, 0.5):
        p = (1 - t) * common + t * one
        lost = 1 - float(np.sum(np.sqrt(p * p[::-1])))
        bound = t**2 * contrast_of / (8 * (1 - t))
        assert lost <= bound
        assert t > 0.001 or lost >= 0.99 * bound


def vote_error(t: float, n: int, budget: Budget, step: float) -> float:
    """The error of the best test from n graded votes, by the Fourier transform of its sum.

    Log-likelihood ratios are rounded to multiples of `step`.
    """
    low, high, _ = graded_votes(budget)
    up = low + t * (high - low)
    places = np.round(np.log(up / low) / step).astype(int)
    size = int(2 ** np.ceil(np.log2(30 / step)))
    law = np.zeros(size)
    np.add.at(law, places, up)
    np.add.at(law, -places, low)
    law[0] += 1 - law.sum()
    law = np.fft.irfft(np.exp(n * np.log(np.fft.rfft(law))), size)
    return float(law[size // 2 :].sum() + law[0] / 2)


@pytest.mark.parametrize("n", [1000, 10**5])
@pytest.mark.parametrize("budget", [GDP(1.0), ZCDP(0.5), PureDP(1.0)], ids=str)
def test_votes_tell_no_two_laws_that_cannot_be_told(budget: Budget, n: int) -> None:
    """They come near under pure DP and GDP; under zCDP Hellinger's distance loses a fifth in t."""
    t = local_distance(n, budget)
    error = vote_error(t, n, budget, 1e-3 if n == 1000 else 2e-4)
    assert (
        0.1
        <= error
        <= (0.13 if n > 1000 or isinstance(budget, PureDP) else 0.18)
        + 0.06 * (isinstance(budget, ZCDP))
    )


def test_the_best_view_under_gdp() -> None:
    """No private test of a view has more power, by a search over three chances of an event."""
    mu, t = 1.0, 0.3
    x = np.linspace(0, 12, 100_001)
    up, down = (
        (1 - t) * norm.pdf(x + mu / 2) + t * norm.pdf(x - mu / 2),
        norm.pdf(x + mu / 2),
    )
    chances = norm.cdf(np.linspace(-4, 4, 81))
    c, b = np.meshgrid(chances, chances)
    a = norm.cdf(norm.ppf(np.minimum(b, c)) + mu)
    near = norm.cdf(abs(norm.ppf(b) - norm.ppf(c)) - mu) <= 0.5  # b and c are private, too
    for factor in (1.0, 1.1, 1.5, 3.0):
        most = np.max(np.where(near, t * a + (1 - t) * c - factor * (t * b + (1 - t) * c), 0))
        best = np.trapezoid(np.maximum(up - factor * down, 0), x)
        assert most <= best + 1e-6
        assert most >= 0.99 * best


def test_the_error_from_views_under_gdp() -> None:
    """Berry and Esseen are right about many votes, and say nothing about few."""
    for n, t in ((10**4, 0.014), (10**5, 0.0046)):
        error = _gaussian_error(t, n, 1.0)
        graded = vote_error(t, n, GDP(1.0), 2e-4)
        assert error <= graded <= error + 0.06
    assert _gaussian_error(0.2, 5, 1.0) < 0
    assert local_distance(10**8, GDP(1.0)) * 1e4 == pytest.approx(
        2 * 1.2816 / math.sqrt(record_information(GDP(1.0))), rel=2e-3
    )


@pytest.mark.parametrize(
    ("mu", "n", "t"),
    [(0.05, 10**6, None), (1.0, 10**4, None), (2.0, 10**6, None), (1.0, 40, 0.1), (0.3, 100, 0.3)],
)
def test_the_error_from_views_by_a_wide_sum(mu: float, n: int, t: float | None) -> None:
    """g of the module, on a grid of votes as wide as they come, at the bound's own t, or another.

    A vote up of strength x has the density phi(x - mu/2) t + phi(x + mu/2) (1 - t) under P, and one
    down the density phi(x + mu/2). A test may ignore views, so the best of more views counts, too.
    """
    own = t is None
    t = local_distance(n, GDP(mu)) if t is None else t
    x = (np.arange(40_000) + 0.5) * (14 + 2 * mu) / 40_000
    step = x[1] - x[0]
    down = norm.pdf(x + mu / 2) * step
    up = (1 - t) * down + t * norm.pdf(x - mu / 2) * step
    ratio = np.log1p(t * np.expm1(mu * x))
    values, chances = np.append([ratio, -ratio], 0.0), np.append([up, down], 1 - (up + down).sum())
    mean = chances @ values
    sd = math.sqrt(chances @ (values - mean) ** 2)
    third = chances @ np.abs(values - mean) ** 3
    views = np.unique(np.geomspace(n, 100 * n, 20_000).astype(int))
    errors = norm.sf(mean / sd * np.sqrt(views)) - 0.4748 * third / sd**3 / np.sqrt(views)
    assert errors.max() == pytest.approx(_gaussian_error(t, n, mu), rel=1e-5)
    assert not own or errors.max() == pytest.approx(0.1, rel=1e-4)
