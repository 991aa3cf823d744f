"""What the theorems predict, from their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest

from dpbench.analysis.claims import KINDS
from dpbench.estimators import CoinPressMean, ShrinkingIntervals
from dpbench.metrics import METRICS, VARIABLES
from dpbench.theory.theorems import THEOREMS, Theorem

HUGE = 1e200  # ln R, or ln(1/delta), to see what is left of the constants beside it


@dataclass(frozen=True)
class At:
    """What errors are formulas of."""

    n: float = 1e30
    k: float = 2.0
    epsilon: float = 0.1
    rho: float = 0.1
    delta: float = HUGE  # ln(1/delta)
    radius: float = 1e40
    log_radius: float = HUGE
    d: float = 1e14
    norm: float = 1e6


Error = Callable[[At], float]


def _clipped(at: At, noise: float) -> float:
    """At the best T: a bias of at most T^(1-k), and T times the noise."""
    t = ((at.k - 1) / noise) ** (1 / at.k)
    assert t ** (1 - at.k) + t * noise <= (1.1 * t) ** (1 - at.k) + 1.1 * t * noise
    return float(t ** (1 - at.k) + t * noise)


def _laplace(at: At) -> float:
    """The 0.9 quantile at sensitivity 1/n."""
    return math.log(10) / (at.epsilon * at.n)


def _gaussian(at: At) -> float:
    return 1.645 / (math.sqrt(2 * at.rho) * at.n)


def _naive(at: At) -> float:
    """Theorem 1: clipped to R + t, with the noise of that."""
    return 2 * (at.radius + math.sqrt(2 * math.log(20 * at.n))) * _laplace(at)


def _histogram(at: At) -> float:
    """Theorem 2: all of 2R noises of scale 2/epsilon are below n/4 with probability 0.9.

    A threshold, as are the next: the n that is needed, over n.
    """
    return 8 / at.epsilon * (at.log_radius + math.log(20)) / at.n


def _gaussian_histogram(at: At) -> float:
    """The same of noises of variance 1/rho, by P(Z > x) = exp(-x^2/2 (1 + o(1)))."""
    return 4 / math.sqrt(at.rho) * math.sqrt(2 * (at.log_radius + math.log(20))) / at.n


def _stable_histogram(at: At) -> float:
    """The fullest bin is above the threshold 1 + 2/epsilon ln(1/(2 delta)), twice over."""
    return 2 * (1 + 2 / at.epsilon * (at.delta - math.log(2))) / at.n


def _shrinking(at: At) -> float:
    """ln R rounds that share the budget, of noises that fail with probability beta/ln R."""
    return 8 * math.e * at.log_radius / at.epsilon * math.log(20 * at.log_radius) / at.n


def _core(at: At) -> float:
    """A full core, W = n, is surely above n/4 beneath Laplace noise of scale 3/(epsilon/2), less
    the bound that it exceeds with probability delta/2."""
    return 4 / 3 * 6 / at.epsilon * (at.delta + math.log(10)) / at.n


def _laplace_vectors(at: At) -> float:
    """PVA (1.1): the root mean square of d Laplace numbers of scale 2 L sqrt(d)/n."""
    return math.sqrt(at.d * 2 * (2 * at.radius * math.sqrt(at.d) / at.n) ** 2)


def _gaussian_vectors(at: At) -> float:
    """PVA (1.3): d numbers of variance 8 ln(1.25/delta)/n^2."""
    return math.sqrt(8 * at.d) * math.sqrt(at.delta + math.log(1.25)) / at.n


def _coinpress(at: At, rounds: int) -> float:
    """The noise of the last round, by the schedule of BDKU20 at rho = 1/2."""
    tail = math.log(100)  # gamma is exceeded by one Gaussian vector with probability 0.01
    gamma = math.sqrt(at.d + 2 * math.sqrt(at.d * tail) + 2 * tail)
    radius = at.radius
    for share in [1 / (8 * (rounds - 1))] * (rounds - 1) + [3 / 8] if rounds > 1 else [1 / 2]:
        sd = 2 * (radius + gamma) / at.n / math.sqrt(2 * share)
        radius = gamma * math.hypot(1 / math.sqrt(at.n), sd)
    return float(sd * math.sqrt(at.d))


def _heavy_ball(at: At) -> float:
    """KSU20, Lemma 4.3: outside of radius sqrt(d) T a bias of T^(1-k); noise in d coordinates."""
    return _clipped(at, at.d * _gaussian(at))


ERRORS: dict[str, Error] = {
    "heavy_tail_alpha heavy_tail_epsilon heavy_tail_private_part": lambda at: _clipped(
        at, _laplace(at)
    ),
    "heavy_tail_rho": lambda at: _clipped(at, _gaussian(at)),
    # KSU20, Claim 3.9: laws with p = 1/(epsilon n) cannot be told from p = 0; p tau = p^(1-1/k)
    "heavy_tail_lower_bound": lambda at: (1 / (at.epsilon * at.n)) ** (1 - 1 / at.k),
    # clipped at n^(1/k), below which all records are: the noise alone
    "keep_all_alpha keep_all_epsilon": lambda at: at.n ** (1 / at.k) * _laplace(at),
    # each record carries noise T/epsilon, so that their mean has T/(epsilon sqrt(n))
    "local_alpha local_epsilon": lambda at: _clipped(at, 1 / (at.epsilon * math.sqrt(at.n))),
    "sampling sampling_regime subsample_sampling": lambda at: 1.645 / math.sqrt(at.n),
    "private_regime bounded_private_part bounded_epsilon": _laplace,
    "bounded_rho": _gaussian,
    "clipping_bias": lambda at: 0.3 + at.n**-0.5 + 1 / at.n,
    "naive_radius": _naive,
    # once the bin is right: clipped to its width and t
    "no_radius fine_alpha": lambda at: _naive(replace(at, radius=3.0)),
    "coarse_log_radius range_log_radius coarse_epsilon range_epsilon": _histogram,
    "coarse_log_radius_zcdp range_log_radius_zcdp": _gaussian_histogram,
    "coarse_delta range_delta": _stable_histogram,
    "shrinking_log_radius": _shrinking,
    "core_delta core_epsilon": _core,
    "core_norm": lambda at: (at.norm + 3.0) - at.norm,  # friends are told by differences
    "pure_dimension ball_radius bounded_n": _laplace_vectors,
    "gaussian_dimension classical_delta": _gaussian_vectors,
    "ball_dimension": lambda at: _coinpress(replace(at, radius=0.0), 1),
    "naive_ball": lambda at: _coinpress(at, 1),
    "shrinking_ball": lambda at: _coinpress(replace(at, n=4e3, d=50, radius=at.radius / 1e37), 10),
    # the 0.9 quantile of the norm of N(0, I/n), in a normal approximation
    "sampling_dimension": lambda at: math.sqrt((at.d + 1.28 * math.sqrt(2 * at.d)) / at.n),
    "heavy_ball_alpha heavy_ball_dimension heavy_ball_rho": _heavy_ball,
    # the second term of Theorem 5.8, at beta = 0.1: its n, solved for alpha
    "cover_alpha": lambda at: (math.log(20) / (at.epsilon * at.n)) ** ((at.k - 1) / at.k),
}  # fmt: skip
# Limits and factors; NaN where the claim gives the number. Between two regimes: the larger.
NUMBERS = {
    "near_optimal": 2.5 / 2,
    "heavy_tail_guarantee": 1.0,  # the error over alpha
    "coverage": ShrinkingIntervals(radius=1.0).beta,
    "coinpress_coverage": CoinPressMean(radius=1.0).b,  # of one tail bound
    "range_containment": 0.1,  # Theorem 3.3: right with probability 0.9
    "range_margin": 2.0 / 2.0,  # within 3r of the middle and r inside: 2r over 2r
    **dict.fromkeys(["learned_tv", "covariance_alpha"], 2.0),
    **dict.fromkeys(["range_outside", "analytic_delta", "noise_ratio"], math.nan),
    **dict.fromkeys(["discard_ratio", "core_weight"], math.nan),
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
    sign = -1 if theorem.variable in {"epsilon", "rho"} else 1
    in_x = sign * _slope(error, theorem.variable, at)
    return in_x if theorem.of == "fixed_n" else -in_x / in_n


@pytest.mark.parametrize("k", [2.0, 3.0, 6.0])
def test_the_theorems_predict_what_their_formulas_give(k: float) -> None:
    wanted = dict(NUMBERS)
    for names, error in ERRORS.items():
        for name in names.split():
            wanted[name] = _exponent(THEOREMS[name], error, At(k=k))
    assert set(wanted) == set(THEOREMS)
    for name, theorem in THEOREMS.items():
        # Of ln R rounds a factor ln ln R remains, an exponent of 1/460 at ln R = 1e200; of a tail t
        # the root of ln n, one of 0.006 at n = 1e30.
        limit = {"shrinking_log_radius": 3e-3, "fine_alpha": 0.01}.get(name, 1e-5)
        assert theorem.predicted(k) == pytest.approx(wanted[name], abs=limit, nan_ok=True), name


def test_theorems_read_what_is_measured() -> None:
    """Every metric is measured in each trial, and every variable is known."""
    for name, theorem in THEOREMS.items():
        assert theorem.metric in METRICS or theorem.metric == "lower_bound"
        assert theorem.kind in KINDS
        assert theorem.variable in (theorem.kind, *VARIABLES)
        assert (theorem.floor is None) != theorem.at_most
        if theorem.of == "samples":  # the smallest n is of the error itself, for one alpha
            assert theorem.metric == "q90"
            assert theorem.variable != "alpha"
        if theorem.variable == "limit":  # the core's weight is known, not only bounded
            assert theorem.at_most == (name != "core_weight")
        if name in {"learned_tv", "covariance_alpha"}:  # 1/alpha^2 + 1/(alpha epsilon)
            assert theorem.floor == 1
