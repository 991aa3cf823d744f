"""Exact errors in the local model: one randomised bit per record (KS25), and PrivUnit (BDFKR18).

KS25 and BDFKR18 are Kalinin and Steinberger 2025, and Bhowmick and others 2018. The formulas follow
these sources; no estimator is called.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, gammaln, ndtr, ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import satisfies_assumptions
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, mean_bound
from dpbench.theory.exact.noise import binomial

__all__: list[str] = []  # because the functions are registered

NAN = float("nan")
CENTRE_CELLS = 400  # cells for the last centre; the error depends smoothly on this centre
MIN_CENTRE_PROBABILITY = 1e-9  # less likely centres are neglected


@exact_for(est.RandomizedResponseSignMean)
def _sign_error(
    metric: str, e: est.RandomizedResponseSignMean, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return ``q90``, the 0.9 quantile of |error|, of a mean from randomised signs (KS25).

    The result is NaN for other columns. It is NaN, too, unless the records are Gaussian with the
    standard deviation sigma that the estimator assumes. Lengths are in units of sigma, mu is the
    mean, and Phi the normal distribution function.

    1. Each record is compared with a released centre c, and a randomised bit reports "above" or
       "below". The report is "above" with probability (1 + t (2 Phi(mu - c) - 1))/2, where t =
       tanh(epsilon/2). So the number of reports "above" among m records is binomial.
    2. The search for the mean begins at c = 0. In each step the majority of new reports moves c up
       or down, and each move is half as long as the move before. The code computes the probability
       of each possible c.
    3. The first estimate is computed from the number of reports "above" for the last c.
    4. The first estimate becomes the centre c of the last m records. The last estimate is at most x
       if at most m (1 + t (2 Phi(x - c) - 1))/2 of their reports are "above".
    """
    if (
        metric != "q90"
        or not satisfies_assumptions(law, e)
        or abs(law.variance / e.sigma**2 - 1) > 1e-9
    ):
        return NAN
    mu, odds = float(law.mean) / e.sigma, float(np.exp(min(setting.budget.pure_epsilon, 700.0)))
    bias = (odds - 1) / (odds + 1)
    halvings, per_halving, first, last = _sign_sizes(e, bias, setting.n)
    centre, weight, step = np.zeros(1), np.ones(1), mean_bound(e) / e.sigma
    for _ in range(halvings if per_halving else 0):
        step /= 2
        above_middle = 1 - _binomial_cdf(
            np.asarray(per_halving / 2), per_halving, _answer_probability(mu - centre, bias)
        )
        centre = np.concatenate([centre + step, centre - step])
        weight = np.concatenate([weight * above_middle, weight * (1 - above_middle)])
        centre, weight = (
            centre[weight > MIN_CENTRE_PROBABILITY],
            weight[weight > MIN_CENTRE_PROBABILITY],
        )
    if first:
        centre, weight = _estimate_distribution(centre, weight, mu, bias, first)
    max_score = 1 - 1 / last

    def within(x: float, tiny: float) -> Floats:
        """Return the probability that the last estimate is at most x, for every centre.

        The last estimate is at most x if the count of reports "above" is at most a bound. `tiny` is
        subtracted from this bound. A small positive `tiny` gives the probability of an estimate
        below x.
        """
        score = 2 * ndtr(x - centre) - 1
        count = last * (1 + bias * score) / 2 - tiny
        probability = _binomial_cdf(count, last, _answer_probability(mu - centre, bias))
        return np.where(score < -max_score, 0.0, np.where(score >= max_score, 1.0, probability))

    def excess(x: float) -> float:
        return float(weight @ (within(mu + x, 0.0) - within(mu - x, 1e-9)) / weight.sum()) - 0.9

    return e.sigma * float(brentq(excess, 0.0, 2 * mean_bound(e) / e.sigma + 20, xtol=1e-10))


