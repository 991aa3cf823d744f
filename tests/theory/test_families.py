from __future__ import annotations

import math

import pytest

from dpbench.distributions import TwoPoint
from dpbench.parameters import ConfigError
from dpbench.privacy import ZCDP, ApproxDP, PureDP
from dpbench.theory.families import TwoPointFamily, build_family
from dpbench.theory.lower_bounds import two_point_lower_bound
from dpbench.theory.theorems import THEOREMS


def _law(family: TwoPointFamily, name: str, n: int, budget: PureDP | ZCDP | ApproxDP) -> TwoPoint:
    law = family.members("f", n, budget)[f"f/{name}"]
    assert isinstance(law, TwoPoint)
    return law


def test_central_members_scale_with_n_and_epsilon() -> None:
    family = TwoPointFamily(k=3, c=[0, 2, -5])
    assert _law(family, "c=2", 10**6, PureDP(0.01)).p == pytest.approx(2 / (0.01 * 10**6))
    assert _law(family, "c=2", 10**8, PureDP(0.1)).p == pytest.approx(2 / (0.1 * 10**8))
    assert _law(family, "c=0", 10**6, PureDP(0.01)).p == 0
    assert _law(family, "c=-5", 10**6, PureDP(0.01)).sign == -1


def test_known_worst_members_are_there_with_both_signs() -> None:
    family, n, budget = TwoPointFamily(k=2, c=[1]), 10**7, PureDP(0.01)
    worst = 2 * math.log(10) / (0.01 * n)
    p_star = two_point_lower_bound(n, 2, budget).p_star
    for sign, prefix in ((1, "+"), (-1, "-")):
        assert _law(family, f"{prefix}worst", n, budget).p == pytest.approx(worst, rel=1e-5)
        assert _law(family, f"{prefix}p_star", n, budget).p == pytest.approx(p_star, rel=1e-5)
        assert _law(family, f"{prefix}p_star", n, budget).sign == sign


def test_lower_bound_is_the_mean_of_its_member() -> None:
    family, n, budget = TwoPointFamily(k=4, c=[1]), 10**9, ApproxDP(0.01, 1e-6)
    law = _law(family, "+p_star", n, budget)
    assert family.lower_bound(n, budget) == pytest.approx(law.mean, rel=1e-5)


def test_local_members_scale_with_root_n() -> None:
    family = TwoPointFamily(k=2, c=[0.3], scaling="local")
    assert _law(family, "c=0.3", 10**10, PureDP(0.01)).p == pytest.approx(0.3 / (0.01 * 10**5))


def test_members_beyond_one_half_are_left_out() -> None:
    labels = TwoPointFamily(k=2, c=[0, 1, 100]).members("f", 100, PureDP(1.0))
    assert "f/c=100" not in labels
    assert "f/c=1" in labels


def test_a_distribution_is_a_family_of_one() -> None:
    family = build_family({"kind": "student_t", "tail_index": 3.5, "unit_moment": 3}, "here")
    assert list(family.members("t", 10, PureDP(1.0))) == ["t"]
    assert family.moment_order == 3
    assert not family.follows_budget


def test_unknown_kind_names_distributions_and_families() -> None:
    with pytest.raises(ConfigError, match=r"^here\.kind: 'cauchy': .*student_t.*two_point_family"):
        build_family({"kind": "cauchy"}, "here")


@pytest.mark.parametrize("k", [2, 3, 4, 6])
def test_predicted_exponents(k: float) -> None:
    predicted = {name: theorem.predicted(k) for name, theorem in THEOREMS.items()}
    assert predicted["heavy_tail_alpha"] == predicted["keep_all_epsilon"] == k / (k - 1)
    assert predicted["local_alpha"] == 2 * k / (k - 1)
    assert predicted["heavy_tail_epsilon"] == 1
    assert predicted["local_epsilon"] == 2
