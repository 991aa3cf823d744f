"""The entries of this package: how each of its estimators of a mean uses what is public.

Parameters follow from that and from the docstrings' advice; none was tuned on a problem of a suite.
Left out are variants of what is here, `KSU20CoverMean` (slow beyond few coordinates), `PersonMean`
and `PrivUnitMean` (no problem is about several records a person, or vectors in the local model).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

from dpbench import estimators as own
from dpbench.estimators import Estimator
from dpbench.suite.entries import Card, Entry
from dpbench.suite.problems import Told

__all__ = ["entries"]

Parameters = Callable[[Told], dict[str, Any]]
MEDIAN, TUNED, PROJECT = {"statistic": "median"}, {"constants": "tuned"}, {"outside": "project"}
ROUNDS, BUCKETS = {"rounds": 3}, {"buckets": 30}


def _far(t: Told) -> float:
    """A norm that hardly any record exceeds: by 4 deviations, of vectors by 2 + sqrt(d) of them."""
    assert t.radius is not None
    spread = 4.0 if t.d == 1 else 2.0 + math.sqrt(t.d)
    return t.radius + spread * (t.scale or 3.0)


def _clip(t: Told) -> dict[str, float]:
    """Public bounds on numbers."""
    return {"lower": 0.0, "upper": 1.0} if t.records == "binary" else _around(_far(t))


def _around(radius: float) -> dict[str, float]:
    return {"lower": -radius, "upper": radius}


def _scale(t: Told) -> dict[str, Any]:
    return {"sigma": t.scale}


def _place(t: Told) -> dict[str, Any]:
    """Where a Gaussian's mean is, and its deviation."""
    return {"radius": t.radius, "sigma": t.scale}


def _moment(t: Told) -> dict[str, Any]:
    """The order of the moment, and where the mean is."""
    return {"k": t.k, "radius": t.radius}


def _means(t: Told) -> dict[str, Any]:
    """Bounds on means of buckets, and to what accuracy one is wanted."""
    return {**_around(float(t.radius or 0.0)), "resolution": (t.scale or 1.0) / 100}


def _ball(t: Told) -> dict[str, Any]:
    return {"radius": _far(t), "mechanism": "l2" if t.notion == "pure" else "additive"}


def _by_coordinate(t: Told) -> dict[str, Any]:
    return {"base": own.KarwaVadhanMean(radius=t.radius, sigma=t.scale or 1.0)}


def _covariance(t: Told) -> dict[str, Any]:
    return {"radius": t.radius, "bound": (t.scale or 1.0) ** 2}


def _responses(t: Told) -> dict[str, Any]:
    """Randomised response; the centred moments of binary records are below 1, as is their mean."""
    return {"mechanism": "three_values", "k": t.k or 2.0, "radius": t.radius or 1.0}


def _nothing(_: Told) -> dict[str, Any]:
    return {}


