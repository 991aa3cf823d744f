"""Predictions of theorems: exponents, limits, and factors over a lower bound."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

__all__ = ["CODE", "THEOREMS", "Subject", "Theorem"]

# A claim is about a theorem; about a target, a number that no publication states as a theorem; or
# about the code, which is compared with an exact formula.
Subject = Literal["theorem", "target", "code"]
CODE: Subject = "code"


@dataclass(frozen=True)
class Theorem:
    """Prediction of a theorem about an error, for example an exponent or an upper limit.

    The error alpha of an estimator depends on the number n of records, the budget and other
    variables. Examples are the moment order k and the radius R, a public bound on the mean.

    Attributes
    ----------
    source : str
        Key of the publication, with the number of the theorem or a remark that the number was not
        checked.
    variable : str
        Meaning of the predicted number:

        - ``alpha``: the exponent e in n ~ (1/alpha)^e.
        - ``n``: the exponent of the error in n.
        - another key of `dpbench.sweep.metrics.VARIABLES`, such as ``epsilon``: the exponent s in
          n ~ x^s at fixed alpha. For the keys ``epsilon``, ``rho``, ``mu`` and ``m`` (records of a
          person), x is 1/epsilon, 1/rho, 1/mu and 1/m. For ``delta``, x is ln(1/delta). For
          ``log_radius``, x is ln R. For keys such as ``radius`` or ``d``, x is the value itself.
        - ``level``: the measured value of `metric`, divided by the exact value.
        - ``best_value``: the parameter with the smallest value of `metric`, divided by the
          parameter with the smallest exact value.
        - ``error_over_bound``: the error divided by its lower bound.
        - ``ratio``: the error of one estimator divided by the error of another.
        - ``limit``: the worst value of `metric`.
        - ``order``: the rank correlation of the estimators' errors on two distributions.
        - ``loss``: the error of the estimator that is best on another distribution, divided by the
          smallest error.
    predicted : callable
        Function of the moment order k that returns the predicted number. NaN if the configuration
        of the claim has to give the number.
    metric : str
        Column of the summary that holds the error; ``q90``, the 0.9 quantile, by default. The
        largest error over the members of a family counts.
    of : {'error', 'samples', 'fixed_n'}
        Data from which the measured number is computed, to be compared with the prediction.
        ``error`` (the default): errors at several n. ``samples``: the smallest n with an error of
        at most alpha. ``fixed_n``: errors at one n; the predicted number is then the s in
        error ~ x^s, with the x of `variable`.
    at_most : bool
        Whether the prediction is an upper limit. False by default.
    lowest : float
        Lower limit that the theorem predicts in addition to an upper limit; 0 by default.
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
        """Kind of claim that tests the theorem, such as ``exponent`` or ``error_over_bound``."""
        if self.variable in ("order", "loss"):
            return "transfer"
        if self.variable in ("level", "best_value", "error_over_bound", "ratio", "limit"):
            return "level_of_n" if self.of == "samples" else self.variable
        return "smallest_n" if self.of == "samples" else "exponent"

    @property
    def subject(self) -> Subject:
        """Default subject of a claim that names this prediction.

        ``code`` for exact values, because they are known at every n. ``target`` for a convention of
        dpbench about lower bounds, or a hypothesis. ``theorem`` otherwise.
        """
        if self.kind in ("level", "level_of_n", "best_value"):
            return CODE
        return "target" if self.source in (TARGET, TRANSFER) else "theorem"

    @property
    def leaves_open(self) -> bool:
        """True if the theorem states no number; the claim's configuration then gives it."""
        return math.isnan(self.predicted(2.0))

    @property
    def floor(self) -> float | None:
        """Lower limit of a prediction that also has an upper limit; None for other predictions."""
        return self.lowest if self.at_most else None


def _rate(k: float) -> float:
    """Return k/(k-1), the exponent e in n ~ (1/alpha)^e for bounded k-th moments.

    n is the number of records for an error alpha.
    """
    return k / (k - 1)


def _is(value: float) -> Callable[[float], float]:
    """Return the constant function that maps every moment order k to `value`."""
    return lambda _: value


KSU20 = "KSU20, Theorem 3.5"
# Sources of predictions that no publication states.
EXACT = "exact value"
BOUND = "lower bound"
TARGET = "lower bound, with a factor of our own"
# A hypothesis that users of simulations rely on; no publication states it as a theorem.
TRANSFER = "hypothesis of users of simulations"

