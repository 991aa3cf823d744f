"""PrivUnit: vectors released one by one in the local model (BDFKR18), with the best cap (AFT22).

**Mechanism.** A unit vector u of R^d is released as V/m. With probability p, V is uniform on the
cap {v : |v| = 1, <v, u> >= gamma}, and otherwise it is uniform on the rest of the sphere.

**Privacy.** Let W = <V, u>. For a uniform V, (1 - W)/2 has the distribution Beta(a, a), a =
(d-1)/2, so the cap has the share q = I_((1-gamma)/2)(a, a) of the sphere. Relative to the uniform
distribution, the density of V is p/q on the cap and (1-p)/(1-q) off it, for every u. So the release
is epsilon-DP if and only if p (1-q)/(q (1-p)) is at most e^epsilon (and at least e^-epsilon). With
equality and w = 1/(e^epsilon - 1), p = q (1+w)/(q+w).

**Mean.** V is symmetric around u, so E V = m u with m = E W. The density of W for a uniform V is
c (1 - w^2)^((d-3)/2), c = Gamma(d/2)/(sqrt(pi) Gamma(a)), hence

    kappa = E(W; W >= gamma) = c (1 - gamma^2)^a/(2a) = -E(W; W < gamma),

and so m = kappa (p/q - (1-p)/(1-q)) = kappa/(q + w).

**Best cap.** It has the largest m, because E|V/m - u|^2 = 1/m^2 - 1. At the maximum gamma = m,
because d kappa = gamma dq.

**Vectors in the unit ball.** x is first rounded to x/|x| or -x/|x|, with probabilities (1 +-
|x|)/2, so that the mean is x. A mixture of distributions that are within a factor e^epsilon of each
other is within that factor, too, so this remains epsilon-DP. Every release has norm 1/m and mean x.
So the average of n independent records of mean mu has a mean square error of (1/m^2 - |mu|^2)/n,
and of n fixed unit vectors (1/m^2 - 1)/n.
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

__all__ = ["PrivUnitMean", "PrivUnitParameters", "best_cap"]

AT_ONCE = 1 << 20  # numbers drawn at once
LARGE = 600.0  # beyond this epsilon, p rounds to 1


class PrivUnitParameters(NamedTuple):
    """Parameters of PrivUnit, in the notation at the top of this file.

    Parameters
    ----------
    share : float
        Share q of the sphere that the cap covers.
    chance : float
        Probability p that the release is uniform on the cap.
    mean : float
        Mean m of <V, u>.
    """

    share: float
    chance: float
    mean: float


@cache
def best_cap(d: int, epsilon: float) -> PrivUnitParameters:
    """Return the cap with the largest mean m, by a search over its share.

    Parameters
    ----------
    d : int >= 2
        Number of coordinates.
    epsilon : float > 0
        Privacy of a record under pure DP.

    Returns
    -------
    Cap
    """
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
    return PrivUnitParameters(share, share * (1 + odds) / (share + odds), float(np.exp(-found.fun)))


@validated
class PrivUnitMean(Estimator, kind="privunit_mean"):
    """PrivUnit mean: unit vectors released one by one in the local model (BDFKR18, AFT22).

    Records are projected on the ball of radius L around 0 and divided by L before the release.
    Under zCDP, GDP and (epsilon, delta) it runs at the epsilon that the budget pays for. The module
    docstring of `dpbench.estimators.privunit` derives privacy and mean square error. Scalars are
    refused: d >= 2.

    Parameters
    ----------
    radius : float > 0
        Radius L of the l2 ball around 0 to which records are projected, in the unit of the data.
        The noise is proportional to L.
    """

    stream_name: ClassVar[str] = "PrivUnitMean"

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
        cap = best_cap(d, ledger.pay_for_custom_mechanism("PrivUnit of every record").pure_epsilon)
        copies = np.repeat(np.arange(counts.size), counts.ravel().astype(np.int64))
        place, flat = copies.reshape(sample.trials, n), vectors.reshape(-1, d)
        total, step = np.zeros((sample.trials, d)), max(1, AT_ONCE // (sample.trials * d))
        for first in range(0, n, step):
            some = flat[place[:, first : first + step]]
            total += _released(_rounded(some, self.radius, ledger.rng), cap, ledger.rng).sum(axis=1)
        before = sample.projected_mean(0.0, self.radius)
        return Estimate(total * (self.radius / (n * cap.mean)), before)


def _rounded(vectors: Floats, radius: float, rng: np.random.Generator) -> Floats:
    """Draw unit vectors, (..., d), of mean x/L for vectors x projected on the ball of radius L."""
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


def _released(unit: Floats, cap: PrivUnitParameters, rng: np.random.Generator) -> Floats:
    """Draw the release V of every unit vector, (..., d)."""
    d, shape = unit.shape[-1], (*unit.shape[:-1], 1)
    inside, u = rng.random(shape) < cap.chance, rng.random(shape)
    # Draw (1 - W)/2 by inversion; the cap is the lower tail, of probability `share`.
    level = np.where(inside, cap.share * u, cap.share + (1 - cap.share) * u)
    t = betaincinv((d - 1) / 2, (d - 1) / 2, level)
    aside = rng.standard_normal(unit.shape)
    aside -= np.sum(aside * unit, axis=-1, keepdims=True) * unit
    aside /= np.linalg.norm(aside, axis=-1, keepdims=True)
    return np.asarray((1 - 2 * t) * unit + 2 * np.sqrt(t * (1 - t)) * aside)
