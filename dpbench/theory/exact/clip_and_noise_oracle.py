"""Last steps of estimators, a clip and additive noise, written again from the sources.

Used to check the estimators: only their parameters are read, and no method of theirs is called.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtri

from dpbench import estimators as est
from dpbench.privacy import ApproxDP, Budget, PureDP
from dpbench.theory.exact.clip_and_noise import (
    STEPS,
    ClipAndNoise,
    ReleaseSetting,
    best_clip_threshold,
    box,
    gaussian_tail,
    mean_bound,
    quantile,
    step_for,
)
from dpbench.theory.exact.noise import Gaussian, Noise, Radial, additive, concentrated

__all__ = [
    "Histogram", "coinpress_round", "descended", "gaussian_norm", "histogram",
    "ksu20_alpha", "ksu20_groups", "last_step", "round_shares", "shrunk",
]  # fmt: skip

LARGEST = 1e300  # limit of numbers, and of the number of bins


def _between(
    at: ReleaseSetting, low: float | None, high: float | None, rows: float = 0
) -> ClipAndNoise | None:
    """Return the step that clips to [low, high]; None if an end is missing."""
    if low is None or high is None:
        return None
    return box(at, (high - low) / 2, (high + low) / 2, rows=rows)


@step_for(est.BinaryMean)
def _binary(_: est.BinaryMean, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the step of a binary mean."""
    return _between(at, 0.0, 1.0)


