"""Exact values for estimators that make a private choice: histograms, medians, votes, FriendlyCore.

An exact value is the limit of a statistic, for example of an error quantile, as the number of
trials grows. The formulas follow the definitions of the mechanisms. No estimator is called, and
only its parameters are read. A miss is a wrong private choice, after which the release may be
anywhere.
"""

from __future__ import annotations

from functools import cache
from typing import Any, TypeGuard

import numpy as np
from scipy.optimize import brentq
from scipy.special import bdtr, chdtri, chndtr, expit, logit, ndtr

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.privacy import GDP, ZCDP, ApproxDP, Budget
from dpbench.privacy.histogram import noise_on_all_bins, wrong_bin_probability
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, gaussian_tail, mean_bound
from dpbench.theory.exact.clip_and_noise_oracle import Histogram, gaussian_norm_bound, histogram
from dpbench.theory.exact.noise import (
    GaussianNoise,
    Laplace,
    Noise,
    additive,
    binomial,
    concentrated,
)

__all__ = [
    "MAX_MISS_PROBABILITY", "core_noise_quantile", "count_noise", "declares_failure",
    "equiprobable_values",
    "exact_miss", "exponential_epsilon", "histogram_miss_probability", "is_isotropic",
    "median_law", "overtaking_probability", "satisfies_assumptions",
]  # fmt: skip

NAN = float("nan")
MAX_MISS_PROBABILITY = 1e-3  # largest probability of a wrong choice that is neglected


def exponential_epsilon(budget: Budget) -> float:
    """Return the largest epsilon at which a budget can run the exponential mechanism.

    The mechanism draws an answer with density proportional to e^(-epsilon score/2), for a score of
    sensitivity 1. Under rho-zCDP epsilon is sqrt(8 rho). Under mu-GDP it is 2 logit(Phi(mu/2)),
    where Phi is the normal distribution function. Under pure and (epsilon, delta)-DP it is the
    epsilon of the budget.
    """
    if isinstance(budget, GDP):
        return 2 * float(logit(ndtr(budget.mu / 2)))
    return float(np.sqrt(8 * budget.rho)) if isinstance(budget, ZCDP) else budget.pure_epsilon