def _sign_sizes(
    e: est.RandomizedResponseSignMean, bias: float, n: int
) -> tuple[int, int, int, int]:
    """Return the number of halving steps, and the numbers of records in all steps of KS25's mean.

    The estimator locates the mean by halving steps, and then computes a first and a last estimate.
    The four numbers are: halving steps, records of each halving step, records of the first
    estimate, records of the last estimate.
    """
    halvings = int(np.ceil(np.log2(max(1.0, mean_bound(e) / e.sigma))))
    slope = bias * float(ndtr(0.5) - 0.5)
    needed = float(np.log(max(halvings, 1) / (0.1 * e.beta))) / slope**2 / 2
    per_halving = int(min(np.ceil(needed), n // 2 // max(halvings, 1)))
    first = int(min(np.ceil(np.sqrt(n * np.pi / 2) / bias), n // 4))
    return halvings, per_halving, first, n - first - per_halving * halvings


def _binomial_cdf(k: Floats, m: int, p: Floats) -> Floats:
    """Return P(Binomial(m, p) <= k)."""
    k = np.floor(k)
    inside = betainc(np.maximum(m - k, 0.5), np.maximum(k + 1, 0.5), 1 - p)
    return np.asarray(np.where(k < 0, 0.0, np.where(k >= m, 1.0, inside)))


def _answer_probability(u: Floats, bias: float) -> Floats:
    """Return the probability that a record is reported as above the centre.

    `u` is the mean less the centre, in standard deviations of the Gaussian records. `bias` is
    tanh(epsilon/2), the bias of the randomised bit.
    """
    return np.asarray((1 + bias * (2 * ndtr(u) - 1)) / 2)


def _estimate_distribution(
    centre: Floats, weight: Floats, mu: float, bias: float, m: int
) -> tuple[Floats, Floats]:
    """Return the distribution of an estimate from m randomised answers, as weighted points.

    Each answer compares a record with a random centre. `centre` holds the possible centres, and
    `weight` their probabilities. Estimates are put into `CENTRE_CELLS` cells, and the points are
    the means of the cells.
    """
    values_by_centre, shares = [], []
    for c, w in zip(centre, weight, strict=True):
        count, chance = binomial(m, float(_answer_probability(np.asarray(mu - c), bias)))
        score = np.clip((2 * count / m - 1) / bias, 1 / m - 1, 1 - 1 / m)
        values_by_centre.append(c + ndtri((1 + score) / 2))
        shares.append(w * chance)
    values, chances = np.concatenate(values_by_centre), np.concatenate(shares)
    values, chances = (
        values[chances > MIN_CENTRE_PROBABILITY / 100],
        chances[chances > MIN_CENTRE_PROBABILITY / 100],
    )
    edges = np.linspace(values.min(), values.max(), CENTRE_CELLS)
    cell = np.searchsorted(edges, values)
    cell_weights = np.bincount(cell, chances).astype(float)
    mean = np.bincount(cell, chances * values) / np.where(cell_weights > 0, cell_weights, 1.0)
    return mean[cell_weights > 0], cell_weights[cell_weights > 0]


@exact_for(est.PrivUnitMean)
def _unit_error(
    metric: str, e: est.PrivUnitMean, law: dist.Distribution, setting: ReleaseSetting
) -> float:
    """Return ``rmse``, the root mean square error of PrivUnit (BDFKR18), for records of one length.

    The n records are fixed vectors of one length r <= L, where L is the bound on the length. The
    result is NaN for other records and columns.

    PrivUnit releases a random vector of norm L/m for each record, and the mean of this vector is
    the record. So the error is sqrt((L^2/m^2 - r^2)/n). The number m depends on a threshold gamma.
    PrivUnit prefers directions in a cap, where the inner product with the record's direction is at
    least gamma. Then m = kappa/(q + 1/(e^epsilon - 1)). The best gamma gives the largest m, and
    there gamma = m.

    - kappa is proportional to (1 - gamma^2)^((d-1)/2). At gamma = 0 it is Gamma(d/2)/(2 sqrt(pi)
      Gamma((d+1)/2)).
    - q = I_(1-gamma^2)((d-1)/2, 1/2)/2 is the part of the sphere in the cap, where I is the
      regularised incomplete beta function.
    """
    if metric != "rmse" or not isinstance(law, dist.Hypercube) or law.length > e.radius:
        return NAN
    d, inverse_odds = setting.d, 1 / float(np.expm1(min(setting.budget.pure_epsilon, 700.0)))
    if d < 2:
        return NAN
    kappa_at_zero = float(np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi)) / 2

    def excess(gamma: float) -> float:
        sine_squared = (1 - gamma) * (1 + gamma)
        share = float(betainc((d - 1) / 2, 0.5, sine_squared)) / 2
        return float(gamma * (share + inverse_odds) - kappa_at_zero * sine_squared ** ((d - 1) / 2))

    mean = float(brentq(excess, 0.0, 1.0, xtol=1e-15))
    return float(np.sqrt(((e.radius / mean) ** 2 - law.length**2) / setting.n))
