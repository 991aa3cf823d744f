"""Families: members as n and the budget move, and what families are built of."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

from dpbench.distributions import ProductTwoPoint, SignedTwoPoint, TwoPoint
from dpbench.privacy import ZCDP, ApproxDP, PureDP
from dpbench.registry import ConfigError
from dpbench.theory.families import (
    Family,
    ProductTwoPointFamily,
    SignedTwoPointFamily,
    TwoPointFamily,
    build_family,
)
from dpbench.theory.lower_bounds import two_point_lower_bound
from dpbench.theory.packing import packing_lower_bound


def _law(family: TwoPointFamily, name: str, n: int, budget: PureDP | ApproxDP) -> TwoPoint:
    law = family.members("f", n, budget)[f"f/{name}"]
    assert isinstance(law, TwoPoint)
    return law


def test_members_scale_with_n_and_epsilon() -> None:
    family = TwoPointFamily(k=3, c=[0, 2, -5])
    assert _law(family, "c=2", 10**6, PureDP(0.01)).p == pytest.approx(2 / (0.01 * 10**6))
    assert _law(family, "c=2", 10**8, PureDP(0.1)).p == pytest.approx(2 / (0.1 * 10**8))
    assert _law(family, "c=0", 10**6, PureDP(0.01)).p == 0
    assert _law(family, "c=-5", 10**6, PureDP(0.01)).sign == -1
    local = TwoPointFamily(k=2, c=[0.3], scaling="local")
    assert _law(local, "c=0.3", 10**10, PureDP(0.01)).p == pytest.approx(0.3 / (0.01 * 10**5))


def test_known_worst_members_are_there_with_both_signs() -> None:
    family, n, budget = TwoPointFamily(k=2, c=[1]), 10**7, PureDP(0.01)
    worst = 2 * math.log(10) / (0.01 * n)
    p_star = two_point_lower_bound(n, 2, budget).p_star
    for sign, prefix in ((1, "+"), (-1, "-")):
        assert _law(family, f"{prefix}worst", n, budget).p == pytest.approx(worst, rel=1e-5)
        law = _law(family, f"{prefix}p_star", n, budget)
        assert law.p == pytest.approx(p_star, rel=1e-5)
        assert sign * law.mean == pytest.approx(family.lower_bound(n, budget), rel=1e-5)


def test_names_build_distributions_and_families() -> None:
    family = build_family({"kind": "student_t", "tail_index": 3.5, "unit_moment": 3}, "here")
    assert list(family.members("t", 10, PureDP(1.0))) == ["t"]  # a family of one
    assert not family.follows_budget
    with pytest.raises(ConfigError, match=r"^here\.kind: 'cauchy': .*student_t.*two_point_family"):
        build_family({"kind": "cauchy"}, "here")
    built = build_family({"kind": "signed_two_point_family", "d": 3, "k": 2, "c": [1, -1]}, "here")
    assert built == SignedTwoPointFamily(d=3, k=2, c=[1, -1])


UNITS = [
    (PureDP(0.5), math.log(10) / 0.5),
    (ZCDP(0.02), 5 * NormalDist().inv_cdf(0.95)),  # 1/sqrt(2 rho) = 5
]
each_unit = pytest.mark.parametrize(("budget", "q"), UNITS, ids=["pure", "zcdp"])


@each_unit
def test_signed_members_scale_with_d_and_the_noise(budget: PureDP | ZCDP, q: float) -> None:
    d, n, c = 6, 10_000, [0.0, 0.25, -1.0, 3.0]
    family = SignedTwoPointFamily(d=d, k=3, c=c)
    members = family.members("f", n, budget)
    assert list(members) == ["f/c=0", "f/c=0.25", "f/c=-1", "f/c=3"]
    for size, law in zip(c, members.values(), strict=True):
        assert isinstance(law, SignedTwoPoint)
        assert (law.d, law.k, law.sign) == (d, 3, -1 if size < 0 else 1)
        assert law.p == pytest.approx(abs(size) * d * q / n, rel=1e-5)
        assert law.p == float(f"{law.p:.6g}")
    assert family.moment_order == 3
    assert family.follows_budget
    assert math.isnan(family.lower_bound(n, budget))


@each_unit
def test_product_members_scale_with_the_noise(budget: PureDP | ZCDP, q: float) -> None:
    d, n = 20, 10_000
    family = ProductTwoPointFamily(d=d, c=[0.0, 0.5, 4.0], words=3)
    members = family.members("f", n, budget)
    labels = [f"f/c={c},{w}" for c in ("0.5", "4") for w in range(3)]
    assert list(members) == ["f/c=0,0", *labels]
    for label, law in members.items():
        assert isinstance(law, ProductTwoPoint)
        size, word = label.removeprefix("f/c=").split(",")
        assert (law.d, law.word) == (d, int(word))
        assert law.p == pytest.approx(float(size) * q / n, rel=1e-5)
        assert law.p == float(f"{law.p:.6g}")
    assert len({tuple(law.mean.tolist()) for law in members.values()}) == 7  # type: ignore[union-attr]
    assert family.moment_order == 2
    assert family.follows_budget


@pytest.mark.parametrize(
    ("family", "wanted"),
    [
        (SignedTwoPointFamily(d=4, k=2, c=[12, -12, 13, -13, 0]), ["12", "-12", "0"]),
        (ProductTwoPointFamily(d=4, c=[0, 49, 51], words=2), ["0,0", "49,0", "49,1"]),
        (TwoPointFamily(k=2, c=[0, 115, 116], scaling="local"), ["0", "115"]),
    ],
)
def test_members_beyond_one_half_are_left_out(family: Family, wanted: list[str]) -> None:
    n = 10_000 if isinstance(family, TwoPointFamily) else 100
    members = family.members("f", n, PureDP(math.log(10)))  # q = 1
    assert list(members) == [f"f/c={name}" for name in wanted]


def test_a_member_near_the_bound() -> None:
    """Means of two words are the bound's alpha/2 apart at the p that it comes from."""
    n, d, budget = 10**6, 16, PureDP(0.5)
    bound = ProductTwoPointFamily(d=d, c=[1.0]).lower_bound(n, budget)
    assert bound == packing_lower_bound(n, d, budget)
    p = (4 * bound) ** 2 / d
    one, two = (ProductTwoPoint(d=d, p=p, word=w) for w in (0, 1))
    assert np.linalg.norm(one.mean - two.mean) >= 2 * bound * (1 - 1e-12)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "signed_two_point_family", "k": 2, "c": [1]}, r"^here\.d: this key is required"),
        ({"kind": "product_two_point_family", "d": 2, "c": [-1]}, r"^here\.c\S*: -1: "),
        ({"kind": "two_point_family", "k": 2, "c": []}, r"^here\.c: \[\]: "),
        ({"kind": "product_two_point_family", "d": 2, "c": [1], "words": 9}, r"^here\.words: 9: "),
    ],
)
def test_refusals_of_families_name_the_key(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_family(spec, "here")


def test_the_order_of_a_family_of_one() -> None:
    for spec, order in (
        ({"kind": "student_t", "tail_index": 3.5, "unit_moment": 3}, 3),
        ({"kind": "signed_two_point", "d": 2, "p": 0.1, "k": 3}, 3),
        ({"kind": "multivariate_gaussian", "d": 2}, None),
        ({"kind": "product_two_point", "d": 2, "p": 0.1}, None),
    ):
        assert build_family(spec, "here").moment_order == order
