"""Privacy of noisy means of bootstrap resamples, composed numerically for finite n and B.

**Mechanism.** A resample draws n of the n records with replacement. The n records are clipped to an
interval of width w. The mechanism releases the mean of each of B independent resamples, with noise
N(0, s^2). The indices of the resamples stay secret. Let m = w/(n s), and let I be the number of
times that a resample contains the replaced record. I has the distribution Bin(n, 1/n), with
probabilities p_i. Write eta = 1 - p_0.

**One release.** For g >= 1 let H_g(P, Q) be the largest P(A) - g Q(A) over events A. It is the
delta of (ln g, delta)-DP. Let D_g(t) be this delta for N(t, 1) and N(0, 1). For neighbours, let P
and Q be the distributions of a release. For g' = 1 + eta (g - 1),

    H_g'(P, Q) <= sum over i >= 1 of p_i D_g(i m).                                           (1)

1. Write P = p_0 P_0 + eta P_+ and Q = p_0 P_0 + eta Q_+, where P_0 is the distribution given I = 0.
   It does not depend on the replaced record. By advanced joint convexity (BBG18, Theorem 2),
   H_g'(P, Q) = eta H_g(P_+, (1 - b) P_0 + b Q_+) with b = g'/g, which is in [0, 1].
2. H_g is jointly convex. So it suffices to bound H_g(P_i, P_0) and H_g(P_i, Q_i), where i >= 1 is
   the number of copies of the replaced record. Condition on the other n - i drawn records. Then P_i
   and Q_i are normal, and their means differ by at most i w/n. In P_0, draw i more records in place
   of the copies. Each moves the mean by at most w/n. So both are at most D_g(i m).

BBG18 has (1) as its Theorem 10 (number not checked) for sampling with replacement. WCA22 proves it
for every mechanism that protects groups as N(0, 1) and N(i m, 1) do.

**Composition.** Let d(g) be the right-hand side of (1) as a function of g' >= 1, and
d(g) = 1 - g + g d(1/g) for g < 1. This function is convex, d(0) = 1, and d(g) >= 1 - g. So d is the
profile of a pair of distributions, and B copies of this pair dominate B releases (ZDW22).

- d is replaced by the function that is linear in g between the points g = e^(k h), for whole k.
  It is at least d, because d is convex. Its privacy loss has the values k h, and an infinite value
  with probability d(e^(K h)) for the last point K (DGKKM22).
- By symmetry of d, the loss -k h has e^(-k h) times the probability of k h.
- B losses are added by fast Fourier transforms of period 2R. A sum beyond R may count as a smaller
  sum. So a Chernoff bound on the probability of sums above R is added to the result. So is
  `ROUNDING`, for the rounding errors of the transforms.

**Limit.** WCA22 lets B grow at m = mu/sqrt((2 - 2/e) B), and obtains mu-GDP in the limit. At finite
B the release is not mu-GDP for this mu. It is not mu-GDP for any mu below sqrt(B) n m, because all
draws of all resamples may be the replaced record. So this module states (epsilon, delta)-DP only.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from scipy.special import bdtrc, log_ndtr

from dpbench.arrays import Floats

__all__ = ["MIN_DELTA", "resampled_delta", "resampled_sd"]

MIN_DELTA = 1e-8  # smallest delta that the rounding errors allow
ROUNDING = 1e-10  # bound on rounding errors of the transforms, in probability, for B <= 1000
TAIL = 1e-11  # largest probability of sums of losses beyond the period
MAX_COPIES = 30  # more copies of a record in a resample count as a sure failure
STEPS = 16  # points of the privacy loss within one m
MAX_POINTS = 1 << 20
MAX_M = 8.0  # of the search: the standard deviation of noise is at least w/(8 n)


def resampled_delta(epsilon: float, m: float, n: int, releases: int) -> float:
    """Return an upper bound on delta for (epsilon, delta)-DP means of bootstrap resamples.

    Each of the `releases` resamples has n draws from n records, and neighbours differ by a replaced
    record. One copy of a record changes a mean by w/n; m > 0 is this change over the standard
    deviation of the noise.
    """
    h = m / STEPS
    points = 256
    while True:
        loss = h * np.arange(points + 1, dtype=float)
        mass, infinite = _loss_distribution(loss, m, n)
        beyond = _chernoff(loss, mass, releases)
        if beyond + releases * infinite <= TAIL or points >= MAX_POINTS:
            break
        points *= 2
    # Index k of the arrays stands for the loss k h; losses below 0 are at the end.
    cyclic = np.zeros(2 * points)
    cyclic[: points + 1] += mass
    cyclic[: -points - 1 : -1] += mass[1:] * np.exp(-loss[1:])
    total = np.fft.irfft(np.fft.rfft(cyclic) ** releases, 2 * points)[: points + 1]
    above = float(np.maximum(total, 0.0) @ -np.expm1(np.minimum(epsilon - loss, 0.0)))
    return min(1.0, above + beyond + releases * infinite + ROUNDING)


@cache
def resampled_sd(epsilon: float, delta: float, n: int, releases: int) -> float:
    """Return the standard deviation of noise for (epsilon, delta)-DP means of bootstrap resamples.

    Epsilon and delta are those of all releases together. Each of the `releases` resamples has n
    draws from n records. The standard deviation is that of the noise of each mean, for records in
    an interval of width n. For another width w, multiply by w/n. It is at least 1/`MAX_M`, also
    where less noise would do.

    A ValueError is raised if delta is below `MIN_DELTA`, or so large that means without noise have
    it. All resamples miss a record with probability (1 - 1/n)^(n B), B = `releases`. So no noise
    has a delta above 1 minus this probability, and there is no smallest noise.
    """
    from scipy.optimize import brentq
    from scipy.stats import binom

    if delta < MIN_DELTA:
        raise ValueError(
            f"delta: {delta:g}: too small for noise of bootstrap means; at least {MIN_DELTA:g}"
        )
    without_noise = float(-np.expm1(releases * binom.logpmf(0, n, 1 / n)))
    if delta >= without_noise:
        raise ValueError(
            f"delta: {delta}: {releases} resamples of {n} records have this delta without noise; "
            f"give a delta below {without_noise:g}"
        )

    def excess(log_m: float) -> float:
        return float(np.log(resampled_delta(epsilon, float(np.exp(log_m)), n, releases) / delta))

    high = np.log(min(epsilon, 5.0) / np.sqrt(releases))
    while excess(high) < 0:
        if high >= np.log(MAX_M):
            return 1 / MAX_M
        high = min(high + 1, np.log(MAX_M))
    low = high - 1
    while excess(low) > 0:
        low -= 1
    log_m = brentq(excess, low, high, xtol=1e-6)
    return float(np.exp(1e-6 - log_m))  # at a slightly smaller m, the bound is below delta


def _loss_distribution(loss: Floats, m: float, n: int) -> tuple[Floats, float]:
    """Return the probabilities of losses 0, h, ... in one release, and of an infinite loss.

    The loss -k h, which is not listed, has e^(-k h) times the probability of k h.
    """
    copies = np.arange(1.0, min(n, MAX_COPIES) + 1)
    chances = _chances(copies, n)
    # (1) at g' = e^loss, with g = 1 + (g' - 1)/eta
    at = np.logaddexp(0.0, _log_expm1(loss) - np.log(1 - _chances(np.zeros(1), n)[0]))
    t = copies[:, None] * m
    lower = np.exp(at + log_ndtr(-t / 2 - at / t))
    profile = chances @ np.maximum(np.exp(log_ndtr(t / 2 - at / t)) - lower, 0.0)
    profile += bdtrc(MAX_COPIES, n, 1 / n) if n > MAX_COPIES else 0.0
    step = np.diff(profile)
    h = loss[1]
    mass = np.empty_like(loss)
    mass[1:-1] = step[1:] / np.expm1(h) + step[:-1] / np.expm1(-h)
    mass[-1] = step[-1] / np.expm1(-h)
    np.maximum(mass, 0.0, out=mass)
    infinite = float(profile[-1])
    mass[0] = max(1 - infinite - mass[1:] @ (1 + np.exp(-loss[1:])), 0.0)
    return mass, infinite


def _chances(copies: Floats, n: int) -> Floats:
    """Return the probabilities of numbers of copies of a record in a resample."""
    from scipy.stats import binom

    return np.asarray(binom.pmf(copies, n, 1 / n))


def _log_expm1(x: Floats) -> Floats:
    """Return ln(e^x - 1) for x >= 0, which is -infinity at 0."""
    with np.errstate(divide="ignore"):
        return np.asarray(np.where(x > 30, x, np.log(np.expm1(np.minimum(x, 30.0)))))


def _chernoff(loss: Floats, mass: Floats, releases: int) -> float:
    """Return a bound on the probability that B losses add up to more than the largest listed loss.

    It is the smallest of E[e^(t L)]^B e^(-t R) over some t > 0. Sums below -R, which may count as
    larger sums, do no harm.
    """
    with np.errstate(over="ignore", divide="ignore"):
        bounds = [
            releases * np.log(mass @ np.exp(t * loss) + mass[1:] @ np.exp(-(1 + t) * loss[1:]))
            - t * loss[-1]
            for t in np.geomspace(1.0, 700.0, 40) / loss[-1]
        ]
    return float(np.exp(min(0.0, *bounds)))
