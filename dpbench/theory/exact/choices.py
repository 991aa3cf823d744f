"""Exact values where a private choice decides: histograms, medians, votes, FriendlyCore.

Written from the definitions, without calling an estimator.
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
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, gaussian_tail, mean_bound
from dpbench.theory.exact.clip_and_noise_oracle import Histogram, gaussian_norm, histogram
from dpbench.theory.exact.noise import Gaussian, Laplace, Noise, additive, binomial

__all__ = [
    "RARE", "core_noise_quantile", "count_noise", "exact_miss", "exponential_epsilon",
    "histogram_misses", "is_near", "is_round", "levels", "median_law", "overtaken",
]  # fmt: skip

NAN = float("nan")
RARE = 1e-3  # largest probability of a miss that is neglected


def exponential_epsilon(budget: Budget) -> float:
    """Return epsilon of the exponential mechanism: sqrt(8 rho) (zCDP), 2 logit(Phi(mu/2)) (GDP)."""
    if isinstance(budget, GDP):
        return 2 * float(logit(ndtr(budget.mu / 2)))
    return float(np.sqrt(8 * budget.rho)) if isinstance(budget, ZCDP) else budget.pure_epsilon


def levels(noise: Noise, points: int = 1000) -> Floats:
    """Return equally likely values of a noise."""
    upper = (np.arange(points // 2) + 0.5) / points
    half = np.array([noise.above(one) for one in upper])
    return np.concatenate([half, -half])


@exact_for(est.SubsampleTest)
def _wrong_answers(
    metric: str, e: est.SubsampleTest, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """Return the probability that the index is not the mean, 0 or 1, of the law.

    A bucket of b records votes for 1 with probability 1 - Phi((1/2 - mean) sqrt(b)/sd); n mod k of
    the k buckets have one record more. Of v votes the count with noise exceeds k/2; the
    exponential mechanism's odds for 1 are e^(epsilon (2v - k)/2); the histogram's noises, of
    sensitivities 2 and sqrt(2), differ by more than the counts v and k - v.
    """
    n, budget, known = at.n, at.budget, metric == "mean_error"
    if not known or not isinstance(law, dist.Gaussian) or law.mean not in (0, 1) or n < e.buckets:
        return NAN
    k, sd = e.buckets, float(np.sqrt(law.variance))
    size, longer = divmod(n, k)
    votes, shares = np.zeros(1), np.ones(1)
    for number, records in ((longer, size + 1), (k - longer, size)):
        p = float(ndtr((law.mean - 0.5) * np.sqrt(records) / sd))
        more, weights = binomial(number, p)
        votes = np.add.outer(votes, more).ravel()
        shares = np.outer(shares, weights).ravel()
    if e.aggregate == "exponential":
        one = expit(exponential_epsilon(budget) * (2 * votes - k) / 2)
    elif e.aggregate == "count":
        one = additive(budget, 1.0, 1.0).cdf(votes - k / 2)
    elif isinstance(budget, ApproxDP):
        return NAN  # nothing may be released
    else:
        noise = count_noise(budget)
        one = np.mean([noise.cdf(2 * votes - k - other) for other in levels(noise)], axis=0)
    found_one = float(shares @ one)
    return found_one if law.mean == 0 else 1 - found_one


# FriendlyCore


def _core(e: Any, law: dist.Distribution, at: ReleaseSetting) -> tuple[Noise, Noise, Floats] | None:
    """Return the noise of W, that of the mean at sensitivity 1, and all equally likely W_lo.

    L17, made private: W with sensitivity 3 at half of the budget, less its tail at delta/2;
    the mean at the other half. W itself is S times the mean of clip(2 G - 1, 0, 1), where S records
    are no outliers, and G(x) is the share of the n records that are one of them and within r of x.
    """
    inside = _inside(e, law, at)
    if inside is None or not isinstance(at.budget, ApproxDP):
        return None
    epsilon, delta = at.budget.epsilon, at.budget.delta
    if e.composition == "basic":
        first: Noise = Laplace(3 / (epsilon / 2))
        unit = additive(at.budget.fraction(0.5), float(np.sqrt(at.d)), 1.0)
    else:
        rho = ZCDP.within(ApproxDP(epsilon, delta / 2)).rho / 2
        first, unit = Gaussian(3 / float(np.sqrt(2 * rho))), Gaussian(1 / float(np.sqrt(2 * rho)))
    square = chdtri(at.d, (np.arange(500) + 0.5) / 500)
    scale = getattr(law, "scale", 1.0)
    friends = chndtr((core_radius(e, at) / scale) ** 2, at.d, square)
    share = (inside[:, None] - 1) / (at.n - 1) * friends
    total = inside * np.mean(np.clip(2 * share - 1, 0, 1), axis=1)
    return first, unit, np.add.outer(total - first.above(delta / 2), levels(first)).ravel()


def _inside(e: Any, law: dist.Distribution, at: ReleaseSetting) -> Floats | None:
    """Return equally likely numbers of records from N(mu, s^2 I) among n; None if not known.

    The outliers must be a minority and far away: they may be friends of each other, not of the
    others.
    """
    if is_round(law):
        return np.array([float(at.n)])
    if not isinstance(law, dist.MultivariateContaminatedGaussian):
        return None
    from scipy.stats import binom  # slow to load

    near = core_radius(e, at) + (1 + law.spread) * gaussian_norm(at.d, 1e-9)
    if law.eta and (law.gap < near or bdtr(at.n // 2, at.n, 1 - law.eta) > 1e-6):
        return None
    return np.asarray(binom.ppf((np.arange(20) + 0.5) / 20, at.n, 1 - law.eta))


def core_radius(e: Any, at: ReleaseSetting) -> float:
    """Return the radius r within which two records are friends.

    Half the squared distance of two records is chi-squared; it exceeds d + 2 sqrt(d t) + 2 t with
    probability at most e^-t (LM00, Lemma 1; number not checked).

    Parameters
    ----------
    e : FriendlyCoreMean
        Its radius, sigma and beta are read.
    at : At
        Records, dimension and budget.

    Returns
    -------
    float
        r, in the unit of the data.
    """
    t = float(np.log(at.n**2 / e.beta))
    root = float(np.sqrt(2 * (at.d + 2 * np.sqrt(at.d * t) + 2 * t)))
    return float(e.radius or e.sigma * root)


def core_noise_quantile(e: Any, law: dist.Distribution, n: int, budget: Budget) -> float:
    """Return the 0.9 quantile of the noise's norm, whose sensitivity is 6r/W_lo.

    Parameters
    ----------
    e : FriendlyCoreMean
        Only its parameters are read.
    law : Distribution
        Distribution of the records.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee.

    Returns
    -------
    float
        Quantile; infinite if less than nine in ten runs release a value, NaN if it is not known.
    """
    at = ReleaseSetting(n, law.d, budget)
    found = _core(e, law, at)
    if found is None:
        return NAN
    _, unit, least = found
    kept = least[least > max(3.0, e.threshold * n)]
    sd = 6 * core_radius(e, at) * float(np.sqrt(unit.variance))
    if len(kept) <= 0.9 * len(least):
        return float("inf")

    def missing(x: float) -> float:
        norm = x * kept / sd * float(np.sqrt(unit.variance))
        return float(np.sum(unit.norm_cdf(at.d, norm)) / len(least) - 0.9)

    return float(brentq(missing, 0.0, 100 * sd * np.sqrt(at.d) / float(kept.min())))


@exact_for(est.FriendlyCoreMean)
def _core_error(
    metric: str, e: est.FriendlyCoreMean, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """Return ``noise_q90``, if next to nothing is withheld."""
    if metric != "noise_q90" or exact_miss(e, law, at.n, at.budget) > RARE:
        return NAN
    return core_noise_quantile(e, law, at.n, at.budget)


def is_round(law: dist.Distribution) -> TypeGuard[dist.MultivariateGaussian]:
    """Return whether the distribution is N(mu, s^2 I)."""
    return isinstance(law, dist.MultivariateGaussian) and law.condition == 1 and law.matrix is None


# Histograms


def exact_miss(estimator: Any, law: dist.Distribution, n: int, budget: Budget) -> float:
    """Return the probability that the coarse step goes wrong.

    Known cases: a histogram, if all records are in two bins, on both sides of the mean; the median
    of the exponential mechanism, for Gaussian records with sigma and mean as the estimator assumes;
    FriendlyCore, for Gaussian vectors with outliers, as the probability of no release.

    Parameters
    ----------
    estimator : Estimator
        Only its parameters are read.
    law : Distribution
        Symmetric, or with a known probability of a record below the mean.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee.

    Returns
    -------
    float
        Probability; NaN if it is not known.
    """
    if isinstance(estimator, est.FriendlyCoreMean):
        core = _core(estimator, law, ReleaseSetting(n, law.d, budget))
        return NAN if core is None else float(np.mean(core[2] <= max(3.0, estimator.threshold * n)))
    if isinstance(estimator, est.CoordinateWise) and is_round(law) and not law.norm:
        one = dist.Gaussian(scale=law.scale)
        missed = exact_miss(estimator.base, one, n, budget.fraction(1 / law.d))
        return 1 - (1 - missed) ** law.d
    near = is_near(law, estimator)
    if isinstance(estimator, est.MedianThenClippedMean) and near:
        reach_of_all = estimator.radius + gaussian_tail(estimator, n)
        return median_law(law, n, budget.fraction(0.5), estimator.sigma, reach_of_all)[2]
    if isinstance(estimator, est.KSU20RangeEstimate) or (
        isinstance(estimator, est.KarwaVadhanMean) and near
    ):
        return _two_bins(
            law, mean_bound(estimator), histogram(estimator, ReleaseSetting(n, 1, budget))
        )
    return NAN


def is_near(law: dist.Distribution, e: Any) -> bool:
    """Return whether Gaussian records agree with the estimator's sigma and radius.

    Parameters
    ----------
    law : Distribution
        Distribution of the records.
    e : Estimator
        Its sigma and radius are read, or the clip of `GradientDescentMean`.

    Returns
    -------
    bool
        True if the records are Gaussian, no wider than sigma, with a mean within the radius.
    """
    gaussian = isinstance(law, dist.Gaussian | dist.MultivariateGaussian)
    if gaussian and isinstance(e, est.GradientDescentMean):  # from 0 on nothing is clipped
        return bool(np.linalg.norm(law.mean) + 6 * np.sqrt(law.variance) <= e.clip)
    if not gaussian or getattr(e, "sigma", None) is None:
        return False
    narrow = law.variance <= law.d * e.sigma**2 * (1 + 1e-9)
    return bool(narrow and np.linalg.norm(law.mean) <= mean_bound(e) * (1 + 1e-9))


def _two_bins(law: dist.Distribution, radius: float, bins: Histogram | None) -> float:
    """Return `histogram_misses` if all records are in the two bins at the edge next to the mean."""
    if not bins or abs(float(law.mean)) > radius or law.variance > (bins.width / 4) ** 2:
        return NAN
    steps = (float(law.mean) - bins.start) / bins.width
    off = (round(steps) - steps) * bins.width
    below = _share_below(law) if abs(off) < 1e-9 * bins.width else None
    if isinstance(law, dist.Gaussian):
        below = float(ndtr(off / np.sqrt(law.variance)))
    return NAN if below is None else histogram_misses(below, True, bins)


@cache  # distributions of equal mean share the value
def histogram_misses(share: float, both: bool, bins: Histogram) -> float:
    """Return the probability that a histogram returns neither of the bins that hold the records.

    S of n records, binomial, are in a bin of probability `share`, n - S in a second bin. The answer
    is wrong if the largest noise of the other bins exceeds these counts with their noise, or under
    (epsilon, delta) if no count is above 1 + (2/epsilon) ln(1/(2 delta)).

    Parameters
    ----------
    share : float
        Probability of the first bin.
    both : bool
        Whether the second bin is a right answer.
    bins : Histogram
        The bins.

    Returns
    -------
    float
        Probability.
    """
    noise, budget = count_noise(bins.budget), bins.budget
    if isinstance(budget, ApproxDP):
        rivals = [1 + 2 / budget.epsilon * float(np.log(1 / (2 * budget.delta)))]
    elif bins.number <= 1 + both:
        return 0.0
    else:  # x is distributed as the largest of M noises if F(x)^M is uniform
        u = (np.arange(200) + 0.5) / 200
        above = -np.expm1(np.log(u) / (bins.number - 1 - both))
        rivals = [_largest(noise, float(one)) for one in above]
    s, weights = binomial(bins.records, share)
    other = [noise.cdf(x - bins.records + s) if both else 1.0 for x in rivals]
    below = zip(rivals, other, strict=True)
    return float(np.mean([weights @ (noise.cdf(x - s) * second) for x, second in below]))


def overtaken(share: float, bins: Histogram) -> float:
    """Return the probability that a bin counts fewer records than one bin with all the others.

    Parameters
    ----------
    share : float
        Probability of the first bin.
    bins : Histogram
        The bins.

    Returns
    -------
    float
        Probability, with the noise of both counts.
    """
    noise = count_noise(bins.budget)
    s, weights = binomial(bins.records, share)
    more = bins.records - 2 * s
    return float(np.mean([weights @ noise.cdf(more + other) for other in levels(noise, 200)]))


def count_noise(budget: Budget) -> Noise:
    """Return the noise of a count: Laplace noise also under (epsilon, delta).

    A replaced record changes two counts by 1.
    """
    if isinstance(budget, ApproxDP):
        return Laplace(2 / budget.epsilon)
    return additive(budget, 2.0, float(np.sqrt(2)))


def _largest(noise: Noise, upper: float) -> float:
    """Return the point that a noise exceeds with this probability."""
    return noise.above(upper) if upper <= 0.5 else -noise.above(1 - upper)


def _share_below(law: dist.Distribution) -> float | None:
    """Return P(X < mean), or None if it is not known."""
    if isinstance(law, dist.Gaussian | dist.StudentT):
        return 0.5
    if isinstance(law, dist.Pareto):  # for support [1, inf) the mean is a/(a-1)
        return float(1 - (1 - 1 / law.tail_index) ** law.tail_index)
    return None


def median_law(
    law: dist.Distribution, n: int, budget: Budget, resolution: float, mean_bound: float
) -> tuple[Floats, Floats, float]:
    """Return the distribution of the exponential mechanism's median of Gaussian records.

    The density at distance y from the mean is proportional to e^(-epsilon score/2) on +-reach. The
    score is n (Phi((y - resolution)/sigma) - 1/2), and at least 0, where Phi stands for the share
    of the records within y; the error of this is of lower order. Distances above 12 sigma count as
    wrong.

    Parameters
    ----------
    law : Distribution
        Gaussian distribution of the records.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee.
    resolution : float
        Distance within which records count on both sides.
    reach : float
        Half the length of the range of answers.

    Returns
    -------
    distances, weights : ndarray
        Distances y and probabilities, given that the answer is not wrong.
    missed : float
        Probability of a wrong answer.
    """
    epsilon, sigma = exponential_epsilon(budget), float(np.sqrt(law.variance))
    y = (np.arange(24_000) + 0.5) / 2000 * sigma
    score = n * np.maximum(ndtr((y - resolution) / sigma) - 0.5, 0.0)
    weights = np.exp(-epsilon * score / 2)
    right = 2 * float(np.sum(weights)) * sigma / 2000
    length = 2 * (max(mean_bound - 12 * sigma, 0.0))
    odds = np.log(length) - epsilon * n / 4 - np.log(right) if length else -np.inf
    return y, weights / weights.sum(), float(expit(odds))
