"""Clip and noise in the last step of each estimator, coded independently of the estimators.

Exact errors of estimators are computed from these steps. No method of an estimator is called, and
only its parameters are read. In formulas n and d are the numbers of records and coordinates. R is
the estimator's bound on the absolute value of the mean. With probability 1 - beta all n Gaussian
records are within t of their mean (`gaussian_tail`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from dpbench import estimators as est
from dpbench.estimators.moment_bins import MISS, MomentBins
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.theory.exact.clip_and_noise import (
    STEPS,
    ClipAndNoise,
    ReleaseSetting,
    best_clip_threshold,
    box_step,
    gaussian_tail,
    mean_bound,
    step_for,
    unit_noise_quantile,
)
from dpbench.theory.exact.noise import GaussianNoise, Noise, Radial, additive, concentrated

__all__ = [
    "Histogram", "coinpress_round", "gaussian_norm_bound", "gradient_descent_sd", "histogram",
    "ksu20_alpha", "ksu20_groups", "last_step", "round_shares", "shrinking_intervals_round",
]  # fmt: skip

MAX_MAGNITUDE = 1e300  # bound on radii and on numbers of bins, so that no product overflows


def _clip_to_bounds(
    setting: ReleaseSetting, low: float | None, high: float | None, rows: float = 0
) -> ClipAndNoise | None:
    """Return the noisy average of records clipped to [low, high]; None if a bound is missing."""
    if low is None or high is None:
        return None
    return box_step(setting, (high - low) / 2, (high + low) / 2, rows=rows)


@step_for(est.BinaryMean)
def _binary_step(_: est.BinaryMean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise of `BinaryMean`: records are clipped to [0, 1]."""
    return _clip_to_bounds(setting, 0.0, 1.0)