# The name, the source, the records that it is for (b binary, g Gaussian, m with moments, G and M
# vectors of these; R: only if the mean is known to be within a radius), the class, its parameters.
CENTRAL: list[tuple[str, str, str, type[Any], Parameters]] = [
    ("binary_mean", "L15", "b", own.BinaryMean, _nothing),
    ("binary_minimax", "GRS09, GS10", "b", own.BinaryMinimax, _nothing),
    ("transformed_noise_mean", "KSW23", "b", own.TransformedNoiseMean, _nothing),
    ("sum_and_count_mean", "G20", "b", own.SumAndCountMean, _nothing),
    ("inverse_sensitivity", "AD20", "b", own.InverseSensitivity, _clip),
    ("private_median", "AD20", "gR", own.InverseSensitivity, lambda t: MEDIAN | _means(t)),
    ("clipped_mean", "L15", "gR", own.ClippedMean, _clip),
    ("smooth_trimmed_mean", "BS19", "gmR", own.SmoothTrimmedMean, _clip),
    ("naive_gaussian_mean", "L15", "gR", own.NaiveGaussianMean, _place),
    ("karwa_vadhan_mean", "KV18", "g", own.KarwaVadhanMean, _place),
    ("exponential_coarse_mean", "L15", "gR", own.ExponentialCoarseMean, _place),
    ("gaussian_score_mean", "this package", "gR", own.GaussianScoreMean, _place),
    ("shrinking_intervals", "L15", "gR", own.ShrinkingIntervals, lambda t: _place(t) | ROUNDS),
    ("learned_gaussian", "KV18", "g", own.LearnedGaussian, _place),
    ("unbiased_mean", "KMRSSU23", "g", own.UnbiasedMean, _scale),
    ("universal_mean", "DY23", "gm", own.UniversalMean, _nothing),
    ("approximate_bounds_mean", "WZLDSG20", "gm", own.ApproximateBoundsMean, _nothing),
    ("median_of_buckets", "L17", "gmR", own.SubsampleAggregate, lambda t: BUCKETS | _means(t)),
    ("heavy_tailed_mean", "KSU20", "mR", own.HeavyTailedMean, _moment),
    ("keep_all", "L15", "mR", own.HeavyTailedMean, lambda t: _moment(t) | {"policy": "all"}),
    ("ksu20_mean", "KSU20", "m", own.KSU20Mean, lambda t: _moment(t) | TUNED),
    ("coinpress_mean", "BDKU20", "gGR", own.CoinPressMean, _place),
    ("gradient_descent_mean", "L17", "gGR", own.GradientDescentMean, lambda t: {"clip": _far(t)}),
    ("affine_invariant_mean", "BHS23, KDH23", "gG", own.AffineInvariantMean, _nothing),
    ("friendly_core_mean", "TCKMS22", "gG", own.FriendlyCoreMean, _scale),
    ("bounded_mean", "Z24, HT10", "GMR", own.BoundedMean, _ball),
    ("coordinate_wise", "KV18", "GR", own.CoordinateWise, _by_coordinate),
    ("shifted_clipped_mean", "HLY21", "GMR", own.ShiftedClippedMean, lambda t: {"radius": _far(t)}),
    ("plan_mean", "PLAN", "GR", own.PlanMean, lambda t: {"radius": t.radius}),
    ("whitened_coinpress_mean", "BDKU20", "GR", own.WhitenedCoinPressMean, _covariance),
    ("ksu20_ball_mean", "KSU20", "M", own.KSU20BallMean, lambda t: _moment(t) | TUNED | PROJECT),
]
LOCAL: list[tuple[str, str, str, type[Any], Parameters]] = [
    ("local_sign_mean", "KS25", "gR", own.LocalSignMean, _place),
    ("local_mean", "DJW13", "bgmR", own.LocalMean, _responses),
]


def entries() -> Iterator[Entry]:
    """All of them."""
    for local, section in ((False, CENTRAL), (True, LOCAL)):
        for name, paper, what, kind, parameters in section:
            card = Card(
                name=name,
                paper=paper,
                notions=tuple(one.notion for one in kind.notions),
                relations=kind.relations,
                assumptions=f"docstring of {kind.__name__}",
                proof=f"{kind.__module__}; sources: dpbench/estimators/__init__.py",
                division="declared",
            )
            yield Entry(card, _choice(what, kind, parameters, local=local))


def _choice(
    what: str, kind: type[Any], parameters: Parameters, *, local: bool
) -> Callable[[Told], Estimator | None]:
    """What is made for these records, if it supports the budget and the number of records."""

    def choose(t: Told) -> Estimator | None:
        letter = t.records[0].upper() if t.d > 1 else t.records[0]
        placed = t.radius is not None or t.records == "binary" or "R" not in what
        if t.local != local or letter not in what or not placed:
            return None
        found = kind(**parameters(t))
        if not found.supports(t.budget):
            return None
        few, many = found.least_records(t.d, t.budget), found.most_records
        # where n is private it is no ground for anything
        fits = t.n is None or few <= t.n <= (many or t.n)
        return found if fits else None

    return choose
