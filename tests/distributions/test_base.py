"""Properties of all distributions: moments, locations, refusals, numbers in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from dpbench.distributions import (
    Bernoulli,
    ContaminatedGaussian,
    Distribution,
    Gaussian,
    Hypercube,
    Pareto,
    Product,
    ProductTwoPoint,
    SignedTwoPoint,
    StudentT,
    TwoPoint,
)
from dpbench.registry import ConfigError
from tests.support import rng

UNIT: list[Callable[[float], Distribution]] = [
    lambda k: Gaussian(standardised_moment=k),
    lambda k: StudentT(tail_index=k + 0.3, standardised_moment=k),
    lambda k: Pareto(tail_index=k + 0.3, standardised_moment=k),
    lambda k: Pareto(tail_index=1000.0, standardised_moment=k),
    lambda k: ContaminatedGaussian(eta=0.01, gap=100.0, standardised_moment=k),
    lambda k: TwoPoint(p=1e-11, k=k),
    lambda k: TwoPoint(p=0.6, k=k, sign=-1),
]


@pytest.mark.parametrize("make", UNIT)
def test_the_moment_asked_for_is_one(make: Callable[[float], Distribution]) -> None:
    for k in (2.0, 3.0, 6.0):
        assert make(k).moment(k) == pytest.approx(1.0, rel=1e-12, abs=0)


@pytest.mark.parametrize(
    ("kind", "parameters"),
    [
        (Gaussian, {"scale": 2.0}),
        (StudentT, {"tail_index": 4.5}),
        (Pareto, {"tail_index": 4.5}),
        (ContaminatedGaussian, {"eta": 0.2, "gap": 5.0}),
        (TwoPoint, {"p": 0.1, "k": 3}),
        (TwoPoint, {"p": 0.1, "k": 3, "sign": -1}),
    ],
)
def test_location_moves_the_mean_and_nothing_else(kind: Any, parameters: dict[str, Any]) -> None:
    here, there = kind(**parameters), kind(location=10.0, **parameters)
    assert there.mean - here.mean == pytest.approx(10.0)
    assert there.target == (10.0 if kind is ContaminatedGaussian else there.mean)
    assert [there.moment(k) for k in (2, 3.3)] == [here.moment(k) for k in (2, 3.3)]
    one, two = (law.sample(rng(5), 3, 40) for law in (here, there))
    np.testing.assert_allclose(two.mean() - one.mean(), 10.0)
    np.testing.assert_allclose(two.quantile(0.3) - one.quantile(0.3), 10.0)


@pytest.mark.parametrize(
    ("law", "parameters"),
    [
        (Gaussian, {"scale": 2.0, "standardised_moment": 2.0}),
        (Gaussian, {"standardised_moment": 1.5}),
        (StudentT, {"tail_index": 3.0, "standardised_moment": 3.0}),
        (Pareto, {"tail_index": 1e6}),  # beyond its closed form
        (Bernoulli, {"p": 1.01}),
        (TwoPoint, {"p": 1.0, "k": 2.0}),
    ],
)
def test_invalid_parameters_are_refused(law: Any, parameters: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r".+"):
        law(**parameters)


@pytest.mark.parametrize(
    ("law", "n", "held"),
    [
        (Product(d=5, of=Pareto(tail_index=6.0)), 100, 500),
        (Hypercube(d=6), 1, 6),
        (Hypercube(d=6), 10**6, 6e6 / 50),
        (ProductTwoPoint(d=6, p=1e-15), 10**18, 6 * 3001),
        (ProductTwoPoint(d=6, p=0.001), 1000, 6 * (1 + 1000 * (1 - 0.999**3))),
        (SignedTwoPoint(d=6, p=0.001, k=3), 1000, 12),
    ],
)
def test_numbers_held(law: Distribution, n: int, held: float) -> None:
    assert law.held(n) == pytest.approx(held)


@pytest.mark.parametrize(
    ("kind", "parameters", "message"),
    [
        ("multivariate_gaussian", {"d": 0}, r"^here\.d: 0: "),
        ("multivariate_gaussian", {"condition": 3, "matrix": [[1, 0], [0, 1]]}, "^here: give cond"),
        ("multivariate_gaussian", {"matrix": [[1, 0], [0, 1, 2]]}, "^here: matrix must have 2 row"),
        ("multivariate_gaussian", {"matrix": [[1, 0.5], [0, 1]]}, "^here: matrix must be symm"),
        ("multivariate_gaussian", {"matrix": [[1, 2], [2, 1]]}, "^here: matrix must be symm"),
        ("product", {}, r"^here\.of: this key is required"),
        ("product", {"of": {"kind": "bernoulli", "p": 0.5}}, r"^here\.of: "),
        ("product", {"of": {"kind": "pareto"}}, r"^here\.of\.tail_index: this key is required"),
        ("product_two_point", {"p": 0.1, "word": 64}, r"^here\.word: 64: "),
        ("signed_two_point", {"p": 0.1, "k": 2, "sign": 0}, r"^here\.sign: 0: "),
    ],
)
def test_refusals_name_the_key(kind: str, parameters: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        Distribution.build({"kind": kind, "d": 2, **parameters}, "here")
