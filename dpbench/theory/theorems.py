"""State what the theorems predict: exponents, limits, and factors over a lower bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["THEOREMS", "Subject", "Theorem"]

# The subject of a claim: a theorem, or the code against the formula that it computes.
Subject = Literal["theorem", "code"]


@dataclass(frozen=True)
class Theorem:
    """State a relation of n, the error alpha, the budget, the radius R and the moment order k.

    Attributes
    ----------
    source : str
        Where it is proved.
    variable : str
        ``alpha``: the e in n ~ (1/alpha)^e. Another of `dpbench.sweep.metrics.VARIABLES`: the s in
        n ~ x^s at fixed alpha. ``n``: the exponent of the error in n. ``level``, ``factor``,
        ``ratio``, ``limit``: see `dpbench.analysis.kinds`.
    predicted : callable
        The number at a moment order k.
    metric : str
        The column of a summary that the error is read from, at its worst over a family.
    of : {'error', 'samples', 'fixed_n'}
        What an exponent is fitted to: errors at given n, the smallest n for given alpha (a
        threshold), or, with ``fixed_n``, the c in error ~ x^c.
    at_most, lowest : bool, float
        Whether the number is an upper limit, and what it exceeds all the same.
    """

    source: str
    variable: str
    predicted: Callable[[float], float]
    metric: str = "q90"
    of: Literal["error", "samples", "fixed_n"] = "error"
    at_most: bool = False
    lowest: float = 0.0

    @property
    def kind(self) -> str:
        """What kind of claim tests it."""
        if self.variable in ("level", "factor", "ratio", "limit"):
            return "level_of_n" if self.of == "samples" else self.variable
        return "smallest_n" if self.of == "samples" else "exponent"

    @property
    def subject(self) -> Subject:
        """Return the default subject: the code, where it has the exact value at every n."""
        return "code" if self.kind in ("level", "level_of_n") else "theorem"

    @property
    def leaves_open(self) -> bool:
        """Whether the claim gives the number."""
        return math.isnan(self.predicted(2.0))

    @property
    def floor(self) -> float | None:
        """Where the region of an upper limit begins; None for a value."""
        return self.lowest if self.at_most else None


def _rate(k: float) -> float:
    return k / (k - 1)


def _is(value: float) -> Callable[[float], float]:
    return lambda _: value


KSU20 = "KSU20 Thm 3.5"

THEOREMS = {
    # n ~ 1/(epsilon alpha^(k/(k-1))), the private term of Theorem 3.5
    "heavy_tail_alpha": Theorem(KSU20, "alpha", _rate),
    "heavy_tail_epsilon": Theorem(KSU20, "epsilon", _is(1)),
    "heavy_tail_rho": Theorem("KSU20 Thm 3.7", "rho", _is(1 / 2)),
    # the same as an upper bound on what privacy costs on one law
    "heavy_tail_private_part": Theorem(KSU20, "alpha", _rate, metric="private_q90", at_most=True),
    "heavy_tail_guarantee": Theorem(KSU20, "limit", _is(1), metric="promise_q90", at_most=True),
    # the promise is a bound; the error over the promise has an exact value
    "exact_promise": Theorem("exact law", "level", _is(1), metric="promise_q90"),
    # clipping at tau = n^(1/k): alpha ~ tau/(epsilon n), so n ~ (1/(alpha epsilon))^(k/(k-1))
    "keep_all_alpha": Theorem("Lecture 15", "alpha", _rate),
    "keep_all_epsilon": Theorem("Lecture 15", "epsilon", _rate),
    "local_alpha": Theorem("DJW13, KSU20 1.2", "alpha", lambda k: 2 * k / (k - 1)),
    "local_epsilon": Theorem("DJW13, KSU20 1.2", "epsilon", _is(2)),
    "sampling": Theorem("Central limit", "alpha", _is(2), metric="sampling_q90"),
    # No theorem promises a constant: this is the project's own yardstick, half of 2.5 for the
    # bound with one sign. An error below the bound itself would be a broken estimator or bound.
    "near_optimal": Theorem("Lower bound", "factor", _is(1.25), at_most=True, lowest=1.0),
    # The claim gives its own number, which may come from earlier runs: its reason says so.
    "within": Theorem("Lower bound", "factor", _is(math.nan), at_most=True, lowest=1.0),
    # n = 1/alpha^2 + 1/(alpha epsilon), in its two regimes and term by term
    "sampling_regime": Theorem("Lecture 15", "alpha", _is(2)),
    "private_regime": Theorem("Lecture 15", "alpha", _is(1)),
    "bounded_private_part": Theorem("Lecture 15", "alpha", _is(1), metric="private_q90"),
    "bounded_epsilon": Theorem("Lecture 15", "epsilon", _is(1), metric="private_q90"),
    "bounded_rho": Theorem("Lecture 15", "rho", _is(1 / 2), metric="private_q90"),
    # too tight a clip: a bias that no n removes
    "clipping_bias": Theorem("Lecture 15", "n", _is(0)),
    # Theorem 1: n ~ R/(alpha epsilon); Theorem 2: the histogram works from n ~ ln(R)/epsilon on
    "naive_radius": Theorem("Lecture 15 Thm 1", "radius", _is(1), of="samples"),
    "coarse_log_radius": Theorem("Lecture 15 Thm 2", "log_radius", _is(1), of="samples"),
    "coarse_log_radius_zcdp": Theorem("Lecture 15 Thm 2", "log_radius", _is(1 / 2), of="samples"),
    "coarse_epsilon": Theorem("Lecture 15 Thm 2", "epsilon", _is(1), of="samples"),
    "coarse_delta": Theorem("KV18 Thm 3.1", "delta", _is(1), of="samples"),
    # above the threshold the error does not depend on R
    "no_radius": Theorem("Lecture 15 Thm 2", "radius", _is(0), of="fixed_n"),
    "fine_alpha": Theorem("Lecture 15 Thm 2", "alpha", _is(1), metric="private_q90"),
    # intervals hold the mean with probability 1 - beta, beta = 0.1
    "coverage": Theorem("Lecture 15 Claim 4", "limit", _is(0.1), "miss_rate", at_most=True),
    "interval_coverage": Theorem("KV18", "limit", _is(0.1), "miss_rate", at_most=True),
    "exact_miss": Theorem("exact law", "level", _is(1), "miss_rate"),
    "exact_width": Theorem("exact law", "level", _is(1), "width_ratio_q50"),
    "stated_width": Theorem("exact law", "level", _is(1), "width_q50"),
    "shrinking_log_radius": Theorem("Lecture 15 Claim 4", "log_radius", _is(1), of="samples"),
    # the range works from n ~ ln(R)/epsilon, sqrt(ln(R)/rho) or ln(1/delta)/epsilon on
    "range_log_radius": Theorem("KSU20 Thm 3.3", "log_radius", _is(1), of="samples"),
    "range_log_radius_zcdp": Theorem("KSU20 Thm 3.4", "log_radius", _is(1 / 2), of="samples"),
    "range_delta": Theorem("KSU20 Thm 3.4", "delta", _is(1), of="samples"),
    "range_epsilon": Theorem("KSU20 Thm 3.3", "epsilon", _is(1), of="samples"),
    "range_margin": Theorem("KSU20 Thm 3.3", "limit", _is(1), "promise_q90", at_most=True),
    # at most alpha n records outside; the claim gives its alpha as the limit
    "range_outside": Theorem("KSU20 Thm 3.3", "limit", _is(math.nan), "outside_q90", at_most=True),
    "exact_tv": Theorem("exact law", "level", _is(1), "tv_q90"),
    # error = L d/(n epsilon), or L sqrt(d ln(1/delta))/(n epsilon) by a Gaussian whose standard
    # deviation is classical; the smallest one's exponent in delta is not 1/2 at epsilon = 1
    "pure_dimension": Theorem("PVA (1.2)", "d", _is(1), "mean_error", "fixed_n"),
    "gaussian_dimension": Theorem("PVA (1.4)", "d", _is(1 / 2), "mean_error", "fixed_n"),
    "bounded_n": Theorem("PVA (1.2), (1.4)", "n", _is(-1)),
    "ball_radius": Theorem("PVA, remark", "radius", _is(1), of="fixed_n"),
    "classical_delta": Theorem("PVA (1.4)", "delta", _is(1 / 2), of="fixed_n"),
    "analytic_delta": Theorem("Balle, Wang 2018", "delta", _is(math.nan), of="fixed_n"),
    "noise_ratio": Theorem("Hardt, Talwar 2010", "ratio", _is(math.nan), "mean_error"),
    # n = d/alpha^2 + d/(alpha sqrt(rho)) + sqrt(d ln(R)/rho): its private term, and the sampling
    "ball_dimension": Theorem("Lecture 15 Thm 5", "d", _is(1), "private_q90"),
    "sampling_dimension": Theorem("Lecture 15 Thm 5", "d", _is(1), "sampling_q90"),
    "naive_ball": Theorem("Lecture 15 Thm 5", "radius", _is(1), "private_q90", "fixed_n"),
    "shrinking_ball": Theorem("Lecture 15 Thm 5", "radius", _is(0), "q90", "fixed_n"),
    # diameter sqrt(d/rho)/n, a Gaussian's diameter being sqrt(d) or |sigma|_2; and |sigma|_1
    "shifted_dimension": Theorem("HLY21", "d", _is(1), "noise_q90", "fixed_n"),
    # variances (d/i)^2: |sigma|_2 grows like d, not like its root
    "shifted_dimension_steep": Theorem("HLY21", "d", _is(3 / 2), "noise_q90", "fixed_n"),
    "shifted_rho": Theorem("HLY21", "rho", _is(1 / 2), "noise_q90", "fixed_n"),
    "shifted_radius": Theorem("HLY21", "radius", _is(0), "q90", "fixed_n"),
    "plan_dimension": Theorem("PLAN", "d", _is(1), "noise_q90", "fixed_n"),
    # sampling n = d^2/alpha^2, privacy n = d^2/(alpha sqrt(rho)): between the two
    "covariance_alpha": Theorem("BDKU20 Thm 3.3", "alpha", _is(2), at_most=True, lowest=1.0),
    # n = d/(alpha^(k/(k-1)) sqrt(rho)), the private term of Theorems 4.6 and 4.7
    "heavy_ball_alpha": Theorem("KSU20 Thm 4.6", "alpha", _rate, "private_q90"),
    "heavy_ball_dimension": Theorem("KSU20 Thm 4.6", "d", _is(1), "private_q90"),
    "heavy_ball_rho": Theorem("KSU20 Thm 4.6", "rho", _is(1 / 2), "private_q90"),
    "discard_ratio": Theorem("KSU20 Lemma 4.3", "ratio", _is(math.nan), "mean_error"),
    "cover_alpha": Theorem("KSU20 Thm 5.8", "alpha", _rate),
    # the core does not know where it is; a share eta of far outliers leaves (1-eta)(1-2 eta) of it
    "core_norm": Theorem("Lecture 17, TCKMS22", "norm", _is(0), of="fixed_n"),
    "core_weight": Theorem("Lecture 17, TCKMS22", "limit", _is(math.nan), "core_q50"),
    "core_epsilon": Theorem("Lecture 17, TCKMS22", "epsilon", _is(1), of="samples"),
    "core_delta": Theorem("Lecture 17, TCKMS22", "delta", _is(1), of="samples"),
    # symmetric laws: no bias, wherever the mean is
    "unbiased": Theorem("KMRSSU23", "limit", _is(0), "signed_mean"),
    # without bounds: linear in |mu| where bounds begin at a power of two, and not where they do not
    "bounds_location": Theorem("WZLDSG20", "location", _is(1), "noise_q90", "fixed_n"),
    "universal_location": Theorem("DY23", "location", _is(0), of="fixed_n"),
    # excess risk d s^2/n of least squares and d^2/(n^2 rho) of noise: the error is its root
    "regression_n": Theorem("Lecture 17, W18", "n", _is(-1), "noise_q90"),
    "regression_rho": Theorem("Lecture 17, W18", "rho", _is(1 / 2), "noise_q90", "fixed_n"),
    "regression_dimension": Theorem("Lecture 17, W18", "d", _is(1), "noise_q90", "fixed_n"),
    # private median of means: with a fixed number of buckets all errors fall like sampling error
    "subsample_sampling": Theorem("Lecture 17", "alpha", _is(2)),
    # the error in the norm of the covariance does not depend on it
    "affine_invariance": Theorem("BHS23, KDH23", "condition", _is(0), of="fixed_n"),
    # what leaves a rare point out; the known (1/(alpha epsilon))^2 holds for all laws of k = 2
    "smooth_alpha": Theorem("BS19, on rare points", "alpha", _rate),
    "inverse_ratio": Theorem("AD20", "ratio", _is(math.nan), "noise_q90"),
    # what was measured over its exact value, computed without drawing: `dpbench.theory.exact.value`
    "exact_error": Theorem("exact law", "level", _is(1)),
    "exact_mean_error": Theorem("exact law", "level", _is(1), "mean_error"),
    "exact_bias": Theorem("exact law", "level", _is(1), "signed_mean"),
    "exact_rmse": Theorem("exact law", "level", _is(1), "rmse"),
    # (n epsilon)^2 MSE = 2 (m^2 + (1-m)^2), by Laplace noise; of a sum and a count twice that
    "transformed_noise": Theorem("KSW23", "level", _is(1), "rmse"),
    "sum_and_count": Theorem("KSW23, G20", "ratio", _is(math.nan), "rmse"),
    "minimax_risk": Theorem("GRS09, GS10", "level", _is(1), "rmse"),
    "exact_noise": Theorem("exact law", "level", _is(1), "noise_q90"),
    "exact_private_part": Theorem("exact law", "level", _is(1), "private_q90"),
    "exact_samples": Theorem("exact law", "level", _is(1), of="samples"),
    # sd -> sqrt(pi/2) (e^epsilon + 1)/(e^epsilon - 1)/sqrt(n), the least of the local model
    "sign_constant": Theorem("KS25", "level", _is(1), "rmse"),
    # n ~ d/(alpha^2 min(epsilon, epsilon^2)) for vectors of norm 1, each released by itself
    "unit_dimension": Theorem("AFT22", "d", _is(1 / 2), "rmse", "fixed_n"),
    "unit_epsilon": Theorem("AFT22", "epsilon", _is(1), "rmse", "fixed_n"),
    # n = 1/(alpha^2 m) + 1/(epsilon alpha sqrt(m)) + 1/(epsilon alpha^(k/(k-1)) m) + 1/epsilon
    "person_light_alpha": Theorem("AKMMSU24", "alpha", _is(1)),
    "person_light_m": Theorem("AKMMSU24", "m", _is(1 / 2)),
    "person_heavy_alpha": Theorem("AKMMSU24", "alpha", _rate),
    "person_heavy_m": Theorem("AKMMSU24", "m", _is(1)),
    # over the lower bound: the same normal quantile where sampling alone counts; where privacy
    # does, too, the claim says it
    "sampling_constant": Theorem("Central limit", "factor", _is(1)),
    "two_regimes": Theorem("Lower bound", "factor", _is(math.nan)),
}