def equiprobable_values(noise: Noise, points: int = 1000) -> Floats:
    """Return equally likely values that stand for the distribution of a symmetric noise.

    Parameters
    ----------
    noise : Noise
        Noise, symmetric about 0.
    points : int, default 1000
        Number of values; even.

    Returns
    -------
    ndarray of shape (points,)
        Quantiles of the noise at the probabilities (i + 1/2)/points for i = 0, ..., points - 1.
        Positive quantiles come first.
    """
    upper = (np.arange(points // 2) + 0.5) / points
    half = np.array([noise.isf(probability) for probability in upper])
    return np.concatenate([half, -half])


@exact_for(est.SubsampleTest)
def _wrong_answer_probability(
    metric: str, e: est.SubsampleTest, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the probability that a private vote of buckets releases the wrong mean, 0 or 1.

    The estimator `SubsampleTest` splits n records into k buckets. Each bucket votes for the mean 0
    or 1, and a private aggregate of the votes is released. Records are Gaussian with the mean mu =
    0 or 1 and the standard deviation sd. Let v be the number of votes for 1.

    1. A bucket of b records votes for 1 if its average exceeds 1/2. This vote has the probability
       Phi((mu - 1/2) sqrt(b)/sd), where Phi is the normal distribution function. If k does not
       divide n, n mod k of the buckets have one record more.
    2. Aggregate ``count``: the release is 1 if v plus noise exceeds k/2.
    3. Aggregate ``exponential``: the odds of the release 1 are e^(epsilon (2v - k)/2).
       `exponential_epsilon` gives epsilon.
    4. Aggregate ``histogram``: the counts v and k - v get noise for the sensitivities 2 (l1) and
       sqrt(2) (l2). The larger noisy count wins.

    The result is NaN for summary columns other than ``mean_error``, for other records, and for n <
    k. It is NaN, too, for a stability-based ``histogram``, which may release nothing.
    """
    n, budget, applies = setting.n, setting.budget, metric == "mean_error"
    if not applies or not isinstance(law, dist.Gaussian) or law.mean not in (0, 1) or n < e.buckets:
        return NAN
    k, sd = e.buckets, float(np.sqrt(law.variance))
    size, longer_buckets = divmod(n, k)
    votes, shares = np.zeros(1), np.ones(1)
    for buckets, records in ((longer_buckets, size + 1), (k - longer_buckets, size)):
        p = float(ndtr((law.mean - 0.5) * np.sqrt(records) / sd))
        bucket_votes, weights = binomial(buckets, p)
        votes = np.add.outer(votes, bucket_votes).ravel()
        shares = np.outer(shares, weights).ravel()
    if e.aggregate == "exponential":
        probability_one = expit(exponential_epsilon(budget) * (2 * votes - k) / 2)
    elif e.aggregate == "count":
        probability_one = additive(budget, 1.0, 1.0).cdf(votes - k / 2)
    elif not noise_on_all_bins(budget, 2, k / 4):
        return NAN
    else:
        noise = count_noise(budget)
        probability_one = np.mean(
            [noise.cdf(2 * votes - k - level) for level in equiprobable_values(noise)], axis=0
        )
    mean_probability_one = float(shares @ probability_one)
    return mean_probability_one if law.mean == 0 else 1 - mean_probability_one


# FriendlyCore
def _core_distribution(
    e: Any, law: dist.Distribution, setting: ReleaseSetting
) -> tuple[Noise, Noise, Floats] | None:
    """Return two noises of FriendlyCore, and equally likely bounds on the sum of its weights.

    The estimator FriendlyCore gives each record a weight, and releases the weighted mean with
    noise. Let W be the sum of the weights, and W_lo a private lower bound on W. The function
    returns the noise of W, the noise of the mean at sensitivity 1, and equally likely values of
    W_lo. The result is None if W has no known distribution, or if the budget is not (epsilon,
    delta).

    1. W has sensitivity 3 and gets half of the budget. W_lo is the noisy W minus the point that the
       noise exceeds with probability delta/2. The mean gets the other half of the budget.
    2. Let S be the number of inliers (`_inlier_counts`). Let G(x) be the number of other inliers
       within the distance `core_radius` of a record x, divided by n - 1.
    3. An inlier x has the weight clip(2 G(x) - 1, 0, 1), and an outlier has the weight 0. So W is S
       times the mean weight of an inlier.
    """
    inliers = _inlier_counts(e, law, setting)
    if inliers is None or not isinstance(setting.budget, ApproxDP):
        return None
    epsilon, delta = setting.budget.epsilon, setting.budget.delta
    if e.composition == "basic":
        weight_noise: Noise = Laplace(3 / (epsilon / 2))
        unit_noise = additive(setting.budget.fraction(0.5), float(np.sqrt(setting.d)), 1.0)
    else:
        half = ApproxDP(epsilon, delta / 2)
        whole = concentrated(half) if e.composition == "gdp" else ZCDP.within(half)
        rho = whole.rho / 2
        weight_noise, unit_noise = (
            GaussianNoise(3 / float(np.sqrt(2 * rho))),
            GaussianNoise(1 / float(np.sqrt(2 * rho))),
        )
    square = chdtri(setting.d, (np.arange(500) + 0.5) / 500)
    scale = getattr(law, "scale", 1.0)
    friends = chndtr((core_radius(e, setting) / scale) ** 2, setting.d, square)
    share = (inliers[:, None] - 1) / (setting.n - 1) * friends
    weight_sum = inliers * np.mean(np.clip(2 * share - 1, 0, 1), axis=1)
    return (
        weight_noise,
        unit_noise,
        np.add.outer(
            weight_sum - weight_noise.isf(delta / 2), equiprobable_values(weight_noise)
        ).ravel(),
    )


def _inlier_counts(e: Any, law: dist.Distribution, setting: ReleaseSetting) -> Floats | None:
    """Return equally likely numbers of inliers among n records; None if they are not known.

    Inliers are records from N(mu, s^2 I); all other records are outliers. Two records are friends
    if their distance is at most `core_radius`.

    - If all records are Gaussian, all are inliers.
    - For contaminated Gaussian records the number of inliers is binomial. It counts as known only
      if outliers are a minority, and too far from inliers to be their friends. Outliers may be
      friends of each other.
    """
    if is_isotropic(law):
        return np.array([float(setting.n)])
    if not isinstance(law, dist.MultivariateContaminatedGaussian):
        return None
    from scipy.stats import binom

    separation = core_radius(e, setting) + (1 + law.spread) * gaussian_norm_bound(setting.d, 1e-9)
    if law.eta and (law.gap < separation or bdtr(setting.n // 2, setting.n, 1 - law.eta) > 1e-6):
        return None
    return np.asarray(binom.ppf((np.arange(20) + 0.5) / 20, setting.n, 1 - law.eta))


def core_radius(e: Any, setting: ReleaseSetting) -> float:
    """Return the distance r within which two records are friends in FriendlyCore, in their unit.

    If the estimator `e` has a `radius`, r is this radius. Otherwise r is a bound on the distance of
    two of the n records from N(mu, sigma^2 I) in d dimensions, from `e.sigma` and `e.beta`.

    1. Half the squared distance, in units of sigma^2, is chi-squared with d degrees of freedom.
    2. It exceeds d + 2 sqrt(d t) + 2 t with probability at most e^-t (Laurent and Massart, LM00,
       Lemma 1; number not checked).
    3. The default r uses t = ln(n^2/beta).
    """
    t = float(np.log(setting.n**2 / e.beta))
    root = float(np.sqrt(2 * (setting.d + 2 * np.sqrt(setting.d * t) + 2 * t)))
    return float(e.radius or e.sigma * root)


def core_noise_quantile(e: Any, law: dist.Distribution, n: int, budget: Budget) -> float:
    """Return the 0.9 quantile of the norm of FriendlyCore's noise.

    The noise has the sensitivity 6r/W_lo. Here r is the distance within which two records are
    friends (`core_radius`), and W_lo is a private lower bound on the sum of the records' weights.
    Nothing is released if W_lo is too small.

    Parameters
    ----------
    e : FriendlyCoreMean
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    float
        Quantile in the unit of the records. Infinite if at most nine in ten runs release a value;
        NaN if the distribution of W_lo is not known.
    """
    setting = ReleaseSetting(n, law.d, budget)
    core = _core_distribution(e, law, setting)
    if core is None:
        return NAN
    _, unit_noise, weight_bounds = core
    released = weight_bounds[weight_bounds > max(3.0, e.threshold * n)]
    sd = 6 * core_radius(e, setting) * float(np.sqrt(unit_noise.variance))
    if len(released) <= 0.9 * len(weight_bounds):
        return float("inf")

    def excess(x: float) -> float:
        norm = x * released / sd * float(np.sqrt(unit_noise.variance))
        return float(np.sum(unit_noise.norm_cdf(setting.d, norm)) / len(weight_bounds) - 0.9)

    upper_end = 100 * sd * np.sqrt(setting.d) / float(released.min())
    return float(brentq(excess, 0.0, upper_end, xtol=1e-12 * upper_end))


@exact_for(est.FriendlyCoreMean)
def _core_error(
    metric: str, e: est.FriendlyCoreMean, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return the summary column ``noise_q90`` of FriendlyCore: a quantile of its noise.

    The column is the 0.9 quantile of the norm of the noise. The result is NaN for other columns. It
    is NaN, too, if a run releases nothing with a probability above `MAX_MISS_PROBABILITY` (0.001).
    """
    if (
        metric != "noise_q90"
        or exact_miss(e, law, setting.n, setting.budget) > MAX_MISS_PROBABILITY
    ):
        return NAN
    return core_noise_quantile(e, law, setting.n, setting.budget)


def is_isotropic(law: dist.Distribution) -> TypeGuard[dist.MultivariateGaussian]:
    """Return whether a distribution is N(mu, s^2 I) for some mean mu and standard deviation s."""
    return isinstance(law, dist.MultivariateGaussian) and law.condition == 1 and law.matrix is None


# Histograms


def exact_miss(estimator: Any, law: dist.Distribution, n: int, budget: Budget) -> float:
    """Return the probability that the private choice of an estimator goes wrong.

    Known cases:

    - the fullest bin of a histogram, if all records are in the two bins next to the mean;
    - a median by the exponential mechanism, if Gaussian records satisfy the estimator's assumptions
      (`satisfies_assumptions`);
    - FriendlyCore on Gaussian vectors with or without outliers, where a miss means that nothing is
      released;
    - one of the first two estimators, applied to each coordinate of records from N(0, s^2 I).

    Parameters
    ----------
    estimator : Estimator
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    n : int
        Number of records.
    budget : Budget
        Privacy budget.

    Returns
    -------
    float
        Probability; NaN if it is not known.
    """
    if isinstance(estimator, est.FriendlyCoreMean):
        core = _core_distribution(estimator, law, ReleaseSetting(n, law.d, budget))
        return NAN if core is None else float(np.mean(core[2] <= max(3.0, estimator.threshold * n)))
    if isinstance(estimator, est.CoordinateWise) and is_isotropic(law) and not law.norm:
        coordinate_law = dist.Gaussian(scale=law.scale)
        miss = exact_miss(estimator.base, coordinate_law, n, budget.fraction(1 / law.d))
        return 1 - (1 - miss) ** law.d
    fits = satisfies_assumptions(law, estimator)
    if isinstance(estimator, est.MedianThenClippedMean) and fits:
        record_bound = estimator.radius + gaussian_tail(estimator, n)
        return median_law(law, n, budget.fraction(0.5), estimator.sigma, record_bound)[2]
    if isinstance(estimator, est.KSU20RangeEstimate) or (
        isinstance(estimator, est.KarwaVadhanMean) and fits
    ):
        return _two_bin_miss_probability(
            law, mean_bound(estimator), histogram(estimator, ReleaseSetting(n, 1, budget))
        )
    return NAN


def satisfies_assumptions(law: dist.Distribution, e: Any, noise_sd: float = 0.0) -> bool:
    """Return whether Gaussian records satisfy the assumptions of an estimator.

    Parameters
    ----------
    law : Distribution
        Distribution of the records.
    e : Estimator
        Estimator, or another object with its parameters. Its `sigma` and its bound on the mean are
        read; for `GradientDescentMean` its `clip` and `steps` are read.
    noise_sd : float, default 0.0
        Standard deviation of a coordinate's noise in the release of `GradientDescentMean`.

    Returns
    -------
    bool
        True if the records are Gaussian with standard deviation at most sigma, and their mean is
        within the estimator's bound. For `GradientDescentMean`, True if the records are Gaussian
        and hardly ever clipped, whatever the noise of the first step.
    """
    gaussian = isinstance(law, dist.Gaussian | dist.MultivariateGaussian)
    if gaussian and isinstance(e, est.GradientDescentMean):  # no gradient is clipped, even at 0
        # The first step moves to the mean with its whole noise, which later steps average.
        one_step = noise_sd**2 * 3 * e.steps * (e.steps + 1) / (2 * (2 * e.steps + 1))
        first = np.sqrt(law.variance / law.d + one_step) * (np.sqrt(law.d) + 3)
        reach = max(6 * np.sqrt(law.variance), first)
        return bool(np.linalg.norm(law.mean) + reach <= e.clip)
    if not gaussian or getattr(e, "sigma", None) is None:
        return False
    narrow_enough = law.variance <= law.d * e.sigma**2 * (1 + 1e-9)
    return bool(narrow_enough and np.linalg.norm(law.mean) <= mean_bound(e) * (1 + 1e-9))


def _two_bin_miss_probability(
    law: dist.Distribution, radius: float, bins: Histogram | None
) -> float:
    """Return the probability that a private histogram returns neither of the bins next to the mean.

    The two bins meet at the edge nearest to the mean, and are assumed to hold all records. The
    result is NaN in these cases:

    - there is no histogram;
    - the absolute mean exceeds `radius`, the estimator's bound;
    - the standard deviation exceeds a quarter of the width of a bin, because records may then be in
      other bins;
    - the probability of the left bin is not known.
    """
    if not bins or abs(float(law.mean)) > radius or law.variance > (bins.width / 4) ** 2:
        return NAN
    steps = (float(law.mean) - bins.start) / bins.width
    edge_offset = (round(steps) - steps) * bins.width
    below = _probability_below_mean(law) if abs(edge_offset) < 1e-9 * bins.width else None
    if isinstance(law, dist.Gaussian):
        below = float(ndtr(edge_offset / np.sqrt(law.variance)))
    return NAN if below is None else histogram_miss_probability(below, True, bins)


def declares_failure(bins: Histogram) -> bool:
    """Return whether a private histogram releases nothing, by the public bound on a wrong bin."""
    if not noise_on_all_bins(bins.budget, bins.number, bins.held, bins.miss):
        return False
    return bool(wrong_bin_probability(bins.budget, bins.number - 1, bins.held) > bins.miss)


@cache  # because distributions of equal mean share the value
def histogram_miss_probability(share: float, either_bin: bool, bins: Histogram) -> float:
    """Return the probability that a private histogram returns a wrong bin, or no bin.

    All n records are in two bins. The number S of records in the first bin is binomial, and n - S
    are in the second bin. If `either_bin` is true, both bins are right answers. Otherwise only the
    first bin is right.

    - A stability-based histogram misses if no right bin has a noisy count above 1 + (2/epsilon)
      ln(1/(2 delta)). `noise_on_all_bins` says when it is used.
    - Other histograms miss if they declare failure (`declares_failure`), or if the largest noise of
      the empty bins exceeds the noisy count of every right bin.

    Parameters
    ----------
    share : float in [0, 1]
        Probability that a record is in the first bin.
    either_bin : bool
        True if both bins are right. False if only the first bin is right, and the count of the
        second bin is neglected.
    bins : Histogram
        Number of bins, number n of records, and budget.

    Returns
    -------
    float
        Probability.
    """
    noise, budget = count_noise(bins.budget), bins.budget
    if not noise_on_all_bins(budget, bins.number, bins.held, bins.miss):
        assert isinstance(budget, ApproxDP)
        rivals = [1 + 2 / budget.epsilon * float(np.log(1 / (2 * budget.delta)))]
    elif declares_failure(bins):
        return 1.0
    elif bins.number <= 1 + either_bin:
        return 0.0
    else:  # x is the largest of M noises if F(x)^M is uniform, F their distribution function
        u = (np.arange(200) + 0.5) / 200
        tail_probabilities = -np.expm1(np.log(u) / (bins.number - 1 - either_bin))
        rivals = [_exceeded_point(noise, float(probability)) for probability in tail_probabilities]
    s, weights = binomial(bins.records, share)
    second_below = [noise.cdf(x - bins.records + s) if either_bin else 1.0 for x in rivals]
    pairs = zip(rivals, second_below, strict=True)
    return float(np.mean([weights @ (noise.cdf(x - s) * second) for x, second in pairs]))


def overtaking_probability(share: float, bins: Histogram) -> float:
    """Return the probability that the noisy count of a bin is below that of another bin.

    The other bin holds all the records that are not in the first bin.

    Parameters
    ----------
    share : float in [0, 1]
        Probability that a record is in the first bin.
    bins : Histogram
        Number of records, and budget of the histogram.

    Returns
    -------
    float
        Probability.
    """
    noise = count_noise(bins.budget)
    s, weights = binomial(bins.records, share)
    deficit = bins.records - 2 * s
    return float(
        np.mean([weights @ noise.cdf(deficit + level) for level in equiprobable_values(noise, 200)])
    )


def count_noise(budget: Budget) -> Noise:
    """Return the noise of one count of a histogram.

    A replaced record changes two counts by 1, so the counts have the sensitivities 2 (l1) and
    sqrt(2) (l2). Under (epsilon, delta) the noise is Laplace noise of scale 2/epsilon.
    """
    if isinstance(budget, ApproxDP):
        return Laplace(2 / budget.epsilon)
    return additive(budget, 2.0, float(np.sqrt(2)))


def _exceeded_point(noise: Noise, upper: float) -> float:
    """Return the point that a noise exceeds with probability `upper`, even if this is above 1/2."""
    return noise.isf(upper) if upper <= 0.5 else -noise.isf(1 - upper)


def _probability_below_mean(law: dist.Distribution) -> float | None:
    """Return the probability that a record is below the mean; None if it is not known."""
    if isinstance(law, dist.Gaussian | dist.StudentT):
        return 0.5
    if isinstance(law, dist.Pareto):  # with support [1, inf) the mean is a/(a-1)
        return float(1 - (1 - 1 / law.tail_index) ** law.tail_index)
    return None


def median_law(
    law: dist.Distribution, n: int, budget: Budget, resolution: float, reach: float
) -> tuple[Floats, Floats, float]:
    """Return the distribution of a private median of Gaussian records.

    The exponential mechanism draws the median from an interval of length 2 `reach`, at the epsilon
    that `exponential_epsilon` gives. Let y be the distance of an answer from the mean, and Phi the
    normal distribution function.

    1. The density at the distance y is proportional to e^(-epsilon score/2).
    2. The score is max(0, n (Phi((y - resolution)/sigma) - 1/2)). The true score has the share
       of the records below a point in place of Phi. The difference is of lower order.
    3. Answers farther than 12 sigma from the mean count as wrong.

    Parameters
    ----------
    law : Distribution
        Gaussian distribution of the records, with standard deviation sigma.
    n : int
        Number of records.
    budget : Budget
        Privacy budget of the median.
    resolution : float
        Distance between a record and an answer, in the unit of the records, up to which the record
        counts on both sides of the answer.
    reach : float
        Half the length of the range of answers, in the unit of the records.

    Returns
    -------
    distances, weights : ndarray of shape (24000,)
        Distances y > 0, and their probabilities if the answer is not wrong.
    missed : float
        Probability of a wrong answer.
    """
    epsilon, sigma = exponential_epsilon(budget), float(np.sqrt(law.variance))
    y = (np.arange(24_000) + 0.5) / 2000 * sigma
    score = n * np.maximum(ndtr((y - resolution) / sigma) - 0.5, 0.0)
    weights = np.exp(-epsilon * score / 2)
    right_mass = 2 * float(np.sum(weights)) * sigma / 2000
    length = 2 * (max(reach - 12 * sigma, 0.0))
    odds = np.log(length) - epsilon * n / 4 - np.log(right_mass) if length else -np.inf
    return y, weights / weights.sum(), float(expit(odds))