@step_for(est.ClippedMean)
def _clipped_step(e: est.ClippedMean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise of `ClippedMean`; None if it has no public bounds.

    The mechanism ``additive`` adds independent noise to each coordinate of a vector.
    """
    step = _clip_to_bounds(setting, e.lower, e.upper)
    if step is None or e.mechanism == "cube":
        return step
    side = 2 * step.half_width / setting.n
    noise = additive(setting.budget, setting.d * side, float(np.sqrt(setting.d)) * side)
    return step._replace(noise=noise)


@step_for(est.NaiveGaussianMean)
def _naive_step(e: est.NaiveGaussianMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of the naive Gaussian mean (lecture notes L15, Theorem 1).

    Records are clipped to +-(R + t), where R bounds the absolute value of the mean. With
    probability 1 - beta all records are within t of the mean (`gaussian_tail`).
    """
    return box_step(setting, e.radius + gaussian_tail(e, setting.n), 0.0)


@step_for(est.MedianThenClippedMean)
def _median_step(e: est.MedianThenClippedMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of the mean around a private median (lecture notes L15).

    The median costs half of the budget. Records are clipped to +-2t around it. With probability 1 -
    beta all records are within t of the mean (`gaussian_tail`).
    """
    return box_step(setting, 2 * gaussian_tail(e, setting.n), share=0.5)


@step_for(est.NoisyvarInterval, est.ParametricBootstrapInterval)
def _interval_step(e: Any, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of the mean in a confidence interval.

    The estimator `e` of the interval is a `NoisyvarInterval` or a `ParametricBootstrapInterval`.
    Records are clipped to [`e.lower`, `e.upper`]. If the standard deviation `e.sigma` is known, the
    mean has the whole budget. Otherwise the mean has the share `e.share` of the budget, and a
    private variance has the rest.
    """
    share = e.share if e.sigma is None else 1.0
    return box_step(setting, (e.upper - e.lower) / 2, (e.upper + e.lower) / 2, share=share)


@step_for(est.L2ClippedMean)
def _l2_clipped_step(e: est.L2ClippedMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the projection on a ball around 0, and the noise of the average (`L2ClippedMean`).

    The mechanism ``l2`` adds a noise vector with a density that depends on its l2 norm. Other
    mechanisms add independent noise to each coordinate.
    """
    step = 2 * e.radius / setting.n
    noise = additive(setting.budget, float(np.sqrt(setting.d)) * step, step)
    if e.mechanism == "l2":
        assert isinstance(setting.budget, PureDP)
        noise = Radial(step / setting.budget.epsilon)
    return ClipAndNoise(noise, e.radius, 0.0, setting.n)


@step_for(est.TunedClippedMean)
def _tuned_step(e: est.TunedClippedMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of `TunedClippedMean`: records are clipped to +-(R + T).

    R bounds the absolute value of the mean, and k is the order of the bounded moment. T is the
    estimator's threshold. If the threshold is not set, T depends on the estimator's `policy`. In
    units of the estimator's `scale`, the k-th root of the bound on the moment:

    - ``keep_all``: T = (n/beta)^(1/k), for the estimator's beta.
    - ``ksu20_order``: T = c (n epsilon')^(1/k), for the estimator's constant c. Here epsilon' is
      ln(1/beta)/q, and q is the 1 - beta quantile of |noise| at sensitivity 1. For Laplace noise
      epsilon' is epsilon.
    - ``minimax``: T is the best threshold (`best_clip_threshold`).
    """
    n, k = setting.n, e.k
    if e.threshold:
        return box_step(setting, e.radius + e.threshold, 0.0)
    if e.policy == "minimax":
        unit_noise = additive(setting.budget, 2 / n, 2 / n)
        t = best_clip_threshold(k, e.radius / e.scale, e.beta, unit_noise)
    elif e.policy == "keep_all":
        t = (n / e.beta) ** (1 / k)
    else:
        effective = n * np.log(1 / e.beta) / unit_noise_quantile(setting.budget, e.beta)
        t = e.c * effective ** (1 / k)
    return box_step(setting, e.radius + e.scale * t, 0.0)


@step_for(est.LocalMean)
def _local_step(e: est.LocalMean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip of `LocalMean`, and the noise of the average of its n local releases.

    In the local model each record is clipped to +-C and released with its own noise. The noise of
    the average is normal up to order 1/n. The clip C is R + T, where R bounds the absolute value of
    the mean. T depends on the estimator's `policy`. In units of the estimator's `scale`:

    - ``minimax``: T is the best threshold (`best_clip_threshold`).
    - Otherwise T = (n epsilon'^2)^(1/(2k)), where k is the order of the bounded moment. Here
      epsilon' is ln(1/beta)/q, and q is the 1 - beta quantile of |noise| at sensitivity 1.

    Randomised response releases +-C/tanh(epsilon/2) for each record. The variance of this release
    is C^2/tanh(epsilon/2)^2 less the square of the record. The square, about R^2 + scale^2, is
    neglected.
    The result is None for votes, because their noise depends on the records.
    """
    if e.mechanism in ("three_values", "graded_votes"):
        return None
    if e.mechanism == "additive":
        variance = additive(_averaging_budget(setting.budget), 2.0, 2.0).variance
    else:
        odds = float(np.exp(min(setting.budget.pure_epsilon, 700.0)))
        variance = ((odds + 1) / (odds - 1)) ** 2
    unit_noise = GaussianNoise(float(np.sqrt(variance / setting.n)))
    if e.policy == "minimax":
        t = best_clip_threshold(e.k, e.radius / e.scale, e.beta, unit_noise)
    else:
        mechanism_budget = _averaging_budget(setting.budget)
        epsilon = np.log(1 / e.beta) / unit_noise_quantile(mechanism_budget, e.beta)
        t = float((setting.n * epsilon**2) ** (0.5 / e.k))
    half_width = e.radius + e.scale * t
    return ClipAndNoise(GaussianNoise(unit_noise.sd * half_width), half_width, 0.0, setting.n)


def _averaging_budget(budget: Budget) -> Budget:
    """Return the budget with Laplace noise in place of noise that is for one number only."""
    if isinstance(budget, PureDP):
        return PureDP(budget.epsilon)
    if isinstance(budget, ApproxDP) and budget.noise_by == "tulap":
        return replace(budget, noise_by="laplace")
    return budget


class Histogram(NamedTuple):
    """Private histogram of records, with bins of equal width.

    Parameters
    ----------
    start : float
        Edge of one bin, in the unit of the records.
    width : float
        Width of a bin, in the unit of the records.
    number : float
        Number of bins; may be infinite.
    records : int
        Number of records in the histogram.
    budget : Budget
        Privacy budget of the histogram.
    held, miss : float
        Public bounds that `private_mode_bin` takes: the lead of a right bin over an empty bin, and
        the largest probability of a wrong bin at which a bin is released.
    """

    start: float
    width: float
    number: float
    records: int
    budget: Budget
    held: float
    miss: float


def histogram(e: Any, setting: ReleaseSetting) -> Histogram | None:
    """Return the private histogram in the first step of an estimator.

    R is the estimator's bound on the absolute value of the mean.

    - KV18 (Karwa and Vadhan): bins of width 2t cover +-(R + t) and have an edge at 0. With
      probability 1 - beta all records are within t of the mean (`gaussian_tail`).
    - KSU20 (Kamath, Singhal and Ullman): bins of width 2r cover +-(R + 2r), and the left end of
      this range is an edge. `_half_bin` gives r.
    - `UserLevelMean`: bins cover +-R, and one bin is centred at 0.
    - `UnbiasedMean`: bins of width sigma without an end, of which only occupied ones are released.
    - `KSU20BallMean` with a bound R: the histogram of one coordinate of the centre.

    Parameters
    ----------
    e : Estimator
        Only its parameters are read.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.

    Returns
    -------
    Histogram or None
        None for an estimator without a histogram.
    """
    if isinstance(e, est.KarwaVadhanMean):
        t = _kv_half_bin(e, setting.n)
        count = 2 * np.ceil((mean_bound(e) + t) / (2 * t))
        held, budget = float(np.ceil(setting.n / 2)), setting.budget.fraction(0.5)
        return Histogram(0.0, 2 * t, float(count), setting.n, budget, held, e.beta)
    if isinstance(e, est.KSU20RangeEstimate):
        r, records = _half_bin(e, e.alpha), setting.n
    elif isinstance(e, est.KSU20Mean):
        r, averaged = (
            _ksu20_half_bin(e, setting.n, setting.budget),
            _count_averaged(e, setting.n, setting.budget),
        )
        records = (setting.n - averaged) // ksu20_groups(e)
    elif isinstance(e, est.UnbiasedMean):
        located = setting.n - _count_averaged_unbiased(e, setting.n)
        return Histogram(0.0, e.sigma, np.inf, located, setting.budget, located / 4, 1.0)
    elif isinstance(e, est.UserLevelMean):
        r = e.scale * float(np.sqrt(2 / e.m))
        records = setting.n - _count_averaged_users(e, setting)
        start, public = -r, _user_bins(e)
        return _moment_histogram(start, r, public, records, setting.budget, MISS)
    elif isinstance(e, est.KSU20BallMean) and not (e.radius is None or _has_fixed_centre(e)):
        budget = _ball_budget(e, setting.budget)
        records = setting.n - _count_averaged_vectors(e, setting._replace(budget=budget))
        coordinate = ReleaseSetting(records, 1, budget.fraction(1 / setting.d))
        return histogram(_ball_coordinate(e, setting.d), coordinate)
    else:
        return None
    public = _ksu20_bins(e, r)
    start = float(np.fmod(-mean_bound(e) - 2 * r, 2 * r)) if np.isfinite(public.number) else 0.0
    return _moment_histogram(start, r, public, records, setting.budget, _ksu20_miss(e))


def _moment_histogram(
    start: float, r: float, public: MomentBins, records: int, budget: Budget, miss: float
) -> Histogram:
    """Return a histogram with bins of width 2r for records with a bounded moment."""
    lead = public.lead(records, budget, miss)
    return Histogram(start, 2 * r, public.number, records, budget, lead.held, lead.miss)


def _kv_half_bin(e: est.KarwaVadhanMean, n: int) -> float:
    """Return half the width of a bin in the histogram of KV18 (Karwa and Vadhan).

    It is the distance from the mean that Gaussian records rarely exceed (`gaussian_tail`). It is
    larger if the number of bins would otherwise overflow.
    """
    return max(gaussian_tail(e, n), (e.radius or 0.0) / MAX_MAGNITUDE)


@step_for(est.KarwaVadhanMean)
def _kv_step(e: est.KarwaVadhanMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of the mean of KV18, in the version of the lecture notes L15.

    A private histogram finds a bin of width 2t for half of the budget. Records are clipped to +-3t
    around the middle of this bin. `_kv_half_bin` gives t.
    """
    return box_step(setting, 3 * _kv_half_bin(e, setting.n), share=0.5)


def round_shares(rounds: int) -> list[float]:
    """Return the share of the budget for each round of an estimator with several rounds (BDKU20).

    The last round gets 3/4 of the budget, and the rounds before it share 1/4 equally. A single
    round gets the whole budget.
    """
    return [1.0] if rounds == 1 else [0.25 / (rounds - 1)] * (rounds - 1) + [0.75]


def shrinking_intervals_round(
    e: est.ShrinkingIntervals, setting: ReleaseSetting
) -> tuple[ClipAndNoise, float, bool]:
    """Return the clip, noise and interval of the last reported round of `ShrinkingIntervals`.

    Every round releases an interval for the mean, and the next round clips records near this
    interval. The half-width w is the sum of two quantiles: of the absolute sampling error |N(0,
    sigma^2/n)|, and of |noise|. Each quantile is exceeded with probability beta/(2 rounds). If the
    interval of the round before is narrower than this sum, w is its half-width.

    Parameters
    ----------
    e : ShrinkingIntervals
        Only its parameters are read.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.

    Returns
    -------
    step : ClipAndNoise
        Clip and noise of the average in this round.
    w : float
        Half-width of the released interval, in the unit of the records.
    narrowed : bool
        True if the interval is narrower than the interval before it.
    """
    rounds = e.rounds or 2 + int(np.log1p(min(e.radius / e.sigma, MAX_MAGNITUDE)))
    miss, w = e.beta / (2 * rounds), e.radius
    sampling = float(-ndtri(miss / 2)) * e.sigma / float(np.sqrt(setting.n))
    for share in round_shares(rounds)[: e.reported_round]:
        previous, step = w, box_step(setting, w + gaussian_tail(e, setting.n), share=share)
        w = min(w, sampling + step.noise.isf(miss / 2))
    return step, w, w < previous


@step_for(est.ShrinkingIntervals)
def _shrinking_step(e: est.ShrinkingIntervals, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise of the last reported round of shrinking intervals.

    None if the interval of this round is not narrower than the interval before it.
    """
    step, _, narrowed = shrinking_intervals_round(e, setting)
    return step if narrowed else None


def gaussian_norm_bound(d: int, b: float) -> float:
    """Return a bound on the norm of a standard normal vector that holds with probability 1 - b.

    For d coordinates it is sqrt(d + 2 sqrt(d ln(1/b)) + 2 ln(1/b)) (Laurent and Massart, LM00,
    Lemma 1; number not checked).

    Parameters
    ----------
    d : int
        Number of coordinates.
    b : float in (0, 1)
        Bound on the probability of a larger norm.

    Returns
    -------
    float
        Bound on the norm.
    """
    log = np.log(1 / b)
    return float(np.sqrt(d + 2 * np.sqrt(d * log) + 2 * log))


def coinpress_round(
    r: float, shares: list[float], b: float, setting: ReleaseSetting
) -> tuple[float, float]:
    """Return the noise and the clip of the last of several CoinPress rounds (BDKU20).

    Lengths are in standard deviations of the records. Before a round the mean is known up to the
    distance r. The round projects records on a ball of radius s around the current centre.

    1. Let gamma be a bound on the norm of a standard normal vector that fails with probability b
       (`gaussian_norm_bound`).
    2. Then s = min(sqrt(r^2 + 6r + gamma^2), r + gamma). The constant 6 is from the authors' code.
    3. Let sd be the standard deviation of the noise. The next round has r = gamma sqrt(1/n + sd^2).

    Parameters
    ----------
    r : float
        Distance r before the first round, in standard deviations of the records.
    shares : list of float
        Share of the budget of each round.
    b : float in (0, 1)
        Probability that the norm of a standard normal vector exceeds gamma.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.

    Returns
    -------
    sd, clip : float
        Standard deviation of the noise and radius s, in standard deviations of the records.
    """
    gamma, rho = gaussian_norm_bound(setting.d, b), concentrated(setting.budget)
    for share in shares:
        clip = r + gamma if r > 1e100 else min(float(np.sqrt(r**2 + 6 * r + gamma**2)), r + gamma)
        sd = 2 * clip / setting.n / float(np.sqrt(2 * rho.rho * share))
        r = min(gamma * float(np.hypot(1 / np.sqrt(setting.n), sd)), MAX_MAGNITUDE)
    return sd, clip


@step_for(est.CoinPressMean)
def _coinpress_step(e: est.CoinPressMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of the last reported round of CoinPress."""
    sd, clip = coinpress_round(
        e.radius / e.sigma, round_shares(e.rounds)[: e.reported_round], e.b, setting
    )
    return ClipAndNoise(GaussianNoise(sd * e.sigma), clip * e.sigma, None, setting.n)


@step_for(est.PublicRecordMean)
def _public_record_step(e: est.PublicRecordMean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the last clip of the mean around public records, and the noise of the average.

    The public records replace the bound on the mean: their mean is within gamma/sqrt(k) standard
    deviations of the mean, for k public records. None if all records are public.
    """
    k = e.public_records
    private, r = setting._replace(n=setting.n - k), gaussian_norm_bound(setting.d, e.b) / np.sqrt(k)
    if private.n < 1:
        return None
    if e.rounds > 1:
        sd, clip = coinpress_round(float(r), round_shares(e.rounds), e.b, private)
        return ClipAndNoise(GaussianNoise(sd * e.sigma), clip * e.sigma, None, private.n)
    gamma = gaussian_norm_bound(setting.d, e.b)
    clip = e.sigma * min(float(np.sqrt(r**2 + 6 * r + gamma**2)), float(r) + gamma)
    base = est.L2ClippedMean(
        radius=clip, mechanism="l2" if isinstance(setting.budget, PureDP) else "additive"
    )
    return _l2_clipped_step(base, private)._replace(centre=None)


def gradient_descent_sd(clip: float, steps: int, setting: ReleaseSetting) -> float:
    """Return the standard deviation of the noise in the averaged iterates of gradient descent.

    After T steps the noise of the weighted average is the sum of w_t Z_t over t = 1, ..., T. The
    weights are w_t = 2t/(T (T+1)). Z_t is the noise of step t: it has the sensitivity 2 clip/n and
    a T-th of the budget.

    Parameters
    ----------
    clip : float
        Norm to which the gradient of each record is clipped, times the step size.
    steps : int
        Number of steps T.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.

    Returns
    -------
    float
        Standard deviation of each coordinate, in the unit of `clip`.
    """
    weights = 2 * np.arange(1, steps + 1) / (steps * (steps + 1))
    rho = concentrated(setting.budget).rho / steps
    return float(2 * clip / setting.n * np.sqrt((weights**2).sum() / (2 * rho)))


@step_for(est.GradientDescentMean)
def _descent_step(e: est.GradientDescentMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip of the gradients and the noise of the mean by gradient descent."""
    return ClipAndNoise(
        GaussianNoise(gradient_descent_sd(e.clip, e.steps, setting)), e.clip, None, setting.n
    )


def ksu20_groups(e: est.KSU20Mean) -> int:
    """Return the number of groups into which KSU20's algorithm splits each half of the records.

    For the constants ``paper`` it is ceil(200 ln(2/beta)), otherwise 1.
    """
    return int(np.ceil(200 * np.log(2 / e.beta))) if e.constants == "paper" else 1


def _count_averaged(e: est.KSU20Mean, n: int, budget: Budget) -> int:
    """Return the number of records that `KSU20Mean` averages; the others fill its histogram.

    The number is half of n, or more for the constants ``tuned``. In the tuned version the histogram
    gets a tenth of the records. If a tenth is not enough (`_count_histogram_records`), it gets the
    number that it needs, but at most half.
    """
    if e.constants != "tuned":
        return n // 2
    histogram_records = max(n / 10, _count_histogram_records(e, np.nan, budget))
    return max(n // 2, int(np.floor(n - histogram_records)))


def _laplace_for(budget: Budget) -> Budget:
    """Return the budget that sets the noise of the averages in KSU20's algorithm.

    For an (epsilon, delta) budget it is the pure DP budget of equal epsilon, because the algorithm
    adds Laplace noise to averages. Other budgets are returned unchanged.
    """
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def _half_bin(e: est.KSU20Mean | est.KSU20RangeEstimate, alpha: float) -> float:
    """Return half the width of a bin in the histogram of KSU20's algorithm.

    Let alpha be the error sought, and k the order of the bounded moment. The half-width depends on
    the constants: 10 alpha^(-1/(k-1)) for ``paper``, 2 alpha^(-1/(k-1)) for ``practical``, and
    2^(1/k) for ``tuned``. It is in units of the estimator's `scale`, and the returned number in the
    unit of the records.
    """
    if e.constants == "tuned":
        return e.scale * float(np.exp2(1 / e.k))
    return e.scale * float((10 if e.constants == "paper" else 2) * alpha ** (-1 / (e.k - 1)))


def _ksu20_half_bin(e: est.KSU20Mean, n: int, budget: Budget) -> float:
    """Return half the width of a bin in the histogram of `KSU20Mean`, for n records.

    The width depends on the error that n records allow (`ksu20_alpha`), except for the constants
    ``tuned``.
    """
    return _half_bin(e, np.nan if e.constants == "tuned" else ksu20_alpha(e, n, budget))


def ksu20_alpha(e: est.KSU20Mean, n: int, budget: Budget) -> float:
    """Return the error alpha for which KSU20's algorithm is run with n records.

    It is the estimator's own alpha, if given. Otherwise it is the smallest alpha for which the
    records suffice. Let k be the order of the bounded moment, and R the bound on the absolute value
    of the mean, both in units of the estimator's `scale`. Let q be the 0.9 quantile of |noise| at
    sensitivity 1. The number of records that an error alpha needs depends on the estimator's
    `constants`:

    - ``paper``: each group of each half needs 90/alpha^2 + 180 q alpha^(-k/(k-1)) records, plus
      those for the histogram (`_count_histogram_records`).
    - ``practical``: both halves together need 1/alpha^2 + (q/ln 10) alpha^(-k/(k-1)) + q' records.
      The noise at sensitivity 1 exceeds q' in absolute value with probability 1/(1 + R), or delta
      under (epsilon, delta). For pure DP the last two terms are (alpha^(-k/(k-1)) + ln(1 +
      R))/epsilon.

    Parameters
    ----------
    e : KSU20Mean
        Only its parameters are read.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    float
        Error alpha, in units of the estimator's `scale`. Unless the estimator sets it, it is
        at most 1/16 for ``paper``, and at most 1 otherwise.
    """
    paper, mean_budget = e.constants == "paper", _laplace_for(budget)
    size = n / (2 * ksu20_groups(e)) if paper else n
    q = unit_noise_quantile(mean_budget, 0.1)

    def needed_records(alpha: float) -> float:
        """Return the number of records that an error alpha needs."""
        power = float(alpha ** (-e.k / (e.k - 1)))
        if paper:
            return 90 / alpha**2 + 180 * q * power + _count_histogram_records(e, alpha, budget)
        rare = (
            budget.delta if isinstance(budget, ApproxDP) else 1 / (1 + (e.radius or 0.0) / e.scale)
        )
        return 1 / alpha**2 + q / float(np.log(10)) * power + unit_noise_quantile(mean_budget, rare)

    alpha = e.alpha or (1 / 16 if paper else 1.0)
    if e.alpha is None and needed_records(alpha) < size:
        from scipy.optimize import brentq

        ends = -0.5 * np.log(size) - 1, np.log(alpha)
        alpha = float(np.exp(brentq(lambda a: np.log(needed_records(np.exp(a)) / size), *ends)))
    return alpha


def _ksu20_bins(e: est.KSU20Mean | est.KSU20RangeEstimate, r: float) -> MomentBins:
    """Return what is public about the bins of KSU20's histogram, which are 2r wide.

    They cover +-(R + 2r). A bin is wrong if all its points are farther than D from the mean. For a
    range and for ``paper`` D is r, and otherwise 8^(1/k) in units of the `scale`. A record is
    farther from the mean with probability at most (scale/D)^k. Two bins are within D <= r, and
    three within 2r.
    """
    by_paper = isinstance(e, est.KSU20RangeEstimate) or e.constants == "paper"
    near = r if by_paper else e.scale * float(8 ** (1 / e.k))
    number = float(np.ceil((mean_bound(e) + 2 * r) / r))
    return MomentBins(number, (e.scale / near) ** e.k, 2 if near <= r * (1 + 1e-9) else 3)


def _ksu20_miss(e: est.KSU20Mean | est.KSU20RangeEstimate) -> float:
    """Return the probability of a wrong bin that KSU20's algorithm allows."""
    if isinstance(e, est.KSU20RangeEstimate) or e.constants == "paper":
        return MISS
    return e.beta


def _count_histogram_records(e: est.KSU20Mean, alpha: float, budget: Budget) -> float:
    """Return the number of records at which KSU20's histogram is right, by the public bound."""
    return _ksu20_bins(e, _half_bin(e, alpha)).records(budget, _ksu20_miss(e))


@step_for(est.KSU20Mean)
def _ksu20_step(e: est.KSU20Mean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise of the average of one group of records in `KSU20Mean`.

    Other records locate the clip by a histogram. None if a group has less than one record.
    """
    mean_setting = ReleaseSetting(setting.n, setting.d, _laplace_for(setting.budget))
    rows = _count_averaged(e, setting.n, setting.budget) / ksu20_groups(e)
    if rows < 1:
        return None
    r = _ksu20_half_bin(e, setting.n, setting.budget)
    if e.constants == "paper":
        return box_step(mean_setting, 3 * r, rows=rows)
    centre_error = r / e.scale + 4 ** (1 / e.k)  # in units of the scale, as the threshold
    if e.constants == "tuned":
        noise = additive(mean_setting.budget, 2 / rows, 2 / rows)
        threshold = best_clip_threshold(e.k, centre_error, e.beta, noise)
    else:
        effective = rows / (2 * unit_noise_quantile(mean_setting.budget, e.beta))
        threshold = (e.k - 1) / e.k * effective ** (1 / e.k)
    return box_step(mean_setting, e.scale * (centre_error + threshold), rows=rows)


def _count_averaged_users(e: est.UserLevelMean, setting: ReleaseSetting) -> int:
    """Return the number of users that `UserLevelMean` averages; the others fill its histogram.

    The histogram gets a tenth of the users. If a tenth is not enough, it gets the number that it
    needs, but at most half.
    """
    needed = max(setting.n / 10, _user_bins(e).records(setting.budget, MISS))
    return max(setting.n // 2, int(np.floor(setting.n - needed)))


def _user_bins(e: est.UserLevelMean) -> MomentBins:
    """Return what is public about the bins of `UserLevelMean`.

    Let R be the bound on the absolute value of the mean, and m the number of records of a user. The
    mean of m records has a standard deviation of at most s/sqrt(m), for the estimator's `scale` s.
    Bins have the width 2r, r = s sqrt(2/m). They cover +-R, and one is centred at 0. A user is
    farther than 2r from the mean with probability at most 1/8, by Chebyshev's inequality. Three
    bins are within 2r.
    """
    r = e.scale * float(np.sqrt(2 / e.m))
    return MomentBins(1 + 2 * float(np.ceil(e.radius / (2 * r))), 1 / 8, 3)


@step_for(est.UserLevelMean)
def _user_step(e: est.UserLevelMean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise of the average over users in `UserLevelMean`.

    Each of N averaged users contributes the mean of m records. This mean is clipped to an interval
    around the middle of a private bin. The half-width of the interval is r + 2/sqrt(m) + max(sqrt(2
    ln(N/q)/m), T/m), in units of the estimator's `scale`.

    1. r = sqrt(2/m) is half the width of a bin.
    2. q is the 1 - beta quantile of |noise| at sensitivity 1. N/q counts as at least 2.718.
    3. T is the best threshold for N m records with a bounded k-th moment (`best_clip_threshold`).

    With a `cap` the noise depends on the numbers of records of the users, so the result is None.
    """
    if e.cap is not None:
        return None
    users = _count_averaged_users(e, setting)
    light = np.sqrt(
        2 * np.log(max(users / unit_noise_quantile(setting.budget, e.beta), float(np.exp(1))))
    )
    noise = additive(setting.budget, 2 / (users * e.m), 2 / (users * e.m))
    heavy = best_clip_threshold(e.k, 0.0, e.beta, noise) / np.sqrt(e.m)
    half_width = float(np.sqrt(2) + 2 + max(light, heavy)) / float(np.sqrt(e.m))
    return box_step(setting, e.scale * half_width, rows=users)


@step_for(est.KSU20BallMean)
def _ball_step(e: est.KSU20BallMean, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the ball and the noise of the average in KSU20, Algorithm 3.

    Records are averaged in a ball of radius sqrt(d) (1 + T) around a private centre. Records
    outside the ball are discarded or projected. The sensitivity is a constant times the radius over
    the number of averaged records. The constant is 8/3 if records are discarded, and 2 if they are
    projected. Lengths are in units of the estimator's `scale`. The number T balances bias and
    noise. It depends on the `constants` of the estimator:

    1. The bias is at most B T^-(k-1), where k is the order of the bounded moment. B is 1 if records
       are discarded, and (1 - 1/k)^k/(k-1) if they are projected.
    2. The 1 - beta quantile of the norm of the noise is linear in T, with slope A.
    3. For ``practical`` T minimises B T^-(k-1) + A T, so T^k = (k-1) B/A.
    4. For ``tuned`` T minimises the sum of the squares of both terms, so T^k = sqrt(k-1) B/A.
    5. If the estimator sets alpha, the error sought, T makes the bias bound B T^-(k-1) equal to
       alpha instead.
    6. For ``paper`` the radius is 4 sqrt(d) alpha^(-1/(k-1)) instead of sqrt(d) (1 + T). If the
       estimator sets no alpha, alpha <= 1/16 follows from the noise.
    """
    if setting.n < 2:
        return None
    gaussian = e.radius is None or not isinstance(setting.budget, PureDP)
    mean_budget = _ball_budget(e, setting.budget)
    rows = _count_averaged_vectors(e, ReleaseSetting(setting.n, setting.d, mean_budget))
    k, root = e.k, float(np.sqrt(setting.d))
    step, bias = (8 / 3, 1.0) if e.outside == "discard" else (2.0, (1 - 1 / k) ** k / (k - 1))

    def noise(l2: float) -> Noise:
        """Return the noise that the budget adds to a vector of l2 sensitivity `l2`."""
        return (
            additive(mean_budget, np.nan, l2) if gaussian else Radial(l2 / mean_budget.pure_epsilon)
        )

    if e.constants == "paper":
        alpha = (16 * setting.d * np.sqrt(noise(1.0).variance * 2 / 3) / rows) ** ((k - 1) / k)
        r = 4 * root * float(e.alpha or min(1 / 16, alpha)) ** (-1 / (k - 1))
    elif e.alpha is not None:
        r = root * (1 + (bias / e.alpha) ** (1 / (k - 1)))
    else:
        slope = step * root * noise(1.0).norm_quantile(setting.d, 1 - e.beta) / rows
        power = 1.0 if e.constants == "practical" else 0.5
        r = root * (1 + ((k - 1) ** power * bias / slope) ** (1 / k))
    r *= e.scale
    return ClipAndNoise(noise(step * r / rows), r, None, rows)


def _ball_budget(e: est.KSU20BallMean, budget: Budget) -> Budget:
    """Return the budget of all steps of `KSU20BallMean`, GDP for (epsilon, delta) with a bound."""
    return budget if e.radius is None or isinstance(budget, PureDP) else concentrated(budget)


def _ball_coordinate(e: est.KSU20BallMean, d: int) -> est.KSU20Mean:
    """Return the estimator of one coordinate of the private centre of `KSU20BallMean`."""
    alpha = None if e.constants == "tuned" else 1.0
    return est.KSU20Mean(
        k=e.k, scale=e.scale, radius=e.radius, constants=e.constants, alpha=alpha, beta=0.1 / d
    )


def _has_fixed_centre(e: est.KSU20BallMean) -> bool:
    """Return whether the ball is centred at 0, because R is at most the `scale`."""
    return e.constants == "tuned" and e.radius is not None and e.radius <= e.scale


def _count_averaged_vectors(e: est.KSU20BallMean, setting: ReleaseSetting) -> int:
    """Return the number of records that `KSU20BallMean` averages; the others locate its ball.

    The number is half of n, or more for the constants ``tuned``. In the tuned version a fiftieth of
    the records locates the ball. If two histograms for each coordinate need more records, they get
    more, but at most half. If the bound on the mean is at most the `scale`, all records are
    averaged, because a histogram would be no more precise than this bound.
    """
    if e.constants != "tuned":
        return setting.n // 2
    if _has_fixed_centre(e):
        return setting.n
    histogram_records = 2 * _count_histogram_records(
        _ball_coordinate(e, setting.d), np.nan, setting.budget.fraction(1 / setting.d)
    )
    return max(setting.n // 2, int(np.floor(setting.n - max(setting.n / 50, histogram_records))))


@step_for(est.SubsampleAggregate)
def _bucket_step(e: est.SubsampleAggregate, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise of the average of bucket outputs (sample and aggregate).

    None if the aggregate of the outputs is not their mean, or if it has no bounds.
    """
    return _clip_to_bounds(setting, e.lower, e.upper, e.buckets) if e.aggregate == "mean" else None


@step_for(est.UnbiasedMean)
def _unbiased_step(e: est.UnbiasedMean, setting: ReleaseSetting) -> ClipAndNoise:
    """Return the clip and the noise of the unbiased mean of KMRSSU23 (Kamath and others).

    A histogram of some records locates the clip, and the other records are averaged. Each of the
    two parts has the whole budget, because the parts have no record in common.
    """
    half_width = e.sigma * e.clip if e.clip else e.sigma + gaussian_tail(e, setting.n)
    return box_step(setting, half_width, rows=_count_averaged_unbiased(e, setting.n))


def _count_averaged_unbiased(e: est.UnbiasedMean, n: int) -> int:
    """Return the number of records that `UnbiasedMean` averages; the others locate the bin."""
    return max(1, n - int(np.ceil(e.share * n)))


def last_step(estimator: est.Estimator, setting: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clip and the noise in the last step of an estimator.

    Parameters
    ----------
    estimator : Estimator
        Only its parameters are read.
    setting : ReleaseSetting
        Numbers of records and coordinates, and budget.

    Returns
    -------
    ClipAndNoise or None
        None if the last step is not a clip with additive noise.
    """
    step_function = STEPS.get(type(estimator))
    return step_function(estimator, setting) if step_function else None
