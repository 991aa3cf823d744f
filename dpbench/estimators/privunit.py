"""PrivUnit: vectors released one by one in the local model (BDFKR18), with the best cap (AFT22).

**Mechanism.** A unit vector u of R^d is released as V/m, where V is a random unit vector and
m = E<V, u>. With probability p, V is uniform on the cap {v : |v| = 1, <v, u> >= gamma}. Otherwise V
is uniform on the rest of the sphere.

**Privacy.** Let W = <V, u>. For a uniform V, (1 - W)/2 has the distribution Beta(a, a), a =
(d-1)/2. So the cap has the share q = I_((1-gamma)/2)(a, a) of the sphere, where I is the
regularised incomplete beta function. Relative to the uniform distribution, the density of V is p/q
on the cap and (1-p)/(1-q) off the cap, for every u. So the release is epsilon-DP if and only if
p (1-q)/(q (1-p)) is at most e^epsilon (and at least e^-epsilon). Equality to e^epsilon gives
p = q (1+w)/(q+w), with w = 1/(e^epsilon - 1), in code `odds`.

**Mean.** V is symmetric around u, so E V = m u with m = E W. For a uniform V the density of W at s
is c (1 - s^2)^((d-3)/2), c = Gamma(d/2)/(sqrt(pi) Gamma(a)), hence

    kappa = E(W; W >= gamma) = c (1 - gamma^2)^a/(2a) = -E(W; W < gamma),

where E(W; A) is the mean of W times the indicator of A. So

    m = kappa (p/q - (1-p)/(1-q)) = kappa/(q + w).

**Best cap.** The best cap has the largest m, because E|V/m - u|^2 = 1/m^2 - 1. At the maximum
gamma = m, because the derivatives with respect to gamma satisfy kappa' = gamma q'.

**Vectors in the unit ball.** A vector x is first rounded to x/|x| or -x/|x|, with probabilities
(1 + |x|)/2 and (1 - |x|)/2, so that the mean is x. The distributions of releases of unit vectors
are within a factor e^epsilon of each other, and so are mixtures of them: the release of x is
epsilon-DP. Every release has norm 1/m and mean x. So the average of n independent records of mean
mu has a mean square error of (1/m^2 - |mu|^2)/n. For n fixed unit vectors it is (1/m^2 - 1)/n.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Annotated, ClassVar, Literal, NamedTuple

import numpy as np
from pydantic import Field
from scipy.special import betaincinv, gammaln

from dpbench.arrays import Floats
from dpbench.estimators.assumptions import Assumption, RecordsInBall
from dpbench.estimators.base import Estimate, Estimator
from dpbench.privacy import Ledger
from dpbench.registry import validated
from dpbench.samples import Sample
from dpbench.samples.rows import norms

__all__ = ["PrivUnitMean", "PrivUnitParameters", "best_cap"]

BATCH_NUMBERS = 1 << 20  # numbers drawn at once, which bounds memory
MAX_EPSILON = 600.0  # beyond this epsilon, p rounds to 1


class PrivUnitParameters(NamedTuple):
    """Parameters of PrivUnit, a mechanism that releases a unit vector u as V/m.

    V is a random unit vector. With probability p, V is drawn from a cap of the sphere around u,
    else from the rest of the sphere.
    """

    share: float  # Share q of the sphere that the cap covers.
    chance: float  # Probability p that V is uniform on the cap.
    mean: float  # Mean m of the inner product <V, u>.


@cache
def best_cap(d: int, epsilon: float) -> PrivUnitParameters:
    """Return the parameters of PrivUnit with the smallest error.

    PrivUnit releases a unit vector u as V/m. With probability p, V is a random vector on a cap of
    the sphere around u, else on the rest of the sphere. The error is smallest if m, the mean of <V,
    u>, is largest. The search is over the share q of the sphere that the cap covers. A vector has
    d >= 2 coordinates, and a record is epsilon-DP.
    """
    from scipy.optimize import minimize_scalar

    a, epsilon = (d - 1) / 2, min(epsilon, MAX_EPSILON)
    odds = 1 / float(np.expm1(epsilon))
    constant = float(gammaln(d / 2) - gammaln(a) - np.log(np.pi) / 2 - np.log(2 * a))

    def log_mean(log_share: float) -> float:
        share = float(np.exp(log_share))
        t = float(betaincinv(a, a, share))
        return constant + a * float(np.log(4 * t * (1 - t))) - float(np.log(share + odds))

    bounds = (-epsilon - 20, float(np.log(0.5)))
    minimum = minimize_scalar(
        lambda x: -log_mean(x), bounds=bounds, method="bounded", options={"xatol": 1e-9}
    )
    share = float(np.exp(minimum.x))
    return PrivUnitParameters(
        share, share * (1 + odds) / (share + odds), float(np.exp(-minimum.fun))
    )


@validated
class PrivUnitMean(Estimator, kind="privunit_mean"):
    """PrivUnit mean: unit vectors released one by one in the local model (BDFKR18, AFT22).

    Theorem numbers were not checked. Records are projected on the ball of radius L around 0,
    divided by L, and rounded at random to unit vectors before the release. Under zCDP, GDP and
    (epsilon, delta) the release of a record is pure DP, at the largest epsilon that the budget
    allows. `dpbench.estimators.privunit` derives privacy and mean square error. Records have
    to be vectors of d >= 2 coordinates.

    Parameters
    ----------
    radius : float > 0
        Radius L of the l2 ball around 0 to which records are projected, in the unit of the data.
        The noise is proportional to L.
    """

    radius: Annotated[float, Field(gt=0, le=1e150)] = 1.0
    multivariate: ClassVar[bool] = True
    bounded_in: ClassVar[Literal["local"]] = "local"

    @property
    def most_at_once(self) -> int:
        return 1_000_000

    def assumptions(self, n: int, d: int) -> Sequence[Assumption]:
        return (RecordsInBall(self.radius),)

    def estimate(self, sample: Sample, ledger: Ledger) -> Estimate:
        n, d = sample.n, sample.d
        vectors, counts = sample.listed()
        if d < 2:
            raise ValueError("PrivUnit takes vectors of two or more coordinates")
        cap = best_cap(d, ledger.pay_for_custom_mechanism("PrivUnit of every record").pure_epsilon)
        copies = np.repeat(np.arange(counts.size), counts.ravel().astype(np.int64))
        place, flat = copies.reshape(sample.trials, n), vectors.reshape(-1, d)
        total, step = np.zeros((sample.trials, d)), max(1, BATCH_NUMBERS // (sample.trials * d))
        for first in range(0, n, step):
            batch = flat[place[:, first : first + step]]
            total += _draw_releases(
                _round_to_sphere(batch, self.radius, ledger.rng), cap, ledger.rng
            ).sum(axis=1)
        before = sample.projected_mean(0.0, self.radius)
        return Estimate(total * (self.radius / (n * cap.mean)), before)


def _round_to_sphere(vectors: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Draw a random unit vector with the mean x/L for each of several vectors x, (..., d).

    L is `radius`. Each x is first projected on the ball of radius L around 0.
    """
    # Scale by a power of two first, which is exact. Otherwise lengths could overflow or lose
    # digits, the quotients would not be unit vectors, and their releases would stand out.
    power = np.frexp(np.abs(vectors).max(axis=-1, keepdims=True))[1]
    scaled = np.ldexp(vectors, -power)
    length = norms(scaled)[..., None]
    unit = np.zeros_like(vectors)
    unit[..., 0] = 1.0  # x = 0 is rounded to e_1 or -e_1, with probability 1/2 each
    np.divide(scaled, length, out=unit, where=length > 0)
    with np.errstate(over="ignore"):
        share = np.minimum(np.ldexp(length, power) / radius, 1.0)
    up = rng.random(length.shape) < (1 + share) / 2
    return np.where(up, unit, -unit)


def _draw_releases(unit: Floats, cap: PrivUnitParameters, rng: np.random.Generator) -> Floats:
    """Draw the PrivUnit release of every unit vector in `unit`, (..., d), as a unit vector.

    A release still has to be divided by `cap.mean`, which makes it unbiased.
    """
    d, shape = unit.shape[-1], (*unit.shape[:-1], 1)
    inside, u = rng.random(shape) < cap.chance, rng.random(shape)
    # Draw (1 - W)/2 by inversion; the cap is the lower tail, of probability `share`.
    level = np.where(inside, cap.share * u, cap.share + (1 - cap.share) * u)
    t = betaincinv((d - 1) / 2, (d - 1) / 2, level)
    perpendicular = rng.standard_normal(unit.shape)
    perpendicular -= np.sum(perpendicular * unit, axis=-1, keepdims=True) * unit
    perpendicular /= np.linalg.norm(perpendicular, axis=-1, keepdims=True)
    return np.asarray((1 - 2 * t) * unit + 2 * np.sqrt(t * (1 - t)) * perpendicular)
