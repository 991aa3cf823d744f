"""Families: members as n and the budget move, and what families are built of."""

from __future__ import annotations

import math
from statistics import NormalDist
from typing import Any

import pytest

from dpbench.distributions import TwoPoint
from dpbench.privacy import ZCDP, Budget, NonPrivate, PureDP
from dpbench.registry import ConfigError
from dpbench.theory.bounds.class_bound import heavy_tail_bound
from dpbench.theory.bounds.numbers import sampling_lower_bound, two_point_lower_bound
from dpbench.theory.families import (
    Family,
    ProductTwoPointFamily,
    SignedTwoPointFamily,
    TwoPointFamily,
    build_family,
)

N, TAIL = 10**6, math.log(10)
PAIR = TwoPointFamily(k=3, c=[0, 2, -5])
LOCAL = TwoPointFamily(k=2, c=[0.3, 0, 399, 400], scaling="local")
SIGNED = SignedTwoPointFamily(d=6, k=3, c=[0.0, 0.25, -1.0])
PRODUCT = ProductTwoPointFamily(d=20, c=[0.0, 0.5, 4.0], words=2)
# The 1 - beta quantile of noise at sensitivity 1, for beta = 0.1.
LAPLACE, GAUSSIAN = TAIL / 0.5, 5 * NormalDist().inv_cdf(0.95)  # 1/sqrt(2 rho) = 5


@pytest.mark.parametrize(
    ("family", "n", "budget", "wanted"),
    [
        (PAIR, N, PureDP(0.01), {
            "c=0": 0, "c=2": 2 / (0.01 * N), "c=-5": -5 / (0.01 * N),
            "+worst": 2 * TAIL / (0.01 * N), "-worst": -2 * TAIL / (0.01 * N),
            "+p_star": two_point_lower_bound(N, 3, PureDP(0.01)).p_star,
            "-p_star": -two_point_lower_bound(N, 3, PureDP(0.01)).p_star,
        }),
        # Those with p above 1/2 are left out.
        (LOCAL, 10**6, PureDP(0.8), {"c=0.3": 0.3 / (0.8 * 10**3), "c=0": 0, "c=399": 399 / 800,
                                     "c=400": 0.5}),
        (LOCAL, 10**6, PureDP(0.799), {"c=0.3": 0.3 / 799, "c=0": 0, "c=399": 399 / 799}),
        (SIGNED, N, PureDP(0.5),
         {f"c={c:g}": c * 6 * LAPLACE / N for c in (0, 0.25, -1)}),
        (SIGNED, 60, ZCDP(0.02), {"c=0": 0, "c=0.25": 0.25 * 6 * GAUSSIAN / 60}),
        (PRODUCT, N, ZCDP(0.02),
         {"c=0,0": 0, **{f"c={c:g},{w}": c * GAUSSIAN / N for c in (0.5, 4) for w in (0, 1)}}),
        (PRODUCT, 10, PureDP(0.5), {"c=0,0": 0, **{f"c=0.5,{w}": LAPLACE / 20 for w in (0, 1)}}),
    ],
)  # fmt: skip
def test_members_scale_with_n_d_and_the_noise(
    family: Family, n: int, budget: Budget, wanted: dict[str, float]
) -> None:
    members: dict[str, Any] = family.members("f", n, budget)
    assert list(members) == [f"f/{name}" for name in wanted]
    for law, p in zip(members.values(), wanted.values(), strict=True):
        assert getattr(law, "sign", 1) * law.p == pytest.approx(p, rel=1e-5)
        assert law.p == float(f"{law.p:.6g}")  # streams are named by it
        assert getattr(law, "k", 2) == family.moment_order
    assert family.follows_budget
    assert len(set(members.values())) == len(members)


def test_the_lower_bound_is_reached_by_members() -> None:
    """The two means at p* are twice the bound apart; of vectors it is that of the class."""
    budget = PureDP(0.01)
    law: Any = PAIR.members("f", N, budget)["f/+p_star"]
    assert law.mean == pytest.approx(PAIR.lower_bound(N, budget).value, rel=1e-5)
    assert PRODUCT.lower_bound(N, budget) == heavy_tail_bound(N, 2, budget, d=20, rare=0)
    assert math.isnan(PRODUCT.lower_bound(N, budget, local=True).value)
    assert math.isnan(SIGNED.lower_bound(N, budget, local=True).value)
    most: Any = max(law.p for law in SIGNED.members("f", N, budget).values())  # type: ignore[attr-defined]
    assert SIGNED.lower_bound(N, budget) == heavy_tail_bound(
        N, SIGNED.k, budget, d=SIGNED.d, rare=most
    )


