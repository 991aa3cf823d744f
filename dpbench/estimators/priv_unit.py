r"""Vectors released one by one, in the local model: PrivUnit (BDFKR18), with its best cap (AFT22).

A unit vector u of R^d is released as V/m. With probability p, V is uniform on the cap
{v : |v| = 1, <v, u> >= gamma}, and otherwise on the rest of the sphere.

Privacy. W = <V, u> of a uniform V is such that (1 - W)/2 has the law Beta(a, a), a = (d-1)/2; the
cap has the share q = I_((1-gamma)/2)(a, a) of the sphere. Over uniform, the density of V is p/q on
the cap and (1-p)/(1-q) off it, whatever u: epsilon-DP if and only if p (1-q)/(q (1-p)) <= e^epsilon
(and >= e^-epsilon). With equality, and w = 1/(e^epsilon - 1), p = q (1+w)/(q+w).

Mean. V is symmetric around u, so E V = m u with m = E W. The density of W is
c (1 - w^2)^((d-3)/2), c = Gamma(d/2)/(sqrt(pi) Gamma(a)); the uniform V has

    kappa = E(W; W >= gamma) = c (1 - gamma^2)^a/(2a) = -E(W; W < gamma),

and so m = kappa (p/q - (1-p)/(1-q)) = kappa/(q + w).

The best cap has the largest m, as E|V/m - u|^2 = 1/m^2 - 1. By d kappa = gamma dq its gamma is m.

Vectors in the unit ball. x is first rounded to x/|x| or -x/|x|, with probabilities (1 +- |x|)/2 and
mean x. A mixture of laws within a factor e^epsilon of each other is within that factor of them,
too: still epsilon-DP. All releases have norm 1/m and mean x. So the average of n independent
records of mean mu has a mean square error of (1/m^2 - |mu|^2)/n, that of n fixed unit vectors of
(1/m^2 - 1)/n.
"""

from __future__ import annotations

from functools import cache
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import betaincinv, gammaln

from dpbench.arrays import Floats
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Ledger
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = ["Cap", "PrivUnitMean", "best_cap"]

AT_ONCE = 1 << 20  # numbers that are drawn at once
LARGE = 600.0  # beyond this epsilon p is 1 to all digits


class Cap(NamedTuple):
    """The q, p and m of the module."""

    share: float
    chance: float
    mean: float


@cache
def best_cap(d: int, epsilon: float) -> Cap:
    """The cap of the largest m, by a search for its share."""
    from scipy.optimize import minimize_scalar  # a slow import

    a, epsilon = (d - 1) / 2, min(epsilon, LARGE)
    odds = 1 / float(np.expm1(epsilon))
    constant = float(gammaln(d / 2) - gammaln(a) - np.log(np.pi) / 2 - np.log(2 * a))

    def log_mean(log_share: float) -> float:
        share = float(np.exp(log_share))
        t = float(betaincinv(a, a, share))
        return constant + a * float(np.log(4 * t * (1 - t))) - float(np.log(share + odds))

    bounds = (-epsilon - 20, float(np.log(0.5)))
    found = minimize_scalar(
        lambda x: -log_mean(x), bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    share = float(np.exp(found.x))
    return Cap(share, share * (1 + odds) / (share + odds), float(np.exp(-found.fun)))


@validated
class PrivUnitMean(Estimator):
    """Records projected on the ball of radius L around 0, each released by PrivUnit, averaged.

    The module derives it. It takes vectors of two or more coordinates, and runs at the epsilon
    that the budget pays for.

    Parameters
    ----------
    radius : float > 0
        L.
    """

    radius: Annotated[float, Field(gt=0, le=1e150)] = 1.0
    multivariate: ClassVar[bool] = True
    bounded_in: ClassVar[Literal["local"]] = "local"

    @property
    def most_at_once(self) -> int:
        return 1_000_000

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, d = sample.n, sample.d
        vectors, counts = sample.listed()
        if d < 2:
            raise ValueError("PrivUnit takes vectors of two or more coordinates")
        cap = best_cap(d, ledger.own_chance("PrivUnit of every record").pure_epsilon)
        copies = np.repeat(np.arange(counts.size), counts.ravel().astype(np.int64))
        place, flat = copies.reshape(sample.trials, n), vectors.reshape(-1, d)
        total, step = np.zeros((sample.trials, d)), max(1, AT_ONCE // (sample.trials * d))
        for first in range(0, n, step):
            some = flat[place[:, first : first + step]]
            total += _released(_rounded(some, self.radius, ledger.rng), cap, ledger.rng).sum(axis=1)
        before = sample.projected_mean(0.0, self.radius)
        return Estimate(total * (self.radius / (n * cap.mean)), before)


def _rounded(vectors: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Unit vectors of mean x/L, x the vectors, (..., d), moved into the ball of radius L."""
    # In units of a power of two, which rounds nothing: lengths that overflow, or have few digits,
    # make no unit vectors, and what is released of others shows that they are others.
    power = np.frexp(np.abs(vectors).max(axis=-1, keepdims=True))[1]
    scaled = np.ldexp(vectors, -power)
    length = norms(scaled)[..., None]
    unit = np.zeros_like(vectors)
    unit[..., 0] = 1.0  # of 0, whose sign is a fair coin
    np.divide(scaled, length, out=unit, where=length > 0)
    with np.errstate(over="ignore"):
        share = np.minimum(np.ldexp(length, power) / radius, 1.0)
    up = rng.random(length.shape) < (1 + share) / 2
    return np.where(up, unit, -unit)


def _released(unit: Floats, cap: Cap, rng: np.random.Generator) -> Floats:
    """The V of every unit vector, (..., d)."""
    d, shape = unit.shape[-1], (*unit.shape[:-1], 1)
    inside, u = rng.random(shape) < cap.chance, rng.random(shape)
    # (1 - W)/2 by its distribution function, which on the cap is at most its share.
    level = np.where(inside, cap.share * u, cap.share + (1 - cap.share) * u)
    t = betaincinv((d - 1) / 2, (d - 1) / 2, level)
    aside = rng.standard_normal(unit.shape)
    aside -= np.sum(aside * unit, axis=-1, keepdims=True) * unit
    aside /= np.linalg.norm(aside, axis=-1, keepdims=True)
    return np.asarray((1 - 2 * t) * unit + 2 * np.sqrt(t * (1 - t)) * aside)