@step_for(est.ClippedMean)
def _clipped(e: est.ClippedMean, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the step of a clipped mean."""
    return _between(at, e.lower, e.upper)


@step_for(est.NaiveGaussianMean)
def _naive(e: est.NaiveGaussianMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the step of L15, Theorem 1: a clip to +-(R + t)."""
    return box(at, e.radius + gaussian_tail(e, at.n), 0.0)


@step_for(est.MedianThenClippedMean)
def _around_a_median(e: est.MedianThenClippedMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return a clip to +-2t around a private median, which costs half of the budget (L15)."""
    return box(at, 2 * gaussian_tail(e, at.n), share=0.5)


@step_for(est.NoisyvarInterval, est.ParametricBootstrapInterval)
def _simulated(e: Any, at: ReleaseSetting) -> ClipAndNoise:
    """Return the clip to [lower, upper]; an unknown variance takes a share of the budget."""
    share = e.share if e.sigma is None else 1.0
    return box(at, (e.upper - e.lower) / 2, (e.upper + e.lower) / 2, share=share)


@step_for(est.L2ClippedMean)
def _bounded(e: est.L2ClippedMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the projection on a ball, with the noise of the chosen mechanism."""
    step = 2 * e.radius / at.n
    noise = additive(at.budget, float(np.sqrt(at.d)) * step, step)
    if e.mechanism == "l2":
        assert isinstance(at.budget, PureDP)
        noise = Radial(step / at.budget.epsilon)
    return ClipAndNoise(noise, e.radius, 0.0, at.n)


@step_for(est.TunedClippedMean)
def _heavy_tailed(e: est.TunedClippedMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the clip to +-(R + T) with T = (n/beta)^(1/k), c (epsilon n)^(1/k), or the best T."""
    n, k = at.n, e.k
    if e.threshold or e.policy == "minimax":
        one = additive(at.budget, 2 / n, 2 / n)
        return box(
            at, e.radius + (e.threshold or best_clip_threshold(k, e.radius, e.beta, one)), 0.0
        )
    effective = n * np.log(1 / e.beta) / quantile(at.budget, e.beta)
    t = (n / e.beta) ** (1 / k) if e.policy == "all" else e.c * effective ** (1 / k)
    return box(at, e.radius + t, 0.0)


@step_for(est.LocalMean)
def _local(e: est.LocalMean, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the average of n local releases, whose noise is normal up to order 1/n.

    T = (n epsilon^2)^(1/(2k)), or the best T. Randomised response on +-C has the variance
    C^2/tanh(epsilon/2)^2 less the squares of the records, which are about R^2 + 1 and are
    neglected. The noise of three values depends on the records, so it is not known.
    """
    if e.mechanism == "three_values":
        return None
    if e.mechanism == "additive":
        own = PureDP(at.budget.epsilon) if isinstance(at.budget, PureDP) else at.budget  # Laplace
        variance = additive(own, 2.0, 2.0).variance
    else:
        grown = float(np.exp(min(at.budget.pure_epsilon, 700.0)))
        variance = ((grown + 1) / (grown - 1)) ** 2
    unit = Gaussian(float(np.sqrt(variance / at.n)))
    if e.policy == "minimax":
        half_width = e.radius + best_clip_threshold(e.k, e.radius, e.beta, unit)
    else:
        own = PureDP(at.budget.epsilon) if isinstance(at.budget, PureDP) else at.budget
        epsilon = np.log(1 / e.beta) / quantile(own, e.beta)
        half_width = e.radius + float((at.n * epsilon**2) ** (0.5 / e.k))
    return ClipAndNoise(Gaussian(unit.sd * half_width), half_width, 0.0, at.n)


class Histogram(NamedTuple):
    """Bins of equal width and their contents.

    Parameters
    ----------
    start : float
        Edge of a bin.
    width : float
        Width of a bin.
    number : float
        Number of bins; may be infinite.
    records : int
        Number of records in the histogram.
    budget : Budget
        Privacy guarantee of the histogram.
    """

    start: float
    width: float
    number: float
    records: int
    budget: Budget


def histogram(e: Any, at: ReleaseSetting) -> Histogram | None:
    """Return the histogram of an estimator's coarse step.

    KV18's bins cover +-(R + t) and have an edge at 0; KSU20's cover +-(R + 2r) from its left end.

    Parameters
    ----------
    e : Estimator
        Only its parameters are read.
    at : At
        Records, dimension and budget.

    Returns
    -------
    Histogram or None
        None for an estimator without a histogram.
    """
    if isinstance(e, est.KarwaVadhanMean):
        t = _kv_bin(e, at.n)
        count = 2 * np.ceil((mean_bound(e) + t) / (2 * t))
        return Histogram(0.0, 2 * t, float(count), at.n, at.budget.fraction(0.5))
    if isinstance(e, est.KSU20RangeEstimate):
        r, records = _half_bin(e, e.alpha), at.n
    elif isinstance(e, est.KSU20Mean):
        r, averaged = _ksu20_bin(e, at.n, at.budget), _averaged(e, at.n, at.budget)
        records = (at.n - averaged) // ksu20_groups(e)
    elif isinstance(e, est.UserLevelMean):
        r = float(np.sqrt(2 / e.m))
        number = 1 + 2 * np.ceil(e.radius / (2 * r))
        return Histogram(-r, 2 * r, float(number), at.n - _people_averaged(e, at), at.budget)
    else:
        return None
    end = mean_bound(e) + 2 * r
    start = float(np.fmod(-end, 2 * r)) if np.isfinite(end) else 0.0
    return Histogram(start, 2 * r, float(np.ceil(end / r)), records, at.budget)


def _kv_bin(e: est.KarwaVadhanMean, n: int) -> float:
    """Return half the width of a bin."""
    return max(gaussian_tail(e, n), (e.radius or 0.0) / LARGEST)


@step_for(est.KarwaVadhanMean)
def _around_a_bin(e: est.KarwaVadhanMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return a clip to width 6t around a private bin of width 2t; the bin costs half (L15)."""
    return box(at, 3 * _kv_bin(e, at.n), share=0.5)


def round_shares(rounds: int) -> list[float]:
    """Return BDKU20's shares of the budget: 3/4 for the last round, 1/4 for all rounds before."""
    return [1.0] if rounds == 1 else [0.25 / (rounds - 1)] * (rounds - 1) + [0.75]


def shrunk(e: est.ShrinkingIntervals, at: ReleaseSetting) -> tuple[ClipAndNoise, float, bool]:
    """Return the last reported round of shrinking intervals.

    Each half-width w is the sum of the two-sided tails of N(0, sigma^2/n) and of the noise, both at
    beta/(2 rounds).

    Parameters
    ----------
    e : ShrinkingIntervals
        Only its parameters are read.
    at : At
        Records, dimension and budget.

    Returns
    -------
    step : Step
        Clip and noise.
    w : float
        Half-width of the interval.
    narrowed : bool
        Whether w is below that of the round before.
    """
    rounds = e.rounds or 2 + int(np.log1p(min(e.radius / e.sigma, LARGEST)))
    miss, w = e.beta / (2 * rounds), e.radius
    sampling = float(-ndtri(miss / 2)) * e.sigma / float(np.sqrt(at.n))
    for share in round_shares(rounds)[: e.reported_round]:
        before, step = w, box(at, w + gaussian_tail(e, at.n), share=share)
        w = min(w, sampling + step.noise.above(miss / 2))
    return step, w, w < before


@step_for(est.ShrinkingIntervals)
def _shrinking(e: est.ShrinkingIntervals, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the last step of shrinking intervals; None if the interval no longer shrinks."""
    step, _, narrowed = shrunk(e, at)
    return step if narrowed else None


def gaussian_norm(d: int, b: float) -> float:
    """Return a bound on |N(0, I_d)| that holds with probability 1 - b.

    sqrt(d + 2 sqrt(d ln(1/b)) + 2 ln(1/b)) (LM00, Lemma 1; number not checked).

    Parameters
    ----------
    d : int
        Dimension.
    b : float
        Probability of a larger norm.

    Returns
    -------
    float
        Bound.
    """
    log = np.log(1 / b)
    return float(np.sqrt(d + 2 * np.sqrt(d * log) + 2 * log))


def coinpress_round(
    r: float, shares: list[float], b: float, at: ReleaseSetting
) -> tuple[float, float]:
    """Return the noise and the clip of the last of several CoinPress rounds.

    BDKU20: clip at s = min(sqrt(r^2 + 6r + gamma^2), r + gamma), then r = gamma sqrt(1/n + sd^2),
    where 6r is the constant of the authors' code, gamma is `gaussian_norm`.

    Parameters
    ----------
    r : float
        Radius before the first round, in standard deviations of the records.
    shares : list of float
        Share of the budget of each round.
    b : float
        Tail probability of gamma.
    at : At
        Records, dimension and budget.

    Returns
    -------
    sd, clip : float
        Standard deviation of the noise and radius s, in standard deviations of the records.
    """
    gamma, rho = gaussian_norm(at.d, b), concentrated(at.budget)
    for share in shares:
        clip = r + gamma if r > 1e100 else min(float(np.sqrt(r**2 + 6 * r + gamma**2)), r + gamma)
        sd = 2 * clip / at.n / float(np.sqrt(2 * rho.rho * share))
        r = min(gamma * float(np.hypot(1 / np.sqrt(at.n), sd)), LARGEST)
    return sd, clip


@step_for(est.CoinPressMean)
def _coinpress(e: est.CoinPressMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the last step of CoinPress."""
    sd, clip = coinpress_round(
        e.radius / e.sigma, round_shares(e.rounds)[: e.reported_round], e.b, at
    )
    return ClipAndNoise(Gaussian(sd * e.sigma), clip * e.sigma, None, at.n)


def descended(mean_bound: float, steps: int, at: ReleaseSetting) -> float:
    """Return the standard deviation of the noise in gradient descent's average.

    It is that of sum w_t Z_t with w_t = 2t/(T (T+1)), where Z_t has sensitivity 2 reach/n and a
    T-th of the budget.

    Parameters
    ----------
    reach : float
        Norm to which gradients are clipped, times the step size.
    steps : int
        Number of steps T.
    at : At
        Records, dimension and budget.

    Returns
    -------
    float
        Standard deviation of each coordinate.
    """
    weights = 2 * np.arange(1, steps + 1) / (steps * (steps + 1))
    rho = concentrated(at.budget).rho / steps
    return float(2 * mean_bound / at.n * np.sqrt((weights**2).sum() / (2 * rho)))


@step_for(est.GradientDescentMean)
def _descent(e: est.GradientDescentMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the last step of gradient descent."""
    return ClipAndNoise(Gaussian(descended(e.clip, e.steps, at)), e.clip, None, at.n)


def ksu20_groups(e: est.KSU20Mean) -> int:
    """Return the number of groups of each half: 200 ln(2/beta) as printed (KSU20), otherwise 1."""
    return int(np.ceil(200 * np.log(2 / e.beta))) if e.constants == "paper" else 1


def _averaged(e: est.KSU20Mean, n: int, budget: Budget) -> int:
    """Return the number of averaged records.

    It is half of the records; for ``tuned`` nine tenths, less what the histogram needs beyond a
    tenth, but no less than half.
    """
    if e.constants != "tuned":
        return n // 2
    wanted = max(n / 10, _histogram_needs(e, np.nan, n, budget))
    return max(n // 2, int(np.floor(n - wanted)))


def _laplace_for(budget: Budget) -> Budget:
    """Return the budget of averages: under (epsilon, delta) KSU20 adds Laplace noise at epsilon."""
    return PureDP(budget.epsilon) if isinstance(budget, ApproxDP) else budget


def _half_bin(e: est.KSU20Mean | est.KSU20RangeEstimate, alpha: float) -> float:
    """Return half the width r of a bin.

    KSU20 prints 10 alpha^(-1/(k-1)); ``practical`` has 2 alpha^(-1/(k-1)), ``tuned`` 2^(1/k).
    """
    if e.constants == "tuned":
        return float(np.exp2(1 / e.k))
    return float((10 if e.constants == "paper" else 2) * alpha ** (-1 / (e.k - 1)))


def _ksu20_bin(e: est.KSU20Mean, n: int, budget: Budget) -> float:
    """Return r of `_half_bin` at the alpha for n records."""
    return _half_bin(e, np.nan if e.constants == "tuned" else ksu20_alpha(e, n, budget))


def ksu20_alpha(e: est.KSU20Mean, n: int, budget: Budget) -> float:
    """Return the error alpha for which KSU20's algorithm is run at this n.

    n records, or the records of a group of one half (``paper``), are just enough for alpha.
    ``paper``: 90/alpha^2 + 180 q alpha^(-k/(k-1)) + 16 tails of the histogram's noise, which no bin
    exceeds with probability 0.9. ``practical``: 1/alpha^2 + alpha^(-k/(k-1))/epsilon + ln(1 +
    R)/epsilon.

    Parameters
    ----------
    e : KSU20Mean
        Only its parameters are read.
    n : int
        Number of records.
    budget : Budget
        Privacy guarantee.

    Returns
    -------
    float
        alpha.
    """
    paper, mean = e.constants == "paper", _laplace_for(budget)
    size = n / (2 * ksu20_groups(e)) if paper else n
    q = quantile(mean, 0.1)

    def needed(alpha: float) -> float:
        """Return the number of records that alpha needs."""
        power = float(alpha ** (-e.k / (e.k - 1)))
        if paper:
            return 90 / alpha**2 + 180 * q * power + _histogram_needs(e, alpha, size, budget)
        rare = budget.delta if isinstance(budget, ApproxDP) else 1 / (1 + (e.radius or 0.0))
        return 1 / alpha**2 + q / float(np.log(10)) * power + quantile(mean, rare)

    alpha = e.alpha or (1 / 16 if paper else 1.0)
    if e.alpha is None and needed(alpha) < size:
        from scipy.optimize import brentq  # a slow import

        ends = -0.5 * np.log(size) - 1, np.log(alpha)
        alpha = float(np.exp(brentq(lambda a: np.log(needed(np.exp(a)) / size), *ends)))
    return alpha


def _histogram_needs(e: est.KSU20Mean, alpha: float, size: float, budget: Budget) -> float:
    """Return the number of records that the histogram needs."""
    if isinstance(budget, ApproxDP):
        threshold = 1 + 2 / budget.epsilon * np.log(1 / (2 * budget.delta))
        return float(max(32 / budget.epsilon * np.log(10 * size), 16 / 3 * threshold))
    assert e.radius is not None
    r = _half_bin(e, alpha)
    bins = np.ceil((e.radius + 2 * r) / r)  # of width 2r on +-(R + 2r)
    return 16 * additive(budget, 2.0, float(np.sqrt(2))).above(0.05 / bins)


@step_for(est.KSU20Mean)
def _ksu20(e: est.KSU20Mean, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the step of a group of the averaged half; the range comes from the other half."""
    mean = ReleaseSetting(at.n, at.d, _laplace_for(at.budget))
    rows = _averaged(e, at.n, at.budget) / ksu20_groups(e)
    if rows < 1:
        return None
    r = _ksu20_bin(e, at.n, at.budget)
    if e.constants == "paper":
        return box(mean, 3 * r, rows=rows)
    off = r + 4 ** (1 / e.k)
    if e.constants == "tuned":
        noise = additive(mean.budget, 2 / rows, 2 / rows)
        return box(mean, off + best_clip_threshold(e.k, off, e.beta, noise), rows=rows)
    best = (e.k - 1) / e.k * (rows / (2 * quantile(mean.budget, e.beta))) ** (1 / e.k)
    return box(mean, off + best, rows=rows)


def _people_averaged(e: est.UserLevelMean, at: ReleaseSetting) -> int:
    """Return the number of averaged people: that of `KSU20Mean` with k = 2 and radius R sqrt(m)."""
    one = est.KSU20Mean(k=2, radius=e.radius * float(np.sqrt(e.m)), constants="tuned")
    return _averaged(one, at.n, at.budget)


@step_for(est.UserLevelMean)
def _person(e: est.UserLevelMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the clip to half-width r + 2/sqrt(m) + max(sqrt(2 ln(n/q)/m), T/m).

    r = sqrt(2/m), and T is the best clip for n m records with moment order k.
    """
    people = _people_averaged(e, at)
    light = np.sqrt(2 * np.log(max(people / quantile(at.budget, e.beta), float(np.exp(1)))))
    noise = additive(at.budget, 2 / (people * e.m), 2 / (people * e.m))
    heavy = best_clip_threshold(e.k, 0.0, e.beta, noise) / np.sqrt(e.m)
    return box(at, float(np.sqrt(2) + 2 + max(light, heavy)) / float(np.sqrt(e.m)), rows=people)


@step_for(est.KSU20BallMean)
def _ball(e: est.KSU20BallMean, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the ball of KSU20, Algorithm 3, with its noise.

    T balances the bias with the 1 - beta quantile of the noise's norm (chi_d or Gamma(d)). The bias
    is T^-(k-1) if outer records are discarded and b(1) T^-(k-1) if they are projected; the
    sensitivity is 8r/(3n) or 2r/n. slope^2 T^2 + bias^2 T^(-2(k-1)) is smallest at T^k = sqrt(k-1)
    bias/slope.
    """
    if at.n < 2:
        return None
    gaussian = e.radius is None or not isinstance(at.budget, PureDP)
    own: Budget = at.budget if e.radius is None or not gaussian else concentrated(at.budget)
    rows = _in_the_ball(e, ReleaseSetting(at.n, at.d, own))
    k, root = e.k, float(np.sqrt(at.d))
    step, bias = (8 / 3, 1.0) if e.outside == "discard" else (2.0, (1 - 1 / k) ** k / (k - 1))

    def noise(l2: float) -> Noise:
        """Return the noise of l2 sensitivity `l2`."""
        return additive(own, np.nan, l2) if gaussian else Radial(l2 / own.pure_epsilon)

    if e.constants == "paper":
        asked = (16 * at.d * np.sqrt(noise(1.0).variance * 2 / 3) / rows) ** ((k - 1) / k)
        r = 4 * root * float(e.alpha or min(1 / 16, asked)) ** (-1 / (k - 1))
    elif e.alpha is not None:
        r = root * (1 + (bias / e.alpha) ** (1 / (k - 1)))
    else:
        slope = step * root * noise(1.0).norm_quantile(at.d, 1 - e.beta) / rows
        power = 1.0 if e.constants == "practical" else 0.5
        r = root * (1 + ((k - 1) ** power * bias / slope) ** (1 / k))
    return ClipAndNoise(noise(step * r / rows), r, None, rows)


def _in_the_ball(e: est.KSU20BallMean, at: ReleaseSetting) -> int:
    """Return the number of averaged records.

    It is half of the records; for ``tuned`` all but a fiftieth, or all but the need of two
    histograms per coordinate, and all if the radius is at most 1, because a histogram is no more
    precise.
    """
    if e.constants != "tuned":
        return at.n // 2
    if e.radius is not None and e.radius <= 1:
        return at.n
    one = est.KSU20Mean(k=e.k, radius=e.radius, constants="tuned")
    wanted = 2 * _histogram_needs(one, np.nan, at.n, at.budget.fraction(1 / at.d))
    return max(at.n // 2, int(np.floor(at.n - max(at.n / 50, wanted))))


@step_for(est.SubsampleAggregate)
def _buckets(e: est.SubsampleAggregate, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return the clipped mean of bucket means."""
    return _between(at, e.lower, e.upper, e.buckets) if e.aggregate == "mean" else None


@step_for(est.UnbiasedMean)
def _unbiased(e: est.UnbiasedMean, at: ReleaseSetting) -> ClipAndNoise:
    """Return the step of KMRSSU23: the whole budget on records outside the histogram."""
    half_width = e.sigma * e.clip if e.clip else e.sigma + gaussian_tail(e, at.n)
    return box(at, half_width, rows=at.n - int(np.ceil(e.share * at.n)))


def last_step(estimator: est.Estimator, at: ReleaseSetting) -> ClipAndNoise | None:
    """Return an estimator's last step.

    Parameters
    ----------
    estimator : Estimator
        Only its parameters are read.
    at : At
        Records, dimension and budget.

    Returns
    -------
    Step or None
        None if the last step is not a clip with additive noise.
    """
    found = STEPS.get(type(estimator))
    return found(estimator, at) if found else None