def test_a_coin_carries_what_sampling_costs() -> None:
    rare, coin = (
        TwoPointFamily(k=3, c=[0, 2], location=5.0, with_fair_coin=sampling)
        for sampling in (False, True)
    )
    budget = PureDP(0.3)
    members = coin.members("f", N, budget)
    law = members.pop("f/coin")
    assert members == rare.members("f", N, budget)
    assert isinstance(law, TwoPoint)
    assert (law.location, law.p, law.mean) == (4.0, 0.5, 5.0)
    assert law.tau == pytest.approx(2, rel=1e-15)  # 4 and 6
    n = int(coin.crossing(budget))
    for size, by in ((n - 1, "two-point"), (n, "sampling")):
        bounds = rare.lower_bound(size, budget).value, sampling_lower_bound(size, 3)
        assert coin.lower_bound(size, budget) == (max(bounds), by)
        assert bounds[by == "sampling"] == max(bounds)
        assert bounds[0] == pytest.approx(bounds[1], rel=1e-3)
    assert coin.lower_bound(N, NonPrivate()) == (sampling_lower_bound(N, 3), "sampling")
    # With k = 2 privacy costs more at any n; without a coin nothing is said of sampling.
    assert math.isnan(TwoPointFamily(k=2, c=[1], with_fair_coin=True).crossing(budget))
    assert math.isnan(rare.crossing(budget))
    assert math.isnan(build_family({"kind": "gaussian"}, "here").crossing(budget))


def test_few_records_leave_what_members_there_are() -> None:
    """All errors are possible, p* is 1, and members keep p at 1/2."""
    budget = PureDP(0.01)
    members: dict[str, Any] = PAIR.members("f", 100, budget)
    assert {name: law.p for name, law in members.items()} == {
        "f/c=0": 0, "f/+p_star": 0.5, "f/-p_star": 0.5
    }  # fmt: skip
    assert PAIR.lower_bound(100, budget) == (math.inf, "two-point")


@pytest.mark.parametrize(
    ("spec", "order"),
    [
        ({"kind": "student_t", "tail_index": 3.5, "standardised_moment": 3}, 3),
        ({"kind": "signed_two_point", "d": 2, "p": 0.1, "k": 3}, 3),
        ({"kind": "multivariate_gaussian", "d": 2}, None),
        ({"kind": "product_two_point", "d": 2, "p": 0.1}, None),
    ],
)
def test_a_distribution_is_a_family_of_one(spec: dict[str, Any], order: float | None) -> None:
    family = build_family(spec, "here")
    assert list(family.members("t", 10, PureDP(1.0))) == ["t"]
    assert not family.follows_budget
    assert family.moment_order == order


def test_listed_laws_are_over_the_bound_of_their_class() -> None:
    """Each law and bound are as in a family of one; the widest of unequal laws has the bound."""
    budget, specs = PureDP(0.1), [{"kind": "gaussian", "location": x} for x in (0, 3)]
    family = build_family({"kind": "laws", "laws": dict(zip("ab", specs, strict=True))}, "here")
    alone = [build_family(one, "here") for one in specs]
    members = family.members("g", N, budget)
    assert list(members) == ["g/a", "g/b"]
    # Equal laws have the same data, whatever they are listed in.
    assert list(members.values()) == [one.members("g", N, budget)["g"] for one in alone]
    assert family.lower_bound(N, budget) == alone[0].lower_bound(N, budget)
    assert (family.moment_order, family.person_records, family.follows_budget) == (None, 1, False)
    wide = {"a": specs[0], "b": {"kind": "gaussian", "location": 3, "scale": 2}}
    wider = build_family({"kind": "laws", "laws": wide}, "here").lower_bound(N, budget)
    assert wider.value == pytest.approx(2 * alone[0].lower_bound(N, budget).value)
    tails = {
        str(nu): {
            "kind": "student_t", "tail_index": nu, "location": nu, "standardised_moment": 3
        } for nu in (4, 5)
    }  # fmt: skip
    assert build_family({"kind": "laws", "laws": tails}, "here").moment_order == 3
    unknown = {"a": specs[0], "b": {"kind": "log_normal"}}
    mixed = build_family({"kind": "laws", "laws": unknown}, "here")
    assert mixed.lower_bound(N, budget) == alone[0].lower_bound(N, budget)


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"kind": "laws", "laws": {"a": {"kind": "gaussian"}}}, r"^here\.laws: "),
        (
            {
                "kind": "laws",
                "laws": {"a": {"kind": "gaussian"}, "b": {"kind": "gaussian", "scale": 2}},
            },
            r"^here\.laws: .*all laws have one mean",
        ),
        (
            {
                "kind": "laws",
                "laws": {"a": {"kind": "gaussian"}, "b": {"kind": "multivariate_gaussian", "d": 2}},
            },
            r"^here\.laws: .*dimension",
        ),
        (
            {"kind": "laws", "laws": {"a": {"kind": "gaussian"}, "b": {"kind": "gausian"}}},
            r"b\.kind: 'gausian'",
        ),
        ({"kind": "laws", "laws": {"a": {"kind": "gaussian"}, "b": 3}}, r"^here\.laws: "),
        ({"kind": "cauchy"}, r"^here\.kind: 'cauchy': .*student_t.*two_point_family"),
        ({"kind": "signed_two_point_family", "k": 2, "c": [1]}, r"^here\.d: this key is required"),
        ({"kind": "product_two_point_family", "d": 2, "c": [-1]}, r"^here\.c\S*: -1: "),
        ({"kind": "two_point_family", "k": 2, "c": []}, r"^here\.c: \[\]: "),
        ({"kind": "product_two_point_family", "d": 2, "c": [1], "words": 9}, r"^here\.words: 9: "),
    ],
)
def test_refusals_of_families_name_the_key(spec: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        build_family(spec, "here")
