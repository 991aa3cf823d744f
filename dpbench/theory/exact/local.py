"""Exact errors in the local model: answers about a sign, and PrivUnit.

Written from the sources' formulas, like `dpbench.theory.exact.value`, without calling an estimator.
"""

from __future__ import annotations

import numpy as np
from scipy.optimize import brentq
from scipy.special import betainc, gammaln, ndtr, ndtri

from dpbench import distributions as dist
from dpbench import estimators as est
from dpbench.arrays import Floats
from dpbench.theory.exact.choices import is_near
from dpbench.theory.exact.clip_and_noise import ReleaseSetting, exact_for, mean_bound
from dpbench.theory.exact.noise import binomial

__all__: list[str] = []  # it registers

NAN = float("nan")
CELLS = 400  # of the law of the last centre, which the error follows smoothly
LEAST = 1e-9  # probability of a centre that counts


@exact_for(est.RandomizedResponseSignMean)
def _sign_error(
    metric: str, e: est.RandomizedResponseSignMean, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """The 0.9 quantile of |estimate - mu| of KS25's steps, for Gaussians of the stated sigma.

    Around a centre c an answer is "above" with probability (1 + t (2 Phi((mu-c)/sigma) - 1))/2,
    t = (e^epsilon - 1)/(e^epsilon + 1), and m answers are binomial. So the centre after each
    halving has a law on few points, the first estimate one on binomial counts around each, and the
    last is at most x if its count is at most m (1 + t (2 Phi((x-c)/sigma) - 1))/2.
    """
    if metric != "q90" or not is_near(law, e) or abs(law.variance / e.sigma**2 - 1) > 1e-9:
        return NAN
    mu, grown = float(law.mean) / e.sigma, float(np.exp(min(at.budget.pure_epsilon, 700.0)))
    lean = (grown - 1) / (grown + 1)
    halvings, each, first, last = _sign_sizes(e, lean, at.n)
    centre, weight, step = np.zeros(1), np.ones(1), mean_bound(e) / e.sigma
    for _ in range(halvings if each else 0):
        step /= 2
        up = 1 - _at_most(np.asarray(each / 2), each, _told(mu - centre, lean))
        centre = np.concatenate([centre + step, centre - step])
        weight = np.concatenate([weight * up, weight * (1 - up)])
        centre, weight = centre[weight > LEAST], weight[weight > LEAST]
    if first:
        centre, weight = _estimates(centre, weight, mu, lean, first)
    most = 1 - 1 / last

    def within(x: float, above: float) -> Floats:
        """P(estimate <= x - above) from every centre; `above` is tiny."""
        score = 2 * ndtr(x - centre) - 1
        count = last * (1 + lean * score) / 2 - above
        found = _at_most(count, last, _told(mu - centre, lean))
        return np.where(score < -most, 0.0, np.where(score >= most, 1.0, found))

    def missing(x: float) -> float:
        return float(weight @ (within(mu + x, 0.0) - within(mu - x, 1e-9)) / weight.sum()) - 0.9

    return e.sigma * float(brentq(missing, 0.0, 2 * mean_bound(e) / e.sigma + 20, xtol=1e-10))


def _sign_sizes(
    e: est.RandomizedResponseSignMean, lean: float, n: int
) -> tuple[int, int, int, int]:
    """Halvings, their records each, and those of the first and of the last estimate."""
    halvings = int(np.ceil(np.log2(max(1.0, mean_bound(e) / e.sigma))))
    slope = lean * float(ndtr(0.5) - 0.5)
    enough = float(np.log(max(halvings, 1) / (0.1 * e.beta))) / slope**2 / 2
    each = int(min(np.ceil(enough), n // 2 // max(halvings, 1)))
    first = int(min(np.ceil(np.sqrt(n * np.pi / 2) / lean), n // 4))
    return halvings, each, first, n - first - each * halvings


def _at_most(k: Floats, m: int, p: Floats) -> Floats:
    """P(Binomial(m, p) <= k)."""
    k = np.floor(k)
    inside = betainc(np.maximum(m - k, 0.5), np.maximum(k + 1, 0.5), 1 - p)
    return np.asarray(np.where(k < 0, 0.0, np.where(k >= m, 1.0, inside)))


def _told(u: Floats, lean: float) -> Floats:
    return np.asarray((1 + lean * (2 * ndtr(u) - 1)) / 2)


def _estimates(
    centre: Floats, weight: Floats, mu: float, lean: float, m: int
) -> tuple[Floats, Floats]:
    """The law of an estimate by m answers around each centre, in cells."""
    found, shares = [], []
    for c, w in zip(centre, weight, strict=True):
        count, chance = binomial(m, float(_told(np.asarray(mu - c), lean)))
        score = np.clip((2 * count / m - 1) / lean, 1 / m - 1, 1 - 1 / m)
        found.append(c + ndtri((1 + score) / 2))
        shares.append(w * chance)
    values, chances = np.concatenate(found), np.concatenate(shares)
    values, chances = values[chances > LEAST / 100], chances[chances > LEAST / 100]
    edges = np.linspace(values.min(), values.max(), CELLS)
    cell = np.searchsorted(edges, values)
    held = np.bincount(cell, chances).astype(float)
    mean = np.bincount(cell, chances * values) / np.where(held > 0, held, 1.0)
    return mean[held > 0], held[held > 0]


@exact_for(est.PrivUnitMean)
def _unit_error(
    metric: str, e: est.PrivUnitMean, law: dist.Distribution, at: ReleaseSetting
) -> float:
    """The root mean square error of PrivUnit on n fixed vectors, all of one length r <= L.

    Releases have norm L/m and the vectors as their means, so that it is sqrt((L^2/m^2 - r^2)/n).
    The best cap has gamma = m(gamma), where m = kappa/(q + 1/(e^epsilon - 1)) with the cap's share
    q = I_(1-gamma^2)((d-1)/2, 1/2)/2 of the sphere (BDFKR18).
    """
    if metric != "rmse" or not isinstance(law, dist.Hypercube) or law.length > e.radius:
        return NAN
    d, odds = at.d, 1 / float(np.expm1(min(at.budget.pure_epsilon, 700.0)))
    if d < 2:
        return NAN
    whole = float(np.exp(gammaln(d / 2) - gammaln((d + 1) / 2)) / np.sqrt(np.pi)) / 2  # kappa at 0

    def excess(gamma: float) -> float:
        room = (1 - gamma) * (1 + gamma)
        share = float(betainc((d - 1) / 2, 0.5, room)) / 2
        return float(gamma * (share + odds) - whole * room ** ((d - 1) / 2))

    mean = float(brentq(excess, 0.0, 1.0, xtol=1e-15))
    return float(np.sqrt(((e.radius / mean) ** 2 - law.length**2) / at.n))
