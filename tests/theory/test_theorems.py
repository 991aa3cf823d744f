"""What the theorems predict, from the errors that their sources state."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from dpbench.analysis.claim_kinds import KINDS
from dpbench.estimators import (
    BergerBoosInterval,
    KarwaVadhanInterval,
    PrivateBootstrapInterval,
    ShrinkingIntervals,
    SubsampleInterval,
)
from dpbench.sweep.metrics import METRICS, VARIABLES
from dpbench.theory.theorems import THEOREMS, Theorem


@dataclass(frozen=True)
class At:
    """What errors are formulas of; delta stands for ln(1/delta)."""

    n: float = 1e6
    k: float = 2.0
    epsilon: float = 0.1
    rho: float = 0.1
    delta: float = 20.0
    radius: float = 1e40
    log_radius: float = 90.0
    d: float = 1e4
    norm: float = 1e6
    m: float = 100.0
    location: float = 1e6
    condition: float = 1e3


Error = Callable[[At], float]


def _clipped(at: At, noise: float) -> float:
    """At the best T: a bias of at most T^(1-k), and T times the noise."""
    t = ((at.k - 1) / noise) ** (1 / at.k)
    assert t ** (1 - at.k) + t * noise <= (1.1 * t) ** (1 - at.k) + 1.1 * t * noise
    return float(t ** (1 - at.k) + t * noise)


def _laplace(at: At) -> float:
    return 1 / (at.epsilon * at.n)


def _gaussian(at: At) -> float:
    return 1 / (math.sqrt(2 * at.rho) * at.n)


# Up to constants and lower-order terms; of a threshold the n that is needed, over n.
ERRORS: dict[str, Error] = {
    "heavy_tail_alpha heavy_tail_epsilon heavy_tail_private_part": lambda at: _clipped(
        at, _laplace(at)
    ),
    "heavy_tail_rho": lambda at: _clipped(at, _gaussian(at)),
    # clipped at n^(1/k), below which all records are: the noise alone
    "keep_all_alpha keep_all_epsilon": lambda at: at.n ** (1 / at.k) * _laplace(at),
    # each record carries noise T/epsilon, so that their mean has T/(epsilon sqrt(n))
    "local_alpha local_epsilon": lambda at: _clipped(at, 1 / (at.epsilon * math.sqrt(at.n))),
    "sampling sampling_regime subsample_sampling": lambda at: at.n**-0.5,
    "private_regime bounded_private_part bounded_epsilon fine_alpha": _laplace,
    "bounded_rho": _gaussian,
    # noise of sensitivity 2C/n in d coordinates, C the root of d; the same with |sigma|_1 = d
    "shifted_dimension shifted_rho plan_dimension balloon_dimension balloon_n": lambda at: (
        at.d * _gaussian(at)
    ),
    # the same with |sigma|_2 = d, up to a constant: variances (d/i)^2 add up to d^2 zeta(2)
    "shifted_dimension_steep": lambda at: at.d ** (3 / 2) * _gaussian(at),
    # moments of d^2 entries with noise 1/n: of the d x d matrix theta keeps d
    "regression_n regression_rho regression_dimension": lambda at: at.d * _gaussian(at),
    # what m = ln(n)/t records or fewer have is left out: tau p at p = m/n
    "smooth_alpha": lambda at: _laplace(at) ** (1 - 1 / at.k),
    "clipping_bias no_radius core_norm shrinking_ball universal_location shifted_radius": (
        lambda at: 0.3
    ),
    "affine_invariance public_location public_norm": lambda at: 0.3,
    "naive_radius": lambda at: at.radius * _laplace(at),
    "bounds_location": lambda at: at.location / 2 * _laplace(at),  # the bin that ends beyond it
    # all of 2R noises are below n/4: of the tails exp(-epsilon x) and exp(-rho x^2)
    "coarse_log_radius range_log_radius coarse_epsilon range_epsilon shrinking_log_radius": (
        lambda at: at.log_radius * _laplace(at)
    ),
    "coarse_log_radius_zcdp range_log_radius_zcdp": (
        lambda at: math.sqrt(at.log_radius) * _gaussian(at)
    ),
    # the fullest bin, or the core, is above the bound that noise exceeds with probability delta
    "coarse_delta range_delta core_delta core_epsilon": lambda at: at.delta * _laplace(at),
    # Z24, (1.1): d Laplace numbers of scale 2 L sqrt(d)/n; (1.3): of variance 8 ln(1.25/delta)/n^2
    "pure_dimension ball_radius bounded_n": lambda at: at.radius * at.d / at.n,
    "gaussian_dimension classical_delta": lambda at: math.sqrt(at.d * at.delta) / at.n,
    # the noise in d coordinates of a ball of radius R + sqrt(d)
    "ball_dimension": lambda at: math.sqrt(at.d) * math.sqrt(at.d) * _gaussian(at),
    "naive_ball": lambda at: at.radius * math.sqrt(at.d) * _gaussian(at),
    "sampling_dimension": lambda at: math.sqrt(at.d / at.n),
    # KSU20, Lemma 4.3: outside of radius sqrt(d) T a bias of T^(1-k); noise in d coordinates
    "heavy_ball_alpha heavy_ball_dimension heavy_ball_rho": lambda at: _clipped(
        at, at.d * _gaussian(at)
    ),
    # the second term of Theorem 5.8: its n, solved for alpha
    "cover_alpha": lambda at: _laplace(at) ** ((at.k - 1) / at.k),
    # releases of norm sqrt(d)/epsilon, averaged
    "unit_dimension unit_epsilon": lambda at: math.sqrt(at.d / at.n) / at.epsilon,
    # people's means clipped as normal ones are; as n m records are, of which one shows
    "person_light_alpha person_light_m": lambda at: _laplace(at) / math.sqrt(at.m),
    "person_heavy_alpha person_heavy_m": lambda at: _clipped(at, _laplace(at) / at.m),
}
# Limits and factors; NaN where the claim gives the number. Between two regimes: the larger.
NUMBERS = {
    **dict.fromkeys(["exact_error", "exact_mean_error", "exact_noise", "exact_private_part"], 1.0),
    **dict.fromkeys(
        ["exact_samples", "exact_bias", "exact_rmse", "best_rmse", "minimax_risk"], 1.0
    ),
    **dict.fromkeys(
        ["exact_miss", "exact_width", "sign_constant", "transformed_noise", "hourglass"], 1.0
    ),
    **dict.fromkeys(["exact_promise", "exact_tv", "stated_width", "depth_alpha"], 1.0),
    "unbiased": 0.0,
    "near_optimal": 2.5 / 2,
    "sampling_constant": 1.0,
    "heavy_tail_guarantee": 1.0,  # the error over alpha
    "interval_coverage": KarwaVadhanInterval(radius=1.0).beta,
    "median_bias_coverage": SubsampleInterval(parts=5, base={"kind": "binary_mean"}).beta,
    "inverted_coverage": BergerBoosInterval(lower=-1.0, upper=1.0).beta,
    "bootstrap_coverage": PrivateBootstrapInterval(lower=-1.0, upper=1.0, resamples=100).beta,
    "coverage": ShrinkingIntervals(radius=1.0, sigma=1).beta,
    "range_margin": 2.0 / 2.0,  # within 3r of the middle and r inside: 2r over 2r
    "covariance_alpha": 2.0,
    **dict.fromkeys(["within", "range_outside", "analytic_delta", "noise_ratio"], math.nan),
    **dict.fromkeys(
        ["discard_ratio", "core_weight", "bounds_share", "sum_and_count", "two_regimes"], math.nan
    ),
    **dict.fromkeys(
        [
            "inverse_ratio",
            "column_shares",
            "noise_for_vectors",
            "entry_noise",
            "hourglass_gain",
            "polyplace_ratio",
            "depth_ratio",
        ],
        math.nan,
    ),
    # equal orders have a rank correlation of 1, and the best estimator loses a factor of 1
    **{
        f"{name}{metric}": 1.0
        for name in ("same_order", "no_choice_loss")
        for metric in ("", "_rmse")
    },
}


def _slope(error: Error, name: str, at: At) -> float:
    """d ln error/d ln x."""
    h, x = 1e-4, getattr(at, name)
    up, down = (error(replace(at, **{name: x * math.exp(step)})) for step in (h, -h))
    return math.log(up / down) / (2 * h)


def _exponent(theorem: Theorem, error: Error, at: At) -> float:
    """At a fixed error d ln n/d ln x = -(d ln error/d ln x)/(d ln error/d ln n)."""
    in_n = _slope(error, "n", at)
    if theorem.variable in {"alpha", "n"}:
        return in_n if theorem.variable == "n" else -1 / in_n
    sign = -1 if theorem.variable in {"epsilon", "rho", "m"} else 1
    in_x = sign * _slope(error, theorem.variable, at)
    return in_x if theorem.of == "fixed_n" else -in_x / in_n


@pytest.mark.parametrize("k", [2.0, 6.0])
def test_the_theorems_predict_what_their_formulas_give(k: float) -> None:
    wanted = dict(NUMBERS)
    for names, error in ERRORS.items():
        for name in names.split():
            wanted[name] = _exponent(THEOREMS[name], error, At(k=k))
    assert set(wanted) == set(THEOREMS)
    for name, theorem in THEOREMS.items():
        assert theorem.predicted(k) == pytest.approx(wanted[name], abs=1e-6, nan_ok=True), name


def test_theorems_read_what_is_measured() -> None:
    for name, theorem in THEOREMS.items():
        assert theorem.metric in METRICS
        assert theorem.kind in KINDS
        if theorem.kind == "transfer":
            assert theorem.variable in ("order", "loss")
        else:
            assert theorem.variable in (theorem.kind.removesuffix("_of_n"), *VARIABLES)
        assert (theorem.floor is None) != theorem.at_most
        if theorem.of == "samples":  # the smallest n is of the error itself, for one alpha
            assert (theorem.metric, theorem.variable != "alpha") == ("q90", True)
        if theorem.variable == "limit":  # a core's weight and a bias are known, not only bounded
            assert theorem.at_most == (name not in {"core_weight", "unbiased"})
    # 1/alpha^2 + 1/(alpha epsilon)
    assert THEOREMS["covariance_alpha"].floor == 1
