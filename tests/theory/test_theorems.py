"""What the theorems predict, from their formulas."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from scipy import optimize

from dpbench.analysis.claim_kinds import KINDS
from dpbench.estimators import CoinPressMean, ShrinkingIntervals
from dpbench.metrics import METRICS, VARIABLES
from dpbench.theory.theorems import THEOREMS


def _slope(f: Callable[[float], float], x: float) -> float:
    """d ln f/d ln x."""
    h = 1e-4
    return (math.log(f(x * math.exp(h))) - math.log(f(x * math.exp(-h)))) / (2 * h)


def _n_for(error: Callable[[float], float], alpha: float) -> float:
    """The n at which a falling error is alpha."""
    found = optimize.brentq(
        lambda log_n: math.log(error(math.exp(log_n)) / alpha), -600, 600, xtol=1e-12, rtol=1e-14
    )
    return math.exp(found)


def _clipped(k: float, noise: Callable[[float], float]) -> Callable[[float], float]:
    """The error at the best T: a bias of at most T^(1-k), and T times the noise at n."""

    def error(n: float) -> float:
        t = ((k - 1) / noise(n)) ** (1 / k)
        assert t ** (1 - k) + t * noise(n) <= (1.1 * t) ** (1 - k) + 1.1 * t * noise(n)
        return float(t ** (1 - k) + t * noise(n))

    return error


def _keep_all(k: float, epsilon: float) -> Callable[[float], float]:
    """Clipped at n^(1/k), below which all records are: the noise alone."""
    return lambda n: n ** (1 / k) * math.log(10) / (epsilon * n)


def _central(k: float, epsilon: float) -> Callable[[float], float]:
    return _clipped(k, lambda n: math.log(10) / (epsilon * n))


def _local(k: float, epsilon: float) -> Callable[[float], float]:
    """Each record carries noise T/epsilon, so that their mean has T/(epsilon sqrt(n))."""
    return _clipped(k, lambda n: 1 / (epsilon * math.sqrt(n)))


def _two_terms(alpha: float, epsilon: float) -> float:
    return 1 / alpha**2 + 1 / (alpha * epsilon)


def _gaussian_tail(n: float) -> float:
    return math.sqrt(2 * math.log(max(20 * n, 2.0)))


def _naive(radius: float, epsilon: float = 1.0) -> Callable[[float], float]:
    """Theorem 1: clipped to R + t, with the noise of that."""
    return lambda n: 2 * (radius + _gaussian_tail(n)) / (epsilon * n) * math.log(10)


def _histogram(log_radius: float, epsilon: float) -> float:
    """Theorem 2: all of 2R noises of scale 2/epsilon are below n/4 with probability 0.9."""
    return 8 / epsilon * (log_radius + math.log(20))


def _gaussian_histogram(log_radius: float, rho: float) -> float:
    """The same of noises of variance 1/rho, by P(Z > x) = exp(-x^2/2 (1 + o(1)))."""
    return 4 / math.sqrt(rho) * math.sqrt(2 * (log_radius + math.log(20)))


def _stable_histogram(log_inverse_delta: float, epsilon: float) -> float:
    """The fullest bin is above the threshold 1 + 2/epsilon ln(1/(2 delta)), twice over."""
    return 2 * (1 + 2 / epsilon * (log_inverse_delta - math.log(2)))


def _shrinking(log_radius: float, epsilon: float) -> float:
    """ln R rounds that share the budget, of noises that fail with probability beta/ln R."""
    return 8 * math.e * log_radius / epsilon * math.log(20 * log_radius)


def _in_alpha(error: Callable[[float], float]) -> float:
    return -_slope(lambda alpha: _n_for(error, alpha), 1e-3)


def _in_budget(error: Callable[[float], Callable[[float], float]], alpha: float = 1e-3) -> float:
    return -_slope(lambda amount: _n_for(error(amount), alpha), 1e-2)


def _laplace_vectors(d: float, length: float = 1.0, n: float = 1e4) -> float:
    """PVA (1.1): the root mean square of d Laplace numbers of scale 2 L sqrt(d)/n."""
    return math.sqrt(d * 2 * (2 * length * math.sqrt(d) / n) ** 2)


def _gaussian_vectors(d: float, log_inverse_delta: float = 14.0, n: float = 1e4) -> float:
    """PVA (1.3), in logarithms lest they overflow: d numbers of variance 8 ln(1.25/delta)/n^2."""
    return math.sqrt(8 * d) * math.sqrt(log_inverse_delta + math.log(1.25)) / n


def _ball_radius(d: float, tail: float = math.log(100)) -> float:
    """gamma of CoinPress, which one Gaussian vector exceeds with probability 0.01."""
    return math.sqrt(d + 2 * math.sqrt(d * tail) + 2 * tail)


def _coinpress(radius: float, d: float, n: float, rounds: int) -> float:
    """The noise of the last round, by the schedule of BDKU20 at rho = 1/2."""
    gamma = _ball_radius(d)
    shares = [1 / (8 * (rounds - 1))] * (rounds - 1) + [3 / 8] if rounds > 1 else [1 / 2]
    for share in shares:
        sd = 2 * (radius + gamma) / n / math.sqrt(2 * share)
        radius = gamma * math.hypot(1 / math.sqrt(n), sd)
    return float(sd * math.sqrt(d))


def _ball(k: float, d: float, rho: float = 0.5) -> Callable[[float], float]:
    """KSU20, Lemma 4.3: outside of radius sqrt(d) T a bias of T^(1-k); noise in d coordinates."""
    return _clipped(k, lambda n: d * 2 / (math.sqrt(2 * rho) * n))


def _cover_term(alpha: float, k: float, d: float = 2.0, epsilon: float = 0.1) -> float:
    """The second term of Theorem 5.8, at beta = 0.1."""
    return float(d * math.log(d / 0.1) / (epsilon * alpha ** (k / (k - 1))))


def _core_released(log_inverse_delta: float, epsilon: float) -> float:
    """From which n on a full core, W = n, is surely above n/4 beneath Laplace noise of scale
    3/(epsilon/2), less the bound that it exceeds with probability delta/2."""
    return 4 / 3 * 6 / epsilon * (log_inverse_delta + math.log(10))


HUGE = 1e200  # ln R, or ln(1/delta), to see what is left of the constants beside it
DERIVED: dict[str, Callable[[float], float]] = {
    "heavy_tail_alpha": lambda k: _in_alpha(_central(k, 0.1)),
    "heavy_tail_epsilon": lambda k: _in_budget(lambda epsilon: _central(k, epsilon)),
    "heavy_tail_rho": lambda k: _in_budget(
        lambda rho: _clipped(k, lambda n: 1.6 / (math.sqrt(2 * rho) * n))
    ),
    "heavy_tail_private_part": lambda k: _in_alpha(_central(k, 0.1)),
    # KSU20, Claim 3.9: laws with p = 1/(epsilon n) cannot be told from p = 0; p tau = p^(1-1/k)
    "heavy_tail_lower_bound": lambda k: _in_alpha(lambda n: (1 / (0.1 * n)) ** (1 - 1 / k)),
    "heavy_tail_guarantee": lambda k: 1e-3 / 1e-3,  # the error over alpha
    "keep_all_alpha": lambda k: _in_alpha(_keep_all(k, 0.1)),
    "keep_all_epsilon": lambda k: _in_budget(lambda epsilon: _keep_all(k, epsilon)),
    "local_alpha": lambda k: _in_alpha(_local(k, 0.1)),
    "local_epsilon": lambda k: _in_budget(lambda epsilon: _local(k, epsilon)),
    "sampling": lambda k: _in_alpha(lambda n: 1.645 / math.sqrt(n)),
    "near_optimal": lambda k: 2.5 / 2,
    "sampling_regime": lambda k: -_slope(lambda alpha: _two_terms(alpha, 1.0), 1e-9),
    "private_regime": lambda k: -_slope(lambda alpha: _two_terms(alpha, 1e-9), 1.0),
    "bounded_private_part": lambda k: _in_alpha(lambda n: math.log(10) / (0.1 * n)),
    "bounded_epsilon": lambda k: _in_budget(lambda eps: lambda n: math.log(10) / (eps * n)),
    "bounded_rho": lambda k: _in_budget(lambda rho: lambda n: 1.645 / (math.sqrt(2 * rho) * n)),
    "clipping_bias": lambda k: _slope(lambda n: 0.3 + n**-0.5 + 1 / n, 1e30),
    "naive_radius": lambda k: _slope(lambda radius: _n_for(_naive(radius), 1e-3), 1e30),
    "coarse_log_radius": lambda k: _slope(lambda log_r: _histogram(log_r, 0.1), HUGE),
    "coarse_log_radius_zcdp": lambda k: _slope(lambda x: _gaussian_histogram(x, 0.1), HUGE),
    "coarse_epsilon": lambda k: -_slope(lambda epsilon: _histogram(230.0, epsilon), 0.1),
    "coarse_delta": lambda k: _slope(lambda x: _stable_histogram(x, 0.1), HUGE),
    # once the bin is right: clipped to its width and t
    "no_radius": lambda k: _slope(lambda radius: _naive(3.0)(1e4) + 0 * radius, 1e6),
    "fine_alpha": lambda k: _in_alpha(_naive(3.0)),
    "coverage": lambda k: ShrinkingIntervals(radius=1.0).beta,
    "coinpress_coverage": lambda k: CoinPressMean(radius=1.0).b,  # of one tail bound
    "shrinking_log_radius": lambda k: _slope(lambda x: _shrinking(x, 0.1), HUGE),
    "range_log_radius": lambda k: _slope(lambda log_r: _histogram(log_r, 0.1), HUGE),
    "range_log_radius_zcdp": lambda k: _slope(lambda x: _gaussian_histogram(x, 0.1), HUGE),
    "range_delta": lambda k: _slope(lambda x: _stable_histogram(x, 0.1), HUGE),
    "range_epsilon": lambda k: -_slope(lambda epsilon: _histogram(230.0, epsilon), 0.1),
    "range_containment": lambda k: 0.1,  # Theorem 3.3: right with probability 0.9
    "range_margin": lambda k: 2.0 / 2.0,  # within 3r of the middle and r inside: 2r over 2r
    "range_outside": lambda k: math.nan,  # alpha, which the claim says
    "learned_tv": lambda k: max(
        -_slope(lambda alpha: _two_terms(alpha, 1.0), alpha) for alpha in (1e-9, 1e9)
    ),
    "pure_dimension": lambda k: _slope(_laplace_vectors, 64.0),
    "gaussian_dimension": lambda k: _slope(_gaussian_vectors, 64.0),
    "bounded_n": lambda k: _slope(lambda n: _laplace_vectors(64.0, n=n), 1e3),
    "ball_radius": lambda k: _slope(lambda length: _laplace_vectors(64.0, length), 10.0),
    "classical_delta": lambda k: _slope(lambda x: _gaussian_vectors(64.0, x), HUGE),
    "analytic_delta": lambda k: math.nan,  # of the smallest noise at given delta; see below
    "noise_ratio": lambda k: math.nan,  # of d
    "ball_dimension": lambda k: _slope(
        lambda d: _n_for(lambda n: _coinpress(0.0, d, n, 1), 1e-3), 1e14
    ),
    # the 0.9 quantile of the norm of N(0, I/n), in a normal approximation
    "sampling_dimension": lambda k: _slope(
        lambda d: _n_for(lambda n: math.sqrt((d + 1.28 * math.sqrt(2 * d)) / n), 1e-3), 1e14
    ),
    "naive_ball": lambda k: _slope(lambda radius: _coinpress(radius, 50.0, 1e3, 1), 1e30),
    "shrinking_ball": lambda k: _slope(lambda radius: _coinpress(radius, 50.0, 4e3, 10), 1e3),
    "covariance_alpha": lambda k: max(
        -_slope(lambda alpha: _two_terms(alpha, 1.0), alpha) for alpha in (1e-9, 1e9)
    ),
    "heavy_ball_alpha": lambda k: _in_alpha(_ball(k, 64.0)),
    "heavy_ball_dimension": lambda k: _slope(lambda d: _n_for(_ball(k, d), 1e-3), 64.0),
    "heavy_ball_rho": lambda k: _in_budget(lambda rho: _ball(k, 64.0, rho)),
    "discard_ratio": lambda k: math.nan,  # of k
    "cover_alpha": lambda k: -_slope(lambda alpha: _cover_term(alpha, k), 1e-3),
    # friends are told by differences, which a shift leaves as they are
    "core_norm": lambda k: _slope(lambda norm: (norm + 3.0) - norm, 1e6),
    "core_weight": lambda k: math.nan,  # of the share of outliers
    "core_epsilon": lambda k: -_slope(lambda epsilon: _core_released(14.5, epsilon), 0.5),
    "core_delta": lambda k: _slope(lambda x: _core_released(x, 1.0), HUGE),
    "subsample_sampling": lambda k: _in_alpha(lambda n: 1.253 * math.sqrt(50 / n) / math.sqrt(50)),
}


@pytest.mark.parametrize("name", THEOREMS)
def test_the_theorems_predict_what_their_formulas_give(name: str) -> None:
    for k in (2.0, 3.0, 6.0):
        wanted = DERIVED[name](k)
        # Of ln R rounds a factor ln ln R remains, an exponent of 1/460 at ln R = 1e200; of a tail t
        # the root of ln n, one of 0.024 at alpha = 1e-3.
        limit = {"shrinking_log_radius": 3e-3, "fine_alpha": 0.03}.get(name, 1e-5)
        assert THEOREMS[name].predicted(k) == pytest.approx(wanted, abs=limit, nan_ok=True)


def test_both_terms_together_are_between_the_two_regimes() -> None:
    """learned_tv: at any alpha and epsilon the exponent of 1/alpha^2 + 1/(alpha epsilon)."""
    theorem = THEOREMS["learned_tv"]
    assert theorem.at_most
    for alpha in (1e-6, 1e-2, 0.3):
        for epsilon in (1e-4, 0.1, 10.0):
            e = -_slope(lambda a, epsilon=epsilon: _two_terms(a, epsilon), alpha)  # type: ignore[misc]
            assert 1 <= e <= 2 == theorem.predicted(2.0)


def test_theorems_read_what_is_measured() -> None:
    """Every metric is measured in each trial, and every variable is known."""
    for name, theorem in THEOREMS.items():
        assert theorem.metric in METRICS or theorem.metric == "lower_bound"
        assert theorem.kind in KINDS
        assert theorem.variable in (theorem.kind, *VARIABLES)
        assert (theorem.floor is None) != theorem.at_most
        if theorem.of == "samples":  # the smallest n is of the error itself
            assert theorem.metric == "q90"
        if theorem.variable == "limit":  # the core's weight is known, not only bounded
            assert theorem.at_most == (name != "core_weight")