THEOREMS = {
    # KSU20, Theorem 3.5: private term n ~ 1/(epsilon alpha^(k/(k-1))).
    "heavy_tail_alpha": Theorem(KSU20, "alpha", _rate),
    "heavy_tail_epsilon": Theorem(KSU20, "epsilon", _is(1)),
    "heavy_tail_rho": Theorem("KSU20, Theorem 3.7", "rho", _is(1 / 2)),
    # Upper bound on the private part of the error under a single distribution.
    "heavy_tail_private_part": Theorem(
        KSU20, "alpha", _rate, metric="privacy_cost_q90", at_most=True
    ),
    "heavy_tail_guarantee": Theorem(
        KSU20, "limit", _is(1), metric="error_over_guarantee_q90", at_most=True
    ),
    # The guaranteed error is a bound only, but the quotient error/guarantee has an exact value.
    "exact_promise": Theorem(EXACT, "level", _is(1), metric="error_over_guarantee_q90"),
    # Clipping at tau = n^(1/k): alpha ~ tau/(epsilon n), so n ~ (1/(alpha epsilon))^(k/(k-1)).
    "keep_all_alpha": Theorem("L15, handwritten notes", "alpha", _rate),
    "keep_all_epsilon": Theorem("L15, handwritten notes", "epsilon", _rate),
    "local_alpha": Theorem("KSU20, section 1.2, on DJW13", "alpha", lambda k: 2 * k / (k - 1)),
    "local_epsilon": Theorem("KSU20, section 1.2, on DJW13", "epsilon", _is(2)),
    "sampling": Theorem("central limit theorem", "alpha", _is(2), metric="sampling_q90"),
    # No theorem states a constant. 1.25 is a convention of dpbench: half of 2.5, which was used
    # with a bound half as large. An error below the bound shows a fault in estimator or bound.
    "near_optimal": Theorem(TARGET, "error_over_bound", _is(1.25), at_most=True, lowest=1.0),
    # The claim gives the number; its reason says if the number comes from earlier runs.
    "within": Theorem(TARGET, "error_over_bound", _is(math.nan), at_most=True, lowest=1.0),
    # n = 1/alpha^2 + 1/(alpha epsilon), tested in both regimes and term by term.
    "sampling_regime": Theorem("L15, binary mean estimation", "alpha", _is(2)),
    "private_regime": Theorem("L15, binary mean estimation", "alpha", _is(1)),
    "bounded_private_part": Theorem(
        "L15, binary mean estimation", "alpha", _is(1), metric="privacy_cost_q90"
    ),
    "bounded_epsilon": Theorem(
        "L15, binary mean estimation", "epsilon", _is(1), metric="privacy_cost_q90"
    ),
    "bounded_rho": Theorem(
        "L15, binary mean estimation", "rho", _is(1 / 2), metric="privacy_cost_q90"
    ),
    # A clip that is too tight causes a bias that does not depend on n.
    "clipping_bias": Theorem("L15, handwritten notes", "n", _is(0)),
    # L15, Theorem 1: n ~ R/(alpha epsilon). L15, Theorem 2: the histogram needs n ~ ln(R)/epsilon.
    "naive_radius": Theorem("L15, Theorem 1", "radius", _is(1), of="samples"),
    "coarse_log_radius": Theorem("L15, Theorem 2", "log_radius", _is(1), of="samples"),
    "coarse_log_radius_zcdp": Theorem("L15, Theorem 2", "log_radius", _is(1 / 2), of="samples"),
    "coarse_epsilon": Theorem("L15, Theorem 2", "epsilon", _is(1), of="samples"),
    "coarse_delta": Theorem(
        "KV18, Theorem 3.1 (number not checked)", "delta", _is(1), of="samples"
    ),
    # Above the threshold the error does not depend on R.
    "no_radius": Theorem("L15, Theorem 2", "radius", _is(0), of="fixed_n"),
    "fine_alpha": Theorem("L15, Theorem 2", "alpha", _is(1), metric="privacy_cost_q90"),
    # Intervals contain the mean with probability 1 - beta, beta = 0.1.
    "coverage": Theorem("L15, Claim 4", "limit", _is(0.1), "miss_rate", at_most=True),
    "interval_coverage": Theorem(
        "KV18 (number not checked)", "limit", _is(0.1), "miss_rate", at_most=True
    ),
    "median_bias_coverage": Theorem(
        "KBW24 (number not checked)", "limit", _is(0.1), "miss_rate", at_most=True
    ),
    "inverted_coverage": Theorem(
        "BB94 (number not checked)", "limit", _is(0.1), "miss_rate", at_most=True
    ),
    # for the mean of clipped records, so the bounds must clip next to nothing
    "bootstrap_coverage": Theorem(
        "WCA22 (number not checked)", "limit", _is(0.1), "miss_rate", at_most=True
    ),
    "exact_miss": Theorem(EXACT, "level", _is(1), "miss_rate"),
    "exact_width": Theorem(EXACT, "level", _is(1), "width_ratio_q50"),
    "stated_width": Theorem(EXACT, "level", _is(1), "width_q50"),
    "shrinking_log_radius": Theorem("L15, Claim 4", "log_radius", _is(1), of="samples"),
    # The range estimator needs n ~ ln(R)/epsilon, sqrt(ln(R)/rho) or ln(1/delta)/epsilon.
    "range_log_radius": Theorem("KSU20, Theorem 3.3", "log_radius", _is(1), of="samples"),
    "range_log_radius_zcdp": Theorem("KSU20, Theorem 3.4", "log_radius", _is(1 / 2), of="samples"),
    "range_delta": Theorem("KSU20, Theorem 3.4", "delta", _is(1), of="samples"),
    "range_epsilon": Theorem("KSU20, Theorem 3.3", "epsilon", _is(1), of="samples"),
    "range_margin": Theorem(
        "KSU20, Theorem 3.3", "limit", _is(1), "error_over_guarantee_q90", at_most=True
    ),
    # At most alpha n records are outside of the range; the claim gives alpha as the limit.
    "range_outside": Theorem(
        "KSU20, Theorem 3.3", "limit", _is(math.nan), "outside_q90", at_most=True
    ),
    "exact_tv": Theorem(EXACT, "level", _is(1), "tv_q90"),
    # Z24, (1.2): error = L d/(n epsilon). Z24, (1.4): L sqrt(d ln(1/delta))/(n epsilon) with the
    # classical standard deviation. With the smallest sufficient standard deviation the exponent
    # in delta is not 1/2 at epsilon = 1.
    "pure_dimension": Theorem("Z24, equation (1.2)", "d", _is(1), "mean_error", "fixed_n"),
    "gaussian_dimension": Theorem("Z24, equation (1.4)", "d", _is(1 / 2), "mean_error", "fixed_n"),
    "bounded_n": Theorem("Z24, equations (1.2), (1.4)", "n", _is(-1)),
    "ball_radius": Theorem("Z24, remark on general L", "radius", _is(1), of="fixed_n"),
    "classical_delta": Theorem("Z24, equation (1.4)", "delta", _is(1 / 2), of="fixed_n"),
    "analytic_delta": Theorem(
        "BW18, Theorem 8 (number not checked)", "delta", _is(math.nan), of="fixed_n"
    ),
    "noise_ratio": Theorem("HT10 (number not checked)", "ratio", _is(math.nan), "mean_error"),
    # L15, Theorem 5: n = d/alpha^2 + d/(alpha sqrt(rho)) + sqrt(d ln(R)/rho), term by term.
    "ball_dimension": Theorem("L15, Theorem 5", "d", _is(1), "privacy_cost_q90"),
    "sampling_dimension": Theorem("L15, Theorem 5", "d", _is(1), "sampling_q90"),
    "naive_ball": Theorem("L15, Theorem 5", "radius", _is(1), "privacy_cost_q90", "fixed_n"),
    "shrinking_ball": Theorem("L15, Theorem 5", "radius", _is(0), "q90", "fixed_n"),
    # HLY21: error = diameter sqrt(d/rho)/n, where the diameter of Gaussian data is of the order of
    # sqrt(d) or |sigma|_2. PLAN: |sigma|_1 takes the place of sqrt(d) |sigma|_2.
    "shifted_dimension": Theorem("HLY21 (number not checked)", "d", _is(1), "noise_q90", "fixed_n"),
    # At variances (d/i)^2 the norm |sigma|_2 grows like d, not like sqrt(d).
    "shifted_dimension_steep": Theorem(
        "HLY21 (number not checked)", "d", _is(3 / 2), "noise_q90", "fixed_n"
    ),
    "shifted_rho": Theorem("HLY21 (number not checked)", "rho", _is(1 / 2), "noise_q90", "fixed_n"),
    "shifted_radius": Theorem("HLY21 (number not checked)", "radius", _is(0), "q90", "fixed_n"),
    "plan_dimension": Theorem("PLAN (number not checked)", "d", _is(1), "noise_q90", "fixed_n"),
    # The last ball of the balloon mean has a radius of order sqrt(d), and its noise the norm
    # radius sqrt(d/rho)/n.
    "balloon_dimension": Theorem(
        "BALLOON26 (number not checked)", "d", _is(1), "noise_q90", "fixed_n"
    ),
    "balloon_n": Theorem("BALLOON26 (number not checked)", "n", _is(-1), "noise_q90"),
    # With one public record the error does not depend on the place of the mean, and no R is needed.
    "public_location": Theorem("BKS22 (number not checked)", "location", _is(0), of="fixed_n"),
    "public_norm": Theorem("BKS22 (number not checked)", "norm", _is(0), of="fixed_n"),
    # n = d^2/alpha^2 for sampling and d^2/(alpha sqrt(rho)) for privacy: the exponent is between
    # 1 and 2.
    "covariance_alpha": Theorem(
        "BDKU20, Theorem 3.3 (number not checked)", "alpha", _is(2), at_most=True, lowest=1.0
    ),
    # KSU20, Theorems 4.6 and 4.7: private term n = d/(alpha^(k/(k-1)) sqrt(rho)).
    "heavy_ball_alpha": Theorem("KSU20, Theorem 4.6", "alpha", _rate, "privacy_cost_q90"),
    "heavy_ball_dimension": Theorem("KSU20, Theorem 4.6", "d", _is(1), "privacy_cost_q90"),
    "heavy_ball_rho": Theorem("KSU20, Theorem 4.6", "rho", _is(1 / 2), "privacy_cost_q90"),
    "discard_ratio": Theorem("KSU20, Lemma 4.3", "ratio", _is(math.nan), "mean_error"),
    "cover_alpha": Theorem("KSU20, Theorem 5.8", "alpha", _rate),
    # The error of the core does not depend on the location. A share eta of far outliers leaves
    # the weight (1-eta)(1-2 eta).
    "core_norm": Theorem("TCKMS22 (number not checked)", "norm", _is(0), of="fixed_n"),
    "core_weight": Theorem("L17, Algorithm 1", "limit", _is(math.nan), "core_fraction_q50"),
    "core_epsilon": Theorem("TCKMS22 (number not checked)", "epsilon", _is(1), of="samples"),
    "core_delta": Theorem("TCKMS22 (number not checked)", "delta", _is(1), of="samples"),
    # Symmetric distributions: no bias for any mean.
    "unbiased": Theorem("KMRSSU23 (number not checked)", "limit", _is(0), "bias"),
    # Without public bounds: linear in |mu| if the bounds are powers of two (WZLDSG20), independent
    # of mu for DY23.
    "bounds_location": Theorem(
        "WZLDSG20 (number not checked)", "location", _is(1), "noise_q90", "fixed_n"
    ),
    "universal_location": Theorem("DY23 (number not checked)", "location", _is(0), of="fixed_n"),
    # No theorem states the best share of the budget for private bounds, nor the cost of a search.
    # The claim gives the number: an error over the error at another share, or by another search.
    "bounds_share": Theorem(
        "D23, RS25 (numbers not checked)", "ratio", _is(math.nan), at_most=True
    ),
    # Excess risk: d s^2/n from least squares and d^2/(n^2 rho) from noise. The error is its square
    # root.
    "regression_n": Theorem("W18 (number not checked)", "n", _is(-1), "noise_q90"),
    "regression_rho": Theorem(
        "W18 (number not checked)", "rho", _is(1 / 2), "noise_q90", "fixed_n"
    ),
    "regression_dimension": Theorem(
        "W18 (number not checked)", "d", _is(1), "noise_q90", "fixed_n"
    ),
    # Private median of means: with a fixed number of buckets the error falls like sampling error.
    "subsample_sampling": Theorem("L17, section 2", "alpha", _is(2)),
    # The error in the norm of the covariance does not depend on its condition number.
    "affine_invariance": Theorem(
        "BHS23, KDH23 (numbers not checked)", "condition", _is(0), of="fixed_n"
    ),
    # Rate on distributions whose rare point is trimmed away; the published (1/(alpha epsilon))^2
    # is for all distributions with k = 2.
    "smooth_alpha": Theorem("BS19, on rare points (number not checked)", "alpha", _rate),
    "inverse_ratio": Theorem("AD20 (number not checked)", "ratio", _is(math.nan), "noise_q90"),
    # At one rate t of smoothing: quantiles of Student's t and of the density in
    # `dpbench.privacy.polyplace`.
    "polyplace_ratio": Theorem(
        "HT25, BS19 (numbers not checked)", "ratio", _is(math.nan), "noise_q90"
    ),
    # Gaussian vectors under pure DP: d/alpha^2 + d/(alpha epsilon) + d ln(R)/epsilon records.
    "depth_alpha": Theorem("HKMN23 (number not checked)", "alpha", _is(1)),
    "depth_ratio": Theorem("HKMN23, AD20 (numbers not checked)", "ratio", _is(math.nan)),
    # Measured value divided by the exact value of `dpbench.theory.exact.value`.
    "exact_error": Theorem(EXACT, "level", _is(1)),
    "exact_mean_error": Theorem(EXACT, "level", _is(1), "mean_error"),
    "exact_bias": Theorem(EXACT, "level", _is(1), "bias"),
    "exact_rmse": Theorem(EXACT, "level", _is(1), "rmse"),
    "best_rmse": Theorem(EXACT, "best_value", _is(1), "rmse"),
    # Laplace noise and mean m: (n epsilon)^2 MSE = 2 (m^2 + (1-m)^2). A noisy sum of x - 1/2 over a
    # noisy count has twice this MSE.
    "transformed_noise": Theorem("KSW23 (number not checked)", "level", _is(1), "rmse"),
    "sum_and_count": Theorem("KSW23, G20 (numbers not checked)", "ratio", _is(math.nan), "rmse"),
    # Hourglass noise: n^2 MSE = V (m^2 + (1-m)^2), with V from the docstring of
    # `dpbench.privacy.hourglass`. Laplace noise has 2/epsilon^2 in place of V.
    "hourglass": Theorem("KSW23 (number not checked)", "level", _is(1), "rmse"),
    "hourglass_gain": Theorem("KSW23, GV14 (numbers not checked)", "ratio", _is(math.nan), "rmse"),
    # Columns under one budget: the docstring of `dpbench.estimators.columns` derives the ratios of
    # the total error for shares of a budget (DR14) and for one noise for the row (HT10).
    "column_shares": Theorem("DR14, HT10 (numbers not checked)", "ratio", _is(math.nan), "rmse"),
    # One noise over another for d numbers at one budget, from the second moments of the K-norm
    # mechanisms of the cube and the ball (HT10), of staircase noise and of Tulap noise.
    "noise_for_vectors": Theorem(
        "HT10, GV14, AS18 (numbers not checked)", "ratio", _is(math.nan), "rmse"
    ),
    # Equal noise over noise for the Frobenius norm, for the entries of a covariance.
    "entry_noise": Theorem("BDKU20 (number not checked)", "ratio", _is(math.nan), "noise_q90"),
    "minimax_risk": Theorem("GRS09, GS10, AV23 (numbers not checked)", "level", _is(1), "rmse"),
    "exact_noise": Theorem(EXACT, "level", _is(1), "noise_q90"),
    "exact_private_part": Theorem(EXACT, "level", _is(1), "privacy_cost_q90"),
    "exact_samples": Theorem(EXACT, "level", _is(1), of="samples"),
    # The standard deviation tends to sqrt(pi/2) (e^epsilon + 1)/(e^epsilon - 1)/sqrt(n), the
    # smallest in the local model.
    "sign_constant": Theorem("KS25 (number not checked)", "level", _is(1), "rmse"),
    # Local model: n ~ d/(alpha^2 min(epsilon, epsilon^2)) for vectors of norm 1.
    "unit_dimension": Theorem("AFT22 (number not checked)", "d", _is(1 / 2), "rmse", "fixed_n"),
    "unit_epsilon": Theorem("AFT22 (number not checked)", "epsilon", _is(1), "rmse", "fixed_n"),
    # n = 1/(alpha^2 m) + 1/(epsilon alpha sqrt(m)) + 1/(epsilon alpha^(k/(k-1)) m) + 1/epsilon
    # people with m records each.
    "person_light_alpha": Theorem("AKMMSU24 (number not checked)", "alpha", _is(1)),
    "person_light_m": Theorem("AKMMSU24 (number not checked)", "m", _is(1 / 2)),
    "person_heavy_alpha": Theorem("AKMMSU24 (number not checked)", "alpha", _rate),
    "person_heavy_m": Theorem("AKMMSU24 (number not checked)", "m", _is(1)),
    # Error over the lower bound: both are the same normal quantile if sampling dominates. With a
    # cost of privacy the claim gives the number.
    "sampling_constant": Theorem("central limit theorem", "error_over_bound", _is(1)),
    "two_regimes": Theorem(BOUND, "error_over_bound", _is(math.nan)),
    # The order of estimators by their error is the same on other data, and so is the best one.
    "same_order": Theorem(TRANSFER, "order", _is(1)),
    "same_order_rmse": Theorem(TRANSFER, "order", _is(1), "rmse"),
    "no_choice_loss": Theorem(TRANSFER, "loss", _is(1), at_most=True, lowest=1.0),
    "no_choice_loss_rmse": Theorem(TRANSFER, "loss", _is(1), "rmse", at_most=True, lowest=1.0),
}
