"""Searches for n and for privacy, against brute force; clips and their bounds."""

from __future__ import annotations

import math
from typing import Any

import pytest

import dpbench
from dpbench import PureDP
from dpbench.distributions import Bernoulli, Gaussian, LogNormal
from dpbench.errors import ConfigError
from dpbench.planner.explanations import format_records
from dpbench.theory.bounds.class_bound import ErrorBound, class_bound, heavy_tail_bound


def test_clips_stay_in_their_bounds() -> None:
    made = dpbench.plan(n=100, epsilon=1, law="log_normal", lower=0.5, upper=4)
    assert made.clip[0] >= 0.5
    assert made.clip[1] <= 4
    assert "the bounds" not in made.clips  # they are the best clip
    low, high = made.clips["half as wide"]
    assert high - low == pytest.approx((made.clip[1] - made.clip[0]) / 2, rel=1e-6)


def test_a_rare_point_is_clipped_away_where_noise_is_more_than_its_part() -> None:
    # A clip to both points, 100 apart, has noise of 0.023, one to a point a bias of 0.01.
    law = {"kind": "two_point", "p": 1e-4, "k": 2}
    made = dpbench.plan(n=10**6, epsilon=0.01, law=law)
    assert made.expected.q90_without_cancellation < 0.0103
    assert made.error(0, 100).q90 == pytest.approx(0.023, rel=0.01)


def test_the_smallest_n_is_that_of_brute_force() -> None:
    made = dpbench.plan(n=40, epsilon=1, lower=0, upper=1)
    alpha = 0.09
    enough = [n for n in range(1, 200) if made._best_q90(n, made.budget) <= alpha]
    assert enough == list(range(enough[0], 200))
    assert made.records(alpha) == enough[0]
    for n in (1, 10**4):
        assert dpbench.plan(n=n, epsilon=1, lower=0, upper=1).records(alpha) == enough[0]
    assert format_records(1) == "1 record"
    assert format_records(enough[0]) == f"{enough[0]} records"


def test_the_largest_privacy_is_just_enough() -> None:
    made = dpbench.plan(n=200, epsilon=1, delta=1e-6, lower=0, upper=1)
    alpha = 0.08
    least = made.privacy(alpha)
    assert made._best_q90(200, least) <= alpha < made._best_q90(200, least.fraction(0.999))
    with pytest.raises(ConfigError, match=r"alpha: 0.01: not reached with 200 records"):
        made.privacy(0.01)


@pytest.mark.parametrize("spread", [10.0, 15.0, 25.0])
def test_no_clip_of_ages_is_better_than_the_best(spread: float) -> None:
    """A narrow clip around the centre of a symmetric law has no bias; its guarded q90 shows it."""
    law = {"kind": "gaussian", "location": 40, "scale": spread}
    made = dpbench.plan(n=500, epsilon=1, lower=0, upper=120, law=law)
    errors = {name: made.error(*clip) for name, clip in made.clips.items()}
    guarded = {name: error.q90_without_cancellation for name, error in errors.items()}
    assert errors["half as wide"].q90 < errors["best"].q90  # the trap
    assert min(guarded, key=lambda name: guarded[name]) == "best"
    assert guarded["half as wide"] > 1.5 * guarded["best"]


def test_equal_clips_are_listed_once() -> None:
    law = {"kind": "gaussian", "location": 40, "scale": 15}
    made = dpbench.plan(n=500, epsilon=1, lower=0, upper=120, law=law)
    assert made.problem.scale_clip(made.clip, 2) == (0, 120)
    assert list(made.clips) == ["best", "half as wide", "one sd higher", "the bounds"]


def test_a_clip_that_is_cut_is_named_by_its_own_width() -> None:
    made = dpbench.plan(
        n=2000, epsilon=1, law={"kind": "log_normal", "scale": 50}, lower=0, upper=300
    )
    width = made.clip[1] - made.clip[0]
    low, high = made.clips["half as wide"]
    assert (high - low) / width == pytest.approx(0.5, rel=0.01)
    (cut,) = (name for name in made.clips if name.endswith("x as wide"))
    low, high = made.clips[cut]
    assert (high - low) / width == pytest.approx(float(cut.split("x")[0]), rel=0.01)
    assert {"twice as wide", "one sd higher"}.isdisjoint(made.clips)


@pytest.mark.parametrize(
    "question",
    [
        {"law": {"kind": "gaussian", "location": 40, "scale": 15}},
        {"law": {"kind": "log_normal", "scale": 0.003}, "epsilon": 3},
        {"k": 3, "scale": 2e4, "lower": -1e5, "upper": 3e5},
    ],
)
def test_ends_are_rounded_outwards_to_the_third_digit_of_the_width(question: Any) -> None:
    made = dpbench.plan(**{"n": 500, "epsilon": 1} | question)
    low, high = made.problem.best_clip(made.n, made.budget)
    unit = 10.0 ** (math.floor(math.log10(high - low)) - 2)
    ends = math.floor(low / unit) * unit, math.ceil(high / unit) * unit
    assert made.clip == pytest.approx(ends, rel=1e-9)


def test_a_clip_one_sd_higher_is_moved_by_the_sd() -> None:
    made = dpbench.plan(n=500, epsilon=1, law={"kind": "gaussian", "location": 40, "scale": 15})
    wanted = tuple(end + 15 for end in made.clip)
    assert made.clips["one sd higher"] == pytest.approx(wanted)


@pytest.mark.parametrize("neighbours", ["replace", "add_remove"])
def test_the_limit_is_that_of_the_class_in_the_unit_of_the_records(neighbours: Any) -> None:
    """Of an add/remove budget a replacement costs twice: for pure DP, epsilon is doubled."""
    replaced = PureDP(0.5 if neighbours == "replace" else 1.0)
    coin = class_bound(Bernoulli(p=0.5), 200, replaced)
    heavy = heavy_tail_bound(200, 2, replaced)
    normal = LogNormal(scale=50, sigma=0.7)
    cases: list[tuple[dict[str, Any], float, ErrorBound, str]] = [
        ({"lower": 2, "upper": 5}, 3.0, coin, "distributions within the bounds"),
        ({"law": {"kind": "bernoulli", "p": 0.2}}, 1.0, coin, "Bernoulli distributions"),
        ({"law": normal}, math.sqrt(normal.variance), heavy, "distributions with this sd"),
        ({"law": Gaussian(scale=3)}, 1.0, class_bound(Gaussian(scale=3), 200, replaced),
         "Gaussian distributions with this sd"),
    ]  # fmt: skip
    for question, unit, bound, words in cases:
        made = dpbench.plan(n=200, epsilon=0.5, neighbours=neighbours, **question)
        limit, name = made.limit
        assert limit.value == pytest.approx(unit * bound.value)
        assert name == words
        assert limit.by == bound.by
