"""Distributions on two points, with samples stored as counts."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field

from dpbench.distributions.base import Distribution
from dpbench.registry import MomentOrder, validated
from dpbench.samples import CountedSample

__all__ = ["Bernoulli", "TwoPoint", "inverse_norm"]

MAX_POWER = 500.0  # 2^-500 does not underflow


def inverse_norm(p: Any, k: float) -> Any:
    """Return the inverse of the k-th root of E|X - p|^k, for a Bernoulli variable X with mean p.

    p is a number or an array. Powers of large order underflow, so lengths are then divided by the
    larger of p and 1 - p.
    """
    if k <= MAX_POWER:
        return _bernoulli_moment(p, k) ** (-1 / k)
    longer = np.maximum(p, 1 - p)
    moment = p * ((1 - p) / longer) ** k + (1 - p) * (p / longer) ** k
    return moment ** (-1 / k) / longer


def _bernoulli_moment(p: Any, k: float) -> Any:
    """Return E|B - p|^k for B ~ Bernoulli(p)."""
    return p * (1 - p) * ((1 - p) ** (k - 1) + p ** (k - 1))


@validated
class Bernoulli(Distribution):
    """Bernoulli distribution: 1 with probability p, else 0.

    Parameters
    ----------
    p : float in [0, 1]
        Probability of 1.
    """

    p: Annotated[float, Field(ge=0, le=1)]
    counted: ClassVar[bool] = True

    @property
    def mean(self) -> float:
        return self.p

    def moment(self, k: float) -> float:
        return float(_bernoulli_moment(self.p, k))

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample:
        ones = rng.binomial(n, self.p, trials)
        return CountedSample([0.0, 1.0], np.stack([n - ones, ones], axis=1))


@validated
class TwoPoint(Distribution):
    """Two-point distribution with E|X - mean|^k = 1, the hard instance of KSU20, Claim 3.9.

    A record X is location, or with probability p the rare value location + sign * tau. The number
    tau solves p (1-p) tau^k ((1-p)^(k-1) + p^(k-1)) = 1. (The claim prints p^k in place of
    p^(k-1).)

    Parameters
    ----------
    p : float in [0, 1)
        Probability of the rare value. With p = 0 all records are `location`.
    k : float >= 2
        Order of the moment that is 1. A larger order makes tau smaller.
    sign : 1 or -1
        Sign of the rare value.
    location : float
        Number added to every record.
    """

    p: Annotated[float, Field(ge=0, lt=1)]
    k: MomentOrder
    sign: Literal[-1, 1] = 1
    location: float = 0.0
    counted: ClassVar[bool] = True

    @property
    def tau(self) -> float:
        """Distance of the rare value from the common value; 0 if the probability p is 0."""
        return float(inverse_norm(self.p, self.k)) if self.p else 0.0

    @property
    def mean(self) -> float:
        return self.location + self.sign * self.p * self.tau

    def moment(self, k: float) -> float:
        return float(self.tau**k * _bernoulli_moment(self.p, k))

    def sample(self, rng: np.random.Generator, trials: int, n: int) -> CountedSample:
        if not self.p:
            return CountedSample([self.location], np.full((trials, 1), n))
        rare = rng.binomial(n, self.p, trials)
        atoms = [self.location, self.location + self.sign * self.tau]
        counts = np.stack([n - rare, rare], axis=1)
        return CountedSample(atoms[:: self.sign], counts[:, :: self.sign])
