"""The bound of a class: the largest of those that hold for it, and what it is by."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
from scipy import stats
from scipy.stats import chi2, norm

from dpbench import distributions as dist
from dpbench.distributions import TwoPoint
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget, NonPrivate, PureDP
from dpbench.theory.bounds.bernoulli import bernoulli_chain_lower_bound
from dpbench.theory.bounds.class_bound import (
    LOCAL_BOUND_NAME,
    ErrorBound,
    class_bound,
    heavy_tail_bound,
    largest_bound,
    user_level_bound,
)
from dpbench.theory.bounds.information import (
    bernoulli_information_bound,
    gaussian_information_bound,
)
from dpbench.theory.bounds.local import local_distance, local_lower_bound
from dpbench.theory.bounds.multi_hypothesis import multi_hypothesis_lower_bound
from dpbench.theory.bounds.numbers import (
    bernoulli_lower_bound,
    largest_untestable_tv,
    sampling_lower_bound,
    two_point_lower_bound,
)
from dpbench.theory.bounds.vectors import moments_lower_bound

BUDGETS: list[Budget] = [PureDP(0.01), ZCDP(5e-5), GDP(0.01), ApproxDP(0.01, 1e-6)]
T: dict[str, Any] = {"tail_index": 4.5}


def test_the_largest_of_what_is_known() -> None:
    assert largest_bound({"one": 1.0, "other": 2.0, "unknown": math.nan}) == ErrorBound(
        2.0, "other"
    )
    none = largest_bound({"unknown": math.nan})
    assert math.isnan(none.value)
    assert none.by == ""


@pytest.mark.parametrize("budget", BUDGETS, ids=str)
def test_numbers(budget: Budget) -> None:
    """Where noise decides two laws, where sampling does the average or a coin."""
    few, many = 2000, 10**9
    t = largest_untestable_tv(few, budget, 0.05)
    privacy, both = bernoulli_lower_bound(few, budget), bernoulli_chain_lower_bound(few, budget)
    known = privacy, both, bernoulli_information_bound(few, budget)
    assert class_bound(dist.Bernoulli(p=0.3), few, budget).value == np.nanmax(known)
    scaled = class_bound(dist.Gaussian(location=7, scale=3), few, budget)
    gaussian = norm.ppf((1 + t) / 2), gaussian_information_bound(few, budget)
    assert scaled.value == pytest.approx(3 * np.nanmax(gaussian), rel=1e-12)
    average = class_bound(dist.Gaussian(scale=3), many, budget)
    assert average.value == pytest.approx(3 * norm.ppf(0.95) / math.sqrt(many))
    assert average.by == "sampling"
    coin = class_bound(dist.Bernoulli(p=0.3), many, budget)
    assert coin.value == pytest.approx(norm.ppf(0.95) / 2 / math.sqrt(many), rel=1e-3)
    assert coin.by == "sampling"
    law = dist.StudentT(**T, standardised_moment=3)
    private = two_point_lower_bound(few, 3, budget).alpha
    assert class_bound(law, few, budget) == (private, "two-point")
    assert class_bound(law, many * 1000, budget).by == "sampling"
    assert math.isnan(class_bound(dist.StudentT(**T), few, budget).value)
    assert class_bound(law, few, NonPrivate()) == (sampling_lower_bound(few, 3), "sampling")


def test_several_laws_and_directions() -> None:
    n, budget = 10**5, PureDP(0.01)
    several = multi_hypothesis_lower_bound(n, 6, budget)
    assert heavy_tail_bound(n, 6, budget) == (several, "multi-hypothesis")
    assert several > two_point_lower_bound(n, 6, budget).alpha
    private = moments_lower_bound(10**4, 512, 3, PureDP(0.01))
    assert heavy_tail_bound(10**4, 3, PureDP(0.01), d=512) == (private.alpha, "packing")
    vectors = dist.MultivariateStudentT(d=512, **T, standardised_moment=3)
    assert class_bound(vectors, 10**4, PureDP(0.01)) == (private.alpha, "packing")
    # Of N(mean, s^2 I) with E|X|^3 = s^3 sqrt(8/pi) = 1.
    sampled = math.sqrt(chi2(512).ppf(0.9) / 10**6) * (8 / math.pi) ** (-1 / 6)
    found = class_bound(vectors, 10**6, PureDP(1.0))
    assert found.value == pytest.approx(sampled)
    assert found.by == "sampling"


def test_gaussian_vectors() -> None:
    n, scale = 10**6, 2.0
    found = class_bound(dist.MultivariateGaussian(d=8, scale=scale), n, PureDP(1.0))
    assert found.by == "sampling"
    assert found.value == pytest.approx(scale * math.sqrt(chi2(8).ppf(0.9) / n), rel=1e-12)
    assert class_bound(dist.MultivariateGaussian(d=8), 300, PureDP(0.05)).by != "sampling"
    narrow = dist.MultivariateGaussian(d=8, condition=10)
    assert math.isnan(class_bound(narrow, n, PureDP(1.0)).value)


def test_the_local_model() -> None:
    n, budget = 10**6, PureDP(1.0)
    t = local_distance(n, budget, beta=0.05)
    coin = class_bound(dist.Bernoulli(p=0.3), n, budget, local=True).value
    assert coin == pytest.approx(t / 2, rel=2e-3)
    gaussian = class_bound(dist.Gaussian(scale=3), n, budget, local=True)
    assert gaussian.value == pytest.approx(3 * norm.ppf((1 + t) / 2))
    assert gaussian.by == LOCAL_BOUND_NAME
    own = heavy_tail_bound(n, 3, budget, local=True)
    assert own == (local_lower_bound(n, 3, budget).alpha, "local two-point")
    assert own.value > 10 * heavy_tail_bound(n, 3, budget, rare=0).value
    assert math.isnan(class_bound(dist.MultivariateGaussian(d=8), n, budget, local=True).value)


def test_the_lower_bound_of_people() -> None:
    """With one record it is the one of records; the laws of one person are t apart."""
    budget, n, k = PureDP(0.01), 10**5, 6.0
    t = largest_untestable_tv(n, budget)
    assert user_level_bound(n, 1, k, budget, False).value == pytest.approx(
        two_point_lower_bound(n, k, budget).alpha
    )
    for m in (1, 6, 7, 16, 4096):
        bound = user_level_bound(n, m, k, budget, False)
        if bound.by == "two-point":
            p = 1 - (1 - t) ** (1 / m)
            assert bound.value == pytest.approx(p * TwoPoint(p=p, k=k).tau, rel=1e-9)
            continue
        # Of a coin that errs by h tau: what is the distance of its counts?
        h = next(
            h
            for h in np.geomspace(1e-9, 0.4, 4000)
            if h * TwoPoint(p=0.5 + h, k=k).tau >= bound.value
        )
        j = np.arange(m + 1)
        apart = np.abs(stats.binom.pmf(j, m, 0.5 + h) - stats.binom.pmf(j, m, 0.5 - h)).sum() / 2
        assert apart == pytest.approx(t, rel=6e-3)
    assert user_level_bound(n, 4096, k, budget, False).by == "Bernoulli two-point"
    assert user_level_bound(10, 4, k, budget, True).value == math.inf
